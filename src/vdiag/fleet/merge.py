"""A replica's row after more of its log was read: what is new counts, and does not hide what was worse."""

from __future__ import annotations

import msgspec

from vdiag.fleet.task import Done, each
from vdiag.fleet.work import cause_of, counts
from vdiag.model import Verdict


def all_merged(before: Done | None, now: Done, how: str) -> list[tuple[Done, Done | None]]:
    """The rows that stand for all servers of a log, each with what was read of it now, if anything was."""
    old, new = each(before) if before is not None else [], each(now)
    found: list[tuple[Done, Done | None]] = []
    alone = len(old) == len(new) == 1
    known = {done.who: done for done in old}
    for done in new:
        held = old[0] if alone else known.get(done.who)
        made = merged(held, done, how)
        made.who = done.who or (held.who if held is not None else "")
        made.slot = held.slot if held is not None else done.who if old or found else ""
        found.append((made, done))
    gone = [done for done in old if not alone and done.who not in {one.who for one in new}]
    return found if how == "whole" else [*found, *((done, None) for done in gone)]


def merged(before: Done | None, now: Done, how: str) -> Done:
    """The row that stands. `how` tells what the reading covers: the `whole` log, or what is new (`resumed`, `fresh`)."""
    if before is None or how == "whole":
        return msgspec.structs.replace(now, seen=[], before={}, more=[])
    old, new = before.row, now.row
    news = {cause: times - now.before.get(cause, 0) for cause, times in counts(new).items()}
    if new.failed and any(more > 0 for more in news.values()):
        row, first, last = _joined(before, now, news)
    elif old.failed or (old.rule and not new.rule) or new.verdict == "empty":
        again = new.recovered or (new.server and new.verdict == Verdict.HEALTHY.value)
        row = msgspec.structs.replace(old, recovered=old.recovered or (old.failed and again))
        first, last = before.first, before.last
    else:
        row, first, last = new, now.first, now.last
    marks = dict(old.marks)
    for mark, times in new.marks.items():
        marks[mark] = max(marks.get(mark, 0), times)
    row = msgspec.structs.replace(
        row,
        node=old.node or new.node,
        replica=new.replica or old.replica,
        bytes=old.bytes + new.bytes if how == "resumed" else new.bytes,
        lines=old.lines + new.lines if how == "resumed" else new.lines,
        marks=marks,
        vllm=new.vllm or old.vllm,
        model=new.model or old.model,
        server=old.server or new.server,
        error=new.error,
    )
    told = list(dict.fromkeys([*before.told, *now.told]))
    return Done(row, first, last, told=told)


def _joined(before: Done, now: Done, news: dict[str, int]) -> tuple:  # type: ignore[type-arg]
    """The new failure; where it is the old one once more, that one with its new count."""
    old, new = before.row, now.row
    cause = cause_of(new.verdict, new.rule, new.fingerprint, new.title)
    if cause != cause_of(old.verdict, old.rule, old.fingerprint, old.title):
        return new, now.first, now.last
    row = msgspec.structs.replace(
        old, times=old.times + max(news[cause], 0), last_time=new.last_time, last_at=new.last_at,
        recovered=new.recovered, others=new.others or old.others,
    )  # fmt: skip
    return row, before.first, now.last
