"""Rules on events: where a wording may stand, and what wrapping, levels and bad patterns do to it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logtext import events_of, lines, rule, traceback
from vdiag.match import matcher as matching
from vdiag.match.matcher import Match, Matcher
from vdiag.model import Role
from vdiag.rulebook.compile import Rulebook, compile_rules
from vdiag.rulebook.schema import Pattern, Rule

CORE = "(EngineCore_DP0 pid=5) {} 08-28 10:12:45 [core.py:708] "
FITS = "The model of {size:gib} does not fit into the {room:gib} of this card"
TEXT = "The model of 18.25 GiB does not fit into the 16.00 GiB of this card"


def matches(text: str, *rules: Rule, **fields: object) -> list[Match]:
    given = list(rules) or [rule("fits", FITS, **fields)]
    return Matcher(compile_rules(given)).match(events_of(text))


def test_a_wording_is_found_with_its_line_and_captures() -> None:
    (match,) = matches(lines("x", "y", "ValueError: " + TEXT))
    assert (match.line, match.captures, match.loose) == (3, {"size": 18.25, "room": 16.0}, False)


def test_no_rules_and_no_events_match_nothing() -> None:
    assert Matcher(Rulebook()).match(events_of("x\n")) == []
    assert Matcher(compile_rules([rule("fits", FITS)])).match([]) == []


@pytest.mark.parametrize("at", range(1, len(TEXT)))
def test_a_message_broken_anywhere_is_the_same_message(at: int) -> None:
    (match,) = matches(lines("x", "ValueError: " + TEXT[:at], TEXT[at:]))
    assert (match.line, match.captures) == (2, {"size": 18.25, "room": 16.0})


@pytest.mark.parametrize("width", range(9, 40, 3))
def test_a_message_broken_often_is_the_same_message(width: int) -> None:
    whole = "ValueError: " + TEXT
    rows = [whole[at : at + width] for at in range(0, len(whole), width)]
    if len(rows[0]) < len("ValueError: "):
        rows[0:2] = [rows[0] + rows[1]]
    (match,) = matches(lines(*rows))
    assert (match.line, match.captures) == (
        1 if len(rows[0]) > len("ValueError: ") else 2,
        {"size": 18.25, "room": 16.0},
    )


def test_a_message_broken_between_words_is_no_repair() -> None:
    (match,) = matches(
        lines("ValueError: The model of 18.25 GiB does", "not fit into the 16.00 GiB of this card")
    )
    assert not match.loose


def test_a_message_broken_inside_a_word_is_one() -> None:
    (match,) = matches(
        lines("ValueError: The model of 18.25 GiB do", "es not fit into the 16.00 GiB of this card")
    )
    assert match.loose


def test_a_match_begins_in_the_messages_own_rows() -> None:
    rest = [CORE.format("ERROR") + "Something else", TEXT]
    assert [m.line for m in matches(lines(*rest))] == [2], "once, as a line of its own"


def test_of_one_rule_on_one_line_the_longer_wording_stands() -> None:
    both = Rule(id="fits", title="t", phrases=["The model of {size:gib} does not fit", FITS])
    (match,) = matches(lines("ValueError: " + TEXT), both)
    assert "room" in match.captures


def test_a_rule_may_match_on_several_rows_of_one_event() -> None:
    one = rule("gone", "The card {n:int} has gone away")
    assert [
        m.line
        for m in matches(
            lines("RuntimeError: x", "  The card 1 has gone away", "  The card 2 has gone away"), one
        )
    ] == [2, 3]


def test_echoed_code_is_never_matched() -> None:
    rows = traceback("KeyError: 'a'", "main")
    rows[2:3] = [f'    raise ValueError("{TEXT}")', f"    x = '{TEXT}'", "    ^^^^^^^^^"]
    assert matches(lines(*rows)) == []


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
@pytest.mark.parametrize("lowest", ["debug", "info", "warning", "error"])
def test_a_cause_needs_its_level(level: str, lowest: str) -> None:
    order = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
    wanted = order.index(level) >= order.index(lowest.upper())
    assert bool(matches(lines(CORE.format(level) + TEXT), level=lowest)) is wanted


@pytest.mark.parametrize("role", [Role.SYMPTOM, Role.TRAILER, Role.CONTEXT, Role.BENIGN])
def test_other_roles_match_at_any_level(role: Role) -> None:
    assert matches(lines(CORE.format("DEBUG") + TEXT), role=role)


def test_a_line_without_a_level_counts() -> None:
    assert matches(lines(TEXT))


KINDS = {
    "log": "INFO 08-28 10:12:45 [core.py:708] ",
    "kernel": "[12345.678901] ",
    "unit": "Sep 14 07:42:47 gpu-02 systemd[1]: ",
    "http": "2026/09/14 07:42:47 [error] 31#31: *7 ",
    "exception": "ValueError: ",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [*KINDS, "native", "any"])
def test_a_rule_speaks_of_the_kind_it_names(kind: str, where: str) -> None:
    found = matches(lines(KINDS[kind] + TEXT), where=where, role=Role.SYMPTOM)
    assert bool(found) is (where in (kind, "any"))


@pytest.mark.parametrize("where", ["kernel", "unit", "native", "http", "any"])
def test_a_line_that_lost_its_prefix_may_be_of_any_kind(where: str) -> None:
    assert matches(lines(TEXT), where=where)


@pytest.mark.parametrize("where", ["exception", "log"])
def test_but_not_a_log_line_or_an_exception(where: str) -> None:
    assert not matches(lines(TEXT), where=where)


def test_an_error_level_line_counts_as_an_exception() -> None:
    assert matches(lines(CORE.format("ERROR") + TEXT), where="exception")
    assert not matches(lines(CORE.format("WARNING") + TEXT), where="exception", level="warning")


def test_at_names_the_capture_whose_line_is_the_root() -> None:
    text = lines("RuntimeError: the following went wrong", "  at stage 3: no coal")
    named = rule("coal", "the following went wrong at stage {stage:int}: no coal")
    assert [m.line for m in matches(text, named)] == [1]
    at_stage = rule("coal", "the following went wrong at stage {stage:int}: no coal", at="stage")
    assert [m.line for m in matches(text, at_stage)] == [2]


def test_a_pattern_that_takes_too_long_is_skipped_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "TIMEOUT", 0.05)
    error = CORE.format("ERROR")
    bad = Rule(id="bad", title="t", patterns=[Pattern(r"wheels (?:\w*\w*)*\w*\w*\w*!")])
    matcher = Matcher(compile_rules([bad, rule("fits", FITS)]))
    found = matcher.match(events_of(lines(error + "x", error + "wheels " + "a" * 30_000, error + TEXT)))
    assert [(m.rule, m.line) for m in found] == [(1, 3)]
    assert matcher.timeouts == {"bad": 2}


rows = st.sampled_from(
    [
        TEXT,
        TEXT[:20],
        TEXT[20:],
        "ValueError: " + TEXT,
        CORE.format("ERROR") + TEXT,
        CORE.format("INFO") + "x",
        "",
        "  y",
        "card",
    ]
)


@given(st.lists(rows, max_size=12))
@settings(max_examples=60, deadline=None)
def test_a_batch_gives_what_its_events_give_one_by_one(text: list[str]) -> None:
    matcher = Matcher(compile_rules([rule("fits", FITS), rule("card", "of this card")]))
    events = events_of(lines(*text))
    assert matcher.match(events) == [m for event in events for m in matcher.match([event])]
