"""What the rows of a Python traceback look like, headed or not."""

from __future__ import annotations

import re

HEAD = "Traceback (most recent call last):"
GROUP_HEAD = "Exception Group Traceback (most recent call last):"
FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.*))?')
DIRECT_CAUSE = "The above exception was the direct cause of the following exception:"
DURING_HANDLING = "During handling of the above exception, another exception occurred:"

# Behind frames any class-like name is an exception; alone, its name must say so.
AFTER_FRAMES = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*_{0,2}[A-Z]\w*|(?:[A-Za-z_]\w*\.)+[a-z]\w+)(?::(?P<rest> .*|)|)$", re.DOTALL
)
ALONE = re.compile(
    r"(?P<name>(?:[A-Za-z_]\w*\.)*"
    r"(?:[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Iteration|Timeout|Fault|Unavailable|NotFound|ExceptionGroup)|Exception)"
    r"|(?:[a-z_]\w*\.){2,}[A-Z]\w*(?=: ))"
    r"(?::(?: (?P<rest>.*)|)|)$",
    re.DOTALL,
)
_CARETS = re.compile(
    r"\s+[~^]+[\s~^]*$|\s+\.\.\.<\d+ lines?>\.\.\.$|\s*\[Previous line repeated \d+ more times\]$"
)
_CODE = re.compile(
    r"\s{4,}(?:raise |return |yield |await |assert |with |for |if |from |import |async |@|f[\"']|\)|\]|\}|self\.|super\(\)|[\w.]+ ?= |[\w.\[\]]+\()"
)
GROUP_MARK = re.compile(r"^ {0,12}[|+](?:-\+-+ .*|-+$| )")


def is_echo(row: str) -> bool:
    """Whether an indented row is source code (or its carets) that a traceback shows under a frame."""
    return _CARETS.match(row) is not None or _CODE.match(row) is not None


def frame_parts(frame: str) -> tuple[str, int, str]:
    """(file, line, function) of a frame row as printed."""
    m = FRAME.match(frame)
    return (m["file"], int(m["line"][:9]), (m["function"] or "").strip()) if m else (frame.strip(), 0, "")
