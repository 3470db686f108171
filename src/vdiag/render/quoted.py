"""Lines of the log in Markdown: numbered, those of evidence marked, each with some around it. Used by every verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from vdiag.model import Diagnosis, Evidence, Line, Report
from vdiag.render.markup import code, fenced, folding, part
from vdiag.render.page import shorten
from vdiag.render.sections import counted, main_evidence
from vdiag.render.spans import Stretches, Wanted

EVIDENCE, EXPLAINS = 9_000, 2_500  # characters of these parts at most
MOST_LOG, LEAST_LOG = 24_000, 1_000  # of the log around the cause: nobody reads more; less says nothing

NEAR = 4  # lines shown before and after a line of evidence
BEFORE, AFTER = 150, 30  # lines of the folded log around the cause: a traceback stands above its exception
END = 25  # last lines of the log
LONGEST_ROW, LONGEST_CAUSE = 400, 2_000  # characters of a line of the log; of one that is evidence

Lines = Mapping[str, Sequence[Line]]  # by the input's name


def wanted(report: Report) -> Stretches:
    """The lines to show, by input."""
    found = Wanted()
    for number, diagnosis in enumerate(report.diagnoses):
        before, after = (NEAR, NEAR) if number else (BEFORE, AFTER)
        found.add(diagnosis.source, diagnosis.line, before, after)
        for evidence in diagnosis.evidence:
            found.add(evidence.source, evidence.line, NEAR, NEAR)
        for explained in diagnosis.explains:
            found.add(explained.source or diagnosis.source, explained.line, 0, 0)
    for read in report.inputs:
        if report.diagnoses and read.name == report.diagnoses[0].source:
            found.add(read.name, read.lines, END - 1, 0)
    return found.told()


def at(source: str, line: int) -> str:
    """A place in an input."""
    return code(f"{source}:{line}")


def place(item: Evidence) -> str:
    """Where a line stands, and whose it is."""
    return at(item.source, item.line) + (f" in {code(item.lane)}" if item.lane else "")


def evidence(report: Report, lines: Lines, level: int) -> str:
    """The lines that prove the first diagnosis, each with a few around it; folded, those that it explains."""
    diagnosis = report.diagnoses[0]
    items = diagnosis.evidence or [main_evidence(diagnosis)]
    blocks = []
    for item in items:
        shown = excerpt(diagnosis, item, lines, NEAR, EVIDENCE // len(items) - 800)
        blocks += [f"{place(item)}:", shown] if shown else []
    return "\n\n".join(
        filter(None, [part("Evidence", blocks, EVIDENCE, level), _explained(diagnosis, lines)])
    )


def excerpt(diagnosis: Diagnosis, item: Evidence, lines: Lines, near: int, most: int) -> str:
    """The line of a piece of evidence with its neighbours; the evidence's own text where it cannot be read again."""
    shown = [line for line in lines.get(item.source, ()) if abs(line.number - item.line) <= near]
    if not any(line.number == item.line for line in shown):
        shown = [Line(item.line, row, item.lane) for row in item.text.split("\n") if row.strip()]
    return _block(shown, _marked(diagnosis, item.source), diagnosis, item.line, most)


def _marked(diagnosis: Diagnosis, source: str) -> set[int]:
    """The lines of an input that are evidence."""
    told = {item.line for item in diagnosis.evidence if item.source == source}
    return told | {diagnosis.line} if source == diagnosis.source else told


def _block(lines: Sequence[Line], marked: set[int], diagnosis: Diagnosis, keep: int, most: int) -> str:
    """Numbered lines, those of evidence marked by `>`; where lines are left out between two a row says so."""
    if not lines:
        return ""
    width = len(str(lines[-1].number))
    around = [str(value) for value in diagnosis.facts.values()]
    rows: list[str] = []
    kept = 0
    for before, line in pairwise([None, *lines]):
        assert line is not None
        if before is not None and line.number > before.number + 1:
            rows.append(f"  {'…':>{width}} |")
        own = line.number in marked
        text = shorten(line.text, LONGEST_CAUSE if own else LONGEST_ROW, around if own else ())
        if line.number == keep and not kept:
            kept = len(rows)
        rows.append(f"{'>' if own else ' '} {line.number:>{width}} | {text}".rstrip())
    return fenced(rows, most, keep=kept)


def _explained(diagnosis: Diagnosis, lines: Lines) -> str:
    """The later lines that the cause explains."""
    own = [(item.source or diagnosis.source, item.line) for item in diagnosis.explains]
    blocks = []
    sources = list(dict.fromkeys(source for source, _ in own))
    for source in sources:
        numbers = {line for name, line in own if name == source}
        first = {line.number: line for line in reversed(lines.get(source, ())) if line.number in numbers}
        told = [first[number] for number in sorted(first)]
        if told:
            most = (EXPLAINS - 200) // len(sources) - 350
            blocks += [f"In {code(source)}:", _block(told, set(), diagnosis, told[0].number, most)]
    return folding(f"What it explains: {counted(len(own), 'other line')} of the log", blocks, EXPLAINS)


def log_around(report: Report, lines: Lines, room: int) -> list[str]:
    """Folded, and within `room`: the log around the cause, and its end."""
    if not report.diagnoses:
        return []
    diagnosis = report.diagnoses[0]
    own = lines.get(diagnosis.source, ())
    around = [one for one in own if diagnosis.line - BEFORE <= one.number <= diagnosis.line + AFTER]
    last = next((read.lines for read in report.inputs if read.name == diagnosis.source), 0)
    end = [one for one in own if one.number > max(last - END, diagnosis.line + AFTER)]
    most = min(room, MOST_LOG)
    told = []
    for said, some, keep, share in (
        ("around the cause", around, diagnosis.line, most * 3 // 4 if end else most),
        ("at its end", end, last, most // 4),
    ):
        if some and share >= LEAST_LOG:
            block = _block(some, _marked(diagnosis, diagnosis.source), diagnosis, keep, share - 500)
            name = f"lines {some[0].number} to {some[-1].number} of {shorten(diagnosis.source, 200)}"
            told.append(folding(f"The log {said}: {name}", [block], share))
    return told
