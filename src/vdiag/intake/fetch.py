"""Fetches what a unit's or a container's own log hides: it and the kernel log of the same boot and time.

The journal of a unit holds no word of the kernel, and that is where an out-of-memory kill or an Xid stands. Each
command has a time limit; what could not be read, and why, is told by `Fetched.tell`, and the rest is still used.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, BinaryIO, cast

import msgspec

from vdiag.intake.commands import LOG, QUESTION, Output, Runner, read_all, run
from vdiag.intake.sources import Source, SourceError, of_bytes
from vdiag.model import Gap, Input, Report, Verdict

KERNEL = "kernel log"
BEFORE, AFTER = 5, 60  # seconds of the kernel log around a run: clocks differ, and a death is told late
NOTHING = b"-- No entries --"  # what journalctl prints where there is nothing

_PROPERTIES = "LoadState,NRestarts,InactiveExitTimestamp,ExecMainStartTimestamp,InactiveEnterTimestamp"
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.\d+)?(?: ?(Z|UTC|[+-]\d\d:?\d\d)\b)?")
_STATE = ("Status", "OOMKilled", "Dead", "ExitCode", "Error", "StartedAt", "FinishedAt")
_LIMITS = ("Memory", "MemorySwap", "ShmSize", "PidsLimit", "IpcMode", "Runtime")


class Span(msgspec.Struct):
    """From when to when a run lasted, in seconds since 1970; 0: not known, or not over."""

    start: int = 0
    end: int = 0


class Read(io.RawIOBase):
    """An output on its way: journalctl's word for nothing is nothing, and the first time is remembered."""

    def __init__(self, output: Output) -> None:
        self.output = output
        self.size = 0
        self.first = 0  # in seconds since 1970

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return cast(io.RawIOBase, self.output).fileno()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        size = self.output.readinto(buffer)
        if not self.size:
            if bytes(buffer[: min(size, len(NOTHING))]) == NOTHING:
                size = self.output.readinto(buffer)
            self.first = _seconds(bytes(buffer[: min(size, 80)]).decode("ascii", "replace"))
        self.size += size
        return size

    def close(self) -> None:
        self.output.close()
        super().close()


class Fetched(msgspec.Struct):
    """Inputs to be read, and what is to be said about fetching them."""

    sources: list[Source] = []
    problems: list[str] = []  # what the call is to blame for, one line each
    notes: list[str] = []
    by_hand: dict[str, str] = {}  # name of an input → the command that gets it with more rights
    spare: set[str] = set()  # inputs that one can do without, and that alone say nothing
    outputs: dict[str, Read] = {}  # name → what was read of it
    doubted: dict[str, str] = {}  # name → why an empty input of it is the call's fault
    span: Span | None = None  # what the kernel log is to hold

    def widen(self, start: int, end: int) -> None:
        """The kernel log is to hold this run too."""
        wide = self.span or Span(start, end)
        self.span = Span(
            min(start, wide.start),  # 0, not known, is the smallest
            max(end, wide.end) if end and wide.end else 0,
        )

    def tell(self, report: Report) -> list[str]:
        """Writes into a report what could not be fetched; returns what the call is to blame for, one line each."""
        report.notes += self.notes
        faults: list[str] = []
        empty = True
        for told in report.inputs:
            empty = empty and (not told.bytes or told.name in self.spare)
            if told.name not in self.by_hand:
                continue
            complaint = self._complain(told)
            if complaint and not told.bytes:
                faults.append(f"{told.name}: {complaint}")
            if not told.bytes and not told.gaps and told.name not in self.spare:
                told.gaps.append(Gap(what="nothing was written since the last start, or in this boot"))
                if told.name in self.doubted:
                    faults.append(self.doubted[told.name])
            for gap in told.gaps:
                gap.command = gap.command or self.by_hand[told.name]
        if empty and report.verdict is Verdict.HEALTHY:
            report.verdict = Verdict.EMPTY  # a kernel without complaints says nothing of a server
        return faults

    def _complain(self, told: Input) -> str:
        """Tells what the command of an input said on standard error; returns it if that is news."""
        read = self.outputs.get(told.name)
        complaint = read.output.complaint if read else ""
        if not complaint or any(complaint in gap.what for gap in told.gaps):
            return ""
        told.gaps.append(Gap(what=f"perhaps not all of it could be read: {complaint}"))
        return complaint


def fetch(
    units: Sequence[str] = (), containers: Sequence[str] = (), *, user: bool = False, runner: Runner = run
) -> Fetched:
    """The logs of these units (the user's own, if `user`) and containers, and the kernel log of the same time."""
    found = Fetched()
    for unit in units:
        _unit(found, unit, user, runner)
    for name in containers:
        _container(found, name, runner)
    if found.span is not None:
        _kernel(found, found.span, runner)
    return found


def kernel_log(start: int, *, runner: Runner = run) -> Fetched:
    """The kernel log since a time, in seconds since 1970."""
    found = Fetched()
    _kernel(found, Span(start), runner)
    return found


# ---- units ----------------------------------------------------------------------------------------------


def _unit(found: Fetched, unit: str, user: bool, runner: Runner) -> None:
    """A unit's journal of its last start; where systemd restarted it by itself, or can't be asked, of the boot."""
    name = f"journal of {unit}"
    asked = ["systemctl", *(["--user"] if user else []), "show", f"--property={_PROPERTIES}", "--", unit]
    span = Span()
    try:
        state = properties(read_all(runner(asked, QUESTION)))
    except OSError as error:
        found.notes.append(f"systemctl could not say when {unit} started ({error}): the whole boot is read")
    else:
        if state.get("LoadState") == "not-found":
            other = "without --user" if user else "with --user, for a unit of your own"
            found.doubted[name] = (
                f"{unit}: no such unit, and nothing in the journal of this boot ({other}?)\n"
                f"`systemctl list-units --all` lists units; `journalctl --list-boots` lists boots."
            )
        restarts = int(state.get("NRestarts") or 0) if state.get("NRestarts", "").isdigit() else 0
        if restarts:
            times = "once" if restarts == 1 else f"{restarts} times"
            found.notes.append(f"systemd restarted {unit} {times}: its journal of the whole boot is read")
        else:
            start = _seconds(state.get("InactiveExitTimestamp")) or _seconds(
                state.get("ExecMainStartTimestamp")
            )
            end = _seconds(state.get("InactiveEnterTimestamp"))
            span = Span(start, end if end > start else 0)
    journal = ["journalctl", f"--{'user-' if user else ''}unit={unit}", *_JOURNAL, *_since(span.start)]
    found.sources.append(Source(name, _opener(found, name, journal, runner)))
    found.by_hand[name] = f"sudo {_written(journal)}"
    found.widen(span.start, span.end)


def properties(shown: bytes) -> dict[str, str]:
    """What `systemctl show` printed, by name."""
    rows = shown.decode("utf8", "replace").splitlines()
    return dict(row.split("=", 1) for row in rows if "=" in row)


_JOURNAL = ["--boot", "--all", "--output=short-iso", "--no-pager"]  # --all: colours do not become blob data


def _since(start: int) -> list[str]:
    return [f"--since=@{start}"] if start else []


def _opener(
    found: Fetched, name: str, command: Sequence[str], runner: Runner, *, merged: bool = False
) -> Callable[[], BinaryIO]:
    def opened() -> BinaryIO:
        read = found.outputs[name] = Read(runner(command, LOG, merged=merged))
        return cast(BinaryIO, read)

    return opened


# ---- the kernel -----------------------------------------------------------------------------------------


def _kernel(found: Fetched, span: Span, runner: Runner) -> None:
    """The kernel log of a span; where its start is not known, since the first line of what was read before it."""

    def opened() -> BinaryIO:
        read = [one for one in found.outputs.values() if one.size]
        if found.by_hand.keys() > {KERNEL} and not read:
            found.notes.append("The kernel log was left out: nothing was read that it could explain")
            return io.BytesIO()
        start = span.start or min((one.first for one in read), default=0)
        start = start - BEFORE if start else 0
        end = span.end + AFTER if span.end else 0
        journal = ["journalctl", "--dmesg", *_JOURNAL, *_since(start), *([f"--until=@{end}"] if end else [])]
        found.by_hand[KERNEL] = f"sudo {_written(journal)}"
        why = []
        for command in (journal, ["dmesg", "-T"]):
            try:
                output = runner(command, LOG)
                text = read_all(output)
            except OSError as error:
                said = str(error.strerror or error)
                why.append(said if said.startswith(command[0]) else f"{command[0]}: {said}")
                continue
            text = b"" if text.startswith(NOTHING) else text
            if command is not journal:
                text = _within(text, start, end)
            if text or not output.complaint:
                return io.BytesIO(text)
            why.append(f"{command[0]}: {output.complaint}")
        raise SourceError("; ".join(why))

    found.sources.append(Source(KERNEL, opened))
    found.by_hand[KERNEL] = "sudo journalctl --dmesg --boot --no-pager"
    found.spare.add(KERNEL)


def _within(text: bytes, start: int, end: int) -> bytes:
    """The lines of `dmesg -T` (local time) between two times; a line without a time goes with the one before."""
    kept, within = [], not start
    for line in text.splitlines(keepends=True):
        if line[:1] == b"[" and start:
            try:
                time = datetime.strptime(line[1:25].decode("ascii", "replace"), "%a %b %d %H:%M:%S %Y")
                within = start <= time.timestamp() and (not end or time.timestamp() <= end)
            except (ValueError, OverflowError):
                pass
        if within:
            kept.append(line)
    return b"".join(kept)


# ---- containers -----------------------------------------------------------------------------------------


def _container(found: Fetched, name: str, runner: Runner) -> None:
    """A docker or podman container's state, and its log of the last start; where it was restarted, the whole log."""
    refused = []
    for engine in ("docker", "podman"):
        try:
            answer = json.loads(
                read_all(runner([engine, "inspect", "--type=container", "--", name], QUESTION))
            )
            state = answer[0]
        except OSError as error:
            refused.append(str(error) if str(error).startswith(engine) else f"{engine}: {error}")
        except (ValueError, LookupError, TypeError):
            refused.append(f"{engine}: an answer that is no container's")
        else:
            _inspected(found, engine, name, state if isinstance(state, dict) else {}, runner)
            return
    found.problems.append(f"{name}: {'; '.join(refused)}")


def _inspected(found: Fetched, engine: str, name: str, state: dict[str, Any], runner: Runner) -> None:
    log, inspected = f"log of {name}", f"{engine} inspect {name}"
    run_state, limits = (state.get(part) or {} for part in ("State", "HostConfig"))
    started = str(run_state.get("StartedAt") or "")
    restarts = state.get("RestartCount") or 0
    span = Span()
    if restarts:
        times = "once" if restarts == 1 else f"{restarts} times"
        found.notes.append(f"{engine} restarted {name} {times}: its whole log is read")
    elif _seconds(started):
        end = _seconds(str(run_state.get("FinishedAt") or ""))
        span = Span(_seconds(started), end if end >= _seconds(started) else 0)
    since = [f"--since={started}"] if span.start else []
    command = [engine, "logs", "--timestamps", *since, "--", name]
    found.sources.append(Source(log, _opener(found, log, command, runner, merged=True)))
    found.by_hand[log] = f"sudo {_written(command)}"
    told = {"Name": str(state.get("Name") or name).lstrip("/"), "RestartCount": restarts}
    told |= {key: run_state[key] for key in _STATE if key in run_state}
    told |= {key: limits[key] for key in _LIMITS if key in limits}
    rows = (f'    "{key}": {json.dumps(value)},\n' for key, value in told.items())
    found.sources.append(of_bytes("".join(rows).encode(), inspected))
    found.spare.add(inspected)
    found.widen(span.start, span.end)


# ---- small change -----------------------------------------------------------------------------------------


def _seconds(text: str | None) -> int:
    """Seconds since 1970 of a time as systemd, docker and podman print it; 0 where there is none.

    systemd gives the local zone a name that only this machine knows: without an offset a time is a local one.
    """
    found = _TIME.search(text or "")
    if found is None or found[1].startswith("0001"):
        return 0
    zone = "+0000" if found[3] in ("Z", "UTC") else (found[3] or "").replace(":", "")
    if not zone:
        return int(datetime.strptime(f"{found[1]} {found[2]}", "%Y-%m-%d %H:%M:%S").timestamp())
    return int(datetime.strptime(f"{found[1]} {found[2]} {zone}", "%Y-%m-%d %H:%M:%S %z").timestamp())


def _written(command: Sequence[str]) -> str:
    import shlex

    return shlex.join(command)


__all__ = ["KERNEL", "Fetched", "fetch", "kernel_log", "properties"]
