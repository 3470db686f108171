"""Several servers that write into one log (a syslog host's, `kubectl logs --prefix`, a journal), told apart by who speaks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vdiag.match.keeper import Answered
from vdiag.match.matcher import Match
from vdiag.model import Event, Kind, Phase
from vdiag.reason.conclude import Conclusion, conclude
from vdiag.reason.speakers import Who, is_servers, who
from vdiag.rulebook.compile import Rulebook

_ONLY_A_SERVER = {"start", *(phase.value for phase in Phase if phase is not Phase.SHUTDOWN)}
_OTHERS = (Kind.KERNEL, Kind.UNIT, Kind.HTTP)  # who speaks there speaks about servers
_NUMBER = re.compile(r"\d{2,}")


class Said(NamedTuple):
    """What of an input is one server's, or what they all share."""

    events: list[Event]
    matches: list[Match]
    served: list[Answered]

    def of(self, name: Who) -> Said:
        """What stands under one name."""
        return Said(
            [e for e in self.events if who(e.envelope) == name],
            [m for m in self.matches if who(m.event.envelope) == name],
            [request for request in self.served if who(request) == name],
        )


def servers(said: Said, rulebook: Rulebook) -> list[Who]:
    """The names under which servers write, by their first lines; lines without a name are no server's of their own."""
    found: dict[Who, None] = {}
    for own in _speaking(said, rulebook):
        if any(own):
            found[own] = None
    return list(found)


def of_a_server(said: Said, rulebook: Rulebook) -> bool:
    """Whether anything that only a server writes stands in an input, or a request that it answered."""
    return bool(said.served) or next(_speaking(said, rulebook), None) is not None


def _speaking(said: Said, rulebook: Rulebook) -> Iterator[Who]:
    """The name of each line that only a server writes."""
    marked = {id(m.event) for m in said.matches if rulebook.rules[m.rule].marks in _ONLY_A_SERVER}
    for event in said.events:
        if event.kind not in _OTHERS and (id(event) in marked or is_servers(event.envelope)):
            yield who(event.envelope)


def apart(said: Said, source: int, rulebook: Rulebook) -> dict[Who, Conclusion]:
    """What each server that writes into an input came to, where several do; empty where it is the log of one.

    What the kernel and the service manager of a host say belongs to the servers that they name, by unit or process.
    What names none is held against those that failed by their own words.
    """
    names = servers(said, rulebook)
    if len(names) < 2:
        return {}
    own, shared = {name: Said([], [], []) for name in names}, Said([], [], [])
    for event in said.events:
        own.get(who(event.envelope), shared).events.append(event)
    for match in said.matches:
        own.get(who(match.event.envelope), shared).matches.append(match)
    for request in said.served:
        own.get(who(request), shared).served.append(request)
    named = _named(own, shared.events)
    spoken: dict[int, list[Match]] = defaultdict(list)
    for match in shared.matches:
        spoken[id(match.event)].append(match)
    found = {}
    for name, mine in own.items():
        told = [e for e in shared.events if name in named[id(e)]]
        made = _concluded(mine, told, spoken, source, rulebook)
        if any(blame.failed for blame in made.blames):
            rest = [e for e in shared.events if not named[id(e)] and _same_host(who(e.envelope), name)]
            made = _concluded(mine, [*told, *rest], spoken, source, rulebook) if rest else made
        found[name] = made
    return found


def at_once(said: Said) -> int:
    """How many servers write under one name at the same time, at least: by their API servers' lines."""
    spans: dict[int, tuple[int, int]] = {}
    for event in said.events:
        env, line = event.envelope, event.lines[0]
        if env.role == "APIServer" and not env.rank and env.pid:
            first, last = spans.get(env.pid, (line, line))
            spans[env.pid] = min(first, line), max(last, line)
    ends = sorted([(first, 1) for first, _ in spans.values()] + [(last, -1) for _, last in spans.values()])
    now = most = 0
    for _, step in ends:
        now += step
        most = max(most, now)
    return most


def _named(own: dict[Who, Said], shared: Sequence[Event]) -> dict[int, set[Who]]:
    """By event that no server wrote: the servers that it names."""
    pids = {name: {e.envelope.pid for e in said.events} - {0, 1} for name, said in own.items()}
    words = {name: _word(name.unit) for name in own}
    found: dict[int, set[Who]] = {}
    for event in shared:
        numbers = {int(n) for n in _NUMBER.findall(event.text)[:50]}
        speaker = who(event.envelope)
        here = [name for name in own if _same_host(speaker, name)]
        found[id(event)] = {name for name in here if words[name].search(event.text)} or {
            name for name in here if numbers & pids[name]
        }
    return found


def _word(unit: str) -> re.Pattern[str]:
    """The name of a unit, container or pod, as others write it."""
    stem = unit.removesuffix(".service").partition("/")[0]
    return re.compile(rf"(?<![\w@-]){re.escape(stem)}(?![\w@-])" if stem else r"(?!)")


def _same_host(one: Who, other: Who) -> bool:
    return not one.host or not other.host or one.host == other.host


def _concluded(
    mine: Said, also: list[Event], spoken: dict[int, list[Match]], source: int, rulebook: Rulebook
) -> Conclusion:
    matches = [*mine.matches, *(match for event in also for match in spoken[id(event)])]
    return conclude([*mine.events, *also], matches, {source: mine.served}, rulebook, True)
