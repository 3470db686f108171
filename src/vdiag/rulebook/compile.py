"""The compiled rulebook: what matching runs and what a wheel carries.

A rule's phrases and regexes become `CompiledPattern`s: regular expressions as text, so that nothing is compiled
before its first candidate, and the fixed texts a prefilter looks for.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from vdiag.rulebook.schema import Pattern, Rule

if TYPE_CHECKING:
    from vdiag.rulebook.phrases import Wording

MIN_LITERAL = 5  # bytes: a shorter fixed text hits too many lines of a healthy journal
MIN_SQUEEZED = 4  # bytes, of a text without its white space


class CompiledPattern(msgspec.Struct, omit_defaults=True, gc=False):
    """One wording of a rule, ready to run.

    A wording whose only good fixed texts are alternatives becomes several patterns, alike but for the text that is
    looked for.
    """

    rule: int  # index into Rulebook.rules
    source: str  # for the `regex` module; white space in the wording is \s+; named groups are captures
    loose: str  # the same for wrapped text: white space may be missing, or stand between any two characters
    literal: str  # fixed text as printed, for the byte prefilter; one physical line; "" if there is none
    squeezed: str  # fixed text without its white space, for text that was squeezed; "" if there is none
    types: dict[str, str] = {}  # capture name -> int | num | gib | word | name | text | auto
    wording: int = 0  # index into the rule's phrases, and on into its patterns
    weight: int = 0  # fixed characters that are not white space
    since: str = ""  # first vLLM version that prints it
    until: str = ""  # last one
    trusted: bool = False  # shipped, so its cost on a short text is known: it may run without a time limit

    def captures(self, groups: dict[str, str | None]) -> dict[str, Any]:
        """The typed values of a match's `groupdict()`; groups that took no part are left out."""
        from vdiag.rulebook.captures import AUTO, capture_value

        return {
            name: capture_value(self.types.get(name, AUTO), text)
            for name, text in groups.items()
            if text is not None
        }


class Rulebook(msgspec.Struct, dict=True):
    """All rules and their patterns. Patterns of one rule stand together, in the order of the rule."""

    rules: list[Rule] = []
    patterns: list[CompiledPattern] = []

    @cached_property
    def _places(self) -> dict[str, int]:
        places = {alias: index for index, rule in enumerate(self.rules) for alias in rule.aliases}
        places.update((rule.id, index) for index, rule in enumerate(self.rules))
        return places

    def index(self, name: str) -> int:
        """Index of the rule with this id or alias; KeyError if there is none."""
        return self._places[name]

    def by_id(self, name: str) -> Rule | None:
        """The rule with this id or alias, or None."""
        place = self._places.get(name)
        return None if place is None else self.rules[place]

    def patterns_of(self, name: str) -> list[CompiledPattern]:
        """The patterns of the rule with this id or alias; KeyError if there is none."""
        place = self.index(name)
        return [pattern for pattern in self.patterns if pattern.rule == place]


def compile_rule(rule: Rule, index: int) -> list[CompiledPattern]:
    """The patterns of a rule, phrases first; WordingError for a wording that cannot be read."""
    from vdiag.rulebook.phrases import compile_phrase
    from vdiag.rulebook.regexes import compile_regex

    wordings = [(compile_phrase(phrase), Pattern("")) for phrase in rule.phrases]
    wordings += [(compile_regex(pattern.regex), pattern) for pattern in rule.patterns]
    return [
        CompiledPattern(
            rule=index,
            source=wording.source,
            loose=wording.loose,
            literal=literal,
            squeezed=squeezed,
            types=wording.types,
            wording=place,
            weight=wording.weight,
            since=given.since,
            until=given.until,
        )
        for place, (wording, given) in enumerate(wordings)
        for literal, squeezed in _looked_for(wording, rule.literal)
    ]


def compile_rules(rules: list[Rule]) -> Rulebook:
    """A rulebook of rules that are known to be good; WordingError otherwise."""
    patterns = [pattern for index, rule in enumerate(rules) for pattern in compile_rule(rule, index)]
    return Rulebook(list(rules), patterns)


def is_good(literal: str, squeezed: str) -> bool:
    """Whether fixed texts are long enough to look for."""
    return len(literal.encode()) >= MIN_LITERAL and len(squeezed.encode()) >= MIN_SQUEEZED


def _looked_for(wording: Wording, given: str) -> list[tuple[str, str]]:
    """(literal, squeezed) pairs to look for: one, or one for each of several alternatives.

    The rule's own `literal` serves a wording that holds it, or that has nothing good itself.
    """
    own = (longest_literal(wording.runs), longest_squeezed(wording.runs))
    wanted = " ".join(given.split())
    written = (given.strip(), wanted.replace(" ", ""))
    if is_good(*written) and any(wanted in " ".join(run.split()) for run in wording.runs):
        return [(written[0], own[1])]
    if is_good(*own):
        return [own]
    sets = [
        [(longest_literal([text]), longest_squeezed([text])) for text in texts] for texts in wording.choices
    ]
    good = [pairs for pairs in sets if all(is_good(*pair) for pair in pairs)]
    if good:
        return list(dict.fromkeys(max(good, key=lambda pairs: min(len(pair[0]) for pair in pairs))))
    return [written if is_good(*written) else own]


def longest_literal(runs: list[str]) -> str:
    """The longest fixed text that stands on one line as printed, without white space of unknown shape."""
    pieces = (piece.strip() for run in runs for piece in re.split(r"[^\S ]+| {2,}", run))
    return max(pieces, key=len, default="")


def longest_squeezed(runs: list[str]) -> str:
    """The longest fixed text without its white space."""
    return max(("".join(run.split()) for run in runs), key=len, default="")
