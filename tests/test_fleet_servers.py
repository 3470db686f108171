"""One log into which many servers write: each is a replica, and comes to what its lines alone come to."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetlogs import SAMPLES
from test_fleet import answer, fleet, here, rows

__all__ = ["here"]

pytestmark = pytest.mark.usefixtures("here")

NAMES = ("real-v011-gated-noroute", "real-healthy-start", "real-trunc-weights", "real-healthy-with-client-404",
         "real-worker-killed", "real-lora-missing")  # fmt: skip


def lines(name: str) -> list[str]:
    return (SAMPLES / f"{name}.log").read_text(encoding="utf8").splitlines()


def woven(form: Callable[[int, str], str], names: tuple[str, ...] = NAMES) -> str:
    """The samples as of servers that ran at the same time, their lines by turns."""
    told = [[form(n, line) for line in lines(name)] for n, name in enumerate(names)]
    return "".join(f"{x}\n" for turn in itertools.zip_longest(*told) for x in turn if x is not None)


def kubectl(n: int, line: str) -> str:
    return f"[pod/llm-6d5f7c9b8d-{n}x7kq/vllm] {line}"


def stern(n: int, line: str) -> str:
    return f"llm-6d5f7c9b8d-{n}x7kq vllm {line}"


def syslog(n: int, line: str) -> str:
    return f"Nov 29 02:00:00 gpu-{n} vllm[{700 + n}]: {line}"


def compose(n: int, line: str) -> str:
    return f"vllm-{'abcdef'[n]}-1  | {line}"


def journal(n: int, line: str) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": "1796000000000000", "_HOSTNAME": "gpu-1", "_TRANSPORT": "stdout",
                       "_SYSTEMD_UNIT": f"vllm@{n}.service", "SYSLOG_IDENTIFIER": "vllm", "_PID": str(700 + n),
                       "MESSAGE": line})  # fmt: skip


def fluent_bit(n: int, line: str) -> str:
    pod = {
        "pod_name": f"llm-{n}",
        "namespace_name": "inference",
        "container_name": "vllm",
        "host": f"gpu-{n % 2}",
    }
    return json.dumps({"date": 1796000000.5, "stream": "stderr", "log": line, "kubernetes": pod})


def loki(n: int, line: str) -> str:
    return json.dumps({"labels": {"pod": f"llm-{n}", "container": "vllm"}, "line": line,
                       "timestamp": "2026-11-29T02:00:00Z"})  # fmt: skip


def google(n: int, line: str) -> str:
    labels = {"pod_name": f"llm-{n}", "container_name": "vllm", "cluster_name": "blue"}
    return json.dumps({"textPayload": line, "timestamp": "2026-11-29T02:00:00Z",
                       "resource": {"type": "k8s_container", "labels": labels}})  # fmt: skip


FORMS = [kubectl, stern, syslog, compose, journal, fluent_bit, loki, google]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_each_server_comes_to_what_it_comes_to_alone(form: Callable[[int, str], str], tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text(woven(form))
    apart = []
    for n, name in enumerate(NAMES):
        (tmp_path / "one.log").write_text("".join(f"{form(n, line)}\n" for line in lines(name)))
        (row,) = rows(tmp_path / "one.log")
        apart.append((row["verdict"], row["rule"], row["failed"], row["text"]))
    together = rows(tmp_path / "all.log")
    assert [(r["verdict"], r["rule"], r["failed"], r["text"]) for r in together] == apart
    assert len({(row["node"], row["replica"]) for row in together}) == len(NAMES)


def test_the_counts_are_of_servers_and_a_note_says_so(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text(woven(syslog))
    told = answer(tmp_path / "all.log", status=1)
    assert (told["replicas"], told["failed"], told["nodes"]) == (6, 4, 6)
    assert "1 log holds the lines of 6 servers: each counts as a replica" in told["notes"]
    assert told["lines"] == sum(len(lines(name)) for name in NAMES)


def test_a_line_is_that_of_the_whole_log(tmp_path: Path) -> None:
    text = woven(kubectl)
    (tmp_path / "all.log").write_text(text)
    held = text.splitlines()
    failed = [row for row in rows(tmp_path / "all.log") if row["failed"]]
    assert failed
    for row in failed:
        pod = row["replica"].split("/")[0]
        assert pod in held[row["line"] - 1]
        assert row["text"][:40] in held[row["line"] - 1]


def test_what_stands_around_one_server_makes_it_no_two(tmp_path: Path) -> None:
    around = [
        "Nov 29 02:00:00 gpu-1 systemd[1]: Started vllm.service - vLLM.",
        'Nov 29 02:00:01 gpu-1 nginx[80]: 10.0.0.2 - - [29/Nov/2026:02:00:01 +0000] "GET /x HTTP/1.1" 200 7',
        "Nov 29 02:00:01 gpu-1 kernel: nvidia 0000:01:00.0: enabling device (0000 -> 0003)",
        "Nov 29 02:00:02 gpu-1 webui[9]: INFO:     Application startup complete.",
    ]
    own = [f"Nov 29 02:00:03 gpu-1 vllm[700]: {line}" for line in lines("real-trunc-weights")]
    (tmp_path / "journal.log").write_text("\n".join([*around, *own, *around]))
    told = answer(tmp_path / "journal.log")
    assert (told["replicas"], told["failed"], told["notes"]) == (1, 1, [])


OOM = (
    "Nov 29 02:09:00 gpu-1 kernel: Out of memory: Killed process {pid} (VLLM::EngineCor) total-vm:90000000kB, "
    "anon-rss:60000000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:9000kB oom_score_adj:0\n"
)


def test_a_kill_is_held_against_the_server_whose_process_it_names(tmp_path: Path) -> None:
    """Of two servers on one host the kernel killed the second; the first answers on."""

    def one(n: int, line: str) -> str:
        shifted = re.sub(r"pid=(\d+)", lambda m: f"pid={int(m[1]) + 50_000 * n}", line)
        return f"Nov 29 02:00:00 gpu-1 vllm-{n}[{700 + n}]: {shifted}"

    text = woven(one, ("real-healthy-start", "real-healthy-start"))
    engines = re.findall(r"vllm-1\[701\]: \(EngineCore pid=(\d+)\)", text)
    (tmp_path / "messages").write_text(text + OOM.format(pid=engines[0]))
    told = {row["replica"]: row for row in rows(tmp_path / "messages")}
    assert told["vllm-0"]["verdict"] == "healthy"
    assert told["vllm-1"]["failed"]


def test_servers_under_one_name_are_told_as_such(tmp_path: Path) -> None:
    def one(n: int, line: str) -> str:
        shifted = re.sub(r"pid=(\d+)", lambda m: f"pid={int(m[1]) + 50_000 * n}", line)
        return f"Nov 29 02:00:00 gpu-1 vllm[{700 + n}]: {shifted}"

    (tmp_path / "messages").write_text(woven(one, ("real-healthy-start",) * 3))
    told = answer(tmp_path / "messages")
    assert told["replicas"] == 1
    assert "3 servers or more write under one name" in " ".join(told["notes"])


def test_starts_after_one_another_are_one_server(tmp_path: Path) -> None:
    own = [kubectl(0, line) for name in ("real-trunc-weights", "real-healthy-start") for line in lines(name)]
    (tmp_path / "vllm.log").write_text("\n".join(own))
    told = answer(tmp_path / "vllm.log")
    assert (told["replicas"], told["notes"]) == (1, [])


def test_a_state_remembers_each_server_of_a_log(tmp_path: Path) -> None:
    log, state = tmp_path / "all.log", tmp_path / "fleet.db"
    log.write_text(woven(kubectl, ("real-healthy-start", "real-trunc-weights")))

    def run() -> tuple[int, int, list[tuple[str, int]]]:
        told = answer("--state", state, log)
        return told["replicas"], told["failed"], [(c["rule"], c["times"]) for c in told["news"]["causes"]]

    assert run() == (2, 1, [("safetensors-damaged", 1)])
    assert run() == (2, 1, [])
    with log.open("a") as file:  # the first fails as well, and a third one comes
        file.writelines(f"{kubectl(0, line)}\n" for line in lines("real-trunc-weights"))
        file.writelines(f"{kubectl(7, line)}\n" for line in lines("real-v011-gated-noroute"))
    assert run() == (3, 3, [("hub-unreachable", 1), ("safetensors-damaged", 1)])
    assert run() == (3, 3, [])


def test_a_log_of_one_server_that_becomes_one_of_two(tmp_path: Path) -> None:
    log, state = tmp_path / "all.log", tmp_path / "fleet.db"
    log.write_text("".join(f"{kubectl(0, line)}\n" for line in lines("real-trunc-weights")))
    assert answer("--state", state, log)["replicas"] == 1
    with log.open("a") as file:
        file.writelines(f"{kubectl(1, line)}\n" for line in lines("real-healthy-start"))
    told = answer("--state", state, log)
    assert (told["replicas"], told["failed"], told["news"]["causes"]) == (2, 1, [])


def test_names_are_redacted_in_every_row(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text(woven(syslog))
    assert "gpu-3" not in fleet("--redact", "--format", "jsonl", tmp_path / "all.log").printed


def test_servers_that_were_silent_in_the_time_asked_for_still_count(tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text(woven(syslog))
    (tmp_path / "one.log").write_text("".join(f"{syslog(9, x)}\n" for x in lines("real-healthy-start")))
    told = answer("--since", "2026-11-29 12:00", tmp_path, status=0)
    assert (told["replicas"], told["failed"], told["others"]) == (7, 0, 0)
    assert "no line of it lies in the time asked for" in told["notes"][0]
    assert "so it is with 1 more" in told["notes"][0]
