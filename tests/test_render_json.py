"""The JSON report: its contract and the schema that is shipped."""

import json
from pathlib import Path

import msgspec

from vdiag.model import Diagnosis, Environment, Fix, Input, Report, Severity, Verdict
from vdiag.render import json as render_json

ROOT = Path(__file__).parent.parent


def report(text: str = "x") -> Report:
    return Report(
        schema="vdiag.report/1",
        vdiag="0.1.0",
        verdict=Verdict.DIAGNOSED,
        inputs=[Input("vllm.log", 3, 30)],
        environment=Environment(vllm="0.11.0"),
        diagnoses=[
            Diagnosis(
                "r", text, 0.9, Severity.FATAL, "vllm.log", 2, "", facts={"a": 1.5}, fixes=[Fix(do="do it")]
            )
        ],
    )


def test_it_is_one_object_with_a_newline_at_its_end() -> None:
    text = render_json.render(report("two\nlines"))
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    assert msgspec.json.decode(text, type=Report) == report("two\nlines")


def test_it_keeps_the_contract() -> None:
    decoded = json.loads(render_json.render(report()))
    assert list(decoded) == [
        "schema", "vdiag", "verdict", "inputs", "environment", "diagnoses", "episodes", "memory", "also_seen", "notes",
        "harmless",
        "load",
        "changes",
        "redacted",
    ]  # fmt: skip
    assert decoded["verdict"] == "diagnosed"
    assert decoded["diagnoses"][0]["severity"] == "fatal"
    assert decoded["diagnoses"][0]["fixes"] == [
        {
            "do": "do it",
            "run": [],
            "safety": "safe",
            "note": "",
            "change": [],
            "set": {},
            "gives": "",
            "enough": None,
        }
    ]


def test_text_that_is_no_unicode_does_not_break_it() -> None:
    assert json.loads(render_json.render(report("a\udc80b")))["diagnoses"][0]["title"] == "a\ufffdb"


def test_the_shipped_schemas_are_those_of_the_types() -> None:
    """After a change of model.py: `python -m vdiag.render.json`, into both files."""
    for path in ("docs/report.schema.json", "src/vdiag/render/report.schema.json"):
        assert (ROOT / path).read_text(encoding="utf-8") == render_json.schema(), path
