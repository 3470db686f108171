"""A message's shape filled with values such as a program may print there, so that wordings can be tried on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vdiag.rulebook.messages import HOLE, Message

#: What the source of a value holds → what it may print. The first that fits counts.
_KINDS = (
    (r"^repr\(", "'acme'"),
    (r"gib|memory|bytes|\bgb\b|_mb\b", "4.95"),
    (r":\.?\d*[fgeE]\b|util|ratio|fraction|frac\b|timeout|seconds|elapsed", "0.92"),
    (r"dtype", "torch.float16"),
    (r"supported|allowed|choices|valid_|\.keys\(\)|list\(|sorted\(|missing|names\b|\bset\(|backends", "['one', 'two']"),
    (r"\be\b|\berr|exc\b|exception|error|reason", "something else went wrong"),
    (r"path|file|\bdir|folder|url|address", "/srv/models/acme"),
    (r"version", "1.2.3"),
    (r":,?d\b|\blen\(|size|num_|count|max_|min_|_len\b|total|rank|port|blocks|tokens|layers|heads|world|\bn_|_id\b|\bpid\b|exitcode|major|minor", "8"),
    (r"name|model|arch|method|type|backend|mode|flag|platform", "acme"),
)  # fmt: skip
_TRIED = [(re.compile(pattern, re.IGNORECASE), value) for pattern, value in _KINDS]
#: For all holes alike, and a mixture, where the sources say nothing.
_OTHERS = (
    ("8",),
    ("acme/model-7b",),
    ("'acme'",),
    ("4.95",),
    ("8", "'acme'", "4096", "2", "float16", "layer.0", "16"),
)


def fillings(message: Message) -> Iterator[str]:
    """Texts the message may print, the likeliest first, without the exception's name; each once."""
    if HOLE not in message.shape:
        yield message.shape
        return
    likely = [_value(hint) for hint in message.hints] or ["8"]
    seen = set()
    for values in (likely, *_OTHERS):
        text = _filled(message.shape, list(values))
        if text not in seen:
            seen.add(text)
            yield text


def _value(hint: str) -> str:
    return next((value for pattern, value in _TRIED if pattern.search(hint)), "acme")


def _filled(shape: str, values: list[str]) -> str:
    """The shape with its holes filled in order; the last value serves all further ones."""
    pieces = shape.split(HOLE)
    text = pieces[0]
    for number, piece in enumerate(pieces[1:]):
        text += values[min(number, len(values) - 1)] + piece
    return text
