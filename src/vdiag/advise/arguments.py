"""Which flags which vLLM version takes, from the lists extract_arguments.py read out of its sources.

Versions between two that were read are judged by both neighbours; where these disagree, nothing is claimed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

# What took over from a flag that went, where the new name is no near spelling: by the sources' own deprecation
# notes where there are any, else by what the nearest listed versions before and after do.
SUCCESSORS = {
    "--task": "use `--runner` (generate, pooling) and `--convert` instead",
    "--disable-log-requests": "requests are not logged unless `--enable-log-requests` is given: drop it",
    "--guided-decoding-backend": 'use `--structured-outputs-config \'{"backend": "…"}\'` instead',
    "--enable-reasoning": "`--reasoning-parser` alone is enough: drop it",
    "--speculative-model": 'use `--speculative-config \'{"model": "…", "num_speculative_tokens": …}\'` instead',
    "--num-speculative-tokens": 'use `--speculative-config \'{"model": "…", "num_speculative_tokens": …}\'` instead',
    "--rope-scaling": "use `--hf-overrides '{\"rope_parameters\": {…}}'` instead",
    "--rope-theta": "use `--hf-overrides '{\"rope_parameters\": {…}}'` instead",
    "--override-pooler-config": "use `--pooler-config` instead",
    "--disable-mm-preprocessor-cache": "use `--mm-processor-cache-gb 0` instead",
    "--cuda-graph-sizes": "use `--cudagraph-capture-sizes` instead",
    "--max-seq-len-to-capture": "it was V0's limit for CUDA graphs by sequence length: drop it",
    "--worker-use-ray": "use `--distributed-executor-backend ray` instead",
    "--use-v2-block-manager": "it is how vLLM works now: drop it",
    "--num-scheduler-steps": "V1 schedules without it: drop it",
    "--swap-space": "V1 does not swap: drop it",
    "--device": "the platform is found by itself: drop it",
}


@lru_cache(maxsize=1)
def lists() -> dict[str, Any]:
    """arguments.json as extract_arguments.py wrote it: `versions`, `flags`, `choices`, `short`."""
    data: dict[str, Any] = json.loads(Path(__file__).with_name("arguments.json").read_text(encoding="utf-8"))
    return data


@lru_cache(maxsize=1)
def _table() -> tuple[tuple[str, ...], dict[str, str]]:
    return tuple(lists()["versions"]), lists()["flags"]


@lru_cache(maxsize=64)
def number(version: str | None) -> tuple[int, ...]:
    """`0.6.6.post1` → (0, 6, 6); empty where there is no version in the text."""
    found = re.match(r"v?(\d+(?:\.\d+)*)", str(version or ""))
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def flag_of(name: str) -> str:
    """`max_model_len`, `--max_model_len=4096` or `max-model-len` → `--max-model-len`."""
    return "--" + name.lstrip("-").split("=")[0].split()[0].replace("_", "-") if name.strip("-= ") else ""


def known_flags() -> Mapping[str, str]:
    """Every flag that any listed version takes; the values are the table's own."""
    return _table()[1]


def versions_with(name: str) -> list[str]:
    """The listed versions that take this argument, oldest first; empty if none does."""
    versions, flags = _table()
    kinds = flags.get(flag_of(name)) or flags.get(flag_of(name).replace("--no-", "--", 1), "")
    return [version for version, kind in zip(versions, kinds, strict=False) if kind != "0"]


def takes(name: str, version: str | None) -> bool | None:
    """Whether `version` takes the argument. None: the lists cannot tell (unknown flag, version or a gap)."""
    versions, _ = _table()
    having, asked = versions_with(name), number(version)
    if not having or not asked:
        return None
    below = [v for v in versions if number(v) <= asked]
    above = [v for v in versions if number(v) >= asked]
    around = {v in having for v in (*below[-1:], *above[:1])}
    return around.pop() if len(around) == 1 else None


def nearest(name: str, version: str | None) -> str | None:
    """The flag that was probably meant: the nearest spelling `version` (default: the newest) takes.

    None where nothing is near, or where the flag is spelled right and only this version lacks it.
    """
    import difflib

    flag = flag_of(name)
    if not flag or versions_with(flag):
        return None
    versions, flags = _table()
    possible = [known for known in flags if takes(known, version or versions[-1]) is not False]
    found = difflib.get_close_matches(flag, possible, n=1, cutoff=0.75)
    return found[0] if found else None


def news(name: str, version: str | None) -> str | None:
    """What happened to a flag that other versions take, in one clause; None if there is nothing to tell."""
    versions, _ = _table()
    having = versions_with(name)
    if not having:
        return None
    flag, asked = flag_of(name), number(version)
    if asked and asked < number(having[0]):
        return f"`{flag}` came after {version}; {having[0]} takes it: upgrade vLLM or drop the flag"
    if having[-1] != versions[-1] and (not asked or asked > number(having[-1])):
        gone = f"`{flag}` is gone in newer versions (the last list that has it is that of {having[-1]})"
        return f"{gone}: {SUCCESSORS.get(flag, 'drop it')}"
    return None
