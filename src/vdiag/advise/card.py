"""What PyTorch says of a card on which memory ran out: who holds how much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vdiag.advise.figures import MOST
from vdiag.model import Role, Share
from vdiag.sizing import shares

if TYPE_CHECKING:
    from vdiag.model import Event
    from vdiag.reason.story import Episode
    from vdiag.rulebook.compile import Rulebook


ROUGHLY = 0.05  # by how much the parts may be more than the whole: they are not read at one moment


class Full(NamedTuple):
    """A full card: its size in GiB, who holds what of it, and what is to be said of that."""

    total_gib: float
    shares: list[Share]
    notes: list[str]


def state(episode: Episode, rulebook: Rulebook, event: Event) -> Full | None:
    """The card by the out-of-memory message of `event`; None where it does not tell of the whole card."""
    said: dict[str, float] = {}
    others: dict[int, float] = {}
    for match in episode.matches:
        if match.event is not event or rulebook.rules[match.rule].role is not Role.CONTEXT:
            continue
        figures = {
            k: v
            for k, v in match.captures.items()
            if k.startswith("oom_") and isinstance(v, (int, float)) and 0 <= v < MOST
        }
        for number in (1, 2, 3):
            if pid := figures.pop(f"oom_pid_{number}", None):
                others[int(pid)] = figures.pop(f"oom_pid_{number}_gib", 0.0)
        said.update(figures)
    total = said.get("oom_total_gib")
    if not total:
        return None
    told = _told(total, said, others, event.line)
    held = sum(share.gib for share in told.shares)
    return told if held <= total * (1 + ROUGHLY) else None  # figures that contradict each other


def _told(total: float, said: dict[str, float], others: dict[int, float], line: int) -> Full:
    told: list[Share] = []
    notes: list[str] = []
    used = said.get("oom_allocated_gib")
    free = said.get("oom_free_gib")
    held = said.get("oom_held_gib")  # tensors and reserve together, as old versions print it
    unused = said.get("oom_reserved_gib")
    if unused is None and held is not None and used is not None:
        unused = held - used
    own = said.get("oom_process_gib", said.get("oom_own_gib"))
    if own is None and used is not None and len(others) == 1:
        # In a container PyTorch does not know its own process by its number, and tells of it as of any other.
        pid, gib = next(iter(others.items()))
        if gib >= used:
            own = gib
            others = {}
            notes.append(f"Process {pid} is taken for the server itself: it holds what PyTorch allocated.")

    def share(what: str, gib: float | None) -> None:
        if gib is not None and gib >= 0.005:
            told.append(Share(what, round(gib, 2), line))

    share(shares.TENSORS, used)
    share(shares.RESERVED, unused)
    if own is not None and used is not None:
        share(shares.LIBRARIES, own - used - (unused or 0.0))
    elif own is not None:
        share("this process", own)
    for pid, gib in others.items():
        share(f"process {pid}", gib)
    share(shares.FREE, free)
    rest = total - sum(item.gib for item in told)
    if rest > 0.05 and free is not None and told:
        told.insert(0, Share(shares.UNTOLD, round(rest, 2)))
    if want := said.get("oom_want_gib"):
        left = f", {_amount(free)} were free" if free is not None else ""
        notes.insert(0, f"{_amount(want)} more were asked for in one piece{left}.")
    if pools := said.get("oom_pools_gib"):
        notes.append(f"Of the tensors, {_amount(pools)} are private pools (CUDA graphs).")
    return Full(total, told, notes)


def _amount(gib: float) -> str:
    if gib >= 1:
        return f"{gib:.2f} GiB"
    return f"{gib * 1024:.0f} MiB" if gib >= 1 / 1024 or not gib else "less than 1 MiB"
