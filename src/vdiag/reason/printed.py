"""Arguments as vLLM prints them: `{'max_model_len': 8192, …}`, before 0.9 `Namespace(max_model_len=8192, …)`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

LONGEST = 20_000  # characters
# `<Backend.FLASH: 1>` or `<function serve at 0x7f>`, outside of quotes.
_OBJECT = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|<[A-Za-z_][^<>\n]{0,300}>")

_OLD_ENUM = re.compile(r"<\w+\.\w+: ('[\w.-]*')>")  # of a version that prints Namespace: a flag's own value


class Printed(NamedTuple):
    """What was read of them."""

    values: dict[str, Any]  # those that are literals; objects as mappings of what is named in them
    opaque: tuple[str, ...] = ()  # names whose values were printed as objects
    cut: bool = False  # the text ends before its last bracket


def read(text: str) -> Printed:
    """The arguments in a text; empty where nothing can be read."""
    text = text.strip()
    last = ")" if text.startswith("Namespace(") else "}"
    if last == "}" and not text.startswith("{"):
        text = "{" + text
    cut = not text.endswith(last)
    if cut:
        text += last
    if len(text) > LONGEST:
        return Printed({}, cut=True)
    import ast

    if last == ")":
        text = _OLD_ENUM.sub(r"\1", text)
    text = _OBJECT.sub(lambda part: part[0] if part[0][0] != "<" else "_object", text)
    try:
        written = ast.parse(text, mode="eval").body
        if isinstance(written, ast.Dict):
            pairs = [
                (str(key.value), node)
                for key, node in zip(written.keys, written.values, strict=True)
                if isinstance(key, ast.Constant)
            ]
        elif isinstance(written, ast.Call):
            pairs = [(item.arg, item.value) for item in written.keywords if item.arg]
        else:
            return Printed({}, cut=cut)
        values: dict[str, Any] = {}
        opaque: list[str] = []
        for name, node in pairs:
            try:
                values[name] = _plain(node)
            except (ValueError, TypeError):
                opaque.append(name)
                continue
            if isinstance(node, ast.Call):
                opaque.append(name)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Printed({}, cut=cut)
    return Printed(values, tuple(opaque), cut)


def _plain(node: Any) -> Any:
    """A literal's value. Raises ValueError or TypeError for anything else."""
    import ast

    if isinstance(node, ast.List):
        return [_plain(item) for item in node.elts]
    if isinstance(node, ast.Call):
        return {item.arg: _plain(item.value) for item in node.keywords if item.arg}
    return ast.literal_eval(node)
