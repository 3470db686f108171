"""The envelopes that a log comes in: each puts one around the rows of a sample and tells on which lines they then stand."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import NamedTuple

_SYSLOG = re.compile(r"\w{3} [ \d]\d [\d:]{8} \S+ (?P<tag>[^\s\[:]+)(?:\[\d+\])?: ?")
_COMPOSE = re.compile(r"vllm-\d {0,8}\| ")


class Dressed(NamedTuple):
    """A text, and the physical line on which each row of the sample begins in it."""

    text: str | bytes
    begins: list[int]


Dress = Callable[[list[str]], Dressed]


def undressed(rows: list[str]) -> list[str]:
    """Rows without the prefix of the service or container that wrote them; those of other programs stay."""
    bare = []
    for row in rows:
        m = _SYSLOG.match(row)
        if m is None:
            m = _COMPOSE.match(row)
        elif m["tag"] in ("kernel", "systemd"):
            m = None
        bare.append(row[m.end() :] if m else row)
    return bare


def _clock(n: int) -> str:
    return f"{11 + n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}"


def _iso(n: int, digits: int = 9) -> str:
    return f"2026-11-29T{_clock(n)}.{n:0{digits}}"


# ---- a prefix in front of each row ---------------------------------------------------------------------------

PREFIXES: dict[str, Callable[[int], str]] = {
    "journald short": lambda n: f"Nov 29 {_clock(n)} gpu-02 vllm[812]: ",
    "journald short-precise": lambda n: f"Nov 29 {_clock(n)}.{n:06} gpu-02 vllm[812]: ",
    "journald short-full": lambda n: f"Sun 2026-11-29 {_clock(n)} UTC gpu-02 vllm[812]: ",
    "journald with-unit, an instance": lambda n: f"Sun 2026-11-29 {_clock(n)} CET gpu-02 vllm@acme-7b.service[812]: ",
    "journald short-iso": lambda n: f"2026-11-29T{_clock(n)}+0100 gpu-02 vllm[812]: ",
    "journald short-unix": lambda n: f"{1790000000 + n}.123456 gpu-02 vllm[812]: ",
    "journald short-monotonic": lambda n: f"[{1000 + n:5}.123456] gpu-02 vllm[812]: ",
    "a script in a unit": lambda n: f"Nov 29 {_clock(n)} gpu-02 start-vllm.sh[812]: ",
    "docker run in a unit": lambda n: f"Nov 29 {_clock(n)} gpu-02 docker[812]: ",
    "compose in a unit": lambda n: f"Nov 29 {_clock(n)} gpu-02 docker[812]: vllm-1  | ",
    "syslog, RFC 5424": lambda n: f"<30>1 {_iso(n, 6)}+00:00 gpu-02 vllm 812 - - ",
    "syslog, RFC 3164": lambda n: f"<30>Nov 29 {_clock(n)} gpu-02 vllm[812]: ",
    "docker logs -t": lambda n: f"{_iso(n)}Z ",
    "podman logs -t": lambda n: f"{_iso(n)}+01:00 ",
    "compose v1": lambda _: "vllm_1           | ",
    "compose v2": lambda _: "vllm-1  | ",
    "compose v2, coloured": lambda _: "\x1b[36mvllm-1  | \x1b[0m",
    "compose -t": lambda n: f"vllm-1  | {_iso(n)}Z ",
    "Docker Desktop": lambda n: f"2026-11-29 {_clock(n)} vllm-1  | ",
    "CRI": lambda n: f"{_iso(n)}Z stderr F ",
    "kubectl --prefix": lambda _: "[pod/llm-7f9c-x2x/vllm] ",
    "kubectl --prefix --timestamps": lambda n: f"[pod/llm-7f9c-x2x/vllm] {_iso(n)}Z ",
    "Talos": lambda n: f"10.5.0.2: {_iso(n)}Z stderr F ",
    "pm2": lambda _: "0|vllm     | ",
    "pm2 with times": lambda n: f"0|vllm  | 2026-11-29 {_clock(n)} +00:00: ",
    "supervisor": lambda _: "vllm stderr | ",
    "RunPod": lambda _: "8x4k2m9qz1ab[info]",
    "Google Cloud": lambda n: f"ERROR {_iso(n)}Z [resource.labels.containerName: vllm] ",
    "Google Cloud's console": lambda n: f"2026-11-29 {_clock(n)}.123 CET ",
    "GitHub Actions": lambda n: f"{_iso(n, 7)}Z ",
    "GitLab": lambda n: f"{_iso(n, 6)}Z 01O ",
    "Ray, a worker": lambda _: "(RayWorkerWrapper pid=4242) ",
    "Ray, another node": lambda _: "(RayWorkerWrapper pid=4242, ip=10.0.0.7) ",
    "Ray, a process without a name": lambda _: "(pid=4242) ",
    "Ray Serve": lambda _: "(ServeReplica:llm:LLMServer:acme-7b pid=4242, ip=10.0.0.7) ",
    "Ray Serve in compose": lambda _: "vllm-1  | \x1b[36m(ServeReplica:default:VLLMDeployment pid=4242)\x1b[0m ",
    "a rank": lambda _: "[rank0]: ",
    "a wrapper's address": lambda _: "[address=10.0.0.1:41234, pid=4242] ",
    "a time in brackets": lambda n: f"[2026-11-29 {_clock(n)}] ",
    "a clock": lambda n: f"{_clock(n)} ",
    "a clock in brackets": lambda n: f"[{_clock(n)}] ",
    "ts": lambda n: f"Nov 29 {_clock(n)} ",
    "a logger at ERROR": lambda n: f"2026-11-29 {_clock(n)},123 - launcher - ERROR - ",
    "a logger at INFO": lambda n: f"2026-11-29 {_clock(n)},123 - launcher - INFO - ",
    "loguru": lambda n: f"2026-11-29 {_clock(n)}.123 | INFO     | launcher:pump:42 - ",
    "a launcher that names its part": lambda n: f"2026-11-29 {_clock(n)}.123 [Info] (Process) ",
    "structlog": lambda n: f"2026-11-29 {_clock(n)} [info     ] ",
    "logging without a format": lambda _: "INFO:launcher:",
    # no grammar knows these: they are learned
    "stern": lambda _: "vllm-7f9c6d-x2x9k vllm ",
    "kubetail": lambda _: "[vllm-7f9c6d-x2x9k vllm] ",
    "aws logs tail": lambda n: f"{_iso(n, 6)}+00:00 vllm/vllm/0a1b2c3d4e5f60718293a4b5c6d7e8f9 ",
    "srun --label": lambda _: "0: ",
    "grep -n": lambda n: f"vllm.log:{n + 1}:",
    "cat -n": lambda n: f"{n + 1:6}\t",
}  # fmt: skip


def _behind(prefix: Callable[[int], str]) -> Dress:
    def dress(rows: list[str]) -> Dressed:
        text = "".join(f"{prefix(n)}{row}\n" for n, row in enumerate(undressed(rows)))
        return Dressed(text, list(range(1, len(rows) + 1)))

    return dress


# ---- something else around it ----------------------------------------------------------------------------------


def _each(change: Callable[[str], str], before: str = "", behind: str = "", end: str = "\n") -> Dress:
    """Each row changed, with text before the first and behind the last."""

    def dress(rows: list[str]) -> Dressed:
        text = before + "".join(change(row) + end for row in rows) + behind
        step, first = end.count("\n"), 1 + before.count("\n")
        return Dressed(text, [first + step * n for n in range(len(rows))])

    return dress


def _coloured(escape: str) -> Dress:
    def paint(row: str) -> str:
        if row.startswith("("):
            return re.sub(r"^(\([^)]*\))", lambda m: f"{escape}0;36m{m[1]}{escape}0;0m", row)
        return f"{escape}31m{row}{escape}0m" if row else row

    return _each(paint)


def _typographic(row: str) -> str:
    row = re.sub(r"'([^']*)'", r"‘\1’", re.sub(r'"([^"]*)"', r"“\1”", row))
    return row.replace("'", "’")


def _boxed(rows: list[str]) -> Dressed:
    width = max(map(len, rows))
    edge = "─" * (width + 2)
    text = f"┌{edge}┐\n" + "".join(f"│ {row:<{width}} │\n" for row in rows) + f"└{edge}┘\n"
    return Dressed(text, [n + 2 for n in range(len(rows))])


def _one_line(end: str) -> Dress:
    return lambda rows: Dressed(end.join(rows) + "\n", [1] * len(rows))


def _newest_first(prefix: Callable[[int], str] = lambda _: "", end: str = "\n") -> Dress:
    def dress(rows: list[str]) -> Dressed:
        told = [prefix(n) + row + end for n, row in enumerate(undressed(rows) if prefix(0) else rows)]
        return Dressed("".join(reversed(told)), list(range(len(rows), 0, -1)))

    return dress


def _tqdm(rows: list[str]) -> Dressed:
    bar = "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.2s/it]\r"
    text = "".join(f"{bar if n % 3 == 1 else ''}{row}\n" for n, row in enumerate(rows))
    return Dressed(text, [n + 1 for n in range(len(rows))])


def _objects(make: Callable[[str, int], dict[str, object]]) -> Dress:
    def dress(rows: list[str]) -> Dressed:
        text = "".join(json.dumps(make(row, n)) + "\n" for n, row in enumerate(undressed(rows)))
        return Dressed(text, [n + 1 for n in range(len(rows))])

    return dress


def _cri_parts(rows: list[str]) -> Dressed:
    text, begins = "", []
    for n, row in enumerate(undressed(rows)):
        begins.append(1 + text.count("\n"))
        parts = [row[at : at + 60] for at in range(0, len(row), 60)] or [""]
        for part in parts[:-1]:
            text += f"{_iso(n)}Z stderr P {part}\n"
        text += f"{_iso(n)}Z stderr F {parts[-1]}\n"
    return Dressed(text, begins)


AROUND: dict[str, Dress] = {
    "quoted": _each(lambda row: f"> {row}"),
    "quoted twice": _each(lambda row: f">> {row}".rstrip()),
    "in a box": _boxed,
    "blank lines between all lines": _each(lambda row: row, end="\n\n"),
    "in a code fence": _each(lambda row: row, "It fails with\n\n```text\n", "```\n\nWhat now?\n"),
    "in a folded part": _each(lambda row: row, "<details>\n<summary>Log</summary>\n\n```\n", "```\n</details>\n"),
    "HTML, preformatted": _each(html.escape, "<pre><code>", "</code></pre>\n"),
    "HTML, broken lines": _each(lambda row: html.escape(row).replace("  ", " &nbsp;") + "<br>", "<p>\n", "</p>\n"),
    "HTML, spans": _each(lambda row: f'<span class="line">{html.escape(row)}</span>'),
    "typographic quotes": _each(_typographic),
    "spaces that do not break": _each(lambda row: row.replace(" ", "\u00a0")),
    "without indentation": _each(str.lstrip),
    "indented": _each(lambda row: f"    {row}"),
    "padded": _each(lambda row: f"{row:<240}"),
    "without its first character": lambda rows: Dressed("\n".join(rows)[1:] + "\n", [n + 1 for n in range(len(rows))]),
    "one line": _one_line("\\n"),
    "one line, from Windows": _one_line("\\r\\n"),
    "one JSON string": lambda rows: Dressed(json.dumps("\n".join(rows)) + "\n", [1] * len(rows)),
    "newest first": _newest_first(),
    "newest first, Google Cloud": _newest_first(PREFIXES["Google Cloud's console"]),
    "newest first, RunPod": _newest_first(PREFIXES["RunPod"], "\\n\n"),
    "coloured": _coloured("\x1b["),
    **{f"colours left as {name}": _coloured(name) for name in (
        "[", "^[[", "#033[", "\\x1b[", "\\u001b[", "\\033[", "\\e[", "\ufffd[", "←[", "ESC[",
    )},
    "from Windows": _each(lambda row: row, end="\r\n"),
    "UTF-16": lambda rows: Dressed("".join(f"{row}\r\n" for row in rows).encode("utf-16"), [n + 1 for n in range(len(rows))]),
    "with a byte order mark": lambda rows: Dressed(b"\xef\xbb\xbf" + "\r\n".join(rows).encode(), [n + 1 for n in range(len(rows))]),
    "progress bars glued on": _tqdm,
    "recorded by script(1)": _each(lambda row: row, "Script started on 2026-11-29 11:00:00+01:00\n", "\nScript done\n", "\r\n"),
    "Ray's word on repeats": _each(lambda row: f"(RayWorkerWrapper pid=4242, ip=10.0.0.7) {row} [repeated 3x across cluster]"),
    "docker's json-file": _objects(lambda row, n: {"log": f"{row}\n", "stream": "stderr", "time": f"{_iso(n)}Z"}),
    "CRI in parts": _cri_parts,
    "journald json": _objects(lambda row, n: {**_ENTRY, "__REALTIME_TIMESTAMP": f"{1790000000000000 + n}", "MESSAGE": row}),
    "journald json, in bytes": _objects(
        lambda row, n: {**_ENTRY, "__REALTIME_TIMESTAMP": f"{1790000000000000 + n}", "MESSAGE": list(f"\x1b[36m{row}\x1b[0m".encode())}
    ),
}  # fmt: skip
_ENTRY = {
    "_TRANSPORT": "stdout",
    "PRIORITY": "6",
    "SYSLOG_IDENTIFIER": "vllm",
    "_PID": "812",
    "_SYSTEMD_UNIT": "vllm.service",
}

ENVELOPES: dict[str, Dress] = {name: _behind(prefix) for name, prefix in PREFIXES.items()} | AROUND


# ---- broken at a width ------------------------------------------------------------------------------------------


def broken(rows: list[str], width: int, prefix: Callable[[int], str], box: bool = False) -> Dressed:
    """Messages broken at a width, and the prefix before each part."""
    text: list[str] = []
    begins = []
    for n, row in enumerate(undressed(rows)):
        begins.append(len(text) + 1)
        parts = [row[at : at + width] for at in range(0, len(row), width)] or [""]
        text += [f"│ {part:<{width}} │" if box else prefix(n) + part for part in parts]
    return Dressed("".join(f"{line}\n" for line in text), begins)
