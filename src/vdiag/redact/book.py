"""The book of pseudonyms: which value is called what, numbered by first appearance within its kind.

A pseudonym that is met again is left alone and its number is not given away, so redacting twice changes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import quote, quote_plus

NAMES = (
    "host",
    "domain",
    "user",
    "org",
    "bucket",
    "folder",
    "ip",
    "mac",
    "email",
    "serial",
    "gpu-uuid",
    "machine-id",
    "account",
)
SECRETS = (
    "hf-token", "openai-key", "anthropic-key", "aws-key", "github-token", "gitlab-token", "google-key", "azure-key",
    "slack-token", "npm-token", "pypi-token", "nvidia-key", "jwt", "private-key", "api-token", "secret",
)  # fmt: skip
TEXTS = ("prompt", "completion", "token-ids", "input")
KINDS = (*SECRETS, *NAMES, *TEXTS)

_NAME = "|".join(NAMES)
MADE = re.compile(
    rf"(?:{_NAME})-\d+(?:\.(?:{_NAME})-\d+)*|<(?:{'|'.join((*SECRETS, *TEXTS))})-\d+(?:, \d+ \w+)?>"
)
_NUMBERED = re.compile(rf"({'|'.join(KINDS)})-(\d+)")
_MAYBE_NUMBERED = re.compile(r"-(?=\d)(?<=[a-z]-)")  # begins with a literal, and so is quick on a long text
QUOTED = 4096  # characters of a value that are kept for its owner
_LONE = re.compile("[\ud800-\udfff]")
MOST_SPREAD = 4096  # values that are looked for in every text
TORN = (*SECRETS, "email", "gpu-uuid", "serial", "machine-id", "user", "account")  # told by a piece of them
MADE_UP = ("host", "user", "org", "bucket", "folder")  # names that others are made up with
PIECE = 6  # characters of such a piece
UNSPLIT = ("ip", "mac", "folder", *TEXTS)
_LETTERS = re.compile(r"[^\W\d_]+")
_AFTER = "\u2026.\"'`)] \t\r\n"  # what may stand behind a text that was cut short


def is_pseudonym(value: str) -> bool:
    """Whether a whole value is one that this module made."""
    return MADE.fullmatch(value) is not None


class Book:
    """Values and their pseudonyms. Kinds in `keep` stay as they are."""

    def __init__(self, keep: Collection[str] = ()) -> None:
        if unknown := set(keep) - set(KINDS):
            raise ValueError(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
        self.keep = frozenset(keep)
        self._made: dict[tuple[str, str], str] = {}
        self._last: Counter[str] = Counter()
        self._taken: set[tuple[str, int]] = set()
        self._used: dict[str, tuple[str, str]] = {}  # pseudonym: (kind, value)
        self._spread: dict[str, tuple[str, str]] = {}  # how it may be written: (kind, value)
        self._search: Any = None  # made anew when there are more
        self._written: list[str] = []
        self._listening = False
        self._heads: dict[str, list[tuple[str, str]]] = {}  # how values begin: (kind, value)
        self._tails: dict[str, list[tuple[str, str]]] = {}
        self._split: set[str] = set()  # what is left of values without their digits and signs
        self.decided: dict[str, str] = {}  # hosts in front of lines, so that each is thought about once

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Names that are given meanwhile do not count as put into a text."""
        self._listening = True
        try:
            yield
        finally:
            self._listening = False

    def name(self, kind: str, value: str, said: str = "") -> str:
        """The pseudonym of a value that is being replaced; `said` stands behind its number."""
        made = self._made.get((kind, value), "")
        if not made:
            if kind in self.keep or is_pseudonym(value):
                return value
            made = self._number(kind, value)
        if not self._listening:
            self._used.setdefault(made, (kind, value[:QUOTED]))
        if kind in NAMES:
            return made
        return f"<{made}{f', {said}' if said else ''}>"

    def kind_of(self, value: str) -> str:
        """The kind of a value that is replaced wherever it stands; empty if it is none."""
        return self._spread.get(value, ("", ""))[0]

    def unsought(self, words: str) -> str:
        """Words of a search without those that are left of a known value when its digits are gone."""
        if not self._split:
            return words
        return " ".join(
            word
            for word in words.split(" ")
            if not (pieces := _LETTERS.findall(word)) or not all(piece in self._split for piece in pieces)
        )

    def knows(self, kind: str, value: str) -> bool:
        """Whether the value has a pseudonym of this kind."""
        return (kind, value) in self._made

    def spread(self, kind: str, value: str) -> None:
        """From now on the value is replaced wherever it stands alone, also escaped as in addresses and JSON."""
        if (
            kind in self.keep
            or value in self._spread
            or is_pseudonym(value)
            or len(self._spread) >= MOST_SPREAD
        ):
            return
        self._number(kind, value)
        for written in {
            value,
            quote(value, safe=""),
            quote_plus(value, safe=""),
            value.replace("\\", "\\\\"),
        }:
            self._spread.setdefault(written, (kind, value))
        self._search = None

    def everywhere(self, text: str) -> str:
        """The text with every value that is known by now replaced, where it is no part of a longer word."""
        if not self._spread:
            return text
        if self._search is None:
            from ahocorasick_rs import AhoCorasick, MatchKind

            self._written = list(self._spread)
            self._search = AhoCorasick(self._written, matchkind=MatchKind.LeftmostLongest)
        out, done = [], 0
        for number, start, end in self._search.find_matches_as_indexes(valid(text)):
            kind, value = self._spread[self._written[number]]
            if not (kind in SECRETS and len(value) >= 12) and _inside(text, start, end, _joints(kind, value)):
                continue
            out += [text[done:start], self.name(kind, value)]
            done = end
        return "".join(out) + text[done:] if out else text

    def ends(self, text: str) -> str:
        """The text with the pieces of known values replaced that it begins or ends with, as a text cut short does."""
        if not self._heads:
            return text
        end = len(text.rstrip(_AFTER))
        for at in range(max(0, end - QUOTED // 8), end - PIECE + 1):
            for kind, value in self._heads.get(text[at : at + PIECE], ()):
                if value.startswith(text[at:end]) and not (at and _is_word(text[at - 1])):
                    return text[:at] + self.name(kind, value) + text[end:]
        for end in range(PIECE, min(len(text), QUOTED // 8) + 1):
            for kind, value in self._tails.get(text[end - PIECE : end], ()):
                if value.endswith(text[:end]) and not _is_word(text[end : end + 1]):
                    return self.name(kind, value) + text[end:]
        return text

    def reserve(self, text: str) -> None:
        """Numbers that stand in a text already are not given to other values."""
        if _MAYBE_NUMBERED.search(text):
            for kind, number in _NUMBERED.findall(text):
                self._taken.add((kind, int(number)))

    def known(self) -> list[tuple[str, str]]:
        """Kind and value of all that is replaced everywhere, in the order it came."""
        return list(dict.fromkeys(self._spread.values()))

    def counts(self) -> dict[str, int]:
        """How many different values of each kind were replaced."""
        found = Counter(kind for kind, _ in self._used.values())
        return {kind: found[kind] for kind in KINDS if found[kind]}

    def mapping(self) -> dict[str, str]:
        """What stands behind each pseudonym that was put into a text."""
        return {made: value for made, (_, value) in sorted(self._used.items(), key=_by_kind)}

    def _number(self, kind: str, value: str) -> str:
        if len(value) > QUOTED:
            value = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
        made = self._made.get((kind, value))
        if made is None:
            self._last[kind] += 1
            while (kind, self._last[kind]) in self._taken:
                self._last[kind] += 1
            made = self._made[kind, value] = f"{kind}-{self._last[kind]}"
            if kind not in UNSPLIT and (pieces := _LETTERS.findall(value)) != [value]:
                self._split.update(pieces)
            if kind in TORN and len(value) > PIECE:
                self._heads.setdefault(value[:PIECE], []).append((kind, value))
                self._tails.setdefault(value[-PIECE:], []).append((kind, value))
        return made


def _by_kind(item: tuple[str, tuple[str, str]]) -> tuple[int, int]:
    made, (kind, _) = item
    return KINDS.index(kind), int(made.rpartition("-")[2])


def valid(text: str) -> str:
    """The text, as long as it was, with `?` for what is no Unicode: a search takes nothing else."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE.sub("?", text)
    return text


def _inside(text: str, start: int, end: int, joints: str) -> bool:
    """Whether a stretch of a text is a part of a longer word; `joints` are characters that words are made up with."""
    before, after = text[start - 1 : start], text[end : end + 1]
    return (_is_word(before) and before not in joints and _is_word(text[start])) or (
        _is_word(after) and after not in joints and _is_word(text[end - 1])
    )


def _joints(kind: str, value: str) -> str:
    """What may join a name to other words: containers, units and pods are named `ORG-vllm-1`, `k8s_vllm_USER-0`."""
    return "-_" if kind in MADE_UP and len(value) >= 5 and not value.isdigit() else "\n"


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_" or char == "-"
