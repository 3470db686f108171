#!/usr/bin/env python3
"""What a rule costs: start-up and the healthy stream with 100 rules, with 900 generated ones added, and with all.

    python benchmarks/rules.py [--mb 512] [--runs 5] [--vdiag .venv/bin/vdiag]

The 100 are taken evenly from the shipped rulebook. Whole processes on one core, the best of `--runs`, in turns;
read the ratios.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from run import DATA, ROOT, healthy, run, small

WORDS = (
    "buffer",
    "worker",
    "kernel",
    "tensor",
    "socket",
    "shard",
    "token",
    "engine",
    "cache",
    "layer",
    "device",
    "queue",
    "graph",
    "router",
    "page",
)
START = """
import sys
from pathlib import Path
from vdiag.rulebook import shipped
shipped.SHIPPED, shipped.checkout_rules = Path(sys.argv[1]), lambda: None
from vdiag.cli import run
sys.exit(run(sys.argv[2:]))
"""
MAKE = """
import sys
from pathlib import Path
from vdiag.rulebook import shipped
from vdiag.rulebook.compile import compile_rules
from vdiag.rulebook.schema import Rule
folder, words = Path(sys.argv[1]), sys.argv[2:]
rules = list(shipped.shipped().rules)
few = rules[:: max(len(rules) // 100, 1)][:100]
ids = {rule.id for rule in few}
for rule in few:
    rule.beats, rule.unless = [x for x in rule.beats if x in ids], [x for x in rule.unless if x in ids]
    rule.needs = [x for x in rule.needs if x in ids]
made = [
    Rule(id=f'made-{i}', title='made', phrases=[
        f'{words[i % 15]} {words[i // 15 % 15]} of {words[(i // 225 + i) % 15]} {i * 7919 % 100003} failed: {{got:int}} is not {{want:int}}'])
    for i in range(900)
]
for name, chosen in (('all', rules), ('few', few), ('made', few + made)):
    shipped.SHIPPED = folder / name
    shipped.write_shipped(compile_rules(chosen), '')
"""


def main() -> None:
    """Runs all and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=int, default=512, help="size of the healthy journal in MiB")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--vdiag", default=str(ROOT / ".venv" / "bin" / "vdiag"))
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    python = str(Path(options.vdiag).with_name("python"))
    journal, sample = healthy(options.mb), small()
    run(["cat", str(journal)])  # into the page cache
    with tempfile.TemporaryDirectory() as folder:
        run([python, "-c", MAKE, folder, *WORDS])
        took: dict[tuple[str, str], float] = {}
        for _ in range(options.runs):
            for name in sorted(os.listdir(folder), reverse=True):
                for what, log in (("start-up", sample), ("healthy", journal)):
                    seconds, _, _ = run(
                        [python, "-c", START, f"{folder}/{name}", "--format", "json", str(log)]
                    )
                    took[name, what] = min(seconds, took.get((name, what), seconds))
    for name, title in (
        ("few", "100 rules"),
        ("made", "100 and 900 generated"),
        ("all", "all shipped rules"),
    ):
        start, stream = took[name, "start-up"], took[name, "healthy"]
        print(
            f"{title:<22}  start-up {start * 1000:4.0f} ms, {start / took['few', 'start-up']:.2f} × that of 100; "
            f"healthy {journal.stat().st_size / stream / 1e6:5.0f} MB/s, {took['few', 'healthy'] / stream:.2f} × that of 100"
        )


if __name__ == "__main__":
    sys.exit(main())
