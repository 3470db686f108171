"""The envelope grammar: what programs print in front of a message, layer by layer.

A line may carry several layers (`Nov 29 … vllm[1]: (EngineCore pid=7) ERROR 11-29 … [core.py:708] message`). Each
layer is one pattern, tried by the first character of what is left; peeling goes on until none fits. Nothing
here knows what a message means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from vdiag.model import Envelope, Kind

ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]"  # ECMA-48 sequences
    r"|(?:\^\[|#033|\\x1b|\\u001b|\\033|\\e|ESC|[\ufffd←␛])?\[\d{1,2}(?:;\d{1,3}){0,4}m"  # what a paste leaves
)
_MAYBE_ESCAPES = re.compile(r"\x1b|\[\d{1,2}(?:;\d{1,3}){0,4}m")


def has_escapes(text: str) -> bool:
    """Whether a text holds terminal colours, or what a copy left of them."""
    return _MAYBE_ESCAPES.search(text) is not None


def strip_escapes(line: str) -> str:
    """The line without terminal colours, or what a copy left of them."""
    return ESCAPES.sub("", line)


def escapes_in(line: str) -> Iterator[tuple[int, int]]:
    """Where they begin and end."""
    return (m.span() for m in ESCAPES.finditer(line))


# What Ray writes behind a line that several of its workers said, the first time with an explanation.
_REPEATED = re.compile(r" ?\[repeated \d+x across cluster\](?: \(Ray deduplicates logs by default\b.*)?$")


def cleaned(rows: Iterable[str], text: str) -> Iterable[str]:
    """The rows of a text without terminal colours and without Ray's word on how often it left them out."""
    if has_escapes(text):
        rows = map(strip_escapes, rows)
    if "x across cluster]" in text:
        rows = (_REPEATED.sub("", row) for row in rows)
    return rows


_LEVELS = {
    "D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL", "C": "CRITICAL",
    "WARN": "WARNING", "RROR": "ERROR", "NFO": "INFO", "ARNING": "WARNING", "EBUG": "DEBUG", "FATAL": "CRITICAL",
    "ERR": "ERROR", "EMERG": "CRITICAL", "CRIT": "CRITICAL", "ALERT": "CRITICAL", "NOTICE": "INFO",
}  # fmt: skip
_LEVEL = r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|RROR|ARNING|NFO|EBUG)"
_HOST = r"[\w.-]+(?::[\w:.]*\w)?"  # a name, or an IPv6 address
_TAG = r"[^\s:\[\]]+"
# Month and weekday by their shape, in any language: letters with marks and a dot (`Sept.`), or `9月`.
_NAME = r"[^\s\d:()\[\]{}<>=|\"'/]{1,8}"
_MONTH = _NAME + r"(?: \d{1,2}(?= [ \d]\d \d\d:))?"  # Vietnamese counts its months
_CLOCK = r"\d\d:\d\d:\d\d(?:\.\d+)?"
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?Z|[+-]\d\d:?\d\d)?"

# name → pattern. The groups are fields of Envelope; `who` is a process's name with its rank.
_LAYERS: dict[str, tuple[str, str]] = {
    # characters it can start with, pattern
    "process": (
        "(",
        r"\((?P<who>[A-Za-z][\w:.<>-]*(?: (?:rank=\d+|[A-Z]{2,4}\d+))?) ?,? ?pid=(?P<pid>\d+)(?:, ip=[^)\s]+)?[^)\n]{0,80}\) ?"
        r"(?:\[repeated \d+x across cluster\] ?)?",
    ),
    "ray": ("(", r"\((?:pid=(?P<pid>\d+)|(?P<who>raylet|autoscaler)(?: \+\w+)?)(?:, ip=[^)\s]+)?\) ?"),
    "vllm": (
        "DIWECRNA",
        _LEVEL + r" +(?:(?P<time>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?|" + _ISO + r") +)?"
        r"(?:\[(?P<origin>[\w./\\<>-]+\.(?:py|pyx|cc|cpp):\d+)\]|(?P<origin2>[\w./\\<>-]+\.py:\d+)\]) ?",
    ),
    "uvicorn": ("DIWEC", r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): {1,9}"),
    "rank": ("[", r"\[(?P<who>rank\d+)\]: ?"),
    "address": ("[", r"\[address=[^\]\s]+, pid=(?P<pid>\d+)\] ?"),
    "c10": ("[", r"\[(?P<level>[IWEF])\d{3,4} \d\d:\d\d:\d\d\.\d+ (?P<origin>\S+:\d+)\] ?"),
    "kubectl": ("[", r"\[pod/(?P<unit>[\w.-]+/[\w.-]+)\] ?"),
    "monotonic": (  # journalctl's short-monotonic and short-delta; a kernel line has no host
        "[",
        r"\[(?P<time> {0,6}\d{1,9}\.\d{6})(?: [ <][ \d.]{12,24}[ *]?[>*]?>?| {10,24})?\] (?P<host>[\w.-]+) "
        r"(?P<unit>" + _TAG + r")(?:\[(?P<pid>\d+)\]|(?<= kernel)): ?",
    ),
    "priority": ("<", r"<\d{1,3}>(?=\[|[A-Z][a-z]{2} [ \d]\d \d\d:|\d{4}-)"),
    "rfc5424": (
        "<",
        r"<\d{1,3}>1 (?P<time>" + _ISO + r") (?P<host>\S+) (?P<unit>\S+) (?:(?P<pid>\d+)|\S+) \S+ (?:-|\[.{0,400}?\]) ?\ufeff?",
    ),
    "dmesg": ("[", r"(?P<kernel>)\[(?P<time> {0,6}\d{1,9}\.\d{6})(?: <[ \d.]{8,16}>)?\](?:\[ *[TC]\d+\])?(?: |$)"),
    "dmesg -e": ("[", r"(?P<kernel>)\[(?:[A-Z][a-z]{2}[ \d]\d \d\d:\d\d| {0,4}\+\d+\.\d{6})\](?: |$)"),
    "dmesg -T": (
        "[",
        r"(?P<kernel>)\[(?P<time>" + _NAME + r" " + _MONTH + r" +\d{1,2} \d\d:\d\d:\d\d \d{4})\] ?",
    ),
    "bracketed time": ("[", r"\[(?P<time>" + _ISO + r")\] ?"),
    "bracketed level": (  # a launcher may name the part of it that speaks: `[Info] (Process) `
        "[",
        r"\[(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL|Debug|Info|Warn(?:ing)?|Error|Fatal)\]"
        r"(?: \([A-Za-z]\w{2,30}\) |:? ?)",
    ),
    "talos": ("kuds", r"(?P<kernel>)(?:kern|user|daemon|syslog): +\w+: \[(?P<time>" + _ISO + r")\]: ?"),
    "talos node": (
        "012",
        r"(?P<host>\d{1,3}(?:\.\d{1,3}){3}): (?=(?:kern|user|daemon|syslog): +\w+: \[|\d{4}-\d\d-\d\dT|\{)",
    ),
    "dmesg -x": ("kuds", r"(?P<kernel>)(?:kern|user|daemon|syslog) {0,3}:(?P<level>\w+) *: "),
    "kernel": ("k", r"(?P<kernel>)kernel: ?"),
    "systemd": ("s", r"systemd\[\d+\]: "),
    "syslog": (
        "",
        r"(?=\S{1,9} +\d)(?:(?P<time>" + _MONTH + r" [ \d]\d " + _CLOCK + r")"
        r"|" + _NAME + r" (?P<time2>\d{4}-\d\d-\d\d " + _CLOCK + r") [A-Z\d+-]{2,6}) "
        r"(?:(?P<host>" + _HOST + r") (?P<unit>" + _TAG + r")(?:\[(?P<pid>\d+)\])?"
        r"|(?P<unit2>" + _TAG + r")(?:\[(?P<pid2>\d+)\]|(?<= kernel))): ?",
    ),
    "syslog 月": (
        "123456789",
        r"(?P<time>\d{1,2}(?:月|월) [ \d]\d " + _CLOCK + r") "
        r"(?:(?P<host>" + _HOST + r") )?(?P<unit>" + _TAG + r")(?:\[(?P<pid>\d+)\]|(?<= kernel)): ?",
    ),
    "syslog iso": (
        "012",
        r"(?P<time>" + _ISO + r") (?:(?P<host>[\w.-]+) )?(?P<unit>" + _TAG + r")(?:\[(?P<pid>\d+)\]|(?<= kernel)): ?",
    ),
    "syslog iso, no pid": (  # a container's time stamp is finer, or in UTC by its letter: what follows is no host
        "012",
        r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?[+-]\d\d:?\d\d) (?P<host>[\w.-]+) (?P<unit>" + _TAG + r"): ",
    ),
    "short-unix": (
        "12",
        r"(?P<time>\d{10}\.\d{6}) (?P<host>[\w.-]+) (?P<unit>" + _TAG + r")(?:\[(?P<pid>\d+)\]|(?<= kernel)): ?",
    ),
    "dmesg iso": ("012", r"(?P<kernel>)(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d) "),
    "cri": ("012", r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) [FP](?::\S*)?(?: |$)"),
    "torchserve": (  # it logs whatever a model's process prints, and the level tells nothing of it
        "012",
        r"(?P<time>" + _ISO + r") \[[A-Z]{4,5} *\] (?P<unit>[\w.-]{1,80}?)-std(?:out|err) MODEL_LOG - ?",
    ),
    "logging": (
        "012",
        r"(?P<time>" + _ISO + r") +(?:- +)?(?:\[[^\]\s]*\] +)?(?:[\w.:/-]+ +(?:- +)?)?(?:\d+ +)?(?:- +)?\[?"
        r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|WARN|FATAL)(?: *\])?(?! +(?:\d\d-\d\d \d\d:\d\d|\[[\w./-]+\.py:\d))(?: +- |:? +)",
    ),
    "piped": (  # loguru's form, and wrappers that name the stream
        "012",
        r"(?P<time>" + _ISO + r") \| *(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) *\| *(?:[\w.<>:-]{1,80}(?: - | *\| ))?",
    ),
    "arrows": ("[", r"(?:\[[\w.-]{1,40}\] ?){1,4}>>> ?"),
    "pytest": ("E", r"E {3,40}(?=\S)"),
    "nginx": (
        "012",
        r"(?P<http>)(?P<time>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) \[(?P<level>\w+)\] \d+#\d+: (?:\*\d+ )?",
    ),
    "time": (
        "012",
        r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?)"
        r"(?: (?:UTC|GMT|MSK|CES?T|[ECMP][SD]T|[JIBK]ST))?"
        r"(?: \d\d[OE]\+?(?=[ \n]|$))?:?(?: |$)",  # a stream of a GitLab job
    ),
    "clock": ("[012", r"(?:\[\d\d:\d\d:\d\d(?:[.,]\d+)?\]|\d\d:\d\d:\d\d(?:[.,]\d+)?)(?: |$)"),
    "ts": ("ADFJMNOS", r"(?P<time>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?: |$)"),
    "google cloud": (  # its level tells the stream, not what the program said
        "DINWECA",
        r"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY) "
        r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z) "
        r"(?:\[resource\.labels\.\w+: (?P<unit>[^\]\n]+)\] ?)?",
    ),
    "runpod": ("abcdefghijklmnopqrstuvwxyz0123456789", r"(?P<unit>[a-z0-9]{8,24})\[(?:info|error|warn|warning|debug)\]"),
    "pm2": ("0123456789", r"\d{1,3}\|(?P<unit>[\w.-]+) {0,30}\| ?"),
    "glog": (
        "IWEF",
        r"(?P<level>[IWEF])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d+) +\d+ (?P<origin>\S+:\d+)\] ?",
    ),
    "compose": ("", r"(?P<unit>[A-Za-z][\w.-]{0,62}?)(?: stdout| stderr)? {0,30}\| (?! *[|^~])"),
}  # fmt: skip

_ORDER = (
    "arrows", "piped", "pytest", "process", "ray", "vllm", "uvicorn", "rank", "address", "c10", "kubectl", "monotonic", "dmesg", "dmesg -T", "dmesg -e",
    "bracketed time", "bracketed level", "dmesg -x", "talos", "kernel", "systemd", "syslog", "syslog 月", "cri",
    "syslog iso", "syslog iso, no pid", "short-unix", "dmesg iso", "torchserve", "logging", "nginx", "time", "google cloud", "glog",
    "talos node", "pm2", "runpod", "compose", "rfc5424", "priority", "clock", "ts",
)  # fmt: skip
_Match = Callable[[str, int], "re.Match[str] | None"]


class _ByChar(dict[str, list[tuple[str, _Match]]]):
    """The layers that may begin with a character, compiled when the first line begins so: start-up counts."""

    def __init__(self) -> None:
        super().__init__()
        self._compiled: dict[str, _Match] = {}

    def __missing__(self, c: str) -> list[tuple[str, _Match]]:
        plain = c.isascii() and not c.isalpha()
        names = [n for n in _ORDER if (c in _LAYERS[n][0] if _LAYERS[n][0] else not plain)] if c else []
        self[c] = [(name, self._match(name)) for name in names]
        return self[c]

    def _match(self, name: str) -> _Match:
        match = self._compiled.get(name)
        if match is None:
            match = self._compiled[name] = re.compile(_LAYERS[name][1]).match
        return match


_BY_CHAR = _ByChar()
_RANK = re.compile(
    r"^(?P<role>[A-Za-z]+?)(?:_|-| )?(?P<rank>(?:(?:DP|TP|PP|EP|PCP|DCP)\d+_?)+|\d+| rank=\d+)?$"
)
_COLLECTORS = ("syslog", "monotonic", "short-unix")
# Tags of who speaks about other processes; `-o with-unit` shows the service manager by its scope.
UNIT_TAGS = ("systemd", "dockerd", "containerd", "kubelet", "podman", "conmon", "init.scope")
_OUTER = {
    "syslog", "syslog 月", "syslog iso", "syslog iso, no pid", "monotonic", "short-unix", "cri", "time", "kubectl", "pm2",
    "google cloud", "runpod", "compose", "talos node", "bracketed time", "rfc5424", "priority", "ts",
}  # fmt: skip
_WRAPPERS = (
    "logging",
    "piped",
    "bracketed level",
)  # whose level may be that of a program that passes lines on
_SERVERS = {"process", "vllm", "uvicorn", "rank", "c10"}  # in front of what a server prints
_TERMINAL = {"vllm", "uvicorn", "c10", "glog", "nginx"}  # nothing is peeled behind these


class Peeler:
    """Peels envelopes; equal prefixes share one Envelope."""

    def __init__(self) -> None:
        self._known: dict[str, Envelope] = {}
        self._last = ""
        self._last_envelope = Envelope()
        self._bare = Envelope()
        self.pumped = False  # a wrapper logs a server's lines as its own

    def peel(self, line: str) -> tuple[Envelope, str]:
        """The envelope of a line (without its line end and colours), and the message behind it."""
        if self._last and line.startswith(self._last):
            return self._last_envelope, line[len(self._last) :]
        pos = 0
        layers: list[tuple[str, re.Match[str]]] = []
        while len(layers) < 8:
            c = line[pos : pos + 1]
            for name, match in _BY_CHAR[c]:
                m = match(line, pos)
                if m is not None:
                    layers.append((name, m))
                    break
            else:
                break
            pos = m.end()
            if name in _TERMINAL:
                break
        if not layers:
            return self._bare, line
        prefix = line[:pos]
        envelope = self._known.get(prefix)
        if envelope is None:
            envelope = _envelope(layers, self.pumped)
            if len(self._known) > 20_000:
                self._known.clear()
            self._known[prefix] = envelope
        if layers[-1][0] == "vllm":
            self._last, self._last_envelope = prefix, envelope
        return envelope, line[pos:]

    @staticmethod
    def outer(line: str) -> int:
        """How many characters in front of a line are a collector's, which every part of a broken line has."""
        pos = 0
        for _ in range(4):
            m = next(
                (
                    m
                    for name, match in _BY_CHAR[line[pos : pos + 1]]
                    if (m := match(line, pos)) and name in _OUTER
                ),
                None,
            )
            if m is None:
                break
            pos = m.end()
        return pos


def _envelope(layers: list[tuple[str, re.Match[str]]], pumped: bool) -> Envelope:
    found: dict[str, str] = {}
    kind = Kind.NATIVE
    for name, m in layers:
        groups = m.groupdict()
        if "kernel" in groups:
            kind = Kind.KERNEL
        elif "http" in groups:
            kind = Kind.HTTP
        for key, value in groups.items():
            if value:
                key = key.rstrip("2")  # the same field in another place of the pattern
                if key == "time" and "time" in found:
                    continue  # the outer time stamp is the collector's and has the year
                if key == "level" and pumped and name in _WRAPPERS and value.upper() in ("INFO", "DEBUG"):
                    continue
                found[key] = value
        unit = found.get("unit", "")
        if name == "systemd" or unit in UNIT_TAGS:
            kind = Kind.UNIT
        elif unit == "kernel" and name.startswith(_COLLECTORS):
            kind = Kind.KERNEL
    if kind is Kind.UNIT and layers[-1][0] in _SERVERS:
        kind = Kind.NATIVE  # `podman run` in a unit: its tag stands before all that the server prints
    level = found.get("level", "").upper()
    level = _LEVELS.get(level, level)
    if (kind is Kind.KERNEL or layers[0][0] == "dmesg -x") and level not in ("ERROR", "CRITICAL"):
        level = ""  # the kernel tells of kills and faults at any level
    if kind is Kind.NATIVE and level:
        kind = Kind.LOG
    role = rank = ""
    who = found.get("who", "")
    if who:
        parts = _RANK.match(who)
        role, rank = (parts["role"], (parts["rank"] or "").replace(" rank=", "")) if parts else (who, "")
    unit = found.get("unit", "")
    return Envelope(
        kind=kind,
        role=role,
        pid=int(found.get("pid", "0")[:12]),
        rank=rank,
        level=level,
        time=found.get("time", "").strip(),
        origin=found.get("origin", ""),
        host=found.get("host", ""),
        unit="" if kind is Kind.KERNEL else unit,
    )
