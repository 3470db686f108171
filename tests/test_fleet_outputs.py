"""What `vdiag fleet` gives to other programs: metrics, tables, and an answer when it is interrupted."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleetlogs import SAMPLES, healthy_lines, make
from test_cli_diagnose import World
from vdiag.fleet_model import Fleet, Row, Total
from vdiag.render import fleet_data, fleet_metrics

OOM = (SAMPLES / "cuda-oom-serving.log").read_bytes()
EMPTY = Fleet("vdiag.fleet/1", "0", 0, 0, 0, 0, 0, 0, 0, 0, {}, [], [], [], [], [])
HOSTILE = 'a"b\\c\nd{e="f"} 1'


def samples_of(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """(name, labels) → value, as Prometheus reads them."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def made(*arguments: str | Path) -> tuple[int, World]:
    world = World()
    return world.run("fleet", *map(str, arguments)), world


def test_prometheus_reads_the_counts_that_json_tells(tmp_path: Path) -> None:
    make(tmp_path / "logs", 40)
    status, world = made("--format", "json", "--prometheus", tmp_path / "vllm.prom", tmp_path / "logs")
    assert status == 1
    told = json.loads(world.printed)
    read = samples_of((tmp_path / "vllm.prom").read_text(encoding="utf-8"))
    assert read["vdiag_replicas_failed", ()] == told["failed"]
    verdicts = {dict(labels)["verdict"]: v for (name, labels), v in read.items() if name == "vdiag_replicas"}
    assert {name: count for name, count in verdicts.items() if count} == told["verdicts"]
    by_rule = {
        dict(labels)["rule"]: value
        for (name, labels), value in read.items()
        if name == "vdiag_failures_total"
    }
    known = [cause for cause in told["causes"] if cause["rule"]]
    assert known
    for cause in known:
        assert by_rule[cause["rule"]] == cause["times"]


def test_a_label_of_any_text_is_read_as_it_was() -> None:
    text = fleet_metrics.render(EMPTY, [Total(HOSTILE, "fatal", 3, "")], 7.0)
    assert samples_of(text)["vdiag_failures_total", (("rule", HOSTILE), ("severity", "fatal"))] == 3


def test_metrics_are_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    log, target = tmp_path / "vllm.log", tmp_path / "m" / "vllm.prom"
    log.write_bytes(OOM)
    target.parent.mkdir()
    target.write_text("# HELP vdiag_old x\nold 1\n")
    assert made("--prometheus", target, log)[0] == 1
    assert "old" not in target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["vllm.prom"]


def test_metrics_that_cannot_be_written_are_said_and_the_answer_stands(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes(OOM)
    status, world = made("--prometheus", tmp_path / "missing" / "vllm.prom", log)
    assert status == 2
    assert "vllm.prom: No such file" in world.err.getvalue()
    assert "cuda-oom-serving" in world.printed


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@x", "\t=1", " =1", "\r=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    table = "".join(fleet_data.table([Row(text, title=text, text=f"{text}, more")]))
    cells = list(csv.reader(io.StringIO(table)))[1]
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@"))]
    assert [cell for cell in cells if text.strip() in cell]


def test_what_was_read_before_an_interruption_is_told(tmp_path: Path) -> None:
    """As many long logs as keep two processes busy for longer than it takes to press Ctrl-C."""
    for number in range(16):
        (tmp_path / f"{number}.log").write_bytes(healthy_lines(7 << 20))
    run = subprocess.Popen(
        [sys.executable, "-m", "vdiag", "fleet", "-j", "2", "--format", "json", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(3)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 130, err
    told = json.loads(out)
    assert told["interrupted"] is True
    assert told["replicas"] < 16
    assert "Traceback" not in err


@pytest.mark.parametrize("format_", ["terminal", "json", "jsonl", "csv", "html"])
def test_nothing_planted_comes_out_of_a_redacted_fleet(tmp_path: Path, format_: str) -> None:
    token, user, host, address = "hf_" + "Qw3rTy" * 6, "jdoe4711", "zeus-gpu-17", "10.77.3.4"
    folder = tmp_path / "home" / user / "logs" / host
    folder.mkdir(parents=True)
    for number in range(3):
        rows = [
            f"Nov 29 10:12:4{number} {host} vllm[541]: INFO 11-29 10:12:40 [api_server.py:1580] vLLM API server version 0.11.0",
            f"Nov 29 10:12:4{number} {host} vllm[541]: ValueError: {address} was refused with {token} of {user}",
            f"Nov 29 10:12:4{number} {host} vllm[541]: RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}",
        ]
        (folder / f"pod-{number}.log").write_text("\n".join(rows) + "\n")
    status, world = made(
        "--redact", "--format", format_, "--prometheus", tmp_path / "m.prom", tmp_path / "home"
    )
    assert status == 1
    for text in (world.printed, world.err.getvalue(), (tmp_path / "m.prom").read_text()):
        assert not [planted for planted in (token, user, host, address) if planted in text]
    assert "host-1" in world.printed


def test_who_watches_a_terminal_sees_how_far_it_is(tmp_path: Path) -> None:
    make(tmp_path / "logs", small=60)
    call = [sys.executable, "-m", "vdiag", "fleet", "-j", "2", str(tmp_path / "logs")]
    alone = subprocess.run(call, capture_output=True, timeout=60)
    assert alone.stderr == b""
    ours, theirs = pty.openpty()
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=theirs) as run:
        os.close(theirs)
        assert run.stdout is not None
        printed = run.stdout.read()
        assert run.wait(60) == alone.returncode == 1
    drawn = _until_closed(ours).decode()
    assert printed == alone.stdout
    shares = [int(share) for share in re.findall(r"\rreading \[#* *\] +(\d+)% of 60 logs", drawn)]
    assert shares == sorted(shares)
    assert any(0 < share <= 100 for share in shares)
    assert drawn.endswith("\r\x1b[K")  # nothing of it stays


def _until_closed(terminal: int) -> bytes:
    """What was written to a terminal whose other side is closed."""
    held = b""
    with suppress(OSError):  # how Linux tells that it is
        while piece := os.read(terminal, 1 << 16):
            held += piece
    os.close(terminal)
    return held
