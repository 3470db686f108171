"""What differs between a start of the server that worked and one that did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vdiag.model import Changes, Input
    from vdiag.reason.blame import Blame
    from vdiag.rulebook.compile import Rulebook


def changed(bad: Blame, good: Sequence[Blame], inputs: Sequence[Input], rulebook: Rulebook) -> Changes | None:
    """The differences between a failed run and the latest of `good`, runs that served; None without any."""
    return None
