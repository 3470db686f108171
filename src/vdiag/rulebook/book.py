"""The rulebook as lint sees it: its patterns by field, its known names, and who matches which example."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from vdiag.model import Role
from vdiag.rulebook.compile import CompiledPattern, Rulebook
from vdiag.rulebook.examples import Found, match_text
from vdiag.rulebook.load import Placed
from vdiag.rulebook.schema import Rule


class Said(NamedTuple):
    """What a check found."""

    field: str
    message: str
    level: str = "error"  # error | warning


class Vocabulary(NamedTuple):
    """The names that rules may use and other parts of the program define. None: not known here."""

    facts: frozenset[str] | None = None  # besides captures
    versions_with: Callable[[str], list[str]] | None = (
        None  # engine argument -> the vLLM versions that take it
    )


class Book:
    """The rulebook a rule is checked in; remembers which rules match which example."""

    def __init__(self, rulebook: Rulebook, vocabulary: Vocabulary) -> None:
        self.rulebook = rulebook
        self.vocabulary = vocabulary
        self.context_facts = frozenset(
            name
            for pattern in rulebook.patterns
            if rulebook.rules[pattern.rule].role is Role.CONTEXT
            for name in pattern.types
        )
        self._found: dict[str, list[Found]] = {}

    def patterns(self, rule: Rule) -> list[tuple[str, CompiledPattern]]:
        """The patterns of a rule, each with the field of its wording."""
        count = len(rule.phrases)
        return [
            (f"phrases[{p.wording}]" if p.wording < count else f"patterns[{p.wording - count}].regex", p)
            for p in self.rulebook.patterns_of(rule.id)
        ]

    def found(self, text: str) -> list[Found]:
        """The rules whose wordings match a text, the most specific first."""
        if text not in self._found:
            self._found[text] = match_text(self.rulebook, text)
        return self._found[text]


Check = Callable[[Placed, Book], Iterator[Said]]
