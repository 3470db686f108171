"""Whether a process that the kernel or a unit speaks of is one of the server's."""

from __future__ import annotations

from typing import Any

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


def kinship(captures: dict[str, Any], episodes: list[Episode]) -> float:
    """How surely a killed process is the server's: 1 by pid or its own name, 0.7 by a likely name, 0 another program."""
    pid, name = captures.get("pid"), str(captures.get("comm", "")).strip().lower()
    if pid and any(pid == event.envelope.pid for e in episodes for event in e.events):
        return 1.0
    if not name or name.startswith(OWN_NAMES):
        return 1.0
    if name.startswith(LIKELY_NAMES):
        return 0.7
    return 0.0
