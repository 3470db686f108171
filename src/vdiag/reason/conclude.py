"""From the blame of each episode to findings: folded over a crash loop, in order, with the verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from vdiag.match.keeper import Answered
from vdiag.match.matcher import Match
from vdiag.model import Event, Kind, Phase, Severity, Verdict
from vdiag.reason import confidence
from vdiag.reason.blame import Blame, Node, judge
from vdiag.reason.join import Kin
from vdiag.reason.story import Episode, tell
from vdiag.reason.survival import AT_EASE, FAR, Survival
from vdiag.reason.unknown import fingerprint
from vdiag.rulebook.compile import Rulebook
from vdiag.scan.repair import CERTAIN, LIKELY

if TYPE_CHECKING:
    from vdiag.reason.joining import Join

_SUPPORT = {
    Verdict.DIAGNOSED: 3.0,
    Verdict.UNRECOGNISED: 0.65,
    Verdict.INCOMPLETE: 1.0,
    Verdict.STARTING: 0.9,
    Verdict.HEALTHY: 0.8,
    Verdict.EMPTY: 0.0,
}
SURE = 0.8  # from here a diagnosis may replace a clean bill of health
_CRY = re.compile(
    r"\W{0,3}(?:[\w./-]{1,60}: ){0,2}(?:(?:fatal|internal|critical) )?error(?:: |\b.{0,60}: )|.{0,60}\bfailed to start\b",
    re.I,
)
NEAR = 60  # lines between an error that nothing names and the trailer it led to
PER_RULE = 0.1  # each further wording that a reading makes legible
NOTICED = "noticed"
CAUSE = "cause"
UNKNOWN = "unknown"


class Finding(msgspec.Struct):
    """A root with what the whole log says about it."""

    kind: str  # cause | unknown | noticed
    node: Node
    blame: Blame
    confidence: float
    times: int = 1
    last: Node | None = None  # the latest repetition
    recovered_at: int | None = None
    recovered_in: int = 0  # its input


class Conclusion(msgspec.Struct):
    """What reasoning hands on."""

    verdict: Verdict
    findings: list[Finding]
    blames: list[Blame]
    joins: list[Join] = []  # what one input was found to say about a failure in another

    @property
    def support(self) -> float:
        """How much this reading explains: of two readings of one text the better supported wins."""
        best = self.findings[0].confidence if self.findings else 0.0
        known = set().union(*(blame.legible for blame in self.blames))
        return _SUPPORT[self.verdict] + best + PER_RULE * len(known)

    def outbids(self, plain: Conclusion, trust: float) -> bool:
        """Whether this repaired reading is better than the plain one; trouble where there was none must be sure.

        Unless it only took off what stood on every line: that is the log then.
        """
        if plain.verdict in (Verdict.HEALTHY, Verdict.STARTING) and self.findings and trust < CERTAIN:
            return self.verdict is Verdict.DIAGNOSED and self.findings[0].confidence >= SURE
        if not plain.findings and not self.findings:
            return trust >= LIKELY  # nothing speaks but the order of the lines
        return self.support + trust > plain.support

    def backed(self, plain: Conclusion) -> None:
        """What the plain reading says as well, of this repaired one, is as sure as there."""
        for mine, its in zip(self.findings[:1], plain.findings[:1], strict=False):
            a, b = mine.node.rule, its.node.rule
            if a is not None and b is not None and a.id == b.id:
                mine.confidence = max(mine.confidence, its.confidence)

    def doubted(self, other: Conclusion) -> None:
        """Where the reading that lost is sure of another cause, the text is too damaged to be sure of this one.

        Unless this reading knows that cause too, and of the same text a more special one.
        """
        for mine, its in zip(self.findings[:1], other.findings[:1], strict=False):
            a, b = mine.node.rule, its.node.rule
            if a is None or b is None or its.confidence < SURE:
                continue
            if b.id != a.id and b.id not in mine.blame.named(mine.node):
                mine.confidence = min(mine.confidence, confidence.VAGUE)


def conclude(
    events: list[Event],
    matches: list[Match],
    served: dict[int, list[Answered]],
    rulebook: Rulebook,
    spoke: bool,
) -> Conclusion:
    """The verdict and the findings, most important first. `spoke`: whether the inputs held any text."""
    episodes = tell(events, matches, served, rulebook)
    kin = Kin(events)
    blames = [judge(episode, kin, rulebook) for episode in episodes]
    joins: list[Join] = []
    if len({episode.source for episode in episodes}) > 1:
        from vdiag.reason.joining import join

        joins = join(blames)
    # What is no server's log, and was not joined to one, comes first here: later runs stand before earlier ones.
    servers = {e.source for e in episodes if e.marks or e.served}
    blames.sort(key=lambda blame: blame.episode.source in servers)
    found = [f for blame in reversed(blames) for f in _findings(blame)]
    most = {id(j.told): j.most for j in joins}
    for finding in found:
        finding.confidence = min(finding.confidence, most.get(id(finding.node), 1.0))
    findings = _fold(found)
    for finding in findings:
        finding.recovered_at, finding.recovered_in = _recovered(finding, blames)
    findings.sort(key=_importance)
    last = blames[-1] if blames else None
    if last and not last.failed and _starting(last.episode) and all(_is_client(f) for f in findings):
        # Clients that call too early do not hide that the server is still starting.
        last.aside += [(f.node, "the server is still starting") for f in findings]
        findings = []
    spoke = spoke and (bool(matches) or _is_log(kin, events))
    return Conclusion(_verdict(findings, blames, spoke), findings, blames, joins)


def _is_log(kin: Kin, events: list[Event]) -> bool:
    """Whether the inputs look like a log, or speak of vLLM; access lines alone leave no events and do."""
    if not events or kin.at_home:
        return True
    return any(e.kind is not Kind.NATIVE or e.envelope.time or e.envelope.level for e in events)


def _is_client(finding: Finding) -> bool:
    """Whether a caller over HTTP erred; an exception that no log record tells is an offline call's own."""
    event = finding.node.event
    if event.kind is Kind.EXCEPTION and not event.envelope.level and not event.envelope.role:
        return False
    return finding.node.rule is not None and finding.node.rule.severity is Severity.CLIENT


def _findings(blame: Blame) -> list[Finding]:
    findings: list[Finding] = []
    for node in blame.roots:
        sure = confidence.of_cause(node, blame)
        if findings and node.rule is not None and node.rule.severity is Severity.FATAL:
            sure = min(sure, confidence.RIVAL)
        findings.append(Finding(CAUSE if node.rule is not None else UNKNOWN, node, blame, sure))
    if findings:
        return findings
    if blame.notices and (lone := _last_words(blame, min(n.line for n in blame.notices))):
        return [Finding(UNKNOWN, lone, blame, confidence.of_unknown(lone, blame))]
    if blame.notices:
        # A death tells more than a generic trailer, and so does a consequence with news that stands before it.
        deaths = [n for n in blame.notices if n.rule is not None and n.rule.marks == "death"]
        news = [
            n for n in blame.explained if n.rule is not None and n.event.kind in (Kind.EXCEPTION, Kind.NATIVE)
        ]
        first = min(deaths or [*blame.notices, *news], key=lambda n: n.line)
        first = next((n for n in news if _introduces(first, n)), first)
        return [Finding(NOTICED, first, blame, confidence.NOTICE)]
    if blame.failed and blame.explained:
        first = blame.explained[0]
        return [Finding(NOTICED, first, blame, confidence.NOTICE)]
    if blame.cut and (lone := _last_words(blame, blame.cut[0].lines[0])):
        return [Finding(UNKNOWN, lone, blame, confidence.of_unknown(lone, blame))]
    if blame.cut:
        event = blame.cut[0]
        return [Finding(NOTICED, Node(event, event.line), blame, confidence.NOTICE - 0.1)]
    lone = _last_words(blame)
    return [Finding(UNKNOWN, lone, blame, confidence.of_unknown(lone, blame))] if lone else []


def _introduces(notice: Node, news: Node) -> bool:
    """Whether a trailer is the message over a traceback ("EngineCore failed to start.") that ends in the news."""
    one, other = notice.event.envelope, news.event.envelope
    told_with = one.origin and (one.lane, one.origin, one.time) == (other.lane, other.origin, other.time)
    return bool(told_with) and news.event.kind is Kind.EXCEPTION and notice.line < news.line


def _cries(event: Event, at_home: bool) -> bool:
    """Whether a line says of itself that it is an error: by its level, or in so many words at its beginning."""
    if event.kind is Kind.LOG:
        return event.envelope.level in ("ERROR", "CRITICAL")
    return at_home and event.kind in (Kind.NATIVE, Kind.UNIT) and _CRY.match(event.rows[0]) is not None


def _last_words(blame: Blame, before: int = FAR) -> Node | None:
    """An error-level line that nothing names, if the server is not seen working between it and `before`."""
    episode = blame.episode
    if before == FAR and episode.ready:
        return None
    seen = {id(n.event) for n, _ in blame.aside} | {id(m.event) for m in episode.matches}
    survival = Survival(episode, [])
    at_ease: dict[str, int] = {}  # lane → last line it logged at ease
    for event in episode.events:
        if event.envelope.level in AT_EASE and event.lines[0] < before:
            at_ease[event.envelope.lane] = max(at_ease.get(event.envelope.lane, 0), event.lines[0])
    for event in episode.events:
        env, end = event.envelope, event.lines[-1]
        if id(event) in seen or not _cries(event, blame.at_home):
            continue
        if event.lines[0] > before or (before - end > NEAR and before < FAR):
            continue
        if at_ease.get(env.lane, 0) <= event.lines[0] and not survival.alive(end, env, env.lane, before):
            return Node(event, event.line)
    return None


def _fold(findings: Sequence[Finding]) -> list[Finding]:
    """One finding for each cause, from the latest episode back; the first line stands, the count grows."""
    folded: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        rule = finding.node.rule
        key = (finding.kind, rule.id if rule else fingerprint(finding.node.event))
        kept = folded.get(key)
        if kept is None:
            folded[key] = finding
            finding.last = finding.node
            same = [n for n in finding.blame.explained if n.rule is rule and rule is not None]
            if rule is not None and rule.severity is not Severity.FATAL:
                finding.times = 1 + len(same)
                here = [n for n in same if n.event.source == finding.node.event.source]
                finding.last = max([finding.node, *here], key=lambda n: n.line)
        else:
            kept.times += finding.times if finding.node is not kept.node else 0
            same_source = finding.node.event.source == kept.node.event.source
            if same_source and finding.node.line < kept.node.line:
                kept.node = finding.node
            last = kept.last or kept.node
            if finding.node.event.source == last.event.source and finding.node.line > last.line:
                kept.last = finding.node
            kept.confidence = max(kept.confidence, finding.confidence)
    return list(folded.values())


def _recovered(finding: Finding, blames: list[Blame]) -> tuple[int | None, int]:
    """The line and the input of a later start that came to serve and did not fail."""
    episode = finding.blame.episode
    rule = finding.node.rule
    if rule is not None and rule.severity is not Severity.FATAL:
        return None, 0
    for blame in blames:
        other = blame.episode
        if (
            other.source == episode.source
            and other.first_line > episode.first_line
            and other.ready
            and not blame.failed
        ):
            return other.first_line, other.source
    return None, 0


def _importance(finding: Finding) -> tuple[int, int, int]:
    rule = finding.node.rule
    severity = rule.severity if rule is not None else Severity.FATAL
    order = {Severity.FATAL: 0, Severity.DEGRADED: 1, Severity.CLIENT: 2}[severity]
    kind = {CAUSE: 0, UNKNOWN: 1, NOTICED: 2}[finding.kind]
    return (order, 0 if finding.recovered_at is None else 1, kind)


def _verdict(findings: list[Finding], blames: list[Blame], spoke: bool) -> Verdict:
    if findings:
        kinds = {f.kind for f in findings}
        if CAUSE in kinds:
            return Verdict.DIAGNOSED
        return Verdict.UNRECOGNISED if UNKNOWN in kinds else Verdict.INCOMPLETE
    if not spoke:
        return Verdict.EMPTY
    if blames and _starting(blames[-1].episode):
        return Verdict.STARTING
    return Verdict.HEALTHY


def _starting(episode: Episode) -> bool:
    marks = [m.what for m in episode.marks]
    return bool(marks) and not episode.ready and marks[-1] not in (Phase.SHUTDOWN.value, "death")
