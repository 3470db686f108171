"""`vdiag run -- COMMAND…`: runs a command as if vdiag were not there, and says below its output why it failed."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import time
from typing import Any

import click

from vdiag.cli.console import Console
from vdiag.cli.diagnose import page_options
from vdiag.cli.wrapped import HELD, Wrapped
from vdiag.model import Gap, Verdict

EXAMPLES = """\b
Examples:
  vdiag run -- vllm serve acme/model-7b --max-model-len 8192
  vdiag run --rules my-rules.yaml -- python serve.py"""

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as a shell says it
ASKED = (
    signal.SIGINT,
    signal.SIGTERM,
)  # with these somebody stopped it: no failure, where the output tells of none


@click.command(
    "run",
    short_help="Run a command; say why it failed.",
    epilog=EXAMPLES,
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND...")
@page_options
@click.pass_obj
def run(console: Console, /, command: tuple[str, ...], **options: Any) -> int:
    """Run COMMAND with its output passed through unchanged; if it fails, print the diagnosis on standard error.

    The exit status is the command's (128 + N if signal N ended it). Signals reach it. The diagnosis reads the last
    8 MiB of what it printed.
    """
    if console.redaction is not None:
        console.redaction.called(command[:1])
    program = shutil.which(command[0])
    if program is None:
        found = os.path.exists(command[0])
        console.say(f"{command[0]}: {'cannot be run' if found else 'no such command'}")
        return NOT_EXECUTABLE if found else NOT_FOUND
    try:
        wrapped = Wrapped(command)
    except OSError as error:
        console.say(f"{command[0]}: {error.strerror or error}")
        return NOT_EXECUTABLE
    begun = int(time.time())
    status = wrapped.wait()
    if status:
        from vdiag.cli import own_fault

        try:
            _diagnose(console, command[0], wrapped, status, begun, **options)
        except Exception as error:  # the status is the command's, whatever becomes of the diagnosis
            own_fault(error, console)
    return 128 - status if status < 0 else status


def _diagnose(
    console: Console,
    command: str,
    wrapped: Wrapped,
    status: int,
    begun: int,
    *,
    rules: tuple[str, ...],
    format_: str,
    everything: bool,
    color: str,
) -> None:
    """The diagnosis of what was printed, with the kernel log since it began, on standard error."""
    from vdiag.cli.diagnose import rulebook_for
    from vdiag.follow import renumber
    from vdiag.intake.fetch import kernel_log
    from vdiag.intake.sources import of_bytes
    from vdiag.pipeline import diagnose
    from vdiag.render import json, terminal

    rulebook, faults = rulebook_for(rules)
    for fault in faults:
        console.say(fault)
    name = os.path.basename(command)
    output, kernel = (
        of_bytes(_with_end(wrapped.printed, name, status), f"output of {name}"),
        kernel_log(begun),
    )
    if console.redaction is not None:
        console.redaction.listen([output, *kernel.sources])
    report = diagnose([output, *kernel.sources], rulebook=rulebook)
    kernel.tell(report)
    unsaid = report.verdict in (Verdict.HEALTHY, Verdict.STARTING, Verdict.EMPTY)
    stopped = unsaid and _signal(status) in ASKED
    if unsaid and not stopped:
        report.verdict = Verdict.INCOMPLETE  # what it printed does not know that it failed
        report.inputs[0].gaps.append(_more_detail(command))
    elif report.verdict is Verdict.DIAGNOSED:  # then nobody misses a kernel log that could not be read
        report.inputs = [read for read in report.inputs if read.name == output.name or not read.gaps]
    if wrapped.passed:
        renumber(report, lambda line: line + wrapped.passed, output.name)
        report.notes.append(f"Only its last {HELD >> 20} MiB were read, from line {wrapped.passed + 1} on")
    ended = f"signal {-status} ended it" if status < 0 else f"it ended with status {status}"
    what = "was stopped" if stopped else "failed"
    if format_ == "json":
        report.notes.append(f"{name}: {ended}")
    report = console.redacted(report)
    if format_ == "json":
        console.stderr.write(json.render(report))
    else:
        console.stderr.write(f"\nvdiag: {console.said(name)} {what}: {ended}\n")
        if not stopped:
            console.stderr.write("\n")
            page = terminal.render(report, width=console.columns, everything=everything)
            colored = console.colored(color) and (color == "always" or console.stderr_is_terminal)
            terminal.write(page, console.stderr, color=colored)
    console.stderr.flush()


def _signal(status: int) -> int:
    """The signal that ended a command, also as a shell tells it; 0 for none."""
    return -status if status < 0 else max(status - 128, 0)


def _more_detail(command: str) -> Gap:
    """Nothing is missing from the output; only more output can tell more. The arguments may hold a key: left out."""
    return Gap(
        what="all of its output was read, and nothing in it says why; start it once more with more detail",
        command=f"VLLM_LOGGING_LEVEL=DEBUG vdiag run -- {shlex.quote(command)} …",
    )


def _with_end(printed: bytes, name: str, status: int) -> bytes:
    """What was printed, and below it a death without a word, as a shell would tell it."""
    code = 128 - status if status < 0 else status
    if code <= 128:
        return printed
    return (
        printed + (b"" if printed.endswith(b"\n") else b"\n") + f"{name} exited with code {code}\n".encode()
    )
