"""Several processes in one log, several logs in one story: the root stays where it is."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from logtext import FAILED, FATAL, LESS_SPECIFIC, Sample, ask, ask_files, by_name, first, fits, lines, sample

UNDRESSED = [
    sample(name)
    for name in (
        "cuda-oom-loading",
        "heads-not-divisible",
        "real-disk-full",
        "real-lora-missing",
        "real-trunc-weights",
        "real-v011-tokenizer-too-new",
        "undefined-symbol",
    )
]
KILLED = sample("real-worker-killed")


@pytest.mark.parametrize("copies", [2, 4])
@pytest.mark.parametrize("s", UNDRESSED, ids=by_name)
def test_servers_that_fail_side_by_side_have_one_cause(s: Sample, copies: int) -> None:
    rows = [f"vllm-{n}  | {row}" for row in s.lines for n in range(1, copies + 1)]
    assert first(ask(lines(*rows))) == ("diagnosed", s.rule, ((s.line or 0) - 1) * copies + 1)


@pytest.mark.parametrize("s", UNDRESSED, ids=by_name)
def test_another_service_between_all_rows_changes_nothing(s: Sample) -> None:
    other = "db-1    | 2026-11-29 11:44:12.345 UTC [71] LOG:  checkpoint starting: time"
    rows = [text for row in s.lines for text in (f"vllm-1  | {row}", other)]
    assert first(ask(lines(*rows))) == ("diagnosed", s.rule, (s.line or 0) * 2 - 1)


@pytest.mark.parametrize("s", UNDRESSED, ids=by_name)
def test_a_healthy_log_beside_it_changes_nothing(s: Sample) -> None:
    report = ask_files(sample("healthy-busy").text, s.text)
    assert first(report) == ("diagnosed", s.rule, s.line)
    assert report.diagnoses[0].source == "b.log"


def kernel(pid: int, comm: str) -> str:
    return lines(
        "[   12.000000] usb 1-1: new high-speed USB device number 2 using xhci_hcd",
        f"[81234.567890] Out of memory: Killed process {pid} ({comm}) total-vm:48120344kB, anon-rss:14650112kB, "
        "file-rss:71680kB, shmem-rss:8192kB, UID:1000 pgtables:34812kB oom_score_adj:0",
    )


def test_a_death_alone_says_what_to_fetch() -> None:
    report = ask(KILLED.text)
    assert first(report) == ("incomplete", "process-killed", 105)
    assert any(
        "dmesg" in run or "journalctl -k" in run for fix in report.diagnoses[0].fixes for run in fix.run
    )


@pytest.mark.parametrize("order", [0, 1])
def test_the_kernel_log_beside_it_explains_the_death(order: int) -> None:
    pid = next(row for row in KILLED.lines if row.startswith("(Worker pid=")).split("=")[1].split(")")[0]
    texts = [KILLED.text, kernel(int(pid), "VLLM::Worker")]
    report = ask_files(*(texts[::-1] if order else texts))
    assert first(report) == ("diagnosed", "host-oom-kill", 2)
    assert report.diagnoses[0].source == ("a.log" if order else "b.log")
    assert "process-killed" in [e.rule for e in report.diagnoses[0].explains]


def test_a_kernel_log_about_another_program_leaves_it_unexplained() -> None:
    assert first(ask_files(KILLED.text, kernel(4021, "mysqld"))) == ("incomplete", "process-killed", 105)


def test_a_loop_of_a_whole_log_is_told_once() -> None:
    s = sample("kv-cache-too-small")
    text = s.text if s.text.endswith("\n") else s.text + "\n"
    report = ask(text * 4)
    assert first(report) == ("diagnosed", s.rule, s.line)
    assert next(d.times for d in report.diagnoses if d.rule == s.rule) >= 4
    assert len({d.rule for d in report.diagnoses}) == len(report.diagnoses)


def test_a_failure_and_then_a_good_start_says_where_it_recovered() -> None:
    s, good = sample("heads-not-divisible"), sample("healthy-busy")
    report = ask(s.text + "\n" + good.text)
    assert first(report)[1:] == (s.rule, s.line)
    recovered = report.diagnoses[0].recovered_at
    assert recovered is not None
    assert recovered > len(s.lines)


def test_a_client_404_beside_a_crash_is_set_aside() -> None:
    living, dead = sample("real-healthy-with-client-404"), sample("kv-cache-too-small")
    report = ask_files(living.text, dead.text)
    assert first(report) == ("diagnosed", dead.rule, dead.line)


# ---- two servers in one log ----------------------------------------------------------------------------------

HEALTHY = sample("real-healthy-start")


def woven(one: Sample, other: Sample) -> str:
    """The lines of two samples in turn, each behind the name of its own container."""
    rows: list[str] = []
    for mine, its in zip_longest(one.lines, other.lines):
        rows += [f"alpha-1  | {mine}"] if mine is not None else []
        rows += [f"beta-1  | {its}"] if its is not None else []
    return lines(*rows)


@pytest.mark.parametrize("failed", [*FATAL[::4], sample("kv-cache-too-small")], ids=by_name)
def test_a_healthy_server_beside_it_changes_no_answer(failed: Sample) -> None:
    found = ask(woven(failed, HEALTHY)).diagnoses[0]
    assert found.rule in {failed.rule, *LESS_SPECIFIC.get(failed.rule or "", ())}


@pytest.mark.parametrize("number", range(len(FAILED)))
def test_of_two_servers_that_fail_beside_each_other_one_is_named(number: int) -> None:
    for step in (1, 7):
        one, other = FAILED[number], FAILED[(number + step) % len(FAILED)]
        found = ask(woven(one, other)).diagnoses[0]
        assert fits(found.rule, one) or fits(found.rule, other) or found.confidence < 0.9


def test_what_another_server_says_of_itself_is_no_condition_here() -> None:
    failed = sample("kv-cache-too-small")
    cpu = "INFO 09-14 07:42:01 [core.py:58] Initializing a V1 LLM engine with config: device_config=cpu"
    alone = [*failed.lines[:3], cpu, *failed.lines[3:]]
    assert ask(lines(*alone)).diagnoses[0].rule == "kv-cache-too-small-on-cpu"
    assert ask(woven(failed, HEALTHY)).diagnoses[0].rule == "kv-cache-too-small"
    assert (
        ask(lines(*(f"alpha-1  | {row}" for row in alone))).diagnoses[0].rule == "kv-cache-too-small-on-cpu"
    )
