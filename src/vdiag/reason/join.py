"""Whether a process or unit that the kernel or a service manager speaks of is one of the server's."""

from __future__ import annotations

import re
from typing import Any

from vdiag.model import Event, Kind

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
    "lmcache",
    "mooncake",
    "sglang",
    "tritonserver",
    "dynamo",
)
# Words of the names that people give the server's unit.
OWN_WORDS = {
    "llm",
    "llms",
    "inference",
    "openai",
    "model",
    "models",
    "serve",
    "serving",
    "gpu",
    "ray",
    "llmserver",
}

_OWN_HEADER = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")  # the time in vLLM's log header has no year
_UNIT = re.compile(r"([\w@.:\\-]+)\.service\b")


class Kin:
    """The server's processes and the units spoken of, as far as a log shows them."""

    def __init__(self, events: list[Event]) -> None:
        self._pids: set[int] = set()
        self.at_home = False  # whether the log is a vLLM server's, or speaks of one
        self._units: set[str] = set()
        for event in events:
            env = event.envelope
            if not self.at_home:
                self.at_home = (
                    bool(env.role)
                    or "vllm" in env.unit.lower()
                    or _OWN_HEADER.match(env.time) is not None
                    or any("vllm" in text.lower() for text in (*event.rows, *event.frames))
                )
            if env.pid and (env.role or _name(env.unit)):
                self._pids.add(env.pid)
            if event.kind in (Kind.UNIT, Kind.NATIVE):
                for row in event.rows:
                    if ".service" in row:
                        self._units.update(_UNIT.findall(row))

    def of(self, captures: dict[str, Any]) -> float:
        """How surely what was captured (`pid`, `comm`, `unit`) is the server's.

        1 by its pid or its own name, 0.7 by a likely name, 0 another program; 1 too where nothing is named.
        """
        if "comm" in captures:
            if captures.get("pid") in self._pids:
                return 1.0
            return _name(str(captures["comm"]))
        if "unit" in captures:
            return self._unit(str(captures["unit"]).removesuffix(".service"))
        return 1.0

    def _unit(self, unit: str) -> float:
        words = set(re.split(r"[^a-z]+", unit.lower()))
        if words & OWN_WORDS or "vllm" in unit.lower():
            return 1.0
        if not self._units <= {unit}:
            return 0.0
        return 1.0 if self.at_home else 0.7


def _name(name: str) -> float:
    name = name.strip().lower()
    if not name or name.startswith(OWN_NAMES):
        return 1.0
    return 0.7 if name.startswith(LIKELY_NAMES) else 0.0
