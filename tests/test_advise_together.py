"""No fix of any rule holds settings that this server would refuse together, or that it never came up to."""

from __future__ import annotations

from typing import Any

import pytest

from vdiag import diagnose
from vdiag.advise import fill
from vdiag.model import Fix
from vdiag.rulebook.shipped import shipped

RULES = [rule for rule in shipped().rules if rule.fixes]
CAPTURES = {
    "want_gib": 1.5,
    "left_gib": 0.3,
    "card_gib": 47.4,
    "need_gib": 8.0,
    "have_gib": 2.75,
    "max_len": 8192,
}
V0 = {"vllm": "0.6.6.post1", "max_model_len": 8192}
WHOLE = [
    V0,
    {"vllm": "0.8.5.post1", "engine": "V0", "args": {"max_model_len": 8192}},
    {"vllm": "0.11.0", "engine": "V1", "args": {"enable_chunked_prefill": False, "max_model_len": 8192}},
]
PARTS = [
    {"vllm": "0.11.0", "engine": "V1", "args": {"max_model_len": 8192}},
    {**V0, "args": {"enable_chunked_prefill": True}},
]


def fixes(**context: Any) -> list[Fix]:
    return [fix for rule in RULES for fix in fill(rule, CAPTURES, context)[2]]


def smaller(found: list[Fix]) -> list[Fix]:
    """Fixes whose batch is smaller than the longest prompt."""
    numbers = [fix for fix in found if isinstance(fix.set.get("max_num_batched_tokens"), int)]
    return [fix for fix in numbers if fix.set["max_num_batched_tokens"] < _length(fix)]


def _length(fix: Fix) -> int:
    length = fix.set.get("max_model_len")
    return length if isinstance(length, int) else 8192


@pytest.mark.parametrize("context", WHOLE)
def test_without_chunked_prefill_no_batch_is_smaller_than_the_context(context: dict[str, Any]) -> None:
    assert smaller(fixes(**context)) == []


@pytest.mark.parametrize("context", PARTS)
def test_with_chunked_prefill_it_may_be(context: dict[str, Any]) -> None:
    assert smaller(fixes(**context))


def test_what_is_left_of_a_fix_is_still_offered() -> None:
    assert any(fix.set == {"max_num_seqs": 32, "enforce_eager": True} for fix in fixes(**V0))


@pytest.mark.parametrize("ran", [2, 16, 40])
def test_no_more_requests_at_once_than_ran_before_it_failed(ran: int) -> None:
    found = fixes(vllm="0.11.0", peak_running=ran, half_peak_running=ran // 2)
    limits = [fix.set["max_num_seqs"] for fix in found if isinstance(fix.set.get("max_num_seqs"), int)]
    assert limits
    assert all(limit < ran for limit in limits)


@pytest.mark.parametrize("deploy", ["kubernetes", "docker", "compose"])
def test_a_container_is_no_unit_of_systemd(deploy: str) -> None:
    assert not any("KillMode" in row for fix in fixes(deploy=deploy, unit="") for row in fix.run)
    assert any("KillMode" in row for fix in fixes(deploy="systemd") for row in fix.run)


def test_the_cluster_gives_the_cards_out() -> None:
    free = [rule for rule in RULES if rule.id == "free-memory-below-utilization"]
    found = [fix for rule in free for fix in fill(rule, {}, {"deploy": "kubernetes"})[2]]
    assert not any("CUDA_VISIBLE_DEVICES" in row for fix in found for row in fix.run)


@pytest.mark.parametrize(("size", "fewer"), [(1, False), (2, True), (None, True)])
def test_there_are_no_fewer_processes_than_one(size: int | None, fewer: bool) -> None:
    found = fixes(**({} if size is None else {"tensor_parallel_size": size}))
    assert any(fix.set.get("tensor_parallel_size") == "<fewer>" for fix in found) == fewer


OOM = """\
INFO 11-29 10:12:40 [api_server.py:1580] vLLM API server version 0.11.0
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708] EngineCore failed to start.
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708] Traceback (most recent call last):
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708]   File "/srv/venv/lib/python3.11/site-packages/vllm/v1/worker/gpu_worker.py", line 12, in determine_available_memory
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708]     self.model_runner.profile_run()
(EngineCore_DP0 pid=5400) ERROR 11-29 10:12:45 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which 401.06 MiB is free.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
TYPED = "$ vllm serve acme/model-7b --max-model-len 8192 --max-num-seqs 48{}\n"


@pytest.mark.parametrize(
    ("flags", "chunked"),
    [(" --no-enable-chunked-prefill", False), (" --enable-chunked-prefill", True), ("", True)],
)
def test_what_was_typed_counts_where_the_server_prints_no_arguments(flags: str, chunked: bool) -> None:
    fixes = diagnose((TYPED.format(flags) + OOM).encode()).diagnoses[0].fixes
    assert any(fix.set.get("max_num_seqs") for fix in fixes)
    assert not any(
        (fix.set.get("max_num_seqs") or 0) >= 48 for fix in fixes
    )  # no fix raises what is too much
    assert bool(smaller(fixes)) is chunked
