"""Sources: files (plain, .gz, .xz, .bz2, .zst) and standard input, each with a name and a way to open it."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

STDIN = "<stdin>"
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"BZh": "bzip2", b"\x28\xb5\x2f\xfd": "zstd"}


class SourceError(Exception):
    """An input that cannot be read: says which and why."""


class Source(msgspec.Struct):
    """One named byte stream. `open` may raise SourceError or OSError; `size` is in bytes, None if unknown."""

    name: str
    open: Callable[[], BinaryIO]
    size: int | None = None


def sources(paths: Sequence[str], stdin: BinaryIO) -> tuple[list[Source], list[str]]:
    """The inputs named on a command line (`-` is standard input), and what is wrong with the others."""
    found: list[Source] = []
    problems: list[str] = []
    for path in paths or ["-"]:
        if path == "-":
            found.append(Source(STDIN, lambda: _plain_stdin(stdin)))
            continue
        try:
            info = os.stat(path)
            if stat.S_ISDIR(info.st_mode):
                raise SourceError("is a directory: name the log files in it")
            with open(path, "rb"):
                pass
        except (OSError, SourceError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            problems.append(f"{path}: {why}")
            continue
        size = info.st_size if stat.S_ISREG(info.st_mode) else None
        found.append(Source(path, _opener(path), size))
    return found, problems


def _plain_stdin(stdin: BinaryIO) -> BinaryIO:
    """Standard input, decompressed if its first bytes say so; a terminal is not asked."""
    peek = getattr(stdin, "peek", None)
    if peek is None or stdin.isatty() or not peek(6).startswith(tuple(_MAGIC)):
        return stdin
    return decompressed(stdin, "-")


def of_bytes(data: bytes, name: str = "<text>") -> Source:
    """A source of bytes in memory."""
    return Source(name, lambda: io.BytesIO(data), len(data))


def _opener(path: str) -> Callable[[], BinaryIO]:
    return lambda: decompressed(cast(BinaryIO, Path(path).open("rb", buffering=0)), path)


def decompressed(stream: BinaryIO, name: str) -> BinaryIO:
    """The stream behind a compression that its first bytes tell. Raises SourceError where it can't be read here."""
    head = stream.read(6) or b""
    kind = next((k for magic, k in _MAGIC.items() if head.startswith(magic)), "")
    if name != "-" and stream.seekable():
        stream.seek(0)
        whole = stream
    else:
        whole = cast(BinaryIO, _Rejoined(head, stream))
    if not kind:
        return whole
    return cast(BinaryIO, _Inflated(whole, _decompressor(kind, name)))


def _decompressor(kind: str, name: str) -> Callable[[], Any]:
    """Makes decompressors with the interface of `bz2.BZ2Decompressor`, one for each member of a stream."""
    if kind == "gzip":
        import zlib

        return lambda: zlib.decompressobj(wbits=31)
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise SourceError(f"is compressed with zstd: run `zstd -dc {name} | vdiag`") from None
    return cast(Callable[[], Any], zstd.ZstdDecompressor)


class _Inflated(io.RawIOBase):
    """A decompressed stream that gives all it can before a damaged or cut place is reported."""

    def __init__(self, stream: BinaryIO, make: Callable[[], Any]) -> None:
        self._stream = stream
        self._make = make
        self._engine = make()
        self._ready = memoryview(b"")
        self._begun = False
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Raises EOFError at the place where the stream was cut, after all before it."""
        while not self._ready and not self._ended:
            piece = self._stream.read(256 * 1024) or b""
            if not piece:
                self._ended = True
                if self._begun:
                    raise EOFError("the compressed file is cut off")
                break
            self._ready = memoryview(self._inflate(piece))
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def _inflate(self, piece: bytes) -> bytes:
        out = []
        while piece:
            self._begun = True
            out.append(self._engine.decompress(piece))
            if not self._engine.eof:
                break
            piece = self._engine.unused_data
            self._engine, self._begun = self._make(), False
        return b"".join(out)

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Rejoined(io.RawIOBase):
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
