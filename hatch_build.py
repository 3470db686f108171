"""Build hook: compiles `rules/` into the file that the package decodes at start-up.

A wheel is not built from a rulebook with errors; an editable install only warns, because the checkout recompiles
itself when its rules change.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RulebookHook(BuildHookInterface):
    """Writes src/vdiag/rulebook/shipped.msgpack and has the wheel carry it."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return  # an sdist carries the rules themselves
        root = Path(self.root)
        sys.path.insert(0, str(root / "src"))
        from vdiag.rulebook.lint import lint  # isort: skip
        from vdiag.rulebook.shipped import SHIPPED, stamp_of, write_shipped

        rules = root / "rules"
        result = lint([rules])
        if result.errors and version != "editable":
            raise SystemExit("\n".join([*result.errors, f"the rulebook has {len(result.errors)} errors"]))
        for error in result.errors:
            self.app.display_warning(error)
        write_shipped(result.rulebook, stamp_of(rules))
        build_data["artifacts"].append(SHIPPED.relative_to(root).as_posix())
