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
from vdiag.render.page import harmless

UNSEEN = "\u00ad\u061c\u115f\u1160\u180e\u206a\u3164\uffa0\ufff9\ufdd0\uffff\U0001d173\U000e0041\U000e0100\U0010ffff"
EVIL = "\x1b]0;x\x07\x1b[2J\u202e\u200b\x9b31m\x08\x7f" + UNSEEN
OBEYED = re.compile(
    f"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff{UNSEEN}]"
)
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
    report = ask(KV.replace("ValueError: ", f"ValueError: \u202e\u200b\x7f\x9b{UNSEEN}"))
    written = as_json.render(report)
    assert not OBEYED.search(written)
    text = json.loads(written)["diagnoses"][0]["evidence"][0]["text"]
    assert "\u202e" in text
    assert UNSEEN[1:] in text  # soft hyphens are no part of a line


@pytest.mark.parametrize(
    "shown", ["می\u200cخواهم", "\U0001f469\u200d\U0001f680", "\u26a0\ufe0f", "\ufffd", "日本"]
)
def test_what_joins_letters_stays(shown: str) -> None:
    assert harmless(shown) == shown


@pytest.mark.parametrize(
    "words", [[], ["explain"], ["report"], ["report", "--format", "github"], ["--all"], ["--no\n::error::a"]]
)
@pytest.mark.parametrize("there", [True, False])
def test_a_name_stands_on_one_row(
    words: list[str],
    there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a\n::error::b.log").write_text(KV, encoding="utf8")
    text = said(capsys, *words, "a\n::error::b.log" if there else "aa\n::error::b.log")
    assert "error" in text
    rows = text.replace("\r", "\n").split("\n")
    assert not [row for row in rows if row.lstrip().startswith(("::error::a", "::error::b"))]


def test_a_draft_of_a_hostile_line_is_still_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("b.log").write_text(
        "ERROR 01-01 00:00:00 [a.py:1] The boiler\u202e is\u200b out of\x7f water\n", encoding="utf8"
    )
    (rule,) = yaml.safe_load(said(capsys, "rules", "new", "--from", "b.log:1"))
    assert "\u202e is\u200b out of\x7f water" in rule["examples"][0]
