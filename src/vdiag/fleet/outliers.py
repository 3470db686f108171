"""Nodes on which something is far more frequent than elsewhere.

The test is Fisher's, of one side: if the replicas with a mark had been dealt to the nodes by lot, how likely would one
node hold so many of them? That chance is multiplied by the number of tests made, since many nodes give chance many
occasions; what is left below 0.01 is told. A single case is never tested, nor a fleet of one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, lgamma

from vdiag.fleet_model import Outlier

LEAST = 2  # replicas of a node that must share a mark
CHANCE = 0.01
MOST_TOLD = 50


def outliers(replicas: Mapping[str, int], marked: Mapping[tuple[str, str], int]) -> list[Outlier]:
    """Those that stand out, the clearest first.

    `replicas`: of each node, how many there are; `marked`: of a node and a mark, how many bear it.
    """
    total = sum(replicas.values())
    of_mark: dict[str, int] = {}
    for (_, mark), count in marked.items():
        of_mark[mark] = of_mark.get(mark, 0) + count
    tested = [
        (node, mark, count)
        for (node, mark), count in marked.items()
        if count >= LEAST and total > replicas[node]
    ]
    found: list[Outlier] = []
    for node, mark, here in tested:
        chance = min(_tail(here, replicas[node], of_mark[mark], total) * len(tested), 1.0)
        if chance >= CHANCE:
            continue
        elsewhere, rest = of_mark[mark] - here, total - replicas[node]
        said = (
            f"{here} of the {replicas[node]} replicas on {node} have it, "
            f"{elsewhere} of the {rest} on other nodes"
        )
        found.append(Outlier(node, mark, here, replicas[node], elsewhere, rest, float(f"{chance:.2g}"), said))
    return sorted(found, key=lambda item: (item.chance, item.node, item.what))[:MOST_TOLD]


def _tail(here: int, drawn: int, marked: int, total: int) -> float:
    """The chance that of `drawn` out of `total`, of which `marked` are marked, `here` or more are marked."""
    first, last = max(here, drawn + marked - total), min(drawn, marked)
    return sum(
        exp(_ways(marked, k) + _ways(total - marked, drawn - k) - _ways(total, drawn))
        for k in range(first, last + 1)
    )


def _ways(among: int, taken: int) -> float:
    """The logarithm of the number of ways to take some among others."""
    return lgamma(among + 1) - lgamma(taken + 1) - lgamma(among - taken + 1)
