"""Bundles as people attach them to bug reports: `.zip`, `.tar` and compressed `.tar`, read in place.

Nothing is extracted to disk, so a member's name is only a name. A tar is read forward, block by block, by the few
fields of its header that matter here (POSIX.1-1988 ustar, pax `path`, GNU long names): the standard library's reader
would hold a hostile header of any size in memory.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, cast

from vdiag.intake.compressed import BOMB_RATIO, BOMB_SIZE, ZIP, SourceError, decompressed
from vdiag.intake.folders import MOST_BYTES, Entry

BLOCK = 512  # a tar is made of such
LONGEST_NAME = 64 * 1024  # bytes of a header that only carries a name
_SMALL = 4096  # compressed bytes taken at a time where the library knows no limit on what comes out
_DEFLATED = (0, 8)  # zip's methods that do


def bundle(path: str) -> Iterator[Entry] | None:
    """The files in a bundle; None if the file is none. May raise OSError and SourceError."""
    with open(path, "rb") as file:
        if file.read(4) in ZIP:
            return _zipped(path)
    with _inflated(path) as stream:
        return _tarred(path) if _is_header(_exactly(stream, BLOCK)) else None


def _inflated(path: str) -> BinaryIO:
    return decompressed(cast(BinaryIO, open(path, "rb", buffering=0)), path)


def _named(path: str, member: str) -> str:
    shown = "".join(c if c.isprintable() else "?" for c in member)
    return f"{path}:{shown.removeprefix('./')}"


# ---- zip ------------------------------------------------------------------------------------------------


def _zipped(path: str) -> Iterator[Entry]:
    import zipfile

    try:
        # Its directory may be long, and is read once: members are opened through this one.
        bundled = zipfile.ZipFile(path)
        infos = bundled.infolist()
    except OSError:
        raise
    except Exception as error:  # BadZipFile, or what a damaged directory makes of its numbers
        raise SourceError(f"is a damaged zip file: {error}") from None
    return (
        Entry(_named(path, info.filename), info.file_size, _member(bundled, info), _when(info))
        for info in infos
        if not info.is_dir()
    )


def _when(info: Any) -> float:
    """When a member was written last, as a number that grows: a zip file tells it without a zone."""
    year, month, day, hour, minute, second = info.date_time
    return float(((((year * 12 + month) * 31 + day) * 24 + hour) * 60 + minute) * 60 + second)


def _member(bundled: Any, info: Any) -> Callable[[], BinaryIO]:
    def opened() -> BinaryIO:
        if info.flag_bits & 1:
            raise SourceError("is encrypted")
        try:
            stream = bundled.open(info)
        except OSError:
            raise
        except Exception as error:  # BadZipFile, an unknown method, a name that does not fit
            raise SourceError(f"cannot be read from the zip file: {error}") from None
        return cast(BinaryIO, _Bounded(cast(BinaryIO, stream), info))

    return opened


class _Bounded(io.RawIOBase):
    """A member of a zip file, in small pieces and only as long as it inflates like a text."""

    def __init__(self, stream: BinaryIO, info: Any) -> None:
        self._stream = stream
        self._most = max(BOMB_SIZE, BOMB_RATIO * info.compress_size)
        self._piece = 64 * 1024 if info.compress_type in _DEFLATED else _SMALL
        self._out = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Raises ValueError where the member is left."""
        if self._out > self._most:
            raise ValueError(f"it inflates more than {BOMB_RATIO}-fold, which no log does")
        data = self._stream.read(min(len(buffer), self._piece))
        buffer[: len(data)] = data
        self._out += len(data)
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


# ---- tar ------------------------------------------------------------------------------------------------


class _Member(NamedTuple):
    name: str
    size: int
    stream: BinaryIO  # valid until the next member is asked for
    changed: float  # seconds since 1970


def _tarred(path: str) -> Iterator[Entry]:
    tar = _Tar(path)
    total = 0
    with _inflated(path) as stream:
        for index, member in enumerate(_members(stream)):
            yield Entry(_named(path, member.name), member.size, tar.opener(index), member.changed)
            total += member.size
            if total > 2 * MOST_BYTES:
                break


class _Tar:
    """Opens the members of a tar by their number. In rising order the file is read once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        self._walk: Iterator[_Member] = iter(())
        self._next = 0

    def opener(self, index: int) -> Callable[[], BinaryIO]:
        return lambda: self._open(index)

    def _open(self, index: int) -> BinaryIO:
        if self._stream is None or index < self._next:
            if self._stream is not None:
                self._stream.close()
            self._stream = _inflated(self._path)
            self._walk, self._next = _members(self._stream), 0
        for member in self._walk:
            self._next += 1
            if self._next > index:
                return member.stream
        raise SourceError("is no longer in the bundle")


class _Slice(io.RawIOBase):
    """The next bytes of a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self.left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Raises EOFError where the tar was cut."""
        if not self.left or not len(buffer):
            return 0
        view = memoryview(buffer)[: self.left]
        size = cast(io.RawIOBase, self._stream).readinto(view) or 0
        if not size:
            self.left = 0
            raise EOFError("the bundle is cut off")
        self.left -= size
        return size

    def skip(self, padding: int) -> None:
        self.left += padding
        waste = bytearray(256 * 1024)
        try:
            while self.readinto(waste):
                pass
        except (EOFError, ValueError):  # cut off, or damaged
            self.left = 0


def _members(stream: BinaryIO) -> Iterator[_Member]:
    """The files in a tar, in order; it ends where the tar ends, breaks off or is damaged."""
    long_name = ""
    while True:
        header = _exactly(stream, BLOCK)
        if not _is_header(header):
            return
        size, kind = _number(header[124:136]), header[156:157]
        padding = -size % BLOCK
        if kind in (b"L", b"x"):
            said = _exactly(stream, min(size, LONGEST_NAME))
            _Slice(stream, size - len(said)).skip(padding)
            long_name = _pax_path(said) if kind == b"x" else _text(said)
            continue
        name, long_name = long_name or _ustar_name(header), ""
        part = _Slice(stream, size)
        if kind in (b"0", b"\x00", b"7"):
            yield _Member(name, size, cast(BinaryIO, part), float(_number(header[136:148])))
        elif kind in (b"1", b"2", b"3", b"4", b"5", b"6"):
            continue  # links, devices and folders have no content
        part.skip(padding)


def _is_header(block: bytes) -> bool:
    """Whether a block is a tar header: the magic, and the checksum over all other bytes."""
    if len(block) < BLOCK or block[257:262] != b"ustar":
        return False
    return _number(block[148:156]) == sum(block) - sum(block[148:156]) + 8 * 32


def _number(field: bytes) -> int:
    """Octal digits, or GNU's base 256 for what is too large for them."""
    if field[:1] == b"\x80":
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \x00")
    return int(digits, 8) if digits and not digits.strip(b"01234567") else 0


def _ustar_name(header: bytes) -> str:
    name, prefix = _text(header[:100]), _text(header[345:500]) if header[257:263] == b"ustar\x00" else ""
    return f"{prefix}/{name}" if prefix else name


def _pax_path(records: bytes) -> str:
    """The `path` of pax records, each `length key=value\\n`; empty without one."""
    while records:
        length, _, rest = records.partition(b" ")
        if not length.isdigit() or int(length) <= len(length) + 1:
            break
        record = rest[: int(length) - len(length) - 1]
        if record.startswith(b"path="):
            return _text(record[5:].rstrip(b"\n"))
        records = records[int(length) :]
    return ""


def _text(field: bytes) -> str:
    return field.split(b"\x00", 1)[0].decode("utf8", "replace")


def _exactly(stream: BinaryIO, size: int) -> bytes:
    """That many bytes, or fewer where the stream ends or is damaged."""
    got = b""
    try:
        while len(got) < size and (piece := stream.read(size - len(got))):
            got += piece
    except Exception:  # damaged compressed data raises what its library likes
        pass
    return got
