"""Which settings change a memory budget, what each gives and what it costs."""

from __future__ import annotations

import math
from collections.abc import Iterator

from vdiag.model import Lever, Memory
from vdiag.sizing import fit, ruled_out, shares
from vdiag.sizing.ruled_out import Facts

FREED_BY_4_BITS = (0.67, 0.72)  # of 16-bit weights; embeddings and scales stay as they are
SMALL_BATCH = 2048  # tokens; vLLM's own default on smaller cards
EAGER_PRICE = "10-20 % of the throughput on short answers"


def levers(memory: Memory, context: Facts) -> list[Lever]:
    """The settings that would help this budget, the cheapest first; never one that `context` rules out.

    `context`: the facts of the server by name (`vllm`, `model`, `quantization`, `tensor_parallel_size`,
    `kv_cache_dtype`, `enforce_eager`, `max_num_seqs`, `max_num_batched_tokens`, `device`, `gpu`, …), a mapping or
    whatever has its `get`. None where nothing is short: a budget in which one request of the full length fits.
    """
    if memory.when_full:
        return [
            *_for_peaks(memory, context),
            *_weights(memory, context, None),
            *_cards(memory, context, None),
        ]
    missing = missing_gib(memory)
    if missing is None and not (memory.concurrency is not None and memory.concurrency < 1):
        return list(_for_many(memory, context))
    return [
        *_shorter(memory),
        *_pinned(memory, context),
        *_host_memory(memory, context),
        *_share(memory, context),
        *_fp8(memory, context),
        *_eager(memory, context, missing),
        *_batch(memory, context, missing),
        *_weights(memory, context, missing),
        *_cards(memory, context, missing),
    ]


def missing_gib(memory: Memory) -> float | None:
    """KV cache that is short for one request of the full length; None where none is, or nothing is known of it."""
    if memory.kv_gib is None:
        return None
    if memory.need_gib is None:
        return -memory.kv_gib if memory.kv_gib < 0 else None
    return memory.need_gib - memory.kv_gib if memory.need_gib > memory.kv_gib else None


def gib_of(memory: Memory, what: str) -> float | None:
    """The size of a share; None where the budget has none of that name."""
    return next((share.gib for share in memory.shares if share.what == what), None)


# ---- what is too small --------------------------------------------------------------------------------


def _shorter(memory: Memory) -> Iterator[Lever]:
    if memory.fitting_len:
        yield Lever(
            do="Serve a shorter context",
            set={"max_model_len": memory.fitting_len},
            gives=f"one request of {memory.fitting_len:,} tokens fits at a time",
            price="longer requests are refused",
            enough=True,
        )


def _pinned(memory: Memory, context: Facts) -> Iterator[Lever]:
    """A KV cache whose size the command fixes can be larger, where the card has the room."""
    size = ruled_out.whole(context, "needed_kv_bytes")
    if size and memory.need_gib is not None:
        yield Lever(
            do="Fix a larger size of the KV cache",
            set={"kv_cache_memory_bytes": size},
            gives=f"{size / fit.GIB:.2f} GiB, of which one request of the full length needs {memory.need_gib:.2f}",
            price="less of the card for everything else",
            enough=True,
        )


def _host_memory(memory: Memory, context: Facts) -> Iterator[Lever]:
    """On the CPU the KV cache has its own setting."""
    if not ruled_out.on_cpu(context) or memory.need_gib is None:
        return
    space = math.ceil(memory.need_gib + 0.05)
    if memory.total_gib is not None and space > memory.total_gib:
        return
    yield Lever(
        do="Give the KV cache more host memory",
        env={"VLLM_CPU_KVCACHE_SPACE": str(space)},
        gives=f"{space} GiB, of which one request of the full length needs {memory.need_gib:.2f}",
        price="the memory must be free beside the weights",
        enough=True,
    )


def _share(memory: Memory, context: Facts) -> Iterator[Lever]:
    wanted, now, total = memory.needed_utilization, memory.utilization, memory.total_gib
    if now is None or ruled_out.on_cpu(context) or ruled_out.larger_share(context):
        return
    sure = context.get("needed_utilization") or context.get("opening_utilization")
    if isinstance(sure, float) and (
        wanted is None or not total
    ):  # the card's size is not told, or no length fits
        size = total or context.get("least_total_gib")
        least = "" if total else "at least "
        yield Lever(
            do="Let vLLM use more of the card",
            set={"gpu_memory_utilization": sure},
            gives=f"{least}{(sure - now) * size:.2f} GiB more for the KV cache" if size else "",
            price="less of the card for everything else",
            enough=True if context.get("needed_utilization") else None,
        )
    if wanted is None or not total:
        return
    if now < wanted <= fit.most_utilization(total, memory.free_gib) + 1e-9:
        yield Lever(
            do="Let vLLM use more of the card",
            set={"gpu_memory_utilization": wanted},
            gives=f"{(wanted - now) * total:.2f} GiB more for the KV cache",
            price=f"{(1 - wanted) * total:.2f} GiB of the card are left for everything else",
            enough=True,
        )


def _fp8(memory: Memory, context: Facts) -> Iterator[Lever]:
    if (memory.kv_gib is not None and memory.kv_gib <= 0) or ruled_out.fp8_cache(context):
        return
    enough = None
    if memory.need_gib is not None and memory.kv_gib is not None:
        enough = memory.need_gib / 2 <= memory.kv_gib
    elif memory.concurrency is not None:
        enough = memory.concurrency >= 0.5
    need = f", one request of the full length needs {memory.need_gib / 2:.2f} GiB" if memory.need_gib else ""
    if memory.need_gib is not None and memory.bytes_per_token is None:
        need, enough = "; what a request takes whatever its length stays", None
    yield Lever(
        do="Store the KV cache in 8 bits",
        set={"kv_cache_dtype": "fp8"},
        gives=f"half the bytes of each token{need}",
        price="needs a card of compute capability 8.9 or newer; long answers can suffer",
        enough=enough,
    )


def _eager(memory: Memory, context: Facts, missing: float | None) -> Iterator[Lever]:
    inside = next((s for s in memory.shares if s.what == shares.GRAPHS and not s.beside), None)
    if inside is not None and not ruled_out.eager(context):
        yield Lever(
            do="Do without CUDA graphs",
            set={"enforce_eager": True},
            gives=f"{inside.gib:.2f} GiB more for the KV cache",
            price=EAGER_PRICE,
            enough=inside.gib >= missing if missing is not None else None,
        )


def _batch(memory: Memory, context: Facts, missing: float | None) -> Iterator[Lever]:
    peak = gib_of(memory, shares.ACTIVATIONS)
    present = ruled_out.whole(context, "max_num_batched_tokens")
    if peak is None or peak < 0.1 or present is None or present < 1024 or ruled_out.on_cpu(context):
        return
    if ruled_out.smaller_batch(context):
        return
    smaller = min(present // 2, SMALL_BATCH)
    most = peak * (1 - smaller / present)
    yield Lever(
        do="Let one batch hold less",
        set={"max_num_batched_tokens": smaller},
        gives=f"up to {most:.2f} GiB of the activations, which shrink about with the batch",
        price="long prompts take more steps, so the first token comes later",
        enough=False if missing is not None and most < missing else None,
    )


def _weights(memory: Memory, context: Facts, missing: float | None) -> Iterator[Lever]:
    weights = gib_of(memory, shares.WEIGHTS)
    if ruled_out.quantising(context) or (weights is None and missing is not None):
        return
    gives, enough = "4-bit weights take about a third of 16-bit ones", None
    if weights is not None and missing is not None:
        least, most = (weights * part for part in FREED_BY_4_BITS)
        gives = (
            f"about {least:.1f} to {most:.1f} of the {weights:.1f} GiB of weights, if they have 16 bits now"
        )
        enough = True if least >= missing else False if most < missing else None
    yield Lever(
        do="Serve a 4-bit build of the model (AWQ, GPTQ)",
        set={"model": "<a 4-bit build of the model>"},
        gives=gives,
        price="some quality; measure it on your own task",
        enough=enough,
    )


def _cards(memory: Memory, context: Facts, missing: float | None) -> Iterator[Lever]:
    size = ruled_out.larger_tp(context)
    if size is None:
        return
    stages = ruled_out.whole(context, "pipeline_parallel_size") or 1
    gives, enough = "half the weights and half the KV cache of each token on each card", None
    weights = gib_of(memory, shares.WEIGHTS)
    if weights is not None and memory.kv_gib is not None and missing is not None:
        room = memory.kv_gib + weights / 2
        gives = f"about {weights / 2:.1f} GiB more on each card, and half the KV cache of each token"
        # The KV heads are split too, where there are as many as cards; else they are kept whole.
        enough = True if memory.need_gib is not None and memory.need_gib <= room else None
    yield Lever(
        do=f"Split the model over {size} cards" if stages == 1 else f"Split each stage over {size} cards",
        set={"tensor_parallel_size": size},
        gives=gives,
        price=f"{size * stages} cards; the attention heads must be divisible by {size}",
        enough=enough,
    )


# ---- what is too small at run time --------------------------------------------------------------------


def _for_peaks(memory: Memory, context: Facts) -> Iterator[Lever]:
    present = ruled_out.whole(context, "max_num_batched_tokens")
    if (present is None or present > 512) and not ruled_out.smaller_batch(context):
        smaller = min(present // 2, SMALL_BATCH) if present else SMALL_BATCH
        yield Lever(
            do="Let one batch hold less",
            set={"max_num_batched_tokens": smaller},
            gives="a smaller peak: activations shrink about with the batch, the KV cache keeps its size",
            price="long prompts take more steps, so the first token comes later",
        )
    seqs = ruled_out.whole(context, "max_num_seqs")
    ran = ruled_out.whole(context, "peak_running")  # more than that was never asked for
    fewer = min(half for half in (64, (seqs or 128) // 2, (ran or 128) // 2))
    if fewer:
        yield Lever(
            do="Let fewer requests run at once",
            set={"max_num_seqs": fewer},
            gives="smaller logits and fewer CUDA graphs",
            price="more requests wait",
        )


# ---- enough for one, too little for many --------------------------------------------------------------


def _for_many(memory: Memory, context: Facts) -> Iterator[Lever]:
    """For a server that runs: how to fit more requests of the full length."""
    if memory.concurrency is None or memory.concurrency < 1 or memory.kv_gib is None:
        return
    seqs = ruled_out.whole(context, "max_num_seqs")
    fits = int(memory.concurrency)
    if seqs is not None and seqs > fits:
        yield Lever(
            do="Let no more requests run than fit at their full length",
            set={"max_num_seqs": fits},
            gives="none is preempted, however long it grows",
            price="more requests wait; short ones would have fitted",
            enough=True,
        )
    for lever in _fp8(memory, context):
        lever.gives, lever.enough = (
            f"about {memory.concurrency * 2:.1f} requests of the full length at once",
            None,
        )
        yield lever
