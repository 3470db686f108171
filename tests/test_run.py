"""`vdiag run`: a command as it would be without vdiag, and a diagnosis below it where it fails."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from logtext import SAMPLES

KV = SAMPLES / "kv-cache-too-small.log"
DEADLINE = 60.0  # seconds after which a test that waits gives up
VDIAG = [sys.executable, "-c", "import sys; from vdiag.cli import run; sys.exit(run())", "run"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No rules of the user's, and a kernel that says nothing."""
    (tmp_path / "journalctl").write_text("#!/bin/sh\necho '-- No entries --'\n")
    (tmp_path / "journalctl").chmod(0o755)
    return {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}


Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Runs a shell script under vdiag, with pipes."""

    def running(script: str, *options: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*VDIAG, *options, "--", "sh", "-c", script], env=environment, timeout=DEADLINE, check=False,
            stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip

    return running


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# ---- output and status ----------------------------------------------------------------------------------------


def test_output_passes_unchanged_and_success_adds_nothing(run: Run) -> None:
    done = run(r"printf 'a\r\nb\001\377 no end'; printf 'warn\n' >&2")
    assert (done.stdout, done.stderr, done.returncode) == (b"a\r\nb\x01\xff no end", b"warn\n", 0)


def test_a_failure_is_diagnosed_below_its_output(run: Run) -> None:
    done = run(f"cat {KV}; exit 7")
    assert done.stdout == KV.read_bytes()
    assert done.returncode == 7
    message = done.stderr.decode()
    assert message.startswith("\nvdiag: sh failed: it ended with status 7\n\nDiagnosed: The KV cache")
    assert "output of sh:47 in" in message


def test_both_streams_are_diagnosed(run: Run) -> None:
    done = run(f"cat {KV} >&2; exit 1")
    assert done.stdout == b""
    assert done.stderr.startswith(KV.read_bytes())
    assert b"Diagnosed: The KV cache" in done.stderr


def test_json_stands_on_the_last_line_of_standard_error(run: Run) -> None:
    done = run(f"cat {KV}; echo more >&2; exit 1", "--format", "json")
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["diagnoses"][0]["rule"] == "kv-cache-too-small"
    assert report["inputs"][0]["name"] == "output of sh"


def test_a_killed_command_has_the_shells_status_and_is_never_called_healthy(run: Run) -> None:
    done = run("echo hello; kill -9 $$")
    assert done.returncode == 137
    assert b"vdiag: sh failed: signal 9 ended it" in done.stderr
    assert b"Incomplete: " in done.stderr


def test_a_failure_without_a_word_is_incomplete(run: Run) -> None:
    done = run("echo hello; exit 3", "--format", "json")
    assert json.loads(done.stderr)["verdict"] == "incomplete"


@pytest.mark.parametrize("stop", ["kill -INT $$", "kill -TERM $$", "exit 130", "exit 143"])
def test_what_somebody_stopped_has_not_failed(run: Run, stop: str) -> None:
    done = run(f"cat {SAMPLES / 'healthy-busy.log'}; {stop}")
    assert done.returncode in (130, 143)
    message = done.stderr.decode()
    assert message.startswith("\nvdiag: sh was stopped: ")
    assert len(message.splitlines()) == 2
    assert json.loads(run(f"echo hello; {stop}", "--format", "json").stderr)["verdict"] == "empty"


def test_what_failed_before_somebody_stopped_it_is_diagnosed(run: Run) -> None:
    message = run(f"cat {KV}; kill -INT $$").stderr.decode()
    assert message.startswith("\nvdiag: sh failed: signal 2 ended it\n\nDiagnosed: The KV cache")


def test_a_failure_without_a_word_is_not_sent_to_another_log(run: Run) -> None:
    message = run("echo hello; exit 3").stderr.decode()
    assert "all of its output was read" in " ".join(message.lower().split())
    assert "    VLLM_LOGGING_LEVEL=DEBUG vdiag run -- sh …\n" in message
    assert "journalctl -u" not in message


def test_line_numbers_are_those_of_the_whole_output(run: Run) -> None:
    script = f"yes 'a line of forty characters and no meaning' | head -n 300000; cat {KV}; exit 1"
    report = json.loads(run(script, "--format", "json").stderr)
    assert report["diagnoses"][0]["line"] == 300_047
    assert any("Only its last 8 MiB were read" in note for note in report["notes"])


def test_a_command_that_is_not_there(environment: dict[str, str], tmp_path: Path) -> None:
    def status(command: str) -> int:
        return subprocess.run(
            [*VDIAG, "--", command], env=environment, capture_output=True, timeout=DEADLINE, check=False
        ).returncode

    (tmp_path / "text").write_text("no program")
    assert status("no-such-command-here") == 127
    assert status(str(tmp_path / "text")) == 126


def test_output_of_a_child_that_outlives_the_command_is_not_waited_for(run: Run) -> None:
    done = run("sleep 30 & echo hello; exit 0")
    assert (done.stdout, done.returncode) == (b"hello\n", 0)


def test_output_arrives_at_once(environment: dict[str, str]) -> None:
    """The first line is here while the command still waits for us."""
    with subprocess.Popen(
        [*VDIAG, "--", "sh", "-c", "echo first; read answer; echo $answer"],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        process.stdin.write(b"second\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"second\n"
        assert process.wait(DEADLINE) == 0


# ---- signals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "USR1"])
def test_a_signal_reaches_the_command(environment: dict[str, str], name: str) -> None:
    """Python as the child: a shell run in the background ignores SIGINT."""
    child = (
        "import signal, sys\n"
        f"signal.signal(signal.SIG{name}, lambda *_: (print('got it', flush=True), sys.exit(9)))\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()"
    )
    with subprocess.Popen(
        [*VDIAG, "--", sys.executable, "-c", child],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.readline() == b"got it\n"
        assert process.wait(DEADLINE) == 9


# ---- terminals ------------------------------------------------------------------------------------------------


class Terminal:
    """vdiag run in a terminal of its own, 33 rows of 77 columns."""

    def __init__(self, environment: dict[str, str], script: str) -> None:
        import fcntl
        import struct
        import termios

        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execve(VDIAG[0], [*VDIAG, "--", sys.executable, "-c", script], environment)
            finally:
                os._exit(125)
        self.seen = b""
        self._resize = lambda rows, columns: fcntl.ioctl(
            self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0)
        )

    def resize(self, rows: int, columns: int) -> None:
        self._resize(rows, columns)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def until(self, text: bytes) -> None:
        end = time.monotonic() + DEADLINE
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            try:
                self.seen += os.read(self.fd, 4096)
            except OSError:
                assert text in self.seen, self.seen
                return

    def wait(self) -> int:
        self.until_closed()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def until_closed(self) -> None:
        try:
            while data := os.read(self.fd, 4096):
                self.seen += data
        except OSError:
            pass
        os.close(self.fd)


def test_in_a_terminal_the_command_has_one_too_and_line_ends_are_not_doubled(
    environment: dict[str, str],
) -> None:
    terminal = Terminal(
        environment, "import os; print(os.isatty(1), os.isatty(2), flush=True); os.write(2, b'[end]')"
    )
    assert terminal.wait() == 0
    assert terminal.seen == b"True True\r\n[end]"


def test_a_new_window_size_reaches_the_command(environment: dict[str, str]) -> None:
    child = (
        "import os, signal, sys\n"
        "def changed(*_):\n"
        "    size = os.get_terminal_size(1)\n"
        "    print('size', size.lines, size.columns, flush=True)\n"
        "    if size.columns == 99: sys.exit(0)\n"
        "signal.signal(signal.SIGWINCH, changed)\n"
        "print('ready', flush=True)\n"
        "while True: signal.pause()"
    )
    terminal = Terminal(environment, child)
    terminal.until(b"ready")
    terminal.resize(44, 99)
    terminal.until(b"size 44 99")
    assert terminal.wait() == 0


def test_ctrl_c_reaches_the_command_once(environment: dict[str, str]) -> None:
    child = (
        "import signal, sys, time\n"
        "got = []\n"
        "signal.signal(signal.SIGINT, lambda *_: got.append(1))\n"
        "print('ready', flush=True)\n"
        "while not got: time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "print('interrupts:', len(got), flush=True)"
    )
    terminal = Terminal(environment, child)
    terminal.until(b"ready")
    terminal.type(b"\x03")
    terminal.until(b"interrupts: 1")
    assert terminal.wait() == 0


def test_where_nobody_can_be_told_the_status_is_still_the_commands(environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    told = subprocess.run(
        [*VDIAG, "--", "sh", "-c", "exit 5"], env=environment, timeout=DEADLINE, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing,
    )  # fmt: skip
    os.close(writing)
    assert told.returncode == 5


@pytest.mark.skipif(
    not Path("/dev/full").is_char_device(), reason="the system has no disk that is always full"
)
def test_a_full_disk_changes_no_status(environment: dict[str, str]) -> None:
    for words, status in ((["--", "sh", "-c", "exit 5"], 5), (["--no-such-option"], 2)):
        with open("/dev/full", "wb") as full:
            told = subprocess.run(
                [*VDIAG, *words], env=environment, timeout=DEADLINE, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=full,
            )  # fmt: skip
        assert told.returncode == status
