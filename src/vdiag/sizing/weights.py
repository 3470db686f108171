"""The memory that a model's weights take on one card: from the files' headers, else from its parameter count."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vdiag.sizing.config import LAYERS, MOST_LAYERS, Config, Fields
from vdiag.sizing.kv import MODEL_BYTES, Setting
from vdiag.sizing.parameters import Parameters, Part
from vdiag.sizing.safetensors import FLOATS, Tensor

_LAYER = re.compile(r"\blayers?\.(\d+)\.|\bh\.(\d+)\.")
_WHOLE = re.compile(
    r"\b(?:q_a_proj|kv_a_proj_with_mqa|fused_qkv_a_proj|mlp\.gate|router|indexer|block_sparse_moe\.gate)\b"
)
_KEYS = re.compile(r"\b(?:k_proj|v_proj)\b")
_EXPERT = re.compile(r"\bexperts\b")
_HEAD = re.compile(r"(?:^|\.)lm_head\.")
_MEDIA = re.compile("visi|visual|audio|encoder")
_DIGITS = re.compile(r"\d+")
_ENDS = re.compile(r"(?:^|\.)(?:embed_tokens|wte|word_embeddings|embedding)\.|(?:^|\.)lm_head\.")


@dataclass(frozen=True)
class Quantization:
    """Bytes that a number of a quantised matrix takes, and which matrices are left as they are."""

    method: str
    size: float
    attention: bool = True
    mlp: bool = True
    head: bool = False


@dataclass(frozen=True)
class Weights:
    """Bytes on one card of the fullest stage."""

    size: int
    how: str
    parameters: int = 0  # of the whole model, 0: not counted
    total: int = 0  # bytes of the whole model


@dataclass
class Piece:
    """Tensors of one kind in one layer: what they come to does not depend on their number."""

    kind: Kind
    layer: int | None
    size: int = 0  # bytes in the files
    floats: int = 0  # numbers of 16 bits and more among them
    rest: int = 0  # bytes of the others


class Kind(NamedTuple):
    """How tensors of a name are divided over cards, and whether they are loaded."""

    part: str  # whole | keys | experts | matrices
    head: bool  # the output matrix
    ends: bool  # the embedding or the output matrix
    media: bool  # of the part that sees or hears
    matrix: bool  # quantised where weights are quantised while loading


def pieces(tensors: Iterable[Tensor]) -> list[Piece]:
    """The tensors put together by layer and kind."""
    kinds: dict[tuple[str, bool], Kind] = {}
    found: dict[tuple[Kind, int | None], Piece] = {}
    for tensor in tensors:
        if tensor.name.startswith("mtp."):  # they predict further tokens, and are not loaded
            continue
        form = _DIGITS.sub("0", tensor.name), len(tensor.shape) > 1
        kind = kinds.get(form) or kinds.setdefault(form, _kind(*form))
        layer = _LAYER.search(tensor.name)
        at = int(layer[1] or layer[2]) if layer and not kind.media else None
        piece = found.get((kind, at)) or found.setdefault((kind, at), Piece(kind, at))
        piece.size += tensor.size
        if tensor.dtype in FLOATS:
            piece.floats += math.prod(tensor.shape)
        else:
            piece.rest += tensor.size
    return list(found.values())


def _kind(name: str, matrix: bool) -> Kind:
    ends = bool(_ENDS.search(name))
    if (not matrix and not re.search(r"\bbias$|experts", name)) or _WHOLE.search(name):
        part = "whole"
    elif _KEYS.search(name):
        part = "keys"
    else:
        part = "experts" if _EXPERT.search(name) else "matrices"
    return Kind(
        part,
        bool(_HEAD.search(name)),
        ends,
        bool(_MEDIA.search(name)),
        matrix and not ends and part != "whole",
    )


def of_pieces(
    found: Iterable[Piece], config: Config, setting: Setting, split: Split, online: str = ""
) -> list[Weights]:
    """What the files' tensors come to on a card of each stage.

    What vLLM leaves out is left out: an output matrix that is tied, layers that predict further tokens. Numbers of
    16 and 32 bits are loaded in the model's type.
    """
    tied = config.model.get("tie_word_embeddings") or config.top.get("tie_word_embeddings")
    cast = MODEL_BYTES[setting.dtype] if config.quantization is None else 0
    last = len(split.stages) - 1
    sizes, total = [0.0] * len(split.stages), 0.0
    for piece in found:
        if (tied and piece.kind.head) or (piece.layer is not None and piece.layer >= split.count):
            continue
        size: float = piece.size
        if cast:
            size = piece.floats * (_online(online, cast) if piece.kind.matrix else cast) + piece.rest
        total += size
        for stage, layers in enumerate(split.stages):
            if piece.layer in layers if piece.layer is not None else stage in (0, last):
                sizes[stage] += size / split.ways(piece.kind.part)
    return [Weights(int(size), "from the safetensors headers", 0, int(total)) for size in sizes]


@dataclass(frozen=True)
class Split:
    """How a model is dealt to cards."""

    stages: list[range]
    count: int  # layers
    tp: int
    expert_ways: int
    kv_heads: int

    def ways(self, part: str) -> int:
        """Over how many ranks a kind of tensors is divided."""
        if part == "keys":
            return min(self.tp, max(1, self.kv_heads))
        return {"whole": 1, "experts": self.expert_ways}.get(part, self.tp)


def of_parameters(
    count: Parameters, config: Config, setting: Setting, split: Split, online: str = ""
) -> list[Weights]:
    """What the counted parameters come to on a card of each stage."""
    plain = MODEL_BYTES[setting.dtype]
    quant = quantization_of(config, plain, online)
    last = len(split.stages) - 1
    found = []
    for stage, layers in enumerate(split.stages):
        size = sum(_part(part, plain, quant, split) for at, part in enumerate(count.layers) if at in layers)
        if stage == 0 or (stage == last and not count.head):
            size += (count.embedding + count.encoder * (stage == 0)) * plain / split.tp
        if stage == last:
            size += count.head * (quant.size if quant.head else plain) / split.tp
        found.append(size)
    total = sum(_part(part, plain, quant, Split([], 0, 1, 1, 1)) for part in count.layers)
    total += (count.embedding + count.head + count.encoder) * plain
    how = f"from the parameter count{f', {quant.method}' if quant.method else ''}"
    return [Weights(int(size), how, count.total, int(total)) for size in found]


def _part(part: Part, plain: float, quant: Quantization, split: Split) -> float:
    attention = quant.size if quant.attention else plain
    mlp = quant.size if quant.mlp else plain
    return (
        part.attention * attention / split.tp
        + part.kv * attention / min(split.tp, max(1, split.kv_heads))
        + part.mlp * mlp / split.tp
        + (part.experts + part.padding * (quant.method == "mxfp4")) * quant.size / split.expert_ways
        + part.whole * plain
    )


def quantization_of(config: Config, plain: float, online: str = "") -> Quantization:
    """How the matrices are quantised: by the config, or while loading (`--quantization`)."""
    said = config.quantization
    if said is None:
        return Quantization(online, _online(online, plain)) if online else Quantization("", plain)
    method = (said.text("quant_method") or said.text("quant_algo")).lower()
    left = _left_out(said)
    layers = config.model.whole(*LAYERS, most=MOST_LAYERS)
    attention = not _covers(left, re.compile(r"self_attn|^(?:q_proj|attn)$"), layers)
    mlp = not _covers(left, re.compile(r"mlp(?!\.gate)|feed_forward|shared_expert\b"), layers)
    return Quantization(method, _size(said, method, plain), attention, mlp)


def _covers(names: list[str], part: re.Pattern[str], layers: int) -> bool:
    """Whether names of what stays as it is mean this part of most layers: by a pattern, or one by one."""
    named = [
        name for name in names if part.search(name) and not re.search("visi|visual|audio|encoder|mtp", name)
    ]
    numbers = [re.search(r"layers\.(\d+)\.", name) for name in named]
    return any(number is None for number in numbers) or 2 * len({n[1] for n in numbers if n}) >= layers


def _online(method: str, plain: float) -> float:
    return {"fp8": 1.0, "bitsandbytes": 0.5 + 4 / 64}.get(method, plain)


def _left_out(said: Fields) -> list[str]:
    names = [
        item
        for name in (
            "modules_to_not_convert",
            "ignore",
            "ignored_layers",
            "exclude_modules",
            "llm_int8_skip_modules",
        )
        for item in said.listed(name)
    ]
    return [item for item in names if isinstance(item, str)]


def _size(said: Fields, method: str, plain: float) -> float:
    """Bytes of a number of a quantised matrix, with the scales of its group."""
    if method == "mxfp4":
        return (4 + 8 / 32) / 8
    if "nvfp4" in method or method == "modelopt_fp4" or said.text("quant_algo").upper() == "NVFP4":
        return (4 + 8 / 16) / 8
    if method == "bitsandbytes":
        return 1.0 if said.flag("load_in_8bit") else 0.5 + 4 / 64
    if method in ("awq", "gptq", "awq_marlin", "gptq_marlin", "auto-round", "gptqmodel", "intel/auto-round"):
        bits = said.whole("bits", "w_bit", default=4, most=16)
        size = said.get("group_size", "q_group_size")
        group = size if isinstance(size, int) and size > 0 else 4096
        return (bits + (16 + bits) / group) / 8
    if method == "compressed-tensors":
        groups = said.under("config_groups")
        first = next((name for name, value in groups.raw.items() if isinstance(value, dict)), "")
        weights = groups.under(first).under("weights")
        bits = weights.whole("num_bits", default=8, most=16)
        group = weights.get("group_size")
        return (bits + (16 / group if isinstance(group, int) and group > 0 else 0)) / 8
    if "fp8" in method or method in ("modelopt", "quark", "fbgemm_fp8"):
        return 1.0
    return said.whole("bits", default=int(plain * 8), most=64) / 8
