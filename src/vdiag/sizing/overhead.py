"""What a server takes besides weights and KV cache, estimated: nothing in a config says it exactly.

Each figure is in bytes and holds for the common kernels on CUDA; the peak is that of vLLM's profiling run.
"""

from __future__ import annotations

from vdiag.sizing.config import HEADS, HIDDEN, Config
from vdiag.sizing.kv import MODEL_BYTES, Setting
from vdiag.sizing.layers import head_size
from vdiag.sizing.parameters import EXPERTS, INTERMEDIATE

MIB = 1 << 20
LOW, HIGH = 0.5, 2.0  # how far what vLLM prints was from these estimates


def activations(config: Config, setting: Setting, seqs: int) -> int:
    """The peak of the profiling run: a batch through one layer, or the sampler, whichever is more.

    A batch holds the residual stream and a layer's widest product; the sampler holds the logits of all requests in
    32 bits about four times over (scaled, sorted, their indices, the probabilities).
    """
    fields = config.model
    hidden, vocab = fields.whole(*HIDDEN), fields.whole("vocab_size", default=32_000)
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
    sampler = min(seqs, setting.batched) * vocab * 4 * 4
    return max(batch, sampler) + batch // 4


def _width(config: Config) -> int:
    fields = config.model
    for name in INTERMEDIATE:
        each = fields.listed(name)
        if each:
            return max(fields.checked(name, item) for item in each)
    return fields.whole(*INTERMEDIATE, default=4 * fields.whole(*HIDDEN))


def non_torch(setting: Setting) -> int:
    """What CUDA libraries and, between cards, NCCL take outside PyTorch."""
    return (200 if setting.tp * setting.pp == 1 else 1000) * MIB


def graphs(layers: int, setting: Setting, eager: bool) -> int:
    """The CUDA graphs: some of each captured batch size in each layer."""
    return 0 if eager else int((120 + 12 * layers / setting.pp) * MIB)
