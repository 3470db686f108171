"""Every sample gets the answer that stands beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import vdiag

SAMPLES = Path(__file__).parent.parent / "samples"
LOGS = sorted(SAMPLES.glob("*.log"))


@pytest.mark.parametrize("log", LOGS, ids=lambda p: p.stem)
def test_sample(log: Path) -> None:
    expected = yaml.safe_load(log.with_suffix("").with_suffix(".expected.yaml").read_text(encoding="utf8"))
    report = vdiag.diagnose(log)
    assert report.verdict.value == expected["verdict"]
    if expected["verdict"] in ("healthy", "starting", "empty"):
        assert report.diagnoses == []
        return
    first = report.diagnoses[0]
    assert (first.rule, first.line) == (expected["rule"], expected["line"])
    if expected.get("fix"):
        fix = first.fixes[0]
        said = " ".join([fix.do, *fix.run, *fix.change, fix.note])
        assert expected["fix"] in said
    if expected.get("load"):
        assert report.load is not None
        assert report.load.pattern == expected["load"]


def test_there_are_samples_of_each_verdict() -> None:
    verdicts = {
        yaml.safe_load(p.read_text(encoding="utf8"))["verdict"] for p in SAMPLES.glob("*.expected.yaml")
    }
    assert verdicts >= {"diagnosed", "incomplete", "healthy", "starting"}
