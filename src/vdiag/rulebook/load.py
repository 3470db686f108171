"""Reading rulebooks: YAML files and folders in, a compiled rulebook and every problem out.

A problem names file, line, rule and field, and what was expected there. All problems of all files come at once,
and a broken rule does not take the good ones with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from vdiag.model import Phase
from vdiag.rulebook.compile import CompiledPattern, Rulebook, compile_rule
from vdiag.rulebook.phrases import WordingError, compile_phrase
from vdiag.rulebook.schema import Rule

SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 8 << 20  # of one file; the shipped rulebook is far smaller
WHERE = ("any", "exception", "log", "kernel", "unit", "native", "http")
LEVELS = ("error", "warning", "info", "debug")
MARKS = ("", "start", "ready", "death", *(phase.value for phase in Phase))


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong in a rulebook."""

    file: str
    line: int  # 1-based; 0: the file as a whole
    rule: str  # its id, "" where it has none
    field: str  # `fixes[0].set`; "" for the rule or file as a whole
    expected: str
    got: str
    whole_file: bool = False  # nothing in the file could be read

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        named = "".join(f" {part}:" for part in (self.rule, self.field) if part)
        return f"{place}:{named} expected {self.expected}, got {self.got}"


class RulebookError(Exception):
    """A rulebook with problems; `problems` has all of them."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Placed(NamedTuple):
    """A rule with where it stands."""

    rule: Rule
    file: str
    line: int
    lines: dict[str, int]  # field path (`fixes[0].set`) -> its line

    def line_of(self, field: str) -> int:
        """The line of a field, or of the nearest thing around it that has one."""
        while field and field not in self.lines:
            cut = max(field.rfind("."), field.rfind("["))
            field = field[: max(cut, 0)]
        return self.lines.get(field, self.line)

    def problem(self, field: str, expected: str, got: str) -> Problem:
        """A problem of this rule."""
        return Problem(self.file, self.line_of(field), self.rule.id, field, expected, got)


def load(
    paths: Iterable[str | Path], *, base: Rulebook | None = None, collect: list[Problem] | None = None
) -> Rulebook:
    """The rulebook of these files and folders, on top of `base`.

    A rule with the id of one in `base` replaces it. With `collect`, problems are appended to it and the good rules
    come back; without, RulebookError raises all problems.
    """
    problems: list[Problem] = []
    placed = read_rules(paths, problems)
    rulebook = assemble(placed, base, problems)
    if collect is None and problems:
        raise RulebookError(problems)
    if collect is not None:
        collect.extend(problems)
    return rulebook


def read_rules(paths: Iterable[str | Path], problems: list[Problem]) -> list[Placed]:
    """The well-formed rules of these files and folders, in order; what is wrong is appended to `problems`."""
    from vdiag.rulebook.yamlfile import read_file

    placed: list[Placed] = []
    owner: dict[str, Placed] = {}
    for path in rule_files(paths, problems):
        for rule in read_file(path, problems):
            if not well_said(rule, problems):
                continue
            taken = next((name for name in (rule.rule.id, *rule.rule.aliases) if name in owner), None)
            if taken is not None:
                other = owner[taken]
                field = "id" if taken == rule.rule.id else "aliases"
                problems.append(
                    rule.problem(field, "an id of its own", f"`{taken}`, which {other.file}:{other.line} has")
                )
                continue
            owner.update(dict.fromkeys((rule.rule.id, *rule.rule.aliases), rule))
            placed.append(rule)
    return placed


def rule_files(paths: Iterable[str | Path], problems: list[Problem]) -> Iterator[Path]:
    """The rule files among these paths; folders are walked, in the order of their names."""
    for path in map(Path, paths):
        if path.is_dir():
            for found in sorted(path.rglob("*")):
                if found.suffix in SUFFIXES and not found.name.startswith(".") and found.is_file():
                    yield found
        elif path.exists():
            yield path
        else:
            problems.append(
                Problem(str(path), 0, "", "", "a rule file or a folder of them", "nothing there", True)
            )


def well_said(placed: Placed, problems: list[Problem]) -> bool:
    """Whether the values of a rule that the types leave open are what they can be."""
    rule = placed.rule
    before = len(problems)
    for field, value, allowed in (
        ("where", rule.where, WHERE),
        ("level", rule.level, LEVELS),
        ("marks", rule.marks, MARKS),
    ):
        if value not in allowed:
            problems.append(placed.problem(field, f"one of {', '.join(filter(None, allowed))}", f"`{value}`"))
    if not rule.phrases and not rule.patterns:
        problems.append(placed.problem("phrases", "at least one wording in `phrases` or `patterns`", "none"))
    names: set[str] = set()
    for index, phrase in enumerate(rule.phrases):
        try:
            names.update(compile_phrase(phrase).types)
        except WordingError as fault:
            problems.append(placed.problem(f"phrases[{index}]", fault.expected, fault.got))
    for index, pattern in enumerate(rule.patterns):
        from vdiag.rulebook.regexes import compile_regex

        try:
            names.update(compile_regex(pattern.regex).types)
        except WordingError as fault:
            problems.append(placed.problem(f"patterns[{index}].regex", fault.expected, fault.got))
    if rule.at and rule.at not in names and len(problems) == before:
        problems.append(placed.problem("at", "the name of one of its captures", f"`{rule.at}`"))
    return len(problems) == before


def assemble(placed: list[Placed], base: Rulebook | None, problems: list[Problem]) -> Rulebook:
    """The rules of `base` that none of these replaces, then these; references are checked and aliases resolved."""
    replaced = {name for own in placed for name in (own.rule.id, *own.rule.aliases)}
    rules: list[Rule] = []
    patterns: list[CompiledPattern] = []
    if base is not None:
        moved = {}
        for index, rule in enumerate(base.rules):
            if rule.id not in replaced:
                moved[index] = len(rules)
                rules.append(rule)
        for pattern in base.patterns:
            if pattern.rule in moved:
                patterns.append(msgspec.structs.replace(pattern, rule=moved[pattern.rule]))
    known = {alias: rule.id for rule in rules for alias in rule.aliases}
    known.update((rule.id, rule.id) for rule in rules)
    known.update((name, own.rule.id) for own in placed for name in (own.rule.id, *own.rule.aliases))
    for own in placed:
        rule = _resolved(own, known, problems)
        patterns.extend(compile_rule(rule, len(rules)))
        rules.append(rule)
    return Rulebook(rules, patterns)


def _resolved(own: Placed, known: dict[str, str], problems: list[Problem]) -> Rule:
    """The rule with the present ids of the rules it names; unknown ones are problems."""
    from difflib import get_close_matches

    resolved: dict[str, Any] = {}
    for attribute, field in (("needs", "with"), ("unless", "unless"), ("beats", "beats")):
        names = []
        for index, name in enumerate(getattr(own.rule, attribute)):
            if name in known:
                names.append(known[name])
                continue
            near = get_close_matches(name, known, 1)
            hint = f" (did you mean `{near[0]}`?)" if near else ""
            problems.append(own.problem(f"{field}[{index}]", f"the id of a rule{hint}", f"`{name}`"))
            if attribute == "needs":
                names.append(name)  # a rule that needs what does not exist can never match
        resolved[attribute] = names
    return msgspec.structs.replace(own.rule, **resolved)
