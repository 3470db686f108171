"""Where the memory of the card went, by the figures that vLLM printed of each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdiag.model import Memory
    from vdiag.reason.story import Episode
    from vdiag.rulebook.compile import Rulebook


def budget(episode: Episode, rulebook: Rulebook, name: str) -> Memory | None:
    """The budget of a run of the server in the input `name`; None where its log holds no figures."""
    return None
