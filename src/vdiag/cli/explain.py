"""`vdiag explain`: paste a log, name a file, or ask what a rule knows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from vdiag.cli.console import Console
from vdiag.cli.diagnose import diagnose_files, report_options, rulebook_for
from vdiag.cli.names import beside, near_ids
from vdiag.cli.status import ExitStatus

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from vdiag.rulebook import Rule

EXAMPLES = """\b
Examples:
  vdiag explain                      paste a log, end with Ctrl-D
  vdiag explain vllm.log             the same as `vdiag vllm.log`
  vdiag explain kv-cache-too-small   what this rule knows"""


def _complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from vdiag.cli.completion import words_or_files

    rulebook, _faults = rulebook_for(context.params.get("rules") or ())
    return words_or_files((rule.id for rule in rulebook.rules if _is_explained(rule)), incomplete)


@click.command("explain", short_help="Explain a pasted log, a file, or a rule by its id.", epilog=EXAMPLES)
@click.argument("what", required=False, type=click.Path(), metavar="[FILE|RULE]", shell_complete=_complete)
@report_options
@click.pass_obj
def explain(console: Console, /, what: str | None, **options: Any) -> ExitStatus:
    """Explain a log that you paste, a log file, or what a rule knows. An existing file wins over a rule's id."""
    if what is None and console.stdin_is_terminal:
        console.stderr.write("Paste the log, then press Enter and Ctrl-D.\n")
        console.stderr.flush()
    if what is None or what == "-" or os.path.exists(what):
        return diagnose_files(console, [what or "-"], **options)
    return _explain_rule(console, what, **options)


def _explain_rule(
    console: Console, name: str, *, rules: tuple[str, ...], format_: str, color: str, **_: Any
) -> ExitStatus:
    rulebook, faults = rulebook_for(rules)
    for fault in faults:
        console.say(fault)
    rule = rulebook.by_id(name)
    if rule is None:
        near = near_ids(name, (rule.id for rule in rulebook.rules if _is_explained(rule)))
        hint = f"Near it: {', '.join(near)}\n" if near else ""
        console.say(
            f"{name or repr(name)}: no such file, and no rule has this id{beside(name) or '.'}\n"
            f"{hint}`vdiag rules list` shows all rules."
        )
        return ExitStatus.USAGE
    if format_ == "json":
        import msgspec

        console.write_utf8(msgspec.json.encode(rule).decode() + "\n")
    else:
        from vdiag.render import rule as render_rule
        from vdiag.render import terminal

        page = render_rule.render(rule, width=console.columns)
        terminal.write(page, console.stdout, color=console.colored(color))
    return ExitStatus.USAGE if faults else ExitStatus.OK


def _is_explained(rule: Rule) -> bool:
    return bool(rule.why or rule.fixes)
