"""Gathers what a diagnosis needs of this machine: the logs as `fetch` gets them, and what `asks` asks.

Every answer is limited in time and size; what is missing, forbidden or cut is told, and never the end of it. Nothing
is changed, and nothing but programs of this machine is asked.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from vdiag.intake import asks
from vdiag.intake.asks import Ask
from vdiag.intake.commands import QUESTION, Output, Runner, run
from vdiag.intake.fetch import KERNEL, Fetched, fetch, kernel_log, properties
from vdiag.intake.installed import built_for, packages, prefixes
from vdiag.intake.sources import SourceError

MOST_STORES = 4  # paths whose disks are looked at
_SERVER = re.compile(r"journal\.log|container(?:-\d+)?\.log")  # the log of a server
LEFT_OUT = b"-- vdiag collect left out %d bytes of messages from here on --\n"  # vdiag reads it as a gap
_FENCE = re.compile("~{3,}")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS")
_ARGV = re.compile(r"argv\[\]=(.*?) ; [a-z_]+=", re.DOTALL)
_GROUP = re.compile(r"/[^\x00\n]*")


class Limits(msgspec.Struct, frozen=True):
    """How much is taken, in bytes, and waited for, in seconds."""

    log_head: int = 8 << 20  # of a log its beginning, where the server tells what it is
    log_tail: int = 24 << 20  # and its end, where it failed
    log_read: int = 8 << 30  # read in search of the end
    answer: int = 256 << 10  # of anything else
    seconds: float = 0.0  # for each command; 0: 10 for a question, 60 for a log


class Taken(NamedTuple):
    """What was read of something."""

    data: bytes
    left: int = 0  # bytes left out; -1: more, nobody knows how much
    problem: str = ""


class Collected(msgspec.Struct):
    """The files of a bundle, and what is to be said about them."""

    members: dict[str, bytes] = {}  # name → content; all but ABOUT are read as logs
    sections: list[tuple[str, str]] = []  # of ABOUT: what was asked, what came
    contents: list[str] = []  # where each member comes from, one line each
    missing: list[str] = []  # what could not be had, and why
    faults: list[str] = []  # the part of it that was asked for by name
    notes: list[str] = []

    @property
    def of_server(self) -> bool:
        """Whether the log of a server is there; without one nothing else is laid out to be read.

        A machine in order is no healthy server, and an old kill in the kernel's log no failure of it.
        """
        return any(_SERVER.fullmatch(name) for name in self.members)


def collect(
    unit: str = "",
    containers: Sequence[str] = (),
    *,
    user: bool = False,
    runner: Runner = run,
    limits: Limits | None = None,
    root: str = "/",
) -> Collected:
    """What there is to know of a unit (the user's own, if `user`), of containers, and of the machine below `root`."""
    return _Collector(user, runner, limits or Limits(), root).everything(unit, containers)


class _Collector:
    """One pass over a machine."""

    def __init__(self, user: bool, runner: Runner, limits: Limits, root: str) -> None:
        self._user = user
        self._limits = limits
        self._root = Path(root)
        self._ask_machine = runner
        self._hung: set[str] = set()  # programs that did not answer once: they would not the next time
        self.made = Collected()

    def everything(self, unit: str, containers: Sequence[str]) -> Collected:
        if not unit and not containers:
            unit, containers = self._server()
        fetched = fetch([unit] if unit else [], containers, user=self._user, runner=self._runner)
        if not fetched.sources:
            fetched.sources += kernel_log(0, runner=self._runner).sources
        self._logs(fetched, containers)
        known = self._unit(unit) if unit else {}
        argv = _ARGV.findall(known.get("ExecStart", ""))
        for engine, container in self._engines(fetched):
            self._all(asks.CONTAINER, engine=engine, container=container)
        self._process(known)
        self._all(asks.MACHINE)
        for store in _stores(argv):
            self._all(asks.STORES, store=store)
        if unit or not containers:  # a container's environment is its image
            self._packages(
                [word for told in argv for word in told.split()] + self._running(known), bool(unit)
            )
        return self.made

    def _server(self) -> tuple[str, list[str]]:
        """The one unit or container here whose name or image says that it is vLLM's; nothing where there are more."""
        found: list[tuple[str, str]] = []
        for kind, command in asks.SERVERS:
            taken = self._answer(
                [*command[:1], *(["--user"] if self._user and kind == "unit" else []), *command[1:]]
            )
            rows = [] if taken.problem else taken.data.decode("utf8", "replace").splitlines()
            first = ((row.split() or [""])[0] for row in rows if "vllm" in row.lower())
            found += [(kind, name) for name in first if asks.NAMES[kind].fullmatch(name)]
        if len(found) == 1:
            kind, name = found[0]
            self.made.notes.append(f"The {kind} {name} was taken: no other has vllm in its name")
            return (name, []) if kind == "unit" else ("", [name])
        several = ", ".join(sorted({name for _, name in found}))
        self._lacks(f"the log of a server: name one of {several}" if found else
                    "the log of a server: no unit and no container here has vllm in its name; name yours")  # fmt: skip
        return "", []

    # ---- logs -------------------------------------------------------------------------------------------

    def _logs(self, fetched: Fetched, containers: Sequence[str]) -> None:
        self.made.notes += fetched.notes
        for problem in fetched.problems:
            self._lacks(problem, fault=True)
        told = len(fetched.notes)
        for source in fetched.sources:
            limits = self._limits
            try:
                taken = take(source.open(), limits.log_head, limits.log_tail, limits.log_read)
            except (OSError, SourceError) as error:
                taken = Taken(b"", 0, _why(error))
            read = fetched.outputs.get(source.name)
            said = taken.problem or (read.output.complaint if read else "")
            spare = source.name in fetched.spare or source.name == KERNEL
            if said:
                by_hand = fetched.by_hand.get(source.name, "")
                self._lacks(f"{source.name}: {said}" + (f" (by hand: {by_hand})" if by_hand else ""),
                            fault=not spare and bool(taken.problem or not taken.data))  # fmt: skip
            elif not taken.data and not spare:
                self._lacks(fetched.doubted.get(source.name, f"{source.name}: nothing was written"),
                            fault=source.name in fetched.doubted)  # fmt: skip
            self._member(_member(source.name, containers), taken, source.name)
        self.made.notes += fetched.notes[told:]  # of the kernel's log, which is opened last

    def _engines(self, fetched: Fetched) -> Iterable[tuple[str, str]]:
        """The engine of each container that was found."""
        for source in fetched.sources:
            engine, inspected, name = source.name.partition(" inspect ")
            if inspected and engine in ("docker", "podman"):
                yield engine, name

    def _member(self, name: str, taken: Taken, what: str) -> None:
        if not taken.data.strip():
            return
        if not self.made.of_server and not _SERVER.fullmatch(name):
            self._section(what, taken._replace(data=taken.data[-self._limits.answer :], problem=""))
            return
        self.made.members[name] = taken.data
        self.made.contents.append(f"{name}: {what}, {len(taken.data)} bytes{_cut(taken)}")

    # ---- questions --------------------------------------------------------------------------------------

    def _unit(self, unit: str) -> dict[str, str]:
        """What systemd knows of the unit, by property."""
        manager = ["--user"] if self._user else []
        shown = ["systemctl", *manager, "show", f"--property={','.join(asks.PROPERTIES)}", "--", unit]
        taken = self._answer(shown)
        self._section(_written([*shown[:-3], "--", unit]), taken)
        self._all(asks.UNIT, manager=" ".join(manager), unit=unit)
        return properties(taken.data)

    def _process(self, known: dict[str, str]) -> None:
        """Limits of the unit's main process and of its control group, as long as it lives."""
        pid, group = known.get("MainPID", ""), known.get("ControlGroup", "")
        if pid.isascii() and pid.isdigit() and int(pid):
            self._all(asks.PROCESS, pid=pid)
            self._variables(pid)
        if _GROUP.fullmatch(group) and ".." not in group:
            self._all(asks.GROUP, group=group)

    def _variables(self, pid: str) -> None:
        """Those of the server's environment variables that decide how it runs."""
        path = f"/proc/{pid}/environ"
        taken = self._file(path)
        rows = taken.data.decode("utf8", "replace").split("\0")
        exact = {name for name in asks.VARIABLES if not name.endswith("*")}
        begins = tuple(name[:-1] for name in asks.VARIABLES if name.endswith("*"))
        named = [(row.partition("=")[0], row) for row in rows]
        kept = [
            row
            for name, row in named
            if name in exact or (name.startswith(begins) and not _SECRET.search(name))
        ]
        shown = Taken("\n".join(sorted(kept)).encode(), 0, taken.problem)
        self._section(
            f"{path} (what decides how vLLM runs)", shown, quiet=taken.problem == os.strerror(errno.ENOENT)
        )

    def _all(self, table: Sequence[Ask], **known: str) -> None:
        for ask in table:
            if ask.files:
                for file in ask.files:
                    path = file.format(**known)
                    self._section(path, self._file(path), quiet=True)
                continue
            command = [word.format(**known) for word in ask.command]
            command = [word for word, asked in zip(command, ask.command, strict=True) if word or not asked]
            taken = self._answer(command)
            if ask.spare and "not installed" in taken.problem:
                continue
            if ask.member:
                self._member(ask.member, taken, _written(command))
                self._lacks_answer(_written(command), taken)
                continue
            self._section(_written(command), taken)

    def _answer(self, command: Sequence[str]) -> Taken:
        try:
            return take(self._runner(command, QUESTION, merged=True), self._limits.answer)
        except OSError as error:
            return Taken(b"", 0, _why(error))

    def _file(self, path: str) -> Taken:
        try:
            with open(self._root / path.lstrip("/"), "rb", buffering=0) as file:
                return take(file, self._limits.answer)
        except OSError as error:
            return Taken(b"", 0, _why(error))

    def _section(self, title: str, taken: Taken, *, quiet: bool = False) -> None:
        """A part of ABOUT. `quiet`: that it is not there is no news."""
        if not quiet:
            self._lacks_answer(title, taken)
        if taken.data.strip():
            self.made.sections.append((f"{title}{_cut(taken)}", taken.data.decode("utf8", "replace")))

    def _lacks_answer(self, asked: str, taken: Taken) -> None:
        """Notes why a question has no answer: of a program that is not installed once, else in its own last words."""
        if taken.problem.endswith("is not installed"):
            self._lacks(taken.problem)
        elif taken.problem:
            said = taken.data.decode("utf8", "replace").strip().rpartition("\n")[2].strip()
            self._lacks(f"{asked}: {said or taken.problem}")

    def _lacks(self, what: str, *, fault: bool = False) -> None:
        """Notes what could not be had, once."""
        if what not in self.made.missing:
            self.made.missing.append(what)
            if fault:
                self.made.faults.append(what)

    def _runner(self, command: Sequence[str], seconds: float, *, merged: bool = False) -> Output:
        """Runs a command with the limits of this pass. One whose program hung before is not tried again."""
        program = command[0]
        if program in self._hung:
            raise OSError(f"{program} did not answer before")
        output = self._ask_machine(command, self._limits.seconds or seconds, merged=merged)
        return _Watched(output, lambda: self._hung.add(program))

    # ---- packages ---------------------------------------------------------------------------------------

    def _running(self, known: dict[str, str]) -> list[str]:
        """The first words of the main process's command line: an interpreter, and perhaps a script."""
        pid = known.get("MainPID", "")
        if not (pid.isascii() and pid.isdigit() and int(pid)):
            return []
        line = self._file(f"/proc/{pid}/cmdline").data
        return [word.decode("utf8", "replace") for word in line.split(b"\0")[:2]]

    def _packages(self, words: list[str], known: bool) -> None:
        """Versions in the server's environment, in the form of `vllm collect-env`.

        Where no server is `known`, in the one of this shell; else that would be another's.
        """
        here = [
            f"{os.environ[name]}/bin/python"
            for name in ("VIRTUAL_ENV", "CONDA_PREFIX")
            if os.environ.get(name)
        ]
        for prefix in prefixes(words if known else [*here, *_on_path("vllm")]):
            found = packages(prefix)
            if not found:
                continue
            rows = [f"[pip3] {name}=={version}" for name, version in sorted(found.items())]
            if made_for := built_for(prefix):
                name, _, version = made_for.partition(" ")
                rows.append(f"{name} used to build PyTorch: {version}")
            taken = Taken("\n".join([*rows, ""]).encode())
            self._member("packages.log", taken, f"installed in {prefix}")
            return
        whose = (
            "the unit's command leads to no environment with vLLM"
            if known
            else "no environment with vLLM is here"
        )
        self._lacks(f"versions of vLLM and torch: {whose}")


class _Watched:
    """An output that says when it kept us waiting too long."""

    def __init__(self, output: Output, hung: Callable[[], object]) -> None:
        self._output, self._hung = output, hung
        self.complaint = ""

    def readinto(self, buffer: bytearray | memoryview, /) -> int:
        try:
            return self._output.readinto(buffer)
        except TimeoutError:
            self._hung()
            raise
        finally:
            self.complaint = self._output.complaint

    def close(self) -> None:
        self._output.close()


# ---- reading ----------------------------------------------------------------------------------------------


def take(stream: Output | BinaryIO, head: int, tail: int = 0, most: int = 0) -> Taken:
    """The beginning of a stream and its end, with a line in between that says what was left out; closes it.

    Without a `tail` reading stops after `head` bytes. What was read before an error is kept.
    """
    begin, end = bytearray(), bytearray()
    total, problem = 0, ""
    piece = bytearray(1 << 16)
    try:
        while size := stream.readinto(piece):  # type: ignore[union-attr]
            total += size
            room = min(size, head - len(begin))
            begin += piece[:room]
            end += piece[room:size]
            if end and not tail:
                return Taken(bytes(begin), -1)
            if len(end) > 2 * tail:
                del end[:-tail]
            if most and total >= most:
                problem = f"it does not end: reading stopped after {most} bytes"
                break
    except (OSError, SourceError) as error:
        problem = _why(error)
    finally:
        stream.close()
    if len(begin) + min(len(end), tail) == total:
        return Taken(bytes(begin + end), 0, problem)
    end = end[-tail:]
    # Half a row would be taken for a whole one.
    first, last = bytes(begin[: begin.rfind(b"\n") + 1]), bytes(end[end.find(b"\n") + 1 :])
    left = total - len(first) - len(last)
    return Taken(first + LEFT_OUT % left + last, left, problem)


def about(made: Collected, heading: Sequence[str]) -> str:
    """ABOUT: what the bundle holds, what is missing, and the answers that no rule reads, in Markdown."""
    rows = ["# What vdiag collect gathered", "", *heading, ""]
    for title, told in (("Missing", made.missing), ("Notes", made.notes), ("Files", made.contents)):
        if told:
            rows += [f"## {title}", "", *(f"- {_row(what)}" for what in told), ""]
    for title, text in made.sections:
        fence = "~" * max(3, 1 + max((len(run) for run in _FENCE.findall(text)), default=0))
        rows += [f"## {_row(title)}", "", fence, *map(_row, text.rstrip("\n").split("\n")), fence, ""]
    return "\n".join(rows)


# ---- small change -----------------------------------------------------------------------------------------


def _member(source: str, containers: Sequence[str]) -> str:
    """The name of a source's file: it holds no name that a person chose."""
    if source == KERNEL:
        return "kernel.log"
    number = next((n for n, name in enumerate(containers, 1) if source.endswith(f" {name}")), 0)
    last = f"-{number}" if len(containers) > 1 else ""
    if source.startswith("log of "):
        return f"container{last}.log"
    return f"container{last}-inspect.log" if " inspect " in source else "journal.log"


def _stores(argv: Sequence[str]) -> list[str]:
    """Absolute paths that a server was given: models, caches, templates. At most a few."""
    found: list[str] = []
    for told in argv:
        option = ""
        for word in told.split()[1:]:
            name, _, value = word.partition("=")
            path = value if word.startswith("-") else word
            option = name if word.startswith("-") else option
            if path.startswith("/") and path not in found and not _SECRET.search(option.upper()):
                found.append(path)
    return found[:MOST_STORES]


def _on_path(program: str) -> list[str]:
    import shutil

    found = shutil.which(program)
    return [found] if found else []


def _row(text: str) -> str:
    return _CONTROL.sub("?", text.replace("\n", " "))


def _cut(taken: Taken) -> str:
    if not taken.left:
        return ""
    return f" (cut after {len(taken.data)} bytes)" if taken.left < 0 else f" ({taken.left} bytes left out)"


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _written(command: Sequence[str]) -> str:
    return shlex.join(command)
