"""Many literals in one pass over bytes.

Hyperscan is the engine for bulk (1.2 GB/s for 220 literals where measured); `ahocorasick_rs` serves where its
instructions are missing (its import would kill the process), and for small texts the C `find` of bytes is
quicker than building either. All give the same answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

PLAIN = 96 * 1024  # bytes up to which looking for each literal by itself wins over building an automaton
GRAM = 5  # bytes: a literal can only stand in a text that holds its beginning
TEXT = (
    16 * 1024 * 1024
)  # bytes up to which the quickly built automaton wins over the quick one (both measured)

Hits = list[tuple[int, int]]  # (end offset, index of the literal), in no particular order


@lru_cache(maxsize=1)
def hyperscan_runs() -> bool:
    """Whether Hyperscan can be imported: it needs SSSE3, and dies without asking where that is missing."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            flags = next((line for line in f if line.startswith("flags")), "")
    except OSError:
        return False
    if " ssse3" not in flags:
        return False
    try:
        import hyperscan  # noqa: F401
    except ImportError:
        return False
    return True


class LiteralSet:
    """A set of byte literals to look for."""

    def __init__(self, literals: Sequence[bytes], engine: str = "") -> None:
        """`engine`: `hyperscan`, `aho` or empty for the best that runs here."""
        self.literals = list(literals)
        self._engine = engine
        self._scan: Callable[[bytes | memoryview], Hits] | None = None

    def find(self, data: bytes) -> Hits:
        """Where the literals end in `data`; of overlapping ones all."""
        if not self.literals:
            return []
        if self._scan is None and not self._engine:
            if len(data) <= PLAIN:
                return self._plain(data)
            if len(data) <= TEXT:
                self._engine = "aho"
        return self.automaton()(data)

    def automaton(self) -> Callable[[bytes | memoryview], Hits]:
        """The bulk search, built once."""
        if self._scan is None:
            engine = self._engine or ("hyperscan" if hyperscan_runs() else "aho")
            self._scan = _hyperscan(self.literals) if engine == "hyperscan" else _aho(self.literals)
        return self._scan

    def _plain(self, data: bytes) -> Hits:
        grams = {data[i : i + GRAM] for i in range(len(data) - GRAM + 1)}
        hits: Hits = []
        for i, literal in enumerate(self.literals):
            if len(literal) >= GRAM and literal[:GRAM] not in grams:
                continue
            at = data.find(literal)
            while at >= 0:
                hits.append((at + len(literal), i))
                at = data.find(literal, at + 1)
        return hits


def _hyperscan(literals: Sequence[bytes]) -> Callable[[bytes | memoryview], Hits]:
    import hyperscan

    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[re.escape(x).replace(b"\0", rb"\x00") for x in literals],
        ids=list(range(len(literals))),
        elements=len(literals),
        flags=[0] * len(literals),
    )

    def scan(data: bytes | memoryview) -> Hits:
        hits: Hits = []
        append = hits.append

        def on_match(number: int, _start: int, end: int, _flags: int, _context: Any) -> None:
            append((end, number))

        database.scan(data, match_event_handler=on_match)  # type: ignore[type-var]
        return hits

    return scan


def _aho(literals: Sequence[bytes]) -> Callable[[bytes | memoryview], Hits]:
    import ahocorasick_rs

    automaton = ahocorasick_rs.BytesAhoCorasick(
        list(literals), implementation=ahocorasick_rs.Implementation.ContiguousNFA
    )

    def scan(data: bytes | memoryview) -> Hits:
        return [
            (end, number)
            for number, _start, end in automaton.find_matches_as_indexes(bytes(data), overlapping=True)
        ]

    return scan
