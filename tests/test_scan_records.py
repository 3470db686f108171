"""From physical lines to records: several in one line, and the numbers of the lines."""

from __future__ import annotations

import json

import pytest

from logtext import HEAD, lines, records_of
from vdiag.model import Kind
from vdiag.scan.records import LONGEST_LINE, Scanner, access_status

PREFIX = "(EngineCore_DP0 pid=5) ERROR 08-28 10:12:45 [core.py:708] "


def told(text: str) -> list[tuple[int, str]]:
    return [(r.line, r.message) for r in records_of(text) if r.message]


def test_every_line_is_a_record_with_its_number() -> None:
    assert told("a\nb\n\nd\n") == [(1, "a"), (2, "b"), (4, "d")]


def test_numbers_begin_where_the_caller_says() -> None:
    assert [(r.line, r.message) for r in Scanner(3).text("a\nb", 100)] == [(100, "a"), (101, "b")]
    assert {r.source for r in Scanner(3).text("a\nb", 100)} == {3}


def test_a_carriage_return_before_the_line_end_belongs_to_it() -> None:
    assert told("a\r\nb\r\n" + PREFIX + "c\r\n") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_redrawn_progress_bar_is_several_records_of_one_line() -> None:
    assert told("Loading:   0%\rLoading:  50%\rLoading: 100%\nnext") == [
        (1, "Loading:   0%"),
        (1, "Loading:  50%"),
        (1, "Loading: 100%"),
        (2, "next"),
    ]


def test_an_error_behind_a_progress_bar_has_its_own_envelope() -> None:
    found = records_of("x\nLoading:  50%\r" + PREFIX + "Boom\n")
    assert (found[2].line, found[2].message, found[2].envelope.pid) == (2, "Boom", 5)


@pytest.mark.parametrize(
    "glued",
    [
        "Loading: 10%(EngineCore_DP0 pid=5) Boom",
        "Loading: 10%(EngineCore_DP0 pid=5) ERROR 08-28 10:12:45 [core.py:708] Boom",
        "(Worker_TP1 pid=9) Loading: 10%(EngineCore_DP0 pid=5) ERROR 08-28 10:12:45 [core.py:708] Boom",
    ],
)
def test_two_writes_without_a_line_end_between_them_are_two_records(glued: str) -> None:
    found = records_of("x\n" + glued)
    assert [(r.line, r.message) for r in found] == [(1, "x"), (2, "Loading: 10%"), (2, "Boom")]
    assert (found[2].envelope.role, found[2].envelope.pid) == ("EngineCore", 5)


def test_a_header_glued_to_a_bare_line_begins_a_record() -> None:
    found = records_of("Capturing: 10%ERROR 08-28 10:12:45 [core.py:708] Boom")
    assert [r.message for r in found] == ["Capturing: 10%", "Boom"]
    assert found[1].envelope.level == "ERROR"


def test_a_traceback_with_its_line_ends_spelled_out_comes_apart() -> None:
    text = HEAD + r"\n  File \"/opt/app/a.py\", line 3, in run\n    go()\nValueError: no way\n"
    assert told("x\n" + text) == [
        (1, "x"),
        (2, HEAD),
        (2, '  File "/opt/app/a.py", line 3, in run'),
        (2, "    go()"),
        (2, "ValueError: no way"),
    ]


def test_a_json_log_line_stands_for_its_message_and_traceback() -> None:
    entry = {
        "levelname": "ERROR",
        "message": "Boom",
        "exc_info": HEAD + '\n  File "/opt/app/a.py", line 3, in run\nValueError: no way',
        "filename": "core.py",
        "lineno": 708,
        "process": 5,
        "processName": "EngineCore",
        "asctime": "2026-08-28 10:12:45",
    }
    found = records_of("x\n" + json.dumps(entry) + "\ny")
    assert [(r.line, r.message) for r in found] == [
        (1, "x"),
        (2, "Boom"),
        (2, HEAD),
        (2, '  File "/opt/app/a.py", line 3, in run'),
        (2, "ValueError: no way"),
        (3, "y"),
    ]
    env = found[1].envelope
    assert (env.kind, env.level, env.pid, env.role, env.origin, env.time) == (
        Kind.LOG,
        "ERROR",
        5,
        "EngineCore",
        "core.py:708",
        "2026-08-28 10:12:45",
    )
    assert found[4].envelope == env


def test_a_journal_entry_as_json_is_peeled_by_its_message() -> None:
    found = records_of(json.dumps({"__CURSOR": "s=1", "_PID": "812", "MESSAGE": PREFIX + "Boom"}))
    assert [(r.message, r.envelope.pid, r.envelope.level) for r in found] == [("Boom", 5, "ERROR")]


def test_a_docker_json_file_line_is_peeled_by_its_log() -> None:
    found = records_of(
        json.dumps({"log": PREFIX + "Boom\n", "stream": "stderr", "time": "2026-08-28T10:12:45Z"})
    )
    assert [(r.message, r.envelope.pid) for r in found] == [("Boom", 5)]


def test_json_behind_a_compose_prefix_keeps_the_service() -> None:
    found = records_of("vllm-1  | " + json.dumps({"level": "ERROR", "message": "Boom"}))
    assert [(r.message, r.envelope.level, r.envelope.unit) for r in found] == [("Boom", "ERROR", "vllm-1")]


@pytest.mark.parametrize(
    "body",
    [
        '{"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","param":null,"code":404}',
        '{"error":{"message":"The model `x` does not exist.","type":"NotFoundError","param":"model","code":404}}',
        '{"detail":"Unauthorized"}',
    ],
)
def test_an_http_error_body_stays_whole(body: str) -> None:
    assert [(r.message, r.envelope.kind) for r in records_of(body)] == [(body, Kind.HTTP)]


@pytest.mark.parametrize("text", ["{not json}", "{'model': 'acme/model-7b'}", "{" * 5000 + "}" * 5000])
def test_braces_that_hold_no_json_are_a_plain_record(text: str) -> None:
    assert [(r.message, r.envelope.kind) for r in records_of(text)] == [(text, Kind.NATIVE)]


def test_a_dump_of_megabytes_keeps_its_head_and_its_end() -> None:
    found = records_of("x\n" + "BEGIN" + "z" * 5_000_000 + "END\ny")
    assert [r.line for r in found] == [1, 2, 3]
    assert len(found[1].message) <= LONGEST_LINE + 3
    assert found[1].message.startswith("BEGINz")
    assert found[1].message.endswith("zEND")


def test_colours_do_not_move_lines() -> None:
    assert told("\x1b[31mred\x1b[0m\n\x1b[0m\nplain\n") == [(1, "red"), (3, "plain")]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('127.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 200 OK', ("POST", "/v1/completions", 200)),
        (
            '10.0.0.1 - - [14/Sep/2026:07:42:47 +0000] "GET /v1/models HTTP/1.1" 502 157',
            ("GET", "/v1/models", 502),
        ),
        ('said "POST /x HTTP/1.1" once', None),
        ("nothing of the kind", None),
    ],
)
def test_access_lines_are_told_by_their_shape(line: str, wanted: tuple[str, str, int] | None) -> None:
    assert access_status(line) == wanted


def test_line_separators_that_are_no_line_ends_do_not_count() -> None:
    assert told(lines("a\u2028b", "c\x0bd", "e\x85f", "g")) == [
        (1, "a\u2028b"),
        (2, "c\x0bd"),
        (3, "e\x85f"),
        (4, "g"),
    ]
