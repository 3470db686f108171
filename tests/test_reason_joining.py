"""Several inputs as one story: on what ground a line of one explains a failure in another, and when it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from logtext import SERVED, ask_files, first, lines, rule, sample, steam
from vdiag.model import Report, Role
from vdiag.rulebook.compile import Rulebook

PID = 4711
OOM = "Out of memory: Killed process {} ({}) total-vm:1kB"


def book() -> Rulebook:
    return steam(
        rule("gpu-lost", "Xid 79, the card has fallen off", where="kernel"),
        rule("no-coal", "No coal is left in the tender"),
        rule(
            "actor-died",
            "The stoker of another engine has died. See its log",
            role=Role.TRAILER,
            marks="death",
        ),
    )


def server(*rows: str, time: str = "11-29", pid: int = PID) -> str:
    """A server's log; rows are `HH:MM:SS message`."""
    return lines(*(f"(EngineCore pid={pid}) ERROR {time} {row[:8]} [core.py:1] {row[9:]}" for row in rows))


def log(start: str = "10:00:00", died: str = "10:14:05", **more: int) -> str:
    return server(f"{start} Steam server version 1", f"{died} Stoker process 1 died without a word", **more)


def said(report: Report) -> str:
    return "\n".join(report.notes)


def top(report: Report) -> tuple[str | None, str, int]:
    found = report.diagnoses[0]
    return found.rule, found.source, found.line


def judged(*texts: str) -> Report:
    return ask_files(*texts, rulebook=book())


def oom(when: str, pid: int = PID, comm: str = "VLLM::EngineCor") -> str:
    return f"{when}{OOM.format(pid, comm)}"


# ---- time -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "when",
    [
        "[Sun Nov 29 10:14:03 2026] ",
        "Nov 29 10:14:03 gpu1 kernel: ",
        "2026-11-29T10:14:03+0000 gpu1 kernel: ",
    ],
)
def test_a_kill_just_before_the_death_explains_it(when: str) -> None:
    report = judged(log(), lines(oom(when, pid=99)))
    assert top(report) == ("killed", "b.log", 1)
    assert report.diagnoses[0].confidence >= 0.9
    assert [(e.rule, e.line, e.source) for e in report.diagnoses[0].explains] == [("died", 2, "a.log")]
    assert "by the time (2 seconds apart) and the name" in said(report)
    assert len(report.diagnoses) == 1


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_order_of_the_inputs_does_not_matter(order: tuple[int, int]) -> None:
    texts = (log(), lines(oom("Nov 29 10:14:03 gpu1 kernel: ")))
    report = judged(*(texts[i] for i in order))
    assert first(report) == ("diagnosed", "killed", 1)
    assert len(report.diagnoses) == 1


@pytest.mark.parametrize("clock", ["02:14:03", "06:31:00", "18:14:10", "09:40:00"])
def test_a_kill_hours_away_explains_nothing(clock: str) -> None:
    report = judged(log(), lines(oom(f"Nov 29 {clock} gpu1 kernel: ", pid=99, comm="python3")))
    assert first(report)[0] == "incomplete"
    assert "killed" in [seen.rule for seen in report.also_seen]
    assert "apart" in report.also_seen[0].reason


def test_a_kill_hours_away_explains_nothing_even_of_the_same_name() -> None:
    report = judged(log(), lines(oom("Nov 29 06:31:00 gpu1 kernel: ", pid=99)))
    assert first(report) == ("incomplete", "died", 2)


def test_of_several_kills_the_nearest_before_the_death_counts() -> None:
    kills = [
        oom(f"Nov 29 {t} gpu1 kernel: ", pid=p)
        for t, p in (("08:00:00", 1), ("10:14:01", 2), ("11:30:00", 3))
    ]
    report = judged(log(), lines(*kills))
    assert top(report) == ("killed", "b.log", 2)
    assert report.diagnoses[0].times == 1
    assert report.diagnoses[0].facts["pid"] == 2


def test_each_run_of_a_crash_loop_has_its_own_kill() -> None:
    runs = server(
        "10:00:00 Steam server version 1", "10:05:00 Stoker process 1 died without a word",
        "11:00:00 Steam server version 1", "11:05:00 Stoker process 1 died without a word",
    )  # fmt: skip
    kills = [oom(f"Nov 29 {t} gpu1 kernel: ", pid=p) for t, p in (("10:04:58", 1), ("11:04:59", 2))]
    report = judged(runs, lines(*kills))
    assert top(report) == ("killed", "b.log", 1)
    assert (report.diagnoses[0].times, report.diagnoses[0].last_line) == (2, 2)
    assert len(report.diagnoses) == 1


def test_a_fault_without_a_name_is_joined_by_its_time_and_is_never_quite_sure() -> None:
    report = judged(log(), lines("Nov 29 10:14:03 gpu1 kernel: NVRM: Xid 79, the card has fallen off"))
    assert top(report) == ("gpu-lost", "b.log", 1)
    assert report.diagnoses[0].confidence <= 0.7
    assert "by the time alone" in said(report)


def test_the_missing_year_may_lie_between_the_two() -> None:
    text = server("23:59:00 Steam server version 1", time="12-31") + server(
        "00:00:01 Stoker process 1 died without a word", time="01-01"
    )
    report = judged(text, lines(oom("Dec 31 23:59:59 gpu1 kernel: ", pid=99)))
    assert top(report) == ("killed", "b.log", 1)
    assert report.diagnoses[0].confidence >= 0.9


# ---- zones ------------------------------------------------------------------------------------------------


def test_clocks_may_differ_by_whole_hours() -> None:
    report = judged(log(), lines(oom("[Sun Nov 29 13:14:03 2026] ", pid=99)))
    assert top(report) == ("killed", "b.log", 1)
    assert report.diagnoses[0].confidence <= 0.7
    assert "if their clocks differ by 3 hours" in said(report)


def test_a_shifted_clock_and_the_process_are_enough() -> None:
    report = judged(log(), lines(oom("[Sun Nov 29 15:44:03 2026] ")))
    assert top(report) == ("killed", "b.log", 1)
    assert report.diagnoses[0].confidence >= 0.9


def test_one_host_has_one_clock() -> None:
    text = lines(
        f"Nov 29 10:00:00 gpu1 vllm[{PID}]: INFO 11-29 10:00:00 [main.py:1] Steam server version 1",
        f"Nov 29 10:14:05 gpu1 vllm[{PID}]: ERROR 11-29 10:14:05 [main.py:1] Stoker process 1 died without a word",
    )
    report = judged(text, lines(oom("Nov 29 13:14:03 gpu1 kernel: ", pid=99)))
    assert first(report) == ("incomplete", "died", 2)


# ---- process and name -------------------------------------------------------------------------------------


def test_an_uptime_says_nothing_of_the_hour_so_the_process_decides() -> None:
    report = judged(log(), lines(oom("[ 5123.120411] ", pid=99), oom("[ 6123.120411] ")))
    assert top(report) == ("killed", "b.log", 2)
    assert report.diagnoses[0].confidence >= 0.9
    assert f"by the process (VLLM::EngineCor {PID})" in said(report)


def test_a_name_alone_is_never_quite_sure() -> None:
    report = judged(log(), lines(oom("[ 5123.120411] ", pid=99)))
    assert top(report) == ("killed", "b.log", 1)
    assert report.diagnoses[0].confidence <= 0.7
    assert "by the name (VLLM::EngineCor) alone" in said(report)


def test_of_equal_names_the_last_is_taken() -> None:
    report = judged(log(), lines(oom("[ 5123.120411] ", pid=98), oom("[ 6123.120411] ", pid=99)))
    assert report.diagnoses[0].facts["pid"] == 99
    assert report.diagnoses[0].confidence <= 0.7


def test_two_different_stories_of_next_to_nothing_each_are_not_chosen_between() -> None:
    report = judged(
        log(),
        lines(
            oom("[ 5123.120411] ", pid=99, comm="python3"),
            "[ 6123.120411] NVRM: Xid 79, the card has fallen off",
        ),
    )
    assert report.diagnoses[0].confidence <= 0.7
    assert not report.notes


def test_another_programs_kill_is_not_joined_even_at_the_same_second() -> None:
    report = judged(log(), lines(oom("Nov 29 10:14:04 gpu1 kernel: ", pid=99, comm="mysqld")))
    assert first(report) == ("incomplete", "died", 2)


# ---- runs without a word about it ---------------------------------------------------------------------------


def test_a_log_that_just_ends_ends_with_the_kill() -> None:
    text = server("10:00:00 Steam server version 1", "10:14:00 Loading the coal now")
    report = judged(text, lines(oom("Nov 29 10:14:03 gpu1 kernel: ")))
    assert top(report) == ("killed", "b.log", 1)
    assert report.diagnoses[0].phase is not None
    assert [e.outcome for e in report.episodes if e.source == "a.log"] == ["failed"]


def test_the_restart_after_a_silent_kill_is_the_recovery() -> None:
    text = server("10:00:00 Steam server version 1", "10:14:00 Loading the coal now",
                  "10:15:00 Steam server version 1", "10:16:00 Steam server is ready")  # fmt: skip
    report = judged(text, lines(oom("Nov 29 10:14:03 gpu1 kernel: ", pid=99)))
    found = report.diagnoses[0]
    assert top(report) == ("killed", "b.log", 1)
    assert (found.recovered_at, found.recovered_in) == (3, "a.log")


def test_a_cause_of_its_own_stays_first_where_the_kill_came_later() -> None:
    text = server("10:00:00 Steam server version 1", "10:14:00 The boiler has no water in it",
                  "10:14:01 The engine has stopped. See above")  # fmt: skip
    report = judged(text, lines(oom("Nov 29 10:14:05 gpu1 kernel: ")))
    assert top(report) == ("dry", "a.log", 2)


def test_a_cause_behind_a_kill_of_its_own_process_comes_second() -> None:
    text = server("10:00:00 Steam server version 1", "10:14:10 The boiler has no water in it")
    report = judged(text, lines(oom("Nov 29 10:14:05 gpu1 kernel: ")))
    assert [d.rule for d in report.diagnoses] == ["killed", "dry"]
    assert report.diagnoses[1].confidence <= 0.6


def test_a_server_that_still_starts_is_starting_whatever_stands_beside_it() -> None:
    text = server("10:00:00 Steam server version 1", "10:14:00 Loading the coal now")
    assert first(judged(text, lines("Nov 29 10:00:00 gpu1 kernel: all is well")))[0] == "starting"


def test_a_healthy_server_is_not_failed_by_an_old_kill_of_something_like_it() -> None:
    text = server("10:00:00 Steam server version 1", "10:14:00 Steam server is ready") + lines(SERVED)
    report = judged(text, lines(oom("Nov 29 10:05:00 gpu1 kernel: ", pid=99, comm="java")))
    assert first(report)[0] == "healthy"


# ---- several nodes ----------------------------------------------------------------------------------------


HEAD = ("10:00:00 Steam server version 1", "10:14:05 The stoker of another engine has died. See its log")


def worker(*rows: Sequence[str], pid: int = 815) -> str:
    return lines(*(f"(Worker_TP1 pid={pid}) {row[1]} 11-29 {row[0]} [worker.py:9] {row[2]}" for row in rows))


def test_a_workers_own_log_explains_what_the_head_notices() -> None:
    report = judged(server(*HEAD), worker(("10:14:02", "ERROR", "No coal is left in the tender")))
    assert top(report) == ("no-coal", "b.log", 1)
    assert len(report.diagnoses) == 1
    assert [(e.rule, e.source) for e in report.diagnoses[0].explains] == [("actor-died", "a.log")]
    assert "by the time (3 seconds apart)" in said(report)


def test_a_workers_cause_of_another_hour_explains_nothing_there() -> None:
    report = judged(server(*HEAD), worker(("08:14:02", "ERROR", "No coal is left in the tender")))
    assert top(report)[0] == "no-coal"
    assert not report.notes
    assert [d.rule for d in report.diagnoses] == ["no-coal", "actor-died"]


def test_of_two_workers_the_one_that_broke_before_the_head_noticed_counts() -> None:
    early = worker(("09:00:00", "ERROR", "A crack runs through the boiler b1"), pid=816)
    report = judged(server(*HEAD), early, worker(("10:14:04", "ERROR", "No coal is left in the tender")))
    assert "What c.log says was joined to the failure in a.log" in said(report)


def test_without_times_the_named_process_joins_them() -> None:
    head = lines("Steam server version 1", "The stoker of another engine has died. See its log (pid=815)")
    cause = lines("(Worker_TP1 pid=815) ERROR: No coal is left in the tender")
    report = judged(head, cause)
    assert top(report)[0] == "no-coal"
    assert "by the process" in said(report)
    assert not judged(head, cause.replace("815", "816")).notes


# ---- with the shipped rules -------------------------------------------------------------------------------


def test_a_notice_without_a_time_is_later_than_the_line_before_it() -> None:
    rows = sample("host-oom-kill").lines
    kernel = [row for row in rows if " kernel: " in row]
    others = [row for row in rows if " kernel: " not in row and not row.startswith("$")]
    report = ask_files(lines(*others), lines(*kernel))
    assert top(report) == ("host-oom-kill", "b.log", 2)
    assert report.diagnoses[0].confidence >= 0.9
    assert len(report.diagnoses) == 1


@pytest.mark.parametrize("pid", [24304, 99304])
def test_a_real_limit_and_its_kernel_log_in_two_files(pid: int) -> None:
    text = sample("real-cgroup-oom-with-kernel-log").text
    cut = text.index("[ 2163.439337]")
    report = ask_files(text[:cut], text[cut:].replace("24304", str(pid)))
    found = report.diagnoses[0]
    assert (found.rule, found.source) == ("cgroup-oom-kill", "b.log")
    assert found.phase == "load"
    assert found.confidence >= 0.9 if pid == 24304 else found.confidence <= 0.7


def test_a_ray_workers_log_beside_the_heads() -> None:
    head = lines(
        "(APIServer pid=900) INFO 11-29 10:00:00 [api_server.py:100] vLLM API server version 0.11.0",
        "(EngineCore_DP0 pid=950) ERROR 11-29 10:05:09 [core.py:708] EngineCore failed to start.",
        "(EngineCore_DP0 pid=950) ERROR 11-29 10:05:09 [core.py:708] Traceback (most recent call last):",
        '(EngineCore_DP0 pid=950) ERROR 11-29 10:05:09 [core.py:708]   File "/opt/app/vllm/v1/engine/core.py", line 7, in run',
        "(EngineCore_DP0 pid=950) ERROR 11-29 10:05:09 [core.py:708] ray.exceptions.ActorDiedError: The actor died "
        "unexpectedly before finishing this task.",
        "(APIServer pid=900) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    )
    node = lines(
        "(RayWorkerWrapper pid=311) INFO 11-29 10:00:30 [gpu_worker.py:1] Starting to load model acme/model-7b...",
        "(RayWorkerWrapper pid=311) ERROR 11-29 10:05:02 [worker_base.py:1] torch.OutOfMemoryError: CUDA out of memory. "
        "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.00 GiB is free.",
    )
    report = ask_files(head, node)
    found = report.diagnoses[0]
    assert (found.source, found.line) == ("b.log", 2)
    assert "out of memory" in found.evidence[0].text
    assert {e.source for e in found.explains} == {"a.log"}
    assert len(report.diagnoses) == 1
    assert "b.log" in report.notes[0]
