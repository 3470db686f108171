"""The counts of a fleet in Prometheus' text format, for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from vdiag.fleet_model import UNREAD, Fleet, Total
from vdiag.model import Verdict

HEAD = "# HELP vdiag_"  # by which a file is known to be ours


def render(fleet: Fleet, totals: Sequence[Total], now: float) -> str:
    """The whole file. `totals` are all failures so far; `now` is in seconds since 1970."""
    last = [(t, at) for t in totals if (at := _seconds(t.last_at)) is not None]
    verdicts = [*(verdict.value for verdict in Verdict), UNREAD]
    families: tuple[tuple[str, str, str, list[tuple[dict[str, str], int]]], ...] = (
        ("vdiag_failures_total", "counter", "How often a cause was found in the logs.",
         [(_of(t), t.times) for t in totals]),
        ("vdiag_last_failure_timestamp_seconds", "gauge",
         "When a cause was found last, where the logs print date and zone.", [(_of(t), at) for t, at in last]),
        ("vdiag_replicas", "gauge", "Replicas by verdict.",
         [({"verdict": name}, fleet.verdicts.get(name, 0)) for name in verdicts]),
        ("vdiag_replicas_failed", "gauge", "Replicas that failed.", [({}, fleet.failed)]),
        ("vdiag_replicas_recovered", "gauge", "Failed replicas that a later start brought to serve again.",
         [({}, fleet.recovered)]),
        ("vdiag_last_run_timestamp_seconds", "gauge", "When vdiag fleet ended last.", [({}, int(now))]),
    )  # fmt: skip
    return "".join(line for family in families for line in _family(*family))


def _of(total: Total) -> dict[str, str]:
    return {"rule": total.rule or "unrecognised", "severity": total.severity}


def _family(name: str, kind: str, help_: str, samples: Iterable[tuple[dict[str, str], int]]) -> Iterator[str]:
    yield f"# HELP {name} {help_}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        told = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{told}}} {value}\n" if told else f"{name} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _seconds(at: str) -> int | None:
    return int(datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()) if at else None
