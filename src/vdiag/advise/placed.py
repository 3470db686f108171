"""Line numbers of a report as they are in the text that was given, where it was read repaired."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vdiag.model import Gap, Report

Place = Callable[[int], int]  # the physical line of a line as it was read


def placed(report: Report, places: Mapping[str, Place], told: set[str]) -> None:
    """Line numbers as they are in the text that was given."""

    def at(source: str, line: int) -> int:
        place = places.get(source)
        return place(line) if place is not None and line > 0 else line

    for diagnosis in report.diagnoses:
        source = diagnosis.source
        diagnosis.line = at(source, diagnosis.line)
        diagnosis.last_line = at(diagnosis.last_source or source, diagnosis.last_line)
        if diagnosis.recovered_at is not None:
            diagnosis.recovered_at = at(diagnosis.recovered_in or source, diagnosis.recovered_at)
        for explained in diagnosis.explains:
            explained.line = at(explained.source or source, explained.line)
        for evidence in diagnosis.evidence:
            evidence.line = at(evidence.source, evidence.line)
    for read in report.inputs:
        read.gaps = [
            Gap(gap.what, at(read.name, gap.line), gap.command) if gap.what in told else gap
            for gap in read.gaps
        ]
    for seen in report.also_seen:
        seen.line = at(seen.source, seen.line)
    if report.memory is not None:
        report.memory.line = at(report.memory.source, report.memory.line)
        for share in report.memory.shares:
            share.line = at(report.memory.source, share.line)
    for harmless in report.harmless:
        harmless.line = at(harmless.source, harmless.line)
        harmless.lines = sorted({at(harmless.source, line) for line in harmless.lines})
    if report.load is not None:
        for point in [*report.load.points, *filter(None, [report.load.peak])]:
            point.line = at(report.load.source, point.line)
    for episode in report.episodes:
        ends = at(episode.source, episode.first_line), at(episode.source, episode.last_line)
        episode.first_line, episode.last_line = min(ends), max(ends)
    if report.changes is not None:
        told_of = report.changes
        told_of.good_line, told_of.bad_line = (
            at(told_of.good, told_of.good_line),
            at(told_of.bad, told_of.bad_line),
        )
