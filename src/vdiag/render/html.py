"""The report as one self-contained page for a browser: the log searchable, the cause marked.

Nothing is loaded from outside, and its content security policy forbids it; without its script the page lacks the search
and the buttons that copy, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from vdiag.model import Line, Report, Verdict
from vdiag.render import budget
from vdiag.render.outside import outside
from vdiag.render.sections import (
    KERNEL,
    PHASES,
    counted,
    headline,
    readiness,
    sentence,
    size_words,
    value_words,
)
from vdiag.render.spans import joined as apart
from vdiag.render.web import diagnosis, numbers
from vdiag.render.web.document import document, redacted
from vdiag.render.web.log import log
from vdiag.render.web.markup import Html, element, joined, listed, section
from vdiag.render.web.places import Places, named

MOST_LINES = 20_000  # of all inputs together; of more the stretches around what the report names
MOST_BYTES = 4 * 1024 * 1024
ENDS = 300  # lines shown of both ends of a long input
AROUND = {"cause": 200, "evidence": 40}  # lines shown around a named one
ELSE_AROUND = 5

RUNS = 20  # listed
SERVER = {"vllm": "vLLM", "deploy": "run by", "gpu": "card"}  # what fields of the environment are called
STANDS = {Verdict.UNRECOGNISED: "The deepest error", Verdict.INCOMPLETE: "Where the failure is noticed"}


class Part(NamedTuple):
    """A part of the page, and how the list of contents calls it; empty: not at all."""

    name: str
    said: str
    body: Html


def wanted(report: Report) -> dict[str, list[range]]:
    """The lines to show, by input: all where the page stays of a bearable size."""
    lines, size = sum(read.lines for read in report.inputs), sum(read.bytes for read in report.inputs)
    if lines <= MOST_LINES and size <= MOST_BYTES:
        return {read.name: [range(1, read.lines + 1)] for read in report.inputs if read.lines}
    share = MOST_LINES // max(len(report.inputs), 1)
    chosen: dict[str, list[range]] = {}
    for read in report.inputs:
        if not read.lines:
            continue
        if read.lines <= share and read.bytes <= MOST_BYTES // len(report.inputs):
            chosen[read.name] = [range(1, read.lines + 1)]
            continue
        ends = min(ENDS, share // 4)
        spans = [range(1, ends + 1), range(max(read.lines - ends + 1, 1), read.lines + 1)]
        for item in named(report):
            if item.source == read.name and item.line > 0:
                near = AROUND.get(item.kind, ELSE_AROUND)
                spans.append(range(max(item.line - near, 1), min(item.line + near, read.lines) + 1))
                if sum(map(len, spans)) > share:
                    break
        chosen[read.name] = apart(spans)
    return chosen


def render(report: Report, lines: Mapping[str, Sequence[Line]]) -> str:
    """The whole page."""
    places = Places(report, lines)
    title = _title(report)
    parts = [*_parts(report, places), Part("log", "The log", log(report, lines, places))]
    main = element(
        "main", _head(report, places, title), _contents(parts), *(part.body for part in parts),
        id="main", tabindex="-1",
    )  # fmt: skip
    foot = f"{redacted(report.redacted)} Written by vdiag {report.vdiag}. Nothing on this page is loaded from elsewhere."
    return document(title, main, foot, script=True)


# ---- the answer ---------------------------------------------------------------------------------------------


def _title(report: Report) -> str:
    verdict, first = report.verdict, report.diagnoses[:1]
    if verdict is Verdict.DIAGNOSED and first:
        return f"{headline(first[0])}: {sentence(first[0].title)}"
    return {
        Verdict.UNRECOGNISED: "Unrecognised: it failed, and no rule knows this failure.",
        Verdict.INCOMPLETE: "Incomplete: the log says that it failed but not why.",
        Verdict.STARTING: "Starting: the log stops inside a start-up that has not failed.",
        Verdict.HEALTHY: "Healthy: nothing in the log says that something is wrong.",
    }.get(verdict, "Empty: there is nothing in the log from a vLLM server or about one.")


def _head(report: Report, places: Places, title: str) -> Html:
    told: list[Html] = []
    if report.diagnoses:
        first = report.diagnoses[0]
        told.append(
            joined(STANDS.get(report.verdict, "The cause"), ": ", places.link(first.source, first.line), ".")
        )
        if first.first_time:
            told.append(joined(f"Time: {first.first_time}."))
    elif report.verdict is Verdict.STARTING and report.episodes and report.episodes[-1].phase:
        phase = report.episodes[-1].phase
        told.append(joined(f"It was {PHASES[phase]} (phase: {phase.value})."))
    lines, size = sum(read.lines for read in report.inputs), sum(read.bytes for read in report.inputs)
    told.append(joined(f"{counted(lines, 'line')} ({size_words(size)}) read."))
    said = element("p", *(joined(item, " ") for item in told))
    return element("header", element("h1", title), said, class_=report.verdict.value)


def _contents(parts: list[Part]) -> Html:
    links = [element("a", part.said, href=f"#{part.name}") for part in parts if part.said]
    return element("nav", listed(links), aria_label="On this page")


def _parts(report: Report, places: Places) -> list[Part]:
    """All but the log, those that have something to say."""
    told = [Part("d1", "The answer", _answer(report, places))]
    for number, item in enumerate(report.diagnoses[1:], start=2):
        body = diagnosis.other(number, item, places)
        told.append(Part(f"d{number}", "Also wrong" if number == 2 else "", body))
    if report.changes is not None:
        told.append(Part("changes", "What changed", numbers.changes(report.changes, places)))
    if report.memory is not None and budget.tells(report.memory):
        told.append(Part("memory", "Memory", numbers.memory(report.memory, places)))
    if report.load is not None:
        told.append(Part("load", "Load", numbers.load(report.load, places)))
    told += [
        Part("server", "The server", _server(report)),
        Part("notes", "Notes", _notes(report, places)),
        Part("seen", "Also seen", _seen(report, places)),
        Part("harmless", "Harmless lines", _harmless(report, places)),
        Part("read", "What was read", _read(report, places)),
    ]
    return [part for part in told if part.body]


def _answer(report: Report, places: Places) -> Html:
    changed = numbers.explaining(report.changes) if report.changes is not None else Html()
    for first in report.diagnoses[:1]:
        if report.verdict is Verdict.INCOMPLETE:
            return diagnosis.noticed(first, places, "What there is, and how to get the rest")
        if report.verdict is Verdict.UNRECOGNISED:
            return diagnosis.first(first, places, "The deepest error, which is where to look", changed)
        return diagnosis.first(first, places, "What broke, and what to do", changed)
    return _starting(report) if report.verdict is Verdict.STARTING else Html()


def _starting(report: Report) -> Html:
    """What to do about a start that has not failed."""
    return section(
        "d1",
        "What to do",
        element("p", "If it still runs, give it time and look again; whether it is ready, ask with:"),
        diagnosis.commands([readiness(report.environment)]),
        element("p", "If it stopped here, what ended it is not in this log; the kernel may know:"),
        diagnosis.commands([KERNEL]),
    )


def _server(report: Report) -> Html:
    """All that is known of the server; the command on lines of its own."""
    told = msgspec.structs.asdict(report.environment)
    command = told.pop("command", None)
    said: dict[str, object] = {}
    for name, value in told.items():
        said |= value if isinstance(value, dict) else {SERVER.get(name, name): value}
    rows = [
        element("div", element("dt", name), element("dd", value_words(value)))
        for name, value in said.items()
        if value not in (None, "")
    ]
    if not rows and not command:
        return Html()
    parts = [diagnosis.commands([command])] if command else []
    return section("server", "The server, by its own lines", *parts, element("dl", *rows) if rows else "")


def _notes(report: Report, places: Places) -> Html:
    items = [joined(sentence(note)) for note in report.notes]
    shown = set[str]()
    for read in report.inputs:
        for gap in read.gaps:
            where = joined(" (", places.link(read.name, gap.line), ")") if gap.line else ""
            said = outside(read, gap) or (f"{read.name}: {gap.what}" if len(report.inputs) > 1 else gap.what)
            commands = [gap.command] if gap.command and gap.command not in shown else []
            shown.update(commands)
            items.append(joined(sentence(said), where, diagnosis.commands(commands)))
    return section("notes", "Notes, and what is missing", listed(items)) if items else Html()


def _seen(report: Report, places: Places) -> Html:
    items = [
        joined(
            element("span", places.link(item.source, item.line), ": ", item.reason, id=f"s{number}"),
            element("blockquote", item.text.split("\n")[0]),
        )
        for number, item in enumerate(report.also_seen, start=1)
    ]
    return section("seen", "Also seen, and set aside", listed(items)) if items else Html()


def _harmless(report: Report, places: Places) -> Html:
    items = []
    for number, item in enumerate(report.harmless, start=1):
        times = f", {item.times} times" if item.times > 1 else ""
        said = element(
            "p", places.link(item.source, item.line), f"{times}: {sentence(item.title)} {item.why}"
        )
        items.append(element("li", said, element("blockquote", item.text), id=f"h{number}"))
    return section("harmless", "Looks alarming, is harmless", element("ul", *items)) if items else Html()


def _read(report: Report, places: Places) -> Html:
    items = [joined(f"{r.name}: {counted(r.lines, 'line')}, {size_words(r.bytes)}") for r in report.inputs]
    runs = [run for run in report.episodes if run.phase is not None or run.outcome != "unknown"]
    for run in runs[-RUNS:]:
        phase = f", phase {run.phase.value}" if run.phase else ""
        ends = places.link(run.last_source or run.source, run.last_line, brief=not run.last_source)
        first = places.link(run.source, run.first_line)
        items.append(joined("a run from ", first, " to ", ends, f": {run.outcome}{phase}"))
    return section("read", "What was read", listed(items)) if items else Html()
