"""The rule schema: what a contributor writes in YAML, as typed values.

A rule is data. Nothing here knows how logs are read; `compile.py` turns phrases into patterns and
`match/` runs them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vdiag.model import Phase, Role, Safety, Severity

VLLM = "vllm-project/vllm"


class Pattern(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A wording as a regular expression, for what a phrase cannot say. White space in it matches any."""

    regex: str
    since: str = ""  # first vLLM version that prints it
    until: str = ""  # last one


class FixRule(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One fix. `{fact}` in any text is filled in from captures, the log's facts or advise/'s functions."""

    do: str
    run: list[str] = []  # commands to paste
    set: dict[str, Any] = {}  # engine arguments, by their Python name
    unset: list[str] = []  # engine arguments to drop
    env: dict[str, str] = {}  # environment variables of the server
    container: dict[
        str, Any
    ] = {}  # what its container is given, by docker compose's names (advise/container.py)
    safety: Safety = Safety.SAFE
    note: str = ""
    only_if: list[str] = msgspec.field(name="if", default_factory=list)  # `fact`, `not fact`, `fact=value`
    since: str = ""  # only for logs of this vLLM version or later (or of an unknown version)
    until: str = ""  # only for logs up to this version (or of an unknown version)


class Upstream(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An upstream issue about this failure."""

    issue: str  # owner/repo#number
    fixed_in: str = ""  # the first version of `package` that has the fix
    package: str = ""  # what to upgrade, by its name for pip; needed where the issue is not vLLM's own
    says: str = ""  # only of messages that hold this text, where a rule names several failures

    @property
    def package_name(self) -> str:
        """The package that `fixed_in` speaks of; empty where it is not said."""
        return self.package or ("vllm" if self.issue.startswith(f"{VLLM}#") else "")


class Rule(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One entry of the rulebook. See docs/rules.md for what each field does."""

    id: str
    title: str
    why: str = ""
    phrases: list[str] = []  # wordings, newest first, with typed placeholders
    patterns: list[Pattern] = []
    fixes: list[FixRule] = []
    examples: list[str] = []
    lookalikes: list[str] = []
    role: Role = Role.CAUSE
    severity: Severity = Severity.FATAL
    where: str = "any"  # any | exception | log | kernel | unit | native | http
    level: str = "error"  # the lowest log level on which a cause counts: error | warning | info | debug
    at: str = ""  # the capture whose start is the root line
    frames: list[
        str
    ] = []  # any of these stands in a frame (`file.py`, `function`, `file.py:function`, `folder/`)
    phase: list[Phase] = []  # where the episode must stand; with `frames`, decides where no frame is known
    needs: list[str] = msgspec.field(
        name="with", default_factory=list
    )  # rules that must match in the episode
    unless: list[str] = []  # rules that must not
    beats: list[str] = []  # rules this one wins against where both match in an episode
    alone: bool = True  # false: counts only if something in the episode failed
    often: float = 0.0  # the share of the episode's lines from the same place in the code that must match
    repeats: int = 1  # counts only from this many matching lines in the episode
    literal: str = ""  # what the prefilter looks for, if the derived one is poor
    avoid: list[str] = []
    upstream: list[Upstream] = []
    refs: list[str] = []
    aliases: list[str] = []
    marks: str = ""  # context rules: start | ready | or the phase whose beginning this line marks
    takes: str = ""  # context rules that mark a phase: how long it usually takes, in words
