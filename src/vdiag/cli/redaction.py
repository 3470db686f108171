"""`--redact` and `--redact-map`: what a command reads is learned from, what it says and reports is redacted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from vdiag.redact import Redactor
from vdiag.redact.book import NAMES, TEXTS
from vdiag.redact.listening import Listener

if TYPE_CHECKING:
    from vdiag.cli.console import Console
    from vdiag.fleet_model import Fleet, Row
    from vdiag.intake import Source
    from vdiag.model import Report


PIECE = 1 << 20  # bytes


class Redaction:
    """One redactor for all that a command puts out; `map_file` gets what stands behind the pseudonyms at its end."""

    def __init__(self, *, secrets_only: bool = False) -> None:
        self._redactor = Redactor(keep=(*NAMES, *TEXTS) if secrets_only else ())
        self.map_file = ""
        self._written = False
        self._listener = Listener(self._redactor)

    def listen(self, sources: Sequence[Source]) -> None:
        """Learns names from all that will be read of these sources."""
        for source in sources:
            self._redactor.input(source.name)
            source.open = self._listener.hearing(source.open)

    def called(self, words: Sequence[str]) -> None:
        """Learns the folders in what a call names, since messages quote it; what `run` starts speaks for itself."""
        if "run" in words:
            at = words.index("--") if "--" in words else 0
            words = [word for word in words[:at] or words if at or word.startswith("/")]
        for word in words:
            for name in (word, word.partition("=")[2]):
                self._redactor.folder(name)

    def heard(self, data: bytes) -> None:
        """Learns the names in a piece of a log, by whole rows."""
        self._listener.heard(data)

    def ended(self) -> None:
        """Learns from the last row, which has no end."""
        self._listener.ended()

    def text(self, text: str) -> str:
        """A message redacted."""
        return self._redactor.text(text)

    def files(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Files that belong together, redacted: what one of them tells is replaced in all."""
        for data in files.values():
            for piece in _pieces(data):
                self.heard(piece)
            self.ended()
        return {name: b"".join(self._redactor.blocks(_pieces(data))) for name, data in files.items()}

    def report(self, report: Report) -> Report:
        """A report redacted; the map is written anew."""
        self.ended()
        made = self._redactor.report(report)
        self.write_map()
        return made

    def told(self, found: Iterable[tuple[str, str]]) -> None:
        """Names, by kind, that others found: from now on they are replaced everywhere."""
        self._redactor.told(found)

    def fleet(self, fleet: Fleet) -> Fleet:
        """The answer on a fleet redacted; the map is written."""
        made: Fleet = self._redactor.struct(fleet)
        made.redacted = self._redactor.counts()
        self.write_map()
        return made

    def row(self, row: Row) -> Row:
        """One row redacted."""
        made: Row = self._redactor.struct(row)
        return made

    def write_map(self) -> None:
        """Writes the map, which only its owner may read; what was there before the command began is not touched."""
        if not self.map_file:
            return
        import msgspec

        made = msgspec.json.format(msgspec.json.encode(self._redactor.mapping()), indent=2) + b"\n"
        how = os.O_TRUNC if self._written else os.O_CREAT | os.O_EXCL
        with open(os.open(self.map_file, os.O_WRONLY | how, 0o600), "wb") as file:
            file.write(made)
        self._written = True


def _pieces(data: bytes) -> Iterator[bytes]:
    """A file in pieces, so that memory holds no copies of a whole one."""
    return (data[at : at + PIECE] for at in range(0, len(data), PIECE))


def on_redact(context: click.Context) -> Redaction:
    """Turns redaction on before anything is said."""
    console: Console = context.find_root().obj
    return _turned_on(console)


def before_parsing(console: Console) -> None:
    """Turns redaction on if a call asks for it that is so faulty that none of its options took effect."""
    words = console.words[: console.words.index("--")] if "--" in console.words else console.words
    if any(word.startswith("--redact") for word in words) or (
        "report" in words and "--no-redact" not in words
    ):
        _turned_on(console)


def _turned_on(console: Console) -> Redaction:
    if console.redaction is None:
        console.redaction = Redaction()
        rules = console.env.get("VDIAG_RULES", "").split(os.pathsep)
        console.redaction.called([*console.words, *rules])
    return console.redaction


def on_map(context: click.Context, parameter: click.Parameter, file: str) -> None:
    """Turns redaction on, with a file for its map. One that is there already is not overwritten."""
    redaction = on_redact(context)
    if os.path.lexists(file):
        raise click.BadParameter(
            "there is such a file already, and it is not overwritten", context, parameter
        )
    if not os.access(os.path.dirname(file) or ".", os.W_OK):
        raise click.BadParameter("no file can be made there", context, parameter)
    redaction.map_file = file
