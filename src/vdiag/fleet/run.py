"""One run over a fleet: tasks go to an engine, its rows are remembered and folded as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Protocol

from vdiag.fleet.fold import Folded
from vdiag.fleet.spool import Spool
from vdiag.fleet.task import Done, Settings, Task, each

Engine = Callable[[Iterable[list[Task]], Settings], Iterator[list[Done]]]


class Memory(Protocol):
    """What remembers rows between runs."""

    def keep(self, rows: list[Done]) -> list[Done]:
        """Remembers these rows, all or none; the rows as they stand with what was known before."""


class StateError(Exception):
    """A file cannot serve as a memory; the text says why."""


def gather(
    portions: Iterable[list[Task]],
    settings: Settings,
    engine: Engine,
    *,
    known: Iterable[Done] = (),
    memory: Memory | None = None,
    spool: Spool | None = None,
    progress: Callable[[list[Done]], None] | None = None,
) -> tuple[Folded, bool]:
    """All rows folded, and whether Ctrl-C cut the run short: then those that were there by then.

    `known` are rows that need no reading; with a `spool` every row is kept for an output that lists them.
    """
    folded = Folded()

    def take(done: Done) -> None:
        for one in each(done):
            folded.add(one)
            if spool is not None:
                spool.add(one.row)

    interrupted = False
    try:
        for done in known:
            take(done)
        with closing(engine(portions, settings)) as coming:  # type: ignore[type-var]
            for rows in coming:
                for done in memory.keep(rows) if memory is not None else rows:
                    take(done)
                if progress is not None:
                    progress(rows)
    except KeyboardInterrupt:
        interrupted = True
    return folded, interrupted
