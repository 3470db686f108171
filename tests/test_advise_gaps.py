"""What a log lacks is said with the command that gets it, in the form the server is run; complete logs lack nothing."""

from __future__ import annotations

import pytest

from logtext import FAILED, HEAD, LIVING, Sample, ask, by_name, lines, sample
from vdiag.model import Gap, Report

LAST = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
TRAILER = [
    HEAD,
    '  File "/opt/vllm/lib/python3.12/site-packages/vllm/v1/engine/utils.py", line 785, in wait',
    '    raise RuntimeError("Engine core initialization failed. "',
    LAST,
]
API = "(APIServer pid=5312) "
CORE = "(EngineCore_DP0 pid=5400) "
START = [
    API + "INFO 08-28 10:12:31 [api_server.py:1839] vLLM API server version 0.11.0",
    CORE
    + "INFO 08-28 10:12:40 [core.py:76] Initializing a V1 LLM engine (v0.11.0) with config: model='acme/m'",
    CORE + "INFO 08-28 10:12:44 [gpu_model_runner.py:2602] Starting to load model acme/m...",
]
DIED = (
    API
    + "ERROR 08-28 10:13:05 [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting down client."
)
ENVELOPES = {
    "cli": "",
    "systemd": "Aug 28 10:13:05 gpu-02 vllm[5312]: ",
    "compose": "vllm-1  | ",
    "kubernetes": "[pod/vllm-7c9d5f6b8-x2x4q/vllm] ",
}


def gaps(report: Report) -> list[Gap]:
    return [gap for read in report.inputs for gap in read.gaps]


def told(rows: list[str], deploy: str = "cli") -> list[Gap]:
    return gaps(ask(lines(*(ENVELOPES[deploy] + row for row in rows))))


def commands(found: list[Gap], what: str) -> list[str]:
    return [gap.command for gap in found if what in gap.what]


@pytest.mark.parametrize(
    ("deploy", "command"),
    [
        ("cli", "vllm serve … > vllm.log 2>&1; vdiag vllm.log"),
        ("systemd", "journalctl -u <unit> -b --no-pager | vdiag"),
        ("compose", "docker compose logs --no-color vllm | vdiag"),
        ("kubernetes", "kubectl logs vllm-7c9d5f6b8-x2x4q --previous --all-containers | vdiag"),
    ],
)
def test_only_the_api_servers_half(deploy: str, command: str) -> None:
    found = told([API + row for row in TRAILER], deploy)
    assert commands(found, "only the API server's lines") == [command]


@pytest.mark.parametrize("deploy", ENVELOPES)
def test_a_silent_death_asks_for_the_kernels_words(deploy: str) -> None:
    [command] = commands(told([*START, DIED], deploy), "kernel log")
    assert command.startswith(
        "kubectl describe pod vllm-7c9d5f6b8-x2x4q" if deploy == "kubernetes" else "journalctl -k -b"
    )


def test_an_engine_whose_own_lines_tell_of_no_failure_died_silently() -> None:
    found = told([*START, *(API + row for row in TRAILER)])
    assert [gap.line for gap in found if "kernel log" in gap.what] == [len(START) + 4]
    assert not commands(found, "only the API server's lines")


@pytest.mark.parametrize(
    ("deploy", "command"),
    [
        ("cli", "VLLM_LOGGING_LEVEL=DEBUG vllm serve … 2>&1 | tee vllm.log"),
        ("systemd", "sudo systemctl edit <unit>    # [Service] Environment=VLLM_LOGGING_LEVEL=DEBUG"),
        ("compose", "docker compose run -e VLLM_LOGGING_LEVEL=DEBUG vllm 2>&1 | vdiag"),
        ("kubernetes", "kubectl set env deployment/vllm VLLM_LOGGING_LEVEL=DEBUG"),
    ],
)
def test_a_log_of_warnings_and_errors_alone_hides_what_came_before(deploy: str, command: str) -> None:
    quiet = CORE + "WARNING 08-28 10:12:40 [core.py:76] something that a server warns of"
    assert commands(told([quiet, *(API + row for row in TRAILER)], deploy), "log level") == [command]
    assert not commands(told([*START, quiet, *(API + row for row in TRAILER)], deploy), "log level")


def test_a_log_that_begins_inside_a_traceback() -> None:
    trace = ['  File "/srv/app.py", line 1, in main', "    look()", "KeyError: 'x'"]
    for rows, at in ((trace, [3]), ([HEAD, *trace], [])):  # the line of its exception
        assert [gap.line for gap in told(rows) if "begins inside" in gap.what] == at


def test_a_log_that_ends_inside_a_traceback() -> None:
    trace = [HEAD, '  File "/srv/app.py", line 1, in main', "    look()"]
    for rows, at in ((trace, [2]), ([*trace, "KeyError: 'x'"], [])):  # its last frame
        assert [gap.line for gap in told(START + rows) if "stops before" in gap.what] == [
            len(START) + line for line in at
        ]


@pytest.mark.parametrize("s", FAILED, ids=by_name)
def test_a_log_that_names_its_cause_lacks_nothing_that_could_change_it(s: Sample) -> None:
    found = gaps(ask(s.text))
    for what in ("only the API server's", "kernel log", "log level", "begins inside", "stops before"):
        assert not commands(found, what), found


@pytest.mark.parametrize("s", LIVING, ids=by_name)
def test_a_living_server_lacks_nothing(s: Sample) -> None:
    assert gaps(ask(s.text)) == []


def test_the_killed_worker_of_a_real_server_asks_for_the_kernels_words() -> None:
    s = sample("real-worker-killed")
    [command] = commands(gaps(ask(s.text)), "kernel log")
    assert command == "journalctl -k -b --no-pager > kernel.log; vdiag vllm.log kernel.log"
