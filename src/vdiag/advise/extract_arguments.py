"""Builds arguments.json: which command line flags each vLLM version takes, and what stands behind them.

Run on source trees that hold a `vllm/` folder each, oldest version first; nothing of vLLM is imported:

    python -m vdiag.advise.extract_arguments 0.8.5.post1=/src/vllm-0.8.5 0.11.0=/src/vllm-0.11 > arguments.json

A flag counts if `vllm serve` takes it: a literal of an `add_argument` call of `EngineArgs` or the OpenAI server's
parser, or a field of the front end's dataclasses, which become flags by their names. Its kind (KINDS in
argument_list.py) is read as vLLM's own `get_kwargs` does it: from the call's keywords, else from the annotation of the
field of the config class that the call names (`**model_kwargs["dtype"]`).
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from vdiag.advise.arguments import number

# The front end's parser has moved twice.
PARSERS = ("engine/arg_utils.py", "entrypoints/openai/cli_args.py", "entrypoints/common/cli_args.py")
# Where config classes and the names of their types stand.
CONFIGS = (
    "config.py",
    "config/*.py",
    "entrypoints/chat_utils.py",
    "renderers/*.py",
    "tool_parsers/*.py",
    "entrypoints/anthropic/*.py",
    "model_executor/layers/quantization/__init__.py",
    "pooling_params.py",
)
NAMESPACE_UNTIL = (0, 9)  # versions below print `Namespace(…)` with every argument
DATACLASSES = ("BaseFrontendArgs", "FrontendArgs")
_TYPES = {"int": "i", "float": "f", "str": "v", "bool": "b", "loads": "j"}
_HUMAN = ("human_readable_int", "human_readable_int_or_auto")
_HUMAN_FIELDS = (
    "max_model_len", "max_num_batched_tokens", "max_num_scheduled_tokens", "kv_cache_memory_bytes",
    "safetensors_prefetch_block_size", "max_num_queued_tokens",
)  # fmt: skip


class Taken(NamedTuple):
    """What a version takes behind a flag."""

    kind: str  # a letter of argument_list.KINDS
    choices: tuple[str, ...] = ()  # the only values, where they are literals
    default: str = ""  # as JSON, where it is a literal; empty: unknown


class Version:
    """One version's sources, as far as arguments are concerned."""

    def __init__(self, root: Path) -> None:
        """Raises OSError or SyntaxError."""
        self.parsers = [_parsed(path) for name in PARSERS if (path := root / "vllm" / name).exists()]
        configs = [_parsed(path) for glob in CONFIGS for path in sorted((root / "vllm").glob(glob))]
        self.classes: dict[str, ast.ClassDef] = {}
        self.names: dict[str, ast.expr] = {}  # `CacheDType = Literal[…]`
        for tree in (*configs, *self.parsers):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, node)
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.names.setdefault(node.targets[0].id, node.value)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
                    self.names.setdefault(node.target.id, node.value)
        self.flags: dict[str, Taken] = {}
        self.short: dict[str, str] = {}
        for tree in self.parsers:
            self._read(tree)

    def _read(self, tree: ast.Module) -> None:
        sources = _kwargs_of(tree)
        patches = _patches(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
                self._call(node, sources, patches)
            elif isinstance(node, ast.For) and _registers(node):
                for flag, kind in _registered(node):
                    self.flags[flag] = Taken(kind)
            elif isinstance(node, ast.ClassDef) and node.name in DATACLASSES:
                for name, field in self._fields(node):
                    taken = self._field(name, field)
                    self.flags["--" + name.replace("_", "-")] = taken._replace(
                        kind=patches.get(name, taken.kind)
                    )

    def _call(self, call: ast.Call, sources: dict[str, str], patches: dict[str, str]) -> None:
        written = [
            str(a.value) for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
        long = [word.replace("_", "-") for word in written if word.startswith("--")]
        if not long:
            return
        taken = Taken("v")
        for keyword in call.keywords:
            if keyword.arg is None:
                taken = self._configured(keyword.value, sources, patches) or taken
        given = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        taken = self._explicit(given, taken)
        for flag in long:
            self.flags[flag] = taken
        for word in written:
            if not word.startswith("--") and word.startswith("-"):
                self.short[word] = long[0]

    def _configured(self, value: ast.expr, sources: dict[str, str], patches: dict[str, str]) -> Taken | None:
        """What `**model_kwargs["dtype"]` stands for, also where `**{…}` holds it or a variable does."""
        if isinstance(value, ast.Dict):
            inside = [item for key, item in zip(value.keys, value.values, strict=True) if key is None]
            return self._configured(inside[0], sources, patches) if inside else None
        if isinstance(value, ast.Name) and isinstance(held := self.names.get(value.id), ast.Subscript):
            return self._configured(held, sources, patches)
        if not isinstance(value, ast.Subscript):
            return None
        if isinstance(value.value, ast.Call) and value.value.args:  # get_kwargs(VllmConfig)["logging_config"]
            owner = self.classes.get(_last_name(value.value.args[0]))
        else:
            owner = self.classes.get(sources.get(_last_name(value.value), ""))
        name = value.slice.value if isinstance(value.slice, ast.Constant) else ""
        for field, written in self._fields(owner) if owner else ():
            if field == name:
                taken = self._field(field, written)
                return taken._replace(kind=patches.get(field, taken.kind))
        return None

    def _explicit(self, given: dict[str, ast.expr], taken: Taken) -> Taken:
        """The keywords of the call itself, which come on top of what a field gives."""
        kind, choices, default = taken
        if "default" in given or not default:
            default = self._default(given["default"]) if "default" in given else "null"
        action = _last_name(given.get("action"))
        if action in ("store_true", "store_false"):
            return Taken("n", (), json.dumps(action == "store_false") if "default" not in given else default)
        if action == "BooleanOptionalAction":
            return Taken("b", (), default)
        if "type" in given:
            kind = self._callable(given["type"])
        if "choices" in given:
            choices = self._literals(given["choices"])
        nargs = given.get("nargs")
        if isinstance(nargs, ast.Constant):
            kind = {"?": "o", "+": "s", "*": "s"}.get(str(nargs.value), kind)
        return Taken(kind, choices, default)

    def _default(self, value: ast.expr | None, depth: int = 0) -> str:
        """A default as JSON; empty where it is no literal. `EngineArgs.seed` is that of the class's field."""
        if isinstance(value, ast.Attribute) and depth < 5:
            owner = self.classes.get(_last_name(value.value))
            for name, field in self._fields(owner) if owner else ():
                if name == value.attr:
                    return self._default(field.value, depth + 1)
            return ""
        if isinstance(value, ast.Call) and _last_name(value.func) in ("field", "Field"):
            given = {keyword.arg: keyword.value for keyword in value.keywords}
            made = {"dict": "{}", "list": "[]"}.get(_last_name(given.get("default_factory")), "")
            return made or (self._default(given["default"], depth + 1) if "default" in given else "")
        try:
            return "" if value is None else json.dumps(ast.literal_eval(value))
        except (ValueError, TypeError):
            return ""

    def _callable(self, value: ast.expr) -> str:
        """The kind behind `type=…`; `optional_type(json.loads)` is what it wraps."""
        if isinstance(value, ast.Call) and value.args:
            return self._callable(value.args[0])
        name = _last_name(value)
        return "k" if name in _HUMAN else _TYPES.get(name, "v")

    def _fields(self, owner: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign]]:
        for base in owner.bases:
            if (above := self.classes.get(_last_name(base))) is not None:
                yield from self._fields(above)
        for node in owner.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                yield node.target.id, node

    def _field(self, name: str, field: ast.AnnAssign) -> Taken:
        """What a field's flag takes."""
        return self._annotated(name, field.annotation)._replace(default=self._default(field.value))

    def _annotated(self, name: str, annotation: ast.expr) -> Taken:
        """A field's kind by its annotation, in the order in which vLLM's `get_kwargs` asks."""
        hints = list(self._hints(annotation))
        heads = [self._head(hint) for hint in hints]
        if any(self._is_config(head) for head in heads):
            return Taken("j")
        if {*heads} == {"bool", "str", "None"}:
            return Taken("o")
        if "bool" in heads:
            return Taken("b")
        if "Literal" in heads:
            options = self._literals(hints[heads.index("Literal")])
            return Taken("v", () if "str" in heads else options)
        if {*heads} & {"tuple", "Tuple", "list", "List", "set", "Sequence"}:
            return Taken("s")
        if "int" in heads:
            return Taken("k" if name in _HUMAN_FIELDS else "i")
        if "float" in heads:
            return Taken("f")
        if {*heads} & {"dict", "Dict"}:
            return Taken("v" if "str" in heads or "Callable" in heads else "j")
        return Taken("v")

    def _head(self, hint: ast.expr) -> str:
        """The name of a type without what it holds; a subclass of dict is one."""
        name = _last_name(hint.value if isinstance(hint, ast.Subscript) else hint)
        owner = self.classes.get(name)
        bases = [] if owner is None else owner.bases
        names = {_last_name(base.value if isinstance(base, ast.Subscript) else base) for base in bases}
        return "dict" if "dict" in names else name

    def _hints(self, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """The alternatives of an annotation, names of types resolved."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from self._hints(ast.parse(node.value, mode="eval").body, depth)
        elif isinstance(node, ast.BinOp):
            yield from self._hints(node.left, depth)
            yield from self._hints(node.right, depth)
        elif isinstance(node, ast.Subscript) and _last_name(node.value) in (
            "Union",
            "Annotated",
            "SkipValidation",
        ):
            inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for item in inside[:1] if _last_name(node.value) == "Annotated" else inside:
                yield from self._hints(item, depth)
        elif isinstance(node, ast.Subscript) and _last_name(node.value) == "Optional":
            yield from self._hints(node.slice, depth)
            yield ast.Constant(None)
        elif (
            isinstance(node, ast.Name) and node.id in self.names and node.id not in self.classes and depth < 5
        ):
            yield from self._hints(self.names[node.id], depth + 1)
        else:
            yield node

    def _is_config(self, name: str) -> bool:
        """Whether a class is a group of settings, which is given as JSON."""
        owner = self.classes.get(name)
        return owner is not None and any(
            _last_name(d.func if isinstance(d, ast.Call) else d) in ("config", "dataclass")
            for d in owner.decorator_list
        )

    def _literals(self, node: ast.expr, depth: int = 0) -> tuple[str, ...]:
        """The values of `Literal[…]`, a list or tuple; empty where one of them is no literal."""
        if isinstance(node, ast.Name) and node.id in self.names and depth < 5:
            return self._literals(self.names[node.id], depth + 1)
        if isinstance(node, ast.Call) and _last_name(node.func) in ("get_args", "list") and node.args:
            return self._literals(node.args[0], depth)
        if isinstance(node, ast.Call) and _last_name(node.func) == "keys":
            return ()
        if isinstance(node, ast.Subscript) and _last_name(node.value) == "Literal":
            inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        elif isinstance(node, (ast.List, ast.Tuple)):
            inside = node.elts
        else:
            return ()
        found: list[str] = []
        for item in inside:
            if isinstance(item, ast.Constant):
                found.append(str(item.value))
            elif values := self._literals(item, depth + 1):
                found += values
            else:
                return ()
        return tuple(sorted(set(found)))


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _last_name(node: ast.expr | None) -> str:
    """`argparse.BooleanOptionalAction` → `BooleanOptionalAction`; of a constant its text."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return getattr(node, "attr", "") or getattr(node, "id", "")


def _kwargs_of(tree: ast.Module) -> dict[str, str]:
    """`model_kwargs = get_kwargs(ModelConfig)`: variable → class."""
    return {
        node.targets[0].id: _last_name(node.value.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Call)
        and _last_name(node.value.func) == "get_kwargs"
        and node.value.args
    }


def _patches(tree: ast.Module) -> dict[str, str]:
    """`frontend_kwargs["allowed_origins"]["type"] = json.loads`, `del …["nargs"]`: field → kind."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Delete):
            for target in node.targets:
                name, key = _patched(target)
                if key == "nargs":
                    found.setdefault(name, "v")
        elif isinstance(node, ast.Assign):
            name, key = _patched(node.targets[0])
            if key == "type" and _last_name(node.value) == "loads":
                found[name] = "j"
            elif key == "type" and _last_name(node.value) in _HUMAN:
                found[name] = "k"
    return found


def _patched(node: ast.expr) -> tuple[str, str]:
    """(field, keyword) of `x["field"]["keyword"]`; empty texts for anything else."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Subscript):
        name, key = node.value.slice, node.slice
        if isinstance(name, ast.Constant) and isinstance(key, ast.Constant):
            return str(name.value), str(key.value)
    return "", ""


def _registers(loop: ast.For) -> bool:
    """Whether the loop hands its items to `add_argument`, as 0.11 does with its deprecated flags."""
    return any(getattr(node, "attr", "") == "add_argument" for node in ast.walk(loop))


def _registered(loop: ast.For) -> Iterator[tuple[str, str]]:
    """(flag, kind) of the pairs `("--flag", type)` that a loop goes over."""
    for pair in ast.walk(loop.iter):
        if isinstance(pair, ast.Tuple) and isinstance(pair.elts[0], ast.Constant):
            kind = _TYPES.get(_last_name(pair.elts[1]), "v") if len(pair.elts) > 1 else "v"
            yield str(pair.elts[0].value), "v" if kind == "b" else kind  # argparse's `type=bool` takes a word


def table(trees: dict[str, Path]) -> dict[str, object]:
    """`{"versions": […], "flags": {"--x": "0ii"}, "choices": …, "short": …}`.

    A letter a version, `0` where it lacks the flag. Defaults only of versions that print all arguments, given or
    not. Choices are joined by `|` and stand with the versions (1 or 0)
    that have them.
    """
    read = {version: Version(root) for version, root in trees.items()}
    every = sorted(set().union(*(one.flags for one in read.values())))
    flags, choices = {}, {}
    for flag in every:
        taken = [one.flags.get(flag, Taken("0")) for one in read.values()]
        flags[flag] = "".join(one.kind for one in taken)
        sets = {"|".join(one.choices): "" for one in taken if one.choices}
        if sets:
            choices[flag] = {
                text: "".join(str(int("|".join(one.choices) == text)) for one in taken) for text in sets
            }
    return {
        "versions": list(read),
        "flags": flags,
        "choices": choices,
        "short": _merged(read.values()),
        "defaults": {
            version: _defaults(one) for version, one in read.items() if number(version) < NAMESPACE_UNTIL
        },
    }


def _defaults(version: Version) -> dict[str, Any]:
    """Flag → default, but for those that are None or False."""
    known = {
        flag: json.loads(taken.default) for flag, taken in sorted(version.flags.items()) if taken.default
    }
    return {flag: value for flag, value in known.items() if value is not None and value is not False}


def _merged(read: Iterable[Version]) -> dict[str, str]:
    short: dict[str, str] = {}
    for one in read:
        short.update(one.short)
    return dict(sorted(short.items()))


def main(arguments: list[str]) -> None:
    """`VERSION=FOLDER …` in, the table as JSON on standard output."""
    trees = {version: Path(folder) for version, _, folder in (a.partition("=") for a in arguments)}
    json.dump(table(trees), sys.stdout, indent=0)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
