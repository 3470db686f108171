"""The streams of a task: opened from disk or a URL, decompressed, from where an earlier run ended, and watched.

Offsets count bytes of the text, after decompression.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from hashlib import blake2b
from typing import BinaryIO, cast

from vdiag.fleet.remote import is_url, opened
from vdiag.fleet.task import Seen
from vdiag.intake.compressed import decompressed

SAMPLE = 4096  # bytes of the head, and before an offset, by which content is known again
PIECE = 1 << 20


def digest(data: bytes) -> str:
    """A short hash of a part of a log."""
    return blake2b(data, digest_size=12).hexdigest()


def open_at(path: str, offset: int = 0) -> BinaryIO:
    """The text in a file or behind a URL from a byte on. OSError, SourceError."""
    raw = opened(path) if is_url(path) else cast(BinaryIO, open(path, "rb", buffering=0))  # noqa: SIM115
    stream = decompressed(raw, path)
    if offset and stream is raw:
        stream.seek(offset)
        return stream
    while offset:
        piece = stream.read(min(offset, PIECE))
        if not piece:
            break
        offset -= len(piece)
    return stream


def exactly(stream: BinaryIO, size: int) -> bytes:
    """That many bytes, or fewer at the end."""
    parts: list[bytes] = []
    while size and (piece := stream.read(size)):
        parts.append(piece)
        size -= len(piece)
    return b"".join(parts)


class Watched(io.RawIOBase):
    """A stream that keeps count: of bytes and lines, of its first bytes and its last ones."""

    def __init__(
        self, open_: Callable[[], BinaryIO], held: bytes = b"", offset: int = 0, lines: int = 0
    ) -> None:
        """`held` was read already and comes first; `offset` and `lines` stand behind it."""
        self._open, self._held = open_, held
        self._stream: BinaryIO | None = None
        self.offset, self.lines = offset, lines
        self._head = b"" if offset else None
        self._first = bytearray()
        self._last = held[-SAMPLE:]

    def start(self) -> BinaryIO:
        """Opens it; what that raises is raised here."""
        self._stream = self._open()
        return cast(BinaryIO, self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer)
        if self._held:
            size = min(len(self._held), len(view))
            view[:size] = self._held[:size]
            self._held = self._held[size:]
            return size
        assert self._stream is not None
        view = view[:PIECE]
        size = cast(io.RawIOBase, self._stream).readinto(view) or 0
        if size:
            self._note(bytes(view[:size]))
        return size

    def _note(self, data: bytes) -> None:
        self.offset += len(data)
        self.lines += data.count(b"\n")
        if len(self._first) < SAMPLE:
            self._first += data[: SAMPLE - len(self._first)]
        self._last = data[-SAMPLE:] if len(data) >= SAMPLE else (self._last + data)[-SAMPLE:]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        super().close()

    def seen(self) -> Seen:
        """How far it was read. Of one that began further on the head is not told."""
        first = bytes(self._first) if self._head is None else b""
        return Seen(self.offset, self.lines, digest(first) if first else "", len(first), digest(self._last))
