"""The KV cache of a model as vLLM 0.33 lays it out: pages of blocks, groups of layers, and what a request takes.

vLLM cuts the cache into blocks that hold one page of each layer of a group; all groups draw from one pool. A request
takes whole blocks of every group: of full attention for each token, of a sliding window for what the window and the
tokens in flight need, of a state a fixed number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vdiag.sizing.config import Unsizable
from vdiag.sizing.layers import CROSS, INDEX, MAMBA, MLA, SLIDING, Attention, Layer
from vdiag.sizing.states import State

DTYPES = {
    "auto": 0.0,
    "bfloat16": 2.0,
    "float16": 2.0,
    "float32": 4.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "nvfp4": 0.5,
    "fp8_ds_mla": 1.0,
}
MODEL_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4}
SPARSE_FP8 = 656  # bytes of a token's latent in DeepSeek's packed fp8: 512 values, 4 scales, 64 in 16 bits


@dataclass(frozen=True)
class Setting:
    """What the sizes depend on besides the model."""

    length: int  # max_model_len, tokens
    tp: int = 1
    pp: int = 1
    dcp: int = 1
    kv_dtype: str = "auto"
    dtype: str = "bfloat16"  # of the model, as loaded
    block: int = 16  # tokens
    state_dtype: str = "auto"  # of the recurrence, where the model does not say
    batched: int = 2048  # max_num_batched_tokens
    overlap: int | None = None  # batches in flight; None: as asynchronous scheduling has them
    prefix_caching: bool = True
    hybrid: bool = True  # the hybrid KV cache manager

    @property
    def in_flight(self) -> int:
        """Tokens scheduled and not yet settled: asynchronous scheduling overlaps two batches."""
        return (self.overlap or max(2, self.pp)) * self.batched


@dataclass(frozen=True)
class Spec:
    """One layer's cache: its kind, tokens and bytes of a block, and what decides how many blocks a request takes."""

    kind: str
    block: int
    page: int  # bytes
    window: int = 0
    states: int = 0  # blocks that a request holds whatever its length

    @property
    def base(self) -> tuple[str, int, int]:
        """Layers with the same may share one group whatever their pages."""
        if self.kind == MAMBA:
            return MAMBA, self.page, self.states
        if self.kind in (SLIDING, CROSS):
            return self.kind, self.window, self.block
        return "tokens", 0, self.block

    def blocks(self, length: int, setting: Setting) -> int:
        """Blocks that one request of `length` tokens takes."""
        if self.kind == MAMBA:
            return self.states
        if self.kind == CROSS:
            return _up(self.window, self.block)
        if self.kind == SLIDING:
            return _up(min(self.window - 1 + setting.in_flight, length), self.block) + 1
        return _up(_up(length, setting.dcp), self.block)


@dataclass(frozen=True)
class Group:
    """Layers that share a table of blocks."""

    specs: tuple[Spec, ...]
    layers: tuple[int, ...]  # numbers of the layers

    def blocks(self, length: int, setting: Setting) -> int:
        return max(spec.blocks(length, setting) for spec in self.specs)


@dataclass(frozen=True)
class Pool:
    """The cache of the ranks of one pipeline stage."""

    groups: tuple[Group, ...]
    block_bytes: int  # of one block: the pages of the largest group
    block: int  # tokens of the smallest block

    def need(self, length: int, setting: Setting) -> int:
        """Bytes that one request of `length` tokens takes."""
        return self.block_bytes * self.request(length, setting)

    def request(self, length: int, setting: Setting) -> int:
        """Blocks that one request takes."""
        return sum(group.blocks(length, setting) for group in self.groups)


def element_bytes(setting: Setting) -> float:
    """Bytes of one cached number."""
    return DTYPES[setting.kv_dtype] or MODEL_BYTES[setting.dtype]


def specs_of(layers: Sequence[Layer], setting: Setting) -> list[tuple[int, Spec]]:
    """The cache of each layer on one rank, with the layer's number."""
    token = [token_bytes(kept, setting) for layer in layers for kept in layer.attention]
    states = {layer.state for layer in layers if layer.state is not None}
    block, padded = setting.block, 0
    state_blocks = 1
    if states and token:
        padded = max(state_bytes(state, setting) for state in states)
        if any(kept.latent for layer in layers for kept in layer.attention):
            block = max(block, 128)
        block *= _up(padded, block * max(token))
        padded = block * max(token)
        if setting.prefix_caching:
            state_blocks = 2 + max(state.checkpoints for state in states)
    found = []
    for at, layer in enumerate(layers):
        for kept in layer.attention:
            page = block * token_bytes(kept, setting)
            found.append((at, Spec(kept.kind, block, page, kept.window)))
        if layer.state is not None:
            page = padded or state_bytes(layer.state, setting)
            found.append((at, Spec(MAMBA, block if padded else setting.length, page, states=state_blocks)))
    return found if setting.hybrid else _whole(found)


def _whole(found: list[tuple[int, Spec]]) -> list[tuple[int, Spec]]:
    """Without the hybrid manager a sliding window takes blocks for all tokens, next to full attention."""
    if all(spec.kind == SLIDING for _, spec in found):
        return found
    return [
        (at, replace(spec, kind="full attention", window=0) if spec.kind == SLIDING else spec)
        for at, spec in found
    ]


def token_bytes(kept: Attention, setting: Setting) -> int:
    """Bytes of one token in one layer on one rank."""
    if kept.kind == INDEX:
        return kept.key
    if kept.kind == MLA:
        if setting.kv_dtype == "fp8_ds_mla":
            return SPARSE_FP8
        return int(kept.key * element_bytes(setting))
    heads = max(1, kept.kv_heads // setting.tp)
    if setting.kv_dtype == "nvfp4":  # two to a byte, and a scale of one byte for 16
        return heads * max(1, kept.key // 2 + kept.key // 16 + kept.value // 2 + kept.value // 16)
    return int(heads * (kept.key + kept.value) * element_bytes(setting))


def told(kept: Attention, setting: Setting) -> str:
    """How the bytes of one token come about, for people."""
    size = f"{element_bytes(setting):g} B"
    if kept.kind == INDEX:
        return f"{kept.key} B"
    if kept.kind == MLA:
        return f"{SPARSE_FP8} B" if setting.kv_dtype == "fp8_ds_mla" else f"{kept.key} x {size}"
    heads = max(1, kept.kv_heads // setting.tp)
    values = (
        f"2 x {heads} KV heads x {kept.key}"
        if kept.key == kept.value
        else f"{heads} x ({kept.key} + {kept.value})"
    )
    window = f", the last {kept.window:,} tokens" if kept.kind == SLIDING else ""
    return f"{values} x {size}{window}"


def state_bytes(state: State, setting: Setting) -> int:
    """Bytes of a layer's state on one rank."""
    size = MODEL_BYTES[setting.dtype]
    recurrent = MODEL_BYTES.get(setting.state_dtype) or MODEL_BYTES.get(state.recurrent_dtype, size)
    return state.conv_on(setting.tp) * size + state.recurrent_on(setting.tp) * recurrent


def grouped(found: Sequence[tuple[int, Spec]]) -> list[Group]:
    """The groups of all layers together, before they are dealt to pipeline stages."""
    specs = [spec for _, spec in found]
    if not specs:
        return []
    if len({spec.base for spec in specs}) == 1:
        return [Group(tuple(specs), tuple(at for at, _ in found))]
    largest = max(spec.page for spec in specs)
    buckets: dict[Spec, list[int]] = {}
    for at, spec in found:
        buckets.setdefault(_widened(spec, largest), []).append(at)
    sizes = [len(layers) for layers in buckets.values()]
    size = max(sizes) if max(sizes) < 1.5 * min(sizes) else min(sizes)
    groups = []
    for spec, layers in buckets.items():
        count = _up(len(layers), size)
        groups += [
            Group((spec,) * len(layers[start::count]), tuple(layers[start::count])) for start in range(count)
        ]
    return groups


def _widened(spec: Spec, largest: int) -> Spec:
    """The spec with the largest page of all: more tokens a block where that divides, else padded."""
    if spec.page == largest:
        return spec
    if spec.kind != MAMBA and largest % spec.page == 0:
        return replace(spec, block=spec.block * (largest // spec.page), page=largest)
    if spec.kind in (MLA, INDEX):
        raise Unsizable(
            f"a page of {spec.page} bytes cannot be fitted to one of {largest}: vLLM does not start so"
        )
    return replace(spec, page=largest)


def pool(groups: Iterable[Group], layers: range | None = None) -> Pool | None:
    """The pool of the stage that holds these layers (all of them by default); None where nothing is cached."""
    mine = tuple(groups)
    held = [
        sum(
            spec.page
            for spec, at in zip(group.specs, group.layers, strict=True)
            if layers is None or at in layers
        )
        for group in mine
    ]
    if not any(held):
        return None
    return Pool(mine, max(held), min(spec.block for group in mine for spec in group.specs))


def stages(count: int, pp: int) -> list[range]:
    """The layers of each pipeline stage, as vLLM deals them: what is left over goes to stages before the last."""
    sizes = [count // pp] * pp
    for late in range(2, count % pp + 2):
        sizes[-late] += 1
    starts = [sum(sizes[:at]) for at in range(pp)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def longest(pool_: Pool, setting: Setting, available: int, limit: int) -> int:
    """The longest request, up to `limit` tokens, that the cache holds besides its reserved block; 0: none."""
    room = available - pool_.block_bytes
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if pool_.need(middle, setting) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _up(whole: int, part: int) -> int:
    return -(-whole // part)
