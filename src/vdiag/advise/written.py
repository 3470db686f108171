"""A whole command with a change, in the form its user runs: lines ready to paste.

A command longer than a terminal is wide goes on with `\\` at the ends of its lines, an option a line. Lines that start
with `#` say where the next lines go; they are harmless in a shell, a unit file and YAML.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vdiag.advise import container as box
from vdiag.advise.argument_list import options, torn
from vdiag.advise.command import Command, changed, option_words
from vdiag.advise.rebuilt import called
from vdiag.advise.shown import Shown
from vdiag.advise.words import Unsafe, Word, in_unit

WIDE = 76  # columns of a command on one line; a terminal of 80 indents it by four
_GOES_ON = "\\"
_NAME = re.compile(r"[A-Za-z0-9][\w.:@-]{0,254}")


def corrected(
    set_: Mapping[str, Any],
    unset: Sequence[str],
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    context: Mapping[str, Any],
) -> list[str]:
    """The user's own command with a change; empty where the log does not show it whole, or it cannot be carried over."""
    shown = context.get("shown")
    if not isinstance(shown, Shown):
        return []
    if context.get("deploy") == "python":
        return _call(set_, unset, env, context)
    command = shown.command
    if command is None:
        return []
    if command.form not in ("cli", "docker") and not (set_ or unset):
        return []  # the change alone is a whole drop-in or fragment
    if command.rebuilt and command.form == "docker" and not (set_ or unset):
        return []
    try:
        version = str(context.get("vllm") or "")
        made = changed(command, set_, unset, env, container, version)
        if torn([word.value for word in made.words], version):
            return []
        lines = _FORMS[command.form](made, env, container, context)
    except Unsafe:
        return []
    whole = "\n".join(lines)
    if not all(map(str.isprintable, lines)) or any(len(text) > 3 and text in whole for text in made.hidden):
        return []
    return lines


def as_shown(shown: Shown) -> str:
    """The command as the log shows it, without secrets; empty where it does not show it whole."""
    command = shown.command
    if command is None or command.rebuilt:
        return ""
    try:
        made = changed(command, {}, [], {}, {}, None)
    except Unsafe:
        return ""
    text = "\n".join(_lines(made))
    return "" if any(len(value) > 3 and value in text for value in made.hidden) else text


def _rows(command: Command) -> list[str]:
    """The command in pieces that a line is not broken in, a line each; docker's options share lines."""
    head = list(command.head)
    rows: list[str] = []
    if head and head[0].value.rpartition("/")[2] in ("docker", "podman"):
        pieces, image = _options(head)
        for piece in pieces:
            if rows and len(f"{rows[-1]} {piece}") <= WIDE - 2:
                rows[-1] += f" {piece}"
            else:
                rows.append(piece)
        rows.append(image)
    else:
        rows.append(_joined(head))
    fresh = True  # the line holds the launcher alone
    for option in options([word.value for word in command.words], None):
        own = _joined(command.words[option.at : option.at + option.size])
        if not option.flag and fresh:
            rows[-1] = f"{rows[-1]} {own}".lstrip()
        else:
            rows.append(own)
        fresh = False
    return [row for row in rows if row]


def _options(head: list[Word]) -> tuple[list[str], str]:
    """(`docker run` and its options, a piece each; the image with what is started in it)."""
    pieces = [_joined(head[:2])]
    at = 2
    while at < len(head) and (head[at].value.startswith("-") or head[at].value == "…"):
        size = option_words(head[at].value) if head[at].value.startswith("-") else 1
        pieces.append(_joined(head[at : at + size]))
        at += size
    return pieces, _joined(head[at:])


def _joined(words: Sequence[Word]) -> str:
    return " ".join(word.raw for word in words)


def _lines(command: Command, start: str = "") -> list[str]:
    """The command on one line, or on several that go on."""
    rows = _rows(command)
    start += str(command.around.get("sudo", ""))
    front = [f"{name}={value}" for name, value in command.env.items()]
    if len(" ".join([*front, rows[0]])) <= WIDE:
        front, rows[0] = [], " ".join([*front, rows[0]])
    rows = [*front, *rows]
    rows[0] = f"{start}{rows[0]}"
    if len(" ".join(rows)) <= WIDE:
        return [" ".join(rows)]
    last = len(rows) - 1
    return [f"{'  ' if i else ''}{row}{'' if i == last else ' ' + _GOES_ON}" for i, row in enumerate(rows)]


def _cli(
    command: Command,
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    context: Mapping[str, Any],
) -> list[str]:
    gone = [name for name, value in env.items() if value is None]
    return [*([f"unset {' '.join(gone)}"] if gone else []), *_lines(command)]


def _systemd(
    command: Command,
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    context: Mapping[str, Any],
) -> list[str]:
    name = str(context.get("unit") or command.around.get("unit") or "").removesuffix(".service")
    unit = name if _NAME.fullmatch(name) else "<unit>"
    rows = [f"Environment={in_unit(f'{name}={value}')}" for name, value in env.items() if value is not None]
    if gone := [name for name, value in env.items() if value is None]:
        rows.append(f"UnsetEnvironment={' '.join(gone)}")
    rows += box.unit(container)
    told = [f"# by what the server printed; compare with: systemctl cat {unit}"] if command.rebuilt else []
    return [
        f"sudo systemctl edit {unit}", "# put these lines into the editor:", *told,
        "[Service]", *rows, "ExecStart=", *_lines(command, "ExecStart="),
        "# then:", f"sudo systemctl restart {unit}",
    ]  # fmt: skip


def _docker(
    command: Command,
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    context: Mapping[str, Any],
) -> list[str]:
    tool = command.head[0].raw
    name = ""
    values = [word.value for word in command.head]
    for at, word in enumerate(values):
        if word == "--name" and at + 1 < len(values):
            name = values[at + 1]
        elif word.startswith("--name="):
            name = word[7:]
    sudo = command.around.get("sudo", "")
    first = [f"{sudo}{tool} rm -f {name}"] if _NAME.fullmatch(name) else []
    return [*first, *_lines(command)]


def _compose(
    command: Command,
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    context: Mapping[str, Any],
) -> list[str]:
    service = str(command.around.get("service") or context.get("service") or "")
    service = service if _NAME.fullmatch(service) else ""
    lines = [
        f"# in the service {service} of your compose file:"
        if service
        else "# in the service of your compose file:"
    ]
    lines += box.compose(container)
    kept = {name: value for name, value in env.items() if value is not None}
    if kept:
        lines += ["environment:", *(f"  {name}: {json.dumps(value)}" for name, value in kept.items())]
    key = command.around.get("key", "command")
    lines += [*_told(command), f"{key}:  # the whole list", *_items(command, "  ")]
    if gone := [name for name, value in env.items() if value is None]:
        lines.append(f"# take out of environment: and env_file: {', '.join(gone)}")
    return [*lines, "# then:", f"docker compose up -d {service}".rstrip()]


def _told(command: Command) -> list[str]:
    return ["# keep `vllm serve` in front of it where it stands there now:"] if command.rebuilt else []


def _items(command: Command, indent: str) -> list[str]:
    """The words as items of a YAML list; quoted as JSON, which YAML reads too."""
    if command.inner:
        words = [*command.outer, Word(_inner(command), "")]
    else:
        words = [*command.head, *command.words]
    return [f"{indent}- {json.dumps(word.raw, ensure_ascii=False)}" for word in words]


def _inner(command: Command) -> str:
    """What stands in one word behind `sh -c`."""
    words = [f"{name}={value}" for name, value in command.env.items()]
    return " ".join([*words, *(word.raw for word in (*command.head, *command.words))])


def _kubernetes(
    command: Command,
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    context: Mapping[str, Any],
) -> list[str]:
    deployment = str(command.around.get("deployment") or context.get("deployment") or "")
    name = str(command.around.get("pod_container") or context.get("pod_container") or "")
    mine, pod = box.kubernetes(container)
    rows = list(mine)
    kept = {name: value for name, value in env.items() if value is not None}
    if kept:
        rows.append("env:")
        for variable, value in kept.items():
            rows += [f"  - name: {variable}", f"    value: {json.dumps(value)}"]
    key = command.around.get("key", "args")
    rows += [*_told(command), f"{key}:  # the whole list", *_items(command, "  ")]
    gone = [name for name, value in env.items() if value is None]
    taken = [f"# take out of env: {', '.join(gone)}"] if gone else []
    if not _NAME.fullmatch(deployment) or deployment.startswith("-"):
        lines = ["# in the container of your manifest:", *rows, *taken]
        if pod:
            lines += ["# in the pod's spec, beside `containers:`", *pod]
        return [*lines, "# then:", "kubectl apply -f <manifest.yaml>"]
    space = str(command.around.get("kube_namespace") or context.get("kube_namespace") or "")
    where = f" -n {space}" if _NAME.fullmatch(space) else ""
    return [
        f"kubectl patch deployment {deployment}{where} --patch-file /dev/stdin <<'EOF'",
        "spec:", "  template:", "    spec:", *(f"      {row}" for row in pod), "      containers:",
        f"        - name: {json.dumps(name) if _NAME.fullmatch(name) else '<container>'}",
        *(f"          {row}" for row in rows),
        "EOF", *taken,
    ]  # fmt: skip


def _call(
    set_: Mapping[str, Any],
    unset: Sequence[str],
    env: Mapping[str, str | None],
    context: Mapping[str, Any],
) -> list[str]:
    """The call of a script with a change; empty where its arguments are not known, or only variables change."""
    args = context.get("args")
    if not args or not isinstance(args, dict) or context.get("args_cut") or env or not (set_ or unset):
        return []
    try:
        return [called(args, tuple(context.get("args_opaque") or ()), set_, unset)]
    except Unsafe:
        return []


_FORMS = {
    "cli": _cli,
    "systemd": _systemd,
    "docker": _docker,
    "compose": _compose,
    "kubernetes": _kubernetes,
}
