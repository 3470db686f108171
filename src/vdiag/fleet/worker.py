"""What a process keeps between tasks: the rulebook, and all that was compiled of it."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait
from zlib import crc32

from vdiag import __version__
from vdiag.fleet.task import Done, Settings, Task
from vdiag.fleet.work import row
from vdiag.match.matcher import Matcher
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.load import load
from vdiag.rulebook.places import default_user_paths
from vdiag.rulebook.shipped import shipped


class Worker:
    """Reads tasks, one after the other."""

    def __init__(self, settings: Settings, book: Rulebook | None = None) -> None:
        """Without a rulebook it is the one that the settings name."""
        gc.set_threshold(100_000)  # a rulebook is thousands of small values that live as long as the process
        self._settings = settings
        self._matcher = Matcher(rulebook(settings.rules) if book is None else book)
        self._matcher.prepare()

    def rows(self, tasks: list[Task]) -> list[Done]:
        """A row for each task."""
        return [row(task, self._matcher, self._settings) for task in tasks]


def rulebook(rules: tuple[str, ...]) -> Rulebook:
    """The rulebook that `--rules` means; what is wrong in it was said before, and is left out."""
    paths = [path for path in rules if path != "none"]
    if "none" not in rules:
        paths = [*map(str, default_user_paths()), *paths]
    base = Rulebook() if "none" in rules else shipped()
    return load(paths, base=base, collect=[]) if paths else base


def mark(book: Rulebook) -> str:
    """What changes with the wordings of a rulebook, or with vdiag."""
    told = "\n".join(f"{pattern.rule} {pattern.source}" for pattern in book.patterns)
    return f"{__version__}-{len(book.patterns)}-{crc32(told.encode('utf-8', 'replace')):08x}"


_worker: Worker | None = None  # of this process


def begin(settings: Settings) -> None:
    """Prepares a process of a pool. Ctrl-C is its parent's affair; when that is killed, it ends."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.lastResort = logging.NullHandler()  # what libraries log is in the row's error, where it matters
    threading.Thread(target=_outlive_no_parent, daemon=True).start()
    _worker = Worker(settings)


def _outlive_no_parent() -> None:
    """A process of a pool waits for ever for tasks that a killed parent no longer sends."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def work(tasks: list[Task]) -> list[Done]:
    """A row for each task, in a process that `begin` prepared."""
    assert _worker is not None
    return _worker.rows(tasks)
