"""Whether a process or unit that the kernel or a service manager speaks of is one of the server's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from vdiag.model import Kind
from vdiag.reason.story import Episode

# What vLLM's processes call themselves; the kernel cuts a name to 15 characters.
OWN_NAMES = (
    "vllm",
    "enginecor",
    "apiserver",
    "worker",
    "ray::",
    "ray_",
    "raylet",
    "dpcoordinator",
    "pt_main_thread",
)
LIKELY_NAMES = (
    "python",
    "uvicorn",
    "pytest",
    "gunicorn",
    "torchrun",
    "pt_",
    "triton",
    "cuda-",
    "conda",
    "llm",
    "uv",
)
OWN_UNITS = (
    "vllm",
    "llm",
    "infer",
    "openai",
    "model",
    "serv",
    "gpu",
    "ray",
)  # parts of the names units are given

_UNIT = re.compile(r"([\w@.:\\-]+)\.service\b")


def kinship(captures: dict[str, Any], episodes: list[Episode]) -> float:
    """How surely what was captured (`pid`, `comm`, `unit`) is the server's.

    1 by its pid or its own name, 0.7 by a likely name, 0 another program. 1 too where nothing is named.
    """
    if "comm" in captures:
        return _process(captures.get("pid"), str(captures["comm"]).strip().lower(), episodes)
    if "unit" in captures:
        return _unit(str(captures["unit"]).removesuffix(".service"), episodes)
    return 1.0


def _process(pid: Any, name: str, episodes: list[Episode]) -> float:
    if pid and any(pid == event.envelope.pid for e in episodes for event in e.events):
        return 1.0
    if not name or name.startswith(OWN_NAMES):
        return 1.0
    return 0.7 if name.startswith(LIKELY_NAMES) else 0.0


def _unit(name: str, episodes: list[Episode]) -> float:
    if any(part in name.lower() for part in OWN_UNITS):
        return 1.0
    spoken_of = set(_units(episodes))
    return 1.0 if spoken_of <= {name} else 0.0


def _units(episodes: list[Episode]) -> Iterable[str]:
    """The services that unit managers speak of in the log."""
    for episode in episodes:
        for event in episode.events:
            if event.kind in (Kind.UNIT, Kind.NATIVE):
                for row in event.rows:
                    yield from _UNIT.findall(row)
