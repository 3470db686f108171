"""What a server takes besides weights and KV cache, estimated: nothing in a config says it exactly.

Each figure is in bytes and holds for the common kernels on CUDA; the peak is that of vLLM's profiling run.
"""

from __future__ import annotations

from vdiag.sizing.config import HEADS, HIDDEN, Config
from vdiag.sizing.kv import MODEL_BYTES, Setting
from vdiag.sizing.layers import head_size
from vdiag.sizing.parameters import EXPERTS, INTERMEDIATE

MIB = 1 << 20
LOW, HIGH = 0.6, 1.7  # how far what vLLM prints was from these estimates
SAMPLED = 2.5  # copies of all logits in 32 bits that the sampler holds
SAMPLED_BEFORE = 9.7  # in 0.11 and before: scaled, sorted, indexed and summed one after the other


def logits(config: Config, setting: Setting, seqs: int) -> int:
    """The logits of all requests of a batch in 32 bits."""
    return min(seqs, setting.batched) * config.model.whole("vocab_size", default=32_000) * 4


def activations(config: Config, setting: Setting, seqs: int) -> int:
    """The peak of the profiling run: a batch through one layer, or the sampler, whichever is more.

    A batch holds the residual stream and a layer's widest product.
    """
    fields = config.model
    hidden = fields.whole(*HIDDEN)
    size = MODEL_BYTES[setting.dtype]
    wide = _width(config)
    if isinstance(fields.get(*EXPERTS), int) and fields.get(*EXPERTS) > 1:
        active = fields.whole(
            "num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts", default=2
        )
        # each token goes to several experts, and comes back from each
        per_token = active * (3 * fields.whole("moe_intermediate_size", default=wide) // setting.tp + hidden)
    else:
        per_token = 3 * wide // setting.tp
    attention = 3 * fields.whole(*HEADS) * head_size(fields) // setting.tp
    batch = setting.batched * size * (3 * hidden + max(per_token, attention))
    return max(batch, int(SAMPLED * logits(config, setting, seqs)))


def _width(config: Config) -> int:
    fields = config.model
    for name in INTERMEDIATE:
        each = fields.listed(name)
        if each:
            return max(fields.checked(name, item) for item in each)
    return fields.whole(*INTERMEDIATE, default=4 * fields.whole(*HIDDEN))


def non_torch(setting: Setting) -> int:
    """What CUDA libraries and, between cards, NCCL take outside PyTorch."""
    cards = setting.tp * setting.pp
    return (140 + 420 * (cards - 1).bit_length()) * MIB


def graphs(layers: int, setting: Setting, eager: bool) -> int:
    """The CUDA graphs: some of each captured batch size in each layer."""
    return 0 if eager else int((120 + 12 * layers / setting.pp) * MIB)
