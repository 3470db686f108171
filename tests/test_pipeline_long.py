"""Long inputs get the answer of the short log inside them, at its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import vdiag
from logtext import ALL, SERVED, ask, first, lines, said, sample
from vdiag.intake import blocks as intake
from vdiag.model import Verdict

ACCESS = 'INFO:     10.0.0.{}:{} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
ROWS = [ACCESS.format(n % 250, 40_000 + n % 9000) for n in range(5000)]
MIB_OF_ROWS = "\n".join(ROWS * 3) + "\n"  # about one MiB


def padding(mib: float) -> str:
    text = MIB_OF_ROWS * (int(mib * 1.1) + 1)
    return text[: text.rfind("\n", 0, int(mib * 1024 * 1024)) + 1]


LONG = padding(9)


def ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


DEATHS = [
    "kv-cache-too-small",
    "cuda-oom-serving",
    "gated-repo-systemd",
    "real-disk-full",
    "host-oom-kill",
    "bus-error-compose",
]


@pytest.mark.parametrize("name", DEATHS)
def test_a_failure_at_the_end_of_a_long_log(name: str) -> None:
    s = sample(name)
    report = ask(LONG + s.text)
    assert first(report) == (s.verdict, s.rule, (s.line or 0) + LONG.count("\n"))


@pytest.mark.parametrize(
    "name", [*DEATHS, "wrapped-message", "real-trunc-weights", "real-v011-tokenizer-too-new"]
)
def test_a_failure_in_the_bulk_of_a_log_that_ends_with_it(name: str) -> None:
    """Behind it comes what no server says, so that nothing speaks of survival."""
    s = sample(name)
    before, behind = padding(1), "unremarkable line of something else\n" * 300_000
    report = ask(before + ended(s.text) + behind)
    assert first(report)[1:] == (s.rule, (s.line or 0) + before.count("\n"))


def test_a_failure_in_the_middle_of_twenty_megabytes() -> None:
    s = sample("kv-cache-too-small")
    half = padding(10)
    behind = "unremarkable line of something else\n" * 300_000
    report = ask(half + ended(s.text) + behind)
    assert first(report) == ("diagnosed", s.rule, (s.line or 0) + half.count("\n"))
    assert report.inputs[0].lines == (half + ended(s.text) + behind).count("\n")


def test_other_lines_between_the_rows_of_a_failure() -> None:
    s = sample("kv-cache-too-small")
    noise = "unremarkable line of something else\n"
    text = noise * 250_000 + "".join(f"{row}\n" + noise * 300 for row in s.lines)
    assert first(ask(text)) == ("diagnosed", s.rule, 250_000 + ((s.line or 0) - 1) * 301 + 1)


@pytest.mark.parametrize("name", [s.name for s in ALL if s.verdict == "healthy"])
def test_a_long_healthy_log_has_no_diagnosis(name: str) -> None:
    report = ask(sample(name).text + LONG)
    assert first(report) == ("healthy", None, None)


@pytest.mark.parametrize("where", [0, 1, 2])
def test_line_numbers_are_exact_wherever_the_line_stands(where: int) -> None:
    cut = LONG.find("\n", (len(LONG) * where) // 2 - 10 if where else 0) + 1 if where < 2 else len(LONG)
    odd = "\r\n\n\r\nx\rredrawn\n"
    text = (
        odd
        + LONG[:cut]
        + "ValueError: The model's max seq len (65536) is larger than the maximum number of tokens that can be stored in KV cache (17408).\n"
    )
    text += "unremarkable line of something else\n" * 30_000
    report = ask(text)
    assert first(report)[1:] == ("kv-cache-too-small-v0", text[: text.index("ValueError")].count("\n") + 1)


def test_a_compressed_file_gets_the_answer_of_the_plain_one(tmp_path: Path) -> None:
    s = sample("cuda-oom-loading")
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress((LONG + s.text).encode(), 1))
    assert first(vdiag.diagnose(path)) == (s.verdict, s.rule, (s.line or 0) + LONG.count("\n"))


def test_a_cut_off_gzip_is_diagnosed_as_far_as_it_goes(tmp_path: Path) -> None:
    s = sample("cuda-oom-loading")
    packed = gzip.compress(
        ended(s.text).encode() + b"".join(b"%d padding %d\n" % (n, n * n) for n in range(9000))
    )
    path = tmp_path / "a.log.gz"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    report = vdiag.diagnose(path)
    assert first(report) == (s.verdict, s.rule, s.line)
    assert "cut off" in report.inputs[0].gaps[0].what


@pytest.mark.parametrize("whole", [1500, 3001, 8000])
@pytest.mark.parametrize(
    "name", ["kv-cache-too-small", "real-too-many-files", "host-oom-kill", "free-memory-leftover-engine"]
)
def test_the_answer_does_not_hang_on_where_the_blocks_end(
    name: str, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small limits make a long input of every sample: the same answer, found by the prefilter."""
    monkeypatch.setattr(intake, "WHOLE", whole)
    monkeypatch.setattr(intake, "TAIL", whole // 3)
    monkeypatch.setattr(intake, "BLOCK", whole // 2)
    s = sample(name)
    assert first(ask(s.text)) == (s.verdict, s.rule, s.line)


def test_many_repetitions_of_one_error_stay_within_bounds() -> None:
    rows = [said(f"KeyError: 'coal {n}'").replace("ERROR", "WARNING") for n in range(100)]
    report = ask(lines(*rows * 250, *[SERVED] * 100))
    assert report.verdict is Verdict.HEALTHY


def wrapped(text: str, width: int) -> tuple[str, list[int]]:
    """A text as a terminal of this width copies it, and the number of each line's first piece."""
    rows: list[str] = []
    places = []
    for row in text.splitlines():
        places.append(len(rows) + 1)
        rows += [row[at : at + width] for at in range(0, len(row), width)] or [""]
    return "\n".join(rows) + "\n", places


@pytest.mark.parametrize("width", [90, 120, 160])
@pytest.mark.parametrize("name", ["kv-cache-too-small", "cuda-oom-serving", "gated-repo-systemd"])
def test_a_long_log_whose_end_was_wrapped(name: str, width: int) -> None:
    s = sample(name)
    end, places = wrapped(s.text, width)
    long, _ = wrapped(LONG, width)
    report = ask(long + end)
    verdict, rule, line = first(report)
    assert (verdict, rule) == (s.verdict, s.rule)
    top = report.diagnoses[0]
    begin, after = places[(s.line or 0) - 1], [*places, end.count("\n") + 1][s.line or 0]
    assert long.count("\n") + begin <= (line or 0) < long.count("\n") + after
    assert top.confidence >= ask(end).diagnoses[0].confidence >= 0.89


def test_a_long_log_whose_quoted_end_is_read_without_its_marks() -> None:
    s = sample("kv-cache-too-small")
    quoted = "".join(f"> {row}\n" for row in (LONG + s.text).splitlines())
    report = ask(quoted)
    assert first(report) == (s.verdict, s.rule, (s.line or 0) + LONG.count("\n"))
    assert any("quote marks" in note for note in report.notes)
