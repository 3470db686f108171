"""`--since` and `--until`: which records of an input lie in a stretch of time.

Times are compared as the log prints them: a moment given without a zone means the clock of the log, a span before
now means this machine's. A record without a time follows the one before it; line numbers stay as they are.
"""

from __future__ import annotations

import re
import time
from calendar import timegm
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vdiag.model import Gap, Record
from vdiag.reason.clock import UPTIME, UTC, Stamp, in_year_of, parse
from vdiag.reason.speakers import Who, is_servers, who

MOST_WAITING = 20_000  # records held back until the first time is seen

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN = re.compile(r"-?\s*((?:\d+(?:\.\d+)?\s*[a-z]+\s*)+?)(?:\s*ago)?$", re.IGNORECASE)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_UNIT = re.compile(
    r"(?:s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)$", re.IGNORECASE
)
_CLOCK = re.compile(r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d$")


class Moment(NamedTuple):
    """One end of a window."""

    text: str  # as it was given
    wall: float  # by the clock that naive times are printed with, as if it were UTC
    utc: float | None  # None: compare what the clock showed with zoned times, too


def moment(text: str, now: float | None = None) -> Moment:
    """The moment meant by `2026-11-29 10:00`, `11-29 10:00`, `10:00`, `-2h`, `30min ago`, `yesterday`.

    `now` is in seconds since 1970. Raises ValueError for anything else.
    """
    now = time.time() if now is None else now
    here = now + _offset_here(now)
    said = text.strip()
    word = said.lower()
    if word in ("now", "today", "yesterday"):
        if word == "now":
            return Moment(text, here, now)
        midnight = here - here % 86400
        return Moment(text, midnight - (86400 if word == "yesterday" else 0), None)
    if span := _SPAN.match(said):
        back = sum(float(n) * _unit(unit) for n, unit in _PART.findall(span[1]))
        return Moment(text, here - back, now - back)
    if _CLOCK.match(said):
        said = f"{time.strftime('%Y-%m-%d', time.gmtime(here))} {said}"
    elif _DATE.match(said):
        said += " 00:00"
    stamp = parse(said)
    if stamp is None or stamp.kind == UPTIME:
        raise ValueError(f"not a time: {text!r} (try `2026-11-29 10:00`, `10:00` or `-2h`)")
    if stamp.kind == UTC:
        return Moment(text, stamp.seconds + _offset_here(stamp.seconds), stamp.seconds)
    return Moment(text, in_year_of(stamp, here), None)


def _unit(name: str) -> int:
    if not _UNIT.match(name):
        raise ValueError(f"not a unit of time: {name!r} (use s, min, h, d or w)")
    return _UNITS[name[0].lower()]


def _offset_here(now: float) -> float:
    """Seconds that this machine's clock is ahead of UTC."""
    return float(timegm(time.localtime(now)[:6]) - int(now))


OUTSIDE = "no line of it lies in the time asked for"


class Window(NamedTuple):
    """A stretch of time; None is an open end. Both ends belong to it."""

    since: Moment | None = None
    until: Moment | None = None

    def holds(self, stamp: Stamp) -> bool:
        """Whether an instant lies in it."""
        return not (
            (self.since is not None and _before(stamp, self.since))
            or (self.until is not None and _after(stamp, self.until))
        )

    def __str__(self) -> str:
        since = f"since {self.since.text}" if self.since else ""
        until = f"until {self.until.text}" if self.until else ""
        return f"{since} {until}".strip()


def _span(stamp: Stamp, end: Moment) -> float:
    if stamp.kind == UTC and end.utc is not None:
        return stamp.seconds - end.utc
    return in_year_of(stamp, end.wall) - end.wall


def _before(stamp: Stamp, end: Moment) -> bool:
    return _span(stamp, end) < 0


def _after(stamp: Stamp, end: Moment) -> bool:
    return _span(stamp, end) > 0


class Kept:
    """The records of one input that a window holds."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._inside: bool | None = None  # of the record before; None: no time was seen yet
        self._first = self._last = ""  # times as printed
        self._waiting: list[Record] = []
        self.some = False
        self.speakers: set[Who] = set()  # names under which servers write, also outside
        self._read = False  # whether there was any text

    def of(self, records: Iterable[Record]) -> Iterator[Record]:
        """Those of further records that lie inside."""
        for record in records:
            self._read = self._read or bool(record.message or record.envelope.time)
            if is_servers(record.envelope):
                self.speakers.add(who(record.envelope))
            stamp = parse(record.envelope.time) if record.envelope.time else None
            if stamp is not None and stamp.kind != UPTIME:
                self._inside = self._window.holds(stamp)
                self._first = self._first or record.envelope.time
                self._last = record.envelope.time
                if self._waiting:
                    yield from self._release(self._inside)
            if self._inside is None:
                self._waiting.append(record)
                if len(self._waiting) > MOST_WAITING:
                    yield from self._release(True)
            elif self._inside:
                self.some = True
                yield record

    def rest(self) -> Iterator[Record]:
        """What was held back at the end of the input: all of it, if no time was seen."""
        yield from self._release(True)

    def gaps(self) -> list[Gap]:
        """What to say of an input that the window leaves whole or empty."""
        if not self._read:
            return []
        if not self._first:
            return [
                Gap(what=f"its lines carry no time of day, so all of it was read, not only {self._window}")
            ]
        if not self.some:
            return [Gap(what=f"{OUTSIDE} ({self._window}): its times run from {self._first} to {self._last}")]
        return []

    def _release(self, inside: bool) -> Iterator[Record]:
        waiting, self._waiting = self._waiting, []
        if inside and waiting:
            self.some = True
            yield from waiting
