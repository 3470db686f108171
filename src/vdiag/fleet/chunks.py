"""Tasks in portions: what is large by itself and first, so that no core is left with it at the end; small logs
together, so that handing them over costs little."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vdiag.fleet.task import Task

LARGE = 1 << 20  # bytes from which a task is a portion of its own
MOST = 32  # tasks in a portion
SHARES = 8  # portions for each process, at least, while there are so many tasks


def chunks(tasks: Sequence[Task], jobs: int) -> Iterator[list[Task]]:
    """The tasks in portions, the largest first."""
    ordered = sorted(tasks, key=lambda task: (-task.size, task.name))
    most = max(1, min(MOST, len(ordered) // (SHARES * max(jobs, 1))))
    portion: list[Task] = []
    size = 0
    for task in ordered:
        if portion and (len(portion) >= most or size + task.size > LARGE):
            yield portion
            portion, size = [], 0
        portion.append(task)
        size += task.size
    if portion:
        yield portion
