"""What changed since the server last worked."""

from __future__ import annotations

from vdiag.model import Changes
from vdiag.render.page import Page


def show(page: Page, told: Changes, everything: bool) -> None:
    """The section of a terminal page."""
