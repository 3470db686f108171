"""Reports as pages for a browser: made from texts, and read back as a tree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree.ElementTree import Element

import html5lib

from logtext import lines
from vdiag import excerpts
from vdiag.intake.sources import of_bytes
from vdiag.model import (
    AlsoSeen,
    Change,
    Changes,
    Diagnosis,
    Environment,
    Evidence,
    Fix,
    Gap,
    Harmless,
    Input,
    Lever,
    Line,
    Load,
    LoadPoint,
    Memory,
    Report,
    Safety,
    Severity,
    Share,
    Verdict,
)
from vdiag.pipeline import diagnose
from vdiag.render import html
from vdiag.rulebook.shipped import shipped


def page_of(*texts: str | bytes) -> str:
    """The page on inputs named a.log, b.log …"""
    data = [text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text for text in texts]
    inputs = [of_bytes(one, f"{'abcdefgh'[i]}.log") for i, one in enumerate(data)]
    report = diagnose(inputs, rulebook=shipped())
    return html.render(report, excerpts.read(inputs, html.wanted(report)))


def long_log(rows: int) -> str:
    """A server that serves for many lines, and nothing is wrong."""
    start = "INFO 08-28 10:12:01 [api_server.py:1839] vLLM API server version 0.11.0"
    row = "(APIServer pid=41) INFO 08-28 10:{:02}:{:02} [loggers.py:127] Engine 000: Avg prompt throughput: 15.0 tokens/s, "
    row += "Avg generation throughput: 31.4 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.9%, "
    row += "Prefix cache hit rate: 0.0%"
    return lines(start, *(row.format(i // 60 % 60, i % 60) for i in range(rows - 1)))


def everything(text: str = "said", name: str = "a.log") -> tuple[Report, dict[str, list[Line]]]:
    """A report in which every part is filled with a text, and the lines of its input."""
    safe = Fix(text, [f"run {text}"], Safety.SAFE, text)
    found = Diagnosis(
        rule="kv-cache-too-small", title=text, confidence=0.95, severity=Severity.FATAL, source=name, line=3,
        why=text, times=3, first_time=text, last_time=text, last_line=9, facts={text: text}, frame=text,
        evidence=[Evidence(name, 3, text, text), Evidence(name, 5, text, text)], fixes=[safe, safe, safe, safe, safe],
        avoid=[text], refs=["https://example.org/a?b=1&c=2", f"javascript:{text}"], fingerprint=text, search=text,
    )  # fmt: skip
    report = Report(
        schema="vdiag.report/1",
        vdiag="0",
        verdict=Verdict.DIAGNOSED,
        inputs=[Input(name, 40, 4000, gaps=[Gap(text, 4, f"get {text}")])],
        environment=Environment(vllm=text, model=text, args={text: [text], "flag": True}, deploy="systemd"),
        diagnoses=[found, found],
        memory=Memory(
            name, 6, text, 2, 24.0, 23.5, 0.9, 21.6,
            [Share(text, 15.0, 6), Share("KV cache", 4.7, 7), Share(text, 1.9, estimated=True)],
            4.7, 16.0, 131072, 38576, 131072.0, 0.3, 38576, 1.2,
            [Lever(text, {text: 1}, gives=text, price=text, enough=True), Lever(text, enough=False)], [text],
        ),
        also_seen=[AlsoSeen(None, 8, name, text, text)],
        notes=[text],
        harmless=[Harmless("r", text, text, 10, name, text, 3, [10, 11, 12])],
        load=Load(
            name, [LoadPoint(n, text, n, n * 2, n * 10.0, None, 31.4, 0) for n in range(1, 9)],
            preempted=2, said=text, remedy=text,
        ),
        changes=Changes(name, 1, name, 2, [Change("argument", text, text, None, True)], text),
    )  # fmt: skip
    shown = [Line(n, f"{n} {text}", text if n % 2 else "", "ERROR" if n % 3 else "") for n in range(1, 41)]
    return report, {name: shown}


# ---- reading it back ----------------------------------------------------------------------------------------


def tree(page: str) -> Element:
    """The tree of a page; any error that the HTML standard names is raised."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Any = parser.parse(page)
    return root  # type: ignore[no-any-return]


def words(element: Element) -> str:
    """All text of an element."""
    return "".join(element.itertext())


def classes(element: Element) -> list[str]:
    return element.get("class", "").split()


def rows(root: Element) -> Iterator[Element]:
    """The lines of the log on a page."""
    for element in root.iter("div"):
        if element.get("id") == "lines":
            yield from element.iter("li")


def numbered(root: Element, name: str) -> Element:
    """The element with an id."""
    return next(element for element in root.iter() if element.get("id") == name)
