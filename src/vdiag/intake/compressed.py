"""Decompression while reading: gzip, xz, bzip2 and zstd, told by their first bytes, bounded whatever they hold.

A compressed log of a few megabytes may stand for gigabytes. It is never inflated as a whole: each call gives at most
a mebibyte, and one that inflates beyond anything a log does is left at that point.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol, cast

PIECE = 64 * 1024  # compressed bytes read at a time
MOST_OUT = 1024 * 1024  # bytes inflated at a time
BOMB_SIZE = 1 << 30  # bytes from which on
BOMB_RATIO = 200  # more than this many bytes out of one is no log (a repeated line makes about 100)
ZIP = (b"PK\x03\x04", b"PK\x05\x06")  # the second: one that holds nothing
MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}


class SourceError(Exception):
    """An input that cannot be read: says which and why."""


class _Engine(Protocol):
    """What decompressors of one member have in common (the interface of `bz2.BZ2Decompressor`)."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def needs_input(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


def kind_of(head: bytes) -> str:
    """`gzip`, `xz`, `bzip2` or `zstd` by the first six bytes; empty for anything else."""
    return next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), "")


def packed_as(head: bytes) -> str:
    """What `kind_of` says, or `zip` or `tar`, by the first 262 bytes; empty for anything else."""
    if head.startswith(ZIP):
        return "zip"
    return kind_of(head) or ("tar" if head[257:262] == b"ustar" else "")


def decompressed(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream behind a compression that its first bytes tell. Raises SourceError where it can't be read here."""
    try:
        head = stream.read(6) or b""
    except (OSError, SourceError):
        raise
    except Exception as error:  # a damaged bundle raises what its library likes
        raise SourceError(f"cannot be read: {error}") from None
    kind = kind_of(head)
    if name != "-" and stream.seekable():
        stream.seek(0)
        whole = stream
    else:
        whole = cast(BinaryIO, Rejoined(head, stream))
    if not kind:
        return whole
    return cast(BinaryIO, _Inflated(whole, _engine(kind, name)))


def _engine(kind: str, name: str) -> Callable[[], _Engine]:
    """Makes decompressors, one for each member of a stream."""
    if kind == "gzip":
        return _Gzip
    if kind == "xz":
        import lzma

        return cast(Callable[[], _Engine], lzma.LZMADecompressor)
    if kind == "bzip2":
        import bz2

        return cast(Callable[[], _Engine], bz2.BZ2Decompressor)
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        pass
    else:
        return cast(Callable[[], _Engine], zstd.ZstdDecompressor)
    try:
        import zstandard  # noqa: F401
    except ImportError:
        raise SourceError(
            f"is compressed with zstd: run `zstd -dc {name} | vdiag`, or install vdiag with its zstd extra"
        ) from None
    return _Zstandard


class _Gzip:
    """zlib's decompressor behind the common interface."""

    def __init__(self) -> None:
        import zlib

        self._zlib = zlib.decompressobj(wbits=31)
        self._damage: Exception | None = None
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Where the data is damaged, what stands before that place; the next call raises."""
        if self._damage is not None:
            raise self._damage
        before, data = self._zlib.copy(), self._zlib.unconsumed_tail + data
        try:
            out = self._zlib.decompress(data, max_length)
        except Exception as error:  # zlib.error
            self._damage, self.needs_input = error, False
            return _until_it_fails(before, data)
        self.needs_input = not self._zlib.unconsumed_tail and len(out) < max_length
        return out


def _until_it_fails(zlib: Any, data: bytes) -> bytes:
    """What a zlib decompressor makes of data that is known to be damaged, byte by byte."""
    out: list[bytes] = []
    for at in range(len(data)):
        try:
            out.append(zlib.decompress(data[at : at + 1]))
        except Exception:
            break
    return b"".join(out)


class _Zstandard:
    """The zstandard package's decompressor, which knows no limit: small pieces go in, so that little comes out."""

    PIECE = 256  # a block of zstd takes 4 bytes and stands for at most 128 KiB: 8 MiB at the worst

    def __init__(self) -> None:
        import zstandard

        self._zstd: Any = zstandard.ZstdDecompressor().decompressobj()
        self._waiting = b""
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return bool(self._zstd.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._zstd.unused_data) + self._waiting

    def decompress(self, data: bytes, max_length: int) -> bytes:
        waiting = self._waiting + data
        out: list[bytes] = []
        size = at = 0
        while at < len(waiting) and size < max_length and not self._zstd.eof:
            out.append(self._zstd.decompress(waiting[at : at + self.PIECE]))
            size += len(out[-1])
            at += self.PIECE
        self._waiting = waiting[at:]
        self.needs_input = not self._waiting
        return b"".join(out)


class _Inflated(io.RawIOBase):
    """A decompressed stream that gives all it can before a damaged or cut place is reported."""

    def __init__(self, stream: BinaryIO, make: Callable[[], _Engine]) -> None:
        self._stream = stream
        self._make = make
        self._engine = make()
        self._ready = memoryview(b"")
        self._begun = False  # inside a member
        self._ended = False
        self._in = self._out = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Raises EOFError where the stream was cut and ValueError where it is damaged or left, after all before it."""
        while not self._ready and not self._ended:
            self._ready = memoryview(self._more())
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _more(self) -> bytes:
        if self._out > BOMB_SIZE and self._out > BOMB_RATIO * self._in:
            self._ended = True
            raise ValueError(f"it inflates more than {BOMB_RATIO}-fold, which no log does")
        piece = b""
        if self._engine.eof:
            piece = self._engine.unused_data.lstrip(b"\x00")  # a further member; NULs are padding
            self._engine, self._begun = self._make(), False
        if not piece and (not self._begun or self._engine.needs_input):
            piece = self._stream.read(PIECE) or b""
            self._in += len(piece)
            if not piece:
                self._ended = True
                if self._begun:
                    raise EOFError("the compressed file is cut off")
                return b""
            if self._out and not self._begun:
                piece = piece.lstrip(b"\x00")
                if not piece:
                    return b""
        self._begun = True
        try:
            out = self._engine.decompress(piece, MOST_OUT)
        except Exception as error:  # zlib.error, lzma.LZMAError, OSError: each library its own
            self._ended = True
            raise ValueError(f"the compressed file is damaged ({error})") from None
        self._out += len(out)
        return out

    def close(self) -> None:
        self._stream.close()
        super().close()


class Rejoined(io.RawIOBase):
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if self._head:
            n = min(len(self._head), len(buffer))
            buffer[:n] = self._head[:n]
            self._head = self._head[n:]
            return n
        return cast(io.RawIOBase, self._rest).readinto(buffer) or 0

    def close(self) -> None:
        self._rest.close()
        super().close()
