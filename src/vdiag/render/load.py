"""The load over time as sparklines."""

from __future__ import annotations

from vdiag.model import Load
from vdiag.render.page import Page


def show(page: Page, told: Load, everything: bool) -> None:
    """The section of a terminal page."""
