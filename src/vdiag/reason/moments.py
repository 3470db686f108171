"""When the lines of several inputs were written, by their own times or by those of the lines around them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from vdiag.model import Event
from vdiag.reason.blame import Node
from vdiag.reason.clock import FARTHEST, HOUR, UPTIME, Stamp, apart, parse, zones_known

NEAR = 900.0  # seconds in which a death is noticed: watchdogs of NCCL and Ray take up to ten minutes
SHARP = (-5.0, 60.0)  # the same where the zones are unknown, since whole hours are then guessed


class Span(NamedTuple):
    """Seconds from one line to another."""

    seconds: float
    more: float  # by which it may be longer: the other line carries no time of its own

    def within(self, least: float, most: float) -> bool:
        """Whether it may lie between these bounds."""
        return self.seconds <= most and self.seconds + self.more >= least

    @property
    def distance(self) -> float:
        """The least that they are apart, whichever comes first."""
        return self.seconds if self.seconds >= 0 else max(0.0, -self.seconds - self.more)


class Moments:
    """The times that the events of all inputs carry."""

    def __init__(self, events: Iterable[Event]) -> None:
        stamps: dict[int, list[tuple[int, Stamp]]] = defaultdict(list)
        for event in events:
            stamp = parse(event.envelope.time) if event.envelope.time else None
            if stamp is not None:
                stamps[event.source].append((event.lines[0], stamp))
        self._stamps = {source: sorted(told, key=lambda t: t[0]) for source, told in stamps.items()}

    def at(self, node: Node) -> tuple[Stamp, float] | None:
        """The instant of a line, and by how many seconds it may be later.

        It is the line's own time, else the last one printed before it, else the first one after it.
        """
        own = parse(node.event.envelope.time) if node.event.envelope.time else None
        if own is not None:
            return own, 0.0
        told = self._stamps.get(node.event.source)
        if not told:
            return None
        place = bisect_right(told, node.line, key=lambda t: t[0])
        if not place:
            return told[0][1], 0.0
        before = told[place - 1][1]
        gap = apart(before, told[place][1]) if place < len(told) else NEAR
        return before, min(max(gap if gap is not None else NEAR, 0.0), NEAR)

    def span(self, one: Node, other: Node) -> Span | None:
        """From one to the other by what their clocks show; None where these have nothing in common."""
        first, second = self.at(one), self.at(other)
        if first is None or second is None:
            return None
        seconds = apart(first[0], second[0])
        return None if seconds is None else Span(seconds, second[1])

    def shift(self, one: Node, other: Node, step: float) -> float | None:
        """The hours by which the clocks differ if the other line follows at once; None if nothing speaks for that.

        `step`: the seconds of which zones are told apart by multiples.
        """
        first, second, span = self.at(one), self.at(other), self.span(one, other)
        if first is None or second is None or span is None:
            return None
        if first[0].kind == UPTIME or zones_known(first[0], second[0]):
            return None
        host = one.event.envelope.host
        if host and host == other.event.envelope.host:
            return None
        least = SHARP[0] - min(span.more, SHARP[1])
        shift = (span.seconds - least) // step * step
        sharp = span.seconds - shift <= SHARP[1]
        return shift / HOUR if sharp and shift and abs(shift) <= FARTHEST * HOUR else None
