"""What all decoders share: rows out of pieces of an input, lines written in parts, and the way through the grammar.

A decoder turns physical lines into rows: the number of the physical line on which a row of text stands, the text, and
what its entry says of it. It has state, so that it does not matter in which pieces the input comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from vdiag.model import Envelope, Record
from vdiag.scan import journal
from vdiag.scan.envelope import cleaned
from vdiag.scan.journal import Entry, merged, rest_of
from vdiag.scan.records import Scanner

LONGEST = 4 * 1024 * 1024  # bytes of one line, field or entry; what is longer counts as damaged
PARTIAL = 1024 * 1024  # characters of a line that was written in parts
CHUNK = 2000  # rows at a time
STEP = 1024 * 1024  # bytes decoded at a time

Row = tuple[int, str, Envelope]
Part = tuple[int, str, Envelope]
BARE = Envelope()


class Decoder:
    """Feed it whole pieces of an input in order, then `flush`."""

    longest = 1  # physical lines that an entry may take; the distance between rows that belong together grows with it
    reads_all = True  # every line must be seen, not only what the prefilter points at

    def __init__(self, scanner: Scanner, form: str) -> None:
        self.form = form
        self.line = 1  # number of the next physical line
        self._scanner = scanner
        self._gaps = scanner.gaps
        self._carry = b""
        self._parts: dict[str, list[Part]] = {}  # of lines written in parts, by stream
        self._marks: dict[
            int, list[tuple[int, int]]
        ] = {}  # line of a joined row → (offset, line) of its parts

    def feed(self, piece: bytes, first: int) -> Iterator[Record]:
        """Records of a piece whose first line has the number `first`."""
        if not self._carry and first != self.line:  # something was left out
            yield from self._records(self._rest())
            self.line = first
        for at in range(0, len(piece), STEP):
            yield from self._records(self._rows(piece[at : at + STEP]))

    def flush(self) -> Iterator[Record]:
        """Records of what is still open at the end of the input."""
        yield from self._records(self._last())
        yield from self._records(self._rest())

    def _rows(self, piece: bytes) -> Iterator[Row]:
        raise NotImplementedError

    def _last(self) -> Iterator[Row]:
        """What is left of an entry without an end."""
        yield from ()

    def _records(self, rows: Iterable[Row]) -> Iterator[Record]:
        """Rows through the envelope grammar, with what their entries say."""
        rows = iter(rows)
        while chunk := list(islice(rows, CHUNK)):
            texts = [row[1] for row in chunk]
            text = "\n".join(texts)
            places = [row[0] for row in chunk]
            self._gaps.look(text, places.__getitem__)
            for record in self._scanner.records(cleaned(texts, text), 0):
                line, text, outer = chunk[record.line]
                marks = self._marks.get(line)
                record.line = _marked(marks, text, record.message) if marks else line
                if outer is not BARE:
                    record.envelope = merged(record.envelope, outer)
                yield record
            self._marks.clear()

    # ---- entries ------------------------------------------------------------------------------------------

    def _entry(self, entry: Entry, line: int) -> Iterator[Row]:
        """The rows of an entry that stands on one physical line, or whose message does."""
        if entry.message is journal.UNSET and isinstance(entry.log, str):
            outer = Envelope(time=journal.one(entry.time))
            yield from self._part(journal.one(entry.stream), line, entry.log, entry.log.endswith("\n"), outer)
            return
        texts = entry.texts()
        if texts is None:
            self._gaps.long(line, journal.one(entry.tag))
            return
        for text in texts:
            yield from spread(text, entry.envelope(), line)

    def _part(self, stream: str, line: int, text: str, ends: bool, outer: Envelope) -> Iterator[Row]:
        """A part of a line of text; the line comes when its last part does."""
        parts = self._parts.get(stream)
        if parts is None and ends:
            yield from spread(text.rstrip("\r\n"), outer, line)
            return
        if parts is None:
            parts = self._parts[stream] = []
        parts.append((line, text, outer))
        if ends or sum(len(p[1]) for p in parts) > PARTIAL or len(self._parts) > 64:
            yield from self._joined(self._parts.pop(stream))

    def _joined(self, parts: list[Part]) -> Iterator[Row]:
        line, _, outer = parts[0]
        text = "".join(p[1] for p in parts).rstrip("\r\n")
        if len(parts) > 1:
            marks, offset = [], 0
            for number, piece, _ in parts:
                marks.append((offset, number))
                offset += len(piece)
            self._marks[line] = marks
        yield from spread(text, outer, line)

    def _rest(self) -> Iterator[Row]:
        """Lines whose last part never came."""
        for stream in list(self._parts):
            yield from self._joined(self._parts.pop(stream))


def spread(text: str, outer: Envelope, line: int, step: int = 0) -> Iterator[Row]:
    """The rows of a text; `step` is 1 where each row stands on a physical line of its own."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\n" not in text:
        yield line, text, outer
        return
    later = rest_of(outer) if outer is not BARE else outer
    for i, row in enumerate(text.rstrip("\n").split("\n")):
        yield line + i * step, row, later if i else outer


def _marked(marks: list[tuple[int, int]], text: str, message: str) -> int:
    """The physical line of the part in which a record of a joined line begins."""
    at = max(text.find(message[:200]), 0)
    return next(line for offset, line in reversed(marks) if offset <= at)


class Lines(Decoder):
    """A format whose entries are made of lines."""

    _skipping = False  # inside a line that was too long

    def _rows(self, piece: bytes) -> Iterator[Row]:
        lines = (self._carry + piece).split(b"\n")
        self._carry = lines.pop()
        for line in lines:
            number, self.line = self.line, self.line + 1
            if self._skipping:
                self._skipping = False
            else:
                yield from self._one(line, number)
        if len(self._carry) > LONGEST and not self._skipping:
            self._skipping = True
            yield from self._one(self._carry, self.line)
        if self._skipping:
            self._carry = b""

    def _last(self) -> Iterator[Row]:
        if self._carry:
            line, self._carry = self._carry, b""
            yield from self._one(line, self.line)

    def _one(self, line: bytes, number: int) -> Iterator[Row]:
        raise NotImplementedError
