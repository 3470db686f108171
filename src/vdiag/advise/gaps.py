"""What is missing from a log, and the command that gets it, in the form the server is run."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from vdiag.advise.fixes import command
from vdiag.model import Event, Gap, Kind, Verdict
from vdiag.reason.blame import Blame, Node
from vdiag.reason.conclude import Conclusion

BEGINNING = 3  # lines within which a traceback without a head means that the log begins in it

_WHOLE = {
    "systemd": "journalctl -u <unit> -b --no-pager | vdiag",
    "docker": "docker logs <container> 2>&1 | vdiag",
    "compose": "docker compose logs --no-color <service> | vdiag",
    "kubernetes": "kubectl logs <pod> --previous --all-containers | vdiag",
}
_KERNEL = {
    "kubernetes": "kubectl describe pod <pod> | grep -A8 'Last State'",
}
_DEBUG = {
    "systemd": "sudo systemctl edit <unit>    # [Service] Environment=VLLM_LOGGING_LEVEL=DEBUG",
    "docker": "docker run -e VLLM_LOGGING_LEVEL=DEBUG …",
    "compose": "docker compose run -e VLLM_LOGGING_LEVEL=DEBUG <service> 2>&1 | vdiag",
    "kubernetes": "kubectl set env deployment/<deployment> VLLM_LOGGING_LEVEL=DEBUG",
}


def find_gaps(
    conclusion: Conclusion, context: Mapping[str, Any], holed: Container[int] = ()
) -> list[tuple[int, Gap]]:
    """(input, gap) for what the story lacks; only what could change or complete the answer is told.

    `holed` are the inputs of which a part is known to be missing.
    """
    if conclusion.verdict in (Verdict.HEALTHY, Verdict.EMPTY, Verdict.STARTING):
        return []
    sure = bool(conclusion.findings) and conclusion.findings[0].confidence >= 0.9
    found: list[tuple[int, Gap]] = []
    for blame in conclusion.blames:
        for gap in (
            _begins_inside(blame, context, sure),
            _ends_inside(blame, context),
            _half(blame, context),
            _silent(blame, context, whole=blame.episode.source not in holed),
            _hushed(blame, context),
        ):
            if gap is not None:
                found.append((blame.episode.source, gap))
    return found


def _command(table: Mapping[str, str], context: Mapping[str, Any], default: str) -> str:
    text = table.get(str(context.get("deploy") or ""), default)
    return command(text, context)


def _whole(context: Mapping[str, Any]) -> str:
    return _command(_WHOLE, context, "vllm serve … > vllm.log 2>&1; vdiag vllm.log")


def _begins_inside(blame: Blame, context: Mapping[str, Any], sure: bool) -> Gap | None:
    events = blame.episode.events
    first = next((e for e in events if e.kind is Kind.EXCEPTION), None)
    if sure or first is None or not first.headless or not first.frames:
        return None
    if any(e.lines[0] < first.lines[0] and not e.headless for e in events):
        return None
    return Gap(
        "the log begins inside a traceback: earlier lines may name a deeper cause",
        first.lines[0],
        _whole(context),
    )


def _ends_inside(blame: Blame, context: Mapping[str, Any]) -> Gap | None:
    if not blame.cut or (blame.roots and blame.roots[0].rule is not None):
        return None
    last = max(blame.cut, key=lambda e: e.lines[0])
    return Gap("a traceback stops before its exception", last.lines[0], _whole(context))


def _half(blame: Blame, context: Mapping[str, Any]) -> Gap | None:
    """Only the API server speaks, and it says that another process failed."""
    if blame.roots or not blame.notices:
        return None
    if _roles(blame) != {"APIServer"}:
        return None
    line = blame.notices[0].line
    return Gap(
        "only the API server's lines are here; what the engine core said, above them, is missing",
        line,
        _whole(context),
    )


def _roles(blame: Blame) -> set[str]:
    return {e.envelope.role for e in blame.episode.events if e.envelope.role}


def _silent(blame: Blame, context: Mapping[str, Any], *, whole: bool) -> Gap | None:
    """A process died without a word, and nothing of the kernel's is here.

    Either a line says so, or the start is here, `whole`, with the engine's own lines, and they tell of no failure.
    """
    if blame.roots or blame.cut or not blame.notices or any(_outside(e) for e in blame.episode.events):
        return None
    death = _death(blame)
    begun = any(mark.what == "start" for mark in blame.episode.marks)
    if death is None and not (whole and begun and _roles(blame) - {"APIServer"}):
        return None
    command = _command(
        _KERNEL, context, "journalctl -k -b --no-pager > kernel.log; vdiag vllm.log kernel.log"
    )
    line = (death or blame.notices[0]).line
    return Gap("the kernel log is needed to tell why the process died", line, command)


def _death(blame: Blame) -> Node | None:
    """The line that notices that a process died without a word."""
    return next((n for n in blame.notices if n.rule is not None and n.rule.marks == "death"), None)


def _outside(event: Event) -> bool:
    return event.kind is Kind.KERNEL


def _hushed(blame: Blame, context: Mapping[str, Any]) -> Gap | None:
    """vLLM tells of a failure without its cause, and none of its ordinary lines are here."""
    if blame.roots or blame.cut or not blame.notices or _death(blame) or _half(blame, context):
        return None
    levels = {e.envelope.level for e in blame.episode.events if e.envelope.origin}
    if not levels or levels & {"INFO", "DEBUG"}:
        return None
    command = _command(_DEBUG, context, "VLLM_LOGGING_LEVEL=DEBUG vllm serve … 2>&1 | tee vllm.log")
    return Gap(
        "of vLLM only warnings and errors are here: the log level, or a filter, hides what it did before",
        blame.notices[0].line,
        command,
    )
