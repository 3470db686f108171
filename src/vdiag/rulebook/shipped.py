"""The shipped rulebook, decoded from the file that travels inside the wheel.

Start-up depends on it: no YAML, no regex, one read and one decode. In a checkout the file is rewritten when the
rules or the code that compiles them changed since; only folder listings are needed to see that.
"""

from __future__ import annotations

import gc
import os
import warnings
import zlib
from contextlib import suppress
from pathlib import Path

import msgspec

from vdiag.rulebook.compile import Rulebook

PACKAGE = Path(__file__).parent
SHIPPED = PACKAGE / "shipped.msgpack"


class Shipped(msgspec.Struct):
    """What the file holds: the rulebook, and a stamp of what it was compiled from."""

    stamp: str
    rulebook: Rulebook


def shipped() -> Rulebook:
    """The shipped rulebook. FileNotFoundError where it is missing: a broken installation."""
    rules = checkout_rules()
    held = _read()
    if rules is None:
        if held is None:
            raise FileNotFoundError(f"{SHIPPED} is missing or not readable: install vdiag again")
        return held.rulebook
    stamp = stamp_of(rules)
    if held is not None and held.stamp == stamp:
        return held.rulebook
    return _recompiled(rules, stamp)


def checkout_rules() -> Path | None:
    """The `rules` folder of the checkout this package runs from; None for an installed wheel."""
    root = PACKAGE.parents[2]
    return root / "rules" if (root / "hatch_build.py").is_file() and (root / "rules").is_dir() else None


def write_shipped(rulebook: Rulebook, stamp: str) -> None:
    """Write the file, whole or not at all; OSError where that is not allowed."""
    draft = SHIPPED.with_suffix(f".{os.getpid()}.tmp")
    try:
        draft.write_bytes(msgspec.msgpack.encode(Shipped(stamp, rulebook)))
        os.replace(draft, SHIPPED)
    finally:
        draft.unlink(missing_ok=True)


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
