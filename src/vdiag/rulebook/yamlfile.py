"""One YAML file of rules: safe reading, exact places, and every wrong field at once.

The file is composed into nodes first (they know their lines; duplicate keys and expanding aliases show there),
then built into plain values and converted field by field, so that one fault does not hide the next.
"""

from __future__ import annotations

import re
import types
import typing
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec
import yaml

from vdiag.rulebook.load import MAX_BYTES, Placed, Problem, well_said
from vdiag.rulebook.schema import Rule

MAX_NODES = 200_000  # after aliases are expanded
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SAID = re.compile(r"(?:Expected|Invalid enum value) (?P<what>.*?)(?: - at `\$(?P<at>.*)`)?\Z", re.DOTALL)


class _Fault(Exception):
    """A file that cannot be read as rules at all."""

    def __init__(self, line: int, expected: str, got: str) -> None:
        super().__init__(expected)
        self.line, self.expected, self.got = line, expected, got


def read_file(path: Path, problems: list[Problem]) -> list[Placed]:
    """The well-typed rules of a file; what is wrong with it or them is appended to `problems`."""
    file = str(path)
    try:
        nodes, values = _compose(path)
    except _Fault as fault:
        problems.append(Problem(file, fault.line, "", "", fault.expected, fault.got, True))
        return []
    placed = []
    for node, value in zip(nodes, values, strict=True):
        reader = _Reader(file, node, value, problems)
        rule = reader.rule()
        if rule is None:
            continue
        told = Placed(rule, file, reader.line(""), reader.lines)
        if reader.good:
            placed.append(told)
        else:
            _say_the_rest(told, problems)
    return placed


def _say_the_rest(placed: Placed, problems: list[Problem]) -> None:
    """What else is wrong with a rule that has wrong fields: its id, its wordings and its open values."""
    told = {(problem.line, problem.field) for problem in problems if problem.file == placed.file}
    more: list[Problem] = []
    if placed.rule.id and not _ID.match(placed.rule.id):
        more.append(placed.problem("id", "lower-case words with hyphens", f"`{placed.rule.id}`"))
    well_said(placed, more)
    problems += [problem for problem in more if (problem.line, problem.field) not in told]


def _compose(path: Path) -> tuple[list[Any], list[Any]]:
    """The nodes and the plain values of the entries of a file."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise _Fault(0, f"at most {MAX_BYTES} bytes", f"{size}")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as fault:
        raise _Fault(0, "a readable file", fault.strerror or str(fault)) from None
    except UnicodeDecodeError as fault:
        raise _Fault(0, "UTF-8", f"byte 0x{fault.object[fault.start]:02x} at offset {fault.start}") from None
    loader = None
    try:
        loader = _LOADER(text)
        root = loader.get_single_node()
        if root is None:
            return [], []
        _bounded(root)
        if not isinstance(root, yaml.SequenceNode):
            raise _Fault(root.start_mark.line + 1, "a list of rules (`- id: …`)", _named(root))
        return list(root.value), loader.construct_document(root)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        raise _Fault(
            mark.line + 1 if mark else 0, "YAML", f"a syntax error ({fault.problem or fault})"
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError) as fault:
        raise _Fault(0, "YAML", f"a syntax error ({str(fault).splitlines()[0]})") from None
    except RecursionError:
        raise _Fault(0, "YAML that nests a few levels", "hundreds of levels") from None
    finally:
        if loader is not None:
            loader.dispose()


def _bounded(root: Any) -> None:
    """_Fault if a file grows beyond all measure once its aliases are expanded, or holds itself."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Any) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_nodes:
            raise _Fault(node.start_mark.line + 1, "YAML that ends", "an alias inside its own anchor")
        open_nodes.add(id(node))
        total = 1
        if isinstance(node, yaml.SequenceNode):
            total += sum(map(size, node.value))
        elif isinstance(node, yaml.MappingNode):
            total += sum(size(part) for pair in node.value for part in pair)
        open_nodes.discard(id(node))
        if total > MAX_NODES:
            raise _Fault(
                node.start_mark.line + 1, f"at most {MAX_NODES} values", "more, by aliases of aliases"
            )
        sizes[id(node)] = total
        return total

    size(root)


def _named(node: Any) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else f"`{str(node.value)[:40]}`"


class _Reader:
    """Converts one entry; collects the line of each of its fields and all that is wrong with them."""

    def __init__(self, file: str, node: Any, value: Any, problems: list[Problem]) -> None:
        self.file, self.value, self.problems = file, value, problems
        self.lines: dict[str, int] = {}
        self.id = value["id"] if isinstance(value, dict) and isinstance(value.get("id"), str) else ""
        self.good = True
        self._place(node, "")

    def line(self, field: str) -> int:
        return Placed(None, "", 0, self.lines).line_of(field) or self.lines[""]  # type: ignore[arg-type]

    def wrong(self, field: str, expected: str, got: str, line: int = 0) -> None:
        self.good = False
        self.problems.append(Problem(self.file, line or self.line(field), self.id, field, expected, got))

    def rule(self) -> Rule | None:
        """The rule, of its good fields alone if it is not `good`; None for what is no rule at all."""
        if not isinstance(self.value, dict):
            self.wrong("", "a rule (`id: …`, `title: …`)", _shown(self.value))
            return None
        return typing.cast(Rule, self._struct(Rule, self.value, ""))

    def _place(self, node: Any, field: str) -> None:
        """Note the lines of a node and all below it; report keys that stand twice."""
        self.lines.setdefault(field, node.start_mark.line + 1)
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._place(item, f"{field}[{index}]")
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                name = str(key.value)
                inner = f"{field}.{name}" if field else name
                line = key.start_mark.line + 1
                if name in seen:
                    self.wrong(inner, "each field once", f"`{name}` again", line)
                seen.add(name)
                self.lines.setdefault(inner, line)
                self._place(value, inner)

    def _struct(self, kind: type[Any], value: Any, at: str) -> Any:
        fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
        before = len(self.problems)
        built: dict[str, Any] = {}
        prefix = f"{at}." if at else ""
        for name, item in value.items():
            if name in fields:
                built[fields[name].name] = self._field(fields[name].type, item, prefix + name)
                continue
            near = get_close_matches(str(name), fields, 1)
            hint = f"`{near[0]}`" if near else f"one of the fields {', '.join(fields)}"
            self.wrong(f"{prefix}{name}", hint, f"`{name}`, which is no field")
        for name, field in fields.items():
            if field.required and name not in value:
                self.wrong(at, f"a field `{name}`", "none")
        if len(self.problems) == before:
            return kind(**built)
        if at:
            return None
        missing = {field.name: "" for field in fields.values() if field.required}
        return kind(**missing | {name: item for name, item in built.items() if _whole(item)})

    def _field(self, kind: Any, value: Any, at: str) -> Any:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if isinstance(value, dict):
                return self._struct(kind, value, at)
            example = next(iter(field.encode_name for field in msgspec.structs.fields(kind)))
            return self.wrong(at, f"fields (`{example}: …`)", _shown(value))
        if typing.get_origin(kind) is list:
            if isinstance(value, list):
                (inner,) = typing.get_args(kind)
                return [self._field(inner, item, f"{at}[{index}]") for index, item in enumerate(value)]
            return self.wrong(at, "a list (`- …`)", _shown(value))
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as fault:
            deeper, expected = _said(fault, kind)
            self.wrong(at + deeper, expected, _shown(_at(value, deeper)))
            return None


def _whole(value: Any) -> bool:
    """Whether nothing of a field was left out as wrong."""
    return value is not None and not (isinstance(value, list) and None in value)


def _said(fault: msgspec.ValidationError, kind: Any) -> tuple[str, str]:
    """Where below the field a value is wrong, and what was expected there."""
    match = _SAID.match(str(fault))
    deeper = (match["at"] or "") if match else ""
    if isinstance(kind, type) and hasattr(kind, "__members__"):
        return deeper, f"one of {', '.join(member.value for member in kind.__members__.values())}"
    what = match["what"].split(", got ")[0] if match else str(fault)
    return deeper.replace("[...]", ""), {"`str`": "text (in quotes)", "`bool`": "true or false"}.get(
        what, what
    )


def _at(value: Any, path: str) -> Any:
    """The first value of a mapping that is not text, if the path points into one."""
    if path == "[...]" and isinstance(value, dict):
        return next((item for item in value.values() if not isinstance(item, str)), value)
    return value


def _shown(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", types.NoneType: "nothing"}
    return names.get(type(value)) or f"`{str(value)[:60]}`"
