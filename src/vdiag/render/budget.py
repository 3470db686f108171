"""The memory budget as a bar and a table."""

from __future__ import annotations

from collections.abc import Sequence

from vdiag.model import Fix, Lever, Memory, Share
from vdiag.render.page import Page
from vdiag.render.sections import BRIEF, enough, left_out, sentence
from vdiag.sizing.fit import LOW_UTILIZATION, SAFE_UTILIZATION
from vdiag.sizing.shares import FREE, KV

BAR = 60  # cells of the bar on a wide page
_MARKS = "#=+*%o~-"  # one for each share, in order; free room is `.`
_ROOM = "."
LEFT, LEFT_OF_HOST = "left of the card", "left of the host"


def show(page: Page, told: Memory, everything: bool, fixes: Sequence[Fix] = ()) -> None:
    """The section of a terminal page: where the gigabytes went, what fits, what would; nothing for another failure.

    What `fixes` say already of a setting is said again only if `everything` is.
    """
    if not ((told.asked or everything) and tells(told)):
        return
    page.heading(title(told))
    for text in where(told):
        page.prose(text)
    _bar(page, told)
    if (everything or not told.when_full) and (said := fits(told)):
        page.prose(" ".join(said))
    for note in told.notes:
        page.prose(note)
    known = [fix.set for fix in fixes]
    levers = [
        lever
        for lever in told.levers
        if everything or not any(lever.set and set_.keys() >= lever.set.keys() for set_ in known)
    ]
    _levers(page, levers, everything)


def tells(told: Memory) -> bool:
    """Whether its figures make up anything to read."""
    return bool(where(told) or told.shares or fits(told) or told.notes or told.levers)


def title(told: Memory) -> str:
    """What the figures are of."""
    return "The memory of the card" if told.when_full else "The memory budget"


def where(told: Memory) -> list[str]:
    """Of which card, and vLLM's share of it, in sentences."""
    said, sentences = [], []
    if told.total_gib:
        what = "the memory of the host has" if told.host else "the card has"
        said.append(f"{what} {told.total_gib:.2f} GiB")
    if told.free_gib is not None and not told.when_full:
        said.append(f"{told.free_gib:.2f} GiB were free at start")
    if told.utilization and told.budget_gib and not told.when_full:
        said.append(f"vLLM's share of {told.utilization:g} is {told.budget_gib:.2f} GiB")
    if said:
        text = ", ".join(said)
        sentences.append(f"{text[:1].upper()}{text[1:]}.")
    if told.ranks > 1:
        who = f", here {told.lane}" if told.lane else ""
        sentences.append(
            f"{told.ranks} ranks tell their figures; the one with the least KV cache decides{who}."
        )
    return sentences


def _bar(page: Page, told: Memory) -> None:
    """The bar, then a row for each share with its mark, so that it can be read aloud."""
    if not told.shares:
        return
    marks = iter(_MARKS)
    parts = [(share, _ROOM if share.what == FREE else next(marks, _MARKS[-1])) for share in told.shares]
    spent = sum(share.gib for share in told.shares)
    total = told.total_gib if told.total_gib and told.total_gib >= spent - 0.05 else None
    if total and total - spent > 0.05:
        parts.append((Share(LEFT_OF_HOST if told.host else LEFT, total - spent), _ROOM))
    if total or len(parts) > 1:
        cells, done, bar = min(BAR, page.width - 6), 0.0, ""
        for share, mark in parts:
            done += share.gib
            bar += mark * (round(done / (total or spent) * cells) - len(bar))
        page.lines.append([(f"  [{bar.ljust(cells, _ROOM)}]", "")])
    widest = max(len(name(share)) for share, _ in parts)
    for share, mark in parts:
        page.lines.append([(_row(share, mark, widest, total), "")])


def name(share: Share) -> str:
    """A share with what tempers it."""
    tempered = [
        word for word, holds in (("estimated", share.estimated), ("beside the budget", share.beside)) if holds
    ]
    return f"{share.what} ({', '.join(tempered)})" if tempered else share.what


def _row(share: Share, mark: str, widest: int, total: float | None) -> str:
    part = f" {share.gib / total * 100:4.0f} %" if total else ""
    line = f"  line {share.line}" if share.line else ""
    return f"  {mark} {name(share).ljust(widest)} {share.gib:7.2f} GiB{part}{line}"


def fits(told: Memory) -> list[str]:
    """How many tokens and requests fit, and what would be needed, in sentences."""
    said = []
    nothing = told.kv_gib is not None and told.kv_gib <= 0
    if nothing:
        said.append("Nothing is left for the KV cache, so no length fits.")
    elif told.kv_tokens is not None and told.kv_gib is not None:
        each = f", {told.bytes_per_token:,.0f} bytes each" if told.bytes_per_token else ""
        said.append(f"The KV cache of {told.kv_gib:.2f} GiB holds about {told.kv_tokens:,} tokens{each}.")
    elif told.kv_tokens is not None:
        said.append(f"The KV cache holds {told.kv_tokens:,} tokens.")
    if told.max_model_len and told.concurrency is not None and not nothing:
        need = f" ({told.need_gib:.2f} GiB)" if told.need_gib else ""
        said.append(
            f"Of requests of the full {told.max_model_len:,} tokens{need} {told.concurrency:.2f} fit at once."
        )
    if told.fitting_len:
        sure = any(share.what == KV and share.estimated for share in told.shares)
        said.append(
            f"The longest context that {'is sure to fit' if sure else 'fits'} is {told.fitting_len:,} tokens."
        )
    if wanted := told.needed_utilization:
        said.append(_utilization(wanted, told))
    return said


def _utilization(wanted: float, told: Memory) -> str:
    """What share of the card the full length would need, and whether that is sane."""
    if wanted > 1:
        return "No share of this card is enough for the full length."
    needs = f"The full length would need --gpu-memory-utilization {wanted:.2f}"
    if wanted > SAFE_UTILIZATION:
        return (
            f"{needs}, which is above the working range ({LOW_UTILIZATION} to {SAFE_UTILIZATION}): "
            "the fault would only move to run time."
        )
    if told.free_gib is not None and told.total_gib and wanted * told.total_gib > told.free_gib:
        return f"{needs}, which is more than was free at start."
    return f"{needs}."


def _levers(page: Page, levers: list[Lever], everything: bool) -> None:
    if not levers:
        return
    page.heading("What would change it")
    for lever in levers if everything else levers[:BRIEF]:
        page.prose(f"{does(lever)}: {gives(lever)}.", first="- ", indent="  ")
        if lever.price:
            page.prose(f"Price: {sentence(lever.price)}", first="  ", indent="  ")
    left_out(page, len(levers), everything)


def does(lever: Lever) -> str:
    """A lever with its flags."""
    said = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {value}")
        for name, value in lever.set.items()
        if name != "model"
    ]
    said += [f"{name}={value}" for name, value in lever.env.items()]
    return sentence(lever.do)[:-1] + (f" ({' '.join(said)})" if said else "")


def gives(lever: Lever) -> str:
    """What a lever brings, and whether that is enough."""
    return f"{lever.gives}{enough(lever.enough)}"
