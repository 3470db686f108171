"""Every sample, the real logs among them, in every envelope: the same answer, on the same row, as surely."""

from __future__ import annotations

import textwrap
from functools import cache
from typing import Any

import pytest

from dresses import ENVELOPES, PREFIXES, broken
from logtext import ALL, FAILED, Sample, ask, by_name, fits, lines
from vdiag.model import Report

Figures = dict[str, Any]
SAMPLES = [s for s in ALL if s.name != "wrapped-message"]  # six lines, damaged already


@cache
def plain(s: Sample) -> tuple[str, str | None, int | None, float, Figures]:
    report = ask(s.text)
    top = report.diagnoses[0] if report.diagnoses else None
    confidence = top.confidence if top else 0.0
    return report.verdict.value, top and top.rule, top and top.line, confidence, figures(report)


def figures(report: Report) -> Figures:
    """What a report says in numbers: the memory with what would change it, the load and what changed; without places."""
    told: Figures = {}
    if (memory := report.memory) is not None:
        told |= {name: getattr(memory, name) for name in memory.__struct_fields__ if name not in PLACES}
        told["shares"] = [(share.what, share.gib, share.estimated, share.beside) for share in memory.shares]
    if (load := report.load) is not None:
        told["load"] = load.pattern, load.said, load.engines, load.seen, load.preempted
        told["points"] = [(p.running, p.waiting, p.kv_usage, p.preemptions) for p in load.points]
    if report.changes is not None:
        told["changes"] = [(i.what, i.name, i.before, i.after, i.explains) for i in report.changes.items]
    return told


def within(told: int, line: int, begins: list[int]) -> bool:
    """Whether a line is one of those that a row of the sample stands on."""
    begin = begins[line - 1]
    later = [n for n in begins if n > begin]
    return begin <= told < (min(later) if later else begin + 1)


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("s", SAMPLES, ids=by_name)
def test_a_sample_gets_the_same_answer_in_every_envelope(s: Sample, envelope: str) -> None:
    text, begins = ENVELOPES[envelope](s.lines)
    verdict, rule, line, confidence, expected = plain(s)
    report = ask(text)
    assert report.verdict.value == verdict
    if not (envelope in ONE_LINE and "changes" in expected):
        told = figures(report)
        unread = UNREAD if envelope in QUOTES and not report.diagnoses else set()
        assert {k: v for k, v in told.items() if k not in unread} == {
            k: v for k, v in expected.items() if k not in unread
        }
    if line is None:
        assert not report.diagnoses
        return
    top = report.diagnoses[0]
    assert top.rule == rule
    assert within(top.line, line, begins)
    assert top.confidence >= confidence - (0.1 if envelope in UNSURE else 0.001)


PLACES = {"source", "line", "lane", "shares"}
ONE_LINE = {"one line", "one line, from Windows", "one JSON string"}  # starts on one line are not told apart
QUOTES = {"HTML, preformatted", "HTML, broken lines", "HTML, spans", "typographic quotes"}
UNREAD = {
    "utilization"
}  # arguments are not read in quotes that are none, where nothing else asks for a second reading
UNSURE = {"newest first, RunPod"}  # read the other way round, and its line ends in words


BREAKING = {
    "journald": PREFIXES["journald short"],
    "compose": PREFIXES["compose v2"],
    "docker logs -t": PREFIXES["docker logs -t"],
}


@pytest.mark.parametrize("width", [100, 120, 160])
@pytest.mark.parametrize("collector", BREAKING)
@pytest.mark.parametrize("s", [s for s in FAILED if s in SAMPLES], ids=by_name)
def test_messages_that_a_collector_broke_are_put_together(s: Sample, collector: str, width: int) -> None:
    text, begins = broken(s.lines, width, BREAKING[collector])
    top = ask(text).diagnoses[0]
    assert fits(top.rule, s)
    assert s.line is not None
    assert top.line >= begins[s.line - 1]  # where the log says it twice, the whole one may be shown


@pytest.mark.parametrize("width", [120, 176])
@pytest.mark.parametrize("s", [s for s in FAILED if s in SAMPLES], ids=by_name)
def test_messages_broken_in_a_box(s: Sample, width: int) -> None:
    assert fits(ask(broken(s.lines, width, PREFIXES["compose v2"], box=True).text).diagnoses[0].rule, s)


@pytest.mark.parametrize("width", [60, 66, 72, 80])
@pytest.mark.parametrize("s", FAILED, ids=by_name)
def test_wrapped_at_words_no_other_cause_is_sure(s: Sample, width: int) -> None:
    """Frames are torn then, so a less special rule may win: never with 0.9."""
    rows = [part for row in s.lines for part in textwrap.wrap(row, width, break_on_hyphens=False) or [row]]
    report = ask(lines(*rows))
    assert all(d.confidence < 0.9 or fits(d.rule, s) for d in report.diagnoses[:1])
