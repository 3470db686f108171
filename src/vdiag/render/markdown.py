"""The report as GitHub shows it: Markdown within GitHub's limit, the diagnosis first, long parts folded.

Each part has a budget of characters and says what it leaves out. Whatever comes from a log is code or plain words (see
markup.py). A browser counts a line end as two characters and GitHub does not say what it counts; `markup.size` is never
too small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from vdiag.model import Diagnosis, Evidence, Fix, Line, Report, Verdict
from vdiag.render import budget, changes, load, terminal
from vdiag.render.markup import code, fenced, fitting, folded, link, prose, size
from vdiag.render.page import Page, shorten
from vdiag.render.sections import (
    PHASES,
    SAFETY,
    confidence_words,
    counted,
    headline,
    main_evidence,
    sentence,
    size_words,
)
from vdiag.render.spans import Stretches, Wanted

LIMIT = 65_536  # characters of an issue or a comment on GitHub
ROOM = 64_000  # of them for the report; the rest is for what a person adds

# Characters of each part at most. Together they leave some thousand for the log around the cause, which gets the rest.
ANSWER, FIRST, OTHERS, EVIDENCE, EXPLAINS = 6_000, 4_000, 7_000, 9_000, 2_500
SERVER, COMMAND, MEMORY, LOAD, CHANGES = 4_500, 4_000, 3_000, 2_500, 3_500
MISSING, ALSO_WRONG, ASIDE, MADE = 3_000, 5_000, 3_000, 2_500
MOST_LOG = 24_000  # of the log around the cause: nobody reads more

NEAR = 4  # lines shown before and after a line of evidence
BEFORE, AFTER = 150, 30  # lines of the folded log around the cause: a traceback stands above its exception
END = 25  # last lines of the log
LONGEST_ROW, LONGEST_CAUSE = 400, 2_000  # characters of a line of the log; of one that is evidence
PAGE = 100  # columns of a part that is laid out for a terminal

VERDICTS = {
    Verdict.UNRECOGNISED: "Unrecognised: it failed, and no rule knows this failure",
    Verdict.INCOMPLETE: "Incomplete: the log says that it failed, but not why",
    Verdict.STARTING: "Starting: the log stops inside a start-up that has not failed",
    Verdict.HEALTHY: "Healthy: nothing in the log says that something is wrong",
    Verdict.EMPTY: "Empty: there is nothing about a vLLM server to read",
}

Lines = Mapping[str, Sequence[Line]]


def wanted(report: Report) -> Stretches:
    """The lines to show, by input."""
    found = Wanted()
    for number, diagnosis in enumerate(report.diagnoses):
        before, after = (NEAR, NEAR) if number else (BEFORE, AFTER)
        found.add(diagnosis.source, diagnosis.line, before, after)
        for evidence in diagnosis.evidence:
            found.add(evidence.source, evidence.line, NEAR, NEAR)
        for explained in diagnosis.explains:
            found.add(explained.source or diagnosis.source, explained.line, 0, 0)
    for read in report.inputs:
        if report.diagnoses and read.name == report.diagnoses[0].source:
            found.add(read.name, read.lines, END - 1, 0)
    return found.told()


def render(report: Report, lines: Lines) -> str:
    """The whole text; with ROOM characters at most, as `size` counts them."""
    title = f"## {title_of(report)}"
    before = [title, *_answer_parts(report, lines, 3)]
    after = [*numbers(report, 3), *_rest(report, lines, 3), made(report, 3)]
    room = ROOM - sum(size(part) + 4 for part in (*before, *after))
    return "\n\n".join(filter(None, [*before, *log_around(report, lines, room), *after])) + "\n"


def title_of(report: Report) -> str:
    """The verdict, and the cause if it is known, as a heading says it."""
    if report.verdict is Verdict.DIAGNOSED and report.diagnoses:
        first = report.diagnoses[0]
        return f"{headline(first)}: {prose(first.title).rstrip('.')}"
    return VERDICTS.get(report.verdict, report.verdict.value)


def _answer_parts(report: Report, lines: Lines, level: int) -> list[str]:
    if not report.diagnoses:
        return [told_plainly(report)]
    first = report.diagnoses[0]
    return [answer(first), *fixes(first, level), evidence(report, lines, level)]


def told_plainly(report: Report) -> str:
    """A report without a diagnosis: the terminal's page."""
    rows = terminal.render(report, width=PAGE).plain().splitlines()
    return fitting([fenced(rows, ANSWER + EVIDENCE - 100)], ANSWER + EVIDENCE)


# ---- the diagnosis ---------------------------------------------------------------------------------------


def answer(diagnosis: Diagnosis) -> str:
    """Its line, why, how sure."""
    main = main_evidence(diagnosis)
    blocks = [place(main)]
    if main.text:
        blocks.append(fenced(main.text.split("\n"), LONGEST_CAUSE + 500))
    if diagnosis.rule is None:
        blocks.append(prose(sentence(diagnosis.title)))
    if diagnosis.why:
        blocks.append(prose(diagnosis.why))
    blocks += [prose(item.said) + f" {link(item.url, 'The issue')}." for item in diagnosis.upstream]
    blocks.append(" ".join(_sure(diagnosis)))
    return fitting(blocks, ANSWER)


def _sure(diagnosis: Diagnosis) -> Iterable[str]:
    yield confidence_words(diagnosis.confidence)
    if diagnosis.phase in PHASES:
        yield f"It happened while the server was {PHASES[diagnosis.phase]} (phase: {diagnosis.phase.value})."
    if diagnosis.times > 1:
        when = f", {diagnosis.first_time} to {diagnosis.last_time}" if diagnosis.first_time else ""
        yield prose(f"It happened {diagnosis.times} times{when}.")
    if diagnosis.recovered_at:
        where = at(diagnosis.recovered_in or diagnosis.source, diagnosis.recovered_at)
        yield f"A later start succeeded ({where})."
    if diagnosis.frame:
        yield f"Raised at {code(diagnosis.frame)}."


def at(source: str, line: int) -> str:
    """A place in an input."""
    return code(f"{source}:{line}")


def place(item: Evidence) -> str:
    """Where a line stands, and whose it is."""
    return at(item.source, item.line) + (f" in {code(item.lane)}" if item.lane else "")


def fixes(diagnosis: Diagnosis, level: int) -> list[str]:
    """The first fix, and folded the others with what to avoid."""
    if not diagnosis.fixes:
        return []
    first = _part("What to do first", _fix(diagnosis.fixes[0]), FIRST, level)
    others = [block for number, fix in enumerate(diagnosis.fixes[1:], 2) for block in _fix(fix, number)]
    if diagnosis.avoid:
        others += ["**Avoid**", *(f"- {prose(sentence(text))}" for text in diagnosis.avoid)]
    others += [f"- {link(address)}" for address in diagnosis.refs]
    more = counted(len(diagnosis.fixes) - 1, "more fix", "more fixes")
    return [first, _folded(f"If that does not suit: {more}, what to avoid, what to read", others, OTHERS)]


def _fix(fix: Fix, number: int = 0) -> list[str]:
    do = f"{prose(fix.do.strip().rstrip('.'))} ({SAFETY[fix.safety]})."
    blocks = [f"**{number}.** {do}" if number else do]
    if fix.run:
        blocks.append(
            fenced([row for line in fix.run for row in line.split("\n")], FIRST // 2, language="sh")
        )
    if fix.note:
        blocks.append(prose(f"Note: {sentence(fix.note)}"))
    return blocks


# ---- the log ---------------------------------------------------------------------------------------------


def evidence(report: Report, lines: Lines, level: int) -> str:
    """The lines that prove it, each with a few around it, and those that it explains."""
    diagnosis = report.diagnoses[0]
    items = diagnosis.evidence or [main_evidence(diagnosis)]
    blocks = []
    most = (EVIDENCE - 500) // max(len(items), 1)
    for item in items:
        shown = excerpt(diagnosis, item, lines, NEAR, NEAR, most - 400)
        blocks += [f"{place(item)}:", shown] if shown else []
    explained = _explained(diagnosis, lines)
    return "\n\n".join(filter(None, [_part("Evidence", blocks, EVIDENCE, level), explained]))


def excerpt(diagnosis: Diagnosis, item: Evidence, lines: Lines, before: int, after: int, most: int) -> str:
    """The line of a piece of evidence with its neighbours; the text of the evidence where it cannot be read again."""
    near = [
        line for line in lines.get(item.source, ()) if item.line - before <= line.number <= item.line + after
    ]
    if not any(line.number == item.line for line in near):
        near = [Line(item.line, row, item.lane) for row in item.text.split("\n") if row.strip()]
    marked = {e.line for e in diagnosis.evidence if e.source == item.source} | {item.line}
    return _block(near, marked, diagnosis, item.line, most)


def _block(lines: Sequence[Line], marked: set[int], diagnosis: Diagnosis, keep: int, most: int) -> str:
    """Numbered lines, those of evidence marked by `>`; lines that do not follow each other have a mark between."""
    if not lines:
        return ""
    width = len(str(lines[-1].number))
    around = [str(value) for value in diagnosis.facts.values()]
    rows: list[str] = []
    kept = 0
    for before, line in pairwise([None, *lines]):
        assert line is not None
        if before is not None and line.number > before.number + 1:
            rows.append(f"  {'…':>{width}} |")
        own = line.number in marked
        text = shorten(line.text, LONGEST_CAUSE if own else LONGEST_ROW, around if own else ())
        if line.number == keep and not kept:
            kept = len(rows)
        rows.append(f"{'>' if own else ' '} {line.number:>{width}} | {text}".rstrip())
    return fenced(rows, most, keep=kept)


def _explained(diagnosis: Diagnosis, lines: Lines) -> str:
    """The later lines that the cause explains."""
    own = [(e.source or diagnosis.source, e.line) for e in diagnosis.explains]
    blocks = []
    for source in dict.fromkeys(source for source, _ in own):
        numbers = {line for name, line in own if name == source}
        first = {line.number: line for line in reversed(lines.get(source, ())) if line.number in numbers}
        told = [first[number] for number in sorted(first)]
        if told:
            blocks += [f"In {code(source)}:", _block(told, set(), diagnosis, told[0].number, EXPLAINS // 2)]
    summary = f"What it explains: {counted(len(own), 'line')} that this cause led to"
    return _folded(summary, blocks, EXPLAINS)


def log_around(report: Report, lines: Lines, room: int) -> list[str]:
    """Folded, and within `room`: the log around the cause, and its end."""
    if not report.diagnoses:
        return []
    diagnosis = report.diagnoses[0]
    own = lines.get(diagnosis.source, ())
    around = [one for one in own if diagnosis.line - BEFORE <= one.number <= diagnosis.line + AFTER]
    last = own[-1].number if own else 0
    end = [one for one in own if one.number > max(last - END, around[-1].number if around else 0)]
    marked = {e.line for e in diagnosis.evidence if e.source == diagnosis.source} | {diagnosis.line}
    most = min(room, MOST_LOG)
    parts = []
    for said, some, keep, share in (
        ("around the cause", around, diagnosis.line, most * 3 // 4),
        ("at its end", end, last, most // 4),
    ):
        if not some or share < 1_000:
            continue
        block = _block(some, marked, diagnosis, keep, share - 500)
        name = f"lines {some[0].number} to {some[-1].number} of {shorten(diagnosis.source, 200)}"
        parts.append(_folded(f"The log {said}: {name}", [block], share))
    return parts


# ---- the server and its figures --------------------------------------------------------------------------


def numbers(report: Report, level: int) -> list[str]:
    """The server, its command, its memory, its load, what changed."""
    parts = [server(report, level), command(report, level)]
    for title, told, most in (
        ("Memory on the card", report.memory and _page(budget.show, report.memory), MEMORY),
        ("Load", report.load and _page(load.show, report.load), LOAD),
        ("What changed", report.changes and _page(changes.show, report.changes), CHANGES),
    ):
        if told:
            parts.append(_part(title, [fenced(told, most - 100)], most, level))
    return parts


def server(report: Report, level: int) -> str:
    """What the log says of the server, one item a line."""
    told = report.environment
    items = {
        "vLLM": told.vllm,
        "engine": told.engine,
        "model": told.model,
        "run by": told.deploy,
        "platform": told.platform,
        "card": told.gpu,
        "driver": told.driver,
        **told.packages,
    }
    rows = [f"- {name}: {code(value)}" for name, value in items.items() if value]
    return _part("Environment", ["\n".join(rows)] if rows else [], SERVER, level)


def command(report: Report, level: int) -> str:
    """How the server was started, and the arguments it printed."""
    told = report.environment
    blocks = []
    if told.command:
        blocks.append(fenced([told.command], COMMAND // 2, language="sh"))
    if told.args:
        rows = [f"{name} = {value!r}" for name, value in told.args.items()]
        blocks += ["Arguments that the log shows:", fenced(rows, COMMAND // 2 - 200)]
    return _part("Command", blocks, COMMAND, level)


def _page(show: object, told: object) -> list[str]:
    """The rows of a part that is laid out for a terminal, without its heading."""
    page = Page(PAGE)
    assert callable(show)
    show(page, told, True)
    rows = page.plain().strip("\n").splitlines()
    return rows[1:] if len(rows) > 1 else rows


# ---- the rest --------------------------------------------------------------------------------------------


def _rest(report: Report, lines: Lines, level: int) -> list[str]:
    others = [block for diagnosis in report.diagnoses[1:] for block in _other(diagnosis, lines)]
    return [
        _part("Also wrong", others, ALSO_WRONG, level),
        missing(report, level) if report.diagnoses else "",
        _aside(report) if report.diagnoses else "",
    ]


def _other(diagnosis: Diagnosis, lines: Lines) -> list[str]:
    main = main_evidence(diagnosis)
    title = f"**{headline(diagnosis)}:** {prose(sentence(diagnosis.title))} {confidence_words(diagnosis.confidence)}"
    shown = excerpt(diagnosis, main, lines, NEAR // 2, NEAR // 2, ALSO_WRONG // 3)
    return [title, f"{place(main)}:", shown, *(block for fix in diagnosis.fixes[:1] for block in _fix(fix))]


def missing(report: Report, level: int) -> str:
    """Notes, and what the inputs lack, with the command that gets it."""
    blocks = [f"- {prose(sentence(note))}" for note in report.notes]
    for read in report.inputs:
        for gap in read.gaps:
            where = f" (line {gap.line})" if gap.line else ""
            blocks.append(f"- {code(read.name)}: {prose(sentence(f'{gap.what}{where}'))}")
            if gap.command:
                blocks.append(fenced(gap.command.split("\n"), 600, language="sh"))
    return _part("Notes, and what is missing", blocks, MISSING, level)


def _aside(report: Report) -> str:
    blocks = [
        f"- {at(item.source, item.line)} {code(shorten(item.text, LONGEST_ROW // 2))}: {prose(item.reason)}"
        for item in report.also_seen
    ]
    blocks += [
        f"- {at(item.source, item.line)} looks alarming, is harmless: {prose(sentence(item.title))}"
        for item in report.harmless
    ]
    return _folded(f"Also seen, and set aside: {counted(len(blocks), 'line')}", blocks, ASIDE)


def made(report: Report, level: int) -> str:
    """How the report was made: inputs, what was replaced, by which version; and how to find the same failure."""
    blocks = [
        f"- {code(read.name)}: {counted(read.lines, 'line')}, {size_words(read.bytes)}"
        + (f", {prose(read.format)}" if read.format != "plain" else "")
        for read in report.inputs
    ]
    blocks.append(f"- {replaced(report)}")
    blocks += [
        f"- rule {code(first.rule)}" if first.rule else f"- no rule; {link(first.search, 'search for it')}"
        for first in report.diagnoses[:1]
        if first.rule or first.search
    ]
    blocks += [
        f"- fingerprint {code(first.fingerprint)}: the same failure has the same one"
        for first in report.diagnoses[:1]
        if first.fingerprint
    ]
    text = _part("How this was made", ["\n".join(blocks[:20]), *blocks[20:]], MADE - 200, level)
    return f"{text}\n\n<sub>Made by vdiag {report.vdiag} from the log alone, without any network.</sub>"


def replaced(report: Report) -> str:
    """What was replaced by pseudonyms."""
    if report.redacted is None:
        return "**Not redacted**: lines of the log are quoted as they are."
    told = [f"{number} × {prose(kind)}" for kind, number in report.redacted.items() if number]
    return f"Replaced by pseudonyms: {', '.join(told)}." if told else "Redacted: nothing had to be replaced."


def _part(title: str, blocks: Iterable[str], most: int, level: int) -> str:
    """A heading and what fits below it; nothing where there is nothing to say."""
    head = f"{'#' * level} {title}"
    told = fitting(filter(None, blocks), most - size(head) - 4)
    return f"{head}\n\n{told}" if told else ""


def _folded(summary: str, blocks: Iterable[str], most: int) -> str:
    told = fitting(filter(None, blocks), most - size(folded(summary, "")))
    return folded(summary, told) if told else ""
