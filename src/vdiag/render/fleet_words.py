"""The sentences on a fleet that its outputs share."""

from __future__ import annotations

import re

from vdiag.fleet_model import UNREAD, Cause, Fleet, News
from vdiag.render.sections import counted, size_words

_FRACTION = re.compile(r"(:\d\d)[.,]\d{1,9}")
VERDICTS = {
    "diagnosed": "diagnosed",
    "unrecognised": "failed, and no rule knows it",
    "incomplete": "failed, and the cause is not in the log",
    "starting": "starting",
    "healthy": "healthy",
    "empty": "not from a server",
    UNREAD: "could not be read",
}


def headline(fleet: Fleet) -> str:
    """The answer in one sentence."""
    if not fleet.replicas:
        return "None of these logs is from a server." if fleet.others else "There was nothing to read."
    if not fleet.failed:
        return f"None of {counted(fleet.replicas, 'replica')} failed."
    if fleet.replicas == 1:
        return f"The one replica failed{', and came to serve again' if fleet.recovered else ''}."
    again = f" {fleet.recovered} of these came to serve again." if fleet.recovered else ""
    of = len([cause for cause in (*fleet.causes, *fleet.unknown) if cause.severity == "fatal"])
    return f"{fleet.failed} of {fleet.replicas} replicas failed, of {counted(of, 'cause')}.{again}"


def read(fleet: Fleet) -> str:
    """What the answer rests on."""
    nodes = f" of {counted(fleet.nodes, 'node')}" if fleet.nodes else ""
    on = f", {fleet.failed_nodes} of them with failures" if fleet.nodes and fleet.failed else ""
    return f"{counted(fleet.replicas, 'replica')}{nodes}{on}; {counted(fleet.lines, 'line')}, {size_words(fleet.bytes)}."


def others(fleet: Fleet) -> str:
    """What was read and is no replica; empty: nothing."""
    count = fleet.others
    return f"{counted(count, 'more log')} {'is' if count == 1 else 'are'} not from a server." if count else ""


def verdicts(fleet: Fleet) -> list[str]:
    """How many replicas got which verdict."""
    return [f"{count} {VERDICTS.get(name, name)}" for name, count in fleet.verdicts.items()]


def name(cause: Cause) -> str:
    """The rule, or what stands in its place."""
    return cause.rule or cause.fingerprint or "unknown"


def counts(cause: Cause) -> str:
    """What the number of replicas does not tell: where it is not the first cause, and how often it happened."""
    told = []
    if cause.recovered:
        told.append(f"{cause.recovered} serving again")
    if cause.also:
        told.append(f"beside another cause in {cause.also}{' more' if cause.replicas else ''}")
    if cause.times > cause.replicas + cause.also:
        told.append(f"{cause.times} times")
    return "; ".join(told)


def when(cause: Cause) -> str:
    """First and last time, as the logs print them, to the second."""
    first, last = clock(cause.first_time), clock(cause.last_time)
    if not first or first == last:
        return f"at {first}" if first else ""
    return f"first {first}, last {last}"


def clock(printed: str) -> str:
    """A time without parts of a second."""
    return _FRACTION.sub(r"\1", printed)


def nodes(cause: Cause, most: int) -> str:
    """The nodes, those with most replicas first."""
    told = [f"{p.node} ×{p.replicas}" if p.replicas > 1 else p.node for p in cause.nodes[:most]]
    more = cause.node_count - len(told)
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def news(told: News, most: int) -> list[str]:
    """What is new since the last run, a sentence each; of causes `most`."""
    if not told.since:
        return [
            f"This is the first run with this state: {counted(told.read, 'replica')} read, all of it new."
        ]
    said = [
        f"Since {told.since}: {counted(told.read, 'replica')} had something new ({size_words(told.bytes)})."
    ]
    shown = told.causes[:most]
    for item in shown:
        what = item.rule or item.fingerprint
        fresh = (
            f"new, {counted(item.times, 'time')}"
            if not item.before
            else f"{item.times} more, {item.before} before"
        )
        on = f", on {', '.join(item.nodes[:5])}{' …' if len(item.nodes) > 5 else ''}" if item.nodes else ""
        said.append(f"{item.title} ({what}): {fresh}{on}.")
    if told.cause_count > len(shown):
        said.append(f"{counted(told.cause_count - len(shown), 'further cause')} with something new.")
    if told.nodes:
        said.append(f"Nodes with a failure for the first time: {', '.join(told.nodes[:10])}"
                    f"{' …' if len(told.nodes) > 10 else ''}.")  # fmt: skip
    if not told.causes:
        said.append("No failure is new.")
    return said
