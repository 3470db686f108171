"""The prefilter over long inputs: what it passes on, under which numbers, with either engine."""

from __future__ import annotations

import random

import pytest

from logtext import SERVED, rule, steam, traceback
from vdiag.model import Severity
from vdiag.rulebook.compile import Rulebook
from vdiag.scan.literals import hyperscan_runs
from vdiag.scan.sieve import KEEP, NEAR, Sieve

ENGINES = ["aho", *(["hyperscan"] if hyperscan_runs() else [])]
NOISE = [SERVED] * 200


def sift(
    rows: list[str], engine: str = "aho", rulebook: Rulebook | None = None, blocks: int = 1
) -> dict[int, str]:
    """The lines that are passed on, by number; checks that none comes twice."""
    sieve = Sieve(rulebook or steam(), engine)
    passed: dict[int, str] = {}
    first = 1
    size = -(-len(rows) // blocks)
    segments = []
    for at in range(0, len(rows), size):
        block = "".join(f"{row}\n" for row in rows[at : at + size]).encode()
        segments += list(sieve.segments(bytearray(block) + b"garbage", len(block), first, lambda: False))
        first = sieve.next_line
        assert first == min(at + size, len(rows)) + 1
    for line, piece in [*segments, *sieve.rest()]:
        assert piece.endswith(b"\n")
        for number, row in enumerate(piece.decode().split("\n")[:-1], line):
            assert number not in passed, f"line {number} twice"
            passed[number] = row
    return passed


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_a_failure_among_noise_is_passed_on_under_its_numbers(engine: str, blocks: int) -> None:
    failure = traceback("ValueError: The boiler has no water in it", "main", "load")
    rows = [*NOISE, *failure, *NOISE, "The engine has stopped. See above", *NOISE]
    passed = sift(rows, engine, blocks=blocks)
    assert passed == {n: rows[n - 1] for n in passed}
    assert set(range(201, 207)) <= set(passed)
    assert 407 in passed


def test_noise_alone_passes_nothing() -> None:
    assert sift(NOISE * 10) == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loud_line_brings_what_stands_behind_it(engine: str) -> None:
    passed = sift([*NOISE, "The boiler has no water in it", *NOISE], engine)
    assert min(passed) == 201
    assert sum(len(row) + 1 for row in passed.values()) >= NEAR
    assert len(passed) < 100


def test_a_quiet_line_comes_alone() -> None:
    passed = sift([*NOISE, "WARNING 03-01 10:00:00 [a.py:1] The train is always late now", *NOISE])
    assert list(passed) == [201]


def test_of_a_frequent_quiet_line_the_first_and_the_last_are_kept() -> None:
    rows = [f"{n} The train is always late now" for n in range(1, 5001)]
    passed = sift(rows)
    assert list(passed) == [*range(1, KEEP + 1), *range(5001 - KEEP, 5001)]


def test_a_loud_line_that_never_comes_to_anything_turns_quiet() -> None:
    rows = [row for n in range(3000) for row in (f"{n} The boiler has no water in it", *[SERVED] * 60)]
    passed = sift(rows, blocks=5)
    assert len(passed) < len(rows) / 5
    assert max(passed) >= len(rows) - 60


def test_client_errors_and_overload_are_quiet() -> None:
    quiet = rule("ticket", "A passenger has no valid ticket", severity=Severity.CLIENT)
    assert list(sift([*NOISE, "A passenger has no valid ticket", *NOISE], rulebook=steam(quiet))) == [201]


def test_it_reads_on_while_a_traceback_is_open() -> None:
    sieve = Sieve(steam(), "aho")
    rows = [*NOISE, *traceback("x", *[f"f{n}" for n in range(3000)])[:-1], "OSError: end", *NOISE]
    block = "".join(f"{row}\n" for row in rows).encode()
    seen: list[bytes] = []
    for _, piece in sieve.segments(block, len(block), 1, lambda: b"OSError: end" not in b"".join(seen)):
        seen.append(piece)
    text = b"".join(seen)
    assert text.count(b'  File "') == 3000
    assert b"OSError: end" in text


@pytest.mark.skipif(len(ENGINES) < 2, reason="one engine only")
@pytest.mark.parametrize("seed", range(8))
def test_both_engines_pass_the_same(seed: int, rulebook: Rulebook) -> None:
    chance = random.Random(seed)
    pool = [
        *NOISE[:20],
        *traceback("ValueError: no way", "main"),
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "INFO 08-28 10:12:45 [loggers.py:1] Engine 000: Avg prompt throughput: 4.5 tokens/s",
        "ERROR 08-28 10:12:45 [core.py:1] x",
        "",
    ]
    block = "".join(f"{chance.choice(pool)}\n" for _ in range(4000)).encode()
    one, other = (list(Sieve(rulebook, e).segments(block, len(block), 1, lambda: False)) for e in ENGINES)
    assert one == other
