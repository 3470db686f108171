"""Following: each failure once, when it has settled; a crash loop counted; rotation survived; memory bounded."""

from __future__ import annotations

import bz2
import gc
import gzip
import io
import json
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logtext import LOADING, READY, SERVED, START, STOPPED, Sample, lines, said, sample, steam, traceback
from test_cli_diagnose import World
from vdiag.cli.follow import OPEN, QUIET, watch
from vdiag.cli.wrapped import HELD
from vdiag.follow import FIRST, ORDINARY, WINDOW, Follower, Told
from vdiag.intake.commands import LOG, QUESTION
from vdiag.intake.fetch import AFTER, BEFORE
from vdiag.intake.growing import BACK, GrowingFile, growing
from vdiag.model import Report, Verdict
from vdiag.rulebook.shipped import shipped

KV = sample("kv-cache-too-small")
CRACK = said("A crack runs through the boiler north")
DRY = said("The boiler has no water in it")
DEADLINE = 60.0  # seconds after which a test that waits gives up


def follower(name: str = "x.log") -> Follower:
    return Follower(steam(), name)


def settled(following: Follower, *rows: str) -> list[Told]:
    """What is told of these lines when it is quiet behind them."""
    told = following.feed(lines(*rows).encode())
    last = following.settle()
    return [*told, last] if last else told


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        bundle.writestr("a.log", data)
    return out.getvalue()


def tarred(data: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as bundle:
        entry = tarfile.TarInfo("a.log")
        entry.size = len(data)
        bundle.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def answers(told: list[Told]) -> list[tuple[str | None, int, int]]:
    """(rule, line, times) of what was told first."""
    return [(t.report.diagnoses[0].rule, t.report.diagnoses[0].line, t.times) for t in told]


# ---- what is told -------------------------------------------------------------------------------------------


def test_a_failure_is_told_once() -> None:
    following = follower()
    assert settled(following, START, LOADING) == []
    assert answers(settled(following, CRACK, STOPPED)) == [("cracked", 3, 1)]
    assert settled(following, said("something more", "INFO")) == []
    assert following.settle() is None


def test_a_healthy_server_is_not_spoken_of() -> None:
    following = follower()
    assert settled(following, START, LOADING, READY, *[SERVED] * 50) == []
    assert following.summary().verdict is Verdict.HEALTHY
    assert following.summary().inputs[0].lines == 53


def test_the_last_line_counts_before_it_is_complete() -> None:
    following = follower()
    following.feed((lines(START) + CRACK).encode())
    told = following.settle()
    assert told is not None
    assert told.report.diagnoses[0].line == 2
    following.feed(b"\n")
    assert following.settle() is None


def test_a_cause_that_comes_later_is_told_too() -> None:
    """The trailer came first; the kernel's word behind it is news."""
    following = follower()
    first = settled(following, START, LOADING, STOPPED)
    assert first[0].report.verdict is Verdict.INCOMPLETE
    assert answers(settled(following, CRACK)) == [("cracked", 4, 1)]


def test_a_crash_loop_is_counted() -> None:
    following = follower()
    run = [START, LOADING, CRACK, STOPPED]
    assert answers(settled(following, *run)) == [("cracked", 3, 1)]
    assert answers(settled(following, *run)) == [("cracked", 3, 2)]
    assert answers(settled(following, *run)) == [("cracked", 3, 3)]
    report = following.summary()
    assert [(d.rule, d.times, d.line, d.last_line) for d in report.diagnoses] == [("cracked", 3, 3, 11)]


def test_runs_that_come_at_once_are_told_apart() -> None:
    following = follower()
    told = settled(following, START, LOADING, CRACK, STOPPED, START, LOADING, DRY, STOPPED, START, LOADING)
    assert answers(told) == [("cracked", 3, 1), ("dry", 7, 1)]
    report = following.summary()
    assert {d.rule for d in report.diagnoses} == {"cracked", "dry"}
    assert report.verdict is Verdict.DIAGNOSED


def test_a_later_start_that_serves_is_said() -> None:
    following = follower()
    settled(following, START, LOADING, CRACK, STOPPED)
    settled(following, START, LOADING, READY, SERVED, SERVED)
    [diagnosis] = following.summary().diagnoses
    assert diagnosis.recovered_at == 5


def test_an_open_traceback_is_waited_for() -> None:
    following = follower()
    rows = [said(row) for row in traceback("RuntimeError: odd", "start", "load")]
    following.feed(lines(START, *rows[:3]).encode())
    assert following.busy
    following.feed(lines(*rows[3:]).encode())
    assert not following.busy


def test_any_cut_of_the_bytes_tells_the_same() -> None:
    data = KV.text.encode()
    for size in (1000, 4097, len(data)):
        following = Follower(shipped(), "x.log")
        for at in range(0, len(data), size):
            assert following.feed(data[at : at + size]) == []
        told = following.settle()
        assert told is not None
        assert told.report.diagnoses[0].rule == KV.rule
        assert told.report.diagnoses[0].line == KV.line


@pytest.mark.parametrize(
    "name", ["real-healthy-start", "healthy-busy", "only-the-trailer", "starting-cuda-graphs"]
)
def test_a_followed_sample_ends_in_the_answer_of_a_read_one(name: str) -> None:
    known: Sample = sample(name)
    following = Follower(shipped(), "x.log")
    following.feed(known.text.encode())
    assert following.summary().verdict.value == known.verdict


def test_an_encoded_log_is_followed_too() -> None:
    """docker's json-file, as it lies in its folder."""
    following = Follower(shipped(), "x-json.log")
    for row in KV.lines:
        log = row.split(": ", 1)[1] if " vllm[" in row else row
        entry = {"log": log + "\n", "stream": "stderr", "time": "2026-09-14T07:41:00.000000001Z"}
        following.feed(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
    told = following.settle()
    assert told is not None
    assert told.report.inputs[0].format == "docker json-file"
    assert (told.report.diagnoses[0].rule, told.report.diagnoses[0].line) == (KV.rule, KV.line)


def test_another_file_counts_its_lines_from_one() -> None:
    following = follower()
    following.feed(lines(START, LOADING, READY, SERVED).encode())
    following.turn()
    assert answers(settled(following, DRY, STOPPED)) == [("dry", 1, 1)]


def test_memory_does_not_grow_with_the_log() -> None:
    following = follower()
    noise = [
        DRY,
        SERVED,
        "x" * 300,
        *traceback("RuntimeError: odd", "a", "b"),
        said("fine", "INFO"),
        "y" * 5000,
    ]
    block = lines(*noise).encode() * 20

    def size(times: int) -> int:
        for _ in range(times):
            following.feed(block)
        following.settle()
        gc.collect()  # what is garbage already counts as gone
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        size(90)
        full, later = size(60), size(60)
    finally:
        tracemalloc.stop()
    assert later < full * 1.2 + (1 << 20)


def test_a_line_without_an_end_is_bounded() -> None:
    following = follower()
    for _ in range(40):
        following.feed(b"#" * (1 << 20))
    following.feed(b"\n" + lines(START, CRACK, STOPPED).encode())
    assert answers([t for t in [following.settle()] if t]) == [("cracked", 3, 1)]


# ---- files that are rotated -----------------------------------------------------------------------------------


def read_all(file: GrowingFile) -> bytes:
    """What is there now."""
    parts = []
    while data := file.read(0):
        parts.append(data)
    return b"".join(parts)


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    file = GrowingFile(str(path))
    assert read_all(file) == b"one\n"
    with path.open("ab") as more:
        more.write(b"two\n")
    assert read_all(file) == b"two\n"
    file.close()


def test_a_renamed_file_is_read_to_its_end_then_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    file = GrowingFile(str(path))
    read_all(file)
    path.rename(tmp_path / "a.log.1")
    assert read_all(file) == b""
    with (tmp_path / "a.log.1").open("ab") as old:
        old.write(b"last words\n")
    path.write_bytes(b"new\n")
    assert file.read(0) == b"last words\n"
    assert file.turns == 0
    assert file.read(0) == b"new\n"
    assert file.turns == 1
    file.close()


def test_an_emptied_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\ntwo\n")
    file = GrowingFile(str(path))
    read_all(file)
    os.truncate(path, 0)
    with path.open("ab") as more:
        more.write(b"new\n")
    assert read_all(file) == b"new\n"
    assert file.turns == 1
    file.close()


def test_of_a_long_file_the_end_is_read_and_its_lines_keep_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(1, 1001)))
    file = GrowingFile(str(path), back=100)
    assert read_all(file).startswith(b"line %d\n" % file.line)
    assert file.line > 900
    file.close()


def test_the_numbers_in_the_architecture_are_those_of_the_code() -> None:
    docs = (Path(__file__).parent.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    text = " ".join(docs.split())
    assert f"for {QUIET} seconds ({OPEN:.0f} while a traceback is open)" in text
    assert f"its first events ({FIRST >> 20} MiB), the latest ({WINDOW >> 20} MiB)" in text
    assert f"the last {ORDINARY:,} without news" in text
    assert f"Of a file the last {BACK >> 20} MiB are read before" in text
    assert f"limited to {QUESTION:.0f} seconds for a question and {LOG:.0f} for a log" in text
    assert f"from {BEFORE} seconds before it to {AFTER} seconds after its end" in text
    assert f"the last {HELD >> 20} MiB are read together with the kernel log" in text


# ---- the loop -------------------------------------------------------------------------------------------------


class Script:
    """A log that arrives by a script: what each reading gives, and what the clock shows then."""

    turns = 0
    line = 1

    def __init__(self, *steps: tuple[float, bytes]) -> None:
        self._steps: Iterator[tuple[float, bytes]] = iter(steps)
        self.now = 0.0

    def read(self, _: float) -> bytes | None:
        step = next(self._steps, None)
        if step is None:
            return None
        self.now = step[0]
        return step[1]


def watched(*steps: tuple[float, bytes]) -> list[tuple[float, str | None]]:
    """When something was told, and what."""
    script, told = Script(*steps), []
    watch(
        script,  # type: ignore[arg-type]
        follower(),
        lambda t: told.append((script.now, t.report.diagnoses[0].rule)),
        lambda: False,
        lambda: script.now,
    )
    return told


FAILING = lines(START, LOADING, CRACK, STOPPED).encode()
CHAT = lines(SERVED).encode()


def test_a_failure_is_told_when_it_is_quiet() -> None:
    assert watched((0, FAILING), (0.3, b""), (0.75, b""), (5, b"")) == [(0.75, "cracked")]


def test_a_failure_is_told_among_other_lines_that_never_stop() -> None:
    steps = [(0.1 * i, CHAT) for i in range(1, 30)]
    [(when, rule)] = watched((0, FAILING), *steps)
    assert rule == "cracked"
    assert when < 1.0


def test_at_the_end_of_the_log_nobody_waits() -> None:
    assert watched((0, FAILING)) == [(0, "cracked")]


# ---- the command ------------------------------------------------------------------------------------------------


def test_the_end_of_standard_input_prints_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    world = World(KV.text.encode() * 3)
    assert world.run("--follow") == 1
    assert world.printed.startswith("Diagnosed: ")
    assert world.printed.count("Diagnosed: ") == 1
    assert "\n×2 " in world.printed
    assert "\n×3 " in world.printed
    assert "\nSummary: 387 lines" in world.printed


def test_json_is_one_report_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    world = World(KV.text.encode() * 2)
    assert world.run("--follow", "--format", "json") == 1
    reports = [json.loads(row) for row in world.printed.splitlines()]
    assert [report["diagnoses"][0]["times"] for report in reports] == [1, 2, 2]
    assert {report["schema"] for report in reports} == {"vdiag.report/1"}


def test_nothing_to_follow_is_the_calls_fault(tmp_path: Path) -> None:
    world = World()
    assert world.run("--follow", str(tmp_path / "none.log")) == 2
    assert "none.log: no such file" in world.err.getvalue()


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("packed", [gzip.compress, lzma.compress, bz2.compress, zipped, tarred])
def test_what_is_packed_is_refused_and_never_called_healthy(
    piped: bool, packed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(packed(KV.text.encode()))
    world = World(stdin=path.read_bytes() if piped else b"")
    assert world.run("--follow", *([] if piped else [str(path)])) == 2
    assert "read it without --follow" in world.err.getvalue()
    assert world.printed == ""


class Following:
    """A `vdiag --follow` of its own process, whose printed lines are collected as they come."""

    def __init__(self, *arguments: str, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from vdiag.cli import run; sys.exit(run())", "--follow", "--format", "json", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "XDG_CONFIG_HOME": str(home)},
        )  # fmt: skip
        self.reports: list[dict[str, object]] = []
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for row in self.process.stdout:
            self.reports.append(json.loads(row))

    def until(self, count: int) -> None:
        """Waits for so many reports."""
        end = time.monotonic() + DEADLINE
        while len(self.reports) < count:
            assert time.monotonic() < end, self.reports
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.02)

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(number)
        status = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        return status


def test_a_pipe_that_stays_open_is_answered_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    following = Following(home=tmp_path)
    assert following.process.stdin is not None
    following.process.stdin.write(KV.text.encode())
    following.process.stdin.flush()
    following.until(1)
    assert following.stop() == 1
    assert [report["verdict"] for report in following.reports] == ["diagnosed", "diagnosed"]
    assert following.process.stderr is not None
    assert following.process.stderr.read() == b""


def test_a_file_is_followed_through_its_rotation(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(KV.text)
    following = Following(str(log), home=tmp_path)
    following.until(1)
    log.rename(tmp_path / "vllm.log.1")
    log.write_text(KV.text)
    following.until(2)
    assert following.stop(signal.SIGTERM) == 1
    last: Report = following.reports[-1]  # type: ignore[assignment]
    assert last["diagnoses"][0]["times"] == 2  # type: ignore[index]
    assert last["diagnoses"][0]["line"] == KV.line  # type: ignore[index]


def test_a_named_pipe_is_followed_to_its_writers_end(tmp_path: Path) -> None:
    fifo = tmp_path / "vllm.fifo"
    os.mkfifo(fifo)
    following = Following(str(fifo), home=tmp_path)
    with fifo.open("wb") as writer:
        writer.write(KV.text.encode())
        writer.flush()
        following.until(1)
    assert following.process.wait(DEADLINE) == 1
    told: list[dict[str, object]] = following.reports[0]["diagnoses"]  # type: ignore[assignment]
    assert (told[0]["source"], told[0]["line"]) == (str(fifo), KV.line)


def test_a_named_pipe_without_a_writer_does_not_block(tmp_path: Path) -> None:
    fifo = tmp_path / "vllm.fifo"
    os.mkfifo(fifo)
    log = growing(str(fifo))
    assert log.read(0) == b""
    with fifo.open("wb") as writer:
        writer.write(b"one\n")
    assert log.read(1) == b"one\n"
    assert log.read(1) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_takes_a_logs_place_and_is_none_is_not_waited_for(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "vllm.log"
    path.write_bytes(b"one\n")
    file = GrowingFile(str(path))
    assert read_all(file) == b"one\n"
    path.unlink()
    make(path)
    assert file.read(0) == b""
    path.unlink() if path.is_fifo() else path.rmdir()
    path.write_bytes(b"two\n")
    assert read_all(file) == b"two\n"
