"""How many parameters a model has, by its config: what is sharded over ranks apart from what each rank holds whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from vdiag.sizing.config import HEADS, HIDDEN, MOST_LAYERS, Config, Fields, Unsizable
from vdiag.sizing.layers import Layer, head_size, is_latent, kv_heads

GATED_NOT = frozenset(  # model types whose MLP has two matrices, without a gate
    [
        "gpt2",
        "gpt_neox",
        "gptj",
        "gpt_j",
        "opt",
        "bloom",
        "falcon",
        "phi",
        "starcoder2",
        "gpt_bigcode",
        "mpt",
        "whisper",
        "nemotron",
        "nemotron_h",
        "stablelm_epoch",
        "codegen",
    ]
)
UNCOUNTED = frozenset(
    ["dbrx", "mpt", "qwen", "zamba2"]
)  # whose fields mean something else, or whose layers share
EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
INTERMEDIATE = (
    "intermediate_size",
    "ffn_dim",
    "n_inner",
    "decoder_ffn_dim",
    "ffn_hidden_size",
    "block_ff_dim",
)


@dataclass
class Part:
    """Parameters of one layer, by how they are kept."""

    attention: int = 0  # of matrices, sharded
    kv: int = 0  # of keys and values: copied where there are fewer heads than ranks
    mlp: int = 0
    experts: int = 0
    padding: int = 0  # of experts, to what the kernels for 4-bit floats need: 256 by 128
    whole: int = 0  # on every rank: norms, routers, MLA's compressing projections


@dataclass
class Parameters:
    """Parameters of a model."""

    embedding: int
    head: int  # 0: the embedding is used
    encoder: int = 0  # of a model that has one, sharded
    layers: list[Part] = field(default_factory=list)

    @property
    def total(self) -> int:
        return (
            self.embedding
            + self.head
            + self.encoder
            + sum(part.attention + part.kv + part.mlp + part.experts + part.whole for part in self.layers)
        )


def parameters_of(config: Config, layers: list[Layer]) -> Parameters:
    """The parameters of the language model; raises Unsizable where a field for them is missing."""
    fields = config.model
    if fields.type in UNCOUNTED:
        raise Unsizable(
            f"{config.name}: the parameters of {fields.path}model_type {fields.type} are not counted"
        )
    hidden, vocab = fields.whole(*HIDDEN), fields.whole("vocab_size", "padded_vocab_size")
    tied = fields.get("tie_word_embeddings")
    if "tie_word_embeddings" not in fields.raw and config.top.get("tie_word_embeddings") is not None:
        tied = config.top.get("tie_word_embeddings")
    embedding = vocab * hidden
    per_layer = fields.whole("hidden_size_per_layer_input", default=0, least=0)
    if per_layer:  # Gemma: an embedding of its own for each layer
        embedding += fields.whole("vocab_size_per_layer_input", default=vocab) * per_layer * len(layers)
    found = Parameters(embedding, 0 if tied else vocab * hidden, _encoder(fields, hidden))
    for at, layer in enumerate(layers):
        found.layers.append(_layer(config, at, layer, hidden, per_layer))
    return found


def _encoder(fields: Fields, hidden: int) -> int:
    layers = fields.whole("encoder_layers", default=0, least=0, most=MOST_LAYERS)
    return layers * hidden * (4 * hidden + 2 * fields.whole("encoder_ffn_dim", default=4 * hidden))


def _layer(config: Config, at: int, layer: Layer, hidden: int, per_layer: int) -> Part:
    fields = config.model
    part = Part(whole=2 * hidden)
    if layer.attention or layer.shared:
        _attention(fields, layer, hidden, part)
    if layer.state is not None:
        part.attention += _state(fields, layer, hidden)
    if per_layer:
        part.mlp += 2 * hidden * per_layer
    if _has_mlp(fields, at):
        _mlp(fields, at, hidden, part)
    return part


def _attention(fields: Fields, layer: Layer, hidden: int, part: Part) -> None:
    heads = fields.whole(*HEADS)
    if fields.get("kv_lora_rank") is not None and (
        is_latent(fields) or fields.get("qk_nope_head_dim") is not None
    ):
        rank, rope = fields.whole("kv_lora_rank"), fields.whole("qk_rope_head_dim", least=0)
        nope, value = fields.whole("qk_nope_head_dim"), fields.whole("v_head_dim")
        query = heads * (nope + rope)
        compressed = fields.whole("q_lora_rank", default=0, least=0)
        part.attention += (
            (compressed or hidden) * query + rank * heads * (nope + value) + heads * value * hidden
        )
        part.whole += hidden * compressed + hidden * (rank + rope)
        if fields.get("index_topk") is not None:
            index = fields.whole("index_n_heads", default=64) * fields.whole("index_head_dim", default=128)
            part.whole += compressed * index + hidden * fields.whole("index_head_dim", default=128)
        return
    kept = layer.attention[0] if layer.attention else None
    key = kept.key if kept else head_size(fields)
    value = kept.value if kept else key
    count = kept.kv_heads if kept else kv_heads(fields)
    gate = (
        2 if fields.type.startswith(("qwen3_next", "qwen3_5")) else 1
    )  # the output's gate comes with the query
    part.attention += hidden * heads * key * gate + heads * value * hidden
    if not layer.shared:
        part.kv += hidden * count * (key + value)
    if len(layer.attention) > 1:  # cross attention
        part.attention += 2 * hidden * heads * key
        part.kv += 2 * hidden * count * key


def _state(fields: Fields, layer: Layer, hidden: int) -> int:
    """Parameters of a recurrent mixer: into its inner width and out of it."""
    state = layer.state
    assert state is not None
    if state.kind == "gated delta net":
        keys = fields.whole("linear_num_key_heads") * fields.whole("linear_key_head_dim")
        heads = fields.whole("linear_num_value_heads")
        values = heads * fields.whole("linear_value_head_dim")
        return hidden * (2 * keys + 2 * values + 2 * heads) + values * hidden
    if state.kind == "short convolution":
        return 4 * hidden * hidden
    if state.kind == "linear attention":
        width = fields.whole(*HEADS) * head_size(fields)
        return 5 * hidden * width
    if state.kind == "KDA":
        linear = fields.under("linear_attn_config")
        width = linear.whole("num_heads") * linear.whole("head_dim")
        return 4 * hidden * width + 4 * hidden * linear.whole("head_dim")
    if state.kind == "Mamba":
        inner = state.recurrent // max(1, fields.whole("mamba_d_state", "state_size", default=16))
        return 3 * hidden * inner + inner * (hidden // 16 * 2 + 2 * 16)
    kernel = fields.whole("mamba_d_conv", "conv_kernel", default=4)
    grouped = state.grouped // max(1, kernel - 1)
    inner = (state.conv - state.grouped) // max(1, kernel - 1)
    return hidden * (2 * inner + grouped) + inner * hidden


def _has_mlp(fields: Fields, at: int) -> bool:
    pattern = fields.text("hybrid_override_pattern")
    if at < len(pattern):
        return pattern[at] in "-E"
    if fields.type in ("mamba", "mamba2", "falcon_mamba"):
        return False
    if fields.type == "zamba2":
        return at in fields.listed("hybrid_layer_ids")
    return True


def _mlp(fields: Fields, at: int, hidden: int, part: Part) -> None:
    matrices = 2 if fields.type in GATED_NOT else 3
    experts = _experts(fields, at)
    block = fields.listed("block_configs")
    if at < len(block) and isinstance(block[at], dict):
        part.mlp += matrices * hidden * _width_of_block(fields, block[at], at, hidden)
        return
    if not experts:
        part.mlp += matrices * hidden * _width(fields, at, hidden)
        return
    if fields.type.startswith("llama4"):
        width = fields.whole("intermediate_size")  # that of a layer without experts has another name
    else:
        width = fields.whole("moe_intermediate_size", default=_width(fields, at, hidden))
    part.experts += experts * matrices * hidden * width
    part.padding += experts * matrices * (_up(hidden, 256) * _up(width, 128) - hidden * width)
    part.whole += experts * hidden
    shared = fields.whole(
        "shared_expert_intermediate_size",
        "shared_intermediate_size",
        "moe_shared_expert_intermediate_size",
        default=0,
        least=0,
    )
    if not shared:
        shared = fields.whole("n_shared_experts", "moe_num_shared_experts", default=0, least=0) * width
    if fields.type.startswith("llama4"):
        shared = fields.whole("intermediate_size")
    part.mlp += matrices * hidden * shared


def _experts(fields: Fields, at: int) -> int:
    """How many experts this layer has; 0: it has an ordinary MLP."""
    if not isinstance(fields.get(*EXPERTS), (int, float)):
        return 0
    experts = fields.whole(*EXPERTS, least=0)
    if experts < 2:
        return 0
    pattern = fields.text("hybrid_override_pattern")
    if at < len(pattern):
        return experts if pattern[at] == "E" else 0
    listed = fields.get("moe_layer_freq")
    if isinstance(listed, list):
        return experts if at < len(listed) and listed[at] else 0
    if at < fields.whole("first_k_dense_replace", default=0, least=0) or at in fields.listed(
        "mlp_only_layers"
    ):
        return 0
    if fields.type == "jamba":
        period, offset = (
            fields.whole("expert_layer_period", default=2),
            fields.whole("expert_layer_offset", default=1, least=0),
        )
        return experts if at % period == offset else 0
    if fields.listed("moe_layers"):
        return experts if at in fields.listed("moe_layers") else 0
    step = fields.whole("decoder_sparse_step", "interleave_moe_layer_step", default=1)
    return experts if (at + 1) % step == 0 else 0


def _width(fields: Fields, at: int, hidden: int) -> int:
    for name in INTERMEDIATE:
        each = fields.listed(name)
        if each:
            if at >= len(each):
                raise Unsizable(f"{fields.name}: {fields.path}{name} has {len(each)} entries, no {at}")
            return fields.checked(f"{name}[{at}]", each[at])
    if fields.type.startswith("llama4"):
        return fields.whole("intermediate_size_mlp", *INTERMEDIATE)
    width = fields.whole(*INTERMEDIATE, default=4 * hidden)
    if fields.type == "lfm2" and fields.flag("block_auto_adjust_ff_dim"):
        width = int(fields.number("block_ffn_dim_multiplier", 1.0) * (2 * width // 3))
        return max(1, _up(width, fields.whole("block_multiple_of", default=256)))
    return width


def _width_of_block(fields: Fields, block: dict[str, object], at: int, hidden: int) -> int:
    """Nemotron NAS: the width as a multiple of the hidden size, two thirds of it, rounded up to 256."""
    ffn = Fields(block, fields.name, f"{fields.path}block_configs[{at}].").under("ffn")
    if ffn.flag("no_op"):
        return 0
    if ffn.flag("replace_with_linear"):
        return hidden // 3
    given = ffn.whole("intermediate_size", default=0, least=0)
    width = int(2 * ffn.number("ffn_mult", 4.0) * hidden / 3)
    return given or -(-width // 256) * 256


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
