"""Runs another program and reads what it prints: without a shell, in the C locale, with a limit on the waiting.

`Runner` is all that the rest needs to know, so that tests bring their own.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from typing import BinaryIO, Protocol, cast

QUESTION = 10.0  # seconds to wait, all in all, for a short answer
LOG = 60.0  # and for a whole log; the time spent reading it does not count
MOST = 64 << 20  # bytes taken of an answer that is held in memory
MOST_COMPLAINT = 4096  # bytes looked at of what went to standard error


class Output(Protocol):
    """What a program prints. Reading raises OSError where it fails, or makes us wait too long."""

    complaint: str  # what it said on standard error, one line; known at the end

    def readinto(self, buffer: bytearray | memoryview, /) -> int: ...
    def close(self) -> None: ...


class Runner(Protocol):
    """Starts a program; raises OSError where that cannot be done. `merged`: its standard error belongs to the log."""

    def __call__(self, command: Sequence[str], seconds: float, *, merged: bool = False) -> Output: ...


def run(command: Sequence[str], seconds: float, *, merged: bool = False) -> Output:
    """The runner of this machine."""
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - a file never fills up, as a pipe would; Running closes it
    name = os.path.basename(command[0])
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else errors,
            env={**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0"},
        )
    except OSError as error:
        errors.close()
        if isinstance(error, FileNotFoundError):
            raise OSError(f"{name} is not installed") from None
        raise
    return Running(name, process, cast(BinaryIO, errors), seconds)


def read_all(output: Output, most: int = MOST) -> bytes:
    """What a program prints until it ends, or as much as `most` bytes of it; closes it."""
    data = bytearray()
    piece = bytearray(1 << 16)
    try:
        while len(data) < most and (size := output.readinto(piece)):
            data += piece[:size]
    finally:
        output.close()
    return bytes(data)


class Running(io.RawIOBase):
    """A started program's output. It is killed when it is closed early or keeps us waiting too long."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], errors: BinaryIO, seconds: float) -> None:
        assert process.stdout is not None
        self.complaint = ""
        self._name = name
        self._process = process
        self._pipe = process.stdout
        self._errors = errors
        self._limit = self._left = seconds

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._pipe.fileno()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Raises OSError at the end of a program that failed, TimeoutError where it took too long."""
        begun = time.monotonic()
        ready, _, _ = select.select([self._pipe], [], [], max(self._left, 0.0))
        self._left -= time.monotonic() - begun
        if not ready:
            self._too_long()
        size = os.readv(self._pipe.fileno(), [buffer])
        if not size:
            self._ended()
        return size

    def _ended(self) -> None:
        try:
            status = self._process.wait(max(self._left, 1.0))
        except subprocess.TimeoutExpired:
            self._too_long()
        self._errors.seek(0)
        said = self._errors.read(MOST_COMPLAINT).decode("utf8", "replace")
        self.complaint = " ".join(said.split())
        if status:
            raise OSError(self.complaint or f"{self._name} ended with status {status}")

    def _too_long(self) -> None:
        self._kill()
        raise TimeoutError(f"{self._name} took longer than {self._limit:g} s")

    def close(self) -> None:
        if not self.closed:
            self._kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in the kernel stays
                self._process.wait(1.0)
            self._pipe.close()
            self._errors.close()
        super().close()

    def _kill(self) -> None:
        """Kills the program, if it still runs, with those that it started."""
        if self._process.poll() is not None:
            return
        for pid in [self._process.pid, *_started_by(self._process.pid)]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _started_by(pid: int) -> list[int]:
    """The processes below one, where the kernel tells them."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(child) for child in file.read().split()]
    except OSError:
        return []
    return [below for child in children for below in (child, *_started_by(child))]
