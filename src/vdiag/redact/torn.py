"""What a terminal did to a log before it was pasted: colours around values, and values torn at its right edge.

Both keep a value from being told, so colours are taken out, and the rest of a torn value is moved up to where it
begins. Rows keep their number.
"""

from __future__ import annotations

import re
from collections.abc import Callable

WIDTH = 40  # characters of a row; a shorter one is not torn
_COLOUR = re.compile(r"(?:\x1b|\\x1[bB]|\\u001[bB]|\\033|#033|\^\[)\[[\d;]*[mK]")
_NEXT = re.compile(r"\n[ \t]{0,8}([A-Za-z0-9_+/=.-]+)(?=\\*[\"'`])")
_OPEN = re.compile(r"[\"'`]([A-Za-z0-9_+/=.-]+)$")


def uncoloured(text: str) -> str:
    """The text without colour codes, also where JSON, rsyslog or a pager spelled them out."""
    if "[" not in text or not (
        "\x1b" in text or "1b[" in text or "1B[" in text or "33[" in text or "^[[" in text
    ):
        return text
    return _COLOUR.sub("", text)


def mended(text: str, redact: Callable[[str], str]) -> str:
    """The text with torn secrets whole again. `redact` tells which they are: other torn values stay as they are."""
    out, done = [], 0
    for found in _NEXT.finditer(text):
        begin = text.rfind("\n", 0, found.start()) + 1
        row = text[begin : found.start()]
        opened = _OPEN.search(row) if len(row) >= WIDTH else None
        if opened is None or begin < done:
            continue
        whole = opened[1] + found[1]
        quote = text[found.end()]
        if whole in redact(row + found[1] + quote):
            continue
        out += [text[done : found.start()], found[1], quote, text[found.start() : found.start(1)]]
        done = found.end() + 1
    return "".join(out) + text[done:] if out else text
