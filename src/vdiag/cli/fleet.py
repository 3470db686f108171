"""`vdiag fleet PATH…`: many logs, each read for itself; which failed, and of what."""

from __future__ import annotations

import importlib
import logging
import os
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from vdiag.cli.console import COLOR_CHOICES, Console
from vdiag.cli.diagnose import _on_redact, redact_map, rulebook_for, window_of
from vdiag.cli.status import ExitStatus

if TYPE_CHECKING:
    import re

    from vdiag.fleet.found import Found
    from vdiag.fleet.run import Engine
    from vdiag.fleet.spool import Spool
    from vdiag.fleet.state import State
    from vdiag.fleet.task import Done, Settings
    from vdiag.fleet_model import Fleet, Total

FORMATS = ("terminal", "json", "jsonl", "csv", "html")
ENGINES = ("local", "ray")
SMALL = 1 << 14  # bytes that a log counts at least in the progress: it costs its start, too
MOST_LOST = 50  # listed of folders that cannot be read
LISTING = ("jsonl", "csv")  # formats that print every row

EXAMPLES = """\b
Examples:
  vdiag fleet /var/log/vllm                      a folder, with all below it
  vdiag fleet 'logs/**/*.log.gz'
  vdiag fleet s3://acme-logs/vllm/2026-11-29/    what fsspec opens (pip install 'vdiag[remote]')
  vdiag fleet --format csv logs > replicas.csv   one row for each replica
  vdiag fleet --name '(?P<node>gpu\\d+)/(?P<replica>[^/]+)$' logs
  vdiag fleet --engine ray --address 10.0.0.5:6379 s3://acme-logs/vllm/
  vdiag fleet --state fleet.db --prometheus /var/lib/node_exporter/vllm.prom logs    from cron
\b
Exit status:
  0  no replica failed       1  some did
  2  the call was at fault   3  none failed, but not all could be read, or none is a server's log
  130  Ctrl-C: what was read by then is printed"""


@click.command(
    "fleet", short_help="Read many logs; tell which replicas failed, and of what.", epilog=EXAMPLES
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--format", "format_", type=click.Choice(FORMATS), default="terminal",
              help="A page for people (the default) or for a browser, the answer as JSON, or one row for each "
              "replica as JSON lines or CSV.")  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Show long lines and long lists in full.")
@click.option("--name", "name", metavar="REGEX",
              help="Take node and replica from the path by the groups (?P<node>…) and (?P<replica>…).")  # fmt: skip
@click.option("--since", metavar="TIME", help="Only lines from this time on, as for `vdiag`.")
@click.option("--until", metavar="TIME", help="Only lines up to this time.")
@click.option("--state", "state", type=click.Path(), metavar="FILE",
              help="Remember in FILE what was read: a later run reads only what is new, and says what is.")  # fmt: skip
@click.option("--prometheus", type=click.Path(), metavar="FILE",
              help="Write the counts to FILE for node_exporter's textfile collector.")  # fmt: skip
@click.option("--jobs", "-j", type=click.IntRange(1, 1024), metavar="N",
              help="Processes that read. Default: one for each core.")  # fmt: skip
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="local",
    help="What runs them: this machine's cores (the default), or Ray.",
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    help="Ray's head. Default: RAY_ADDRESS, a Ray that runs on this machine, or one started for this run.",
)
@click.option("--rules", multiple=True, metavar="PATH|none",
              help="Add a rule file or a folder of them; may be repeated. `none`: without any rulebook.")  # fmt: skip
@click.option("--color", type=click.Choice(COLOR_CHOICES), default="auto",
              help="Colour the output. `auto`: on a terminal, unless NO_COLOR is set.")  # fmt: skip
@click.option("--redact", is_flag=True, is_eager=True, expose_value=False, callback=_on_redact,
              help="Replace secrets, names, addresses and prompts in all that is printed.")  # fmt: skip
@redact_map
@click.pass_obj
def fleet(
    console: Console,
    /,
    paths: tuple[str, ...],
    format_: str,
    everything: bool,
    name: str | None,
    since: str | None,
    until: str | None,
    state: str | None,
    prometheus: str | None,
    jobs: int | None,
    engine: str,
    address: str | None,
    rules: tuple[str, ...],
    color: str,
) -> ExitStatus:
    """Read many logs, each for itself, and tell how many replicas failed, of which causes, and where.

    PATH is a log, a bundle, a folder, a pattern or a URL. A log with its rotated ones, restarts and other stream, or
    a bundle, is one replica; of a log that many servers write (a syslog host's, stern, kubectl --prefix, a
    collector's JSON) each of them is one.
    """
    from vdiag.fleet.engines import EngineError
    from vdiag.fleet.found import find
    from vdiag.fleet.run import StateError
    from vdiag.fleet.task import Settings
    from vdiag.render.page import one_row

    if address is not None and engine != "ray":
        raise click.UsageError("--address goes with --engine ray.")
    window = window_of(since, until)
    if state is not None and window is not None:
        raise click.UsageError(
            "--state goes on where the last run ended; --since and --until do not go with it."
        )
    faults = rulebook_for(rules)[1]
    logging.lastResort = (
        logging.NullHandler()
    )  # what libraries log while they look is not the user's affair; what fails is said
    found = find(paths, _pattern(name))
    faults += [one_row(problem) for problem in found.problems]
    for fault in faults:
        console.say(fault)
    if not found.tasks:
        return ExitStatus.USAGE
    run: Engine = importlib.import_module(f"vdiag.fleet.engines.{engine}").run
    try:
        with _remembering(state, rules, console.redaction is not None) as memory:
            redact = console.redaction is not None or (memory is not None and memory.redact)
            settings = Settings(rules, window, jobs or 0, memory is not None, redact, address or "")
            read = _read(console, found, settings, run, memory, format_)
            _print(console, read.fleet, read.spool, format_, everything, color)
            console.stdout.flush()
            if read.fleet.interrupted:
                console.say(read.fleet.notes[0])
                return ExitStatus.INTERRUPTED
            written = prometheus is None or _write(console, prometheus, read)
            if memory is not None:
                memory.told()
    except (EngineError, StateError) as error:
        console.say(f"{state}: {error}" if isinstance(error, StateError) else str(error))
        return ExitStatus.USAGE
    if faults or not written:
        return ExitStatus.USAGE
    if read.fleet.failed:
        return ExitStatus.DIAGNOSED
    lacking = read.fleet.unread or read.fleet.cut_short or found.lost
    return ExitStatus.OK if read.fleet.replicas and not lacking else ExitStatus.NO_ANSWER


def _remembering(
    path: str | None, rules: tuple[str, ...], redact: bool
) -> AbstractContextManager[State | None]:
    """The state, open for this run alone; None without one."""
    if path is None:
        return nullcontext()
    from vdiag.fleet.state import held
    from vdiag.fleet.worker import mark, rulebook

    return held(path, mark(rulebook(rules)), redact)


class _Read(NamedTuple):
    """What reading came to."""

    fleet: Fleet
    spool: Spool | None  # all rows, for formats that list them
    totals: list[Total]


def _pattern(name: str | None) -> re.Pattern[str] | None:
    from vdiag.fleet.names import pattern

    try:
        return pattern(name) if name is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--name") from None


def _read(
    console: Console, found: Found, settings: Settings, run: Engine, state: State | None, format_: str
) -> _Read:
    """Reads what is new, and folds it with what is known."""
    from vdiag.cli.progress import bar
    from vdiag.fleet.chunks import chunks
    from vdiag.fleet.engines.local import cores
    from vdiag.fleet.found import left_out
    from vdiag.fleet.run import gather
    from vdiag.fleet.spool import Spool
    from vdiag.render.sections import counted

    spool = Spool() if format_ in LISTING else None
    tasks = found.tasks if state is None else state.plan(found.tasks, found.files)
    sizes = {task.name: max(task.size, SMALL) for task in tasks}
    done = 0
    with bar(console, sum(sizes.values()), counted(len(tasks), "log")) as draw:

        def progress(rows: list[Done]) -> None:
            nonlocal done
            done += sum(sizes.get(row.row.input, 0) for row in rows)
            if draw is not None:
                draw(done)

        portions = chunks(tasks, settings.jobs or cores())
        known = state.unchanged() if state is not None else ()
        folded, interrupted = gather(
            portions, settings, run, known=known, memory=state, spool=spool, progress=progress
        )
    fleet = folded.answer()
    totals = folded.totals() if state is None else state.totals()
    if state is not None:
        fleet.news = state.news()
    fleet.notes += [f"could not be read: {lost}" for lost in found.lost[:MOST_LOST]]
    if len(found.lost) > MOST_LOST:
        fleet.notes.append(f"{len(found.lost) - MOST_LOST} more folders and links could not be read")
    if found.left:
        fleet.notes.append(left_out(found.left))
    if interrupted:
        fleet.interrupted = True
        fleet.notes.insert(
            0, f"interrupted: {fleet.replicas} of {counted(len(found.tasks), 'log')} were read by then"
        )
    if console.redaction is not None:
        console.redaction.told(("host", node) for node in folded.node_names())
        console.redaction.told(sorted(folded.names))
        fleet = console.redaction.fleet(fleet)
    return _Read(fleet, spool, totals)


def _write(console: Console, path: str, read: _Read) -> bool:
    """Writes the metrics, whole or not at all; False if that failed, which is said."""
    from vdiag.render import fleet_metrics

    told = fleet_metrics.render(read.fleet, read.totals, time.time())
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe, or /dev/stdout: it is not replaced
            with open(path, "w", encoding="utf-8") as file:
                file.write(told)
            return True
        path = os.path.realpath(path)  # a link stays
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, "rb") as before:
                if before.read(len(fleet_metrics.HEAD)) != fleet_metrics.HEAD.encode():
                    raise OSError(None, "is there already, and was not written by vdiag fleet")
        _replace(path, told)
    except OSError as error:
        console.say(f"{path}: {error.strerror or error}")
        return False
    return True


def _replace(path: str, text: str) -> None:
    """A file with another text, at once. OSError."""
    draft = f"{path}.{os.getpid()}.tmp"  # of another ending than `.prom`, which alone is read
    with suppress(FileNotFoundError):
        os.unlink(draft)  # of a run that was killed
    try:
        with open(draft, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _print(
    console: Console, fleet: Fleet, spool: Spool | None, format_: str, everything: bool, color: str
) -> None:
    from vdiag.render import fleet_data

    if spool is not None:
        rows = spool if console.redaction is None else map(console.redaction.row, spool)
        for line in fleet_data.jsonl(rows) if format_ == "jsonl" else fleet_data.table(rows):
            console.write_utf8(line)
    elif format_ == "json":
        console.write_utf8(fleet_data.json(fleet))
    elif format_ == "html":
        from vdiag.render import fleet_html

        console.write_utf8(fleet_html.render(fleet))
    else:
        from vdiag.render import fleet as page
        from vdiag.render import terminal

        made = page.render(fleet, width=console.columns, everything=everything)
        terminal.write(made, console.stdout, color=console.colored(color))
