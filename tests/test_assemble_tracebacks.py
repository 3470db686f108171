"""Tracebacks: whole, headless, cut, chained, interleaved, and what is in their way."""

from __future__ import annotations

import itertools

import pytest

from logtext import CAUSE, CONTEXT, HEAD, behind, events_of, exceptions_of, lines, sample, traceback
from vdiag.assemble.assembler import MOST_FRAMES, Assembler
from vdiag.assemble.shapes import frame_parts, is_echo
from vdiag.model import Kind
from vdiag.scan.records import Scanner

CORE = "(EngineCore_DP0 pid=5) ERROR 08-28 10:12:45 [core.py:708] "


def functions(event: object) -> list[str]:
    return [frame_parts(frame)[2] for frame in event.frames]  # type: ignore[attr-defined]


@pytest.mark.parametrize("prefix", ["", CORE, "(APIServer pid=1) ", "vllm-1  | ", "[rank0]: "])
def test_a_whole_traceback_is_one_exception_with_its_frames(prefix: str) -> None:
    text = lines("before", *behind(prefix, traceback("ValueError: no way", "main", "load")))
    (event,) = exceptions_of(text)
    assert (event.exception, event.rows, event.line) == ("ValueError", ["ValueError: no way"], 7)
    assert functions(event) == ["main", "load"]
    assert (event.kind, event.headless, event.link) == (Kind.EXCEPTION, False, "")


def test_a_traceback_that_begins_at_a_frame_is_headless() -> None:
    (event,) = exceptions_of(lines(*traceback("ValueError: no way", "main", head=False)))
    assert (event.exception, event.line, event.headless, functions(event)) == (
        "ValueError",
        3,
        True,
        ["main"],
    )


def test_a_fragment_that_begins_under_a_frame_knows_its_exception() -> None:
    text = lines('    raise ValueError("no way")', "    ^^^^^^^^^^^^^^^^^^^^^^^^^^", "ValueError: no way")
    assert [(e.exception, e.line) for e in exceptions_of(text)] == [("ValueError", 3)]
    assert [e.rows for e in events_of(text)] == [["ValueError: no way"]]


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("ValueError: no way", "ValueError"),
        ("AssertionError", "AssertionError"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory.", "torch.cuda.OutOfMemoryError"),
        ("requests.exceptions.HTTPError: 401 Client Error", "requests.exceptions.HTTPError"),
        ("KeyError: 'model.layers.0.weight'", "KeyError"),
        ("Exception: plain", "Exception"),
        ("SystemExit: 1", "SystemExit"),
    ],
)
def test_an_exception_line_alone_is_an_exception(row: str, name: str) -> None:
    assert [(e.exception, e.rows) for e in exceptions_of(lines(row))] == [(name, [row])]


@pytest.mark.parametrize(
    "row",
    [
        "Error: Invalid value for '--port'",
        "Note: something else",
        "Loading: 50%",
        "vllm: error: unrecognized arguments: --x",
        "This ValueError: is prose",
        "https://example.org: moved",
    ],
)
def test_a_line_alone_that_only_resembles_one_is_none(row: str) -> None:
    assert exceptions_of(lines(row)) == []


@pytest.mark.parametrize(
    ("row", "name"),
    [
        (
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for X",
            "pydantic_core._pydantic_core.ValidationError",
        ),
        ("zmq.error.ZMQError: Address already in use", "zmq.error.ZMQError"),
        ("click.exceptions.Abort", "click.exceptions.Abort"),
        ("EngineGenerateProblem: x", "EngineGenerateProblem"),
        ("_queue.Empty", "_queue.Empty"),
        ("socket.gaierror: [Errno -2] Name or service not known", "socket.gaierror"),
    ],
)
def test_behind_frames_any_class_is_an_exception(row: str, name: str) -> None:
    assert [e.exception for e in exceptions_of(lines(*traceback(row, "main")))] == [name]


def test_a_traceback_cut_at_its_end_tells_its_last_frame() -> None:
    rows = traceback("ValueError: x", "main", "load")[:-1]
    (event,) = [e for e in events_of(lines("x", *rows)) if e.kind is Kind.EXCEPTION]
    assert (event.exception, event.line, functions(event)) == ("", 5, ["main", "load"])


def test_a_new_head_cuts_the_traceback_before_it() -> None:
    rows = [*traceback("x", "main")[:-1], *traceback("ValueError: no way", "load")]
    cut, whole = [e for e in events_of(lines(*rows)) if e.kind is Kind.EXCEPTION]
    assert (cut.exception, functions(cut)) == ("", ["main"])
    assert (whole.exception, functions(whole)) == ("ValueError", ["load"])
    assert cut.traceback != whole.traceback


@pytest.mark.parametrize(("phrase", "link"), [(CAUSE, "cause"), (CONTEXT, "context")])
@pytest.mark.parametrize("prefix", ["", CORE])
def test_a_chain_holds_together(phrase: str, link: str, prefix: str) -> None:
    rows = [*traceback("KeyError: 'a'", "look"), "", phrase, "", *traceback("RuntimeError: outer", "main")]
    inner, outer = exceptions_of(lines(*behind(prefix, rows)))
    assert (inner.exception, inner.link, inner.line) == ("KeyError", "", 4)
    assert (outer.exception, outer.link, outer.line) == ("RuntimeError", link, 11)
    assert inner.traceback == outer.traceback
    assert (functions(inner), functions(outer)) == (["look"], ["main"])


def test_a_chain_of_three_has_one_number_and_both_links() -> None:
    rows = [
        *traceback("KeyError: 'a'"),
        "",
        CAUSE,
        "",
        *traceback("OSError: b"),
        "",
        CONTEXT,
        "",
        *traceback("ValueError: c"),
    ]
    found = exceptions_of(lines(*rows))
    assert [(e.exception, e.link) for e in found] == [
        ("KeyError", ""),
        ("OSError", "cause"),
        ("ValueError", "context"),
    ]
    assert len({e.traceback for e in found}) == 1


def test_tracebacks_one_after_the_other_are_no_chain() -> None:
    one, other = exceptions_of(lines(*traceback("KeyError: 'a'"), "later", *traceback("OSError: b")))
    assert one.traceback != other.traceback


def test_a_chain_whose_inner_part_was_cut_off_still_gives_the_outer() -> None:
    found = exceptions_of(lines("", CAUSE, "", *traceback("RuntimeError: outer", "main")))
    assert [(e.exception, functions(e)) for e in found] == [("RuntimeError", ["main"])]


def test_an_exception_group_gives_its_exceptions() -> None:
    text = lines(
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/opt/app/main.py", line 3, in main',
        "  |     run()",
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        "    | Traceback (most recent call last):",
        '    |   File "/opt/app/task.py", line 9, in task',
        "    |     go()",
        "    | ValueError: no way",
        "    +------------------------------------",
    )
    found = {e.exception: e for e in exceptions_of(text)}
    assert found["ValueError"].line == 9
    assert functions(found["ValueError"])[-1] == "task"


def interleave(*lanes: list[str]) -> list[str]:
    return [row for rows in itertools.zip_longest(*lanes) for row in rows if row is not None]


def test_four_interleaved_lanes_keep_their_tracebacks_apart() -> None:
    lanes = [
        behind(
            f"(Worker_TP{n} pid={40 + n}) ERROR 08-28 10:12:45 [w.py:1] ",
            traceback(f"ValueError: rank {n}", f"f{n}", f"g{n}"),
        )
        for n in range(4)
    ]
    found = exceptions_of(lines(*interleave(*lanes)))
    assert [(e.rows[0], e.envelope.rank, functions(e)) for e in found] == [
        (f"ValueError: rank {n}", f"TP{n}", [f"f{n}", f"g{n}"]) for n in range(4)
    ]
    assert [e.line for e in found] == [21, 22, 23, 24]


@pytest.mark.parametrize(
    "other", ["(Worker_TP1 pid=41) ", "(APIServer pid=1) INFO 08-28 10:12:45 [launcher.py:3] "]
)
def test_a_chain_survives_another_process_writing_between_all_its_rows(other: str) -> None:
    rows = [*traceback("KeyError: 'a'", "look"), "", CAUSE, "", *traceback("RuntimeError: outer", "main")]
    mixed = interleave(behind(CORE, rows), behind(other, ["still at it"] * len(rows)))
    inner, outer = exceptions_of(lines(*mixed))
    assert (inner.traceback, inner.link, outer.link) == (outer.traceback, "", "cause")
    assert (functions(inner), functions(outer)) == (["look"], ["main"])


def test_a_foreign_bare_line_inside_a_traceback_does_not_end_it() -> None:
    rows = traceback("ValueError: no way", "main", "load")
    rows.insert(3, 'INFO:     127.0.0.1:5000 - "GET /health HTTP/1.1" 200 OK')
    (event,) = exceptions_of(lines(*rows))
    assert (event.exception, functions(event)) == ("ValueError", ["main", "load"])


def test_the_two_rows_of_a_pydantic_error_are_one_event_whose_second_row_states_the_fault() -> None:
    rows = traceback(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
        "  Value error, the model does not fit [type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.11/v/value_error",
        "main",
    )
    (event,) = exceptions_of(lines("x", *rows))
    assert (event.lines[0], event.line, len(event.rows)) == (5, 6, 3)


def test_a_message_over_several_rows_stays_together() -> None:
    rows = traceback("RuntimeError: first\nsecond row\n  third row", "main")
    (event,) = exceptions_of(lines(*rows))
    assert event.rows == ["RuntimeError: first", "second row", "  third row"]
    assert event.lines == [4, 5, 6]


def test_a_message_ends_where_the_next_record_begins() -> None:
    text = lines(
        *behind(CORE, traceback("RuntimeError: first", "main")), CORE.replace("ERROR", "INFO") + "next"
    )
    (event,) = exceptions_of(text)
    assert event.rows == ["RuntimeError: first"]


def test_echoed_code_and_carets_are_no_rows_of_anything() -> None:
    text = lines(
        HEAD,
        '  File "/opt/app/a.py", line 3, in run',
        '    raise ValueError("The card is gone")',
        "    ~~~~~~~~~~^^^^^^^^^^^^^^^^^^",
        '  File "/opt/app/b.py", line 4, in go',
        "    x = RuntimeError: nonsense",
        "        ^^^^^",
        "  [Previous line repeated 12 more times]",
        "KeyError: 'a'",
    )
    assert [e.rows for e in events_of(text)] == [["KeyError: 'a'"]]


@pytest.mark.parametrize(
    "row", ["    ^^^^", "    ~~~~^^^~~", "    raise ValueError('x')", "    self.run()", "    ...<3 lines>..."]
)
def test_echo_rows_are_known(row: str) -> None:
    assert is_echo(row)


@pytest.mark.parametrize(
    "row", ["  Value error, the model does not fit", "    For further information visit x"]
)
def test_rows_of_messages_are_no_echo(row: str) -> None:
    assert not is_echo(row)


def test_what_python_ignored_is_marked() -> None:
    rows = [
        "Exception ignored in: <function Pool.__del__ at 0x7f00>",
        *traceback("ValueError: no way", "__del__"),
    ]
    (event,) = exceptions_of(lines(*rows))
    assert event.ignored
    assert not exceptions_of(lines(*rows, *traceback("KeyError: 'a'")))[1].ignored


def test_of_a_deep_recursion_the_innermost_frames_are_kept() -> None:
    rows = traceback("RecursionError: maximum recursion depth exceeded", *[f"f{n}" for n in range(200)])
    (event,) = exceptions_of(lines(*rows))
    assert functions(event) == [f"f{n}" for n in range(200 - MOST_FRAMES, 200)]
    assert event.line == 402


def test_a_process_banner_and_its_traceback_are_two_things() -> None:
    found = events_of(lines("Process EngineCore_DP0:", *traceback("ValueError: no way", "main")))
    assert [e.rows[0] for e in found] == ["Process EngineCore_DP0:", "ValueError: no way"]


def test_an_assembler_is_busy_while_a_traceback_is_open() -> None:
    assembler, scanner = Assembler(), Scanner(0)
    rows = traceback("ValueError: no way", "main")
    list(assembler.feed(scanner.text("\n".join(rows[:-1]))))
    assert assembler.busy
    list(assembler.feed(scanner.text(rows[-1], 4)))
    assert not assembler.busy


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_events_do_not_depend_on_the_pieces_they_come_in(size: int) -> None:
    text = sample("real-trunc-weights").text
    rows = text.split("\n")[:-1]
    assembler, scanner = Assembler(), Scanner(0)
    found = []
    for at in range(0, len(rows), size):
        found += assembler.feed(scanner.text("\n".join(rows[at : at + size]), at + 1))
    found += assembler.flush()
    assert found == events_of("\n".join(rows))
