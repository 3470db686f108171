"""What upstream fixed in which version, held against the version that the log names."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from logtext import HEAD
from vdiag.advise.upstream import known_fixes, with_upgrade
from vdiag.advise.versions import holds, parse
from vdiag.model import Fix, Safety, Verdict
from vdiag.pipeline import diagnose_text
from vdiag.rulebook.compile import compile_rules
from vdiag.rulebook.schema import FixRule, Rule, Upstream
from vdiag.rulebook.shipped import shipped

IN_ORDER = [  # the order of PEP 440's own example, with vLLM's kinds of builds
    "0.9.2", "0.11.0.dev3", "0.11.0a1", "0.11.0b2.dev1", "0.11.0b2", "0.11.0rc1.dev17", "0.11.0rc1", "0.11.0rc10",
    "0.11.0", "0.11.0.post1.dev2", "0.11.0.post1", "0.11.0.post2", "0.11.1rc2.dev17+gabc1234", "0.11.1", "0.33.0",
    "1.0rc1", "1.0",
]  # fmt: skip


def test_versions_are_ordered_as_pep_440_orders_them() -> None:
    parsed = [version for text in IN_ORDER if (version := parse(text))]
    assert len(parsed) == len(IN_ORDER)
    for (i, one), (j, other) in itertools.product(enumerate(parsed), repeat=2):
        assert (one < other) == (i < j), (IN_ORDER[i], IN_ORDER[j])


@pytest.mark.parametrize(
    ("one", "other"),
    [("v0.11.0", "0.11"), ("0.11.0+cu129", "0.11.0"), ("0.11.0-rc.1", "0.11.0rc1"), ("1.0-dev4", "1.dev4")],
)
def test_other_spellings_of_a_version_are_the_same(one: str, other: str) -> None:
    assert parse(one) == parse(other) is not None


@pytest.mark.parametrize(
    "text", ["", None, "dev", "unknown", "0.0.0", "0.1.dev1+g3a4b5c6", "main", "0.11.0)"]
)
def test_what_names_no_release_is_no_version(text: str | None) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    ("version", "fixed_in", "has"),
    [
        ("0.10.2", "0.11.0", False),
        ("0.9.2", "0.10.0", False),
        ("0.10.2rc3.dev4+g123abc", "0.11.0", False),
        ("0.11.0", "0.11.0", True),
        ("0.11.0+rocm643", "0.11.0", True),
        ("0.6.6.post1", "0.6.6", True),
        ("0.6.6", "0.6.6.post1", False),
        ("0.11.1rc2.dev17+gabc", "0.11.0", True),
        ("0.11.1rc2.dev17+gabc", "0.11.1", None),
        ("0.11.0rc1", "0.11.0", None),
        ("0.1.dev1+gabc", "0.11.0", None),
        (None, "0.11.0", None),
    ],
)
def test_whether_a_version_holds_a_fix(version: str | None, fixed_in: str, has: bool | None) -> None:
    assert holds(version, fixed_in) is has


def rule(*upstream: Upstream, fixes: int = 3) -> Rule:
    return Rule(
        id="acme-fault",
        title="It broke",
        why="It is so.",
        phrases=["the acme scheduler lost a block"],
        fixes=[FixRule(do=f"Fix {n}") for n in range(fixes)],
        examples=["AssertionError: the acme scheduler lost a block"],
        upstream=list(upstream),
    )


OURS = Upstream("vllm-project/vllm#12", "0.11.1")
START = "INFO 08-28 10:12:01 [api_server.py:1839] vLLM API server version {}\n"
FAULT = f'{HEAD}\n  File "/x/scheduler.py", line 2, in schedule\nAssertionError: the acme scheduler lost a block\n'


def answered(version: str, upstream: Upstream = OURS, fixes: int = 3) -> Any:
    start = START.format(version) if version else ""
    report = diagnose_text(start + FAULT, compile_rules([*shipped().rules, rule(upstream, fixes=fixes)]))
    assert report.verdict is Verdict.DIAGNOSED
    assert report.diagnoses[0].rule == "acme-fault"
    return report.diagnoses[0]


@pytest.mark.parametrize("own", [0, 1, 2, 3])
def test_an_older_log_is_told_of_the_fix_behind_two_of_the_rules_own(own: int) -> None:
    found = answered("0.11.0", fixes=own)
    (known,) = found.upstream
    assert (known.version, known.has_fix) == ("0.11.0", False)
    assert known.said == "Fixed in vLLM 0.11.1 (vllm-project/vllm#12); this log is of 0.11.0."
    place = min(own, 2)
    assert "0.11.1" in found.fixes[place].do
    assert known.said in found.fixes[place].note
    assert found.fixes[place].safety is Safety.TRADEOFF
    assert found.fixes[place].run == ["pip install -U 'vllm>=0.11.1'"]
    assert [fix.do for fix in found.fixes if "0.11.1" not in fix.do] == [f"Fix {n}" for n in range(own)]
    assert "https://github.com/vllm-project/vllm/issues/12" in found.refs


def test_without_a_version_the_fix_is_a_condition() -> None:
    found = answered("")
    assert found.upstream[0].has_fix is None
    assert "if" in found.upstream[0].said
    assert found.fixes[2].do.endswith("if yours is older")


def test_a_build_before_that_release_may_have_it() -> None:
    found = answered("0.11.1rc2.dev17+gabc1234")
    assert found.upstream[0].has_fix is None
    assert "0.11.1rc2.dev17+gabc1234" in found.upstream[0].said
    assert found.fixes[2].do.endswith("if yours is older")


def test_a_newer_log_is_asked_to_report_and_offered_no_upgrade() -> None:
    found = answered("0.12.0")
    assert found.upstream[0].has_fix is True
    assert "report" in found.upstream[0].said
    assert [fix.do for fix in found.fixes] == ["Fix 0", "Fix 1", "Fix 2"]


def test_an_issue_without_a_version_is_only_a_reference() -> None:
    found = answered("0.11.0", Upstream("vllm-project/vllm#12"))
    assert found.upstream == []
    assert len(found.fixes) == 3
    assert "https://github.com/vllm-project/vllm/issues/12" in found.refs


def test_another_package_is_held_against_its_own_version() -> None:
    theirs = Upstream("huggingface/transformers#7", "4.57.2", "transformers")
    assert answered("0.11.0", theirs).upstream[0].has_fix is None  # vLLM's version says nothing of it
    (known,) = known_fixes(rule(theirs), {"vllm": "0.11.0", "transformers": "4.57.1"})
    assert known.said == "Fixed in transformers 4.57.2 (huggingface/transformers#7); this log is of 4.57.1."
    (fix,) = with_upgrade([], [known], {})
    assert fix.run == ["pip install -U 'transformers>=4.57.2'"]


@pytest.mark.parametrize(
    ("deploy", "line"),
    [
        ("docker", "docker pull vllm/vllm-openai:v0.11.1"),
        ("compose", "image: vllm/vllm-openai:v0.11.1"),
        ("kubernetes", "image: vllm/vllm-openai:v0.11.1"),
        ("systemd", "pip install -U 'vllm>=0.11.1'"),
    ],
)
def test_the_upgrade_is_in_the_form_the_user_runs(deploy: str, line: str) -> None:
    context = {"vllm": "0.11.0", "deploy": deploy}
    (fix,) = with_upgrade([], known_fixes(rule(OURS), context), context)
    assert line in fix.run


@pytest.mark.parametrize(
    ("command", "upgrades"),
    [
        ("pip install -U vllm", True),
        ("uv pip install --upgrade vllm --torch-backend=auto", True),
        ("pip install -U vllm transformers", True),
        ("pip install 'vllm>=0.11.1'", True),
        ("pip install -U vllm-tpu", False),
        ("pip install -U transformers", False),
        ("vllm serve acme/model-7b --enforce-eager", False),
    ],
)
def test_an_upgrade_that_the_rule_offers_is_not_offered_twice(command: str, upgrades: bool) -> None:
    known = known_fixes(rule(OURS), {"vllm": "0.11.0"})
    offered = with_upgrade([Fix(do="x", run=[command])], known, {})
    assert (len(offered) == 1) is upgrades


def test_an_entry_counts_only_for_the_messages_it_speaks_of() -> None:
    lost, found = (
        Upstream("vllm-project/vllm#12", "0.11.1", says=word) for word in ("lost a block", "found")
    )
    assert answered("0.11.0", lost).upstream
    other = answered("0.11.0", found)
    assert other.upstream == []
    assert len(other.fixes) == 3
    assert not any("vllm/issues/12" in link for link in other.refs)


def test_of_several_fixes_the_newest_version_is_offered() -> None:
    both = rule(OURS, Upstream("vllm-project/vllm#13", "0.9.0"), Upstream("vllm-project/vllm#14", "0.12.0"))
    offered = with_upgrade([], known_fixes(both, {"vllm": "0.8.5"}), {})
    assert [fix.run for fix in offered] == [["pip install -U 'vllm>=0.12.0'"]]


def test_every_shipped_rule_says_of_which_package_its_fixes_are_versions() -> None:
    fixed = [item for one in shipped().rules for item in one.upstream if item.fixed_in]
    assert fixed
    assert [item.issue for item in fixed if not item.package_name or not parse(item.fixed_in)] == []
