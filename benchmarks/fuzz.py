#!/usr/bin/env python3
"""A longer run of what the tests do in seconds: damaged, mixed and random logs, for as long as asked.

    python benchmarks/fuzz.py [--seconds 300] [--seed 1]

Stops at the first input that raises, takes more than 30 s of processor time or more than 500 MiB, and leaves it in the current folder
as `fuzz-SEED-N.log`.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from vdiag.pipeline import diagnose_text
from vdiag.rulebook.shipped import shipped

SAMPLES = [p.read_bytes() for p in sorted((Path(__file__).resolve().parent.parent / "samples").glob("*.log"))]
PREFIXES = [
    b"vllm-1  | ",
    b"Nov 29 11:00:00 gpu1 vllm[7]: ",
    b"> ",
    b"\x1b[1;36m",
    b"2026-11-29T11:00:00.123456789Z stdout F ",
    b'{"log":"',
    b"\t",
]


def cut(rng: random.Random, data: bytes) -> bytes:
    """A part of it."""
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[a:b]


def flip(rng: random.Random, data: bytes) -> bytes:
    """Some bytes changed."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 200)):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def dress(rng: random.Random, data: bytes) -> bytes:
    """A prefix before some lines."""
    prefix = rng.choice(PREFIXES)
    return b"\n".join(prefix + row if rng.random() < 0.8 else row for row in data.split(b"\n"))


def weave(rng: random.Random, data: bytes) -> bytes:
    """Its lines among those of another."""
    rows, others = data.split(b"\n"), rng.choice(SAMPLES).split(b"\n")
    out: list[bytes] = []
    while rows or others:
        source = rows if rows and (not others or rng.random() < 0.5) else others
        out.append(source.pop(0))
    return b"\n".join(out)


def grow(rng: random.Random, data: bytes) -> bytes:
    """Itself many times, or one of its lines very long."""
    if rng.random() < 0.5:
        return data * min(rng.randrange(2, 60), MOST // (len(data) or 1) + 1)
    rows = data.split(b"\n")
    at = rng.randrange(len(rows))
    rows[at] *= min(rng.randrange(1, 4000), MOST // (len(rows[at]) or 1) + 1)  # no more than is kept
    return b"\n".join(rows)


def noise(rng: random.Random, data: bytes) -> bytes:
    """Random bytes in its middle."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.randrange(5000)) + data[at:]


MOST = 12 << 20  # bytes of an input
STEPS: list[Callable[[random.Random, bytes], bytes]] = [cut, flip, dress, weave, grow, noise]


def main() -> int:
    """Runs until the time is over or something breaks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng, rulebook = random.Random(options.seed), shipped()
    until, count, slowest = time.monotonic() + options.seconds, 0, 0.0
    while time.monotonic() < until:
        data = rng.choice(SAMPLES)
        for step in rng.choices(STEPS, k=rng.randrange(1, 4)):
            data = step(rng, data)[:MOST] or b"\n"
        count += 1
        began = time.process_time()
        try:
            msgspec.json.encode(diagnose_text(data, rulebook))
        except Exception:
            traceback.print_exc()
            return broken(options.seed, count, data, "raised")
        took = time.process_time() - began
        slowest = max(slowest, took)
        if took > 30:
            return broken(options.seed, count, data, f"took {took:.0f} s")
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 500 << 10:
            return broken(options.seed, count, data, "needed more than 500 MiB")
    print(
        f"{count} inputs, the slowest {slowest:.1f} s, peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB"
    )
    return 0


def broken(seed: int, count: int, data: bytes, why: str) -> int:
    """Keeps the input that broke it."""
    path = Path(f"fuzz-{seed}-{count}.log")
    path.write_bytes(data)
    print(f"{path}: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
