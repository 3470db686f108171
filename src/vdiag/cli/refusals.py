"""What could not be fetched, said briefly, and the command that gets it by hand."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdiag.intake.fetch import Fetched

LONGEST = 100  # characters quoted of what another program says
_QUOTED = re.compile(r"\((.+)\)(?=: the whole boot is read$)")


def retell(fetched: Fetched, containers: Sequence[str]) -> None:
    """Shortens what was quoted, and tells what to type for each container that could not be read."""
    fetched.notes = [_QUOTED.sub(lambda m: f"({brief(m[1])})", note) for note in fetched.notes]
    fetched.problems = [_with_command(problem, containers) for problem in fetched.problems]


def brief(said: str) -> str:
    """The first sentence of a program's complaint, cut where it is very long."""
    first = re.split(r"(?<=[a-z0-9)])[.!] (?=[A-Z])", said, maxsplit=1)[0].rstrip(".")
    return first if len(first) <= LONGEST else first[: LONGEST - 1].rstrip() + "…"


def _with_command(problem: str, containers: Sequence[str]) -> str:
    name = next((name for name in containers if problem.startswith(f"{name}: ")), None)
    if name is None:
        return problem
    said = problem[len(name) + 2 :].split("; ")
    there = [part for part in said if "not installed" not in part]
    engine = "podman" if there and all(part.startswith("podman") for part in there) else "docker"
    told = f"{name}: {'; '.join(map(brief, said))}"
    if any("no such" in part.lower() for part in there):
        return f"{told}\nThe containers there are:\n\n    {engine} ps --all\n"
    right = "sudo " if any("permission denied" in part.lower() for part in there) else ""
    when = "With more rights" if right else f"Once {engine} answers" if there else "On the machine it runs on"
    return f"{told}\n{when}:\n\n    {right}{engine} logs --timestamps {shlex.quote(name)} 2>&1 | vdiag\n"


__all__ = ["brief", "retell"]
