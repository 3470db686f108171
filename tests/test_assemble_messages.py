"""Messages of several rows: what goes on, what begins something new, and rests that lost their prefix."""

from __future__ import annotations

import pytest

from logtext import events_of, lines
from vdiag.assemble.assembler import MOST_ROWS, MOST_SPILL
from vdiag.model import Kind

CORE = "(EngineCore_DP0 pid=5) ERROR 08-28 10:12:45 [core.py:708] "


def rows_of(*text: str) -> list[list[str]]:
    return [event.rows for event in events_of(lines(*text))]


def test_every_headed_line_is_an_event_of_its_own() -> None:
    assert rows_of(CORE + "one", CORE + "two") == [["one"], ["two"]]


def test_indented_rows_go_on_with_the_message_above() -> None:
    assert rows_of("ld: cannot find -lcuda", "  searched /usr/lib", "\tand /lib") == [
        ["ld: cannot find -lcuda", "  searched /usr/lib", "\tand /lib"]
    ]


def test_kernel_lines_are_one_event_each() -> None:
    assert rows_of("[1.000000] one", "[1.000001] two") == [["one"], ["two"]]


def test_unit_lines_are_one_event_each() -> None:
    unit = "Sep 14 07:42:47 gpu-02 systemd[1]: "
    found = events_of(lines(unit + "vllm.service: one", unit + "vllm.service: two"))
    assert [(e.kind, e.rows) for e in found] == [
        (Kind.UNIT, ["vllm.service: one"]),
        (Kind.UNIT, ["vllm.service: two"]),
    ]


def test_a_kernel_line_does_not_end_up_in_a_message_of_the_server() -> None:
    found = rows_of("RuntimeError: first", "[1.000000] usb 1-1: gone")
    assert ["usb 1-1: gone"] in found
    assert all("usb" not in " ".join(rows) or rows == ["usb 1-1: gone"] for rows in found)


def test_an_unprefixed_row_behind_a_prefixed_message_may_be_its_wrapped_rest() -> None:
    found = events_of(lines(CORE + "The card is too", "small for this model"))
    message = next(e for e in found if e.rows[0] == "The card is too")
    assert (message.rows, message.lines, message.own) == (
        ["The card is too", "small for this model"],
        [1, 2],
        1,
    )
    assert any(e.rows[0] == "small for this model" for e in found), "it may as well be a line of its own"


def test_several_unprefixed_rows_behind_a_prefixed_message_may_be_its_rest() -> None:
    found = events_of(lines(CORE + "The card is too", "small for this", "model"))
    message = next(e for e in found if e.rows[0] == "The card is too")
    assert message.rows == ["The card is too", "small for this", "model"]


def test_a_rest_is_no_longer_than_a_dozen_rows() -> None:
    found = events_of(lines(CORE + "start", *[f"row {n}" for n in range(50)]))
    message = next(e for e in found if e.rows[0] == "start")
    assert len(message.rows) == 1 + MOST_SPILL


def test_a_message_without_an_end_is_cut_into_bounded_events() -> None:
    found = events_of(lines("RuntimeError: start", *[f"  row {n}" for n in range(500)]))
    assert max(len(e.rows) for e in found) == MOST_ROWS
    assert sum(len(e.rows) for e in found) == 501


def test_blank_rows_at_the_end_do_not_count() -> None:
    (event,) = events_of(lines("RuntimeError: start", "  row", "", ""))
    assert event.rows == ["RuntimeError: start", "  row"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_only_lines_with_something_in_them_are_events(count: int) -> None:
    assert events_of("\n" * count) == []


def test_the_lines_of_an_event_are_those_of_its_rows() -> None:
    text = "a\n\nb\nRuntimeError: x\n  y\n\n  z\n"
    for event in events_of(text):
        assert len(event.rows) == len(event.lines)
        for row, line in zip(event.rows, event.lines, strict=True):
            assert text.split("\n")[line - 1] == row
