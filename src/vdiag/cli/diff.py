"""`vdiag diff GOOD BAD`: what differs between a start of the server that worked and one that did not."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import click

from vdiag.cli.console import Console
from vdiag.cli.diagnose import UNREAD, page_options, rulebook_for
from vdiag.cli.names import with_meaning, without_lines
from vdiag.cli.status import ExitStatus

EPILOG = """\b
Examples:
  vdiag diff yesterday.log today.log
  journalctl -u vllm -b --no-pager | vdiag diff good.log -
\b
Exit status:
  0  nothing differs        1  something differs
  2  the call was at fault, or there is nothing to compare"""


class Difference(IntEnum):
    """What `vdiag diff` exits with, as diff(1) does."""

    NONE = 0
    SOME = 1
    USAGE = 2


@click.command("diff", short_help="Compare a start that worked with one that failed.", epilog=EPILOG)
@click.argument("good", type=click.Path())
@click.argument("bad", type=click.Path())
@page_options
@click.pass_obj
def diff(console: Console, /, good: str, bad: str, **options: Any) -> int:
    """Compare the last start in GOOD that came to serve with the last failed one in BAD.

    Each is a log, a folder of logs or a bundle; one of them may be `-`, standard input. What both starts tell of
    themselves is compared: version, arguments, model, devices, packages, memory and warnings. Where GOOD holds no
    start that served, or BAD none that failed, their last ones are compared, and that is said.
    """
    if good == bad == "-":
        raise click.UsageError("Only one of the two can be standard input.")
    return _compared(console, good, bad, **options)


def _compared(
    console: Console,
    good: str,
    bad: str,
    *,
    rules: tuple[str, ...],
    format_: str,
    everything: bool,
    color: str,
) -> int:
    from vdiag.intake import sources as opened
    from vdiag.pipeline import compare

    rulebook, faults = rulebook_for(rules)
    given, remarks = without_lines([good, bad])
    found = []
    for name in given:
        sources, problems = opened([name], console.stdin)
        faults += [with_meaning(problem, [name], rulebook) for problem in problems]
        found.append(sources)
    for said in remarks + faults:
        console.say(said)
    if not all(found):
        return ExitStatus.USAGE
    if console.redaction is not None:
        console.redaction.listen([*found[0], *found[1]])
    report = compare(found[0], found[1], rulebook=rulebook)
    unread = [
        f"{read.name}: {gap.what}"
        for read in report.inputs
        for gap in read.gaps
        if gap.what.startswith(UNREAD)
    ]
    for fault in unread:
        console.say(fault)
    report = console.redacted(report)
    if format_ == "json":
        from vdiag.render import json

        console.write_utf8(json.render(report))
    else:
        from vdiag.render import changes, terminal

        page = changes.page(report, width=console.columns, everything=everything)
        terminal.write(page, console.stdout, color=console.colored(color))
    if report.changes is None:
        console.say("one of the two holds no start of a vLLM server: there is nothing to compare")
    if report.changes is None or faults or unread:
        return Difference.USAGE
    return Difference.SOME if report.changes.items else Difference.NONE
