"""The page on a fleet for a terminal: causes by weight, unknown ones by fingerprint, nodes that stand out."""

from __future__ import annotations

from vdiag.fleet_model import Cause, Fleet, Row
from vdiag.render import fleet_words as words
from vdiag.render.page import Page, one_row, shorten
from vdiag.render.sections import sentence

CAUSES = 12  # shown
UNKNOWN = 8
ROWS = 8  # of what could not be read
NODES = 6  # of one cause
QUOTE = 160  # characters of an example


class _Page(Page):
    """A page where each sentence is one paragraph, whatever names stand in it."""

    def prose(self, text: str, **how: str) -> None:
        super().prose(one_row(text), **how)

    def quote(self, text: str, **how: str) -> None:
        super().quote(one_row(text), **how)


def render(fleet: Fleet, *, width: int = 80, everything: bool = False) -> Page:
    """The whole page. `everything` shows all that the answer holds."""
    page = _Page(width)
    page.prose(words.headline(fleet), style="bold red" if fleet.failed else "bold green")
    page.prose(words.read(fleet))
    if len(fleet.verdicts) > 1:
        page.prose(sentence("; ".join(words.verdicts(fleet))))
    if fleet.others:
        page.prose(words.others(fleet))
    if fleet.news is not None:
        page.heading("What is new")
        for said in words.news(fleet.news, len(fleet.news.causes) if everything else CAUSES):
            page.prose(said, first="- ", indent="  ")
    if fleet.causes:
        page.heading("Causes")
        _causes(page, fleet.causes, CAUSES, everything)
        page.blank()
        page.prose("`vdiag LOG` has the whole answer on one log, with the commands to paste.")
    if fleet.unknown:
        page.heading("Unknown causes, by fingerprint: the next rules to write")
        _causes(page, fleet.unknown, UNKNOWN, everything)
    if fleet.outliers:
        page.heading("Nodes that stand out")
        for item in fleet.outliers if everything else fleet.outliers[:NODES]:
            page.prose(f"{item.node}, {item.what}: {item.said}.", first="- ", indent="  ")
        page.prose(
            f"By chance one node would show this once in {max(round(1 / max(i.chance for i in fleet.outliers)), 100)} "
            "such fleets, or less often."
        )
    _rows(page, "Could not be read", fleet.unread, fleet.verdicts.get("unread", 0), everything)
    _rows(page, "Read only in part", fleet.cut_short, len(fleet.cut_short), everything)
    if fleet.notes:
        page.heading("Notes")
        for note in fleet.notes:
            page.prose(sentence(note), first="- ", indent="  ")
    return page


def _causes(page: Page, causes: list[Cause], most: int, everything: bool) -> None:
    shown = causes if everything else causes[:most]
    size = max(len(str(cause.replicas)) for cause in shown)
    for cause in shown:
        indent = " " * (size + 2)
        mild = f" [{cause.severity}]" if cause.severity not in ("", "fatal") else ""
        cut = " [cause not in the log]" if cause.verdict == "incomplete" else ""
        page.prose(
            f"{sentence(cause.title)} ({words.name(cause)}){mild}{cut}",
            first=f"{cause.replicas:>{size}}  ", indent=indent, style="bold",
        )  # fmt: skip
        on = f"on {words.nodes(cause, len(cause.nodes) if everything else NODES)}" if cause.nodes else ""
        told = [part for part in (words.counts(cause), words.when(cause), on) if part]
        if told:
            page.prose(sentence("; ".join(told)), first=indent, indent=indent)
        if cause.fix:
            page.prose(f"To do first: {sentence(cause.fix)}", first=indent, indent=indent)
        if cause.example.line:
            text = cause.example.text if everything else shorten(cause.example.text, QUOTE)
            page.quote(f"{cause.example.input}:{cause.example.line}: {text}", first=indent, indent=indent)
        if cause.draft:
            page.command(cause.draft)
    if len(causes) > len(shown):
        page.prose(f"… and {len(causes) - len(shown)} more (--all)")


def _rows(page: Page, title: str, rows: list[Row], count: int, everything: bool) -> None:
    if not rows:
        return
    page.heading(title)
    shown = rows if everything else rows[:ROWS]
    for row in shown:
        page.prose(f"{row.input}: {row.error}", first="- ", indent="  ")
    if count > len(shown):
        page.prose(f"… and {count - len(shown)} more (--format jsonl has all)")
