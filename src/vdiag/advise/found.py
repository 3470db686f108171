"""Finds the command that started the server in the lines of a log: a unit file, a shell's prompt, docker, compose or
Kubernetes YAML, `kubectl describe`.

A line that is cut (`…`, a `\\` whose next line is not here) is never taken for a whole command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from vdiag.advise.argument_list import options
from vdiag.advise.command import Command, option_words
from vdiag.advise.words import LONGEST, Unsafe, Word, shell, unit

Lines = Mapping[int, str]  # physical line → its text without the envelope

NARROW = 60  # columns that a terminal has at least
MOST_NODES = 3000  # of a YAML fragment, whose aliases can be many
MOST_ROWS = 200  # lines of one command or fragment
MOST_FOUND = 40  # commands looked at in one input
_PROMPT = r"(?:[^\n]{0,80}?[$#%>❯+] +)?"
_IN_FRONT = (  # variables and tools in front of a command, in any order
    r"(?:(?:(?:sudo|env|nohup|exec|time)|[A-Za-z_]\w*=(?:'[^'\n]*'|\"[^\"\n]*\"|<[^<>\n]*>|[^\s'\"<])*)\s+)*"
)
_SERVE = r"(?:[\w./~$-]*/)?vllm\s+serve\b|(?:[\w./~$-]*/)?python[\d.]*\s+(?:-u\s+)?-m\s+vllm\.entrypoints\.openai\.api_server\b"
# Programs that start another one, which gets their environment: `uv run`, `numactl --membind=0`.
_STARTERS = (
    "numactl",
    "taskset",
    "nice",
    "ionice",
    "chrt",
    "stdbuf",
    "srun",
    "tini",
    "dumb-init",
    "nsys",
    "ncu",
)
_RUNNERS = ("uv", "conda", "mamba", "micromamba", "poetry", "pipenv", "pdm", "hatch", "rye")  # with `run`
_STARTED = rf"(?:(?:(?:{'|'.join(_STARTERS)})|(?:{'|'.join(_RUNNERS)})\s+run)\s+(?:[^\n;|&]{{1,200}}?\s)?)?"
MOST_IN_FRONT = 30  # words of such a program
_TYPED = re.compile(rf"^\s*{_PROMPT}(?P<all>{_IN_FRONT}{_STARTED}(?:{_SERVE})(?:\s|$))")
_RUN = re.compile(rf"^\s*{_PROMPT}(?P<all>(?:sudo\s+)?(?:docker|podman)\s+run\s)")
_EXEC = re.compile(r"^\s*(?:Process:\s+\d+\s+)?ExecStart=(?P<all>[^\s{].*)")
_STATUS = re.compile(r"\s\(code=\w+, (?:status|signal)=[^)]*\)\s*$")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_YAML_START = re.compile(r"^(\s*)(?:- )?(?:image|command|args|entrypoint):(?:\s|$)")
_REST = re.compile(r"--?[a-zA-Z][\w-]*(?:[ =]|$)|[\w./:'\"{}=,-]+(?:\s+--?[a-zA-Z]|\s*$)")
_NESTED = re.compile(r"(?:[\[{]\s*){20}")  # nobody writes that; reading it costs time
_DESCRIBED = re.compile(r"^(\s*)(Command|Args):\s*$")
_CUT = re.compile(r"…|\.\.\.$|>$")
_UNIT_FILE = re.compile(r"(?:# /\S*?/|[●○×*] |Unit )([\w:@-][\w:.@-]{0,200}\.service)\b")
_WORDS = ("vllm", "ExecStart", "docker run", "podman run")
_TOOLS = ("sudo", "env", "nohup", "exec", "time")


class Found(NamedTuple):
    """A place where a log shows how the server is started."""

    line: int
    form: str  # one of form.FORMS
    command: Command | None  # None: it is not whole, or not understood


def commands(lines: Lines) -> Iterator[Found]:
    """Each place that shows a command which starts vLLM, at most MOST_FOUND of a kind."""
    yield from islice(_typed(lines), MOST_FOUND)
    yield from islice(_fragments(lines), MOST_FOUND)
    yield from islice(_described(lines), MOST_FOUND)


def _typed(lines: Lines) -> Iterator[Found]:
    for at in sorted(lines):
        text = lines[at]
        if len(text) > LONGEST or not any(word in text for word in _WORDS):
            continue
        for form, pattern in (("systemd", _EXEC), ("docker", _RUN), ("cli", _TYPED)):
            if not (found := pattern.match(text)):
                continue
            whole = _continued(lines, at, text[found.start("all") :])
            if "vllm" in (whole or text):
                command = None if form != "systemd" and _wrapped(lines, at, whole) else _read(form, whole)
                if command is not None and form == "systemd" and (name := _unit_name(lines, at)):
                    command.around["unit"] = name
                if command is None or form != "cli" or _plausible(command):
                    yield Found(at, form, command)
            break


def _plausible(command: Command) -> bool:
    """Whether typed words are a command and no sentence about one: one model at most, and it looks like one."""
    read = list(options([word.value for word in command.words], None))
    models = [option.values[0] for option in read if not option.flag]
    return bool(read) and len(models) <= 1 and all(re.search(r"[/.\d$<~]", model) for model in models)


def _continued(lines: Lines, at: int, text: str) -> str | None:
    """A line with those that it goes on in; None where one of them is missing."""
    rows = [text]
    while rows[-1].rstrip(" ").endswith("\\"):
        rows[-1] = rows[-1].rstrip(" ")
        if at + len(rows) not in lines or len(rows) > MOST_ROWS:
            return None
        following = lines[at + len(rows)]
        rows.append(re.sub(r"^> ", "", following))  # a shell's second prompt
    whole = "\n".join(rows)
    return whole if len(whole) <= LONGEST else None


def _wrapped(lines: Lines, at: int, whole: str | None) -> bool:
    """Whether a terminal broke the command: a long row, and one behind it that looks like the rest."""
    last = at + (whole or "").count("\n")
    return len(lines.get(last, "")) >= NARROW and bool(_REST.match(lines.get(last + 1, "")))


def _read(form: str, text: str | None) -> Command | None:
    """A command line as a command; None where it is not understood whole."""
    if text is None:
        return None
    try:
        if form == "systemd":
            return _unit(text)
        return _of_words(form, shell(text))
    except Unsafe:
        return None


def _unit_name(lines: Lines, at: int) -> str:
    """The unit whose file or status page a line stands in, by the rows above it; empty if they do not tell."""
    for row in range(at - 1, max(at - 40, 0), -1):
        if found := _UNIT_FILE.match(lines.get(row, "")):
            return found[1]
    return ""


def _unit(text: str) -> Command | None:
    if "\n" not in text and _STATUS.search(text):
        text = _STATUS.sub("", text)
        if re.search(r"['\"{}\\]", text):
            return None  # a status page joins words without their quotes
    if _CUT.search(text):
        return None
    return _of_words("systemd", unit(text))


def _of_words(form: str, words: Sequence[Word]) -> Command | None:
    """Words as a command: variables in front, the launcher, vLLM's arguments. None if vLLM is not what is started."""
    rest = list(words)
    env: dict[str, str] = {}
    around = {"sudo": "sudo "} if rest and rest[0].raw == "sudo" and form != "systemd" else {}
    while rest and (form == "cli" or rest[0].raw == "sudo"):
        if found := _ASSIGNED.fullmatch(rest[0].raw):
            env[found[1]] = found[2]
        elif rest[0].value not in _TOOLS:
            break
        rest.pop(0)
    if any("…" in word.value or word.value.endswith("...") for word in rest):
        return None
    head = launcher([word.value for word in rest])
    if head is None:
        return None
    return Command(form=form, head=rest[:head], words=rest[head:], env=env, around=dict(around))


def launcher(values: Sequence[str]) -> int | None:
    """How many words stand in front of vLLM's own arguments; None if something else is started."""
    if not values:
        return None
    name = re.sub(r"^[@:+!-]+", "", values[0]).rpartition("/")[2]
    if name in ("docker", "podman") and values[1:2] == ["run"]:
        return _behind_image(values)
    if name in _STARTERS or (name in _RUNNERS and values[1:2] == ["run"]):
        return _behind_starter(values)
    if name == "vllm":
        return 2 if values[1:2] == ["serve"] else None
    if re.fullmatch(r"python[\d.]*", name):
        rest = list(values[1:])
        options = 0
        while rest and rest[0] in ("-u", "-O", "-B", "-I"):
            rest.pop(0)
            options += 1
        if rest[:2] == ["-m", "vllm.entrypoints.openai.api_server"]:
            return 3 + options
        if rest[:1] and rest[0].rpartition("/")[2] == "vllm" and rest[1:2] == ["serve"]:
            return 3 + options
    return None


def _behind_starter(values: Sequence[str]) -> int | None:
    """The place behind the launcher that another program starts."""
    for at in range(1, min(len(values), MOST_IN_FRONT)):
        if re.fullmatch(r"(?:.*/)?(?:vllm|python[\d.]*)", values[at]):
            inside = launcher(values[at:])
            if inside is not None:
                return at + inside
    return None


def _behind_image(values: Sequence[str]) -> int | None:
    """The place behind the image of a `docker run`, and behind the program in it if one is named."""
    at = 2
    shell_inside = False
    while at < len(values) and values[at].startswith("-"):
        shell_inside |= "entrypoint" in values[at] and bool(
            re.search(r"sh$", " ".join(values[at : at + option_words(values[at])]))
        )
        at += option_words(values[at])
    if at >= len(values) or shell_inside or "vllm" not in " ".join(values[at:]):
        return None
    at += 1
    inside = launcher(values[at:])
    if inside is not None:
        return None if values[at].rpartition("/")[2] in ("docker", "podman") else at + inside
    if values[at : at + 1] == ["serve"]:
        return at + 1
    return at if at == len(values) or values[at].startswith("-") or "/" in values[at] else None


# ---- YAML -------------------------------------------------------------------------------------------------


def _fragments(lines: Lines) -> Iterator[Found]:
    """Services of compose files and containers of manifests, as they were pasted."""
    done = read = 0
    for at in sorted(lines):
        if at <= done or not (found := _YAML_START.match(lines[at])):
            continue
        first, last = _block(lines, at, len(found[1]))
        done = last
        text = "\n".join(lines[i] for i in range(first, last + 1))
        if "vllm" not in text or len(text) > LONGEST or _NESTED.search(text):
            continue
        read += 1
        if read > MOST_FOUND:
            return
        for holder, around in islice(_holders(_loaded(text), [MOST_NODES]), MOST_FOUND):
            yield Found(at, "kubernetes" if _is_pod(holder) else "compose", _of_holder(holder, around))


def _block(lines: Lines, at: int, indent: int) -> tuple[int, int]:
    """The lines of a mapping that a row stands in: upwards to the top of the file, downwards to its end."""
    first, level = at, indent
    while first - 1 in lines and at - first < MOST_ROWS:
        row = lines[first - 1]
        if not re.match(r"\s*(?:#.*|- .*|[\w./-]+:(?:\s.*|$)|---)$", row) and row.strip():
            break
        level = min(level, len(row) - len(row.lstrip())) if row.strip() else level
        first -= 1
    last = at
    while last + 1 in lines and last - at < MOST_ROWS:
        row = lines[last + 1]
        if row.strip() and (len(row) - len(row.lstrip()) < level or not _in_yaml(row)):
            break
        last += 1
    return first, last


def _in_yaml(row: str) -> bool:
    """Whether a row may go on in YAML; a log line or a prompt ends it."""
    return row[:1].isspace() or bool(re.match(r"(?:- |[\w./-]+:(?:\s|$)|#|---|[\]}])", row))


def _loaded(text: str) -> list[Any]:
    import textwrap

    import yaml  # late: only a log that holds such a fragment needs it

    try:
        return list(yaml.safe_load_all(textwrap.dedent(text)))
    except (yaml.YAMLError, RecursionError, ValueError):
        return []


def _holders(
    value: Any, left: list[int], around: Mapping[str, Any] | None = None
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each mapping that has a command or args, with the names around it. `left`: how many nodes are still looked at."""
    around = dict(around or {})
    left[0] -= 1
    if left[0] < 0:
        return
    if isinstance(value, list):
        for item in value:
            yield from _holders(item, left, around)
    elif isinstance(value, dict):
        if value.get("kind") == "Deployment" and isinstance(value.get("metadata"), dict):
            around["deployment"] = value["metadata"].get("name")
            around["kube_namespace"] = value["metadata"].get("namespace")
        if {"command", "args"} & value.keys():
            yield value, around
            return
        for key, item in value.items():
            compose = isinstance(item, dict) and {"image", "command"} & item.keys()
            yield from _holders(item, left, {**around, "service": key} if compose else around)


def _is_pod(holder: Mapping[str, Any]) -> bool:
    """Whether a mapping is a container of Kubernetes; else it is a service of compose."""
    return "args" in holder or isinstance(holder.get("env"), list) or "name" in holder


def _of_holder(holder: dict[str, Any], around: dict[str, Any]) -> Command | None:
    """A service or a container as a command."""
    kubernetes = _is_pod(holder)
    form = "kubernetes" if kubernetes else "compose"
    if kubernetes:
        around = {**around, "pod_container": holder.get("name")}
    entry = _words(holder.get("command"), form) if kubernetes else _words(holder.get("entrypoint"), form)
    words = _words(holder.get("args" if kubernetes else "command"), form)
    key = "args" if kubernetes else "command"
    if entry is None or words is None:
        return None
    if kubernetes and not words:
        entry, words, key = [], entry, "command"
    values = [word.value for word in (*entry, *words)]
    if "vllm" not in f"{holder.get('image', '')} {' '.join(values)}":
        return None
    around = {name: str(item) for name, item in {**around, "key": key}.items() if item}
    if (
        len(values) >= 3
        and values[-2].startswith("-")
        and values[-2].endswith("c")
        and values[-3].endswith("sh")
    ):
        return _behind_shell(form, words, around)
    head = launcher(values)
    if head is None:
        if entry or not words or not (words[0].value.startswith("-") or "/" in words[0].value):
            return None
        head = 0
    if head < len(entry):
        return None
    own = head - len(entry)
    return Command(form=form, head=words[:own], words=words[own:], around=around)


def _behind_shell(form: str, words: Sequence[Word], around: dict[str, Any]) -> Command | None:
    """`sh -c "vllm serve …"`: one command alone."""
    text = words[-1].raw.strip()
    try:
        inside = shell(text)
    except Unsafe:
        return None
    ended = "".join(word.raw for word in inside)
    if re.sub(r"\s|\\\n", "", text) != re.sub(r"\s", "", ended):
        return None  # more than one command
    command = _of_words("cli", inside)
    if command is None:
        return None
    command.form, command.inner, command.outer, command.around = form, True, list(words[:-1]), around
    return command


def _words(value: Any, form: str) -> list[Word] | None:
    """A YAML list or string as words; None if it is something else."""
    if value is None:
        return []
    if isinstance(value, str):
        if form == "kubernetes":
            return None
        try:
            words = shell(value.strip())
        except Unsafe:
            return None
        return [Word(word.value, word.value.replace("$$", "$")) for word in words]
    if not isinstance(value, list) or not all(isinstance(item, (str, int, float)) for item in value):
        return None
    texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in value]
    return [Word(text, text.replace("$$", "$") if form == "compose" else text) for text in texts]


def _described(lines: Lines) -> Iterator[Found]:
    """`Command:` and `Args:` of `kubectl describe`, a word a row."""
    lists: dict[str, tuple[int, list[str]]] = {}
    for at in sorted(lines):
        found = _DESCRIBED.match(lines[at])
        if not found:
            continue
        indent, words = len(found[1]), []
        row = at + 1
        while row in lines and len(lines[row]) - len(lines[row].lstrip()) > indent and lines[row].strip():
            words.append(lines[row].strip())
            row += 1
        if found[2] == "Command":
            lists = {}
        lists[found[2]] = (at, words)
        if found[2] == "Command" and _DESCRIBED.match(lines.get(row, "")):
            continue
        holder = {
            "command": lists.get("Command", (0, None))[1],
            "args": lists.get("Args", (0, None))[1],
            "image": "vllm",
        }
        if "vllm" in " ".join([*(holder["command"] or []), *(holder["args"] or [])]) or "--model" in words:
            given = {key: value for key, value in holder.items() if value is not None}
            yield Found(at, "kubernetes", _of_holder(given, {}))
        lists = {}
