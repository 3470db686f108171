"""Lines that a terminal, a page or a collector cut at a width, put together again."""

from __future__ import annotations

import re
from collections import Counter

from vdiag.scan.envelope import Peeler, strip_escapes

Piece = tuple[int, str]  # a physical line's number and its text

NARROWEST, WIDEST = 40, 400  # characters of a line that a terminal or a page wraps to
MOST_PIECES = 500  # of one line
TAIL = 600  # characters looked at of a line that goes on

_OWN = re.compile(  # what a line begins with that is not the rest of the one before
    r"\s*(?:\x1b\[[\d;]*m)*(?:\(\w[\w -]*pid=\d+|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b|\[|Traceback \(|File \"|\d{4}[-/]\d\d|"
    r"[A-Z][a-z]{2} [ \d]\d \d\d:|During handling|Exception ignored|The above exception|Process \w+|\S+: error: |[^|\n]{0,80}\d%\||[$#>] |$)"
)
_RAISED = re.compile(r"(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)\b")
_NAME = re.compile(r"(?:^|[\])|:] )(?:\w+\.)*\w+\.?$")  # a line that ends in the only word it has
_FRAME = re.compile(r'File "[^"]+", line \d+, in \S+\s*$')
_IN_PATH = re.compile(r'\bFile "[^"]*$')
_IN_FRAME = re.compile(r'\bFile(?: (?:"[^"]*(?:",? ?(?:l(?:i(?:n(?:e(?: \d*,?(?: i?n?)?)?)?)?)?)?)?)?)? ?$')
_FRAME_BEGUN = re.compile(r'\bFile "[^"\n]+",?(?: line(?: \d+(?:, in .*)?)?)? ?$')
_ROW = re.compile(r"[|+][^\n]*[|+]")
_DIGITS = re.compile(r"\d+")


def joined(pieces: list[Piece]) -> list[list[Piece]] | None:
    """Logical lines, each of the pieces that it was cut into; None where no width shows, or nothing was cut.

    A prefix that a collector repeated before a piece is taken off it; a break at a space gets its space again.
    """
    lengths = Counter(len(text) for _, text in pieces if text.strip())
    width = max(lengths, default=0)
    if not NARROWEST <= width <= WIDEST:
        return None
    hard = lengths[width] >= (2 if len(pieces) <= 12 else 3)
    spaced = not hard or lengths[width] < sum(lengths[width - short] for short in range(1, 9))
    return _Joiner(width, hard=hard, spaced=spaced).lines(pieces)


class _Joiner:
    def __init__(self, width: int, *, hard: bool, spaced: bool) -> None:
        """`hard`: lines that end at the width are cut there, also within a word; `spaced`: others at a space."""
        self.width = width
        self.hard = hard
        self.spaced = spaced
        self._peeler = Peeler()

    def lines(self, pieces: list[Piece]) -> list[list[Piece]] | None:
        lines: list[list[Piece]] = []
        line = ""  # the end of the latest logical line
        head = before = ""  # its first piece and its last one, as they stand in the text
        merged = False
        for n, text in pieces:
            rest = self._rest(head, before, line, text) if lines and len(lines[-1]) < MOST_PIECES else None
            if rest is None:
                lines.append([(n, text)])
                head, line = text, text[-TAIL:]
            else:
                m, last = lines[-1][-1]
                if self._spaced(before, line, rest):
                    lines[-1][-1] = (m, last + " ")
                    line += " "
                lines[-1].append((n, rest))
                line = (line + rest)[-TAIL:]
                merged = True
            before = text
        return lines if merged else None

    def _spaced(self, before: str, line: str, rest: str) -> bool:
        """Whether the line was broken at a space, which the break took away."""
        return len(before) < self.width and line[-1:] not in (" ", "") and rest[:1] != " "

    def _rest(self, head: str, before: str, line: str, text: str) -> str | None:
        """What a text adds to the line before it; None if it is a line of its own."""
        if not before.strip() or not text.strip():
            return None
        full = self.hard and len(before) == self.width
        if full and text[:1] == head[:1] and text[:1] != " ":
            prefix = self._repeated(head, text)
            rest = text[prefix:]
            if prefix and _shape(rest) == _shape(before[prefix:]):
                return None  # the same message once more
            if prefix and rest.strip():
                return rest if self._goes_on(before, line, rest, full) else None
        if full and Peeler.outer(text):
            return None  # a collector's prefix begins a line
        return text if self._goes_on(before, line, text, full) else None

    def _repeated(self, head: str, text: str) -> int:
        """How long the prefix of a text is, if it is that of the line it may go on from but for the time."""
        _, message = self._peeler.peel(text)
        prefix = len(text) - len(message)
        return prefix if prefix and _shape(text[:prefix]) == _shape(head[:prefix]) else 0

    def _blank(self, line: str) -> bool:
        """Whether a line is a prefix and nothing else."""
        return bool(line) and not self._peeler.peel(strip_escapes(line))[1].strip()

    def _too_long(self, before: str, text: str) -> bool:
        """Whether the first word of a text did not fit behind the line before it."""
        return len(before.rstrip()) + 1 + len(text.split(" ", 1)[0]) >= self.width

    def _goes_on(self, before: str, line: str, text: str, full: bool) -> bool:
        if not line.strip(" ^~") and text.strip(" ^~"):
            return False  # carets that happen to end at the width
        if _ROW.fullmatch(before):
            return False  # a table's row ends where it should
        if text[:1] == " " and _FRAME.search(line):
            return False  # the code under a frame that is whole
        own = _OWN.match(text) is not None
        if self._blank(line) and self._too_long(before, text) and not own and text[:1] != " ":
            return True  # a word too long to stand behind its prefix
        if _IN_FRAME.search(line) and not own and _completes(line, text):
            return True
        raised = _RAISED.match(text) is not None
        if full:
            if raised and _NAME.search(line):
                return True  # the name of an exception, cut within
            return not ((own or raised) and text[:1] != " ") or text[:1].islower()
        if own or raised or text[:1] == " ":
            return False
        return len(before) >= self.width * 0.6 and self._too_long(before, text)


def _shape(text: str) -> str:
    return _DIGITS.sub("#", text)


def _completes(line: str, text: str) -> bool:
    """Whether a text goes on with the frame that a line breaks off in."""
    if _IN_PATH.search(line) and text[:1] != " " and " " not in text:
        return True  # a piece of a long path
    return any(_FRAME_BEGUN.search(line[-TAIL:] + gap + text) is not None for gap in ("", " "))
