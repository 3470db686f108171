"""The load before a failure, or of a living server: the series, what it comes to, and how a page shows it."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest

import vdiag
from logtext import LIVING, SAMPLES, ask
from vdiag.advise import trend
from vdiag.follow import Follower
from vdiag.model import Load, LoadPoint, Report, Verdict
from vdiag.render import json, terminal
from vdiag.render.load import sparkline
from vdiag.render.page import cells
from vdiag.rulebook.shipped import shipped

START = """\
(APIServer pid=71) INFO 03-03 08:00:01 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=71) INFO 03-03 08:00:01 [utils.py:233] non-default args: {'model': 'acme/model-7b', 'max_num_seqs': 64}
(APIServer pid=71) INFO 03-03 08:01:01 [scheduler.py:205] Chunked prefill is enabled with max_num_batched_tokens=8192.
INFO:     Application startup complete.
"""
OOM = """\
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710] EngineCore encountered a fatal error.
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710] Traceback (most recent call last):
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710]   File "/srv/venv/vllm/v1/engine/core.py", line 728, in run_busy_loop
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710]     self._process_engine_step()
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710]   File "/srv/venv/vllm/v1/worker/gpu_model_runner.py", line 2358, in execute_model
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710]     model_output = self.model(
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 47.40 GiB of which 312.50 MiB is free.
"""
DEAD = """\
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710] EngineCore encountered a fatal error.
(EngineCore_DP0 pid=80) ERROR 03-03 {time} [core.py:710] torch.AcceleratorError: CUDA error: an illegal memory access was encountered
"""


def clock(second: int) -> str:
    return f"{9 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def v1(second: int, running: int, waiting: int, usage: float, *, engine: int = 0, preempted: int = 0) -> str:
    paused = f"Preemptions: {preempted}, " if preempted else ""
    return (
        f"(APIServer pid=71) INFO 03-03 {clock(second)} [loggers.py:127] Engine {engine:03d}: Avg prompt throughput: "
        f"{running * 10.0:.1f} tokens/s, Avg generation throughput: {running * 20.0:.1f} tokens/s, Running: {running} reqs, "
        f"Waiting: {waiting} reqs, {paused}GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: 1.5%\n"
    )


def v0(second: int, running: int, waiting: int, usage: float, swapped: int = 0) -> str:
    return (
        f"INFO 03-03 {clock(second)} metrics.py:467] Avg prompt throughput: 120.4 tokens/s, Avg generation throughput: "
        f"{running * 20.0:.1f} tokens/s, Running: {running} reqs, Swapped: {swapped} reqs, Pending: {waiting} reqs, "
        f"GPU KV cache usage: {usage:.1f}%, CPU KV cache usage: 0.0%.\n"
    )


def paused_v0(second: int, total: int) -> str:
    return (
        f"WARNING 03-03 {clock(second)} scheduler.py:1555] Sequence group cmpl-{total} is preempted by "
        "PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. This can affect the end-to-end "
        f"performance. total_num_cumulative_preemption={total}\n"
    )


def told(text: str) -> tuple[Report, Load]:
    report = vdiag.diagnose(text)
    assert report.load is not None
    return report, report.load


# ---- the series ---------------------------------------------------------------------------------------------


def test_the_series_ends_before_the_failure_and_holds_the_peaks() -> None:
    text = START + v1(0, 3, 0, 10.0) + v1(10, 40, 5, 61.5) + v1(20, 20, 0, 30.0)
    report, load = told(text + OOM.format(time=clock(22)) + START + v1(900, 60, 99, 99.9))
    assert report.verdict is Verdict.DIAGNOSED
    assert [(p.line, p.running, p.waiting, p.kv_usage) for p in load.points] == [
        (5, 3, 0, 10.0),
        (6, 40, 5, 61.5),
        (7, 20, 0, 30.0),
    ]
    assert load.peak is not None
    assert (load.peak.line, load.peak.running, load.peak.waiting, load.peak.kv_usage) == (6, 40, 5, 61.5)
    assert load.points[0].generation_tps == 60.0
    assert load.points[-1].time == f"03-03 {clock(20)}"
    assert load.points[0].preemptions is None  # this version says nothing of them


def test_only_the_run_that_failed_counts() -> None:
    first = START + v1(0, 50, 0, 10.0) + DEAD.format(time=clock(5))
    report, load = told(first + START + v1(100, 7, 0, 10.0) + OOM.format(time=clock(105)))
    failed = report.diagnoses[0]
    running = [p.running for p in load.points]
    assert running == ([7] if failed.rule == "cuda-oom-serving" else [50])


def test_a_start_that_fails_has_no_load() -> None:
    report = vdiag.diagnose(SAMPLES / "kv-cache-too-small.log")
    assert report.load is None


def test_engines_of_one_time_are_one_reading() -> None:
    lines = ""
    for second, pairs in ((0, ((4, 10.0), (6, 80.0))), (10, ((5, 11.0), (9, 90.0))), (20, ((1, 1.0),))):
        lines += "".join(v1(second, r, 1, kv, engine=e) for e, (r, kv) in enumerate(pairs))
    _, load = told(START + lines)
    assert load.engines == 2
    assert [(p.running, p.waiting, p.kv_usage) for p in load.points] == [
        (10, 2, 80.0),
        (14, 2, 90.0),
        (1, 1, 1.0),
    ]


def test_aggregated_lines_are_of_all_engines_already() -> None:
    line = v1(0, 40, 8, 50.0).replace("Engine 000: ", "4 Engines Aggregated: ")
    report, load = told(START + line + OOM.format(time=clock(5)))
    assert (load.engines, load.points[0].running) == (4, 40)
    assert "--max-num-seqs 5" in report.diagnoses[0].fixes[0].run[0]  # half of ten on each


def test_preemptions_of_intervals_are_added_up_and_those_of_v0_are_totals() -> None:
    lines = v1(0, 9, 1, 96.0, preempted=2) + v1(10, 9, 1, 60.0) + v1(20, 9, 1, 96.0, preempted=3)
    _, load = told(START + lines)
    assert [p.preemptions for p in load.points] == [2, 2, 5]
    assert load.preempted == 5
    lines = v0(0, 9, 1, 60.0) + paused_v0(5, 1) + v0(10, 9, 1, 97.0) + paused_v0(15, 51)
    _, load = told("INFO:     Application startup complete.\n" + lines)
    assert [p.preemptions for p in load.points] == [0, 1]
    assert load.preempted == 51


def test_swapped_requests_wait() -> None:
    _, load = told("INFO:     Application startup complete.\n" + v0(0, 9, 3, 60.0, swapped=2))
    assert load.points[0].waiting == 5


@pytest.mark.parametrize(
    "rest",
    [
        "Waiting: 9 reqs, Deferred: 2 reqs, Preemptions: 3, GPU KV cache usage: 41.0%",
        "Waiting: 9 reqs, KV fetch: 1 waiting to start, 1 in progress, 0 completed waiting, CPU KV cache usage: 41.0%",
        "Waiting: 9 reqs, GPU KV cache usage: 41.0%, Prefix cache hit rate: 0.0%, Corrupted: 1 reqs, External prefix cache hit rate: 1.0%, MM cache hit rate: 50.0%",
    ],
)
def test_every_version_s_wording(rest: str) -> None:
    _, load = told(
        START
        + "(APIServer pid=71) INFO 03-03 09:00:00 [loggers.py:257] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
        f"Avg generation throughput: 2.0 tokens/s, Running: 7 reqs, {rest}\n"
    )
    assert (load.points[0].running, load.points[0].waiting, load.points[0].kv_usage) == (7, 9, 41.0)


def test_a_long_series_is_thinned_and_keeps_its_ends_and_peaks() -> None:
    lines = [v1(10 * i, i % 7 + 1, 0, 20.0) for i in range(1500)]
    lines[613] = v1(6130, 77, 0, 20.0)
    lines[901] = v1(9010, 3, 0, 71.3)
    _, load = told(START + "".join(lines))
    assert load.seen == 1500
    assert 200 <= len(load.points) <= 240
    assert (load.points[0].line, load.points[-1].line) == (5, 1504)
    assert max(p.running or 0 for p in load.points) == 77
    assert max(p.kv_usage or 0 for p in load.points) == 71.3
    assert load.points == sorted(load.points, key=lambda p: p.line)


def test_numbers_that_cannot_be_are_left_out() -> None:
    huge = v1(0, 10**6, 10**6, 999.9)
    report, load = told(
        START + huge + v1(10, 1, 0, 1.0).replace("1.0%", "nan%").replace("10.0 tokens", "-5.0 tokens")
    )
    assert len(load.points) == 1
    assert load.points[0].kv_usage is None
    for width in (40, 80, 200):
        assert terminal.render(report, width=width, everything=True).plain()


# ---- what it comes to ---------------------------------------------------------------------------------------


def test_memory_that_runs_out_under_load_is_a_matter_of_the_batch() -> None:
    lines = "".join(v1(10 * i, 8 * i + 4, 0, 5.0 * i) for i in range(8))
    report, load = told(START + lines + OOM.format(time=clock(75)))
    assert load.pattern == "memory"
    assert "--max-num-batched-tokens" in load.remedy
    assert "60 requests ran" in load.said
    first = report.diagnoses[0].fixes[0]
    assert "--max-num-batched-tokens 4096" in first.run[0]
    assert "--max-num-seqs 30" in first.run[0]
    fixes = report.diagnoses[0].fixes
    assert not any("--gpu-memory-utilization" in line for line in fixes[0].run)


def test_what_was_survived_earlier_is_no_measure() -> None:
    lines = "".join(v1(10 * i, 60, 0, 5.0) for i in range(9)) + "".join(
        v1(900 + 10 * i, 8, 0, 5.0) for i in range(9)
    )
    report, load = told(START + lines + OOM.format(time=clock(985)))
    assert load.peak is not None
    assert load.peak.running == 60
    assert "--max-num-seqs 4" in report.diagnoses[0].fixes[0].run[0]


def test_one_large_request_is_no_matter_of_their_number() -> None:
    report, load = told(START + v1(0, 1, 0, 5.0) + OOM.format(time=clock(4)))
    assert load.pattern == "memory"
    first = report.diagnoses[0].fixes[0].change[0]  # `run` is the whole command, which has --max-num-seqs
    assert "--max-num-batched-tokens 4096" in first
    assert "--max-num-seqs" not in first


@pytest.mark.parametrize("engine", ["a V0 LLM engine (v0.8.5)", "an LLM engine (v0.6.6)"])
def test_v0_is_not_given_fewer_batched_tokens_than_its_context(engine: str) -> None:
    start = (
        f"INFO 03-03 08:00:01 llm_engine.py:234] Initializing {engine} with config: model='acme/model-7b'\n"
    )
    served = "INFO:     Application startup complete.\n" + v0(0, 9, 0, 30.0) + v0(10, 20, 0, 60.0)
    failed = """ERROR 03-03 09:00:12 [engine.py:160] Traceback (most recent call last):
ERROR 03-03 09:00:12 [engine.py:160]   File "/srv/venv/vllm/engine/multiprocessing/engine.py", line 160, in run_engine_loop
ERROR 03-03 09:00:12 [engine.py:160]     request_outputs = self.engine_step()
ERROR 03-03 09:00:12 [engine.py:160] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.
"""
    report, load = told(start + served + failed)
    first = report.diagnoses[0].fixes[0].run[0]
    assert load.pattern == "memory"
    assert "--max-num-seqs 10" in first
    assert "--max-num-batched-tokens" not in first


def test_without_a_load_the_fix_is_the_general_one() -> None:
    report = vdiag.diagnose(START + OOM.format(time=clock(4)))
    assert report.load is None
    assert "--max-num-seqs 32" in report.diagnoses[0].fixes[0].run[0]


@pytest.mark.parametrize("line", [v0, v1])
def test_a_queue_that_only_grows(line) -> None:  # type: ignore[no-untyped-def]
    text = START + "".join(line(10 * i, 64, 4 * i, 50.0) for i in range(12))
    _, load = told(text)
    assert load.pattern == "queue"
    assert "from 0 requests to 44" in load.said
    assert "replicas" in load.remedy
    assert "the limit (--max-num-seqs)" in load.said


def test_the_fix_of_a_full_cache_is_computed_from_what_ran() -> None:
    report, _ = told(START + "".join(v1(10 * i, 40, 3, 99.0) for i in range(12)))
    assert [d.rule for d in report.diagnoses] == ["kv-cache-saturated"]
    assert any("--max-num-seqs 30" in line for fix in report.diagnoses[0].fixes for line in fix.run)


@pytest.mark.parametrize("line", [v0, v1])
def test_a_cache_that_is_too_small(line) -> None:  # type: ignore[no-untyped-def]
    text = START + "".join(line(10 * i, 12, 3, 99.0 if i % 2 else 93.0) for i in range(12))
    _, load = told(text)
    assert load.pattern == "cache"
    assert "fp8" in load.remedy


def test_preemptions_alone_tell_a_full_cache() -> None:
    _, load = told(START + "".join(v1(10 * i, 12, 0, 92.0, preempted=4) for i in range(4)))
    assert load.pattern == "cache"
    assert "16 requests lost their blocks" in load.said


@pytest.mark.parametrize(
    "lines",
    [
        [v1(0, 64, 10, 50.0), v1(10, 64, 90, 50.0)],  # two readings are no trend
        [v1(10 * i, 64, 40 - 4 * i, 50.0) for i in range(9)],  # it shrinks
        [v1(10 * i, 64, 30, 50.0) for i in range(9)],  # it stays
        [v1(10 * i, 64 if i < 6 else 2, 4 * i, 50.0) for i in range(9)],  # the engine itself has become slow
        [v1(10 * i, 10, 0, 99.0) for i in range(9)],  # full, and nobody waits
        [v1(10 * i, 8, i % 2, 20.0) for i in range(9)],
        [v1(10 * i, 64, 4 * i, 50.0) for i in range(12)] + [v1(4000 + 10 * i, 3, 0, 5.0) for i in range(6)],
    ],
    ids=["two", "shrinks", "stays", "slow", "full", "low", "a burst an hour ago"],
)
def test_calm(lines: list[str]) -> None:
    _, load = told(START + "".join(lines))
    assert (load.pattern, load.remedy) == ("calm", "")


def test_a_failure_long_after_the_last_reading_is_not_blamed_on_it() -> None:
    lines = "".join(v1(10 * i, 64, 4 * i, 50.0) for i in range(12))
    _, soon = told(START + lines + DEAD.format(time=clock(120)))
    _, late = told(START + lines + DEAD.format(time=clock(7200)))
    assert (soon.pattern, late.pattern) == ("queue", "calm")
    assert "118 minutes older" in late.said


def test_of_two_servers_in_one_log_the_one_that_failed_counts() -> None:
    def compose(name: str, text: str) -> str:
        return "".join(f"{name}  | {line}\n" for line in text.splitlines())

    busy = compose("vllm-b-1", START + "".join(v1(10 * i, 60, 0, 20.0) for i in range(6)))
    failed = compose("vllm-a-1", START + v1(50, 4, 0, 20.0) + OOM.format(time=clock(55)))
    _, load = told(busy + failed)
    assert [p.running for p in load.points] == [4]


def test_the_host_s_memory_is_not_the_card_s() -> None:
    kernel = "[ 9123.120411] Out of memory: Killed process 80 (VLLM::EngineCor) total-vm:41285632kB, anon-rss:16283904kB\n"
    report, load = told(START + "".join(v1(10 * i, 9, 0, 20.0) for i in range(5)) + kernel)
    assert report.verdict is Verdict.DIAGNOSED
    assert load.pattern == "calm"


def test_a_pause_begins_the_readings_anew() -> None:
    points = [LoadPoint(line=i, time=f"03-03 {clock(10 * i)}") for i in range(20)]
    points += [LoadPoint(line=i, time=f"03-03 {clock(600 + 10 * i)}") for i in range(20, 25)]
    assert [p.line for p in trend.recent_of(points)] == [20, 21, 22, 23, 24]
    untimed = [LoadPoint(line=i) for i in range(100)]
    assert len(trend.recent_of(untimed)) == trend.RECENT


# ---- no diagnosis, no cost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [s.name for s in LIVING])
def test_a_load_changes_no_verdict(name: str) -> None:
    report = vdiag.diagnose(SAMPLES / f"{name}.log")
    assert report.diagnoses == []
    assert report.load is None or report.load.pattern == "calm"
    assert "The load" not in terminal.render(report, width=80).plain()


def test_statistics_push_no_error_out_of_a_log_that_is_read_whole(tmp_path: Path) -> None:
    lines = [v1(10 * (i % 6000), 5, 0, 20.0) for i in range(26_000)]
    lines.insert(4000, OOM.format(time=clock(100)) + START)
    log = tmp_path / "vllm.log"
    log.write_text(START + "".join(lines), encoding="utf8")
    report = vdiag.diagnose(log)
    assert [d.rule for d in report.diagnoses] == ["cuda-oom-serving"]


def test_a_long_log_keeps_the_load_before_its_end(tmp_path: Path) -> None:
    served = '(APIServer pid=71) INFO:     192.0.2.8:41000 - "GET /health HTTP/1.1" 200 OK\n'
    log = tmp_path / "vllm.log"
    with log.open("w", encoding="utf8") as out:
        out.write(START)
        for i in range(4000):
            out.write(v1(10 * i, 5, 0, 20.0) + served * 60)
        for i in range(4000, 4012):
            out.write(v1(10 * i, 10 * (i - 3999), 0, 30.0))
        out.write(OOM.format(time=clock(40_120)))
    assert log.stat().st_size > 8 << 20
    report = vdiag.diagnose(log)
    load = report.load
    assert load is not None
    assert load.pattern == "memory"
    assert load.points[-1].running == 120
    assert "--max-num-seqs 60" in report.diagnoses[0].fixes[0].run[0]


# ---- how it is told -----------------------------------------------------------------------------------------


def test_json_holds_the_series() -> None:
    report, load = told(START + v1(0, 3, 0, 10.0) + v1(10, 40, 5, 61.5) + OOM.format(time=clock(12)))
    written = msgspec.json.decode(json.render(report))
    assert [point["running"] for point in written["load"]["points"]] == [3, 40]
    assert written["load"]["peak"]["kv_usage"] == 61.5
    assert written["load"]["pattern"] == load.pattern == "memory"


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_a_page_is_not_wider_than_it_may_be(width: int) -> None:
    lines = "".join(v1(10 * i, 3 * i + 1, i, min(i / 3, 100), preempted=1) for i in range(300))
    report, _ = told(START + lines + OOM.format(time=clock(3001)))
    page = terminal.render(report, width=width).plain()
    section = page[page.index("The load before it failed") :].split("\n\n")[0]
    assert "at most" in section
    assert all(cells(line) <= width for line in section.splitlines())


def test_a_row_says_its_figures_in_words() -> None:
    report, _ = told(
        START + v1(0, 3, 0, 10.0) + v1(10, 40, 5, 61.5) + v1(20, 20, 1, 30.0) + OOM.format(time=clock(22))
    )
    page = terminal.render(report, width=80).plain()
    assert f"The load before it failed: 03-03 {clock(0)} to {clock(20)}, 3 readings" in page
    assert "3 first, 40 at most, 20 last" in page
    assert "10 % first, 61.5 % at most, 30 % last" in page


def test_of_a_server_that_lives_only_news_are_shown() -> None:
    calm, _ = told(START + "".join(v1(10 * i, 5, 0, 20.0) for i in range(9)))
    queue, _ = told(START + "".join(v1(10 * i, 64, 4 * i, 50.0) for i in range(12)))
    assert calm.verdict is Verdict.HEALTHY
    assert queue.verdict is Verdict.HEALTHY
    assert "The load" not in terminal.render(calm, width=80).plain()
    assert "The load" in terminal.render(calm, width=80, everything=True).plain()
    assert "replicas" in terminal.render(queue, width=80).plain()


def test_a_stream_without_blocks_gets_ascii() -> None:
    report, _ = told(START + v1(0, 3, 0, 10.0) + v1(10, 40, 5, 61.5) + OOM.format(time=clock(12)))
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="replace")
    terminal.write(terminal.render(report, width=80), stream, color=False)
    stream.flush()
    row = next(line for line in raw.getvalue().decode().splitlines() if line.startswith("running"))
    assert "?" not in row
    assert row.split()[1] == ".#"


def test_sparklines() -> None:
    assert sparkline([0, 5, 10], 10) == "▁▅█"
    assert sparkline([0, 0, 9, 0, 0, 0], 3) == "▁█▁"  # a peak survives
    assert sparkline([50.0], 5, full=100.0) == "▅"
    assert sparkline([0, 0], 5) == "▁▁"
    assert len(sparkline(list(range(1000)), 13)) == 13


def test_lines_of_a_rotated_set_are_those_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "vllm.log.1").write_text(START + v1(0, 3, 0, 10.0), encoding="utf8")
    (tmp_path / "vllm.log").write_text(v1(10, 9, 0, 10.0) + OOM.format(time=clock(12)), encoding="utf8")
    report = vdiag.diagnose([tmp_path / "vllm.log", tmp_path / "vllm.log.1"])
    load = report.load
    assert load is not None
    assert load.source.endswith("vllm.log")
    assert [(Path(p.source).name, p.line) for p in load.points] == [("vllm.log.1", 5), ("", 1)]


def test_a_log_that_is_followed_tells_the_load_by_the_lines_of_its_files() -> None:
    following = Follower(shipped(), "vllm.log")
    told = following.feed((START + "".join(v1(10 * i, 5, 0, 20.0) for i in range(3000))).encode())
    following.turn()
    told += following.feed((v1(30_000, 90, 0, 20.0) + OOM.format(time=clock(30_002))).encode())
    last = following.settle()
    assert not told
    assert last is not None
    load = last.report.load
    assert load is not None
    assert load.pattern == "memory"
    assert (load.points[-1].line, load.points[-1].running) == (1, 90)
    assert load.points[0].line == 5


@pytest.mark.parametrize("count", [4, 12])
def test_what_a_living_server_said_again_ends_at_the_last_time_it_said_so(count: int) -> None:
    rows = [v1(10 * i, 32, 120 + 9 * i, 40.0) for i in range(count)]
    told = ask(START.replace("64", "32") + "".join(rows)).diagnoses[0]
    lines = START.count("\n")
    assert (told.times, told.line, told.last_line) == (count, lines + 1, lines + count)


@pytest.mark.parametrize("everything", [True, False])
def test_the_cure_of_a_full_card_is_told_by_its_fixes_and_with_all_by_the_load(everything: bool) -> None:
    report = ask(START + "".join(v1(10 * i, 8 + i, 0, 20.0) for i in range(8)) + OOM.format(time=clock(75)))
    assert report.load is not None
    page = " ".join(terminal.render(report, everything=everything).plain().split())
    assert report.load.said in page
    assert (report.load.remedy in page) == everything
