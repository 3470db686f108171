"""`vdiag.diagnose` where its argument may be a misunderstanding."""

from __future__ import annotations

from pathlib import Path

import pytest

import vdiag


def test_a_string_that_names_a_file_is_text_and_the_report_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm.log").write_text("ValueError: something")
    monkeypatch.chdir(tmp_path)
    [note] = vdiag.diagnose("vllm.log").notes
    assert "taken as the text of a log" in note
    assert "Path('vllm.log') reads the file" in note
    assert vdiag.diagnose(Path("vllm.log")).notes == []


@pytest.mark.parametrize("text", ["", "other.log", "vllm.log\n", "\x00", "x" * 5000])
def test_other_strings_are_text_without_a_word(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm.log").touch()
    monkeypatch.chdir(tmp_path)
    assert vdiag.diagnose(text).notes == []
