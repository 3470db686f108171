"""Exit statuses: what a script learns without reading the output."""

from __future__ import annotations

from enum import IntEnum

from vdiag.model import Report, Severity, Verdict


class ExitStatus(IntEnum):
    """What `vdiag` exits with."""

    OK = 0  # nothing wrong, or nothing as bad as --fail-on asks
    DIAGNOSED = 1  # it failed and the cause is known
    USAGE = 2  # the call was at fault: a bad option, an unreadable file, a broken rulebook
    NO_ANSWER = 3  # unrecognised, incomplete, starting, empty
    INTERRUPTED = 130  # Ctrl-C


_RANK = {Severity.CLIENT: 0, Severity.DEGRADED: 1, Severity.FATAL: 2}


def status_of(report: Report, fail_on: Severity = Severity.CLIENT) -> ExitStatus:
    """The status a report stands for; diagnoses milder than `fail_on` do not count."""
    if report.verdict is Verdict.HEALTHY:
        return ExitStatus.OK
    if report.verdict is not Verdict.DIAGNOSED:
        return ExitStatus.NO_ANSWER
    counted = any(_RANK[diagnosis.severity] >= _RANK[fail_on] for diagnosis in report.diagnoses)
    return ExitStatus.DIAGNOSED if counted else ExitStatus.OK
