"""Whole logs: rows in which a literal search finds nothing pass by the detectors.

Memory is bounded: a block, the rest of a row, and a private key that is still open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from vdiag.redact import keys, machines, names, pem, prompts, tokens
from vdiag.redact.book import Book

BLOCK = 1 << 20  # bytes handled at a time
LONGEST = 4 << 20  # bytes of a row; a longer one is cut at a space where it has one
HELD = 64 << 10  # characters of a private key whose end has not come

Redact = Callable[[str, Book], str]


def redacted(blocks: Iterable[bytes], book: Book, redact: Redact) -> Iterator[bytes]:
    """The same log, block by block of whole rows."""
    for text, low in _texts(blocks):
        yield _encoded(_block(text, low, book, redact))


def suspicious(text: str) -> Iterator[str]:
    """The rows of a text that the detectors must see."""
    for start, end, seen in _parts(text, _low(text)):
        if seen:
            yield text[start:end]


def rows(text: str) -> Iterator[str]:
    """The rows of a text with their ends; two where the first names something whose value the second holds."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        if _goes_on(text[start:end].lower()):
            end = text.find("\n", end) + 1 or len(text)
        yield text[start:end]
        start = end


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
    if any(f"{kind}-" in low for kind in ("host", "user", "secret", "prompt")):
        book.reserve(text)
    if "private key" in low or "putty-user" in low:
        text = pem.replace(text, book)
        low = _low(text)
    made = []
    for start, end, seen in _parts(text, low):
        part = text[start:end]
        made.append(redact(part, book) if seen else _plainly(part, book))
    return book.everywhere("".join(made))


def _plainly(text: str, book: Book) -> str:
    """What rows without a literal can hold: addresses, and the host in front of a syslog line."""
    return names.prefixes(machines.addresses(text, book), book)


def _parts(text: str, low: str) -> Iterator[tuple[int, int, bool]]:
    """The text in parts: from where, to where, and whether it is a row that the detectors must see."""
    done = 0
    for _, start, stop in _search().find_matches_as_indexes(low):
        if start < done:
            continue
        row = low.rfind("\n", done, start) + 1 or done
        if row > done:
            yield done, row, False
        done = low.find("\n", stop) + 1 or len(low)
        if _goes_on(low[row:done]):
            done = low.find("\n", done) + 1 or len(low)
        yield row, done, True
    if done < len(low):
        yield done, len(low), False


def _goes_on(low: str) -> bool:
    """Whether a row, in lower case, names something whose value the next one holds."""
    return ("name:" in low or "key:" in low or "name=" in low) and "value" not in low


@cache
def _search() -> Any:
    from ahocorasick_rs import AhoCorasick

    literals = {
        *tokens.LITERALS,
        *keys.LITERALS,
        *machines.LITERALS,
        *names.LITERALS,
        *prompts.LITERALS,
        "private key",
        "putty-user",
    }
    return AhoCorasick(sorted(literals))


def _low(text: str) -> str:
    """The text in lower case, character by character: only ASCII changes."""
    return text.lower() if text.isascii() else _decoded(_encoded(text).lower())


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
