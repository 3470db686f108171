"""`vdiag rules` from outside: what it prints and how it exits."""

import pytest
from click.testing import CliRunner

from vdiag.cli.rules import rules
from vdiag.model import Diagnosis, Report, Severity, Verdict
from vdiag.rulebook.examples import match_text, try_rules
from vdiag.rulebook.load import load

RULE = """
- id: part-broke-today
  title: Part {part} broke
  phrases: ["something broke in {part:word} today"]
  why: It broke.
  fixes: [{do: Mend it}]
  examples: ["row one\\nERROR something broke in engine today"]
  lookalikes: ["something broke yesterday"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(RULE)
    return path


def run(*words):
    return CliRunner().invoke(rules, [str(word) for word in words])


def report(*names):
    diagnoses = [Diagnosis(n, n, 0.9, Severity.FATAL, "log", 1, "") for n in names]
    verdict = Verdict.DIAGNOSED if names else Verdict.HEALTHY
    return Report("vdiag.report/1", "0", verdict, [], None, diagnoses)


def test_list_prints_a_rule_a_line(file):
    result = run("list", file)
    assert result.output == "part-broke-today  cause   Part {part} broke\n"
    assert result.exit_code == 0
    assert run("list", file, "--role", "benign").output == ""


def test_lint_is_silent_about_a_good_rule(file):
    result = run("lint", file)
    assert result.output == "1 rule: 0 errors, 0 warnings\n"
    assert result.exit_code == 0


def test_lint_exits_1_on_errors_and_2_on_what_is_no_rule_file(file, tmp_path):
    file.write_text(RULE.replace("Part {part} broke", "Part {part} broke."))
    result = run("lint", file)
    assert result.exit_code == 1
    assert f"{file}:3: part-broke-today: title: ends with a full stop" in result.output
    file.write_text("- id: [")
    assert run("lint", file).exit_code == 2
    assert run("lint", tmp_path / "none.yaml").exit_code == 2


def test_test_says_which_example_failed_and_why(file):
    file.write_text(RULE.replace("engine today", "engine tonight"))
    result = run("test", file, "--wordings")
    assert result.exit_code == 1
    assert "part-broke-today: example 1: FAILED: no wording of the rule matches" in result.output
    assert "1 rule, 1 example, 1 lookalike: 1 failed\n" in result.output


def test_test_exits_1_on_errors_and_2_on_what_is_no_rule_file(file, tmp_path):
    file.write_text(RULE + RULE.replace("part-broke-today", "Odd_Id").replace("why:", "wy:"))
    result = run("test", file, "--wordings")
    assert result.exit_code == 1
    assert "Odd_Id: id: expected lower-case words with hyphens, got `Odd_Id`" in result.output
    assert "Odd_Id: wy: expected `why`" in result.output
    assert "1 rule, 1 example, 1 lookalike: 0 failed; 2 errors above\n" in result.output
    for text in ("- id: [", "id: x"):
        file.write_text(text)
        assert run("test", file).exit_code == 2
    assert run("test", tmp_path / "none.yaml").exit_code == 2
    for command in ("lint", "test"):
        said = " ".join(run(command, "--help").output.split())
        assert "2 if a file cannot be read or is no YAML list of rules" in said


def test_test_explains_what_matched(file):
    result = run("test", file, "--wordings", "--explain")
    assert result.exit_code == 0
    assert f"{file}:7: part-broke-today: example 1: ok" in result.output
    assert "matched part-broke-today on line 2, weight 21: part='engine'" in result.output


def test_match_text_gives_start_and_captures(file):
    (found,) = match_text(load([file]), "row one\nERROR something broke in engine today")
    assert (found.rule, found.start, found.captures) == ("part-broke-today", 14, {"part": "engine"})


@pytest.mark.parametrize(
    ("names", "passed", "reason"),
    [
        (["part-broke-today"], True, "first diagnosis"),
        (["other", "part-broke-today"], False, "the rule is diagnosis 2"),
        (["other"], False, "a condition does not"),
        ([], False, "the verdict was healthy"),
    ],
)
def test_the_rule_must_be_the_first_diagnosis_of_its_example(file, names, passed, reason):
    rulebook = load([file])
    example, _ = try_rules(rulebook.rules, rulebook, lambda text, book: report(*names))
    assert example.passed is passed
    assert reason in example.reason


def test_an_id_that_no_rule_has_is_no_success(file):
    result = run("test", file, "--rule", "part-broke-todai", "--wordings")
    assert result.exit_code == 2
    assert "part-broke-todai: no rule has this id; near it: part-broke-today\n" in result.output


def test_a_rule_that_could_not_be_read_is_not_called_unknown(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(RULE.replace("phrases:", "phrase:"))
    result = run("test", path, "--rule", "part-broke-today", "--wordings")
    assert "no rule has this id" not in result.output
    assert result.exit_code == 1


def test_broken_yaml_is_said_in_a_sentence(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("- id: a\n b: c\n")
    assert "expected YAML, got a syntax error (" in run("lint", path).output


def test_a_catalogue_that_is_up_to_date_says_so(file, tmp_path):
    into = tmp_path / "pages"
    assert "written" in run("catalogue", file, "--into", into).output
    result = run("catalogue", file, "--into", into)
    assert result.output == f"{into}: 2 pages, all up to date\n"
    assert result.exit_code == 0
    assert run("catalogue", file, "--into", into, "--check").output == ""
