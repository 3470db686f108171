"""vdiag: what broke in a failed vLLM server, where its log says so, and what to type now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

if TYPE_CHECKING:
    from vdiag.model import Report

__version__ = "0.1.0"
__all__ = ["__version__", "diagnose"]

StrPath = str | os.PathLike[str]


def diagnose(
    log: str | bytes | os.PathLike[str] | Sequence[StrPath] | BinaryIO | TextIO,
    *,
    rules: Sequence[StrPath] | None = None,
    shipped_rules: bool = True,
) -> Report:
    """The typed report on a log.

    `log` is the log's text (`str` or `bytes`), the path of a file, folder or bundle (a `pathlib.Path`),
    a list of paths told together as one story, or an open stream. `rules` are files or folders of further rules; without
    `shipped_rules` only they count.

    Raises FileNotFoundError, PermissionError or another OSError for a path that cannot be opened, ValueError for
    one that is no readable file, and `vdiag.rulebook.load.RulebookError` for broken rules.
    """
    import io

    from vdiag.intake.sources import Source, of_bytes, sources
    from vdiag.pipeline import diagnose as run
    from vdiag.rulebook.compile import Rulebook
    from vdiag.rulebook.load import load
    from vdiag.rulebook.shipped import shipped

    rulebook = shipped() if shipped_rules else Rulebook()
    if rules:
        rulebook = load([os.fspath(path) for path in rules], base=rulebook)
    given: Any = log
    if isinstance(given, str):
        report = run([of_bytes(given.encode("utf8", "surrogateescape"))], rulebook=rulebook)
        if _names_a_file(given):
            report.notes.append(
                f"{given!r} was taken as the text of a log; pathlib.Path({given!r}) reads the file"
            )
        return report
    if isinstance(given, (bytes, bytearray)):
        return run([of_bytes(bytes(given))], rulebook=rulebook)
    if not hasattr(given, "read"):
        paths = [os.fspath(path) for path in ([given] if isinstance(given, os.PathLike) else given)]
        for path in paths:
            if not os.path.isdir(path):
                with open(path, "rb"):
                    pass
        found, problems = sources(paths, io.BytesIO())
        if problems:
            raise ValueError("; ".join(problems))
        return run(found, rulebook=rulebook)
    name = str(getattr(given, "name", "<stream>"))
    if isinstance(given, io.TextIOBase) and not hasattr(given, "buffer"):
        return run([of_bytes(given.read().encode("utf8", "surrogateescape"), name)], rulebook=rulebook)
    return run([Source(name, lambda: getattr(given, "buffer", given))], rulebook=rulebook)


def _names_a_file(text: str) -> bool:
    """Whether a text was probably meant as a path."""
    try:
        return "\n" not in text and os.path.exists(text)
    except ValueError:  # a NUL in it
        return False
