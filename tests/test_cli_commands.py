"""Help, version, completion, explaining rules, and what a start may import."""

import subprocess
import sys
from pathlib import Path

import pytest

from test_cli_diagnose import World
from vdiag import __version__


def test_help_has_examples_and_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    for asked in (["--help"], ["-h"], ["--format", "json", "--help"]):
        assert World().run(*asked) == 0
        text = capsys.readouterr().out
        for part in (
            "journalctl",
            "--format",
            "--rules",
            "--fail-on",
            "--exit-zero",
            "--version",
            "explain",
            "Exit status",
        ):
            assert part in text


@pytest.mark.parametrize("command", ["diagnose", "explain", "memory", "rules", "completion"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert World().run(command, "--help") == 0
    assert len(capsys.readouterr().out) > 100


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert World().run("--version") == 0
    assert capsys.readouterr().out == f"vdiag {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    world = World()
    assert world.run("completion", shell) == 0
    assert "_VDIAG_COMPLETE" in world.printed


RULE = """\
- id: acme-broke
  title: The acme part broke
  phrases: ["acme part {part:int} broke"]
  why: It was old.
  fixes:
    - do: Replace it
      set: {max_model_len: "{part}"}
  examples: ["acme part 7 broke"]
"""


def test_explaining_a_rule(tmp_path: Path) -> None:
    rules = tmp_path / "acme.yaml"
    rules.write_text(RULE)
    world = World()
    assert world.run("explain", "acme-broke", "--rules", "none", "--rules", str(rules)) == 0
    for part in (
        "acme-broke: The acme part broke.",
        "It was old.",
        "acme part <part> broke\n",
        "Role: cause. Severity: fatal.\n",
        "Replace it (safe).\n",
        "--max-model-len <part>\n",
    ):
        assert part in world.printed


def test_an_unknown_rule_offers_near_ones(tmp_path: Path) -> None:
    rules = tmp_path / "acme.yaml"
    rules.write_text(RULE)
    for name in ("acme-brok", "the-acme-thing"):
        world = World()
        assert world.run("explain", name, "--rules", "none", "--rules", str(rules)) == 2
        assert "acme-broke" in world.err.getvalue()
        assert world.printed == ""


def test_a_start_imports_nothing_it_does_not_need() -> None:
    code = (
        "import sys; from vdiag.cli import run; run(['--rules', 'none', '/dev/null']);"
        "print(sorted({'rich', 'yaml', 'difflib', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr
