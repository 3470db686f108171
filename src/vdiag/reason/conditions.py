"""The conditions of a rule on the story around its wording: traceback, phase, other rules, repetition."""

from __future__ import annotations

from collections import defaultdict

from vdiag.assemble.shapes import frame_parts
from vdiag.match.matcher import Match
from vdiag.model import Event, Kind
from vdiag.reason.story import Episode
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.frames import stands_in


class Conditions:
    """Answers for the matches of one episode; what counts lines is counted once."""

    def __init__(self, episode: Episode, rulebook: Rulebook) -> None:
        self._episode = episode
        self._rulebook = rulebook
        self._frames: dict[int, list[str]] = defaultdict(list)  # traceback → frames of its whole chain
        self._latest = 0, ""
        self._said: dict[str, set[int]] = defaultdict(set)  # place in the code → lines it wrote
        for event in episode.events:
            if event.traceback:
                self._frames[event.traceback] += event.frames
            self._said[event.envelope.origin].add(event.lines[0])
        self._matched: dict[tuple[int, str], set[int]] = defaultdict(set)  # rule and place → lines it matches
        self._lines: dict[int, set[int]] = defaultdict(set)  # rule → lines it matches
        self._units: dict[str, set[str]] = defaultdict(set)  # rule's id → units whose lines it matches
        self._servers: set[str] = set()  # units of which each tells of a run of its own
        for match in episode.matches:
            self._matched[match.rule, match.event.envelope.origin].add(match.line)
            self._lines[match.rule].add(match.line)
            rule, unit = rulebook.rules[match.rule], match.event.envelope.unit
            self._units[rule.id].add(unit)
            if rule.marks and rule.marks != "death" and match.event.kind is Kind.LOG:
                self._servers.add(unit)

    def hold(self, match: Match) -> bool:
        """Whether all conditions of the match's rule hold."""
        rule = self._rulebook.rules[match.rule]
        episode, unit = self._episode, match.event.envelope.unit
        if rule.needs and not all(self._told(r, unit) for r in rule.needs):
            return False
        if rule.unless and any(self._told(r, unit) for r in rule.unless):
            return False
        if rule.often and not self._often(match, rule.often):
            return False
        if len(self._lines[match.rule]) < rule.repeats:
            return False
        if rule.frames:
            frames = self._frames.get(match.event.traceback) if match.event.traceback else None
            frames = frames or _origin(match.event)
            if frames:
                text = self._text(match.event.traceback, frames)
                return any(
                    in_frame(want, frame)
                    for want in rule.frames
                    if want.partition(":")[0] in text  # most rules' frames are in no traceback here
                    for frame in frames
                )
            if not rule.phase:
                return False
        return not rule.phase or episode.phase_at(match.line) in rule.phase

    def _text(self, traceback: int, frames: list[str]) -> str:
        """All frames of a traceback; of the latest it is kept, since several rules ask in turn."""
        if not traceback or self._latest[0] != traceback:
            self._latest = traceback, "\n".join(frames)
        return self._latest[1]

    def _told(self, rule: str, unit: str) -> bool:
        """Whether a rule matches what this unit's server says, or what no other server does."""
        if rule not in self._episode.rules:
            return False
        others = self._servers - {unit, ""} if unit in self._servers else set()
        return not others or not self._units[rule] <= others

    def unknown(self, match: Match) -> bool:
        """Whether a rule fails only because no frame and no phase is known here."""
        rule = self._rulebook.rules[match.rule]
        if not rule.frames and not rule.phase:
            return False
        return not self._frames.get(match.event.traceback) and self._episode.phase_at(match.line) is None

    def _often(self, match: Match, share: float) -> bool:
        """Whether a rule matches on a share of the lines that the same place in the code wrote."""
        place = match.event.envelope.origin
        said = len(self._said[place])
        return len(self._matched[match.rule, place]) >= max(share * said, min(3, said))


def _origin(event: Event) -> list[str]:
    """The file that logged an event, as a frame; none where the log line does not say."""
    file, _, line = event.envelope.origin.partition(":")
    return [f'File "{file}", line {line}, in ?'] if file and line.isdigit() else []


def in_frame(want: str, frame: str) -> bool:
    """Whether a frame as printed is the one that a rule names."""
    file, _, function = frame_parts(frame)
    return stands_in(want, file, function)
