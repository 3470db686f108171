"""Which files of a replica were read before, under whatever name: by identity, else by their first bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vdiag.fleet.found import File
from vdiag.fleet.streams import SAMPLE, digest, exactly, open_at
from vdiag.fleet.task import Resume, Task


class Part(NamedTuple):
    """One file of a replica, and how far it was read; the fields are those of the table."""

    path: str
    mark: str  # changes when the content does
    size: int  # bytes as it lay there
    offset: int = 0  # bytes of its text that were read
    lines: int = 0
    head: str = ""  # hash of the first `head_size` bytes of its text
    head_size: int = 0
    tail: str = ""  # hash of the last bytes before `offset`


class Known(NamedTuple):
    """What of a task was read before."""

    parts: list[Part | None]  # for each path of the task
    unchanged: bool  # nothing is new
    complete: bool  # all that was read is still there
    resume: Resume | None  # where to go on; None: read all of it


def recognise(task: Task, parts: Sequence[Part], files: Mapping[str, File]) -> Known:
    """What a task's files are among those that were read before."""
    left = list(parts)
    found: list[Part | None] = []
    exact = True
    for path in task.paths:
        file = files[path]
        same = next((p for p in left if file.mark and (p.mark, p.size) == (file.mark, file.size)), None)
        if same is None:
            exact = False
            same = _by_head(path, left)
        if same is not None:
            left.remove(same)
        found.append(same)
    complete = not left
    last = max((i for i, part in enumerate(found) if part is not None), default=-1)
    if last < 0:
        return Known(found, False, not any(part.head_size for part in parts), None)
    if any(part is None for part in found[:last]):  # a file came in between: all of it anew
        return Known(found, False, True, None)
    if any(_grew(path, part, files) for path, part in zip(task.paths[:last], found, strict=False)):
        return Known(found, False, complete, None)  # both streams of a process go on
    part = found[last]
    assert part is not None
    if not part.tail:  # a bundle, which is read as a whole
        return Known(found, exact, True, None)
    resume = Resume(last, part.offset, part.lines, part.tail, complete)
    return Known(found, exact, complete, resume)


def _grew(path: str, part: Part | None, files: Mapping[str, File]) -> bool:
    return part is not None and part.path == path and files[path].size > part.size


def _by_head(path: str, parts: list[Part]) -> Part | None:
    """The part whose first bytes a file begins with; one of the same name first."""
    if not any(part.head_size for part in parts):
        return None
    try:
        with open_at(path) as stream:
            head = exactly(stream, SAMPLE)
    except Exception:  # what can't be read is told when it is read
        return None
    fitting = [
        p for p in parts if p.head_size and digest(head[: p.head_size]) == p.head and len(head) >= p.head_size
    ]
    return next((part for part in fitting if part.path == path), fitting[0] if fitting else None)
