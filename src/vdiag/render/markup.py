"""Text as GitHub's Markdown that shows it as it is: prose, code spans, fenced blocks. Knows nothing of reports.

What comes from a log is code or plain words. GitHub turns mentions, issue numbers, addresses and emoji into more than
text even where Markdown leaves them alone, but never inside code: a word that could be any of these becomes code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from vdiag.render.page import harmless, shorten

LIMIT = 65_536  # characters of an issue or a comment on GitHub
ROOM = 64_000  # of them for a report; the rest is for what a person adds
LONGEST_WORD = 300  # characters of one code span
LONGEST_PROSE = 1500  # characters of one paragraph
GAP = "… {} left out …"

_TOKEN = re.compile(
    r"""(?P<open>[("']*)(?P<code>`(?=[^`]*[^`\s])[^`]+`)(?P<close>[).,;:!?"']*)(?=\s|$)|(?P<word>\S+)"""
)
_TRAILING = re.compile(r"[).,;:!?\"']*$")
# What Markdown or GitHub reads as more than text: its special characters, options (no dashes are to be lost), emoji
# names, addresses, references to issues and to commits.
_SPECIAL = re.compile(
    r"[`<>*_\[\]|\\~$&@#^{}]|^-{2}\w|:(?!\d\d:)[\w+-]+:|://|^www\.|\bGH-\d|\b[0-9a-f]{7,}\b", re.IGNORECASE
)
_BLOCK = re.compile(r"[-+=]+|\d{1,9}[.)]")  # as the first word: a list, a rule or a heading
_ADDRESS = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[\w./?=&%+:#,~-]*)?")


def size(text: str) -> int:
    """How many characters GitHub may count, by the least favourable way: UTF-16 units, a line end as two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 + text.count("\n")


def code(text: str) -> str:
    """A code span; it is fenced by one backtick more than the text has in a row."""
    text = " ".join(harmless(text).split())
    if not text:
        return ""
    text = shorten(text, LONGEST_WORD)
    fence = _fence(text, 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def prose(text: str) -> str:
    """One paragraph on one line; what stands between backticks stays code, and words that are no plain text become it."""
    text = shorten(" ".join(harmless(text).split()), LONGEST_PROSE)
    return " ".join(_said(token, not token.start()) for token in _TOKEN.finditer(text))


def _said(token: re.Match[str], first: bool) -> str:
    if token["code"]:
        return f"{token['open']}{code(token['code'][1:-1])}{token['close']}"
    word = token["word"]
    if not _SPECIAL.search(word) and not (first and _BLOCK.fullmatch(word)):
        return word
    head = re.match(r"[(\"']*", word)
    assert head is not None
    inner = word[head.end() :]
    end = _TRAILING.search(inner)
    assert end is not None
    if not inner[: end.start()] or _unpaired(inner[: end.start()]):
        return code(word)
    return f"{head[0]}{code(inner[: end.start()])}{end[0]}"


def _unpaired(word: str) -> bool:
    """Whether a bracket or quote that closes behind the word opens inside it."""
    return word.count("(") > word.count(")") or word.count('"') % 2 == 1 or word.count("'") % 2 == 1


def fenced(rows: Sequence[str], most: int, *, language: str = "text", keep: int = 0) -> str:
    """A block of code of at most `most` characters (as `size` counts); rows far from row `keep` go, and are counted."""
    lines = [harmless(row).replace("\n", "\\n") for row in rows]
    fence = _fence("\n".join(lines), 3)
    room = most - size(f"{fence}{language}\n{fence}\n") - 2 * size(GAP.format("100,000,000 lines") + "\n")
    start, end = _nearest([size(line) + 2 for line in lines], room, keep)
    shown = lines[start:end] or [shorten(lines[keep], max(room // 2, 1))] if lines else []
    if not lines[start:end]:
        start, end = keep, keep + 1
    before = [GAP.format(_lines(start))] if start else []
    after = [GAP.format(_lines(len(lines) - end))] if end < len(lines) else []
    return "\n".join([f"{fence}{language}", *before, *shown, *after, fence])


def _nearest(sizes: Sequence[int], room: int, keep: int) -> tuple[int, int]:
    """Start and end of the rows around `keep` that fit: it, then the rows before and after it in turn."""
    if not sizes or sizes[keep] > room:
        return keep, keep
    start, end, used = keep, keep + 1, sizes[keep]
    while start > 0 or end < len(sizes):
        # Two rows before for each one behind: a traceback stands above its exception.
        before = start > 0 and (end == len(sizes) or keep - start <= 2 * (end - keep))
        cost = sizes[start - 1] if before else sizes[end]
        if used + cost > room:
            break
        used += cost
        start, end = (start - 1, end) if before else (start, end + 1)
    return start, end


def _lines(number: int) -> str:
    return f"{number:,} line{'' if number == 1 else 's'}"


def folded(summary: str, text: str) -> str:
    """A part that is opened by a click; the summary is plain text."""
    return (
        f"<details>\n<summary>{escape(' '.join(harmless(summary).split()))}</summary>\n\n{text}\n\n</details>"
    )


def link(address: str, words: str = "") -> str:
    """A link; an address with anything unusual in it becomes code."""
    if not _ADDRESS.fullmatch(address):
        return code(address)
    return f"[{words}]({address})" if words else f"<{address}>"


def fitting(blocks: Iterable[str], most: int, between: str = "\n\n") -> str:
    """As many of the blocks, from the first on, as fit into `most`; how many do not is said."""
    told = list(filter(None, blocks))
    note = "*{} more left out: an issue on GitHub has no room for more.*"
    room = most - size(note.format(len(told)) + between)
    shown: list[str] = []
    for block in told:
        room -= size(block + between)
        if room < 0:
            break
        shown.append(block)
    if left := len(told) - len(shown):
        shown.append(("- " if between == "\n" else "") + note.format(left))
    return between.join(shown)


def part(title: str, blocks: Iterable[str], most: int, level: int, *, between: str = "\n\n") -> str:
    """A heading and what fits below it; nothing where there is nothing to say."""
    head = f"{'#' * level} {title}"
    told = fitting(blocks, most - size(head) - 4, between)
    return f"{head}\n\n{told}" if told else ""


def folding(summary: str, blocks: Iterable[str], most: int, *, between: str = "\n\n") -> str:
    """The same, folded."""
    told = fitting(blocks, most - size(folded(summary, "")), between)
    return folded(summary, told) if told else ""


def _fence(text: str, least: int) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(least, longest + 1)
