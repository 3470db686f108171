"""What changed since the server last worked."""

from __future__ import annotations

import json
import re
from typing import Any

from vdiag.model import Change, Changes, Report
from vdiag.render.page import Page, cells, harmless
from vdiag.render.sections import BRIEF, left_out, sentence

MOST_SHOWN = 6  # differences that explain nothing, shown without --all
ARROW = " -> "
HIDDEN = "(not shown)"  # how a report tells of a value that it keeps to itself
_WORD = re.compile(r"\s+")


def show(page: Page, told: Changes, everything: bool, *, explaining: bool | None = None) -> None:
    """The section of a terminal page; of the differences all, only those that explain the failure, or the others."""
    items = [item for item in told.items if explaining is None or item.explains is explaining]
    if not items and not (told.said and explaining is not True):
        return
    place = f"line {told.good_line}" if told.good == told.bad else f"{told.good}:{told.good_line}"
    what = (
        "Also different since"
        if explaining is False and len(items) < len(told.items)
        else "What changed since"
    )
    page.heading(f"{what} it last worked ({place})")
    if told.said:
        page.prose(told.said)
    least = BRIEF if explaining else MOST_SHOWN
    _rows(page, items, least, everything)
    left_out(page, len(items), everything, least)


def page(report: Report, *, width: int = 80, everything: bool = False) -> Page:
    """What `vdiag diff` prints: the diagnosis in one line, then the differences."""
    whole = Page(width)
    whole.prose(_verdict(report), style="bold")
    told = report.changes
    if told is None:
        return whole
    whole.blank()
    whole.prose(f"{told.good}:{told.good_line} compared with {told.bad}:{told.bad_line}")
    if told.said:
        whole.prose(told.said)
    for explaining, title in ((True, "What explains the failure"), (False, "What else differs")):
        items = [item for item in told.items if item.explains is explaining]
        if items:
            whole.heading(title if explaining or any(i.explains for i in told.items) else "What differs")
            _rows(whole, items, len(items), everything)
    return whole


def _verdict(report: Report) -> str:
    if not report.diagnoses:
        return f"{report.verdict.value.capitalize()}: nothing in it failed."
    first = report.diagnoses[0]
    return f"{sentence(first.title)} ({first.source}:{first.line}, confidence {first.confidence:.2f})"


def _rows(whole: Page, items: list[Change], most: int, everything: bool) -> None:
    for item in items if everything else items[:most]:
        whole.quote(row(item, whole.width - 2, everything), first="- ", indent="  ")


def row(item: Change, width: int, everything: bool = False) -> str:
    """One difference in one line of at most about `width` columns, unless `everything` is asked for."""
    name = item.name
    if HIDDEN in (item.before, item.after):
        how = "was added" if item.before is None else "was taken out" if item.after is None else "was changed"
        return f"{name} {how} (its value is not shown)"
    before, after = text(item.before), text(item.after)
    room = 10_000 if everything else max(width - cells(name) - 16, 24)
    colon = "" if name.startswith("--") else ":"
    if item.before is None:
        told = f" {_cut(after, room)}" if item.after is not True else ""
        return f"{name}{told} (added)" if not colon else f"{name}{colon} {_cut(after, room)}"
    if item.after is None:
        told = f" {_cut(before, room)}" if item.before is not True else ""
        return f"{name}{colon}{told} (taken out)"
    before, after = apart(before, after, room)
    return f"{name}{colon} {before}{ARROW}{after}{f' {item.unit}' if item.unit else ''}"


def text(value: Any) -> str:
    """A value in one line, as it is typed."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".")
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return _WORD.sub(" ", harmless(str(value))).strip()


def apart(one: str, other: str, room: int) -> tuple[str, str]:
    """Two texts that take `room` columns together: where they are longer, cut around what differs."""
    if cells(one) + cells(other) <= room:
        return one, other
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    each = max(room // 2 - 4, 8)
    start = max(same - each // 3, 0)
    return _part(one, start, each), _part(other, start, each)


def _part(whole: str, start: int, length: int) -> str:
    start = max(min(start, len(whole) - length), 0)
    shown = whole[start : start + length]
    return ("…" if start else "") + shown + ("…" if start + length < len(whole) else "")


def _cut(whole: str, room: int) -> str:
    return whole if cells(whole) <= room else whole[: max(room - 1, 8)] + "…"
