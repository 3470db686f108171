"""What would make a model fit, or fit more: each setting tried by a plan of its own, so its figures are exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from vdiag.model import Lever, Memory
from vdiag.sizing.config import Config, Unsizable
from vdiag.sizing.fit import SAFE_UTILIZATION, SMALLEST_USEFUL_LEN

if TYPE_CHECKING:
    from vdiag.sizing.plan import Ask, Plan

MOST_CARDS = 16
WIDE = ("auto", "bfloat16", "float16")  # caches that fp8 halves

Planner = Callable[["Ask"], "Plan"]


def choices(config: Config, made: Plan, ask: Ask, planner: Planner) -> list[Lever]:
    """The settings that help, the cheapest first; nothing where the plan leaves the answer open."""
    if made.fits is None:
        return []
    found = [] if made.fits else [*_shorter(made.memory), *_share(made.memory)]
    for do, name, tried, price in _changes(config, made, ask):
        try:
            other = planner(tried)
        except Unsizable:  # vLLM cannot be started so
            continue
        if "tensor_parallel_size" in name and (other.memory.kv_gib or 0) <= 0:
            continue  # so many cards are no answer yet
        gives = _gives(made, other)
        if gives:
            found.append(
                Lever(do=do, set=name, gives=gives, price=price, enough=None if made.fits else other.fits)
            )
    return found


def _shorter(memory: Memory) -> Iterator[Lever]:
    if memory.fitting_len and memory.fitting_len >= SMALLEST_USEFUL_LEN:
        yield Lever(
            do="Serve a shorter context",
            set={"max_model_len": memory.fitting_len},
            gives=f"one request of {memory.fitting_len:,} tokens at a time",
            price="longer requests are refused",
            enough=True,
        )


def _share(memory: Memory) -> Iterator[Lever]:
    wanted = memory.needed_utilization
    if wanted is not None and (memory.utilization or 0) < wanted <= SAFE_UTILIZATION:
        yield Lever(
            do="Let vLLM use more of the card",
            set={"gpu_memory_utilization": wanted},
            gives=f"{(wanted - (memory.utilization or 0)) * (memory.total_gib or 0):.2f} GiB more for the KV cache",
            price="less of the card for everything else",
            enough=True,
        )


def _changes(config: Config, made: Plan, ask: Ask) -> Iterator[tuple[str, dict[str, Any], Ask, str]]:
    """What else to try: (what to do, engine arguments, the question, its price)."""
    if ask.kv_dtype in WIDE:
        yield (
            "Store the KV cache in 8 bits",
            {"kv_cache_dtype": "fp8"},
            msgspec.structs.replace(ask, kv_dtype="fp8"),
            "needs a card of compute capability 8.9 or newer; long answers can suffer",
        )
    if made.fits:
        return
    if config.quantization is None and not ask.quantization:
        yield (
            "Load the weights in 8 bits",
            {"quantization": "fp8"},
            msgspec.structs.replace(ask, quantization="fp8"),
            "some quality; needs a card of compute capability 8.9 or newer",
        )
    tp = ask.tp * 2
    while tp <= MOST_CARDS:
        yield (
            f"Split the model over {tp} cards",
            {"tensor_parallel_size": tp},
            msgspec.structs.replace(ask, tp=tp),
            f"{tp} cards",
        )
        tp *= 2


def _gives(made: Plan, other: Plan) -> str:
    """What the other plan has more, in words; empty where it is nothing."""
    old, new = made.memory, other.memory
    if other.fits and new.concurrency is not None and new.concurrency > (old.concurrency or 0) * 1.02:
        return f"{new.concurrency:.2f} requests of {new.max_model_len:,} tokens at once"
    if not other.fits and (new.fitting_len or 0) > (old.fitting_len or 0):
        return f"a context of {new.fitting_len:,} tokens"
    if not other.fits and (new.kv_gib or 0) > (old.kv_gib or 0):
        return f"{(new.kv_gib or 0) - (old.kv_gib or 0):.2f} GiB more"
    return ""


def enough_cards(levers: Sequence[Lever]) -> list[Lever]:
    """The same without more cards than are enough."""
    kept, done = [], False
    for lever in levers:
        if "tensor_parallel_size" in lever.set:
            if done:
                continue
            done = bool(lever.enough)
        kept.append(lever)
    return kept
