"""The engines that look for literals: they differ in speed alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdiag.scan.literals import LiteralSet, hyperscan_runs

ENGINES = ["aho", *(["hyperscan"] if hyperscan_runs() else [])]
few = st.sampled_from([b"a", b"b", b"ab", b".", b"\n", b"(", b"\xc3\xa9", b"\x00", b"Z"])
text = st.lists(few, max_size=60).map(b"".join)
literals = st.lists(st.lists(few, min_size=1, max_size=4).map(b"".join), min_size=1, max_size=8, unique=True)


def by_hand(wanted: list[bytes], data: bytes) -> list[tuple[int, int]]:
    return sorted(
        (at + len(x), i) for i, x in enumerate(wanted) for at in range(len(data)) if data.startswith(x, at)
    )


@pytest.mark.parametrize("engine", ENGINES)
@given(wanted=literals, data=text)
@settings(max_examples=60, deadline=None)
def test_an_automaton_finds_what_is_there(engine: str, wanted: list[bytes], data: bytes) -> None:
    assert sorted(LiteralSet(wanted, engine).find(data)) == by_hand(wanted, data)


@given(wanted=literals, data=text)
@settings(max_examples=100, deadline=None)
def test_the_plain_search_finds_what_is_there(wanted: list[bytes], data: bytes) -> None:
    assert sorted(LiteralSet(wanted).find(data)) == by_hand(wanted, data)


@pytest.mark.parametrize("engine", [*ENGINES, ""])
def test_overlapping_literals_are_all_found(engine: str) -> None:
    assert sorted(LiteralSet([b"aa", b"aaa", b"a"], engine).find(b"aaa")) == [
        (1, 2),
        (2, 0),
        (2, 2),
        (3, 0),
        (3, 1),
        (3, 2),
    ]


@pytest.mark.parametrize("engine", [*ENGINES, ""])
def test_no_literals_find_nothing(engine: str) -> None:
    assert LiteralSet([], engine).find(b"anything") == []


@pytest.mark.parametrize("engine", ENGINES)
def test_characters_with_a_meaning_in_patterns_mean_themselves(engine: str) -> None:
    wanted = [b"a.b", b"(x)*", b"[0]", b"\\d", b"^$", b"a|b", b"?"]
    data = b" | ".join(wanted) + b" aXb 7"
    assert sorted(LiteralSet(wanted, engine).find(data)) == by_hand(wanted, data)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_part_of_a_buffer_can_be_searched(engine: str) -> None:
    data = memoryview(bytearray(b"needle ... needle"))
    assert LiteralSet([b"needle"], engine).automaton()(data[3:]) == [(14, 0)]
