"""The types a placeholder can have: what each matches and what value it becomes.

Two regular expressions per type: `strict` for text as the program printed it, `loose` for text that a terminal or
a web page wrapped, where a line break may stand inside a number or a word. This module knows neither phrases nor
rules.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

#: A line break inside a number or word of wrapped text, with the indentation that came with it.
WRAP = r"[ \t]{0,4}\n[ \t]{0,16}"

_INT = r"-?(?:\d{1,3}(?:[,_]\d{3})+|\d{1,30})(?!\d)"  # whole: what follows may not eat its end
_NUM = r"-?(?:\d{1,3}(?:[,_]\d{3})+|\d{1,30})(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?(?!\d|\.\d)"
_UNIT = r"(?:\s{0,4}(?:[KMGTkmgt]i?[Bb]|bytes?|B)|[KMGTkmgt]i?)(?![A-Za-z])"
_NAME = r"[\w./:@+-]"
_NAME_END = r"[\w/@+-]"

_DIGITS = rf"\d{{1,30}}(?:(?:{WRAP}[,_]?|[,_](?:{WRAP})?)\d{{1,30}}){{0,12}}"
_LOOSE_INT = rf"-?{_DIGITS}(?!\d)"
_LOOSE_NUM = rf"-?{_DIGITS}(?:\s?\.\s?\d{{1,30}}(?:{WRAP}\d{{1,30}})?)?(?:[eE][+-]?\d{{1,3}})?"
_LOOSE_UNIT = r"(?:\s{0,20}(?:[KMGTkmgt]\s{0,20}(?:i\s{0,20})?[Bb]|b\s*y\s*t\s*e\s*s?|B)|[KMGTkmgt]i?)"


MOST_DIGITS = 300  # a longer run of digits is no number of anything, and Python refuses to read 4301


class CaptureType(NamedTuple):
    """What a placeholder matches. `last` is the form for the end of a phrase, where nothing follows to stop it."""

    strict: str
    loose: str
    last: str


TYPES: dict[str, CaptureType] = {
    "int": CaptureType(_INT, _LOOSE_INT, _INT),
    "num": CaptureType(_NUM, _LOOSE_NUM, _NUM),
    "gib": CaptureType(_NUM + _UNIT, _LOOSE_NUM + _LOOSE_UNIT, _NUM + _UNIT),
    "word": CaptureType(r"\S{1,400}?", rf"\S(?:(?:{WRAP})?\S){{0,400}}?", r"\S{1,400}"),
    "name": CaptureType(
        rf"{_NAME}{{0,400}}{_NAME_END}",
        rf"{_NAME}(?:(?:{WRAP})?{_NAME}){{0,400}}",
        rf"{_NAME}{{0,400}}{_NAME_END}",
    ),
    "text": CaptureType(r"[^\n]{1,600}?", r"[\s\S]{1,600}?", r"[^\n]{1,4000}"),
}

#: The type of a regex group that names none: whole digits become an integer, decimals a number, else text.
AUTO = "auto"

# Upper-case prefixes of ten (GB as on a disk's label), `i` and lower case of two: the kernel's kB is 1024 bytes,
# docker's `2gb` and systemd's `4.2G` are of two as well. https://docs.kernel.org/filesystems/proc.html
_GIB = float(1 << 30)
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}
_AMOUNT = re.compile(r"(-?[\d.]+(?:e[+-]?\d+)?)([a-zA-Z]*)\Z", re.IGNORECASE)
_WRAPPED = re.compile(WRAP)
_BLANK = re.compile(r"\s")
_WHOLE = re.compile(r"-?(?:\d{1,3}(?:[,_]\d{3})+|\d+)\Z")
_DECIMAL = re.compile(r"-?\d+\.\d+\Z")


def capture_value(kind: str, text: str) -> Any:
    """The value of a captured text.

    `int`: int. `num`: int, or float where it has a point or an exponent. `gib`: float, in GiB (2**30 bytes; `GB`,
    `MB`, `KB` and `TB` are powers of 1000, every other unit powers of 1024). `word`, `name`: text without white
    space. `text`: text with white space folded to single spaces. `auto`: int, float, a path without white space or
    folded text, by its looks.
    A text that is not what its type promises comes back as folded text; nothing is raised.
    """
    folded = " ".join(text.split())
    if kind == "text":
        return folded
    squeezed = "".join(text.split())
    if kind in ("word", "name"):
        return squeezed
    if kind == AUTO:
        unwrapped = _WRAPPED.sub("", text).strip()
        if _WHOLE.match(unwrapped):
            digits = unwrapped.replace(",", "").replace("_", "")
            return int(digits) if len(digits) < MOST_DIGITS else folded
        if _DECIMAL.match(unwrapped):
            return float(unwrapped)
        return (
            unwrapped if "/" in unwrapped and not _BLANK.search(unwrapped) else folded
        )  # a path is one word
    plain = squeezed.replace(",", "").replace("_", "")
    try:
        if kind == "int":
            return int(plain)
        if kind == "num":
            return int(plain) if plain.lstrip("-").isdigit() else float(plain)
        return _gib(plain)
    except ValueError:
        return folded


def _gib(amount: str) -> float:
    """GiB of a number with its unit; ValueError if it is none."""
    found = _AMOUNT.match(amount)
    if not found:
        raise ValueError(amount)
    number, unit = float(found[1]), found[2]
    if unit in ("", "B", "byte", "bytes"):
        return number / _GIB
    power = _POWER.get(unit[0].lower())
    if power is None:
        raise ValueError(amount)
    decimal = unit in ("KB", "MB", "GB", "TB")
    return float(number * (1000**power if decimal else 1024**power) / _GIB)
