"""Rules held against their own examples: the text alone, and the whole program.

`match_text` runs the patterns on a text and knows nothing else. `try_rules` asks the program (a function from text
and rulebook to a report) whether the rule wins its examples and stays away from its lookalikes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import regex

from vdiag.model import Report, Role, Severity
from vdiag.rulebook.compile import CompiledPattern, Rulebook
from vdiag.rulebook.schema import Rule

if TYPE_CHECKING:
    from vdiag.rulebook.load import Placed

Diagnose = Callable[[str, Rulebook], Report]

TIMEOUT = 2.0  # seconds for one pattern on one example; more is a pattern that backtracks without end
#: What follows the example of a rule with `alone: false`: such a rule counts only if something failed.
FAILURE = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_RANKS = {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 3}


class Found(NamedTuple):
    """A rule that matches a text."""

    rule: str
    start: int  # offset into the text, of the match or of the rule's `at` capture
    captures: dict[str, Any]
    pattern: int  # index into Rulebook.patterns
    weight: int


class Outcome(NamedTuple):
    """What became of one example or lookalike."""

    rule: str
    kind: str  # example | lookalike
    number: int  # its index in the rule
    text: str
    passed: bool
    reason: str  # what decided; for a failure, what was expected and what came
    found: list[Found]  # the rules whose patterns match, the most specific first
    report: Report | None  # what the program said; None where it was not asked


def match_text(rulebook: Rulebook, text: str) -> list[Found]:
    """The rules with a pattern that matches somewhere in the text, each with its most specific one.

    No level, kind, frame or other condition of a rule is looked at, only its wordings. The most specific rule
    comes first. A pattern that runs into its time limit counts as no match.
    """
    squeezed = "".join(text.split())
    best: dict[str, Found] = {}
    for index, pattern in enumerate(rulebook.patterns):
        if pattern.squeezed and pattern.squeezed not in squeezed:
            continue
        match = search(pattern, text)
        if match is None:
            continue
        rule = rulebook.rules[pattern.rule]
        if rule.id in best and best[rule.id].weight >= pattern.weight:
            continue
        captures = pattern.captures(match.groupdict())
        start = match.start(rule.at) if rule.at in captures else match.start()
        best[rule.id] = Found(rule.id, start, captures, index, pattern.weight)
    return sorted(best.values(), key=lambda found: (-found.weight, found.rule))


def search(pattern: CompiledPattern, text: str, *, loose: bool = False) -> Any:
    """The first match of a pattern in a text as printed (or, `loose`, as wrapped), or None."""
    try:
        return _ready(pattern.loose if loose else pattern.source).search(text, timeout=TIMEOUT)
    except TimeoutError:
        return None


@lru_cache(maxsize=4096)
def _ready(source: str) -> Any:
    return regex.compile(source)


def conditional(rule: Rule, text: str, found: Iterable[Found] = (), rulebook: Rulebook | None = None) -> bool:
    """Whether more than the wording decides on a match here, so that only the program can tell.

    That is so for a rule with conditions, for a text whose level is too low for it, and where a rule that `beats`
    it matches too.
    """
    for item in found:
        other = rulebook.by_id(item.rule) if rulebook else None
        if other is not None and rule.id in other.beats:
            return True
    if rule.where != "any" or rule.frames or rule.phase or rule.needs or rule.unless or not rule.alone:
        return True
    said = [_RANKS[level.lower()] for level in _LEVEL.findall(text)]
    return rule.role is Role.CAUSE and bool(said) and max(said) < _RANKS[rule.level]


def try_rules(
    rules: Iterable[Placed | Rule], rulebook: Rulebook, diagnose: Diagnose | None = None
) -> Iterator[Outcome]:
    """The outcome of every example and lookalike of these rules, in their order.

    Without `diagnose` only the wordings are tried; a lookalike that a condition keeps apart then passes.
    """
    for entry in rules:
        rule = entry if isinstance(entry, Rule) else entry.rule
        for index, text in enumerate(rule.examples):
            yield _example(rule, index, text, rulebook, diagnose)
        for index, text in enumerate(rule.lookalikes):
            yield _lookalike(rule, index, text, rulebook, diagnose)


def _example(rule: Rule, index: int, text: str, rulebook: Rulebook, diagnose: Diagnose | None) -> Outcome:
    found = match_text(rulebook, text)
    report = diagnose(text if rule.alone else f"{text}\n{FAILURE}", rulebook) if diagnose else None

    def outcome(passed: bool, reason: str) -> Outcome:
        return Outcome(rule.id, "example", index, text, passed, reason, found, report)

    noted = not rule.alone and rule.severity is not Severity.FATAL  # only ever a note beside a failure
    if report is not None and rule.role is Role.CAUSE and not noted:
        first = report.diagnoses[0].rule if report.diagnoses else None
        if first == rule.id:
            return outcome(True, "first diagnosis")
        said = f"`{first}` came first" if first else f"the verdict was {report.verdict.value}"
        return outcome(False, f"{said}; {_where_it_went(rule.id, first, report, found)}")
    if any(item.rule == rule.id for item in found):
        return outcome(True, "a wording matches")
    return outcome(False, "no wording of the rule matches")


def _lookalike(rule: Rule, index: int, text: str, rulebook: Rulebook, diagnose: Diagnose | None) -> Outcome:
    found = match_text(rulebook, text)
    report = diagnose(text, rulebook) if diagnose else None

    def outcome(passed: bool, reason: str) -> Outcome:
        return Outcome(rule.id, "lookalike", index, text, passed, reason, found, report)

    if rule.id not in {item.rule for item in found}:
        return outcome(True, "no wording matches")
    if not conditional(rule, text, found, rulebook):
        return outcome(False, "a wording of the rule matches")
    if report is not None and any(item.rule == rule.id for item in report.diagnoses):
        return outcome(False, "the rule is among the diagnoses")
    return outcome(True, "a wording matches, a condition of the rule keeps it apart")


def _where_it_went(name: str, first: str | None, report: Report, found: list[Found]) -> str:
    """What the program did with a rule that should have come first."""
    for place, diagnosis in enumerate(report.diagnoses[1:], 2):
        if diagnosis.rule == name:
            return f"the rule is diagnosis {place}"
    for diagnosis in report.diagnoses:
        if any(explained.rule == name for explained in diagnosis.explains):
            return f"the rule's line was explained by `{diagnosis.rule}`"
    for seen in report.also_seen:
        if seen.rule == name:
            return f"the rule was set aside: {seen.reason}"
    weights = {item.rule: item.weight for item in found}
    if name not in weights:
        return "no wording of the rule matches"
    if first in weights:
        return f"both match ({weights[first]} fixed characters against {weights[name]}): should the rule `beats` it?"
    return "its wording matches, a condition does not"
