"""`vdiag fleet` among hostile names, links that lead in circles, files that must not be lost, and tight limits."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fleetlogs import SAMPLES
from test_cli_diagnose import World
from vdiag.fleet.found import find
from vdiag.fleet.titles import Titles

OOM = (SAMPLES / "cuda-oom-serving.log").read_bytes()
UNKNOWN = (
    b"ERROR 11-29 10:12:41 [core.py:708] EngineCore failed to start.\nTraceback (most recent call last):\n"
    b'  File "/opt/x/frob.py", line 3, in frob\n    zap()\nFrobError: the quux was not frobbed\n'
)
NAMES = (
    b"a\nNone of 3 replicas failed.log", b"\x1b[2J.log", b"bad\xff.log", b"bad\xfe.log", b"-x.log", b"=1+1.log",
    "r\u202egol.log".encode(), b"<b>.log", b"ab::c.log", b"C:\\x.log",
)  # fmt: skip


def run(*arguments: str | Path) -> tuple[int, World]:
    world = World()
    return world.run("fleet", "-j", "1", *map(str, arguments)), world


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    logs = tmp_path / "logs"
    logs.mkdir()
    for number, name in enumerate(NAMES):
        with open(os.fsencode(logs) + b"/" + name, "wb") as file:
            file.write(UNKNOWN if number % 2 else OOM)
    return logs


@pytest.mark.parametrize("format_", ["terminal", "json", "jsonl", "csv", "html"])
def test_a_log_of_any_name_is_a_row_and_stays_one_with_a_state(hostile: Path, format_: str) -> None:
    state = hostile.parent / "fleet.db"
    alone = run("--format", format_, hostile)
    for status, world in (alone, run("--state", state, "--format", format_, hostile)):
        assert status == 1, world.err.getvalue()
        assert "error" not in world.err.getvalue()
        assert "\x1b[2J" not in world.printed
        assert "\u202e" not in world.printed
        assert "\nNone of 3" not in world.printed
    if format_ == "jsonl":
        found = [json.loads(line)["input"] for line in alone[1].printed.splitlines()]
        assert len(set(found)) == len(NAMES)
    if format_ == "csv":
        assert len(list(csv.reader(io.StringIO(alone[1].printed)))) == len(NAMES) + 1
    assert run("--state", state, "--format", "json", hostile)[1].printed.count('"read":0,') == 1


def test_a_name_that_looks_like_a_url_is_the_file_that_lies_here(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    for given in ("ab::c.log", "ab*c.log"):
        found = find([given])
        assert [task.paths for task in found.tasks] == [("./ab::c.log",)], found.problems


def test_a_pattern_goes_through_no_circle_of_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("a.log", "deep/er/b.log", "deep/c.txt"):
        (tmp_path / name).write_bytes(OOM)
    for name in ("x", "y", "deep/z"):
        (tmp_path / name).symlink_to(tmp_path)
    assert {Path(task.name).name for task in find([f"{tmp_path}/**/*.log"]).tasks} == {"a.log", "b.log"}
    assert len(find([f"{tmp_path}/**"]).tasks) == 3
    monkeypatch.chdir(tmp_path)
    assert {task.name for task in find(["**/*.log"]).tasks} == {"a.log", "deep/er/b.log"}


def test_no_log_is_too_deep_and_what_leads_nowhere_is_told(tmp_path: Path) -> None:
    folder = tmp_path
    for number in range(12):
        folder = folder / f"d{number}"
        folder.mkdir()
        (folder / "a.log").write_bytes((SAMPLES / "healthy-busy.log").read_bytes())
    status, world = run("--format", "json", tmp_path)
    assert (status, json.loads(world.printed)["replicas"]) == (0, 12)
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    status, world = run("--format", "json", tmp_path)
    assert status == 3
    assert [note for note in json.loads(world.printed)["notes"] if "gone.log" in note]


def test_a_file_that_goes_while_a_folder_is_listed_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vdiag.fleet import found

    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes(OOM)
    judged = found.is_log

    def rotated(entry: found.Entry) -> bool:  # type: ignore[name-defined]
        told = judged(entry)
        if entry.name.endswith("b.log"):
            os.unlink(entry.name)
        return told

    monkeypatch.setattr(found, "is_log", rotated)
    came = find([str(tmp_path)])
    assert [Path(task.name).name for task in came.tasks] == ["a.log", "c.log"]
    assert not came.problems


def test_an_empty_folder_is_told_beside_another(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(OOM)
    (tmp_path / "none").mkdir()
    assert find([str(tmp_path / "a.log"), str(tmp_path / "none")]).problems


def test_a_log_named_otherwise_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_bytes(OOM)
    monkeypatch.chdir(tmp_path)
    for given, read in (("a.log", 1), ("./a.log", 0), (tmp_path / "a.log", 0)):
        told = json.loads(run("--state", ":memory:", "--format", "json", given)[1].printed)
        assert told["news"]["read"] == read


def test_metrics_replace_neither_a_log_nor_a_link_nor_a_pipe(tmp_path: Path) -> None:
    log, link, real = tmp_path / "a.log", tmp_path / "link.prom", tmp_path / "real.prom"
    log.write_bytes(OOM)
    status, world = run("--prometheus", log, log)
    assert status == 2
    assert "not written by vdiag" in world.err.getvalue()
    assert log.read_bytes() == OOM
    link.symlink_to(real)
    for _ in range(2):
        assert run("--prometheus", link, log)[0] == 1
        assert link.is_symlink()
        assert real.read_text().startswith("# HELP vdiag_")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    assert run("--prometheus", pipe, log)[0] == 1
    assert reader.communicate(timeout=30)[0].startswith("# HELP vdiag_")
    assert pipe.is_fifo()


def test_titles_are_one_text_wherever_the_empty_one_comes() -> None:
    made = set()
    for order in (["", "the pod a fell", "the pod b fell"], ["the pod a fell", "", "the pod b fell"]):
        titles = Titles()
        for title in order:
            titles.add(title)
        made.add(titles.text())
    assert made == {"the pod … fell"}


@pytest.mark.parametrize("limit", ["ulimit -n 64", "export TMPDIR=$PWD/{long}; mkdir -p $TMPDIR"])
def test_limits_of_the_system_change_nothing(tmp_path: Path, limit: str) -> None:
    for number in range(60):
        (tmp_path / f"pod-{number}.log").write_bytes(OOM)
    call = [sys.executable, "-m", "vdiag", "fleet", "--format", "jsonl", "--jobs"]
    free = subprocess.run([*call, "1", str(tmp_path)], capture_output=True, cwd=tmp_path)
    tight = subprocess.run(
        ["sh", "-c", f'{limit.format(long="t" * 120)}; exec "$0" "$@"', *call, "40", str(tmp_path)],
        capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    assert (tight.returncode, tight.stderr) == (1, b"")
    assert tight.stdout == free.stdout


def test_without_a_working_folder_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(OOM)
    (tmp_path / "gone").mkdir()
    ran = subprocess.run(
        ["sh", "-c", 'cd gone; rmdir ../gone; exec "$0" -m vdiag fleet "$1"', sys.executable, str(tmp_path / "a.log")],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.startswith("vdiag: no process that reads can be started")
    assert ran.stderr.count("\n") == 1
