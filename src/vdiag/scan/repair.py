"""Another reading of a pasted text: quoting, boxes, tags and blank lines taken off, newest-first turned round,
hard-wrapped lines joined.

Each step looks whether its trouble is there at all, so a clean log costs one look. What comes out are logical
lines, made of the pieces that stood on physical lines; the pipeline reads both and keeps the better supported one.
"""

from __future__ import annotations

import html
import itertools
import re

import msgspec

from vdiag.scan.marks import indentation, unmarked
from vdiag.scan.wrapped import Piece, joined

_QUOTE = re.compile(r"^\s{0,3}(?:>\s?)+")
_BOX = re.compile(r"^\s*[│┃║|](.*?)\s*[│┃║|]?\s*$")
_EDGE = re.compile(r"^\s*[┌└├╭╰┏┗┣╔╚╠].*[┐┘┤╮╯┓┛┫╗╝╣]\s*$")
_FENCE = re.compile(r"^\s*(?:```|~~~)\w*\s*$")
_TAG = re.compile(
    r"</?(?:pre|code|span|div|p|br|b|i|em|strong|font|samp|li|ul|td|tr|table)\b[^>]{0,200}>", re.IGNORECASE
)
_ENTITY = re.compile(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{2,5}|#x[0-9a-fA-F]{2,4});")
_SMART: dict[int, int | None] = {
    **str.maketrans("“”„‟‘’‚‛′″\u00a0", "\"\"\"\"'''''\" "),
    **dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\u00ad\ufeff"), None),  # seen by no one
}
_TYPED = re.compile(f"[{''.join(map(chr, _SMART))}]")
_CLOCK = re.compile(
    r"(?<!\d)(?:(\d{4}-\d\d-\d\d|\d\d-\d\d)[T ])?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?(?!\d)"
)
_FRAME = re.compile(r'File "[^"]+", line \d+, in \S+\s*$')
_CARETS = re.compile(r"\s[~^]+\s*$")
UNQUOTED = "quote marks are taken off"
UNBOXED = "the box around it is taken off"
UNMARKED = "the mark on every line is taken off"
UNINDENTED = "the indentation of the whole is taken off"
TURNED = "it was printed newest first and is read the other way round"
_MARKS = {UNQUOTED, UNBOXED, UNMARKED, UNINDENTED}  # what stood on every line and so is none of the log
# What speaks for a reading: only what stood on every line was taken off; the lines were turned round; anything else.
CERTAIN, LIKELY, GUESSED = 0.2, 0.1, 0.02
SAMPLE = 400  # lines looked at to see whether a step is needed
MOSTLY = 0.7


class Repaired(msgspec.Struct):
    """A text read another way."""

    lines: list[list[str]]  # logical lines, each of one or more pieces
    places: list[int]  # physical line of each piece, in reading order
    first: int  # physical line where the text begins; the pieces are numbered through from it
    done: list[str]  # what was done, in words
    trust: float  # what speaks for it against the plain reading

    def place(self, line: int) -> int:
        """The physical line of a piece, by its number as it was read."""
        at = min(line - self.first, len(self.places) - 1)
        return self.places[at] if at >= 0 else line


def repair(text: str, first: int = 1) -> Repaired | None:
    """The repaired reading of a text that begins on line `first`, or None where nothing seems to be wrong with it."""
    pieces: list[Piece] = list(enumerate(text.split("\n"), first))
    if pieces and not pieces[-1][1]:
        pieces.pop()
    if len(pieces) < 2:
        return None
    done: list[str] = []
    for step in (_unquoted, _unboxed, _untagged, _unmarked, _unindented, _unspaced, _turned):
        better = step(pieces)
        if better is not None:
            pieces, what = better
            done.append(what)
    lines = [[piece] for piece in pieces]
    whole = joined(pieces)
    if whole is not None:
        lines = whole
        done.append("lines that were wrapped are joined")
    if not done:
        return None
    return Repaired(
        lines=[[text for _, text in line] for line in lines],
        places=[n for line in lines for n, _ in line],
        first=first,
        done=done,
        trust=_trust(done, joined=whole is not None),
    )


def _trust(done: list[str], *, joined: bool) -> float:
    """What speaks for a reading by what was done to come to it."""
    if TURNED in done:
        return LIKELY
    return CERTAIN if not joined and not _MARKS.isdisjoint(done) else GUESSED


Step = tuple[list[Piece], str] | None


def _most(pieces: list[Piece], pattern: re.Pattern[str]) -> bool:
    filled = [text for _, text in pieces[:SAMPLE] if text.strip()]
    return len(filled) >= 3 and sum(pattern.match(text) is not None for text in filled) >= MOSTLY * len(
        filled
    )


def _unquoted(pieces: list[Piece]) -> Step:
    if not _most(pieces, _QUOTE):
        return None
    return [(n, _QUOTE.sub("", text)) for n, text in pieces], UNQUOTED


def _unboxed(pieces: list[Piece]) -> Step:
    if not _most(pieces, re.compile(r"^\s*[│┃║]")):
        return None
    matches = [(n, text, _BOX.match(text)) for n, text in pieces if not _EDGE.match(text)]
    margin = all(m is None or m[1][:1] in " " for _, _, m in matches)
    bare = [(n, text if m is None else m[1][margin:]) for n, text, m in matches]
    return bare, UNBOXED


def _untagged(pieces: list[Piece]) -> Step:
    sample = "\n".join(text for _, text in pieces[:SAMPLE])
    fenced = any(_FENCE.match(text) for _, text in pieces)
    if not (fenced or _TAG.search(sample) or _ENTITY.search(sample) or _TYPED.search(sample)):
        return None
    kept = []
    for n, text in pieces:
        if _FENCE.match(text):
            continue
        kept.append((n, html.unescape(_TAG.sub("", text)).translate(_SMART)))
    return kept, "code fences, tags and typographic quotes are taken off"


def _unmarked(pieces: list[Piece]) -> Step:
    bare = unmarked(pieces)
    return None if bare is None else (bare, UNMARKED)


def _unindented(pieces: list[Piece]) -> Step:
    indent = indentation(pieces)
    if indent < 1 or sum(bool(text.strip()) for _, text in pieces) < 3:
        return None
    return [(n, text[indent:]) for n, text in pieces], UNINDENTED


def _unspaced(pieces: list[Piece]) -> Step:
    blank = sum(not text.strip() for _, text in pieces)
    pairs = sum(not b.strip() and bool(a.strip()) for (_, a), (_, b) in itertools.pairwise(pieces))
    if blank < 0.4 * len(pieces) or pairs < 0.8 * (len(pieces) - blank) - 1:
        return None
    return [piece for piece in pieces if piece[1].strip()], "the blank lines between all lines are taken out"


def _turned(pieces: list[Piece]) -> Step:
    """The other way round, where time runs backwards or code stands above its `File` line."""
    falls = rises = 0
    before = None
    for _, text in pieces:
        m = _CLOCK.search(text[:120])
        if m is None:
            continue
        at = (m[1] or "", m[2], m[3], m[4], (m[5] or "").ljust(6, "0"))
        if before is not None and len(before[0]) == len(at[0]):
            falls += at < before
            rises += at > before
        before = at
    if falls + rises < 3:
        falls, rises = _traceback_votes([text for _, text in pieces if text.strip()])
    if falls < 2 or falls <= 2 * rises:
        return None
    return pieces[::-1], TURNED


def _traceback_votes(rows: list[str]) -> tuple[int, int]:
    """How many rows of tracebacks stand the wrong way round, and how many the right way.

    A head stands above its first frame; carets stand under their code, so above the next frame.
    """
    wrong = right = 0
    for i, row in enumerate(rows):
        if "Traceback (most recent call last)" in row or _CARETS.search(row):
            wrong += i > 0 and _FRAME.search(rows[i - 1]) is not None
            right += i + 1 < len(rows) and _FRAME.search(rows[i + 1]) is not None
    return wrong, right
