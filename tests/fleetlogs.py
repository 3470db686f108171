"""A fleet made of samples, with the truth about each log known beforehand."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import yaml

SAMPLES = Path(__file__).parent.parent / "samples"
NODES = 12
ACCESS = (
    "INFO 11-29 09:{:02}:{:02} [loggers.py:127] Engine 000: Avg prompt throughput: 31.0 tokens/s, Avg generation "
    "throughput: 40.2 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 2.1%, Prefix cache hit rate: 0.0%\n"
    'INFO:     10.0.3.7:{} - "POST /v1/completions HTTP/1.1" 200 OK\n'
)


class Sample(NamedTuple):
    """A log, and what it comes to."""

    name: str
    data: bytes
    verdict: str
    rule: str | None


class Made(NamedTuple):
    """What a fleet on disk must come to."""

    verdicts: Counter[str]
    causes: Counter[str]  # rule: replicas of which it is the first answer
    nodes: dict[str, set[str]]  # rule: where
    bytes: int


def samples() -> list[Sample]:
    """The samples whose whole answer is in one file, each with its expected verdict and first rule."""
    found = []
    for path in sorted(SAMPLES.glob("*.log")):
        told = yaml.safe_load(path.with_suffix("").with_suffix(".expected.yaml").read_text(encoding="utf8"))
        found.append(Sample(path.stem, path.read_bytes(), told["verdict"], told.get("rule")))
    return found


def healthy_lines(size: int) -> bytes:
    """That many bytes, or a few more, of a server that answers."""
    made, total, n = [], 0, 0
    while total < size:
        line = ACCESS.format(n // 60 % 60, n % 60, 40000 + n % 20000)
        made.append(line)
        total += len(line)
        n += 1
    return "".join(made).encode()


def make(folder: Path, small: int, large: int = 0, size: int = 9 << 20) -> Made:
    """Writes the fleet: `node-N/pod-M.log`, every fifth one packed; the large ones have their failure at the end."""
    known = samples()
    verdicts: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    nodes: dict[str, set[str]] = {}
    total = 0
    failing = [sample for sample in known if sample.rule == "cuda-oom-serving"]
    for number in range(small + large):
        sample = known[number % len(known)] if number < small else failing[number % len(failing)]
        node = f"node-{number % NODES + 1}"
        at = folder / node
        at.mkdir(parents=True, exist_ok=True)
        data = sample.data if number < small else healthy_lines(size) + sample.data
        total += len(data)
        if number % 5 == 0:
            (at / f"pod-{number}.log.gz").write_bytes(gzip.compress(data, 1))
        else:
            (at / f"pod-{number}.log").write_bytes(data)
        verdicts[sample.verdict] += 1
        if sample.rule:
            causes[sample.rule] += 1
            nodes.setdefault(sample.rule, set()).add(node)
    return Made(verdicts, causes, nodes, total)
