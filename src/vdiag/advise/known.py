"""What the texts and fixes of one finding may ask for, by the run it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vdiag.advise.budget import facts_of_run
from vdiag.advise.shown import Shown
from vdiag.model import Severity
from vdiag.reason.blame import Blame, Node
from vdiag.reason.conclude import Finding
from vdiag.reason.story import facts_of_unit
from vdiag.rulebook.compile import Rulebook

if TYPE_CHECKING:
    from vdiag.advise.load import Failure


def facts_for(
    finding: Finding,
    context: dict[str, Any],
    blames: list[Blame],
    rulebook: Rulebook,
    latest: Node | None = None,
) -> dict[str, Any]:
    """What texts and fixes of a finding may ask for: its run's own facts count most.

    `latest`: the node whose unit's figures count, where it is not the finding's own.
    """
    blame = finding.blame
    unit = (latest or finding.node).event.envelope.unit
    own = facts_of_unit([other.episode for other in blames], rulebook, finding.node.event)
    facts = {
        **context,
        **(blame.episode.facts if own is None else own),
        **facts_of_run(blame.episode, rulebook, unit),
        **_load_facts(finding, rulebook),
    }
    others = [other.episode.events for other in reversed(blames) if other is not blame]
    facts["shown"] = shown = Shown([blame.episode.events, *others], line_here(finding.node, blame), facts)
    if not facts.get("model"):
        facts["model"] = shown.model or None
    if not facts.get("args") and not facts.get("namespace"):
        for name, value in shown.arguments.items():
            if facts.get(name) in (None, ""):
                facts[name] = value
    return facts


def failure_of(finding: Finding) -> Failure | None:
    """Where the load ends that led to a finding; None where the server lived on."""
    if not is_fatal(finding):
        return None
    from vdiag.advise.load import Failure

    return Failure(line_here(finding.node, finding.blame), finding.node.event)


def latest_of(finding: Finding) -> Node:
    """The failure of the run that a finding is about: of a fatal one that came back, the last."""
    return finding.last if finding.last is not None and is_fatal(finding) else finding.node


def _load_facts(finding: Finding, rulebook: Rulebook) -> dict[str, Any]:
    """What fixes may ask of the load before a failure."""
    if "load_running" not in finding.blame.episode.facts:
        return {}
    from vdiag.advise.load import load_facts  # late, as above

    return load_facts(finding.blame.episode, rulebook, failure_of(finding))


def line_here(node: Node, blame: Blame) -> int:
    """The line by which a root is placed in its episode: where it stands in another input, that of the first notice."""
    episode = blame.episode
    if node.event.source == episode.source:
        return node.line
    return min((n.line for n in blame.notices if n.event.source == episode.source), default=episode.last_line)


def is_fatal(finding: Finding) -> bool:
    """Whether the server did not start, or died, of it; what no rule knows counts as that."""
    return finding.node.rule is None or finding.node.rule.severity is Severity.FATAL
