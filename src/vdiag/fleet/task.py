"""What a worker is given and gives back; all of it can be pickled."""

from __future__ import annotations

import msgspec

from vdiag.fleet_model import Row
from vdiag.reason.window import Window


class Resume(msgspec.Struct, frozen=True):
    """Where an earlier run ended: in which of the task's paths, behind how many bytes and lines of it.

    Bytes are those of the text, after decompression. `tail` is a hash of the last ones before the offset.
    """

    path: int
    offset: int
    lines: int
    tail: str
    complete: bool  # everything that was read then is still there


class Task(msgspec.Struct, frozen=True):
    """One replica to read: a log, a rotated set (oldest first), or a bundle."""

    name: str
    paths: tuple[str, ...]
    node: str = ""
    replica: str = ""
    size: int = 0  # bytes as it lies there, 0 if unknown
    changed: float = 0.0  # when it was written last, in seconds since 1970; 0: unknown
    resume: Resume | None = None


class Settings(msgspec.Struct, frozen=True):
    """What is the same for all tasks."""

    rules: tuple[str, ...] = ()  # as for `--rules`
    window: Window | None = None
    jobs: int = 0  # processes; 0: one for each core
    remember: bool = False  # rows tell how far they got, in `Done.seen`
    redact: bool = False  # rows tell the names that stand in them, in `Done.told`
    address: str = ""  # of a Ray that runs; "": as engines/ray.py tells


class Seen(msgspec.Struct):
    """How far one path of a task was read, and by what its content is known again."""

    offset: int
    lines: int
    head: str  # hash of the first `head_size` bytes
    head_size: int
    tail: str  # hash of the last bytes before `offset`


class Done(msgspec.Struct):
    """A row with what only folding and remembering need."""

    row: Row
    first: float | None = None  # seconds, to compare with other rows: when it failed first
    last: float | None = None
    how: str = "whole"  # whole | resumed | fresh: what this reading means for an earlier one of the same log
    before: dict[str, int] = {}  # how often each cause stands in what was read again only for context
    seen: list[Seen] = []  # for each path
    told: list[
        tuple[str, str]
    ] = []  # kind and value of what redaction found anywhere in the log and is in the row
    who: str = ""  # under which name a server writes into its log; "": none is told
    slot: str = ""  # by which its counts are remembered among those of the same log
    outside: str = ""  # what is said of a log without a line in the time asked for
    more: list[Done] = []  # of other servers that write into the same log


def each(done: Done) -> list[Done]:
    """The rows of all servers that write into a log."""
    return [done, *done.more]
