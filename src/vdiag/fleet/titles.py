"""One title for many: what all have in common, with `…` where they differ, such as a pid in a rule's title."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w(?:[^\s()\[\]{}<>'\"`,;=]*\w)?|\W")
_MANY = re.compile(r"…(?:\W?…)+")


class Titles:
    """Titles of one cause, added in any order. Of each only what it shares with the others is held."""

    def __init__(self) -> None:
        self._last = ""
        self._count: int | None = None  # of words, while it is the same in all
        self._words: list[str] = []  # by place while the count is the same, `…` where they differ
        self._head: list[str] = []  # words that all begin with
        self._tail: list[str] = []  # words that all end with, the last first
        self._least = 0

    def add(self, title: str) -> None:
        """One more."""
        if not title or title == self._last:
            return
        words = _WORD.findall(title)
        if not self._last:
            self._count, self._words, self._least = len(words), words, len(words)
            self._head, self._tail = words, words[::-1]
        else:
            if self._count == len(words):
                self._words = [a if a == b else "…" for a, b in zip(self._words, words, strict=True)]
            else:
                self._count = None
            self._head = _shared(self._head, words)
            self._tail = _shared(self._tail, words[::-1])
            self._least = min(self._least, len(words))
        self._last = title

    def text(self) -> str:
        """What they have in common; empty if that is no word."""
        if self._count is not None:
            made = _MANY.sub("…", "".join(self._words))
        else:
            tail = self._tail[: max(self._least - len(self._head), 0)]
            made = f"{''.join(self._head).rstrip()} … {''.join(tail[::-1]).lstrip()}".strip()
        return made if re.search(r"\w\w", made) else ""


def _shared(known: list[str], words: list[str]) -> list[str]:
    """What both begin with."""
    same = 0
    for a, b in zip(known, words):  # noqa: B905  (the shorter one ends it)
        if a != b:
            break
        same += 1
    return known[:same]
