"""How sure a diagnosis may be: a documented score, from what was seen.

Start from how specific the wording is; take off for what is missing or doubtful. Calibrated on labelled logs:
of answers at 0.9 or more at least 98 of 100 should be right.
"""

from __future__ import annotations

from vdiag.model import Kind, Severity
from vdiag.reason.blame import Blame, Node

SPECIFIC = 24  # fixed characters of a wording from which it is hardly met by chance
UNKNOWN = 0.55  # the root exception by structure alone
NOTICE = 0.3  # only a line that notices a failure
RIVAL = 0.6  # a further cause beside the first of the same run
VAGUE = 0.88  # a more special rule might hold, if more of the log were here
STRANGER = 0.85  # told by another program, in a log that holds no word of vLLM
BY_NAME = 0.7  # a killed process joined by a likely name only


def of_cause(node: Node, blame: Blame) -> float:
    """Confidence of a cause that a rule names, 0 to 1."""
    match, rule = node.match, node.rule
    if match is None or rule is None:
        return of_unknown(node, blame)
    score = 0.97 if match.weight >= SPECIFIC else 0.93
    living = rule.severity is not Severity.FATAL
    if not living and not blame.failed:
        score -= 0.1
    if match.loose:
        score -= 0.08
    if node.weak:
        score -= 0.1 if blame.failed else 0.2
    if node.event.kind is Kind.NATIVE and not (blame.notices or blame.explained):
        score -= 0.02
    if rule.frames and not node.event.frames:
        score -= 0.05
    if not living and any(n is not node and n.rule is not None for n in blame.roots):
        score -= 0.1
    if not living and any(_before(n, node) for n in blame.explained if n.rule is None):
        score -= 0.15
    if node.vague:
        score = min(score, VAGUE)
    if not blame.at_home and (node.event.envelope.unit or node.event.kind in (Kind.UNIT, Kind.HTTP)):
        score = min(score, STRANGER)
    if node.kin < 1:
        score = min(score, BY_NAME)
    return round(max(score, 0.1), 2)


def _before(one: Node, other: Node) -> bool:
    return one.event.source == other.event.source and one.line < other.line


def of_unknown(node: Node, blame: Blame) -> float:
    """Confidence that this exception is the root, without a rule that knows it."""
    score = UNKNOWN
    if node.event.kind is not Kind.EXCEPTION:
        score -= 0.15
    if node.event.frames:
        score += 0.05
    if blame.notices:
        score += 0.05
    return round(score, 2)
