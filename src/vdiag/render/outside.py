"""An input that `--since` and `--until` leave empty, told in one sentence with its times in one format."""

from __future__ import annotations

import re
from time import gmtime, strftime

from vdiag.model import Gap, Input
from vdiag.reason.clock import YEARLESS, parse

# As reason/window.py writes it.
_TOLD = re.compile(
    r"no line of it lies in the time asked for \((?:since (?P<since>.+?))? ?(?:until (?P<until>.+?))?\): "
    r"its times run from (?P<first>.+) to (?P<last>.+)"
)


def outside(read: Input, gap: Gap) -> str:
    """`Nothing in vllm.log lies after 10:00 today; its times run from … to …`; empty for any other gap."""
    told = _TOLD.fullmatch(gap.what)
    if told is None:
        return ""
    since, until = (_moment(told[end]) if told[end] else "" for end in ("since", "until"))
    where = (
        f"between {since} and {until}"
        if since and until
        else f"after {since}"
        if since
        else f"before {until}"
    )
    first, last = _alike(told["first"], told["last"])
    return f"Nothing in {read.name} lies {where}; its times run from {first} to {last}"


def _moment(given: str) -> str:
    """A moment as it was given, and what it leaves out."""
    if re.fullmatch(r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?", given):
        return f"{given} today"
    return f"{given[1:].strip()} ago" if given.startswith("-") else given


def _alike(first: str, last: str) -> tuple[str, str]:
    """Two printed times in one format, with the year if both have one."""
    stamps = [parse(text) for text in (first, last)]
    known = [stamp for stamp in stamps if stamp is not None]
    if len(known) < 2:
        return first, last
    form = "%m-%d %H:%M:%S" if any(stamp.kind == YEARLESS for stamp in known) else "%Y-%m-%d %H:%M:%S"
    said = [strftime(form, gmtime(stamp.wall)) for stamp in known]
    return said[0], said[1]


__all__ = ["outside"]
