"""The command that started the server of a report: the line that shows it, else what its own arguments tell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from vdiag.advise.words import Unsafe
from vdiag.model import Event

if TYPE_CHECKING:
    from vdiag.advise.command import Command
    from vdiag.advise.found import Found

FORMS = ("cli", "systemd", "docker", "compose", "kubernetes", "python")
_MODEL = re.compile(r"[\w.~/][\w.~/:@+-]{0,300}")
_SHOWS = re.compile(  # what each command that found.py reads holds
    r"vllm\s+serve|-m\s+vllm\.|ExecStart|(?:docker|podman)\s+run|^\s*(?:- )?(?:image|command|args|entrypoint|Command|Args):"
)
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
        if self._found is not None:
            return self._found.command
        try:
            return self._rebuilt()
        except Unsafe:
            return None

    @property
    def model(self) -> str:
        """The model that the command names; empty where it does not, or by a variable."""
        model = self.command.model if self.command is not None else ""
        return model if _MODEL.fullmatch(model) else ""

    @property
    def arguments(self) -> dict[str, Any]:
        """What it is given, by Python names, where a line shows it; what a variable or another file holds is left out."""
        if self._found is None or self._found.command is None:
            return {}
        from vdiag.advise.argument_list import given

        words = [word.value for word in self._found.command.words]
        return {name: value for name, value in given(words, self._version).items() if "$" not in str(value)}

    @property
    def _version(self) -> str:
        return str(self._context.get("vllm") or "")

    @property
    def _form(self) -> str:
        deploy = str(self._context.get("deploy") or "")
        return deploy if deploy in FORMS else "cli"

    @cached_property
    def _found(self) -> Found | None:
        """The place that shows it: the last one before the failure, of its own run if there is one.

        One that is not understood counts too, unless the shell's: what stands in a unit or a container beside vLLM is not known then.
        """
        for number, events in enumerate(self._runs):
            if not any(_SHOWS.search(row) for event in events for row in event.rows):
                continue
            from vdiag.advise.found import commands  # late, as all that reads commands: most logs show none

            fitting = [
                found for found in commands(_lines(events))
                if (self._fits(found.command) if found.command is not None else found.form != "cli")
                and (found.form == self._form or not self._context.get("deploy"))
            ]  # fmt: skip
            if fitting:
                before = [found for found in fitting if number or found.line <= self._line] or fitting[:1]
                return before[-1]
        return None

    def _fits(self, command: Command) -> bool:
        """Whether a command is what this server was started with, by the arguments that it printed."""
        from vdiag.advise.argument_list import options

        args = self._context.get("args")
        if not isinstance(args, dict) or not args:
            return True
        model = args.get("model") or args.get("model_tag")
        named = command.model
        if model and named and named != model and "$" not in named and "<" not in named:
            return False
        given = {
            option.flag[2:].replace("-", "_"): option
            for option in options([word.value for word in command.words], self._version)
        }
        if any("$" in value for option in given.values() for value in option.values) or "config" in given:
            return True
        return all(
            name in given and _same(given[name].values, value)
            for name, value in args.items()
            if name not in ("model", "model_tag")
        )

    def _rebuilt(self) -> Command | None:
        from vdiag.advise.rebuilt import not_defaults, rebuilt
        from vdiag.reason import printed

        version = self._version
        args, opaque = self._context.get("args"), tuple(self._context.get("args_opaque") or ())
        cut = self._context.get("args_cut")
        if not args and (text := self._context.get("namespace")):
            told = printed.read(f"Namespace({text}")
            args, opaque, cut = not_defaults(told.values, version), (), told.cut
        if not isinstance(args, dict) or not args or cut or self._form == "python":
            return None
        return rebuilt(args, opaque, self._form, version, self._binary())

    def _binary(self) -> str:
        """The path of `vllm`, by the environment that the frames of its traceback stand in."""
        found = {
            match[1] for events in self._runs[:1] for event in events for row in event.frames
            if (match := _VENV.search(row))
        }  # fmt: skip
        return f"{found.pop()}/bin/vllm" if len(found) == 1 else ""


def _same(values: tuple[str, ...], printed: Any) -> bool:
    """Whether a typed value may be the printed one; only plain numbers and words are compared."""
    if len(values) != 1 or isinstance(printed, bool) or not isinstance(printed, (int, float, str)):
        return True
    if isinstance(printed, str):
        return values[0] == printed
    try:
        return float(values[0]) == printed
    except ValueError:
        return True  # 32k


def _lines(events: Sequence[Event]) -> dict[int, str]:
    """Line → text of what an input says, without envelopes."""
    lines: dict[int, str] = {}
    for event in events:
        for line, row in zip(event.lines, event.rows, strict=False):
            lines.setdefault(line, row)
    return lines
