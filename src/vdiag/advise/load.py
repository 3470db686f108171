"""The load of a server over time, by its throughput lines and warnings of preemption."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdiag.model import Load
    from vdiag.reason.story import Episode
    from vdiag.rulebook.compile import Rulebook


def load(episode: Episode, rulebook: Rulebook, name: str) -> Load | None:
    """The load of a run of the server in the input `name`; None where its log does not tell."""
    return None
