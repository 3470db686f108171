"""A strict reading of a command line by the argument list of one vLLM version (arguments.json).

It says what stands behind each flag and what is wrong with a command, so that a command that is printed can be held
against the version it is for. `<placeholders>` pass for any value: a person fills them in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from vdiag.advise.arguments import lists, number
from vdiag.advise.values import typed

#: What stands behind a flag, by the letter in arguments.json.
KINDS = {
    "0": "the version lacks the flag",
    "n": "nothing",
    "b": "nothing; `--no-…` turns it off",
    "o": "a word, or nothing",
    "v": "a word",
    "i": "an integer",
    "k": "an integer, `32k` or `auto`",
    "f": "a number",
    "s": "one or more words",
    "j": "JSON; its keys also as `--flag.key value`",
}
_TYPED = {"i": r"-?\d+", "k": r"-?\d+|\d+(?:\.\d+)?[kmgtKMGT]|auto", "f": r"-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?"}
PLACEHOLDER = re.compile(r"<[\w ./|,:'-]+>(?:/[\w./-]+)?")
_NEGATIVE = re.compile(r"-\d+(?:\.\d+)?")
_GLUED = re.compile(r"(-O)(\.?.+)")  # `-O3`, `-O.mode=3`


class Option(NamedTuple):
    """A flag with what stands behind it, or a positional argument (`flag` empty)."""

    flag: str  # `--max-model-len`, the long name; without `--no-`
    key: str  # `mode` of `--compilation-config.mode`
    off: bool  # `--no-…`
    inline: bool  # the value is glued to the flag: `--flag=value`
    at: int  # index of its first word
    size: int  # number of words
    values: tuple[str, ...]


def listed(version: str | None) -> int:
    """The column of the list for a version: the nearest below it, the oldest or, unknown, the newest."""
    versions = lists()["versions"]
    asked = number(version)
    if not asked:
        return len(versions) - 1
    return max((i for i, one in enumerate(versions) if number(one) <= asked), default=0)


def kind(flag: str, version: str | None) -> str:
    """A letter of KINDS; for a flag that the version's list lacks that of the nearest list, `0` if none has it."""
    kinds: str = lists()["flags"].get(flag, "")
    column = listed(version)
    near = sorted(range(len(kinds)), key=lambda i: (abs(i - column), i))
    return next((kinds[i] for i in near if kinds[i] != "0"), "0")


def choices(flag: str, version: str | None) -> tuple[str, ...]:
    """The only values of a flag in a version; empty where any is taken."""
    column = listed(version)
    for values, having in lists()["choices"].get(flag, {}).items():
        if having[column] == "1":
            return tuple(values.split("|"))
    return ()


def is_flag(word: str) -> bool:
    """Whether a word is a flag and no value."""
    return (
        len(word) > 1 and word[0] == "-" and not _NEGATIVE.fullmatch(word) and " " not in word.split("=")[0]
    )


def options(words: Sequence[str], version: str | None) -> Iterator[Option]:
    """Words behind `vllm serve` as options, in order; a flag that no list knows takes one word."""
    at = 0
    while at < len(words):
        word = words[at]
        if not is_flag(word):
            yield Option("", "", False, False, at, 1, (word,))
            at += 1
            continue
        flag, key, off, value = _spelled(word)
        takes = kind(flag, version)
        follows = 0
        while at + 1 + follows < len(words) and not is_flag(words[at + 1 + follows]):
            follows += 1
        if value is not None or (takes in "nb" and not key):
            follows = 0
        elif takes != "s" or key:
            follows = min(follows, 1)
        values = (value,) if value is not None else tuple(words[at + 1 : at + 1 + follows])
        yield Option(flag, key, off, value is not None, at, 1 + follows, values)
        at += 1 + follows


def given(words: Sequence[str], version: str | None) -> dict[str, Any]:
    """The arguments by Python names, `compilation_config.mode` for a key of one; the first word alone is the model.

    A flag without a value is True, with `--no-` before it False; of several values it is their list.
    """
    found: dict[str, Any] = {}
    for option in options(words, version):
        values = [typed(value) for value in option.values]
        if option.flag:
            name = ".".join(filter(None, (option.flag.lstrip("-").replace("-", "_"), option.key)))
            found[name] = not option.off if not values else values[0] if len(values) == 1 else values
        elif option.at == 0:
            found["model"] = values[0]
    return found


def _spelled(word: str) -> tuple[str, str, bool, str | None]:
    """(long flag, dotted key, negated, glued value) of a flag as people spell it."""
    short: dict[str, str] = lists()["short"]
    name, equals, value = word.partition("=")
    glued = value if equals else None
    if (found := _GLUED.fullmatch(name)) and name not in short:
        if found[2].startswith("."):
            return short[found[1]], found[2][1:], False, glued
        return short[found[1]], "", False, found[2]
    name, _, key = name.partition(".")
    if not name.startswith("--"):
        return short.get(name, name), key, False, glued
    name = name.replace("_", "-")
    if name.startswith("--no-") and name not in lists()["flags"] and "--" + name[5:] in lists()["flags"]:
        return "--" + name[5:], key, True, glued
    return name, key, False, glued


def problems(words: Sequence[str], version: str | None) -> list[str]:
    """What that version's parser would refuse, a sentence each; empty if it takes all of it."""
    column = listed(version)
    found: list[str] = []
    positional = 0
    for option in options(words, version):
        if not option.flag:
            positional += 1
            if positional > 1:
                found.append(f"{option.values[0]!r} stands where no value is taken")
            continue
        letters: str = lists()["flags"].get(option.flag, "")
        letter = letters[column] if letters else "0"
        if letter == "0":
            found.append(f"{option.flag} is unknown")
        else:
            found += _wrong(option, letter, version)
    return found


def torn(words: Sequence[str], version: str | None) -> bool:
    """Whether words are no whole command for any version: a flag that none knows, a value that is missing or too many."""
    read = list(options(words, version))
    return sum(not option.flag for option in read) > 1 or any(
        option.flag
        and (
            option.flag not in lists()["flags"]
            or (not option.values and kind(option.flag, version) not in "nbo")
        )
        for option in read
    )


def _wrong(option: Option, letter: str, version: str | None) -> Iterator[str]:
    flag, values = option.flag, option.values
    if option.off and letter != "b":
        yield f"{flag} cannot be negated"
    if option.key:
        if letter not in "jv":
            yield f"{flag} has no keys"
        if len(values) != 1:
            yield f"{flag}.{option.key} needs a value"
        return
    if letter in "nb":
        if values:
            yield f"{flag} takes no value"
        return
    if not values and letter != "o":
        yield f"{flag} needs a value"
    allowed = choices(flag, version)
    for value in values:
        if PLACEHOLDER.fullmatch(value):
            continue
        if allowed and value not in (*allowed, "None"):
            yield f"{flag} takes {', '.join(allowed)}, not {value!r}"
        elif letter in _TYPED and not re.fullmatch(_TYPED[letter], value) and value != "None":
            yield f"{flag} takes {KINDS[letter]}, not {value!r}"
        elif (
            letter == "j" and not _is_json(value) and not (flag == "--compilation-config" and value.isdigit())
        ):
            yield f"{flag} takes JSON, not {value!r}"


def _is_json(value: str) -> bool:
    try:
        read: Any = json.loads(value)
    except (ValueError, RecursionError):
        return "<" in value and _is_json(PLACEHOLDER.sub("0", value)) if PLACEHOLDER.search(value) else False
    return isinstance(read, (dict, list)) or read is None
