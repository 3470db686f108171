"""Reads a stream in blocks of whole lines and holds the last of it back: it will be read line by line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import BinaryIO

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
        """Up to `size` bytes, as many as one read gives; empty at the end or where reading fails."""
        try:
            data = self._stream.read(size) or b""
        except (OSError, EOFError, ValueError) as error:
            self.error = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return b""
        except Exception as error:  # damaged compressed data raises what its library likes
            self.error = f"{type(error).__name__}: {error}"
            return b""
        self.bytes += len(data)
        return data

    def _fill(self, size: int) -> list[bytes]:
        """Pieces of at least `size` bytes in all; fewer only at the end."""
        pieces: list[bytes] = []
        got = 0
        while got < size:
            piece = self._read(size - got)
            if not piece:
                break
            pieces.append(piece)
            got += len(piece)
        return pieces

    def bulk(self) -> Iterator[bytes]:
        """Blocks of whole lines that will not be in `tail`; none for an input of up to WHOLE bytes."""
        head = b"".join(self._fill(WHOLE + 1))
        self.utf16 = _utf16(head)
        if len(head) <= WHOLE:
            self.tail = head
            return
        cut = head.rfind(b"\n") + 1
        ready, rest = head[:cut], head[cut:]  # whole lines held back; the beginning of a line
        while True:
            pieces = self._fill(BLOCK)
            if not pieces:
                break
            last = pieces[-1]
            cut = last.rfind(b"\n") + 1
            if not cut and sum(map(len, pieces)) + len(rest) > LONGEST:
                cut = len(last)  # a line without an end is passed on in pieces
                self.torn += 1
            if not cut:
                rest += b"".join(pieces)
                continue
            if ready:
                yield ready
            ready, rest = b"".join((rest, *pieces[:-1], last[:cut])), last[cut:]
        end = ready + rest
        cut = end.rfind(b"\n", 0, max(len(end) - TAIL, 0)) + 1
        if not cut and len(end) > LONGEST:
            cut = len(end) - TAIL
            self.torn += 1
        if cut:
            yield end[:cut]
        self.tail = end[cut:]


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
