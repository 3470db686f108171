"""`vdiag fleet --engine ray`: what the local engine gives, whatever happens to Ray's processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fleetlogs
from test_fleet import fleet
from vdiag.fleet.engines import ray as engine
from vdiag.fleet.engines.local import KILLED
from vdiag.fleet.found import find
from vdiag.fleet.task import Settings, Task

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")


@pytest.fixture(scope="module")
def here() -> Iterator[None]:
    """A Ray of two processes on this machine."""
    ray.init(
        "local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=engine.STORE
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    fleetlogs.make(folder, small=90, large=1)
    (folder / "node-1" / "broken.log.gz").write_bytes(b"\x1f\x8b\x08\x00 no more of it")
    return folder


@pytest.mark.parametrize("form", ["json", "csv", "terminal"])
@pytest.mark.usefixtures("here")
def test_it_gives_byte_for_byte_the_local_result(logs: Path, form: str) -> None:
    local, far = (fleet("--engine", name, "--format", form, logs, status=1) for name in ("local", "ray"))
    assert far.printed == local.printed
    assert far.err.getvalue() == local.err.getvalue()
    assert local.printed


@pytest.mark.usefixtures("here")
def test_rules_of_ones_own_redaction_and_relative_paths_travel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.yaml").write_text(
        "- id: acme-widget\n  title: The widget is upside down\n  phrases: ['widget-7 stands upside down']\n",
        encoding="utf8",
    )
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "pod-0.log").write_text(
        "INFO 11-29 10:12:40 [api_server.py:1580] vLLM API server version 0.11.0\n"
        "ERROR 11-29 10:12:45 [core.py:708] widget-7 stands upside down for person@acme.example\n",
        encoding="utf8",
    )
    monkeypatch.chdir(tmp_path)
    call = ("--rules", "own.yaml", "--redact", "--format", "json", "logs")
    local, far = (fleet("--engine", name, *call, status=1) for name in ("local", "ray"))
    assert far.printed == local.printed
    assert "acme-widget" in far.printed
    assert "person@acme.example" not in far.printed


@pytest.mark.usefixtures("here")
def test_urls_are_read_by_rays_processes(logs: Path) -> None:
    pytest.importorskip("fsspec")
    call = ("--format", "json", f"file://{logs}")
    assert fleet("--engine", "ray", *call).printed == fleet("--engine", "local", *call).printed


def _readers() -> list[int]:
    """Processes of this user's Ray that read logs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if entry.read_bytes().startswith(b"ray::") and b"Reader" in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.usefixtures("here")
def test_what_is_lost_with_a_process_is_read_again_and_counted_once(logs: Path) -> None:
    tasks = find([str(logs)]).tasks
    read: list[str] = []
    killed = 0
    for rows in engine.run([tasks], Settings()):
        read += [done.row.input for done in rows]
        if not killed and (readers := _readers()):
            os.kill(readers[0], signal.SIGKILL)
            killed += 1
    assert killed
    assert sorted(read) == sorted(task.name for task in tasks)


class Deadly(Task, frozen=True):
    """A task that kills each process it is given to."""

    def __reduce__(self) -> Any:
        return signal.raise_signal, (signal.SIGKILL,)


@pytest.mark.usefixtures("here")
def test_a_log_that_kills_its_process_each_time_is_a_row(logs: Path) -> None:
    tasks = find([str(logs / "node-3")]).tasks
    given = [*tasks, Deadly("deadly.log", ("deadly.log",))]
    rows = [done.row for rows in engine.run([given], Settings()) for done in rows]
    assert sorted(row.input for row in rows) == sorted(task.name for task in given)
    assert {row.input: row.error for row in rows if row.error} == {"deadly.log": KILLED}


@pytest.mark.usefixtures("here")
def test_closing_it_ends_the_job(logs: Path) -> None:
    coming = engine.run([find([str(logs)]).tasks], Settings())
    next(coming)
    coming.close()  # type: ignore[attr-defined]
    assert ray.is_initialized(), "a connection that was there is kept"
    assert [done for rows in engine.run([find([str(logs / "node-2")]).tasks], Settings()) for done in rows]


HEAD = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
print(cluster.address, flush=True)
sys.stdin.readline()
cluster.shutdown()
"""


def test_a_ray_that_runs_at_an_address_gives_the_same(logs: Path) -> None:
    """Each in a process of its own, as on the command line: a connection of this one would be used instead."""
    head = subprocess.Popen(
        [sys.executable, "-c", HEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert head.stdout is not None
    try:
        address = head.stdout.readline().strip()
        call = [sys.executable, "-m", "vdiag", "fleet", "--format", "json"]
        far = subprocess.run([*call, "--engine", "ray", "--address", address, str(logs)], capture_output=True)
    finally:
        head.communicate("\n", timeout=60)
    assert far.returncode == 1, far.stderr.decode()
    assert far.stdout.decode() == fleet("--format", "json", logs, status=1).printed


def test_an_address_that_does_not_answer_is_told(logs: Path) -> None:
    call = [sys.executable, "-m", "vdiag", "fleet", "--engine", "ray", "--address", "127.0.0.1:9", str(logs)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
