"""`--redact` in every output: a value of each kind is planted at each place of a log, and none of them comes out."""

from __future__ import annotations

import io
import json
import stat
import sys
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from test_cli_diagnose import run  # by its name in the package it is a module once `vdiag run` was asked for
from vdiag.cli.console import Console
from vdiag.model import (
    AlsoSeen,
    Change,
    Changes,
    Diagnosis,
    Environment,
    EpisodeInfo,
    Evidence,
    Fix,
    Gap,
    Harmless,
    Input,
    Report,
    Severity,
    Verdict,
)
from vdiag.redact import Redactor

BODY = "Zx9qW3eR7tY1uI5oP8aS2dF6gH4jK0lMnB"
PLANTED = {
    "token": ("hf" + "_" + BODY, "{}"),
    "openai": ("sk" + "-proj-" + BODY, "{}"),
    "password": ("tr0ub4dor" + "-zz", "DB_PASSWORD={}"),
    "api key": ("secretone" + "7", "'api_key': ['{}']"),
    "bearer": ("abc123def" + "456ghi", "Authorization: Bearer {}"),
    "login": ("w0rd" + "pass", "https://jdoe:{}@git.corp.lan/x"),
    "e-mail": ("jane.doe@corp-mail.com", "{}"),
    "ip": ("203.0.113.77", "peer {}:80"),
    "ipv6": ("2001:db8:12::7", "[{}]:80"),
    "mac": ("3c:ec:ef:12:ab:90", "{}"),
    "user": ("jdoe42", "/home/{}/models/x"),
    "host": ("gpubox7", "http://{}:8000/v1"),
    "fqdn": ("gpubox8.rack2.corp.lan", "{}"),
    "organisation": ("zephyrcorp", "model='{}/model-7b'"),
    "gpu": ("GPU-1a2b3c4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d", "{}"),
    "serial": ("1652922012345", "Serial Number : {}"),
    "account": ("123456789012", "arn:aws:iam::{}:role/x"),
}
LINES = {
    "unrecognised": [
        "(APIServer pid=7) INFO 11-29 11:44:33 [api_utils.py:286] non-default args: {{'model_tag': 'acme/m', 'model': 'acme/m', 'note': 0}} {0}",
        "(EngineCore_DP0 pid=9) ERROR 11-29 11:44:34 [core.py:708] EngineCore failed to start.",
        "(EngineCore_DP0 pid=9) ERROR 11-29 11:44:34 [core.py:708] Traceback (most recent call last):",
        '(EngineCore_DP0 pid=9) ERROR 11-29 11:44:34 [core.py:708]   File "/opt/x/frobnicate.py", line 3, in go',
        "(EngineCore_DP0 pid=9) ERROR 11-29 11:44:34 [core.py:708]     frobnicate()",
        "(EngineCore_DP0 pid=9) ERROR 11-29 11:44:34 [core.py:708] RuntimeError: the frobnicator wants {0} and more",
        "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}",
    ],
    "diagnosed": [
        "(APIServer pid=7) INFO 11-29 11:44:33 [api_utils.py:286] non-default args: {{'model': 'acme/m'}} {0}",
        "(EngineCore_DP0 pid=9) ERROR 11-29 11:44:34 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 {0}",
        "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}",
    ],
    "network": [
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files {0}",
        "requests.exceptions.ConnectionError: (MaxRetryError(\"HTTPSConnectionPool(host='gpubox7', port=443): Max retries exceeded with url: /{0}\"))",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}",
    ],
    "incomplete": [
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}} {0}",
    ],
}  # fmt: skip


def ran(*arguments: str, stdin: bytes = b"") -> tuple[int, str]:
    """The exit status, and all that came out on both streams."""
    out, err = io.BytesIO(), io.StringIO()
    console = Console(io.BytesIO(stdin), io.TextIOWrapper(out, "utf-8"), err, {})
    status = run(arguments, console)
    return status, out.getvalue().decode() + err.getvalue()


def forms(value: str) -> set[str]:
    """How a value may be written."""
    return {value, quote(value, safe=""), quote_plus(value), b64encode(value.encode()).decode()}


def leaks(said: str) -> list[str]:
    """The planted values that stand in an output, also across the line ends of a page."""
    flat = "".join(said.split())
    return [kind for kind, (value, _) in PLANTED.items() if any(f in said or f in flat for f in forms(value))]


@pytest.mark.parametrize("way", [(), ("--format", "json"), ("--all",)], ids=["terminal", "json", "all"])
@pytest.mark.parametrize("what", LINES)
@pytest.mark.parametrize("kind", PLANTED)
def test_nothing_planted_in_a_log_comes_out(
    kind: str, what: str, way: tuple[str, ...], tmp_path: Path
) -> None:
    value, form = PLANTED[kind]
    log = tmp_path / "vllm.log"
    log.write_text("\n".join(LINES[what]).format(form.format(value)) + "\n")
    status, said = ran("--redact", *way, str(log))
    assert status in (1, 3)
    assert leaks(said) == [], said


@pytest.mark.parametrize(
    "arguments", [("--redact", "-"), ("explain", "--redact", "-"), ("--follow", "--redact", "-")]
)
def test_every_command_redacts(arguments: tuple[str, ...]) -> None:
    text = "\n".join(LINES["unrecognised"]).format(" ".join(form.format(v) for v, form in PLANTED.values()))
    _, said = ran(*arguments, stdin=text.encode())
    assert leaks(said) == [], said
    assert "Redacted, by kind" in said


def test_a_comparison_is_redacted(tmp_path: Path) -> None:
    start = "INFO 11-29 11:44:33 [api_utils.py:286] non-default args: {{'model': '{}/m', 'api_key': ['{}'], 'host': '{}'}}\n"
    good, bad = tmp_path / "good.log", tmp_path / "bad.log"
    good.write_text(
        start.format("acme", "another" + "-key1", "gpubox9") + "INFO:     Application startup complete.\n"
    )
    values = [PLANTED[kind][0] for kind in ("organisation", "api key", "host")]
    bad.write_text(
        start.format(*values) + "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    for way in ((), ("--format", "json")):
        status, said = ran("diff", "--redact", *way, str(good), str(bad))
        assert status == 1
        assert leaks(said) == [], said
        assert "gpubox9" not in said


def test_what_a_command_printed_is_redacted_in_its_diagnosis() -> None:
    text = "RuntimeError: CUDA out of memory 203.0.113.77 /home/jdoe42/x"
    script = f"import sys; print({text!r}); sys.exit(3)"
    status, said = ran("run", "--redact", "--", sys.executable, "-c", script)
    assert status == 3
    assert leaks(said.split("vdiag: ", 1)[1]) == [], said


def test_without_the_option_nothing_is_replaced() -> None:
    text = "\n".join(LINES["unrecognised"]).format("203.0.113.77")
    _, said = ran("--format", "json", "-", stdin=text.encode())
    assert "203.0.113.77" in said
    assert json.loads(said)["redacted"] is None


def test_what_only_a_prefix_tells_is_known_in_the_report() -> None:
    rows = ["Nov 29 11:02:52 gpubox7 systemd[1]: Started vllm.service.", *LINES["unrecognised"]]
    _, said = ran("--redact", "-", stdin="\n".join(rows).format("gpubox7").encode())
    assert leaks(said) == [], said
    assert "host-1" in said


@pytest.mark.parametrize(
    "name", ["/home/jdoe42/vllm.log", "/srv/jane.doe@corp-mail.com.log", "/srv/hf" + "_" + BODY]
)
def test_messages_about_files_are_redacted(name: str) -> None:
    status, said = ran("--redact", name)
    assert status == 2
    assert leaks(said) == [], said


ASKING = [
    ("--redact",),
    ("--redact-map", "MAP"),
    ("run", "--redact"),
    ("diff", "--redact"),
    ("explain", "--redact"),
    ("collect", "--redact"),
    ("--follow", "--redact"),
    ("report",),
]


@pytest.mark.parametrize("kind", ["token", "password", "e-mail", "user"])
@pytest.mark.parametrize("asking", ASKING, ids=" ".join)
def test_an_option_that_is_not_there_is_redacted(asking: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    value, form = PLANTED[kind]
    words = [str(tmp_path / "map.json") if word == "MAP" else word for word in asking]
    status, said = ran(*words, f"--{form.format(value)}")
    assert status == 2
    assert "No such option" in said
    assert leaks(said) == [], said


@pytest.mark.parametrize(
    "words",
    [
        ("--redact", "PATH"),
        ("--redact", "--", "PATH"),
        ("--redact", "--rules", "PATH", "-"),
        ("--redact", "--rules=PATH", "-"),
        ("--redact", "--since", "PATH", "-"),
        ("--redact", "--format", "PATH"),
        ("--redact", "--follow", "PATH"),
        ("--redact", "--follow", "PATH", "PATH"),
        ("--redact-map", "PATH", "-"),
        ("run", "--redact", "--", "PATH"),
        ("run", "--redact", "PATH"),
        ("diff", "--redact", "PATH", "PATH"),
        ("diff", "--redact", "PATH", "PATH", "PATH"),
        ("explain", "--redact", "PATH"),
        ("collect", "--redact", "PATH"),
        ("collect", "--redact", "-o", "PATH"),
        ("report", "PATH"),
        ("report", "-o", "PATH", "LOG"),
        ("report", "--format", "PATH"),
    ],
    ids=" ".join,
)
def test_folders_that_a_message_quotes_are_replaced(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_text("\n".join(LINES["unrecognised"]))
    path = "/srv/zephyrcorp/jdoe42/gone.log"
    given = [word.replace("PATH", path).replace("LOG", str(tmp_path / "vllm.log")) for word in words]
    status, said = ran(*given, stdin=b"RuntimeError: x\n")
    assert status in (2, 127)
    assert said
    assert leaks(said) == [], said


def test_what_is_meant_and_the_rules_of_the_environment_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "zephyrcorp").mkdir()
    (tmp_path / "zephyrcorp" / "server.log").write_text("x\n")
    out, err = io.StringIO(), io.StringIO()
    console = Console(io.BytesIO(), out, err, {"VDIAG_RULES": str(tmp_path / "zephyrcorp" / "gone.yaml")})
    assert run(("--redact", str(tmp_path / "zephyrcorp" / "servr.log")), console) == 2
    assert "did you mean" in err.getvalue()
    assert leaks(err.getvalue()) == [], err.getvalue()


@pytest.mark.parametrize("before", ["-", "--", ".", "...", "_", "+", "%20", "x=-"])
def test_an_address_of_a_person_is_one_behind_any_sign(before: str) -> None:
    assert leaks(Redactor().text(f"sent to {before}jane.doe@corp-mail.com now")) == []


def test_messages_about_options_are_redacted() -> None:
    status, said = ran("--redact", "--since", "/home/jdoe42/x", "-")
    assert status == 2
    assert leaks(said) == [], said


def test_the_map_is_for_its_owner_and_overwrites_nothing(tmp_path: Path) -> None:
    made = tmp_path / "map.json"
    text = "\n".join(LINES["unrecognised"]).format("203.0.113.77").encode()
    _, said = ran("--redact-map", str(made), "-", stdin=text)
    assert leaks(said) == []
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert "203.0.113.77" in json.loads(made.read_text()).values()
    before = made.read_text()
    status, said = ran("--redact-map", str(made), "-", stdin=text)
    assert status == 2
    assert made.read_text() == before
    assert leaks(said) == []


def full(text: str) -> Report:
    """A report with the text at every place that can hold one."""
    diagnosis = Diagnosis(
        None, text, 0.5, Severity.FATAL, text, 1, text, facts={"quote": text, "list": [text], text: 1}, evidence=[Evidence(text, 1, text, text)],
        fixes=[Fix(do=text, run=[text, f"https://github.com/vllm-project/vllm/issues?q={quote_plus(text)}"], note=text)], avoid=[text], frame=text,
        search=f"https://github.com/vllm-project/vllm/issues?q=is%3Aissue+{quote_plus(text)}", last_source=text,
    )  # fmt: skip
    return Report(
        "vdiag.report/1", "0", Verdict.UNRECOGNISED, [Input(text, gaps=[Gap(text, command=text)])],
        Environment(model=text, args={"served_model_name": [text], "x": {"y": text}}), [diagnosis], [EpisodeInfo(text, 1, 2, None, "failed")],
        also_seen=[AlsoSeen(None, 1, text, text, text)], notes=[text], harmless=[Harmless("r", text, text, 1, text, text)],
        changes=Changes(text, 1, text, 2, [Change("argument", "note", text, text)], text),
    )  # fmt: skip


@pytest.mark.parametrize("kind", PLANTED)
def test_nothing_planted_in_a_report_stays(kind: str) -> None:
    value, form = PLANTED[kind]
    import msgspec

    made = msgspec.json.encode(Redactor().report(full(form.format(value)))).decode()
    assert leaks(made) == [], made
    again = Redactor()
    once = again.report(full(form.format(value)))
    once.redacted = None
    twice = again.report(once)
    twice.redacted = None
    assert twice == once


def test_what_stands_under_a_secret_name_goes_whatever_it_is() -> None:
    report = full("x")
    report.environment.args = {
        "api_key": ["one", "two"],
        "hf_token": "three",
        "ssl_keyfile": "/etc/x.pem",
        "max_model_len": 8,
    }
    report.changes = Changes("a", 1, "b", 2, [Change("environment", "HF_TOKEN", "four", "five")])
    made = Redactor().report(report)
    assert made.environment.args["api_key"] == ["<secret-1>", "<secret-2>"]
    assert made.environment.args["hf_token"] == "<secret-3>"
    assert made.environment.args["ssl_keyfile"] == "/etc/x.pem"
    assert made.environment.args["max_model_len"] == 8
    assert made.changes is not None
    assert (made.changes.items[0].before, made.changes.items[0].after) == ("<secret-4>", "<secret-5>")


def test_a_report_keeps_what_is_ours() -> None:
    report = full("x")
    report.diagnoses[0].rule, report.diagnoses[0].fingerprint = "kv-cache-too-small", "0123456789ab"
    made = Redactor().report(report)
    assert made.diagnoses[0].rule == "kv-cache-too-small"
    assert made.diagnoses[0].fingerprint == "0123456789ab"
    assert made.verdict is Verdict.UNRECOGNISED
    assert made.schema == "vdiag.report/1"


def test_names_are_the_same_over_several_inputs(tmp_path: Path) -> None:
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    one.write_text(
        "Nov 29 11:02:52 gpubox7 kernel: x\nNov 29 11:02:53 gpubox7 kernel: Out of memory: Killed process 9 (VLLM::EngineCor) total-vm:1kB\n"
    )
    two.write_text("\n".join(LINES["unrecognised"]).format("http://gpubox7:80") + "\n")
    _, said = ran("--redact", "--format", "json", str(one), str(two))
    assert leaks(said) == []
    assert json.loads(said)["redacted"].get("host", 0) <= 1
