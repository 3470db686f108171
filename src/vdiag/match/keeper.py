"""Matches events in batches and keeps those that matter, within bounds whatever the input's length."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vdiag.match.matcher import Match, Matcher
from vdiag.model import Event, Kind, Phase, Role
from vdiag.rulebook.compile import Rulebook
from vdiag.scan.records import access_status

BATCH = 2000  # events matched at a time
FIRST = 2000  # events that matter kept from the beginning of an input, whole
LAST = 14000  # and from its end
REPEATED = 1000  # lines of a context rule from which on it is one that the server repeats for ever
STATISTICS = 4000  # events of such rules kept from the end of an input
ORDINARY = 5000  # events without news kept of an input that is read whole
FEW_FRAMES = 6  # innermost frames kept of a traceback beyond the first events
LOUD = ("ERROR", "CRITICAL")
_PLAIN = ("", Phase.SERVING.value)  # what a context rule may mark and be repeated: that the server lives
MOST_SERVED = 10_000  # lines of well answered requests remembered


class Answered(NamedTuple):
    """A request that was answered well."""

    line: int
    unit: str = ""
    host: str = ""


class Repeated:
    """Tells the lines that a server repeats for ever, such as its statistics: they may not push out what is rare.

    All of them are told alike, also those that a rule with `often` is about, so that its share stays true.
    """

    def __init__(self, rulebook: Rulebook) -> None:
        self._rules = rulebook.rules
        self._seen: dict[int, int] = defaultdict(int)  # context rule → lines so far

    def has(self, event: Event, matches: Sequence[Match]) -> bool:
        """Whether an event, the next of its input, only says again what a context rule has matched often."""
        repeated, only = False, event.kind is not Kind.EXCEPTION and event.envelope.level not in LOUD
        for match in matches:
            rule = self._rules[match.rule]
            if rule.role is Role.CONTEXT and rule.marks in _PLAIN:
                self._seen[match.rule] += 1
                repeated |= self._seen[match.rule] > REPEATED
            elif not rule.often:
                only = False
        return repeated and only


class Keeper:
    """Takes the events of one input in; `events` and `matches` give what was kept."""

    def __init__(self, matcher: Matcher, served: list[Answered]) -> None:
        """`served` is filled with the requests that the server answered well."""
        self._matcher = matcher
        self._served = served
        self._batch: list[Event] = []
        self._first: list[tuple[Event, list[Match]]] = []
        self._last: deque[tuple[Event, list[Match]]] = deque(maxlen=LAST)
        self._repeated = Repeated(matcher.rulebook)
        self._statistics: deque[tuple[Event, list[Match]]] = deque(maxlen=STATISTICS)
        self._ordinary: list[Event] = []
        self.whole = True  # nothing of the input was skipped: ordinary events count too

    def take(self, events: Iterable[Event]) -> None:
        """Takes complete events in."""
        for event in events:
            if " HTTP/" in event.rows[0] and self._answered(event):
                continue
            self._batch.append(event)
            if len(self._batch) >= BATCH:
                self._match()

    def done(self) -> None:
        """Matches what is left."""
        self._match()

    def _answered(self, event: Event) -> bool:
        """Whether this is an access line and nothing else; a good answer is remembered."""
        access = access_status(event.rows[0])
        if access is None:
            return False
        method, path, status = access
        if status < 400 and (method == "POST" or path.startswith("/health")):
            answered = Answered(event.lines[0], event.envelope.unit, event.envelope.host)
            if len(self._served) < MOST_SERVED:
                self._served.append(answered)
            else:
                self._served[-1] = answered
        return event.envelope.level in ("INFO", "") and len(event.rows) == 1

    def _match(self) -> None:
        batch, self._batch = self._batch, []
        matched: dict[int, list[Match]] = {}
        for match in self._matcher.match(batch):
            matched.setdefault(id(match.event), []).append(match)
        for event in batch:
            matches = matched.get(id(event), [])
            if matches and self._repeated.has(event, matches):
                self._statistics.append((event, matches))
            elif not matches and event.kind is not Kind.EXCEPTION and event.envelope.level not in LOUD:
                if self.whole and len(self._ordinary) < ORDINARY:
                    self._ordinary.append(event)
            elif len(self._first) < FIRST:
                self._first.append((event, matches))
            else:
                event.frames = event.frames[-FEW_FRAMES:]
                self._last.append((event, matches))

    def events(self) -> list[Event]:
        """What was kept."""
        return [event for event, _ in self._kept()] + self._ordinary

    def matches(self) -> list[Match]:
        """The matches of what was kept."""
        return [match for _, matches in self._kept() for match in matches]

    def _kept(self) -> list[tuple[Event, list[Match]]]:
        return [*self._first, *self._statistics, *self._last]
