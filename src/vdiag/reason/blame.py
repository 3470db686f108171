"""The graph of blame of one episode: what failed, what explains what, and which node nothing explains.

The rules of evidence are those of docs/architecture.md ("Walking back"). Nodes are the wordings that rules know
and the exceptions that none does; an edge goes from an effect to its cause.
"""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec

from vdiag.match.matcher import Match
from vdiag.model import Envelope, Event, Kind, Phase, Role, Severity
from vdiag.reason.conditions import Conditions
from vdiag.reason.join import Kin
from vdiag.reason.story import QUIET, Episode
from vdiag.reason.survival import FAR, Survival
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.schema import Rule

TRANSPORT = re.compile(  # paths of code that moves bytes
    r"/(?:socket|ssl|http/client|selectors)\.py\"|/(?:urllib3|httpcore|httpx|requests|aiohttp|anyio)\d*/"
)
TRANSPORT_TYPE = re.compile(r"(?:urllib3|httpcore|httpx|requests|aiohttp|anyio|socket|ssl|http)\d*\.")
NOTHING = "\0"  # a lane that no mark has


class Node(msgspec.Struct):
    """One thing in the story that may be, or point to, a cause."""

    event: Event
    line: int
    rule: Rule | None = None
    match: Match | None = None
    weak: bool = False  # a warning, or a line that healthy servers print too
    kin: float = 1.0  # how surely the process it speaks of is the server's
    vague: bool = False  # a more special rule might hold, if the traceback or the phase were known

    @property
    def outside(self) -> bool:
        """Told by the kernel or a unit manager, which speak of a death when it is over."""
        return self.event.kind in (Kind.KERNEL, Kind.UNIT) or "comm" in (
            self.match.captures if self.match else {}
        )


class Blame(msgspec.Struct):
    """What one episode comes to."""

    episode: Episode
    roots: list[Node] = []  # best first; empty: nothing that could be a cause
    notices: list[Node] = []  # trailers and deaths: lines that notice a failure
    explained: list[Node] = []  # consequences of the first root
    aside: list[tuple[Node, str]] = []  # considered and set aside, with the reason
    harmless: list[Node] = []  # lines that look alarming and are not
    failed: bool = False
    at_home: bool = True  # the log is a vLLM server's, or speaks of one
    cut: list[Event] = []  # tracebacks whose exception is not here
    legible: dict[str, list[Event]] = {}  # rule that matches in it and whose conditions hold → where

    def named(self, node: Node) -> set[str]:
        """Ids of all rules that know a node's event, its own among them."""
        return {rule for rule, events in self.legible.items() if any(e is node.event for e in events)}


def judge(episode: Episode, kin: Kin, rulebook: Rulebook) -> Blame:
    """The graph of blame of an episode. `kin` knows the processes and units of the whole log."""
    return _Judge(episode, kin, rulebook).blame()


class _Judge:
    def __init__(self, episode: Episode, kin: Kin, rulebook: Rulebook) -> None:
        self.episode = episode
        self.kin = kin
        self.rulebook = rulebook
        self.result = Blame(episode)
        self.conditions = Conditions(episode, rulebook)
        self.survival = Survival(episode, [])
        self.by_event: dict[int, list[Match]] = defaultdict(list)
        for match in episode.matches:
            self.by_event[id(match.event)].append(match)
        self.deaths = sorted(m.line for m in episode.marks if m.what == "death")

    # ---- the whole -----------------------------------------------------------------------------------------

    def blame(self) -> Blame:
        """Nodes, then one root a chain, then what was survived, then the ranking."""
        result, episode = self.result, self.episode
        result.at_home = self.kin.at_home
        causes: list[Node] = []
        symptoms: list[Node] = []
        for event in episode.events:
            for role, node in self._nodes(event):
                if role is Role.CAUSE:
                    causes.append(node)
                elif role is Role.TRAILER and node.kin >= 1:
                    result.notices.append(node)
                elif role is Role.SYMPTOM and node.kin:
                    symptoms.append(node)
                elif role is Role.BENIGN:
                    result.harmless.append(node)
        self.survival = Survival(episode, sorted(node.line for node in result.notices))
        causes = self._chains(causes, symptoms)
        outlived = {id(node) for node in causes if node.kin and self._survived(node)}
        ends = {n.rule.id: n.line for n in causes if n.rule and n.kin and id(n) not in outlived}
        alive: list[Node] = []
        for node in causes:
            if not node.kin:
                result.aside.append((node, "it speaks of another program, not of the server"))
            elif id(node) in outlived and not self._caught_up(node, ends):
                result.aside.append((node, "the same server went on working after it"))
            else:
                alive.append(node)
        fatal = [n for n in alive if n.rule is None or n.rule.severity is Severity.FATAL]
        result.failed = bool(result.notices) or any(not n.weak for n in fatal) or bool(result.cut)
        result.failed = result.failed or any(not self._survived(s) for s in symptoms if not s.weak)
        if not result.failed:
            for node in [n for n in fatal if n.rule is not None and not n.rule.alone]:
                result.aside.append((node, "nothing failed after it"))
            alive = [n for n in alive if n.rule is None or n.rule.alone]
        self._rank(alive, symptoms)
        return result

    # ---- nodes -----------------------------------------------------------------------------------------------

    def _nodes(self, event: Event) -> list[tuple[Role, Node]]:
        """The nodes rules make of an event: of matches that compete for the same text, the winner."""
        matches = [m for m in self.by_event.get(id(event), ()) if self.conditions.hold(m)]
        if not matches:
            return []
        for match in matches:
            self.result.legible.setdefault(self._rule(match).id, []).append(event)
        benign = [m for m in matches if self._rule(m).role is Role.BENIGN]
        nodes: list[tuple[Role, Node]] = []
        for role in (Role.CAUSE, Role.SYMPTOM, Role.TRAILER):
            group = [m for m in matches if self._rule(m).role is role]
            if role is Role.CAUSE and benign:
                group = [m for m in group if not any(_overlap(m, b) and self._excuses(b, m) for b in benign)]
            for winner in self._winners(event, group):
                rule = self._rule(winner)
                weak = not rule.alone or (winner.row == 0 and _mild(event))
                kin = self.kin.of(winner.captures)
                vague = any(
                    rule.id in self._rule(m).beats and self.conditions.unknown(m)
                    for m in self.by_event[id(event)]
                )
                nodes.append((role, Node(event, winner.line, rule, winner, weak, kin, vague)))
        if benign and all(role is not Role.CAUSE for role, _ in nodes):
            best = max(benign, key=lambda m: m.weight)
            nodes.append((Role.BENIGN, Node(event, best.line, self._rule(best), best)))
        return nodes

    def _winners(self, event: Event, matches: list[Match]) -> list[Match]:
        if len(matches) < 2:
            return matches
        left = [m for m in matches if not any(self._beats(o, m) for o in matches if o is not m)] or matches
        if event.kind is Kind.EXCEPTION:
            winner = max(left, key=lambda m: (self._specific(m), -m.span[0]))
            first = min((m for m in left if m.rule == winner.rule), key=lambda m: m.span[0])
            return [msgspec.structs.replace(first, captures={**first.captures, **winner.captures})]
        winners: list[Match] = []
        for match in sorted(left, key=lambda m: (-self._specific(m), m.span[0])):
            if not any(_overlap(match, w) or match.row == w.row for w in winners):
                winners.append(match)
        return sorted(winners, key=lambda m: m.span[0])

    def _excuses(self, benign: Match, cause: Match) -> bool:
        """Whether a benign wording is the better reading of a text; on a tie, unless the cause has conditions."""
        rule = self._rule(cause)
        conditional = bool(rule.repeats > 1 or rule.often or rule.frames or rule.phase or rule.needs)
        return benign.weight >= cause.weight + conditional

    def _specific(self, match: Match) -> int:
        rule = self._rule(match)
        placed = min(40, match.weight) * bool(rule.frames or rule.phase)
        return match.weight + placed + 40 * bool(rule.needs)

    def _beats(self, one: Match, other: Match) -> bool:
        return self._rule(other).id in self._rule(one).beats

    def _rule(self, match: Match) -> Rule:
        return self.rulebook.rules[match.rule]

    # ---- chains ----------------------------------------------------------------------------------------------

    def _chains(self, causes: list[Node], symptoms: list[Node]) -> list[Node]:
        """One root a traceback chain: the causes without those that another of their chain explains, and unknown roots."""
        known = {id(n.event): n for n in causes}
        spoken = {
            id(n.event)
            for n in (*symptoms, *self.result.notices)
            if n.match is not None and n.match.row <= n.event.root_row
        }
        benign = {
            id(m.event)
            for m in self.episode.matches
            if self._rule(m).role is Role.BENIGN and m.row <= m.event.root_row and self.conditions.hold(m)
        } - known.keys()
        chains: dict[int, list[Event]] = defaultdict(list)
        for event in self.episode.events:
            if event.kind is Kind.EXCEPTION:
                if event.exception:
                    chains[event.traceback].append(event)
                elif not event.ignored and not _mild(event):
                    self.result.cut.append(event)
        unknown: list[Node] = []
        beaten: set[int] = set()
        for chain in chains.values():
            recognised = [known[id(e)] for e in chain if id(e) in known]
            if recognised:
                root = recognised[0]
                for node in recognised[1:]:
                    if node.rule and root.rule and root.rule.id in node.rule.beats:
                        root = node
                lost = [n for n in recognised if n is not root and n.rule is not root.rule]
                beaten |= {id(n) for n in lost}
                self.result.explained += lost
                continue
            rest = [e for e in chain if id(e) not in spoken and id(e) not in benign]
            if not rest or rest[0].ignored:
                continue
            event = min(rest, key=_wraps)  # of equals the innermost
            unknown.append(Node(event, event.line, weak=_mild(event)))
        return [n for n in causes if id(n) not in beaten] + unknown

    # ---- survival ------------------------------------------------------------------------------------------

    def _survived(self, node: Node) -> bool:
        """Whether the same process is seen working after a fault, before anything notices a failure."""
        if node.outside and "comm" in (node.match.captures if node.match else {}):
            return False  # a process was killed: that is a death, whatever came after
        if node.rule is not None and node.rule.severity is not Severity.FATAL:
            return False
        end = node.event.lines[-1]
        if self.survival.noticed_at(node.line, end + 3):
            return False
        if (
            node.rule is None
            and not self.kin.at_home
            and self.survival.went_on(end, node.event.envelope.unit)
        ):
            return True
        return self._alive_behind(node)

    def _caught_up(self, node: Node, ends: dict[str, int]) -> bool:
        """Whether a start that went on behind a warning failed by what the warning's rule explains.

        `ends`: rule → last line of the causes that nothing outlived. A library that did not load is a warning of the
        imports and an exception much later, where it is first needed.
        """
        if node.rule is None or node.event.envelope.level not in QUIET:
            return False
        later = [ends[rule] for rule in node.rule.beats if ends.get(rule, 0) > node.line]
        return any(self.episode.phase_at(line, ending=False) is not Phase.SERVING for line in later)

    def _alive_behind(self, node: Node) -> bool:
        """Whether the server is seen working between a fault and what notices a failure next."""
        end = node.event.lines[-1]
        own = node.event.kind in (Kind.EXCEPTION, Kind.LOG)  # what others say of a process names no lane
        lane = node.event.envelope.lane if own else NOTHING
        return self.survival.alive(end, _speaker(node), lane, self.survival.next_notice(end))

    def _broke(self, node: Node) -> bool:
        """Whether a fault that a living server would bear was what this run failed with."""
        return node.event.kind is Kind.EXCEPTION and not self._alive_behind(node)

    # ---- ranking -------------------------------------------------------------------------------------------

    def _rank(self, nodes: list[Node], symptoms: list[Node]) -> None:
        result = self.result
        beaten = {b for n in nodes if n.rule for b in n.rule.beats}
        standing = [n for n in nodes if n.rule is None or n.rule.id not in beaten]
        result.explained += [n for n in nodes if n.rule is not None and n.rule.id in beaten]
        fatal = [n for n in standing if n.rule is None or n.rule.severity is Severity.FATAL]
        # A death without a traceback of its own makes what other processes then say its consequence.
        death = self.deaths[0] if self.deaths else FAR
        result.explained += [n for n in fatal if _orphaned(n, death)]
        fatal = [n for n in fatal if not _orphaned(n, death)]
        strong = [n for n in fatal if not n.weak]
        weak = [n for n in fatal if n.weak]
        outside = [n for n in strong if n.outside and n.rule is not None]
        inside = [n for n in strong if not n.outside or n.rule is None]
        inside.sort(key=_order)
        outside.sort(key=_order)
        if outside and (not inside or inside[0].rule is None or outside[0].line < inside[0].line):
            ranked = outside + inside
        else:
            ranked = inside + outside
        weak.sort(key=_order)
        recognised = [n for n in weak if n.rule is not None]
        if not ranked:
            ranked = recognised + [n for n in weak if n.rule is None and result.failed]
        elif ranked[0].rule is None and recognised and recognised[0].line < ranked[0].line:
            ranked = recognised[:1] + ranked
        else:
            result.aside += [(n, "a warning; the failure has a stronger cause") for n in recognised]
        living = [n for n in standing if n.rule is not None and n.rule.severity is not Severity.FATAL]
        living.sort(key=lambda n: (n.rule is not None and n.rule.severity is Severity.CLIENT, n.line))
        if ranked:
            first = ranked[0]
            for node in ranked[1:]:
                if node.rule is not None and node.rule is not first.rule and node.outside != first.outside:
                    result.roots.append(node)
                else:
                    result.explained.append(node)
            result.roots.insert(0, first)
            result.aside += [(n, "the server had a worse fault") for n in living]
        elif not result.failed or not result.notices:
            result.roots = living
        elif broke := [n for n in living if self._broke(n)]:
            result.roots = broke
        else:
            result.aside += [(n, "the server had a worse fault") for n in living]
        quotes = [s for s in symptoms if s.match is not None and "quote" in s.match.captures]
        if not result.roots and result.failed and quotes:
            # The original of a quote is not here, so the quote itself is the event.
            first = quotes[0]
            result.roots = [Node(first.event, first.line)]
        result.explained += symptoms
        result.explained.sort(key=_order)


def _speaker(node: Node) -> Envelope:
    """Whose fault a node is; a unit manager's or the kernel's word is about others."""
    return Envelope() if node.event.kind in (Kind.UNIT, Kind.KERNEL) else node.event.envelope


def _mild(event: Event) -> bool:
    return event.envelope.level in ("WARNING", "INFO", "DEBUG")


def _orphaned(node: Node, death: int) -> bool:
    return node.rule is None and node.line > death and not node.outside


def _order(node: Node) -> tuple[int, int]:
    return (node.line, _DEPTH.get(node.event.envelope.role.lower()[:6], 1))


# Deeper processes first: what a worker says explains the engine core, and that the API server.
_DEPTH = {"worker": 0, "vllmwo": 0, "raywor": 0, "engine": 1, "apiser": 2}


def _overlap(one: Match, other: Match) -> bool:
    return one.span[0] < other.span[1] and other.span[0] < one.span[1]


def _wraps(event: Event) -> int:
    """How little an unknown exception says by itself.

    A group only holds others; what network code raised (ConnectError, gaierror) says less than what the library
    that called it made of it.
    """
    if event.exception.endswith("ExceptionGroup"):
        return 2
    if event.frames:
        return int(TRANSPORT.search(event.frames[-1]) is not None)
    return int(TRANSPORT_TYPE.match(event.exception) is not None)
