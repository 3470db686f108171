"""The command line. Commands parse options, call and render; `run` keeps our own faults from reaching a user raw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdiag.cli.console import Console

BROKEN_PIPE = 0  # the reader had enough; nothing went wrong


def run(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Runs `vdiag` with these arguments (default: the process's) and returns the exit status."""
    from vdiag.cli.console import Console
    from vdiag.cli.status import ExitStatus

    console = console or Console.of_process()
    try:
        status = _run(arguments, console)
        console.stdout.flush()
        return status
    except BrokenPipeError:
        _silence(console)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return ExitStatus.INTERRUPTED
    except Exception as error:
        if console.env.get("VDIAG_DEBUG"):
            import traceback

            console.stderr.write(traceback.format_exc())
        said = " ".join(f"{type(error).__name__}: {error}".split())
        console.say(f"internal error: {said} (please report; VDIAG_DEBUG=1 shows the traceback)")
        return ExitStatus.USAGE


def _run(arguments: Sequence[str] | None, console: Console) -> int:
    import click

    from vdiag.cli.commands import main

    try:
        status = main.main(
            args=None if arguments is None else list(arguments),
            prog_name="vdiag",
            standalone_mode=False,
            obj=console,
            color=console.colored(),
        )
    except click.ClickException as error:
        error.show(file=console.stderr)
        return 2
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.exceptions.Exit as error:
        return error.exit_code
    return status if isinstance(status, int) else 0


def _silence(console: Console) -> None:
    """Points standard output nowhere, so that the interpreter's last flush does not complain either."""
    import contextlib
    import os

    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, console.stdout.fileno())
        os.close(nowhere)
