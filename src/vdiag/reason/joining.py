"""Several inputs as one story: what one of them says explains a death that another only notices.

Inputs are never put into one order. A line of one is tied to a failure in another on a ground: the time, where both
print comparable ones; the process; the name. What is tied on one weak ground alone says so and is never quite sure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from vdiag.model import Event, Role, Severity
from vdiag.reason.blame import Blame, Node
from vdiag.reason.clock import HOUR
from vdiag.reason.moments import NEAR, SHARP, Moments

EARLY = 30.0  # seconds by which a notice may stand before its cause: clocks and buffers differ
SURE, WEAK = 1.0, 0.7  # the most that a diagnosis may claim

_NAMED_PID = re.compile(r"\bpid[=: ]+'?(\d{1,9})")


class Join(msgspec.Struct):
    """A line of one input that was tied to a failure in another."""

    told: Node  # the line that explains
    noticed: Node  # the one that it explains
    ground: str  # a clause: what ties them
    most: float = SURE  # the most that the diagnosis may claim


class _Tie(msgspec.Struct):
    """How a line from outside may explain a failure."""

    rank: int  # the smaller the better
    distance: float  # seconds between them; where they are not known, later lines come first
    join: Join
    group: list[Node]  # the line with those that say the same thing again
    teller: Blame
    blame: Blame

    @property
    def order(self) -> tuple[int, float]:
        return (self.rank, self.distance)


_SHARED = 5  # from this rank on a line may explain several failures of one input: nothing tells which it was


def join(blames: list[Blame]) -> list[Join]:
    """Moves what explains a failure in another input to that failure's blame; answers what was moved and why."""
    if len({blame.episode.source for blame in blames}) < 2:
        return []
    clock = Moments([event for blame in blames for event in blame.episode.events])
    return _outside(blames, clock) + _inside(blames, clock)


# ---- the kernel's or a unit manager's word ---------------------------------------------------------------


def _outside(blames: list[Blame], clock: Moments) -> list[Join]:
    tellers = [b for b in blames if b.roots and b.roots[0].outside]
    groups = [(teller, group) for teller in tellers for group in _words(teller)]
    joins: list[Join] = []
    taken: set[tuple[int, int]] = set()  # (line's identity, input it explains something in)
    told: set[int] = set()
    for tie in sorted(_ties(blames, groups, clock), key=lambda tie: tie.order):
        blame, key = tie.blame, (id(tie.join.told), tie.blame.episode.source)
        if id(blame) in told or (tie.rank < _SHARED and key in taken):
            continue
        told.add(id(blame))
        taken.add(key)
        joins.append(tie.join)
        _adopt(tie)
    used = {id(join.told) for join in joins}
    rules = {join.told.rule.id for join in joins if join.told.rule}
    for teller in tellers:
        _set_aside(teller, blames, used, rules, clock)
    return joins


def _words(teller: Blame) -> list[list[Node]]:
    """The fatal things a blame was told from outside, each once with its repetitions; those folded away too."""
    nodes = [n for n in (*teller.roots, *teller.explained) if n.outside and n.kin and n.rule is not None]
    beaten = {name for n in nodes if n.rule for name in n.rule.beats}
    groups: dict[tuple[str, object], list[Node]] = defaultdict(list)
    for n in sorted(nodes, key=lambda n: n.line):
        rule = n.rule
        if rule is None or rule.id in beaten or rule.role is not Role.CAUSE:
            continue
        if rule.severity is Severity.FATAL:
            pid = n.match.captures.get("pid") if n.match else None
            groups[rule.id, pid or n.line].append(n)
    return list(groups.values())


def _ties(blames: list[Blame], groups: list[tuple[Blame, list[Node]]], clock: Moments) -> list[_Tie]:
    ties: list[_Tie] = []
    for blame in blames:
        if blame.roots and blame.roots[0].outside:
            continue
        here = [
            _Tie(rank, distance, told, group, teller, blame)
            for teller, group in groups
            if teller.episode.source != blame.episode.source
            for rank, distance, told in _grounds(group[0], blame, blames, clock)
        ]
        best = min((tie.rank for tie in here), default=0)
        said = {tie.group[0].rule.id for tie in here if tie.rank == best and tie.group[0].rule}
        if (
            best < _SHARED or len(said) == 1
        ):  # of different things tied by next to nothing each would be a guess
            ties += here
    return ties


def _grounds(node: Node, blame: Blame, blames: list[Blame], clock: Moments) -> list[tuple[int, float, Join]]:
    """On what grounds a line from outside explains the failure of a blame: rank, distance, and the join."""
    captures = node.match.captures if node.match else {}
    pid, name = captures.get("pid"), str(captures.get("comm") or captures.get("unit") or "")
    by_pid = pid is not None and pid in _pids(blame)
    named = by_pid or (bool(name) and node.kin == SURE)
    who = f"the process ({name or 'pid'} {pid})" if by_pid else f"the name ({name})"
    found: list[tuple[int, float, Join]] = []
    if not blame.roots and (blame.notices or blame.failed):
        for notice in blame.notices:
            span = clock.span(node, notice)
            if span is None and by_pid:
                found.append((2, 0.0, Join(node, notice, f"by {who}")))
            elif span is None:
                ground = f"by {who} alone" if name else "as the only line of its kind"
                rank = _SHARED if named else _SHARED + 1
                ground += "; their times cannot be compared"
                found.append((rank, float(-node.line), Join(node, notice, ground, WEAK)))
            elif span.within(-EARLY, NEAR) and _in_run(clock, node, blame, ()):
                if named:
                    ground = f"by the time ({_apart(span.seconds)}) and {who}"
                    found.append((0 if by_pid else 1, span.distance, Join(node, notice, ground)))
                else:
                    ground = f"by the time alone ({_apart(span.seconds)})"
                    found.append((3, span.distance, Join(node, notice, ground, WEAK)))
            elif named:
                hours = clock.shift(node, notice, HOUR / 4 if by_pid else HOUR)
                if hours is not None:
                    ground = f"by {who}, if their clocks differ by {abs(hours):g} hours"
                    most = SURE if by_pid else WEAK
                    found.append((2 if by_pid else 4, 0.0, Join(node, notice, ground, most)))
    elif named:
        # It has a cause of its own, or just ends: what hit another process before is no explanation.
        for notice, least, most_late in _ends(blame):
            span = clock.span(node, notice)
            if span and span.within(least, most_late) and _in_run(clock, node, blame, blames):
                ground = f"by the time ({_apart(span.seconds)}) and {who}"
                found.append((0 if by_pid else 1, span.distance, Join(node, notice, ground)))
    return found


def _ends(blame: Blame) -> list[tuple[Node, float, float]]:
    """Lines by which a run ends that has a cause of its own or none, with the seconds they may be from a kill."""
    if blame.roots:
        first = blame.roots[0]
        unknown = [] if first.rule is not None else [(n, -SHARP[0], NEAR) for n in blame.notices]
        return [(first, 0.0, NEAR / 3), *unknown]
    episode = blame.episode
    if not episode.events or not (episode.marks or episode.served):
        return []
    last = max(episode.events, key=lambda e: e.lines[-1])
    return [(Node(last, last.lines[-1]), -NEAR, -SHARP[0])]


def _adopt(tie: _Tie) -> None:
    """Makes a line of another input the root of a failure."""
    teller, blame, node = tie.teller, tie.blame, tie.join.told
    moved = {id(n) for n in tie.group}
    blame.explained = [n for n in blame.roots if n.rule is None] + tie.group[1:] + blame.explained
    blame.roots = [node, *(n for n in blame.roots if n.rule is not None)]
    blame.failed = True
    blame.explained += teller.notices
    teller.notices = []
    teller.roots = [n for n in teller.roots if id(n) not in moved]
    teller.explained = [n for n in teller.explained if id(n) not in moved]
    teller.failed = bool(teller.roots)
    if not teller.roots:
        blame.explained += teller.explained
        teller.explained = []


def _set_aside(teller: Blame, blames: list[Blame], used: set[int], rules: set[str], clock: Moments) -> None:
    """A kill far from every failure in the other inputs explains none of them, and is no answer beside theirs."""
    if teller.notices:
        return  # it explains a death in its own input
    failures = [
        n
        for b in blames
        if b.episode.source != teller.episode.source and b.failed
        for n in (b.notices or b.roots)
        if n.event.source == b.episode.source
    ]
    for node in [n for n in teller.roots if n.outside and id(n) not in used]:
        spans = [clock.span(node, failure) for failure in failures]
        known = [span.distance for span in spans if span is not None]
        if known and len(known) == len(spans) and min(known) > NEAR:
            why = f"it and the failure in the other input are {_apart(min(known))}"
        elif node.rule is not None and node.rule.id in rules:
            why = "another one like it fits the failure in the other input better"
        else:
            continue
        teller.roots = [n for n in teller.roots if n is not node]
        teller.aside.append((node, why))
    teller.failed = bool(teller.roots or teller.notices)


# ---- another server process's word -------------------------------------------------------------------------


def _inside(blames: list[Blame], clock: Moments) -> list[Join]:
    """A worker's own log names the cause of a death that the head node's log only notices."""
    joins: list[Join] = []
    tellers = [b for b in blames if b.roots and not b.roots[0].outside and _fatal(b.roots[0])]
    for blame in blames:
        if blame.roots or not blame.notices:
            continue
        ties: list[tuple[int, float, Join, Blame]] = []
        for teller in tellers:
            root = teller.roots[0]
            if teller.episode.source == blame.episode.source:
                continue
            for notice in blame.notices:
                span = clock.span(root, notice)
                near = span is not None and span.within(-EARLY, NEAR)
                pids = {int(p) for p in _NAMED_PID.findall(notice.event.text)}
                by_pid = root.event.envelope.pid in pids
                if near and span is not None:
                    by_pid = by_pid or bool(_lanes(blame) & _lanes(teller))
                    ground = f"by the time ({_apart(span.seconds)})" + (" and the process" if by_pid else "")
                    ties.append((0 if by_pid else 2, span.distance, Join(root, notice, ground), teller))
                elif by_pid and span is None:
                    ties.append((1, 0.0, Join(root, notice, "by the process"), teller))
        if ties:
            _, _, told, teller = min(ties, key=lambda tie: tie[:2])
            joins.append(told)
            teller.explained += blame.notices + blame.explained
            teller.failed = True
            teller.episode.facts = {**blame.episode.facts, **teller.episode.facts}
            blame.notices, blame.explained, blame.failed = [], [], False
    return joins


def _fatal(node: Node) -> bool:
    return node.rule is None or node.rule.severity is Severity.FATAL


def _pids(blame: Blame) -> set[int]:
    """The processes that a run's lines come from or name."""
    pids = {e.envelope.pid for e in blame.episode.events if e.envelope.pid}
    for notice in blame.notices:
        pids |= {int(p) for p in _NAMED_PID.findall(notice.event.text)}
    return pids


def _lanes(blame: Blame) -> set[tuple[str, int]]:
    """The processes of a run, where a name and a number tell them."""
    return {
        (e.envelope.role, e.envelope.pid)
        for e in blame.episode.events
        if e.envelope.role and e.envelope.pid > 1
    }


def _apart(span: float) -> str:
    """How far apart, in words."""
    span = abs(span)
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if span >= 2 * size:
            return f"{span / size:.0f} {unit} apart"
    return "1 second apart" if round(span) == 1 else f"{span:.0f} seconds apart"


def _in_run(clock: Moments, node: Node, blame: Blame, blames: Sequence[Blame]) -> bool:
    """Whether a line of another input falls into a run, as far as it shows when that began and the next of `blames` did."""
    episode = blame.episode
    if any(mark.what == "start" for mark in episode.marks) and episode.events:
        began = clock.span(node, _first(episode.events))
        if began is not None and began.seconds > EARLY:
            return False
    for other in blames:
        later = other.episode
        if later.source == episode.source and later.first_line > episode.first_line and later.events:
            ended = clock.span(node, _first(later.events))
            return ended is None or ended.seconds >= -EARLY
    return True


def _first(events: list[Event]) -> Node:
    first = min(events, key=lambda e: e.lines[0])
    return Node(first, first.lines[0])
