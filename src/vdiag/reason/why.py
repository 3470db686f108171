"""Why a rule won, and why another did not: the way of the evidence told backwards, for those who write rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vdiag.match.matcher import Match
from vdiag.model import Event, Role
from vdiag.reason.blame import Blame, Node
from vdiag.reason.conclude import CAUSE, Conclusion, Finding
from vdiag.reason.conditions import in_frame
from vdiag.reason.story import Episode
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.examples import search
from vdiag.rulebook.nearness import Near, how_far, opening
from vdiag.rulebook.schema import Rule

MOST_EVENTS = 20_000  # looked through for a wording that nearly matches
MOST_LISTED = 3


def why_it_won(finding: Finding) -> str:
    """Why the root of a finding is the root of its run."""
    node, blame = finding.node, finding.blame
    if finding.kind != CAUSE or node.rule is None:
        return "no rule names a cause" if finding.kind == CAUSE else f"{finding.kind}: no rule names a cause"
    others = [
        n
        for n in [*blame.roots, *blame.explained]
        if n is not node and n.rule is not None and n.rule.role is Role.CAUSE and n.rule is not node.rule
    ]
    if not others:
        return "no other cause stands in its run"
    said = []
    for other in others[:MOST_LISTED]:
        assert other.rule is not None
        if other.rule.id in node.rule.beats:
            said.append(f"it beats {other.rule.id} (line {other.line})")
        elif other.event.traceback and other.event.traceback == node.event.traceback:
            said.append(f"it is the inner exception of {other.rule.id} (line {other.line})")
        elif node.line < other.line:
            said.append(f"it comes before {other.rule.id} (line {other.line})")
        else:
            said.append(
                f"it is told from the other side than {other.rule.id} (line {other.line}), or stronger"
            )
    return "; ".join(said)


def why_not(
    rule: Rule, rulebook: Rulebook, events: Sequence[Event], matches: Sequence[Match], conclusion: Conclusion
) -> Iterator[str]:
    """What became of a rule, one sentence a place where it might have counted."""
    for place, finding in enumerate(conclusion.findings, 1):
        if finding.node.rule is rule:
            yield f"is diagnosis {place}, on line {finding.node.line}: {why_it_won(finding)}"
    own = [match for match in matches if rulebook.rules[match.rule] is rule]
    if not own:
        yield from _unmatched(rule, rulebook, events)
    for match in own[:MOST_LISTED]:
        blame = next((b for b in conclusion.blames if match in b.episode.matches), None)
        if blame is not None and not any(f.node.match is match for f in conclusion.findings):
            yield f"matches on line {match.line}, {_fate(match, rule, blame, rulebook)}"
    if len(own) > MOST_LISTED:
        yield f"and matches {len(own) - MOST_LISTED} more times"


def _unmatched(rule: Rule, rulebook: Rulebook, events: Sequence[Event]) -> Iterator[str]:
    """A rule without any match: kept out by what it asks of a line, or how near its wordings come."""
    patterns = rulebook.patterns_of(rule.id)
    for event in events[:MOST_EVENTS]:
        if any(p.squeezed in "".join(event.text.split()) and search(p, event.text) for p in patterns):
            level = event.envelope.level or "none"
            yield (
                f"a wording matches on line {event.line}, but the line is of kind {event.kind.value} and level "
                f"{level}, and the rule asks for where: {rule.where}, level: {rule.level}"
            )
            return
    nearest: tuple[float, Event, Near] | None = None
    openings = {phrase: opening(phrase) for phrase in rule.phrases}
    for event in events[:MOST_EVENTS]:
        squeezed = "".join(event.text.split())
        held = any(p.squeezed in squeezed for p in patterns)
        if held and not rule.phrases:
            yield f"line {event.line} holds its fixed text, but its regex does not match there"
            return
        for phrase, begins in openings.items():
            if not held and not (begins and begins in squeezed):
                continue
            near = how_far(phrase, event.text)
            share = near.reached / near.parts
            if nearest is None or share > nearest[0]:
                nearest = (share, event, near)
    if nearest is not None and nearest[2].reached:
        _, event, near = nearest
        yield (
            f"its wording stops matching on line {event.line} behind `{near.matched}`: it goes on with "
            f"`{near.expected}`, the line with `{near.found}`"
        )
    elif nearest is not None:
        yield f"line {nearest[1].line} holds its fixed text, but its wording does not begin there"
    else:
        texts = dict.fromkeys(f"`{p.literal}`" for p in patterns)
        yield f"no line holds a fixed text of its wordings: {', '.join(texts)}"


def _fate(match: Match, rule: Rule, blame: Blame, rulebook: Rulebook) -> str:
    """What the blame of the episode made of a match."""
    for reason in _conditions(match, rule, blame.episode):
        return f"but {reason}"
    for node, why in blame.aside:
        if node.match is match:
            return f"but is set aside: {why}"
    root = blame.roots[0] if blame.roots else None
    named = f"{_name(root)} (line {root.line})" if root else "nothing"
    if any(node.match is match for node in blame.roots):
        return "and is a root that equals a diagnosis given once"
    if any(node.match is match for node in blame.explained):
        beaten = root is not None and root.rule is not None and rule.id in root.rule.beats
        return f"and is {'beaten' if beaten else 'explained'} by {named}"
    if any(node.match is match for node in blame.notices):
        return f"and only notices the failure, whose cause is {named}"
    rivals = [
        m
        for m in blame.episode.matches
        if m.event is match.event and m is not match and rulebook.rules[m.rule] is not rule
    ]
    if rule.role in (Role.CONTEXT, Role.BENIGN):
        return f"and is {rule.role.value}: it is never a cause"
    if rivals:
        listed = ", ".join(
            f"{rulebook.rules[m.rule].id} ({m.weight} fixed characters)" for m in rivals[:MOST_LISTED]
        )
        return f"with {match.weight} fixed characters, but loses the text to {listed}"
    return f"but the root of its traceback is {named}"


def _name(node: Node) -> str:
    return node.rule.id if node.rule else "an exception that no rule names"


def _conditions(match: Match, rule: Rule, episode: Episode) -> Iterator[str]:
    """The conditions of a rule that do not hold for a match."""
    missing = [name for name in rule.needs if name not in episode.rules]
    if missing:
        yield f"`with` asks for {', '.join(missing)}, which match nothing in the same run"
    present = [name for name in rule.unless if name in episode.rules]
    if present:
        yield f"`unless` forbids {', '.join(present)}, which match in the same run"
    phase = episode.phase_at(match.line)
    frames = [f for e in episode.events if e.traceback == match.event.traceback for f in e.frames]
    shown = bool(match.event.traceback and frames)
    if rule.frames and shown and not any(in_frame(want, frame) for want in rule.frames for frame in frames):
        yield f"its traceback goes through none of the frames {', '.join(rule.frames)}"
    elif rule.frames and not shown and not rule.phase:
        yield f"the log shows no frames there, and the rule asks for {', '.join(rule.frames)}"
    elif rule.phase and not (rule.frames and shown) and phase not in rule.phase:
        asked = " or ".join(wanted.value for wanted in rule.phase)
        yield f"the run stands in the phase {phase.value if phase else 'unknown'}, and the rule asks for {asked}"
