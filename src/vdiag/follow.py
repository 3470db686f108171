"""A log that still grows: the same stages fed with what arrives, concluded when a failure has settled.

What is held is the current run of the server, within bounds; of earlier runs only their diagnoses are left. This
knows no clock: who calls `feed` says with `settle` that it has become quiet.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from vdiag.advise.answer import answer
from vdiag.assemble.assembler import Assembler
from vdiag.intake.blocks import decode
from vdiag.intake.formats import detect
from vdiag.match.keeper import Answered, Keeper, Repeated
from vdiag.match.matcher import Match, Matcher
from vdiag.model import Diagnosis, Event, Input, Kind, Record, Report, Role, Severity, Verdict
from vdiag.reason.conclude import conclude
from vdiag.reason.story import tell
from vdiag.rulebook.compile import Rulebook
from vdiag.scan.decoding import Decoder
from vdiag.scan.gaps import says_nothing
from vdiag.scan.records import Scanner

WINDOW = 8 << 20  # bytes of the current run's events that are held
FIRST = 2 << 20  # of these, bytes of its first ones: they hold the arguments and the version
ORDINARY = 2000  # events without news that are held, with those that only repeat a fact
EVENT = 1024  # bytes that an event takes besides its text
PIECE = 256 << 10  # bytes read between two looks for a new run
SAMPLE = 16 << 10  # bytes of the log's beginning by which its format is told
MOST_LINE = 512 << 10  # bytes held of a line that does not end
MOST_FAILURES = 500  # different failures remembered

_TROUBLE = (Role.CAUSE, Role.SYMPTOM, Role.TRAILER)
_FAILED = (Verdict.INCOMPLETE, Verdict.UNRECOGNISED, Verdict.DIAGNOSED)  # by how much is known


class Told(msgspec.Struct):
    """A failure that has settled. `times`: how often it was seen so far; from the second time on it is a repetition."""

    report: Report
    times: int = 1


class Kept(msgspec.Struct):
    """An event with its matches, and whether it speaks of trouble."""

    event: Event
    matches: list[Match]
    trouble: bool

    @property
    def size(self) -> int:
        event = self.event
        return EVENT + sum(map(len, event.rows)) + sum(map(len, event.frames))


class Held:
    """The events of the current run: its first ones, and the latest, in bounded space."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._first: list[Kept] = []
        self._repeated = Repeated(rulebook)
        self._last: deque[Kept] = deque()
        self._ordinary: deque[Kept] = deque(maxlen=ORDINARY)
        self._room = FIRST
        self._size = 0

    def add(self, kept: Kept) -> None:
        size = kept.size
        ordinary = not kept.matches and not kept.trouble
        if ordinary or self._repeated.has(kept.event, kept.matches):
            if size < WINDOW // ORDINARY:
                self._ordinary.append(kept)
        elif size <= self._room:
            self._room -= size
            self._first.append(kept)
        else:
            self._room = 0  # from here on the latest count
            self._last.append(kept)
            self._size += size
            while self._size > WINDOW and len(self._last) > 1:
                self._size -= self._last.popleft().size

    def __iter__(self) -> Iterator[Kept]:
        yield from self._first
        yield from self._last
        yield from self._ordinary


class Follower:
    """Follows one log. `line` is the number of the next physical line."""

    def __init__(self, rulebook: Rulebook, name: str, line: int = 1) -> None:
        self._rulebook = rulebook
        self._matcher = Matcher(rulebook)
        self._scanner, self._assembler = Scanner(0), Assembler()
        self._name = name
        self._line = line
        self._turns: list[int] = []  # where the file began anew
        self._read = Input(name)
        self._decoder: Decoder | None = None  # where the log is encoded
        self._sample = b""
        self._spoke = False
        self._rest = b""  # a line that has not ended
        self._held = Held(self._rulebook)
        self._served: list[Answered] = []
        self.fresh = False  # trouble came since the last conclusion
        self._told: set[str] = set()  # failures of the current run that were told
        self._past: dict[str, tuple[Diagnosis, Verdict]] = {}  # failures of earlier runs
        self._begun = 1  # the line where the current run began
        self.news = 0  # events so far that speak of trouble
        self.runs = 1

    @property
    def busy(self) -> bool:
        """Whether a traceback is open: the failure is still being printed."""
        return self._assembler.busy

    def feed(self, data: bytes) -> list[Told]:
        """Takes in what arrived; returns failures of runs that are over, which another start shows."""
        told: list[Told] = []
        self._read.bytes += len(data)
        for at in range(0, len(data), PIECE):
            text = self._rest + data[at : at + PIECE]
            cut = text.rfind(b"\n") + 1
            self._rest = text[cut:]
            if len(self._rest) > MOST_LINE:
                self._rest = self._rest[: MOST_LINE // 4] + b" ... " + self._rest[-MOST_LINE // 4 :]
            if cut:
                told += self._lines(text[:cut])
        return told

    def settle(self) -> Told | None:
        """It has become quiet: the failure of the current run, if there is one that was not told."""
        pending = self._pending()
        if not self.fresh and not any(kept.trouble for kept in pending):
            return None
        self.fresh = False
        return self._judge([*self._held, *pending])

    def turn(self) -> None:
        """The log goes on in a new file, or the file was emptied: its lines count from 1 again."""
        if self._rest:
            self.feed(b"\n")
        self._turns = [*self._turns[-MOST_FAILURES:], self._line]

    def summary(self) -> Report:
        """All that was seen: the current run's report, with the failures of the runs before it."""
        report = self._report([*self._held, *self._pending()])
        current = {_key(diagnosis): diagnosis for diagnosis in report.diagnoses}
        recovered = report.verdict is Verdict.HEALTHY and bool(report.episodes)
        verdicts = [report.verdict]
        for key, (past, verdict) in reversed(self._past.items()):
            verdicts.append(verdict)
            if key in current:
                place = report.diagnoses.index(current[key])
                report.diagnoses[place] = _folded(past, current[key])
                continue
            if recovered and past.severity is Severity.FATAL:
                past = msgspec.structs.replace(past, recovered_at=report.episodes[-1].first_line)
            report.diagnoses.append(past)
        failed = [verdict for verdict in verdicts if verdict in _FAILED]
        if failed:
            report.verdict = max(failed, key=_FAILED.index)
        if self.runs > 1:
            report.notes.append(f"{self.runs} runs of the server were followed; the last is told in full")
        return report

    # ---- what arrives ---------------------------------------------------------------------------------------

    def _lines(self, text: bytes) -> list[Told]:
        """Whole lines with their line ends."""
        if self._decoder is None and len(self._sample) < SAMPLE:
            self._sample += text[:SAMPLE]
            self._read.format = detect(self._sample)
            self._decoder = self._scanner.decoder(self._read.format)
            self._assembler.reach *= self._decoder.longest if self._decoder else 1
        self._spoke = self._spoke or not says_nothing(decode(text))
        records = self._records(text, self._decoder)
        self._line += text.count(b"\n")
        started = False
        for kept in self._kept(self._assembler.feed(records), self._served):
            self._held.add(kept)
            self.news += kept.trouble
            self.fresh |= kept.trouble
            started |= any(self._rulebook.rules[match.rule].marks == "start" for match in kept.matches)
        return self._next_run() if started else []

    def _records(self, text: bytes, decoder: Decoder | None) -> Iterator[Record]:
        if decoder is not None:
            return decoder.feed(text, self._line)
        return self._scanner.text(decode(text.removesuffix(b"\n")), self._line)

    def _kept(self, events: Iterable[Event], served: list[Answered]) -> list[Kept]:
        keeper = Keeper(self._matcher, served)
        keeper.take(events)
        keeper.done()
        matched: dict[int, list[Match]] = {}
        for match in keeper.matches():
            matched.setdefault(id(match.event), []).append(match)
        kept = [Kept(e, matched.get(id(e), []), False) for e in keeper.events()]
        for one in kept:
            roles = [self._rulebook.rules[match.rule].role for match in one.matches]
            one.trouble = any(role in _TROUBLE for role in roles) or (
                not roles
                and (one.event.kind is Kind.EXCEPTION or one.event.envelope.level in ("ERROR", "CRITICAL"))
            )
        return sorted(kept, key=lambda one: one.event.lines[0])

    def _pending(self) -> list[Kept]:
        """What is not complete yet, as if the log ended here."""
        shared = {id(self._scanner): self._scanner}
        assembler, decoder = copy.deepcopy((self._assembler, self._decoder), shared)
        events = list(assembler.feed(self._records(self._rest, decoder))) if self._rest else []
        if decoder is not None:
            events += assembler.feed(decoder.flush())
        return self._kept([*events, *assembler.flush()], list(self._served))

    def _next_run(self) -> list[Told]:
        """Ends the runs that another start has ended: tells what was not told, keeps the last."""
        kept = list(self._held)
        matches = [match for one in kept for match in one.matches]
        runs = tell([one.event for one in kept], matches, {0: self._served}, self._rulebook)
        told = []
        for run in runs[1:]:
            ended = [one for one in kept if one.event.lines[0] < run.first_line]
            kept = [one for one in kept if one.event.lines[0] >= run.first_line]
            failure = self._judge(ended, run.first_line)
            if failure is not None:
                told.append(failure)
            self._bury(ended, run.first_line)
        if told or len(runs) > 1:
            self._held = Held(self._rulebook)
            for one in kept:
                self._held.add(one)
            self.fresh = any(one.trouble for one in kept)
        return told

    # ---- conclusions ------------------------------------------------------------------------------------------

    def _judge(self, kept: list[Kept], end: int = 0) -> Told | None:
        """The failure of a run, if it was not told; of its first diagnosis, since the others are told with it."""
        if not any(one.trouble for one in kept):
            return None
        report = self._report(kept, end)
        if report.verdict not in _FAILED or not report.diagnoses:
            return None
        first = report.diagnoses[0]
        key = _key(first)
        if key in self._told:
            return None
        if len(self._told) >= MOST_FAILURES:
            self._told.clear()
        self._told.add(key)
        past = self._past.get(key)
        if past is None:
            return Told(report)
        report.diagnoses[0] = _folded(past[0], first)
        return Told(report, report.diagnoses[0].times)

    def _bury(self, kept: list[Kept], end: int) -> None:
        """A run is over: its diagnoses are all that is left of it."""
        if any(one.trouble for one in kept):
            report = self._report(kept, end)
            for diagnosis in report.diagnoses:
                key = _key(diagnosis)
                past = self._past.pop(key, None)  # the latest stands last
                self._past[key] = (_folded(past[0], diagnosis) if past else diagnosis, report.verdict)
            while len(self._past) > MOST_FAILURES:
                self._past.pop(next(iter(self._past)))
        self._told = set()
        self._begun = end
        self._served[:] = [one for one in self._served if one[0] >= end]
        self.runs += 1

    def _report(self, kept: list[Kept], end: int = 0) -> Report:
        events = [one.event for one in kept]
        matches = [match for one in kept for match in one.matches]
        served = [one for one in self._served if not end or one[0] < end]
        self._read.lines = self._line - 1 + bool(self._rest)
        spoke = self._spoke or not says_nothing(decode(self._rest))
        conclusion = conclude(events, matches, {0: served}, self._rulebook, spoke)
        read = msgspec.structs.replace(self._read, gaps=self._scanner.gaps.told())
        notes = [
            f"rule {rule}: its pattern took too long on line {line} and was skipped there"
            for rule, line in self._matcher.timeouts.items()
        ]
        report = answer(conclusion, [read], self._rulebook, notes, {})
        for episode in report.episodes[:1]:
            episode.first_line = max(episode.first_line, self._begun)
        if self._turns:
            renumber(report, self._place, self._name)
        return report

    def _place(self, line: int) -> int:
        """A line's number in the file it stands in."""
        return line - max((turn for turn in self._turns if turn <= line), default=1) + 1


def renumber(report: Report, place: Callable[[int], int], source: str) -> None:
    """Gives the lines of one input other numbers; 0 means none and stays."""
    numbered: list[tuple[object, str, str]] = [(seen, "line", seen.source) for seen in report.also_seen]
    numbered += [(item, "line", item.source) for item in report.harmless]
    if report.load is not None:
        points = [*report.load.points, *filter(None, [report.load.peak])]
        numbered += [(point, "line", report.load.source) for point in points]
    for episode in report.episodes:
        numbered.append((episode, "first_line", episode.source))
        numbered.append((episode, "last_line", episode.last_source or episode.source))
    numbered += [(gap, "line", read.name) for read in report.inputs for gap in read.gaps]
    for told in report.diagnoses:
        numbered.append((told, "line", told.source))
        numbered.append((told, "last_line", told.last_source or told.source))
        numbered.append((told, "recovered_at", told.recovered_in or told.source))
        numbered += [(item, "line", item.source) for item in told.evidence]
        numbered += [(item, "line", item.source or told.source) for item in told.explains]
    for value, name, where in numbered:
        line = getattr(value, name)
        if line and where == source:
            setattr(value, name, place(line))


def _key(diagnosis: Diagnosis) -> str:
    """What makes two failures the same."""
    return diagnosis.rule or diagnosis.fingerprint or diagnosis.title


def _folded(past: Diagnosis, new: Diagnosis) -> Diagnosis:
    """A failure that was seen before, with its repetition: the first line stands, the count grows."""
    return msgspec.structs.replace(
        past,
        times=past.times + new.times,
        last_line=new.last_line or new.line,
        first_time=past.first_time or new.first_time,
        last_time=new.last_time or new.first_time or past.last_time,
        confidence=max(past.confidence, new.confidence),
        recovered_at=None,
    )


__all__ = ["Follower", "Told", "renumber"]
