"""The memory figures that a run of the server printed, by rank: what vLLM said of each card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from vdiag.model import Role

if TYPE_CHECKING:
    from vdiag.reason.story import Episode
    from vdiag.rulebook.compile import Rulebook

# What each rank prints of its own card. In GiB, `…_mib` in MiB (Intel's workers print MB and count in 1024).
OF_A_RANK = frozenset(
    [
        "total_gib",
        "free_gib",
        "budget_gib",
        "utilization",
        "weights_gib",
        "consumed_gib",
        "activation_gib",
        "headroom_gib",
        "non_torch_gib",
        "non_kv_gib",
        "kv_gib",
        "graphs_gib",
        "graphs_estimate_gib",
        "graphs_counted",
        "suggested_kv_bytes",
        "suggested_kv_gib",
        "total_mib",
        "weights_mib",
        "peak_mib",
        "torch_mib",
        "non_torch_mib",
    ]
)
# What the engine prints of all ranks together.
OF_THE_ENGINE = frozenset(
    ["kv_tokens", "concurrency", "concurrency_len", "gpu_blocks", "auto_len", "auto_kv_gib"]
)
# What a start measures anew: of another run of the server it says nothing. The card stays the same.
OF_A_RUN = (OF_A_RANK | OF_THE_ENGINE) - {"total_gib", "total_mib", "utilization"}
_SMALLEST = ("kv_gib", "kv_tokens", "concurrency", "gpu_blocks")  # printed for several ranks by one process
MOST = 1e15  # of any figure; what is larger is none
_OF_A_SERVER = OF_THE_ENGINE | {"vllm"}  # what no worker says
_WORDS = ("graphs_counted",)
_WORKERS = ("Worker", "VllmWorker", "RayWorker")


class Figure(NamedTuple):
    """A value and the line that says it."""

    value: Any
    line: int


class Rank(NamedTuple):
    """The figures of one process."""

    lane: str
    figures: dict[str, Figure]


class Figures(NamedTuple):
    """All figures of a run: of the rank that decides, with those of its engine, and how many ranks there are."""

    deciding: Rank
    ranks: int

    def facts(self) -> dict[str, Any]:
        """The values alone, by name; what is printed in MiB as GiB, and the card by vLLM's share of it."""
        said = {name: figure.value for name, figure in self.deciding.figures.items()}
        for name in [name for name in said if name.endswith("_mib")]:
            value = said.pop(name)
            if isinstance(value, (int, float)):
                said.setdefault(f"{name.removesuffix('_mib')}_gib", value / 1024)
        if "total_gib" not in said and said.get("utilization") and "budget_gib" in said:
            said["total_gib"] = round(said["budget_gib"] / said["utilization"], 2)
        if "auto_kv_gib" in said:
            said.setdefault("kv_gib", said["auto_kv_gib"])
        return said


def read(episode: Episode, rulebook: Rulebook, unit: str | None = None) -> Figures | None:
    """The figures of a run; None where it printed none. The rank with the least KV memory decides.

    `unit`: the service or container that failed. Where another one tells of an engine or a version too, only its own
    count: two servers write into one log then.
    """
    ranks: dict[str, dict[str, Figure]] = {}
    engines: dict[str, dict[str, Figure]] = {}
    matches = [match for match in episode.matches if rulebook.rules[match.rule].role is Role.CONTEXT]
    if unit is not None:
        tell = {m.event.envelope.unit for m in matches if not _OF_A_SERVER.isdisjoint(m.captures)}
        if tell - {unit}:
            matches = [match for match in matches if match.event.envelope.unit == unit]
    for match in matches:
        lane = match.event.envelope.lane
        for name, value in match.captures.items():
            if name not in _WORDS and not (isinstance(value, (int, float)) and abs(value) < MOST):
                continue
            place = ranks if name in OF_A_RANK else engines if name in OF_THE_ENGINE else None
            if place is not None:
                _keep(place.setdefault(lane, {}), name, Figure(value, match.line))
    if not ranks and not engines:
        return None
    lane = min(ranks, key=lambda lane: _need(ranks[lane]), default="")
    engine: dict[str, Figure] = {}
    for other in [engines[lane]] if lane in engines else engines.values():
        for name, figure in other.items():
            _keep(engine, name, figure)
    deciding = Rank(lane, {**engine, **ranks.get(lane, {})})
    return Figures(deciding, max(len(ranks), 1))


def workers(episode: Episode) -> int:
    """How many worker processes speak in a run, by their names; a rank that is named speaks for those below it."""
    lanes = {event.envelope.lane for event in episode.events if event.envelope.role.startswith(_WORKERS)}
    highest = max(
        (
            int(event.envelope.rank[2:]) + 1
            for event in episode.events
            if event.envelope.rank.startswith("TP") and event.envelope.rank[2:].isdigit()
        ),
        default=0,
    )
    return max(len(lanes), highest)


def _keep(figures: dict[str, Figure], name: str, new: Figure) -> None:
    """The last value counts; of what one process prints for several ranks the smallest."""
    old = figures.get(name)
    if old is not None and name in _SMALLEST and old.value <= new.value:
        return
    figures[name] = new


def _need(figures: dict[str, Figure]) -> tuple[float, float]:
    """What orders ranks: the least KV memory, else the most weights."""
    kv, weights = figures.get("kv_gib"), figures.get("weights_gib")
    return (kv.value if kv else float("inf"), -weights.value if weights else 0.0)
