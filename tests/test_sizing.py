"""The sizes of `vdiag memory` against those that vLLM itself prints.

`sizing/engine.json` holds small made-up models with what vLLM 0.32 said of their KV cache when it was started with
them on a CPU with random weights: the groups, pages and blocks of its own `get_kv_cache_configs`, and the tokens of
its log. `sizing/models.json` holds the architectures of public models; their printed figures stand below, from logs
of many versions. `sizing/counts.json` holds architectures with the parameters, in billions, that they are known for.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vdiag.sizing import kv
from vdiag.sizing.config import Config
from vdiag.sizing.fit import GIB
from vdiag.sizing.kv import Pool, Setting
from vdiag.sizing.layers import layers_of
from vdiag.sizing.parameters import parameters_of
from vdiag.sizing.plan import Ask, plan

HERE = Path(__file__).parent / "sizing"
MODELS: dict[str, dict[str, Any]] = json.loads((HERE / "models.json").read_text())
COUNTS: dict[str, dict[str, Any]] = json.loads((HERE / "counts.json").read_text())
ENGINE: list[dict[str, Any]] = json.loads((HERE / "engine.json").read_text())


def pool(raw: dict[str, Any], setting: Setting) -> Pool:
    made = kv.pool(kv.grouped(kv.specs_of(layers_of(Config(raw, "config.json")), setting)))
    assert made is not None
    return made


def capacity(made: Pool, setting: Setting, size: int) -> int:
    """Tokens, as vLLM prints them since 0.18: the requests of the full length that fit, times their length."""
    return int(size // made.block_bytes / made.request(setting.length, setting) * setting.length)


# ---- the engine itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ENGINE, ids=lambda case: case["name"])
def test_the_cache_is_cut_as_the_engine_cuts_it(case: dict[str, Any]) -> None:
    said = case["said"]
    setting = Setting(
        length=said["len"], tp=said["tp"], pp=said["pp"], block=said["plain_block"], batched=said["inflight"], overlap=1,
        kv_dtype=said["kv_dtype"], prefix_caching=said["pc"], state_dtype="float32",  # on a CPU vLLM keeps states in 32 bits
    )  # fmt: skip
    layers = layers_of(Config(case["config"], "config.json"))
    groups = kv.grouped(kv.specs_of(layers, setting))
    pools = [
        made for stage in kv.stages(len(layers), setting.pp) if (made := kv.pool(groups, stage)) is not None
    ]
    made = max(pools, key=lambda made: made.block_bytes)
    assert setting.pp > 1 or sorted(
        [len(group.specs), group.specs[0].page, group.blocks(setting.length, setting)]
        for group in made.groups
    ) == sorted(said["groups"])
    assert said["avail"] // made.block_bytes == said["blocks"]
    assert capacity(made, setting, said["avail"]) == said["tokens"]


# ---- public logs: KV cache memory and the tokens it holds --------------------------------------------------

# model, KV cache memory in GiB, tokens, what the server was told; GiB are printed with two decimals
HELD: list[tuple[str, float, int, dict[str, Any]]] = [
    ("llama-3-8b", 3.81, 1952 * 16, {"length": 20_000}),
    ("llama-3-8b", 2.89, 1478 * 16, {"length": 29_000}),
    ("llama-3-8b", 19.92, 163_168, {"length": 32_768}),
    ("qwen2.5-1.5b", 0.56, 20_992, {"length": 4096}),
    ("qwen2.5-7b", 5.77, 6749 * 16, {"length": 8192}),
    ("qwen3-4b", 3.06, 1394 * 16, {"length": 10_000}),
    ("qwen3-8b", 50.32, 366_400, {"length": 40_960}),
    ("qwen3-32b", 33.66, 275_760, {"length": 40_960, "tp": 2}),
    ("llama-3-70b-fp8", 32.06, 420_208, {"length": 131_072, "tp": 4}),
    ("mistral-small-24b", 28.20, 184_832, {"length": 16_000, "block": 128}),
    ("phi-4-mini", 26.60, 13_618 * 16, {"length": 2048}),
    ("qwen3-30b-a3b-fp8", 10.55, 230_528, {"length": 100_000, "kv_dtype": "fp8"}),
    ("qwen3.5-35b-a3b", 5.98, 567_978, {"length": 131_072, "kv_dtype": "fp8", "batched": 8192}),
    ("qwen3.5-27b", 4.99, 302_921, {"length": 131_072, "kv_dtype": "fp8", "tp": 2, "batched": 8192}),
    ("qwen3.5-9b", 10.78, 342_528, {"length": 65_536, "prefix_caching": False}),
]


@pytest.mark.parametrize(("model", "gib", "tokens", "told"), HELD)
def test_the_tokens_that_fit_are_those_a_log_prints(
    model: str, gib: float, tokens: int, told: dict[str, Any]
) -> None:
    setting = Setting(**told)
    rounding = max(0.005, 0.006 / gib)
    assert capacity(pool(MODELS[model], setting), setting, int(gib * GIB)) == pytest.approx(
        tokens, rel=rounding
    )


def test_four_ranks_of_which_another_has_less_memory() -> None:
    # The log names 8.11 GiB of one rank of four and the tokens that all of them hold.
    setting = Setting(length=40_960, tp=4)
    held = capacity(pool(MODELS["qwen3-235b-a22b-fp8"], setting), setting, int(8.11 * GIB))
    assert held == pytest.approx(178_880, rel=0.03)


# model, GiB of one request, its length, what the server was told
NEEDED: list[tuple[str, float, int, dict[str, Any]]] = [
    ("llama-3-8b", 16.00, 131_072, {}),
    ("qwen3-30b-a3b-fp8", 10.12, 221_000, {"kv_dtype": "fp8"}),
    ("gpt-oss-120b", 4.79, 131_072, {"batched": 8192, "overlap": 1}),  # 0.11: one batch in flight
    ("gpt-oss-20b", 3.10, 131_072, {"batched": 2048}),
    ("qwen3.5-27b", 8.18, 131_072, {"prefix_caching": False}),
    ("llama-4-scout", 24.00, 1_048_576, {"tp": 8}),
]


@pytest.mark.parametrize(("model", "gib", "length", "told"), NEEDED)
def test_one_request_needs_what_the_refusal_says(
    model: str, gib: float, length: int, told: dict[str, Any]
) -> None:
    setting = Setting(length=length, **told)
    assert pool(MODELS[model], setting).need(length, setting) / GIB == pytest.approx(gib, abs=0.006)


@pytest.mark.parametrize(
    ("model", "gib", "longest", "told"),
    [
        ("qwen3-30b-a3b-fp8", 5.59, 122_080, {"kv_dtype": "fp8"}),
        ("gpt-oss-120b", 4.06, 109_776, {"batched": 8192, "overlap": 1}),
        ("qwen3.5-27b", 7.04, 112_896, {"prefix_caching": False}),
    ],
)
def test_the_longest_context_is_the_one_that_vllm_estimates(
    model: str, gib: float, longest: int, told: dict[str, Any]
) -> None:
    setting = Setting(length=221_000, **told)
    made = pool(MODELS[model], setting)
    # These versions did not yet reserve a block.
    found = kv.longest(made, setting, int(gib * GIB) + made.block_bytes, 262_144)
    assert found == pytest.approx(longest, rel=0.002)


def test_the_older_count_of_tokens_divides_the_blocks_by_the_groups() -> None:
    # 0.19 with 21.43 GiB: 467,712 tokens, and 11.79 requests of 131,072 tokens.
    setting = Setting(length=131_072, kv_dtype="fp8")
    made = pool(MODELS["qwen3.5-122b-a10b"], setting)
    blocks = int(21.43 * GIB) // made.block_bytes
    assert blocks // len(made.groups) * made.block == 467_712
    assert blocks / made.request(131_072, setting) == pytest.approx(11.79, abs=0.005)


# ---- public logs: the weights -----------------------------------------------------------------------------

LOADED = [
    ("llama-3-8b", 1, 14.96),
    ("llama-3-8b", 2, 7.48),
    ("qwen2.5-1.5b", 1, 2.89),
    ("qwen2.5-7b", 1, 14.25),
    ("qwen2.5-14b", 2, 13.95),
    ("qwen2.5-32b", 2, 30.73),
    ("qwen3-4b", 1, 7.56),
    ("phi-4-mini", 1, 7.17),
    ("qwen3-30b-a3b-fp8", 1, 29.09),
    ("gpt-oss-20b", 1, 13.72),
    ("gpt-oss-120b", 1, 65.97),
    ("gpt-oss-120b", 1, 64.38),  # with other kernels, which pad less
    ("gpt-oss-20b", 1, 13.47),
    ("llama-3-70b-fp8", 1, 67.72),
    ("llama-3-70b-fp8", 2, 33.88),
    ("qwen3-0.6b", 1, 1.12),
    ("qwen3-32b", 1, 61.03),
    ("qwen3-32b", 2, 30.59),
    ("llama-3-405b-fp8", 8, 57.75),
]


@pytest.mark.parametrize(("model", "tp", "gib"), LOADED)
def test_the_weights_are_those_a_log_prints(model: str, tp: int, gib: float) -> None:
    made = plan(Config(MODELS[model], model), [], Ask(card=80 * GIB, tp=tp))
    assert made.memory.shares[0].what == "weights"
    assert made.memory.shares[0].gib == pytest.approx(gib, rel=0.03)


@pytest.mark.parametrize(("name", "case"), COUNTS.items(), ids=list(COUNTS))
def test_parameters_are_as_many_as_the_model_is_known_for(name: str, case: dict[str, Any]) -> None:
    config = Config(case["config"], name)
    counted = parameters_of(config, layers_of(config)).total / 1e9
    assert counted == pytest.approx(case["billion"], rel=0.015)


def test_latent_caches_are_not_divided() -> None:
    # 61 layers of 512 + 64 numbers, one vector a token on each rank
    deepseek = MODELS["deepseek-coder-v2-lite"]
    sizes = {tp: pool(deepseek, Setting(length=4096, tp=tp, block=64)).block_bytes for tp in (1, 2, 8)}
    assert set(sizes.values()) == {27 * (512 + 64) * 2 * 64}


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [(32, 2, [16, 16]), (61, 8, [7, 7, 8, 8, 8, 8, 8, 7]), (5, 3, [2, 2, 1]), (3, 3, [1, 1, 1])],
)
def test_layers_are_dealt_to_stages_as_vllm_deals_them(layers: int, pp: int, sizes: list[int]) -> None:
    dealt = kv.stages(layers, pp)
    assert [len(stage) for stage in dealt] == sizes
    assert [at for stage in dealt for at in stage] == list(range(layers))
