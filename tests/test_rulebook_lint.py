"""Lint: each check finds its fault, and a good rule has none."""

import copy
from pathlib import Path

import msgspec
import pytest
import yaml

from vdiag.rulebook.captures import TYPES
from vdiag.rulebook.checks import CHECKS
from vdiag.rulebook.lint import lint, vocabulary
from vdiag.rulebook.schema import FixRule, Rule

GOOD = {
    "id": "good-rule",
    "title": "Part {part} broke",
    "phrases": ["something broke in {part:word} today"],
    "why": "It is {part} that broke.",
    "fixes": [
        {"do": "Mend {part}", "set": {"max_model_len": "{part}"}, "if": ["part", "not vllm", "vllm=0.8"]}
    ],
    "examples": ["ERROR something broke in engine today"],
    "lookalikes": ["something broke yesterday"],
}


@pytest.fixture
def said(tmp_path):
    """What lint says about the good rule with these fields changed: (field, level) pairs and the text."""

    def run(*more, **changes):
        rule = copy.deepcopy(GOOD)
        rule.update({name: value for name, value in changes.items() if value is not None})
        for name in [name for name, value in changes.items() if value is None]:
            rule.pop(name)
        file = tmp_path / "rules.yaml"
        file.write_text(yaml.safe_dump([rule, *more], sort_keys=False), encoding="utf-8")
        findings = [finding for finding in lint([file]).findings if finding.rule == rule["id"]]
        return [(finding.field, finding.level) for finding in findings], "\n".join(map(str, findings))

    return run


def test_a_good_rule_has_nothing_to_be_said(said):
    assert said() == ([], "")


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"id": "Good_Rule"}, "id", "hyphens"),
        ({"aliases": ["Old Name"]}, "aliases[0]", "hyphens"),
        ({"title": "It broke."}, "title", "full stop"),
        ({"title": " "}, "title", "empty"),
        ({"why": None}, "why", "needs `why`"),
        ({"fixes": None}, "fixes", "needs `fixes`"),
        ({"lookalikes": None}, "lookalikes", "needs `lookalikes`"),
        (
            {"fixes": [{"do": "Mend it", "env": {"PATH": "/opt/bin:$PATH"}}]},
            "fixes[0].env.PATH",
            "whole value",
        ),
        ({"marks": "ready"}, "marks", "role: context"),
        ({"takes": "long"}, "takes", "marks none"),
        ({"examples": None}, "examples", "has no example"),
        ({"examples": [*GOOD["examples"], "nothing"]}, "examples[1]", "no wording"),
        ({"phrases": [*GOOD["phrases"], "another wording"]}, "phrases[1]", "none of the rule's examples"),
        ({"lookalikes": ["something broke in cache today"]}, "lookalikes[0]", "matched by a wording"),
        ({"patterns": [{"regex": r"(?:ERROR|WARN) \w+"}]}, "patterns[0].regex", "Give `literal`"),
        ({"patterns": [{"regex": "something broke.*"}]}, "patterns[0].regex", "reaches to the end"),
        ({"patterns": [{"regex": r"something (?:\w+ ?)+"}]}, "patterns[0].regex", "take forever"),
        ({"fixes": [{"do": "Mend {nothing_known}"}]}, "fixes[0].do", "neither captured"),
        ({"why": "Because of {nothing_known}."}, "why", "neither captured"),
        ({"fixes": [{"do": "Mend", "if": ["nothing_known"]}]}, "fixes[0].if[0]", "neither captured"),
        ({"fixes": [{"do": "Mend", "if": ["a > 3"]}]}, "fixes[0].if[0]", "fact=value"),
        (
            {"fixes": [{"do": "Mend", "set": {"max_modle_len": 1}}]},
            "fixes[0].set.max_modle_len",
            "no version",
        ),
        ({"fixes": [{"do": "Mend", "unset": ["nonsense"]}]}, "fixes[0].unset[0]", "no version"),
        ({"fixes": [{"do": "Mend", "since": "newest"}]}, "fixes[0].since", "no version number"),
        ({"refs": ["docs.vllm.ai/en/latest"]}, "refs[0]", "no https:// address"),
        ({"refs": ["https://docs.vllm.ai/en latest"]}, "refs[0]", "no https:// address"),
        ({"upstream": [{"issue": "#123"}]}, "upstream[0].issue", "owner/repo#number"),
        (
            {"upstream": [{"issue": "acme/x#1", "fixed_in": "1.0"}]},
            "upstream[0].fixed_in",
            "a version of what",
        ),
    ],
)
def test_each_fault_is_an_error_with_its_field(said, changes, field, words):
    found, text = said(**changes)
    assert (field, "error") in found, text
    assert words in text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"phrases": ["{*} something broke in {part:word} today"]}, "phrases[0]"),
        ({"literal": "no such text"}, "literal"),
        ({"role": "benign"}, "fixes"),
        (
            {
                "phrases": ['{part:word} - "GET /health HTTP/1.1" {code:int}'],
                "examples": ['engine - "GET /health HTTP/1.1" 200'],
            },
            "phrases[0]",
        ),
    ],
)
def test_weak_points_are_warnings(said, changes, field):
    found, text = said(**changes)
    assert (field, "warning") in found, text


RIVAL = {**GOOD, "id": "rival", "examples": ["something broke in cache today"]}


def test_a_contested_example_is_a_warning_until_one_rule_beats_the_other(said):
    found, text = said(RIVAL)
    assert found == [("examples[0]", "warning")]
    assert "`rival`" in text
    assert said({**RIVAL, "beats": ["good-rule"]}) == ([], "")


def test_a_lookalike_may_match_where_a_condition_or_a_rival_keeps_it_apart(said):
    twin = ["something broke in cache today"]
    assert said(lookalikes=twin, where="kernel") == ([], "")
    assert said({**RIVAL, "beats": ["good-rule"]}, lookalikes=twin) == ([], "")
    assert said(lookalikes=[f"INFO {twin[0]}"]) == ([], "")


def test_findings_name_file_line_rule_and_field(said):
    _, text = said(title="It broke.")
    assert text.endswith("rules.yaml:2: good-rule: title: ends with a full stop")


def test_the_facts_of_context_rules_are_known(said):
    context = {
        "id": "ctx",
        "title": "Context",
        "role": "context",
        "phrases": ["the host is {nothing_known:word} here"],
    }
    assert said(context, why="Because of {nothing_known}.") == ([], "")


def test_braces_of_shells_and_json_are_no_facts(said):
    run = ["docker inspect -f '{{.State}}'", "curl -d '{\"a\": 1}'", "echo ${HOME} ${name}"]
    assert said(fixes=[{"do": "Look", "run": run}]) == ([], "")


@pytest.mark.parametrize("source", [r"something (?:\w+\.)+", r"something (?:, \d+)*", r"something (?:a+b)+"])
def test_repetitions_that_something_tells_apart_are_fine(said, source):
    assert "forever" not in said(patterns=[{"regex": source}])[1]


def test_a_literal_too_short_to_look_for_is_an_error(said):
    assert ("literal", "error") in said(literal="some")[0]


def test_the_rule_in_the_documentation_is_a_good_one(tmp_path):
    text = (Path(__file__).parent.parent / "docs" / "rules.md").read_text(encoding="utf-8")
    file = tmp_path / "documented.yaml"
    file.write_text(text.split("```yaml\n")[1].split("```")[0], encoding="utf-8")
    assert lint([file]).findings == []


def test_the_documentation_names_every_field_and_type():
    text = (Path(__file__).parent.parent / "docs" / "rules.md").read_text(encoding="utf-8")
    fields = {field.encode_name for kind in (Rule, FixRule) for field in msgspec.structs.fields(kind)}
    assert [field for field in sorted(fields) if f"`{field}`" not in text and f"`{field}:" not in text] == []
    assert [kind for kind in TYPES if f":{kind}}}`" not in text and kind != "text"] == []


def test_every_check_has_a_sentence():
    assert all(check.__doc__ for check in CHECKS)


def test_the_vocabulary_knows_arguments_and_facts():
    known = vocabulary()
    assert known.facts is not None
    assert known.versions_with is not None
    assert "fitting_len" in known.facts
    assert known.versions_with("max_model_len")
