"""Makes `defaults.json`: what `transformers` fills in where a config.json leaves a field out.

A config nested in another is saved without the fields that have their default. Run it where transformers is
installed, and write what it prints to `defaults.json`:

    python src/vdiag/sizing/extract_defaults.py > src/vdiag/sizing/defaults.json
"""

from __future__ import annotations

import json
import logging
from typing import Any

FIELDS = [
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "vocab_size",
    "max_position_embeddings",
    "sliding_window",
    "sliding_window_pattern",
    "use_sliding_window",
    "max_window_layers",
    "tie_word_embeddings",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_intermediate_size",
    "n_shared_experts",
    "attention_chunk_size",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
    "num_kv_shared_layers",
    "global_head_dim",
    "num_global_key_value_heads",
    "full_attention_interval",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
    "shared_expert_intermediate_size",
    "hidden_size_per_layer_input",
    "vocab_size_per_layer_input",
    "first_k_dense_replace",
    "decoder_sparse_step",
]


def defaults() -> dict[str, dict[str, Any]]:
    """The numbers and switches of every language model type, as its class sets them."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # type: ignore[import-not-found]

    found = {}
    for model_type in sorted(CONFIG_MAPPING.keys()):
        made = _made(CONFIG_MAPPING[model_type])
        fields = {name: value for name in FIELDS if (value := _plain(made, name)) is not None}
        if {"num_hidden_layers", "vocab_size", "num_attention_heads", "hidden_size"} <= fields.keys():
            wider = {
                "hidden_size": 4 * fields["hidden_size"],
                "num_attention_heads": 2 * fields["num_attention_heads"],
            }
            other = _made(CONFIG_MAPPING[model_type], **wider)
            # What follows from another field is no default.
            found[model_type] = {
                name: value for name, value in fields.items() if name in wider or _plain(other, name) == value
            }
    return found


def _made(kind: Any, **fields: float) -> Any:
    try:
        return kind(**fields)
    except Exception:  # needs arguments, or packages that are not there
        return None


def _plain(made: Any, name: str) -> int | float | bool | None:
    try:
        value = getattr(made, name, None)
    except Exception:  # varies from layer to layer
        value = vars(made).get(name)
    return value if isinstance(value, (int, float)) else None


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print("{")
    print(",\n".join(f"{json.dumps(name)}: {json.dumps(of)}" for name, of in defaults().items()))
    print("}")
