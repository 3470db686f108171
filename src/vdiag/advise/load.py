"""The load of a server over time, by its statistics lines and its warnings of preemption.

Context rules capture what such a line says as facts whose names begin with `load_` (rules/vllm/traffic.yaml). The
engines of a data parallel server write lines of their own: what they say at one time becomes one point. Requests and
tokens are summed, and of the KV cache the fullest engine counts, since a full one stalls its own requests whatever room
the others have. Counts are requests, `…_tps` tokens per second, KV use is in per cent.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vdiag.advise import trend
from vdiag.model import Event, Kind, Load, LoadPoint, Role
from vdiag.reason.clock import apart, parse

if TYPE_CHECKING:
    from vdiag.match.matcher import Match
    from vdiag.reason.story import Episode
    from vdiag.rulebook.compile import Rulebook

MOST_POINTS = 240  # of a report; the peaks, the first and the last are among them
ONE_TIME = 5.0  # seconds within which the lines of several engines are of one time; they print each ten
FIGURES = ("running", "waiting", "kv_usage", "prompt_tps", "generation_tps", "preemptions")
FACTS = (
    "peak_running",
    "half_peak_running",
    "fewer_running",
    "peak_waiting",
    "peak_kv_usage",
)  # fixes may ask for
_OUT = ("out of memory", "outofmemory", "alloc_failed")
ALL = -1  # the engine of a line that speaks of all of them


class _Row(NamedTuple):
    """One statistics line."""

    line: int
    time: str
    lane: str
    engine: int
    engines: int  # how many it sums up
    running: int
    waiting: int | None
    kv_usage: float | None
    prompt_tps: float | None
    generation_tps: float | None
    preempted: int | None  # since the line before; None: not said
    preemptions: int  # so far by the warnings before it


class Failure(NamedTuple):
    """What a run of the server ended with."""

    line: int  # of the run's input; what is said from there on is no load before it
    event: Event

    @property
    def on_card(self) -> bool:
        """Whether the memory of a card ran out. The kernel speaks of the host's."""
        text = f"{self.event.exception} {self.event.rows[self.event.root_row]}".casefold()
        return self.event.kind not in (Kind.KERNEL, Kind.UNIT) and any(words in text for words in _OUT)


class Series(NamedTuple):
    """The points of a run in order, and what they leave out."""

    points: list[LoadPoint]
    engines: int
    latest: list[LoadPoint]  # back to the last pause
    busiest: int  # the most requests that ran on one engine in `latest`
    preempted: int


def series(episode: Episode, rulebook: Rulebook, failure: Failure | None) -> Series | None:
    """What a run said of its load before it failed; None where it said nothing."""
    matches = [
        match
        for match in _before(episode, failure)
        if ("load_running" in match.captures or "load_preemptions" in match.captures)
        and rulebook.rules[match.rule].role is Role.CONTEXT
    ]
    units = Counter(match.event.envelope.unit for match in matches if "load_running" in match.captures)
    if not units:
        return None
    # A server has one. Of several in an input it is the one that failed, or the one that says the most.
    unit = failure.event.envelope.unit if failure else ""
    unit = unit if unit in units else units.most_common(1)[0][0]
    rows, warned = _rows(match for match in matches if match.event.envelope.unit == unit)
    if not rows:
        return None
    if any(row.engine == ALL for row in rows):
        rows = [row for row in rows if row.engine == ALL]
    rounds = list(_rounds(rows))
    points = list(_points(rounds))
    latest = trend.recent_of(points)
    return Series(
        points,
        max(sum(row.engines for row in at_once) for at_once in rounds),
        latest,
        max(math.ceil(row.running / row.engines) for at_once in rounds[-len(latest) :] for row in at_once),
        max(points[-1].preemptions or 0, warned),
    )


def _before(episode: Episode, failure: Failure | None) -> list[Match]:
    """What is said before a failure; in a log that stands on one line, in the order it is said."""
    if failure is None:
        return episode.matches
    at = next((i for i, match in enumerate(episode.matches) if match.event is failure.event), 0)
    return [
        match
        for i, match in enumerate(episode.matches)
        if match.line < failure.line or (match.line == failure.line and i < at)
    ]


def load(episode: Episode, rulebook: Rulebook, name: str, failure: Failure | None = None) -> Load | None:
    """The load of a run of the server in the input `name`; None where its log does not tell."""
    told = series(episode, rulebook, failure)
    if told is None:
        return None
    peak = LoadPoint(line=max(told.points, key=lambda p: p.running or 0).line)
    for figure in FIGURES:
        setattr(peak, figure, max(_known(told.points, figure), default=None))
    time, on_card = (failure.event.envelope.time, failure.on_card) if failure else ("", False)
    pattern, said, remedy = trend.pattern(told.points, _limit(episode, told.engines), time, on_card)
    return Load(
        source=name,
        points=_thinned(told.points),
        peak=peak,
        preempted=told.preempted,
        pattern=pattern,
        said=said,
        remedy=remedy,
        engines=told.engines,
        seen=len(told.points),
    )


def load_facts(episode: Episode, rulebook: Rulebook, failure: Failure | None) -> dict[str, Any]:
    """What fixes may ask for by name: the peaks of the minutes before a failure. Empty where the run told of no load.

    `peak_running`, its half and its three quarters (`fewer_running`) are of one engine, as `--max-num-seqs` is; both
    are unknown where they are less than 1.
    """
    told = series(episode, rulebook, failure)
    if told is None:
        return {}
    values = (
        told.busiest,
        told.busiest // 2 or None,
        told.busiest * 3 // 4 or None,
        max(_known(told.latest, "waiting"), default=None),
        max(_known(told.latest, "kv_usage"), default=None),
    )
    found = dict(zip(FACTS, values, strict=True))
    if (
        "load_swapped" in episode.facts
    ):  # only V0 moves requests to host memory; older ones do not name themselves
        found["engine"] = "V0"
    return found


def _rows(matches: Iterable[Match]) -> tuple[list[_Row], int]:
    """The statistics lines, and the preemptions of which warnings told."""
    rows: list[_Row] = []
    warned = 0
    for match in matches:
        told = match.captures
        warned = max(warned, _count(told.get("load_preemptions")) or 0)
        running = _count(told.get("load_running"))
        if running is None:
            continue
        waiting, swapped = _count(told.get("load_waiting")), _count(told.get("load_swapped"))
        engines = _count(told.get("load_engines"))
        rows.append(
            _Row(
                match.line,
                match.event.envelope.time,
                match.event.envelope.lane,
                ALL if engines else _count(told.get("load_engine")) or 0,
                engines or 1,
                running,
                waiting if swapped is None else (waiting or 0) + swapped,
                _number(told.get("load_kv_usage"), 100.0),
                _number(told.get("load_prompt_tps")),
                _number(told.get("load_generation_tps")),
                _count(told.get("load_preempted")),
                warned,
            )
        )
    return rows, warned


def _points(rounds: Sequence[Sequence[_Row]]) -> Iterator[LoadPoint]:
    """One point for what all engines say at one time. An engine that says nothing then is idle."""
    counts = any(row.preempted is not None or row.preemptions for at_once in rounds for row in at_once)
    so_far = 0
    for at_once in rounds:
        so_far += sum(row.preempted or 0 for row in at_once)
        last = at_once[-1]
        yield LoadPoint(
            line=last.line,
            time=last.time,
            running=sum(row.running for row in at_once),
            waiting=_sum(row.waiting for row in at_once),
            kv_usage=max((row.kv_usage for row in at_once if row.kv_usage is not None), default=None),
            prompt_tps=_sum(row.prompt_tps for row in at_once),
            generation_tps=_sum(row.generation_tps for row in at_once),
            preemptions=max(so_far, last.preemptions) if counts else None,
        )


def _rounds(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """The lines of one time: no two of one engine, and ONE_TIME apart at most."""
    at_once: list[_Row] = []
    engines: set[tuple[str, int]] = set()
    for row in rows:
        engine = row.lane, row.engine
        if at_once and (engine in engines or _later(at_once[0], row)):
            yield at_once
            at_once, engines = [], set()
        at_once.append(row)
        engines.add(engine)
    if at_once:
        yield at_once


def _later(one: _Row, other: _Row) -> bool:
    if one.time == other.time:
        return False
    first, second = parse(one.time), parse(other.time)
    span = apart(first, second) if first and second else None
    return span is not None and abs(span) > ONE_TIME


def _thinned(points: list[LoadPoint]) -> list[LoadPoint]:
    """At most MOST_POINTS, evenly taken, with the first, the last and the first peak of each figure."""
    if len(points) <= MOST_POINTS:
        return points
    kept = {0, len(points) - 1}
    for figure in FIGURES:
        kept.add(max(range(len(points)), key=lambda i: getattr(points[i], figure) or 0))
    room = MOST_POINTS - len(kept)
    kept.update(i * len(points) // room for i in range(room))
    return [points[i] for i in sorted(kept)]


def _known(points: list[LoadPoint], figure: str) -> list[Any]:
    return [value for point in points if (value := getattr(point, figure)) is not None]


def _limit(episode: Episode, engines: int) -> int | None:
    """How many requests may run at once, where the log says so; each engine has the same limit."""
    given = episode.facts.get("args")
    limit = _count(given.get("max_num_seqs") if isinstance(given, dict) else None)
    limit = limit or _count(episode.facts.get("max_num_seqs"))
    return limit * engines if limit else None


def _sum(values: Iterable[Any]) -> Any:
    known = [value for value in values if value is not None]
    return round(sum(known), 1) if known else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _number(value: Any, most: float = math.inf) -> float | None:
    """A finite number from 0 to `most`; what is none may come from a rule of the user's."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) if 0 <= value <= most else None
