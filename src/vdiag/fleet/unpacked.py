"""The logs in a bundle, on disk or behind a URL."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import IO, BinaryIO, cast

from vdiag.fleet.found import BUNDLE
from vdiag.fleet.remote import is_url, opened
from vdiag.intake.sources import Source, SourceError, sources
from vdiag.model import Gap

OPEN_FILES = "/proc/self/fd"  # Linux: a file is opened there once more by its number


def members(path: str) -> list[Source] | None:
    """The sources in a bundle; None if the path is none. OSError, SourceError where it cannot be read.

    What is behind a URL is copied into a temporary file first: a zip's directory stands at its end.
    """
    if is_url(path):
        if not BUNDLE.search(path.split("::")[0]):
            return None
        held = _nameless()  # its sources keep it
        with opened(path) as stream:
            shutil.copyfileobj(stream, held, 1 << 20)
        held.flush()
        name = str(held.name) if isinstance(held.name, str) else f"{OPEN_FILES}/{held.name}"
        found = _of(name)
        for source in found:
            source.name = path + source.name.removeprefix(name)
            source.open = _keeping(source.open, held)
            source.gaps = [Gap(what=gap.what.replace(name, path)) for gap in source.gaps]
        return found
    with open(path, "rb") as file:
        head = file.read(512)
    if not _packed(head):
        return None
    found = _of(path)
    return None if [source.name for source in found] == [path] else found


def _nameless() -> IO[bytes]:
    """A temporary file, where possible without a name, so that nothing stays of it when the process is killed."""
    if os.path.isdir(OPEN_FILES):
        return tempfile.TemporaryFile()
    return cast(IO[bytes], tempfile.NamedTemporaryFile(suffix=".bundle"))


def _packed(head: bytes) -> bool:
    from vdiag.intake.compressed import packed_as

    return bool(packed_as(head))


def _of(path: str) -> list[Source]:
    found, problems = sources([path], io.BytesIO())
    if problems:
        raise SourceError(problems[0].removeprefix(f"{path}: "))
    return found


def _keeping(open_: Callable[[], BinaryIO], held: object) -> Callable[[], BinaryIO]:
    """The same, with the temporary file alive as long as it can be called."""
    return lambda: (held, open_())[1]
