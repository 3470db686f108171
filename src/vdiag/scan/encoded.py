"""Decoders of encoded formats: from physical lines to the rows of text they stand for, whatever block they came in.

journald's `json`, `json-sse`, `json-pretty`, `verbose` and `export`, docker's json-file and Kubernetes' CRI files with
their partial lines. Each row goes through the same envelope grammar as plain text; what its entry says stands
behind it. Rows are numbered by the physical line on which their message begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from vdiag.model import Envelope, Record
from vdiag.scan import journal
from vdiag.scan.envelope import has_escapes, strip_escapes
from vdiag.scan.journal import Entry, merged, rest_of
from vdiag.scan.records import Scanner

LONGEST = 4 * 1024 * 1024  # bytes of one line, field or entry; what is longer counts as damaged
PARTIAL = 1024 * 1024  # characters of a line that was written in parts
CHUNK = 2000  # rows at a time
STEP = 1024 * 1024  # bytes decoded at a time

Row = tuple[int, str, Envelope]
Part = tuple[int, str, Envelope]
_BARE = Envelope()


def decoder_of(form: str, scanner: Scanner) -> Decoder | None:
    """The decoder of a format by its name (see `intake.formats`); None for plain text."""
    kind = {
        "journald json": JsonLines,
        "journald json-sse": JsonLines,
        "docker json-file": JsonLines,
        "journald json-pretty": JsonPretty,
        "journald verbose": Verbose,
        "journald export": Export,
        "cri": Cri,
    }.get(form)
    return kind(scanner, form) if kind else None


class Decoder:
    """Feed it whole pieces of an input in order, then `flush`."""

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
            for record in self._scanner.records(map(strip_escapes, texts) if has_escapes(text) else texts, 0):
                line, text, outer = chunk[record.line]
                marks = self._marks.get(line)
                record.line = _marked(marks, text, record.message) if marks else line
                if outer is not _BARE:
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
            yield from _spread(text, entry.envelope(), line)

    def _part(self, stream: str, line: int, text: str, ends: bool, outer: Envelope) -> Iterator[Row]:
        """A part of a line of text; the line comes when its last part does."""
        parts = self._parts.get(stream)
        if parts is None and ends:
            yield from _spread(text.rstrip("\r\n"), outer, line)
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
        yield from _spread(text, outer, line)

    def _rest(self) -> Iterator[Row]:
        """Lines whose last part never came."""
        for stream in list(self._parts):
            yield from self._joined(self._parts.pop(stream))


def _spread(text: str, outer: Envelope, line: int, step: int = 0) -> Iterator[Row]:
    """The rows of a text; `step` is 1 where each row stands on a physical line of its own."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\n" not in text:
        yield line, text, outer
        return
    later = rest_of(outer) if outer is not _BARE else outer
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


class JsonLines(Lines):
    """An entry a line: journald's `json`, `json-sse` and `json-seq`, docker's json-file."""

    def _one(self, line: bytes, number: int) -> Iterator[Row]:
        if line.startswith(b"data: "):
            line = line[6:]
        line = line.strip(b"\x1e\r ")
        if not line:
            return
        found = False
        if line.startswith(b"{"):
            for entry, whole in journal.entries(line):
                found = True
                if not whole:
                    self._gaps.broken(number, self.form)
                yield from self._entry(entry, number)
            if not found:
                self._gaps.broken(number, self.form)
        if not found:
            yield number, line.decode("utf8", "replace"), _BARE


class JsonPretty(Lines):
    """An entry over many lines, from a `{` to a `}` at the begin of a line."""

    def __init__(self, scanner: Scanner, form: str) -> None:
        super().__init__(scanner, form)
        self._open: list[bytes] = []
        self._size = 0
        self._place = 0  # the line of the message

    def _one(self, line: bytes, number: int) -> Iterator[Row]:
        line = line.rstrip(b"\r")
        if line == b"{":
            yield from self._close()
            self._open, self._size, self._place = [line], 0, number
        elif self._open:
            self._open.append(line)
            self._size += len(line)
            if line.lstrip().startswith(b'"MESSAGE"'):
                self._place = number
            if line.startswith(b"}") or self._size > LONGEST:
                yield from self._close()
        elif line.strip(b"[], "):
            yield number, line.decode("utf8", "replace"), _BARE

    def _close(self) -> Iterator[Row]:
        data, self._open = b"\n".join(self._open).rstrip(b","), []
        if not data:
            return
        found = False
        for entry, whole in journal.entries(data):
            found = True
            if not whole:
                self._gaps.broken(self._place, self.form)
            yield from self._entry(entry, self._place)
        if not found:
            self._gaps.broken(self._place, self.form)

    def _last(self) -> Iterator[Row]:
        yield from super()._last()
        yield from self._close()


class Fields(Decoder):
    """What `verbose` and `export` share: an entry is a run of fields, of which the message may come first."""

    def __init__(self, scanner: Scanner, form: str) -> None:
        super().__init__(scanner, form)
        self._fields: dict[str, Any] = {}
        self._said: list[tuple[int, str]] = []  # line and text of each message
        self._time = ""  # where it stands in no field

    def _set(self, name: str, value: bytes, line: int) -> None:
        if name == "MESSAGE":
            self._said.append((line, value.decode("utf8", "replace")))
        elif name in journal.NAMES:
            self._fields[name] = value.decode("utf8", "replace")

    def _finish(self) -> Iterator[Row]:
        """The rows of the entry that ends here."""
        said, fields = self._said, self._fields
        self._said, self._fields = [], {}
        if said:
            outer = journal.of_dict(fields).envelope()
            if self._time:
                outer = msgspec.structs.replace(outer, time=self._time)
            for line, text in said:
                yield from _spread(text, outer, line, 1)


class Verbose(Fields, Lines):
    """journalctl's `verbose`: a line with the time, then indented fields."""

    def _one(self, line: bytes, number: int) -> Iterator[Row]:
        m = _VERBOSE_FIELD.match(line)
        if m is not None:
            self._set(m["name"].decode(), m["value"], number)
        elif line.startswith(b" " * 12) and self._said:
            first, text = self._said[-1]
            self._said[-1] = first, f"{text}\n{line[12:].decode('utf8', 'replace')}"
        else:
            yield from self._finish()
            m = _VERBOSE_HEAD.match(line)
            self._time = m[1].decode() if m else ""

    def _last(self) -> Iterator[Row]:
        yield from super()._last()
        yield from self._finish()


_VERBOSE_HEAD = re.compile(rb"\S+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+) ")
_VERBOSE_FIELD = re.compile(rb" {4}(?P<name>[A-Z_][A-Z0-9_]*)=(?P<value>.*)")
_NAME = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")
_LARGEST = 768 * 1024 * 1024  # bytes of a field, by systemd's own limit


class Export(Fields):
    """The export format: `NAME=value` lines, or a name, eight bytes of length, data; a blank line ends an entry.

    https://systemd.io/JOURNAL_EXPORT_FORMATS/
    """

    def __init__(self, scanner: Scanner, form: str) -> None:
        super().__init__(scanner, form)
        self._skip = 0  # bytes left of a field that is not read, with its line end
        self._loose = ""  # a field whose length is wrong: what follows is its text, up to the next field

    def _rows(self, piece: bytes, last: bool = False) -> Iterator[Row]:
        data, at = self._carry + piece, 0
        while at < len(data):
            if self._skip:
                end = min(at + self._skip, len(data))
                self._skip -= end - at
            else:
                end = data.find(b"\n", at) + 1 or (len(data) if last or len(data) - at > LONGEST else 0)
                if not end:
                    break
                line = data[at:end].rstrip(b"\r\n")
                if not line:
                    self._loose = ""
                    yield from self._finish()
                elif not self._field(line):
                    end = self._binary(line, data, end, last)
                    if not end:
                        break
            self.line += data.count(b"\n", at, end)
            at = end
        self._carry = data[at:]

    def _field(self, line: bytes) -> bool:
        """Takes a `NAME=value` line, or a row of a field whose length was wrong."""
        name, equals, value = line.partition(b"=")
        known = equals and _NAME.fullmatch(name) is not None
        if self._loose and (not known or (name[:1] != b"_" and name.decode() not in journal.NAMES)):
            self._set(self._loose, line, self.line)
            return True
        if known:
            self._loose = ""
            self._set(name.decode(), value, self.line)
        return bool(known)

    def _binary(self, line: bytes, data: bytes, at: int, last: bool) -> int:
        """Takes a field with a length, whose name ended before `at`; where it ends, 0 if more must come first."""
        named = _NAME.fullmatch(line) is not None
        name = line.decode("utf8", "replace") if named else "MESSAGE"
        begin = at + 8
        if named and len(data) < begin and not last:
            return 0
        size = int.from_bytes(data[at:begin], "little")
        read = name == "MESSAGE" or name in journal.NAMES
        if named and not read and size <= _LARGEST:
            self._skip = size + 1
            return min(begin, len(data))
        end = begin + size
        if named and size <= LONGEST:
            if len(data) <= end and not last:
                return 0
            if data[end : end + 1] == b"\n":
                place = self.line + 1 + data.count(b"\n", at, begin)
                self._set(name, data[begin:end], place)
                return end + 1
        self._gaps.broken(self.line, self.form)
        self._loose = name
        if not named:
            self._set(name, line, self.line)
            return at
        return min(begin, len(data)) if b"\x00" in data[at:begin] else at

    def _last(self) -> Iterator[Row]:
        yield from self._rows(b"", last=True)
        yield from self._finish()


class Cri(Lines):
    """Files of Kubernetes' container runtimes: `TIME stdout F text`, with `P` for a part of a line."""

    reads_all = False

    def _one(self, line: bytes, number: int) -> Iterator[Row]:
        text = line.decode("utf8", "replace").rstrip("\r").replace("\x00", "")
        m = _CRI.match(text)
        if m is None:
            yield number, text, _BARE
            return
        ends, stream = m["tag"] == "F", m["stream"]
        # The first part keeps what stands before it: the envelope grammar reads that.
        begin = m.end() if stream in self._parts else 0
        yield from self._part(stream, number, text[begin:], ends, _BARE)


_CRI = re.compile(r"\d{4}-\d\d-\d\dT\S+ (?P<stream>stdout|stderr) (?P<tag>[FP])(?::\S*)?(?: |$)")
