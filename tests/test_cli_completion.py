"""Completion as bash does it: commands, rules and files side by side."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
compopt() { echo "compopt $*"; }
source <(vdiag completion bash)
COMP_CWORD=$(($# - 1)) COMP_WORDS=("$@") COMPREPLY=()
_vdiag_completion vdiag
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["comp"], ["completion", "compose.log"]),
        (["rul"], ["rules", "rules.d/"]),
        (["expl"], ["explain"]),
        (["rules", "li"], ["lint", "list"]),
        (["--fo"], ["--follow", "--format"]),
        (["vll"], ["compopt -o", "default"]),  # bash's own completion of files; IFS is the script's
        (["explain", "kv-cache-too-small"], ["kv-cache-too-small", "kv-cache-too-small-v0"]),
        (["explain", "vllm.l"], ["compopt -o", "default"]),
    ],
)
def test_what_bash_offers(typed: list[str], offered: list[str], tmp_path: Path) -> None:
    for name in ("compose.log", "compose notes.log", "vllm.log"):
        (tmp_path / name).touch()
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "vdiag"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom vdiag.cli import run\nsys.exit(run())\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", "vdiag", *typed],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"},
        check=False,
    )
    rows = [row for row in done.stdout.splitlines() if row]
    assert rows[: len(offered)] == offered, done.stderr
    assert "compose notes.log" not in rows
