"""The command that started the server of a report: the line that shows it, else what its own arguments tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from vdiag.advise.command import Command
from vdiag.advise.found import commands
from vdiag.advise.rebuilt import rebuilt
from vdiag.advise.words import Unsafe
from vdiag.model import Event

FORMS = ("cli", "systemd", "docker", "compose", "kubernetes", "python")
_VENV = re.compile(r'File "(/[\w./@+-]{1,200})/lib/python3\.\d+/site-packages/vllm/')


class Shown:
    """Looks for the command when it is first asked for: most answers need none."""

    def __init__(self, runs: Sequence[Sequence[Event]], line: int, context: Mapping[str, Any]) -> None:
        """`runs`: the events of the run that the report is about, then those of the others; `line`: of its failure."""
        self._runs = runs
        self._line = line
        self._context = context

    @cached_property
    def command(self) -> Command | None:
        """The command; None where the log does not tell it whole."""
        try:
            shown, found = self._found()
            if shown is not None or found:
                return shown
            return self._rebuilt()
        except Unsafe:
            return None

    @property
    def _form(self) -> str:
        deploy = str(self._context.get("deploy") or "")
        return deploy if deploy in FORMS else "cli"

    def _found(self) -> tuple[Command | None, bool]:
        """(the command that a line shows, whether one of this form stands there at all)."""
        for number, events in enumerate(self._runs):
            fitting = [
                (line, command)
                for line, command in commands(_lines(events))
                if command is None or self._fits(command)
            ]
            if fitting:
                before = [item for item in fitting if number or item[0] <= self._line] or fitting[:1]
                return before[-1][1], True
        return None, False

    def _fits(self, command: Command) -> bool:
        """Whether a command is this server's, by its form and the model the server named."""
        if command.form != self._form and self._context.get("deploy"):
            return False
        args = self._context.get("args")
        model = args.get("model") or args.get("model_tag") if isinstance(args, dict) else None
        named = command.model
        return not model or not named or named == model or "$" in named or "<" in named

    def _rebuilt(self) -> Command | None:
        args = self._context.get("args")
        if not isinstance(args, dict) or not args or self._context.get("args_cut") or self._form == "python":
            return None
        version = str(self._context.get("vllm") or "")
        opaque = tuple(self._context.get("args_opaque") or ())
        return rebuilt(args, opaque, self._form, version, self._binary())

    def _binary(self) -> str:
        """The path of `vllm`, by the environment that the frames of its traceback stand in."""
        found = {
            match[1] for events in self._runs[:1] for event in events for row in event.frames
            if (match := _VENV.search(row))
        }  # fmt: skip
        return f"{found.pop()}/bin/vllm" if len(found) == 1 else ""


def _lines(events: Sequence[Event]) -> dict[int, str]:
    """Line → text of what an input says, without envelopes."""
    lines: dict[int, str] = {}
    for event in events:
        for line, row in zip(event.lines, event.rows, strict=False):
            lines.setdefault(line, row)
    return lines
