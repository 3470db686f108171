"""Which lines of its inputs an output shows: stretches of line numbers around what a report names."""

from __future__ import annotations

from collections.abc import Iterable

Stretches = dict[str, list[range]]  # by the input's name: ascending, apart


class Wanted:
    """Collects stretches of line numbers by input."""

    def __init__(self) -> None:
        self._found: dict[str, list[range]] = {}

    def add(self, source: str, line: int, before: int, after: int) -> None:
        """A line (1-based; 0 is none) with so many before and after it."""
        if line > 0:
            self._found.setdefault(source, []).append(range(max(line - before, 1), line + after + 1))

    def told(self) -> Stretches:
        """All of them; those that touch are one."""
        return {source: joined(ranges) for source, ranges in self._found.items()}


def joined(ranges: Iterable[range]) -> list[range]:
    """The same numbers as ascending ranges that are apart."""
    found: list[range] = []
    for one in sorted(ranges, key=lambda one: one.start):
        if found and one.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, one.stop))
        else:
            found.append(one)
    return found


def widened(wanted: Stretches, margin: int) -> Stretches:
    """The same with so many lines more before and after each."""
    return {
        source: joined(range(max(one.start - margin, 1), one.stop + margin) for one in ranges)
        for source, ranges in wanted.items()
    }
