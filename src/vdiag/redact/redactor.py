"""The one thing that others use: texts, whole logs and reports in, the same without secrets and personal details out.

`text` runs every detector on what it is given. Whole logs take the same way row by row where a literal search says
that something may be there; addresses and names that are known are replaced everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from vdiag.model import Report
from vdiag.redact import keys, machines, names, paths, pem, prompts, stream, structs, tokens, torn, wrap
from vdiag.redact.book import Book

Bytes = bytes  # inside the class `bytes` is its method
_LONE = re.compile(
    "[\ud800-\udc7f\udd00-\udfff]"
)  # half a character, which stands for no byte of a log either


class Redactor:
    """Replaces secrets and personal details; the same value gets the same pseudonym as long as it lives.

    `keep` names kinds that stay (see `vdiag.redact.book.KINDS`). What only its place tells, such as a host in front
    of a syslog line, is replaced elsewhere only after it was told: give the whole log to `learn` first.
    """

    def __init__(self, keep: Collection[str] = ()) -> None:
        self._book = Book(keep)
        self._inputs: list[str] = []  # their names
        self._folders: set[str] = set()
        self._folder: re.Pattern[str] | None = None  # any of them, where a path begins
        self._widths: set[int] = set()  # that rows of the log were cut at

    def learn(self, text: str) -> None:
        """Collects the names, and the secrets, that a text tells; nothing is replaced yet."""
        self._book.reserve(text)
        text = torn.uncoloured(text)
        with self._book.quiet():
            if wrapped := wrap.joined(text):
                self._widths.add(wrapped.width)
                self._learn(wrapped.text)
            self._learn(torn.mended(text, lambda row: _names(row, ~0, self._book)))

    def _learn(self, text: str) -> None:
        for part, seen in stream.rows(text):
            if seen:
                _names(part, seen, self._book)
            else:
                names.learn_prefixes(part, self._book)

    def input(self, name: str) -> None:
        """Takes in the name of an input, whose folders are replaced wherever the name stands."""
        if paths.telling(name):
            self._inputs.append(name)

    def folder(self, name: str) -> None:
        """Takes in the folders of a path, and the path as a folder: they are replaced wherever a path begins so."""
        if "://" in name or not paths.telling(name):
            return
        last = max(name.rfind("/"), name.rfind("\\")) + 1
        for folder in (name[:last], name + name[last - 1 : last]):
            if paths.named(folder, Book()) != folder:
                self._folders.add(folder)
        if self._folders:
            longest = "|".join(map(re.escape, sorted(self._folders, key=len, reverse=True)))
            self._folder = re.compile(rf"(?<![\w./\\-])(?:{longest})")

    def known(self) -> list[tuple[str, str]]:
        """Kind and value of what was told so far, in the order it came."""
        return self._book.known()

    def told(self, found: Iterable[tuple[str, str]]) -> None:
        """Takes over what another redactor knows: from now on it is replaced everywhere."""
        for kind, value in found:
            self._book.spread(kind, value)

    def text(self, text: str) -> str:
        """The text redacted. Rows keep their number."""
        if not text:
            return text
        text = _LONE.sub("\ufffd", text)
        self._book.reserve(text)
        for name in self._inputs:
            if name in text:
                text = text.replace(name, paths.named(name, self._book))
        if self._folder is not None:
            text = self._folder.sub(lambda found: paths.named(found[0], self._book), text)
        text = torn.uncoloured(text)
        if wrapped := wrap.joined(text, self._widths):
            text = wrapped.again(self._made(pem.replace(wrapped.text, self._book)))
        text = torn.mended(text, lambda row: _names(row, ~0, Book()))
        return self._book.ends(self._made(pem.replace(text, self._book)))

    def _made(self, text: str) -> str:
        made = [
            _all(part, seen | stream.HOSTS | stream.ADDRESSES, self._book) for part, seen in stream.rows(text)
        ]
        return self._book.everywhere("".join(made))

    def report(self, report: Report) -> Report:
        """The report with every text in it redacted, with what was replaced so far in `redacted`."""
        self._learn_all(report)
        made = structs.redacted(report, self._book, self.text)
        made.redacted = self.counts()
        return made

    def struct(self, value: Any) -> Any:
        """Any struct, list or table of texts, redacted as a report is."""
        self._learn_all(value)
        return structs.walk(value, self._book, self.text)

    def _learn_all(self, value: Any) -> None:
        """Takes in what any text of a value tells, since a name may stand before the place that tells it."""
        structs.walk(value, self._book, self._heard)

    def _heard(self, text: str) -> str:
        self.learn(_LONE.sub("\ufffd", text))
        return text

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


def _names(text: str, seen: int, book: Book) -> str:
    """The detectors whose finds count in other rows as well."""
    if seen & stream.KEYS:
        text = keys.replace(text, book)
    if seen & stream.TOKENS:
        text = tokens.replace(text, book)
    if seen & stream.MACHINES:
        text = machines.replace(text, book)
    if seen & stream.USERS:
        text = names.users(text, book)
    text = names.hosts(text, book) if seen & stream.HOSTS else names.prefixes(text, book)
    return names.orgs(text, book) if seen & stream.ORGS else text


def _all(text: str, seen: int, book: Book) -> str:
    """The detectors that a text needs, those that take the most away first."""
    if seen & stream.PROMPTS:
        text = prompts.replace(text, book)
    if "q=" in text:
        text = structs.searched(text, lambda asked: book.unsought(_all(asked, ~0, book)))
    text = _names(text, seen, book)
    if seen & stream.ADDRESSES:
        text = machines.addresses(text, book)
    else:
        text = machines.ipv4(text, book)
    return book.everywhere(text)
