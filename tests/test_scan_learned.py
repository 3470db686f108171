"""Prefixes that no grammar knows, wrappers that log a server's lines as their own, and Ray's word on repeats."""

from __future__ import annotations

import pytest

from logtext import (
    FAILED,
    HEAD,
    LESS_SPECIFIC,
    LIVING,
    Sample,
    ask,
    behind,
    by_name,
    first,
    lines,
    records_of,
    sample,
    traceback,
)

OWN = "(EngineCore pid=7) ERROR 09-21 14:13:21 [core.py:9] Boom"
UNKNOWN = ["llm-0 vllm ", "[llm-0 vllm] ", "0: ", "vllm.log:12:", "~~ ", "   12\t", "job 7 / step 3 :: "]


@pytest.mark.parametrize("prefix", UNKNOWN)
def test_a_prefix_is_learned_from_a_traceback(prefix: str) -> None:
    found = records_of(lines("before", *behind(prefix, [OWN, *traceback("ValueError: no way")])))
    assert [r.message for r in found[:4]] == [
        "before",
        "Boom",
        HEAD,
        '  File "/opt/app/engine.py", line 10, in run',
    ]
    assert (found[1].envelope.role, found[1].envelope.pid) == ("EngineCore", 7)


@pytest.mark.parametrize("prefix", UNKNOWN)
def test_a_prefix_is_learned_from_vllms_own_header(prefix: str) -> None:
    found = records_of(lines(*behind(prefix, ["a", OWN, "b", OWN])))
    assert [r.message for r in found[:4]] == ["a", "Boom", "b", "Boom"]
    assert found[1].envelope.pid == 7


def test_what_is_known_in_front_of_it_still_counts() -> None:
    stamp = "2026-09-21T14:13:21.123456Z "
    found = records_of(lines(*behind(f"{stamp}llm-0 vllm ", [OWN, *traceback("ValueError: no way")])))
    assert (found[0].message, found[0].envelope.time, found[0].envelope.pid) == ("Boom", stamp.strip(), 7)


def test_processes_behind_it_stay_apart() -> None:
    rows = [
        row
        for pid in (7, 8)
        for row in behind(f"llm-0 vllm (Worker pid={pid}) ", traceback(f"ValueError: {pid}"))
    ]
    assert {r.envelope.pid for r in records_of(lines(*rows)) if r.message} == {7, 8}


@pytest.mark.parametrize(
    "rows",
    [
        [OWN, "what now?", "I asked: " + OWN, "and more", "and more"],  # one line of five
        ["said: " + HEAD, "nothing", "nothing", "nothing"],
    ],
)
def test_what_only_some_lines_begin_with_is_no_prefix(rows: list[str]) -> None:
    found = records_of(lines(*rows))
    assert [r.message for r in found if r.message][1:] == rows[1:]


# ---- wrappers --------------------------------------------------------------------------------------------------

INFO = "2026-09-21 14:13:21,123 - launcher - INFO - "
PUMPED = "2026-09-21 14:13:20,001 - launcher - INFO - INFO 09-21 14:13:20 [core.py:1] Starting"


FORMS = [
    INFO,
    "2026-09-21 14:13:21.123 | INFO     | launcher:pump:42 - ",
    "[INFO] ",
    "2026-09-21 14:13:21.123 [Info] (Process) ",
]


@pytest.mark.parametrize("form", FORMS)
def test_the_level_of_a_wrapper_says_nothing_of_a_servers_line(form: str) -> None:
    rows = ["INFO 09-21 14:13:20 [core.py:1] Starting", "RuntimeError: Failed to infer device type"]
    assert first(ask(lines(*behind(form, rows)))) == ("diagnosed", "no-platform-found", 2)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("failed", FAILED, ids=by_name)
def test_a_launcher_that_logs_all_at_info_hides_no_failure(failed: Sample, form: str) -> None:
    report = ask(lines(*behind(form, failed.lines)))
    assert report.diagnoses[0].rule in {failed.rule, *LESS_SPECIFIC.get(failed.rule or "", ())}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("living", LIVING, ids=by_name)
def test_a_launcher_that_logs_all_at_info_makes_no_failure(living: Sample, form: str) -> None:
    found = ask(lines(*behind(form, living.lines)))
    assert [d.rule for d in found.diagnoses] == [d.rule for d in ask(lines(*living.lines)).diagnoses]


@pytest.mark.parametrize(
    "sign",
    [
        "usage: vllm [-h] [-v]",
        "vllm: error: unrecognized arguments: --max-modle-len 2048",
        "terminate called after throwing an instance of 'c10::Error'",
        "Fatal Python error: Segmentation fault",
        "Jun 11 09:02:34 gpu-02 vllm[9004]: (APIServer pid=9004) said",
        "vllm-1  | INFO 09-21 14:13:20 [core.py:1] Starting",
        "/bin/sh: 1: vllm: not found",
    ],
)
def test_what_no_logger_writes_tells_a_wrapper(sign: str) -> None:
    found = records_of(lines(INFO + sign, INFO + "and more"))
    assert found[-1].envelope.level == ""


def test_a_programs_own_level_still_counts() -> None:
    assert records_of(lines(INFO + "3 orders", INFO + "RuntimeError: not ours"))[1].envelope.level == "INFO"


def test_a_wrappers_own_error_stays_one() -> None:
    found = records_of(lines(PUMPED, "2026-09-21 14:13:21,123 - launcher - ERROR - The server is gone"))
    assert (found[0].envelope.level, found[1].envelope.level) == ("INFO", "ERROR")


# ---- Ray -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behind_it",
    [
        " [repeated 3x across cluster]",
        " \x1b[32m [repeated 12x across cluster]\x1b[0m".replace("  ", " "),
        " [repeated 3x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable it.)",
    ],
)
def test_rays_word_on_repeats_is_no_part_of_a_message(behind_it: str) -> None:
    record = records_of(f"(RayWorkerWrapper pid=4242) ValueError: no way{behind_it}")[0]
    assert record.message.rstrip() == "ValueError: no way"


def test_a_log_without_trouble_printed_newest_first_is_healthy() -> None:
    report = ask(lines(*reversed(sample("real-healthy-start").lines)))
    assert report.verdict.value == "healthy"
    assert any("newest first" in note for note in report.notes)
