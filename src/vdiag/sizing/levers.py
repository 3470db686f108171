"""Which settings change a memory budget, what each gives and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vdiag.model import Lever, Memory


def levers(memory: Memory, context: Mapping[str, Any]) -> list[Lever]:
    """The settings that would help this budget, the cheapest first; never one that `context` rules out.

    `context`: the facts of the server by name (`vllm`, `args`, `tensor_parallel_size`, `kv_cache_dtype` …).
    """
    return []
