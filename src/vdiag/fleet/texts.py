"""Texts that any output can hold: names of files and lines of logs may have halves of characters, which none has."""

from __future__ import annotations

from typing import Any

import msgspec

from vdiag.fleet.task import Done


def valid(text: str) -> str:
    """The text with halves of characters, and bytes of a file's name that are no UTF-8, written out as `\\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def valid_texts(done: Done) -> Done:
    """The same of all that a row tells."""
    try:
        msgspec.msgpack.encode(done)
    except UnicodeEncodeError:
        return msgspec.convert(_valid(msgspec.to_builtins(done)), Done)
    return done


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return valid(value)
    if isinstance(value, dict):
        return {_valid(key): _valid(item) for key, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, list | tuple) else value
