"""The diagnoses as annotations of a GitHub workflow: `::error file=…,line=…,title=…::message` on standard output.

The escaping is that of GitHub's own toolkit. A line of a log can start no command of its own: it stands behind the
message's first words, and its line ends are escaped.
"""

from __future__ import annotations

import os
from collections import Counter

from vdiag.intake.sources import STDIN
from vdiag.model import Diagnosis, Report, Severity, Verdict
from vdiag.render.markdown import VERDICTS
from vdiag.render.page import harmless, shorten
from vdiag.render.sections import SAFETY, confidence_words, headline, main_evidence, sentence

MOST = 10  # annotations of one kind that GitHub shows of a step
LONGEST_TITLE, LONGEST_QUOTE = 200, 1_000  # characters

LEVELS = {Severity.FATAL: "error", Severity.DEGRADED: "warning", Severity.CLIENT: "notice"}


def render(report: Report, *, workspace: str = "") -> str:
    """One line each: a diagnosis, or a verdict without one. Paths inside `workspace` are told from there."""
    if not report.diagnoses:
        level = "notice" if report.verdict is Verdict.HEALTHY else "warning"
        return f"::{level} title=vdiag::{_message(VERDICTS[report.verdict])}\n"
    rows: list[str] = []
    counts: Counter[str] = Counter()
    for diagnosis in report.diagnoses:
        level = level_of(diagnosis)
        counts[level] += 1
        if counts[level] <= MOST:
            rows.append(_annotation(report, diagnosis, level, workspace))
    if left := len(report.diagnoses) - len(rows):
        rows.append(f"vdiag: {left} more, which GitHub would not show")
    return "\n".join(rows) + "\n"


def level_of(diagnosis: Diagnosis) -> str:
    """How GitHub marks it; a failure after which a later start succeeded is a warning."""
    if diagnosis.severity is Severity.FATAL and diagnosis.recovered_at is not None:
        return "warning"
    return LEVELS[diagnosis.severity]


def _annotation(report: Report, diagnosis: Diagnosis, level: str, workspace: str) -> str:
    main = main_evidence(diagnosis)
    known = report.verdict is Verdict.DIAGNOSED
    title = f"{headline(diagnosis)}: {diagnosis.title}" if known else VERDICTS[report.verdict]
    said = [shorten(main.text, LONGEST_QUOTE) or sentence(diagnosis.title)]
    for fix in diagnosis.fixes[:1]:
        said += [
            f"First: {fix.do.strip().rstrip('.')} ({SAFETY[fix.safety]}).",
            *(f"    {line}" for line in fix.run),
        ]
    said.append(confidence_words(diagnosis.confidence))
    properties = {"title": shorten(title, LONGEST_TITLE)}
    if main.source != STDIN:
        properties |= {"file": _path(main.source, workspace)}
        if main.line > 0:
            properties |= {"line": str(main.line)}
    message = _message("\n".join(said))
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {told}::{message}"


def _path(name: str, workspace: str) -> str:
    """A file's path from the workspace, where it lies in it; else as it was given."""
    if not workspace:
        return name
    root, path = os.path.realpath(workspace), os.path.realpath(name)
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else name


def _message(text: str) -> str:
    return harmless(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
