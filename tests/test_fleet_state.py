"""`vdiag fleet --state`: what was read is neither lost nor counted twice, whatever happened to logs and runs between."""

from __future__ import annotations

import gzip
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fleetlogs import SAMPLES, healthy_lines
from test_cli_diagnose import World
from vdiag.fleet.engines import local
from vdiag.fleet.task import Done, Settings, Task
from vdiag.fleet.worker import Worker

OOM = (SAMPLES / "cuda-oom-serving.log").read_bytes()
KILLED = (SAMPLES / "host-oom-kill.log").read_bytes()
HEALTHY = (SAMPLES / "healthy-busy.log").read_bytes()


@cache
def worker(settings: Settings) -> Worker:
    return Worker(settings)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are read in the process of the test."""

    def run(tasks: Iterable[list[Task]], settings: Settings) -> Iterator[list[Done]]:
        yield from map(worker(settings).rows, tasks)

    monkeypatch.setattr(local, "run", run)


class Fleet:
    """A folder of logs, and a state beside it."""

    def __init__(self, folder: Path) -> None:
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.state, self.metrics = folder / "fleet.db", folder / "fleet.prom"

    def write(self, name: str, data: bytes) -> Path:
        path = self.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def append(self, name: str, data: bytes) -> None:
        with open(self.logs / name, "ab") as file:
            file.write(data)

    def arguments(self, *more: str | Path) -> list[str]:
        told = ["--format", "json", "--state", self.state, "--prometheus", self.metrics, *more, self.logs]
        return ["fleet", *map(str, told)]

    def run(self, *more: str | Path, status: int | None = None) -> dict[str, Any]:
        world = World()
        got = world.run(*self.arguments(*more))
        assert got in (0, 1, 3) if status is None else got == status, world.err.getvalue()
        told: dict[str, Any] = json.loads(world.printed)
        return told

    def totals(self) -> dict[str, int]:
        """Failures of all runs by rule, of those that there are any."""
        lines = self.metrics.read_text().splitlines()
        found = {}
        for line in lines:
            if line.startswith("vdiag_failures_total"):
                found[line.split('rule="')[1].split('"')[0]] = int(line.split()[-1])
        return found


@pytest.fixture
def fleet(tmp_path: Path, here: None) -> Fleet:
    return Fleet(tmp_path)


def new(told: dict[str, Any]) -> dict[str | None, tuple[int, int]]:
    """Of each cause that is new how often it was found since, and before."""
    return {cause["rule"]: (cause["times"], cause["before"]) for cause in told["news"]["causes"]}


# ---- what happens to logs ---------------------------------------------------------------------------------------


def test_first_unchanged_appended_and_new(fleet: Fleet) -> None:
    fleet.write("node-1/a.log", OOM)
    fleet.write("node-2/b.log", HEALTHY)
    first = fleet.run()
    assert (first["replicas"], first["failed"]) == (2, 1)
    assert new(first) == {"cuda-oom-serving": (1, 0)}
    assert (first["news"]["since"], first["news"]["nodes"]) == ("", ["node-1"])
    second = fleet.run()
    assert (second["news"]["read"], second["news"]["bytes"], new(second)) == (0, 0, {})
    assert second["news"]["since"]
    for told in (first, second):
        del told["news"]
    assert first == second, "what is known needs no reading to be told"
    fleet.append("node-2/b.log", KILLED)
    fleet.write("node-3/c.log", OOM)
    third = fleet.run()
    assert (third["replicas"], third["failed"], third["news"]["read"]) == (3, 3, 2)
    assert new(third) == {"cuda-oom-serving": (1, 1), "host-oom-kill": (1, 0)}
    assert third["news"]["nodes"] == ["node-2", "node-3"]
    assert third["news"]["bytes"] == len(KILLED) + len(OOM)
    assert fleet.totals() == {"cuda-oom-serving": 2, "host-oom-kill": 1}
    assert third["bytes"] == 2 * len(OOM) + len(HEALTHY) + len(KILLED)


def test_the_same_failure_once_more(fleet: Fleet) -> None:
    fleet.write("a.log", OOM)
    fleet.run()
    fleet.append("a.log", OOM)
    assert new(fleet.run()) == {"cuda-oom-serving": (1, 1)}
    fleet.append("a.log", OOM * 3)
    told = fleet.run()
    assert new(told) == {"cuda-oom-serving": (3, 2)}
    assert told["causes"][0]["times"] == 5


@pytest.mark.parametrize(
    "sample", ["cuda-oom-serving", "host-oom-kill", "kv-cache-too-small", "undefined-symbol"]
)
def test_a_log_read_in_two_parts_counts_as_one(sample: str, tmp_path: Path, here: None) -> None:
    """Cut anywhere, also within a traceback or a line."""
    data = (SAMPLES / f"{sample}.log").read_bytes()
    (tmp_path / "whole").mkdir()
    whole = Fleet(tmp_path / "whole")
    whole.write("a.log", data)
    told = whole.run()
    for part in range(1, 12):
        (tmp_path / str(part)).mkdir()
        cut = Fleet(tmp_path / str(part))
        cut.write("a.log", data[: len(data) * part // 12])
        cut.run(status=None)
        cut.append("a.log", data[len(data) * part // 12 :])
        now = cut.run()
        assert (now["verdicts"], now["failed"], now["bytes"], now["lines"]) == (
            told["verdicts"], told["failed"], told["bytes"], told["lines"],
        ), part  # fmt: skip
        assert [(c["rule"], c["times"], c["example"]["line"]) for c in now["causes"]] == [
            (c["rule"], c["times"], c["example"]["line"]) for c in told["causes"]
        ], part
        assert {rule: n for rule, n in cut.totals().items() if n} == whole.totals(), part


def test_rotation(fleet: Fleet) -> None:
    """Renamed, then also packed: what was read under another name is known again."""
    log = fleet.write("vllm.log", OOM)
    fleet.run()
    log.rename(fleet.logs / "vllm.log.1")
    fleet.write("vllm.log", KILLED)
    told = fleet.run()
    assert (told["replicas"], new(told)) == (1, {"host-oom-kill": (1, 0)})
    (fleet.logs / "vllm.log.1").unlink()
    (fleet.logs / "vllm.log.2.gz").write_bytes(gzip.compress(OOM))
    (fleet.logs / "vllm.log").rename(fleet.logs / "vllm.log.1")
    fleet.write("vllm.log", HEALTHY + OOM)
    told = fleet.run()
    assert (told["replicas"], new(told)) == (1, {"cuda-oom-serving": (1, 1)})
    (fleet.logs / "vllm.log.2.gz").unlink()  # the oldest goes
    assert new(fleet.run()) == {}
    assert fleet.totals() == {"cuda-oom-serving": 2, "host-oom-kill": 1}


def test_what_was_appended_before_a_rotation_counts(fleet: Fleet) -> None:
    fleet.write("vllm.log", HEALTHY)
    fleet.run()
    fleet.append("vllm.log", OOM)
    (fleet.logs / "vllm.log").rename(fleet.logs / "vllm.log.1")
    fleet.write("vllm.log", HEALTHY.replace(b"10.", b"11."))
    assert new(fleet.run()) == {"cuda-oom-serving": (1, 0)}


def test_emptied_and_written_anew(fleet: Fleet) -> None:
    fleet.write("a.log", HEALTHY + OOM)
    fleet.write("b.log", HEALTHY)
    fleet.run()
    fleet.write("a.log", b"")
    assert new(fleet.run()) == {}
    fleet.write("a.log", KILLED)
    told = fleet.run()
    assert new(told) == {"host-oom-kill": (1, 0)}
    assert fleet.totals() == {"cuda-oom-serving": 1, "host-oom-kill": 1}


def test_rewritten_at_the_same_size(fleet: Fleet) -> None:
    log = fleet.write("a.log", OOM)
    fleet.run()
    log.write_bytes(KILLED.ljust(len(OOM), b"\n")[: len(OOM)] if len(KILLED) < len(OOM) else KILLED)
    os.utime(log, (time.time() + 5, time.time() + 5))
    assert new(fleet.run()) == {"host-oom-kill": (1, 0)}


def test_changed_rules_read_all_again_and_count_nothing_twice(fleet: Fleet, tmp_path: Path) -> None:
    unknown = b"(EngineCore_DP0 pid=54) ERROR 11-29 10:12:45 [core.py:708] acme.PluginError: the widget is upside down\n"
    unknown += (
        b"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    fleet.write("a.log", unknown)
    fleet.write("b.log", OOM)
    first = fleet.run()
    assert [cause["rule"] for cause in first["unknown"]] == [None]
    assert fleet.totals() == {"cuda-oom-serving": 1, "unrecognised": 1}
    rules = tmp_path / "mine.yaml"
    rules.write_text(
        textwrap.dedent("""\
        - id: acme-widget
          title: The widget is upside down
          phrases: ["PluginError: the widget is upside down"]
          why: Somebody turned it.
          fixes: [{do: Turn it back}]
          examples: ["acme.PluginError: the widget is upside down"]
        """)
    )
    told = fleet.run("--rules", rules)
    assert (told["unknown"], told["news"]["read"]) == ([], 2)
    assert new(told) == {"acme-widget": (1, 0)}
    assert {rule: n for rule, n in fleet.totals().items() if n} == {"acme-widget": 1, "cuda-oom-serving": 1}
    assert fleet.run("--rules", rules)["news"]["read"] == 0


def test_a_long_log_goes_on(fleet: Fleet) -> None:
    fleet.write("a.log", HEALTHY + healthy_lines(9 << 20))
    assert fleet.run()["failed"] == 0
    lines = (fleet.logs / "a.log").read_bytes().count(b"\n")
    fleet.append("a.log", OOM)
    told = fleet.run()
    assert (new(told), told["news"]["bytes"]) == ({"cuda-oom-serving": (1, 0)}, len(OOM))
    marked = next(n for n, row in enumerate(OOM.split(b"\n"), 1) if b"OutOfMemoryError" in row)
    assert told["causes"][0]["example"]["line"] == lines + marked
    fleet.append("a.log", healthy_lines(9 << 20) + OOM)
    assert new(fleet.run()) == {"cuda-oom-serving": (1, 1)}


def test_packed_logs_grow_by_being_replaced(fleet: Fleet) -> None:
    fleet.write("a.log.gz", gzip.compress(HEALTHY))
    fleet.run()
    fleet.write("a.log.gz", gzip.compress(HEALTHY + OOM))
    assert new(fleet.run()) == {"cuda-oom-serving": (1, 0)}
    assert new(fleet.run()) == {}


def test_what_could_not_be_read_is_read_when_it_can_be(fleet: Fleet) -> None:
    fleet.write("a.log.gz", gzip.compress(OOM)[:40])
    fleet.run(status=3)
    assert fleet.run(status=3)["verdicts"] == {"unread": 1}
    fleet.write("a.log.gz", gzip.compress(OOM))
    assert new(fleet.run()) == {"cuda-oom-serving": (1, 0)}


# ---- what happens to runs ---------------------------------------------------------------------------------------

KILLER = """
import os, signal, sqlite3, sys
from vdiag.cli import run
from vdiag.cli.console import Console
from vdiag.fleet.engines import local
from vdiag.fleet.worker import Worker

left = int(sys.argv[1])

class Mortal(sqlite3.Connection):
    def execute(self, *given):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(*given)

real = sqlite3.connect
sqlite3.connect = lambda *given, **named: real(*given, factory=Mortal, **named)

def here(portions, settings):
    worker = Worker(settings)
    for tasks in portions:
        yield worker.rows(tasks)

local.run = here
status = run(sys.argv[2:], Console.of_process())
print(10**6 - left, file=sys.stderr)
sys.exit(status)
"""


def killed_at(statement: int, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """A run whose process is killed before it comes to the n-th statement to the state."""
    return subprocess.run(
        [sys.executable, "-c", KILLER, str(statement), *arguments], capture_output=True, text=True, timeout=60
    )


def three_days(fleet: Fleet) -> Iterator[None]:
    """What comes to the logs day by day."""
    for number in range(6):
        fleet.write(f"node-{number}/a.log", (OOM, KILLED, HEALTHY)[number % 3])
    yield
    for number in range(3, 6):
        fleet.append(f"node-{number}/a.log", (KILLED, HEALTHY, OOM)[number % 3])
    yield
    (fleet.logs / "node-0/a.log").rename(fleet.logs / "node-0/a.log.1")
    fleet.write("node-0/a.log", KILLED)
    fleet.append("node-1/a.log", OOM)
    yield


def test_killed_at_any_point_nothing_is_lost_or_counted_twice(tmp_path: Path) -> None:
    for name in ("calm", "killed"):
        (tmp_path / name).mkdir()
    calm, killed = Fleet(tmp_path / "calm"), Fleet(tmp_path / "killed")
    days = zip(three_days(calm), three_days(killed), strict=True)
    deaths = 0
    for day, _ in enumerate(days):
        whole = killed_at(10**6, calm.arguments())
        assert whole.returncode == 1, whole.stderr
        statements = int(whole.stderr.split()[-1])
        for at in range(3 + day, statements, max(statements // 7, 1)):
            dead = killed_at(at, killed.arguments())
            if dead.returncode == -signal.SIGKILL:
                deaths += 1
            else:  # less is left to do than for the calm run
                break
        told = killed_at(10**6, killed.arguments())
        assert told.returncode == 1, told.stderr
        want, got = (
            json.loads(whole.stdout),
            json.loads(told.stdout.replace(str(killed.logs), str(calm.logs))),
        )
        if dead.returncode == -signal.SIGKILL:  # nobody was told the news before
            assert new(got) == new(want), day
            assert got["news"]["nodes"] == want["news"]["nodes"], day
        del want["news"], got["news"]
        assert got == want, day
        assert killed.totals() == calm.totals(), day
    assert deaths > 10


def test_a_run_that_was_killed_leaves_no_process(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    for number in range(400):
        fleet.write(f"node-{number}/a.log", OOM)
    run = subprocess.Popen(
        [sys.executable, "-m", "vdiag", *fleet.arguments("--jobs", "2")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 30
    while not fleet.state.exists() or not _kept(fleet.state):
        assert time.monotonic() < until
        assert run.poll() is None
        time.sleep(0.02)
    run.kill()
    run.wait()
    while left := _of_session(run.pid):
        assert time.monotonic() < until, left
        time.sleep(0.05)
    again = subprocess.run(
        [sys.executable, "-m", "vdiag", *fleet.arguments("--jobs", "2")], capture_output=True, text=True
    )
    told = json.loads(again.stdout)
    assert (told["replicas"], told["failed"]) == (400, 400)
    assert told["news"]["read"] < 400, "what was kept is not read again"
    assert new(told) == {"cuda-oom-serving": (400, 0)}
    assert fleet.totals() == {"cuda-oom-serving": 400}


def _kept(state: Path) -> bool:
    """Whether anything beyond the empty tables was written."""
    return state.stat().st_size > 120_000


def _of_session(leader: int) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(session) == leader and state != "Z":
                found.append((entry / "cmdline").read_text())
    return found


def test_two_runs_at_once(fleet: Fleet) -> None:
    fleet.write("a.log", OOM)
    fleet.run()
    held = sqlite3.connect(fleet.state, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    world = World()
    assert world.run(*fleet.arguments()) == 2
    assert "in use by another run" in world.err.getvalue()
    held.close()
    assert new(fleet.run()) == {}


@pytest.mark.parametrize("what", ["text", "torn", "other", "later", "folder"])
def test_what_cannot_be_a_state(fleet: Fleet, what: str) -> None:
    fleet.write("a.log", OOM)
    if what == "text":
        fleet.state.write_text("a text that somebody needs\n" * 200)
    elif what == "folder":
        fleet.state.mkdir()
    elif what == "other":
        with sqlite3.connect(fleet.state) as other:
            other.execute("CREATE TABLE replica (mine TEXT)")
    else:
        fleet.run()
        if what == "later":
            with sqlite3.connect(fleet.state) as later:
                later.execute("UPDATE meta SET value = '99' WHERE key = 'version'")
        else:
            data = bytearray(fleet.state.read_bytes())
            data[4096:] = b"\xa5" * (len(data) - 4096)
            fleet.state.write_bytes(data)
    before = fleet.state.read_bytes() if fleet.state.is_file() else b""
    world = World()
    assert world.run(*fleet.arguments()) == 2
    assert world.err.getvalue().startswith(f"vdiag: {fleet.state}: "), world.err.getvalue()
    assert world.err.getvalue().count("\n") == 1
    assert world.printed == ""
    assert before == (fleet.state.read_bytes() if fleet.state.is_file() else b"")


def test_a_state_is_its_owners_alone(fleet: Fleet) -> None:
    fleet.write("a.log", OOM)
    fleet.run()
    assert fleet.state.stat().st_mode & 0o077 == 0


def test_a_state_for_redaction_knows_the_names_in_every_log(fleet: Fleet) -> None:
    fleet.write("a.log", OOM)
    fleet.run()
    world = World()
    assert world.run(*fleet.arguments("--redact")) == 2
    assert "without --redact" in world.err.getvalue()
    fleet.state.unlink()
    fleet.run("--redact")
    fleet.write("b.log", OOM)
    fleet.run()
    assert fleet.run("--redact")["replicas"] == 2
