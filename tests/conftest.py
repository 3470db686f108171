"""Fixtures for all tests: the shipped rulebook, and rulebooks written inline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.load import load
from vdiag.rulebook.shipped import shipped


@pytest.fixture(scope="session")
def rulebook() -> Rulebook:
    """The shipped rulebook."""
    return shipped()


@pytest.fixture
def book(tmp_path: Path) -> Callable[[str], Rulebook]:
    """A rulebook from the YAML of a rule file."""

    def of(text: str) -> Rulebook:
        path = tmp_path / "rules.yaml"
        path.write_text(text, encoding="utf8")
        return load([str(path)], base=Rulebook())

    return of
