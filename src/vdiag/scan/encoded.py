"""Decoders of encoded formats: journald's JSON forms, docker's json-file, Kubernetes' CRI files with partial lines.

Each row of what they hold goes through the same envelope grammar as plain text; what its entry says stands behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vdiag.scan import journal
from vdiag.scan.decoding import BARE, LONGEST, Decoder, Lines, Row
from vdiag.scan.fields import Export, Verbose
from vdiag.scan.records import Scanner


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


class JsonLines(Lines):
    """An entry a line: journald's `json`, `json-sse` and `json-seq`, docker's json-file."""

    longest = 2

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
            yield number, line.decode("utf8", "replace"), BARE


class JsonPretty(Lines):
    """An entry over many lines, from a `{` to a `}` at the begin of a line."""

    longest = 400  # a message in bytes is one line a byte

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
            yield number, line.decode("utf8", "replace"), BARE

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


class Cri(Lines):
    """Files of Kubernetes' container runtimes: `TIME stdout F text`, with `P` for a part of a line."""

    reads_all = False

    def _one(self, line: bytes, number: int) -> Iterator[Row]:
        text = line.decode("utf8", "replace").rstrip("\r").replace("\x00", "")
        m = _CRI.match(text)
        if m is None:
            yield number, text, BARE
            return
        ends, stream = m["tag"] == "F", m["stream"]
        # The first part keeps what stands before it: the envelope grammar reads that.
        begin = m.end() if stream in self._parts else 0
        yield from self._part(stream, number, text[begin:], ends, BARE)


_CRI = re.compile(r"\d{4}-\d\d-\d\dT\S+ (?P<stream>stdout|stderr) (?P<tag>[FP])(?::\S*)?(?: |$)")
