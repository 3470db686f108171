"""Sources: files, folders, bundles and standard input, each with a name and a way to open it.

Compression is told by the first bytes; a rotated set is one source; what a folder or bundle holds besides logs is
left out and named.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, cast

import msgspec

from vdiag.intake.compressed import MAGIC, SourceError, decompressed, packed_as
from vdiag.model import Gap

if TYPE_CHECKING:
    from vdiag.intake.folders import Entry

STDIN = "<stdin>"
ENDLESS = {
    os.makedev(1, minor) for minor in (1, 2, 5, 7, 8, 9)
}  # Linux's mem, kmem, zero, full, random, urandom


class Source(msgspec.Struct):
    """One named byte stream. `open` may raise SourceError or OSError; `size` is in bytes, None if unknown."""

    name: str
    open: Callable[[], BinaryIO]
    size: int | None = None
    gaps: list[Gap] = []  # what is known to be missing before it is read

    def __post_init__(self) -> None:
        self.name = self.name.replace("\r", "\\r").replace("\n", "\\n")  # a name stands on one row


def sources(paths: Sequence[str], stdin: BinaryIO, *, joined: bool = True) -> tuple[list[Source], list[str]]:
    """The inputs named on a command line (`-` is standard input), and what is wrong with the others.

    Not `joined`: the files of a rotated set stay sources of their own.
    """
    found: list[Source] = []
    problems: list[str] = []
    for path in paths or ["-"]:
        if path == "-":
            found.append(Source(STDIN, lambda: _plain_stdin(stdin)))
            continue
        try:
            found += _of_path(path)
        except (OSError, SourceError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            problems.append(f"{path}: {why}")
    return (_continued(found) if joined else found), problems


def of_bytes(data: bytes, name: str = "<text>") -> Source:
    """A source of bytes in memory."""
    return Source(name, lambda: io.BytesIO(data), len(data))


def _of_path(path: str) -> list[Source]:
    info = os.stat(path)
    if stat.S_ISDIR(info.st_mode):
        from vdiag.intake.folders import walk

        os.scandir(path).close()  # that the named folder itself may not be read is a problem, not a gap
        lost: list[OSError] = []
        found = _chosen(path, walk(path, lost), "folder")
        found[0].gaps += [
            Gap(what=f"left out, because it cannot be read: {e.filename} ({e.strerror})") for e in lost
        ]
        return found
    if stat.S_ISBLK(info.st_mode) or (stat.S_ISCHR(info.st_mode) and info.st_rdev in ENDLESS):
        raise SourceError("is a device, not a log")
    if not stat.S_ISREG(info.st_mode):
        return [Source(path, _opener(path))]  # a pipe is opened once only
    with open(path, "rb") as file:
        head = file.read(512)
    held = None
    if packed_as(head):
        from vdiag.intake.archives import bundle

        held = bundle(path)
    return _chosen(path, held, "bundle") if held is not None else [Source(path, _opener(path), info.st_size)]


def _chosen(path: str, entries: Iterator[Entry], what: str) -> list[Source]:
    """The logs of a folder or bundle; what was left out is a gap of the first."""
    from vdiag.intake.folders import choose

    choice = choose(entries, path)
    if not choice.entries:
        raise SourceError(f"is a {what} without a file that looks like a log: name the file itself")
    found = [Source(e.name, _unpacked(e), e.size) for e in choice.entries]
    found[0].gaps = choice.gaps
    return found


def _continued(found: list[Source]) -> list[Source]:
    """Rotated sets as one source each, named like their newest file."""
    if len(found) < 2:
        return found
    from vdiag.intake.rotated import sets

    told: list[Source] = []
    for group in sets([source.name for source in found]):
        parts = [found[i] for i in group]
        if len(parts) == 1:
            told += parts
            continue
        size = sum(p.size for p in parts if p.size is not None)
        gaps = [gap for p in parts for gap in p.gaps]
        told.append(Source(parts[-1].name, _in_turn([(p.name, p.open) for p in parts]), size, gaps))
    return told


def _in_turn(openers: list[tuple[str, Callable[[], BinaryIO]]]) -> Callable[[], BinaryIO]:
    from vdiag.intake.rotated import Continued

    return lambda: cast(BinaryIO, Continued(openers))


def _plain_stdin(stdin: BinaryIO) -> BinaryIO:
    """Standard input, decompressed if its first bytes say so; a terminal is not asked."""
    peek = getattr(stdin, "peek", None)
    if peek is None or stdin.isatty() or not peek(6).startswith(tuple(MAGIC)):
        return stdin
    return decompressed(stdin, "-")


def _opener(path: str) -> Callable[[], BinaryIO]:
    return lambda: decompressed(cast(BinaryIO, open(path, "rb", buffering=0)), path)


def _unpacked(entry: Entry) -> Callable[[], BinaryIO]:
    return lambda: decompressed(entry.open(), entry.name)


__all__ = ["STDIN", "Source", "SourceError", "of_bytes", "sources"]
