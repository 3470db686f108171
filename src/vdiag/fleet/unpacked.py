"""The logs in a bundle, on disk or behind a URL."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Callable
from typing import BinaryIO

from vdiag.fleet.found import BUNDLE
from vdiag.fleet.remote import is_url, opened
from vdiag.intake.sources import Source, SourceError, sources


def members(path: str) -> list[Source] | None:
    """The sources in a bundle; None if the path is none. OSError, SourceError where it cannot be read.

    What is behind a URL is copied into a temporary file first: a zip's directory stands at its end.
    """
    if is_url(path):
        if not BUNDLE.search(path.split("::")[0]):
            return None
        held = tempfile.NamedTemporaryFile(suffix=".bundle")  # noqa: SIM115  (its sources keep it)
        with opened(path) as stream:
            shutil.copyfileobj(stream, held, 1 << 20)
        held.flush()
        found = _of(held.name)
        for source in found:
            source.name = path + source.name.removeprefix(held.name)
            source.open = _keeping(source.open, held)
        return found
    with open(path, "rb") as file:
        head = file.read(512)
    if not _packed(head):
        return None
    found = _of(path)
    return None if [source.name for source in found] == [path] else found


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
