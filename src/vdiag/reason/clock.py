"""Times as programs print them, as instants that can be compared as far as they are comparable.

Three things are not known from a printed time: its zone (vLLM, syslog and `dmesg -T` print none), its year (vLLM's
`MM-DD`, syslog's `Nov 29`), and what a kernel's uptime counts from. A stamp keeps what it lacks, and `apart` answers
None where two have nothing in common. All spans are in seconds.
"""

from __future__ import annotations

import re
from calendar import isleap, timegm
from functools import lru_cache
from time import gmtime
from typing import NamedTuple

UTC, WALL, YEARLESS, UPTIME = "utc", "wall", "yearless", "uptime"
HOUR = 3600.0
DAY = 86400.0
FARTHEST = 14  # hours between two zones that are likely for one machine's logs
LEAP = 2000  # the year in which a time without one is kept: it has a 29 February

_CLOCK = r"(?P<h>\d{1,2}):(?P<mi>\d\d)(?::(?P<s>\d\d)(?:[.,](?P<f>\d+))?)?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        # 2026-11-29T10:12:45.123+01:00, 2026/11/29 10:12:45, Sun 2026-11-29 10:12:45 CET, 2026-11-29 10:12
        r"(?:^|\s)(?P<y>\d{4})[-/](?P<mo>\d\d?)[-/](?P<d>\d\d?)[T ]" + _CLOCK
        + r" ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?(?!\d)",
        # 11-29 10:12:45 (vLLM)
        r"^(?P<mo>\d\d)-(?P<d>\d\d) " + _CLOCK,
        # Nov 29 10:12:45 (syslog), Sun Nov 29 10:12:45 2026 (dmesg -T)
        r"(?:^|\s)(?P<name>[^\W\d]{2,9})\.? +(?P<d>\d\d?) " + _CLOCK + r"(?: (?P<y>\d{4}))?",
        # 29/Nov/2026:10:12:45 +0000 (access logs), 29 Nov 2026 10:12:45
        r"(?:^|\s)(?P<d>\d\d?)[/ ](?P<name>[^\W\d]{2,9})\.?[/ ](?P<y>\d{4})[: ]" + _CLOCK
        + r"(?: (?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d))?",
        # 1129 10:12:45.123456 (glog)
        r"^(?P<mo>\d\d)(?P<d>\d\d) " + _CLOCK,
    )
)  # fmt: skip
_NUMBER = re.compile(r"\d{1,19}(?:\.\d+)?$")
# The beginnings of month names in the languages of common locales; those that mean two months are left out.
_MONTHS = {
    name: number
    for number, names in enumerate((
        "jan ene gen янв sty", "feb fev fév фев lut", "mar mär mrt мар", "apr avr abr апр kwi", "may mai mag mei maj май мая",
        "jun juin giu июн cze", "jul juil lug июл lip", "aug aoû ago авг sie", "sep set сен wrz", "oct okt out ott окт paź",
        "nov ноя lis", "dec dez dic déc дек gru",
    ), 1)
    for name in names.split()
}  # fmt: skip


class Stamp(NamedTuple):
    """An instant, as far as its text tells it."""

    kind: str  # utc: exact | wall: by a clock of unknown zone | yearless: and of unknown year | uptime: since a boot
    seconds: float  # since 1970 (a wall clock read as if it were UTC; without a year in LEAP); uptime: since the boot
    wall: float  # what the clock on the wall showed, read as if it were UTC


@lru_cache(maxsize=16384)
def parse(text: str) -> Stamp | None:
    """The instant that a printed time means; None if it is none that is known."""
    text = text.strip()
    if _NUMBER.match(text):
        return _number(float(text))
    for form in _FORMS:
        m = form.search(text)
        if m is None:
            continue
        groups = m.groupdict()
        month = _month(groups["name"]) if groups.get("name") else int(groups["mo"])
        year = int(groups["y"]) if groups.get("y") else LEAP
        day, hour, minute = int(groups["d"]), int(groups["h"]), int(groups["mi"])
        if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 25 and minute < 60 and 1970 <= year < 2200):
            continue
        wall = float(timegm((year, month, day, hour, minute, int(groups["s"] or 0))))
        wall += float(f"0.{groups['f']}") if groups["f"] else 0.0
        if groups.get("zone"):
            return Stamp(UTC, wall - _offset(groups["zone"]), wall)
        return Stamp(WALL if groups.get("y") else YEARLESS, wall, wall)
    return None


def apart(one: Stamp, other: Stamp) -> float | None:
    """Seconds from one to the other as their clocks show them; None if they have nothing in common.

    A missing year is the one that brings them closest. Where a zone is missing (`zones_known` is false) the true span
    may differ by whole hours.
    """
    if UPTIME in (one.kind, other.kind):
        return other.seconds - one.seconds if one.kind == other.kind else None
    if one.kind == other.kind:
        span = other.seconds - one.seconds
        return _closest(span) if one.kind == YEARLESS else span
    if one.kind == YEARLESS:
        return other.wall - in_year_of(one, other.wall)
    if other.kind == YEARLESS:
        return in_year_of(other, one.wall) - one.wall
    return other.wall - one.wall


def zones_known(one: Stamp, other: Stamp) -> bool:
    """Whether the span between the two is exact, whatever zones they were printed in."""
    return one.kind == other.kind and one.kind in (UTC, UPTIME)


def in_year_of(stamp: Stamp, wall: float) -> float:
    """The wall clock of a stamp; without a year, in the one that brings it closest to another."""
    if stamp.kind != YEARLESS:
        return stamp.wall
    year = gmtime(max(wall, 0)).tm_year
    return min((_in_year(stamp.wall, y) for y in (year - 1, year, year + 1)), key=lambda at: abs(at - wall))


def _in_year(wall: float, year: int) -> float:
    """A time of the year LEAP in another year."""
    into = wall - timegm((LEAP, 1, 1, 0, 0, 0))
    if into >= 60 * DAY and not isleap(year):
        into -= DAY
    return timegm((year, 1, 1, 0, 0, 0)) + into


def _closest(span: float) -> float:
    """A span between two times without a year, over New Year's Eve where that is shorter."""
    year = 366 * DAY
    if span > year / 2:
        return span - year
    return span + year if span < -year / 2 else span


def _number(value: float) -> Stamp | None:
    """Seconds since a boot, or since 1970 in seconds, milli-, micro- or nanoseconds."""
    if value < 1e9:
        return Stamp(UPTIME, value, value)
    for scale in (1.0, 1e3, 1e6, 1e9):
        if value / scale < 1e10:
            return Stamp(UTC, value / scale, value / scale)
    return None


def _month(name: str) -> int:
    return _MONTHS.get(name.lower()[:4]) or _MONTHS.get(name.lower()[:3], 0)


def _offset(zone: str) -> float:
    if zone in ("Z", "UTC", "GMT"):
        return 0.0
    digits = zone[1:].replace(":", "")
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return float(-seconds if zone[0] == "-" else seconds)
