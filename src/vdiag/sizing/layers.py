"""What each layer of a model keeps of a request: keys and values, a latent, or a state of fixed size.

Sizes are the whole model's, in elements; `kv.py` shards and weighs them. The forms are those of vLLM 0.33.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from vdiag.sizing.config import HEADS, HIDDEN, KV_HEADS, LAYERS, MOST_LAYERS, Config, Fields, Unsizable
from vdiag.sizing.states import State, state_of

FULL, SLIDING, CHUNKED, MLA, INDEX, CROSS, MAMBA = (
    "full attention",
    "sliding window",
    "chunked attention",
    "MLA latent",
    "sparse index",
    "cross attention",
    "state",
)

# model types whose attention keeps one compressed vector a token, as vLLM lists them
LATENT = frozenset(
    [
        "axk1",
        "deepseek_v2",
        "deepseek_v3",
        "deepseek_v32",
        "dots3_note",
        "deepseek_mtp",
        "glm5_next",
        "glm5_next_text",
        "glm_moe_dsa",
        "glm4_moe_lite",
        "kimi_k2",
        "kimi_linear",
        "longcat_flash",
        "pangu_ultra_moe",
        "bailing_hybrid",
        "hy_v4",
    ]
)
UNSUPPORTED = frozenset(("deepseek_v4", "deepseek_v41"))  # caches of several compression ratios
ENCODERS = frozenset(
    [
        "bert",
        "roberta",
        "xlm-roberta",
        "modernbert",
        "distilbert",
        "electra",
        "nomic_bert",
        "new",
        "gte",
        "vit",
        "clip",
        "siglip",
        "deberta-v2",
        "mpnet",
        "albert",
    ]
)
# forms that are known here although `transformers` has no class for them
FAMILIAR = LATENT | frozenset(
    [
        "baichuan",
        "chatglm",
        "exaone",
        "internlm",
        "internlm2",
        "kimi_linear",
        "mimo_v2_flash",
        "minicpm",
        "minicpm3",
        "nemotron-nas",
        "nemotron_h",
        "phi3small",
        "xverse",
    ]
)
# a full-attention layer after so many sliding ones, where the file does not list them
EVERY = {
    "gemma2": 2,
    "gemma3_text": 6,
    "gemma3": 6,
    "cohere2": 4,
    "gemma3n_text": 5,
    "gpt_oss": 2,
    "exaone4": 4,
}
WIDER = {"cohere2": 1}  # tokens a window counts more than its field says


@dataclass(frozen=True)
class Attention:
    """Keys and values of one layer, or its latent vector (`kv_heads` 1, `value` 0, the same on every rank)."""

    kind: str
    kv_heads: int
    key: int  # elements of a head
    value: int
    window: int = 0  # tokens; 0: all

    @property
    def latent(self) -> bool:
        return self.kind in (MLA, INDEX)


@dataclass(frozen=True)
class Layer:
    """One layer with all it keeps; nothing where it only computes, or reads what another layer keeps."""

    attention: tuple[Attention, ...] = ()
    state: State | None = None
    shared: bool = False  # reads another layer's cache


def layers_of(config: Config) -> list[Layer]:
    """The layers of the language model in their order.

    Raises:
        Unsizable: a field is missing or wrong, or the model's cache has a form that is not known here.
    """
    fields = config.model
    if fields.type in UNSUPPORTED:
        raise Unsizable(
            f"{config.name}: {fields.path}model_type {fields.type}: its KV cache has several compression ratios, "
            "which vdiag does not compute"
        )
    count = fields.whole(*LAYERS, most=MOST_LAYERS)
    if fields.type in ENCODERS:
        return [Layer()] * count
    kinds = _kinds(fields, count)
    state = state_of(fields) if MAMBA in kinds or "both" in kinds else None
    shared = fields.whole("num_kv_shared_layers", default=0, least=0, most=count)
    blocks = fields.listed("block_configs")
    layers = []
    for at, kind in enumerate(kinds):
        if at >= count - shared:
            layers.append(Layer(shared=True))
        elif kind == MAMBA:
            layers.append(Layer(state=state))
        elif kind == "none":
            layers.append(Layer())
        else:
            of_block = _of_block(fields, blocks, at)
            attention = _attention(config, FULL if kind == "both" else kind, at, of_block)
            layers.append(Layer(attention, state if kind == "both" else None))
    return layers


def head_size(fields: Fields) -> int:
    """Elements of an attention head: given, or the hidden size over the heads."""
    given = fields.whole(
        "head_dim", "hidden_size_per_head", "attention_head_dim", "kv_channels", default=0, least=0
    )
    return given or fields.whole(*HIDDEN) // fields.whole(*HEADS) or 1


def kv_heads(fields: Fields) -> int:
    """KV heads of the whole model; as many as heads where the file says nothing of them."""
    if (
        fields.type == "falcon"
        and not fields.flag("new_decoder_architecture")
        and fields.flag("multi_query", True)
    ):
        return 1
    if fields.type == "dbrx":
        return fields.under("attn_config").whole("kv_n_heads", default=fields.whole(*HEADS))
    if fields.type == "gpt_bigcode" and fields.flag("multi_query", True):
        return 1
    return fields.whole(*KV_HEADS, default=fields.whole(*HEADS))


def is_latent(fields: Fields) -> bool:
    """Whether its attention keeps one latent vector a token (MLA)."""
    return fields.type in LATENT and fields.get("kv_lora_rank") is not None


def _attention(config: Config, kind: str, at: int, heads: int | None) -> tuple[Attention, ...]:
    fields = config.model
    if is_latent(fields):
        rank = fields.whole("kv_lora_rank") + fields.whole("qk_rope_head_dim", least=0)
        latent = Attention(MLA, 1, rank, 0)
        if fields.get("index_topk") is None:
            return (latent,)
        index = fields.whole("index_head_dim", default=128)
        return latent, Attention(INDEX, 1, index + index // 128 * 4, 0)
    head = head_size(fields)
    key = value = head
    count = heads or kv_heads(fields)
    if fields.get("kv_lora_rank") is not None and fields.get("qk_nope_head_dim") is not None:
        key = value = fields.whole("qk_nope_head_dim") + fields.whole("qk_rope_head_dim", least=0)
        count = fields.whole(*HEADS)
    elif fields.type.startswith("mimo_v2"):
        value = fields.whole("v_head_dim", default=head)
    if kind == FULL and fields.type.startswith(("gemma4", "diffusion_gemma")):
        key = value = fields.whole("global_head_dim", default=512)
        count = fields.whole("num_global_key_value_heads", default=count)
    if kind == SLIDING and fields.get("swa_num_key_value_heads") is not None:
        count = fields.whole("swa_num_key_value_heads")
        key = fields.whole("swa_head_dim", default=key)
        value = fields.whole("swa_v_head_dim", default=value)
    window = 0
    if kind == SLIDING:
        window = fields.whole("sliding_window", "sliding_window_size", "window_size") + WIDER.get(
            fields.type, 0
        )
    kept = (Attention(kind, count, key, value, window),)
    if fields.type in ("whisper", "bart", "mbart", "t5"):
        return *kept, Attention(CROSS, count, key, value, fields.whole("max_source_positions", default=1500))
    return kept


def _of_block(fields: Fields, blocks: list[Any], at: int) -> int | None:
    """KV heads of this layer, where each has its own number."""
    each = fields.listed("num_key_value_heads_per_layer") or fields.listed("num_key_value_heads")
    if at < len(each):
        return fields.checked(f"num_key_value_heads[{at}]", each[at])
    if at >= len(blocks) or not isinstance(blocks[at], dict):
        return None
    attention = Fields(blocks[at], fields.name, f"{fields.path}block_configs[{at}].").under("attention")
    group = attention.whole("n_heads_in_group", default=0, least=0)
    if group:
        return max(1, fields.whole(*HEADS) // group)
    return attention.whole("num_key_value_heads", default=0, least=0) or None


def _kinds(fields: Fields, count: int) -> list[str]:
    """What each layer keeps: FULL, SLIDING, MAMBA, `both` or `none`."""
    for reading in (_blocks, _pattern, _named, _recurrent, _listed_indices, _windows):
        found = reading(fields, count)
        if found:
            return found
    return [FULL] * count


def _blocks(fields: Fields, count: int) -> list[str]:
    """Nemotron NAS: a block without attention keeps nothing."""
    blocks = fields.listed("block_configs")
    if not blocks:
        return []
    if len(blocks) != count:
        raise Unsizable(
            f"{fields.name}: {fields.path}block_configs has {len(blocks)} entries for {count} layers"
        )
    kinds = []
    for block in blocks:
        attention = block.get("attention") if isinstance(block, dict) else None
        skipped = isinstance(attention, dict) and (
            attention.get("no_op") or attention.get("replace_with_linear")
        )
        kinds.append("none" if skipped or attention is None else FULL)
    return kinds


def _pattern(fields: Fields, count: int) -> list[str]:
    """Nemotron-H: a letter a layer, `M` Mamba, `*` attention, `-` an MLP, `E` experts."""
    pattern = fields.text("hybrid_override_pattern")
    if pattern and len(pattern) != count:
        raise Unsizable(
            f"{fields.name}: {fields.path}hybrid_override_pattern has {len(pattern)} letters for {count} layers"
        )
    letters = {"M": MAMBA, "*": FULL}
    return [letters.get(letter, "none") for letter in pattern]


_NAMES = {
    "full_attention": FULL,
    "attention": FULL,
    "global_attention": FULL,
    "sliding_attention": SLIDING,
    "local_attention": SLIDING,
    "chunked_attention": FULL,  # vLLM gives it whole blocks by default
    "linear_attention": MAMBA,
    "mamba": MAMBA,
    "mamba2": MAMBA,
    "conv": MAMBA,
    "hybrid": "both",
}


def _named(fields: Fields, count: int) -> list[str]:
    """A name a layer."""
    if fields.type == "falcon_h1":
        return ["both"] * count
    for name in ("layer_types", "layers_block_type", "block_types"):
        said = fields.listed(name)
        if not said or not all(isinstance(item, str) for item in said):
            continue
        if len(said) < count:
            raise Unsizable(f"{fields.name}: {fields.path}{name} has {len(said)} entries for {count} layers")
        if fields.type in ("minimax", "minimax_text_01") or any(item in _NAMES for item in said):
            if not (SLIDING in map(_NAMES.get, said) and _windowless(fields)):
                return [_zamba(fields, _NAMES.get(item, "none")) for item in said[:count]]
            return [FULL] * count
    if fields.type == "zamba2":
        both = fields.listed("hybrid_layer_ids")
        return ["both" if at in both else MAMBA for at in range(count)]
    return []


def _zamba(fields: Fields, kind: str) -> str:
    return "both" if kind == FULL and fields.type == "zamba2" else kind


def _recurrent(fields: Fields, count: int) -> list[str]:
    """Models with layers that keep a state, told by a period or a list."""
    if fields.type in ("mamba", "mamba2", "falcon_mamba"):
        return [MAMBA] * count
    if fields.type == "jamba":
        period, offset = (
            fields.whole("attn_layer_period", default=8),
            fields.whole("attn_layer_offset", default=4, least=0),
        )
        return [FULL if at % period == offset else MAMBA for at in range(count)]
    if fields.type in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"):
        every = fields.whole("full_attention_interval", default=4)
        return [FULL if (at + 1) % every == 0 else MAMBA for at in range(count)]
    return []


def _listed_indices(fields: Fields, count: int) -> list[str]:
    """Layers with attention listed by number; the others keep a state."""
    if fields.type == "kimi_linear":
        full = fields.under("linear_attn_config").listed("full_attn_layers")  # counted from one
        return [FULL if at + 1 in full else MAMBA for at in range(count)]
    for name in ("attn_layer_indices", "full_attn_idxs"):
        full = fields.listed(name)
        if full:
            return [FULL if at in full else MAMBA for at in range(count)]
    kinds = fields.listed("attn_type_list") or fields.listed("attn_types")
    if len(kinds) >= count:
        return [FULL if kind == 1 else MAMBA for kind in kinds[:count]]
    return []


def _windowless(fields: Fields) -> bool:
    window = fields.get("sliding_window", "sliding_window_size", "window_size")
    return not window or isinstance(window, bool) or fields.flag("use_sliding_window", True) is False


def _windows(fields: Fields, count: int) -> list[str]:
    """Sliding windows in every layer, in all but each n-th, or in the later ones."""
    pattern = fields.listed("hybrid_layer_pattern")
    if len(pattern) >= count:  # MiMo: 1 slides
        return [SLIDING if said == 1 else FULL for said in pattern[:count]]
    if _windowless(fields) or fields.type.startswith("llama4"):
        return []
    text = fields.text("sliding_window_pattern")
    if re.fullmatch("[LG]+", text):  # EXAONE: a repeated pattern of local and global layers
        return [SLIDING if text[at % len(text)] == "L" else FULL for at in range(count)]
    every = EVERY.get(fields.type)
    if isinstance(fields.get("sliding_window_pattern"), int) or every:
        every = fields.whole(
            "sliding_window_pattern", "_sliding_window_pattern", default=every, most=MOST_LAYERS
        )
        return [FULL if (at + 1) % every == 0 else SLIDING for at in range(count)]
    if fields.type.startswith(("qwen2", "qwen3")):
        first = fields.whole("max_window_layers", default=count, least=0)
        return [SLIDING if at >= first else FULL for at in range(count)]
    return [SLIDING] * count
