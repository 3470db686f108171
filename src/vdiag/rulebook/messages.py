"""The failure messages that a Python program can print, read off its sources with `ast`; nothing of it is imported.

A message's shape is its text with `{}` for each value and white space folded: what `raise ValueError(f"got {n}")`
prints becomes `got {}`. Read are raise statements, assertions with a message and log calls of level error; other
texts are kept apart, for those who ask whether a wording stands anywhere at all. Knows no rules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

import msgspec

ERROR_CALLS = ("error", "exception", "critical", "fatal")
HOLE = "{}"
LEAST_SPACES = 3  # in a local variable's text that is a part of a message, not one of several values

_PERCENT = re.compile(r"%(?:\((\w+)\))?[-+ #0]*(?:\d+|\*)?(?:\.(\d+|\*))?[hlL]?([diouxXeEfFgGcrsa%])")
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Message(msgspec.Struct, frozen=True):
    """One message and where it is written. `hints` has an entry for each `{}` of the shape: the value's source."""

    kind: str  # raise | assert | log.error | log.exception | log.critical
    exception: str  # the exception's name as written; empty for log calls
    shape: str
    file: str  # path inside the source, `vllm/config/model.py`
    function: str  # `Class.method`; empty at the top of a module
    line: int
    hints: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two messages of different sources the same one."""
        return ("log" if self.kind.startswith("log") else self.kind, self.exception, self.shape)


class Texts(msgspec.Struct):
    """What one file says."""

    messages: list[Message] = []
    mute: int = 0  # raise statements and assertions without words of their own
    others: list[str] = []  # all string literals, for a look whether a wording is anywhere here


def read_module(text: str, file: str) -> Texts:
    """The texts of a module. SyntaxError (or ValueError for a NUL) where it is no Python that this version reads."""
    reader = _Reader(file)
    reader.body(ast.parse(text), "", {})
    return reader.found


def words(shape: str) -> str:
    """The fixed text of a shape."""
    return " ".join(shape.replace(HOLE, " ").split())


class _Reader:
    """Walks a module, function by function, so that a message kept in a local variable is found."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.found = Texts()

    def body(self, node: ast.AST, scope: str, local: dict[str, ast.expr]) -> None:
        """Everything below a node, in the order of the lines. `local`: what each name was last given."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                inner = f"{scope}.{child.name}" if scope else child.name
                self.body(child, inner, dict(local))
                continue
            if isinstance(child, ast.Assign) and len(child.targets) == 1:
                _keep(child.targets[0], child.value, local)
            elif isinstance(child, ast.AnnAssign) and child.value is not None:
                _keep(child.target, child.value, local)
            elif isinstance(child, ast.AugAssign) and isinstance(child.target, ast.Name):
                name = child.target.id
                if name in local and isinstance(child.op, ast.Add):
                    local[name] = ast.BinOp(local[name], ast.Add(), child.value)
            elif isinstance(child, ast.Raise):
                self._raise(child, scope, local)
            elif isinstance(child, ast.Assert):
                self._assert(child, scope, local)
            elif isinstance(child, ast.Call):
                self._call(child, scope, local)
            elif isinstance(child, ast.Constant) and isinstance(child.value, str) and len(child.value) > 4:
                self.found.others.append(child.value)
            self.body(child, scope, local)

    def _raise(self, node: ast.Raise, scope: str, local: dict[str, ast.expr]) -> None:
        raised = node.exc
        if raised is None:
            return  # passes on what is being handled
        if isinstance(raised, ast.Name) and raised.id in local:
            raised = local[raised.id]
        if not isinstance(raised, ast.Call):
            self.found.mute += 1
            return
        text = _message(raised)
        name = ast.unparse(raised.func).rsplit(".", 1)[-1] if not isinstance(raised.func, ast.Call) else ""
        self._add("raise", name or ast.unparse(raised.func), text, node.lineno, scope, local)

    def _assert(self, node: ast.Assert, scope: str, local: dict[str, ast.expr]) -> None:
        self._add("assert", "AssertionError", node.msg, node.lineno, scope, local)

    def _call(self, node: ast.Call, scope: str, local: dict[str, ast.expr]) -> None:
        function = node.func
        if not isinstance(function, ast.Attribute) or function.attr not in ERROR_CALLS or not node.args:
            return
        if "log" not in ast.unparse(function.value).lower():
            return
        kind = "log.critical" if function.attr == "fatal" else f"log.{function.attr}"
        shaped = _shape(node.args[0], local)
        if shaped is not None:
            shape, hints = shaped
            if node.args[1:]:
                shape, hints = _percent(shape, [ast.unparse(arg) for arg in node.args[1:]])
            self._said(kind, "", shape, hints, node.lineno, scope)

    def _add(
        self, kind: str, name: str, text: ast.expr | None, line: int, scope: str, local: dict[str, ast.expr]
    ) -> None:
        shaped = None if text is None else _shape(text, local)
        if shaped is None:
            self.found.mute += 1
        else:
            self._said(kind, name, *shaped, line, scope)

    def _said(self, kind: str, name: str, shape: str, hints: list[str], line: int, scope: str) -> None:
        folded = " ".join(shape.split())
        if not re.search(r"\w{2}", words(folded)):
            self.found.mute += 1
            return
        self.found.messages.append(Message(kind, name, folded, self.file, scope, line, tuple(hints)))


def _keep(target: ast.expr, value: ast.expr, local: dict[str, ast.expr]) -> None:
    if isinstance(target, ast.Name):
        local[target.id] = value


def _message(call: ast.Call) -> ast.expr | None:
    """The argument that is the text of an exception: the first one that is written as a text, else the first."""
    given = [*call.args, *(k.value for k in call.keywords if k.arg in ("message", "msg", "detail", "reason"))]
    for argument in given:
        if isinstance(argument, (ast.JoinedStr, ast.BinOp)) or (
            isinstance(argument, ast.Constant) and isinstance(argument.value, str) and " " in argument.value
        ):
            return argument
    return given[0] if given else None


def _shape(node: ast.expr, local: dict[str, ast.expr], depth: int = 0) -> tuple[str, list[str]] | None:
    """(shape, hints) of an expression that makes a text; None if it is no text at all."""
    if depth > 8:
        return HOLE, [""]
    if isinstance(node, ast.Constant):
        return (node.value, []) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return _joined(_formatted(part, local, depth) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [_shape(side, local, depth + 1) for side in (node.left, node.right)]
        hints = [ast.unparse(side) for side in (node.left, node.right)]
        return _joined(part or (HOLE, [hint]) for part, hint in zip(parts, hints, strict=True))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        shaped = _shape(node.left, local, depth + 1)
        values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        return None if shaped is None else _percent(shaped[0], [ast.unparse(value) for value in values])
    if isinstance(node, ast.Call):
        return _called(node, local, depth)
    if isinstance(node, ast.Name) and node.id in local:
        value = local[node.id]
        without = {name: given for name, given in local.items() if name != node.id}
        return _shape(value, without, depth + 1) or (HOLE, [node.id])
    if isinstance(node, ast.IfExp):
        return _shape(node.body, local, depth + 1)
    return HOLE, [ast.unparse(node)]


def _formatted(part: ast.expr, local: dict[str, ast.expr], depth: int) -> tuple[str, list[str]]:
    """A part of an f-string; a value that is itself a text of this function is written out."""
    if not isinstance(part, ast.FormattedValue):
        return _shape(part, local, depth + 1) or (HOLE, [""])
    value = part.value
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return value.value, []
    if isinstance(value, ast.Name) and value.id in local:
        inner = _shape(value, local, depth + 1)
        if inner is not None and words(inner[0]).count(" ") >= LEAST_SPACES:
            return inner
    hint = ast.unparse(value)
    if part.conversion == ord("r"):
        hint = f"repr({hint})"
    elif part.format_spec is not None:
        hint += ":" + "".join(str(v.value) for v in ast.walk(part.format_spec) if isinstance(v, ast.Constant))
    return HOLE, [hint]


def _called(node: ast.Call, local: dict[str, ast.expr], depth: int) -> tuple[str, list[str]]:
    """`"…".format(…)`, and functions that hand a text on nearly as it is; else one value."""
    function = node.func
    if isinstance(function, ast.Attribute):
        if function.attr == "format":
            shaped = _shape(function.value, local, depth + 1)
            if shaped is not None and shaped[0] != HOLE:
                return _fields(shaped[0], [ast.unparse(value) for value in node.args])
        if function.attr in ("strip", "lstrip", "rstrip", "replace"):
            return _shape(function.value, local, depth + 1) or (HOLE, [""])
        if function.attr == "dedent" and node.args:
            return _shape(node.args[0], local, depth + 1) or (HOLE, [""])
    elif isinstance(function, ast.Name) and function.id in ("dedent", "str", "cleandoc") and node.args:
        inner = node.args[0]
        if not isinstance(inner, ast.Name) or inner.id in local:
            return _shape(inner, local, depth + 1) or (HOLE, [ast.unparse(inner)])
    return HOLE, [ast.unparse(node)]


def _joined(parts: Iterable[tuple[str, list[str]]]) -> tuple[str, list[str]]:
    shape, hints = "", []
    for text, more in parts:
        shape += text
        hints += more
    return shape, hints


def _percent(text: str, values: list[str]) -> tuple[str, list[str]]:
    """A `%` format with its directives as holes; `values` are the sources of what fills them."""
    hints: list[str] = []
    left: Iterator[str] = iter(values)

    def hole(found: re.Match[str]) -> str:
        if found[3] == "%":
            return "%"
        value = found[1] or next(left, "")
        hints.append(
            f"repr({value})" if found[3] == "r" else f"{value}:{found[3]}" if found[3] != "s" else value
        )
        return HOLE

    return _PERCENT.sub(hole, text), hints


def _fields(text: str, values: list[str]) -> tuple[str, list[str]]:
    """A `str.format` text with its fields as holes."""
    hints: list[str] = []
    left: Iterator[str] = iter(values)

    def hole(found: re.Match[str]) -> str:
        if found[0] in ("{{", "}}"):
            return found[0][0]
        hints.append(next(left, found[1]))
        return HOLE

    return _FIELD.sub(hole, text), hints
