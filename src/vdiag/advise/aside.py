"""What was considered and set aside, and lines that look alarming and are not."""

from __future__ import annotations

from typing import Any

from vdiag.advise.fixes import fill
from vdiag.advise.quotes import quoted
from vdiag.model import AlsoSeen, Harmless, Input
from vdiag.reason.blame import Blame, Node

_ALARMING = ("CRITICAL", "ERROR", "WARNING", "")  # levels, the most alarming first
MOST_DIMMED = 500  # lines of one harmless rule
MOST_LISTED = 12  # explained or set aside lines of one diagnosis


def set_aside(blames: list[Blame], inputs: list[Input]) -> list[AlsoSeen]:
    """What was considered and set aside, each rule and reason once."""
    seen: dict[tuple[str | None, str], AlsoSeen] = {}
    for blame in blames:
        for node, reason in blame.aside:
            quote = quoted(node, inputs)
            key = (node.rule.id if node.rule else None, reason)
            seen.setdefault(key, AlsoSeen(key[0], node.line, quote.source, quote.text[:300], reason))
    return list(seen.values())[:MOST_LISTED]


def harmless_lines(blames: list[Blame], inputs: list[Input]) -> list[Harmless]:
    """What healthy servers print too, each rule once, in the order of how it was printed: errors, warnings, the rest."""
    nodes: dict[str, list[Node]] = {}
    facts: dict[str, dict[str, Any]] = {}
    for blame in blames:
        for node in blame.harmless:
            if node.rule is not None:
                nodes.setdefault(node.rule.id, []).append(node)
                facts.setdefault(node.rule.id, blame.episode.facts)
    ranked = sorted(nodes.values(), key=lambda own: min(_ALARMING.index(_level(node)) for node in own))
    return [_told(own, facts, inputs) for own in ranked[:MOST_LISTED]]


def _level(node: Node) -> str:
    level = node.event.envelope.level
    return level if level in _ALARMING else ""


def _told(own: list[Node], facts: dict[str, dict[str, Any]], inputs: list[Input]) -> Harmless:
    first = own[0]
    rule = first.rule
    assert rule is not None
    title, why, _, _ = fill(rule, first.match.captures if first.match else {}, facts[rule.id])
    quote = quoted(first, inputs)
    lines = sorted({node.line for node in own if node.event.source == first.event.source})
    return Harmless(
        rule.id, title, why, quote.line, quote.source, quote.text[:300], len(own), lines[:MOST_DIMMED]
    )
