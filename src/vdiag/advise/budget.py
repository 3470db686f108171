"""Where the memory of the card went, by the figures that vLLM printed of each rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vdiag.advise import card, figures
from vdiag.advise.arguments import number as version_of
from vdiag.advise.facts import Known
from vdiag.model import Fix, Lever, Memory, Share
from vdiag.sizing import fit, ruled_out, shares
from vdiag.sizing.levers import levers, missing_gib

if TYPE_CHECKING:
    from vdiag.advise.figures import Figures
    from vdiag.match.matcher import Match
    from vdiag.reason.story import Episode
    from vdiag.rulebook.compile import Rulebook

COUNTED_SINCE = (0, 21)  # the first version whose budget counts an estimate of the CUDA graphs
ROUNDING = 0.05  # GiB; figures with two decimals do not add up better

# Facts that only a rule about memory asks for: its diagnosis is one for which the budget is shown.
ABOUT_MEMORY = frozenset(
    [
        "fitting_len",
        "need_gib",
        "have_gib",
        "missing_gib",
        "needed_utilization",
        "opening_utilization",
        "raising_is_no_help",
        "fitting_utilization",
        "lower_utilization",
        "kv_space_gib",
        "free_kv_space_gib",
        "left_gib",
    ]
)


def facts_of_run(episode: Episode, rulebook: Rulebook, unit: str | None = None) -> dict[str, Any]:
    """What rules may ask of a run's memory: the figures of the rank that decides, and how many ranks are seen.

    `unit`: the service or container that failed.
    """
    read = figures.read(episode, rulebook, unit)
    seen = figures.workers(episode)
    return {**(read.facts() if read else {}), **({"ranks_seen": seen} if seen else {})}


def budget(
    episode: Episode,
    rulebook: Rulebook,
    name: str,
    context: Mapping[str, Any],
    failing: Match | None = None,
    settings: frozenset[str] = frozenset(),
) -> Memory | None:
    """The budget of a run of the server in the input `name`; None where its log holds no figures.

    `context` holds the facts of the run by name, `failing` is the match of what broke it: its figures count most.
    `settings` are those that the fixes of its rule change: of a card that was full, no other one is a lever.
    """
    read = figures.read(episode, rulebook, failing.event.envelope.unit if failing is not None else None)
    captures = failing.captures if failing is not None else {}
    known = Known(captures, context)
    memory = Memory(source=name)
    if read is not None:
        memory.ranks = read.ranks
        _sizes(memory, read, known)
        _shares(memory, read, known)
    if failing is not None:
        full = card.state(episode, rulebook, failing.event)
        if full is not None:
            _when_full(memory, full, failing)
    _fits(memory, known)
    if not memory.shares and memory.kv_gib is None and memory.kv_tokens is None and memory.total_gib is None:
        return None
    if failing is not None and memory.need_gib is not None:
        memory.line = failing.line
        memory.lane = memory.lane if memory.ranks > 1 else failing.event.envelope.lane
    memory.levers = levers(memory, known)
    if memory.when_full:
        memory.levers = [lever for lever in memory.levers if settings.issuperset(lever.set)]
    return memory


def with_figures(fixes: list[Fix], memory: Memory) -> None:
    """Gives each fix what the lever of the same setting comes to; of a full card the levers are those of the fixes."""
    if memory.when_full:
        memory.levers = [lever for lever in memory.levers if _as_fixed(lever, fixes)]
        return
    known = missing_gib(memory) is not None
    for lever in memory.levers:
        if not known and lever.enough is None:
            continue  # it gives what the setting gives anywhere
        for fix in fixes:
            if fix.set.keys() == lever.set.keys() and (fix.set == lever.set or "model" in lever.set):
                fix.gives, fix.enough = lever.gives, lever.enough


def _as_fixed(lever: Lever, fixes: list[Fix]) -> bool:
    """Gives a lever the value that the first fix of its setting has; whether there is one."""
    for fix in fixes:
        if lever.set and fix.set.keys() >= lever.set.keys():
            lever.set = {name: fix.set[name] for name in lever.set}
            return True
    return False


def _sizes(memory: Memory, read: Figures, known: Known) -> None:
    """The card, the share of it, and what is left for the KV cache."""
    said = read.facts()
    memory.lane = read.deciding.lane
    memory.total_gib = _gib(said, "total_gib")
    memory.free_gib = _gib(said, "free_gib")
    memory.kv_gib = _gib(said, "kv_gib")
    memory.budget_gib = _gib(said, "budget_gib")
    for name in ("kv_gib", "kv_tokens", "gpu_blocks", "weights_gib"):
        if name in read.deciding.figures:
            memory.line = read.deciding.figures[name].line
            break
    memory.kv_tokens = _tokens(said, known)
    if memory.kv_gib and memory.kv_tokens:
        memory.bytes_per_token = fit.bytes_per_token(memory.kv_gib, memory.kv_tokens)
    if "suggested_kv_gib" in said and said["suggested_kv_gib"] > 0:
        memory.notes.append(
            f"vLLM's own figure for --kv-cache-memory-bytes within its share: {said['suggested_kv_bytes']} "
            f"({said['suggested_kv_gib']:.2f} GiB)."
        )


def _tokens(said: Mapping[str, Any], known: Known) -> int | None:
    """How many tokens the KV cache holds: as printed, else by its blocks, where nothing speaks against 16 tokens each."""
    if "kv_tokens" in said:
        return int(said["kv_tokens"])
    blocks, length, times = said.get("gpu_blocks"), said.get("concurrency_len"), said.get("concurrency")
    if blocks is None:
        return None
    tokens = int(blocks * (known.number("block_size") or fit.BLOCK))
    if length and times and abs(tokens / length - times) > 0.01 + 0.01 * times:
        return None
    return tokens


def _shares(memory: Memory, read: Figures, known: Known) -> None:
    """What the budget is spent on, as far as it was printed; what no figure names is one share more."""
    said = read.facts()
    lines = read.deciding.figures
    cpu = ruled_out.on_cpu(known)

    def share(
        what: str, gib: float | None, *names: str, estimated: bool = False, beside: bool = False
    ) -> None:
        if gib is not None and gib >= 0.005:
            line = next((found.line for n in names if (found := lines.get(n))), 0)
            memory.shares.append(Share(what, round(gib, 2), line, estimated=estimated, beside=beside))

    weights, consumed = _gib(said, "weights_gib"), _gib(said, "consumed_gib")
    outside, peak = _gib(said, "non_torch_gib"), _gib(said, "activation_gib")
    graphs, estimate = _gib(said, "graphs_gib"), _gib(said, "graphs_estimate_gib")
    counted = estimate is not None and _graphs_counted(said, known)
    if (
        "headroom_gib" in said
    ):  # 0.33, which knows no figure for non-torch, has the estimate of the graphs in it
        within = estimate if estimate is not None and counted and outside is None else 0.0
        peak = max(said["headroom_gib"] - within, 0.0)
    if peak is None and consumed is not None and "non_kv_gib" in said:
        peak = max(said["non_kv_gib"] - consumed, 0.0)
    if peak is None and "peak_gib" in said and weights is not None:  # Intel's workers
        peak = max(said["peak_gib"] - weights - max(outside or 0.0, 0.0), 0.0)
    if weights is not None and consumed is not None and outside is None:
        outside = max(consumed - weights, 0.0)
    if weights is not None or consumed is None:
        share(shares.WEIGHTS, weights, "weights_gib", "weights_mib")
        share(shares.NON_TORCH, outside, "non_torch_gib", "consumed_gib", "non_torch_mib")
    else:
        share(shares.CONSUMED, consumed, "consumed_gib")
    share(shares.ACTIVATIONS, peak, "activation_gib", "headroom_gib", "non_kv_gib", "peak_mib")
    if counted:
        share(shares.GRAPHS, estimate, "graphs_estimate_gib", estimated=True)
    share(shares.KV, memory.kv_gib, "kv_gib", "auto_kv_gib")
    if not counted:
        share(
            shares.GRAPHS,
            graphs if graphs is not None else estimate,
            "graphs_gib",
            "graphs_estimate_gib",
            estimated=graphs is None,
            beside=True,
        )
    _of_the_card(memory, known, cpu)
    within = sum(item.gib for item in memory.shares if not item.beside)
    if memory.budget_gib and memory.kv_gib is not None and not known.get("kv_cache_memory_bytes"):
        rest = memory.budget_gib - within - min(memory.kv_gib, 0.0)
        if memory.kv_gib < 0:
            memory.notes.append(
                f"What is needed beside the KV cache exceeds vLLM's share by {-memory.kv_gib:.2f} GiB."
            )
            rest = memory.budget_gib - memory.kv_gib - within
        if rest > ROUNDING:
            memory.shares.append(Share(shares.REST, round(rest, 2)))


def _of_the_card(memory: Memory, known: Known, cpu: bool) -> None:
    """vLLM's share of the card, and the budget it makes."""
    memory.utilization = _part(known)
    if memory.budget_gib is None and memory.total_gib and memory.utilization and not cpu:
        memory.budget_gib = round(memory.total_gib * memory.utilization, 2)


def _graphs_counted(said: Mapping[str, Any], known: Known) -> bool:
    """Whether the estimate of the CUDA graphs is part of the budget: as the log says, else by the version."""
    if word := said.get("graphs_counted"):
        return str(word) == "enabled"
    version = version_of(known.get("vllm"))
    return bool(version) and version >= COUNTED_SINCE


def _when_full(memory: Memory, full: card.Full, failing: Match) -> None:
    """The card at the moment memory ran out takes the place of the budget's shares; those become notes."""
    within = [item for item in memory.shares if item.what != shares.REST]
    if within:
        told = ", ".join(f"{item.what} {item.gib:.2f}" for item in within)
        memory.notes.insert(0, f"At start vLLM had planned, in GiB: {told}.")
    memory.shares, memory.notes = full.shares, [*full.notes, *memory.notes]
    memory.total_gib = full.total_gib
    memory.when_full = True
    memory.line, memory.lane = failing.line, failing.event.envelope.lane


def _fits(memory: Memory, known: Known) -> None:
    """What fits into the KV cache there is, and what the full length would need."""
    have, need = _amount(known, "have_gib"), _amount(known, "need_gib")
    if memory.total_gib is None:
        memory.total_gib = _size(known, "total_gib")
    if memory.free_gib is None and memory.total_gib:
        memory.free_gib = _amount(known, "free_gib")
    if memory.budget_gib is None:
        memory.budget_gib = _size(known, "desired_gib")
    total, free = memory.total_gib, memory.free_gib
    if not memory.shares and total and free is not None and have is None and 0 <= free <= total:
        memory.shares = [Share(shares.OTHERS, round(total - free, 2)), Share(shares.FREE, free)]
    if have is not None:
        memory.kv_gib = have
    memory.max_model_len = _whole(known.number("max_len"))
    if memory.kv_tokens is None and known.get("kv_tokens") != known.said("kv_tokens"):  # not another server's
        memory.kv_tokens = _whole(known.number("kv_tokens"))
    memory.need_gib = need
    limit = memory.max_model_len
    if memory.bytes_per_token is None and need and limit:
        memory.bytes_per_token = fit.bytes_per_token(need, limit)
    estimate = known.number("estimated_len")
    linear = not (estimate and have and need and limit) or _near(estimate / limit, have / need)
    if memory.kv_tokens is None and estimate and limit and estimate < limit and linear:
        memory.kv_tokens = int(estimate)
    if not linear:  # a request takes much whatever its length: there are no bytes of a token
        memory.bytes_per_token = None
    if memory.kv_tokens is None and have and have > 0 and memory.bytes_per_token:
        memory.kv_tokens = int(have * fit.GIB / memory.bytes_per_token)
    printed = _amount(known, "concurrency")
    if printed and known.number("concurrency_len") == limit:
        memory.concurrency = printed
    elif memory.kv_tokens and limit:
        memory.concurrency = round(memory.kv_tokens / limit, 2)
    elif have and have > 0 and need:
        memory.concurrency = round(have / need, 2)
    if memory.concurrency is None or memory.concurrency < 1:
        memory.fitting_len = known.get("fitting_len")
    memory.utilization = memory.utilization or _part(known)
    missing = known.number("missing_gib")
    memory.host = ruled_out.on_cpu(known)
    sized = memory.utilization and memory.total_gib and not memory.host and not known.get("pinned_gib")
    if missing and missing > 0 and need and sized and memory.utilization and memory.total_gib:
        memory.needed_utilization = fit.wanted_utilization(memory.utilization, missing, memory.total_gib)


def _near(one: float, other: float) -> bool:
    """Whether two shares of a length agree but for rounding and for what a sliding window saves."""
    return abs(one - other) <= 0.1 * max(one, other)


def _gib(said: Mapping[str, Any], name: str) -> float | None:
    value = said.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _amount(known: Known, name: str) -> float | None:
    value = known.number(name)
    return None if value is None else float(value)


def _size(known: Known, name: str) -> float | None:
    """An amount of memory that a card can have, else None."""
    value = _amount(known, name)
    return value if value is not None and value > 0 else None


def _part(known: Known) -> float | None:
    """vLLM's share of the card, where it can be one."""
    value = _amount(known, "utilization")
    return value if value is not None and 0 < value <= 1 else None


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and value > 0 else None
