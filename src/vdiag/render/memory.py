"""The page of `vdiag memory`: what a model takes on one card, and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdiag.render import budget
from vdiag.render.page import Page

if TYPE_CHECKING:
    from vdiag.sizing.plan import Kept, Plan


def render(plan: Plan, *, width: int, everything: bool = False) -> Page:
    """The page of a plan."""
    page = Page(width)
    page.prose(f"{plan.config}: {_model(plan)}", style="bold")
    page.blank()
    page.prose(plan.said, style="bold")
    budget.show(page, plan.memory, everything)
    page.heading("How this is known")
    for line in _known(plan):
        page.prose(line, first="- ", indent="  ")
    if plan.kept:
        page.heading("What a request keeps, on one card")
        for kept in plan.kept:
            page.prose(_kept(kept), first="- ", indent="  ")
    if plan.flags:
        page.heading("Flags")
        page.command(" ".join(plan.flags))
    return page


def _known(plan: Plan) -> list[str]:
    """Where the figures come from, and how sure they are."""
    low, high = plan.range_gib
    if high <= 0:
        left = f"By what is estimated, {-high:.2f} to {-low:.2f} GiB are missing."
    else:
        left = (
            f"What is estimated leaves {max(low, 0):.2f} to {high:.2f} GiB for the KV cache; "
            "the longest context fits the least."
        )
    return [
        *([f"The weights come {plan.weights_how}."] if plan.weights_how else []),
        left,
    ]


def _model(plan: Plan) -> str:
    model = plan.model
    parts = [model["architecture"] or model["model_type"] or "a model", f"{model['layers']} layers"]
    if model["parameters"]:
        parts.append(f"{model['parameters'] / 1e9:.2f} billion parameters")
    parts.append(model["quantization"] or model["dtype"])
    return ", ".join(parts)


def _kept(kept: Kept) -> str:
    layers = f"{kept.layers} layer{'s' * (kept.layers != 1)} of {kept.kind}"
    if kept.kind == "shared":
        return f"{kept.layers} layers: {kept.how}"
    if kept.bytes_per_token is None:
        what = "a state" if kept.kind == "state" else kept.kind
        return f"{kept.layers} layers with {what}: {kept.fixed_bytes:,} B a request ({kept.how})"
    return f"{layers}: {kept.bytes_per_token:,.0f} B a token ({kept.how} each)"
