"""Rotated sets (`vllm.log`, `vllm.log.1`, `vllm.log.2.gz`): which files belong together, read on end, oldest first.

A set is one source, so that a traceback or a run of the server goes on across the rotation. Its lines are numbered
through; `Continued.parts` tells which of them are which file's, and the report names each line by its own file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, NamedTuple, cast

from vdiag.model import Gap, Input

PIECE = 1 << 20  # bytes read at a time, since their lines are counted in a copy
_PACKED = re.compile(r"\.(?:gz|xz|bz2|zst|zstd)$")
_NUMBERED = re.compile(r"(?P<base>.+)\.(?P<number>\d{1,4})$")
_DATED = re.compile(
    r"(?P<base>.+)[.-](?P<date>\d{4}-?\d\d-?\d\d(?:[-_T.]?\d\d[-:_]?\d\d(?:[-:_]?\d\d)?|-\d{10})?)$"
)
_LOGLIKE = re.compile(r"(?:\.(?:log|out|err|txt|json|jsonl)|syslog|messages|dmesg|journal)$", re.IGNORECASE)


class Place(NamedTuple):
    """Where a file stands in its set: oldest first."""

    base: str  # the name of the live file
    age: tuple[int, int, str]  # sorts from old to new


def place(name: str) -> Place:
    """The set that a file's name belongs to, and its place in it."""
    bare = _PACKED.sub("", name)
    for pattern, rank in ((_DATED, 0), (_NUMBERED, 1)):
        found = pattern.match(bare)
        if found and _LOGLIKE.search(found["base"]):
            if rank:
                return Place(found["base"], (1, -int(found["number"]), name))
            return Place(found["base"], (0, 0, re.sub(r"\D", "", found["date"])))
    return Place(bare, (2, 0, name))


def sets(
    names: Sequence[str],
    of: Callable[[str], Any] = place,
    apart: Callable[[tuple[Any, ...]], Any] = lambda age: age[:2] if age[0] else age,
) -> list[list[int]]:
    """Indices of the names, those of one set together and oldest first; sets in order of appearance.

    `of` gives each name its `base`, the same in a set, and its `age`. Two files of the same age (`a.log` and `a.log.gz`)
    are no rotation: `apart` gives what of an age must differ.
    """
    spots = [of(name) for name in names]
    groups: dict[str, list[int]] = {}
    for index, spot in enumerate(spots):
        groups.setdefault(spot.base, []).append(index)
    found: list[list[int]] = []
    for group in groups.values():
        if len({apart(spots[i].age) for i in group}) == len(group):
            found.append(sorted(group, key=lambda i: spots[i].age))
        else:
            found += [[i] for i in group]
    return sorted(found, key=min)


class Continued(io.RawIOBase):
    """Several streams read on end; a last line without its line end gets one. Keeps count of each for itself."""

    def __init__(self, openers: Sequence[tuple[str, Callable[[], BinaryIO]]]) -> None:
        """`openers`: name and way to open of each part, in order. A part that can't be read becomes its gap."""
        self._openers = list(openers)
        self._stream: BinaryIO | None = None
        self._ended_line = True
        self.parts: list[Input] = []

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer)[:PIECE]
        while view:
            if self._stream is None:
                if not self._openers:
                    return 0
                self._next()
                continue
            size = self._read(self._stream, view)
            if size:
                part = self.parts[-1]
                part.bytes += size
                part.lines += bytes(view[:size]).count(b"\n")
                self._ended_line = view[size - 1] == 10
                return size
            self._stream.close()
            self._stream = None
            if not self._ended_line:
                self.parts[-1].lines += 1
                self._ended_line = True
                if self._openers:
                    view[0] = 10
                    return 1
        return 0

    def _next(self) -> None:
        name, opener = self._openers.pop(0)
        self.parts.append(Input(name))
        try:
            self._stream = opener()
        except Exception as error:  # OSError, SourceError, or what a damaged archive raises
            why = getattr(error, "strerror", None) or error
            self.parts[-1].gaps.append(Gap(what=f"could not be read: {why}"))

    def _read(self, stream: BinaryIO, view: memoryview) -> int:
        try:
            return cast(io.RawIOBase, stream).readinto(view) or 0
        except Exception as error:  # damaged compressed data raises what its library likes
            part = self.parts[-1]
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            part.gaps.append(Gap(what=f"reading ended early: {why}", line=part.lines))
            return 0

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        super().close()
