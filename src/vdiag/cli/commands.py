"""The tree of commands. A first word that is no command is a file: `vdiag vllm.log` runs `diagnose`.

Commands are imported when they run, so that `vdiag vllm.log` pays for nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import click

from vdiag import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FALLBACK = "diagnose"
ALONE = ("--help", "-h", "--version")
COMMANDS = {
    "diagnose": "vdiag.cli.diagnose:diagnose",
    "run": "vdiag.cli.run:run",
    "explain": "vdiag.cli.explain:explain",
    "diff": "vdiag.cli.diff:diff",
    "report": "vdiag.cli.report:report",
    "memory": "vdiag.cli.memory:memory",
    "collect": "vdiag.cli.collect:collect",
    "fleet": "vdiag.cli.fleet:fleet",
    "rules": "vdiag.cli.rules:rules",
    "completion": "vdiag.cli.completion:completion",
}

EXAMPLES = """\b
Examples:
  journalctl -u vllm -b --no-pager | vdiag
  vdiag vllm.log kernel.log            several files, told as one story
  docker logs my-vllm 2>&1 | vdiag
  kubectl logs my-pod --previous | vdiag
  vdiag -u vllm                        a unit's journal and the kernel log, fetched
  vdiag -c my-vllm                     a container's log, state and the kernel log
  journalctl -fu vllm | vdiag --follow
  vdiag run -- vllm serve my-model     start it; say why, if it fails
  vdiag diff good.log bad.log          what changed since it last worked
  vdiag collect vllm                   logs and state of this machine in one file
  vdiag fleet logs/                    many servers: which failed, and of what
  vdiag explain                        paste a log, end with Ctrl-D
  vdiag explain kv-cache-too-small     what a rule knows
  vdiag report vllm.log > report.md    to attach to a bug report
  vdiag memory ./my-model --gpu 24GiB  does it fit, before you start it
  vdiag --format json vllm.log | jq .diagnoses
\b
Exit status:
  0  nothing is wrong        1  diagnosed
  2  the call was at fault   3  no answer (unrecognised, incomplete, starting, empty)
\b
Environment:
  VDIAG_RULES                  more rules: paths, separated as in PATH
  NO_COLOR, CLICOLOR_FORCE     colour off, colour on
  VDIAG_DEBUG=1                tracebacks of vdiag's own faults"""


class Commands(click.Group):
    """A group whose unknown first word falls through to `diagnose`, with diagnose's options as its own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        return command if isinstance(command, click.Command) else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self._with_command(ctx, args))

    def _with_command(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments with their command first: `--format json explain x` asks for `explain`."""
        if args and (args[0] in COMMANDS or args[0] in ALONE):
            return args
        if ctx.resilient_parsing and not args:
            return args
        taking = self._options_with_value(ctx)
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] not in ("-", "--"):
            if args[at] in ALONE:
                return [args[at]]
            at += 2 if args[at] in taking else 1
        if at < len(args) and args[at] in COMMANDS:
            return [args[at], *args[:at], *args[at + 1 :]]
        return [FALLBACK, *args]

    def _options_with_value(self, ctx: click.Context) -> set[str]:
        command = self.get_command(ctx, FALLBACK)
        assert command is not None
        return {
            name
            for option in command.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        command = self.get_command(ctx, FALLBACK)
        assert command is not None
        options = [p for p in (*command.params, *self.get_params(ctx)) if isinstance(p, click.Option)]
        with formatter.section("Options"):
            formatter.write_dl([record for option in options if (record := option.get_help_record(ctx))])
        self.format_commands(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        command = self.get_command(ctx, FALLBACK)
        assert command is not None
        if incomplete.startswith("-"):
            inner = click.Context(command, parent=ctx, info_name=FALLBACK, resilient_parsing=True)
            return [*super().shell_complete(ctx, incomplete), *command.shell_complete(inner, incomplete)]
        from vdiag.cli.completion import words_or_files

        return words_or_files(COMMANDS, incomplete)


@click.command(
    cls=Commands,
    epilog=EXAMPLES,
    options_metavar="[OPTIONS]",
    subcommand_metavar="[FILES]...",
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="vdiag", message="%(prog)s %(version)s")
def main(**_: Any) -> None:
    """Read the log of a vLLM server that failed; say what broke, which line says so, and what to type now.

    FILES are logs of the server and of what surrounds it (kernel, systemd, containers, nginx, pip): plain or
    compressed, told together as one story. Without FILES, or for `-`, standard input is read. Nothing is sent
    anywhere: vdiag works offline.
    """
