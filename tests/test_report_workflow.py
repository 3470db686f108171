"""`vdiag report --format github`: workflow commands as GitHub's runner reads them, and nothing else it would obey."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from logtext import FAILED, Sample, by_name
from test_cli_diagnose import World, report
from vdiag.model import Diagnosis, Evidence, Fix, Report, Severity, Verdict
from vdiag.render import workflow

COMMAND = re.compile(r"::(?P<name>[a-z]+)(?: (?P<properties>[^:]*))?::(?P<message>.*)")


class Command(NamedTuple):
    name: str
    properties: dict[str, str]
    message: str


def unescaped(text: str, *, value: bool = False) -> str:
    """As the runner does it: the percent sign last."""
    pairs = [("%3A", ":"), ("%2C", ",")] if value else []
    for coded, plain in [*pairs, ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")]:
        text = text.replace(coded, plain)
    return text


def commands(text: str) -> list[Command]:
    found = []
    for row in text.splitlines():
        told = COMMAND.fullmatch(row)
        if told is None:
            assert "::" not in row
            continue
        pairs = (pair.split("=", 1) for pair in (told["properties"] or "").split(","))
        properties = {name: unescaped(value, value=True) for name, value in pairs}
        found.append(Command(told["name"], properties, unescaped(told["message"])))
    return found


def diagnosed(*diagnoses: Diagnosis) -> Report:
    told = report()
    told.diagnoses = list(diagnoses)
    return told


def diagnosis(
    title: str = "It broke", severity: Severity = Severity.FATAL, said: str = "E: x", source: str = "x.log"
) -> Diagnosis:
    evidence = [Evidence(source, 7, "", said)]
    return Diagnosis(
        "kv", title, 0.95, severity, source, 7, "", evidence=evidence, fixes=[Fix("Mend it", ["mend -a"])]
    )


@pytest.mark.parametrize("log", FAILED, ids=by_name)
def test_a_sample_is_marked_at_its_line_with_its_first_fix(log: Sample) -> None:
    world = World()
    assert world.run("report", "--format", "github", f"samples/{log.name}.log") == 0
    first = commands(world.printed)[0]
    assert first.properties["file"] == f"samples/{log.name}.log"
    assert first.properties["line"] == str(log.line)
    assert first.properties["title"].startswith("Diagnosed")
    assert "\nFirst: " in first.message


@pytest.mark.parametrize(
    ("severity", "name"),
    [(Severity.FATAL, "error"), (Severity.DEGRADED, "warning"), (Severity.CLIENT, "notice")],
)
def test_severity_tells_the_kind(severity: Severity, name: str) -> None:
    assert [c.name for c in commands(workflow.render(diagnosed(diagnosis(severity=severity))))] == [name]


def test_a_failure_that_is_over_is_a_warning() -> None:
    past = diagnosis()
    past.recovered_at = 90
    assert [c.name for c in commands(workflow.render(diagnosed(past)))] == ["warning"]


@pytest.mark.parametrize(
    "evil", ["a\n::stop-commands::x", "50% of: a, b\r\nc", "::error::x", "%0A::warning::y", "\x1b[2J"]
)
def test_a_hostile_text_stays_in_its_place(evil: str) -> None:
    told = workflow.render(diagnosed(diagnosis(title=evil, said=evil, source=evil)))
    (only,) = commands(told)
    assert only.name == "error"
    if evil.isprintable():
        assert only.properties["title"] == f"Diagnosed: {evil}"
        assert only.properties["file"] == evil
        assert only.message.startswith(evil)
    assert set(only.properties) == {"title", "file", "line"}


def test_no_more_than_github_shows_and_the_rest_is_counted() -> None:
    told = workflow.render(diagnosed(*[diagnosis(f"number {i}") for i in range(14)]))
    assert len(commands(told)) == 10
    assert told.splitlines()[-1] == "vdiag: 4 more, which GitHub would not show"


@pytest.mark.parametrize(
    ("verdict", "name"),
    [(Verdict.HEALTHY, "notice"), (Verdict.STARTING, "warning"), (Verdict.EMPTY, "warning")],
)
def test_a_verdict_without_a_diagnosis_is_told(verdict: Verdict, name: str) -> None:
    (only,) = commands(workflow.render(report(verdict)))
    assert (only.name, only.message.split(":")[0].lower()) == (name, verdict.value)


def test_paths_are_told_from_the_workspace(tmp_path: Path) -> None:
    inside, outside = str(tmp_path / "repo" / "logs" / "a.log"), str(tmp_path / "repo-2" / "b.log")
    told = diagnosed(diagnosis(source=inside), diagnosis(source=outside), diagnosis(source="<stdin>"))
    rows = workflow.render(told, workflow.paths_in(told, str(tmp_path / "repo")))
    assert [c.properties.get("file") for c in commands(rows)] == ["logs/a.log", outside, None]
