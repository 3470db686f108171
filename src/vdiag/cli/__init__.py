"""The command line. Commands parse options, call and render; `run` keeps our own faults from reaching a user raw."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import click

    from vdiag.cli.console import Console

# Of cli/status.py, here without its import: a fault or Ctrl-C may come before anything else is there.
BROKEN_PIPE = 0  # the reader had enough; nothing went wrong
FAULT = 2
INTERRUPTED = 130


def run(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Runs `vdiag` with these arguments (default: the process's) and returns the exit status."""
    gc.set_threshold(100_000)  # a rulebook is thousands of small values that live as long as the process
    try:
        if console is None:
            from vdiag.cli.console import Console

            console = Console.of_process()
        status = _run(arguments, console)
        console.stdout.flush()
        return status
    except BrokenPipeError:
        _silence(console.stdout if console else sys.stdout)
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if console is None:
            raise
        own_fault(error, console)
        return FAULT


def _run(arguments: Sequence[str] | None, console: Console) -> int:
    import click

    from vdiag.cli.commands import main

    console.words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = main.main(
            args=list(console.words),
            prog_name="vdiag",
            standalone_mode=False,
            obj=console,
            color=console.colored(),
        )
    except click.NoSuchOption as error:
        from vdiag.cli.names import meant_option

        known = [name for p in (error.ctx.command.params if error.ctx else ()) for name in p.opts]
        if meant := meant_option(error.option_name, known):
            said = f"No such option {error.option_name!r}. Did you mean {meant!r}?"
            return _refused(click.UsageError(said, error.ctx), console)
        return _refused(error, console)
    except click.ClickException as error:
        return _refused(error, console)
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.exceptions.Exit as error:
        return error.exit_code
    return status if isinstance(status, int) else 0


def _refused(error: click.ClickException, console: Console) -> int:
    """Says what is wrong with the call, which may quote a hostile name or a secret; the exit status."""
    from io import StringIO

    from vdiag.cli.redaction import before_parsing

    before_parsing(console)
    said = StringIO()
    error.show(file=said)
    console.stderr.write(console.quoting(said.getvalue()))
    return 2


def own_fault(error: Exception, console: Console) -> None:
    """Says what went wrong, if anybody can be told."""
    try:
        _tell_fault(error, console)
    except OSError:
        _silence(console.stderr)


def _tell_fault(error: Exception, console: Console) -> None:
    """One line about what went wrong; an OSError is the system's answer, anything else our mistake."""
    if console.env.get("VDIAG_DEBUG"):
        import traceback

        console.stderr.write(console.quoting(traceback.format_exc()))
    if isinstance(error, OSError):
        console.say(f"{error.filename or 'reading or writing'}: {error.strerror or error}")
        return
    said = " ".join(f"{type(error).__name__}: {error}".split())
    console.say(f"internal error: {said} (please report; VDIAG_DEBUG=1 shows the traceback)")


def _silence(stream: TextIO) -> None:
    """Points a stream nowhere, so that the interpreter's last flush does not complain either."""
    import contextlib
    import os

    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
