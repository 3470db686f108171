"""Names each line of a rotated set, which was read as one input, by its own file and the number it has there."""

from __future__ import annotations

from vdiag.model import Diagnosis, Input, Load, Report


def in_parts(report: Report, parts: dict[str, list[Input]]) -> Report:
    """The report with every place in its own file. `parts`: name of a set → its files in order."""
    if not parts:
        return report
    sets = {name: _Set(files) for name, files in parts.items()}
    inputs: list[Input] = []
    for read in report.inputs:
        inputs += sets[read.name].told(read) if read.name in sets else [read]
    report.inputs = inputs
    for diagnosis in report.diagnoses:
        _diagnosis(diagnosis, sets)
    for item in report.also_seen:
        item.source, item.line = _at(sets, item.source, item.line)
    for harmless in report.harmless:
        own = [_at(sets, harmless.source, line) for line in harmless.lines]
        harmless.source, harmless.line = _at(sets, harmless.source, harmless.line)
        harmless.lines = [line for source, line in own if source == harmless.source]
    if report.memory is not None:
        whole = report.memory.source
        report.memory.source, report.memory.line = _at(sets, whole, report.memory.line)
        for share in report.memory.shares:
            source, line = _at(sets, whole, share.line)
            share.line = line if source == report.memory.source else 0
    if report.load is not None:
        _load(report.load, sets)
    for episode in report.episodes:
        source = episode.source
        episode.source, episode.first_line = _at(sets, source, episode.first_line)
        end, episode.last_line = _at(sets, source, episode.last_line)
        episode.last_source = end if end != episode.source else ""
    if (told := report.changes) is not None:
        told.good, told.good_line = _at(sets, told.good, told.good_line)
        told.bad, told.bad_line = _at(sets, told.bad, told.bad_line)
    return report


def at(parts: dict[str, list[Input]], source: str, line: int) -> tuple[str, int]:
    """The file and the line in it of a line of an input, which may be a set."""
    return _at({name: _Set(files) for name, files in parts.items() if name == source}, source, line)


def _diagnosis(diagnosis: Diagnosis, sets: dict[str, _Set]) -> None:
    source = diagnosis.source
    for explained in diagnosis.explains:
        explained.source, explained.line = _at(sets, explained.source or source, explained.line)
    for evidence in diagnosis.evidence:
        evidence.source, evidence.line = _at(sets, evidence.source, evidence.line)
    last, diagnosis.last_line = _at(sets, diagnosis.last_source or source, diagnosis.last_line)
    recovered = ""
    if diagnosis.recovered_at is not None:
        recovered, diagnosis.recovered_at = _at(
            sets, diagnosis.recovered_in or source, diagnosis.recovered_at
        )
    diagnosis.source, diagnosis.line = _at(sets, source, diagnosis.line)
    diagnosis.last_source = last if last != diagnosis.source else ""
    diagnosis.recovered_in = recovered if recovered != diagnosis.source else ""
    for explained in diagnosis.explains:
        if explained.source == diagnosis.source:
            explained.source = ""


def _load(load: Load, sets: dict[str, _Set]) -> None:
    """The load's input is the file of its last point; points of other files name theirs."""
    whole = load.source
    points = [*load.points, *filter(None, [load.peak])]
    for point in points:
        point.source, point.line = _at(sets, whole, point.line)
    load.source = load.points[-1].source
    for point in points:
        if point.source == load.source:
            point.source = ""


def _at(sets: dict[str, _Set], source: str, line: int) -> tuple[str, int]:
    return sets[source].at(line) if source in sets and line else (source, line)


class _Set:
    """The files of one set, with the line of the set that each begins behind."""

    def __init__(self, files: list[Input]) -> None:
        self._files = files
        self._before: list[int] = []
        lines = 0
        for file in files:
            self._before.append(lines)
            lines += file.lines

    def at(self, line: int) -> tuple[str, int]:
        """The file and the line in it of a line of the set."""
        for file, before in zip(reversed(self._files), reversed(self._before), strict=True):
            if line > before and file.lines:
                return file.name, line - before
        return self._files[0].name, line

    def told(self, whole: Input) -> list[Input]:
        """The files as inputs of their own, each with the gaps that are its own."""
        for file in self._files:
            file.format = whole.format
        for gap in whole.gaps:
            name, line = self.at(gap.line) if gap.line else (self._files[0].name, 0)
            gap.line = line
            next(file for file in self._files if file.name == name).gaps.append(gap)
        return self._files
