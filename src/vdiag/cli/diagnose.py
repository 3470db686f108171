"""`vdiag [FILES…]`: logs in, the root cause and its fixes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from vdiag.cli.console import COLOR_CHOICES, Console
from vdiag.cli.names import with_meaning, without_lines
from vdiag.cli.status import ExitStatus, status_of
from vdiag.model import Report, Severity

if TYPE_CHECKING:
    from vdiag.intake.fetch import Fetched
    from vdiag.intake.sources import Source
    from vdiag.reason.window import Window
    from vdiag.rulebook import Rulebook

UNREAD = ("could not be read", "reading ended early")  # gaps that the call is to blame for

HOW_TO = """\
Give it a log, by a pipe, by name or by pasting it:

    journalctl -u vllm -b --no-pager | vdiag
    docker logs my-vllm 2>&1 | vdiag
    vdiag vllm.log
    vdiag explain

`vdiag --help` says more."""


def source_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The files, and the options of every command that reads logs from where they are."""
    return _with(
        command,
        click.argument("files", nargs=-1, type=click.Path(), metavar="[FILES]..."),
        click.option("-u", "--unit", "units", multiple=True, metavar="UNIT",
                     help="Read this systemd unit's journal of its last start, and the kernel log of the same time."),
        click.option("--user", is_flag=True, help="The unit is one of your own (systemctl --user)."),
        click.option("-c", "--container", "containers", multiple=True, metavar="NAME",
                     help="Read this docker or podman container's log and state, and the kernel log of the same "
                     "time."),
        click.option("--since", metavar="TIME",
                     help="Only lines from this time on: `2026-11-29 10:00`, `10:00`, or `-2h` before now."),
        click.option("--until", metavar="TIME", help="Only lines up to this time."),
    )  # fmt: skip


def page_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that prints a report."""
    return _with(
        command,
        click.option("--format", "format_", type=click.Choice(["terminal", "json"]), default="terminal",
                     help="For people (the default) or for programs."),
        click.option("--all", "everything", is_flag=True, help="Show long lines and long lists in full."),
        click.option("--rules", multiple=True, metavar="PATH|none",
                     help="Add a rule file or a folder of them; may be repeated. `none`: without any rulebook."),
        click.option("--color", type=click.Choice(COLOR_CHOICES), default="auto",
                     help="Colour the output. `auto`: on a terminal, unless NO_COLOR is set."),
        click.option("--redact", is_flag=True, is_eager=True, expose_value=False, callback=_on_redact,
                     help="Replace secrets, names, addresses and prompts in all that is printed."),
        redact_map,
    )  # fmt: skip


def redact_map(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option that keeps what stands behind the pseudonyms."""
    return click.option(
        "--redact-map", type=click.Path(), metavar="FILE", is_eager=True, expose_value=False, callback=_on_map,
        help="The same, and write what was replaced by what to a new FILE for you alone.",
    )(command)  # fmt: skip


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """These, and the options of every command whose exit status tells of the report."""
    return page_options(_with(
        command,
        click.option("--fail-on", type=click.Choice([s.value for s in Severity]), default="client",
                     help="From which severity a diagnosis makes the exit status 1. Default: any."),
        click.option("--exit-zero", is_flag=True,
                     help="Exit with 0 whatever the log says; a faulty call still exits with 2."),
    ))  # fmt: skip


def _on_redact(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from vdiag.cli.redaction import on_redact

        on_redact(context)


def _on_map(context: click.Context, parameter: click.Parameter, file: str | None) -> None:
    if file is not None:
        from vdiag.cli.redaction import on_map

        on_map(context, parameter, file)


def _with(command: Callable[..., Any], *options: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(options):
        command = option(command)
    return command


class _Unnamed(click.Context):
    """Usage and errors speak of plain `vdiag`: nobody types the name of this command."""

    @property
    def command_path(self) -> str:
        return self.parent.command_path if self.parent is not None else super().command_path


class _Diagnose(click.Command):
    context_class = _Unnamed


@click.command(
    "diagnose",
    cls=_Diagnose,
    short_help="Diagnose log files or standard input (this is what plain `vdiag` does).",
)
@source_options
@click.option(
    "--follow",
    "-f",
    "following",
    is_flag=True,
    help="Go on reading; print each failure when it has settled, and a summary at Ctrl-C.",
)
@report_options
@click.pass_obj
def diagnose(
    console: Console,
    /,
    files: tuple[str, ...],
    units: tuple[str, ...],
    user: bool,
    containers: tuple[str, ...],
    following: bool,
    since: str | None,
    until: str | None,
    **options: Any,
) -> ExitStatus:
    """Diagnose log files, told together as one story, or standard input (`-`, or no file at all)."""
    if following:
        if units or containers or len(files) > 1:
            raise click.UsageError(
                "--follow reads one file, or standard input: journalctl -fu UNIT | vdiag --follow"
            )
        if since is not None or until is not None:
            raise click.UsageError("--follow reads what comes; --since and --until do not go with it.")
    asked = ask(console, files, units, user, containers, since, until)
    if asked is None:
        return ExitStatus.USAGE
    if following:
        from vdiag.cli.follow import follow

        return follow(console, *(files or ["-"]), **options)
    return diagnose_files(console, list(files), *asked, **options)


def ask(
    console: Console,
    files: tuple[str, ...],
    units: tuple[str, ...],
    user: bool,
    containers: tuple[str, ...],
    since: str | None,
    until: str | None,
) -> tuple[Fetched | None, Window | None] | None:
    """What `source_options` ask to fetch, and the stretch of time; None if there is nothing to read, which is said."""
    if user and not units:
        raise click.UsageError("--user goes with -u UNIT.")
    window = window_of(since, until)
    if not units and not containers:
        if not files and console.stdin_is_terminal:
            console.say(f"nothing to read.\n{HOW_TO}")
            return None
        return None, window
    from vdiag.cli.refusals import retell
    from vdiag.intake.fetch import fetch

    fetched = fetch(units, containers, user=user)
    retell(fetched, containers)
    return fetched, window


def window_of(since: str | None, until: str | None) -> Window | None:
    """The stretch of time that the options name; None without them."""
    if since is None and until is None:
        return None
    from vdiag.reason.window import Window, moment

    ends = []
    for name, text in (("--since", since), ("--until", until)):
        try:
            ends.append(moment(text) if text is not None else None)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint=name) from None
    first, last = ends
    if first is not None and last is not None and last.wall < first.wall:
        raise click.UsageError(f"--until {last.text} lies before --since {first.text}.")
    return Window(first, last)


def diagnose_files(
    console: Console,
    files: list[str],
    fetched: Fetched | None = None,
    window: Window | None = None,
    *,
    rules: tuple[str, ...],
    **options: Any,
) -> ExitStatus:
    """The way of the data: rules and sources in, a report out. What could be read is reported in any case."""
    read = read_files(console, files, fetched, window, rules=rules)
    return ExitStatus.USAGE if read is None else finish(console, read.report, faulty=read.faulty, **options)


class Read(NamedTuple):
    """What reading came to."""

    report: Report
    sources: list[Source]
    faulty: bool  # the call is to blame for something; it has been said


def read_files(
    console: Console,
    files: list[str],
    fetched: Fetched | None = None,
    window: Window | None = None,
    *,
    rules: tuple[str, ...],
    again: bool = False,
) -> Read | None:
    """The report on what these options name, and the sources; None if there is nothing to read.

    With `again` every source can be opened once more. What the call is to blame for is said.
    """
    from vdiag.cli.progress import progress_for
    from vdiag.intake import sources as opened
    from vdiag.pipeline import diagnose as diagnosed

    rulebook, faults = rulebook_for(rules)
    files, remarks = without_lines(files)
    sources, unreadable = opened(files, console.stdin) if files or fetched is None else ([], [])
    faults += [with_meaning(problem, files, rulebook) for problem in unreadable]
    if fetched is not None:
        sources = fetched.sources + sources
        faults += fetched.problems
    for said in remarks + faults:
        console.say(said)
    if not sources:
        return None
    if again:
        from vdiag.excerpts import spooled

        sources = [spooled(source) if source.size is None else source for source in sources]
    if console.redaction is not None:
        console.redaction.listen(sources)
    with progress_for(console, sources) as progress:
        more = {"window": window} if window is not None else {}
        report = diagnosed(sources, rulebook=rulebook, progress=progress, **more)
    spare = fetched.spare if fetched is not None else set()
    unread = [
        f"{read.name}: {gap.what}"
        for read in report.inputs
        for gap in read.gaps
        if gap.what.startswith(UNREAD) and read.name not in spare
    ]
    unread += fetched.tell(report) if fetched is not None else []
    for fault in unread:
        console.say(fault)
    return Read(report, sources, bool(faults or unread))


def finish(
    console: Console,
    report: Report,
    *,
    format_: str,
    everything: bool,
    color: str,
    fail_on: str,
    exit_zero: bool,
    faulty: bool = False,
) -> ExitStatus:
    """Prints the report and tells the exit status."""
    report = console.redacted(report)
    if format_ == "json":
        from vdiag.render import json

        console.write_utf8(json.render(report))
    else:
        from vdiag.render import terminal

        page = terminal.render(report, width=console.columns, everything=everything)
        terminal.write(page, console.stdout, color=console.colored(color))
    if faulty:
        return ExitStatus.USAGE
    return ExitStatus.OK if exit_zero else status_of(report, Severity(fail_on))


def rulebook_for(rules: tuple[str, ...]) -> tuple[Rulebook, list[str]]:
    """The shipped rules, the user's own and those asked for; with what is wrong in them, one line each."""
    from vdiag.rulebook import Rulebook
    from vdiag.rulebook.shipped import shipped

    if "none" in rules:
        paths: list[Any] = [path for path in rules if path != "none"]
        rulebook = Rulebook()
    else:
        from vdiag.rulebook.places import default_user_paths

        paths = [*default_user_paths(), *rules]
        rulebook = shipped()
    if not paths:
        return rulebook, []
    from vdiag.rulebook.load import Problem, load

    problems: list[Problem] = []
    return load(paths, base=rulebook, collect=problems), [str(problem) for problem in problems]
