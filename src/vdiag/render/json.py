"""The report as one JSON object, and the JSON Schema of it. `python -m vdiag.render.json` prints the schema."""

from __future__ import annotations

from typing import Any

import msgspec

from vdiag.model import Report
from vdiag.render.page import spelled


def render(report: Report) -> str:
    """One line of JSON with a newline at its end."""
    return encoded(report)


def encoded(value: msgspec.Struct) -> str:
    """The same of any struct. Text that is no valid Unicode is written with `\\ufffd`."""
    try:
        made = msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        made = msgspec.json.encode(_valid(msgspec.to_builtins(value, enc_hook=str)))
    return spelled(made.decode()) + "\n"


def schema() -> str:
    """The JSON Schema of a report, generated from the types in model.py, indented, with a newline at its end."""
    generated = msgspec.json.schema(Report)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "vdiag.report/1"}
    return msgspec.json.format(msgspec.json.encode({**head, **generated}), indent=2).decode() + "\n"


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, dict):
        return {_valid(key): _valid(item) for key, item in value.items()}
    return [_valid(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    print(schema(), end="")
