"""A false alarm is worse than a miss: what healthy, busy and starting servers print gets no diagnosis."""

from __future__ import annotations

import random
import re

import pytest

from logtext import (
    ALL,
    FATAL,
    LIVING,
    Sample,
    ask,
    ask_files,
    behind,
    by_name,
    first,
    fits,
    lines,
    sample,
    traceback,
)
from vdiag.model import Report, Severity

HEALTHY = sample("healthy-busy")

# The first line with which a sample begins to go wrong, where no general sign stands at it.
TROUBLE = re.compile(
    r"ERROR|Traceback|Killed|Exception|File \"|Retrying|MaxRetryError|bus error|\w*Error\b|fatal error"
)
HARMLESS = re.compile(r"failed to automatically increase with error current limit")


def trouble(s: Sample) -> int:
    """The number of the first line that shows trouble."""
    return next(
        (n for n, row in enumerate(s.lines, 1) if TROUBLE.search(row) and not HARMLESS.search(row)),
        len(s.lines) + 1,
    )


def clear(report: Report) -> bool:
    return not report.diagnoses and report.verdict.value in ("starting", "healthy", "empty")


@pytest.mark.parametrize("s", ALL, ids=by_name)
def test_a_log_cut_before_its_first_trouble_has_no_diagnosis(s: Sample) -> None:
    rows = s.lines
    ends = range(trouble(s))
    for end in [*ends[:: 1 + len(ends) // 20], ends[-1]]:
        report = ask(lines(*rows[:end]))
        assert clear(report), f"cut behind line {end}: {first(report)}"


@pytest.mark.parametrize(
    "s",
    FATAL,
    ids=by_name,
)
def test_a_log_cut_anywhere_later_never_claims_another_cause(s: Sample) -> None:
    chance = random.Random(s.name)
    rows, start = s.lines, trouble(s)
    for end in sorted(chance.sample(range(start, len(rows) + 1), min(10, len(rows) + 1 - start))):
        for top in ask(lines(*rows[:end])).diagnoses[:1]:
            assert fits(top.rule, s) or top.confidence < 0.9, (
                f"cut behind line {end}: {top.rule} at {top.line}"
            )


@pytest.mark.parametrize("s", FATAL, ids=by_name)
def test_a_log_that_begins_later_never_claims_another_cause(s: Sample) -> None:
    chance = random.Random(s.name)
    rows = s.lines
    for begin in sorted(chance.sample(range(len(rows)), min(8, len(rows)))):
        for top in ask(lines(*rows[begin:])).diagnoses[:1]:
            assert fits(top.rule, s) or top.confidence < 0.9, (
                f"from line {begin + 1}: {top.rule} at {top.line + begin}"
            )


@pytest.mark.parametrize("s", [s for s in LIVING if s.name != "real-healthy-start"], ids=by_name)
def test_no_single_line_of_a_living_server_is_a_failure(s: Sample) -> None:
    different = {re.sub(r"[\d.]+", "#", row): (number, row) for number, row in enumerate(s.lines, 1)}
    for number, row in different.values():
        report = ask(row)
        assert all(d.severity is not Severity.FATAL for d in report.diagnoses), f"line {number}: {row}"


OTHERS = [
    "Nov 29 11:45:00 gpu-02 kernel: Out of memory: Killed process 4021 (mysqld) total-vm:9120344kB, anon-rss:4650112kB, file-rss:0kB, shmem-rss:0kB, UID:112 pgtables:9812kB oom_score_adj:0",
    "Nov 29 11:45:00 gpu-02 kernel: Memory cgroup out of memory: Killed process 4021 (java) total-vm:9120344kB, anon-rss:4650112kB, file-rss:0kB, shmem-rss:0kB, UID:112 pgtables:9812kB oom_score_adj:0",
    "Nov 29 11:45:00 gpu-02 systemd[1]: backup.service: Main process exited, code=exited, status=1/FAILURE",
    "Nov 29 11:45:00 gpu-02 systemd[1]: mysql.service: Failed with result 'oom-kill'.",
    "Nov 29 11:45:00 gpu-02 systemd[1]: certbot.service: Start operation timed out. Terminating.",
    "Nov 29 11:45:00 gpu-02 kernel: chrome[3321]: segfault at 0 ip 00007f1c sp 00007ffd error 4 in chrome[55a0+1000]",
]


@pytest.mark.parametrize("row", OTHERS)
@pytest.mark.parametrize("place", ["before", "within", "behind", "beside"])
def test_what_befell_another_program_is_not_ours(row: str, place: str) -> None:
    unit = "Nov 29 11:44:30 gpu-02 systemd[1]: Started vllm.service - vLLM."
    rows = [unit, *HEALTHY.lines]
    if place == "beside":
        report = ask_files(lines(*rows), lines(row))
    else:
        rows.insert({"before": 1, "within": len(rows) // 2, "behind": len(rows)}[place], row)
        report = ask(lines(*rows))
    assert first(report) == ("healthy", None, None)


CLIENTS = [
    'INFO:     10.0.0.7:51230 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
    'INFO:     10.0.0.7:51230 - "POST /v1/chat/completions HTTP/1.1" 404 Not Found',
    'INFO:     10.0.0.7:51230 - "GET /favicon.ico HTTP/1.1" 404 Not Found',
    'INFO:     10.0.0.7:51230 - "GET /v1/models HTTP/1.1" 401 Unauthorized',
]


@pytest.mark.parametrize("row", CLIENTS)
def test_a_bare_refusal_in_the_access_log_is_no_diagnosis(row: str) -> None:
    assert first(ask(HEALTHY.text + lines(*[row] * 30))) == ("healthy", None, None)


@pytest.mark.parametrize(
    "text",
    [
        "If you see an out of memory error, consider setting a lower gpu_memory_utilization.",
        "(EngineCore_DP0 pid=5) INFO 08-28 10:12:45 [kv_cache_utils.py:868] Maximum concurrency for 131,072 tokens per request: 4.95x",
        "(APIServer pid=1) INFO 08-28 10:12:45 [launcher.py:46] Route: /v1/chat/completions, Methods: POST",
        "(APIServer pid=1) INFO 08-28 10:12:45 [x.py:1] args: {'on_error': 'raise ValueError', 'fatal': False}",
        "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:03<00:00,  1.2it/s]",
    ],
)
def test_words_of_failure_in_harmless_lines_raise_no_alarm(text: str) -> None:
    assert not any(d.severity is Severity.FATAL for d in ask(HEALTHY.text + text + "\n").diagnoses)


def test_what_users_write_to_the_model_is_no_failure() -> None:
    prompt = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB, how do I fix it?"
    row = f"(APIServer pid=640) INFO 11-29 11:45:05 [logger.py:40] Received request chatcmpl-1: prompt: '{prompt}', params: SamplingParams(n=1)"
    served = '(APIServer pid=640) INFO:     127.0.0.1:5000 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    assert first(ask(lines(*HEALTHY.lines, row, served))) == ("healthy", None, None)
    assert first(ask(lines(*HEALTHY.lines, row))) == ("healthy", None, None)


@pytest.mark.parametrize("prefix", ["", "(APIServer pid=640) "])
def test_an_exception_that_python_ignored_is_no_failure(prefix: str) -> None:
    rows = [
        "Exception ignored in: <function Pool.__del__ at 0x7f00>",
        *traceback("ValueError: no way", "__del__"),
    ]
    assert first(ask(lines(*HEALTHY.lines, *behind(prefix, rows)))) == ("healthy", None, None)


@pytest.mark.parametrize("prefix", ["", "(EngineCore_DP0 pid=640) ERROR 11-29 11:45:05 [core.py:708] "])
def test_a_log_that_stops_behind_a_tracebacks_head_is_no_clean_bill(prefix: str) -> None:
    report = ask(HEALTHY.text + prefix + "Traceback (most recent call last):\n")
    assert (report.verdict.value, report.diagnoses[0].line) == ("incomplete", len(HEALTHY.lines) + 1)
