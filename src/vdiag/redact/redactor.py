"""The one thing that others use: texts, whole logs and reports in, the same without secrets and personal details out.

`text` runs every detector on what it is given. Whole logs take the same way row by row where a literal search says
that something may be there; addresses and names that are known are replaced everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from vdiag.model import Report
from vdiag.redact import keys, machines, names, pem, prompts, stream, structs, tokens
from vdiag.redact.book import Book

Bytes = bytes  # inside the class `bytes` is its method


class Redactor:
    """Replaces secrets and personal details; the same value gets the same pseudonym as long as it lives.

    `keep` names kinds that stay (see `vdiag.redact.book.KINDS`). What only its place tells, such as a host in front
    of a syslog line, is replaced elsewhere only after it was told: give the whole log to `learn` first.
    """

    def __init__(self, keep: Collection[str] = ()) -> None:
        self._book = Book(keep)

    def learn(self, text: str) -> None:
        """Collects the names, and the secrets, that a text tells; nothing is replaced yet."""
        self._book.reserve(text)
        with self._book.quiet():
            for part in stream.suspicious(text):
                _names(part, self._book)

    def text(self, text: str) -> str:
        """The text redacted. Rows keep their number."""
        if not text:
            return text
        self._book.reserve(text)
        text = pem.replace(text, self._book)
        return self._book.everywhere("".join(_all(row, self._book) for row in stream.rows(text)))

    def report(self, report: Report) -> Report:
        """The report with every text in it redacted, with what was replaced so far in `redacted`."""
        made = structs.redacted(report, self._book, self.text)
        made.redacted = self.counts()
        return made

    def bytes(self, data: Bytes) -> Bytes:
        """A whole log redacted: what it tells anywhere is replaced everywhere. Bytes that are no UTF-8 stay."""
        self.learn(data.decode("utf-8", "surrogateescape"))
        return b"".join(self.blocks([data]))

    def blocks(self, blocks: Iterable[Bytes]) -> Iterator[Bytes]:
        """A log in blocks of any size, redacted, in bounded memory; names count from where they are told."""
        return stream.redacted(blocks, self._book, _all)

    def counts(self) -> dict[str, int]:
        """How many different values of each kind were replaced so far."""
        return self._book.counts()

    def mapping(self) -> dict[str, str]:
        """What stands behind each pseudonym, for the owner alone."""
        return self._book.mapping()


def _names(text: str, book: Book) -> str:
    """The detectors whose finds count in other rows as well."""
    text = tokens.replace(keys.replace(text, book), book)
    return names.replace(machines.replace(text, book), book)


def _all(text: str, book: Book) -> str:
    """Every detector, those that take the most away first."""
    text = prompts.replace(text, book)
    text = keys.replace(text, book)
    text = tokens.replace(text, book)
    text = structs.searched(text, book, _all)
    text = machines.addresses(machines.replace(text, book), book)
    text = names.replace(text, book)
    return book.everywhere(text)
