"""`vdiag rules test --explain LOG`: which rules matched a log, which won and why, and why a named one did not."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vdiag.cli.console import tell
from vdiag.cli.names import near_ids

if TYPE_CHECKING:
    from vdiag.match.matcher import Match
    from vdiag.rulebook import Rulebook

MOST_TIMES = 5  # lines listed of one rule


def explain_log(path: Path, rulebook: Rulebook, asked: Sequence[str]) -> bool:
    """Print what became of the rules on a log; whether it could be read and the `asked` ids exist."""
    from vdiag.intake.sources import sources
    from vdiag.pipeline import Reading
    from vdiag.reason.why import why_it_won, why_not

    found, problems = sources([str(path)], sys.stdin.buffer)
    reading = Reading(rulebook)
    for number, source in enumerate(found):
        reading.read(number, source)
    for problem in problems:
        tell(problem, err=True)
    conclusion = reading.conclusion()
    tell(f"{path}: {conclusion.verdict.value}")
    _matched(reading.matches, rulebook)
    for place, finding in enumerate(conclusion.findings, 1):
        node = finding.node
        name = node.rule.id if node.rule else "(no rule)"
        sure = f"confidence {finding.confidence:.2f}"
        tell(f"  {place}. {name}, line {node.line}, {sure}: {why_it_won(finding)}")
    for blame in conclusion.blames:
        for node, reason in blame.aside:
            tell(f"  set aside: {node.rule.id if node.rule else 'an exception'}, line {node.line}: {reason}")
    good = not problems
    for name in asked:
        rule = rulebook.by_id(name)
        if rule is None:
            tell(f"  {unknown_id(name, (r.id for r in rulebook.rules))}")
            good = False
            continue
        for sentence in why_not(rule, rulebook, reading.events, reading.matches, conclusion):
            tell(f"  {rule.id} {sentence}")
    return good


def unknown_id(name: str, ids: Iterable[str]) -> str:
    """What to say of an id that no rule has, with those that may have been meant."""
    near = near_ids(name, ids)
    return f"{name}: no rule has this id" + (f"; near it: {', '.join(near)}" if near else "")


def _matched(matches: Sequence[Match], rulebook: Rulebook) -> None:
    """Each rule that matched once, with its lines; in the order of the log."""
    by_rule: dict[int, list[Match]] = {}
    for match in matches:
        by_rule.setdefault(match.rule, []).append(match)
    for number, own in sorted(by_rule.items(), key=lambda item: item[1][0].line):
        rule = rulebook.rules[number]
        lines = ", ".join(str(match.line) for match in own[:MOST_TIMES])
        more = f" and {len(own) - MOST_TIMES} more" if len(own) > MOST_TIMES else ""
        facts = ", ".join(f"{name}={value!r}" for name, value in own[0].captures.items())
        tell(
            f"  matched {rule.id} ({rule.role.value}) on line {lines}{more}, weight {own[0].weight}"
            f"{': ' if facts else ''}{facts[:200]}"
        )
