"""Lint: every rule of some files against every check, with file, line and field for each finding."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from vdiag.rulebook.book import Book, Vocabulary
from vdiag.rulebook.checks import CHECKS
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.load import Placed, Problem, assemble, read_rules

# What the program itself knows of an episode, besides what context rules capture.
EPISODE_FACTS = frozenset({"vllm", "engine", "model", "deploy", "unit", "args", "phase"})


class Finding(NamedTuple):
    """One thing that is wrong with a rule."""

    file: str
    line: int
    rule: str
    field: str
    message: str
    level: str  # error | warning

    def __str__(self) -> str:
        named = ": ".join(filter(None, (f"{self.file}:{self.line}", self.rule, self.field)))
        return f"{named}: {'' if self.level == 'error' else 'warning: '}{self.message}"


class Linted(NamedTuple):
    """What lint says, and the rules it said it about."""

    findings: list[Finding]
    unreadable: list[Problem]  # files that could not be read as rules at all
    placed: list[Placed]
    rulebook: Rulebook

    @property
    def errors(self) -> list[str]:
        """All that must be mended, as text."""
        wrong = [str(finding) for finding in self.findings if finding.level == "error"]
        return [str(problem) for problem in self.unreadable] + wrong


def lint(paths: Iterable[str | Path], *, base: Rulebook | None = None) -> Linted:
    """Check the rules of these files and folders, on top of `base`."""
    problems: list[Problem] = []
    placed = read_rules(paths, problems)
    rulebook = assemble(placed, base, problems)
    book = Book(rulebook, vocabulary())
    unreadable = [problem for problem in problems if problem.whole_file]
    findings = [_finding(problem) for problem in problems if not problem.whole_file]
    for own in placed:
        for check in CHECKS:
            for said in dict.fromkeys(check(own, book)):
                place = own.line_of(said.field)
                findings.append(Finding(own.file, place, own.rule.id, said.field, said.message, said.level))
    findings.sort(key=lambda finding: (finding.file, finding.line))
    return Linted(findings, unreadable, placed, rulebook)


def vocabulary() -> Vocabulary:
    """The facts and engine arguments that advise/ defines.

    Fetched by name, when lint runs: the rulebook itself stands before advise/ and must not depend on it.
    """
    facts: frozenset[str] | None = None
    try:
        module = import_module("vdiag.advise.facts")
        facts = EPISODE_FACTS | frozenset(module.FACTS) | frozenset(getattr(module, "ALIASES", ()))
        facts |= frozenset(import_module("vdiag.advise.load").FACTS)
    except ImportError:
        pass
    try:
        versions_with = import_module("vdiag.advise.arguments").versions_with
    except ImportError:
        versions_with = None
    return Vocabulary(facts, versions_with)


def _finding(problem: Problem) -> Finding:
    message = f"expected {problem.expected}, got {problem.got}"
    return Finding(problem.file, problem.line, problem.rule, problem.field, message, "error")
