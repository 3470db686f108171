"""The outside world as one value: streams, terminal, environment. Commands touch nothing else, so tests inject it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, TextIO

if TYPE_CHECKING:
    from vdiag.cli.redaction import Redaction
    from vdiag.model import Report

COLOR_CHOICES = ("auto", "always", "never")
DEFAULT_COLUMNS = 80


def tell(text: str, *, err: bool = False) -> None:
    """A line by click, on standard output or error; control characters in it are written out."""
    import click

    from vdiag.render.page import harmless

    click.echo(harmless(text), err=err)


@dataclass
class Console:
    """Streams as the process has them; `stdin` is bytes, since a log is bytes."""

    stdin: BinaryIO
    stdout: TextIO
    stderr: TextIO
    env: Mapping[str, str] = field(default_factory=dict)
    stdin_is_terminal: bool = False
    stdout_is_terminal: bool = False
    stderr_is_terminal: bool = False
    redaction: Redaction | None = None  # set by --redact: what is said passes through it
    words: Sequence[str] = ()  # of the call, which messages quote

    @classmethod
    def of_process(cls) -> Console:
        """The real one. What a terminal's encoding cannot show is replaced, not fatal."""
        for stream in (sys.stdout, sys.stderr):
            reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="replace")
        return cls(
            stdin=sys.stdin.buffer if sys.stdin is not None else open(os.devnull, "rb"),
            stdout=sys.stdout or open(os.devnull, "w", encoding="utf-8"),  # closed by the caller
            stderr=sys.stderr or open(os.devnull, "w", encoding="utf-8"),
            env=os.environ,
            stdin_is_terminal=_is_terminal(sys.stdin),
            stdout_is_terminal=_is_terminal(sys.stdout),
            stderr_is_terminal=_is_terminal(sys.stderr),
        )

    @property
    def columns(self) -> int:
        """Width of the output: COLUMNS, else the terminal's, else 80."""
        given = self.env.get("COLUMNS", "")
        if given.isascii() and given.isdigit() and int(given) > 0:
            return int(given)
        if not self.stdout_is_terminal:
            return DEFAULT_COLUMNS
        try:
            return os.get_terminal_size(self.stdout.fileno()).columns or DEFAULT_COLUMNS
        except (OSError, ValueError):
            return DEFAULT_COLUMNS

    def colored(self, choice: str = "auto") -> bool:
        """Whether to colour the output: the option, then NO_COLOR, CLICOLOR_FORCE, CLICOLOR, then the terminal."""
        if choice != "auto":
            return choice == "always"
        if self.env.get("NO_COLOR"):
            return False
        if self.env.get("CLICOLOR_FORCE", "0") not in ("", "0"):
            return True
        plain = self.env.get("CLICOLOR") == "0" or self.env.get("TERM") == "dumb"
        return self.stdout_is_terminal and not plain

    def say(self, message: str) -> None:
        """One message on standard error, `vdiag: …`; control characters in it are written out.

        Further lines stand as they are, so that commands in them can be copied.
        """
        self.stderr.write(f"vdiag: {self.quoting(message)}\n")
        self.stderr.flush()

    def quoting(self, message: str) -> str:
        """A message that may quote words of the call, which can neither break its rows nor reach the terminal."""
        from vdiag.render.page import harmless, one_row

        for word in self.words:
            if one_row(word) != word:
                message = message.replace(word, one_row(word))
        return harmless(self.said(message))

    def said(self, message: str) -> str:
        """A message as it may be shown."""
        return message if self.redaction is None else self.redaction.text(message)

    def redacted(self, report: Report) -> Report:
        """The report as it may be shown."""
        return report if self.redaction is None else self.redaction.report(report)

    def write(self, text: str) -> None:
        """Text for standard output."""
        self.stdout.write(text)

    def write_utf8(self, text: str) -> None:
        """Text for a program: UTF-8 whatever the locale."""
        buffer = getattr(self.stdout, "buffer", None)
        if buffer is None:
            self.stdout.write(text)
            return
        self.stdout.flush()
        buffer.write(text.encode("utf-8"))
        buffer.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
