"""What fits into the memory there is: lengths and shares, from plain numbers. Memory in GiB, lengths in tokens."""

from __future__ import annotations

import math

GIB = 1024**3
BLOCK = 16  # tokens in a KV cache block, vLLM's default block_size on CUDA
SMALLEST_USEFUL_LEN = 256  # tokens; below this a shorter context is no remedy
LOW_UTILIZATION, SAFE_UTILIZATION = (
    0.85,
    0.92,
)  # the working range; above it, what is gained is missing at run time
HEADROOM_GIB = 0.3  # left free beside vLLM's share: the next process's CUDA context, a desktop
DEFAULT_UTILIZATION = 0.9  # of vLLM before 0.24, which has 0.92; at least so much where nobody said another
LARGEST_CARD_GIB = 288  # of any card that vLLM runs on
MOST_OF_LEAST = 2  # a card has at most so many times what its weights and KV cache add up to
NEARLY = 0.8  # of the tokens that are needed; with fewer, a little more of the card is not enough
PIN_MARGIN_GIB = 0.05  # of a KV cache whose size is fixed, beside what one request needs
BESIDE_GIB = 2.0  # for activations and CUDA graphs beside weights and KV cache
ROUNDED_GIB = 0.005  # how far a figure with two decimals can be from what it stands for
MARGIN = 0.99  # of an estimate of our own: what is free differs a little from start to start


def fitting_len(tokens: float, limit: float | None = None, block: int = BLOCK) -> int | None:
    """The longest context that `tokens` of KV cache hold, whole blocks; None if it is no remedy for `limit`."""
    fits = int(tokens) // block * block
    return fits if fits >= SMALLEST_USEFUL_LEN and (limit is None or fits < limit) else None


def estimated_tokens(have: float, need: float, limit: float) -> float:
    """How many tokens `have` GiB hold if `limit` tokens need `need` GiB, with a margin for rounding and chance.

    KV memory grows linearly with the length (kv_cache_utils.py), except for layers whose state has one size:
    then more fit than this says.
    """
    return max(limit * (have - ROUNDED_GIB) / (need + ROUNDED_GIB) * MARGIN, 0.0)


def bytes_per_token(gib: float, tokens: float) -> float | None:
    """KV cache bytes of one token on one card, if `gib` hold `tokens`."""
    return gib * GIB / tokens if gib > 0 and tokens > 0 else None


def needed_utilization(share: float, missing: float, total: float, free: float | None = None) -> float | None:
    """The smallest share of a card of `total` GiB that gives `missing` GiB more; None where that is no remedy.

    vLLM's budget is share x total. Rounded up to two decimals. It is none above SAFE_UTILIZATION, or above what was
    `free` at start: then vLLM refuses to start.
    """
    needed = wanted_utilization(share, missing, total)
    return needed if share < needed <= most_utilization(total, free) + 1e-9 else None


def wanted_utilization(share: float, missing: float, total: float) -> float:
    """What `needed_utilization` says, sane or not; it may be above 1."""
    return math.ceil((share + missing / total) * 100 - 1e-9) / 100


def most_utilization(total: float, free: float | None = None) -> float:
    """The largest sane share of a card of `total` GiB, of which `free` GiB were free at start; two decimals."""
    if free is None:
        return SAFE_UTILIZATION
    return min(math.floor(free / total * 100 + 1e-9) / 100, SAFE_UTILIZATION)


def least_total(weights: float, have: float, share: float) -> float:
    """What a card has at least, if `have` GiB of its `share` are left beside the weights (negative: missing)."""
    return max(weights, (weights + have) / share if have > 0 else 0.0)
