"""Whether the server went on working after a fault: such a fault is at most a note."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict

from vdiag.model import Envelope, Phase
from vdiag.reason.story import ALIVE, Episode

FAR = 1 << 60
AT_EASE = ("INFO", "DEBUG")


class Survival:
    """Answers for one episode; everything is sorted once, since a log may hold thousands of faults."""

    def __init__(self, episode: Episode, notices: list[int]) -> None:
        """`notices`: the lines that notice a failure, sorted."""
        self._notices = notices
        self._served = episode.served
        self._served_lines = [request.line for request in episode.served]
        self._marks = [m for m in episode.marks if m.what not in ("death", "start", Phase.SHUTDOWN.value)]
        self._mark_lines = [m.line for m in self._marks]
        self._at_ease: dict[str, int] = defaultdict(int)  # unit → last line it logged at ease
        for event in episode.events:
            if event.envelope.level in AT_EASE:
                unit = event.envelope.unit
                self._at_ease[unit] = max(self._at_ease[unit], event.lines[0])

    def noticed_at(self, first: int, last: int) -> bool:
        """Whether something notices a failure between two lines (inclusive)."""
        return bisect_right(self._notices, last) > bisect_left(self._notices, first)

    def next_notice(self, line: int) -> int:
        """The first line behind this one that notices a failure; FAR if none does."""
        at = bisect_right(self._notices, line)
        return self._notices[at] if at < len(self._notices) else FAR

    def alive(self, line: int, envelope: Envelope, lane: str, until: int) -> bool:
        """Whether the same server is seen working between two lines (exclusive).

        `envelope` is that of the fault, since another unit's or container's life proves nothing; `lane` is the
        process whose progress counts besides requests and `ready`.
        """
        served = range(bisect_right(self._served_lines, line), bisect_left(self._served_lines, until))
        if any(_same(self._served[i].unit, envelope.unit) for i in served):
            return True
        marks = range(bisect_right(self._mark_lines, line), bisect_left(self._mark_lines, until))
        return any(
            _same(self._marks[i].unit, envelope.unit)
            and (self._marks[i].what in ALIVE or self._marks[i].lane == lane)
            for i in marks
        )

    def went_on(self, line: int, unit: str) -> bool:
        """Whether the same unit logged on at ease behind a line."""
        return self._at_ease[unit] > line


def _same(one: str, other: str) -> bool:
    return not one or not other or one == other
