"""What safetensors files hold, by their headers alone: eight bytes of length, then JSON."""

from __future__ import annotations

import json
import math
import re
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeGuard

from vdiag.sizing.config import Unsizable

LONGEST_HEADER = 100 << 20  # bytes; the format's own limit
MOST_INDEX = 64 << 20
MOST_AXES = 16
SIZES = {
    "F64": 8.0,
    "F32": 4.0,
    "F16": 2.0,
    "BF16": 2.0,
    "I64": 8.0,
    "I32": 4.0,
    "I16": 2.0,
    "I8": 1.0,
    "U64": 8.0,
    "U32": 4.0,
    "U16": 2.0,
    "U8": 1.0,
    "BOOL": 1.0,
    "F8_E4M3": 1.0,
    "F8_E5M2": 1.0,
    "F8_E8M0": 1.0,
    "F4": 0.5,
}
_NUMBERED = re.compile(r"(.{1,200})-(\d{1,6})-of-(\d{1,6})\.safetensors")
FLOATS = ("F64", "F32", "F16", "BF16")


class Tensor(NamedTuple):
    """One tensor of a file: its name, the type of its elements, its shape, and its size in bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size: int


def tensors_of(folder: Path) -> list[Tensor]:
    """All tensors of a model's folder that vLLM would load; empty where it has no weights.

    Raises:
        Unsizable: a file is broken; the message names it.
        OSError: a file cannot be read.
    """
    return [tensor for path in files_of(folder) for tensor in header(path)]


def files_of(folder: Path) -> list[Path]:
    """The weight files: those of the index where there is one, else all, without Mistral's second copy."""
    found = sorted(path for path in folder.glob("*.safetensors") if not path.name.startswith("adapter_"))
    _complete(folder, found)
    if len(found) < 2:
        return found
    index = folder / "model.safetensors.index.json"
    if index.is_file() and index.stat().st_size <= MOST_INDEX:
        try:
            named = json.loads(index.read_bytes())["weight_map"].values()
            listed = {str(name) for name in named}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            listed = set()
        there = [path for path in found if path.name in listed]
        if there:
            if missing := sorted(listed - {path.name for path in there}):
                raise Unsizable(
                    f"{index}: names {missing[0]}, which is not there; the download may be incomplete"
                )
            return there
    return [path for path in found if not path.name.startswith("consolidated")] or found


def _complete(folder: Path, found: list[Path]) -> None:
    """Raises Unsizable where one of a numbered set is missing."""
    sets: dict[tuple[str, int], set[int]] = {}
    for path in found:
        if named := _NUMBERED.fullmatch(path.name):
            sets.setdefault((named[1], int(named[3])), set()).add(int(named[2]))
    for (stem, count), numbers in sets.items():
        if len(numbers) < count:
            missing = next(number for number in range(1, count + 1) if number not in numbers)
            raise Unsizable(
                f"{folder}: {stem}: part {missing} of {count} is missing; the download may be incomplete"
            )


def header(path: Path) -> Iterator[Tensor]:
    """The tensors that one file tells of; checks that they lie in the file."""
    told = path.stat()
    if not stat.S_ISREG(told.st_mode):
        raise Unsizable(f"{path}: no regular file")
    size = told.st_size
    with path.open("rb") as file:
        start = file.read(8)
        if start.startswith(b"version "):
            raise Unsizable(f"{path}: a pointer of git-lfs, not the weights: the download is incomplete")
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 2 <= length <= min(LONGEST_HEADER, size - 8):
            raise Unsizable(f"{path}: no safetensors file: its header would have {length} bytes of {size}")
        try:
            said = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise Unsizable(f"{path}: no safetensors file: its header is not JSON") from None
    if not isinstance(said, dict):
        raise Unsizable(f"{path}: no safetensors file: its header is no object")
    for name, entry in said.items():
        if name != "__metadata__":
            yield _tensor(path, name, entry, size - 8 - length)


def _tensor(path: Path, name: str, entry: object, room: int) -> Tensor:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not (_counts(shape) and _counts(offsets) and len(offsets) == 2 and offsets[0] <= offsets[1]):
        raise Unsizable(f"{path}: the header says nothing sound of {name[:80]!r}")
    if offsets[1] > room:
        raise Unsizable(
            f"{path}: {name[:80]!r} ends at byte {offsets[1]} of {room}: the file is cut off, load it again"
        )
    assert isinstance(entry, dict)
    each = SIZES.get(str(entry.get("dtype")))
    if len(shape) > MOST_AXES or (each and math.prod(shape) * each != offsets[1] - offsets[0]):
        raise Unsizable(f"{path}: the header says nothing sound of {name[:80]!r}")
    return Tensor(name, str(entry.get("dtype")), tuple(shape), offsets[1] - offsets[0])


def _counts(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)
