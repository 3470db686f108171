"""The memory budget as a bar and a table."""

from __future__ import annotations

from vdiag.model import Memory
from vdiag.render.page import Page


def show(page: Page, told: Memory, everything: bool) -> None:
    """The section of a terminal page."""
