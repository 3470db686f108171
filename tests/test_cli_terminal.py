"""A log pasted at a terminal: one Ctrl-D ends it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time

import pytest

ERROR = b"ValueError: To serve at least one request with the model's max seq len (131072)"
CTRL_D = b"\x04"
RUN = "import sys; from vdiag.cli import run; sys.exit(run())"
LONGEST = 30  # seconds a diagnosis may take on a busy machine


def typed(arguments: list[str], *keys: bytes) -> tuple[int, str]:
    """Exit status and output of vdiag with these keys pressed at its terminal, one group after the other."""
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-c", RUN, *arguments, "--color", "never"]
        child = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        os.close(theirs)
        for group in keys:
            time.sleep(0.5)  # as a person does: what is typed at once is one reading of the terminal
            os.write(ours, group)
        try:
            out, _ = child.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            child.kill()
            out, _ = child.communicate()
            pytest.fail(f"still reading after {len(keys)} groups of keys")
        return child.returncode, out.decode()
    finally:
        os.close(ours)


@pytest.mark.parametrize("arguments", [["explain"], ["-"]])
def test_one_ctrl_d_on_a_line_of_its_own_ends_the_log(arguments: list[str]) -> None:
    status, out = typed(arguments, ERROR + b"\n", CTRL_D)
    assert status == 1
    assert "<stdin>:1" in out


def test_a_line_without_its_end_takes_two() -> None:
    """The first hands the line over, as everywhere."""
    status, out = typed(["explain"], ERROR, CTRL_D, CTRL_D)
    assert status == 1
    assert "<stdin>:1" in out


def test_nothing_but_ctrl_d_is_an_empty_log() -> None:
    status, out = typed(["explain"], CTRL_D)
    assert status == 3
    assert "Empty: " in out
