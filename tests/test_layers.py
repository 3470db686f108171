"""The way of the data is one-way: a stage imports only from stages before it, from `rulebook` and from `model`.

Read off the source text with `ast`; nothing is imported. `docs/architecture.md` tells what each part is for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "vdiag"

STAGES = ("intake", "scan", "assemble", "match", "reason", "advise", "redact", "render")
ABOVE = ("pipeline", "excerpts", "follow", "fleet", "cli")  # compose the stages; nothing below may know them
PARTS = ("model", "fleet_model", "rulebook", "sizing", *STAGES, *ABOVE)

# What a part may import besides itself; the package's own `__version__` is free for all.
ALLOWED = {
    "model": set(),
    "fleet_model": {"model"},
    "rulebook": {"model"},
    "sizing": {"model"},  # plain arithmetic
    **{stage: {"model", "rulebook", *STAGES[:place]} for place, stage in enumerate(STAGES)},
    "advise": {"model", "rulebook", "sizing", *STAGES[: STAGES.index("advise")]},
    "redact": {"model"},
    "render": {"model", "fleet_model", "rulebook", "sizing", *STAGES[: STAGES.index("render")]},
    "pipeline": {"model", "rulebook", *STAGES},
    "excerpts": {"model", "intake", "scan"},
    "follow": {"model", "rulebook", *STAGES},
    "fleet": {"model", "fleet_model", "rulebook", *STAGES, "pipeline"},
    "cli": set(PARTS),
    "": set(PARTS),  # vdiag/__init__.py: the library's front door, which imports nothing until it is called
}

# (file, part it may reach all the same) -> why
EXCEPTIONS = {
    ("rulebook/lint.py", "advise"): (
        "lint asks for the facts and flags that rules may name, by name and only while it runs; "
        "where advise/ is missing it checks the rest"
    ),
}


class Reach(NamedTuple):
    """A file that names a part of the package in an import, written out or by name."""

    file: str
    line: int
    module: str

    @property
    def part(self) -> str:
        """The part the file belongs to; empty for the package's own `__init__.py`."""
        first = self.file.split("/")[0].removesuffix(".py")
        return "" if first == "__init__" else first

    @property
    def target(self) -> str:
        """The part it reaches; empty for the package itself."""
        named = self.module.split(".")
        return named[1] if len(named) > 1 and named[1] in PARTS else ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.module}"


def reaches(path: Path) -> Iterator[Reach]:
    """Every import of the package in a file: at the top, in a function, for type checking or by `import_module`."""
    file = path.relative_to(PACKAGE).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        named: list[str] = []
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file}:{node.lineno}: imports are written out from `vdiag`"
            named = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            named = [str(a.value) for a in node.args if isinstance(a, ast.Constant)]
        for module in named:
            if module.split(".")[0] == "vdiag":
                yield Reach(file, node.lineno, module)


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


ALL = [reach for path in sorted(PACKAGE.rglob("*.py")) for reach in reaches(path)]


def test_every_part_has_its_place() -> None:
    entries = {p.name.removesuffix(".py") for p in PACKAGE.iterdir() if p.is_dir() or p.suffix == ".py"}
    assert entries - {"__pycache__", "__init__", "__main__"} == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_imports_only_what_stands_before_it(part: str) -> None:
    wrong = [
        reach
        for reach in ALL
        if reach.part == part
        and reach.target not in {"", part, *ALLOWED[part]}
        and (reach.file, reach.target) not in EXCEPTIONS
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_no_exception_outlives_its_reason() -> None:
    used = {(reach.file, reach.target) for reach in ALL}
    assert set(EXCEPTIONS) <= used


def test_exceptions_are_imported_late() -> None:
    """An exception is made inside a function, so that importing the one part never brings in the other."""
    for file, target in EXCEPTIONS:
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        at_import = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        assert not any(f"vdiag.{target}" in ast.unparse(node) for node in at_import)


def test_importing_the_package_brings_nothing_in() -> None:
    """`import vdiag` must be cheap: its front door imports the parts when it is called."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    assert not [
        node for node in tree.body if isinstance(node, ast.ImportFrom) and "vdiag" in str(node.module)
    ]
