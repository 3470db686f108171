"""Every shipped rule on its own examples: the wordings alone, then the whole program."""

from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from vdiag.model import Role
from vdiag.rulebook.examples import conditional, match_text, try_rules
from vdiag.rulebook.lint import lint
from vdiag.rulebook.load import load

RULES = Path(__file__).parent.parent / "rules"
PROBLEMS = []
RULEBOOK = load([RULES], collect=PROBLEMS)
EXAMPLES = [(rule.id, index) for rule in RULEBOOK.rules for index in range(len(rule.examples))]
LOOKALIKES = [(rule.id, index) for rule in RULEBOOK.rules for index in range(len(rule.lookalikes))]


@lru_cache(maxsize=1)
def outcomes():
    from vdiag.pipeline import diagnose_text

    return {(o.rule, o.kind, o.number): o for o in try_rules(RULEBOOK.rules, RULEBOOK, diagnose_text)}


def test_the_rulebook_has_no_problems():
    assert not PROBLEMS, "\n".join(map(str, PROBLEMS))


def test_lint_has_nothing_to_mend():
    assert lint([RULES]).errors == []


@pytest.mark.parametrize("name", [rule.id for rule in RULEBOOK.rules])
def test_every_rule_has_an_example(name):
    assert RULEBOOK.by_id(name).examples


@pytest.mark.parametrize(("name", "index"), EXAMPLES)
def test_an_example_is_matched_by_its_rule(name, index):
    text = RULEBOOK.by_id(name).examples[index]
    assert name in {found.rule for found in match_text(RULEBOOK, text)}


@pytest.mark.parametrize(("name", "index"), LOOKALIKES)
def test_a_lookalike_is_not_matched(name, index):
    rule = RULEBOOK.by_id(name)
    text = rule.lookalikes[index]
    found = match_text(RULEBOOK, text)
    assert name not in {item.rule for item in found} or conditional(rule, text, found, RULEBOOK)


whole_program = pytest.mark.skipif(
    find_spec("vdiag.pipeline") is None, reason="the pipeline is not there yet"
)


@whole_program
@pytest.mark.parametrize(("name", "index"), [e for e in EXAMPLES if RULEBOOK.by_id(e[0]).role is Role.CAUSE])
def test_a_cause_comes_first_in_its_example(name, index):
    outcome = outcomes()[name, "example", index]
    assert outcome.passed, outcome.reason


@whole_program
@pytest.mark.parametrize(("name", "index"), LOOKALIKES)
def test_a_lookalike_is_not_diagnosed(name, index):
    outcome = outcomes()[name, "lookalike", index]
    assert outcome.passed, outcome.reason
