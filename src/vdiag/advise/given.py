"""What a server was started with: its arguments and environment as a line of the log or a command tells them.

Values that are secrets are never compared in the open: they come out as `Hidden`, equal only to themselves.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from vdiag.advise import secrets
from vdiag.advise.argument_list import given
from vdiag.reason import printed

UNTOLD = "(not shown)"  # stands for a secret's value
MOST_TEXT = 20_000  # characters of one command or list of arguments that are read

_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SERVE = re.compile(
    r"(?:^|[\s/])vllm +serve\s+|-m +vllm\.entrypoints\.openai\.api_server\s+|vllm/vllm-openai\S*\s*"
)
_SHELL = ("|", "||", "&", "&&", ";", ">", ">>", "2>&1", "2>")


class Hidden(str):
    """A secret: shown as UNTOLD, compared by what it is."""

    __slots__ = ()

    def __str__(self) -> str:
        return UNTOLD

    __repr__ = __str__


def is_secret(name: str, value: Any = None) -> bool:
    """Whether a setting's value must not be shown, by its name or by what it looks like."""
    return secrets.of_name(name) or (isinstance(value, str) and secrets.without(value) != value)


def guarded(name: str, value: Any) -> Any:
    """The value, a secret as Hidden, a number as a number; of mappings and lists each part."""
    if isinstance(value, Mapping):
        return {key: guarded(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if secrets.of_name(name):
            return Hidden(value)
        return [guarded(name, item) for item in value]
    if value is not None and not isinstance(value, bool) and is_secret(name, value):
        return Hidden(value)
    return value


def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """(path, value) of an argument; of a mapping each of its keys: `compilation_config.cudagraph_mode`."""
    if isinstance(value, str) and value.startswith("{") and len(value) < MOST_TEXT:
        with suppress(ValueError):
            value = guarded(name, json.loads(value))
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from flat(f"{name}.{key}", item)
    else:
        yield name, value


def of_namespace(text: str) -> dict[str, Any]:
    """`Namespace(port=8000, model='…', …)` as Python prints it: all arguments, defaults among them.

    Empty where the text was cut.
    """
    _, begin, rest = text.partition("Namespace(")
    told = printed.read(begin + rest)
    return {} if told.cut else told.values


def of_command(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """(arguments by their Python name, environment) of a command that starts a server; both empty if it is none.

    Of several rows it is the one that names the server, with those that a `\\` joins to it.
    """
    found = _SERVE.search(text)
    if found is None or len(text) > MOST_TEXT:
        return {}, {}
    first = text.rfind("\n", 0, found.start()) + 1
    while text[:first].endswith("\\\n"):
        first = text.rfind("\n", 0, first - 1) + 1
    last = text.find("\n", found.end())
    while last >= 0 and text[:last].rstrip().endswith("\\"):
        last = text.find("\n", last + 1)
    last = last if last >= 0 else len(text)
    before, after = _words(text[first : found.start()]), _words(text[found.end() : last])
    env = {}
    for number, word in enumerate(before):
        if _ASSIGNED.match(word) and not (number and before[number - 1].startswith("--")):
            name, _, value = word.partition("=")
            if name.upper() == name:
                env[name] = value
    return given(_before_the_shell(after), None), env


def _words(text: str) -> list[str]:
    try:
        return shlex.split(re.sub(r"\\\s*(?:\n|$)", " ", text))
    except ValueError:
        return []


def _before_the_shell(words: list[str]) -> list[str]:
    """The words of the command itself, without what is behind a pipe or a redirection."""
    return words[: next((at for at, word in enumerate(words) if word in _SHELL), len(words))]
