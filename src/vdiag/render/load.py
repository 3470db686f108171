"""The load over time as sparklines, each with its first, largest and last figure in words."""

from __future__ import annotations

from collections.abc import Sequence

from vdiag.model import Load
from vdiag.render.page import Page, cells, harmless
from vdiag.render.sections import counted

CALM = "calm"  # the pattern that is worth no word
MEMORY = "memory"  # the one that is the failure's own
BLOCKS = "▁▂▃▄▅▆▇█"
NARROWEST, WIDEST = 8, 60  # columns of a sparkline; one figure takes one of them
_ROWS = (  # figure, its name, its unit, and what a full block means (0: the largest)
    ("running", "running", "", 0.0),
    ("waiting", "waiting", "", 0.0),
    ("kv_usage", "KV cache", " %", 100.0),
    ("prompt_tps", "tokens/s in", "", 0.0),
    ("generation_tps", "tokens/s out", "", 0.0),
    ("preemptions", "preempted", "", 0.0),
)


def show(page: Page, told: Load, *, failed: bool, everything: bool) -> None:
    """The section of a terminal page; of a server that lives only where it is worth a word, or `everything`."""
    if not told.points or not (failed or everything or told.pattern != CALM):
        return
    _title(page, told, failed)
    rows = []
    for figure, name, unit, full in _ROWS:
        told_of = [getattr(point, figure) for point in told.points]
        if any(value is not None for value in told_of):
            rows.append((name, [value or 0 for value in told_of], _words(told_of, unit), full))
    label = max(len(name) for name, *_ in rows) + 1
    room = page.width - label - 1 - max(len(words) for _, _, words, _ in rows)
    for name, values, words, full in rows:
        if len(values) == 1 or room < NARROWEST:
            page.prose(words, first=f"{name:{label}}", indent=" " * label)
            continue
        spark = sparkline(values, min(room, WIDEST, len(values)), full)
        page.lines.append([(f"{name:{label}}", ""), (spark, "cyan"), (f" {words}", "")])
    if told.said or told.remedy:
        page.blank()
        # What cures a card that ran out of memory the fixes say.
        remedy = "" if failed and told.pattern == MEMORY and not everything else told.remedy
        apart = "Apart from the failure: " if failed and told.pattern not in (CALM, MEMORY) else ""
        page.prose(f"{apart}{told.said} {remedy}".strip())


def sparkline(values: Sequence[float], width: int, full: float = 0.0) -> str:
    """At most `width` blocks; of several values in one block the largest counts. `full`: what a full block means."""
    count = min(width, len(values))
    most = full or max(values, default=0) or 1.0
    parts = [values[i * len(values) // count : (i + 1) * len(values) // count] for i in range(count)]
    last = len(BLOCKS) - 1
    return "".join(BLOCKS[min(max(round(max(part) / most * last), 0), last)] for part in parts)


def _title(page: Page, told: Load, failed: bool) -> None:
    """What it is and of what time, in one line where that fits."""
    first, last = told.points[0].time, told.points[-1].time
    if first and last and first != last:
        day, _, clock = last.rpartition(" ")
        span = f"{first} to {clock if day and first.startswith(day) else last}"
    else:
        span = last
    engines = f" of {told.engines} engines" if told.engines > 1 else ""
    title = harmless(f"The load{engines}{' before it failed' if failed else ''}")
    told_of = harmless(", ".join(filter(None, [span, counted(max(told.seen, 1), "reading")])))
    if cells(title) + cells(told_of) + 2 <= page.width:
        page.heading(f"{title}: {told_of}")
    else:
        page.heading(title)
        page.prose(told_of)


def _words(values: Sequence[float | None], unit: str) -> str:
    known = [value for value in values if value is not None]
    most = max(known)
    if len(known) == 1:
        return f"{_number(most)}{unit}"
    return f"{_number(known[0])}{unit} first, {_number(most)}{unit} at most, {_number(known[-1])}{unit} last"


def _number(value: float) -> str:
    """Tenths only where there are few of it."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"
