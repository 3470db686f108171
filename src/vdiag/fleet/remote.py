"""Logs behind a URL, by fsspec: `s3://`, `gs://`, `http(s)://`, `zip://`, `memory://` and what else it opens."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple, cast

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:::|://)")
MISSING = "URLs need fsspec: pip install 'vdiag[remote]'"
BLOCK = 4 << 20  # bytes asked for at a time


class RemoteError(OSError):
    """What is behind a URL cannot be read; the text says why."""


class Object(NamedTuple):
    """A file behind a URL."""

    url: str
    size: int  # 0: unknown
    mark: str  # changes when the content does: an ETag, or a time
    changed: float = 0.0


def is_url(path: str) -> bool:
    """Whether a name is a URL; a drive letter of Windows is none."""
    return URL.match(path) is not None and len(path.split(":", 1)[0]) > 1


def objects(url: str) -> Iterator[Object]:
    """The files that a URL names: itself, what a pattern in it fits, or what lies below it. RemoteError if none."""
    system, path = _system(url)
    try:
        if any(sign in path for sign in "*?["):
            found = system.glob(path, detail=True)
        elif system.isdir(path):
            found = system.find(path, detail=True)
        else:
            found = {path: system.info(path)}
    except Exception as error:  # each of fsspec's file systems raises what its library likes
        raise RemoteError(_why(error)) from None
    infos = [info for info in found.values() if info.get("type") != "directory"]
    if not infos:
        raise RemoteError(_why(FileNotFoundError()))
    for info in sorted(infos, key=lambda info: str(info["name"])):
        yield Object(
            _address(system, url, path, str(info["name"])),
            int(info.get("size") or 0),
            _mark(info),
            _when(info),
        )


def opened(url: str) -> BinaryIO:
    """The bytes behind a URL. RemoteError where they can't be had."""
    system, path = _system(url)
    try:
        return cast(BinaryIO, _Held(system, system.open(path, "rb", block_size=BLOCK)))
    except Exception as error:
        raise RemoteError(_why(error)) from None


class _Held(io.RawIOBase):
    """A file with its file system, which closes what is open in it when it goes."""

    def __init__(self, system: Any, file: Any) -> None:
        self._system, self._file = system, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self._file.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise RemoteError(MISSING) from None
    try:
        system, path = url_to_fs(url)
    except ImportError as error:  # fsspec tells which package to install
        raise RemoteError(str(error)) from None
    except Exception as error:
        raise RemoteError(_why(error)) from None
    return system, path


def _address(system: Any, url: str, path: str, name: str) -> str:
    """The URL of a file that was found below, or by, another; a chain such as `zip://…::s3://…` keeps its rest."""
    if name.strip("/") == path.strip("/"):
        return url
    made = name if URL.match(name) else str(system.unstrip_protocol(name))
    rest = url.partition("::")[2]
    return f"{made}::{rest}" if rest else made


def _mark(info: dict[str, Any]) -> str:
    """What changes with the content, as far as the file system tells it."""
    for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified", "updated", "created"):
        if info.get(key):
            return f"{key}={info[key]}"
    return ""


def _when(info: dict[str, Any]) -> float:
    """When it was written last, in seconds since 1970; 0 if unknown."""
    for key in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(key)
        if isinstance(value, (int, float)):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return 0.0


def _why(error: Exception) -> str:
    """What went wrong; file systems tell of a missing object only which it is, or how their library says so."""
    if isinstance(error, FileNotFoundError):
        return "nothing there"
    return (getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__)[:300]
