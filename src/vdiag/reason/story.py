"""Episodes and phases: which run of the server an event belongs to, where that run stood, and what it said of itself."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from vdiag.match.keeper import Answered
from vdiag.match.matcher import Match
from vdiag.model import Event, Kind, Phase, Role, Severity
from vdiag.reason import printed
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.schema import Rule

_PHASES = {p.value: p for p in Phase}
NOBODY = "?"  # the lane of a mark that any process may have printed
ALIVE = ("ready", Phase.SERVING.value)


class Mark(msgspec.Struct, frozen=True):
    """A line by which the server tells where it stands."""

    line: int
    what: str  # start | ready | death | a phase
    lane: str
    unit: str = ""


QUIET = ("WARNING", "INFO", "DEBUG")  # levels at which nothing is said to have failed


class Trouble(NamedTuple):
    """A line that speaks of a server's trouble."""

    line: int
    role: Role
    quiet: bool  # said at a level below that of an error


_RUN_WITH = {"kubectl": "kubernetes", "kubelet": "kubernetes"}  # tool → what it runs


class Episode(msgspec.Struct):
    """One run of the server in one input."""

    source: int
    first_line: int
    last_line: int
    events: list[Event] = []
    matches: list[Match] = []
    marks: list[Mark] = []
    served: list[Answered] = []  # requests that were answered well
    facts: dict[str, Any] = {}
    rules: set[str] = set()  # ids that match in it

    def phase_at(self, line: int, *, ending: bool = True) -> Phase | None:
        """Where the run stood at a line, by the latest mark before it.

        Not `ending`: by the latest that is no shutdown, since other processes may end before the fault is printed.
        """
        phase = None
        for mark in self.marks:
            if mark.line > line:
                break
            if mark.what == Phase.SHUTDOWN.value and not ending:
                continue
            phase = Phase.SERVING if mark.what == "ready" else _PHASES.get(mark.what, phase)
        return phase

    @property
    def ready(self) -> bool:
        """Whether it came to serve."""
        return bool(self.served) or any(mark.what in ALIVE for mark in self.marks)


def tell(
    events: list[Event], matches: list[Match], served: dict[int, list[Answered]], rulebook: Rulebook
) -> list[Episode]:
    """The episodes of all inputs, in order. `served`: input → lines of requests answered well."""
    by_source: dict[int, list[Event]] = defaultdict(list)
    for event in events:
        by_source[event.source].append(event)
    matched: dict[int, list[Match]] = defaultdict(list)
    for match in matches:
        matched[match.event.source].append(match)
    episodes: list[Episode] = []
    for source in sorted(set(by_source) | set(served)):
        episodes += _of_source(
            source,
            sorted(by_source[source], key=lambda e: e.lines[0]),
            sorted(matched[source], key=lambda m: m.line),
            sorted(served.get(source, [])),
            rulebook,
        )
    return episodes


def _of_source(
    source: int, events: list[Event], matches: list[Match], served: list[Answered], rulebook: Rulebook
) -> list[Episode]:
    marks: list[Mark] = []
    for match in matches:
        rule = rulebook.rules[match.rule]
        if rule.marks:
            native = match.event.kind is Kind.NATIVE
            envelope = match.event.envelope
            marks.append(Mark(match.line, rule.marks, NOBODY if native else envelope.lane, envelope.unit))
    troubles = [
        Trouble(m.line, rulebook.rules[m.rule].role, m.event.envelope.level in QUIET)
        for m in matches
        if _troubled(rulebook.rules[m.rule])
    ]
    starts = _starts(marks, [request.line for request in served], troubles)
    last = max(
        [e.lines[-1] for e in events] + [m.line for m in marks] + [request.line for request in served],
        default=1,
    )
    bounds = [1, *starts]
    episodes = []
    for i, first in enumerate(bounds):
        end = bounds[i + 1] - 1 if i + 1 < len(bounds) else last
        episode = Episode(source=source, first_line=first, last_line=max(end, first))
        episode.marks = [m for m in marks if first <= m.line <= end]
        episode.served = [x for x in served if first <= x.line <= end]
        episodes.append(episode)
    for event in events:
        episodes[_place(bounds, event.lines[0])].events.append(event)
    for match in matches:
        episode = episodes[_place(bounds, match.event.lines[0])]
        episode.matches.append(match)
        episode.rules.add(rulebook.rules[match.rule].id)
    for episode in episodes:
        episode.facts = _facts(episode.matches, rulebook)
    return [e for e in episodes if e.events or e.marks or e.served]


def _troubled(rule: Rule) -> bool:
    """Whether a rule speaks of a server's trouble; a client's fault or a healthy server's noise ends no run."""
    if rule.role is Role.CAUSE:
        return rule.severity is Severity.FATAL
    return rule.role in (Role.SYMPTOM, Role.TRAILER)


def _starts(marks: list[Mark], served: list[int], troubles: list[Trouble]) -> list[int]:
    """Lines where a further run begins: a start mark behind a run that got somewhere, or failed.

    What is said before the first words of a run is mostly its own, printed by the imports. An exception there may have
    been handled where that run comes to serve: it must be noticed. A warning there ended nothing.
    """
    starts: list[int] = []
    failures = [trouble.line for trouble in troubles]
    noticed = [trouble.line for trouble in troubles if trouble.role is not Role.CAUSE]
    loud = [trouble.line for trouble in troubles if not trouble.quiet]
    stood = False  # whether the current run has got somewhere
    begun = False  # whether a run has begun
    serves = bool(served) or any(mark.what in ALIVE for mark in marks)
    previous = 0
    for mark in marks:
        if mark.what == "start":
            lines = failures if begun else noticed if serves else loud
            failed = bisect_right(lines, mark.line) > bisect_right(lines, previous)
            answered = bisect_right(served, mark.line) > bisect_right(served, previous)
            if stood or failed or answered:
                starts.append(mark.line)
                stood = False
            previous, begun = mark.line, True
        elif mark.what != Phase.ARGUMENTS.value:
            stood = begun = True
    return starts


def _place(bounds: list[int], line: int) -> int:
    return max(bisect_right(bounds, line) - 1, 0)


def facts_of_unit(episodes: Sequence[Episode], rulebook: Rulebook, event: Event) -> dict[str, Any] | None:
    """What the service or container of `event` says of itself since it started, where others tell their arguments too.

    Two servers may write into one log; a run of it then holds what both say. None where that is not so.
    """
    unit = event.envelope.unit
    starts: list[tuple[Episode, str]] = [
        (episode, match.event.envelope.unit)
        for episode in episodes
        if unit and episode.source == event.source and episode.first_line <= event.line
        for match in episode.matches
        if "args" in match.captures and rulebook.rules[match.rule].role is Role.CONTEXT
    ]
    own = [episode for episode, told in starts if told == unit]
    if not own or len({told for _, told in starts}) == 1:
        return None
    since = own[-1].first_line
    matches = [
        match
        for episode in episodes
        if episode.source == event.source and since <= episode.first_line <= event.line
        for match in episode.matches
        if match.event.envelope.unit == unit
    ]
    return _facts(matches, rulebook)


def _facts(matches: Sequence[Match], rulebook: Rulebook) -> dict[str, Any]:
    """What context lines say; of several, the last, but the arguments of the first (children repeat them)."""
    facts: dict[str, Any] = {}
    for match in matches:
        if rulebook.rules[match.rule].role is not Role.CONTEXT:
            continue
        for name, value in match.captures.items():
            if name == "args":
                if "args" not in facts:
                    told = printed.read(str(value))
                    facts.update(args=told.values, args_opaque=told.opaque, args_cut=told.cut)
            elif name == "deploy":
                facts[name] = _RUN_WITH.get(str(value), value)
            else:
                facts[name] = value
    return facts
