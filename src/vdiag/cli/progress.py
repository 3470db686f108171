"""A progress bar on standard error for what takes long, and only for a person who watches a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vdiag.cli.console import Console

if TYPE_CHECKING:
    from vdiag.intake import Source

LONG = 64 << 20  # bytes; less is read in the blink of an eye
CELLS = 30
INTERVAL = 0.1  # seconds between two drawings

Draw = Callable[[int], None]


@contextmanager
def progress_for(console: Console, sources: Sequence[Source]) -> Iterator[Draw | None]:
    """A function that takes the number of bytes read so far over all sources; None where no bar is wanted."""
    total = sum(source.size or 0 for source in sources)
    with bar(console, total, f"{total >> 20} MiB", least=LONG) as draw:
        yield draw


@contextmanager
def bar(console: Console, total: int, of: str, *, least: int = 0) -> Iterator[Draw | None]:
    """A function that takes how much of `total` is done; None where that is no more than `least`, or nobody watches."""
    if not console.stderr_is_terminal or total <= least:
        yield None
        return
    drawn = 0.0

    def draw(done: int) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < INTERVAL:
            return
        drawn = now
        share = min(done / total, 1.0)
        cells = "#" * int(share * CELLS)
        console.stderr.write(f"\rreading [{cells:<{CELLS}}] {share:4.0%} of {of}")
        console.stderr.flush()

    try:
        yield draw
    finally:
        console.stderr.write("\r\x1b[K")
        console.stderr.flush()
