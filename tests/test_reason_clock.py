"""Printed times as instants: what they lack, how far apart two of them are, and windows of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from logtext import START, STOPPED, first, lines, said, steam
from test_cli_diagnose import World
from vdiag.cli.status import ExitStatus
from vdiag.intake.sources import of_bytes
from vdiag.model import Envelope, Record
from vdiag.pipeline import diagnose
from vdiag.reason.clock import UPTIME, UTC, WALL, YEARLESS, Stamp, apart, in_year_of, parse, zones_known
from vdiag.reason.window import Kept, Window, moment

NOON = 1795953600.0  # 2026-11-29 12:00:00 UTC


def stamp(text: str) -> Stamp:
    found = parse(text)
    assert found is not None, text
    return found


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2026-11-29T12:00:00Z", UTC),
        ("2026-11-29T12:00:00.000000000Z", UTC),
        ("2026-11-29T13:00:00+01:00", UTC),
        ("2026-11-29T13:00:00,000+0100", UTC),
        ("2026-11-29T06:30:00-05:30", UTC),
        ("2026-11-29 12:00:00 UTC", UTC),
        ("29/Nov/2026:12:00:00 +0000", UTC),
        ("1795953600", UTC),
        ("1795953600.0", UTC),
        ("1795953600000", UTC),
        ("1795953600000000", UTC),
        ("2026-11-29 12:00:00", WALL),
        ("2026-11-29 12:00:00,000", WALL),
        ("2026/11/29 12:00:00", WALL),
        ("2026-11-29 12:00", WALL),
        ("Sun 2026-11-29 12:00:00 CET", WALL),
        ("Sun Nov 29 12:00:00 2026", WALL),
        ("So Nov 29 12:00:00 2026", WALL),
        ("dim. nov. 29 12:00:00 2026", WALL),
    ],
)
def test_a_time_with_its_year(text: str, kind: str) -> None:
    assert (stamp(text).kind, stamp(text).seconds) == (kind, NOON)


@pytest.mark.parametrize(
    "text",
    ["11-29 12:00:00", "11-29 12:00:00.000", "Nov 29 12:00:00", "Nov 29 12:00:00.000000", "ноя 29 12:00:00",
     "1129 12:00:00.000000"],
)  # fmt: skip
def test_a_time_without_its_year(text: str) -> None:
    assert stamp(text).kind == YEARLESS
    assert in_year_of(stamp(text), NOON) == NOON
    assert apart(stamp(text), stamp("2026-11-29 12:00:05")) == 5
    assert apart(stamp("2026-11-29T12:00:05Z"), stamp(text)) == -5


@pytest.mark.parametrize("text", ["5123.120411", "    0.000000", "123456789.5"])
def test_an_uptime_compares_only_with_another(text: str) -> None:
    assert stamp(text).kind == UPTIME
    assert apart(stamp(text), stamp("2026-11-29 12:00:00")) is None
    assert apart(stamp("Nov 29 12:00:00"), stamp(text)) is None
    assert apart(stamp(text), stamp(text)) == 0


@pytest.mark.parametrize(
    "text", ["", "noon", "12:00", "99-99 12:00:00", "Foo 29 12:00:00", "2026-11-29", "0-0 0:00:00"]
)
def test_anything_else_is_no_time(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("one", "other", "span"),
    [
        ("12-31 23:59:58", "01-01 00:00:01", 3),
        ("Dec 31 23:59:58", "2027-01-01 00:00:01", 3),
        ("2027-01-01T00:00:01Z", "12-31 23:59:58", -3),
        ("02-28 23:59:59", "2027-03-01 00:00:00", 1),
        ("02-29 23:59:59", "2028-03-01 00:00:00", 1),
        ("11-29 10:00:00", "Nov 29 12:30:00", 9000),
    ],
)
def test_a_missing_year_is_the_one_that_brings_two_times_closest(one: str, other: str, span: float) -> None:
    assert apart(stamp(one), stamp(other)) == span


def test_only_two_exact_times_leave_no_doubt_of_the_zone() -> None:
    exact, naive = stamp("2026-11-29T12:00:00Z"), stamp("2026-11-29 12:00:00")
    assert zones_known(exact, stamp("2026-11-29T14:00:00+01:00"))
    assert not zones_known(exact, naive)
    assert not zones_known(naive, naive)


# ---- windows ----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _in_utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def kept(window: Window, *times: str) -> list[int]:
    """Lines of records with these times that the window keeps; an empty time is none."""
    told = Kept(window)
    records = [Record(0, n, "x", Envelope(time=t)) for n, t in enumerate(times, 1)]
    return [r.line for r in (*told.of(records), *told.rest())]


@pytest.mark.parametrize(
    ("text", "wall"),
    [
        ("2026-11-29 10:00", NOON - 7200),
        ("2026-11-29 10:00:00", NOON - 7200),
        ("2026-11-29T10:00:00Z", NOON - 7200),
        ("2026-11-29T11:00:00+01:00", NOON - 7200),
        ("11-29 10:00:00", NOON - 7200),
        ("Nov 29 10:00:00", NOON - 7200),
        ("10:00", NOON - 7200),
        ("-2h", NOON - 7200),
        ("2h", NOON - 7200),
        ("2 hours ago", NOON - 7200),
        ("-1h 30min", NOON - 5400),
        ("-90s", NOON - 90),
        ("-1d", NOON - 86400),
        ("now", NOON),
        ("today", NOON - 43200),
        ("2026-11-29", NOON - 43200),
        ("yesterday", NOON - 43200 - 86400),
    ],
)
def test_moments_people_write(text: str, wall: float) -> None:
    assert moment(text, NOON).wall == wall


@pytest.mark.parametrize("text", ["", "soon", "-2", "-2 moons", "5123.120411", "2026-13-45 99:00"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        moment(text, NOON)


def test_a_window_keeps_lines_by_their_own_time_and_numbers() -> None:
    window = Window(moment("2026-11-29 10:00", NOON), moment("2026-11-29 11:00", NOON))
    times = ("11-29 09:59:59", "11-29 10:00:00", "Nov 29 10:30:00", "2026-11-29T11:00:00Z", "11-29 11:00:01")
    assert kept(window, *times) == [2, 3, 4]


def test_a_line_without_a_time_follows_the_one_before_it() -> None:
    window = Window(moment("2026-11-29 10:00", NOON))
    assert kept(window, "11-29 09:00:00", "", "11-29 10:00:00", "", "5123.120411") == [3, 4, 5]


def test_lines_before_the_first_time_follow_it() -> None:
    window = Window(moment("2026-11-29 10:00", NOON))
    assert kept(window, "", "", "11-29 09:00:00", "11-29 10:00:00") == [4]
    assert kept(window, "", "", "11-29 10:00:00") == [1, 2, 3]


def test_a_log_without_times_is_kept_whole_and_says_so() -> None:
    told = Kept(Window(moment("-2h", NOON)))
    records = [Record(0, n, "x", Envelope()) for n in (1, 2)]
    assert [r.line for r in (*told.of(records), *told.rest())] == [1, 2]
    assert "carry no time" in told.gaps()[0].what


def test_an_empty_window_says_what_times_there_are() -> None:
    told = Kept(Window(moment("-2h", NOON)))
    assert [*told.of([Record(0, 1, "x", Envelope(time="11-28 10:00:00"))])] == []
    assert "11-28 10:00:00" in told.gaps()[0].what


def test_a_span_before_now_is_exact_where_the_log_prints_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    window = Window(moment("-1h", NOON))
    assert kept(window, "2026-11-29T10:59:00Z", "2026-11-29T11:01:00Z") == [2]
    assert kept(window, "11-29 19:59:00", "11-29 20:01:00") == [2]
    assert kept(Window(moment("2026-11-29 11:00", NOON)), "2026-11-29T10:59:00Z", "2026-11-29T11:01:00Z") == [
        2
    ]


# ---- the whole way ------------------------------------------------------------------------------------------


ROWS = (
    START,
    said("The boiler has no water in it"),
    STOPPED,
)  # 10:00:00, 10:00:30, 10:01:00 on the first of March
JSON_FILE = tuple(
    json.dumps({"log": f"{row}\n", "stream": "stderr", "time": f"2026-03-01T10:0{n}:00.123456789Z"})
    for n, row in enumerate(ROWS)
)
JOURNAL = tuple(
    json.dumps({"MESSAGE": row, "__REALTIME_TIMESTAMP": str(1772359200_000000 + n * 60_000000), "_PID": "7"})
    for n, row in enumerate(ROWS)
)


@pytest.mark.parametrize(
    ("rows", "since", "until", "answer"),
    [
        (ROWS, "2026-03-01 10:00:00", None, ("diagnosed", "dry", 2)),
        (ROWS, "2026-03-01 10:00:20", "2026-03-01 10:00:40", ("diagnosed", "dry", 2)),
        (ROWS, "2026-03-01 10:00:40", None, ("incomplete", "stopped", 3)),
        (ROWS, None, "2026-03-01 10:00:10", ("starting", None, None)),
        (ROWS, "2026-03-01 11:00:00", None, ("empty", None, None)),
        (JSON_FILE, "2026-03-01 10:01", None, ("diagnosed", "dry", 2)),
        (JSON_FILE, "2026-03-01 10:02", None, ("incomplete", "stopped", 3)),
        (JOURNAL, "2026-03-01T10:01:00Z", None, ("diagnosed", "dry", 2)),
        (JOURNAL, "2026-03-01T10:02:00Z", None, ("incomplete", "stopped", 3)),
    ],
)
def test_only_what_lies_in_the_window_counts(
    rows: tuple[str, ...], since: str | None, until: str | None, answer: tuple[str, str | None, int | None]
) -> None:
    window = Window(moment(since) if since else None, moment(until) if until else None)
    report = diagnose([of_bytes(lines(*rows).encode())], rulebook=steam(), window=window)
    assert first(report) == answer
    assert report.inputs[0].lines == 3


def test_the_options_name_the_window() -> None:
    world = World(lines(*ROWS).encode())
    assert world.run("--since", "2026-03-02", "--format", "json") == ExitStatus.NO_ANSWER
    assert "03-01 10:00:00" in json.loads(world.printed)["inputs"][0]["gaps"][0]["what"]
    world = World(lines(*ROWS).encode())
    assert world.run("--until", "soon") == ExitStatus.USAGE
    assert "--until" in world.err.getvalue()


def test_an_input_without_a_line_is_not_said_to_lack_times() -> None:
    world = World(b"")
    assert world.run("--since", "-2h", "--format", "json") == ExitStatus.NO_ANSWER
    assert json.loads(world.printed)["inputs"][0]["gaps"] == []


@pytest.mark.parametrize(
    ("since", "until"), [("10:02", "10:01"), ("-1h", "-2h"), ("2026-03-02", "2026-03-01")]
)
def test_a_window_that_ends_before_it_begins_is_the_calls_fault(since: str, until: str) -> None:
    world = World(lines(*ROWS).encode())
    assert world.run("--since", since, "--until", until) == ExitStatus.USAGE
    assert f"--until {until} lies before --since {since}." in world.err.getvalue()
    assert world.printed == ""
