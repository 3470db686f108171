"""Streams that are still written to: a pipe, or a file that log rotation renames or empties.

Both are read with `read(seconds)`: what is there, at once; else nothing after at most that time; None at the end.
What is packed is no text that grows: SourceError at once, or from the first `read` of a pipe.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import time
from io import FileIO
from typing import BinaryIO

from vdiag.intake.compressed import SourceError, packed_as

CHUNK = 256 << 10  # bytes read at once
BACK = 8 << 20  # bytes of a file's end that are read before what is new
HEAD = 262  # bytes that tell whether something is packed


class GrowingPipe:
    """Standard input, or another stream whose end is told by its writer."""

    turns = 0  # a pipe never begins anew
    line = 1

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._begun = False
        try:
            self._fd = stream.fileno()
        except (OSError, ValueError):
            self._fd = -1  # in memory: always ready

    def read(self, seconds: float) -> bytes | None:
        if self._fd < 0:
            return self._checked(self._stream.read(CHUNK)) or None
        if not select.select([self._fd], [], [], seconds)[0]:
            return b""
        return self._checked(os.read(self._fd, CHUNK)) or None

    def _checked(self, data: bytes) -> bytes:
        if not self._begun:
            _refuse_packed(data)
            self._begun = True
        return data


class GrowingFile:
    """A file followed by its name: it goes on where rotation puts a new file, or empties this one.

    `turns` counts how often it began anew; `line` is the number of the first line that is read. Raises OSError
    where the file cannot be opened, SourceError where it is packed.
    """

    def __init__(self, path: str, back: int = BACK) -> None:
        self._path = path
        self._file = _opened(path)
        _refuse_packed(self._file.read(HEAD) or b"")
        self._file.seek(0)
        self.turns = 0
        self.line = 1
        self._skip(os.fstat(self._file.fileno()).st_size - back)

    def read(self, seconds: float) -> bytes | None:
        data = self._file.read(CHUNK)
        if not data and self._renewed():
            data = self._file.read(CHUNK)
        if not data:
            time.sleep(seconds)
        return data or b""

    def _skip(self, size: int) -> None:
        """Passes over the lines that begin in the first `size` bytes, and counts them."""
        while size > 0:
            piece = self._file.read(min(size, CHUNK))
            if not piece:
                return
            size -= len(piece)
            self.line += piece.count(b"\n")
            if size <= 0 and not piece.endswith(b"\n"):
                self._skip_line()

    def _skip_line(self) -> None:
        while piece := self._file.read(4096):
            end = piece.find(b"\n")
            if end >= 0:
                self._file.seek(end + 1 - len(piece), os.SEEK_CUR)
                self.line += 1
                return

    def _renewed(self) -> bool:
        """Whether there is a new beginning; what was written last to a renamed file is read before."""
        here = os.fstat(self._file.fileno())
        try:
            there = os.stat(self._path)
        except OSError:
            return False  # renamed, and the new one is not there yet
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            if not stat.S_ISREG(there.st_mode):
                return False  # a folder, or a pipe, which would be waited for: no log that was rotated
            if here.st_size > self._file.tell():
                return True  # the writer used the old file once more: read on in it
            with contextlib.suppress(OSError):
                new = _opened(self._path)
                self._file.close()
                self._file = new
                self.turns += 1
                return True
            return False
        if here.st_size < self._file.tell():
            self._file.seek(0)
            self.turns += 1
            return True
        return False

    def close(self) -> None:
        self._file.close()


def growing(path: str) -> GrowingFile | GrowingPipe:
    """What is written to a path: a file by its name, a named pipe to its writer's end. Raises OSError, SourceError.

    A pipe is opened without waiting for its writer, so that Ctrl-C is heard before there is one.
    """
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return GrowingFile(path)
    return GrowingPipe(os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0))


def _refuse_packed(head: bytes) -> None:
    """SourceError if a stream begins as compressed data or a bundle does."""
    if kind := packed_as(head):
        raise SourceError(f"is {kind} data, which does not grow line by line; read it without --follow")


def _opened(path: str) -> FileIO:
    return FileIO(path, "rb")
