"""Bad input: a clear word about it, and the rest is diagnosed all the same."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import pytest

import vdiag
from logtext import FAILED, FATAL, Sample, ask, by_name, first, lines, said, sample, steam
from vdiag.intake.blocks import RETURNS
from vdiag.intake.sources import Source, of_bytes
from vdiag.model import Verdict
from vdiag.pipeline import diagnose
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.schema import Pattern, Rule

KV = sample("kv-cache-too-small")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\n\n  \n\t\n",
        b"\r\n\r\n",
        b"\x00" * 100,
        b"\xef\xbb\xbf",
        b"\xff\xfe",
    ],
)
def test_no_text_is_empty(data: bytes) -> None:
    report = ask(data)
    assert (report.verdict, report.diagnoses) == (Verdict.EMPTY, [])


def test_text_that_is_no_log_is_empty_and_another_programs_log_is_healthy() -> None:
    assert first(ask("dear diary\nnothing happened\n")) == ("empty", None, None)
    assert first(ask("2026-11-29 10:00:01,123 - shop - INFO - 3 orders\n")) == ("healthy", None, None)


def test_binary_is_named_and_the_rest_still_diagnosed(rulebook: Rulebook) -> None:
    noise = random.Random(1).randbytes(20_000)
    alone = diagnose([of_bytes(noise, "core")], rulebook=rulebook)
    assert (alone.verdict, alone.inputs[0].format) == (Verdict.EMPTY, "binary")
    assert "does not look like text" in alone.inputs[0].gaps[0].what
    both = diagnose([of_bytes(noise, "core"), of_bytes(KV.text.encode(), "vllm.log")], rulebook=rulebook)
    assert first(both) == ("diagnosed", KV.rule, KV.line)
    assert both.diagnoses[0].source == "vllm.log"


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_read(codec: str) -> None:
    report = ask(KV.text.encode(codec))
    assert first(report) == ("diagnosed", KV.rule, KV.line)
    assert report.inputs[0].format.startswith("utf-16")


def test_nuls_are_dropped() -> None:
    text = KV.text.replace("max seq len", "max\x00 seq len").encode() + b"\x00" * 50
    assert first(ask(text)) == ("diagnosed", KV.rule, KV.line)


def test_bytes_that_are_no_utf8_do_not_matter() -> None:
    rows = [
        row + b" \xff\xc3\x28" if n % 3 == 0 else row for n, row in enumerate(KV.text.encode().split(b"\n"))
    ]
    assert first(ask(b"\n".join(rows))) == ("diagnosed", KV.rule, KV.line)


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_line_of_five_megabytes_does_not_matter(place: str) -> None:
    dump = "x" * 5_000_000 + "\n"
    text = dump + KV.text if place == "before" else KV.text.rstrip("\n") + "\n" + dump
    report = ask(text)
    assert first(report) == ("diagnosed", KV.rule, (KV.line or 0) + (place == "before"))


def test_a_line_of_five_megabytes_with_the_error_at_its_end() -> None:
    report = ask("y\n" + "x" * 5_000_000 + " RuntimeError: Failed to infer device type\n")
    assert first(report)[1:] == ("no-platform-found", 2)


@pytest.mark.parametrize("s", FATAL, ids=by_name)
def test_windows_line_ends_change_nothing(s: Sample) -> None:
    assert first(ask(s.text.replace("\n", "\r\n"))) == (s.verdict, s.rule, s.line)


@pytest.mark.parametrize("s", FATAL, ids=by_name)
def test_a_missing_last_line_end_changes_nothing(s: Sample) -> None:
    assert first(ask(s.text.rstrip("\n"))) == (s.verdict, s.rule, s.line)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), ValueError("read of closed file")])
def test_a_stream_that_breaks_is_diagnosed_as_far_as_it_goes(error: Exception, rulebook: Rulebook) -> None:
    class Broken(io.BytesIO):
        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            n = super().readinto(buffer)
            if not n:
                raise error
            return n

    report = diagnose([Source("pipe", lambda: Broken(KV.text.encode()))], rulebook=rulebook)
    assert first(report) == ("diagnosed", KV.rule, KV.line)
    assert report.inputs[0].gaps[0].what.startswith("reading ended early: ")


def test_a_source_that_cannot_be_opened_is_a_gap(rulebook: Rulebook) -> None:
    def refuse() -> io.BytesIO:
        raise PermissionError(13, "Permission denied")

    report = diagnose([Source("secret.log", refuse), of_bytes(KV.text.encode(), "b")], rulebook=rulebook)
    assert report.inputs[0].gaps[0].what == "could not be read: Permission denied"
    assert first(report) == ("diagnosed", KV.rule, KV.line)


def test_a_pattern_without_end_is_named_and_the_rest_diagnosed() -> None:
    bad = Rule(id="endless", title="t", patterns=[Pattern(r"wheels (?:\w*\w*)*\w*\w*\w*!")])
    text = lines(
        said("wheels " + "a" * 30_000),
        said("The boiler has no water in it"),
        said("The engine has stopped. See above"),
    )
    report = ask(text, steam(bad))
    assert first(report) == ("diagnosed", "dry", 2)
    assert any("endless" in note and "too long" in note for note in report.notes)


# ---- the library ------------------------------------------------------------------------------------------


def test_a_text_a_path_paths_and_a_stream_get_the_same_answer(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    path.write_bytes(KV.text.encode())
    wanted = ("diagnosed", KV.rule, KV.line)
    assert first(vdiag.diagnose(KV.text)) == wanted
    assert first(vdiag.diagnose(KV.text.encode())) == wanted
    assert first(vdiag.diagnose(path)) == wanted
    assert first(vdiag.diagnose([str(path)])) == wanted
    with path.open("rb") as stream:
        assert first(vdiag.diagnose(stream)) == wanted
    with path.open(encoding="utf8") as stream:
        assert first(vdiag.diagnose(stream)) == wanted
    assert first(vdiag.diagnose(io.StringIO(KV.text))) == wanted
    assert first(vdiag.diagnose(io.BytesIO(KV.text.encode()))) == wanted


def test_a_path_that_is_missing_raises_what_python_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        vdiag.diagnose(tmp_path / "missing.log")


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises((OSError, ValueError)):
        vdiag.diagnose(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_without_permission_raises_what_python_raises(tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.write_bytes(b"x")
    path.chmod(0)
    with pytest.raises(PermissionError):
        vdiag.diagnose(path)


def test_a_users_rules_count_beside_the_shipped_ones_or_alone(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("- id: own\n  title: Own\n  why: w\n  phrases: ['The boiler has no water in it']\n")
    text = "ValueError: The boiler has no water in it\n"
    assert first(vdiag.diagnose(text, rules=[path])) == ("diagnosed", "own", 1)
    assert first(vdiag.diagnose(text, rules=[path], shipped_rules=False)) == ("diagnosed", "own", 1)
    assert first(vdiag.diagnose(text)) == ("unrecognised", None, 1)
    assert first(vdiag.diagnose(KV.text, rules=[path])) == ("diagnosed", KV.rule, KV.line)
    assert first(vdiag.diagnose(KV.text, rules=[path], shipped_rules=False))[0] == "unrecognised"


def test_without_any_rule_structure_alone_finds_the_exception() -> None:
    assert first(vdiag.diagnose(KV.text, shipped_rules=False)) == ("unrecognised", None, KV.line)


def test_the_same_input_gets_the_same_answer_twice(rulebook: Rulebook) -> None:
    for s in FATAL[:6]:
        assert ask(s.text, rulebook) == ask(s.text, rulebook)


def test_progress_is_told_in_rising_bytes(rulebook: Rulebook) -> None:
    told: list[int] = []
    diagnose(
        [of_bytes((b"x" * 99 + b"\n") * 120_000), of_bytes(b"y\n")], rulebook=rulebook, progress=told.append
    )
    assert told == sorted(told)
    assert told[-1] == 12_000_002


LONG = [s for s in FAILED if len(s.lines) > RETURNS and "\r" not in s.text]


@pytest.mark.parametrize("sample", LONG, ids=by_name)
def test_lines_that_end_in_a_carriage_return_alone_are_lines(sample: Sample) -> None:
    report = ask(sample.text.replace("\n", "\r"))
    assert (report.diagnoses[0].rule, report.diagnoses[0].line) == (sample.rule, sample.line)
    assert "carriage return" in report.inputs[0].gaps[-1].what
