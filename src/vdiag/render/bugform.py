"""vLLM's bug report form, filled: its headings, ready to paste, behind what the reporter should know before filing.

The headings are those that GitHub makes of the form's fields (`.github/ISSUE_TEMPLATE/400-bug-report.yml` of vLLM).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from vdiag.model import Diagnosis, Report, Verdict
from vdiag.reason.unknown import search_for, search_words
from vdiag.render.markdown import (
    answer,
    command,
    figures,
    fixes,
    joined,
    made,
    missing,
    server,
    title_of,
    told_plainly,
)
from vdiag.render.markup import code, fenced, fitting, folded, link, prose
from vdiag.render.page import shorten
from vdiag.render.quoted import Lines, evidence, wanted
from vdiag.render.sections import main_evidence, sentence

ENVIRONMENT = "### Your current environment"
BUG = "### 🐛 Describe the bug"
BEFORE = "### Before submitting a new issue..."
CHECKED = (
    "- [ ] Make sure you already searched for relevant issues, and asked the chatbot living at the bottom right corner "
    "of the [documentation page](https://docs.vllm.ai/en/latest/), which can answer lots of frequently asked questions."
)
COLLECT = (
    "Replace these lines by the output. On the machine where it failed, in the server's environment:",
    "",
    "    wget https://raw.githubusercontent.com/vllm-project/vllm/main/vllm/collect_env.py",
    "    python collect_env.py",
    "",
    "With vLLM 0.8.5 or newer the same is: vllm collect-env",
)
TO_ADD = (
    "Before you submit it, add what no log tells: the output of `collect_env.py`, the shortest code or request that "
    "makes it fail, and what you expected."
)
LONGEST_TITLE, LONGEST_ADVICE = 120, 800  # characters
SEARCHES = 2_000  # of the list of links
LIKELY = 0.7  # confidence from which a known cause speaks against filing


class Whose(Enum):
    """Whether a failure is worth an issue at vLLM, as far as the log tells."""

    UNKNOWN = "unknown"  # no rule knows it: it may be a bug of vLLM
    DOUBTFUL = "doubtful"  # a cause is named, without certainty
    UPSTREAM = "upstream"  # an issue about it exists
    OWN = "own"  # a known cause with a known cure
    CUT_OFF = "cut off"  # the cause is not in the log
    STARTING = "starting"  # it has not failed, and not come to serve
    NOTHING = "nothing"  # nothing failed, by the log


def whose(report: Report) -> Whose:
    """Judged by the first diagnosis."""
    if report.verdict is Verdict.UNRECOGNISED:
        return Whose.UNKNOWN
    if report.verdict is Verdict.INCOMPLETE:
        return Whose.CUT_OFF
    if report.verdict is Verdict.STARTING:
        return Whose.STARTING
    if not report.diagnoses:
        return Whose.NOTHING
    first = report.diagnoses[0]
    if first.upstream:
        return Whose.UPSTREAM
    return Whose.OWN if first.confidence >= LIKELY and first.fixes else Whose.DOUBTFUL


def advice(report: Report) -> str:
    """One sentence or two for the person who is about to file, without any markup."""
    kind = whose(report)
    if kind is Whose.UNKNOWN:
        return "No rule of vdiag knows this failure, so it may be a bug of vLLM. Search first: the links are in the text."
    if kind is Whose.CUT_OFF:
        return (
            "The cause is not in this log, and nobody can find it without it. "
            "Do not file yet: get the rest of the log and run vdiag again."
        )
    if kind is Whose.STARTING:
        return (
            "By this log the server was still starting, and nothing had failed. If it hangs there, say for how long, "
            "and take the log of a start with VLLM_LOGGING_LEVEL=DEBUG; if it ended there, the log of its end is needed."
        )
    if kind is Whose.NOTHING:
        return "By this log nothing failed. Do not file it as a bug: the log of the failure is needed."
    first = report.diagnoses[0]
    if kind is Whose.UPSTREAM:
        return " ".join(
            ["This failure is known; there is an issue about it. Do not file another one.", *_known(first)]
        )
    named = f"{first.title.strip().rstrip('.')} ({first.rule})"
    if kind is Whose.OWN:
        return (
            f"This failure is known: {named}. The first cure is: {first.fixes[0].do.strip().rstrip('.')}. "
            "Do not file before you have tried it; if it does not help, say so in the report."
        )
    return f"vdiag is not certain of the cause: {named}. Rule that out first."


def _known(first: Diagnosis) -> Iterable[str]:
    for item in first.upstream:
        yield sentence(item.said)
        if item.has_fix:
            yield f"Your version has that fix: say so in {item.issue}."
        elif item.has_fix is False:
            yield f"Upgrade {item.package} to {item.fixed_in} or newer instead."


def render(report: Report, lines: Lines) -> str:
    """What to know before filing, a line to cut at, and the form's sections; no longer than an issue may be."""
    before = [*_preface(report), "---", ENVIRONMENT, server(report, 4), _collect(), BUG, *_bug(report, lines)]
    after = [*figures(_without_levers(report), 4), missing(report, 4), made(report, 4), BEFORE, CHECKED]
    return joined(report, lines, before, after)


def _without_levers(report: Report) -> Report:
    """What would change the memory is for the operator, who has it in the fixes."""
    if report.memory is None:
        return report
    return msgspec.structs.replace(report, memory=msgspec.structs.replace(report.memory, levers=[]))


def _preface(report: Report) -> Iterable[str]:
    yield (
        f"> [!IMPORTANT]\n> {prose(shorten(advice(report), LONGEST_ADVICE))}\n>\n"
        "> This part is for you: read it, and paste only what stands below the line."
    )
    if not report.diagnoses:
        return
    first = report.diagnoses[0]
    links = [
        f"- {link(search(first), 'by its message')}",
        f"- {link(search_words(first.fingerprint), 'by its fingerprint')}, which reports made by vdiag hold",
        *(f"- {link(item.url, 'known upstream')}: {code(item.issue)}" for item in first.upstream),
    ]
    yield f"Title: {code(issue_title(first))}"
    yield "Search for the same failure before you file:"
    yield fitting(links, SEARCHES, "\n")
    yield from fixes(first, 4)
    if whose(report) is not Whose.CUT_OFF:
        yield prose(TO_ADD)


def issue_title(first: Diagnosis) -> str:
    """`[Bug]: ` and the message, as the form begins it."""
    said = main_evidence(first).text.split("\n")[0].strip() or first.title
    return f"[Bug]: {shorten(said, LONGEST_TITLE)}"


def search(first: Diagnosis) -> str:
    """A search of vLLM's issues for the message."""
    return first.search or search_for(main_evidence(first).text.split("\n")[0] or first.title)


def _collect() -> str:
    """Where the output of vLLM's own script goes; vdiag reads logs and cannot make it."""
    text = folded("The output of python collect_env.py", fenced(COLLECT, 1_000))
    return text.replace("python collect_env.py</summary>", "<code>python collect_env.py</code></summary>")


def _bug(report: Report, lines: Lines) -> list[str]:
    if not report.diagnoses:
        return [told_plainly(report), command(report, 4)]
    return [
        f"**{title_of(report)}**",
        answer(report),
        command(report, 4),
        evidence(report, lines, 4),
    ]


__all__ = ["advice", "render", "wanted", "whose"]
