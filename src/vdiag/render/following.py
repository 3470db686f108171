"""What is shown while a log is followed: a repeated failure in one line, and the summary at the end."""

from __future__ import annotations

from vdiag.model import Diagnosis, Report, Verdict
from vdiag.render.page import Page
from vdiag.render.sections import counted, main_evidence, sentence, size_words

_NOW = {
    Verdict.HEALTHY: "Nothing is wrong now.",
    Verdict.STARTING: "A start has not failed so far.",
    Verdict.EMPTY: "Nothing was written.",
}


def repetition(report: Report, times: int, *, width: int = 80) -> Page:
    """One sentence for a failure that was shown before."""
    page = Page(width)
    first = report.diagnoses[0]
    when = f" at {first.last_time}" if first.last_time else ""
    page.prose(
        f"×{times} {sentence(first.title)} Again{when}, {first.source}:{first.last_line or first.line}.",
        style="bold",
        indent="   ",
    )
    return page


def summary(report: Report, *, width: int = 80) -> Page:
    """All failures that were followed, one paragraph each; they have been shown in full."""
    page = Page(width)
    lines, size = sum(read.lines for read in report.inputs), sum(read.bytes for read in report.inputs)
    failures = sum(diagnosis.times for diagnosis in report.diagnoses)
    page.heading(
        f"Summary: {counted(lines, 'line')} ({size_words(size)}) followed, {counted(failures, 'failure')}."
    )
    for diagnosis in report.diagnoses:
        page.prose(_paragraph(diagnosis), first="- ", indent="  ")
    if not report.diagnoses and report.verdict in _NOW:
        page.prose(_NOW[report.verdict])
    for note in report.notes:
        page.prose(sentence(note), first="- ", indent="  ")
    return page


def _paragraph(diagnosis: Diagnosis) -> str:
    place = main_evidence(diagnosis)
    times = f"×{diagnosis.times} " if diagnosis.times > 1 else ""
    last = f", last on line {diagnosis.last_line}" if diagnosis.times > 1 and diagnosis.last_line else ""
    span = f", {diagnosis.first_time} to {diagnosis.last_time}" if times and diagnosis.first_time else ""
    over = f" A later start succeeded (line {diagnosis.recovered_at})." if diagnosis.recovered_at else ""
    rule = f" (vdiag explain {diagnosis.rule})" if diagnosis.rule else ""
    return f"{times}{sentence(diagnosis.title)} {place.source}:{diagnosis.line}{last}{span}{rule}.{over}"


__all__ = ["repetition", "summary"]
