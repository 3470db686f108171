"""The rulebook held against a release of vLLM: what is read of its sources, what counts as named, stale or wrong."""

from __future__ import annotations

import json
import tarfile
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from vdiag.cli.rules import rules
from vdiag.rulebook.audit import GONE, OTHER, OWN, Audit, audit, within
from vdiag.rulebook.compile import Rulebook, compile_rules
from vdiag.rulebook.messages import Message, read_module
from vdiag.rulebook.plausible import fillings
from vdiag.rulebook.schema import Pattern, Rule
from vdiag.rulebook.sources import SourceError, read_source

BOILER = '''
"""The boiler."""
import logging
logger = logging.getLogger(__name__)

class Boiler:
    def fill(self, litres, max_litres):
        if litres > max_litres:
            raise ValueError(f"{litres} litres do not fit into a boiler of {max_litres:d} litres")
        message = ("The boiler "
                   "leaks")
        message += f" at {self.seam!r}"
        raise RuntimeError(message)

    def heat(self, fuel):
        assert fuel, "there is no " + "fuel"
        assert self.cold
        logger.error("The fire went out after %.2f s: %s", 1.5, fuel)
        logger.warning("The fire is low")
        logging.getLogger("x").exception("Could not light {}".format(fuel))
        raise

def close():
    raise NotImplementedError
    raise errors.StokerError("No stoker, use %d%% of {shifts}" % 3)
    raise OSError(2, "No such shovel here")
'''
NEWER = BOILER.replace("The fire went out after", "The fire died after").replace(
    "No stoker,", "No stoker at all,"
)


def tree(root: Path, text: str = BOILER, version: str = "0.11.0") -> Path:
    """A checkout with one module of interest."""
    package = root / "vllm"
    (package / "config").mkdir(parents=True)
    (package / "benchmarks").mkdir()
    (package / "__init__.py").write_text("")
    (package / "_version.py").write_text(f"__version__ = version = '{version}'\n")
    (package / "config" / "boiler.py").write_text(text)
    (package / "benchmarks" / "run.py").write_text('raise ValueError("no benchmark of this name")')
    (package / "old.py").write_text('print "a text of another Python"')
    return root


def shapes(text: str) -> list[tuple[str, str, str]]:
    return [(m.kind, m.exception, m.shape) for m in read_module(text, "vllm/x.py").messages]


def test_every_way_to_say_a_message_is_read() -> None:
    assert shapes(BOILER) == [
        ("raise", "ValueError", "{} litres do not fit into a boiler of {} litres"),
        ("raise", "RuntimeError", "The boiler leaks at {}"),
        ("assert", "AssertionError", "there is no fuel"),
        ("log.error", "", "The fire went out after {} s: {}"),
        ("log.exception", "", "Could not light {}"),
        ("raise", "StokerError", "No stoker, use {}% of {shifts}"),
        ("raise", "OSError", "No such shovel here"),
    ]


def test_a_message_knows_its_place_and_what_fills_it() -> None:
    found = read_module(BOILER, "vllm/x.py")
    first = found.messages[0]
    assert (first.function, first.line, first.hints) == ("Boiler.fill", 9, ("litres", "max_litres:d"))
    assert found.mute == 2  # an assertion and a NotImplementedError without words
    assert "The fire is low" in found.others


def test_a_variable_of_another_function_is_not_taken_for_a_message() -> None:
    text = 'def a():\n    m = "words of a"\ndef b(m):\n    raise ValueError(m)\n'
    assert shapes(text) == []


def test_values_are_filled_in_by_what_the_source_calls_them() -> None:
    message = Message(
        "raise", "ValueError", "{} of {} needs {} GiB", "f", "g", 1, ("num_heads", "repr(x)", "need_gib:.2f")
    )
    first, *others = fillings(message)
    assert first == "8 of 'acme' needs 4.95 GiB"
    assert "8 of 8 needs 8 GiB" in others
    assert list(fillings(Message("raise", "X", "no value", "f", "g", 1))) == ["no value"]


# ---- sources ---------------------------------------------------------------------------------------------


def archives(root: Path) -> list[Path]:
    """The same release as a checkout, its package folder, a wheel, an sdist and site-packages."""
    checkout = tree(root / "checkout")
    files = sorted(checkout.rglob("*.py"))
    wheel, sdist = root / "vllm-0.11.0-cp38-abi3-linux.whl", root / "vllm-0.11.0.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in files:
            archive.write(file, file.relative_to(checkout).as_posix())
    with tarfile.open(sdist, "w:gz") as archive:
        for file in files:
            archive.add(file, f"vllm-0.11.0/{file.relative_to(checkout).as_posix()}")
    packages = tree(root / "site-packages", version="0+unknown")
    (packages / "vllm-0.11.0.dist-info").mkdir()
    (packages / "vllm-0.11.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.11.0\n")
    return [checkout, checkout / "vllm", wheel, sdist, packages]


def test_every_form_of_a_release_says_the_same(tmp_path: Path) -> None:
    for path in archives(tmp_path):
        source = read_source(path)
        assert [m.shape for m in source.messages if m.file == "vllm/config/boiler.py"][
            2
        ] == "there is no fuel"
        assert (source.version, source.files, len(source.messages)) == ("0.11.0", 3, 7), path
        assert source.unread == ["vllm/old.py"]


def test_what_holds_no_vllm_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    for path in (tmp_path, tmp_path / "none", tmp_path / "notes.txt"):
        with pytest.raises(SourceError):
            read_source(path)


# ---- the audit -------------------------------------------------------------------------------------------


def rulebook() -> Rulebook:
    return compile_rules(
        [
            Rule("boiler-full", "t", phrases=["{n:int} litres do not fit into a boiler of {max:int} litres"]),
            Rule("leak", "t", phrases=["The boiler leaks at '{seam}'"]),
            Rule("fire-low", "t", phrases=["The fire is low"], level="warning"),
            Rule("fire-out", "t", phrases=["The fire went out after {s:num} s"]),
            Rule("kernel", "t", phrases=["there is no fuel"], where="kernel"),
            Rule(
                "foreign",
                "t",
                phrases=["NCCL WARN the wheels are off"],
                examples=["NCCL WARN the wheels are off"],
            ),
            Rule(
                "logged",
                "t",
                phrases=["The whistle is cracked"],
                examples=["ERROR 08-28 10:12:45 [boiler.py:12] The whistle is cracked"],
            ),
            Rule("stoker", "t", patterns=[Pattern(r"No stoker, use \d+% of", since="0.12")]),
        ]
    )


def audited(tmp_path: Path, *, newer: bool = False) -> Audit:
    old = read_source(tree(tmp_path / "old"))
    if not newer:
        return audit([old], rulebook())
    return audit([read_source(tree(tmp_path / "new", NEWER, "0.12.0"))], rulebook(), old)


def test_messages_are_named_by_the_rules_whose_wordings_match(tmp_path: Path) -> None:
    result = audited(tmp_path)
    named = {m.shape: m.rules for m in result.messages}
    assert named["{} litres do not fit into a boiler of {} litres"] == ["boiler-full"]
    assert named["The boiler leaks at {}"] == ["leak"]
    assert named["there is no fuel"] == []  # a rule about the kernel's lines does not name an assertion
    (release,) = result.releases
    assert (release.version, release.messages, release.named, release.operators) == ("0.11.0", 7, 4, 7)


def test_frames_must_name_the_place_that_raises(tmp_path: Path) -> None:
    rules_ = [
        Rule("here", "t", phrases=["AssertionError: there is no fuel"], frames=["boiler.py:heat"]),
        Rule("there", "t", phrases=["AssertionError: there is no fuel"], frames=["engine.py"]),
        Rule("below", "t", phrases=["AssertionError: there is no fuel"], frames=["vllm/"]),
        Rule("elsewhere", "t", phrases=["AssertionError: there is no fuel"], frames=["acme/"]),
    ]
    result = audit([read_source(tree(tmp_path))], compile_rules(rules_))
    assert {tuple(sorted(m.rules)) for m in result.messages if m.rules} == {("below", "here")}


def test_a_rule_is_unmatched_if_no_text_of_the_release_holds_its_words(tmp_path: Path) -> None:
    found = {u.rule: u.reason for u in audited(tmp_path).unmatched}
    assert found == {
        "foreign": OTHER,
        "logged": OWN,
    }  # a warning is no failure message, but its words are there


def test_against_another_release_it_says_what_is_new_and_what_is_gone(tmp_path: Path) -> None:
    result = audited(tmp_path, newer=True)
    assert [m.shape for m in result.messages if m.new] == [
        "The fire died after {} s: {}",
        "No stoker at all, use {}% of {shifts}",
    ]
    assert {u.rule for u in result.unmatched if u.reason == GONE} == {"fire-out", "stoker"}


def test_versions_of_a_wording_are_held_against_the_releases(tmp_path: Path) -> None:
    (wrong,) = audited(tmp_path).wrong_versions
    assert (wrong.rule, wrong.since, wrong.version, wrong.says) == (
        "stoker",
        "0.12",
        "0.11.0",
        "prints it all the same",
    )


@pytest.mark.parametrize(
    ("version", "since", "until", "inside"),
    [
        ("0.11.0", "0.11", "", True),
        ("0.13.2", "", "0.13", True),
        ("0.14.0", "", "0.13", False),
        ("0.6.6.post1", "0.8", "", False),
        ("", "0.8", "", None),
    ],
)
def test_a_bound_of_fewer_parts_covers_all_below_it(
    version: str, since: str, until: str, inside: bool | None
) -> None:
    assert within(version, since, until) is inside


def test_the_command_prints_a_page_or_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdiag.cli.rules._shipped", rulebook)
    monkeypatch.setenv("VDIAG_RULES", "")
    old, new = tree(tmp_path / "a"), tree(tmp_path / "b", NEWER, "0.12.0")
    page = CliRunner().invoke(rules, ["audit", str(new), "--since", str(old)])
    assert page.exit_code == 1
    assert "vLLM 0.12.0" in page.output
    assert "New since 0.11.0: 2, 0 named" in page.output
    assert "Rules that 0.11.0 prints and no audited release: fire-out, stoker" in page.output
    asked = CliRunner().invoke(rules, ["audit", str(old), "--format", "json"])
    assert json.loads(asked.output)["schema"] == "vdiag.audit/1"
    refused = CliRunner().invoke(rules, ["audit", str(tmp_path / "none")])
    assert refused.exit_code == 2
