"""The compiled rulebook, the shipped file, and the schema of a rule file."""

import subprocess
import sys

import msgspec
import pytest

from vdiag.rulebook import shipped as shipping
from vdiag.rulebook.compile import CompiledPattern, Rulebook, compile_rule, compile_rules, longest_literal
from vdiag.rulebook.jsonschema import places, rule_schema_text
from vdiag.rulebook.schema import Pattern, Rule


def rule(**fields):
    return Rule(id="a-rule", title="A rule", **fields)


def test_phrases_come_first_and_patterns_keep_their_versions():
    patterns = compile_rule(rule(phrases=["first wording"], patterns=[Pattern("second", "0.8", "0.11")]), 3)
    assert [(p.rule, p.literal, p.since, p.until) for p in patterns] == [
        (3, "first wording", "", ""),
        (3, "second", "0.8", "0.11"),
    ]


@pytest.mark.parametrize(
    ("runs", "literal"),
    [
        ([" is not ", "supported by x "], "supported by x"),
        (["two  blanks here"], "blanks here"),
        (["row one\nthe next row"], "the next row"),
        ([], ""),
    ],
)
def test_the_literal_is_the_longest_text_on_one_line(runs, literal):
    assert longest_literal(runs) == literal


def test_a_given_literal_serves_the_wordings_that_hold_it_or_have_none():
    patterns = compile_rule(
        rule(
            literal="short text",
            phrases=["a short text, and a longer one", "something else entirely"],
            patterns=[Pattern(r"\d+|\w+")],
        ),
        0,
    )
    assert [p.literal for p in patterns] == ["short text", "something else entirely", "short text"]
    assert [p.squeezed for p in patterns] == [
        "ashorttext,andalongerone",
        "somethingelseentirely",
        "shorttext",
    ]


def test_alternatives_are_looked_for_one_by_one_where_nothing_else_is_fixed():
    patterns = compile_rule(
        rule(patterns=[Pattern(r"(?:first one|second one) (?:a|b)")], phrases=["{abcde|fghij}"]), 0
    )
    assert [(p.wording, p.literal, p.squeezed) for p in patterns] == [
        (0, "abcde", "abcde"),
        (0, "fghij", "fghij"),
        (1, "first one", "firstone"),
        (1, "second one", "secondone"),
    ]


def test_squeezed_never_crosses_a_placeholder_and_occurs_in_squeezed_text():
    (pattern,) = compile_rule(rule(phrases=["one two {n:int} three  four\nfive"]), 0)
    assert pattern.squeezed == "threefourfive"


def test_captures_are_typed_and_leave_out_what_took_no_part():
    (pattern,) = compile_rule(rule(phrases=["need {n:gib} of {what}"]), 0)
    assert pattern.captures({"n": "2 GiB", "what": "memory", "more": None}) == {"n": 2.0, "what": "memory"}


def test_a_rulebook_survives_its_file():
    rulebook = compile_rules([rule(phrases=["first {n:int} wording"], aliases=["old"])])
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(rulebook), type=Rulebook)
    assert again == rulebook
    assert isinstance(again.patterns[0], CompiledPattern)
    assert again.index("old") == 0


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with one rule."""
    package = tmp_path / "src" / "vdiag" / "rulebook"
    package.mkdir(parents=True)
    (tmp_path / "rules").mkdir()
    (tmp_path / "hatch_build.py").touch()
    (tmp_path / "rules" / "a.yaml").write_text("- id: one\n  title: One\n  phrases: [first wording]\n")
    monkeypatch.setattr(shipping, "PACKAGE", package)
    monkeypatch.setattr(shipping, "SHIPPED", package / "shipped.msgpack")
    return tmp_path


def test_a_checkout_compiles_itself_when_rules_change(checkout):
    assert [r.id for r in shipping.shipped().rules] == ["one"]
    written = shipping.SHIPPED.stat().st_mtime_ns
    assert [r.id for r in shipping.shipped().rules] == ["one"]
    assert shipping.SHIPPED.stat().st_mtime_ns == written
    (checkout / "rules" / "b.yaml").write_text("- id: two\n  title: Two\n  phrases: [second wording]\n")
    assert [r.id for r in shipping.shipped().rules] == ["one", "two"]
    (checkout / "rules" / "a.yaml").unlink()
    assert [r.id for r in shipping.shipped().rules] == ["two"]


def test_a_checkout_with_a_broken_rule_warns_and_keeps_the_others(checkout):
    (checkout / "rules" / "b.yaml").write_text("- id: two\n")
    with pytest.warns(UserWarning, match=r"b\.yaml"):
        assert [r.id for r in shipping.shipped().rules] == ["one"]


def test_a_damaged_file_is_written_anew(checkout):
    shipping.SHIPPED.write_bytes(b"\xc1nonsense")
    assert [r.id for r in shipping.shipped().rules] == ["one"]


def test_an_installation_reads_the_file_alone(checkout):
    shipping.shipped()
    (checkout / "hatch_build.py").unlink()
    (checkout / "rules" / "a.yaml").unlink()
    assert [r.id for r in shipping.shipped().rules] == ["one"]
    shipping.SHIPPED.unlink()
    with pytest.raises(FileNotFoundError, match="install vdiag again"):
        shipping.shipped()


def test_reading_the_shipped_rules_imports_neither_yaml_nor_regex():
    shipping.shipped()
    code = (
        "import sys; from vdiag.rulebook.shipped import shipped; shipped(); "
        "print([name for name in ('yaml', 'regex', 'vdiag.rulebook.lint', 'vdiag.rulebook.load') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_schema_files_are_those_of_the_types():
    for place in places():
        assert place.read_text(encoding="utf-8") == rule_schema_text(), (
            "run python -m vdiag.rulebook.jsonschema"
        )
