"""Engine arguments, named as Python names them, as the words of a command line."""

from __future__ import annotations

import json
import re
from typing import Any

from vdiag.advise.arguments import flag_of

# Lists are several words behind their flag (nargs="+"), but these want JSON (cli_args.py of the front end).
JSON_LISTS = ("allowed_origins", "allowed_methods", "allowed_headers")

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def typed(word: str) -> Any:
    """What a word stands for: a number, true or false, else itself."""
    if _NUMBER.fullmatch(word):
        return float(word) if "." in word or "e" in word else int(word)
    return {"true": True, "false": False}.get(word.lower(), word)


def words_of(name: str, value: Any, kind: str = "") -> list[str]:
    """One argument as argv words: `--max-model-len 4096`, `--enforce-eager`; JSON for mappings.

    `kind` is that of argument_list.KINDS, where it is known.
    """
    flag = flag_of(name)
    if value is True and kind not in ("v", "i", "k", "f"):
        return [flag]
    if value is False and kind not in ("v", "i", "k", "f"):
        return [] if kind == "n" else [flag.replace("--", "--no-", 1)]
    if isinstance(value, (list, tuple)) and name not in JSON_LISTS and kind != "j":
        return [flag, *map(plain, value)]
    return [flag, plain(value)]


def plain(value: Any) -> str:
    """A value as an argument: numbers bare, lists and mappings as JSON."""
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and 0 < abs(value) < 0.001:
        return repr(value)
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".")
    return str(value)
