"""`vdiag report`: the diagnosis with the lines around it, to attach to a bug report."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import click

from vdiag.cli.console import Console
from vdiag.cli.diagnose import Read, ask, read_files, redact_map, source_options
from vdiag.cli.names import without_lines
from vdiag.cli.status import ExitStatus, status_of
from vdiag.model import Line, Report, Severity

if TYPE_CHECKING:
    from vdiag.intake.sources import Source

FORMATS = ("markdown", "html", "json", "github")
FORMS = ("vllm",)
MARGIN = 120  # lines around what is shown that redaction sees: a private key may begin before it

EXAMPLES = """\b
Examples:
  vdiag report vllm.log > report.md             for an issue on GitHub
  vdiag report --for vllm vllm.log > bug.md     the sections of vLLM's bug report form
  vdiag report --format html -o report.html vllm.log kernel.log
  vdiag report --format github --fail-on fatal vllm.log    a step of a GitHub workflow
\b
Exit status:
  0  the report was written, whatever it says (with --fail-on: what `vdiag` itself exits with)
  2  the call was at fault"""


def _on_redact(context: click.Context, parameter: click.Parameter, wanted: bool) -> bool:
    """Turns redaction on before anything is said."""
    if wanted:
        from vdiag.cli.redaction import on_redact

        on_redact(context)
    return wanted


class Renderer(Protocol):
    """An output that shows lines of the log."""

    def wanted(self, report: Report) -> dict[str, list[range]]:
        """The lines to show, by input: ascending ranges that do not overlap."""

    def render(self, report: Report, lines: Mapping[str, Sequence[Line]]) -> str:
        """The whole output."""


@click.command(
    "report",
    short_help="A report to attach to a bug: the diagnosis and the lines around it.",
    epilog=EXAMPLES,
)
@source_options
@click.option("--format", "format_", type=click.Choice(FORMATS), default="markdown",
              help="Markdown for an issue (the default), one page for a browser, JSON, or annotations of a GitHub "
              "workflow.")  # fmt: skip
@click.option("--for", "form", type=click.Choice(FORMS),
              help="Fill the sections of this project's bug report form.")  # fmt: skip
@click.option(
    "--output", "-o", metavar="FILE", type=click.Path(), help="Write to this file. `-`: standard output."
)
@click.option("--redact/--no-redact", default=True, is_eager=True, callback=_on_redact,
              help="Replace secrets, names, addresses and prompts by pseudonyms. Default: they are replaced.")  # fmt: skip
@redact_map
@click.option("--rules", multiple=True, metavar="PATH|none",
              help="Add a rule file or a folder of them; may be repeated. `none`: without any rulebook.")  # fmt: skip
@click.option("--fail-on", type=click.Choice([s.value for s in Severity]),
              help="Exit as `vdiag` does, with 1 from this severity on. Default: with 0, once the report is written.")  # fmt: skip
@click.pass_obj
def report(
    console: Console,
    /,
    files: tuple[str, ...],
    format_: str,
    form: str | None,
    output: str | None,
    redact: bool,
    rules: tuple[str, ...],
    fail_on: str | None,
    **options: Any,
) -> ExitStatus:
    """Write a report on log files, told together as one story, or on standard input (`-`, or no file at all).

    Secrets and personal details are replaced, the same by the same everywhere; read the report all the same before
    you publish it.
    """
    if not redact and console.redaction is not None:
        raise click.UsageError("--redact-map does not go with --no-redact: there is nothing to map.")
    if form is not None and format_ != "markdown":
        raise click.UsageError("--for fills a form in Markdown; --format does not go with it.")
    output = None if output == "-" else output
    names = without_lines(files)[0]
    if output is not None and any(_same(output, name) for name in names):
        raise click.UsageError(f"-o {output} is one of the logs.")
    asked = ask(console, files, **options)
    if asked is None:
        return ExitStatus.USAGE
    read = read_files(console, list(files), *asked, rules=rules, again=True)
    if read is None:
        return ExitStatus.USAGE
    text = _rendered(console, read, names, form or format_)
    if output is None:
        console.write_utf8(text)
    else:
        try:
            with open(output, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            console.say(f"{output}: {error.strerror or error}")
            return ExitStatus.USAGE
    if read.faulty:
        return ExitStatus.USAGE
    return ExitStatus.OK if fail_on is None else status_of(read.report, Severity(fail_on))


def _rendered(console: Console, read: Read, names: list[str], format_: str) -> str:
    """The output. What speaks to the person who reports, and not to the reader, is said on standard error."""
    if format_ == "json":
        from vdiag.render import json

        return json.render(console.redacted(read.report))
    if format_ == "github":
        from vdiag.render import workflow

        paths = workflow.paths_in(read.report, console.env.get("GITHUB_WORKSPACE", ""))
        if (
            console.redaction is not None
        ):  # GitHub needs the path as it is, unless it tells a secret or a person
            from vdiag.redact import Redactor

            paths = [path if Redactor().text(path) == path else "" for path in paths]
        return workflow.render(console.redacted(read.report), paths)
    module = {"markdown": "markdown", "html": "html", "vllm": "bugform"}[format_]
    renderer = cast(Renderer, importlib.import_module(f"vdiag.render.{module}"))
    sources = _apart(names, read.sources, console)
    lines = _lines(sources, renderer.wanted(read.report), console)
    told = console.redacted(read.report)  # last: it counts what was replaced anywhere
    if format_ == "vllm":
        from vdiag.render.bugform import advice

        console.say(advice(told))
    return renderer.render(told, lines)


def _lines(sources: list[Source], wanted: dict[str, list[range]], console: Console) -> dict[str, list[Line]]:
    """The wanted lines by the name that the input has in the output."""
    from vdiag.excerpts import read

    if console.redaction is None:
        return read(sources, wanted)
    from vdiag.render.spans import widened

    return {
        console.said(name): [
            line for line in _redacted(own, console.said) if any(line.number in one for one in wanted[name])
        ]
        for name, own in read(sources, widened(wanted, MARGIN)).items()
    }


def _redacted(lines: list[Line], redact: Callable[[str], str]) -> list[Line]:
    """Lines redacted together: what one begins, such as a private key, the next may go on with."""
    text = "\n".join(line.text.replace("\n", " ") for line in lines)
    rows = redact(text).split("\n") if lines else []
    return [line._replace(text=row, lane=redact(line.lane)) for line, row in zip(lines, rows, strict=True)]


def _same(one: str, other: str) -> bool:
    """Whether two names lead to the same file."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _apart(names: list[str], found: Sequence[Source], console: Console) -> list[Source]:
    """The sources with the files of a rotated set each for itself, as the report names them."""
    from vdiag.intake.sources import sources

    copies = {source.name: source for source in found if source.size is None}
    files = [name for name in names if name != "-"]
    apart = sources(files, console.stdin, joined=False)[0] if files else []
    return [*copies.values(), *(source for source in apart if source.name not in copies)]
