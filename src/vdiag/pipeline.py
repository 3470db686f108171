"""The whole way of the data: bytes → intake → scan → assemble → match → reason → advise → Report."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from vdiag.advise.answer import answer
from vdiag.assemble.assembler import Assembler
from vdiag.intake.blocks import Blocks, decode, looks_binary
from vdiag.intake.sources import Source, SourceError, of_bytes
from vdiag.match.matcher import Match, Matcher
from vdiag.model import Event, Gap, Input, Kind, Record, Report
from vdiag.reason.conclude import conclude
from vdiag.rulebook.compile import Rulebook
from vdiag.scan.records import Scanner, access_status
from vdiag.scan.sieve import Sieve

Progress = Callable[[int], None]  # called with the bytes read so far of all inputs

BATCH = 2000  # events matched at a time
MOST = 4000  # events kept of one input: the first quarter and the last three


def diagnose(inputs: Sequence[Source], *, rulebook: Rulebook, progress: Progress | None = None) -> Report:
    """The report on these inputs, told together. What can't be read becomes a gap of its input."""
    reading = Reading(rulebook)
    for number, source in enumerate(inputs):
        reading.read(number, source, progress)
    conclusion = conclude(reading.events, reading.matches, reading.served, rulebook, reading.spoke)
    return answer(conclusion, reading.inputs, rulebook, reading.notes())


def diagnose_text(text: str | bytes, rulebook: Rulebook, name: str = "<text>") -> Report:
    """The report on a text in memory."""
    data = text.encode("utf8", "surrogateescape") if isinstance(text, str) else text
    return diagnose([of_bytes(data, name)], rulebook=rulebook)


class Reading:
    """What the inputs came to: events worth keeping, with their matches."""

    def __init__(self, rulebook: Rulebook) -> None:
        self._matcher = Matcher(rulebook)
        self._rulebook = rulebook
        self.inputs: list[Input] = []
        self.events: list[Event] = []
        self.matches: list[Match] = []
        self.served: dict[int, list[int]] = {}
        self.spoke = False
        self._total = 0

    def read(self, number: int, source: Source, progress: Progress | None = None) -> None:
        """Reads one input to its end."""
        told = Input(source.name)
        self.inputs.append(told)
        try:
            stream = source.open()
        except (OSError, SourceError) as error:
            told.gaps.append(Gap(what=f"could not be read: {getattr(error, 'strerror', None) or error}"))
            return
        blocks = Blocks(stream)
        keeper = _Keeper(self._matcher, self._rulebook, self.served.setdefault(number, []))
        assembler, scanner, first = Assembler(), Scanner(number), 1
        sieve: Sieve | None = None
        for block, size in blocks.bulk():
            sieve = sieve or Sieve(self._rulebook)
            keeper.whole = False
            for line, piece in sieve.segments(block, size, first, lambda: assembler.busy):
                keeper.take(assembler.feed(self._records(scanner, piece, line, blocks.utf16)))
            first = sieve.next_line
            if progress is not None:
                progress(self._total + blocks.bytes)
        for line, piece in sieve.rest() if sieve else ():
            keeper.take(assembler.feed(self._records(scanner, piece, line, blocks.utf16)))
        binary = not blocks.utf16 and looks_binary(blocks.tail[:8192])
        if binary:
            told.format = "binary"
            told.gaps.append(Gap(what="this does not look like text: is it the log?"))
        elif sieve is not None or blocks.utf16 or blocks.tail.strip(b"\n\r\t \x00"):
            self.spoke = True
        keeper.take(assembler.feed(self._records(scanner, blocks.tail, first, blocks.utf16)))
        keeper.take(assembler.flush())
        keeper.done()
        self.events += keeper.events()
        self.matches += keeper.matches()
        self._total += blocks.bytes
        told.bytes = blocks.bytes
        told.lines = (
            first - 1 + blocks.tail.count(b"\n") + (not blocks.tail.endswith(b"\n") and bool(blocks.tail))
        )
        if blocks.utf16:
            told.format = blocks.utf16
        if blocks.error:
            told.gaps.append(Gap(what=f"reading ended early: {blocks.error}", line=told.lines))
        if progress is not None:
            progress(self._total)

    @staticmethod
    def _records(scanner: Scanner, piece: bytes, line: int, utf16: str) -> Iterable[Record]:
        return scanner.text(decode(piece, utf16), line)

    def notes(self) -> list[str]:
        """What the user should know of the reading itself."""
        return [
            f"rule {rule}: its pattern took too long on line {line} and was skipped there"
            for rule, line in self._matcher.timeouts.items()
        ]


class _Keeper:
    """Matches events in batches and keeps what matters, within bounds."""

    def __init__(self, matcher: Matcher, rulebook: Rulebook, served: list[int]) -> None:
        self._matcher = matcher
        self._rulebook = rulebook
        self._served = served
        self._batch: list[Event] = []
        self._first: list[tuple[Event, list[Match]]] = []
        self._last: deque[tuple[Event, list[Match]]] = deque(maxlen=MOST - MOST // 4)
        self._seen: dict[tuple[str, str], Event] = {}
        self.whole = True  # nothing was skipped: every event counts

    def take(self, events: Iterable[Event]) -> None:
        """Takes complete events in."""
        for event in events:
            if " HTTP/" in event.rows[0]:
                access = access_status(event.rows[0])
                if access is not None:
                    method, path, status = access
                    if status < 400 and (method == "POST" or path.startswith("/health")):
                        if len(self._served) < 10_000:
                            self._served.append(event.lines[0])
                        else:
                            self._served[-1] = event.lines[0]
                    if event.envelope.level in ("INFO", "") and len(event.rows) == 1:
                        continue
            self._batch.append(event)
            if len(self._batch) >= BATCH:
                self._match()

    def done(self) -> None:
        """Matches what is left."""
        self._match()

    def _match(self) -> None:
        batch, self._batch = self._batch, []
        matched: dict[int, list[Match]] = {}
        for match in self._matcher.match(batch):
            matched.setdefault(id(match.event), []).append(match)
        for event in batch:
            matches = matched.get(id(event), [])
            if not matches and not self._matters(event):
                continue
            if event.kind is Kind.EXCEPTION and len(self._first) >= MOST // 4:
                key = (event.exception, event.rows[0])
                seen = self._seen.get(key)
                if seen is not None:
                    seen.times += 1
                    seen.last_line = event.lines[-1]
                    continue
                if len(self._seen) < MOST:
                    self._seen[key] = event
            if len(self._first) < MOST // 4:
                self._first.append((event, matches))
            else:
                self._last.append((event, matches))

    def _matters(self, event: Event) -> bool:
        return self.whole or event.kind is Kind.EXCEPTION or event.envelope.level in ("ERROR", "CRITICAL")

    def events(self) -> list[Event]:
        """What was kept, in order."""
        return [event for event, _ in (*self._first, *self._last)]

    def matches(self) -> list[Match]:
        """Their matches."""
        return [match for _, matches in (*self._first, *self._last) for match in matches]


__all__ = ["Reading", "diagnose", "diagnose_text"]
