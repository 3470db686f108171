"""The report as GitHub shows it: Markdown within GitHub's limit, the diagnosis first, long parts folded."""

from __future__ import annotations

from vdiag.model import Line, Report


def wanted(report: Report) -> dict[str, list[range]]:
    """The lines to show, by input."""
    return {}


def render(report: Report, lines: dict[str, list[Line]]) -> str:
    """The whole text."""
    return ""
