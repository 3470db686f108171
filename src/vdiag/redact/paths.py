"""Names of inputs: a folder in one, or a member's folder in an archive, is often a person, a machine or a client."""

from __future__ import annotations

import re

from vdiag.redact.book import Book, is_pseudonym
from vdiag.redact.names import user_name
from vdiag.redact.public import HOSTS, ORGS, PLACES, SAID, SERVICES, USERS, WORDS, words

_PLAIN = words(
    """
    after archive archives attempt before boot bundle bundles case cases commands crash crashes current day folder folders job
    journal last lib linux logdir logs messages namespaces new node nodes old pod pods previous sample samples slice sos system
    systemd worker workers
    """
)
_SAYING = PLACES | WORDS | HOSTS | USERS | ORGS | SAID | SERVICES | _PLAIN
_WORD = re.compile(r"[^\W\d_]{3,}")
_SOS = re.compile(r"(?<=sosreport-)[A-Za-z][A-Za-z0-9]*(?=-)")
_BREAKS = re.compile(r"([:/\\])")
_HOMES = ("home", "homes", "users", "scratch", "media")


def named(name: str, book: Book) -> str:
    """The name of an input with the folders replaced that say more than what kind of folder they are."""
    parts = _BREAKS.split(name)
    for at, part in enumerate(parts[:-1]):
        if at % 2 or parts[at + 1] == ":":
            continue  # a break, or a file: an archive, or a drive
        if at >= 2 and parts[at - 2].lower() in _HOMES:
            parts[at] = user_name(part, book)
        else:
            parts[at] = _folder(part, book)
    return _SOS.sub(lambda found: book.name(book.kind_of(found[0]) or "host", found[0]), "".join(parts))


def telling(name: str) -> bool:
    """Whether the name of an input has a folder or a machine in it at all."""
    return "/" in name or "\\" in name or "sosreport-" in name


def _folder(part: str, book: Book) -> str:
    low = part.lower()
    if not part or is_pseudonym(part):
        return part
    if kind := book.kind_of(part):
        return book.name(kind, part)
    if low in _SAYING or all(word in _SAYING for word in _WORD.findall(low)) or _SOS.search(part):
        return part
    return book.name("folder", part)
