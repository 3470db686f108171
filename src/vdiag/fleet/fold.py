"""Rows fold into the answer as they come, in any order: only what the answer needs stays in memory."""

from __future__ import annotations

import shlex
from bisect import insort
from collections import Counter

from vdiag import __version__
from vdiag.fleet.outliers import outliers
from vdiag.fleet.task import Done
from vdiag.fleet.titles import Titles
from vdiag.fleet.work import cause_of
from vdiag.fleet_model import SCHEMA, UNREAD, Cause, Example, Fleet, Place, Row, Total
from vdiag.model import Severity, Verdict

MOST_NODES = 50  # listed of one cause
MOST_ROWS = 200  # listed of what could not be read
MOST_UNKNOWN = 200
MOST_CROWDED = 3  # logs named in which servers cannot be told apart
_RANK = {severity.value: rank for rank, severity in enumerate(Severity)}  # the worst first
_ORDER = [verdict.value for verdict in Verdict] + [UNREAD]


class _Tally:
    """One cause so far."""

    def __init__(self) -> None:
        self.replicas = self.recovered = self.also = self.times = 0
        self.last_at = ""
        self.nodes: Counter[str] = Counter()
        self.titles = Titles()
        self.example: tuple[tuple[bool, float, str], Row] | None = None
        self.first: tuple[tuple[bool, float, str], Row] | None = None
        self.last: tuple[tuple[bool, float, str], Row] | None = None


class Folded:
    """All rows so far."""

    def __init__(self) -> None:
        self._causes: dict[str, _Tally] = {}
        self._verdicts: Counter[str] = Counter()
        self._on: Counter[str] = Counter()  # node: replicas
        self._failed_on: Counter[str] = Counter()
        self._marked: Counter[tuple[str, str]] = Counter()
        self._unread: list[tuple[str, Row]] = []
        self._cut: list[tuple[str, Row]] = []
        self._woven = self._woven_of = 0  # replicas that share a log with others, and those logs
        self._outside_count, self._outside_told = 0, ("", "")
        self._crowded: list[tuple[str, Row]] = []
        self.names: set[tuple[str, str]] = set()  # kind and value, for redaction
        self.replicas = self.others = self.failed = self.recovered = self.bytes = self.lines = 0

    def add(self, done: Done) -> None:
        """One more row."""
        row = done.row
        counts = row.server or row.verdict == UNREAD
        self.replicas += counts
        self.others += not counts
        self.failed += row.failed
        self.recovered += row.failed and row.recovered
        self.bytes += row.bytes
        self.lines += row.lines
        self._verdicts[row.verdict] += counts
        self.names.update(done.told)
        if row.node and counts:
            self._on[row.node] += 1
            self._failed_on[row.node] += row.failed
            for mark in {*row.marks, *([row.rule] if row.rule and row.failed else ())}:
                self._marked[row.node, mark] += 1
        if row.verdict == UNREAD:
            _hold(self._unread, row)
        elif row.error:
            _hold(self._cut, row)
        if row.times:
            self._count(done)
        if done.more:
            self._woven, self._woven_of = self._woven + 1 + len(done.more), self._woven_of + 1
        if done.outside:
            self._outside_count += 1
            told = (row.input, done.outside)
            self._outside_told = min(self._outside_told, told) if self._outside_told[0] else told
        if row.at_once:
            _hold(self._crowded, row)

    def _count(self, done: Done) -> None:
        row = done.row
        own = self._tally(cause_of(row.verdict, row.rule, row.fingerprint, row.title))
        own.replicas += 1
        own.recovered += row.failed and row.recovered
        own.titles.add(row.title)
        own.last_at = max(own.last_at, row.last_at)
        own.times += row.times
        if row.node:
            own.nodes[row.node] += 1
        example = ((False, -row.confidence, row.input), row)
        if own.example is None or example[0] < own.example[0]:
            own.example = example
        first = ((done.first is None, done.first or 0.0, row.input), row)
        if own.first is None or first[0] < own.first[0]:
            own.first = first
        last = ((done.last is None, -(done.last or 0.0), row.input), row)
        if own.last is None or last[0] < own.last[0]:
            own.last = last
        for other in row.others:
            key = cause_of(other.verdict, other.rule, other.fingerprint, other.title)
            tally = self._tally(key)
            tally.also += 1
            tally.titles.add(other.title)
            tally.times += other.times
            if tally.example is None or (True, 0.0, row.input) < tally.example[0]:
                beside = Row(
                    row.input, verdict=other.verdict, rule=other.rule, title=other.title,
                    fingerprint=other.fingerprint, severity=other.severity,
                )  # fmt: skip
                tally.example = ((True, 0.0, row.input), beside)

    def _tally(self, key: str) -> _Tally:
        found = self._causes.get(key)
        if found is None:
            found = self._causes[key] = _Tally()
        return found

    def answer(self) -> Fleet:
        """The answer on all of them."""
        causes = sorted(map(_cause, self._causes.values()), key=_by_weight)
        unknown = [cause for cause in causes if cause.verdict == Verdict.UNRECOGNISED.value]
        notes = []
        if self._outside_count:
            name, why = self._outside_told
            more = f"; so it is with {self._outside_count - 1} more" if self._outside_count > 1 else ""
            notes.append(f"{name}: {why}{more}")
        if self._woven:
            logs = "1 log holds" if self._woven_of == 1 else f"{self._woven_of} logs hold"
            notes.append(f"{logs} the lines of {self._woven} servers: each counts as a replica")
        for _, row in self._crowded[:MOST_CROWDED]:
            notes.append(f"{row.input}: {row.at_once} servers or more write under one name here, and count as one "
                         "replica; `journalctl -o json`, or a file for each, tells them apart")  # fmt: skip
        if len(self._crowded) > MOST_CROWDED:
            notes.append(f"so it is in {len(self._crowded) - MOST_CROWDED} more logs")
        if len(unknown) > MOST_UNKNOWN:
            notes.append(f"of {len(unknown)} unknown causes the {MOST_UNKNOWN} most frequent are listed")
        return Fleet(
            schema=SCHEMA,
            vdiag=__version__,
            replicas=self.replicas,
            failed=self.failed,
            recovered=self.recovered,
            others=self.others,
            nodes=len(self._on),
            failed_nodes=sum(bool(count) for count in self._failed_on.values()),
            bytes=self.bytes,
            lines=self.lines,
            verdicts={name: self._verdicts[name] for name in _ORDER if self._verdicts[name]},
            causes=[cause for cause in causes if cause.verdict != Verdict.UNRECOGNISED.value],
            unknown=unknown[:MOST_UNKNOWN],
            outliers=outliers(self._on, self._marked),
            unread=[row for _, row in self._unread],
            cut_short=[row for _, row in self._cut],
            notes=notes,
        )

    def totals(self) -> list[Total]:
        """All failures by rule and severity."""
        found: dict[tuple[str, str], Total] = {}
        for tally in self._causes.values():
            cause = _cause(tally)
            own = found.setdefault(
                (cause.rule or "", cause.severity), Total(cause.rule or "", cause.severity, 0, "")
            )
            own.times += cause.times
            own.last_at = max(own.last_at, tally.last_at)
        return [found[key] for key in sorted(found)]

    def node_names(self) -> list[str]:
        """All nodes, sorted."""
        return sorted(self._on)


def _hold(rows: list[tuple[str, Row]], row: Row) -> None:
    """Keeps the first rows by name."""
    insort(rows, (row.input, row), key=lambda item: item[0])
    del rows[MOST_ROWS:]


def _cause(tally: _Tally) -> Cause:
    assert tally.example is not None
    shown = tally.example[1]
    first = tally.first[1] if tally.first else shown
    last = tally.last[1] if tally.last else shown
    nodes = sorted(tally.nodes.items(), key=lambda item: (-item[1], item[0]))
    made = Cause(
        verdict=shown.verdict,
        rule=shown.rule,
        title=tally.titles.text() or shown.title,
        fingerprint=shown.fingerprint,
        severity=shown.severity,
        replicas=tally.replicas,
        recovered=tally.recovered,
        also=tally.also,
        times=tally.times,
        example=Example(shown.source or shown.input, shown.line, shown.text),
        first_time=first.first_time,
        last_time=last.last_time,
        first_at=first.first_at,
        last_at=last.last_at,
        first_input=first.input if first.first_time else "",
        last_input=last.input if last.last_time else "",
        nodes=[Place(name, count) for name, count in nodes[:MOST_NODES]],
        node_count=len(nodes),
        fix=shown.fix,
    )
    if made.rule is None and made.example.line and made.example.input.isprintable():
        made.draft = f"vdiag rules new --from {shlex.quote(f'{made.example.input}:{made.example.line}')}"
    return made


def _by_weight(cause: Cause) -> tuple[object, ...]:
    return (
        _RANK.get(cause.severity, 0), -cause.replicas, -cause.also, cause.verdict, cause.rule or "", cause.fingerprint,
        cause.title,
    )  # fmt: skip
