"""The shipped rulebook, decoded from the file that travels inside the wheel.

Start-up depends on it: no YAML, no regex, one read and one decode. In a checkout the file is rewritten when the
rules or the code that compiles them changed since; only folder listings are needed to see that.
"""

from __future__ import annotations

import gc
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from vdiag.rulebook.compile import CompiledPattern, Rulebook
from vdiag.rulebook.schema import Rule

PACKAGE = Path(__file__).parent
SHIPPED = PACKAGE / "shipped.msgpack"


class Packed(msgspec.Struct):
    """A rulebook as the file holds it: rules stay encoded until one is asked for, since most never are."""

    rules: list[msgspec.Raw]
    patterns: list[CompiledPattern]


class Shipped(msgspec.Struct):
    """What the file holds: the rulebook, and a stamp of what it was compiled from."""

    stamp: str
    rulebook: Packed


class LateRules(list[Rule]):
    """Rules that are decoded when they are first asked for."""

    def __init__(self, packed: list[msgspec.Raw]) -> None:
        super().__init__(packed)  # type: ignore[arg-type]
        self._decode = msgspec.msgpack.Decoder(Rule).decode

    def __getitem__(self, index: Any) -> Any:
        rule = super().__getitem__(index)
        if isinstance(rule, msgspec.Raw):
            rule = self._decode(rule)
            super().__setitem__(index, rule)
        elif isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return rule

    def __iter__(self) -> Iterator[Rule]:
        return (self[i] for i in range(len(self)))


def shipped() -> Rulebook:
    """The shipped rulebook. FileNotFoundError where it is missing: a broken installation."""
    rules = checkout_rules()
    held = _read()
    if rules is None:
        if held is None:
            raise FileNotFoundError(f"{SHIPPED} is missing or not readable: install vdiag again")
        return _opened(held)
    stamp = stamp_of(rules)
    if held is not None and held.stamp == stamp:
        return _opened(held)
    return _recompiled(rules, stamp)


def _opened(held: Shipped) -> Rulebook:
    return Rulebook(LateRules(held.rulebook.rules), held.rulebook.patterns)


def checkout_rules() -> Path | None:
    """The `rules` folder of the checkout this package runs from; None for an installed wheel."""
    root = PACKAGE.parents[2]
    return root / "rules" if (root / "hatch_build.py").is_file() and (root / "rules").is_dir() else None


def write_shipped(rulebook: Rulebook, stamp: str) -> None:
    """Write the file, whole or not at all; OSError where that is not allowed."""
    for pattern in rulebook.patterns:
        pattern.trusted = _plain(pattern.source) and _plain(pattern.loose)
    draft = SHIPPED.with_suffix(f".{os.getpid()}.tmp")
    try:
        draft.write_bytes(msgspec.msgpack.encode({"stamp": stamp, "rulebook": rulebook}))
        os.replace(draft, SHIPPED)
    finally:
        draft.unlink(missing_ok=True)


def _plain(source: str) -> bool:
    """Whether Python's own `re` reads a pattern too; look-behinds of varying width it does not."""
    import re

    try:
        re.compile(source)
    except re.error:
        return False
    return True


def stamp_of(rules: Path) -> str:
    """A stamp that changes with any rule file and with the code of this package; from folder listings alone."""
    rows = []
    folders = [str(rules), str(PACKAGE)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.is_dir() and entry.name != "__pycache__":
                    folders.append(entry.path)
                elif entry.name.endswith((".yaml", ".yml", ".py")):
                    stat = entry.stat()
                    rows.append(f"{entry.path}\0{stat.st_mtime_ns}\0{stat.st_size}")
    return f"{len(rows)}-{zlib.crc32(chr(10).join(rows).encode()):08x}"


def _read() -> Shipped | None:
    collecting = gc.isenabled()
    gc.disable()  # ten thousand new objects and no garbage among them: a third of the decoding time
    try:
        return msgspec.msgpack.decode(SHIPPED.read_bytes(), type=Shipped)
    except (OSError, msgspec.MsgspecError):
        return None
    finally:
        if collecting:
            gc.enable()


def _recompiled(rules: Path, stamp: str) -> Rulebook:
    """The checkout's rules, compiled now and kept for the next start. Broken rules are left out, with a warning."""
    from vdiag.rulebook.load import Problem, load

    problems: list[Problem] = []
    rulebook = load([rules], collect=problems)
    if problems:
        more = f" and {len(problems) - 1} more (vdiag rules lint)" if len(problems) > 1 else ""
        warnings.warn(f"rulebook: {problems[0]}{more}", stacklevel=3)
    with suppress(OSError):  # a read-only checkout compiles at every start
        write_shipped(rulebook, stamp)
    return rulebook
