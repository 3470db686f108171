"""The diagnoses as annotations of a GitHub workflow: `::error file=…,line=…,title=…::message` on standard output.

The escaping is that of GitHub's own toolkit. A line of a log can start no command of its own: it stands behind the
message's first words, and its line ends are escaped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest

from vdiag.intake.sources import STDIN
from vdiag.model import Diagnosis, Report, Severity, Verdict
from vdiag.render.markdown import VERDICTS
from vdiag.render.page import harmless, shorten
from vdiag.render.sections import SAFETY, confidence_words, headline, main_evidence, sentence

MOST = 10  # annotations of one kind that GitHub shows of a step
LONGEST_TITLE, LONGEST_QUOTE = 200, 1_000  # characters

LEVELS = {Severity.FATAL: "error", Severity.DEGRADED: "warning", Severity.CLIENT: "notice"}


def render(report: Report, paths: Sequence[str] = ()) -> str:
    """One line each: a diagnosis, or a verdict without one. `paths`: those of `paths_in`, where there are any."""
    if not report.diagnoses:
        level = "notice" if report.verdict is Verdict.HEALTHY else "warning"
        return f"::{level} title=vdiag::{_message(VERDICTS[report.verdict])}\n"
    rows: list[str] = []
    counts: Counter[str] = Counter()
    for diagnosis, path in zip_longest(report.diagnoses, paths, fillvalue=""):
        assert isinstance(diagnosis, Diagnosis)
        level = level_of(diagnosis)
        counts[level] += 1
        if counts[level] <= MOST:
            rows.append(_annotation(report, diagnosis, level, str(path)))
    if left := len(report.diagnoses) - len(rows):
        rows.append(f"vdiag: {left} more, which GitHub would not show")
    return "\n".join(rows) + "\n"


def paths_in(report: Report, workspace: str) -> list[str]:
    """The path of each diagnosis's file from the workspace; empty where it does not lie in it."""
    if not workspace:
        return []
    root = os.path.realpath(workspace)
    found = [os.path.realpath(main_evidence(diagnosis).source) for diagnosis in report.diagnoses]
    return [os.path.relpath(path, root) if path.startswith(root + os.sep) else "" for path in found]


def level_of(diagnosis: Diagnosis) -> str:
    """How GitHub marks it; a failure after which a later start succeeded is a warning."""
    if diagnosis.severity is Severity.FATAL and diagnosis.recovered_at is not None:
        return "warning"
    return LEVELS[diagnosis.severity]


def _annotation(report: Report, diagnosis: Diagnosis, level: str, path: str) -> str:
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
        properties |= {"file": path or main.source}
        if main.line > 0:
            properties |= {"line": str(main.line)}
    message = _message("\n".join(said))
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {told}::{message}"


def _message(text: str) -> str:
    return harmless(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
