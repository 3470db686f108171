"""Facts: the arithmetic of advice, and when it refuses to guess."""

import pytest

from vdiag.advise.facts import FACTS, Known


def fact(name: str, _vllm: str | None = None, **captures: object) -> object:
    return Known(captures, {"vllm": _vllm, "args": {"model": "acme/m"}}).get(name)


def test_every_fact_is_documented() -> None:
    assert all(function.__doc__ for function in FACTS.values())


def test_no_fact_raises_or_guesses_without_captures() -> None:
    assert {name: fact(name) for name in FACTS} == dict.fromkeys(FACTS)


def test_fitting_len_scales_with_the_memory_left() -> None:
    # 131072 x 4.945 / 16.005, less one part in a hundred, in whole blocks
    assert fact("fitting_len", max_len=131072, need_gib=16.0, have_gib=4.95) == 40080


def test_fitting_len_prefers_vllms_own_estimate() -> None:
    assert fact("fitting_len", max_len=131072, need_gib=16.0, have_gib=4.95, estimated_len=40555) == 40544
    assert fact("fitting_len", max_len=131072, need_gib=16.0, have_gib=4.95, estimated_len=32000) == 32000


def test_fitting_len_of_v0_is_what_the_cache_stores() -> None:
    assert fact("fitting_len", max_len=32768, kv_tokens=20016) == 20016


def test_fitting_len_is_unknown_where_no_length_helps() -> None:
    assert fact("fitting_len", max_len=4096, need_gib=16.0, have_gib=0.5) is None
    assert fact("fitting_len", max_len=4096, need_gib=1.0, have_gib=2.0) is None
    assert fact("fitting_len", max_len=4096, need_gib=0, have_gib=2.0) is None


def test_max_len_may_come_from_the_arguments() -> None:
    assert Known({"kv_tokens": 1000}, {"args": {"max_model_len": 2000}}).get("fitting_len") == 992


@pytest.mark.parametrize(
    ("free", "total", "share"),
    [(3.22, 4.0, 0.73), (75.0, 80.0, 0.92), (79.9, 80.0, 0.92), (5.0, 80.0, None), (1.0, 0.0, None)],
)
def test_fitting_utilization(free: float, total: float, share: float | None) -> None:
    assert fact("fitting_utilization", free_gib=free, total_gib=total) == share


def test_utilization_default_follows_the_version() -> None:
    assert fact("utilization", "0.11.0") == 0.9
    assert fact("utilization", "0.33.0") == 0.92
    assert fact("utilization", "0.20.0") is None
    assert fact("utilization") is None


def test_what_was_given_is_unknown_where_the_arguments_are_not_shown() -> None:
    """The log may begin behind them, or hold them in a spelling that is not read."""
    assert Known({}, {"vllm": "0.11.0"}).get("utilization") is None


def test_needed_utilization_stops_where_run_time_would_fail() -> None:
    known = {"total_gib": 80.0, "utilization": 0.8, "need_gib": 8.0}
    assert fact("needed_utilization", have_gib=4.0, **known) == 0.85
    assert fact("needed_utilization", have_gib=-8.0, **known) is None


def test_tensor_parallel_sizes_that_divide() -> None:
    assert fact("dividing_tp", heads=32) == "1, 2, 4, 8 or 16"
    assert fact("dividing_tp", heads=7) == "1 or 7"
    assert fact("nearest_tp", heads=28, tp=8) == 7
    assert fact("nearest_tp", heads=40, tensor_parallel_size=3) == 2
    assert fact("dividing_tp", heads=0) is None


def test_numbers_in_text_count_and_nonsense_does_not() -> None:
    assert fact("half_len", max_len="131,072") == 65536
    assert fact("half_len", max_len="many") is None
    assert fact("half_len", max_len=True) is None


def test_swap_is_bounded() -> None:
    assert fact("swap_gib", weights_gib=14.2) == 15
    assert fact("swap_gib", weights_gib=400.0) == 64


def test_a_misspelt_flag_finds_the_right_one() -> None:
    assert fact("nearest_flag", flag="--max-modle-len 2048") == "--max-model-len"
    assert fact("nearest_flag", flag="--gpu-memory-utilisation=0.9") == "--gpu-memory-utilization"
    assert fact("nearest_flag", flag="serve /models/x") is None
    assert fact("nearest_flag", flag="--swap-space 4") is None
    assert fact("nearest_flag", flag="--entirely-other-thing") is None


def test_a_flag_of_other_versions_has_news() -> None:
    assert "gone" in str(fact("flag_news", "0.33.0", flag="--swap-space 4"))
    assert "upgrade" in str(fact("flag_news", "0.8.5.post1", flag="--async-scheduling"))
    assert "--runner" in str(fact("flag_news", flag="--task embed"))
    assert fact("flag_news", "0.11.0", flag="--max-model-len 4") is None
    assert fact("flag_news", "0.11.0", flag="--max-modle-len 4") is None


def test_shares_that_rounding_and_free_memory_allow() -> None:
    card = {"total_gib": 80.0, "utilization": 0.8}
    assert (
        fact("needed_utilization", have_gib=4.0, need_gib=8.0, free_gib=67.0, **card) is None
    )  # 0.85 x 80 is 68
    assert fact("opening_utilization", have_gib=-3.0, **card) == 0.85
    assert not fact("raising_is_no_help", have_gib=1.0, need_gib=9.0, **card)
    assert fact("raising_is_no_help", have_gib=1.0, need_gib=11.0, **card) is True
    assert fact("raising_is_no_help", utilization=0.95) is True


def test_a_lower_share_leaves_what_was_short() -> None:
    assert fact("lower_utilization", utilization=0.9) == 0.85
    assert fact("lower_utilization", utilization=0.9, want_gib=8.5, left_gib=0.5, total_gib=80.0) == 0.79
    assert fact("lower_utilization", utilization=0.98) == 0.92  # what is above only moves the fault
    assert fact("lower_utilization", utilization=0.52) is None


def test_checkpoints_ask_for_cards_and_for_host_memory() -> None:
    assert (
        fact("loading_tp", checkpoint_gib=130.0, total_gib=80.0) == 4
    )  # 65 of 80 GiB each would leave too little
    assert fact("loading_offload_gib", checkpoint_gib=70.0, total_gib=80.0) == 6
    assert fact("loading_offload_gib", checkpoint_gib=200.0, total_gib=80.0) is None
    assert fact("kv_space_gib", need_gib=16.0, total_gib=62.5) == 17
    assert fact("kv_space_gib", need_gib=16.0, total_gib=9.71) is None


def test_batches_shrink_and_never_grow() -> None:
    assert fact("small_batch", max_num_batched_tokens=8192) == 2048
    assert fact("small_batch", max_num_batched_tokens=2048) == 1024
    assert fact("small_batch", max_num_batched_tokens=256) is None
    assert fact("fitting_seqs", requests=1024, want_gib=0.768, left_gib=0.125) == 64
    assert fact("half_seqs", max_num_seqs=1) is None
