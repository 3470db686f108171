"""A report without secrets: every text in it, keys of its tables included, and the links that quote a message."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any
from urllib.parse import quote_plus, unquote_plus

import msgspec

from vdiag.model import Change, Report
from vdiag.redact import keys, names
from vdiag.redact.book import Book

OURS = ("schema", "vdiag", "rule", "refs", "fingerprint", "format")  # fields that hold nothing of a log
_QUERY = re.compile(r"(?<=[?&]q=)[^\s&#\"'<>]+")
_PORT = re.compile(r":\d+$")
_MODELS = ("model", "repo", "model_id", "tokenizer", "served_model_name")
_TOLD: dict[str, Callable[[str, Book], str]] = {  # facts whose name tells what they hold
    **dict.fromkeys(("host", "hostname", "node", "remote", "peer", "address", "server", "client", "registry", "endpoint"), names.host_name),
    **dict.fromkeys(("user", "owner", "username"), names.user_name),
}  # fmt: skip


def redacted(report: Report, book: Book, text: Callable[[str], str]) -> Report:
    """The report with `text` applied to all that comes from a log. What its facts name is learned first."""
    for diagnosis in report.diagnoses:
        _learn(diagnosis.facts, book)
    _learn({"model": report.environment.model, **report.environment.args}, book)
    return walk(report, book, text)  # type: ignore[no-any-return]


def searched(text: str, redact: Callable[[str], str]) -> str:
    """The text with what a search link asks for redacted, and written as a link again."""

    def told(found: re.Match[str]) -> str:
        asked = unquote_plus(found[0])
        made = redact(asked)
        return found[0] if made == asked else quote_plus(made)

    return _QUERY.sub(told, text) if "?q=" in text or "&q=" in text else text


def _learn(facts: dict[str, Any], book: Book) -> None:
    with book.quiet():
        for name, value in facts.items():
            if not isinstance(value, str) or not value or " " in value:
                continue
            if told := _TOLD.get(name):
                told(_PORT.sub("", value), book)
            elif name in _MODELS and value.count("/") == 1:
                names.orgs(f"model={value}", book)


def walk(value: Any, book: Book, text: Callable[[str], str]) -> Any:
    """A value with `text` applied to every text in it."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return text(value)
    if isinstance(value, Change) and keys.is_secret(value.name):
        return msgspec.structs.replace(
            value, before=_whole(value.before, book), after=_whole(value.after, book)
        )
    if isinstance(value, msgspec.Struct):
        changed = {
            name: walk(getattr(value, name), book, text)
            for name in value.__struct_fields__
            if name not in OURS
        }
        return msgspec.structs.replace(value, **changed)
    if isinstance(value, dict):
        return {
            text(key) if isinstance(key, str) else key: (
                _whole(item, book) if isinstance(key, str) and keys.is_secret(key) else walk(item, book, text)
            )
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [walk(item, book, text) for item in value]
    return value


def _whole(value: Any, book: Book) -> Any:
    """What stands under a secret name, whatever it is; placeholders, truth values and None stay."""
    if isinstance(value, str):
        return keys.secret_value(value, book)
    if isinstance(value, dict):
        return {key: _whole(item, book) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item, book) for item in value]
    return value if value is None or isinstance(value, bool) else keys.secret_value(str(value), book)
