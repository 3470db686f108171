"""The memory budget: figures of each wording of vLLM since 0.6, held against the sums that vLLM itself makes of them."""

from __future__ import annotations

import re
from itertools import zip_longest

import pytest

from dresses import undressed
from logtext import ALL, FAILED, Sample, ask, by_name, sample
from vdiag.advise.facts import Known
from vdiag.model import Memory, Report
from vdiag.render.terminal import render
from vdiag.sizing import fit, shares
from vdiag.sizing.levers import levers

# Two key and value vectors of 8 heads of 128 numbers in 16 bits on each of 32 layers.
BYTES_8B = 2 * 32 * 8 * 128 * 2
FAILURE = (
    "(EngineCore_DP0 pid=41) ERROR 08-28 10:12:45 [core.py:708] ValueError: To serve at least one request with the "
    "models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory "
    "({have} GiB). Based on the available memory, the estimated maximum model length is {fits}. Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine."
)


def engine(version: str, **said: object) -> str:
    rest = "".join(f", {name}={value}" for name, value in said.items())
    return (
        f"(EngineCore_DP0 pid=41) INFO 08-28 10:12:10 [core.py:77] Initializing a V1 LLM engine (v{version}) with config: "
        f"model='acme/model-8b', speculative_config=None, dtype=torch.bfloat16, max_seq_len=131072{rest}"
    )


def core(text: str, who: str = "EngineCore_DP0 pid=41") -> str:
    return f"({who}) INFO 08-28 10:12:44 [gpu_worker.py:298] {text}"


def read(*lines: str) -> Report:
    return ask("\n".join(lines) + "\n")


def memory_of(*lines: str) -> Memory:
    memory = read(*lines).memory
    assert memory is not None
    return memory


def sizes(memory: Memory) -> dict[str, float]:
    return {share.what: share.gib for share in memory.shares}


def settings(report: Report) -> str:
    return "\n".join(line for fix in report.diagnoses[0].fixes for line in fix.run)


# ---- figures that vLLM prints ---------------------------------------------------------------------------


V0 = [
    "INFO 01-14 08:31:27 worker.py:241] Memory profiling takes 6.52 seconds",
    "INFO 01-14 08:31:27 worker.py:241] the current vLLM instance can use total_gpu_memory (23.64GiB) x gpu_memory_utilization (0.90) = 21.28GiB",
    "INFO 01-14 08:31:27 worker.py:241] model weights take 14.99GiB; non_torch_memory takes 0.12GiB; PyTorch activation peak memory takes 1.22GiB; the rest of the memory reserved for KV Cache is 4.95GiB.",
    "INFO 01-14 08:31:28 gpu_executor.py:76] # GPU blocks: 2534, # CPU blocks: 2048",
    "INFO 01-14 08:31:28 gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 4.95x",
]
V1_DEBUG = [
    engine("0.11.0"),
    core("Model loading took 14.9878 GiB and 22.400000 seconds"),
    core("Initial free memory: 23.21 GiB; Requested memory: 0.90 (util), 21.28 GiB"),
    core(
        "Memory profiling takes 6.52 seconds. Total non KV cache memory: 16.33GiB; torch peak memory increase: 1.22GiB; "
        "non-torch forward increase memory: 0.12GiB; weights memory: 14.99GiB."
    ),
    core("Available KV cache memory: 4.95 GiB"),
    core("GPU KV cache size: 40,544 tokens"),
    core("Maximum concurrency for 8,192 tokens per request: 4.95x"),
]
V1_SUMMARY = [
    engine("0.17.1"),
    core("Available KV cache memory: 4.95 GiB"),
    core("GPU KV cache size: 40,544 tokens"),
    core(
        "Free memory on device (23.21/23.64 GiB) on startup. Desired GPU memory utilization is (0.9, 21.28 GiB). Actual "
        "usage is 14.99 GiB for weight, 1.22 GiB for peak activation, 0.12 GiB for non-torch memory, and 0.84 GiB for "
        "CUDAGraph memory."
    ),
]
V1_GRAPHS = [
    engine("0.24.0"),
    core("Model loading took 14.99 GiB memory and 22.400000 seconds"),
    core("Estimated CUDA graph memory: 0.26 GiB total"),
    core(
        "Memory profiling takes 6.52 seconds. Total non KV cache memory: 16.33GiB; torch peak memory increase: 1.22GiB; "
        "non-torch forward increase memory: 0.12GiB; weights memory: 14.99GiB."
    ),
    core("worker requested memory: 21.28GiB"),
    core("Available KV cache memory: 4.69 GiB"),
    core("GPU KV cache size: 38,416 tokens"),
]
V1_CONSUMED = [
    engine("0.33.0"),
    core("Model loading took 14.99 GiB memory and 22.400000 seconds"),
    core("Estimated CUDA graph memory: 0.26 GiB total"),
    core("Available KV cache memory: 4.69 GiB"),
    core("GPU KV cache size: 38,416 tokens, Maximum concurrency for 8,192 tokens per request: 4.69x"),
    core("CUDA graph pool memory: 0.22 GiB (actual), 0.26 GiB (estimated), difference: 0.04 GiB (18.2%)."),
    core(
        "Free memory on device (23.21/23.64 GiB) on startup. Desired GPU memory utilization is (0.9, 21.28 GiB). Actual "
        "usage is 15.11 GiB for consumed memory (weights + non-torch), 1.48 GiB for peak activation, and 0.22 GiB for "
        "CUDAGraph memory."
    ),
]
XPU = [
    "INFO 08-28 10:12:44 [xpu_worker.py:104] Before memory profiling run, total GPU memory: 24207.36 MB, model load takes 15349.76 MB, free gpu memory is 8000.00 MB.",
    "INFO 08-28 10:12:46 [xpu_worker.py:139] After memory profiling run, peak memory usage is 16721.92 MB,torch mem is 15349.76 MB, non-torch mem is 122.88 MB, free gpu memory is 7000.00 MB.",
]


@pytest.mark.parametrize("log", [V0, V1_DEBUG, V1_SUMMARY], ids=["v0", "v1-debug", "v1-summary"])
def test_the_shares_add_up_to_the_budget_that_vllm_states(log: list[str]) -> None:
    memory = memory_of(*log)
    got = sizes(memory)
    wanted = {"weights": 14.99, "non-torch": 0.12, "activations": 1.22, "KV cache": 4.95}
    assert {name: got[name] for name in wanted} == pytest.approx(wanted, abs=0.01)
    assert shares.REST not in got
    assert sum(share.gib for share in memory.shares if not share.beside) == pytest.approx(21.28, abs=0.05)
    assert memory.budget_gib == pytest.approx(21.28)
    assert memory.utilization == 0.9


def test_until_0_20_graphs_stand_beside_the_budget() -> None:
    graphs = next(share for share in memory_of(*V1_SUMMARY).shares if share.what == shares.GRAPHS)
    assert (graphs.gib, graphs.beside, graphs.estimated) == (0.84, True, False)


@pytest.mark.parametrize("log", [V1_GRAPHS, V1_CONSUMED], ids=["0.24", "0.33"])
def test_since_0_21_the_estimate_of_the_graphs_is_in_the_budget(log: list[str]) -> None:
    memory = memory_of(*log)
    graphs = next(share for share in memory.shares if share.what == shares.GRAPHS)
    assert (graphs.gib, graphs.beside, graphs.estimated) == (0.26, False, True)
    assert sizes(memory)["activations"] == pytest.approx(1.22, abs=0.01)
    assert sizes(memory)["non-torch"] == pytest.approx(0.12, abs=0.01)
    assert sum(share.gib for share in memory.shares) == pytest.approx(21.28, abs=0.05)


def test_graphs_count_as_the_log_says_whatever_the_version() -> None:
    said = core("CUDA graph memory profiling is disabled (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0).")
    assert any(share.beside for share in memory_of(*V1_GRAPHS, said).shares)


def test_intel_workers_print_megabytes_of_1024() -> None:
    memory = memory_of(*XPU)
    assert memory.total_gib == pytest.approx(23.64)
    assert sizes(memory) == pytest.approx(
        {"weights": 14.99, "non-torch": 0.12, "activations": 1.22}, abs=0.01
    )


@pytest.mark.parametrize(
    ("log", "tokens"), [(V0, 2534 * 16), (V1_DEBUG, 40544), (V1_CONSUMED, 38416)], ids=["v0", "0.11", "0.33"]
)
def test_bytes_per_token_are_those_of_the_architecture(log: list[str], tokens: int) -> None:
    memory = memory_of(*log)
    assert memory.kv_tokens == tokens
    assert memory.bytes_per_token == pytest.approx(BYTES_8B, rel=0.002)
    assert memory.concurrency == pytest.approx(tokens / 8192, abs=0.01)


def test_blocks_of_another_size_are_no_tokens() -> None:
    log = [
        *V0[:-1],
        "INFO 01-14 08:31:28 gpu_executor.py:80] Maximum concurrency for 8192 tokens per request: 9.90x",
    ]
    assert memory_of(*log).bytes_per_token is None


def test_the_full_length_needs_what_vllm_says_it_needs() -> None:
    memory = memory_of(engine("0.11.0"), FAILURE.format(have="4.95", fits=40544))
    assert memory.bytes_per_token == BYTES_8B  # 131,072 tokens of 131,072 bytes are 16 GiB
    assert memory.kv_tokens == memory.fitting_len == 40544
    assert memory.concurrency == pytest.approx(4.95 / 16, abs=0.005)


@pytest.mark.parametrize("have", [0.98, 2.75, 4.95, 7.02, 15.99])
def test_an_estimate_of_our_own_is_below_vllms_and_close_to_it(have: float) -> None:
    exact = have * fit.GIB / BYTES_8B
    ours = fit.estimated_tokens(have, 16.0, 131072)
    assert 0.97 * exact < ours < exact


def test_what_no_figure_names_is_told_as_such() -> None:
    memory = memory_of(
        engine("0.11.0"),
        core("Model loading took 14.9878 GiB and 22.400000 seconds"),
        core("Initial free memory: 23.21 GiB; Requested memory: 0.90 (util), 21.28 GiB"),
        core("Available KV cache memory: 4.95 GiB"),
    )
    assert sizes(memory)[shares.REST] == pytest.approx(21.28 - 14.99 - 4.95, abs=0.01)


def test_the_rank_with_the_least_kv_memory_decides() -> None:
    lines = [engine("0.11.0")]
    for rank, kv in enumerate((5.1, 4.2, 4.95)):
        who = f"Worker_TP{rank} pid={50 + rank}"
        lines += [core("Model loading took 7.5000 GiB and 22.400000 seconds", who)]
        lines += [core(f"Available KV cache memory: {kv} GiB", who)]
    lines += [core("GPU KV cache size: 83,552 tokens"), core("GPU KV cache size: 68,800 tokens")]
    memory = memory_of(*lines)
    assert (memory.ranks, memory.lane, memory.kv_gib) == (3, "Worker_TP1 pid=51", 4.2)
    assert memory.kv_tokens == 68800
    assert memory.line == 5


def test_the_weights_of_old_versions_are_gib_under_another_name() -> None:
    memory = memory_of("INFO 01-14 08:31:20 model_runner.py:1099] Loading model weights took 14.9888 GB")
    assert sizes(memory) == {"weights": 14.99}


def test_a_log_without_figures_has_no_budget() -> None:
    assert read(engine("0.11.0"), core("Using Flash Attention backend on V1 engine.")).memory is None


# ---- a full card ----------------------------------------------------------------------------------------

FRAME = [
    "Traceback (most recent call last):",
    '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 2330, in execute_model',
    "    model_output = self._model_forward(",
]


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 47.40 GiB of which 307.20 MiB is free. Process 7713 has 20.00 GiB memory in use. Including non-PyTorch memory, this process has 27.10 GiB memory in use. Of the allocated memory 26.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.",
            {
                "tensors": 26.0,
                "reserved, unused": 0.5,
                shares.LIBRARIES: 0.6,
                "process 7713": 20.0,
                "free": 0.3,
            },
        ),
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 47.40 GiB of which 307.20 MiB is free. Process 5501 has 47.10 GiB memory in use. Of the allocated memory 46.00 GiB is allocated by PyTorch, with 660.00 MiB allocated in private pools (e.g., CUDA Graphs), and 512.00 MiB is reserved by PyTorch but unallocated.",
            {"tensors": 46.0, "reserved, unused": 0.5, shares.LIBRARIES: 0.6, "free": 0.3},
        ),
        (
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 288.00 MiB (GPU 0; 23.50 GiB total capacity; 21.90 GiB already allocated; 102.40 MiB free; 22.80 GiB reserved in total by PyTorch)",
            {"tensors": 21.9, "reserved, unused": 0.9, "free": 0.1, shares.UNTOLD: 0.6},
        ),
    ],
    ids=["another process", "in a container", "torch 1"],
)
def test_a_full_card_is_told_by_who_holds_it(message: str, wanted: dict[str, float]) -> None:
    memory = memory_of(*FRAME, message)
    assert memory.when_full
    assert sizes(memory) == pytest.approx(wanted, abs=0.01)
    assert sum(sizes(memory).values()) == pytest.approx(memory.total_gib, abs=0.01)


@pytest.mark.parametrize(
    ("total", "free", "held"),
    [
        ("4.00", "0.25", "27.10"),
        ("47.40", "976562.5", "27.10"),
        ("-1", "0.25", "27.10"),
        ("0.00", "0.25", "27.10"),
        ("47.40", "0.25", "270.1"),
    ],
)
def test_a_card_that_holds_more_than_it_has_is_not_shown(total: str, free: str, held: str) -> None:
    message = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of {total} GiB "
        f"of which {free} GiB is free. Including non-PyTorch memory, this process has {held} GiB memory in use. Of the "
        "allocated memory 26.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated."
    )
    memory = ask("\n".join([*FRAME, message])).memory
    if memory is not None:
        assert all(share.gib <= (memory.total_gib or 0) for share in memory.shares)
        assert memory.total_gib is None or memory.total_gib > 0


@pytest.mark.parametrize("odd", ["0", "-1", "0.0", "1.5", "999999.99", "nan", "1e308"])
@pytest.mark.parametrize("s", FAILED, ids=by_name)
def test_a_share_of_the_card_that_there_cannot_be_is_none(s: Sample, odd: str) -> None:
    text = re.sub(r"(utilization(?:'?[:= ]\s*| \())[\d.]+", rf"\g<1>{odd}", s.text)
    report = ask(text)
    memory = report.memory
    assert memory is None or memory.utilization is None or 0 < memory.utilization <= 1
    assert memory is None or memory.budget_gib is None or memory.budget_gib > 0
    said = [fix.do for d in report.diagnoses for fix in d.fixes]
    assert not any(odd in re.findall(r"utilization[ =]([-\w.]+)", text) for text in said)


def test_another_process_on_a_full_card_is_named_in_a_fix() -> None:
    report = read(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 47.40 GiB "
        "of which 307.20 MiB is free. Process 7713 has 20.00 GiB memory in use. Including non-PyTorch memory, this "
        "process has 27.10 GiB memory in use.",
    )
    assert "sudo kill 7713" in settings(report)


# ---- what the log rules out is not offered --------------------------------------------------------------


def failed(*said: str, have: str = "4.95", fits: int = 40544) -> Report:
    return read(*said, FAILURE.format(have=have, fits=fits))


def offered(report: Report, word: str) -> bool:
    memory = report.memory
    assert memory is not None
    return word in settings(report) or any(word in str(lever.set) for lever in memory.levers)


def test_no_8_bit_cache_where_it_is_one() -> None:
    assert offered(failed(engine("0.11.0", kv_cache_dtype="auto")), "fp8")
    assert not offered(failed(engine("0.11.0", kv_cache_dtype="fp8_e4m3")), "fp8")


def test_no_8_bit_cache_on_an_old_card() -> None:
    card = "|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:01:00.0 Off |                    0 |"
    assert not offered(failed(card, engine("0.11.0")), "fp8")


def test_no_quantised_build_of_a_quantised_model() -> None:
    assert "AWQ build" in settings(failed(engine("0.11.0", quantization="None")))
    assert "AWQ build" not in settings(failed(engine("0.11.0", quantization="awq_marlin")))


def test_no_more_cards_than_there_are() -> None:
    card = "GPU 0: NVIDIA L40S (UUID: GPU-7f3c2b1a-0000-0000-0000-000000000000)"
    one = engine("0.11.0", tensor_parallel_size=1)
    assert offered(failed(one), "tensor-parallel-size 2")
    assert not offered(failed(card, one), "tensor-parallel-size")


def test_twice_the_present_cards_and_not_two() -> None:
    assert offered(failed(engine("0.11.0", tensor_parallel_size=4)), "tensor-parallel-size 8")


@pytest.mark.parametrize(
    ("free", "share", "needed"),
    [("23.21", "0.85", "0.90"), ("20.80", "0.85", None), ("23.21", "0.92", None)],
    ids=["free", "not free", "as much as is sane"],
)
def test_more_of_the_card_only_where_it_is_there_and_enough(
    free: str, share: str, needed: str | None
) -> None:
    report = failed(
        engine("0.11.0"),
        core(
            f"Free memory on device ({free}/23.64 GiB) on startup. Desired GPU memory utilization is ({share}, 20.00 GiB)."
        ),
        have="15.00",
        fits=122880,
    )
    found = re.findall(r"--gpu-memory-utilization (\S+)", settings(report))
    assert [float(value) for value in found] == ([float(needed)] if needed else [])


def test_more_of_the_card_is_not_offered_where_much_more_is_missing() -> None:
    assert not offered(failed(engine("0.11.0")), "gpu-memory-utilization")


def test_no_length_is_offered_where_none_fits() -> None:
    report = failed(engine("0.17.1"), have="0.01", fits=80)
    assert "--max-model-len" not in settings(report)


def test_a_negative_rest_asks_for_the_share_that_leaves_room() -> None:
    report = read(
        engine("0.11.0"),
        core(
            "Free memory on device (79.10/79.20 GiB) on startup. Desired GPU memory utilization is (0.8, 63.36 GiB)."
        ),
        core("Model loading took 60.0000 GiB and 22.400000 seconds"),
        core("Available KV cache memory: -1.35 GiB"),
        "(EngineCore_DP0 pid=41) ERROR 08-28 10:12:45 [core.py:708] ValueError: No available memory for the cache blocks. "
        "Try increasing `gpu_memory_utilization` when initializing the engine.",
    )
    # 0.8 + 2.35 / 79.2, rounded up
    assert "--gpu-memory-utilization 0.83" in settings(report)
    assert report.memory is not None
    assert any("1.35 GiB" in note for note in report.memory.notes)


def test_on_the_cpu_the_cache_gets_what_one_request_needs_if_the_host_has_it() -> None:
    big = "(Worker pid=18) INFO 11-29 11:44:48 [cpu_worker.py:260] Explicitly set (4.95/62.5) GiB for KV cache on node 0."
    small = big.replace("62.5", "9.71")
    cpu = engine("0.32.0", device_config="cpu")
    assert "VLLM_CPU_KVCACHE_SPACE=17" in settings(failed(cpu, big))
    assert "VLLM_CPU_KVCACHE_SPACE" not in settings(failed(cpu, small))


def test_a_sampler_gets_as_many_requests_as_were_free() -> None:
    report = read(
        "Traceback (most recent call last):",
        '  File "/opt/venv/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 3217, in _dummy_sampler_run',
        "    sampler_output = self.sampler(logits=logits,",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 594.00 MiB. GPU 0 has a total capacity of 79.15 GiB of which 132.00 MiB is free.",
    )
    # half of 132 requests at 1 MiB each, as a power of two
    assert "--max-num-seqs 64" in settings(report)


@pytest.mark.parametrize("total", [40.5, 44.5, 47.4, 79.2])
@pytest.mark.parametrize("said", [(38.0, 1.88, 1.93), (30.7, 5.02, 5.6), (20.0, 15.0, 15.3)])
def test_a_share_is_computed_without_the_size_of_the_card_and_enough_for_any(
    total: float, said: tuple[float, float, float]
) -> None:
    """Weights and KV cache tell what the card has at least; a larger one needs less."""
    weights, have, need = said
    found = Known({"have_gib": have, "need_gib": need}, {"weights_gib": weights, "utilization": 0.88})
    share = found.get("needed_utilization")
    if share is not None and total * 0.88 >= weights + have:
        assert (share - 0.88) * total >= need - have
        assert share <= fit.SAFE_UTILIZATION


def test_a_negative_rest_without_the_size_of_the_card_has_a_computed_share_too() -> None:
    report = read(
        "(APIServer pid=40) INFO 08-28 10:12:02 [utils.py:233] non-default args: {'model': 'acme/model-8b', 'gpu_memory_utilization': 0.8}",
        engine("0.11.0"),
        core("Model loading took 60.0000 GiB and 22.400000 seconds"),
        core("Available KV cache memory: -1.35 GiB"),
        "(EngineCore_DP0 pid=41) ERROR 08-28 10:12:45 [core.py:708] ValueError: No available memory for the cache blocks. "
        "Try increasing `gpu_memory_utilization` when initializing the engine.",
    )
    fix = report.diagnoses[0].fixes[0]
    assert fix.set == {
        "gpu_memory_utilization": 0.84
    }  # 0.8 + 2.35 / 60, rounded up: no card of 60 GiB needs more
    assert fix.gives.startswith("at least 2.40 GiB")


PINNED = [
    "(APIServer pid=40) INFO 08-28 10:12:02 [utils.py:233] non-default args: {'model': 'acme/model-8b', 'kv_cache_memory_bytes': 4563402752}",
    engine("0.11.0"),
    core("Model loading took 17.62 GiB and 22.400000 seconds"),
]
RESERVED = "Initial free memory {free} GiB, reserved 4.25 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling."


@pytest.mark.parametrize(("free", "room"), [("30.1", True), ("23.5", False)])
def test_a_cache_of_a_fixed_size_gets_a_larger_one_where_it_is_free_and_never_a_share(
    free: str, room: bool
) -> None:
    report = failed(*PINNED, core(RESERVED.format(free=free)), have="4.25", fits=34816)
    assert not any("gpu_memory_utilization" in fix.set for fix in report.diagnoses[0].fixes)
    sizes = [
        fix.set["kv_cache_memory_bytes"]
        for fix in report.diagnoses[0].fixes
        if "kv_cache_memory_bytes" in fix.set
    ]
    assert sizes == []  # 16 GiB are needed: with the weights more than is free
    near = FAILURE.replace("16.00", "4.26").format(have="4.25", fits=130000)
    report = read(*PINNED, core(RESERVED.format(free=free)), near)
    sizes = [
        fix.set["kv_cache_memory_bytes"]
        for fix in report.diagnoses[0].fixes
        if "kv_cache_memory_bytes" in fix.set
    ]
    assert bool(sizes) == room
    assert all(size >= 4.26 * fit.GIB for size in sizes)


def test_where_a_length_costs_little_there_are_no_bytes_of_a_token() -> None:
    """Layers with a state: three quarters of the memory do not hold three quarters of the length."""
    memory = failed(engine("0.24.0"), have="12.00", fits=7740).memory
    assert memory is not None
    assert (memory.bytes_per_token, memory.kv_tokens, memory.concurrency) == (None, None, 0.75)
    assert memory.fitting_len == 7728
    assert next(lever for lever in memory.levers if "kv_cache_dtype" in lever.set).enough is None


@pytest.mark.parametrize("given", [True, False])
def test_the_config_sets_the_length_only_where_nobody_did(given: bool) -> None:
    args = {"model": "acme/model-8b", **({"max_model_len": 131072} if given else {})}
    row = f"(APIServer pid=40) INFO 08-28 10:12:02 [utils.py:233] non-default args: {args!r}"
    assert ("Without --max-model-len" in failed(row).diagnoses[0].why) != given


def test_the_rank_that_decides_is_named_though_the_engine_tells_of_it() -> None:
    ranks = [
        core(f"Available KV cache memory: {kv} GiB", f"Worker_TP{i} pid={50 + i}")
        for i, kv in enumerate((6.87, 4.95))
    ]
    memory = failed(*ranks).memory
    assert memory is not None
    assert (memory.ranks, memory.lane) == (2, "Worker_TP1 pid=51")


def test_more_cards_are_counted_with_the_stages() -> None:
    memory = failed(engine("0.11.0", tensor_parallel_size=8, pipeline_parallel_size=4)).memory
    assert memory is not None
    assert next(lever for lever in memory.levers if "tensor_parallel_size" in lever.set).price.startswith(
        "64 cards"
    )


OUT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 23.50 GiB of "
    "which 410.06 MiB is free. Including non-PyTorch memory, this process has 23.09 GiB memory in use. Of the allocated "
    "memory {used} GiB is allocated by PyTorch, and {unused} is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("used", "unused", "helps"), [("22.47", "122.00 MiB", False), ("19.00", "3.50 GiB", True)]
)
def test_larger_segments_only_where_what_is_reserved_would_be_enough(
    used: str, unused: str, helps: bool
) -> None:
    report = read(engine("0.11.0"), OUT.format(used=used, unused=unused))
    assert ("expandable_segments" in settings(report)) == helps


@pytest.mark.parametrize(
    ("architecture", "images"),
    [("Qwen2ForCausalLM", False), ("Qwen2VLForConditionalGeneration", True), ("", True)],
)
def test_no_images_are_limited_of_a_model_that_takes_none(architecture: str, images: bool) -> None:
    row = f"(APIServer pid=40) INFO 08-28 10:12:02 [model.py:547] Resolved architecture: {architecture}"
    report = read(
        *([row] if architecture else []),
        "INFO 01-14 08:31:28 gpu_executor.py:76] # GPU blocks: 1088, # CPU blocks: 2048",
        "ValueError: The model's max seq len (65536) is larger than the maximum number of tokens that can be stored in KV cache (17408).",
    )
    assert ("limit-mm-per-prompt" in settings(report)) == images
    assert report.diagnoses[0].phase == "profile"  # the check comes before the graphs
    assert "limit_mm_per_prompt" not in report.diagnoses[0].fixes[1].set


def test_an_engine_without_a_name_has_none() -> None:
    row = "INFO 01-14 08:30:15 llm_engine.py:234] Initializing an LLM engine (v0.6.6.post1) with config: model='acme/model-7b', speculative_config=None"
    assert read(row).environment.engine is None


# ---- every memory diagnosis -----------------------------------------------------------------------------


@pytest.mark.parametrize("s", [s for s in FAILED if "kv-cache" in str(s.rule)], ids=by_name)
def test_samples_with_figures_get_a_computed_fix_first_and_no_guess(s: Sample) -> None:
    """Only the way back to what worked before may come first, with the value that it had."""
    report = ask(s.text)
    memory = report.memory
    assert memory is not None
    assert memory.asked
    own = [fix for fix in report.diagnoses[0].fixes if not fix.do.startswith("Go back")]
    assert f"--max-model-len {memory.fitting_len}" in "\n".join(own[0].run)
    assert not any(re.search(r"--max-model-len (?:8192|4096)\b", line) for fix in own for line in fix.run)


@pytest.mark.parametrize("s", ALL, ids=by_name)
def test_a_budget_is_feasible(s: Sample) -> None:
    """No lever that the budget itself forbids; no share below nothing; no part larger than the whole."""
    memory = ask(s.text).memory
    if memory is None:
        return
    assert all(share.gib >= 0 for share in memory.shares)
    if memory.total_gib:
        assert sum(share.gib for share in memory.shares) <= memory.total_gib + 0.1
    for lever in memory.levers:
        assert lever.set.get("gpu_memory_utilization", 0.0) <= fit.SAFE_UTILIZATION
        if "max_model_len" in lever.set and memory.kv_tokens:
            assert lever.set["max_model_len"] <= memory.kv_tokens


def test_levers_say_whether_they_are_enough() -> None:
    memory = Memory(
        total_gib=80.0,
        utilization=0.85,
        needed_utilization=0.9,
        kv_gib=10.0,
        need_gib=13.9,
        bytes_per_token=float(BYTES_8B),
        shares=[
            *memory_of(*V1_GRAPHS).shares[:1],
        ],
    )
    by_setting = {next(iter(lever.set)): lever for lever in levers(memory, {"tensor_parallel_size": 2})}
    assert by_setting["gpu_memory_utilization"].enough is True
    assert by_setting["kv_cache_dtype"].enough is True
    assert by_setting["model"].enough is True  # 14.99 GiB of weights shrink by at least 10
    assert by_setting["tensor_parallel_size"].set == {"tensor_parallel_size": 4}


def test_a_server_that_runs_hears_how_many_full_requests_fit() -> None:
    memory = memory_of(
        "(APIServer pid=40) INFO 08-28 10:12:02 [utils.py:233] non-default args: {'model': 'acme/model-8b', 'max_num_seqs': 64}",
        *V1_DEBUG,
    )
    assert next(lever for lever in memory.levers if "max_num_seqs" in lever.set).set == {"max_num_seqs": 4}


@pytest.mark.parametrize("odd", ["0", "-1", "9" * 400, "9" * 20, "1.2.3", "."])
@pytest.mark.parametrize("log", [V0, V1_DEBUG, V1_SUMMARY, V1_CONSUMED, XPU])
def test_nonsense_figures_make_no_nonsense(log: list[str], odd: str) -> None:
    """A log is a stranger's: a figure that is none, or no amount, is left out or harmless."""
    for row in range(len(log)):
        head, _, message = log[row].partition("] ")
        nonsense = f"{head}] {re.sub(r'[0-9.,]+', odd, message)}"
        memory = read(*log[:row], nonsense, *log[row + 1 :]).memory
        if memory is not None:
            assert all(share.gib >= 0 for share in memory.shares)
            assert all(lever.set.get("gpu_memory_utilization", 0) <= 0.92 for lever in memory.levers)


def restarted(s: Sample) -> str:
    """The same start with half of the context and less than half of the cache."""
    text = s.text
    for old, new in (("4.71", "2.22"), ("38576", "18176"), ("131072", "65536"), ("16.00", "8.00")):
        text = text.replace(old, new)
    return text


def test_of_starts_with_other_figures_the_last_one_counts() -> None:
    s = sample("kv-cache-too-small")
    for text, fits_now, kv in ((s.text + restarted(s), 18176, 2.22), (restarted(s) + s.text, 38576, 4.71)):
        report = ask(text)
        (only,) = report.diagnoses
        assert only.times == 2
        memory = report.memory
        assert memory is not None
        assert (memory.kv_gib, memory.fitting_len, sizes(memory)["KV cache"]) == (kv, fits_now, kv)
        assert any(f"--max-model-len {fits_now}" in row for row in only.fixes[0].run)


@pytest.mark.parametrize("first", [True, False])
def test_another_servers_figures_are_not_its_own(first: bool) -> None:
    """Two containers write into one log: the one that fails has come to no `KV cache size` yet."""
    mine = [f"chat-1  | {row}" for row in undressed(sample("kv-cache-too-small").lines)]
    other = [f"code-1  | {row}" for row in undressed(sample("starting-cuda-graphs").lines)]
    rows = [row for pair in zip_longest(*((mine, other) if first else (other, mine))) for row in pair if row]
    memory = memory_of(*rows)
    assert memory.ranks == 1
    assert (memory.kv_gib, memory.kv_tokens, memory.fitting_len) == (4.71, 38576, 38576)


@pytest.mark.parametrize(("begun", "between"), [(12, 6), (12, 30), (5, 3), (3, 30)])
def test_the_command_of_two_servers_is_that_of_the_one_that_fails(begun: int, between: int) -> None:
    """The other one starts later, so the run that fails holds its arguments, too."""
    mine = [f"chat-1  | {row}" for row in undressed(sample("kv-cache-too-small").lines)]
    there = [
        row.replace("acme/assistant-8b", "acme/other-9b") for row in sample("starting-cuda-graphs").lines
    ]
    other = [f"code-1  | {row}" for row in undressed(there)]
    report = ask("\n".join([*mine[:begun], *other[:between], *mine[begun:], *other[between:]]))
    (only,) = report.diagnoses
    assert report.environment.model == "acme/assistant-8b"
    assert any("acme/assistant-8b" in row for row in only.fixes[0].run)
    assert "other-9b" not in repr(only.fixes)
    assert report.memory is not None
    assert report.memory.utilization == 0.9


def test_of_two_servers_that_fail_the_ranks_are_not_added_up() -> None:
    s = sample("kv-cache-too-small")
    mine = [f"chat-1  | {row}" for row in undressed(s.lines)]
    other = [f"code-1  | {row}" for row in undressed(restarted(s).splitlines())]
    memory = memory_of(*(row for pair in zip_longest(mine, other) for row in pair if row))
    assert memory.ranks == 1
    assert (memory.kv_gib, memory.fitting_len) in ((4.71, 38576), (2.22, 18176))


# ---- on a page ------------------------------------------------------------------------------------------


def page_of(s: Sample, *, everything: bool = False) -> list[str]:
    text = render(ask(s.text), width=80, everything=everything).plain()
    return text.split("\n")


@pytest.mark.parametrize("s", ALL, ids=by_name)
def test_the_budget_stands_on_a_page_only_where_memory_failed_unless_all_is_asked_for(s: Sample) -> None:
    memory = ask(s.text).memory
    headings = ("The memory budget", "The memory of the card")
    assert any(row in headings for row in page_of(s)) == (memory is not None and memory.asked)
    assert any(row in headings for row in page_of(s, everything=True)) == (memory is not None)


@pytest.mark.parametrize("s", FAILED, ids=by_name)
def test_a_page_says_of_a_setting_once_what_it_gives(s: Sample) -> None:
    """In its fix, else among what would change the budget; all of them stand there with --all."""
    report = ask(s.text)
    if report.memory is None or not report.memory.asked:
        return
    brief, whole = "\n".join(page_of(s)), "\n".join(page_of(s, everything=True))
    for lever in report.memory.levers:
        of_fix = any(fix.set.keys() >= lever.set.keys() for fix in report.diagnoses[0].fixes)
        said = f"- {lever.do}"[:60]
        assert (said in brief) == (not of_fix)
        assert said in whole


def test_the_steps_around_a_change_are_not_said_again() -> None:
    s = next(s for s in FAILED if s.name == "kv-cache-too-small")
    assert sum("systemctl restart" in row for row in page_of(s)) == 1
    assert sum("systemctl restart" in row for row in page_of(s, everything=True)) >= 4
    assert sum("# add at the end" in row for row in page_of(s)) == 2  # where it goes is


def test_the_bar_is_as_long_as_the_shares_and_each_has_its_mark_in_words() -> None:
    rows = page_of(next(s for s in ALL if s.name == "kv-cache-too-small-v0"))
    bar = next(row for row in rows if row.startswith("  [") and row.endswith("]")).strip()[1:-1]
    assert len(bar) == 60
    for name, mark, gib in [("weights", "#", 9.38), ("activations", "+", 1.51), ("KV cache", "*", 3.19)]:
        assert bar.count(mark) == pytest.approx(gib / 15.7 * 60, abs=1)
        assert any(row.startswith(f"  {mark} {name}") and f"{gib} GiB" in row for row in rows)
    assert max(map(len, rows)) <= 80


def test_the_lines_of_figures_are_those_of_the_text_as_it_was_given() -> None:
    """A pasted log is read a second time, repaired: its lines are told as they stood."""
    quoted = "\n".join(
        f"> {row}\n>" for row in [engine("0.11.0"), *V1_DEBUG[1:], FAILURE.format(have="4.95", fits=40544)]
    )
    memory = ask(quoted + "\n").memory
    assert memory is not None
    rows = quoted.split("\n")
    assert "estimated maximum model length" in rows[memory.line - 1]
    for share in memory.shares:
        if share.line:
            assert "GiB" in rows[share.line - 1]
