"""A fleet for programs: JSON, one row a line, CSV. `python -m vdiag.render.fleet_data` prints the JSON Schema."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

import msgspec

from vdiag.fleet_model import SCHEMA, Fleet, Row
from vdiag.render.json import encoded
from vdiag.render.page import harmless

COLUMNS = (
    "input", "node", "replica", "verdict", "failed", "rule", "title", "severity", "confidence", "fingerprint", "times",
    "source", "line", "text", "first_time", "last_time", "first_at", "last_at", "recovered", "marks", "others", "vllm",
    "model", "bytes", "lines", "error", "server", "fix",
)  # fmt: skip


def json(fleet: Fleet) -> str:
    """The answer as one JSON object on a line."""
    return encoded(fleet)


def jsonl(rows: Iterable[Row]) -> Iterator[str]:
    """A JSON object for each row, on a line of its own."""
    return map(encoded, rows)


def table(rows: Iterable[Row]) -> Iterator[str]:
    """CSV by RFC 4180 with a head. What a spreadsheet would run as a formula is marked as text by an apostrophe."""
    yield _line(COLUMNS)
    for row in rows:
        told = msgspec.structs.asdict(row)
        told["marks"] = "; ".join(f"{name} ×{times}" for name, times in row.marks.items())
        told["others"] = "; ".join(other.rule or other.fingerprint for other in row.others)
        yield _line([_cell(told[name]) for name in COLUMNS])


def schema() -> str:
    """The JSON Schema of a fleet, indented, with a newline at its end."""
    generated = msgspec.json.schema(Fleet)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA}
    return msgspec.json.format(msgspec.json.encode({**head, **generated}), indent=2).decode() + "\n"


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    text = harmless(value).replace("\n", " ")
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


def _line(cells: Iterable[object]) -> str:
    made = io.StringIO()
    csv.writer(made).writerow(cells)
    return made.getvalue()


if __name__ == "__main__":
    print(schema(), end="")
