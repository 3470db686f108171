"""The lines around what a report names, read once more from its inputs: what a report shows of the log itself."""

from __future__ import annotations

import tempfile
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, cast

from vdiag.intake.blocks import Blocks, decode
from vdiag.intake.formats import SAMPLE, detect
from vdiag.intake.sources import Source, SourceError
from vdiag.model import Envelope, Line, Record
from vdiag.scan.envelope import strip_escapes
from vdiag.scan.records import Scanner, clip

if TYPE_CHECKING:
    from vdiag.scan.decoding import Decoder

BAR = 12  # characters that two drawings of one progress bar have in common
SPOOL = 8 * 1024 * 1024  # bytes of a stream that can be read only once kept in memory; more goes to a file


def spooled(source: Source) -> Source:
    """The same source, read to its end now into a temporary file, so that it can be opened again.

    An error while reading becomes the error of the copy, behind what could be read.
    """
    copy = tempfile.SpooledTemporaryFile(max_size=SPOOL)  # noqa: SIM115  (lives as long as the source)
    try:
        stream = source.open()
        while piece := stream.read(1 << 20):
            copy.write(piece)
    except (OSError, SourceError, EOFError) as error:
        failure: Exception | None = error
    else:
        failure = None

    def opened() -> BinaryIO:
        if failure is not None and not copy.tell():
            raise failure
        copy.seek(0)
        return cast(BinaryIO, copy)

    return Source(source.name, opened, source.size, source.gaps)


def read(sources: Sequence[Source], wanted: Mapping[str, Sequence[range]]) -> dict[str, list[Line]]:
    """The wanted lines of each input by its name; ranges ascend and do not overlap.

    What can no longer be read is missing. A file of a rotated set is a source of its own here.
    """
    return {
        source.name: list(_lines(source, wanted[source.name]))
        for source in sources
        if wanted.get(source.name)
    }


def _lines(source: Source, wanted: Sequence[range]) -> Iterator[Line]:
    try:
        stream = source.open()
    except (OSError, SourceError):
        return
    blocks = Blocks(stream)
    scanner, first = Scanner(0), 1
    decoder: Decoder | None = None
    form = ""
    for block, size in blocks.bulk():
        data = bytes(memoryview(block)[:size])
        if not form:
            form = detect(data[:SAMPLE])
            decoder = scanner.decoder(form)
        yield from _of_piece(data, first, wanted, scanner, decoder)
        first += data.count(b"\n")
        if first >= wanted[-1].stop and decoder is None:
            return
    if not form:
        decoder = scanner.decoder(detect(blocks.tail[:SAMPLE]))
    yield from _of_piece(blocks.tail, first, wanted, scanner, decoder)
    if decoder is not None:
        yield from _of_records(decoder.flush(), wanted)


def _of_piece(
    data: bytes, first: int, wanted: Sequence[range], scanner: Scanner, decoder: Decoder | None
) -> Iterator[Line]:
    if decoder is not None:
        yield from _of_records(decoder.feed(data, first), wanted)
        return
    end = first + data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    if not any(span.start < end and first < span.stop for span in wanted):
        return
    rows = decode(data).split("\n")
    for span in wanted:
        start, stop = max(span.start, first), min(span.stop, end)
        if start >= stop:
            continue
        texts = [strip_escapes(clip(_drawn(row))) for row in rows[start - first : stop - first]]
        speakers = _speakers(scanner, texts, start)
        for number, text in enumerate(texts, start):
            envelope = speakers.get(number)
            yield Line(number, text, *((envelope.lane, envelope.level) if envelope else ()))


def _drawn(row: str) -> str:
    """A row as it stood at last: of a progress bar that was drawn over and over, the last drawing."""
    row = row.strip("\r")
    if "\r" not in row:
        return row
    drawn = [part for part in row.split("\r") if part.strip()]
    over = [part[:BAR] == after[:BAR] for part, after in pairwise(drawn)]
    return "\r".join(part for part, gone in zip(drawn, [*over, False], strict=True) if not gone)


def _speakers(scanner: Scanner, texts: list[str], first: int) -> dict[int, Envelope]:
    """Who wrote each line, by its first record."""
    found: dict[int, Envelope] = {}
    for record in scanner.text("\n".join(texts), first):
        found.setdefault(record.line, record.envelope)
    return found


def _of_records(records: Iterable[Record], wanted: Sequence[range]) -> Iterator[Line]:
    """Rows of an encoded input with the time and the process that its entries name."""
    stops = [span.stop for span in wanted]
    for record in records:
        at = bisect_left(stops, record.line + 1)
        if at < len(wanted) and record.line in wanted[at]:
            envelope = record.envelope
            said = " ".join(filter(None, (envelope.time, envelope.lane, envelope.level)))
            text = f"{said}: {record.message}" if said else record.message
            yield Line(record.line, text, envelope.lane, envelope.level)


__all__ = ["read", "spooled"]
