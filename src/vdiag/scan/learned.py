"""What an input itself tells of its envelope: a prefix that no grammar knows, and a wrapper's levels that say nothing.

Both are learned from the first text of an input, and from the first ones with a traceback.
"""

from __future__ import annotations

import re

from vdiag.scan.envelope import Peeler, strip_escapes

HEAD = "Traceback (most recent call last):"
_LEVELLED = r"(?:DEBUG|INFO|WARNING|ERROR) (?:\d\d-\d\d \d\d:\d\d:\d\d |\[[\w./]+\.py:\d)"
_HEADER = re.compile(
    r"\(\w+(?: rank=\d+)? pid=\d+\) |" + _LEVELLED
)  # vLLM's own, wherever it stands in a line
_PUMPED = re.compile(  # a logger's level with vLLM's header or a traceback's row behind it
    r"(?:\b(?:INFO|DEBUG)\b\]?(?: +- +|:? +| *\| *(?:[\w.<>:-]{1,80}(?: - | *\| ))?)|\[(?:Info|Debug)\] (?:\(\w{3,31}\) )?)"
    # what may stand in front of them there: a container's name, or syslog's words
    r"(?:[\w.-]{1,60} +\| |[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,60} [\w.-]{1,60}(?:\[\d+\])?: )?"
    r"(?:\(\w+ pid=\d+\) |" + _LEVELLED + r"|  File \"|Traceback \(most recent"
    # and what no logger of a server writes: the words of a parser of arguments, of the C and C++ runtime, of a shell
    r"|usage: [\w./-]+ \[-|(?:vllm|[\w./-]+\.py): error: |terminate called |Fatal Python error: |Segmentation fault\b"
    r"|[\w./-]*sh: (?:line )?\d+: )"
)
# stern's pod and container in front of each line: as kubectl writes them, the grammar knows them
STERN = re.compile(r"(?P<pod>[a-z0-9][a-z0-9.]*(?:-[a-z0-9.]+)+) (?P<container>[a-z0-9][a-z0-9-]*) ")
_LONGEST = 120  # characters of a prefix
_LOOK = 400  # lines looked at
_MOSTLY = 0.8  # part of the lines with text that must have the prefix


def learned(text: str, peeler: Peeler) -> re.Pattern[str] | None:
    """A pattern of the prefix that no grammar knows; its first group is what is known in front of it, unless it is a pod."""
    at = text.find(HEAD)
    if at >= 0:
        line, end = _line(text, at)
        at = line.find(HEAD)
    else:
        m = _HEADER.search(text, 0, 200_000)
        if m is None:
            return None
        line, end = _line(text, m.start())
        m = _HEADER.search(line)
        at = m.start() if m else -1
    if not 0 < at <= 2 * _LONGEST or line[:1] == "{":
        return None
    known = _known(line, peeler)
    if known >= at or not line[known:at].strip(" |+>"):
        return None
    unknown = next(
        (i for i in range(known + 1, at) if _begins(line, i) and _known(line[i:at], peeler) >= at - i), at
    )
    if not line[known:unknown].strip(" |+>") or unknown - known > _LONGEST:
        return None
    pattern = re.compile(f"({_shape(line[:known])}){_shape(line[known:unknown])}")
    if not known and STERN.fullmatch(line[:unknown]):
        pattern = STERN
    rows = [strip_escapes(row) for row in text[:200_000].split("\n")[:_LOOK] if row.strip()]
    if HEAD in line:  # what stands around it may be another program's
        following = [strip_escapes(row) for row in text[end : end + 20_000].split("\n")[1:5] if row.strip()]
        return pattern if len(following) >= 2 and all(map(pattern.match, following)) else None
    fits = sum(pattern.match(row) is not None for row in rows)
    return pattern if fits >= 3 and fits >= _MOSTLY * len(rows) else None


def without(line: str, prefix: re.Pattern[str]) -> str:
    """A line without a learned prefix; where that named a pod, with the one that kubectl would write."""
    m = prefix.match(line)
    if m is None:
        return line
    if prefix is STERN:
        return f"[pod/{m['pod']}/{m['container']}] {line[m.end() :]}"
    return str(m[1]) + line[m.end() :]


def pumped(text: str) -> bool:
    """Whether a wrapper logs a server's lines as its own, so that its INFO says nothing of them."""
    return _PUMPED.search(text, 0, 200_000) is not None


def _line(text: str, at: int) -> tuple[str, int]:
    """The line around a place without its colours, and where the place's line ends."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return strip_escapes(text[text.rfind("\n", 0, at) + 1 : end][:1000]), end


def _known(line: str, peeler: Peeler) -> int:
    """How many characters the grammar takes off a line."""
    return len(line) - len(peeler.peel(line)[1])


def _begins(line: str, i: int) -> bool:
    return not line[i - 1].isalnum() and line[i] != " "


def _shape(prefix: str) -> str:
    """A pattern of the prefix, but for its numbers, which may be padded."""
    return re.sub(r"(?:\\ )*\d+", lambda m: (" *" if m[0][0] == "\\" else "") + r"\d+", re.escape(prefix))
