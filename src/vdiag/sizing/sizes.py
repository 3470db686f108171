"""Sizes as people write them: `24GiB`, `80G`, `24576MiB`."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
MOST = 4 << 40  # bytes of one card


def parsed(text: str) -> int:
    """Bytes. `G`, `Gi`, `GiB` count 1024, as cards do; `GB` counts 1000. A number alone is GiB.

    Raises:
        ValueError: it is no size of a card.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} is no size; write it as 24GiB")
    number, unit, rest = float(found[1]), found[2].lower(), found[3].lower()
    if not unit and not rest:
        unit = "g"
    base = 1000 if rest == "b" and unit else 1024
    size = number * base ** _POWERS[unit]
    if not 1 << 30 <= size <= MOST:
        raise ValueError(f"{text[:40]!r} is no size of a card; write it as 24GiB")
    return int(size)
