"""The literal prefilter over the bulk of a long input: only what a literal points at becomes records.

Two kinds of literals. `loud` ones (traceback parts, exception shapes, what fatal causes own) make the lines
around them be read densely, and on as long as a traceback is open. `quiet` ones (statistics, access errors, phase
marks) give their own line; of each, the first and the last few hundred are kept as raw bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from vdiag.model import Role, Severity
from vdiag.rulebook.compile import Rulebook
from vdiag.scan.literals import LiteralSet

GENERIC_LOUD = (
    "Traceback (most recent call last)", '  File "', "Error: ", "Exception: ", "fatal error:", "FATAL", "Killed",
    "core dumped", "Segmentation fault", "terminate called", "oom-kill", "Out of memory", "NVRM: Xid",
)  # fmt: skip
GENERIC_QUIET = ("ERROR ", "CRITICAL ", "blob data]", " messages from ")
NEAR = 2048  # bytes behind a loud hit that are read with it
KEEP = 256  # lines kept of a quiet literal, first and last
IDLE = 64  # hits of a loud literal without a traceback until it is quiet
PIECE = 256 * 1024  # bytes searched at a time
MORE = 64 * 1024  # bytes read on at a time while a traceback is open
MOST_MORE = 1024 * 1024

Buffer = bytes | bytearray
Segment = tuple[int, bytes]  # number of its first line, whole lines


class Sieve:
    """Feed it blocks of whole lines in order; it yields the segments to read."""

    def __init__(self, rulebook: Rulebook, engine: str = "") -> None:
        loud: dict[str, bool] = dict.fromkeys(GENERIC_LOUD, True)
        for pattern in rulebook.patterns:
            rule = rulebook.rules[pattern.rule]
            is_loud = rule.role is Role.TRAILER or (
                rule.role is Role.CAUSE
                and rule.severity is Severity.FATAL
                and rule.alone
                and rule.level == "error"
            )
            loud[pattern.literal] = loud.get(pattern.literal, False) or is_loud
        for text in GENERIC_QUIET:
            loud.setdefault(text, False)
        loud.pop("", None)
        self._loud = list(loud.values())
        self._set = LiteralSet([text.encode() for text in loud], engine)
        self._idle = [0] * len(self._loud)  # loud hits since one was part of an open traceback
        self._latest = 0  # the literal that was last read densely for
        self._first: dict[int, int] = {}
        self._search = self._set.automaton()
        self._at, self._line = 0, 1  # an offset in the block, and the number of the line that begins there
        self._end = 0  # how far `_on` read
        self._size = 0
        self._quiet_end = -1  # the end of the last line that a quiet literal gave
        self.next_line = 1  # the number of the line behind the last block
        self._ring: dict[int, deque[Segment]] = {}

    @property
    def literals(self) -> list[bytes]:
        """What is looked for, in bytes."""
        return self._set.literals

    def segments(
        self, block: Buffer, size: int, first_line: int, busy: Callable[[], bool]
    ) -> Iterator[Segment]:
        """What to read of the first `size` bytes of a block, whose first line has this number.

        `busy` tells, after a segment was read, whether a traceback is still open.
        """
        view = memoryview(block)
        self._size = size
        self._at, self._line, self._end, self._quiet_end = 0, first_line, 0, -1
        done = 0  # how far the block was read densely
        start = 0
        while start < size:
            stop = block.rfind(b"\n", start, min(start + PIECE, size)) + 1 or min(start + PIECE, size)
            if done < stop:
                if done <= start and busy():
                    yield from self._on(block, start, busy)
                    done = self._end
                for segment, end in self._hits(block, view, max(start, done), stop, busy):
                    yield segment
                    done = max(done, end)
                    if end and busy() and end < size:
                        self._idle[self._latest] = 0
                        yield from self._on(block, end, busy)
                        done = self._end
            start = stop
        self.next_line = self._line_at(block, size)

    def _hits(
        self, block: Buffer, view: memoryview, start: int, stop: int, busy: Callable[[], bool]
    ) -> Iterator[tuple[Segment, int]]:
        """(segment, end of what is read densely by it or 0) for each hit of a piece."""
        done = start
        held: deque[Segment] | None = None  # the ring the last quiet line was put into
        for offset, number in sorted(self._search(view[start:stop])):
            end = start + offset
            loud = self._loud[number]
            if end <= max(done, self._end) or (not loud and end <= self._quiet_end):
                continue
            begin = block.rfind(b"\n", 0, end - 1) + 1
            if not loud:
                self._quiet_end = self._line_end(block, end)
                segment = self._line_at(block, begin), bytes(block[begin : self._quiet_end])
                kept = self._first.get(number, 0)
                if kept < KEEP:
                    self._first[number] = kept + 1
                    held = None
                    yield segment, 0
                else:
                    held = self._ring.setdefault(number, deque(maxlen=KEEP))
                    held.append(segment)
                continue
            self._idle[number] += 1
            if self._idle[number] > IDLE:  # it hit that often and no traceback came of it
                self._loud[number] = False
            begin = max(begin, done, self._end)
            if begin < self._quiet_end:  # the same line as a quiet hit: read already, or taken back
                if held is None:
                    begin = self._quiet_end
                else:
                    held.pop()
                self._quiet_end = -1
            done = self._line_end(block, min(end + NEAR, self._size))
            if begin < done:
                self._latest = number
                yield (self._line_at(block, begin), bytes(block[begin:done])), done

    def _line_at(self, block: Buffer, offset: int) -> int:
        """The number of the line that begins at an offset; offsets mostly rise, and what was counted stays so."""
        if offset < self._at:
            return self._line - block.count(b"\n", offset, self._at)
        self._line += block.count(b"\n", self._at, offset)
        self._at = offset
        return self._line

    def _on(self, block: Buffer, start: int, busy: Callable[[], bool]) -> Iterator[Segment]:
        """Reads on while a traceback is open, for a bounded while."""
        self._end = start
        while self._end < self._size and self._end - start < MOST_MORE and busy():
            stop = self._line_end(block, min(self._end + MORE, self._size))
            yield self._line_at(block, self._end), bytes(block[self._end : stop])
            self._end = stop

    def rest(self) -> list[Segment]:
        """The last lines of frequent quiet literals, in order, at the end of the bulk."""
        lines = {segment[0]: segment for ring in self._ring.values() for segment in ring}
        return [lines[number] for number in sorted(lines)]

    def _line_end(self, block: Buffer, at: int) -> int:
        end = block.find(b"\n", max(at - 1, 0), self._size)
        return self._size if end < 0 else end + 1
