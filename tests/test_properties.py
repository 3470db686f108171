"""What holds for any input: an answer, within the contract; and for every sample however it was wrapped."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logtext import ALL, FAILED, Sample, ask, by_name, first, fits, lines, sample
from vdiag.model import Report, Verdict

QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
SMALL = [s for s in ALL if len(s.text) < 25_000]


def sound(report: Report, size: int) -> None:
    """What every report promises."""
    data = msgspec.json.encode(report)
    assert msgspec.json.encode(msgspec.json.decode(data, type=Report)) == data
    assert bool(report.diagnoses) is (
        report.verdict in (Verdict.DIAGNOSED, Verdict.UNRECOGNISED, Verdict.INCOMPLETE)
    )
    for told in report.diagnoses:
        assert 0 <= told.confidence <= 1
        assert 1 <= told.line <= max(report.inputs[0].lines, 1)
        assert told.times >= 1
        assert told.evidence
        assert (told.rule is None) <= (report.verdict is not Verdict.DIAGNOSED) or len(report.diagnoses) > 1
    assert report.inputs[0].bytes == size


@given(st.binary(max_size=400))
@settings(QUIET, max_examples=80)
def test_any_bytes_get_an_answer(data: bytes) -> None:
    sound(ask(data), len(data))


odd = st.sampled_from(
    [
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in f',
        "    raise x",
        "    ^^^^",
        "ValueError: x",
        "ValueError:",
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
        "(EngineCore_DP0 pid=5) ",
        "ERROR 08-28 10:12:45 [core.py:708] ",
        "Nov 29 11:45:00 gpu-02 kernel: ",
        "vllm-1  | ",
        "Engine core initialization failed. See root cause above.",
        "EngineCore_DP0 died",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "vLLM API server version 0.11.0",
        "Application startup complete.",
        "\x1b[31m",
        "\r",
        "\n",
        "\n",
        "\n",
        "\\n",
        "{",
        '{"message": "x"}',
        "\x00",
        "  | ",
        "  +-+---------------- 1 ----------------",
        "1 validation error for VllmConfig",
        "é",
    ]
)


@given(st.lists(odd, max_size=60).map("".join))
@settings(QUIET, max_examples=100)
def test_any_heap_of_log_parts_gets_an_answer(text: str) -> None:
    sound(ask(text), len(text.encode()))


@given(st.data())
@settings(QUIET, max_examples=30)
def test_any_piece_of_a_sample_gets_an_answer(data: st.DataObject) -> None:
    raw = data.draw(st.sampled_from(SMALL)).text.encode()
    begin = data.draw(st.integers(0, len(raw)))
    piece = raw[begin : data.draw(st.integers(begin, len(raw)))]
    sound(ask(piece), len(piece))


@given(st.data())
@settings(QUIET, max_examples=25)
def test_a_sample_with_damaged_bytes_gets_an_answer(data: st.DataObject) -> None:
    raw = bytearray(data.draw(st.sampled_from(SMALL)).text.encode())
    for _ in range(20):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    sound(ask(bytes(raw)), len(raw))


# ---- wrapped ---------------------------------------------------------------------------------------------------


def wrapped(row: str, width: int) -> list[str]:
    return [row[at : at + width] for at in range(0, len(row), width)] or [""]


def wrap(s: Sample, width: int, prefix: int = 0) -> tuple[str, list[int]]:
    """The sample as a terminal of this width shows it, and the number of the line where each row begins.

    `prefix` characters of a row are repeated before its rest.
    """
    text: list[str] = []
    begins: list[int] = []
    for row in s.lines:
        begins.append(len(text) + 1)
        head, *rest = wrapped(row, width)
        text += [head, *(row[:prefix] + part for part in rest)]
    return lines(*text), begins


WRAPPABLE = [s for s in FAILED if s.name != "wrapped-message" and s.rule != "model-name-not-served"]
WIDTHS = [60, 80, 120, 132, 161, 200]
# (sample, width) where the log says it several times and the first is torn: a later one is shown.
MOVED = {("gated-repo-systemd", 60), ("real-lora-missing", 161)}


def honest(report: Report, s: Sample) -> bool:
    """Whether the answer is the sample's; one that claims another cause with certainty is an error."""
    assert report.diagnoses, f"a failure was not seen: {report.verdict}"
    top = report.diagnoses[0]
    if fits(top.rule, s):
        return True
    assert top.confidence < 0.9, f"{top.rule} at line {top.line} with {top.confidence}"
    return False


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("s", WRAPPABLE, ids=by_name)
def test_a_hard_wrapped_sample_gets_its_answer_or_an_honest_one(s: Sample, width: int) -> None:
    text, begins = wrap(s, width)
    report = ask(text)
    if honest(report, s):
        begins.append(text.count("\n") + 1)
        line = report.diagnoses[0].line
        assert begins[(s.line or 1) - 1] <= line
        assert line < begins[s.line or 1] or (s.name, width) in MOVED


@given(st.sampled_from(WRAPPABLE), st.integers(60, 250))
@settings(QUIET, max_examples=30)
def test_a_sample_wrapped_at_any_width_never_claims_another_cause(s: Sample, width: int) -> None:
    honest(ask(wrap(s, width)[0]), s)


KV = sample("kv-cache-too-small")
MESSAGE = KV.lines[(KV.line or 1) - 1]


@pytest.mark.parametrize("width", range(60, 251, 7))
@pytest.mark.parametrize(
    "before", ["", MESSAGE[: MESSAGE.index("(EngineCore")], MESSAGE[: MESSAGE.index("ValueError")]]
)
def test_a_message_wrapped_with_its_prefix_on_every_row(width: int, before: str) -> None:
    """Some collectors break long messages and put their prefix before each part."""
    message = MESSAGE.removeprefix(MESSAGE[: MESSAGE.index("ValueError")])
    rows = [before + part for part in wrapped(message, width)]
    top = ask(lines("x", *rows)).diagnoses[0]
    assert (top.rule, top.line) == ("kv-cache-too-small", 2)


@pytest.mark.parametrize("width", range(60, 251, 7))
def test_a_message_wrapped_without_its_prefix_on_the_rest(width: int) -> None:
    row = MESSAGE[MESSAGE.index("(EngineCore") :]
    top = ask(lines("x", *wrapped(row, width))).diagnoses[0]
    assert (top.rule, top.line in (2, 3)) == ("kv-cache-too-small", True)


# ---- what stands before or around every line --------------------------------------------------------------------


MARKS = {
    "quoted": lambda row, n: f"> {row}",
    "line numbers": lambda row, n: f"{n:6}  {row}",
    "line numbers with a bar": lambda row, n: f"{n:>4} | {row}",
    "grep -n": lambda row, n: f"vllm.log:{n}:{row}",
    "bullets": lambda row, n: f"- {row}",
    "backticks": lambda row, n: f"`{row}`",
    "a table's cells": lambda row, n: '"' + row.replace('"', '""') + '"',
    "a tag of no known program": lambda row, n: f"<llm/{n}> {row}",
    "indented": lambda row, n: f"    {row}",
}


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("s", ALL, ids=by_name)
def test_a_mark_on_every_line_changes_nothing(mark: str, s: Sample) -> None:
    marked = lines(*(MARKS[mark](row, n) for n, row in enumerate(s.lines, 1)))
    assert first(ask(marked))[:2] == first(ask(s.text))[:2]


FRAGMENT = [  # a traceback without its head: nothing tells by itself that the rows were quoted
    '  File "/opt/app/store.py", line 7, in put',
    "    self.write(key)",
    '  File "/opt/app/store.py", line 31, in write',
    "    raise KeyError(key)",
    "KeyError: 'layer.9'",
    "(APIServer pid=7) INFO 03-01 10:00:00 [launcher.py:44] Shutting down",
]


@pytest.mark.parametrize("mark", MARKS)
def test_an_unknown_failure_behind_marks_is_still_a_failure(mark: str) -> None:
    marked = lines(*(MARKS[mark](row, n) for n, row in enumerate(FRAGMENT, 1)))
    assert first(ask(marked)) == ("unrecognised", None, 5)


# ---- wrapped at spaces -------------------------------------------------------------------------------------------


def at_spaces(row: str, width: int) -> list[str]:
    """The row as a page or a mail shows it: broken at the last space that fits, which goes."""
    rows = []
    while len(row) > width:
        cut = row.rfind(" ", 0, width + 1)
        if cut <= 0 or not row[:cut].strip():
            cut = width
        rows.append(row[:cut])
        row = row[cut:].removeprefix(" ")
    return [*rows, row]


@pytest.mark.parametrize("s", WRAPPABLE, ids=by_name)
@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_a_sample_wrapped_at_spaces_gets_its_answer(s: Sample, width: int) -> None:
    report = ask(lines(*(part for row in s.lines for part in at_spaces(row, width))))
    assert fits(report.diagnoses[0].rule, s)


VLLM_ROW = re.compile(r"(?:\([A-Z]\w+ pid=\d+\) )?(?:[A-Z]+ \d\d-\d\d [\d:]+ \[\S+\] )?")


@pytest.mark.parametrize("s", WRAPPABLE, ids=by_name)
@pytest.mark.parametrize("width", [100, 132, 180])
def test_a_sample_wrapped_with_its_prefix_repeated_gets_its_answer(s: Sample, width: int) -> None:
    rows = []
    for row in s.lines:
        m = VLLM_ROW.match(row)
        prefix = m[0] if m else ""
        rows += [prefix + part for part in wrapped(row[len(prefix) :], width - len(prefix))]
    assert fits(ask(lines(*rows)).diagnoses[0].rule, s)


def test_a_dump_without_end_in_lines_of_one_width_is_read_in_time_that_grows_with_it() -> None:
    """Each line may go on from the one before; looking back at all of them would take minutes."""
    report = ask(KV.text + ("x" * 160 + "\n") * 30_000)
    assert first(report) == ("diagnosed", KV.rule, KV.line)
