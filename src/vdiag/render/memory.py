"""The page of `vdiag memory`: what a model takes on one card, and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdiag.render import budget
from vdiag.render.page import Page
from vdiag.sizing.fit import SAFE_UTILIZATION
from vdiag.sizing.shares import WEIGHTS

if TYPE_CHECKING:
    from vdiag.model import Lever
    from vdiag.sizing.plan import Kept, Plan


def render(plan: Plan, *, width: int, everything: bool = False) -> Page:
    """The page of a plan."""
    page = Page(width)
    page.prose(f"{plan.config}: {_model(plan)}", style="bold")
    page.blank()
    page.prose(plan.said, style="bold")
    page.heading("Memory of one card")
    budget.show(page, plan.memory, everything)
    _rows(page, plan)
    if plan.kept:
        page.heading("What a request keeps, on one card")
        for kept in plan.kept:
            page.prose(_kept(kept), first="  ", indent="    ")
    if plan.memory.levers:
        page.heading("What would change it")
        for lever in plan.memory.levers:
            page.prose(_lever(lever), first="- ", indent="  ")
            page.prose(f"Price: {lever.price}.", first="  ", indent="  ")
    if plan.memory.notes:
        page.heading("Notes")
        for note in plan.memory.notes:
            page.prose(note, first="- ", indent="  ")
    if plan.flags:
        page.heading("Flags")
        page.command(" ".join(plan.flags))
    return page


def _model(plan: Plan) -> str:
    model = plan.model
    parts = [model["architecture"] or model["model_type"] or "a model", f"{model['layers']} layers"]
    if model["parameters"]:
        parts.append(f"{model['parameters'] / 1e9:.2f} billion parameters")
    parts.append(model["quantization"] or model["dtype"])
    return ", ".join(parts)


def _rows(page: Page, plan: Plan) -> None:
    memory = plan.memory
    rows = [("card", f"{memory.total_gib:.2f} GiB x {memory.utilization:g} = {memory.budget_gib:.2f} GiB")]
    for share in memory.shares:
        rows.append((share.what, f"{share.gib:.2f} GiB{_how(plan, share.what, share.estimated)}"))
    low, high = plan.range_gib
    rows.append(
        ("KV cache", f"{memory.kv_gib:.2f} GiB ({low:.2f} to {high:.2f}, as the estimates are uncertain)")
    )
    if memory.need_gib is not None:
        rows.append(
            ("one request", f"{memory.need_gib:.2f} GiB for {memory.max_model_len:,} tokens"
             f" ({memory.bytes_per_token:,.0f} B a token)")
        )  # fmt: skip
        rows.append(("fits", f"{memory.kv_tokens:,} tokens, {memory.concurrency:.2f} such requests at once"))
    if memory.fitting_len:
        rows.append(("longest context", f"{memory.fitting_len:,} tokens surely fit, whatever the estimates"))
    if memory.needed_utilization is not None:
        wanted = memory.needed_utilization
        sane = (
            ""
            if wanted <= SAFE_UTILIZATION
            else ", more than is sane"
            if wanted <= 1
            else ", more than a card has"
        )
        rows.append(("utilization", f"{wanted:.2f} would be needed{sane}"))
    for name, value in rows:
        page.prose(value, first=f"  {name:<16} ", indent=" " * 19)


def _how(plan: Plan, what: str, estimated: bool) -> str:
    how = f", {plan.weights_how}" if what == WEIGHTS else ""
    return f"{how}, estimated" if estimated else how


def _lever(lever: Lever) -> str:
    flags = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in lever.set.items())
    enough = {None: "", True: "; enough by itself", False: "; not enough by itself"}[lever.enough]
    return f"{lever.do} ({flags}): {lever.gives}{enough}."


def _kept(kept: Kept) -> str:
    layers = f"{kept.layers} layer{'s' * (kept.layers != 1)} of {kept.kind}"
    if kept.kind == "shared":
        return f"{kept.layers} layers: {kept.how}"
    if kept.bytes_per_token is None:
        what = "a state" if kept.kind == "state" else kept.kind
        return f"{kept.layers} layers with {what}: {kept.fixed_bytes:,} B a request ({kept.how})"
    return f"{layers}: {kept.bytes_per_token:,.0f} B a token ({kept.how} each)"
