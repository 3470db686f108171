"""Which files are of one replica: a rotated set, both streams of a process, a container's restarts, a log kept by date."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from vdiag.intake import rotated

_STREAM = re.compile(
    r"(?P<stem>.*[^/])(?P<sign>[.-])(?P<stream>out|err|error|stdout|stderr)(?P<rest>(?:-\d+)?\.log|)$",
    re.IGNORECASE,
)
# kubelet's NAMESPACE_POD_UID/CONTAINER/RESTARTS.log
_RESTART = re.compile(
    r"(?P<container>(?:.*/)?[a-z0-9.-]+_[a-z0-9.-]+_[0-9a-f-]{32,36}/[^/]+)/(?P<restart>\d{1,6})\.log$"
)
_DATE = re.compile(r"20\d\d(?:[-_.]?\d\d){0,3}|(?:year|month|day|hour|date|dt)=[\dT:_-]+", re.IGNORECASE)
_REST_OF_DATE = re.compile(r"\d\d")  # `11`, `29` and the hour in `2026/11/29/02`


class Spot(NamedTuple):
    """Where a file stands among those of its replica: oldest first."""

    base: str  # the same for all of them, and for later ones
    age: tuple[Any, ...]


def spot(path: str) -> Spot:
    """The replica that a file belongs to by its path, and its place there."""
    base, age = rotated.place(path)
    restart = stream = 0
    if found := _RESTART.match(base):
        base, restart = found["container"], int(found["restart"])
    elif found := _STREAM.match(base):
        base = f"{found['stem']}{found['sign']}*{found['rest']}"
        stream = int(found["stream"][0] in "eE" or found["stream"].lower() == "stderr")
    folders, slash, name = base.rpartition("/")
    kept, dates = _undated(folders)
    return Spot(
        f"{kept}{slash}{name}", (dates, restart, age[0], age[1:] if age[0] == 0 else age[1:2], stream)
    )


def sets(paths: Sequence[str]) -> list[list[int]]:
    """Indices of the paths, those of one replica together and oldest first; in order of appearance."""
    return rotated.sets(paths, spot, tuple)


def _undated(folders: str) -> tuple[str, tuple[str, ...]]:
    """Folders without those that are a date or an hour, and these."""
    kept: list[str] = []
    dates: list[str] = []
    within = False
    for part in folders.split("/"):
        within = _DATE.fullmatch(part) is not None or (within and _REST_OF_DATE.fullmatch(part) is not None)
        (dates if within else kept).append(part)
    return "/".join(kept), tuple(dates)
