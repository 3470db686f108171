"""Facts that fixes ask for by name: pure functions of what a rule captured and what the log says elsewhere.

A function takes `Known` (names to values: captures first, then the episode's facts, then other functions) and
returns a value, or None where it cannot be known. A fix that needs an unknown fact is not offered, so a
function returns None rather than a guess. Memory is in GiB, lengths in tokens.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from vdiag.advise import arguments
from vdiag.sizing import fit, ruled_out
from vdiag.sizing.levers import SMALL_BATCH

FactFunction = Callable[["Known"], Any]
FACTS: dict[str, FactFunction] = {}

MOST = 1e15  # of any amount or length
_TEXT_ONLY = re.compile(
    r"(?:Llama|Qwen[23](?:Moe|Next)?|Qwen3Next|Mi[sx]tral|Gemma2?|Deepseek(?:V[23])?|GptOss|NemotronH|Phi3?|Falcon|OPT)ForCausalLM"
)
FEW_SEQS = 64  # --max-num-seqs that fixes offer where memory is short

# One fact, several names: rules capture under the words their message uses.
ALIASES = {
    "max_len": ("concurrency_len", "max_model_len", "max_seq_len"),
    "tp": ("tensor_parallel_size", "tp_size"),
    "heads": ("num_heads", "attention_heads", "num_attention_heads"),
    "utilization": ("gpu_memory_utilization", "typed_utilization"),
    "max_num_seqs": ("typed_seqs",),
    "free_gib": ("free",),
    "total_gib": ("total", "card_gib", "oom_total_gib"),
    "need_gib": ("need",),
    "have_gib": ("have", "available_gib", "kv_gib"),
    "want_gib": ("oom_want_gib",),
    "left_gib": ("oom_free_gib",),
    "flag": ("argument", "arguments", "flags"),
    "weights_gib": ("model_gib", "load_gib"),
}


class Known:
    """Looks facts up by name and remembers what functions computed. Never raises for an unknown name."""

    def __init__(self, captures: Mapping[str, Any], context: Mapping[str, Any] | None = None) -> None:
        context = context or {}
        arguments = context.get("args")
        self._context = context
        self._given = {**(arguments if isinstance(arguments, dict) else {}), **context, **captures}
        self._given.pop("args", None)
        self._computed: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        """The value, or None if it is not known."""
        value = self._given.get(name)
        if value is not None and value != "":
            return value
        for alias in ALIASES.get(name, ()):
            value = self._given.get(alias)
            if value is not None and value != "":
                return value
        if name not in self._computed and name in FACTS:
            self._computed[name] = None  # a function that asks for itself gets None
            self._computed[name] = FACTS[name](self)
        return self._computed.get(name)

    def said(self, name: str) -> Any:
        """What the log says of the server itself, whatever a rule captured under that name; None if nothing."""
        return self._context.get(name)

    def number(self, name: str) -> float | None:
        """The value as a number, or None; also for one that is no amount, as `inf`."""
        value = self.get(name)
        if isinstance(value, str):
            try:
                value = float(value.replace(",", ""))
            except ValueError:
                return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return value if abs(value) < MOST else None


def fact(function: FactFunction) -> FactFunction:
    """Registers a function under its own name."""
    FACTS[function.__name__] = function
    return function


# ---- context length -----------------------------------------------------------------------------------


@fact
def fitting_len(known: Known) -> int | None:
    """The longest context that fits, a multiple of 16 and at least 256 tokens.

    vLLM's own estimate if the message holds one; for V0, the tokens its KV cache stores; else the share of the full
    context that the KV cache left can hold, `max_len × have / need`, a little less for rounding and chance.
    """
    limit, estimate = known.number("max_len"), known.number("estimated_len")
    have, need = known.number("have_gib"), known.number("need_gib")
    if estimate is None:
        estimate = known.number("kv_tokens")
    if estimate is None and limit and have and need:
        estimate = fit.estimated_tokens(have, need, limit)
    return None if estimate is None else fit.fitting_len(estimate, limit)


@fact
def no_length_fits(known: Known) -> bool | None:
    """Whether the figures say that not even a short context fits."""
    have, need = known.number("have_gib"), known.number("need_gib")
    if have is None or not need or have >= need:
        return None
    return True if known.get("fitting_len") is None else None


@fact
def length_from(known: Known) -> str | None:
    """What sets the context length where nobody did; None where an argument does."""
    args = known.said("args")
    given = isinstance(args, dict) and args.get("max_model_len") is not None
    return None if given or known.number("max_len") is None else "the model's config.json"


@fact
def half_len(known: Known) -> int | None:
    """Half of the present context length, a multiple of 16 and at least 256 tokens."""
    limit = known.number("max_len")
    return fit.fitting_len(limit / 2) if limit else None


@fact
def need_gib(known: Known) -> float | None:
    """KV memory of one request of the full context, from what the cache holds: `kv_gib × max_len / kv_tokens`."""
    have, tokens, limit = known.number("kv_gib"), known.number("kv_tokens"), known.number("max_len")
    return round(have * limit / tokens, 2) if have and have > 0 and tokens and limit else None


@fact
def missing_gib(known: Known) -> float | None:
    """How much KV cache is short for one request of the full context; where there is none at all, how far below 0."""
    have, need = known.number("have_gib"), known.number("need_gib")
    if have is None:
        return None
    if need is None:
        return round(-have, 2) if have < 0 else None
    return round(need - have, 2) if need > have else None


# ---- share of the card --------------------------------------------------------------------------------


@fact
def utilization(known: Known) -> float | None:
    """`--gpu-memory-utilization` where it was not given: its default, 0.9, and 0.92 since 0.24 or before.

    Between 0.17.1 (0.9) and 0.24.0 (0.92), without a version, and where the log does not show what was given, it is
    unknown (vllm/config/cache.py).
    """
    version = arguments.number(known.get("vllm"))
    if not known.said("args") and not known.said("namespace"):
        return None
    if not version or (0, 17, 1) < version < (0, 24):
        return None
    return 0.92 if version >= (0, 24) else 0.9


@fact
def fitting_utilization(known: Known) -> float | None:
    """The largest `--gpu-memory-utilization` that fits into what is free now: (free − 0.3) / total.

    Rounded down to two decimals and at most 0.92; unknown below 0.3, where it would be no remedy.
    """
    free, total = known.number("free_gib"), known.number("total_gib")
    if free is None or not total or total <= 0:
        return None
    share = math.floor((free - fit.HEADROOM_GIB) / total * 100 + 1e-9) / 100
    return min(share, fit.SAFE_UTILIZATION) if share >= 0.3 else None


@fact
def needed_utilization(known: Known) -> float | None:
    """The smallest `--gpu-memory-utilization` whose KV cache holds one full request.

    Present share plus what is missing over the card's size (vLLM's budget is share × total), rounded up to
    two decimals; unknown above 0.92, and above what was free at start.
    """
    share, missing = known.number("utilization"), known.number("missing_gib")
    total = known.number("total_gib") or known.get("least_total_gib")
    if share is None or not total or not missing or not known.number("need_gib") or known.get("pinned_gib"):
        return None
    return fit.needed_utilization(share, missing, total, known.number("free_gib"))


@fact
def opening_utilization(known: Known) -> float | None:
    """The smallest `--gpu-memory-utilization` that leaves 1 GiB for a KV cache that has less than that.

    Unknown above 0.92, and above what was free at start.
    """
    share, have = known.number("utilization"), known.number("have_gib")
    total = known.number("total_gib") or known.get("least_total_gib")
    if share is None or not total or have is None or have >= 1 or known.number("need_gib"):
        return None
    return fit.needed_utilization(share, 1 - have, total, known.number("free_gib"))


@fact
def least_total_gib(known: Known) -> float | None:
    """What the card has at least, where the log does not say it: what its parts add up to.

    With it in the place of the card's size, a share that is computed is larger than needed, never too small.
    """
    weights, have, share = known.number("weights_gib"), known.number("have_gib"), known.number("utilization")
    return fit.least_total(weights, have, share) if weights and have is not None and share else None


@fact
def pinned_gib(known: Known) -> float | None:
    """The size of the KV cache where the command fixes it; --gpu-memory-utilization then sizes nothing."""
    size = known.number("kv_cache_memory_bytes")
    return size / fit.GIB if size and size > 0 else None


@fact
def needed_kv_bytes(known: Known) -> int | None:
    """A larger fixed size that holds one full request, in bytes; unknown where it is not sure that so much is free.

    Beside it and the weights 2 GiB have to be free, which activations and CUDA graphs take.
    """
    need, pinned = known.number("need_gib"), known.get("pinned_gib")
    free, weights = known.number("free_gib"), known.number("weights_gib")
    if not need or not pinned or pinned >= need or free is None or weights is None:
        return None
    wanted = need + fit.PIN_MARGIN_GIB
    return math.ceil(wanted * fit.GIB) if wanted + weights + fit.BESIDE_GIB <= free else None


@fact
def raising_is_no_help(known: Known) -> bool | None:
    """Whether 0.92 as `--gpu-memory-utilization` would be no more than now, more than is free, or not enough."""
    share, total = known.number("utilization"), known.number("total_gib")
    free, missing = known.number("free_gib"), known.number("missing_gib")
    tokens, limit = known.number("kv_tokens"), known.number("max_len")
    if (share is not None and share >= fit.SAFE_UTILIZATION) or known.get("pinned_gib"):
        return True
    if free is not None and total and free < fit.SAFE_UTILIZATION * total:
        return True
    if missing and missing > 0:
        now = fit.DEFAULT_UTILIZATION if share is None else share
        least = known.get("least_total_gib")
        most = total or min(fit.LARGEST_CARD_GIB, (least or math.inf) * fit.MOST_OF_LEAST)
        return (fit.SAFE_UTILIZATION - now) * most < missing
    return True if tokens and limit and tokens < limit * fit.NEARLY else None


@fact
def lower_utilization(known: Known) -> float | None:
    """The present share less 0.05, or less what was short where that is more; 0.5 to 0.92.

    What was short of the card when memory ran out (`want` less `left`) has to stay free of the KV cache.
    """
    share, total = known.number("utilization"), known.number("total_gib")
    want, left = known.number("want_gib"), known.number("left_gib")
    if not share:
        return None
    less = 0.05
    if want is not None and left is not None and total and want > left:
        less = max(less, math.ceil((want - left) / total * 100) / 100 + 0.01)
    lower = round(min(share - less, 1.0 - less, fit.SAFE_UTILIZATION), 2)
    return lower if lower >= 0.5 else None


@fact
def above_weights_utilization(known: Known) -> float | None:
    """The share that holds the weights and a tenth of the card beside them; unknown above 0.92."""
    weights, total = known.number("weights_gib"), known.number("total_gib")
    if not weights or not total:
        return None
    share = math.ceil((weights / total + 0.1) * 100 - 1e-9) / 100
    return share if share <= fit.SAFE_UTILIZATION else None


@fact
def half_utilization(known: Known) -> float | None:
    """Half of the present share, to let two servers live on one card; at most 0.45."""
    share = known.number("utilization")
    return min(math.floor(share * 50) / 100, 0.45) if share and share <= 1 else None


# ---- parallelism --------------------------------------------------------------------------------------


@fact
def dividing_tp(known: Known) -> str | None:
    """The tensor parallel sizes from 1 to 16 that divide the attention heads: `1, 2, 4 or 8`."""
    sizes = _dividing(known)
    if not sizes:
        return None
    return " or ".join(filter(None, [", ".join(map(str, sizes[:-1])), str(sizes[-1])]))


@fact
def nearest_tp(known: Known) -> int | None:
    """The largest dividing tensor parallel size below the present one."""
    present = known.number("tp")
    return max((size for size in _dividing(known) if present and size < present), default=None)


def _dividing(known: Known) -> list[int]:
    heads = known.number("heads")
    if heads is None or heads < 1 or heads != int(heads):
        return []
    return [size for size in range(1, 17) if int(heads) % size == 0]


# ---- batch and host memory ----------------------------------------------------------------------------


@fact
def half_seqs(known: Known) -> int | None:
    """Half of `--max-num-seqs` where the log says it."""
    present = known.number("max_num_seqs")
    return int(present) // 2 if present and present >= 2 else None


@fact
def few_seqs(known: Known) -> bool | None:
    """Whether the log says that `--max-num-seqs` is 64 or less already, so that 64 would lower nothing."""
    present = known.number("max_num_seqs")
    return None if present is None else present <= FEW_SEQS


@fact
def half_batched_tokens(known: Known) -> int | None:
    """Half of `--max-num-batched-tokens` where the log says it, at least 256."""
    present = known.number("max_num_batched_tokens")
    return int(present) // 2 if present and present >= 512 else None


@fact
def whole_prompts(known: Known) -> bool | None:
    """Whether chunked prefill is off, so that a batch holds whole prompts and may not be smaller than the context.

    V1 has it unless told otherwise; V0, the only engine up to 0.7, for contexts above 32,768 tokens alone.
    """
    given = known.get("enable_chunked_prefill")
    if given is not None:
        return True if str(given).lower() == "false" else None
    version, length = arguments.number(known.get("vllm")), known.number("max_len")
    first = known.get("engine") == "V0" or (known.get("engine") is None and () < version < (0, 8))
    return True if first and length is not None and length <= 32768 else None


@fact
def loading_tp(known: Known) -> int | None:
    """How many cards the checkpoint on disk needs at four fifths of each: a power of two above the present size."""
    checkpoint, total = known.number("checkpoint_gib"), known.number("total_gib")
    present = int(known.number("tp") or 1)
    if not checkpoint or not total or present < 1 or ruled_out.more_cards(known):
        return None
    size = present * 2
    while checkpoint / size > 0.8 * total:
        size *= 2
    return size if size <= 16 else None


@fact
def loading_offload_gib(known: Known) -> int | None:
    """What of the checkpoint does not fit into four fifths of a card, in whole GiB; unknown above half of it."""
    checkpoint, total = known.number("checkpoint_gib"), known.number("total_gib")
    if not checkpoint or not total:
        return None
    share = checkpoint / (known.number("tp") or 1)
    rest = math.ceil(share - 0.8 * total)
    ram = known.number("ram_gib")
    return rest if 0 < rest <= share / 2 and (ram is None or rest < ram) else None


@fact
def offload_gib(known: Known) -> int | None:
    """What is missing for one full request, in whole GiB, of the weights; unknown above half of them."""
    missing, weights = known.number("missing_gib"), known.number("weights_gib")
    if not missing or missing <= 0 or not weights:
        return None
    ram = known.number("ram_gib")
    amount = math.ceil(missing)
    return amount if amount <= weights / 2 and (ram is None or amount < ram) else None


@fact
def other_pid(known: Known) -> int | None:
    """The first other process that PyTorch names on a full card, if it holds at least 1 GiB."""
    own = known.number("oom_process_gib") or known.number("oom_own_gib")
    pid, held = known.number("oom_pid_1"), known.number("oom_pid_1_gib")
    return int(pid) if own and pid and held and held >= 1 else None


@fact
def other_gib(known: Known) -> float | None:
    """What that process holds."""
    return known.number("oom_pid_1_gib") if known.get("other_pid") else None


@fact
def host_ram_gib(known: Known) -> int | None:
    """Host memory to have for loading: twice the weights, rounded up."""
    weights = known.number("weights_gib")
    return math.ceil(2 * weights) if weights and weights > 0 else None


@fact
def swap_gib(known: Known) -> int | None:
    """A swap file that bridges loading: as large as the weights, at least 8, at most 64 GiB."""
    weights = known.number("weights_gib")
    return min(max(math.ceil(weights), 8), 64) if weights and weights > 0 else None


@fact
def small_batch(known: Known) -> int | None:
    """2048 as `--max-num-batched-tokens`, or half of what the log says it is where that is less; at least 256."""
    present = known.number("max_num_batched_tokens")
    if present is None:
        return None
    half = int(present) // 2
    return min(half, SMALL_BATCH) if half >= 256 else None


@fact
def fitting_seqs(known: Known) -> int | None:
    """A `--max-num-seqs` for which the sampler's scores fit into what was free: a power of two, half of what fits.

    They grow with the requests, `requests × left / want` of which fit. Where the number of requests is unknown, each
    is taken to have the scores of the largest vocabulary, which are 1 MiB in 32 bits.
    """
    requests = known.number("requests") or known.number("max_num_seqs")
    want, left = known.number("want_gib"), known.number("left_gib")
    if not want or left is None or left >= want:
        return None
    fits = int((requests * left / want if requests else left * 1024) / 2)
    return min(1 << (fits.bit_length() - 1), 256) if fits >= 1 else None


@fact
def kv_space_gib(known: Known) -> int | None:
    """VLLM_CPU_KVCACHE_SPACE that holds one full request, rounded up; unknown where the host has less memory."""
    need, total = known.number("need_gib"), known.number("total_gib")
    if not need or need <= 0:
        return None
    space = math.ceil(need + 0.05)  # vLLM keeps a little of it
    taken = known.number("consumed_gib") or known.number("weights_gib") or 0
    return space if total is None or space + taken <= total else None


@fact
def free_kv_space_gib(known: Known) -> int | None:
    """VLLM_CPU_KVCACHE_SPACE that fits into the free memory of the node: nine tenths of it, in whole GiB."""
    free = known.number("free_gib")
    return int(free * 0.9) if free is not None and free * 0.9 >= 1 else None


# ---- what the log rules out ---------------------------------------------------------------------------


@fact
def fp8_cache_ruled_out(known: Known) -> bool | None:
    """Whether the log shows that an 8-bit KV cache is no remedy: there already, or not for this card."""
    return True if ruled_out.fp8_cache(known) else None


@fact
def quantising_ruled_out(known: Known) -> bool | None:
    """Whether the log shows that the weights are quantised already."""
    return True if ruled_out.quantising(known) else None


@fact
def segments_ruled_out(known: Known) -> bool | None:
    """Whether what PyTorch had reserved and not used is too little to make up for what was short."""
    want, left, unused = known.number("want_gib"), known.number("left_gib"), known.number("oom_reserved_gib")
    if want is None or left is None or unused is None:
        return None
    return True if left + unused < want else None


@fact
def text_only(known: Known) -> bool | None:
    """Whether the log names the architecture of a model that takes no images."""
    return True if _TEXT_ONLY.fullmatch(str(known.get("architecture") or "")) else None


@fact
def nobody_else(known: Known) -> bool | None:
    """Whether nearly the whole card was free when the server started, so that no other process holds it."""
    free, total = known.number("free_gib"), known.number("total_gib")
    return True if free is not None and total and free >= 0.95 * total else None


@fact
def eager_ruled_out(known: Known) -> bool | None:
    """Whether the log shows that there are no CUDA graphs to do without."""
    return True if ruled_out.eager(known) else None


@fact
def more_cards_ruled_out(known: Known) -> bool | None:
    """Whether the log shows that all cards are in use, or more ranks than it names."""
    seen = known.number("ranks_seen") or 0
    if ruled_out.more_cards(known) or seen > (known.number("tp") or 1):
        return True
    return None


@fact
def one_rank(known: Known) -> bool | None:
    """Whether the log says that the model runs in one process, so that there are no fewer."""
    sizes = known.number("tp"), known.number("pipeline_parallel_size") or 1, known.number("ranks_seen") or 1
    return True if all(size is not None and size <= 1 for size in sizes) else None


@fact
def larger_tp(known: Known) -> int | None:
    """Twice the present `--tensor-parallel-size`, where it is known, divides the heads and finds cards."""
    return ruled_out.larger_tp(known) if known.number("tp") is not None else None


# ---- flags --------------------------------------------------------------------------------------------


@fact
def wrong_flag(known: Known) -> str | None:
    """The first flag of what argparse did not recognise, spelled as flags are."""
    words = [word for word in str(known.get("flag") or "").split() if word.startswith("--")]
    return arguments.flag_of(words[0]) if words else None


@fact
def nearest_flag(known: Known) -> str | None:
    """The flag that was probably meant, for a flag no version knows."""
    flag = known.get("wrong_flag")
    return arguments.nearest(flag, known.get("vllm")) if flag else None


@fact
def flag_news(known: Known) -> str | None:
    """What became of a flag that other vLLM versions take, in one clause."""
    flag = known.get("wrong_flag")
    return arguments.news(flag, known.get("vllm")) if flag else None


@fact
def adapter(known: Known) -> str | None:
    """The name of the LoRA adapter that was given with the path a message speaks of, or of the only one."""
    given = known.get("lora_modules")
    modules = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    path = str(known.get("path") or "").rstrip("/")
    named = [item for item in modules if path and str(item.get("path")).rstrip("/") == path] or modules
    return str(named[0]["name"]) if len(named) == 1 and named[0].get("name") else None
