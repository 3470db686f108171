"""What fits into the memory there is: lengths and shares, from plain numbers. Memory in GiB, lengths in tokens."""

from __future__ import annotations

import math

BLOCK = 16  # tokens in a KV cache block, vLLM's default block_size on CUDA
SMALLEST_USEFUL_LEN = 256  # tokens; below this a shorter context is no remedy
SAFE_UTILIZATION = 0.92  # above it, what is gained at start-up is missing at run time


def fitting_len(tokens: float, limit: float | None = None, block: int = BLOCK) -> int | None:
    """The longest context that `tokens` of KV cache hold, whole blocks; None if it is no remedy for `limit`."""
    fits = int(tokens) // block * block
    return fits if fits >= SMALLEST_USEFUL_LEN and (limit is None or fits < limit) else None


def needed_utilization(share: float, missing: float, total: float) -> float | None:
    """The smallest share of a card of `total` GiB that gives `missing` GiB more; None above SAFE_UTILIZATION.

    vLLM's budget is share x total. Rounded up to two decimals.
    """
    needed = math.ceil((share + missing / total) * 100 - 1e-9) / 100
    return needed if share < needed <= SAFE_UTILIZATION else None
