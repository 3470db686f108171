"""Ray's processes, on this machine or on a cluster: the same function, mapped over the tasks by Ray Data.

Ray hands portions out, tries what is lost with a process or a node again, and streams the rows back. A portion is
counted by its number when its rows arrive, so that none is lost or counted twice.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any
from warnings import catch_warnings, simplefilter

import msgspec

from vdiag.fleet.chunks import chunks
from vdiag.fleet.engines import EngineError
from vdiag.fleet.engines.local import KILLED, cores
from vdiag.fleet.task import Done, Settings, Task
from vdiag.fleet.work import unread
from vdiag.fleet.worker import Worker, mark, rulebook
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.places import default_user_paths
from vdiag.rulebook.shipped import shipped

MISSING = "--engine ray needs Ray: pip install 'vdiag[fleet]'"
PATIENCE = 10  # seconds for an address to answer
SETTINGS_FRAME = 4  # the first thing that both sides of HTTP/2 send
RETRIES = 2  # further tries of a portion whose process or node is lost, before its tasks are tried alone
MOST_BLOCKS = 4096  # pieces that Ray keeps count of; of more portions several share one
STORE = 256 << 20  # bytes of shared memory for a Ray that is started here: tasks and rows are small


def run(tasks: Iterable[list[Task]], settings: Settings) -> Iterator[list[Done]]:
    """The rows of each portion of tasks, as they come. EngineError. Closing the iterator ends the job.

    The portions are made anew, for as many processes as Ray has. What is lost again and again is tried once more,
    each task alone, then becomes a row.
    """
    everything = [task for portion in tasks for task in portion]
    if not everything:
        return
    with _connected(settings) as cpus:
        processes = settings.jobs or cpus
        told = (mark(shipped()), pickle.dumps(settings), _own_rules(settings), os.getcwd())
        left = list(chunks(everything, processes))
        for _ in range(2):
            waiting = dict(enumerate(left))
            with closing(_mapped(waiting, processes, told)) as coming:  # type: ignore[type-var]
                for number, rows in coming:
                    if waiting.pop(number, None) is not None:
                        yield rows
            left = [[task] for portion in waiting.values() for task in portion]
            if not left:
                return
        for (task,) in left:
            yield [unread(task, KILLED)]


class Reader:
    """What Ray keeps in each process: a worker, with the rulebook that the caller has."""

    def __init__(self, shipped_: str, settings: bytes, rules: bytes, folder: str) -> None:
        """`shipped_` marks the caller's shipped rulebook, `rules` hold its rulebook if there are rules of one's own."""
        if shipped_ != mark(shipped()):
            raise RuntimeError(
                "another version of vdiag is installed on a node of Ray than where it was called"
            )
        with suppress(OSError):
            os.chdir(folder)  # paths may be relative
        book = msgspec.msgpack.decode(rules, type=Rulebook) if rules else shipped()
        self._worker = Worker(pickle.loads(settings), book)

    def __call__(self, batch: Any) -> Any:
        """A table of numbers and pickled portions to one of numbers and pickled rows."""
        import pyarrow

        rows = [pickle.dumps(self._worker.rows(pickle.loads(data.as_py()))) for data in batch["data"]]
        return pyarrow.table({"number": batch["number"], "data": pyarrow.array(rows, pyarrow.large_binary())})


def _own_rules(settings: Settings) -> bytes:
    """The whole rulebook where it is not the shipped one: files with rules are only where vdiag was called."""
    own = settings.rules or default_user_paths()
    return msgspec.msgpack.encode(rulebook(settings.rules)) if own else b""


def _mapped(
    portions: dict[int, list[Task]], processes: int, told: tuple[str, bytes, bytes, str]
) -> Iterator[tuple[int, list[Done]]]:
    """Numbers of portions with their rows; those that Ray gave up are left out. `told` is for each `Reader`."""
    import ray

    held = [{"number": number, "data": pickle.dumps(portion)} for number, portion in portions.items()]
    count = min(processes, len(held))
    try:
        with _quiet():
            given = ray.data.from_items(held, override_num_blocks=min(len(held), MOST_BLOCKS))
            with catch_warnings():
                simplefilter("ignore")  # of arguments that a later Ray no longer takes, see pyproject.toml
                rows = given.map_batches(
                    Reader,
                    fn_constructor_args=told,
                    batch_size=1,
                    batch_format="pyarrow",
                    compute=ray.data.ActorPoolStrategy(min_size=1, max_size=count, initial_size=count),
                    num_cpus=1,
                    max_restarts=-1,
                    max_task_retries=RETRIES,
                )
            for batch in rows.iter_batches(batch_size=None, batch_format="pyarrow"):
                for number, data in zip(batch["number"], batch["data"], strict=True):
                    yield number.as_py(), pickle.loads(data.as_py())
    except ray.exceptions.RayError as error:
        raise EngineError(f"Ray: {_why(error)}") from None


@contextmanager
def _connected(settings: Settings) -> Iterator[int]:
    """A connection for as long as it is needed, and how many processes Ray has room for; one that is there is kept.

    Without an address it is that of RAY_ADDRESS, or of a Ray that runs on this machine, or one started for this run.
    """
    os.environ.setdefault(
        "RAY_USAGE_STATS_ENABLED", "0"
    )  # of a Ray that is started here: nothing is sent anywhere
    try:
        import ray
        import ray.data
    except ImportError:
        raise EngineError(MISSING) from None
    ours = not ray.is_initialized()
    try:
        if ours:
            _connect(ray, settings)
        yield max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any, settings: Settings) -> None:
    address = settings.address or os.environ.get("RAY_ADDRESS", "")
    if address not in ("", "auto", "local"):
        _must_answer(address)
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    try:
        if address != "local":
            try:
                ray.init(address=address or "auto", **quiet)
                return
            except ConnectionError:
                if address:
                    raise
        jobs = settings.jobs or cores()
        ray.init(address="local", num_cpus=jobs, object_store_memory=STORE, include_dashboard=False, **quiet)
    except Exception as error:
        raise EngineError(f"Ray {address or 'on this machine'}: {_why(error)}") from None


def _must_answer(address: str) -> None:
    """EngineError unless what speaks Ray's protocol, which is HTTP/2, listens at an address: Ray itself waits long."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal() or int(port) > 65535:
        raise EngineError(
            f"{address}: not an address of Ray's head as in `ray start`; it looks like 10.0.0.5:6379"
        )
    greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, SETTINGS_FRAME, 0, 0, 0, 0, 0])
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE) as line:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            line.settimeout(PATIENCE)
            line.sendall(greeting)
            answer = line.recv(9)
    except OSError as error:
        raise EngineError(f"{address}: no Ray answers there ({error.strerror or error})") from None
    if answer[3:4] != bytes([SETTINGS_FRAME]):
        raise EngineError(f"{address}: what answers there is not Ray's head")


@contextmanager
def _quiet() -> Iterator[None]:
    """Ray Data without its own progress and messages; a portion that is lost ends nothing."""
    from ray.data import DataContext

    context = DataContext.get_current()
    told = {
        "enable_progress_bars": False,
        "max_errored_blocks": -1,
        "execution_no_progress_timeout_s": -1,  # a large log takes its time
    }
    before = {name: getattr(context, name) for name in told if hasattr(context, name)}
    logger = logging.getLogger("ray.data")
    level = logger.level
    try:
        for name in before:
            setattr(context, name, told[name])
        logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        logger.setLevel(level)


def _why(error: Exception) -> str:
    """The last line of an error, which of a remote one is its cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else type(error).__name__)[:300]
