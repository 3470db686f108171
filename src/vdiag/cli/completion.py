"""`vdiag completion SHELL`: prints the script that teaches a shell to complete vdiag's command line."""

from __future__ import annotations

import click

from vdiag.cli.console import Console
from vdiag.cli.status import ExitStatus

EPILOG = """\b
Install it for good:
  vdiag completion bash > ~/.local/share/bash-completion/completions/vdiag
  vdiag completion zsh > ~/.zfunc/_vdiag    (a folder in your fpath)
  vdiag completion fish > ~/.config/fish/completions/vdiag.fish"""

VARIABLE = "_VDIAG_COMPLETE"


@click.command("completion", short_help="Print the completion script of a shell.", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> ExitStatus:
    """Print the script that completes vdiag's commands, options and files in your shell."""
    from click.shell_completion import ShellComplete, get_completion_class

    console: Console = context.obj
    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(context.find_root().command, {}, "vdiag", VARIABLE)
    # The class's own `source` for bash would run bash to ask for its version.
    console.write(ShellComplete.source(made) + "\n")
    return ExitStatus.OK
