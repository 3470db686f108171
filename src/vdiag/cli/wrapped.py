"""A child process whose output passes through unchanged and at once, while its end is held for a diagnosis.

Where our output is a terminal, so is the child's: a pseudo-terminal of the same size keeps colours and progress bars.
The child stays in our process group: what the terminal sends to the group (Ctrl-C, Ctrl-Z) reaches it by itself, and
only a signal that was sent to us alone is passed on.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence

HELD = 8 << 20  # bytes of output
CHUNK = 64 << 10
LOOK = 0.2  # seconds between two looks whether the child has ended
LINGER = 2.0  # seconds for which its own children's last output is awaited after its end
PASSED_ON = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}


class Wrapped:
    """Starts a command; `wait` passes its output through until it ends. Raises OSError where it cannot be run."""

    def __init__(self, command: Sequence[str], out: int = 1, err: int = 2) -> None:
        self.passed = 0  # lines of its output that are no longer held
        self._held: deque[bytes] = deque()
        self._size = 0
        self._terminals: list[tuple[int, int]] = []  # pseudo-terminal, the terminal it stands for
        self._pipes: dict[int, int] = {}  # read from → write to
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON | {signal.SIGWINCH})
        self._mask = mask
        ends: list[int] = []
        try:
            child_out = self._join(out, ends)
            # One way for both where both lead to the same place: the order of the lines stays.
            child_err = child_out if os.path.sameopenfile(out, err) else self._join(err, ends)
            self._child = subprocess.Popen(
                list(command),
                stdout=child_out,
                stderr=child_err,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
            )
        except BaseException:
            for end in self._pipes:
                os.close(end)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            raise
        finally:
            for end in ends:
                os.close(end)

    @property
    def printed(self) -> bytes:
        """The last of what was printed, from the beginning of a line on."""
        return b"".join(self._held)

    def wait(self) -> int:
        """Passes everything through; the child's status as `subprocess` tells it (negative for a signal)."""
        threading.Thread(target=self._pass_signals, daemon=True).start()
        try:
            self._copy()
            return self._child.wait()
        finally:
            for end in self._pipes:
                os.close(end)
            self._begin_line()
            with contextlib.suppress(OSError):  # wakes the thread, which then ends
                os.kill(os.getpid(), signal.SIGWINCH)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    # ---- output -------------------------------------------------------------------------------------------

    def _join(self, target: int, ends: list[int]) -> int:
        """A way from the child to one of our streams; returns the child's end of it."""
        if os.isatty(target):
            ours, childs = pty.openpty()
            attributes = termios.tcgetattr(childs)
            attributes[1] &= ~termios.OPOST  # the real terminal does what is to be done with line ends
            termios.tcsetattr(childs, termios.TCSANOW, attributes)
            self._terminals.append((ours, target))
            self._resize()
        else:
            ours, childs = os.pipe()
        self._pipes[ours] = target
        ends.append(childs)
        return childs

    def _copy(self) -> None:
        ended = 0.0
        while self._pipes:
            ready = select.select(list(self._pipes), [], [], LOOK)[0]
            for end in ready:
                self._pass(end)
            if not ended and self._child.poll() is not None:
                ended = time.monotonic()
            if ended and (not ready or time.monotonic() - ended > LINGER):
                return

    def _pass(self, end: int) -> None:
        try:
            data = os.read(end, CHUNK)
        except OSError:  # how a pseudo-terminal says that nobody writes any more
            data = b""
        if data:
            self._hold(data)
            with contextlib.suppress(OSError):
                _write(self._pipes[end], data)
                return
        # The end; or nobody reads us any more, which the child is to notice as it would without us.
        os.close(end)
        del self._pipes[end]
        self._terminals = [pair for pair in self._terminals if pair[0] != end]

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._size += len(data)
        while self._size > HELD and len(self._held) > 1:
            gone = self._held.popleft()
            self._size -= len(gone)
            self.passed += gone.count(b"\n")

    def _begin_line(self) -> None:
        """Drops the rest of a line whose beginning is no longer held."""
        while self.passed and self._held:
            piece = self._held.popleft()
            _, found, rest = piece.partition(b"\n")
            if found:
                self.passed += 1
                self._held.appendleft(rest)
                return

    # ---- signals ------------------------------------------------------------------------------------------

    def _pass_signals(self) -> None:
        for number in self._sent_to_us():
            with contextlib.suppress(OSError):
                self._child.send_signal(number)

    def _sent_to_us(self) -> Iterator[int]:
        while self._child.returncode is None:
            number, by_terminal = _next_signal(PASSED_ON | {signal.SIGWINCH})
            if number == signal.SIGWINCH:
                self._resize()
                if self._terminals:
                    yield signal.SIGWINCH  # again: the first came before the new size
            elif not by_terminal:
                yield number

    def _resize(self) -> None:
        for ours, real in self._terminals:
            with contextlib.suppress(OSError):
                size = fcntl.ioctl(real, termios.TIOCGWINSZ, bytes(8))
                fcntl.ioctl(ours, termios.TIOCSWINSZ, size)


def _next_signal(awaited: set[signal.Signals]) -> tuple[int, bool]:
    """The next signal, and whether the terminal sent it to the whole process group."""
    if hasattr(signal, "sigwaitinfo"):
        told = signal.sigwaitinfo(awaited)
        return told.si_signo, told.si_code > 0
    number = signal.sigwait(awaited)  # where nothing tells who sent it: keys are the likelier sender
    return number, number in (signal.SIGINT, signal.SIGQUIT) and os.isatty(0)


def _write(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:  # the terminal is shared with a program that made it so
            select.select([], [target], [])
