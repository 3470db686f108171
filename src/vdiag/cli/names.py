"""What a person may have meant by a name that is no file: a command, a rule, or a line of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdiag.rulebook import Rulebook


OF_RULES = ("list", "lint", "test", "new", "audit", "catalogue")  # commands of `vdiag rules`

OPTIONS = {  # what other programs call an option: how it is written here
    "--json": "--format json",
    "--output": "--format",
    "--no-color": "--color never",
    "--verbose": "--all",
    "-v": "--all",
    "-V": "--version",
}


def meant_option(name: str, known: Iterable[str]) -> str:
    """How an option that is not there is written here, if the command (its `known` options) has it; else empty."""
    meant = OPTIONS.get(name, "")
    return meant if meant == "--version" or meant.split(" ")[0] in known else ""


def without_lines(files: Iterable[str]) -> tuple[list[str], list[str]]:
    """The files, `vllm.log:47` as `vllm.log`, and what is to be said of each that was given so."""
    names, remarks = [], []
    for given in files:
        name, _, line = given.rpartition(":")
        if name and line.isdecimal() and os.path.exists(name) and not os.path.exists(given):
            remarks.append(f"{given}: vdiag reads whole files; it reads all of {name}, not only line {line}")
            names.append(name)
        else:
            names.append(given)
    return names, remarks


def with_meaning(problem: str, files: Iterable[str], rulebook: Rulebook) -> str:
    """What is wrong with one of the files; where there is none of that name, with what may have been meant."""
    for name in files:
        if problem.startswith(f"{name}: ") and name != "-" and not os.path.lexists(name):
            return f"{name or repr(name)}: no such file{_meant(name, rulebook)}"
    return problem


def _meant(name: str, rulebook: Rulebook) -> str:
    from difflib import get_close_matches

    from vdiag.cli.commands import COMMANDS

    if "://" in name:
        return "; vdiag opens no addresses: fetch it, and pipe it in with `curl -fsSL ADDRESS | vdiag`"
    if name in ("help", "version"):
        return f"; did you mean `vdiag --{name}`?"
    if name in OF_RULES:
        return f"; did you mean the command `rules {name}`?"
    if "." not in name and (near := get_close_matches(name.lower(), COMMANDS, 1, 0.7)):
        return f"; did you mean the command `{near[0]}`?"
    if rulebook.by_id(name) is not None:
        return f"; `vdiag explain {name}` tells what the rule of this name knows"
    return beside(name)


def beside(name: str) -> str:
    """The file of nearly this name in the same folder, as a question; empty if there is none."""
    from difflib import get_close_matches

    from vdiag.render.page import one_row

    folder, last = os.path.split(name)
    try:
        there = os.listdir(folder or ".")
    except OSError:
        return ""
    near = get_close_matches(last, there, 1, 0.8)
    return f"; did you mean {one_row(os.path.join(folder, near[0]))}?" if near else ""


def near_ids(name: str, ids: Iterable[str]) -> list[str]:
    """Up to five rule ids a person may have meant: near spellings, then those that share a word with it."""
    from difflib import get_close_matches

    told = list(ids)
    near = get_close_matches(name.lower(), told, n=5, cutoff=0.6)
    words = {word for word in name.lower().replace("_", "-").split("-") if len(word) > 2}
    return near + [id_ for id_ in told if words & set(id_.split("-")) and id_ not in near][: 5 - len(near)]
