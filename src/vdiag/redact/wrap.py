"""Rows that were cut at a width: joined, so that detectors see a torn value whole, and cut again afterwards."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from vdiag.redact.book import MADE

NARROWEST, WIDEST = 40, 400  # characters of a row that a terminal or a page wraps to
_OWN = re.compile(  # what a row begins with that does not go on with the one before
    r"\s*(?:\(\w[\w -]*pid=\d+|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|Traceback \(|File \"|\d{4}[-/]\d\d[-/]\d\d|"
    r"[A-Z][a-z]{2} [ \d]\d \d\d:|\[[\d. ]+\]|\{\"|[\w.-]+ +\| )"
)


class Wrapped(NamedTuple):
    """A text with its torn rows joined, and where they were torn."""

    text: str
    width: int
    rows: list[list[str]]  # of each row of the text the rows that it was made of, with their line ends

    def again(self, made: str) -> str:
        """What was made of the text, in as many rows as there were. A value that was torn stands in the first."""
        lines = made.split("\n")
        if len(lines) != len(self.rows):
            return made
        return "".join(
            line + ("\n" if rows[0].endswith("\n") else "") if len(rows) == 1 else _torn(line, rows)
            for line, rows in zip(lines, self.rows, strict=True)
        )


def joined(text: str, known: Collection[int] = ()) -> Wrapped | None:
    """The text with what was cut at its width put together; None where no width shows. `known`: widths of the log."""
    rows = _rows(text)
    lengths = Counter(len(_bare(row)) for row in rows)
    width = max(lengths, default=0)
    if not (NARROWEST <= width <= WIDEST and lengths[width] >= (2 if len(rows) <= 12 else 3)):
        width = max((one for one in known if lengths[one]), default=0)
    if not width:
        return None
    made: list[list[str]] = []
    full = merged = False
    for row in rows:
        bare = _bare(row)
        if full and bare.strip() and len(bare) <= width and not _OWN.match(bare):
            made[-1].append(row)
            merged = True
        else:
            made.append([row])
        full = len(bare) == width
    if not merged:
        return None
    if made[-1][-1].endswith("\n"):
        made.append([""])
    whole = "".join(
        "".join(map(_bare, parts[:-1])) + parts[-1] if len(parts) > 1 else parts[0] for parts in made
    )
    return Wrapped(whole, width, made)


def _rows(text: str) -> list[str]:
    rows = [f"{row}\n" for row in text.split("\n")]
    rows[-1] = rows[-1][:-1]
    return rows if rows[-1] else rows[:-1]


def _bare(row: str) -> str:
    return row.rstrip("\r\n")


def _torn(line: str, rows: list[str]) -> str:
    """A row that was made of several, as several again. Only where it is torn is found out; the text is all of it."""
    bare = [*map(_bare, rows[:-1]), rows[-1].removesuffix("\n")]
    before = "".join(bare)
    stretches = _kept(before, line)
    out, done, cut = [], 0, 0
    for text, row in zip(bare[:-1], rows, strict=False):
        cut += len(text)
        place = next(
            (at + max(0, cut - start) for start, at, size in stretches if start + size >= cut), len(line)
        )
        place = max(done, place)
        out += [line[done:place], row[len(text) :]]
        done = place
    return "".join(out) + line[done:] + ("\n" if rows[-1].endswith("\n") else "")


def _kept(before: str, line: str) -> list[tuple[int, int, int]]:
    """The stretches between pseudonyms: where they begin in the text before, where in the new one, how long."""
    found = []
    start = at = 0
    ends = [made.span() for made in MADE.finditer(line)]
    for begin, end in [*ends, (len(line), len(line))]:
        stretch = line[at:begin]
        start = before.find(stretch, start)
        if start < 0:
            break
        if stretch:
            found.append((start, at, len(stretch)))
        start += len(stretch)
        at = end
    return found
