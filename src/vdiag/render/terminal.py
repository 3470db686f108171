"""The report for a person at a terminal: the answer and what to type first, everything else below it.

Reads the Report alone. Meaning is in words, never only in colour, symbols or boxes. What came from a log is made
harmless before it is shown; commands stand on lines of their own and are never wrapped.
"""

from __future__ import annotations

from typing import TextIO

from vdiag.model import AlsoSeen, Diagnosis, Evidence, Fix, Gap, Phase, Report, Safety, Severity, Verdict
from vdiag.render.page import Page, shorten

EVIDENCE_ROWS = 4  # rows of an evidence text shown without --all; each at most this many screen lines long
BRIEF = 3  # items of a secondary list shown without --all

SEVERITY = {
    Severity.FATAL: "",
    Severity.DEGRADED: "the server lives, badly",
    Severity.CLIENT: "the server is fine, a caller erred",
}
SAFETY = {
    Safety.SAFE: "safe",
    Safety.TRADEOFF: "a trade-off: costs quality, speed or capacity",
    Safety.MANUAL: "needs your judgement or hands",
}
PHASES = {
    Phase.ARGUMENTS: "reading the command line",
    Phase.CONFIG: "reading the model's configuration and starting the engine",
    Phase.DOWNLOAD: "downloading the model",
    Phase.LOAD: "loading the weights",
    Phase.PROFILE: "measuring memory and compiling",
    Phase.CAPTURE: "capturing CUDA graphs",
    Phase.SERVING: "serving requests",
    Phase.SHUTDOWN: "shutting down",
}


def render(report: Report, *, width: int = 80, everything: bool = False) -> Page:
    """The whole page. `everything` shows long lines and long lists in full."""
    page = Page(width)
    first, others = report.diagnoses[:1], report.diagnoses[1:]
    if report.verdict is Verdict.DIAGNOSED and first:
        _answer(page, first[0], _headline(first[0]), everything)
        _background(page, first[0], everything)
    elif report.verdict is Verdict.UNRECOGNISED:
        _unrecognised(page, first, everything)
    elif report.verdict is Verdict.INCOMPLETE:
        _incomplete(page, report, first, everything)
    else:
        _nothing_wrong(page, report)
    for number, diagnosis in enumerate(others, start=2):
        _other(page, number, diagnosis, everything)
    _also_seen(page, report.also_seen, everything)
    _notes(page, report)
    if first:
        _references(page, first[0])
        _read(page, report, everything)
    return page


def write(page: Page, stream: TextIO, *, color: bool) -> None:
    """Prints the page; only with colour is rich needed (its import costs more than a small diagnosis)."""
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


def _headline(diagnosis: Diagnosis) -> str:
    """`Diagnosed`, and in brackets what tempers it."""
    sure = "" if diagnosis.confidence >= 0.9 else "likely" if diagnosis.confidence >= 0.7 else "not certain"
    tempered = "; ".join(filter(None, [sure, SEVERITY[diagnosis.severity]]))
    return f"Diagnosed ({tempered})" if tempered else "Diagnosed"


def _answer(page: Page, diagnosis: Diagnosis, headline: str, everything: bool) -> None:
    """Verdict and cause, its line, the first fix."""
    page.prose(f"{headline}: {_sentence(diagnosis.title)}", style="bold red")
    page.blank()
    _evidence(page, _main_evidence(diagnosis), diagnosis, everything)
    if diagnosis.fixes:
        page.heading("What to do first")
        _fix(page, diagnosis.fixes[0])


def _unrecognised(page: Page, diagnoses: list[Diagnosis], everything: bool) -> None:
    page.prose("Unrecognised: it failed, and no rule knows this failure.", style="bold yellow")
    for diagnosis in diagnoses:
        page.blank()
        page.prose("The deepest error in the log, which is where to look:")
        _evidence(page, _main_evidence(diagnosis), diagnosis, everything)
        if diagnosis.frame:
            page.prose(f"raised at {diagnosis.frame}", first="  ", indent="  ")
        if diagnosis.fixes:
            page.heading("What to do first")
            _fix(page, diagnosis.fixes[0])
        page.blank()
        page.prose(
            "vdiag has found where it broke, but not why: do not read more into it than the line says. "
            "Someone may have met it before; search for it, and tell vdiag's authors if you find the cause."
        )
        if diagnosis.search:
            page.command(diagnosis.search)
        if diagnosis.fingerprint:
            page.prose(f"Fingerprint (the same failure has the same one): {diagnosis.fingerprint}")
        _background(page, diagnosis, everything)


def _incomplete(page: Page, report: Report, diagnoses: list[Diagnosis], everything: bool) -> None:
    page.prose(
        "Incomplete: the log says that it failed but not why. The cause stands in lines that are not here.",
        style="bold yellow",
    )
    for diagnosis in diagnoses:
        page.blank()
        page.prose(f"What there is: {_sentence(diagnosis.title)}")
        _evidence(page, _main_evidence(diagnosis), diagnosis, everything)
    gaps = [gap for read in report.inputs for gap in read.gaps]
    page.heading("Get the rest")
    offered = False
    for fix in [fix for diagnosis in diagnoses for fix in diagnosis.fixes]:
        _fix(page, fix)
        offered = offered or bool(fix.run)
    for gap in gaps:
        _gap(page, gap)
        offered = offered or bool(gap.command)
    if not offered:
        page.prose("Give vdiag everything since the server's start, for a service for example:")
        page.command("journalctl -u <unit> -b --no-pager | vdiag")
    for diagnosis in diagnoses:
        if diagnosis.why:
            page.heading("Why")
            page.prose(diagnosis.why)


def _nothing_wrong(page: Page, report: Report) -> None:
    lines, size = sum(read.lines for read in report.inputs), sum(read.bytes for read in report.inputs)
    read = f"{_count(lines, 'line')} ({_size(size)}) of {', '.join(read.name for read in report.inputs) or 'input'}"
    if report.verdict is Verdict.EMPTY:
        page.prose(
            f"Empty: there is nothing in {', '.join(read.name for read in report.inputs) or 'the input'}."
            if not size
            else f"Empty: {read} read, and nothing in it is from a vLLM server or about one.",
            style="bold yellow",
        )
    elif report.verdict is Verdict.STARTING:
        phase = report.episodes[-1].phase if report.episodes else None
        doing = f" It was {PHASES[phase]} (phase: {phase.value})." if phase else ""
        page.prose(
            f"Starting: the log stops inside a start-up that has not failed.{doing}", style="bold yellow"
        )
        page.blank()
        for note in report.notes:
            page.prose(_sentence(note))
        page.prose(
            f"{read} read. If it still runs, give it time and look again; whether it is ready, ask with:"
        )
        port = report.environment.args.get("port", 8000)
        page.command(
            f"curl -fsS http://localhost:{port if isinstance(port, int) else 8000}/health && echo ready"
        )
        page.prose("If it stopped here, what ended it is not in this log; the kernel may know:")
        page.command("journalctl -k -b --no-pager | vdiag")
    else:
        page.prose(
            f"Healthy: {read} read, and nothing in it says that something is wrong.", style="bold green"
        )


# ---- one diagnosis ----------------------------------------------------------------------------------------


def _background(page: Page, diagnosis: Diagnosis, everything: bool) -> None:
    """What stands below the answer."""
    if diagnosis.why:
        page.heading("Why")
        page.prose(diagnosis.why)
    if len(diagnosis.fixes) > 1:
        page.heading("If that does not suit")
        for number, fix in enumerate(diagnosis.fixes[1:], start=2):
            _fix(page, fix, number)
    if diagnosis.avoid:
        page.heading("Avoid")
        for text in diagnosis.avoid:
            page.prose(_sentence(text), first="- ", indent="  ")
    _proof(page, diagnosis, everything)


def _proof(page: Page, diagnosis: Diagnosis, everything: bool) -> None:
    """More lines, what they explain, when it happened, how sure it is."""
    main = _main_evidence(diagnosis)
    more = [item for item in diagnosis.evidence if (item.source, item.line) != (main.source, main.line)]
    if more:
        page.heading("More evidence")
        for item in more if everything else more[:BRIEF]:
            _evidence(page, item, diagnosis, everything)
        _rest(page, len(more), everything)
    page.heading("How sure, and when")
    page.prose(_confidence(diagnosis.confidence))
    if diagnosis.phase and diagnosis.phase in PHASES:
        page.prose(
            f"It happened while the server was {PHASES[diagnosis.phase]} (phase: {diagnosis.phase.value})."
        )
    if diagnosis.times > 1:
        span = f", from line {diagnosis.line} to line {diagnosis.last_line}" if diagnosis.last_line else ""
        when = f", {diagnosis.first_time} to {diagnosis.last_time}" if diagnosis.first_time else ""
        page.prose(f"It happened {diagnosis.times} times{span}{when}.")
    if diagnosis.recovered_at:
        page.prose(f"A later start succeeded (line {diagnosis.recovered_at}).")
    if diagnosis.explains:
        shown = diagnosis.explains if everything else diagnosis.explains[:BRIEF]
        listed = ", ".join(f"line {item.line}" + (f" ({item.rule})" if item.rule else "") for item in shown)
        left = len(diagnosis.explains) - len(shown)
        page.prose(f"It explains {listed}{f' and {left} more' if left else ''}.")
    if everything and diagnosis.facts:
        page.heading("Facts")
        for name, value in diagnosis.facts.items():
            page.prose(f"{name}: {value}", first="- ", indent="  ")


def _other(page: Page, number: int, diagnosis: Diagnosis, everything: bool) -> None:
    page.heading(f"Also wrong ({number})")
    if everything:
        _answer(page, diagnosis, _headline(diagnosis), everything)
        _background(page, diagnosis, everything)
        _references(page, diagnosis)
        return
    page.prose(f"{_headline(diagnosis)}: {_sentence(diagnosis.title)}")
    _evidence(page, _main_evidence(diagnosis), diagnosis, everything)
    for fix in diagnosis.fixes[:1]:
        _fix(page, fix)


def _fix(page: Page, fix: Fix, number: int = 0) -> None:
    if number > 2:
        page.blank()
    first = f"{number}. " if number else ""
    page.prose(f"{fix.do.strip().rstrip('.')} ({SAFETY[fix.safety]}).", first=first, indent=" " * len(first))
    for line in fix.run:
        page.command(line)
    if fix.note:
        page.prose(f"Note: {_sentence(fix.note)}", first=" " * len(first), indent=" " * len(first))


def _main_evidence(diagnosis: Diagnosis) -> Evidence:
    """The evidence on the diagnosis's own line, else the first, else a bare place."""
    for item in diagnosis.evidence:
        if (item.source, item.line) == (diagnosis.source, diagnosis.line):
            return item
    if diagnosis.evidence:
        return diagnosis.evidence[0]
    return Evidence(source=diagnosis.source, line=diagnosis.line, lane="", text="")


def _evidence(page: Page, item: Evidence, diagnosis: Diagnosis, everything: bool) -> None:
    lane = f" in {item.lane}" if item.lane else ""
    page.prose(f"{item.source}:{item.line}{lane}", style="dim")
    rows = item.text.split("\n")
    limit = EVIDENCE_ROWS * (page.width - 2)
    around = [str(value) for value in diagnosis.facts.values()]
    for row in rows if everything else rows[:EVIDENCE_ROWS]:
        if row.strip():
            page.prose(row if everything else shorten(row, limit, around), first="  ", indent="  ")
    if not everything:
        _rest(page, len(rows), everything, EVIDENCE_ROWS, "  ")


# ---- below the diagnoses ------------------------------------------------------------------------------------


def _also_seen(page: Page, items: list[AlsoSeen], everything: bool) -> None:
    if not items:
        return
    page.heading("Also seen, and set aside")
    for item in items if everything else items[:BRIEF]:
        name = f"{item.rule}: " if item.rule else ""
        text = item.text.split("\n")[0]
        quoted = text if everything else shorten(text, page.width)
        page.prose(f"{item.source}:{item.line} {name}{quoted} - {item.reason}", first="- ", indent="  ")
    _rest(page, len(items), everything)


def _notes(page: Page, report: Report) -> None:
    """Notes and gaps, without those that an earlier part of the page has shown."""
    notes = report.notes if report.verdict is not Verdict.STARTING else []
    shown = report.verdict is Verdict.INCOMPLETE
    gaps = [] if shown else [gap for read in report.inputs for gap in read.gaps]
    if not notes and not gaps:
        return
    page.heading("Notes")
    for note in notes:
        page.prose(_sentence(note), first="- ", indent="  ")
    for gap in gaps:
        _gap(page, gap)


def _gap(page: Page, gap: Gap) -> None:
    where = f" (line {gap.line})" if gap.line else ""
    page.prose(_sentence(f"{gap.what}{where}"), first="- ", indent="  ")
    if gap.command:
        page.command(gap.command)


def _references(page: Page, diagnosis: Diagnosis) -> None:
    if diagnosis.refs or diagnosis.rule:
        page.heading("To read")
        for link in diagnosis.refs:
            page.command(link)
        if diagnosis.rule:
            page.command(f"vdiag explain {diagnosis.rule}")


def _read(page: Page, report: Report, everything: bool) -> None:
    """What the answer rests on: the inputs, the server, its runs and its memory."""
    page.heading("What was read")
    for read in report.inputs:
        page.prose(f"{read.name}: {_count(read.lines, 'line')}, {_size(read.bytes)}", first="- ", indent="  ")
    server = report.environment
    said = [
        f"vLLM {server.vllm}" if server.vllm else "",
        f"engine {server.engine}" if server.engine else "",
        f"model {server.model}" if server.model else "",
        f"run by {server.deploy}" if server.deploy and server.deploy != "cli" else "",
    ]
    if any(said):
        page.prose(f"the server, by its own lines: {', '.join(filter(None, said))}", first="- ", indent="  ")
    if report.memory:
        budget = ", ".join(f"{name} {_words(value)}" for name, value in report.memory.items())
        page.prose(f"its memory: {budget}", first="- ", indent="  ")
    if everything or len(report.episodes) > 1:
        for run in report.episodes if everything else report.episodes[-BRIEF:]:
            phase = f", phase {run.phase.value}" if run.phase else ""
            text = f"a run in {run.source}, lines {run.first_line} to {run.last_line}: {run.outcome}{phase}"
            page.prose(text, first="- ", indent="  ")
        _rest(page, len(report.episodes), everything)


def _rest(page: Page, total: int, everything: bool, shown: int = BRIEF, indent: str = "") -> None:
    if not everything and total > shown:
        page.prose(f"({total - shown} more; --all shows them)", first=indent, indent=indent, style="dim")


# ---- words ------------------------------------------------------------------------------------------------


def _confidence(value: float) -> str:
    word = next(
        word
        for least, word in (
            (0.9, "Sure"),
            (0.7, "Likely"),
            (0.5, "Plausible, not certain"),
            (-1.0, "A guess"),
        )
        if value >= least
    )
    return f"{word} (confidence {value:.2f} of 1)."


def _words(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", ":", "…", ">")) or not text else f"{text}."


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _size(size: int) -> str:
    for limit, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= limit:
            return f"{size / limit:.1f} {unit}"
    return f"{size} B"
