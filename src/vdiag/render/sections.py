"""The parts of a diagnosis on a page: its line, its fixes, why, how sure. Used by every verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from vdiag.model import Diagnosis, Environment, Evidence, Explained, Fix, Gap, Phase, Safety, Severity
from vdiag.render.page import Page, shorten

EVIDENCE_ROWS = 4  # rows of an evidence text shown without --all; each at most this many screen lines long
BRIEF = 3  # items of a secondary list shown without --all
KERNEL = "journalctl -k -b --no-pager | vdiag"  # what the kernel says
PLACES = 8  # line numbers of one

# A command as advise/ prints it, with an ellipsis for the arguments that the user gives already.
_ELLIPSIS = re.compile(r"(?:vllm serve|docker run|podman run|vllm\.entrypoints\S+|LLM\() ?.*…")

THEN = "# then:"  # as advise/ writes it

SEVERITY = {
    Severity.FATAL: "",
    Severity.DEGRADED: "the server lives, badly",
    Severity.CLIENT: "the server is fine, a caller erred",
}
SAFETY = {
    Safety.SAFE: "safe",
    Safety.TRADEOFF: "trade-off",
    Safety.MANUAL: "by hand",
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


def headline(diagnosis: Diagnosis) -> str:
    """`Diagnosed`, and in brackets what tempers it."""
    sure = "" if diagnosis.confidence >= 0.9 else "likely" if diagnosis.confidence >= 0.7 else "not certain"
    tempered = "; ".join(filter(None, [sure, SEVERITY[diagnosis.severity]]))
    return f"Diagnosed ({tempered})" if tempered else "Diagnosed"


def answer(
    page: Page,
    diagnosis: Diagnosis,
    headline: str,
    everything: bool,
    between: Callable[[], None] | None = None,
) -> None:
    """Verdict and cause, its line, the first fix; `between` adds to the page in front of that."""
    page.prose(f"{headline}: {sentence(diagnosis.title)}", style="bold red")
    page.blank()
    show_evidence(page, main_evidence(diagnosis), diagnosis, everything)
    if between is not None:
        between()
    if diagnosis.fixes:
        page.heading("What to do first")
        show_fix(page, diagnosis.fixes[0])


def background(page: Page, diagnosis: Diagnosis, everything: bool) -> None:
    """What stands below the answer."""
    if diagnosis.upstream:
        page.heading("Known upstream")
        for item in diagnosis.upstream:
            page.prose(item.said)
    if diagnosis.why:
        page.heading("Why")
        page.prose(diagnosis.why)
    proof(page, diagnosis, everything)
    others = diagnosis.fixes[1:]
    if others:
        page.heading("If that does not suit")
        shown = others if everything else others[:BRIEF]
        for number, fix in enumerate(shown, start=2):
            show_fix(page, fix, number, whole=everything, after=diagnosis.fixes[0])
        if left := len(others) - len(shown):
            page.prose(f"{counted(left, 'more fix', 'more fixes')}: --all", style="dim")
    if diagnosis.avoid:
        page.heading("Avoid")
        for text in diagnosis.avoid:
            page.prose(sentence(text), first="- ", indent="  ")


def proof(page: Page, diagnosis: Diagnosis, everything: bool) -> None:
    """More lines, what they explain, when it happened, how sure it is."""
    main = main_evidence(diagnosis)
    more = [item for item in diagnosis.evidence if (item.source, item.line) != (main.source, main.line)]
    if not everything:  # a consequence in the same input is told by its line
        told = {(item.source or diagnosis.source, item.line) for item in diagnosis.explains}
        more = [item for item in more if item.source != main.source or (item.source, item.line) not in told]
    if more:
        page.heading("More evidence")
        for item in more if everything else more[:BRIEF]:
            show_evidence(page, item, diagnosis, everything)
        left_out(page, len(more), everything)
    page.heading("How sure, and when")
    page.prose(" ".join([confidence_words(diagnosis.confidence), *_when(diagnosis, everything)]))
    if everything and diagnosis.facts:
        page.heading("Facts")
        for name, value in diagnosis.facts.items():
            page.prose(f"{name}: {value}", first="- ", indent="  ")


def _when(diagnosis: Diagnosis, everything: bool) -> Iterator[str]:
    """When it happened, how often, and what followed from it, in sentences."""
    if diagnosis.phase and diagnosis.phase in PHASES:
        yield f"It happened while the server was {PHASES[diagnosis.phase]} (phase: {diagnosis.phase.value})."
    if diagnosis.times > 1:
        last = _place(diagnosis.last_source, diagnosis.last_line)
        span = f", from line {diagnosis.line} to {last}" if diagnosis.last_line else ""
        when = f", {diagnosis.first_time} to {diagnosis.last_time}" if diagnosis.first_time else ""
        yield f"It happened {diagnosis.times} times{span}{when}."
    if diagnosis.recovered_at:
        yield f"A later start succeeded ({_place(diagnosis.recovered_in, diagnosis.recovered_at)})."
    again = [item for item in diagnosis.explains if item.rule and item.rule == diagnosis.rule]
    others = [item for item in diagnosis.explains if item not in again]
    if again:
        yield f"Repeated on {_places(again, everything)}."
    if others:
        yield f"Its {'consequence' if len(others) == 1 else 'consequences'}: {_places(others, everything)}."


def _places(items: list[Explained], everything: bool) -> str:
    """`lines 31, 48 and kernel.log:7`, those of the diagnosis's own input first."""
    shown = items if everything else items[:PLACES]
    own = [str(item.line) for item in shown if not item.source]
    named = [*own, *(f"{item.source}:{item.line}" for item in shown if item.source)]
    left = len(items) - len(shown)
    listed = (
        f"{', '.join(named)} and {left} more"
        if left
        else " and ".join(filter(None, [", ".join(named[:-1]), named[-1]]))
    )
    return f"line{'s' if len(own) > 1 else ''} {listed}" if own else listed


def _place(source: str, line: int) -> str:
    """A line of the diagnosis's own input, or of another."""
    return f"{source}:{line}" if source else f"line {line}"


def other(page: Page, number: int, diagnosis: Diagnosis, everything: bool) -> None:
    page.heading(f"Also wrong ({number})")
    if everything:
        answer(page, diagnosis, headline(diagnosis), everything)
        background(page, diagnosis, everything)
        references(page, diagnosis)
        return
    page.prose(f"{headline(diagnosis)}: {sentence(diagnosis.title)}")
    show_evidence(page, main_evidence(diagnosis), diagnosis, everything)
    for fix in diagnosis.fixes[:1]:
        show_fix(page, fix, whole=False)


def show_fix(page: Page, fix: Fix, number: int = 0, *, whole: bool = True, after: Fix | None = None) -> None:
    """A fix; not `whole`: the change alone, without the steps around it that the fix before has shown (`after`)."""
    if number > 2:
        page.blank()
    first = f"{number}. " if number else ""
    page.prose(f"{fix.do.strip().rstrip('.')} ({SAFETY[fix.safety]}).", first=first, indent=" " * len(first))
    commands(page, typed(fix, whole=whole, after=after))
    margin = " " * len(first)
    if fix.gives:
        page.prose(f"Gives: {fix.gives}{enough(fix.enough)}.", first=margin, indent=margin)
    if fix.note:
        page.prose(f"Note: {sentence(fix.note)}", first=margin, indent=margin)


def typed(fix: Fix, *, whole: bool, after: Fix | None = None) -> list[str]:
    """What to type for a fix; not `whole`: a command of one line, else the change alone.

    `after`: a fix above, whose commands around the change are not said again.
    """
    if whole or len(fix.run) == 1:
        return fix.run
    lines = fix.change or fix.run
    if after is None or not after.change or not fix.change:
        return lines
    first = next((at for at, line in enumerate(lines) if line not in after.change or line.startswith("#")), 0)
    last = lines.index(THEN) if THEN in lines and set(after.run) >= set(lines[lines.index(THEN) :]) else None
    return lines[first:last]


def enough(value: bool | None) -> str:
    """Whether a setting alone makes the server fit, as the end of a sentence; empty where that is not known."""
    return "" if value is None else "; enough by itself" if value else "; not enough by itself"


def commands(page: Page, lines: Iterable[str]) -> None:
    """Lines to type; what the ellipsis in them means is said below the first that has one."""
    for line in lines:
        page.command(line)
        if "ellipsis" not in page.said and _ELLIPSIS.search(line):
            page.said.add("ellipsis")
            page.command("# … stands for your other arguments")


def main_evidence(diagnosis: Diagnosis) -> Evidence:
    """The evidence on the diagnosis's own line, else the first, else a bare place."""
    for item in diagnosis.evidence:
        if (item.source, item.line) == (diagnosis.source, diagnosis.line):
            return item
    if diagnosis.evidence:
        return diagnosis.evidence[0]
    return Evidence(source=diagnosis.source, line=diagnosis.line, lane="", text="")


def show_evidence(page: Page, item: Evidence, diagnosis: Diagnosis, everything: bool) -> None:
    lane = f" in {item.lane}" if item.lane else ""
    page.prose(f"{item.source}:{item.line}{lane}", style="dim")
    rows = item.text.split("\n")
    limit = EVIDENCE_ROWS * (page.width - 2)
    around = [str(value) for value in diagnosis.facts.values()]
    for row in rows if everything else rows[:EVIDENCE_ROWS]:
        if row.strip():
            page.quote(row if everything else shorten(row, limit, around), first="  ", indent="  ")
    if not everything:
        left_out(page, len(rows), everything, EVIDENCE_ROWS, "  ")


def show_gap(page: Page, gap: Gap, said: str = "") -> None:
    """What is missing, in its own words or in others (`said`), and the command that gets it."""
    where = f" (line {gap.line})" if gap.line else ""
    page.prose(sentence(f"{said or gap.what}{where}"), first="- ", indent="  ")
    if gap.command:
        page.command(gap.command)


def references(page: Page, diagnosis: Diagnosis) -> None:
    if diagnosis.refs or diagnosis.rule:
        page.heading("To read")
        for link in diagnosis.refs:
            page.command(link)
        if diagnosis.rule:
            page.command(f"vdiag explain {diagnosis.rule}")


def left_out(page: Page, total: int, everything: bool, shown: int = BRIEF, indent: str = "") -> None:
    if not everything and total > shown:
        page.prose(f"({total - shown} more; --all shows them)", first=indent, indent=indent, style="dim")


def readiness(server: Environment) -> str:
    """The command that asks a server whether it is ready."""
    port = server.args.get("port", 8000)
    return f"curl -fsS http://localhost:{port if isinstance(port, int) else 8000}/health && echo ready"


def confidence_words(value: float) -> str:
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


def value_words(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", ":", "…", ">")) or not text else f"{text}."


def counted(number: int, word: str, plural: str = "") -> str:
    return f"{number:,} {word if number == 1 else plural or f'{word}s'}"


def size_words(size: int) -> str:
    for limit, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= limit:
            return f"{size / limit:.1f} {unit}"
    return f"{size} B"


def replaced(counts: dict[str, int]) -> str:
    """One sentence on what was redacted: how many different values of each kind."""
    if not counts:
        return "Redacted: nothing in it was secret or personal, as far as vdiag can tell."
    said = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    return f"Redacted, by kind of value: {said}. The same value has the same name throughout."
