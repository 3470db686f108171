"""What an editor, a chat or some tool put before or around every line: line numbers, bullets, tags, quotes."""

from __future__ import annotations

import itertools
import re

from vdiag.scan.envelope import Peeler, has_escapes, strip_escapes
from vdiag.scan.wrapped import Piece

FEWEST = 5  # lines that tell a mark of all from chance
LONGEST = 120  # characters of a mark
NEARLY = 0.95  # of the lines bear it; the rest stays as it is

_NUMBERED = re.compile(
    r"(?P<file>(?:(?=[\w./-]{0,80}?[A-Za-z])[\w./-]{1,80}:)?)\s{0,8}(?P<number>\d{1,9})(?P<mark> ?[:.|)\]>]{0,2})(?!\w)"
)
_LEVEL = re.compile(r"debug|info|notice|warn|error|fatal|crit", re.IGNORECASE)
_OWN = re.compile(r"Traceback|File \"|\w(?:Error|Exception)\b")
_DIGITS = re.compile(r"\d+")
_AROUND = "\"'`"


def unmarked(pieces: list[Piece]) -> list[Piece] | None:
    """The lines without the mark that all of them bear; None where there is none.

    What the envelope grammar knows is no mark, nor is what names a level.
    """
    filled = [piece for piece in pieces if piece[1].strip()]
    if len(filled) < FEWEST:
        return None
    if any(has_escapes(text) for _, text in filled[:FEWEST]):  # what the grammar knows may be coloured
        filled = [(n, strip_escapes(text)) for n, text in filled]
    return _between(filled) or _numbered(filled) or _tagged(filled)


def _between(pieces: list[Piece]) -> list[Piece] | None:
    """Lines that each stand in quotes or backticks, as the cells of a table do."""
    mark = pieces[0][1].lstrip()[:1]
    if not mark or mark not in _AROUND:
        return None
    whole = re.compile(rf"\s*{mark}(.*){mark}[,;]?\s*$")
    found = [whole.match(text) for _, text in pieces]
    if sum(m is not None for m in found) < NEARLY * len(pieces):
        return None
    return [
        (n, m[1].replace(mark * 2, mark) if m else text) for (n, text), m in zip(pieces, found, strict=True)
    ]


def _numbered(pieces: list[Piece]) -> list[Piece] | None:
    """Lines that are numbered through, also behind the name of a file (`grep -n`)."""
    found = [_NUMBERED.match(text) for _, text in pieces]
    told = [m for m in found if m is not None]
    if len(told) < NEARLY * len(pieces) or len({(m["file"], m["mark"]) for m in told}) > 1:
        return None
    steps = [int(b["number"]) - int(a["number"]) for a, b in itertools.pairwise(told)]
    if max(sum(step > 0 for step in steps), sum(step < 0 for step in steps)) < NEARLY * len(steps):
        return None
    bare = [(n, text[m.end() if m else 0 :]) for (n, text), m in zip(pieces, found, strict=True)]
    gap = indentation(bare)
    return [(n, text[gap:]) for n, text in bare]


def indentation(pieces: list[Piece]) -> int:
    """Characters of white space before every line that holds anything."""
    return min((len(text) - len(text.lstrip()) for _, text in pieces if text.strip()), default=0)


def _tagged(pieces: list[Piece]) -> list[Piece] | None:
    """Lines that begin in the same way but for digits, with something that no grammar knows."""
    peeler = Peeler()
    if any(peeler.peel(text)[1] != text for _, text in pieces[:FEWEST]):
        return None
    shapes = sorted(_DIGITS.sub("0", text[: 2 * LONGEST]) for _, text in pieces)
    few = int(len(shapes) * (1 - NEARLY) / 2)
    pairs = zip(shapes[few], shapes[-1 - few], strict=False)
    tag = "".join(a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))[:LONGEST]
    tag = tag[: min(_known(peeler, text, len(tag)) for _, text in pieces[:FEWEST])]
    tag = re.sub(r"\w*$", "", tag)
    if not tag.strip() or _LEVEL.search(tag) or _OWN.search(tag):
        return None
    tag = tag.rstrip() + tag[len(tag.rstrip()) :][:1]
    begins = re.compile(r"\d+".join(map(re.escape, tag.split("0"))))
    return [(n, text[m.end() if (m := begins.match(text)) else 0 :]) for n, text in pieces]


def _known(peeler: Peeler, text: str, longest: int) -> int:
    """Where in a line an envelope begins, at most `longest`."""
    return next((i for i in range(1, longest) if peeler.peel(text[i:])[1] != text[i:]), longest)
