"""How far a wording gets in a text that it does not match: for a contributor who asks why.

Works on phrases, part by part. Of a regex only its fixed text is looked for.
"""

from __future__ import annotations

from typing import NamedTuple

import regex

from vdiag.rulebook.captures import TYPES
from vdiag.rulebook.phrases import Choice, Hole, Part, Text, parse_phrase, source, spaced

MOST_SHOWN = 60  # characters quoted
LEAST_OPENING = 10  # characters of a fixed text that a line hardly holds by chance


class Near(NamedTuple):
    """Where a phrase stops matching a text. `reached` counts its parts; with all of them it matches."""

    reached: int
    parts: int
    matched: str  # the end of what matched
    expected: str  # the part that comes next, as it is written
    found: str  # what stands there instead


def how_far(phrase: str, text: str) -> Near:
    """The furthest that a phrase gets anywhere in a text."""
    parts = parse_phrase(phrase)
    for reached in range(len(parts), 0, -1):
        found = regex.search("".join(map(_source, parts[:reached])), text, timeout=1.0)
        if found is None:
            continue
        after = text[found.end() : found.end() + MOST_SHOWN].split("\n")[0]
        expected = written(parts[reached]) if reached < len(parts) else ""
        return Near(reached, len(parts), found[0][-MOST_SHOWN:], expected, after)
    return Near(0, len(parts), "", written(parts[0]), "")


def opening(phrase: str) -> str:
    """The first fixed text of a phrase that is long enough to tell, without its white space; empty if none is."""
    texts = ("".join(part.text.split()) for part in parse_phrase(phrase) if isinstance(part, Text))
    return next((text for text in texts if len(text) >= LEAST_OPENING), "")


def written(part: Part) -> str:
    """A part as a contributor writes it, cut to a length that can be shown."""
    if isinstance(part, Text):
        text = part.text
    elif isinstance(part, Hole):
        text = f"{{{part.name or '*'}:{part.type}}}"
    elif isinstance(part, Choice):
        text = f"{{{'|'.join(part.texts)}}}"
    else:
        text = f"{{?{part.text}}}"
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"


def _source(part: Part) -> str:
    return source(part, spaced, lambda hole: f"(?:{TYPES[hole.type].strict})")
