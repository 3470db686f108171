"""The lines that a report names: which of them the page shows, what it says of them, and how it links to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from vdiag.model import Diagnosis, Line, Report, Verdict
from vdiag.render.budget import tells
from vdiag.render.web.markup import Html, element, text


class Named(NamedTuple):
    """A line that the report speaks of."""

    source: str
    line: int
    kind: str  # cause | evidence | repeated | consequence | figure | aside | harmless | place
    part: str  # the id of the part of the page that speaks of it


WORDS = {
    "cause": "the cause",
    "evidence": "evidence",
    "repeated": "repeated",
    "consequence": "consequence",
    "figure": "figure",
    "aside": "set aside",
    "harmless": "harmless",
    "place": "",
}
NOT_KNOWN = {Verdict.UNRECOGNISED: "the deepest error", Verdict.INCOMPLETE: "the failure"}


def named(report: Report) -> Iterator[Named]:
    """All of them, the most telling kind first."""
    for number, diagnosis in enumerate(report.diagnoses, start=1):
        yield Named(diagnosis.source, diagnosis.line, "cause", f"d{number}")
    for number, diagnosis in enumerate(report.diagnoses, start=1):
        yield from _of(diagnosis, f"d{number}")
    if report.memory is not None and tells(report.memory):
        memory = report.memory
        for line in (memory.line, *(share.line for share in memory.shares)):
            yield Named(memory.source, line, "figure", "memory")
    if report.load is not None and report.load.points:
        for point in (report.load.points[0], report.load.points[-1]):
            yield Named(point.source or report.load.source, point.line, "figure", "load")
    if report.changes is not None:
        yield Named(report.changes.good, report.changes.good_line, "place", "changes")
        yield Named(report.changes.bad, report.changes.bad_line, "place", "changes")
    for number, seen in enumerate(report.also_seen, start=1):
        yield Named(seen.source, seen.line, "aside", f"s{number}")
    for number, item in enumerate(report.harmless, start=1):
        for line in {item.line, *item.lines}:
            yield Named(item.source, line, "harmless", f"h{number}")
    for read in report.inputs:
        for gap in read.gaps:
            yield Named(read.name, gap.line, "place", "notes")
    for run in report.episodes:
        yield Named(run.source, run.first_line, "place", "read")
        yield Named(run.last_source or run.source, run.last_line, "place", "read")


def _of(diagnosis: Diagnosis, part: str) -> Iterator[Named]:
    source = diagnosis.source
    for item in diagnosis.evidence:
        yield Named(item.source, item.line, "evidence", part)
    for explained in diagnosis.explains:
        same = explained.rule is not None and explained.rule == diagnosis.rule
        kind = "repeated" if same else "consequence"
        yield Named(explained.source or source, explained.line, kind, part)
    yield Named(diagnosis.last_source or source, diagnosis.last_line, "repeated", part)
    if diagnosis.recovered_at:
        yield Named(diagnosis.recovered_in or source, diagnosis.recovered_at, "place", part)


class Places:
    """Where lines stand on the page. Of a line that is named twice the most telling kind counts."""

    def __init__(self, report: Report, lines: Mapping[str, Sequence[Line]]) -> None:
        self.order = {read.name: number for number, read in enumerate(report.inputs, start=1)}
        self._shown = {(name, line.number) for name, own in lines.items() for line in own}
        self._words = {**WORDS, "cause": NOT_KNOWN.get(report.verdict, WORDS["cause"])}
        self._several = len(report.inputs) > 1
        self.marks: dict[tuple[str, int], Named] = {}
        for item in named(report):
            if item.line > 0 and item.kind != "place":
                self.marks.setdefault((item.source, item.line), item)

    def anchor(self, source: str, line: int) -> str:
        """The id of a line: `L2-47` is line 47 of the second input."""
        return f"L{self.order.get(source, 0)}-{line}"

    def word(self, mark: Named) -> str:
        """What the page calls a marked line."""
        return self._words[mark.kind]

    def link(self, source: str, line: int, brief: bool = False) -> Html:
        """`line 47`, with its input where there are several, linked to the line if that is shown; `brief`: `47`."""
        said = f"{line}" if brief else f"line {line}"
        if self._several and not brief:
            said = f"{source}, {said}"
        if (source, line) not in self._shown:
            return text(said)
        return element("a", said, href=f"#{self.anchor(source, line)}")
