"""The book of pseudonyms: which value is called what, numbered by first appearance within its kind.

A pseudonym that is met again is left alone and its number is not given away, so redacting twice changes nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from hashlib import sha256
from urllib.parse import quote, quote_plus

NAMES = (
    "host",
    "domain",
    "user",
    "org",
    "bucket",
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
_MADE = re.compile(
    rf"(?:{_NAME})-\d+(?:\.(?:{_NAME})-\d+)*|<(?:{'|'.join((*SECRETS, *TEXTS))})-\d+(?:, \d+ \w+)?>"
)
_NUMBERED = re.compile(rf"({'|'.join(KINDS)})-(\d+)")
QUOTED = 4096  # characters of a value that are kept for its owner
MOST_SPREAD = 4096  # values that are looked for in every text


def is_pseudonym(value: str) -> bool:
    """Whether a whole value is one that this module made."""
    return _MADE.fullmatch(value) is not None


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
        self._pattern: re.Pattern[str] | None = None
        self._listening = False

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
        if kind in self.keep or is_pseudonym(value):
            return value
        made = self._number(kind, value)
        if not self._listening:
            self._used.setdefault(made, (kind, value[:QUOTED]))
        if kind in NAMES:
            return made
        return f"<{made}{f', {said}' if said else ''}>"

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
        self._pattern = None

    def everywhere(self, text: str) -> str:
        """The text with every value that is known by now replaced."""
        if not self._spread:
            return text
        if self._pattern is None:
            longest_first = sorted(self._spread, key=lambda v: (-len(v), v))
            self._pattern = re.compile("|".join(_bounded(v, self._spread[v][0]) for v in longest_first))
        return self._pattern.sub(lambda m: self.name(*self._spread[m[0]]), text)

    def reserve(self, text: str) -> None:
        """Numbers that stand in a text already are not given to other values."""
        for kind, number in _NUMBERED.findall(text):
            self._taken.add((kind, int(number)))

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
        return made


def _by_kind(item: tuple[str, tuple[str, str]]) -> tuple[int, int]:
    made, (kind, _) = item
    return KINDS.index(kind), int(made.rpartition("-")[2])


def _bounded(value: str, kind: str) -> str:
    """The value as a pattern that does not match inside a longer word."""
    inside = kind in SECRETS and len(value) >= 12
    before = r"(?<![\w-])" if value[0].isalnum() and not inside else ""
    after = r"(?![\w-])" if value[-1].isalnum() and not inside else ""
    return f"{before}{re.escape(value)}{after}"
