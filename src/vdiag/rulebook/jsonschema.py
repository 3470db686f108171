"""The JSON Schema of a rule file, generated from the types; editors check YAML against it.

`python -m vdiag.rulebook.jsonschema` writes it to docs/ and into the package of a checkout.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from vdiag.rulebook.load import LEVELS, MARKS, WHERE
from vdiag.rulebook.schema import Rule

NAME = "rule.schema.json"


def rule_schema() -> dict[str, Any]:
    """A rule file: a list of rules, with the values of the fields that the types leave open."""
    (rule,), components = msgspec.json.schema_components((Rule,), ref_template="#/$defs/{name}")
    fields = components["Rule"]["properties"]
    for field, values in (("where", WHERE), ("level", LEVELS), ("marks", MARKS)):
        fields[field]["enum"] = list(values)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A vdiag rule file",
        "type": "array",
        "items": rule,
        "$defs": components,
    }


def rule_schema_text() -> str:
    """The schema as the files hold it."""
    return json.dumps(rule_schema(), indent=2, ensure_ascii=False) + "\n"


def places() -> list[Path]:
    """Where a checkout keeps it."""
    package = Path(__file__).parent
    return [package / NAME, package.parents[2] / "docs" / NAME]


if __name__ == "__main__":
    for place in places():
        place.write_text(rule_schema_text(), encoding="utf-8")
