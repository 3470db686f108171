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
GENERIC_QUIET = ("ERROR ", "CRITICAL ")
NEAR = 2048  # bytes behind a loud hit that are read with it
KEEP = 256  # lines kept of a quiet literal, first and last
MORE = 64 * 1024  # bytes read on at a time while a traceback is open
MOST_MORE = 1024 * 1024

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
        self._first: dict[int, int] = {}
        self._end = 0
        self.next_line = 1  # the number of the line behind the last block
        self._ring: dict[int, deque[Segment]] = {}

    @property
    def literals(self) -> list[bytes]:
        """What is looked for, in bytes."""
        return self._set.literals

    def segments(self, block: bytes, first_line: int, busy: Callable[[], bool]) -> Iterator[Segment]:
        """What to read of a block. `busy` tells, after a segment was read, whether a traceback is still open."""
        at, line = 0, first_line  # how far lines are counted
        done = 0  # how far the block was read densely
        if busy():
            yield from self._on(block, 0, first_line, busy)
            done = self._end
        quiet_end, held = -1, None  # end of the last quiet line; its ring, if it was put there
        for end, number in sorted(self._set.automaton()(block)):
            if end <= done:
                continue
            if not self._loud[number]:
                if end <= quiet_end:
                    continue
                start = block.rfind(b"\n", 0, end - 1) + 1
                quiet_end = _line_end(block, end)
                line += block.count(b"\n", at, start)
                at = start
                kept = self._first.get(number, 0)
                if kept < KEEP:
                    self._first[number] = kept + 1
                    held = None
                    yield line, block[start:quiet_end]
                else:
                    held = self._ring.setdefault(number, deque(maxlen=KEEP))
                    held.append((line, block[start:quiet_end]))
                continue
            start = max(block.rfind(b"\n", 0, end - 1) + 1, done)
            if start < quiet_end:  # the same line as a quiet hit: read already, or taken back
                if held is None:
                    start = quiet_end
                else:
                    held.pop()
                quiet_end = -1
            stop = _line_end(block, min(end + NEAR, len(block)))
            line += block.count(b"\n", at, start)
            at = start
            yield line, block[start:stop]
            done = stop
            if busy() and stop < len(block):
                line += block.count(b"\n", at, stop)
                at = stop
                yield from self._on(block, stop, line, busy)
                done = self._end
        self.next_line = line + block.count(b"\n", at)

    def _on(self, block: bytes, start: int, line: int, busy: Callable[[], bool]) -> Iterator[Segment]:
        """Reads on while a traceback is open, for a bounded while."""
        self._end = start
        while self._end < len(block) and self._end - start < MOST_MORE and busy():
            stop = _line_end(block, min(self._end + MORE, len(block)))
            piece = block[self._end : stop]
            yield line, piece
            line += piece.count(b"\n")
            self._end = stop

    def rest(self) -> list[Segment]:
        """The last lines of frequent quiet literals, in order, at the end of the bulk."""
        lines = {segment[0]: segment for ring in self._ring.values() for segment in ring}
        return [lines[number] for number in sorted(lines)]


def _line_end(block: bytes, at: int) -> int:
    end = block.find(b"\n", max(at - 1, 0))
    return len(block) if end < 0 else end + 1
