"""Learning from streams while others read them, so that nothing is read twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO, cast

from vdiag.redact.redactor import Redactor

LONGEST = 1 << 20  # bytes of a row that are waited for


class Listener:
    """Collects what the rows of a log tell, whatever pieces they come in."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._rest = b""

    def heard(self, data: bytes) -> None:
        """Learns the names in a piece of a log, by whole rows."""
        head, end, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest if len(rest) < LONGEST else b""
        self._learn(head if end else b"" if self._rest else rest)

    def ended(self) -> None:
        """Learns from the last row, which has no end."""
        rest, self._rest = self._rest, b""
        self._learn(rest)

    def hearing(self, opened: Callable[[], BinaryIO]) -> Callable[[], BinaryIO]:
        """A way to open a stream, with what is read of it learned from."""
        return lambda: cast(BinaryIO, _Heard(opened(), self))

    def _learn(self, data: bytes) -> None:
        if data:
            self._redactor.learn(data.replace(b"\0", b"").decode("utf-8", "replace"))  # also UTF-16's ASCII


class _Heard:
    """A stream whose bytes are learned from as they are read."""

    def __init__(self, stream: BinaryIO, listener: Listener) -> None:
        self._stream, self._listener = stream, listener

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._hear(data)
        return data

    def readinto(self, view: memoryview) -> int:
        got = cast(int, cast(Any, self._stream).readinto(view))
        self._hear(bytes(view[: got or 0]))
        return got

    def _hear(self, data: bytes) -> None:
        if data:
            self._listener.heard(data)
        else:
            self._listener.ended()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
