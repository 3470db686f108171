"""Lines that look alarming and are not: explained when they are all there is, blamed for nothing, told from faults."""

from __future__ import annotations

from pathlib import Path

import pytest

import vdiag
from logtext import ask, by_name, first, lines, sample
from vdiag.model import Role, Verdict
from vdiag.render import terminal
from vdiag.rulebook.schema import Rule
from vdiag.rulebook.shipped import shipped

BENIGN = [rule for rule in shipped().rules if rule.role is Role.BENIGN]
SPOKEN = [(rule, text) for rule in BENIGN for text in rule.examples]
START = "INFO 08-28 10:12:01 [api_server.py:1839] vLLM API server version 0.11.0"
FAULT = sample("kv-cache-too-small")

DECOYS = {
    "ulimit": "WARNING 08-28 10:12:02 [utils.py:1201] Found ulimit of 1024 and failed to automatically increase with "
    "error current limit exceeds maximum limit. This can cause fd limit errors like `OSError: [Errno 24] Too many "
    "open files`. Consider increasing with ulimit -n",
    "memory": "(EngineCore_DP0 pid=5400) INFO 08-28 10:13:02 [gpu_worker.py:391] Free memory on device (23.21/23.64 GiB) "
    "on startup. Desired GPU memory utilization is (0.9, 21.28 GiB). Actual usage is 14.99 GiB for weight, 1.22 GiB for "
    "peak activation, 0.12 GiB for non-torch memory, and 0.84 GiB for CUDAGraph memory.",
    "graphs": "INFO 01-14 08:30:40 model_runner.py:1415] If out-of-memory error occurs during cudagraph capture, consider "
    "decreasing `gpu_memory_utilization` or switching to eager mode.",
    "group": "[rank0]:[W828 10:20:00.118273645 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was "
    "not called before program exit, which can leak resources.",
    "semaphores": "/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There "
    "appear to be 1 leaked semaphore objects to clean up at shutdown",
    "nanobind": "nanobind: leaked 3 functions!",
    "waiting": "INFO 08-28 10:14:02 [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.",
    "triton": "WARNING 05-02 17:20:01 [importing.py:28] Triton is not installed. Using dummy decorators.",
    "driver": "[ 5123.120411] NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) "
    "returned from _memdescAllocInternal(pMemDesc) @ mem_desc.c:1359",
}  # fmt: skip


def named(rule: Rule) -> str:
    return rule.id


@pytest.mark.parametrize("text", DECOYS.values(), ids=DECOYS)
def test_a_decoy_alone_is_explained_and_no_fault(text: str) -> None:
    report = ask(lines(text))
    assert report.verdict in (Verdict.HEALTHY, Verdict.STARTING)
    assert len(report.harmless) == 1
    page = " ".join(terminal.render(report).plain().split())
    assert "Looks alarming, is harmless" in page
    assert report.harmless[0].why in page


@pytest.mark.parametrize(
    ("rule", "text"), [pytest.param(rule, text, id=f"{rule.id}-{n}") for n, (rule, text) in enumerate(SPOKEN)]
)
def test_every_benign_wording_is_explained_and_blamed_for_nothing(rule: Rule, text: str) -> None:
    report = ask(lines(START, *text.splitlines()))
    assert report.diagnoses == [], first(report)
    assert rule.id in {item.rule for item in report.harmless}


@pytest.mark.parametrize("rule", BENIGN, ids=named)
def test_a_benign_rule_says_what_the_line_means(rule: Rule) -> None:
    assert rule.why
    assert rule.lookalikes


def test_the_most_alarming_stands_first_and_each_rule_once() -> None:
    mild, loud = DECOYS["memory"], DECOYS["ulimit"]
    report = ask(lines(START, mild, mild, loud))
    assert [(item.line, item.times) for item in report.harmless] == [(4, 1), (2, 2)]


def test_beside_a_diagnosis_it_is_told_only_when_asked_for() -> None:
    report = ask(lines(DECOYS["ulimit"], *FAULT.lines))
    assert report.diagnoses
    assert "benign-ulimit" in {item.rule for item in report.harmless}
    assert "Looks alarming" not in terminal.render(report).plain()
    assert "Looks alarming" in terminal.render(report, everything=True).plain()


@pytest.mark.parametrize("s", [sample("healthy-busy")], ids=by_name)
def test_lines_of_what_is_harmless_are_those_of_the_log(s) -> None:
    for item in ask(s.text).harmless:
        assert item.text.split("\n")[0][-40:] in s.lines[item.line - 1]


def test_all_its_lines_are_told_in_the_input_of_the_first() -> None:
    report = ask(lines(START, DECOYS["ulimit"], START, DECOYS["ulimit"], DECOYS["graphs"]))
    assert {item.rule: item.lines for item in report.harmless}["benign-ulimit"] == [2, 4]


def test_in_a_pasted_log_they_are_told_as_they_stand_there() -> None:
    told = ask(lines(*(f"> {row}" for row in (START, DECOYS["ulimit"], "", START, DECOYS["ulimit"]))))
    for item in told.harmless:
        assert item.line == item.lines[0]
        assert item.lines == [2, 5]


def test_in_a_rotated_set_they_are_told_file_by_file(tmp_path: Path) -> None:
    older, newer = tmp_path / "vllm.log.1", tmp_path / "vllm.log"
    older.write_text(lines(START, START, START, START, DECOYS["ulimit"]))
    newer.write_text(lines(START, DECOYS["ulimit"], START))
    report = vdiag.diagnose([newer, older])
    assert [(item.source, item.line, item.lines) for item in report.harmless] == [(str(older), 5, [5])]
