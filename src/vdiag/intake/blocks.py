"""Reads a stream in blocks of whole lines and holds the last of it back: it will be read line by line."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Iterator
from typing import BinaryIO, cast

WHOLE = 8 * 1024 * 1024  # bytes up to which an input is read whole
TAIL = 1024 * 1024  # bytes at the end of a longer one that are
SHORT = 256 * 1024  # bytes tried first: most logs are no longer, and a large buffer costs time
SAMPLE = 4096  # bytes from which the encoding is told
BLOCK = 2 * 1024 * 1024  # a longer line is passed on in pieces

RETURNS = 8  # lines from which a text may be one whose lines end in a carriage return alone
_REDRAWN = re.compile(rb"\d%|\d/\d+ |\d(?:it|s|B)/(?:s|it)\b|\xe2\x96[\x80-\x9f]|#{5}|={5}")  # a progress bar
_ODD = re.compile(r"[\ufffd\x01-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f]")  # text has none, or next to none

Block = tuple[bytes | bytearray, int]  # a buffer that is used again, and how many of its bytes count


class Blocks:
    """The blocks of a stream, in UTF-8. Iterate `bulk()`, then take `tail`; `bytes` counts what was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = _direct(stream)
        self._ended = False
        _widen(stream)
        self.bytes = 0
        self.tail = b""
        self.error = ""  # why reading ended early
        self.utf16 = ""
        self.returns = False  # whether lines end in a carriage return alone, as on an old Mac
        head = bytearray(SAMPLE)
        size = self._into(memoryview(head))
        self._head = bytes(memoryview(head)[:size])
        codec = _utf16(self._head)
        if codec:
            self.utf16 = codec
            self._decoder = codecs.getincrementaldecoder(codec)("replace")
            self._head = self._decoder.decode(self._head).removeprefix("\ufeff").encode("utf8", "replace")

    def _fill(self, view: memoryview) -> int:
        """Fills a buffer with UTF-8; how many bytes came."""
        got = min(len(self._head), len(view))
        view[:got] = self._head[:got]
        self._head = self._head[got:]
        if not self.utf16:
            return got + (self._into(view[got:]) if got < len(view) else 0)
        raw = bytearray(1 << 18)
        while got < len(view):
            size = self._into(memoryview(raw))
            text = self._decoder.decode(bytes(memoryview(raw)[:size]), final=not size).encode(
                "utf8", "replace"
            )
            part = min(len(text), len(view) - got)
            view[got : got + part] = text[:part]
            self._head += text[part:]
            got += part
            if not size:
                break
        return got

    def _into(self, view: memoryview) -> int:
        """Fills a buffer as far as the stream goes, as it is; how many bytes came.

        An end is the end: asked again, a terminal would wait for a second one.
        """
        got = 0
        try:
            while got < len(view) and not self._ended:
                n = self._stream.readinto(view[got:])  # type: ignore[attr-defined]
                self._ended = not n
                got += n or 0
        except (OSError, EOFError, ValueError) as error:
            self._broke(getattr(error, "strerror", None) or str(error) or type(error).__name__)
        except Exception as error:  # damaged compressed data raises what its library likes
            self._broke(f"{type(error).__name__}: {error}")
        self.bytes += got
        return got

    def _broke(self, why: str) -> None:
        """Reading is over; what comes of asking again says nothing."""
        self.error, self._ended = self.error or why, True

    def _whole(self, data: bytes) -> None:
        """An input that is read whole; carriage returns that end its lines become line feeds."""
        self.returns = _ends_in_returns(data)
        self.tail = data.replace(b"\r", b"\n") if self.returns else data

    def bulk(self) -> Iterator[Block]:
        """Blocks of whole lines that will not be in `tail`; none for an input of up to WHOLE bytes.

        A block is valid until the next one is asked for.
        """
        first = bytearray(min(SHORT, WHOLE))
        size = self._fill(memoryview(first))
        if size < len(first):
            self._whole(bytes(memoryview(first)[:size]))
            return
        head = bytearray(WHOLE + 1)
        head[: len(first)] = first
        size += self._fill(memoryview(head)[len(first) :])
        if size <= WHOLE:
            self._whole(bytes(memoryview(head)[:size]))
            return
        cut = head.rfind(b"\n") + 1 or size
        held: Block = (head, cut)
        rest = bytes(head[cut:])
        spare, other = bytearray(2 * BLOCK), bytearray(2 * BLOCK)
        while not self.error:
            if len(rest) > BLOCK:  # only behind the first block, which is larger
                held, rest = (bytes(memoryview(held[0])[: held[1]]) + rest, held[1] + len(rest)), b""
            spare[: len(rest)] = rest
            size = len(rest) + self._fill(memoryview(spare)[len(rest) : len(rest) + BLOCK])
            if size == len(rest):
                break
            yield held
            cut = spare.rfind(b"\n", 0, size) + 1 or size
            held, rest = (spare, cut), bytes(memoryview(spare)[cut:size])
            spare, other = other, spare
        end = bytes(memoryview(held[0])[: held[1]]) + rest
        cut = end.rfind(b"\n", 0, max(len(end) - TAIL, 0)) + 1 or max(len(end) - 2 * BLOCK, 0)
        if cut:
            yield end, cut
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


def _ends_in_returns(data: bytes) -> bool:
    """Whether a text has no line feed and yet lines; a progress bar that was redrawn is one line."""
    if data.count(b"\r") < RETURNS or b"\n" in data:
        return False
    parts = [part for part in data.split(b"\r") if part.strip()]
    return len(parts) >= RETURNS and sum(map(bool, map(_REDRAWN.search, parts))) * 2 < len(parts)


def decode(data: bytes) -> str:
    """Text of any bytes: invalid ones become U+FFFD, NULs and a byte order mark go."""
    text = data.decode("utf8", "replace")
    if "\x00" in text:
        text = text.replace("\x00", "")
    return text.removeprefix("\ufeff")


def looks_binary(sample: bytes) -> bool:
    """Whether bytes are no text: a tenth and more are control characters or invalid UTF-8."""
    if len(sample) < 64:
        return False
    text = sample.decode("utf8", "replace")
    return len(_ODD.findall(text)) > len(text) * 0.1 or not sample.strip(b"\0")


def _direct(stream: BinaryIO) -> BinaryIO:
    """A terminal without its buffer, which keeps an end to itself when it has something to hand over."""
    try:
        return cast(BinaryIO, stream.raw) if stream.isatty() else stream  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return stream


def _widen(stream: BinaryIO) -> None:
    """A larger pipe buffer where the system has one: fewer switches between the two processes."""
    with contextlib.suppress(Exception):
        import fcntl

        fcntl.fcntl(stream.fileno(), 1031, 1 << 20)  # F_SETPIPE_SZ
