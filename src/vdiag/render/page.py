"""Lines for a terminal: wrapping, shortening and making a stranger's text harmless. Knows nothing of reports.

Prose wraps, commands never do. Styles are names that only matter with colour; every meaning is in the words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable

WIDEST = 120  # columns of prose; the eye loses longer lines

# Colours a log brought along carry no meaning here; any other control sequence is shown, not obeyed.
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
# So is what is unseen or no character at all; what joins letters and emoji stays (ZWJ, ZWNJ, variants).
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff]"
)
_BEYOND = re.compile(
    "[\U00010000-\U0010ffff]"
)  # looked at one by one: they are rare, and a set of them is slow
_UNSEEN = (range(0x1BCA0, 0x1BCA4), range(0x1D173, 0x1D17B), range(0xE0000, 0xE1000))

# What a stream is given instead where its encoding has no blocks and rules; anything else becomes a question mark.
_IN_ASCII = str.maketrans("▁▂▃▄▅▆▇█░▒▓─│·…", "_.-:=+*#.:#-|..")

_LINK = ("http://", "https://")  # stays whole, so that it can be opened
_BREAKS = ",;&|"


def harmless(text: str) -> str:
    """One line or several; control, direction-changing and invisible characters written out as `\\x1b`."""
    return _written(_COLOURS.sub("", text).replace("\r\n", "\n").replace("\t", "    "), _visible)


def spelled(json: str) -> str:
    """JSON that says the same and holds no character that a terminal obeys or nobody sees."""
    return _written(json, _in_json)


def one_row(text: str) -> str:
    """A name on one row, whatever line ends it holds."""
    return text.replace("\r", "\\r").replace("\n", "\\n")


def in_ascii(text: str) -> str:
    """The text with its blocks in ASCII, rising as they do: `_.-:=+*#`."""
    return text.translate(_IN_ASCII)


def shows_blocks(encoding: str | None) -> bool:
    """Whether an encoding has the blocks of sparklines and bars."""
    try:
        "▁█░".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _written(text: str, how: Callable[[int], str]) -> str:
    """The text with what is obeyed or unseen in it written out by its code."""
    text = _HARMFUL.sub(lambda found: how(ord(found[0])), text)
    if text.isascii():
        return text
    return _BEYOND.sub(lambda found: how(ord(found[0])) if _is_unseen(ord(found[0])) else found[0], text)


def _is_unseen(code: int) -> bool:
    return code & 0xFFFE == 0xFFFE or any(code in codes for codes in _UNSEEN)


def _visible(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _in_json(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def cells(text: str) -> int:
    """How many columns the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns, broken at spaces; a longer word stays whole, so that it can be copied."""
    lines: list[str] = []
    current, used = "", 0
    for word in text.split():
        size = cells(word)
        if current and used + 1 + size > width:
            lines.append(current)
            current, used = "", 0
        current, used = (f"{current} {word}", used + 1 + size) if current else (word, size)
    return [*lines, current] if current or not lines else lines


def fold(text: str, width: int) -> list[str]:
    """Like `wrap`, but a word that is too long is broken too, behind a comma or the like where there is one."""
    lines: list[str] = []
    for line in wrap(text, width):
        while cells(line) > width and not line.startswith(_LINK):
            most = width if line.isascii() else width // 2  # a wide character takes two columns
            cut = max(line.rfind(mark, most // 2, most) for mark in _BREAKS) + 1 or most
            lines.append(line[:cut])
            line = line[cut:]
        lines.append(line)
    if len(lines) > 1 and lines[-1] == "…" and cells(lines[-2]) <= width:  # not a row of its own
        last = lines[-2] if cells(lines[-2]) <= width - 2 else lines[-2].rpartition(" ")[0] or lines[-2][:-2]
        lines[-2:] = [f"{last} …"]
    return lines


def shorten(text: str, limit: int, around: Iterable[str] = ()) -> str:
    """At most about `limit` characters, kept around the first place where one of `around` stands; `…` marks cuts."""
    if len(text) <= limit:
        return text
    places = [at for word in around if len(word) > 1 and (at := text.find(word)) >= 0]
    start = max(0, min(min(places, default=0) - limit // 3, len(text) - limit))
    end = min(start + limit, len(text))
    # Cut between words where one ends nearby.
    if start and (space := text.find(" ", start, start + 20)) > 0:
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", end - 20, end)) > 0:
        end = space
    return ("… " if start else "") + text[start:end].strip() + (" …" if end < len(text) else "")


class Page:
    """Collects styled lines. `width` is in columns; prose uses at most WIDEST of them."""

    def __init__(self, width: int) -> None:
        self.width = min(max(width, 40), WIDEST)
        self.lines: list[list[tuple[str, str]]] = []
        self.said: set[str] = set()  # what needs to be said once only

    def blank(self) -> None:
        """One empty line, never two."""
        if self.lines and self.lines[-1]:
            self.lines.append([])

    def heading(self, text: str) -> None:
        """A section begins."""
        self.blank()
        self.lines.append([(text, "bold")])

    def prose(
        self, text: str, *, first: str = "", indent: str = "", style: str = "", first_style: str = ""
    ) -> None:
        """Wrapped text; `first` stands before its first line, `indent` before the others."""
        for paragraph in harmless(text).split("\n"):
            for line in wrap(paragraph, self.width - max(cells(first), cells(indent))):
                self.lines.append([(first, first_style or style), (line, style)])
                first = indent

    def quote(self, text: str, *, first: str = "", indent: str = "") -> None:
        """Like prose, for what a log says: no line is longer than the page is wide."""
        for paragraph in harmless(text).split("\n"):
            for line in fold(paragraph, self.width - max(cells(first), cells(indent))):
                self.lines.append([(first, ""), (line, "")])
                first = indent

    def command(self, text: str) -> None:
        """A command or a configuration line, indented, never wrapped."""
        for line in harmless(text).split("\n"):
            self.lines.append([("    ", ""), (line, "dim" if line.startswith("#") else "cyan")])

    def plain(self) -> str:
        """The page without colour."""
        return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in self.lines)
