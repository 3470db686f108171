"""Regexes of rules: white space, wrapped text, and the fixed texts in them."""

import pytest
import regex

from vdiag.rulebook.captures import capture_value
from vdiag.rulebook.phrases import WordingError
from vdiag.rulebook.regexes import compile_regex


def captured(source, text, *, loose=False):
    wording = compile_regex(source)
    match = regex.search(wording.loose if loose else wording.source, text, timeout=5)
    if match is None:
        return None
    return {
        name: capture_value(wording.types[name], v) for name, v in match.groupdict().items() if v is not None
    }


def test_groups_become_values_by_their_looks_or_their_suffix():
    source = r"(?P<name>\w+) needs (?P<need__gib>[\d.]+ [GM]iB) of (?P<n>\d+) at (?P<share>\d+\.\d+)"
    assert captured(source, "x needs 512.0 MiB of 3 at 0.90") == {
        "name": "x",
        "need": 0.5,
        "n": 3,
        "share": 0.9,
    }


@pytest.mark.parametrize("source", [r"one two", r"one\s+two", r"one +two", r"one\ two", r"one[ ]two"])
def test_white_space_matches_any(source):
    assert captured(source, "one\n  two".replace("\n  ", "\n") if "[" in source else "one\n  two") == {}


def test_optional_white_space_stays_optional():
    assert captured(r"one\s*two", "onetwo") == {}
    assert captured(r"one ?two", "onetwo") == {}
    assert captured(r"one two", "onetwo") is None


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"max seq len \((?P<n>\d+)\)", "max s\neq len (1310\n72)"),
        (r"colou?r is (?:red|blue)", "col\nour is bl\nue"),
        (r"\bdied\b unexpectedly", "diedunexpec\ntedly"),
        (r"error: (?P<what>.{1,80}?) at end", "error: this\nand that at end"),
        (r"[Ff]ailed to load", "Failedtoload"),
    ],
)
def test_wrapped_text_matches_loosely(source, text):
    assert captured(source, text, loose=True) is not None


def test_loose_digits_are_joined_again():
    assert captured(r"len \((?P<n>\d+)\)", "len (1310\n  72)", loose=True) == {"n": 131072}


def test_row_anchors_mean_rows():
    assert captured(r"^Killed$", "some line\nKilled\nanother") == {}


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        (r"foo (?P<x>\d+) barbaz", ["foo ", " barbaz"]),
        (r"foo\s+bar", ["foo\nbar"]),
        (r"foo\s*bar", ["foo\nbar"]),
        (r"foo (?:bar) baz", ["foo bar baz"]),
        (r"foo (?:bar)? baz", ["foo ", " baz"]),
        (r"foo (?:bar|qux) baz", ["foo ", " baz"]),
        (r"foo(?=x)bar\b baz", ["foobar baz"]),
        (r"one|two", []),
        (r"(?i)foo bar", []),
        (r"foo (?i:bar) baz", ["foo ", " baz"]),
        (r"a\.b\(c", ["a.b(c"]),
    ],
)
def test_fixed_runs(source, runs):
    assert compile_regex(source).runs == runs


def test_alternatives_are_sets_of_texts_of_which_one_must_occur():
    assert compile_regex(r"(?:first one|second one)\d+(?:x|yy)").choices == [
        ["first one", "second one"],
        ["x", "yy"],
    ]


def test_weight_takes_the_lightest_alternative():
    assert compile_regex(r"ab (?:c|ddd)(?:e)?").weight == 3


@pytest.mark.parametrize("source", ["", "a(b", "a[b", "a\\", "(?x) a b", "*a", r"(?P<n>a)(?P=m)"])
def test_a_bad_regex_is_refused(source):
    with pytest.raises(WordingError):
        compile_regex(source)


def test_a_line_end_that_is_all_of_an_alternative_is_asked_for_in_wrapped_text_too():
    assert captured(r"(?:^|\n)(?P<n>503 Gone)", "GET / 503 Gone", loose=True) is None
    assert captured(r"(?:<p>|\n)(?P<n>503 Gone)", "GET /\n503 Go\nne", loose=True) is not None


@pytest.mark.parametrize(
    "source",
    [
        r"boiler failed now (?R)?(?(DEFINE)x)",
        r"boiler failed now (?(DEFINE)(?P<w>x+))(?&w)",
        r"boiler failed (?|now (a)|then (b))",
        r"boiler (?>failed|fell) now",
        r"boiler failed now \K\w+",
        r"(?:boiler failed){e<=1} now",
        r"boiler failed now \X\L<x>",
        r"boiler failed[[a-z]--[b]] now",
        r"(?<!x{1,3})boiler failed now",
        r"(?i:boiler) failed (?-i:now)(?#comment)",
    ],
)
def test_what_only_one_regex_module_knows_is_refused_or_both_forms_compile(source):
    try:
        wording = compile_regex(source)
    except WordingError:
        return
    for form in (wording.source, wording.loose):
        regex.compile(form).search("boiler failed now\nboiler fai led now")


def test_what_must_not_follow_a_space_must_not_in_wrapped_text_either():
    source = r"error: (?!retrying)(?P<n>\w+)"
    assert captured(source, "error:  retrying", loose=True) is None
    assert captured(source, "error:\n  gone", loose=True) == {"n": "gone"}
