"""What the log itself rules out as a remedy. Each function says why, in a clause; empty: nothing speaks against it.

`facts` is anything with `get(name)`: a mapping of what the server said of itself, or the facts of a diagnosis.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

BIT_16 = (
    "",
    "auto",
    "bfloat16",
    "float16",
    "half",
    "bf16",
    "fp16",
)  # what --kv-cache-dtype may be for 16 bits
_QUANTISED = re.compile(
    r"(?<![a-z])(?:awq|gptq|gguf|bnb|fp8|fp4|nvfp4|mxfp4|int[48]|w[48]a(?:16|8|4)|[2-8][-_]?bit|exl2|aqlm|gpt-oss)(?![a-z])",
    re.IGNORECASE,
)
_OLD_CARD = re.compile(  # compute capability below 8.9
    r"\b(?:Tesla|V100|T4|P100|P40|A100|A800|A10G?|A16|A2|A30|A40|RTX (?:[23]0\d\d|A\d{4})|GTX|TITAN|Quadro)\b"
)


class Facts(Protocol):
    """Looks facts up by name."""

    def get(self, name: str, /) -> Any: ...


def text(facts: Facts, name: str) -> str:
    """A fact as lower-case text without a module's name (`torch.bfloat16` is `bfloat16`); empty: unknown."""
    value = facts.get(name)
    return "" if value is None else str(value).rpartition(".")[2].lower()


def whole(facts: Facts, name: str) -> int | None:
    """A fact as a positive integer; None: unknown."""
    value = facts.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = int(float(str(value).replace(",", "")))
    except (ValueError, OverflowError):
        return None
    return number if number > 0 else None


def on_cpu(facts: Facts) -> bool:
    """Whether the server runs on the CPU."""
    return "cpu" in (text(facts, "device"), text(facts, "platform"))


def eager(facts: Facts) -> str:
    """Against --enforce-eager."""
    if text(facts, "enforce_eager") == "true":
        return "it runs without CUDA graphs already"
    return "the CPU backend has no CUDA graphs" if on_cpu(facts) else ""


def fp8_cache(facts: Facts) -> str:
    """Against --kv-cache-dtype fp8."""
    if text(facts, "kv_cache_dtype") not in BIT_16:
        return f"the KV cache is stored as {facts.get('kv_cache_dtype')} already"
    if on_cpu(facts):
        return "the CPU backend has no 8-bit KV cache in most versions"
    if text(facts, "platform") in ("tpu", "hpu", "neuron", "xpu"):
        return f"{facts.get('platform')} has no 8-bit KV cache in most versions"
    capability = facts.get("capability")
    if isinstance(capability, (int, float)) and not isinstance(capability, bool) and capability < 8.9:
        return f"the card's compute capability is {capability}"
    if _OLD_CARD.search(str(facts.get("gpu") or "")):
        return f"the card ({facts.get('gpu')}) is older than 8-bit numbers"
    return ""


def quantising(facts: Facts) -> str:
    """Against a quantised build of the model."""
    if text(facts, "quantization") not in ("", "none"):
        return f"the weights are quantised already ({facts.get('quantization')})"
    if name := _QUANTISED.search(str(facts.get("model") or "")):
        return f"the weights are quantised already ({name[0]})"
    return ""


def larger_share(facts: Facts) -> str:
    """Against a larger --gpu-memory-utilization."""
    return "the KV cache has a fixed size" if facts.get("kv_cache_memory_bytes") else ""


def smaller_batch(facts: Facts) -> str:
    """Against a smaller --max-num-batched-tokens."""
    return "without chunked prefill a batch holds a whole prompt" if facts.get("whole_prompts") else ""


def more_cards(facts: Facts) -> str:
    """Against a larger --tensor-parallel-size."""
    if on_cpu(facts):
        return "on the CPU backend the ranks share one memory"
    used = (whole(facts, "tensor_parallel_size") or 1) * (whole(facts, "pipeline_parallel_size") or 1)
    last = facts.get("last_card")
    if isinstance(last, int) and not isinstance(last, bool) and used >= last + 1:
        return f"all {last + 1} cards that the log shows are in use" if last else "the log shows one card"
    return ""


def larger_tp(facts: Facts) -> int | None:
    """The next tensor parallel size: twice the present one, of those that divide the attention heads.

    None where it is unknown or ruled out; a present size that nobody said is unknown if several ranks speak.
    """
    present = whole(facts, "tensor_parallel_size") or (1 if facts.get("ranks_seen") in (None, 0, 1) else None)
    if present is None or more_cards(facts):
        return None
    heads = whole(facts, "num_attention_heads") or whole(facts, "heads")
    size = 2 * present
    return size if size <= 16 and (heads is None or heads % size == 0) else None
