"""`vdiag report`: the diagnosis with the lines around it, to attach to a bug report."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import click

from vdiag.cli.console import Console
from vdiag.cli.diagnose import rulebook_for
from vdiag.cli.status import ExitStatus
from vdiag.model import Line, Report

if TYPE_CHECKING:
    from vdiag.intake.sources import Source

FORMATS = {"markdown": "vdiag.render.markdown", "html": "vdiag.render.html"}


class Renderer(Protocol):
    """An output that shows lines of the log."""

    def wanted(self, report: Report) -> dict[str, list[range]]:
        """The lines to show, by input: ascending ranges that do not overlap."""

    def render(self, report: Report, lines: dict[str, list[Line]]) -> str:
        """The whole output."""


@click.command("report", short_help="A report to attach to a bug: the diagnosis and the lines around it.")
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILES]...")
@click.option(
    "--format",
    "format_",
    type=click.Choice(list(FORMATS)),
    default="markdown",
    help="For GitHub (the default) or one page for a browser.",
)
@click.option("--rules", multiple=True, metavar="PATH|none",
              help="Add a rule file or a folder of them; may be repeated. `none`: without any rulebook.")  # fmt: skip
@click.pass_obj
def report(
    console: Console, /, files: tuple[str, ...], format_: str, rules: tuple[str, ...], **options: Any
) -> ExitStatus:
    """Write a report on log files, or on standard input, to standard output."""
    from vdiag import excerpts
    from vdiag.intake.sources import sources
    from vdiag.pipeline import diagnose

    rulebook, faults = rulebook_for(rules)
    found, unreadable = sources(list(files), console.stdin)
    for said in faults + unreadable:
        console.say(said)
    if not found:
        return ExitStatus.USAGE
    found = [excerpts.spooled(source) if _once(source) else source for source in found]
    told = diagnose(found, rulebook=rulebook)
    renderer = cast(Renderer, importlib.import_module(FORMATS[format_]))
    lines = excerpts.read(_apart(files, found, console), renderer.wanted(told))
    console.write_utf8(renderer.render(told, lines))
    return ExitStatus.USAGE if faults or unreadable else ExitStatus.OK


def _once(source: Source) -> bool:
    """Whether a source can be read only once."""
    return source.size is None


def _apart(files: Sequence[str], found: list[Source], console: Console) -> list[Source]:
    """The sources with the files of a rotated set each for itself, as the report names them."""
    from vdiag.intake.sources import sources

    names = {source.name: source for source in found if _once(source)}
    files = [file for file in files if file != "-"]
    apart = sources(files, console.stdin, joined=False)[0] if files else []
    return [*names.values(), *(source for source in apart if source.name not in names)]
