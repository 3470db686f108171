"""What can be said of an exception that no rule knows: its raising frame, a stable fingerprint, a search link."""

from __future__ import annotations

import re
from zlib import crc32  # hashlib would cost as much as a short log

from vdiag.assemble.shapes import frame_parts
from vdiag.model import Event

_VARIES = re.compile(
    r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,}){0,4}|(?:[A-Za-z]:)?[/\\][^\s'\",)]+|\d+(?:[.,:]\d+)*|'[^']*'|\"[^\"]*\""
)
_NOT_SOUGHT = re.compile(  # what no other report will share; names in quotes it may
    r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}(?:-[0-9a-fA-F]{4,}){0,4}|(?:[A-Za-z]:)?[/\\][^\s'\",)]+|\d+(?:[.,:]\d+)*|[\"']"
)
_WORD = re.compile(r"[^\W\d][\w.-]*\w")  # GitHub reads brackets, colons and leading dashes as its own
_OPERATORS = frozenset({"AND", "OR", "NOT"})
LONGEST_SEARCH = 120  # characters: each word more is one that another report must have
_LIBRARY = ("site-packages/", "dist-packages/")
VLLM = "vllm-project/vllm"
_HOMES = {  # packages that run inside of vLLM and have issues of their own
    "vllm": VLLM,
    "vllm_ascend": "vllm-project/vllm-ascend",
    "vllm_gaudi": "vllm-project/vllm-gaudi",
    "vllm_metal": "vllm-project/vllm-metal",
    "vllm_omni": "vllm-project/vllm-omni",
    "vllm_spyre": "vllm-project/vllm-spyre",
    "tpu_inference": "vllm-project/tpu-inference",
    "lmcache": "LMCache/LMCache",
}


def raising_frame(event: Event) -> str:
    """`file.py:line in function` of the innermost frame, its path cut to the package; empty without frames."""
    if not event.frames:
        return ""
    file, line, function = frame_parts(event.frames[-1])
    for mark in _LIBRARY:
        if mark in file:
            file = file.split(mark, 1)[1]
    return f"{file}:{line} in {function}" if function else f"{file}:{line}"


def fingerprint(event: Event) -> str:
    """Twelve hex digits that stay the same for the same failure whatever its numbers, paths, ids and line numbers."""
    shape = _VARIES.sub("#", event.rows[event.root_row])[:300]
    where = ""
    if event.frames:
        file, _, function = frame_parts(event.frames[-1])
        base = file.replace("\\", "/").rsplit("/", 1)[-1]
        where = f"{base}:{function}"
    told = f"{event.exception}|{shape}|{where}".encode("utf8", "replace")
    return f"{crc32(told):08x}{crc32(told[::-1]) & 0xFFFF:04x}"


def home_of(event: Event) -> str:
    """The repository (`owner/name`) of the innermost frame that is vLLM's or a plugin's; vLLM's without one."""
    for frame in reversed(event.frames):
        folders = frame_parts(frame)[0].replace("\\", "/").split("/")[:-1]
        for folder in reversed(folders):
            if folder in _HOMES:
                return _HOMES[folder]
    return VLLM


def search_link(event: Event) -> str:
    """A search of the issues where the exception belongs (home_of) for the message without what varies."""
    return search_for(event.rows[event.root_row], event.exception, home_of(event))


def search_for(message: str, exception: str = "", repository: str = VLLM) -> str:
    """The same for a message of which nothing else is known."""
    words = _WORD.findall(_NOT_SOUGHT.sub(" ", message))
    if exception and not message.lstrip().startswith(exception):
        words.insert(0, exception.split(".")[-1])
    told, room = list[str](), LONGEST_SEARCH
    for word in words:
        room -= len(word) + 1
        if room < 0 and told:
            break
        if word not in _OPERATORS:
            told.append(word)
    return search_words(" ".join(told), repository)


def search_words(words: str, repository: str = VLLM) -> str:
    """A search of a repository's issues, vLLM's if none is named, for some words."""
    from urllib.parse import quote_plus

    return f"https://github.com/{repository}/issues?q=" + quote_plus(f"is:issue {words}", errors="replace")
