"""What a series of load figures comes to: memory, a queue, a cache that is too small, or calm.

Only the latest figures count, up to a pause of the server, since what was hours ago says nothing about now. The
thresholds are those of docs/architecture.md ("The load").
"""

from __future__ import annotations

from itertools import pairwise

from vdiag.model import LoadPoint
from vdiag.reason.clock import apart, parse

RECENT = 60  # points that count: ten minutes, where a line comes each ten seconds
FEWEST = 3  # points without which nothing is claimed
FEWEST_FOR_A_TREND = 6  # two for each third
PAUSE = 60.0  # seconds between two points, if it is also PAUSES times the usual, by which a server was idle
PAUSES = 6
STALE = 600.0  # seconds between the last point and the failure, from which the load says nothing about it
FULL = 95.0  # per cent of the KV cache: the rules of load.yaml begin there too
NEARLY_FULL = 90.0
OFTEN = 0.3  # the share of the points at which the cache is full and requests wait
PAUSED = 10  # requests that lost their blocks
STEADY = 0.8  # of the most that ran: as many run as ever may
GROWN = 10  # requests by which a queue has to grow

MEMORY, QUEUE, CACHE, CALM = "memory", "queue", "cache", "calm"

REMEDIES = {
    MEMORY: (
        "Limit what one batch may hold: --max-num-batched-tokens, then --max-num-seqs. A lower "
        "--gpu-memory-utilization only hides it: it takes the reserve from the KV cache, which costs throughput, and "
        "a batch that is larger still fails again."
    ),
    QUEUE: (
        "More arrives than the server finishes: start more replicas, or limit the rate of the clients. Let more "
        "requests run at once (--max-num-seqs) only where the card has memory for larger batches."
    ),
    CACHE: (
        "The cache is too small for these contexts: allow shorter ones or fewer tokens per request (--max-model-len, "
        "max_tokens), store the cache in 8 bits (--kv-cache-dtype fp8), or give it more memory or more replicas. "
        "Where requests are paused, fewer at once (--max-num-seqs) spare the work that is done twice."
    ),
    CALM: "",
}


def pattern(
    points: list[LoadPoint], limit: int | None = None, failed_at: str = "", on_card: bool = False
) -> tuple[str, str, str]:
    """(pattern, what the figures come to, the remedy) of at least one point; the last two may be empty.

    `limit`: how many requests may run at once. `failed_at`: the time of the failure, as printed; `on_card`: that
    it was the memory of a card that ran out.
    """
    recent = recent_of(points)
    stale = _stale(recent[-1], failed_at)
    if on_card:
        return MEMORY, _memory(recent, stale), REMEDIES[MEMORY]
    if stale:
        return CALM, f"{stale} No load is known right before it.", ""
    if len(recent) < FEWEST:
        return CALM, "", ""
    if said := _cache(recent, points):
        return CACHE, said, REMEDIES[CACHE]
    if said := _queue(recent, limit):
        return QUEUE, said, REMEDIES[QUEUE]
    return CALM, "", ""


def recent_of(points: list[LoadPoint]) -> list[LoadPoint]:
    """The latest points, back to the last pause of the server."""
    recent = points[-RECENT:]
    gaps = [_gap(one, other) for one, other in pairwise(recent)]
    known = [gap for gap in gaps if gap is not None and gap > 0]
    if not known:
        return recent
    pause = max(PAUSE, PAUSES * _median(known))
    breaks = [number for number, gap in enumerate(gaps, start=1) if gap is not None and abs(gap) > pause]
    return recent[breaks[-1] :] if breaks else recent


def _memory(recent: list[LoadPoint], stale: str) -> str:
    last = recent[-1]
    ran = f"{_requests(last.running or 0)} ran"
    if last.waiting:
        ran += f" and {last.waiting} waited"
    if last.kv_usage is not None:
        ran += f", with the KV cache {last.kv_usage:g} % full"
    return (
        f"{stale + ' Then' if stale else 'Just before the memory of the card ran out,'} {ran}. The KV cache was set "
        "aside at start-up and cannot overflow; what grew is the work space of a batch."
    )


def _cache(recent: list[LoadPoint], points: list[LoadPoint]) -> str:
    """What to say where the KV cache is too small; empty where it is not."""
    full = [p for p in recent if (p.kv_usage or 0) >= FULL and p.waiting]
    before = points[-len(recent) - 1].preemptions or 0 if len(points) > len(recent) else 0
    paused = (recent[-1].preemptions or 0) - before
    most = max((p.kv_usage or 0 for p in recent), default=0)
    often = len(full) >= max(FEWEST, OFTEN * len(recent))
    if not often and not (paused >= PAUSED and most >= NEARLY_FULL):
        return ""
    said = f"The KV cache was {most:g} % full at most in the last {len(recent)} readings"
    if often:
        said += f"; in {len(full)} of them it was full while requests waited"
    said += "."
    if paused > 0:
        said += f" {_requests(paused)} lost {'its' if paused == 1 else 'their'} blocks and had to begin anew."
    return said


def _queue(recent: list[LoadPoint], limit: int | None) -> str:
    """What to say where requests wait although the KV cache has room, and ever more do; empty otherwise."""
    third = len(recent) // 3
    if len(recent) < FEWEST_FOR_A_TREND:
        return ""
    begin, middle, end = recent[:third], recent[third : len(recent) - third], recent[-third:]
    waiting = [_median([p.waiting or 0 for p in part]) for part in (begin, middle, end)]
    grows = waiting[0] < waiting[1] < waiting[2] and waiting[2] >= 2 * waiting[0] + GROWN
    if not grows or not all(p.waiting for p in end):
        return ""
    most = max(p.running or 0 for p in recent)
    if min(p.running or 0 for p in end) < STEADY * most:
        return ""
    used = [p.kv_usage for p in end if p.kv_usage is not None]
    if used and max(used) >= NEARLY_FULL:
        return ""
    ran = f"{_requests(most)} ran at most"
    if limit is not None and most >= limit:
        ran += ", which is the limit (--max-num-seqs)"
    room = f" and the KV cache was {max(used):g} % full at most" if used else ""
    return (
        f"The queue grew from {_requests(recent[0].waiting or 0)} to {recent[-1].waiting or 0} in the last "
        f"{len(recent)} readings, while {ran}{room}."
    )


def _stale(last: LoadPoint, failed_at: str) -> str:
    """A sentence where the last figures are much older than the failure."""
    one, other = parse(last.time), parse(failed_at)
    span = apart(one, other) if one and other and one.kind == other.kind else None  # else by two clocks
    if span is None or span < STALE:
        return ""
    return f"The last reading is {span / 60:.0f} minutes older than the failure."


def _gap(one: LoadPoint, other: LoadPoint) -> float | None:
    first, second = parse(one.time), parse(other.time)
    return apart(first, second) if first and second else None


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]  # the upper one of two: no need to be exact, nor for `statistics`


def _requests(count: int) -> str:
    return f"{count} request" if count == 1 else f"{count} requests"
