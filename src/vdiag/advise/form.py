"""Prints a change of the server's arguments or environment in the form its user runs: a command line, a
systemd unit, docker, compose, Kubernetes or Python. Only the change is printed, never the user's other arguments;
the whole command with it is written.py's.

Lines that start with `#` say where the next lines go; they are harmless in a shell and in YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vdiag.advise import container as box
from vdiag.advise.arguments import flag_of
from vdiag.advise.shown import FORMS, Shown
from vdiag.advise.values import plain, words_of
from vdiag.advise.words import in_unit, quote

_SHELL = "# in the shell that starts the server; then start it again there:"
_SERVICE = "# in the service of your compose file:"
_UNIT = re.compile(r"[A-Za-z0-9:_.@-]{1,255}")


def deploy_of(context: Mapping[str, Any]) -> str:
    """How the server is run, one of FORMS: what the log showed, else a command line."""
    deploy = str(context.get("deploy") or "")
    shown = context.get("shown")
    if not deploy and isinstance(shown, Shown) and shown.command is not None:
        return shown.command.form
    return deploy if deploy in FORMS else "cli"


def change(
    set_: Mapping[str, Any],
    unset: Sequence[str],
    env: Mapping[str, str | None],
    context: Mapping[str, Any],
    container: Mapping[str, Any] | None = None,
) -> list[str]:
    """The lines to paste or put in place. `set_` and `unset` name engine arguments as Python does.

    A variable of `env` that is None is to be taken out. `container` is what its container is given (container.py); without a sign of another form it is docker's.
    Empty if the form has no such setting.
    """
    if container and deploy_of(context) in ("cli", "python"):
        context = {**context, "deploy": "docker"}
    form = {
        "cli": _cli,
        "systemd": _systemd,
        "docker": _docker,
        "compose": _compose,
        "kubernetes": _kubernetes,
        "python": _python,
    }[deploy_of(context)]
    gone = [*unset, *(name for name, value in set_.items() if value is None)]
    kept = {name: value for name, value in set_.items() if value is not None}
    if container and deploy_of(context) == "systemd" and not (kept or gone or env or box.unit(container)):
        return []
    if (
        container
        and deploy_of(context) == "kubernetes"
        and not (kept or env or any(box.kubernetes(container)))
    ):
        return []
    context = {**context, "container": container or {}}
    return form(kept, gone, env, context) if kept or gone or env or container else []


def words(set_: Mapping[str, Any]) -> list[str]:
    """The arguments as argv words: `--max-model-len 4096`, `--enforce-eager`; JSON for mappings."""
    return [word for name, value in set_.items() for word in words_of(name, value)]


def _model(context: Mapping[str, Any]) -> str:
    model = str(context.get("model") or "")
    return quote(model) if model.isprintable() and model else "<model>"


def _line(argv: Sequence[str]) -> str:
    return " ".join(quote(word) for word in argv)


def _dropped(unset: Sequence[str]) -> str:
    return ", ".join(flag_of(name) for name in unset)


def _kept(env: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in env.items() if value is not None}


def _gone(env: Mapping[str, str | None]) -> list[str]:
    return [name for name, value in env.items() if value is None]


def _in_shell(env: Mapping[str, str | None], alone: bool) -> list[str]:
    """Commands of the shell that starts the server; `alone`: no command line of the server follows."""
    lines = [f"export {name}={quote(value)}" for name, value in _kept(env).items()]
    if gone := _gone(env):
        lines.append(f"unset {' '.join(gone)}")
    return [_SHELL, *lines] if lines and alone else lines


def _cli(
    set_: Mapping[str, Any], unset: Sequence[str], env: Mapping[str, str | None], context: Mapping[str, Any]
) -> list[str]:
    lines = _in_shell(env, alone=not (set_ or unset))
    if set_ or unset:
        without = f"  # without {_dropped(unset)}" if unset else ""
        model = {"model": set_["model"]} if "model" in set_ else context
        rest = {name: value for name, value in set_.items() if name != "model"}
        added = f" {_line(words(rest))}" if rest else ""
        start = f"vllm serve {_model(model)}"
        if (started := _launcher(context)[:2]) and started[1:] == ["-m"]:
            start = f"{started[0]} -m vllm.entrypoints.openai.api_server --model {_model(model)}"
        lines.append(f"{start} …{added}{without}")
    return lines


def _launcher(context: Mapping[str, Any]) -> list[str]:
    """The words that start the server, in front of its arguments; empty where the log does not show them."""
    shown = context.get("shown")
    command = shown.command if isinstance(shown, Shown) else None
    return [word.value for word in command.head] if command is not None and not command.rebuilt else []


def _systemd(
    set_: Mapping[str, Any], unset: Sequence[str], env: Mapping[str, str | None], context: Mapping[str, Any]
) -> list[str]:
    named = str(context.get("unit") or "")
    unit = (
        named.removesuffix(".service") if _UNIT.fullmatch(named) and not named.startswith("-") else "<unit>"
    )
    lines = []
    rows = [f"Environment={in_unit(f'{name}={value}')}" for name, value in _kept(env).items()]
    if gone := _gone(env):
        rows.append(f"UnsetEnvironment={' '.join(gone)}")
    rows += box.unit(context["container"])
    if rows:
        lines += [f"sudo systemctl edit {unit}", "# put these lines into the editor:", "[Service]", *rows]
    if set_ or unset:
        lines.append(f"sudo systemctl edit --full {unit}")
    lines += _other_model(set_, context, "in the ExecStart= command")
    set_ = _without_model(set_)
    if set_:
        argv = " ".join(in_unit(word).replace("$", "$$") for word in words(set_))
        lines += ["# add at the end of the ExecStart= command:", argv]
    if unset:
        lines.append(f"# take out of the ExecStart= command: {_dropped(unset)}")
    return [*lines, "# then:", f"sudo systemctl restart {unit}"]


def _docker(
    set_: Mapping[str, Any], unset: Sequence[str], env: Mapping[str, str | None], context: Mapping[str, Any]
) -> list[str]:
    options = "".join(f" {option}" for option in box.docker(context["container"]))
    options += "".join(f" -e {quote(f'{name}={value}')}" for name, value in _kept(env).items())
    added = f" {_line(words(set_))}" if set_ else ""
    dropped = ", ".join([*map(flag_of, unset), *(f"-e {name}" for name in _gone(env))])
    without = f"  # without {dropped}" if dropped else ""
    tool = "podman" if _launcher(context)[:1] == ["podman"] else "docker"
    return [f"{tool} run{options} … <image> …{added}{without}"]


def _compose(
    set_: Mapping[str, Any], unset: Sequence[str], env: Mapping[str, str | None], context: Mapping[str, Any]
) -> list[str]:
    service = str(context.get("service") or "")
    lines = [
        f"# in the service {service} of your compose file:" if service.isprintable() and service else _SERVICE
    ]
    lines += _other_model(set_, context, "in its command")
    set_ = _without_model(set_)
    lines += box.compose(context["container"])
    if _kept(env):
        lines += ["environment:", *(f"  {name}: {json.dumps(value)}" for name, value in _kept(env).items())]
    if set_:
        lines += ["command:  # add to what is there", *(f"  - {item}" for item in _items(set_))]
        lines = [line.replace("$", "$$") if not line.startswith("#") else line for line in lines]
    if gone := _gone(env):
        lines.append(f"# take out of environment: and env_file: {', '.join(gone)}")
    if unset:
        lines.append(f"# take out of command: {_dropped(unset)}")
    return [*lines, "# then:", f"docker compose up -d {service}".rstrip()]


def _kubernetes(
    set_: Mapping[str, Any], unset: Sequence[str], env: Mapping[str, str | None], context: Mapping[str, Any]
) -> list[str]:
    mine, pod = box.kubernetes(context["container"])
    lines = _other_model(set_, context, "in the args (or the command) of the container")
    set_ = _without_model(set_)
    if mine or env or set_ or unset:
        lines.append("# in the container of your manifest:")
    lines += mine
    if _kept(env):
        lines.append("env:")
        for name, value in _kept(env).items():
            lines += [f"  - name: {name}", f"    value: {json.dumps(value)}"]
    if set_:
        lines += ["args:  # add to what is there", *(f"  - {item}" for item in _items(set_))]
    if gone := _gone(env):
        lines.append(f"# take out of env: {', '.join(gone)}")
    if unset:
        lines.append(f"# take out of args: {_dropped(unset)}")
    if pod:
        lines += ["# in the pod's spec, beside `containers:`", *pod]
    return [*lines, "# then:", "kubectl apply -f <manifest.yaml>"]


def _without_model(set_: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in set_.items() if name != "model"}


def _other_model(set_: Mapping[str, Any], context: Mapping[str, Any], where: str) -> list[str]:
    """The model stands first in a command as a rule, where `--model` behind it would not count: replace it."""
    if "model" not in set_:
        return []
    present = str(context.get("model") or "")
    named = present if present.isprintable() and present else "the model"
    return [f"# {where}, put {plain(set_['model'])} in place of {named}"]


def _items(set_: Mapping[str, Any]) -> list[str]:
    """YAML list items, `"--flag=value"` where there is one value; quoted as JSON, which YAML reads too."""
    items: list[str] = []
    for name, value in set_.items():
        argv = words({name: value})
        items += ["=".join(argv)] if len(argv) == 2 else argv
    return [json.dumps(item, ensure_ascii=False) for item in items]


def _python(
    set_: Mapping[str, Any], unset: Sequence[str], env: Mapping[str, str | None], context: Mapping[str, Any]
) -> list[str]:
    lines = _in_shell(env, alone=not (set_ or unset))
    if set_ or unset:
        model = set_.get("model") or context.get("model")
        shown = repr(str(model)) if model else '"<model>"'
        set_ = _without_model(set_)
        named = "".join(f", {name}={value!r}" for name, value in set_.items())
        without = f"  # without {', '.join(unset)}" if unset else ""
        lines.append(f"LLM({shown}, …{named}){without}")
    return lines
