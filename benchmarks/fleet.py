#!/usr/bin/env python3
"""Makes a fleet of logs with known truth, reads it with one process and with two, and prints a table.

    python benchmarks/fleet.py [--small 10000] [--large 20] [--large-mb 9] [--runs 2] [--engine ray]

The counts must be exact. Wall time of whole processes, the best of `--runs`, beside `rg` with as many threads over the
same tree (`rg -z -c`, all literals of the rulebook). Machines are noisy: read the ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tests"))

from fleetlogs import make  # noqa: E402  (of the tests: a fleet with its truth)


def made(small: int, large: int, mb: int) -> tuple[Path, dict[str, dict[str, int]]]:
    """(folder, what it must come to: `verdicts` and `causes` by rule, each with its count of replicas; `bytes`)."""
    folder = HERE / "data" / f"fleet-{small}-{large}-{mb}"
    truth = folder.with_suffix(".json")
    if not truth.exists():
        shutil.rmtree(folder, ignore_errors=True)
        told = make(folder, small, large, mb << 20)
        truth.write_text(
            json.dumps({"verdicts": told.verdicts, "causes": told.causes, "bytes": {"all": told.bytes}})
        )
    return folder, json.loads(truth.read_text())


def timed(runs: int, command: list[str]) -> tuple[float, bytes]:
    """(seconds of the quickest run, its standard output); exit statuses 0 and 1 are good."""
    best, out = float("inf"), b""
    for _ in range(runs):
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True)
        seconds = time.perf_counter() - began
        if done.returncode not in (0, 1):
            sys.exit(f"{command}: exit {done.returncode}: {done.stderr.decode()[-400:]}")
        if seconds < best:
            best, out = seconds, done.stdout
    return best, out


def main() -> None:
    """Runs all and prints the table; exits with 1 if a count is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--large", type=int, default=20)
    parser.add_argument("--large-mb", type=int, default=9)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--vdiag", default=str(ROOT / ".venv" / "bin" / "vdiag"))
    options = parser.parse_args()
    folder, truth = made(options.small, options.large, options.large_mb)
    count, size = options.small + options.large, truth["bytes"]["all"]
    literals = HERE / "data" / "literals.txt"
    if not literals.exists():
        sys.exit("benchmarks/run.py writes the literals that rg looks for: run it first")
    one = 0.0
    print(f"{count:,} logs, {size / 1e6:,.0f} MB unpacked")
    print(f"{'':34} {'logs/s':>8} {'GB/s':>7} {'one/this':>9}")

    def row(what: str, seconds: float) -> None:
        times = f"{one / seconds:9.2f}" if one else ""
        print(f"{what:34} {count / seconds:8,.0f} {size / seconds / 1e9:7.3f} {times}", flush=True)

    for jobs in (1, 2):
        command = [options.vdiag, "fleet", "--format", "json", "-j", str(jobs), "--engine", options.engine]
        seconds, out = timed(options.runs, [*command, str(folder)])
        one = one or seconds
        row(f"vdiag fleet -j {jobs} ({options.engine})", seconds)
        told = json.loads(out)
        causes = {cause["rule"]: cause["replicas"] for cause in told["causes"] if cause["replicas"]}
        if told["verdicts"] != truth["verdicts"] or causes != truth["causes"]:
            sys.exit(f"counts differ: {told['verdicts']}, {causes} instead of {truth}")
    if shutil.which("rg"):
        for jobs in (1, 2):
            command = ["rg", "-z", "-c", "-j", str(jobs), "-F", "-f", str(literals), str(folder)]
            row(f"rg -z -c -j {jobs}", timed(options.runs, command)[0])


if __name__ == "__main__":
    main()
