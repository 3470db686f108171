"""What an operator sees first: the cause, where, since when, what to do; and which files were no logs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from fleetlogs import SAMPLES
from test_fleet import HEALTHY, OOM, answer, fleet, here, rows

__all__ = ["here"]

pytestmark = pytest.mark.usefixtures("here")


def test_a_cause_comes_with_the_first_fix_of_its_example(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_bytes((SAMPLES / "kv-cache-too-small.log").read_bytes())
    (cause,) = answer(tmp_path)["causes"]
    (row,) = rows(tmp_path)
    assert cause["fix"] == row["fix"] == "Serve a context that fits"
    assert "To do first: Serve a context that fits." in fleet(tmp_path).printed
    assert "Serve a context that fits" in fleet("--format", "html", tmp_path).printed
    (told,) = csv.DictReader(io.StringIO(fleet("--format", "csv", tmp_path).printed))
    assert (told["fix"], told["server"]) == ("Serve a context that fits", "true")


def test_a_healthy_replica_has_nothing_to_do(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_bytes(HEALTHY)
    assert "To do first" not in fleet(tmp_path).printed
    assert rows(tmp_path)[0]["fix"] == ""


BROKEN = (SAMPLES / "real-trunc-weights.log").read_bytes()
STARTED = (SAMPLES / "real-healthy-start.log").read_bytes()


def test_a_replica_that_serves_again_is_told(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "a.log").write_bytes(BROKEN + STARTED)
    (logs / "b.log").write_bytes(STARTED + BROKEN)
    (logs / "c.log").write_bytes(STARTED)
    told = answer("--prometheus", tmp_path / "vllm.prom", logs, status=1)
    assert (told["failed"], told["recovered"]) == (2, 1)
    assert [(c["replicas"], c["recovered"]) for c in told["causes"]] == [(2, 1)]
    assert "vdiag_replicas_recovered 1\n" in (tmp_path / "vllm.prom").read_text()
    assert "2 of 3 replicas failed, of 1 cause. 1 of these came to serve again." in fleet(logs).printed


def test_a_state_learns_that_a_replica_serves_again(tmp_path: Path) -> None:
    log, state = tmp_path / "vllm.log", tmp_path / "fleet.db"
    log.write_bytes(BROKEN)
    assert answer("--state", state, log)["recovered"] == 0
    with log.open("ab") as file:
        file.write(STARTED)
    assert answer("--state", state, log)["recovered"] == 1
    with log.open("ab") as file:
        file.write(BROKEN)
    assert answer("--state", state, log)["recovered"] == 0


def test_times_on_the_page_are_whole_seconds(tmp_path: Path) -> None:
    text = "".join(f"2026-11-29T02:00:01.123456789Z stderr F {line}\n" for line in OOM.decode().splitlines())
    (tmp_path / "0.log").write_text(text)
    assert "at 2026-11-29T02:00:01Z" in fleet(tmp_path).printed
    (cause,) = answer(tmp_path)["causes"]
    assert cause["first_time"] == "2026-11-29T02:00:01.123456789Z"


def test_files_that_are_no_logs_are_named(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_bytes(OOM)
    for name in ("a.yaml", "b.md", "c.sh", "d.py"):
        (tmp_path / name).write_text("CUDA out of memory\n")
    (note,) = answer(tmp_path)["notes"]
    assert note.startswith("left out, because they do not look like logs: ")
    assert note.endswith(" and 1 more")


@pytest.mark.parametrize(
    ("name", "text", "logs"),
    [
        ("gpu-1.json", json.dumps({"__REALTIME_TIMESTAMP": "1796000000000000", "MESSAGE": "INFO x"}), 1),
        ("out.json", json.dumps({"date": 1796000000.5, "log": "INFO 11-29 02:00:00 [a.py:1] x"}), 1),
        (
            "gcp.json",
            '[\n  {\n    "textPayload": "INFO x",\n    "timestamp": "2026-11-29T02:00:00Z"\n  }\n]',
            1,
        ),
        ("config.json", '{\n  "architectures": ["X"],\n  "date": "2026-11-29T02:00:00"\n}', 0),
        ("tokenizer.json", '{"version":"1.0","vocab":{"INFO":1,"ERROR":2}}', 0),
    ],
)
def test_json_that_holds_log_entries_is_a_log(name: str, text: str, logs: int, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "vllm.log").write_bytes(OOM)
    assert len(rows(tmp_path)) == 1 + logs
