"""Private keys: PEM blocks over several rows, each with a log's prefix, or in one row with `\\n` spelled out."""

from __future__ import annotations

import re

from vdiag.redact.book import Book

LONGEST = 120  # rows of a key; a longer one is none, or its end is missing
BEGIN = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d: \S+|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"
)
END = re.compile(
    r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|Private-MAC: \w+|---- END SSH2 ENCRYPTED PRIVATE KEY ----"
)
_ROW = re.compile(r"[A-Za-z0-9+/=\\,:-]+(?=[\"',\\]*[ \t\r]*$)")
_HEADER = re.compile(r"(?:Proc-Type|DEK-Info|Comment|Version): .*$")


def replace(text: str, book: Book) -> str:
    """The text without private keys. The number of rows, and what stands in front of each, stay."""
    if "PRIVATE KEY" not in text and "PuTTY-User" not in text:
        return text
    out, at = [], 0
    while begin := BEGIN.search(text, at):
        end = END.search(text, begin.end())
        stop = (
            end.end()
            if end and text.count("\n", begin.end(), end.start()) <= LONGEST
            else _cut(text, begin.end())
        )
        rows = text[begin.start() : stop].split("\n")
        key = "".join(_body(row) for row in rows) or rows[0]
        name = book.name("private-key", key)
        out += [text[at : begin.start()], "\n".join([name, *(_without(row, name) for row in rows[1:])])]
        at = stop
    return "".join(out) + text[at:]


def open_at(text: str) -> int:
    """Where a key begins whose end is not in the text; -1: nowhere."""
    last = -1
    for begin in BEGIN.finditer(text):
        last = begin.start() if not END.search(text, begin.end()) else -1
    return last


def _cut(text: str, at: int) -> int:
    """The end of a key without an end: the rows that follow it, as far as one can be."""
    for _ in range(LONGEST):
        row = text.find("\n", at)
        if row < 0:
            return len(text)
        at = row + 1
    return at - 1


def _body(row: str) -> str:
    found = _ROW.search(row)
    return found[0] if found else ""


def _without(row: str, name: str) -> str:
    row = _HEADER.sub(name, row)
    found = END.search(row) or _ROW.search(row)
    return row[: found.start()] + name + row[found.end() :] if found else row
