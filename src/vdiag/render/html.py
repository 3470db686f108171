"""The report as one self-contained page for a browser: the log searchable, the cause marked."""

from __future__ import annotations

from vdiag.model import Line, Report


def wanted(report: Report) -> dict[str, list[range]]:
    """The lines to show, by input."""
    return {}


def render(report: Report, lines: dict[str, list[Line]]) -> str:
    """The whole text."""
    return ""
