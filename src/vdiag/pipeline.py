"""The whole way of the data: bytes → intake → scan → assemble → match → reason → advise → Report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from vdiag.advise.answer import answer
from vdiag.advise.placed import Place
from vdiag.assemble.assembler import Assembler
from vdiag.intake.blocks import Blocks, decode, looks_binary
from vdiag.intake.formats import SAMPLE, detect, no_text
from vdiag.intake.sources import Source, SourceError, of_bytes
from vdiag.match.keeper import Answered, Keeper
from vdiag.match.matcher import Match, Matcher
from vdiag.model import Changes, Event, Gap, Input, Record, Report
from vdiag.reason.blame import Blame
from vdiag.reason.conclude import Conclusion, conclude
from vdiag.rulebook.compile import Rulebook
from vdiag.scan.gaps import says_nothing
from vdiag.scan.records import Scanner
from vdiag.scan.repair import CERTAIN, repair

if TYPE_CHECKING:  # what only some inputs need is imported for them: start-up counts
    from vdiag.reason.servers import Said
    from vdiag.reason.speakers import Who
    from vdiag.reason.window import Kept, Window
    from vdiag.scan.decoding import Decoder
    from vdiag.scan.sieve import Sieve

Progress = Callable[[int], None]  # called with the bytes read so far of all inputs


def diagnose(
    inputs: Sequence[Source],
    *,
    rulebook: Rulebook,
    progress: Progress | None = None,
    window: Window | None = None,
) -> Report:
    """The report on these inputs, told together. What can't be read becomes a gap of its input.

    Of a `window` only the lines of that stretch of time count.
    """
    return examine(inputs, Matcher(rulebook), progress=progress, window=window)[0]


def examine(
    inputs: Sequence[Source],
    matcher: Matcher,
    *,
    progress: Progress | None = None,
    window: Window | None = None,
) -> tuple[Report, Reading]:
    """The same with the reading it is made of, by a matcher that may have seen other inputs before."""
    reading, conclusion = _read(inputs, matcher, progress, window)
    report = answer(
        conclusion, reading.inputs, matcher.rulebook, reading.notes(), reading.places, reading.holed()
    )
    return _in_parts(report, reading), reading


def each(report: Report, reading: Reading) -> dict[Who, Report]:
    """A report for each server whose lines the input holds, by the name it writes under; of one server, the report."""
    from vdiag.reason.servers import apart, servers
    from vdiag.reason.speakers import Who

    said, rulebook = reading.said(), reading.rulebook
    found = apart(said, 0, rulebook) if len(reading.inputs) == 1 else {}
    if not found:
        names = servers(said, rulebook)
        return {names[0] if len(names) == 1 else Who(): report}
    return {
        name: _in_parts(
            answer(
                conclusion,
                [msgspec.structs.replace(read, gaps=list(read.gaps)) for read in reading.inputs],
                rulebook,
                reading.notes(),
                reading.places,
                reading.holed(),
            ),
            reading,
        )
        for name, conclusion in found.items()
    }


def compare(good: Sequence[Source], bad: Sequence[Source], *, rulebook: Rulebook) -> Report:
    """The report on `bad`, whose changes are those since the last start in `good` that worked.

    They are None where one of the two holds no start of a server.
    """
    from vdiag.advise.changes import against

    theirs, before = _read(good, Matcher(rulebook))
    reading, conclusion = _read(bad, Matcher(rulebook))

    def since(run: Blame) -> Changes | None:
        return against(before.blames, theirs.inputs, run, conclusion.blames, reading.inputs, rulebook)

    report = answer(
        conclusion, reading.inputs, rulebook, reading.notes(), reading.places, reading.holed(), since
    )
    report = _in_parts(report, reading)
    told = report.changes
    if told is not None:
        number = next(n for n, read in enumerate(theirs.inputs) if read.name == told.good)
        if number in theirs.places:
            told.good_line = theirs.places[number](told.good_line)
        if theirs.parts:
            from vdiag.advise.parts import at

            told.good, told.good_line = at(theirs.parts, told.good, told.good_line)
    return report


def _read(
    inputs: Sequence[Source],
    matcher: Matcher,
    progress: Progress | None = None,
    window: Window | None = None,
) -> tuple[Reading, Conclusion]:
    """These inputs read, the way that explains more, and what they come to."""
    reading = Reading(matcher.rulebook, window, matcher)
    for number, source in enumerate(inputs):
        reading.read(number, source, progress)
    conclusion = reading.conclusion()
    repaired = reading.repaired()
    if repaired is not None:
        other = repaired.conclusion()
        if other.outbids(conclusion, repaired.trust):
            other.backed(conclusion)
            reading, conclusion, other = repaired, other, conclusion
        if repaired.trust < CERTAIN:
            conclusion.doubted(other)
    return reading, conclusion


def _in_parts(report: Report, reading: Reading) -> Report:
    if not reading.parts:
        return report
    from vdiag.advise.parts import in_parts

    return in_parts(report, reading.parts)


def diagnose_text(text: str | bytes, rulebook: Rulebook, name: str = "<text>") -> Report:
    """The report on a text in memory."""
    data = text.encode("utf8", "surrogateescape") if isinstance(text, str) else text
    return diagnose([of_bytes(data, name)], rulebook=rulebook)


class Reading:
    """What the inputs came to: events worth keeping, with their matches."""

    def __init__(
        self, rulebook: Rulebook, window: Window | None = None, matcher: Matcher | None = None
    ) -> None:
        self._matcher = matcher.again() if matcher is not None else Matcher(rulebook)
        self.rulebook = rulebook
        self._window = window
        self.inputs: list[Input] = []
        self.events: list[Event] = []
        self.matches: list[Match] = []
        self.served: dict[int, list[Answered]] = {}
        self.spoke = False
        self.parts: dict[str, list[Input]] = {}  # rotated set → its files, oldest first
        self.places: dict[int, Place] = {}  # inputs that were read repaired
        self.speakers: set[Who] = set()  # of a window: names under which servers write, also outside
        self.trust = 0.0  # what speaks for this reading against the plain one
        self._pasted: dict[int, tuple[str, int]] = {}  # text that may have been pasted, and its first line
        self._done: list[str] = []
        self._total = 0

    def said(self) -> Said:
        """What all inputs say together."""
        from vdiag.reason.servers import Said

        served = [request for requests in self.served.values() for request in requests]
        return Said(self.events, self.matches, served)

    def conclusion(self) -> Conclusion:
        """What the events come to."""
        return conclude(self.events, self.matches, self.served, self.rulebook, self.spoke)

    def repaired(self) -> Reading | None:
        """These inputs read another way, where a paste seems to have damaged them."""
        repairs = {
            number: done for number, text in self._pasted.items() if (done := repair(*text)) is not None
        }
        if not repairs:
            return None
        other = Reading(self.rulebook, self._window, self._matcher)
        other.parts, other.speakers = self.parts, self.speakers
        other.inputs, other.spoke, other._matcher = self.inputs, self.spoke, self._matcher

        def stays(source: int, line: int) -> bool:
            return source not in repairs or line < repairs[source].first

        other.events = [e for e in self.events if stays(e.source, e.lines[0])]
        other.matches = [m for m in self.matches if stays(m.event.source, m.event.lines[0])]
        other.served = {
            number: [request for request in served if stays(number, request.line)]
            for number, served in self.served.items()
        }
        for number, done in repairs.items():
            keeper = Keeper(other._matcher, other.served[number])
            keeper.whole = done.first == 1
            assembler = Assembler()
            kept = _kept(self._window)
            keeper.take(assembler.feed(_inside(kept, Scanner(number).joined(done.lines, done.first))))
            other._keep(keeper, assembler, kept)
            other.places[number] = done.place
            other._done += [f"{self.inputs[number].name}: {what}" for what in done.done]
            other.trust = max(other.trust, done.trust)
        return other

    def _keep(self, keeper: Keeper, assembler: Assembler, kept: Kept | None) -> None:
        """The end of an input."""
        if kept is not None:
            keeper.take(assembler.feed(kept.rest()))
        keeper.take(assembler.flush())
        keeper.done()
        self.events += keeper.events()
        self.matches += keeper.matches()

    def read(self, number: int, source: Source, progress: Progress | None = None) -> None:
        """Reads one input to its end."""
        told = Input(source.name, gaps=list(source.gaps))
        self.inputs.append(told)
        try:
            stream = source.open()
        except (OSError, SourceError) as error:
            told.gaps.append(Gap(what=f"could not be read: {getattr(error, 'strerror', None) or error}"))
            return
        blocks = Blocks(stream)
        keeper = Keeper(self._matcher, self.served.setdefault(number, []))
        assembler, scanner, first = Assembler(), Scanner(number), 1
        kept, spoke = _kept(self._window), self.spoke
        sieve: Sieve | None = None
        decoder: Decoder | None = None
        form = ""
        for block, size in blocks.bulk():
            if not form:
                form = told.format = detect(bytes(memoryview(block)[: min(size, SAMPLE)]))
                decoder = scanner.decoder(told.format)
                assembler.reach *= decoder.longest if decoder else 1
            if decoder is not None and decoder.reads_all:
                data = bytes(memoryview(block)[:size])
                keeper.take(assembler.feed(_inside(kept, decoder.feed(data, first))))
                first += data.count(b"\n")
                self.spoke = True
                if progress is not None:
                    progress(self._total + blocks.bytes)
                continue
            if sieve is None:
                from vdiag.scan.sieve import Sieve

                sieve = Sieve(self.rulebook)
            keeper.whole = False
            for line, piece in sieve.segments(block, size, first, lambda: assembler.busy):
                keeper.take(assembler.feed(_inside(kept, self._records(scanner, decoder, piece, line))))
            first = sieve.next_line
            if progress is not None:
                progress(self._total + blocks.bytes)
        for line, piece in sieve.rest() if sieve else ():
            keeper.take(assembler.feed(_inside(kept, self._records(scanner, decoder, piece, line))))
        if not form:
            told.format = detect(blocks.tail[:SAMPLE])
            decoder = scanner.decoder(told.format)
            assembler.reach *= decoder.longest if decoder else 1
        binary = decoder is None and not blocks.utf16 and looks_binary(blocks.tail[:8192])
        if binary:
            told.format = "binary"
            told.gaps.append(Gap(what=no_text(blocks.tail[:16] if sieve is None else b"")))
        elif sieve is not None or not says_nothing(decode(blocks.tail[:SAMPLE])):
            self.spoke = True
        keeper.take(assembler.feed(_inside(kept, self._records(scanner, decoder, blocks.tail, first))))
        if decoder is not None:
            keeper.take(assembler.feed(_inside(kept, decoder.flush())))
        told.gaps += scanner.gaps.told()
        self._keep(keeper, assembler, kept)
        if kept is not None and not binary:
            told.gaps += kept.gaps()
            self.speakers |= kept.speakers
            self.spoke = spoke or (self.spoke and kept.some)
        if decoder is None and not binary and not scanner.collected:
            self._pasted[number] = decode(blocks.tail), first
        self._total += blocks.bytes
        told.bytes = blocks.bytes
        told.lines = (
            first - 1 + blocks.tail.count(b"\n") + (not blocks.tail.endswith(b"\n") and bool(blocks.tail))
        )
        if blocks.utf16 and told.format == "plain":
            told.format = blocks.utf16
        if blocks.returns:
            told.gaps.append(Gap(what="its lines end in a carriage return alone, and are counted by it"))
        if blocks.error:
            told.gaps.append(Gap(what=f"reading ended early: {blocks.error}", line=told.lines))
        parts = getattr(stream, "parts", None)  # of a rotated set
        if parts is not None:
            self.parts[source.name] = parts
        if progress is not None:
            progress(self._total)

    @staticmethod
    def _records(scanner: Scanner, decoder: Decoder | None, piece: bytes, line: int) -> Iterable[Record]:
        return scanner.text(decode(piece), line) if decoder is None else decoder.feed(piece, line)

    def holed(self) -> set[int]:
        """The inputs of which a part is known to be missing."""
        return {
            number
            for number, told in enumerate(self.inputs)
            if told.gaps or any(part.gaps for part in self.parts.get(told.name, ()))
        }

    def notes(self) -> list[str]:
        """What the user should know of the reading itself."""
        return self._done + [
            f"rule {rule}: its pattern took too long on line {line} and was skipped there"
            for rule, line in self._matcher.timeouts.items()
        ]


def _kept(window: Window | None) -> Kept | None:
    if window is None:
        return None
    from vdiag.reason.window import Kept

    return Kept(window)


def _inside(kept: Kept | None, records: Iterable[Record]) -> Iterable[Record]:
    return records if kept is None else kept.of(records)


__all__ = ["Reading", "compare", "diagnose", "diagnose_text", "each", "examine"]
