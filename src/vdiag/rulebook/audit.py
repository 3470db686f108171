"""The rulebook held against vLLM's own messages: what is named, what only falls to the unknown path, what is stale.

A message counts as named if a wording of a rule matches it filled in with plausible values, and the rule's `frames`,
if it has any, name the place that raises it. Its other conditions (`with`, `phase`, …) only the whole program can tell.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec

from vdiag.model import Role
from vdiag.rulebook.compile import CompiledPattern, Rulebook
from vdiag.rulebook.examples import search
from vdiag.rulebook.frames import stands_in
from vdiag.rulebook.messages import Message
from vdiag.rulebook.plausible import fillings
from vdiag.rulebook.schema import Rule
from vdiag.rulebook.sources import Source

SCHEMA = "vdiag.audit/1"
FAILING = (Role.CAUSE, Role.SYMPTOM, Role.TRAILER)
#: Where an operator meets a message first, by path.
OPERATORS = ("vllm/config", "vllm/engine", "vllm/entrypoints", "vllm/platforms", "vllm/transformers_utils")
#: vLLM's log header in front of a message that is no exception handed on.
_LOGGED = re.compile(r"\[(?P<file>[a-z_]\w*\.py):\d+\] (?![\w.]*(?:Error|Exception|Traceback)\b)", re.ASCII)
GONE, OWN, OTHER = "gone", "logged by vLLM", "maybe another program's"


class Audited(msgspec.Struct):
    """One message of the audited releases."""

    kind: str
    exception: str
    shape: str
    file: str
    function: str
    line: int
    versions: list[str]  # the audited releases that have it, in the order given
    rules: list[str] = []  # cause, symptom or trailer rules whose wordings match, the most specific first
    harmless: list[str] = []  # context and benign ones
    new: bool = False  # the release of `--since` does not have it

    @property
    def named(self) -> bool:
        return bool(self.rules)

    @property
    def part(self) -> str:
        """The part of vLLM it stands in, `config` or `v1/core`."""
        parts = self.file.removeprefix("vllm/").split("/")
        depth = 2 if parts[0] in ("v1", "model_executor", "distributed") and len(parts) > 2 else 1
        return "/".join(parts[:depth]).removesuffix(".py")


class Unmatched(msgspec.Struct):
    """A rule none of whose wordings stands in any audited release."""

    rule: str
    role: str
    reason: str  # GONE: `--since` prints it; OWN: an example shows it behind vLLM's log header; else OTHER


class WrongVersion(msgspec.Struct):
    """A wording whose `since` or `until` is not what the releases say."""

    rule: str
    wording: int
    since: str
    until: str
    version: str
    says: str


class Release(msgspec.Struct):
    """One audited release in numbers."""

    name: str
    version: str
    files: int
    messages: int
    named: int
    operators: int  # messages of OPERATORS
    operators_named: int
    mute: int  # raise statements and assertions without words of their own
    unread: list[str] = []


class Audit(msgspec.Struct):
    """The whole answer."""

    schema: str
    rules: int
    releases: list[Release]
    messages: list[Audited]
    unmatched: list[Unmatched]
    wrong_versions: list[WrongVersion]
    since: str = ""


def audit(sources: Sequence[Source], rulebook: Rulebook, since: Source | None = None) -> Audit:
    """Holds a rulebook against these releases; `since` is an older one, which says what is new."""
    told = [*sources, *([since] if since else [])]
    messages = _merged(told)
    namer = _Namer(rulebook)
    printed: dict[int, set[int]] = defaultdict(set)  # pattern → the releases that print it
    audited: list[Audited] = []
    for message, places in messages.values():
        patterns = namer.patterns(message)
        for pattern in patterns:
            printed[pattern] |= places
        own = sorted(place for place in places if place < len(sources))
        if own:
            found = _audited(message, [_version(sources[place]) for place in own], patterns, rulebook)
            found.new = since is not None and len(sources) not in places
            audited.append(found)
    return Audit(
        SCHEMA,
        len(rulebook.rules),
        [_release(source, number, messages, audited) for number, source in enumerate(sources)],
        sorted(audited, key=lambda found: (found.file, found.line)),
        _unmatched(rulebook, printed, sources, since),
        _wrong_versions(rulebook, printed, told),
        _version(since) if since else "",
    )


def _version(source: Source) -> str:
    return source.version or source.name


def _merged(sources: Sequence[Source]) -> dict[tuple[str, str, str], tuple[Message, set[int]]]:
    """Each message once, as the first release that has it writes it, with the numbers of all that do."""
    merged: dict[tuple[str, str, str], tuple[Message, set[int]]] = {}
    for number, source in enumerate(sources):
        for message in source.messages:
            merged.setdefault(message.key, (message, set()))[1].add(number)
    return merged


class _Namer:
    """Finds the wordings that match a message; each fixed text is looked for once a text."""

    def __init__(self, rulebook: Rulebook) -> None:
        self.rulebook = rulebook
        self.by_literal: dict[str, list[int]] = defaultdict(list)
        for number, pattern in enumerate(rulebook.patterns):
            if rulebook.rules[pattern.rule].where in ("any", "exception", "log"):
                self.by_literal[pattern.squeezed].append(number)

    def patterns(self, message: Message) -> set[int]:
        """The numbers of the patterns that match the message with some plausible values."""
        found: set[int] = set()
        head = f"{message.exception}: " if message.exception else ""
        for filled in fillings(message):
            text = head + filled
            squeezed = "".join(text.split())
            for literal, numbers in self.by_literal.items():
                if literal in squeezed:
                    found.update(n for n in numbers if n not in found and self._matches(n, message, text))
        return found

    def _matches(self, number: int, message: Message, text: str) -> bool:
        pattern = self.rulebook.patterns[number]
        rule = self.rulebook.rules[pattern.rule]
        if rule.where == "log" and message.exception:
            return False
        if rule.frames and message.exception and not any(_raised_in(want, message) for want in rule.frames):
            return False
        return search(pattern, text) is not None


def _raised_in(frame: str, message: Message) -> bool:
    """Whether a message is raised in a frame as rules name them; its callers are not known here."""
    return stands_in(frame, message.file, message.function.rpartition(".")[2])


def _audited(message: Message, versions: list[str], patterns: set[int], rulebook: Rulebook) -> Audited:
    weights: dict[int, int] = {}
    for number in patterns:
        pattern = rulebook.patterns[number]
        weights[pattern.rule] = max(pattern.weight, weights.get(pattern.rule, 0))
    ranked = [rulebook.rules[rule] for rule in sorted(weights, key=lambda rule: (-weights[rule], rule))]
    failing = [rule.id for rule in ranked if rule.role in FAILING]
    harmless = [rule.id for rule in ranked if rule.role not in FAILING]
    return Audited(
        message.kind, message.exception, message.shape, message.file, message.function, message.line,
        versions, failing, harmless,
    )  # fmt: skip


def _release(source: Source, number: int, messages: dict[Any, Any], audited: list[Audited]) -> Release:
    named = {(m.exception, m.shape): m.named for m in audited}
    own = [message for message, places in messages.values() if number in places]
    ops = [m for m in own if m.file.startswith(OPERATORS)]

    def count(of: list[Message]) -> int:
        return sum(named[m.exception, m.shape] for m in of)

    return Release(
        source.name, source.version, source.files, len(own), count(own), len(ops), count(ops),
        source.mute, source.unread,
    )  # fmt: skip


def _unmatched(
    rulebook: Rulebook, printed: dict[int, set[int]], sources: Sequence[Source], since: Source | None
) -> list[Unmatched]:
    """The failing rules that no audited release can print, the surest first."""
    of_rule: dict[int, list[int]] = defaultdict(list)
    for number, pattern in enumerate(rulebook.patterns):
        of_rule[pattern.rule].append(number)
    last = len(sources)
    files = {name for source in sources for name in source.names}
    unmatched = []
    for place, numbers in of_rule.items():
        rule = rulebook.rules[place]
        if rule.role not in FAILING or rule.where in ("kernel", "unit", "http"):
            continue
        if any(min(printed[n], default=last) < last for n in numbers if n in printed):
            continue
        if any(_held(rulebook.patterns[n], source) for n in numbers for source in sources):
            continue
        gone = since is not None and any(last in printed.get(n, ()) for n in numbers)
        own = _logged(rule, [rulebook.patterns[n] for n in numbers], files)
        unmatched.append(Unmatched(rule.id, rule.role.value, GONE if gone else OWN if own else OTHER))
    return sorted(unmatched, key=lambda found: ((GONE, OWN, OTHER).index(found.reason), found.rule))


def _held(pattern: CompiledPattern, source: Source) -> bool:
    """Whether a wording's fixed text stands in any text of the release, printed or not."""
    return bool(pattern.squeezed) and pattern.squeezed in source.squeezed


def _logged(rule: Rule, patterns: Sequence[CompiledPattern], files: set[str]) -> bool:
    """Whether an example shows the rule's words as a message that a file of vLLM's logs."""
    for text in rule.examples:
        for header in _LOGGED.finditer(text):
            said = text[header.end() :].split("\n", 1)[0]
            if header["file"] in files and any(search(pattern, said) for pattern in patterns):
                return True
    return False


def _wrong_versions(
    rulebook: Rulebook, printed: dict[int, set[int]], sources: Sequence[Source]
) -> list[WrongVersion]:
    wrong = []
    for number, pattern in enumerate(rulebook.patterns):
        if not pattern.since and not pattern.until:
            continue
        places = printed.get(number, set())
        for place, source in enumerate(sources):
            inside = within(source.version, pattern.since, pattern.until)
            if inside is None or not places:
                continue  # a wording that no release prints is unmatched, not wrong
            said = ""
            if place in places and not inside:
                said = "prints it all the same"
            elif place not in places and inside and not _held(pattern, source):
                said = "does not print it"
            if said:
                rule = rulebook.rules[pattern.rule].id
                wrong.append(
                    WrongVersion(rule, pattern.wording, pattern.since, pattern.until, source.version, said)
                )
    return wrong


def within(version: str, since: str, until: str) -> bool | None:
    """Whether a version lies between two (a bound of fewer parts covers all below it); None where it is unknown."""
    own, low, high = (_numbers(text) for text in (version, since, until))
    if not own:
        return None
    return (not low or _padded(own, low) >= low) and (not high or _padded(own, high) <= high)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _padded(version: tuple[int, ...], bound: tuple[int, ...]) -> tuple[int, ...]:
    return (*version, *(0,) * len(bound))[: len(bound)]
