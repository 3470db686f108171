"""The report as GitHub shows it: Markdown within GitHub's limit, the diagnosis first, long parts folded.

Each part has a budget of characters and says what it leaves out. Whatever comes from a log is code or plain words, see
markup.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from vdiag.model import Diagnosis, Fix, Report, Severity, Verdict
from vdiag.render import budget, changes, load, terminal
from vdiag.render.markup import ROOM, code, fenced, fitting, folding, link, part, prose, size
from vdiag.render.page import Page, shorten
from vdiag.render.quoted import EVIDENCE, Lines, at, evidence, excerpt, log_around, place, wanted
from vdiag.render.sections import (
    PHASES,
    SAFETY,
    confidence_words,
    counted,
    headline,
    main_evidence,
    replaced,
    sentence,
    size_words,
    typed,
)

# Characters of each part at most. Together they leave some thousand for the log around the cause, which gets the rest.
ANSWER, FIRST, OTHERS = 6_000, 4_000, 7_000
SERVER, COMMAND, MEMORY, LOAD, CHANGES = 4_500, 4_000, 3_000, 2_500, 3_500
MISSING, ALSO_WRONG, ASIDE, MADE = 3_000, 5_000, 3_000, 2_500
LONGEST_TITLE = 200
LONGEST_QUOTE = 2_500  # characters of the cause's own text
PAGE = 100  # columns of a part that is laid out for a terminal
NOT_REDACTED = "Not redacted: lines of the log are quoted as they are."

VERDICTS = {
    Verdict.UNRECOGNISED: "Unrecognised: it failed, and no rule knows this failure",
    Verdict.INCOMPLETE: "Incomplete: the log says that it failed, but not why",
    Verdict.STARTING: "Starting: the log stops inside a start-up that has not failed",
    Verdict.HEALTHY: "Healthy: nothing in the log says that something is wrong",
    Verdict.EMPTY: "Empty: there is nothing about a vLLM server to read",
}


def render(report: Report, lines: Lines) -> str:
    """The whole text, of ROOM characters at most."""
    before = [f"## {title_of(report)}"]
    if report.diagnoses:
        first = report.diagnoses[0]
        before += [answer(report), *fixes(first, 3), evidence(report, lines, 3)]
    else:
        before += [told_plainly(report)]
    after = [
        server(report, 3),
        command(report, 3),
        *figures(report, 3),
        *_rest(report, lines),
        made(report, 3),
    ]
    return joined(report, lines, before, after)


def joined(report: Report, lines: Lines, before: Iterable[str], after: Iterable[str]) -> str:
    """Parts with the log around the cause between them, in the room that they leave."""
    first, last = list(filter(None, before)), list(filter(None, after))
    room = ROOM - sum(size(text) + 4 for text in (*first, *last))
    return "\n\n".join([*first, *log_around(report, lines, room), *last]) + "\n"


def title_of(report: Report) -> str:
    """The verdict, and the cause if it is known, as a heading says it."""
    if report.verdict is Verdict.DIAGNOSED and report.diagnoses:
        first = report.diagnoses[0]
        return f"{headline(first)}: {prose(shorten(first.title.strip().rstrip('.'), LONGEST_TITLE))}"
    return VERDICTS.get(report.verdict, report.verdict.value)


def told_plainly(report: Report) -> str:
    """A report without a diagnosis: the terminal's page, but for what has a part of its own here."""
    bare = msgspec.structs.replace(report, memory=None, load=None, changes=None, redacted=None)
    return fenced(terminal.render(bare, width=PAGE).plain().splitlines(), ANSWER + EVIDENCE)


# ---- the diagnosis ---------------------------------------------------------------------------------------


def answer(report: Report) -> str:
    """The line of the first diagnosis, why, how sure."""
    diagnosis = report.diagnoses[0]
    main = main_evidence(diagnosis)
    blocks = [place(main)]
    if report.verdict is Verdict.INCOMPLETE:
        blocks.insert(0, prose(f"What there is: {sentence(diagnosis.title)}"))
    if main.text:
        blocks.append(fenced(main.text.split("\n"), LONGEST_QUOTE))
    if diagnosis.why:
        blocks.append(prose(diagnosis.why))
    blocks += [f"{prose(sentence(item.said))} {link(item.url, 'The issue')}." for item in diagnosis.upstream]
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
    if diagnosis.frame and diagnosis.frame not in diagnosis.why:
        yield f"Raised at {code(diagnosis.frame)}."


def fixes(diagnosis: Diagnosis, level: int) -> list[str]:
    """The first fix, and folded the others with what to avoid and to read."""
    first = [block for fix in diagnosis.fixes[:1] for block in _fix(fix)]
    others = [block for number, fix in enumerate(diagnosis.fixes[1:], 2) for block in _fix(fix, number)]
    said = [counted(len(diagnosis.fixes) - 1, "more fix", "more fixes")] if others else []
    if diagnosis.avoid:
        said.append("what to avoid")
        others += [
            "**Avoid**",
            fitting((f"- {prose(sentence(t))}" for t in diagnosis.avoid), OTHERS // 3, "\n"),
        ]
    if diagnosis.refs:
        said.append("what to read")
        others += ["**To read**", fitting((f"- {link(ref)}" for ref in diagnosis.refs), OTHERS // 3, "\n")]
    return [
        part("What to do first", first, FIRST, level),
        folding(f"If that does not suit: {', '.join(said)}", others, OTHERS),
    ]


def _fix(fix: Fix, number: int = 0) -> list[str]:
    """A fix; a further one, with its number, as the change alone."""
    do = f"{prose(fix.do.strip().rstrip('.'))} ({SAFETY[fix.safety]})."
    blocks = [f"**{number}.** {do}" if number else do]
    lines = typed(fix, whole=not number)
    if len(lines) == 1 and lines[0].startswith(("https://", "http://")):
        blocks.append(link(lines[0]))
    elif lines:
        blocks.append(fenced([row for line in lines for row in line.split("\n")], FIRST // 2, language="sh"))
    if fix.note:
        blocks.append(prose(f"Note: {sentence(fix.note)}"))
    return blocks


# ---- the server and its figures --------------------------------------------------------------------------


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
    return part("Environment, as far as the log shows it", rows, SERVER, level, between="\n")


def command(report: Report, level: int) -> str:
    """How the server was started, and the arguments it printed."""
    told = report.environment
    blocks = []
    if told.command:
        blocks.append(fenced([told.command], COMMAND // 2, language="sh"))
    if told.args:
        rows = [f"{name} = {value!r}" for name, value in told.args.items()]
        blocks += ["Arguments that the log shows:", fenced(rows, COMMAND // 2 - 200)]
    return part("Command", blocks, COMMAND, level)


def figures(report: Report, level: int) -> list[str]:
    """Its memory, its load, what changed: sections of the terminal's page, each under its own heading."""
    failed = any(diagnosis.severity is Severity.FATAL for diagnosis in report.diagnoses[:1])
    memory, over_time, changed = Page(PAGE), Page(PAGE), Page(PAGE)
    if report.memory is not None:
        budget.show(memory, report.memory, True)
    if report.load is not None:
        load.show(over_time, report.load, failed=failed, everything=True)
    if report.changes is not None:
        changes.show(changed, report.changes, True)
    pages = ((memory, MEMORY), (over_time, LOAD), (changed, CHANGES))
    return [_figures(page, most, level) for page, most in pages]


def _figures(page: Page, most: int, level: int) -> str:
    title, *rows = page.plain().strip("\n").splitlines() or [""]
    return part(prose(title), [fenced(rows, most * 3 // 4)] if rows else [], most, level)


# ---- the rest --------------------------------------------------------------------------------------------


def _rest(report: Report, lines: Lines) -> list[str]:
    if not report.diagnoses:
        return []
    others = [block for diagnosis in report.diagnoses[1:] for block in _other(diagnosis, lines)]
    return [part("Also wrong", others, ALSO_WRONG, 3), missing(report, 3), _aside(report)]


def _other(diagnosis: Diagnosis, lines: Lines) -> list[str]:
    main = main_evidence(diagnosis)
    sure = confidence_words(diagnosis.confidence)
    return [
        f"**{headline(diagnosis)}:** {prose(sentence(diagnosis.title))} {sure}",
        f"{place(main)}:",
        excerpt(diagnosis, [main], lines, 2, ALSO_WRONG // 3),
        *(block for fix in diagnosis.fixes[:1] for block in _fix(fix)),
    ]


def missing(report: Report, level: int) -> str:
    """Notes, and what the inputs lack, with the command that gets it; a command that several need stands once.

    Without a diagnosis the page of the terminal has told them.
    """
    if not report.diagnoses:
        return ""
    said = set[str]()
    blocks = [f"- {prose(sentence(note))}" for note in report.notes]
    for read in report.inputs:
        for gap in read.gaps:
            where = f" (line {gap.line})" if gap.line else ""
            blocks.append(f"- {code(read.name)}: {prose(sentence(f'{gap.what}{where}'))}")
            if gap.command and gap.command not in said:
                said.add(gap.command)
                blocks.append(fenced(gap.command.split("\n"), 800, language="sh"))
    return part("Notes, and what is missing", blocks, MISSING, level)


def _aside(report: Report) -> str:
    rows = [
        f"- {at(item.source, item.line)} {code(shorten(item.text, 200))}: {prose(sentence(item.reason))}"
        for item in report.also_seen
    ]
    rows += [
        f"- {at(item.source, item.line)} looks alarming, is harmless: {prose(sentence(item.title))}"
        for item in report.harmless
    ]
    return folding(f"Also seen, and set aside: {counted(len(rows), 'line')}", rows, ASIDE, between="\n")


def made(report: Report, level: int) -> str:
    """How the report was made: what was read and replaced, by which rule and version; how to find the same failure."""
    said = replaced(report.redacted) if report.redacted is not None else NOT_REDACTED
    rows = [f"- {prose(said)}"]
    for first in report.diagnoses[:1]:
        rows.append(f"- rule: {code(first.rule)}" if first.rule else "- no rule knows it")
        if first.fingerprint:
            rows.append(f"- fingerprint: {code(first.fingerprint)}, the same for the same failure")
    for read in report.inputs:
        form = f", {code(read.format)}" if read.format != "plain" else ""
        rows.append(f"- {code(read.name)}: {counted(read.lines, 'line')}, {size_words(read.bytes)}{form}")
    footer = f"<sub>Made by vdiag {report.vdiag} from the log alone.</sub>"
    told = part("How this was made", rows, MADE - size(footer) - 4, level, between="\n")
    return f"{told}\n\n{footer}"


__all__ = ["render", "wanted"]
