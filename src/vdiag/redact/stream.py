"""Whole logs: rows in which a literal search finds nothing pass by the detectors.

Memory is bounded: a block, the rest of a row, and a private key that is still open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from vdiag.redact import keys, machines, names, pem, prompts, tokens, torn, wrap
from vdiag.redact.book import Book, valid

BLOCK = 1 << 20  # bytes handled at a time
LONGEST = 4 << 20  # bytes of a row; a longer one is cut at a space where it has one
HELD = 64 << 10  # characters of a private key whose end has not come

Redact = Callable[[str, int, Book], str]


def redacted(blocks: Iterable[bytes], book: Book, redact: Redact) -> Iterator[bytes]:
    """The same log, block by block of whole rows."""
    for text, low in _texts(blocks):
        yield _encoded(_block(text, low, book, redact))


def rows(text: str) -> Iterator[tuple[str, int]]:
    """The text in parts, each with the detectors that it needs; 0: rows that hold an IPv4 address at most."""
    for start, end, seen in parts(text, _low(text)):
        yield text[start:end], seen


def _texts(blocks: Iterable[bytes]) -> Iterator[tuple[str, str]]:
    """Whole rows as text, and the same in lower case."""
    rest = b""
    for block in blocks:
        for at in range(0, len(block), BLOCK):
            rest += block[at : at + BLOCK]
            end = rest.rfind(b"\n") + 1
            if not end and len(rest) > LONGEST:
                end = rest.rfind(b" ") + 1 or len(rest)
            if not end:
                continue
            text = _decoded(rest[:end])
            opened = pem.open_at(text) if "PRIVATE KEY" in text else -1
            if opened >= 0 and len(text) - opened < HELD:
                begin = text.rfind("\n", 0, opened) + 1
                end = len(_encoded(text[:begin]))
                text = text[:begin]
            if text:
                yield text, _low(text)
            rest = rest[end:]
    if rest:
        text = _decoded(rest)
        yield text, _low(text)


def _block(text: str, low: str, book: Book, redact: Redact) -> str:
    if "host-" in low or "user-" in low or "<" in low:
        book.reserve(text)
    told = torn.uncoloured(text)
    if wrapped := wrap.joined(told):
        told = wrapped.again(_parts(wrapped.text, _low(wrapped.text), book, redact))
    told = torn.mended(told, lambda row: redact(row, ~0 & ~PROMPTS, Book()))
    if told != text:
        text, low = told, _low(told)
    if "private key" in low or "putty-user" in low:
        text = pem.replace(text, book)
        low = _low(text)
    return _parts(text, low, book, redact)


def _parts(text: str, low: str, book: Book, redact: Redact) -> str:
    made = []
    for start, end, seen in parts(text, low):
        part = text[start:end]
        made.append(redact(part, seen, book) if seen else names.prefixes(machines.ipv4(part, book), book))
    return book.everywhere("".join(made))


def parts(text: str, low: str) -> Iterator[tuple[int, int, int]]:
    """The text in parts: from where, to where, and what to look for in it: 0, or a row and the detectors it needs."""
    done = end = seen = row = 0
    for start, stop, detectors in _hits(low):
        if start < end:
            seen |= detectors
            continue
        if seen:
            yield row, end, seen
            done = end
        row = low.rfind("\n", done, start) + 1 or done
        if row > done:
            yield done, row, 0
        end = low.find("\n", stop) + 1 or len(low)
        if _goes_on(low[row:end]):
            end = low.find("\n", end) + 1 or len(low)
        seen = detectors
    if seen:
        yield row, end, seen
    if end < len(low):
        yield end, len(low), 0


def _hits(low: str) -> Iterable[tuple[int, int, int]]:
    search, masks, literals = _search()
    hits = [
        (start, stop, masks[number])
        for number, start, stop in search.find_matches_as_indexes(low, overlapping=True)
        if not (hex_ := _FOLLOWED.get(literals[number])) or hex_.match(low, stop)
    ]
    shape = low.translate(_SHAPE)
    hits += [(*found.span(), ADDRESSES) for found in _COLONS.finditer(shape)]
    if _DASHED in shape:
        hits += [(*found.span(), ADDRESSES) for found in re.finditer(_DASHED, shape)]
    hits.sort()
    return hits


def _goes_on(low: str) -> bool:
    """Whether a row, in lower case, names something whose value the next one holds."""
    if "--" in low and _OPTION_ALONE.search(low):
        return True
    if _NAME_ALONE.search(low):
        return True
    return ("name:" in low or "key:" in low or "name=" in low) and "value" not in low


_OPTION_ALONE = re.compile(r"--[\w-]*(?:key|token|password|secret)[\"']?,?[ \t]*\\?\s*$")
_NAME_ALONE = re.compile(
    r"(?:^|[ \t])[\w.-]*(?:key|token|password|passwd|passphrase|secret|credential)s?[ \t]*\n\Z"
)
TOKENS, KEYS, MACHINES, USERS, HOSTS, ORGS, PROMPTS, ADDRESSES = (1 << n for n in range(8))
_COLONS = re.compile(r":(?::|x{1,4}:x{1,4}:x{1,4}:)")  # begins with a literal, and so is quick
_DASHED = "xx-xx-xx-xx-xx-xx"


class _Shape(dict[int, str]):
    def __missing__(self, char: int) -> str:
        return " "


_SHAPE = _Shape({**{ord(c): "x" for c in "0123456789abcdef"}, **{ord(c): c for c in ":-"}})
_FOLLOWED = {  # literals that are frequent, and what must stand behind them
    "gpu-": re.compile(r"[0-9a-f]{8}-"),
    "mig-": re.compile(r"(?:gpu-)?[0-9a-f]{8}-"),
    "ip-": re.compile(r"\d+-\d"),
    "]:": re.compile(r"\d\d"),
    "', ": re.compile(r"\d{2,5}\)|[bu]?\\*['\"]"),
    '", ': re.compile(r"\d{2,5}\)|[bu]?\\*['\"]"),
}


@cache
def _search() -> tuple[Any, list[int], list[str]]:
    """The search, and for each of its literals the detectors that it calls for, and itself."""
    from ahocorasick_rs import AhoCorasick

    masks: dict[str, int] = {}
    for detector, literals in (
        (TOKENS, tokens.LITERALS),
        (KEYS, keys.LITERALS),
        (MACHINES, machines.LITERALS),
        (USERS, names.USER_LITERALS),
        (HOSTS, names.HOST_LITERALS),
        (ORGS, names.ORG_LITERALS),
        (PROMPTS, prompts.LITERALS),
    ):
        for literal in literals:
            masks[literal] = masks.get(literal, 0) | detector
    return AhoCorasick(list(masks)), list(masks.values()), list(masks)


def _low(text: str) -> str:
    """The text in lower case, character by character: only ASCII changes."""
    return text.lower() if text.isascii() else valid(_decoded(_encoded(text).lower()))


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
