"""What one start of a server told of itself, as far as two starts can be compared by it.

Nothing that differs from start to start is read here: no times, process ids, temporary names or durations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from vdiag.advise import secrets
from vdiag.advise.given import guarded, of_command, of_namespace
from vdiag.match.matcher import Match
from vdiag.model import Event, Kind, Phase, Role
from vdiag.reason.blame import Blame
from vdiag.reason.story import ALIVE, Episode
from vdiag.rulebook.compile import Rulebook

DEVICE = {  # fact → what it is called
    "platform": "platform",
    "gpu": "card",
    "driver": "NVIDIA driver",
    "driver_cuda": "CUDA of the driver",
    "nccl": "NCCL",
}
PACKAGES = ("torch", "transformers", "triton", "flashinfer_python")
HOST = ("kernel_release", "driver")  # facts that hold from a boot on, for all later starts of the same input

#: Figure → (the worse of several ranks, what it is called, its unit).
MEMORY = {
    "total_gib": (min, "memory of the card", "GiB"),
    "free_gib": (min, "free memory at the start", "GiB"),
    "weights_gib": (max, "weights", "GiB"),
    "non_torch_gib": (max, "memory outside PyTorch", "GiB"),
    "activation_gib": (max, "peak of the activations", "GiB"),
    "kv_gib": (min, "memory of the KV cache", "GiB"),
    "kv_tokens": (min, "KV cache", "tokens"),
}
TOLD_AS = {"have_gib": "kv_gib", "available_gib": "kv_gib"}  # how rules capture a figure of MEMORY
_VARIES = re.compile(r"\S*[\d/\\]\S*")
_LETTERS = re.compile(r"[A-Za-z]{2,}")
_ENV = re.compile(
    r"(?:export |Environment=|set )?\"?((?:VLLM|CUDA|NCCL|HF|HUGGING_FACE|TORCH|PYTORCH|OMP|RAY|NVIDIA|HIP|ROCR)_[A-Z0-9_]+)=(\S*?)\"?$"
)
_PYTHON_WARNING = re.compile(r"\b(?:User|Future|Deprecation|Runtime)Warning: ")


class Warned(msgspec.Struct):
    """A warning of a start."""

    text: str
    line: int
    rule: str  # id; empty where no rule knows it


class Start(msgspec.Struct):
    """One start of a server."""

    source: int
    line: int
    unit: str = ""  # the container, pod or service its lines come from
    host: str = ""
    facts: dict[str, Any] = {}
    args: dict[str, Any] = {}
    served: bool = False  # it came to serve
    every: bool = False  # `args` holds all arguments, those left at their default among them
    command: dict[str, Any] = {}
    env: dict[str, str] = {}
    memory: dict[str, float] = {}
    warned: dict[str, Warned] = {}  # by what stays the same of it from start to start
    boots: list[int] = []  # lines at which the machine was started, before this start ended

    @property
    def model(self) -> str | None:
        """The model by its arguments, else by another line."""
        for told in (self.args, self.command):
            if named := told.get("model") or told.get("model_tag"):
                return str(named)
        named = self.facts.get("model")
        return None if named is None else str(named)

    @property
    def port(self) -> Any:
        """The port of the API; None where no arguments are known."""
        told = self.args or self.command
        return told.get("port", 8000) if told else None


def start_of(blame: Blame, earlier: Sequence[Blame], rulebook: Rulebook, *, good: bool) -> Start:
    """What the start of a run told. `earlier`: the runs before it in the same input, in order.

    Of a `good` one only what stands before it served, since later lines may belong to what came after it.
    """
    episode = blame.episode
    until = _served_at(episode) if good else episode.last_line
    start = Start(episode.source, _first_line(episode), served=episode.ready)
    before = [m for other in earlier for m in other.episode.matches]
    # Bare rows of a later run may have been told as one message with earlier ones: the line of a match counts.
    own = [m for m in [*before, *episode.matches] if episode.first_line <= m.line <= until]
    _speaker(start, episode.events)
    _host(start, [*before, *own], rulebook)
    _facts(start, own, rulebook)
    _arguments(start, episode, own, rulebook)
    _typed(start, own, earlier[-1].episode if earlier else None)
    _environment(start, [e for e in episode.events if e.lines[0] <= until])
    if not good:
        _captured(start, blame)
    over = [m.line for m in episode.marks if m.what in (Phase.SHUTDOWN.value, "death")]
    root = min(
        [*over, *(node.line for node in [*blame.roots, *blame.notices])], default=episode.last_line + 1
    )
    _warnings(start, [*earlier, blame] if good else [blame], rulebook, None if good else root)
    return start


def _served_at(episode: Episode) -> int:
    lines = [mark.line for mark in episode.marks if mark.what in ALIVE]
    lines += [request.line for request in episode.served[:1]]
    return min(lines, default=episode.last_line)


def _first_line(episode: Episode) -> int:
    """The line at which a run begins: the mark of its start, else its first event."""
    starts = [mark.line for mark in episode.marks if mark.what == "start"]
    firsts = [event.lines[0] for event in episode.events[:1]]
    return min(starts or firsts or [episode.first_line])


def _speaker(start: Start, events: Sequence[Event]) -> None:
    for event in events:
        env = event.envelope
        if env.kind in (Kind.KERNEL, Kind.UNIT):
            continue
        if not start.unit and env.unit and (env.role or env.origin):
            start.unit = env.unit
        if not start.host and env.host:
            start.host = env.host


def _host(start: Start, matches: Sequence[Match], rulebook: Rulebook) -> None:
    """What the kernel said before the start, at whichever boot it was."""
    for match in matches:
        if match.event.kind is not Kind.KERNEL or match.line > start.line:
            continue
        if rulebook.rules[match.rule].role is not Role.CONTEXT:
            continue
        start.facts.update({name: match.captures[name] for name in HOST if match.captures.get(name)})
        if match.captures.get("kernel_release"):
            start.boots.append(match.line)


def _facts(start: Start, matches: Sequence[Match], rulebook: Rulebook) -> None:
    by_lane: dict[str, dict[str, float]] = {}
    for match in matches:
        if rulebook.rules[match.rule].role is not Role.CONTEXT or match.event.kind is Kind.KERNEL:
            continue
        for name, value in match.captures.items():
            if value in (None, ""):
                continue
            if name in MEMORY:
                number = _number(value)
                if number is not None:
                    by_lane.setdefault(match.event.envelope.lane, {})[name] = number
            elif name not in ("args", "command"):
                start.facts[name] = value
    for name, (worse, _, _) in MEMORY.items():
        figures = [told[name] for told in by_lane.values() if name in told]
        if figures:
            start.memory[name] = worse(figures)


def _captured(start: Start, blame: Blame) -> None:
    """Figures that the failure itself tells; what was free counts where it is held against vLLM's share, at the start."""
    for root in blame.roots[:1]:
        captures = root.match.captures if root.match else {}
        for name, value in captures.items():
            name = TOLD_AS.get(name, name)
            number = _number(value)
            told = name == "kv_gib" or (name in ("free_gib", "total_gib") and "utilization" in captures)
            if told and number is not None:
                start.memory.setdefault(name, number)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _arguments(start: Start, episode: Episode, matches: Sequence[Match], rulebook: Rulebook) -> None:
    args = episode.facts.get("args")
    if isinstance(args, dict) and args:
        start.args = guarded("", args)
        return
    for match in matches:
        if rulebook.rules[match.rule].marks == "arguments" and (found := of_namespace(match.event.rows[0])):
            start.args, start.every = guarded("", found), True
            return


def _typed(start: Start, own: Sequence[Match], previous: Episode | None) -> None:
    """The command, in the run itself or between the end of the one before and its first words."""
    matches = list(own)
    if previous is not None:
        ends = [m.line for m in previous.marks] + [e.lines[-1] for e in previous.events if e.exception]
        ends += [request.line for request in previous.served[-1:]]
        matches += [m for m in previous.matches if m.line > max(ends, default=0)]
    for match in matches:
        for name in ("command", "typed_model"):
            if match.captures.get(name):
                args, env = of_command(match.event.text)
                if args and not start.command:
                    start.command = guarded("", args)
                    start.env.update(guarded("", env))


def _environment(start: Start, events: Sequence[Event]) -> None:
    for event in events:
        if event.kind not in (Kind.NATIVE, Kind.UNIT):
            continue
        for row in event.rows:
            if found := _ENV.fullmatch(row.strip()):
                start.env.setdefault(found[1], guarded(found[1], found[2]))


def _warnings(start: Start, runs: Sequence[Blame], rulebook: Rulebook, until: int | None) -> None:
    """The warnings of some runs; those before `until` alone leave out what healthy servers say too."""
    for run in runs:
        benign = {id(node.event) for node in run.harmless}
        known: dict[int, str] = {}
        for match in run.episode.matches:
            rule = rulebook.rules[match.rule]
            if rule.role is Role.BENIGN:
                benign.add(id(match.event))
            elif rule.role in (Role.CAUSE, Role.SYMPTOM):
                known.setdefault(id(match.event), rule.id)
        for event in run.episode.events:
            if not _warns(event) or (until is not None and (event.line >= until or id(event) in benign)):
                continue
            text = secrets.without(event.rows[0].strip())
            if same := shape(text):
                start.warned.setdefault(same, Warned(text, event.lines[0], known.get(id(event), "")))


def _warns(event: Event) -> bool:
    if event.exception or event.kind in (Kind.KERNEL, Kind.UNIT, Kind.HTTP):
        return False
    return event.envelope.level == "WARNING" or _PYTHON_WARNING.search(event.rows[0]) is not None


def shape(text: str) -> str:
    """What stays of a message from start to start: its words, without any that hold a digit or a slash."""
    return " ".join(_LETTERS.findall(_VARIES.sub(" ", text)))[:200].lower()
