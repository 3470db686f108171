"""Texts that tests are made of: the samples with their answers, tracebacks in a few words, a small rulebook."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import yaml

from vdiag.assemble.assembler import Assembler
from vdiag.model import Event, Record, Report, Role, Severity
from vdiag.pipeline import diagnose, diagnose_text
from vdiag.rulebook.compile import Rulebook, compile_rules
from vdiag.rulebook.schema import Rule
from vdiag.rulebook.shipped import shipped
from vdiag.scan.records import Scanner

SAMPLES = Path(__file__).parent.parent / "samples"
HEAD = "Traceback (most recent call last):"
CAUSE = "The above exception was the direct cause of the following exception:"
CONTEXT = "During handling of the above exception, another exception occurred:"


class Sample(NamedTuple):
    """A sample log and the answer it must get."""

    name: str
    text: str
    verdict: str
    rule: str | None
    line: int | None

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")[:-1] if self.text.endswith("\n") else self.text.split("\n")


def sample(name: str) -> Sample:
    log = SAMPLES / f"{name}.log"
    expected = yaml.safe_load(log.with_suffix(".expected.yaml").read_text(encoding="utf8"))
    text = log.read_bytes().decode("utf8")
    return Sample(name, text, expected["verdict"], expected.get("rule"), expected.get("line"))


ALL = [sample(path.stem) for path in sorted(SAMPLES.glob("*.log"))]
FAILED = [s for s in ALL if s.verdict == "diagnosed"]
FATAL = [s for s in FAILED if s.rule != "model-name-not-served"]
LIVING = [s for s in ALL if s.verdict in ("healthy", "starting")]


def by_name(s: Sample) -> str:
    return s.name


# A part of a log may not show what tells a rule from a less specific one that is right too.
LESS_SPECIFIC = {
    "free-memory-held-by-engine": {"free-memory-below-utilization"},
    "gated-repo": {"hub-http-401"},
    "cgroup-oom-kill": {"oom-killer-invoked"},
    "host-oom-kill": {"oom-killer-invoked"},
    "cuda-oom-loading-weights": {"cuda-oom"},
    "cuda-oom-serving": {"cuda-oom"},
    "hub-unreachable": {"hub-connect-failed"},
}


def fits(rule: str | None, s: Sample) -> bool:
    """Whether a rule is a right answer to a part of a sample."""
    return rule == s.rule or rule in LESS_SPECIFIC.get(s.rule or "", ())


# ---- asking ---------------------------------------------------------------------------------------------


def ask(text: str | bytes, rulebook: Rulebook | None = None) -> Report:
    """The report on a text, by the shipped rulebook unless another is given."""
    return diagnose_text(text, rulebook if rulebook is not None else shipped())


def ask_files(*texts: str, rulebook: Rulebook | None = None) -> Report:
    """The report on several inputs, named a.log, b.log …"""
    from vdiag.intake.sources import of_bytes

    inputs = [of_bytes(text.encode(), f"{'abcdefgh'[i]}.log") for i, text in enumerate(texts)]
    return diagnose(inputs, rulebook=rulebook if rulebook is not None else shipped())


def first(report: Report) -> tuple[str, str | None, int | None]:
    """(verdict, rule, line) of the answer."""
    if not report.diagnoses:
        return report.verdict.value, None, None
    top = report.diagnoses[0]
    return report.verdict.value, top.rule, top.line


def records_of(text: str) -> list[Record]:
    return list(Scanner(0).text(text))


def events_of(text: str) -> list[Event]:
    assembler = Assembler()
    return [*assembler.feed(Scanner(0).text(text)), *assembler.flush()]


def exceptions_of(text: str) -> list[Event]:
    return [event for event in events_of(text) if event.exception]


# ---- writing --------------------------------------------------------------------------------------------


def lines(*rows: str) -> str:
    """Rows as a text that ends with a line end."""
    return "".join(f"{row}\n" for row in rows)


def behind(prefix: str, rows: Iterable[str]) -> list[str]:
    return [f"{prefix}{row}" for row in rows]


def traceback(error: str, *functions: str, head: bool = True, file: str = "engine.py") -> list[str]:
    """The rows of a traceback through `functions` that ends in `error`, two rows a frame."""
    rows = [HEAD] if head else []
    for number, function in enumerate(functions or ("run",), 1):
        rows += [
            f'  File "/opt/app/{file}", line {number * 10}, in {function}',
            f"    self.{function}_next()",
        ]
    return rows + error.split("\n")


# ---- a small rulebook about a steam engine ---------------------------------------------------------------


def rule(name: str, phrase: str, **fields: object) -> Rule:
    return Rule(id=name, title=f"Title of {name}", why="Because.", phrases=[phrase], **fields)  # type: ignore[arg-type]


STEAM = [
    rule("start", "Steam server version {version:name}", role=Role.CONTEXT, marks="start"),
    rule("loading", "Loading the coal now", role=Role.CONTEXT, marks="load"),
    rule("ready", "Steam server is ready", role=Role.CONTEXT, marks="ready"),
    rule("dry", "The boiler has no water in it"),
    rule("cracked", "A crack runs through the boiler {name:name}"),
    rule("stopped", "The engine has stopped. See above", role=Role.TRAILER),
    rule("died", "Stoker process {name:name} died without a word", role=Role.TRAILER, marks="death"),
    rule("slow", "The wheels turn slowly today", role=Role.SYMPTOM),
    rule("quoted", "Stoker failed with error '{quote}'", role=Role.SYMPTOM),
    rule("late", "The train is always late now", severity=Severity.DEGRADED, level="warning"),
    rule("ticket", "A passenger has no valid ticket", severity=Severity.CLIENT),
    rule("draught", "A draught comes through the door", level="warning", alone=False),
    rule("whistle", "ERROR: the whistle is only being tested", role=Role.BENIGN),
    rule("killed", "Out of memory: Killed process {pid:int} ({comm})", where="kernel"),
    rule("unit-died", "{unit:name}.service: Main process was shot", where="unit"),
]


def steam(*more: Rule, without: tuple[str, ...] = ()) -> Rulebook:
    """The steam rulebook, with further rules in the place of those of the same id."""
    names = {r.id for r in more} | set(without)
    return compile_rules([r for r in STEAM if r.id not in names] + list(more))


START = "(Boiler pid=7) INFO 03-01 10:00:00 [main.py:1] Steam server version 1.0"
LOADING = "(Boiler pid=7) INFO 03-01 10:00:01 [load.py:2] Loading the coal now"
READY = "(Boiler pid=7) INFO 03-01 10:00:09 [main.py:9] Steam server is ready"
STOPPED = "(Boiler pid=7) ERROR 03-01 10:01:00 [main.py:8] The engine has stopped. See above"
SERVED = 'INFO:     127.0.0.1:5000 - "POST /v1/completions HTTP/1.1" 200 OK'


def said(text: str, level: str = "ERROR", who: str = "Boiler pid=7") -> str:
    return f"({who}) {level} 03-01 10:00:30 [work.py:5] {text}"
