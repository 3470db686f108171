"""Control characters, escapes and invisible marks: whatever brings them, no output obeys or hides them."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from logtext import ask, sample
from vdiag.cli import _run as run_command  # `vdiag.cli.run` is a module too once `vdiag run` was asked for
from vdiag.cli.console import Console
from vdiag.render import json as as_json

EVIL = "\x1b]0;x\x07\x1b[2J\u202e\u200b\x9b31m\x08\x7f"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
KV = sample("kv-cache-too-small").text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log and a rule file that are hostile by name and by what they hold."""
    monkeypatch.chdir(tmp_path)
    text = KV.replace("ValueError: ", f"ValueError: {EVIL}").replace("model", f"mo{EVIL}del")
    Path(f"a{EVIL}.log").write_text(text, encoding="utf8")
    Path(f"r{EVIL}.yaml").write_text('- id: "x\\u001b[2J"\n  titel: "\\u202e"\n', encoding="utf8")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints on both outputs to a terminal that knows colours, but is asked for none."""
    console = Console(
        io.BytesIO(),
        sys.stdout,
        sys.stderr,
        {"NO_COLOR": "1"},
        stdout_is_terminal=True,
        stderr_is_terminal=True,
    )
    run_command(words, console)
    out, err = capsys.readouterr()
    return out + err


@pytest.mark.parametrize(
    "words",
    [
        ["LOG"],
        ["--all", "LOG"],
        ["--format", "json", "LOG"],
        ["explain", "LOG"],
        ["rules", "test", "--explain", "LOG"],
        ["rules", "new", "--from", "LOG:8"],
        ["rules", "new", "--from", "LOG:99999"],
        ["rules", "lint", "RULES"],
        ["rules", "test", "RULES"],
        ["rules", "list", "RULES"],
        ["rules", "list", "missing" + EVIL],
        ["--rules", "RULES", "LOG"],
        ["explain", "no" + EVIL],
        ["missing" + EVIL],
        ["diff", "LOG", "LOG"],
        ["diff", "LOG", "missing" + EVIL],
        ["--since", EVIL, "LOG"],
        ["--no" + EVIL],
        ["--format", EVIL, "LOG"],
        ["-u", EVIL],
    ],
    ids=lambda words: " ".join(words).replace(EVIL, "EVIL"),
)
def test_no_output_obeys_a_stranger(
    words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [w.replace("LOG", f"a{EVIL}.log").replace("RULES", f"r{EVIL}.yaml") for w in words]
    text = said(capsys, *given)
    assert text
    assert not OBEYED.findall(text)


def test_json_spells_them_and_says_the_same() -> None:
    report = ask(KV.replace("ValueError: ", "ValueError: \u202e\u200b\x7f\x9b"))
    written = as_json.render(report)
    assert not OBEYED.search(written)
    assert "\u202e" in json.loads(written)["diagnoses"][0]["evidence"][0]["text"]


def test_a_draft_of_a_hostile_line_is_still_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("b.log").write_text(
        "ERROR 01-01 00:00:00 [a.py:1] The boiler\u202e is\u200b out of\x7f water\n", encoding="utf8"
    )
    (rule,) = yaml.safe_load(said(capsys, "rules", "new", "--from", "b.log:1"))
    assert "\u202e is\u200b out of\x7f water" in rule["examples"][0]
