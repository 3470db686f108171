"""Rules on events: which wordings stand in which message.

Literals are looked for once in the squeezed text of a whole batch (white space removed, so that a wrapped
message is found too); only patterns whose literal hit run, each compiled at its first candidate and bounded
by a timeout.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import islice
from typing import Any

import msgspec

from vdiag.model import Event, Kind, Role
from vdiag.rulebook.compile import CompiledPattern, Rulebook
from vdiag.rulebook.schema import Rule
from vdiag.scan.literals import LiteralSet

MOST_HITS = 32  # of one pattern in one message
MOST_TIMEOUTS = 2  # after so many a pattern is left out for the rest
LONGEST_WRAPPED = 16 * 1024  # characters of a message that may be tried as wrapped text
SHORT = 2048  # characters up to which a shipped pattern runs without a time limit
TIMEOUT = 0.5  # seconds one pattern may take on one message

_RANKS = {"DEBUG": 0, "INFO": 1, "WARNING": 2, "": 3, "ERROR": 3, "CRITICAL": 4}
_LOWEST = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class Match(msgspec.Struct):
    """A rule's wording on an event."""

    rule: int  # index into the rulebook
    event: Event
    line: int  # physical line where the match (or its `at` group) starts
    row: int
    span: tuple[int, int]  # in event.text
    captures: dict[str, Any]
    weight: int
    quoted: bool = False  # it does not begin its row
    loose: bool = False  # found only after repairing wrapped text


class Matcher:
    """Runs a rulebook on batches of events."""

    def __init__(self, rulebook: Rulebook) -> None:
        self.rulebook = rulebook
        self._slow: dict[int, int] = {}  # pattern → how often it took too long
        self.timeouts: dict[str, int] = {}  # rule id → line of the message it took too long on
        by_literal: dict[str, list[int]] = defaultdict(list)
        for i, pattern in enumerate(rulebook.patterns):
            if pattern.squeezed:  # lint refuses a pattern without one
                by_literal[pattern.squeezed].append(i)
        self._owners = list(by_literal.values())
        self._literals = LiteralSet([x.encode() for x in by_literal])
        self._compiled: dict[tuple[int, bool, bool], Any] = {}

    def again(self) -> Matcher:
        """One for other inputs, which shares what was prepared and compiled; what was too slow is forgotten."""
        other = copy(self)
        other._slow, other.timeouts = {}, {}
        return other

    def prepare(self) -> None:
        """Prepares for many inputs: an automaton pays for itself from some ten short ones on."""
        self._literals = LiteralSet(self._literals.literals, "aho")

    def match(self, events: Sequence[Event]) -> list[Match]:
        """All matches on these events, in their order; of one rule on one line, the first."""
        if not events or not self.rulebook.patterns:
            return []
        starts: list[int] = []
        squeezed: list[bytes] = []
        at = 0
        for event in events:
            starts.append(at)
            text = "".join(" ".join(event.rows).split()).encode("utf8", "replace") + b"\n"
            squeezed.append(text)
            at += len(text)
        candidates: dict[int, set[int]] = defaultdict(set)
        for end, literal in self._literals.find(b"".join(squeezed)):
            candidates[bisect_right(starts, end - 1) - 1].add(literal)
        found: list[Match] = []
        for index in sorted(candidates):
            found += self._event(events[index], candidates[index])
        return found

    def _event(self, event: Event, literals: Iterable[int]) -> list[Match]:
        found: dict[tuple[int, int], Match] = {}
        text = event.text
        for literal in sorted(literals):
            for number in self._owners[literal]:
                pattern = self.rulebook.patterns[number]
                for match in self._run(event, text, number, pattern):
                    key = (match.rule, match.line)
                    if key not in found or found[key].weight < match.weight:
                        found[key] = match
        return list(found.values())

    def _admits(self, event: Event, rule: Rule, row: int, quoted: bool) -> bool:
        """Whether a rule may speak of a row of an event; a later row of a log record may be a line of its own.

        `quoted`: the wording does not begin the row.
        """
        own = row > 0 and event.kind is Kind.LOG
        rank = 3 if own else _RANKS.get(event.envelope.level, 3)
        kind = Kind.NATIVE if own else event.kind
        raised = kind is Kind.EXCEPTION and bool(event.frames)  # a traceback counts, however it was logged
        if rule.role is Role.CAUSE and rank < _LOWEST[rule.level] and not raised:
            return False
        if rule.role in (Role.TRAILER, Role.SYMPTOM) and rank < _LOWEST["warning"] and quoted:
            return False  # an INFO line that speaks of it is not it
        if rule.where == "any" or (row > 0 and kind is not Kind.KERNEL):
            return True
        if rule.where == "exception":
            return kind is Kind.EXCEPTION or (kind is Kind.LOG and rank >= 3)
        if rule.where in ("kernel", "unit", "native", "http") and kind is Kind.NATIVE:
            return True
        return kind.value == rule.where

    def _run(self, event: Event, text: str, number: int, pattern: CompiledPattern) -> list[Match]:
        rule = self.rulebook.rules[pattern.rule]
        if self._slow.get(number, 0) >= MOST_TIMEOUTS:
            return []
        # Only text of several rows, or padded, can have been wrapped.
        repairable = ("\n" in text or "  " in text) and len(text) <= LONGEST_WRAPPED
        for loose in (False, True) if repairable else (False,):
            try:
                hits = list(islice(self._find(number, loose, text), MOST_HITS))
            except TimeoutError:
                self.timeouts.setdefault(rule.id, event.lines[0])
                self._slow[number] = self._slow.get(number, 0) + 1
                return []
            if hits:
                matches = (self._match(event, text, hit, pattern, loose) for hit in hits)
                return [
                    m
                    for m in matches
                    if m.row < max(event.own, 1) and self._admits(event, rule, m.row, m.quoted)
                ]
        return []

    def _find(self, number: int, loose: bool, text: str) -> Iterator[Any]:
        """The hits of a pattern: by `regex` with a timeout; a shipped one on a short text by `re`, which compiles
        in half the time and needs no import."""
        pattern = self.rulebook.patterns[number]
        quick = pattern.trusted and len(text) <= SHORT
        compiled: Any = self._compiled.get((number, loose, quick))
        if compiled is None:
            source = pattern.loose if loose else pattern.source
            if quick:
                compiled = re.compile(source)
            else:
                import regex

                compiled = regex.compile(source)
            self._compiled[number, loose, quick] = compiled
        return iter(compiled.finditer(text) if quick else compiled.finditer(text, timeout=TIMEOUT))

    def _match(self, event: Event, text: str, hit: Any, pattern: CompiledPattern, loose: bool) -> Match:
        rule = self.rulebook.rules[pattern.rule]
        start = hit.start()
        while start < hit.end() and text[start].isspace():
            start += 1
        if rule.at and hit.groupdict().get(rule.at) is not None:
            start = hit.start(rule.at)
        row = text.count("\n", 0, start)
        return Match(
            rule=pattern.rule,
            event=event,
            line=event.lines[min(row, len(event.lines) - 1)],
            row=row,
            span=hit.span(),
            captures=pattern.captures(hit.groupdict()),
            weight=pattern.weight,
            quoted=bool(text[text.rfind("\n", 0, start) + 1 : start].strip()),
            loose=loose,
        )
