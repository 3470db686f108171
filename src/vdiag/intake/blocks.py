"""Reads a stream in blocks of whole lines and holds the last of it back: it will be read line by line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import BinaryIO, cast

WHOLE = 8 * 1024 * 1024  # bytes up to which an input is read whole
TAIL = 1024 * 1024  # bytes at the end of a longer one that are
BLOCK = 2 * 1024 * 1024
LONGEST = 4 * BLOCK  # a longer line is passed on in pieces, marked by `torn`


class Blocks:
    """The blocks of a stream. Iterate `bulk()`, then take `tail`; `bytes` counts what was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        _widen(stream)
        self.bytes = 0
        self.tail = b""
        self.torn = 0  # pieces of over-long lines
        self.error = ""  # why reading ended early
        self.utf16 = ""

    def _read(self, size: int) -> bytes:
        parts: list[bytes] = []
        got = 0
        buffer = bytearray(min(size, 1 << 20))
        while got < size:
            try:
                n = cast(int | None, self._stream.readinto(memoryview(buffer)[: size - got]))  # type: ignore[attr-defined]
            except (OSError, EOFError, ValueError) as error:
                self.error = str(error) or type(error).__name__
                break
            except Exception as error:  # damaged compressed data raises what its library likes
                self.error = f"{type(error).__name__}: {error}"
                break
            if not n:
                break
            parts.append(bytes(memoryview(buffer)[:n]))
            got += n
        self.bytes += got
        return b"".join(parts)

    def bulk(self) -> Iterator[bytes]:
        """Blocks of whole lines that will not be in `tail`; none for an input of up to WHOLE bytes."""
        head = self._read(WHOLE + 1)
        self.utf16 = _utf16(head)
        if len(head) <= WHOLE:
            self.tail = head
            return
        held = head
        while True:
            more = self._read(BLOCK)
            if not more:
                break
            # Everything but the last TAIL bytes can go, up to a line end.
            held += more
            cut = held.rfind(b"\n", 0, len(held) - TAIL) + 1
            if not cut and len(held) > LONGEST:
                cut = len(held) - TAIL
                self.torn += 1
            if cut:
                yield held[:cut]
                held = held[cut:]
        cut = held.rfind(b"\n", 0, max(len(held) - TAIL, 0)) + 1
        if cut:
            yield held[:cut]
        elif len(held) > LONGEST:
            self.torn += 1
            cut = len(held) - TAIL
            yield held[:cut]
        self.tail = held[cut:]


def _utf16(head: bytes) -> str:
    """The UTF-16 codec a stream is in, by its byte order mark or its NULs; empty for anything else."""
    if head[:2] == b"\xff\xfe":
        return "utf-16-le"
    if head[:2] == b"\xfe\xff":
        return "utf-16-be"
    sample = head[:4096]
    if len(sample) >= 16:
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        if odd > len(sample) * 0.35 and even < len(sample) * 0.05:
            return "utf-16-le"
        if even > len(sample) * 0.35 and odd < len(sample) * 0.05:
            return "utf-16-be"
    return ""


def decode(data: bytes, utf16: str = "") -> str:
    """Text of any bytes: invalid ones become U+FFFD, NULs and a byte order mark go."""
    if utf16:
        text = data.decode(utf16, "replace")
    else:
        text = data.decode("utf8", "replace")
    if "\x00" in text:
        text = text.replace("\x00", "")
    return text.removeprefix("\ufeff")


def _widen(stream: BinaryIO) -> None:
    """A larger pipe buffer where the system has one: fewer switches between the two processes."""
    with contextlib.suppress(Exception):
        import fcntl

        fcntl.fcntl(stream.fileno(), 1031, 1 << 20)  # F_SETPIPE_SZ
