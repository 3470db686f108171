"""`vdiag completion SHELL`: prints the script that teaches a shell to complete vdiag's command line."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from vdiag.cli.console import Console
from vdiag.cli.status import ExitStatus

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

EPILOG = """\b
Install it for good:
  vdiag completion bash > ~/.local/share/bash-completion/completions/vdiag
  vdiag completion zsh > ~/.zfunc/_vdiag    (a folder in your fpath)
  vdiag completion fish > ~/.config/fish/completions/vdiag.fish"""

VARIABLE = "_VDIAG_COMPLETE"
PLAIN = re.compile(r"\w[\w.+-]*")  # names that need no quoting in any shell; hidden ones are left out


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


def words_or_files(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """The words that begin so, with the files and folders here that do; without such a word, files are the shell's.

    bash forgets the words before it as soon as it is asked to complete files.
    """
    from click.shell_completion import CompletionItem

    fitting = [word for word in words if word.startswith(incomplete)]
    if not fitting:
        return [CompletionItem(incomplete, type="file")]
    files: list[str] = []
    with contextlib.suppress(OSError), os.scandir() as entries:
        files = sorted(
            entry.name + ("/" if entry.is_dir() else "")
            for entry in entries
            if entry.name.startswith(incomplete) and PLAIN.fullmatch(entry.name)
        )
    return [CompletionItem(word) for word in [*fitting, *files]]
