"""Keeps the pages of `vdiag rules catalogue` in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vdiag.render import catalogue

if TYPE_CHECKING:
    from vdiag.rulebook.load import Problem


def pages_of(paths: Iterable[Path], problems: list[Problem]) -> dict[str, str]:
    """The pages of these rule files by name; what is wrong in the files is appended to `problems`."""
    from vdiag.rulebook.load import read_rules

    return catalogue.pages(catalogue.families(read_rules(paths, problems)))


def out_of_date(texts: Mapping[str, str], folder: Path) -> list[str]:
    """The names of pages that are missing, differ, or were generated once and are no page any more."""
    there = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))}
    changed = [name for name, text in texts.items() if there.get(name) != text]
    gone = [name for name, text in there.items() if name not in texts and text.startswith(catalogue.MARK)]
    return changed + gone


def write(texts: Mapping[str, str], folder: Path, names: Iterable[str]) -> None:
    """Writes these pages, and removes those that are none any more."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name in texts:
            (folder / name).write_text(texts[name], encoding="utf-8")
        else:
            (folder / name).unlink()
