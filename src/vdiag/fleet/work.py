"""The pure function that runs in every worker: one task in, a row out, or one for each server in its log."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Sequence
from time import gmtime, strftime
from typing import BinaryIO, NamedTuple, cast

import msgspec

from vdiag.fleet.names import is_generic
from vdiag.fleet.streams import SAMPLE, Watched, digest, exactly, open_at
from vdiag.fleet.task import Done, Settings, Task
from vdiag.fleet.texts import valid_texts
from vdiag.fleet.unpacked import members
from vdiag.fleet_model import Other, Row
from vdiag.intake.folders import TOO_MUCH
from vdiag.intake.formats import detect
from vdiag.intake.rotated import Continued
from vdiag.intake.sources import Source, SourceError
from vdiag.match.matcher import Matcher
from vdiag.model import Diagnosis, Kind, Report, Role, Severity, Verdict
from vdiag.pipeline import Reading, examine
from vdiag.pipeline import each as servers_of
from vdiag.reason.clock import UPTIME, UTC, YEARLESS, Stamp, in_year_of, parse
from vdiag.reason.servers import at_once, of_a_server
from vdiag.reason.speakers import Who
from vdiag.reason.window import OUTSIDE
from vdiag.redact import Redactor
from vdiag.redact.listening import Listener
from vdiag.rulebook.schema import Rule

CONTEXT = 1 << 20  # bytes before what is new that are read again
LONGEST = 400  # characters of a quoted line
TITLE = 200
LATEST = 1e10  # seconds since 1970: a file of a later time has a clock that was never set
MOST_OTHERS = 8
_FAILING = (Verdict.DIAGNOSED, Verdict.UNRECOGNISED, Verdict.INCOMPLETE)
_SPREAD = ("journald export", "journald verbose", "journald json-pretty")  # entries of many lines


def cause_of(verdict: str, rule: str | None, fingerprint: str, title: str) -> str:
    """What makes two failures the same: the verdict with the rule, without one the fingerprint."""
    return f"{verdict}:{rule or fingerprint or title}"


class _Inputs(NamedTuple):
    """The sources of a task, and what reading them tells."""

    sources: list[Source]
    watched: list[Watched]  # one for each path from `first` on; none for a bundle
    first: int = 0
    context: bytes = b""  # what was read before and is read again
    base: int = 0  # lines before the first that is read
    how: str = "whole"


def row(task: Task, matcher: Matcher, settings: Settings) -> Done:
    """What the log of a task came to. It raises nothing: what goes wrong is the row's error."""
    try:
        return valid_texts(_row(task, matcher, settings))
    except (OSError, SourceError) as error:
        why = getattr(error, "strerror", None) or str(error)
    except MemoryError:
        why = "there was not enough memory to read it"
    except Exception as error:  # one log must not end the run of ten thousand
        why = f"internal error: {type(error).__name__}: {' '.join(str(error).split())}"[:LONGEST]
    return unread(task, f"could not be read: {why}")


def unread(task: Task, why: str) -> Done:
    """The row of a task that could not be read."""
    return valid_texts(Done(_blank(task, why)))


def _blank(task: Task, error: str = "") -> Row:
    return Row(input=task.name, node=task.node, replica=task.replica, error=error)


def _row(task: Task, matcher: Matcher, settings: Settings) -> Done:
    inputs = _inputs(task, settings)
    redactor = Redactor() if settings.redact else None
    if redactor is not None:
        listener = Listener(redactor)
        for source in inputs.sources:
            source.open = listener.hearing(source.open)
    reports, reading = _reports(inputs.sources, matcher, settings)
    before: dict[Who, Report] = {}
    if inputs.how == "resumed":
        before, _ = _reports([_of(inputs.context, task.name)], matcher, settings)
    found = [Done(_told(task, report), how=inputs.how, who=_written(who)) for who, report in reports.items()]
    gaps = [gap.what for read in reading.inputs for gap in read.gaps]
    named = [who for who in sorted(reading.speakers) if any(who)] if len(reading.inputs) == 1 else []
    silent = [who for who in named if who not in reports] if len(named) > 1 else []
    for done, who in zip(found, reports, strict=True):
        several = len(reports) > 1 or len(silent) > 0
        _surroundings(done.row, reading, matcher.rulebook.rules, who if several and any(who) else None)
        done.outside = next((gap for gap in gaps if gap.startswith(OUTSIDE)), "")
        _place(done, task, inputs)
        alone = len(reports) == len(before) == 1
        if (again := next(iter(before.values())) if alone else before.get(who)) is not None:
            done.before = counts(_told(task, again))
        if redactor is not None:
            shown = _quoted(done.row)
            done.told = [(k, value) for k, value in redactor.known() if len(value) > 1 and value in shown]
    found += [_silent(task, who) for who in silent]
    if silent and not found[0].who and not found[0].row.failed:  # none of them spoke in the time asked for
        whole = found.pop(0)
        found[0].row.bytes, found[0].row.lines = whole.row.bytes, whole.row.lines
        found[0].outside = whole.outside
    first, *first.more = found
    for done in first.more:
        done.row.bytes = done.row.lines = 0
    if settings.remember and not first.row.error:
        first.seen = [watched.seen() for watched in inputs.watched]
    return first


def _reports(
    sources: Sequence[Source], matcher: Matcher, settings: Settings
) -> tuple[dict[Who, Report], Reading]:
    """The report on each server that these sources tell of."""
    report, reading = examine(sources, matcher, window=settings.window)
    return servers_of(report, reading), reading


def _silent(task: Task, who: Who) -> Done:
    """The row of a server that said nothing in the time asked for, in a log of several."""
    row = _blank(task)
    row.verdict, row.server = Verdict.HEALTHY.value, True
    row.node, row.replica = who.host or row.node, _replica(who)
    return Done(row, who=_written(who))


def _replica(who: Who) -> str:
    return f"{who.host}/{who.unit}" if who.host and is_generic(who.unit) else who.unit or who.host


def _written(who: Who) -> str:
    return " ".join(filter(None, who))


class Told(NamedTuple):
    """A cause as it stands in a row."""

    verdict: str
    rule: str | None
    title: str
    fingerprint: str
    severity: str
    times: int
    first: bool  # it is the row's first diagnosis


def causes(row: Row) -> dict[str, Told]:
    """The causes in a row, the first diagnosis first."""
    if not row.times:
        return {}
    told = [
        Told(row.verdict, row.rule, row.title, row.fingerprint, row.severity, row.times, True),
        *(Told(**msgspec.structs.asdict(other), first=False) for other in row.others),
    ]
    found: dict[str, Told] = {}
    for item in told:
        cause = cause_of(item.verdict, item.rule, item.fingerprint, item.title)
        held = found.setdefault(cause, item)
        if held is not item:
            found[cause] = held._replace(times=held.times + item.times)
    return found


def counts(row: Row) -> dict[str, int]:
    """How often each cause stands in a row."""
    return {cause: told.times for cause, told in causes(row).items()}


def _quoted(row: Row) -> str:
    """All that a row quotes, to look for names in."""
    return "\n".join(
        (row.input, row.node, row.replica, row.source, row.title, row.text, row.model, row.error, row.fix,
         *(other.title for other in row.others))
    )  # fmt: skip


# ---- what is read ---------------------------------------------------------------------------------------------


def _of(data: bytes, name: str) -> Source:
    return Source(name, lambda: cast(BinaryIO, io.BytesIO(data)), len(data))


def _inputs(task: Task, settings: Settings) -> _Inputs:
    if len(task.paths) == 1 and (held := members(task.paths[0])) is not None:
        return _Inputs(held, [])
    resume = task.resume
    how = "whole"
    if resume is not None and resume.path < len(task.paths):
        context = _context(task)
        if context is None:
            how = "fresh"  # what was there then is gone: it was emptied, or replaced
        elif not resume.complete or resume.path or resume.offset > len(context):
            how = "resumed"
        if how == "resumed":
            assert context is not None
            watched = [
                Watched(_opener(task.paths[resume.path], resume.offset), context, resume.offset, resume.lines)
            ]
            watched += [Watched(_opener(path)) for path in task.paths[resume.path + 1 :]]
            base = resume.lines - context.count(b"\n")
            return _Inputs(
                [_joined(task.paths[resume.path :], watched)], watched, resume.path, context, base, how
            )
    watched = [Watched(_opener(path)) for path in task.paths]
    return _Inputs([_joined(task.paths, watched)], watched, how=how)


def _opener(path: str, offset: int = 0) -> Callable[[], BinaryIO]:
    return lambda: open_at(path, offset)


def _joined(paths: Sequence[str], watched: Sequence[Watched]) -> Source:
    if len(paths) == 1:
        return Source(paths[0], watched[0].start)
    openers = [(path, stream.start) for path, stream in zip(paths, watched, strict=True)]
    return Source(paths[-1], lambda: cast(BinaryIO, Continued(openers)))


def _context(task: Task) -> bytes | None:
    """The whole lines before what is new; None if the file is not what it was."""
    resume = task.resume
    assert resume is not None
    path = task.paths[resume.path]
    start = max(resume.offset - CONTEXT, 0)
    with open_at(path, start) as stream:
        data = exactly(stream, resume.offset - start)
    if len(data) < resume.offset - start or digest(data[-SAMPLE:]) != resume.tail:
        return None
    if not start:
        return data
    with open_at(path) as stream:
        head = exactly(stream, 1 << 14)
    if b"\0" in head or detect(head) in _SPREAD:  # no cutting between lines: all of it again
        with open_at(path) as stream:
            return exactly(stream, resume.offset)
    return data[data.find(b"\n") + 1 :]


# ---- what it came to --------------------------------------------------------------------------------------------


def _told(task: Task, report: Report) -> Row:
    row = _blank(task)
    row.verdict = report.verdict.value
    row.bytes = sum(read.bytes for read in report.inputs)
    row.lines = sum(read.lines for read in report.inputs)
    row.vllm = report.environment.vllm or ""
    row.model = (report.environment.model or "")[:TITLE]
    if report.verdict in _FAILING and report.diagnoses:
        _first(row, report.diagnoses[0])
        row.others = [_other(item) for item in report.diagnoses[1 : 1 + MOST_OTHERS]]
    row.failed = report.verdict in _FAILING and row.severity in ("", Severity.FATAL.value)
    broken = [
        gap.what
        for read in report.inputs
        for gap in read.gaps
        if gap.what.startswith(("could not be read", "reading ended early", "this ")) or TOO_MUCH in gap.what
    ]
    if broken:
        row.error = broken[0][:LONGEST]
        if not row.bytes or (report.verdict is Verdict.EMPTY and broken[0].startswith("this ")):
            row.verdict = "unread"
    return row


def _first(row: Row, first: Diagnosis) -> None:
    row.rule, row.fingerprint = first.rule, first.fingerprint
    row.title = first.title[:TITLE]
    row.confidence, row.severity = first.confidence, first.severity.value
    row.source, row.line = first.source, first.line
    own = [item.text for item in first.evidence if (item.source, item.line) == (first.source, first.line)]
    text = own[0] if own else first.evidence[0].text if first.evidence else ""
    row.text = text.split("\n")[0][:LONGEST]
    row.times = max(first.times, 1)
    row.first_time, row.last_time = first.first_time, first.last_time or first.first_time
    row.fix = first.fixes[0].do[:TITLE] if first.fixes else ""
    row.recovered = first.recovered_at is not None


def _other(item: Diagnosis) -> Other:
    verdict = Verdict.DIAGNOSED if item.rule else Verdict.UNRECOGNISED
    return Other(
        verdict.value,
        item.rule,
        item.title[:TITLE],
        item.fingerprint,
        item.severity.value,
        max(item.times, 1),
    )


def _surroundings(row: Row, reading: Reading, rules: Sequence[Rule], own: Who | None) -> None:
    """The host and pod that the lines name, and what the kernel said. `own`: it is one of several in its log."""
    if own is not None:
        row.node = own.host or row.node
        row.replica = _replica(own)
    hosts = Counter(e.envelope.host for e in reading.events if e.envelope.host)
    if not row.node and hosts:
        row.node = min(hosts, key=lambda host: (-hosts[host], host))
    if own is None and (not row.replica or is_generic(row.replica.rpartition("/")[2])):
        units = Counter(e.envelope.unit for e in reading.events if "/" in e.envelope.unit)
        if units:
            row.replica = min(units, key=lambda unit: (-units[unit], unit))
    said = {}
    for match in reading.matches:
        rule = rules[match.rule]
        here = own is None or match.event.envelope.host in ("", own.host)
        if match.event.kind is Kind.KERNEL and rule.role is Role.CAUSE and here:
            number = match.captures.get("xid")
            said[match.event.source, match.line] = rule.id if number is None else f"Xid {number}"
    row.marks = dict(sorted(Counter(said.values()).items()))
    lines = reading.said() if own is None else reading.said().of(own)
    together = at_once(lines)
    row.at_once = together if together > 1 else 0
    speaks = row.verdict != Verdict.EMPTY.value and of_a_server(lines, reading.rulebook)
    row.server = row.failed or speaks or (own is None and 0 < len(reading.speakers) < 2)
    if row.server and row.verdict == Verdict.EMPTY.value:
        row.verdict = Verdict.HEALTHY.value  # it has nothing to say of the time asked for


def _place(done: Done, task: Task, inputs: _Inputs) -> None:
    """Lines by the whole file, times that can be compared, and sizes of what is new."""
    row = done.row
    if inputs.how == "resumed":
        row.bytes = max(row.bytes - len(inputs.context), 0)
        row.lines = max(row.lines - inputs.context.count(b"\n"), 0)
        if row.line and row.source == task.paths[inputs.first]:
            row.line += inputs.base
    if row.source in (task.name, task.paths[-1]):
        row.source = ""
    first, last = parse(row.first_time), parse(row.last_time)
    done.first, done.last = _seconds(first, task.changed), _seconds(last, task.changed)
    row.first_at, row.last_at = _iso(first), _iso(last)


def _seconds(stamp: Stamp | None, near: float) -> float | None:
    """Seconds to put rows into an order; without a year, in the one closest to when the log was written last."""
    if stamp is None or stamp.kind == UPTIME:
        return None
    if stamp.kind == YEARLESS and 0 < near < LATEST:
        return in_year_of(stamp, near)
    return stamp.seconds


def _iso(stamp: Stamp | None) -> str:
    """The time in UTC, only where date and zone were printed."""
    return (
        strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(stamp.seconds))
        if stamp is not None and stamp.kind == UTC
        else ""
    )
