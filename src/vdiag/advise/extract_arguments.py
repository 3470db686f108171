"""Builds arguments.json: which command line flags each vLLM version takes.

Run on source trees that hold a `vllm/` folder each, oldest version first; nothing of vLLM is imported:

    python -m vdiag.advise.extract_arguments 0.8.5.post1=/src/vllm-0.8.5 0.11.0=/src/vllm-0.11 > arguments.json

A flag counts if `vllm serve` takes it: a literal of an `add_argument` call of `EngineArgs` or the OpenAI
server's parser, or a field of the front end's dataclasses, which become flags by their names.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

# The front end's parser has moved twice.
PARSERS = ("engine/arg_utils.py", "entrypoints/openai/cli_args.py", "entrypoints/common/cli_args.py")
DATACLASSES = ("BaseFrontendArgs", "FrontendArgs")


def flags(root: Path) -> set[str]:
    """All long flags that the version under `root` takes. Raises OSError or SyntaxError."""
    found: set[str] = set()
    for name in PARSERS:
        path = root / "vllm" / name
        if path.exists():
            found.update(_flags_of(ast.parse(path.read_text(encoding="utf-8"))))
    return found


def _flags_of(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            for argument in node.args:
                value = getattr(argument, "value", None)
                if isinstance(value, str) and value.startswith("--"):
                    yield value.replace("_", "-")
        elif isinstance(node, ast.For) and _registers(node):
            for constant in ast.walk(node.iter):
                if isinstance(constant, ast.Constant) and str(constant.value).startswith("--"):
                    yield str(constant.value)
        elif isinstance(node, ast.ClassDef) and node.name in DATACLASSES:
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    yield "--" + field.target.id.replace("_", "-")


def _registers(loop: ast.For) -> bool:
    """Whether the loop hands its items to `add_argument`, as 0.11 does with its deprecated flags."""
    return any(getattr(node, "attr", "") == "add_argument" for node in ast.walk(loop))


def table(trees: dict[str, Path]) -> dict[str, object]:
    """`{"versions": [...], "flags": {"--x": "0111"}}`: a digit a version, 1 where it takes the flag."""
    by_version = {version: flags(root) for version, root in trees.items()}
    every = sorted(set().union(*by_version.values()))
    return {
        "versions": list(by_version),
        "flags": {flag: "".join(str(int(flag in taken)) for taken in by_version.values()) for flag in every},
    }


def main(arguments: list[str]) -> None:
    """`VERSION=FOLDER …` in, the table as JSON on standard output."""
    trees = {version: Path(folder) for version, _, folder in (a.partition("=") for a in arguments)}
    json.dump(table(trees), sys.stdout, indent=0)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
