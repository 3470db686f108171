"""Lines of the log in Markdown: numbered, those of evidence marked, each with some around it. Used by every verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from vdiag.model import Diagnosis, Evidence, Line, Report, Verdict
from vdiag.render.markup import code, fenced, folding, part, size
from vdiag.render.page import shorten
from vdiag.render.sections import counted, main_evidence
from vdiag.render.spans import Stretches, Wanted

EVIDENCE, EXPLAINS = 9_000, 2_500  # characters of these parts at most
MOST_LOG, LEAST_LOG = 30_000, 1_000  # of the log itself: nobody reads more; less says nothing

NAMED = 3  # pieces of evidence above one excerpt
NEAR = 4  # lines shown before and after a line of evidence
BEFORE, AFTER = 150, 30  # lines of the folded log around the cause: a traceback stands above its exception
START, END = (
    40,
    25,
)  # first lines of the run, which tell version, arguments and configuration; last ones of the log
MOST_WHOLE = 400  # lines of a log that is shown whole, where there is room for it
LONGEST_ROW, LONGEST_CAUSE = (
    400,
    2_000,
)  # characters of a line of the log; of one that is evidence or tells the server
START_SHARE, END_SHARE = 0.3, 0.2  # of the log's room

Lines = Mapping[str, Sequence[Line]]  # by the input's name


class Place(NamedTuple):
    """A line of an input."""

    source: str
    line: int


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
    if (focus := _focus(report)) is not None:
        last = _last(report, focus.source)
        tail = END if report.diagnoses else BEFORE
        found.add(focus.source, last, last if last <= MOST_WHOLE else tail - 1, 0)
        found.add(*_start(report, focus), 0, START - 1)
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
    groups = _together(diagnosis.evidence or [main_evidence(diagnosis)])
    blocks = []
    for items in groups:
        shown = excerpt(diagnosis, items, lines, NEAR, EVIDENCE // len(groups) - 800)
        blocks += [f"{_named(items)}:", shown] if shown else []
    return "\n\n".join(
        filter(None, [part("Evidence", blocks, EVIDENCE, level), _explained(diagnosis, lines)])
    )


def _together(items: Sequence[Evidence]) -> list[list[Evidence]]:
    """Pieces of evidence that stand so near each other that one excerpt shows them, at the place of the first."""
    groups: list[list[Evidence]] = []
    for item in items:
        near = [group for group in groups if any(_touch(item, other) for other in group)]
        joined = [*(one for group in near for one in group), item]
        groups = [joined if near and group is near[0] else group for group in groups if group not in near[1:]]
        groups += [] if near else [joined]
    return groups


def _named(items: Sequence[Evidence]) -> str:
    more = [f"{len(items) - NAMED} more"] if len(items) > NAMED else []
    return " and ".join([*map(place, items[:NAMED]), *more])


def _touch(one: Evidence, other: Evidence) -> bool:
    return one.source == other.source and abs(one.line - other.line) <= 2 * NEAR + 1


def excerpt(diagnosis: Diagnosis, items: Sequence[Evidence], lines: Lines, near: int, most: int) -> str:
    """The lines of evidence of one input with their neighbours; its own text for one that cannot be read again."""
    source = items[0].source
    shown = [
        line for line in lines.get(source, ()) if any(abs(line.number - item.line) <= near for item in items)
    ]
    found = {line.number for line in shown}
    shown += [
        Line(item.line, row, item.lane)
        for item in items
        if item.line not in found
        for row in item.text.split("\n")
        if row.strip()
    ]
    shown.sort(key=lambda line: line.number)
    return _block(shown, _marked(diagnosis, source), diagnosis, items[0].line, most)


def _marked(diagnosis: Diagnosis, source: str) -> set[int]:
    """The lines of an input that are evidence."""
    told = {item.line for item in diagnosis.evidence if item.source == source}
    return told | {diagnosis.line} if source == diagnosis.source else told


def _block(
    lines: Sequence[Line],
    marked: set[int],
    diagnosis: Diagnosis | None,
    keep: int,
    most: int,
    longest: int = LONGEST_ROW,
) -> str:
    """Numbered lines, those of evidence marked by `>`; where lines are left out between two a row says so."""
    if not lines:
        return ""
    width = len(str(lines[-1].number))
    around = [str(value) for value in diagnosis.facts.values()] if diagnosis else []
    rows: list[str] = []
    kept = 0
    for before, line in pairwise([None, *lines]):
        assert line is not None
        if before is not None and line.number > before.number + 1:
            rows.append(f"  {'…':>{width}} |")
        own = line.number in marked
        text = shorten(line.text, LONGEST_CAUSE if own else longest, around if own else ())
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
    """Folded, and within `room`: the whole log if it is short, else its run's start, what is around the cause, its end."""
    if (focus := _focus(report)) is None:
        return []
    diagnosis = next(iter(report.diagnoses), None)
    own = lines.get(focus.source, ())
    last = _last(report, focus.source)
    most = min(room, MOST_LOG)
    name = shorten(focus.source, 200)
    if last and {line.number for line in own} >= set(range(1, last + 1)):
        rows = "\n".join(line.text[:LONGEST_CAUSE] for line in own)
        if size(rows) + len(own) * (len(str(last)) + 6) < most - 500:
            return [_log("The whole log", name, own, diagnosis, focus, most, LONGEST_CAUSE)]
    begun = _start(report, focus)
    near = range(focus.line - BEFORE, focus.line + AFTER + 1) if diagnosis else range(0)
    tail = END if diagnosis else BEFORE
    around = [one for one in own if one.number in near]
    start = [one for one in lines.get(begun.source, ()) if begun.line <= one.number < begun.line + START]
    end = [one for one in own if one.number > max(last - tail, near.stop - 1)]
    if begun.source == focus.source:
        shown = {one.number for one in (*around, *end)}
        start = [one for one in start if one.number not in shown]
    at_start, at_end = START_SHARE if start else 0.0, END_SHARE if end else 0.0
    if not around:
        at_end = 1 - at_start
    return [
        _log(said, shorten(place.source, 200), some, diagnosis, place, int(most * share), longest)
        for said, place, some, share, longest in (
            ("The start of this run", begun, start, at_start, LONGEST_CAUSE),
            ("The log around the cause", focus, around, 1 - at_start - at_end, LONGEST_ROW),
            ("The log at its end", Place(focus.source, last), end, at_end, LONGEST_ROW),
        )
        if some and most * share >= LEAST_LOG
    ]


def _log(
    said: str,
    name: str,
    lines: Sequence[Line],
    diagnosis: Diagnosis | None,
    keep: Place,
    most: int,
    longest: int,
) -> str:
    marked = _marked(diagnosis, keep.source) if diagnosis else set[int]()
    title = f"{said}: lines {lines[0].number} to {lines[-1].number} of {name}"
    return folding(title, [_block(lines, marked, diagnosis, keep.line, most - 500, longest)], most)


def _focus(report: Report) -> Place | None:
    """The line that the log is shown around: the cause; without one the end of the last run; None: no server's log."""
    for diagnosis in report.diagnoses[:1]:
        return Place(diagnosis.source, diagnosis.line)
    if report.verdict is Verdict.EMPTY or not report.episodes:
        return None
    run = report.episodes[-1]
    return Place(run.last_source or run.source, run.last_line)


def _last(report: Report, source: str) -> int:
    """The last line of an input."""
    return next((read.lines for read in report.inputs if read.name == source), 0)


def _start(report: Report, focus: Place) -> Place:
    """Where the run that the report is about begins; line 0: unknown."""
    for run in report.episodes:
        last_source = run.last_source or run.source
        begun = focus.source != run.source or run.first_line <= focus.line
        ended = focus.source != last_source or focus.line > run.last_line
        if focus.source in (run.source, last_source) and begun and not ended:
            return Place(run.source, run.first_line)
    return Place(focus.source, 0)
