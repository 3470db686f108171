"""What lint asks of a rule: one small function a question.

A check gets a rule with its place and the book it stands in, and yields what is wrong: the field, the message,
and `error` or `warning`. `CHECKS` lists them in the order in which their findings are printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from vdiag.model import Role
from vdiag.rulebook.compile import MIN_LITERAL, CompiledPattern, Rulebook, is_good
from vdiag.rulebook.examples import Found, conditional, match_text, search
from vdiag.rulebook.load import Placed
from vdiag.rulebook.phrases import Hole, Maybe, parse_phrase
from vdiag.rulebook.regexes import Token, tokens
from vdiag.rulebook.schema import Rule

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_FACT = re.compile(r"(?<![{$])\{([a-z][a-z0-9_]*)\}(?!\})")
_CONDITION = re.compile(r"(?:not\s+)?[a-z][a-z0-9_]*\Z|[a-z][a-z0-9_]*\s*=\s*\S.*\Z")
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:\.?(?:post|rc|dev)\d+)?\Z")

# What a healthy server's journal is made of: a literal in here would pass every line to the matcher.
ORDINARY = (
    'INFO:     127.0.0.1:44698 - "GET /health HTTP/1.1" 200 OK',
    'INFO:     10.0.4.17:51332 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    'INFO:     10.0.4.17:51340 - "POST /v1/completions HTTP/1.1" 404 Not Found',
    "(APIServer pid=900) INFO 08-28 10:12:45 [loggers.py:123] Engine 000: Avg prompt throughput: 12.0 tokens/s, "
    "Avg generation throughput: 310.4 tokens/s, Running: 5 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%, "
    "Prefix cache hit rate: 41.7%",
    '10.0.4.17 - - [28/Aug/2026:10:12:45 +0000] "POST /v1/chat/completions HTTP/1.1" 200 1834 "-" "python-httpx"',
    "Aug 28 10:12:45 gpu-01 vllm[5400]: INFO 08-28 10:12:45",
)


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


def id_is_well_formed(placed: Placed, book: Book) -> Iterator[Said]:
    """Ids are lower-case words with hyphens."""
    for index, name in enumerate((placed.rule.id, *placed.rule.aliases)):
        if not _ID.match(name):
            field = f"aliases[{index - 1}]" if index else "id"
            yield Said(field, f"`{name}` is not lower-case words with hyphens")


def cause_is_complete(placed: Placed, book: Book) -> Iterator[Said]:
    """A cause says why, what to do and what merely looks like it."""
    rule = placed.rule
    if rule.role is not Role.CAUSE:
        return
    for field in ("why", "fixes", "lookalikes"):
        if not getattr(rule, field):
            yield Said(field, f"a cause needs `{field}`")


def title_is_a_headline(placed: Placed, book: Book) -> Iterator[Said]:
    """A title is one line without a full stop."""
    title = placed.rule.title
    if not title.strip():
        yield Said("title", "is empty")
    if "\n" in title.strip():
        yield Said("title", "has more than one line")
    if title.rstrip().endswith(".") and not title.rstrip().endswith("..."):
        yield Said("title", "ends with a full stop")


def roles_fit(placed: Placed, book: Book) -> Iterator[Said]:
    """Only context marks phases, only a mark takes time, and a fix needs something that is broken."""
    rule = placed.rule
    if rule.marks and rule.role is not Role.CONTEXT:
        yield Said("marks", "only rules with `role: context` mark a phase")
    if rule.takes and not rule.marks:
        yield Said("takes", "says how long a phase takes, but the rule marks none")
    if rule.fixes and rule.role in (Role.CONTEXT, Role.BENIGN):
        yield Said("fixes", f"are not shown for `role: {rule.role.value}`", "warning")


def every_wording_has_an_example(placed: Placed, book: Book) -> Iterator[Said]:
    """Each phrase and each regex matches at least one example of its rule."""
    rule = placed.rule
    if not rule.examples:
        yield Said("examples", "has no example")
        return
    for field, pattern in book.patterns(rule):
        if not any(map(partial(_matches, pattern), rule.examples)):
            yield Said(field, "matches none of the rule's examples")
    for index, text in enumerate(rule.examples):
        if not any(_matches(pattern, text) for _, pattern in book.patterns(rule)):
            yield Said(f"examples[{index}]", "is matched by no wording of the rule")


def _matches(pattern: CompiledPattern, text: str) -> bool:
    return bool(search(pattern, text) or search(pattern, text, loose=True))


def lookalikes_stay_apart(placed: Placed, book: Book) -> Iterator[Said]:
    """No wording matches a lookalike, unless a condition of the rule or one that beats it keeps it apart."""
    rule = placed.rule
    for index, text in enumerate(rule.lookalikes):
        found = book.found(text)
        if any(item.rule == rule.id for item in found) and not conditional(rule, text, found, book.rulebook):
            yield Said(f"lookalikes[{index}]", "is matched by a wording of the rule")


def literal_is_good(placed: Placed, book: Book) -> Iterator[Said]:
    """Every wording holds a fixed text that is long enough and rare enough to look for."""
    rule = placed.rule
    for field, pattern in book.patterns(rule):
        if not is_good(pattern.literal, pattern.squeezed):
            held = f"the longest is `{pattern.literal}`" if pattern.literal else "it holds none"
            needs = f"needs a fixed text of {MIN_LITERAL} characters to look for"
            yield Said(field, f"{needs}; {held}. Give `literal`, or split the alternatives")
        elif rule.role is not Role.CONTEXT and any(pattern.literal in line for line in ORDINARY):
            yield Said(field, f"looks for `{pattern.literal}`, which ordinary lines hold", "warning")
    literal = rule.literal.strip()
    if literal and not is_good(literal, "".join(literal.split())):
        yield Said("literal", f"`{literal}` is too short to look for")
    elif literal and not any(pattern.literal == literal for _, pattern in book.patterns(rule)):
        yield Said("literal", f"`{rule.literal}` serves no wording: none holds it as fixed text", "warning")
    if literal:
        for index, text in enumerate(rule.examples):
            own = [pattern for _, pattern in book.patterns(rule) if search(pattern, text)]
            if own and all(p.literal == literal and p.literal not in text for p in own):
                yield Said(f"examples[{index}]", f"does not hold the rule's literal `{literal}`")


def patterns_are_bounded(placed: Placed, book: Book) -> Iterator[Said]:
    """A regex says how far it may reach, and does not repeat a repetition."""
    for index, pattern in enumerate(placed.rule.patterns):
        field = f"patterns[{index}].regex"
        read = tokens(pattern.regex)
        reaching = [
            t for t in read if t.kind == "class" and _any_character(t.text) and _unbounded(t.quantifier)
        ]
        for token in dict.fromkeys(reaching):
            said = token.text + token.quantifier
            yield Said(field, f"`{said}` reaches to the end: bound it, as in `{token.text}{{1,200}}?`")
        if _repeats_a_repetition(read):
            yield Said(field, "repeats a group that holds a repetition without bound: it can take forever")


def phrases_are_tidy(placed: Placed, book: Book) -> Iterator[Said]:
    """A placeholder that keeps nothing does nothing at the end of a phrase."""
    for index, phrase in enumerate(placed.rule.phrases):
        parts = parse_phrase(phrase)
        for part in (parts[0], parts[-1]):
            if isinstance(part, Maybe) or (isinstance(part, Hole) and not part.name):
                yield Said(f"phrases[{index}]", "begins or ends with a part that changes nothing", "warning")
                break


def facts_exist(placed: Placed, book: Book) -> Iterator[Said]:
    """What texts name is captured by the rule, known from the log, or computed by a named function."""
    if book.vocabulary.facts is None:
        return
    rule = placed.rule
    own = {name for _, pattern in book.patterns(rule) for name in pattern.types}
    known = own | book.context_facts | book.vocabulary.facts
    for field, text in texts(rule):
        for name in dict.fromkeys(_FACT.findall(text)):
            if name not in known and not _is_argument(name, book):
                yield Said(field, f"`{{{name}}}` is neither captured nor a known fact")
    for index, fix in enumerate(rule.fixes):
        for place, condition in enumerate(fix.only_if):
            field = f"fixes[{index}].if[{place}]"
            if not _CONDITION.match(condition):
                yield Said(field, f"`{condition}` is not `fact`, `not fact` or `fact=value`")
                continue
            name = condition.removeprefix("not ").split("=")[0].strip()
            if name not in known and not _is_argument(name, book):
                yield Said(field, f"`{name}` is neither captured nor a known fact")


def arguments_exist(placed: Placed, book: Book) -> Iterator[Said]:
    """What a fix sets or drops is an engine argument of some version of vLLM, and of the newest unless it says so."""
    versions_with = book.vocabulary.versions_with
    if versions_with is None:
        return
    newest = (versions_with("model") or [""])[-1]
    for index, fix in enumerate(placed.rule.fixes):
        named = [(f"set.{name}", name) for name in fix.set]
        named += [(f"unset[{place}]", name) for place, name in enumerate(fix.unset)]
        for place, name in named:
            having = versions_with(name)
            if not having:
                yield Said(
                    f"fixes[{index}].{place}", f"`{name}` is an engine argument of no version known here"
                )
            elif place.startswith("set") and newest and having[-1] != newest and not fix.until:
                message = f"vLLM {newest} does not take `{name}` any more: give the fix an `until`"
                yield Said(f"fixes[{index}].{place}", message, "warning")


def versions_are_versions(placed: Placed, book: Book) -> Iterator[Said]:
    """`since`, `until` and `fixed_in` are version numbers."""
    rule = placed.rule
    named = [
        (f"{field}[{index}].{bound}", getattr(item, bound))
        for field, items in (("patterns", rule.patterns), ("fixes", rule.fixes))
        for index, item in enumerate(items)
        for bound in ("since", "until")
    ]
    named += [(f"upstream[{index}].fixed_in", item.fixed_in) for index, item in enumerate(rule.upstream)]
    for field, version in named:
        if version and not _VERSION.match(version):
            yield Said(field, f"`{version}` is no version number")


def examples_are_not_contested(placed: Placed, book: Book) -> Iterator[Said]:
    """No other cause matches an example as well, unless one is declared to beat the other."""
    rule = placed.rule
    if rule.role is not Role.CAUSE:
        return
    for index, text in enumerate(rule.examples):
        found = book.found(text)
        weight = next((item.weight for item in found if item.rule == rule.id), 0)
        for item in found:
            other = book.rulebook.by_id(item.rule)
            if other is None or other.id == rule.id or item.weight < weight or other.role is not Role.CAUSE:
                continue
            if rule.id in other.beats or other.id in rule.beats or conditional(other, text):
                continue
            message = f"`{other.id}` matches it as specifically: declare which one `beats` the other"
            yield Said(f"examples[{index}]", message, "warning")


CHECKS: tuple[Check, ...] = (
    id_is_well_formed,
    title_is_a_headline,
    cause_is_complete,
    roles_fit,
    every_wording_has_an_example,
    lookalikes_stay_apart,
    literal_is_good,
    patterns_are_bounded,
    phrases_are_tidy,
    facts_exist,
    arguments_exist,
    versions_are_versions,
    examples_are_not_contested,
)


def texts(rule: Rule) -> Iterator[tuple[str, str]]:
    """Every text of a rule in which facts are filled in, with its field."""
    yield "title", rule.title
    yield "why", rule.why
    for index, text in enumerate(rule.avoid):
        yield f"avoid[{index}]", text
    for index, fix in enumerate(rule.fixes):
        at = f"fixes[{index}]"
        yield f"{at}.do", fix.do
        yield f"{at}.note", fix.note
        yield from ((f"{at}.run[{place}]", command) for place, command in enumerate(fix.run))
        yield from ((f"{at}.env.{name}", value) for name, value in fix.env.items())
        yield from ((f"{at}.set.{name}", text) for name, value in fix.set.items() for text in _strings(value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for item in value.values() for text in _strings(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in _strings(item))


def _is_argument(name: str, book: Book) -> bool:
    versions_with = book.vocabulary.versions_with
    return versions_with is not None and bool(versions_with(name))


def _any_character(text: str) -> bool:
    return text.replace("\n", r"\n") in (".", r"[\s\S]", r"[\S\s]", r"[\d\D]", r"[\w\W]", r"[^\n]")


def _unbounded(quantifier: str) -> bool:
    return quantifier[:1] in ("*", "+") or bool(re.match(r"\{\d*,\}", quantifier))


def _repeats_a_repetition(read: Iterable[Token]) -> bool:
    """Whether a group repeated without bound holds repetitions without bound and nothing that tells them apart.

    `(?:\\w+ ?)+` can split a word in any way; `(?:\\w+\\.)+` cannot, because no `\\w` is a dot.
    """
    groups: list[tuple[list[str], list[str]]] = [([], [])]  # what repeats, what must stand between
    for token in read:
        repeating, between = groups[-1]
        if token.kind == "open":
            groups.append(([], []))
        elif token.kind == "close" and len(groups) > 1:
            groups.pop()
            repeats = _unbounded(token.quantifier)
            if repeats and repeating and not any(_tells_apart(text, repeating) for text in between):
                return True
            groups[-1][0].extend(repeating)
            if not repeats and token.quantifier[:1] not in ("?", "{"):
                groups[-1][1].extend(between)
        elif _unbounded(token.quantifier):
            repeating.append(token.text)
        elif token.kind == "or":
            between.clear()
        elif token.kind == "literal" and not token.quantifier:
            between.append(token.text)
    return False


def _tells_apart(literal: str, repeating: list[str]) -> bool:
    char = literal[-1]
    return not any(re.fullmatch(text, char) for text in repeating)
