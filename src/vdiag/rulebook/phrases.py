"""From a phrase as a contributor writes it to regular expressions.

The syntax is that of docs/rules.md: the message as printed, with `{name:type}`, `{name}`, `{*}`, `{one|other}`,
`{?text}` and `{{ }}`. Nothing here knows rules or files.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from vdiag.rulebook.captures import TYPES

GAP = r"\s*"
_HOLE = re.compile(r"(\*|[A-Za-z_]\w*)(?::(.*))?\Z", re.DOTALL)


class WordingError(ValueError):
    """A phrase or regex that cannot be read: what was expected there, and what stands there."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected = expected
        self.got = got


class Wording(NamedTuple):
    """What a phrase or a regex compiles to.

    `runs` are the fixed texts that must occur, as printed; a newline in one stands for white space of unknown
    shape. Each of `choices` is a set of runs of which one must occur. `weight` counts the fixed characters that are not white space.
    """

    source: str
    loose: str
    runs: list[str]
    types: dict[str, str]
    weight: int
    choices: list[list[str]]


class Text(NamedTuple):
    text: str


class Hole(NamedTuple):
    name: str  # empty: not kept
    type: str


class Choice(NamedTuple):
    texts: list[str]


class Maybe(NamedTuple):
    text: str


Part = Text | Hole | Choice | Maybe


def compile_phrase(phrase: str) -> Wording:
    """The wording of a phrase; WordingError says what is wrong with one that cannot be read."""
    parts = parse_phrase(phrase)
    types: dict[str, str] = {}
    for part in parts:
        if isinstance(part, Hole) and part.name:
            if part.name in types:
                raise WordingError("each name once in a phrase", f"{{{part.name}}} twice")
            types[part.name] = part.type
    last = len(parts) - 1
    source = "".join(_strict(part, index == last) for index, part in enumerate(parts))
    loose = GAP.join(filter(None, (_loose(part, index == last) for index, part in enumerate(parts))))
    runs, weight = _fixed(parts)
    choices = [part.texts for part in parts if isinstance(part, Choice)]
    return Wording(source, loose, runs, types, weight, choices)


def parse_phrase(phrase: str) -> list[Part]:
    """The parts of a phrase in their order; outer white space does not count."""
    phrase = phrase.strip()
    if not phrase:
        raise WordingError("a message as printed", "nothing")
    parts: list[Part] = []
    fixed: list[str] = []
    at = 0
    while at < len(phrase):
        char = phrase[at]
        if phrase[at : at + 2] in ("{{", "}}"):
            fixed.append(char)
            at += 2
        elif char == "}":
            raise WordingError(
                "`}}` for a brace that is part of the message", f"a lone `}}` at character {at + 1}"
            )
        elif char == "{":
            end = phrase.find("}", at)
            if end < 0:
                raise WordingError(
                    "a closing `}`, or `{{` for a brace of the message", f"`{phrase[at : at + 20]}`"
                )
            if fixed:
                parts.append(Text("".join(fixed)))
                fixed.clear()
            parts.append(_placeholder(phrase[at + 1 : end]))
            at = end + 1
        else:
            fixed.append(char)
            at += 1
    if fixed:
        parts.append(Text("".join(fixed)))
    return parts


def _placeholder(inner: str) -> Part:
    if "{" in inner:
        raise WordingError("a placeholder without braces in it", f"`{{{inner}}}`")
    if inner.startswith("?"):
        return Maybe(inner[1:])
    if "|" in inner:
        return Choice(inner.split("|"))
    hole = _HOLE.match(inner)
    if not hole:
        raise WordingError(
            "`{name}`, `{name:type}`, `{*}`, `{one|other}`, `{?text}`, or `{{` for a brace of the message",
            f"`{{{inner}}}`",
        )
    name, kind = hole[1], hole[2]
    if kind is None:
        kind = "text"
    elif kind not in TYPES:
        near = get_close_matches(kind, TYPES, 1)
        hint = f" (did you mean `{near[0]}`?)" if near else ""
        raise WordingError(f"one of the types {', '.join(TYPES)}{hint}", f"`{{{inner}}}`")
    return Hole("" if name == "*" else name, kind)


def spaced(text: str) -> str:
    """A regex for a fixed text in which white space matches any white space."""
    return "".join(
        r"\s+" if piece.isspace() else re.escape(piece) for piece in re.split(r"(\s+)", text) if piece
    )


def loosened(text: str) -> str:
    """A regex for a fixed text in which white space may be missing, or stand between any two characters."""
    return GAP.join(re.escape(char) for char in "".join(text.split()))


def source(part: Part, fixed: Callable[[str], str], hole: Callable[[Hole], str]) -> str:
    """A regex for a part, given the regex for a fixed text and the one for a hole."""
    if isinstance(part, Text):
        return fixed(part.text)
    if isinstance(part, Choice):
        return f"(?:{'|'.join(map(fixed, part.texts))})"
    if isinstance(part, Maybe):
        return f"(?:{fixed(part.text)})?"
    return hole(part)


def _strict(part: Part, last: bool) -> str:
    return source(
        part, spaced, lambda hole: _group(hole, TYPES[hole.type].last if last else TYPES[hole.type].strict)
    )


def _loose(part: Part, last: bool) -> str:
    return source(
        part, loosened, lambda hole: _group(hole, TYPES[hole.type].last if last else TYPES[hole.type].loose)
    )


def _group(hole: Hole, body: str) -> str:
    return f"(?P<{hole.name}>{body})" if hole.name else f"(?:{body})"


def _fixed(parts: list[Part]) -> tuple[list[str], int]:
    """The fixed runs and their weight. What all texts of a choice begin or end with belongs to its neighbours."""
    runs = [""]
    weight = 0
    for part in parts:
        if isinstance(part, Text):
            runs[-1] += re.sub(r"\s{2,}|[^\S ]", "\n", part.text)
            weight += ink(part.text)
        elif isinstance(part, Choice):
            head = _common_head(part.texts)
            tail = _common_head([text[len(head) :][::-1] for text in part.texts])[::-1]
            runs[-1] += head
            runs.append(tail)
            weight += min(map(ink, part.texts))
        else:
            runs.append("")
    return [run for run in runs if run.strip()], weight


def _common_head(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    return low[: next((at for at, char in enumerate(low) if char != high[at]), len(low))]


def ink(text: str) -> int:
    """How many characters of a text are not white space."""
    return sum(not char.isspace() for char in text)
