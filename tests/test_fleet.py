"""`vdiag fleet`: counts over many logs are exact, whatever reads them and in whatever order."""

from __future__ import annotations

import csv
import io
import json
import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fleetlogs
from fleetlogs import SAMPLES, Made
from test_cli_diagnose import World
from vdiag.fleet.chunks import LARGE, MOST, chunks
from vdiag.fleet.engines import local
from vdiag.fleet.found import find
from vdiag.fleet.names import named, pattern
from vdiag.fleet.outliers import outliers
from vdiag.fleet.task import Done, Settings, Task
from vdiag.fleet.titles import Titles
from vdiag.fleet.worker import Worker
from vdiag.render import fleet_data

OOM = (SAMPLES / "cuda-oom-serving.log").read_bytes()
HEALTHY = (SAMPLES / "healthy-busy.log").read_bytes()
UNKNOWN = b"""\
INFO 11-29 10:12:40 [api_server.py:1580] vLLM API server version 0.11.0
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708] Traceback (most recent call last):
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708]   File "/srv/acme/plugin.py", line 12, in load
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708]     raise PluginError(f"the widget {number} is upside down")
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708] acme.plugin.PluginError: the widget %d is upside down
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


def fleet(*arguments: str | Path, status: int | None = None) -> World:
    world = World()
    got = world.run("fleet", *map(str, arguments))
    assert status is None or got == status, world.err.getvalue()
    return world


def answer(*arguments: str | Path, status: int | None = None) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(fleet("--format", "json", *arguments, status=status).printed)
    return told


def rows(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in fleet("--format", "jsonl", *arguments).printed.splitlines()]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are read in the process of the test."""

    def run(tasks: Iterable[list[Task]], settings: Settings) -> Iterator[list[Done]]:
        yield from map(Worker(settings).rows, tasks)

    monkeypatch.setattr(local, "run", run)


# ---- counts -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Made]:
    folder = tmp_path_factory.mktemp("fleet")
    return folder, fleetlogs.make(folder, small=300, large=2)


def test_counts_are_exact(made: tuple[Path, Made]) -> None:
    assert made[1].verdicts.total() == 302
    _must_count(*made)


@pytest.mark.skipif("VDIAG_TEST_FULL" not in os.environ, reason="10,020 logs; VDIAG_TEST_FULL=1 runs it")
def test_counts_of_ten_thousand_logs_are_exact(tmp_path: Path) -> None:
    _must_count(tmp_path, fleetlogs.make(tmp_path, small=10_000, large=20))


def _must_count(folder: Path, truth: Made) -> None:
    told = answer("--jobs", "2", folder, status=1)
    assert told["replicas"] == truth.verdicts.total()
    assert told["verdicts"] == dict(truth.verdicts)
    assert {cause["rule"]: cause["replicas"] for cause in told["causes"] if cause["replicas"]} == dict(
        truth.causes
    )
    for cause in told["causes"]:
        if cause["replicas"]:
            assert {place["node"] for place in cause["nodes"]} == truth.nodes[cause["rule"]], cause["rule"]
            assert sum(place["replicas"] for place in cause["nodes"]) == cause["replicas"]
    assert told["bytes"] == truth.bytes
    assert told["nodes"] == fleetlogs.NODES
    assert told["unread"] == []


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("few")
    fleetlogs.make(folder, small=24)
    return folder


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "html", "terminal"])
def test_the_output_is_the_same_whatever_reads(few: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process or two; and an engine that gives back what it has in another order."""
    folder = few
    one, two = fleet("--format", form, "--jobs", "1", folder), fleet("--format", form, "--jobs", "2", folder)
    real = local.run

    def backwards(tasks: Iterable[list[Task]], settings: Settings) -> Iterator[list[Done]]:
        yield from ([done] for rows in reversed(list(real(tasks, settings))) for done in reversed(rows))

    monkeypatch.setattr(local, "run", backwards)
    other = fleet("--format", form, "--jobs", "1", folder)
    assert one.printed == two.printed == other.printed
    assert one.printed


def test_rows_agree_with_the_answer(made: tuple[Path, Made]) -> None:
    folder, truth = made
    told = rows("--jobs", "2", folder)
    assert [row["input"] for row in told] == sorted(row["input"] for row in told)
    assert Counter(row["verdict"] for row in told) == truth.verdicts
    assert sum(row["bytes"] for row in told) == truth.bytes
    assert {row["node"] for row in told} == {f"node-{n + 1}" for n in range(fleetlogs.NODES)}
    read = list(csv.DictReader(io.StringIO(fleet("--format", "csv", folder / "node-2").printed)))
    assert list(read[0]) == list(fleet_data.COLUMNS)
    same = [row for row in told if row["node"] == "node-2"]
    assert [(r["input"], r["rule"] or None, int(r["line"])) for r in read] == [
        (r["input"], r["rule"], r["line"]) for r in same
    ]


def test_the_schema_is_that_of_the_types(made: tuple[Path, Made]) -> None:
    path = Path(__file__).parent.parent / "docs" / "fleet.schema.json"
    assert path.read_text(encoding="utf8") == fleet_data.schema(), (
        "python -m vdiag.render.fleet_data > docs/fleet.schema.json"
    )


# ---- causes ---------------------------------------------------------------------------------------------------


def test_unknown_causes_are_grouped_by_fingerprint_with_a_draft(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        (tmp_path / f"pod-{number}.log").write_bytes(UNKNOWN.replace(b"%d", str(number).encode()))
    (tmp_path / "pod-3.log").write_bytes(
        UNKNOWN.replace(b"PluginError", b"GadgetError").replace(b"load", b"turn")
    )
    told = answer(tmp_path, status=1)
    assert [cause["replicas"] for cause in told["unknown"]] == [3, 1]
    first = told["unknown"][0]
    assert first["draft"] == f"vdiag rules new --from {tmp_path}/pod-0.log:5"
    world = World()
    assert world.run(*first["draft"].split()[1:]) == 0, world.err.getvalue()
    assert "upside down" in capsys.readouterr().out


def test_a_title_tells_what_all_replicas_have_in_common(tmp_path: Path) -> None:
    log = (SAMPLES / "host-oom-kill.log").read_text()
    for number, pid in enumerate(("30412", "517", "88")):
        (tmp_path / f"{number}.log").write_text(log.replace("30412", pid))
    (cause,) = answer(tmp_path, status=1)["causes"]
    assert cause["title"] == "The kernel killed VLLM::EngineCor (pid …): the machine ran out of memory"
    (alone,) = answer(tmp_path / "1.log", status=1)["causes"]
    assert "pid 517" in alone["title"]


@pytest.mark.parametrize(
    ("titles", "text"),
    [
        (["a file of 16.00 GiB is gone", "a file of 4.71 GiB is gone"], "a file of … GiB is gone"),
        (["no module acme", "no module acme at all", "no module acme here"], "no module acme …"),
        (["no acme", "one acme or two acme"], "… acme"),
        (["card lost", "card 3 lost"], "card … lost"),
        (["17", "18"], ""),
        (["disk full", "disk full"], "disk full"),
    ],
)
def test_titles_have_one_text_in_any_order(titles: list[str], text: str) -> None:
    for order in (titles, titles[::-1], titles * 2):
        made = Titles()
        for title in order:
            made.add(title)
        assert made.text() == text


def test_first_and_last_time_over_the_fleet(tmp_path: Path) -> None:
    lines = (
        "2026-11-29T{time} node-{n} kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus.\n"
        "2026-11-29T{time} node-{n} vllm[812]: INFO 11-29 10:00:00 [api_server.py:1] vLLM API server version 0.11.0\n"
        "2026-11-29T{time} node-{n} vllm[812]: torch.AcceleratorError: CUDA error: unspecified launch failure\n"
    )
    # By the clock on the wall the second is first; by its zone it is last.
    for number, time in enumerate(("10:00:00+00:00", "09:30:00-05:00", "08:00:00+00:00")):
        (tmp_path / f"{number}.log").write_text(lines.format(time=time, n=number))
    told = answer(tmp_path, status=1)
    (cause,) = [cause for cause in told["causes"] if cause["replicas"]]
    assert (cause["first_at"], cause["last_at"]) == ("2026-11-29T08:00:00Z", "2026-11-29T14:30:00Z")
    assert cause["last_time"].startswith("2026-11-29T09:30:00")
    assert {place["node"] for place in cause["nodes"]} == {"node-0", "node-1", "node-2"}
    assert all(row["marks"] == {"gpu-off-bus": 1} for row in rows(tmp_path))


def test_a_client_mistake_is_no_failed_replica(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes((SAMPLES / "real-healthy-with-client-404.log").read_bytes())
    told = answer(tmp_path, status=0)
    assert told["failed"] == 0
    assert [cause["severity"] for cause in told["causes"]] == ["client"]


# ---- nodes that stand out -----------------------------------------------------------------------------------------


def test_a_node_stands_out_only_beyond_chance() -> None:
    nodes = {f"n{i}": 10 for i in range(20)}
    evenly = {(node, "disk-full"): 2 for node in nodes}
    assert outliers(nodes, evenly) == []
    (found,) = outliers(nodes, {**evenly, ("n3", "Xid 79"): 4})
    assert (found.node, found.what, found.here, found.elsewhere) == ("n3", "Xid 79", 4, 0)
    assert found.chance < 0.01


def test_never_from_a_single_case() -> None:
    assert outliers({"a": 1, "b": 100_000}, {("a", "Xid 79"): 1}) == []
    assert outliers({"a": 50}, {("a", "Xid 79"): 50}) == [], "there is nothing to compare it with"


def test_the_chance_is_that_of_the_hypergeometric_distribution() -> None:
    """Three of three replicas of a node, none of the other seven: one in (10 over 3) = 120 deals, over two tests."""
    (found,) = outliers({"a": 3, "b": 997}, {("a", "x"): 3, ("b", "y"): 2})[:1]
    assert found.chance == pytest.approx(2 * 6 / (1000 * 999 * 998), rel=0.02)


# ---- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "node", "replica"),
    [
        ("logs/node-17/pod-3.log", "node-17", "pod-3"),
        ("logs/host=gx7.acme.lan/replica=r2/vllm.log.gz", "gx7.acme.lan", "r2"),
        ("s3://acme-logs/2026-11-29/gpu-07/vllm.log", "gpu-07", "gpu-07/vllm"),
        ("/var/log/pods/serve_llm-7f9c-x2x_1d3b2c4e-aaaa-bbbb-cccc-0123456789ab/vllm/0.log", "", "serve/llm-7f9c-x2x/vllm"),
        (f"/var/log/containers/llm-7f9c-x2x_serve_vllm-{'0a' * 32}.log", "", "serve/llm-7f9c-x2x/vllm"),
        ("worker12.log", "worker12", "worker12"),
        ("10.4.0.17/server.out", "10.4.0.17", "10.4.0.17/server"),
        ("2026-11-29/vllm.log", "", "vllm"),
    ],
)  # fmt: skip
def test_names_from_paths(path: str, node: str, replica: str) -> None:
    assert named(path) == (node, replica)


def test_a_pattern_of_ones_own(tmp_path: Path) -> None:
    own = pattern(r"(?P<node>rack\d+)-(?P<replica>\w+)\.log")
    assert named("x/rack7-blue.log", own) == ("rack7", "blue")
    assert named("x/node-3/blue.log", own) == ("node-3", "blue")
    (tmp_path / "rack7-blue.log").write_bytes(OOM)
    (row,) = rows("--name", r"(?P<node>rack\d+)", tmp_path)
    assert row["node"] == "rack7"
    for wrong in ("(", "rack"):
        assert "--name" in fleet("--name", wrong, tmp_path, status=2).err.getvalue()


def test_the_host_in_the_log_where_the_path_has_none(tmp_path: Path) -> None:
    text = "".join(
        f"Nov 29 10:12:{n % 60:02} gx-41 vllm[812]: {line}\n"
        for n, line in enumerate(OOM.decode().splitlines())
    )
    (tmp_path / "a.log").write_text(text)
    pods = "".join(f"[pod/llm-7f9c-x2x/vllm] {line}\n" for line in OOM.decode().splitlines())
    (tmp_path / "vllm.log").write_text(pods)
    by_name = {Path(row["input"]).name: row for row in rows(tmp_path)}
    assert by_name["a.log"]["node"] == "gx-41"
    assert by_name["vllm.log"]["replica"] == "llm-7f9c-x2x/vllm"


# ---- what is read ---------------------------------------------------------------------------------------------


def test_one_log_rotated_set_or_bundle_is_one_replica(tmp_path: Path) -> None:
    half = OOM.rfind(b"\n", 0, len(OOM) // 2) + 1
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "vllm.log.1").write_bytes(OOM[:half])
    (tmp_path / "node-1" / "vllm.log").write_bytes(OOM[half:])
    (tmp_path / "node-2.log").write_bytes(HEALTHY)
    (tmp_path / "notes.md").write_text("no log")
    with tarfile.open(tmp_path / "node-3.tar.gz", "w:gz") as bundle:
        for sample in ("only-the-trailer.log", "host-oom-kill.log"):
            bundle.add(SAMPLES / sample, sample)
    told = rows(tmp_path)
    assert [row["node"] for row in told] == ["node-1", "node-2", "node-3"]
    whole = rows(SAMPLES / "cuda-oom-serving.log")[0]
    assert told[0]["rule"] == whole["rule"]
    assert (told[0]["bytes"], told[0]["lines"]) == (whole["bytes"], whole["lines"])
    assert told[0]["input"].endswith("vllm.log")
    assert told[2]["source"].endswith("node-3.tar.gz:host-oom-kill.log")
    assert told[2]["failed"]


def test_patterns_and_what_is_named_twice(tmp_path: Path) -> None:
    for name in ("a/x.log", "a/b/y.log", "a/b/z.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(OOM)
    assert len(find([f"{tmp_path}/**/*.log"]).tasks) == 2
    assert len(find([f"{tmp_path}/**/*.log", f"{tmp_path}/a/x.log", str(tmp_path)]).tasks) == 3
    assert "no file fits" in fleet(f"{tmp_path}/*.gz", status=2).err.getvalue()
    assert "nowhere" in fleet(tmp_path / "nowhere", status=2).err.getvalue()


def test_what_cannot_be_read_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "good.log").write_bytes(HEALTHY)
    (tmp_path / "broken.log.gz").write_bytes(b"\x1f\x8b\x08\x00" + b"\xff" * 600)
    told = answer(tmp_path, status=3)
    assert (told["replicas"], told["verdicts"]) == (2, {"healthy": 1, "unread": 1})
    (row,) = told["unread"]
    assert row["input"].endswith("broken.log.gz")
    assert row["error"]
    (tmp_path / "bad.log").write_bytes(OOM)
    assert answer(tmp_path, status=1)["failed"] == 1


def test_a_fault_of_ours_is_a_row(tmp_path: Path, here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.log").write_bytes(OOM)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("what nobody thought of")

    monkeypatch.setattr("vdiag.fleet.work.examine", broken)
    told = answer(tmp_path, status=3)
    assert "what nobody thought of" in told["unread"][0]["error"]


def test_a_window_of_time(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(OOM)
    assert answer("--since", "2020-01-01", tmp_path)["replicas"] == 1
    assert (
        "--state" in fleet("--since", "-2h", "--state", tmp_path / "s.db", tmp_path, status=2).err.getvalue()
    )


def test_a_folder_without_logs(tmp_path: Path) -> None:
    assert "no log in it" in fleet(tmp_path, status=2).err.getvalue()


# ---- URLs -------------------------------------------------------------------------------------------------------


@pytest.fixture
def remote() -> Iterator[Callable[[str, bytes], None]]:
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")

    def put(path: str, data: bytes) -> None:
        system.pipe(path, data)

    yield put
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def test_urls(remote: Callable[[str, bytes], None], here: None, tmp_path: Path) -> None:
    import gzip
    import zipfile

    remote("/fleet/node-1/a.log", OOM)
    remote("/fleet/node-2/b.log.gz", gzip.compress(HEALTHY))
    remote("/fleet/node-2/model.bin", b"\0" * 100)
    for url in ("memory://fleet", "memory://fleet/*/*.log*"):
        told = rows(url)
        assert [(row["node"], row["verdict"]) for row in told] == [
            ("node-1", "diagnosed"),
            ("node-2", "healthy"),
        ]
        assert all(row["input"].startswith("memory://") for row in told)
    (row,) = rows(told[0]["input"])
    assert row == told[0]
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as bundle:
        bundle.writestr("node-7/a.log", OOM)
        bundle.writestr("node-8/b.log", HEALTHY)
    told = rows(f"zip://**/*.log::{tmp_path}/x.zip")
    assert [(row["node"], row["failed"]) for row in told] == [("node-7", True), ("node-8", False)]


def test_a_url_that_leads_nowhere(remote: Callable[[str, bytes], None]) -> None:
    assert "memory://nowhere" in fleet("memory://nowhere/x.log", status=2).err.getvalue()


def test_urls_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert "pip install 'vdiag[remote]'" in fleet("s3://acme-logs/x.log", status=2).err.getvalue()


# ---- the engine -----------------------------------------------------------------------------------------------


def test_portions_are_few_and_the_largest_come_first() -> None:
    tasks = [Task(f"{n}", (f"{n}",), size=1000 + n) for n in range(5000)] + [
        Task("big", ("big",), size=LARGE * 3)
    ]
    told = list(chunks(tasks, 2))
    assert told[0] == [tasks[-1]]
    assert all(len(portion) <= MOST for portion in told)
    assert sorted(task.name for portion in told for task in portion) == sorted(task.name for task in tasks)
    assert len(told) < 400
    assert len(list(chunks(tasks[:16], 2))) == 16, "few tasks are spread over all processes"


def test_few_portions_are_handed_out_at_a_time(tmp_path: Path) -> None:
    """However many tasks there are, no more than two portions for each process are taken before rows come back."""
    (tmp_path / "a.log").write_bytes(HEALTHY)
    taken = came = most = 0

    def portions() -> Iterator[list[Task]]:
        nonlocal taken, most
        for number in range(40):
            taken += 1
            most = max(most, taken - came)
            yield [Task(f"{number}", (str(tmp_path / "a.log"),))]

    for rows_ in local.run(portions(), Settings(jobs=2)):
        came += len(rows_)
    assert came == 40
    assert most <= local.AHEAD * 2 + 2


def test_a_worker_that_is_killed_is_a_row(tmp_path: Path) -> None:
    """The rules of this task make its process kill itself: here, by a file that only opening tells."""
    import os
    import threading

    good = tmp_path / "good.log"
    good.write_bytes(OOM)
    pipe = tmp_path / "deadly.log"
    os.mkfifo(pipe)  # whoever opens it waits, and is shot meanwhile
    tasks = [Task(f"good-{n}", (str(good),)) for n in range(12)]
    tasks.insert(5, Task("deadly", (str(pipe),)))
    import multiprocessing
    import signal
    import time

    over = threading.Event()

    def shoot() -> None:
        while not over.is_set():
            for child in multiprocessing.active_children():
                assert child.pid is not None
                try:
                    waits = Path(f"/proc/{child.pid}/wchan").read_text()
                except OSError:
                    continue
                if "fifo" in waits or waits == "wait_for_partner":
                    os.kill(child.pid, signal.SIGKILL)
            time.sleep(0.05)

    hunter = threading.Thread(target=shoot)
    hunter.start()
    try:
        came = [done for rows_ in local.run(([task] for task in tasks), Settings(jobs=2)) for done in rows_]
    finally:
        over.set()
        hunter.join()
    by_name = {done.row.input: done.row for done in came}
    assert len(came) == len(by_name) == 13
    assert by_name.pop("deadly").error == local.KILLED
    assert {row.rule for row in by_name.values()} == {"cuda-oom-serving"}


def test_a_worker_reads_the_same_whatever_it_read_before(tmp_path: Path) -> None:
    logs = sorted(SAMPLES.glob("*.log"))
    tasks = [Task(str(path), (str(path),)) for path in logs]
    worker = Worker(Settings())
    worker.rows(tasks)
    again = worker.rows(tasks)
    fresh = [Worker(Settings()).rows([task])[0] for task in tasks[:8]]
    assert again[:8] == fresh
