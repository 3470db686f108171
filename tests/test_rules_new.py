"""`vdiag rules new` drafts a rule from a real line, and `rules test --explain LOG` says what became of the rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logtext import SAMPLES
from vdiag.cli.rules import rules
from vdiag.rulebook import lint as linting
from vdiag.rulebook.draft import Origin, draft, id_of, phrase_of
from vdiag.rulebook.examples import match_text
from vdiag.rulebook.load import load
from vdiag.rulebook.nearness import how_far

KV = str(SAMPLES / "kv-cache-too-small.log")


def run(*words: str) -> Result:
    return CliRunner().invoke(rules, words)


# ---- drafts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "phrase"),
    [
        ("the boiler holds 131,072 litres", "the boiler holds {boiler_holds:int} litres"),
        ("pressure=0.92 is too high", "pressure={pressure:num} is too high"),
        ("free memory is 4.95 GiB here", "free memory is {free_memory_gib:gib} here"),
        ("boiler 'acme one' is gone", "boiler '{boiler}' is gone"),
        ("key 'acme' is gone", "key '{key:word}' is gone"),
        ("cannot open /srv/models/acme/config.json", "cannot open {open:word}"),
        ("one of ['a', 'b'] was meant", "one of [{*}] was meant"),
        ("state {'a': 1} was met", "state {{{*}}} was met"),
        ("set `max_model_len` to something", "set `max_model_len` to something"),
        ("object at 0x7f3a lives on", "object at {*:word} lives on"),
        ("model acme/boiler-7b was not found", "model {model:name} was not found"),
        ("release 1.2.3 came too late", "release {release:word} came too late"),
        ("it ended at 2026-08-28T10:12:45Z for good", "it ended at {*:word} for good"),
        ("it ended at 2026-08-28 10:12:45,120 for good", "it ended at {*:word} {*:word} for good"),
        ("card 0000:65:00.0 is lost", "card {*:word} is lost"),
        (
            "page 0x7f3a holds 2.50 GiB on cuda:1",
            "page {*:word} holds {page_holds_gib:gib} on cuda:{holds_cuda:int}",
        ),
        ("float16 and layer3 stay", "float16 and layer3 stay"),
    ],
)
def test_what_varies_becomes_a_capture(said: str, phrase: str) -> None:
    assert phrase_of(said)[0] == phrase


def test_a_message_that_is_a_value_alone_is_kept_as_it_is(tmp_path: Path) -> None:
    text = "KeyError: 'acme.layers.0.weight'"
    (tmp_path / "rules.yaml").write_text(draft(Origin(text)), encoding="utf-8")
    (rule,) = load([tmp_path]).rules
    assert rule.phrases == [text]
    findings = linting.lint([tmp_path]).findings
    assert [found.message for found in findings if "phrases" in found.field] == []


def test_captures_have_names_of_their_own() -> None:
    assert phrase_of("size 3 and size 4")[1] == ["size", "size_2"]


def test_advice_at_the_end_does_not_become_part_of_the_phrase() -> None:
    said = "The boiler of this very large engine holds far too little water. Try a larger boiler."
    assert phrase_of(said)[0] == "The boiler of this very large engine holds far too little water."


def test_an_id_is_made_of_the_words_that_say_something() -> None:
    assert id_of("The boiler of 3 engines is empty") == "boiler-engines-empty"


@pytest.mark.parametrize(
    "origin",
    [
        Origin('ValueError: "quoted", with: a colon and 3 # marks'),
        Origin("1 validation error for Boiler\n  Value error, the seam {1} leaks [type=value_error]", row=1),
        Origin("the fire goes out slowly: 12 %", level="WARNING"),
        Origin("\tindented words here\nand more of them", row=1),
        Origin("words that end in \\n and 'a quote", kind="kernel", frame="boiler.py:fill"),
    ],
)
def test_a_draft_is_a_rule_that_matches_its_line(origin: Origin, tmp_path: Path) -> None:
    path = tmp_path / "draft.yaml"
    path.write_text(draft(origin), encoding="utf-8")
    rulebook = load([path])
    (rule,) = rulebook.rules
    assert [found.rule for found in match_text(rulebook, rule.examples[0])] == [rule.id]
    said = [finding.message for finding in linting.lint([path]).findings if finding.level == "error"]
    assert set(said) == {"is still to be written"}


def test_a_line_without_words_makes_no_rule() -> None:
    with pytest.raises(ValueError, match="no words"):
        draft(Origin("=== 42 ==="))


# ---- the command -----------------------------------------------------------------------------------------


def test_without_a_line_the_root_is_drafted() -> None:
    result = run("new", "--from", KV)
    assert result.exit_code == 0
    assert result.output.startswith("# `kv-cache-too-small` already matches this line")
    assert '- "ValueError: To serve at least one request' in result.output


def test_a_line_is_taken_without_its_prefix(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        "fine\n(EngineCore_DP0 pid=5400) WARNING 08-28 10:12:45 [boiler.py:7] The boiler has 3 leaks\n"
    )
    result = run("new", "--from", f"{log}:2")
    assert '- "The boiler has {boiler_has:int} leaks"' in result.output or "leaks" in result.output
    assert "level: warning" in result.output
    assert "EngineCore" not in result.output


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (f"{KV}:999", "has 129 lines, and none of number 999"),
        (f"{KV}:0", "has 129 lines, and none of number 0"),
        (f"{KV}:40", "the exception of the traceback there is on line 47"),
        (str(SAMPLES / "healthy-busy.log"), "failed: name the line"),
        ("none.log", "none.log: no such file"),
    ],
)
def test_a_line_that_is_not_there_is_refused(given: str, why: str) -> None:
    result = run("new", "--from", given)
    assert result.exit_code == 2
    assert why in result.output
    assert "Traceback (" not in result.output


# ---- why -------------------------------------------------------------------------------------------------


def test_explain_shows_what_matched_a_log_and_what_won() -> None:
    result = run("test", "--explain", KV)
    assert result.exit_code == 0
    assert "matched kv-cache-too-small (cause) on line 47" in result.output
    assert (
        "1. kv-cache-too-small, line 47, confidence 0.97: no other cause stands in its run" in result.output
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kv-cache-too-small", "is diagnosis 1, on line 47"),
        ("engine-core-init-failed", "only notices the failure, whose cause is kv-cache-too-small (line 47)"),
        ("cuda-oom", "no line holds a fixed text of its wordings"),
        ("benign-ulimit", "is benign: it is never a cause"),
    ],
)
def test_explain_says_why_a_named_rule_did_not_win(name: str, why: str) -> None:
    result = run("test", "--explain", KV, "--rule", name)
    assert result.exit_code == 0
    assert why in result.output


RULES = """
- {id: leak, title: A leak, level: error, phrases: ["The boiler has {n:int} leaks"]}
- {id: leak-long, title: A leak, phrases: ["The boiler has {n:int} leaks in its side"]}
- {id: steam, title: Steam, phrases: ["no steam at all in it"], with: [leak], phase: [serving]}
- {id: framed, title: Framed, phrases: ["no steam at all in here"], frames: ["boiler.py"]}
"""


@pytest.mark.parametrize(
    ("row", "name", "why"),
    [
        ("INFO 08-28 10:12:45 [a.py:7] The boiler has 3 leaks", "leak", "level INFO, and the rule asks for"),
        ("RuntimeError: The boiler has 3 leaks below", "leak-long", "it goes on with ` leaks in its side`"),
        ("RuntimeError: there is no steam at all in it", "steam", "`with` asks for leak"),
        ("RuntimeError: there is no steam at all in here", "framed", "the log shows no frames there"),
    ],
)
def test_explain_names_the_condition_that_does_not_hold(
    tmp_path: Path, row: str, name: str, why: str
) -> None:
    (tmp_path / "a.log").write_text(f"{row}\n")
    (tmp_path / "mine.yaml").write_text(RULES)
    result = run("test", "--explain", str(tmp_path / "mine.yaml"), str(tmp_path / "a.log"), "--rule", name)
    assert why in result.output


def test_explain_offers_near_ids(tmp_path: Path) -> None:
    result = run("test", "--explain", KV, "--rule", "kv-cache-to-small")
    assert result.exit_code == 2
    assert "no rule has this id; near it: kv-cache-too-small" in result.output


def test_a_phrase_says_where_it_stops_matching() -> None:
    near = how_far("The boiler has {n:int} leaks in {place}", "well: The boiler has 3 cracks")
    assert (near.reached, near.matched, near.expected, near.found) == (
        2,
        "The boiler has 3",
        " leaks in ",
        " cracks",
    )
