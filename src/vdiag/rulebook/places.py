"""Where a user's own rules stand; apart from reading them, since every start asks."""

from __future__ import annotations

import os
from pathlib import Path


def default_user_paths() -> list[Path]:
    """Where a user's own rules stand: `VDIAG_RULES` (several, separated as in PATH), else nothing; then
    `vdiag/rules` in the configuration folder, if it exists."""
    given = [Path(part).expanduser() for part in os.environ.get("VDIAG_RULES", "").split(os.pathsep) if part]
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    folder = Path(home, "vdiag", "rules")
    return given + ([folder] if folder.is_dir() else [])
