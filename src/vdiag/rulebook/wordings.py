"""What lint asks of a rule's wordings: that they match what they should, nothing else, and in bounded time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from vdiag.model import Role
from vdiag.rulebook.book import Book, Said
from vdiag.rulebook.compile import MIN_LITERAL, CompiledPattern, is_good
from vdiag.rulebook.examples import conditional, search
from vdiag.rulebook.load import Placed
from vdiag.rulebook.phrases import Hole, Maybe, parse_phrase
from vdiag.rulebook.regexes import Token, tokens

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
