"""The plan of a server before it starts: where the memory of each card goes, and what fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from vdiag.model import Memory, Share
from vdiag.sizing import kv, overhead, shares
from vdiag.sizing.choices import choices, enough_cards
from vdiag.sizing.config import HEADS, Config, Unsizable
from vdiag.sizing.fit import GIB
from vdiag.sizing.kv import Setting
from vdiag.sizing.layers import CROSS, FAMILIAR, SLIDING, Layer, is_latent, kv_heads, layers_of
from vdiag.sizing.parameters import parameters_of
from vdiag.sizing.safetensors import Tensor
from vdiag.sizing.weights import Piece, Split, Weights, of_parameters, of_pieces, pieces

FULL_CARD = 70 * GIB  # from here on vLLM's defaults are those of a large card
LARGEST_CARD = 160 * GIB


class Kept(msgspec.Struct):
    """What the layers of one kind keep of a request, on one card."""

    kind: str
    layers: int
    bytes_per_token: float | None  # of all of them together; None: a fixed size
    how: str
    fixed_bytes: int = 0  # what a request takes whatever its length


class Plan(msgspec.Struct):
    """The answer of `vdiag memory`."""

    schema: str
    config: str
    model: dict[str, Any]
    fits: bool | None  # None: unknown, since the weights are
    memory: Memory
    kept: list[Kept]
    weights_gib: float | None  # of the whole model
    weights_how: str
    range_gib: tuple[float, float]  # KV cache memory, if the estimates are far off
    flags: list[str]
    said: str


class Ask(msgspec.Struct, frozen=True):
    """What the caller wants to know: a card and the engine arguments that matter."""

    card: int  # bytes
    utilization: float = 0.92
    length: int | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    kv_dtype: str = "auto"
    dtype: str = "auto"
    state_dtype: str = "auto"
    quantization: str = ""
    seqs: int | None = None
    batched: int | None = None
    block: int | None = None
    experts: bool = False  # --enable-expert-parallel
    eager: bool = False
    prefix_caching: bool = True
    hybrid: bool = True


def plan(config: Config, tensors: Sequence[Tensor], ask: Ask) -> Plan:
    """The plan for a model, with what would change it.

    Raises:
        Unsizable: its config, or the call, makes none possible.
    """
    found = pieces(tensors)
    made = planned(config, found, ask)
    made.memory.levers = enough_cards(choices(config, made, ask, lambda tried: planned(config, found, tried)))
    return made


def planned(config: Config, tensors: Sequence[Piece], ask: Ask) -> Plan:
    """The plan for a model as it is asked for; raises Unsizable."""
    layers = layers_of(config)
    _startable(config, ask)
    if ask.pp > len(layers):
        raise Unsizable(f"--pp {ask.pp}: the model has {len(layers)} layers")
    setting = _setting(config, layers, ask)
    seqs = ask.seqs or (256 if ask.card < FULL_CARD else 1024)
    found = kv.specs_of(layers, setting)
    groups = kv.grouped(found)
    stages = kv.stages(len(layers), ask.pp)
    weights, unknown = _weights(config, layers, tensors, setting, ask, stages)
    rest = [
        Share(shares.ACTIVATIONS, overhead.activations(config, setting, seqs) / GIB, estimated=True),
        Share(shares.NON_TORCH, overhead.non_torch(setting) / GIB, estimated=True),
        Share(shares.GRAPHS, overhead.graphs(len(layers), setting, ask.eager) / GIB, estimated=True),
    ]
    rest = [share for share in rest if share.gib]
    around = sum(share.gib for share in rest) * GIB
    budget = ask.card * ask.utilization
    # The stage whose cache has the fewest blocks decides.
    rooms = [budget - around - (weights[at].size if weights else 0) for at in range(ask.pp)]
    pools = [kv.pool(groups, stage) for stage in stages]
    decides = min(
        range(ask.pp),
        key=lambda at: rooms[at] / made.block_bytes if (made := pools[at]) is not None else rooms[at],
    )
    room, pool = int(rooms[decides]), pools[decides]
    memory = Memory(
        source=config.name,
        total_gib=_gib(ask.card),
        utilization=ask.utilization,
        budget_gib=_gib(budget),
        shares=[
            *_weights_share(config, layers, weights, tensors, decides),
            *map(_rounded, rest),
            *([Share(shares.KV, _gib(room), estimated=True)] if room > 0 and pool is not None else []),
        ],
        asked=True,
        kv_gib=_gib(room),
        max_model_len=setting.length,
    )
    fits: bool | None = room > 0
    low, high = int(room - around * (overhead.HIGH - 1)), int(room + around * (1 - overhead.LOW))
    if pool is not None:
        fits = _fill(memory, pool, setting, (low, room), ask, budget - room, config.length)
        _notes(memory, config, layers, setting, pool, room, (low, high))
        _older_sampler(memory, overhead.logits(config, setting, seqs) / GIB)
    if not config.model.defaults and config.model.type not in FAMILIAR:
        memory.notes.append(
            f"model_type {config.model.type or 'is missing and'} is not known here: it is read as an ordinary "
            "transformer, by the fields that it names."
        )
    if unknown:
        fits = None
        memory.notes.insert(0, f"The weights are unknown ({unknown}); all that follows leaves them out.")
    return Plan(
        schema="vdiag.memory/1",
        config=config.name,
        model=_model(config, layers, weights),
        fits=fits,
        memory=memory,
        kept=_kept(layers, setting, stages[decides]),
        weights_gib=_gib(weights[0].total) if weights else None,
        weights_how=weights[0].how if weights else "",
        range_gib=(_gib(low), _gib(high)),
        flags=[] if fits is False and not memory.fitting_len else _flags(ask, setting, memory),
        said=_said(memory, fits, pool is None),
    )


def _startable(config: Config, ask: Ask) -> None:
    """What vLLM itself refuses to divide so; raises Unsizable."""
    heads = config.model.whole(*HEADS, default=0, least=0)
    if heads % ask.tp:
        raise Unsizable(f"--tp {ask.tp}: the model's {heads} attention heads cannot be divided by it")
    if ask.tp % ask.dcp:
        raise Unsizable(f"--dcp {ask.dcp}: --tp {ask.tp} is no multiple of it")
    if ask.dcp > 1 and heads and not is_latent(config.model):
        most = ask.tp // kv_heads(config.model)
        if ask.dcp > most:
            raise Unsizable(
                f"--dcp {ask.dcp}: at most {max(1, most)}, --tp {ask.tp} over {kv_heads(config.model)} KV heads"
            )


def _setting(config: Config, layers: Sequence[Layer], ask: Ask) -> Setting:
    length = ask.length or config.length
    if length is None:
        raise Unsizable(f"{config.name}: it names no longest context; give --max-model-len")
    dtype = ask.dtype
    if dtype == "auto":
        dtype = "bfloat16" if config.dtype == "float32" else config.dtype
    kv_dtype = ask.kv_dtype
    if kv_dtype == "auto" and _cache_is_fp8(config):
        kv_dtype = "fp8"
    sparse = config.model.get("index_topk") is not None
    if sparse and kv_dtype in ("fp8", "fp8_e4m3"):
        kv_dtype = "fp8_ds_mla"
    if kv_dtype == "fp8_ds_mla" and not sparse:
        raise Unsizable(
            "--kv-cache-dtype fp8_ds_mla is for models with sparse MLA (index_topk in their config)"
        )
    if kv_dtype == "nvfp4" and is_latent(config.model):
        raise Unsizable("--kv-cache-dtype nvfp4 is not for models with MLA")
    latent = is_latent(config.model)
    batched = ask.batched
    if batched is None:
        batched = 2048 if ask.card < FULL_CARD else 8192 if ask.card < LARGEST_CARD else 16384
    return Setting(
        length=length,
        tp=ask.tp,
        pp=ask.pp,
        dcp=ask.dcp,
        kv_dtype=kv_dtype,
        dtype=dtype,
        state_dtype=ask.state_dtype,
        block=ask.block or (64 if latent else 16),
        batched=batched,
        prefix_caching=ask.prefix_caching,
        hybrid=ask.hybrid,
    )


def _cache_is_fp8(config: Config) -> bool:
    """Whether a quantised model brings its scales for an fp8 cache: `auto` then means fp8."""
    quantization = config.quantization
    if quantization is None:
        return False
    inner = quantization.under("quantization")
    for said in (inner.get("kv_cache_scheme"), quantization.get("kv_cache_scheme"),
                 inner.get("kv_cache_quant_algo"), quantization.get("kv_cache_quant_algo")):  # fmt: skip
        if isinstance(said, dict):
            return said.get("type") == "float" and said.get("num_bits") == 8
        if isinstance(said, str):
            return said.lower() == "fp8"
    return False


def _weights(
    config: Config,
    layers: list[Layer],
    tensors: Sequence[Piece],
    setting: Setting,
    ask: Ask,
    stages: list[range],
) -> tuple[list[Weights], str]:
    """The weights of each stage; none and the reason where they cannot be told."""
    ways = ask.tp * (ask.dp if ask.experts else 1)
    split = Split(stages, len(layers), ask.tp, ways, 1 if is_latent(config.model) else _heads(config))
    if tensors:
        return of_pieces(tensors, config, setting, split, ask.quantization), ""
    try:
        return of_parameters(parameters_of(config, layers), config, setting, split, ask.quantization), ""
    except Unsizable as error:
        return [], str(error)


def _weights_share(
    config: Config, layers: Sequence[Layer], weights: Sequence[Weights], tensors: Sequence[Piece], stage: int
) -> list[Share]:
    """The weights; estimated where the parameters of a form that is not known to the byte are counted."""
    if not weights:
        return []
    rough = not config.model.defaults or any(layer.state is not None for layer in layers)
    return [Share(shares.WEIGHTS, _gib(weights[stage].size), estimated=rough and not tensors)]


def _heads(config: Config) -> int:
    try:
        return kv_heads(config.model)
    except Unsizable:
        return 1


def _fill(
    memory: Memory,
    pool: kv.Pool,
    setting: Setting,
    rooms: tuple[int, int],
    ask: Ask,
    taken: float,
    longest: int | None,
) -> bool:
    """What the KV cache holds, into `memory`; whether one request of the full length fits.

    `rooms`: bytes of it, if the estimates are short and as they are. The longest context is one that surely fits.
    """
    need = pool.need(setting.length, setting)
    low, room = rooms
    memory.need_gib = _gib(need)
    blocks = max(0, room // pool.block_bytes)
    memory.concurrency = round(blocks / pool.request(setting.length, setting), 2)
    memory.kv_tokens = int(blocks / pool.request(setting.length, setting) * setting.length)
    memory.bytes_per_token = round(need / setting.length, 1)
    limit = max(setting.length, longest or 0)
    fitting = kv.longest(pool, setting, low, limit)
    memory.fitting_len = (fitting if fitting >= limit else fitting // pool.block * pool.block) or None
    fits = need + pool.block_bytes <= room
    if not fits:
        memory.needed_utilization = round((need + pool.block_bytes + taken) / ask.card + 0.005, 2)
    return fits


def _notes(
    memory: Memory,
    config: Config,
    layers: Sequence[Layer],
    setting: Setting,
    pool: kv.Pool,
    room: int,
    between: tuple[int, int],
) -> None:
    if len(pool.groups) > 1:
        older = max(0, room // pool.block_bytes) // len(pool.groups) * pool.block * setting.dcp
        memory.notes.append(
            f"vLLM up to 0.17 prints the size of this cache as {older:,} tokens: it divided the blocks by the "
            f"{len(pool.groups)} groups of layers, whatever a request takes of each."
        )
    if any(layer.attention and layer.attention[0].kind == SLIDING for layer in layers) and not setting.hybrid:
        memory.notes.append("Without the hybrid manager sliding windows take blocks for every token.")
    need = pool.need(setting.length, setting) + pool.block_bytes
    if between[0] < need <= between[1]:
        memory.notes.append(
            "It is close: activations, CUDA graphs and non-torch memory are estimates, and decide. Only a start tells."
        )
    if config.multimodal:
        memory.notes.append(
            "The model has more parts than its language model: their weights count only where safetensors files "
            "are there, and their activations are not estimated."
        )


def _older_sampler(memory: Memory, logits: float) -> None:
    """Says what sampling took in older versions, where that is much more than the estimate."""
    took = overhead.SAMPLED_BEFORE * logits
    estimate = next((share.gib for share in memory.shares if share.what == shares.ACTIVATIONS), 0.0)
    if took - estimate > 0.5:
        memory.notes.append(
            f"Activations: vLLM 0.11 and before took about {took:.1f} GiB for the logits of so many requests; "
            "a smaller --max-num-seqs lowers that."
        )


def _kept(layers: Sequence[Layer], setting: Setting, stage: range) -> list[Kept]:
    """What the layers of the stage keep, kind by kind."""
    rows: dict[tuple[str, str], Kept] = {}
    for at in stage:
        layer = layers[at]
        for kept in layer.attention:
            size = kv.token_bytes(kept, setting)
            how = kv.told(kept, setting)
            row = rows.setdefault((kept.kind, how), Kept(kept.kind, 0, 0.0, how))
            row.layers += 1
            if kept.kind == CROSS:
                row.bytes_per_token = None
                row.fixed_bytes += size * kept.window
            else:
                row.bytes_per_token = (row.bytes_per_token or 0) + size
        if layer.state is not None:
            size = kv.state_bytes(layer.state, setting)
            how = f"{layer.state.kind}: {size:,} B a request and layer"
            row = rows.setdefault(("state", how), Kept("state", 0, None, how))
            row.layers += 1
            row.fixed_bytes += size
        if layer.shared:
            row = rows.setdefault(
                ("shared", ""), Kept("shared", 0, 0.0, "reads the cache of an earlier layer")
            )
            row.layers += 1
    return list(rows.values())


def _model(config: Config, layers: Sequence[Layer], weights: Sequence[Weights]) -> dict[str, Any]:
    quantization = config.quantization
    return {
        "model_type": config.model.type,
        "architecture": config.architecture,
        "layers": len(layers),
        "parameters": weights[0].parameters if weights else 0,
        "dtype": config.dtype,
        "quantization": quantization.text("quant_method") if quantization is not None else "",
        "longest_context": config.length,
    }


def _flags(ask: Ask, setting: Setting, memory: Memory) -> list[str]:
    """The engine arguments of this plan, with a length that fits."""
    length = setting.length
    if memory.fitting_len and memory.fitting_len < length:
        length = memory.fitting_len
    flags = [f"--max-model-len {length}", f"--gpu-memory-utilization {ask.utilization:g}"]
    for name, value, usual in (
        ("--tensor-parallel-size", ask.tp, 1),
        ("--pipeline-parallel-size", ask.pp, 1),
        ("--data-parallel-size", ask.dp, 1),
        ("--decode-context-parallel-size", ask.dcp, 1),
        ("--kv-cache-dtype", ask.kv_dtype, "auto"),
        ("--dtype", ask.dtype, "auto"),
        ("--mamba-ssm-cache-dtype", ask.state_dtype, "auto"),
        ("--quantization", ask.quantization, ""),
        ("--max-num-seqs", ask.seqs, None),
        ("--max-num-batched-tokens", ask.batched, None),
        ("--block-size", ask.block, None),
    ):
        if value != usual:
            flags.append(f"{name} {value}")
    if ask.experts:
        flags.append("--enable-expert-parallel")
    if ask.eager:
        flags.append("--enforce-eager")
    if not ask.prefix_caching:
        flags.append("--no-enable-prefix-caching")
    if not ask.hybrid:
        flags.append("--disable-hybrid-kv-cache-manager")
    return flags


def _said(memory: Memory, fits: bool | None, uncached: bool) -> str:
    if fits is None:
        return "Whether it fits is unknown."
    if memory.kv_gib is not None and memory.kv_gib <= 0:
        return f"It does not fit: {-memory.kv_gib:.2f} GiB are missing before any KV cache."
    if uncached:
        return "It fits; the model keeps no KV cache."
    if fits:
        length = memory.max_model_len or 0
        said = f"{memory.concurrency:.2f} requests of {length:,} tokens at once"
        if memory.fitting_len and memory.fitting_len < length:
            return f"It fits if the estimates hold: {said}. {memory.fitting_len:,} tokens are sure to fit."
        return f"It fits: {said}."
    fitting = f" {memory.fitting_len:,} tokens would." if memory.fitting_len else ""
    return f"A context of {memory.max_model_len:,} tokens does not fit.{fitting}"


def _rounded(share: Share) -> Share:
    return Share(share.what, round(share.gib, 2), share.line, share.estimated)


def _gib(size: float) -> float:
    return round(size / GIB, 2)


__all__ = ["Ask", "Kept", "Plan", "plan"]
