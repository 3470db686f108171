"""The command that starts a server, as the log shows it or as its arguments tell it, and the same with a change.

Only what a fix changes is touched: a flag's value is replaced where it stands, in the spelling it has; what is new
comes last; order, quoting, variables and docker's options stay. Secrets become placeholders (secrets.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from vdiag.advise import container as box
from vdiag.advise import secrets
from vdiag.advise.argument_list import Option, kind, options
from vdiag.advise.arguments import flag_of, known_flags
from vdiag.advise.values import plain, words_of
from vdiag.advise.words import Unsafe, Word, in_unit, quote

MOST_WORDS = 400
Quote = Callable[[str], str]


class Command(msgspec.Struct):
    """A command line. `head` goes up to what vLLM's own arguments follow, `words` are those."""

    form: str  # one of form.FORMS: how it is written
    head: list[Word]
    words: list[Word]
    env: dict[str, str] = {}  # in front of it: name → value as it was spelled
    rebuilt: bool = False  # from the arguments the server printed
    inner: bool = False  # it stood in one word, behind `sh -c`
    outer: list[Word] = []  # what stood in front of that word
    around: dict[str, Any] = {}  # names: unit, service, deployment, pod_container, key
    hidden: list[str] = []  # secrets that a placeholder stands for now

    @property
    def quote(self) -> Quote:
        """How a new word is spelled in this form."""
        if self.inner or self.form in ("cli", "docker"):
            return quote
        return {"systemd": _in_exec, "compose": _in_compose}.get(self.form, str)

    @property
    def model(self) -> str:
        """The model that the words name; empty if they do not."""
        return _model_of(self.words)


def _in_exec(word: str) -> str:
    return in_unit(word).replace("$", "$$")


def _in_compose(word: str) -> str:
    return word.replace("$", "$$")


def changed(
    command: Command,
    set_: Mapping[str, Any],
    unset: Sequence[str],
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    version: str | None,
) -> Command:
    """The command with engine arguments set and taken out, variables and what its container is given.

    Raises Unsafe where it cannot be written down whole.
    """
    if len(command.head) + len(command.words) > MOST_WORDS:
        raise Unsafe("it is too long to be read")
    words = _opened(list(command.words), command, version)
    words = [word if (text := secrets.without(word.value)) == word.value else _spelled(text, command)
             for word in words]  # fmt: skip
    for name in [*unset, *(name for name, value in set_.items() if value is None)]:
        words = _without(words, name, version)
    for name, value in set_.items():
        if value is not None:
            words = _with(words, name, value, command, version)
    made = msgspec.structs.replace(command, words=words, head=list(command.head))
    made.env = {name: _assigned(name, raw, made) for name, raw in command.env.items()}
    if command.head and command.head[0].value.rpartition("/")[2] in ("docker", "podman"):
        _docker(made, env, container)
    elif command.form == "cli":
        for name, value in env.items():
            made.env.pop(name, None)
            if value is not None:
                made.env[name] = quote(value)
    if any(
        secrets.of_flag(word.value.partition("=")[0])
        for word in (*made.outer, *made.head)
        if "<" not in word.raw
    ):
        raise Unsafe("a program in front of it is given a secret")
    for word in (*made.outer, *made.head, *made.words):
        if secrets.without(word.value) != word.value or not word.raw.isprintable():
            raise Unsafe("it holds what cannot be shown")
    return made


def _assigned(name: str, raw: str, made: Command) -> str:
    """A variable's value, as it was spelled or as a placeholder."""
    value = raw.strip("'\"")
    shown = secrets.assigned(name, value)
    if shown == value:
        return raw
    made.hidden.append(value)
    return quote(shown)


def _opened(words: list[Word], command: Command, version: str | None) -> list[Word]:
    """Words with a placeholder for each secret that the name of its flag or JSON key tells."""
    made: list[Word] = []
    for option in options([word.value for word in words], version):
        own = words[option.at : option.at + option.size]
        if option.flag and option.values and _holds_secret(option.flag, option.key):
            if all(map(secrets.reference, option.values)):
                made += own
                continue
            command.hidden += option.values
            shown = secrets.placeholder(option.key or option.flag)
            name = own[0].value.partition("=")[0]
            if option.inline:
                own = [_spelled(f"{name}={shown}", command, glued=True)]
            else:
                own = [own[0], _spelled(shown, command)]
        elif option.flag and len(option.values) == 1 and option.values[0].lstrip().startswith("{"):
            own = _json_opened(option, own, command)
        made += own
    return made


def _holds_secret(flag: str, key: str) -> bool:
    return secrets.of_flag(flag) or bool(key and secrets.of_name(key))


def _json_opened(option: Option, own: list[Word], command: Command) -> list[Word]:
    try:
        read = json.loads(option.values[0])
        shown = secrets.open_value("", read, command.hidden)
    except (ValueError, RecursionError):
        if secrets.of_name(option.values[0]):
            raise Unsafe("it holds what cannot be shown") from None
        return own
    if shown == read:
        return own
    text = json.dumps(shown, ensure_ascii=False)
    if option.inline:
        return [_spelled(f"{own[0].value.partition('=')[0]}={text}", command)]
    return [own[0], _spelled(text, command)]


def _spelled(value: str, command: Command, *, glued: bool = False) -> Word:
    """A new word; `glued`: `--flag=<placeholder>`, whose placeholder stays readable."""
    if glued:
        name, _, rest = value.partition("=")
        return Word(f"{name}={command.quote(rest)}", value)
    return Word(command.quote(value), value)


# ---- engine arguments -----------------------------------------------------------------------------------


def _without(words: list[Word], name: str, version: str | None) -> list[Word]:
    """Words without an argument, however it is spelled.

    Behind a flag that no version knows the model may stand: that stays where no other word is it.
    """
    flag = flag_of(name)
    if "--" + flag[5:] in known_flags() and flag not in known_flags():
        flag = "--" + flag[5:]  # `--no-enable-prefix-caching`
    gone = [o for o in options([word.value for word in words], version) if o.flag == flag]
    whole = {index for option in gone for index in range(option.at, option.at + option.size)}
    kept = [word for index, word in enumerate(words) if index not in whole]
    if kind(flag, version) == "0" and not _model_of(kept):
        flags = {option.at for option in gone}
        return [word for index, word in enumerate(words) if index not in flags]
    return kept


def _model_of(words: Sequence[Word]) -> str:
    """The model that words name; empty if they do not."""
    found = ""
    for option in options([word.value for word in words], None):
        if option.flag == "--model" and option.values:
            return option.values[0]
        if not option.flag and not found:
            found = option.values[0]
    return found


def _with(words: list[Word], name: str, value: Any, command: Command, version: str | None) -> list[Word]:
    """Words with an argument set: in place of what it was, else behind all others."""
    flag = flag_of(name)
    present = [
        o for o in options([word.value for word in words], version)
        if o.flag == flag or (name == "model" and not o.flag)
    ]  # fmt: skip
    if name == "model":
        return _other_model(words, present, str(value), command)
    if value is False and kind(flag, version) == "n":
        return _without(words, name, version)
    if isinstance(value, dict) and present:
        return _merged(words, present, value, command)
    new = [_spelled(word, command) for word in words_of(name, value, kind(flag, version))]
    if not present:
        return [*words, *new]
    last = present[-1]
    if isinstance(value, (bool, list)) or last.key or last.off or not last.values:
        own = new
    elif last.inline:
        own = [_glued(words[last.at], new[-1], command)]
    else:
        own = [words[last.at], new[-1]]
    return _replaced(words, present, own)


def _glued(word: Word, value: Word, command: Command) -> Word:
    """`--max_model_len=8192` with another value; `-O3` too."""
    name, equals, _ = word.value.partition("=")
    if not equals:
        name, equals = "-O", ""
    return Word(f"{name}{equals}{value.raw}", f"{name}{equals}{value.value}")


def _replaced(words: list[Word], present: Sequence[Option], own: list[Word]) -> list[Word]:
    """`own` in place of the last of the options, the others taken out."""
    made: list[Word] = []
    starts = {option.at: option for option in present}
    index = 0
    while index < len(words):
        option = starts.get(index)
        if option is None:
            made.append(words[index])
            index += 1
            continue
        if option is present[-1]:
            made += own
        index += option.size
    return made


def _other_model(words: list[Word], present: Sequence[Option], model: str, command: Command) -> list[Word]:
    new = _spelled(model, command)
    if not present:
        return [new, *words] if command.form != "docker" else [_spelled("--model", command), new, *words]
    first = present[0]
    if not first.flag:
        return [*words[: first.at], new, *words[first.at + 1 :]]
    own = [_glued(words[first.at], new, command)] if first.inline else [words[first.at], new]
    return [*words[: first.at], *own, *words[first.at + first.size :]]


def _merged(
    words: list[Word], present: Sequence[Option], value: Mapping[str, Any], command: Command
) -> list[Word]:
    """Keys of a JSON argument set beside those that are there."""
    whole = [option for option in present if not option.key and option.values]
    dotted = [option for option in present if option.key]
    if whole:
        try:
            there = json.loads(whole[-1].values[0])
        except (ValueError, RecursionError):
            there = None
        if not isinstance(there, dict):
            raise Unsafe("a JSON argument that cannot be read")
        new = _spelled(json.dumps({**there, **value}, ensure_ascii=False), command)
        last = whole[-1]
        own = [_glued(words[last.at], new, command)] if last.inline else [words[last.at], new]
        return _replaced(words, [*(o for o in dotted if _outdated(o, value)), *whole[:-1], last], own)
    spelled = words[dotted[-1].at].value.partition("=")[0].partition(".")[0]
    own = []
    for key, item in value.items():
        own += [_spelled(f"{spelled}.{key}", command), _spelled(plain(item), command)]
    gone = [option for option in dotted if _outdated(option, value)]
    return _replaced(words, gone, own) if gone else [*words, *own]


def _outdated(option: Option, value: Mapping[str, Any]) -> bool:
    return option.key.partition(".")[0] in value


# ---- docker's options --------------------------------------------------------------------------------------


def _docker(made: Command, env: Mapping[str, str | None], container: Mapping[str, Any]) -> None:
    """Options of `docker run` set in place, or in front of the image; secrets in them become placeholders."""
    head, image = made.head[:-1], made.head[-1]
    rows = _options(head)
    rows = [_variable_opened(row, made) for row in rows]
    for name, value in env.items():
        at = next((i for i, row in enumerate(rows) if _variable(row) == name), None)
        new = [] if value is None else [Word("-e", "-e"), _spelled(f"{name}={value}", made)]
        if at is not None:
            rows[at] = new
        elif new:
            rows.append(new)
    for option in box.docker(container):
        word, _, value = option.partition("=" if "=" in option.split(" ")[0] else " ")
        flag = {"-v": "--volume"}.get(word, word)
        same = [i for i, row in enumerate(rows) if _flag(row) == flag]
        new = [Word(part, part) for part in option.split(" ")]
        if flag == "--volume" or flag in ("--cap-add", "--device", "--security-opt"):
            same = [i for i in same if _value(rows[i]) == value]
        elif flag == "--ulimit":
            same = [i for i in same if _value(rows[i]).partition("=")[0] == value.partition("=")[0]]
        if same:
            rows[same[0]] = new
        else:
            rows.append(new)
    made.head = [*(word for row in rows for word in row), image]


_BOTH = {"-e": "--env", "-v": "--volume", "-m": "--memory", "--net": "--network", "-p": "--publish"}
# Options of `docker run` without a value; all others take one (docker's reference of the command).
_ALONE = {
    "--rm", "--detach", "--init", "--privileged", "--interactive", "--tty", "--read-only", "--no-healthcheck",
    "--oom-kill-disable", "--publish-all", "--sig-proxy", "--disable-content-trust", "--quiet", "--replace",
    "--tls-verify",
}  # fmt: skip


def _options(words: Sequence[Word]) -> list[list[Word]]:
    """The head of a docker command in rows: `docker run` first, then each option with its value."""
    rows: list[list[Word]] = []
    at = 0
    while at < len(words):
        count = option_words(words[at].value) if words[at].value.startswith("-") else 1
        rows.append(list(words[at : at + count]))
        at += count
    return rows


def option_words(word: str) -> int:
    """How many words an option of `docker run` takes."""
    if "=" in word or word in _ALONE or re.fullmatch(r"-[ditPq]+", word):
        return 1
    return 1 if re.fullmatch(r"-[epvmulhwc].+", word) else 2


def _flag(row: Sequence[Word]) -> str:
    name = row[0].value.partition("=")[0] if row else ""
    return _BOTH.get(name, name)


def _value(row: Sequence[Word]) -> str:
    return row[1].value if len(row) > 1 else row[0].value.partition("=")[2] if row else ""


def _variable(row: Sequence[Word]) -> str:
    """The variable that `-e NAME=value` sets; empty for other options."""
    return _value(row).partition("=")[0] if _flag(row) == "--env" else ""


def _variable_opened(row: list[Word], made: Command) -> list[Word]:
    """An option with a placeholder for its secret."""
    if row and (glued := re.fullmatch(r"-e=?([A-Za-z_]\w*=.*)", row[0].value, re.DOTALL)):
        row = [Word("-e", "-e"), _spelled(glued[1], made)]
    flag, value = _flag(row), _value(row)
    if flag == "--env" and "=" in value:
        name, _, held = value.partition("=")
        shown = secrets.assigned(name, held)
        if shown != held:
            made.hidden.append(held)
            text = f"{name}={shown}"
            spelled = Word(f"{name}={made.quote(shown)}", text)
            return [row[0], spelled] if len(row) > 1 else [Word(f"--env={spelled.raw}", f"--env={text}")]
        return row
    if secrets.of_flag(flag) and value:
        made.hidden.append(value)
        return [Word(flag, flag), _spelled(secrets.placeholder(flag), made)]
    return [Word(made.quote(text), text) if (text := secrets.without(word.value)) != word.value else word
            for word in row]  # fmt: skip
