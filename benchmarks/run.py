#!/usr/bin/env python3
"""Makes its data, runs everything side by side in one go, and prints a table.

    python benchmarks/run.py [--mb 1024] [--pipe-mb 4096] [--runs 3] [--vdiag .venv/bin/vdiag]

Wall time of whole processes on one core each (`taskset` where there is one), the best of `--runs`; peak memory
as the kernel counts it (ru_maxrss of the child). Machines are noisy: read the ratios, not the seconds.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DATA = HERE / "data"


def healthy(mb: int) -> Path:
    """A healthy journal: access lines, throughput lines every ten seconds, clients' 404s, one good start."""
    path = DATA / f"healthy-{mb}.log"
    if path.exists():
        return path
    rng = random.Random(7)
    start = (
        (ROOT / "samples" / "healthy-busy.log").read_text(encoding="utf8")
        if (ROOT / "samples" / "healthy-busy.log").exists()
        else ""
    )
    second = 0
    written = 0
    with path.open("w", encoding="utf8") as out:
        out.write(start)
        while written < mb << 20:
            second += 1
            stamp = f"Aug {1 + second // 86400 % 28:2d} {second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d} gpu1 vllm[5312]: "
            rows = []
            for _ in range(rng.randint(20, 60)):
                client = f"10.42.{rng.randint(0, 255)}.{rng.randint(1, 254)}:{rng.randint(20000, 60999)}"
                kind = rng.random()
                if kind < 0.003:
                    rows.append(
                        f'{stamp}(APIServer pid=5312) INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 404 Not Found'
                    )
                elif kind < 0.2:
                    rows.append(
                        f'{stamp}(APIServer pid=5312) INFO:     {client} - "GET /health HTTP/1.1" 200 OK'
                    )
                else:
                    rows.append(
                        f'{stamp}(APIServer pid=5312) INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK'
                    )
                if kind < 0.0005:
                    rows.append(
                        f"{stamp}(APIServer pid=5312) ERROR 08-28 10:12:45 [serving_chat.py:201] Error with model error=ErrorInfo("
                        "message='The model `llama3` does not exist.', type='NotFoundError', param='model', code=404)"
                    )
            if second % 10 == 0:
                rows.append(
                    f"{stamp}(APIServer pid=5312) INFO 08-28 10:12:45 [loggers.py:127] Engine 000: Avg prompt throughput: {rng.random() * 5000:.1f} tokens/s, "
                    f"Avg generation throughput: {rng.random() * 900:.1f} tokens/s, Running: {rng.randint(1, 40)} reqs, Waiting: 0 reqs, "
                    f"GPU KV cache usage: {rng.random() * 60:.1f}%, Prefix cache hit rate: 31.2%"
                )
            block = "\n".join(rows) + "\n"
            written += len(block)
            out.write(block)
    return path


def dense(mb: int) -> Path:
    """Every line in a traceback, about 110 bytes a line, no two alike."""
    path = DATA / f"dense-{mb}.log"
    if path.exists():
        return path
    rng = random.Random(11)
    written = 0
    number = 0
    with path.open("w", encoding="utf8") as out:
        while written < mb << 20:
            number += 1
            head = f"(EngineCore_DP{number % 8} pid={5400 + number % 8}) ERROR 08-28 {number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d} [core.py:708] "
            rows = [head + "Traceback (most recent call last):"]
            for _ in range(rng.randint(6, 14)):
                rows.append(
                    f'{head}  File "/opt/vllm/lib/python3.12/site-packages/vllm/m{rng.randint(0, 999999)}.py", line {rng.randint(1, 4000)}, in step_{rng.randint(0, 99999)}'
                )
                rows.append(
                    f"{head}    result_{rng.randint(0, 999999)} = self.run_{rng.randint(0, 999999)}(batch, scheduler_output)"
                )
            rows.append(
                f"{head}RuntimeError: request {rng.randint(0, 1 << 40)} could not be served on block {rng.randint(0, 1 << 30)}"
            )
            block = "\n".join(rows) + "\n"
            written += len(block)
            out.write(block)
    return path


def small() -> Path:
    """A failed start of about 150 lines."""
    return ROOT / "samples" / "kv-cache-too-small.log"


def run(command: list[str], feed: list[str] | None = None) -> tuple[float, float, bytes]:
    """(seconds, MiB of peak memory, standard output) of one process on one core; `feed` writes its standard input."""
    if shutil.which("taskset"):
        command = ["taskset", "-c", "0", *command]
    with tempfile.TemporaryFile() as out:
        began = time.perf_counter()
        source = subprocess.Popen(feed, stdout=subprocess.PIPE) if feed else None
        process = subprocess.Popen(
            command, stdin=source.stdout if source else subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE
        )
        if source and source.stdout:
            source.stdout.close()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        if source:
            source.wait()
        code = os.waitstatus_to_exitcode(status)
        if code not in (0, 1, 3):
            sys.exit(
                f"{command}: exit {code}: {process.stderr.read().decode()[-400:] if process.stderr else ''}"
            )
        out.seek(0)
        return seconds, usage.ru_maxrss / 1024, out.read(4000)


def best(runs: int, command: list[str]) -> tuple[float, float, bytes]:
    """The quickest of several runs, with the highest peak memory."""
    results = [run(command) for _ in range(runs)]
    quickest = min(results)
    return quickest[0], max(r[1] for r in results), quickest[2]


def main() -> None:
    """Runs all and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mb", type=int, default=1024, help="size of the healthy journal in MiB")
    parser.add_argument("--dense-mb", type=int, default=64)
    parser.add_argument(
        "--pipe-mb", type=int, default=4096, help="size of the stream for peak memory; 0 leaves it out"
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--vdiag", default=str(ROOT / ".venv" / "bin" / "vdiag"))
    options = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    python = str(Path(options.vdiag).with_name("python"))
    literals = DATA / "literals.txt"
    code = (
        "from vdiag.rulebook.shipped import shipped; from vdiag.scan.sieve import Sieve; import sys; "
        "sys.stdout.buffer.write(b'\\n'.join(Sieve(shipped()).literals) + b'\\n')"
    )
    literals.write_bytes(subprocess.run([python, "-c", code], check=True, capture_output=True).stdout)
    journal, errors, sample = healthy(options.mb), dense(options.dense_mb), small()
    rows: list[tuple[str, str, str, str]] = []

    def row(what: str, size: int, seconds: float, memory: float, against: float = 0.0) -> None:
        rate = f"{size / seconds / 1e6:,.0f} MB/s" if size > 1 << 20 else f"{seconds * 1000:.0f} ms"
        rows.append((what, rate, f"{memory:.0f} MiB", f"{seconds / against:.2f}" if against else ""))

    size = journal.stat().st_size
    run(["cat", str(journal)])  # into the page cache
    if shutil.which("rg"):
        rg, memory, _ = best(options.runs, ["rg", "-j1", "-c", "-F", "-f", str(literals), str(journal)])
        row("healthy journal: rg -c -F -f", size, rg, memory, rg)
    else:
        rg = 0.0
        rows.append(("rg is not installed", "", "", ""))
    seconds, memory, out = best(options.runs, [options.vdiag, "--format", "json", str(journal)])
    verdict = out.split(b'"verdict":"', 1)[1].split(b'"', 1)[0].decode()
    row(f"healthy journal: vdiag ({verdict})", size, seconds, memory, rg)
    seconds, memory, _ = best(1, ["grep", "-c", "-F", "-f", str(literals), str(journal)])
    row("healthy journal: grep -c -F -f", size, seconds, memory, rg)
    seconds, memory, _ = best(options.runs, [options.vdiag, "--format", "json", str(errors)])
    row("error-dense log: vdiag", errors.stat().st_size, seconds, memory)
    base, memory, _ = best(
        options.runs * 3, [python, "-c", "import click, rich.console, rich.table, regex, yaml"]
    )
    row("start-up: the imports alone", 0, base, memory, base)
    for form in ("json", "terminal"):
        seconds, memory, _ = best(options.runs * 3, [options.vdiag, "--format", form, str(sample)])
        row(
            f"start-up: a {len(sample.read_bytes().splitlines())}-line log, --format {form}",
            0,
            seconds,
            memory,
            base,
        )
    if options.pipe_mb:
        times = max(options.pipe_mb // options.mb, 1)
        seconds, memory, _ = run([options.vdiag, "--format", "json"], ["cat", *[str(journal)] * times])
        row(f"{times * size >> 20} MiB through a pipe", times * size, seconds, memory)
    widths = [max(len(r[i]) for r in rows) for i in range(4)]
    print(f"{len(literals.read_bytes().splitlines())} literals; ratios are to rg, or to the imports")
    for r in rows:
        print(f"{r[0]:<{widths[0]}}  {r[1]:>{widths[1]}}  {r[2]:>{widths[2]}}  {r[3]:>{widths[3]}}")


if __name__ == "__main__":
    main()
