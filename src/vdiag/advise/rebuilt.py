"""The command of a server by the arguments that it printed itself: `non-default args: {…}`.

Values become flags by the argument list of the log's version. What was printed as an object whose parts nobody typed
stays a visible `<value of --flag>`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vdiag.advise import secrets
from vdiag.advise.argument_list import kind
from vdiag.advise.arguments import flag_of, lists, number
from vdiag.advise.command import Command
from vdiag.advise.values import words_of
from vdiag.advise.words import LONGEST, Unsafe, Word

_OF_LLM = ("disable_log_stats", "model_tag")  # set by LLM itself, or the server's
_OWN = ("subparser", "dispatch_function", "config")  # of the program itself
MOST = 80  # arguments of a command that a person still reads


def rebuilt(
    args: Mapping[str, Any], opaque: tuple[str, ...], form: str, version: str | None, binary: str
) -> Command | None:
    """The command of these arguments; None where there is no model among them.

    `opaque`: arguments whose values were printed as objects. `binary`: the path of `vllm` for a unit; empty: unknown.
    """
    model = args.get("model_tag") or args.get("model")
    if not isinstance(model, str) or not model or not model.isprintable() or len(args) > MOST:
        return None
    served = "model_tag" in args or form in ("cli", "systemd")
    words = [secrets.without(model)] if served else ["--model", secrets.without(model)]
    for name, value in args.items():
        if name not in ("model", "model_tag") and name not in opaque:
            words += argument(name, value, version)
    for name in opaque:
        words += [flag_of(name), f"<value of {flag_of(name)}>"]
    heads = {
        "cli": ["vllm", "serve"],
        "systemd": [binary or "<path of vllm>", "serve"],
        "docker": ["docker", "run", "…", "<image>"],
    }
    command = Command(
        form=form,
        head=[Word(word, word) for word in heads.get(form, [])],
        words=[],
        rebuilt=True,
        around={"key": "args" if form == "kubernetes" else "command"},
    )
    command.words = [Word(command.quote(word), word) for word in words]
    return command


def argument(name: str, value: Any, version: str | None) -> list[str]:
    """One argument as words; none for what is not given by a flag. Raises Unsafe for what cannot be told."""
    letter = kind(flag_of(name), version)
    if value is None or name in _OWN:
        return []
    if letter == "0":
        raise Unsafe("an argument that no list has")
    value = secrets.open_value(name, value)
    if name == "lora_modules" and isinstance(value, list):
        value = [_adapter(item) for item in value]
    if isinstance(value, float):
        words = [flag_of(name), repr(value)]
    elif isinstance(value, dict) and letter != "j":
        words = [flag_of(name), _pairs(value) if letter == "v" and _flat(value) else json.dumps(value)]
    elif name == "middleware" and isinstance(value, list):
        words = [word for item in value for word in (flag_of(name), str(item))]
    elif secrets.of_flag(flag_of(name)) and isinstance(value, list):
        words = [flag_of(name), *map(str, value)]
    else:
        words = words_of(name, value, letter)
    if any(not word.isprintable() for word in words):
        raise Unsafe("it holds what cannot be shown")
    return words


def not_defaults(values: Mapping[str, Any], version: str | None) -> dict[str, Any]:
    """Of all arguments of a vLLM before 0.9 those that somebody gave.

    A default counts where the lists next to the version agree on it; what then is left over is what the server ran with, too.
    """
    every: dict[str, dict[str, Any]] = lists()["defaults"]
    asked = number(version)
    around = [one for one in every if number(one) == asked] or list(every)
    kept = {}
    for name, value in values.items():
        defaults = [every[one].get(flag_of(name)) for one in around]
        if name in _OWN or value is None or value == "auto" or all(value == default for default in defaults):
            continue
        empty = value is False or (not value and not isinstance(value, (int, float)))
        if not empty or not all(default is None for default in defaults):
            kept[name] = value
    return kept


def _adapter(item: Any) -> str:
    if isinstance(item, dict):
        return json.dumps({key: part for key, part in item.items() if part not in (None, False)})
    return str(item)


def _flat(value: Mapping[str, Any]) -> bool:
    return bool(value) and all(isinstance(item, int) for item in value.values())


def _pairs(value: Mapping[str, Any]) -> str:
    """`image=4,video=1`, as the versions before JSON take it."""
    return ",".join(f"{key}={item}" for key, item in value.items())


def called(
    args: Mapping[str, Any], opaque: tuple[str, ...], set_: Mapping[str, Any], unset: Sequence[str]
) -> str:
    """`LLM('acme/m', max_model_len=8192)`: a script's call by the arguments that it printed, with a change.

    Raises Unsafe for what cannot be shown.
    """
    given = {name: secrets.open_value(name, value) for name, value in args.items() if name not in opaque}
    given = {name: value for name, value in given.items() if name not in _OF_LLM}
    given.update(set_)
    model = given.pop("model", "<model>")
    parts = [repr(model)]
    parts += [f"{name}={value!r}" for name, value in given.items() if name not in unset and value is not None]
    parts += [f"{name}=<value of {name}>" for name in opaque if name not in set_ and name not in unset]
    text = f"LLM({', '.join(parts)})"
    if not text.isprintable() or len(text) > LONGEST or not all(name.isidentifier() for name in given):
        raise Unsafe("it holds what cannot be shown")
    return text
