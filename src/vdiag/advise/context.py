"""What the log says of the server: as facts that rules may ask for, and as the report's environment."""

from __future__ import annotations

from collections import Counter
from typing import Any

from vdiag.advise.figures import OF_A_RUN
from vdiag.advise.known import line_here
from vdiag.advise.shown import Shown
from vdiag.model import Environment, Event, Kind
from vdiag.reason.conclude import Conclusion
from vdiag.reason.story import facts_of_unit
from vdiag.rulebook.compile import Rulebook

PACKAGES = ("torch", "transformers", "triton", "flashinfer_python", "nccl")  # facts that are versions


def context_of(conclusion: Conclusion, rulebook: Rulebook) -> dict[str, Any]:
    """What the log says of the server: of the first finding's episode, else of the last one."""
    blames = conclusion.blames
    context: dict[str, Any] = {}
    told = conclusion.findings[0].blame if conclusion.findings else blames[-1] if blames else None
    for blame in blames:
        mine = {k: v for k, v in blame.episode.facts.items() if v not in ("", None, {})}
        context.update(mine if blame is told else {k: v for k, v in mine.items() if k not in OF_A_RUN})
    if told is not None:
        context.update(told.episode.facts)
    if conclusion.findings:
        event = conclusion.findings[0].node.event
        own = facts_of_unit([blame.episode for blame in blames], rulebook, event)
        context = context if own is None else own
    args = context.get("args")
    if isinstance(args, dict):
        context.setdefault("model", args.get("model") or args.get("model_tag"))
    context["model"] = context.get("model") or context.get("typed_model")
    if "deploy" not in context:
        for name, value in _deploy([e for b in blames for e in b.episode.events]).items():
            context.setdefault(name, value)
    if "deploy" not in context and _of_a_script(context, [e for b in blames for e in b.episode.events]):
        context["deploy"] = "python"
    return context


def _of_a_script(context: dict[str, Any], events: list[Event]) -> bool:
    """Whether a script called `LLM(…)`: it logs no statistics unless asked to, and there is no API server."""
    args = context.get("args")
    if not isinstance(args, dict) or args.get("disable_log_stats") is not True or "model_tag" in args:
        return False
    return not any(e.envelope.role == "APIServer" or "server version" in e.rows[0] for e in events)


def _deploy(events: list[Event]) -> dict[str, str]:
    """How the server is run, and the unit, pod or container it is run in, as far as the envelopes show it."""
    for event in events:
        env = event.envelope
        if env.kind is Kind.UNIT and ".service" in event.rows[0]:
            unit = event.rows[0].split(".service", 1)[0].split()[-1].strip("'\"(") + ".service"
            return {"deploy": "systemd", "unit": unit}
    for event in events:
        env = event.envelope
        if "/" in env.unit:  # kubectl's pod/container
            pod, _, container = _speaker(events).partition("/")
            return {"deploy": "kubernetes", "pod": pod, "pod_container": container}
        if env.host and env.unit and env.kind is not Kind.KERNEL:
            return {"deploy": "systemd"}
        if env.unit and not env.host and env.kind is not Kind.UNIT and not env.time.startswith("20"):
            return {"deploy": "compose", "container": _speaker(events)}
    return {}


def _speaker(events: list[Event]) -> str:
    """The pod or container whose lines these mostly are; of several, the one that vLLM's own lines come from."""
    named = [e.envelope for e in events if e.envelope.unit]
    own = [env.unit for env in named if env.role or env.origin] or [env.unit for env in named]
    return Counter(own).most_common(1)[0][0]


def environment(conclusion: Conclusion, context: dict[str, Any]) -> Environment:
    """What the log says of the server, without its keys and passwords."""
    return Environment(
        vllm=_text(context.get("vllm")),
        engine=_text(context.get("engine")),
        model=_text(context.get("model")),
        args=_opened(context.get("args") or {}),
        deploy=context.get("deploy"),
        command=_command(conclusion, context),
        platform=_text(context.get("platform")),
        driver=_text(context.get("driver")),
        gpu=_text(context.get("gpu")),
        packages={
            name.replace("_", "-"): str(context[name]) for name in PACKAGES if context.get(name) is not None
        },
    )


def _command(conclusion: Conclusion, context: dict[str, Any]) -> str | None:
    """The command that started the server, without its keys and passwords; None where the log shows none whole."""
    if not (context.get("command") or context.get("typed_model")) or not conclusion.blames:
        return None
    from vdiag.advise.written import as_shown  # late, as all that reads commands

    finding = conclusion.findings[0] if conclusion.findings else None
    told = finding.blame if finding else conclusion.blames[-1]
    others = [blame.episode.events for blame in reversed(conclusion.blames) if blame is not told]
    line = line_here(finding.node, told) if finding else told.episode.last_line
    return as_shown(Shown([told.episode.events, *others], line, context)) or None


def _opened(args: dict[str, Any]) -> dict[str, Any]:
    """The server's arguments without its keys and passwords."""
    from vdiag.advise.secrets import open_value  # late: a log without arguments needs none

    return {name: open_value(name, value) for name, value in args.items()}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
