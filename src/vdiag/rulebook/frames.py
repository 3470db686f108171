"""How a rule names a frame of a traceback: `file.py`, `function`, `file.py:function`, or a `folder/` it lies below."""

from __future__ import annotations


def stands_in(want: str, file: str, function: str) -> bool:
    """Whether a frame in this file and function is the one that a rule names."""
    if want.endswith("/"):
        return f"/{want}" in f"/{file}"
    if ":" in want:
        wanted_file, wanted_function = want.split(":", 1)
        return file.endswith(wanted_file) and function == wanted_function
    if want.endswith((".py", ".pyx")) or "/" in want:
        return file.endswith(want)
    return function == want
