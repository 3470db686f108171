"""Journals as runs of `NAME=value` fields: journalctl's `export` and `verbose`.

The fields come in any order, so an entry is complete only where the next begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from vdiag.scan import journal
from vdiag.scan.decoding import LONGEST, Decoder, Lines, Row, spread
from vdiag.scan.records import Scanner


class Fields(Decoder):
    """What `verbose` and `export` share: an entry is a run of fields, of which the message may come first."""

    longest = 40

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
                yield from spread(text, outer, line, 1)


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
_PAIRS = re.compile(rb"^([A-Z_][A-Z0-9_]*)=(.*)$", re.MULTILINE)
_READ = {name.encode(): name for name in journal.NAMES}
_NAME = re.compile(rb"[A-Z_][A-Z0-9_]{0,63}")
_LARGEST = 768 * 1024 * 1024  # bytes of a field, by systemd's own limit


class Export(Fields):
    """The export format: `NAME=value` lines, or a name, eight bytes of length, data; a blank line ends an entry.

    https://systemd.io/JOURNAL_EXPORT_FORMATS/
    """

    def __init__(self, scanner: Scanner, form: str) -> None:
        super().__init__(scanner, form)
        self._skip = 0  # bytes left of a field that is not read, with its line end
        self._fresh = True  # at the begin of an entry
        self._loose = ""  # a field whose length is wrong: what follows is its text, up to the next field

    def _rows(self, piece: bytes, last: bool = False) -> Iterator[Row]:
        data, at = self._carry + piece, 0
        while at < len(data):
            if self._fresh:
                self._fresh = False
                end = self._simple(data, at)
                if end:
                    yield from self._finish()
                    at, self._fresh = end, True
                    continue
            if self._skip:
                end = min(at + self._skip, len(data))
                self._skip -= end - at
            else:
                end = data.find(b"\n", at) + 1 or (len(data) if last or len(data) - at > LONGEST else 0)
                if not end:
                    break
                line = data[at:end].rstrip(b"\r\n")
                if not line:
                    self._loose, self._fresh = "", True
                    yield from self._finish()
                elif not self._field(line):
                    end = self._binary(line, data, end, last)
                    if not end:
                        break
            self.line += data.count(b"\n", at, end)
            at = end
        self._carry = data[at:]

    def _simple(self, data: bytes, at: int) -> int:
        """Takes a whole entry of `NAME=value` lines at once; where it ends, 0 if it is none or not all here."""
        stop = data.find(b"\n\n", at) + 1
        pairs = _PAIRS.findall(data, at, stop)
        if not stop or len(pairs) != data.count(b"\n", at, stop):
            return 0
        for number, (name, value) in enumerate(pairs, self.line):
            if name in _READ:
                self._set(_READ[name], value, number)
        self.line += len(pairs) + 1
        return stop + 1

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
