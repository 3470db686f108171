"""Phrases and captures: what a contributor writes, what it matches, what it becomes."""

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from vdiag.rulebook.captures import TYPES, capture_value
from vdiag.rulebook.phrases import WordingError, compile_phrase

KV = (
    "To serve at least one request with the {models's|model's} max seq len ({max_len:int}), "
    "({need_gib:gib} KV cache is needed, which is larger than the available KV cache memory ({have_gib:gib})"
)
KV_PRINTED = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is "
    "needed, which is larger than the available KV cache memory (4.95 GiB). Based on"
)
KV_FACTS = {"max_len": 131072, "need_gib": 16.0, "have_gib": 4.95}


def captured(phrase, text, *, loose=False):
    """The captures of a phrase in a text, or None."""
    wording = compile_phrase(phrase)
    match = regex.search(wording.loose if loose else wording.source, text, timeout=5)
    if match is None:
        return None
    return {name: capture_value(wording.types[name], value) for name, value in match.groupdict().items()}


def test_a_message_as_printed_gives_its_facts():
    assert captured(KV, KV_PRINTED) == KV_FACTS
    assert captured(KV, KV_PRINTED.replace("models's", "model's")) == KV_FACTS


def test_white_space_matches_any_white_space():
    assert captured(KV, KV_PRINTED.replace(" ", "\n   ")) == KV_FACTS


@pytest.mark.parametrize("width", [7, 23, 40, 80])
@pytest.mark.parametrize("indent", ["", "    "])
def test_wrapped_text_matches_loosely_wherever_it_broke(width, indent):
    rows = [KV_PRINTED[at : at + width] for at in range(0, len(KV_PRINTED), width)]
    assert captured(KV, f"\n{indent}".join(rows), loose=True) == KV_FACTS


def test_wrapped_text_may_lose_the_space_at_the_break():
    rows = [KV_PRINTED[at : at + 40].strip() for at in range(0, len(KV_PRINTED), 40)]
    assert captured(KV, "\n".join(rows), loose=True) == KV_FACTS


def test_squeezed_text_matches_loosely():
    assert captured(KV, "".join(KV_PRINTED.split()), loose=True) == KV_FACTS


@pytest.mark.parametrize(
    ("phrase", "text", "facts"),
    [
        ("len {n:int}, and", "len 131,072, and", {"n": 131072}),
        ("len {n:int}", "len 131,072, 5", {"n": 131072}),
        ("len {n:int}", "len 65, 66", {"n": 65}),
        ("code {n:int}", "exit code -9", {"n": -9}),
        ("util {n:num}.", "util 0.92.", {"n": 0.92}),
        ("util {n:num}", "util 23.", {"n": 23}),
        ("total-vm:{n:gib}, ", "total-vm:2097152kB, anon", {"n": 2.0}),
        ("have {n:gib} free", "have 512.00 MiB free", {"n": 0.5}),
        ("have {n:gib}", "have -3.25 GiB.", {"n": -3.25}),
        ("peak {n:gib}", "peak 4G", {"n": 4.0}),
        ("model {m:word} is", "model acme/model-7b is", {"m": "acme/model-7b"}),
        ("model {m:word}", "model acme/model-7b is", {"m": "acme/model-7b"}),
        ("model {m:name}", "no model acme/model-7b.", {"m": "acme/model-7b"}),
        ("flag {f:name} is", "flag --max-model-len is", {"f": "--max-model-len"}),
        ("arguments: {flags}", "arguments: --a --b 3\nnext", {"flags": "--a --b 3"}),
        ("from {a} to {b}.", "from one two to three. to four.", {"a": "one two", "b": "three"}),
        ("a {*} b {x:word}!", "a whatever b c!", {"x": "c"}),
        ("{?not }found {x:int}", "found 3", {"x": 3}),
        ("{?not }found {x:int}", "not found 3", {"x": 3}),
        ("args: {{'n': {n:int}}}", "args: {'n': 4}", {"n": 4}),
    ],
)
def test_placeholders(phrase, text, facts):
    assert captured(phrase, text) == facts


def test_text_stays_on_its_line_unless_the_text_is_wrapped():
    assert captured("from {a} to", "from one\ntwo to") is None
    assert captured("from {a} to", "from one\ntwo to", loose=True) == {"a": "one two"}


def test_a_number_at_the_end_does_not_reach_into_the_next_line():
    assert captured("max_tokens={n:int}", "max_tokens=131072\n2026-08-28", loose=True) == {"n": 131072}


@pytest.mark.parametrize(
    ("phrase", "expected", "got"),
    [
        ("", "a message", "nothing"),
        ("a { b", "closing", "{ b"),
        ("a } b", "}}", "character 3"),
        ("a {n:itn} b", "did you mean `int`", "{n:itn}"),
        ("a {n-x} b", "{name:type}", "{n-x}"),
        ("a {n:int} b {n:int}", "once", "{n} twice"),
    ],
)
def test_a_bad_phrase_says_what_was_expected(phrase, expected, got):
    with pytest.raises(WordingError) as caught:
        compile_phrase(phrase)
    assert expected in caught.value.expected
    assert got in caught.value.got


def test_fixed_runs_stop_at_placeholders_and_go_on_through_what_choices_share():
    assert compile_phrase("with the {models's|model's} max {n:int} of all").runs == [
        "with the model",
        "'s max ",
        " of all",
    ]
    assert compile_phrase("a  wide   gap").runs == ["a\nwide\ngap"]


def test_weight_counts_fixed_ink_only():
    assert compile_phrase("ab {x} c{?dd}{ee|fff}").weight == 5


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "131_072", 131072),
        ("int", "1310\n   72", 131072),
        ("num", "1e3", 1000.0),
        ("num", "7", 7),
        ("gib", "1 GiB", 1.0),
        ("gib", "1 GB", 1e9 / 2**30),
        ("gib", "1024 KB", 1024e3 / 2**30),
        ("gib", "1048576kB", 1.0),
        ("gib", "2gb", 2.0),
        ("gib", "16Gi", 16.0),
        ("gib", "1073741824", 1.0),
        ("gib", "2147483648 bytes", 2.0),
        ("gib", "16 G\niB", 16.0),
        ("word", "/srv/mod\n  els/x", "/srv/models/x"),
        ("text", "one\n  two", "one two"),
        ("auto", "8", 8),
        ("auto", "8.50", 8.5),
        ("auto", "8.5.1", "8.5.1"),
        ("auto", "1,024", 1024),
        ("int", "none", "none"),
        ("gib", "much", "much"),
    ],
)
def test_capture_values(kind, text, value):
    assert capture_value(kind, text) == value
    assert type(capture_value(kind, text)) is type(value)


@given(st.sampled_from([*TYPES, "auto"]), st.text(max_size=60))
def test_capture_value_never_raises(kind, text):
    capture_value(kind, text)


@given(st.text(alphabet="ab {}|?:*x1 \n'\"\\()[]", max_size=40))
def test_a_phrase_compiles_to_good_regexes_or_says_why_not(phrase):
    try:
        wording = compile_phrase(phrase)
    except WordingError:
        return
    regex.compile(wording.source)
    regex.compile(wording.loose)


@given(st.text(alphabet="abc .()[]*+?\\^$|'\"-_/:,\n\t", min_size=1, max_size=60))
def test_fixed_text_matches_itself(text):
    if not text.strip():
        return
    wording = compile_phrase(text)
    assert regex.search(wording.source, text)
    assert regex.search(wording.loose, "".join(text.split()))


def test_long_lines_of_digits_and_blanks_do_not_backtrack_forever():
    hostile = "To serve at least one request with the models's max seq len (" + "1 \n" * 4000 + "1" * 4000
    for loose in (False, True):
        assert captured(KV, hostile, loose=loose) is None
