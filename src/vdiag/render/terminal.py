"""The report for a person at a terminal: the answer and what to type first, everything else below it.

Reads the Report alone. Meaning is in words, never only in colour, symbols or boxes. What came from a log is made
harmless before it is shown; commands stand on lines of their own and are never wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import TextIO

import msgspec

from vdiag.model import AlsoSeen, Diagnosis, Harmless, Report, Severity, Verdict
from vdiag.render import budget
from vdiag.render.outside import outside
from vdiag.render.page import Page, in_ascii, shorten, shows_blocks
from vdiag.render.sections import (
    BRIEF,
    KERNEL,
    PHASES,
    answer,
    background,
    counted,
    headline,
    left_out,
    main_evidence,
    other,
    readiness,
    references,
    replaced,
    sentence,
    show_evidence,
    show_fix,
    show_gap,
    size_words,
)

NAMED = 4  # inputs listed by name where nothing is wrong


def render(report: Report, *, width: int = 80, everything: bool = False) -> Page:
    """The whole page. `everything` shows long lines and long lists in full."""
    page = Page(width)
    first, others = report.diagnoses[:1], report.diagnoses[1:]
    if report.verdict is Verdict.DIAGNOSED and first:
        answer(
            page, first[0], headline(first[0]), everything, partial(_changes, page, report, everything, True)
        )
        background(page, first[0], everything)
    elif report.verdict is Verdict.UNRECOGNISED:
        _unrecognised(page, report, first, everything)
    elif report.verdict is Verdict.INCOMPLETE:
        _incomplete(page, report, first, everything)
    else:
        _nothing_wrong(page, report)
    if report.verdict is not Verdict.UNRECOGNISED:
        _changes(page, report, everything, False if report.verdict is Verdict.DIAGNOSED else None)
    for number, diagnosis in enumerate(others, start=2):
        other(page, number, diagnosis, everything)
    if report.memory is not None:
        budget.show(page, report.memory, everything, first[0].fixes if first else ())
    if report.load is not None:
        from vdiag.render import load  # late: a start that fails says nothing of a load

        failed = bool(first) and first[0].severity is Severity.FATAL
        load.show(page, report.load, failed=failed, everything=everything)
    if everything or not report.diagnoses:
        _harmless(page, report.harmless, everything)
    _also_seen(page, report.also_seen, everything)
    _notes(page, report)
    if first:
        references(page, first[0])
        _read(page, report, everything)
    if report.redacted is not None:
        page.blank()
        page.prose(replaced(report.redacted))
    return page


def _changes(page: Page, report: Report, everything: bool, explaining: bool | None) -> None:
    if report.changes is not None:
        from vdiag.render import changes  # late: few logs hold two starts

        changes.show(page, report.changes, everything, explaining=explaining)


def write(page: Page, stream: TextIO, *, color: bool) -> None:
    """Prints the page; only with colour is rich needed (its import costs more than a small diagnosis)."""
    if not shows_blocks(getattr(stream, "encoding", None) or "utf-8"):  # a stream of text alone has none
        page.lines = [[(in_ascii(text), style) for text, style in line] for line in page.lines]
    if not color:
        stream.write(page.plain())
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=stream, force_terminal=True, no_color=False, markup=False, highlight=False, emoji=False
    )
    for line in page.lines:
        console.print(Text.assemble(*line), soft_wrap=True)


# ---- verdicts -------------------------------------------------------------------------------------------


def _unrecognised(page: Page, report: Report, diagnoses: list[Diagnosis], everything: bool) -> None:
    page.prose("Unrecognised: it failed, and no rule knows this failure.", style="bold yellow")
    for diagnosis in diagnoses:
        page.blank()
        page.prose("The deepest error in the log, which is where to look:")
        show_evidence(page, main_evidence(diagnosis), diagnosis, everything)
        if diagnosis.frame and diagnosis.frame not in diagnosis.why:
            page.prose(f"raised at {diagnosis.frame}", first="  ", indent="  ")
        _changes(page, report, everything, None)
        if diagnosis.fixes:
            page.heading("What to do first")
            show_fix(page, diagnosis.fixes[0])
        page.blank()
        page.prose(f"vdiag has found where it broke, but not why. {diagnosis.why}")
        if diagnosis.search and not any(diagnosis.search in fix.run for fix in diagnosis.fixes):
            page.command(diagnosis.search)
        if diagnosis.fingerprint:
            page.prose(f"Fingerprint (the same failure has the same one): {diagnosis.fingerprint}")
        background(page, msgspec.structs.replace(diagnosis, why=""), everything)


def _incomplete(page: Page, report: Report, diagnoses: list[Diagnosis], everything: bool) -> None:
    page.prose(
        "Incomplete: the log says that it failed but not why. The cause stands in lines that are not here.",
        style="bold yellow",
    )
    for diagnosis in diagnoses:
        page.blank()
        page.prose(f"What there is: {sentence(diagnosis.title)}")
        show_evidence(page, main_evidence(diagnosis), diagnosis, everything)
    gaps = [gap for read in report.inputs for gap in read.gaps]
    page.heading("Get the rest")
    offered: set[str] = set()
    for fix in [fix for diagnosis in diagnoses for fix in diagnosis.fixes]:
        show_fix(page, fix)
        offered |= _steps(fix.run)
    for gap in gaps:
        steps = _steps([gap.command])
        if not steps or not steps <= offered:
            show_gap(page, gap)
        offered |= steps
    if not offered:
        page.prose("Give vdiag everything since the server's start, for a service for example:")
        page.command("journalctl -u <unit> -b --no-pager | vdiag")
    for diagnosis in diagnoses:
        if diagnosis.why:
            page.heading("Why")
            page.prose(diagnosis.why)


def _steps(commands: Iterable[str]) -> set[str]:
    """The single commands of some lines, however these are joined."""
    return {step.strip() for line in commands for step in re.split(r"&&|;", line)} - {""}


def _nothing_wrong(page: Page, report: Report) -> None:
    lines, size = sum(read.lines for read in report.inputs), sum(read.bytes for read in report.inputs)
    names = ", ".join(read.name for read in report.inputs[:NAMED]) or "the input"
    if len(report.inputs) > NAMED:
        names += f" and {counted(len(report.inputs) - NAMED, 'more input')}"
    read = f"{counted(lines, 'line')} ({size_words(size)}) of {names}"
    told = [text for one in report.inputs for gap in one.gaps if (text := outside(one, gap))]
    if report.verdict is Verdict.EMPTY and told and len(told) == len(report.inputs):
        page.prose(f"Empty: {sentence(told[0][0].lower() + told[0][1:])}", style="bold yellow")
        for text in told[1:]:
            page.prose(sentence(text))
    elif report.verdict is Verdict.EMPTY:
        page.prose(
            f"Empty: there is nothing in {names}."
            if not size
            else f"Empty: {read} read, and nothing in it is from a vLLM server or about one.",
            style="bold yellow",
        )
    elif report.verdict is Verdict.STARTING:
        phase = report.episodes[-1].phase if report.episodes else None
        noted = any("(phase:" in note for note in report.notes)
        doing = f" It was {PHASES[phase]} (phase: {phase.value})." if phase and not noted else ""
        page.prose(
            f"Starting: the log stops inside a start-up that has not failed.{doing}", style="bold yellow"
        )
        page.blank()
        for note in report.notes:
            page.prose(sentence(note))
        page.prose(
            f"{read} read. If it still runs, give it time and look again; whether it is ready, ask with:"
        )
        page.command(readiness(report.environment))
        page.prose("If it stopped here, what ended it is not in this log; the kernel may know:")
        page.command(KERNEL)
    else:
        page.prose(
            f"Healthy: {read} read, and nothing in it says that something is wrong.", style="bold green"
        )


# ---- below the diagnoses ------------------------------------------------------------------------------------


def _also_seen(page: Page, items: list[AlsoSeen], everything: bool) -> None:
    if not items:
        return
    page.heading("Also seen, and set aside")
    for item in items if everything else items[:BRIEF]:
        name = f"{item.rule}: " if item.rule else ""
        text = item.text.split("\n")[0]
        quoted = text if everything else shorten(text, page.width)
        page.quote(f"{item.source}:{item.line} {name}{quoted} - {item.reason}", first="- ", indent="  ")
    left_out(page, len(items), everything)


def _harmless(page: Page, items: list[Harmless], everything: bool) -> None:
    """Lines that a person may take for the fault, with what they mean."""
    if not items:
        return
    page.heading("Looks alarming, is harmless")
    for item in items if everything else items[:BRIEF]:
        times = f", {item.times} times" if item.times > 1 else ""
        page.prose(
            f"{item.source}:{item.line}{times}: {sentence(item.title)} {item.why}", first="- ", indent="  "
        )
        page.command(f"vdiag explain {item.rule}")
    left_out(page, len(items), everything)


def _notes(page: Page, report: Report) -> None:
    """Notes and gaps, without those that an earlier part of the page has shown."""
    notes = report.notes if report.verdict is not Verdict.STARTING else []
    gaps = [(read, gap) for read in report.inputs for gap in read.gaps]
    if report.verdict is Verdict.INCOMPLETE or (
        report.verdict is Verdict.EMPTY and all(outside(read, gap) for read, gap in gaps)
    ):
        gaps = []
    if not notes and not gaps:
        return
    page.heading("Notes")
    for note in notes:
        page.prose(sentence(note), first="- ", indent="  ")
    for read, gap in gaps:
        show_gap(
            page, gap, outside(read, gap) or (f"{read.name}: {gap.what}" if len(report.inputs) > 1 else "")
        )


def _read(page: Page, report: Report, everything: bool) -> None:
    """What the answer rests on: the inputs, the server, its runs and its memory."""
    page.heading("What was read")
    for read in report.inputs:
        page.prose(
            f"{read.name}: {counted(read.lines, 'line')}, {size_words(read.bytes)}", first="- ", indent="  "
        )
    server = report.environment
    said = [
        f"vLLM {server.vllm}" if server.vllm else "",
        f"engine {server.engine}" if server.engine else "",
        f"model {server.model}" if server.model else "",
        f"run by {server.deploy}" if server.deploy and server.deploy != "cli" else "",
    ]
    if any(said):
        page.prose(f"the server, by its own lines: {', '.join(filter(None, said))}", first="- ", indent="  ")
    runs = [run for run in report.episodes if run.phase is not None or run.outcome != "unknown"]
    if everything or len(runs) > 1:
        for run in runs if everything else runs[-BRIEF:]:
            phase = f", phase {run.phase.value}" if run.phase else ""
            what = "a run in " if phase else ""
            text = f"{what}{run.source}, lines {run.first_line} to {run.last_line}: {run.outcome}{phase}"
            page.prose(text, first="- ", indent="  ")
        left_out(page, len(runs), everything)
