"""Writes a bundle: a compressed tar that appears whole under its name, or not at all, for its owner alone to read."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, cast

ZSTD, GZIP = ".tar.zst", ".tar.gz"
LEVEL = 6  # of zstd


def ending() -> str:
    """How a bundle's name ends here: zstd where a library for it is there, else gzip."""
    return ZSTD if _zstd() is not None else GZIP


@contextlib.contextmanager
def new(path: str, *, replace: bool = False) -> Iterator[BinaryIO]:
    """An open file that takes this name when it is complete; on any error and at Ctrl-C nothing is left of it.

    Raises FileExistsError where the name is taken, also by then, unless `replace`.
    """
    if not replace and os.path.lexists(path):
        raise FileExistsError(17, "is there already", path)
    try:
        number, name = tempfile.mkstemp(prefix=".vdiag-", suffix=".part", dir=os.path.dirname(path) or ".")
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    try:
        with open(number, "wb") as file:  # mkstemp gives mode 0600
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(name, path)
        else:
            _name(name, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _name(name: str, path: str) -> None:
    """Gives a file a name that must be free: a rename would take one that appeared meanwhile."""
    try:
        os.link(name, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise FileExistsError(17, "is there already", path) from None
        os.rename(name, path)


def write(file: BinaryIO, members: Mapping[str, bytes], folder: str, when: float, packed: str) -> None:
    """The members in a folder of a tar, compressed as the ending `packed` says; owners are not told."""
    with _compressing(file, packed) as stream, tarfile.open(
        fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT
    ) as tar:  # fmt: skip
        for name, data in members.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size, info.mtime, info.mode = len(data), int(when), 0o600
            tar.addfile(info, io.BytesIO(data))


def _compressing(file: BinaryIO, packed: str) -> Any:
    """A stream that compresses into `file`, which stays open."""
    zstd = _zstd() if packed == ZSTD else None
    if zstd is None:
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
    if hasattr(zstd, "ZstdFile"):  # the standard library's
        return zstd.ZstdFile(file, "w", level=LEVEL)
    return zstd.ZstdCompressor(level=LEVEL).stream_writer(file, closefd=False)


def _zstd() -> Any:
    """Python's own zstd, else the package's; None without either."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            import zstandard as zstd
        except ImportError:
            return None
    return zstd
