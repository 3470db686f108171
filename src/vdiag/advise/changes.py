"""What differs between a start of the server that worked and one that did not.

Only what both starts tell is compared: what one of them does not say is no difference. Of arguments both print
all that are no defaults, so there one that is missing was not given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vdiag.advise.arguments import flag_of
from vdiag.advise.given import UNTOLD, Hidden, flat
from vdiag.advise.start import DEVICE, MEMORY, PACKAGES, Start, start_of
from vdiag.model import Change, Changes, Input
from vdiag.reason.blame import Blame
from vdiag.reason.clock import apart, parse, zones_known
from vdiag.rulebook.compile import Rulebook

LEAST_GIB = 0.05  # a figure of memory that differs by less is the same
LEAST_PART = 0.02  # and so is one that differs by less than this part of itself
MOST_WARNINGS = 5
MOST_TRIED = 20  # runs that served among which the same server is looked for
MOST_EVENTS = 4000  # lines up to which all warnings of an input are known to be kept
ZONES = 14 * 3600.0  # seconds that two clocks may differ by where no zone is printed
_TEMPORARY = ("/tmp/", "/var/tmp/", "/dev/shm/")
_NAMES = (
    "model",
    "model_tag",
    "command",
    "subparser",
    "dispatch_function",
    "config",
)  # no arguments of their own


def changed(
    bad: Blame, blames: Sequence[Blame], inputs: Sequence[Input], rulebook: Rulebook
) -> Changes | None:
    """The differences between a failed run and the latest one before it that served; None without any.

    Where runs failed between the two, what they all share comes first.
    """
    good = _last_good(bad, blames, rulebook)
    if good is None:
        return None
    whole = all(_whole(inputs[blame.episode.source]) for blame in (good, bad))
    failed = [bad]
    if good.episode.source == bad.episode.source:
        between = _between(good, bad, blames)
        failed = [*[b for b in between if b.failed and not b.episode.ready][:1], bad]
    worked = start_of(good, _earlier(good, blames), rulebook, good=True)
    starts = [start_of(one, _earlier(one, blames), rulebook, good=False) for one in failed]
    starts = [start for start in starts if _same_server(worked, start)]
    if not starts:
        return None
    items = differences(worked, starts[-1], whole)
    if len(starts) > 1:
        since = {(item.what, item.name) for item in differences(worked, starts[0], whole)}
        items.sort(key=lambda item: (item.what, item.name) not in since)
    if not items:
        return None
    return Changes(
        good=inputs[worked.source].name,
        good_line=worked.line,
        bad=inputs[starts[-1].source].name,
        bad_line=starts[-1].line,
        items=items,
    )


def against(
    goods: Sequence[Blame],
    good_inputs: Sequence[Input],
    bad: Blame,
    bads: Sequence[Blame],
    bad_inputs: Sequence[Input],
    rulebook: Rulebook,
) -> Changes | None:
    """The differences between the last start of one log that worked and a run of another; None without a start.

    Where no start worked, the last one of that log is compared all the same.
    """
    runs = [b for b in goods if b.episode.marks or b.episode.served]
    if not runs or not (bad.episode.marks or bad.episode.served):
        return None
    ready = [b for b in runs if b.episode.ready]
    other = start_of(bad, _earlier(bad, bads), rulebook, good=False)
    likely = [b for b in ready if not b.failed] or ready or runs
    starts = [start_of(b, _earlier(b, goods), rulebook, good=True) for b in likely[-MOST_TRIED:]]
    worked = next((start for start in reversed(starts) if _same_server(start, other)), starts[-1])
    read = good_inputs[worked.source], bad_inputs[other.source]
    told = Changes(read[0].name, worked.line, read[1].name, other.line, [])
    told.items = differences(worked, other, all(map(_whole, read)), elsewhere=True)
    said = []
    if not ready:
        said.append(f"No start in {read[0].name} came to serve: this is its last one.")
    if not bad.failed:
        said.append(f"No start in {read[1].name} failed: this is its last one.")
    if not told.items:
        said.append("Nothing that both starts tell of themselves differs.")
    told.said = " ".join(said)
    return told


def differences(worked: Start, failed: Start, whole: bool, *, elsewhere: bool = False) -> list[Change]:
    """What differs between two starts. `whole`: every warning of both was kept; `elsewhere`: of two logs."""
    items = [
        *_facts("version", worked, failed, {"vllm": "vLLM", "engine": "engine"}),
        *_model(worked, failed),
        *_arguments(worked, failed),
        *_facts("device", worked, failed, DEVICE),
        *_facts("package", worked, failed, {name: name.replace("_", "-") for name in PACKAGES}),
        *_memory(worked, failed),
        *_environment(worked, failed, elsewhere),
    ]
    versions = any(item.what == "version" for item in items)
    return [*items, *_warnings(worked, failed, whole and not versions)]


# ---- which runs ---------------------------------------------------------------------------------------------


def _last_good(bad: Blame, blames: Sequence[Blame], rulebook: Rulebook) -> Blame | None:
    """The latest run before a failed one that came to serve, of the same server."""
    found: list[Blame] = []
    for blame in blames:
        if blame is bad or not blame.episode.ready or not _before(blame, bad):
            continue
        if bad.episode.ready and blame.failed:
            continue  # of one that served and then failed, only a run that ended well tells something
        found.append(blame)
    found.sort(key=lambda b: (b.episode.source == bad.episode.source, b.episode.source, b.episode.first_line))
    if not found:
        return None
    failed = start_of(bad, _earlier(bad, blames), rulebook, good=False)
    for blame in found[: -MOST_TRIED - 1 : -1]:
        if _same_server(start_of(blame, _earlier(blame, blames), rulebook, good=True), failed):
            return blame
    return None


def _before(one: Blame, other: Blame) -> bool:
    """Whether a run surely began before another: by its line, else by its times, else by the order of the inputs."""
    a, b = one.episode, other.episode
    if a.source == b.source:
        return a.first_line < b.first_line
    at = [
        next((stamp for e in run.events if (stamp := parse(e.envelope.time)) is not None), None)
        for run in (a, b)
    ]
    if at[0] is not None and at[1] is not None:
        span = apart(at[0], at[1])
        if span is not None and (zones_known(at[0], at[1]) or at[0].kind == at[1].kind or abs(span) > ZONES):
            return span > 0
    return a.source < b.source


def _earlier(blame: Blame, blames: Sequence[Blame]) -> list[Blame]:
    """The runs before one in its own input, in order."""
    episode = blame.episode
    runs = [
        b for b in blames if b.episode.source == episode.source and b.episode.first_line < episode.first_line
    ]
    return sorted(runs, key=lambda b: b.episode.first_line)


def _between(good: Blame, bad: Blame, blames: Sequence[Blame]) -> list[Blame]:
    return [b for b in _earlier(bad, blames) if b.episode.first_line > good.episode.first_line]


def _same_server(one: Start, other: Start) -> bool:
    """Whether two starts are of one server: in the same place, with the model or the port of before."""
    if one.host and other.host and one.host != other.host:
        return False
    if one.unit and other.unit and _workload(one.unit) != _workload(other.unit):
        return False
    if one.model is None or other.model is None or one.port is None or other.port is None:
        return True
    return one.model == other.model or one.port == other.port


def _workload(unit: str) -> str:
    """A pod or container without what is new in each: `chat-6c9d8f7b5-x2k4v/vllm` → `chat/vllm`."""
    pod, slash, container = unit.partition("/")
    parts = pod.split("-")
    if slash and len(parts) > 2 and len(parts[-1]) == 5:
        pod = "-".join(parts[:-2])
    return pod + slash + container


def _whole(read: Input) -> bool:
    return read.lines <= MOST_EVENTS


# ---- what differs -------------------------------------------------------------------------------------------


def _facts(what: str, worked: Start, failed: Start, names: Mapping[str, str]) -> Iterator[Change]:
    for name, called in names.items():
        before, after = worked.facts.get(name), failed.facts.get(name)
        if before not in (None, "") and after not in (None, "") and _said(before) != _said(after):
            yield Change(what, called, before, after)


def _said(fact: Any) -> str:
    """A fact as it is compared: `2.27.3+cuda12.8` of one line is `2.27.3` of another."""
    return str(fact).strip().rstrip(".").split("+")[0].lower()


def _model(worked: Start, failed: Start) -> Iterator[Change]:
    if worked.model and failed.model and worked.model != failed.model:
        yield Change("model", "model", worked.model, failed.model)
    yield from _facts("model", worked, failed, {"architecture": "architecture"})


def _arguments(worked: Start, failed: Start) -> Iterator[Change]:
    """Arguments that were added, taken out or changed; flags as users type them, of mappings each key."""
    kind = "argument"
    if worked.args and failed.args:
        before, after, every = worked.args, failed.args, worked.every or failed.every
    elif worked.command and failed.command:
        before, after, every = worked.command, failed.command, False
    else:
        before, after, every = {}, {}, True
    a, b = _spread(before), _spread(after)
    for path in dict.fromkeys([*a, *b]):
        name = path.partition(".")[0]
        if _same(a.get(path), b.get(path)) or (every and not (name in before and name in after)):
            continue
        yield Change(kind, _flag(path), _shown(a.get(path)), _shown(b.get(path)))
    for name in dict.fromkeys([*worked.env, *failed.env]):
        old, new = worked.env.get(name), failed.env.get(name)
        both = old is not None and new is not None
        if old != new and (both or bool(worked.command and failed.command)):
            yield Change("environment", name, _shown(old), _shown(new))


def _spread(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by path; what is None or an empty mapping was not given."""
    return {
        path: value
        for name, item in args.items()
        if name not in _NAMES
        for path, value in flat(name, item)
        if value is not None and value != {}
    }


def _flag(path: str) -> str:
    name, dot, key = path.partition(".")
    return flag_of(name) + dot + key


def _shown(value: Any) -> Any:
    """A value without the secrets in it."""
    if isinstance(value, Hidden):
        return UNTOLD
    if isinstance(value, Mapping):
        return {key: _shown(item) for key, item in value.items()}
    return [_shown(item) for item in value] if isinstance(value, list) else value


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same; two temporary files are."""
    if isinstance(one, str) and isinstance(other, str) and one.startswith(_TEMPORARY):
        return other.startswith(_TEMPORARY)
    return bool(one == other)


def _memory(worked: Start, failed: Start) -> Iterator[Change]:
    for name, (_, called, unit) in MEMORY.items():
        before, after = worked.memory.get(name), failed.memory.get(name)
        if before is None or after is None:
            continue
        least = max(LEAST_PART * max(abs(before), abs(after)), LEAST_GIB if unit == "GiB" else 1)
        if abs(after - before) > least:
            figure = int if unit == "tokens" else _rounded
            yield Change("memory", called, figure(before), figure(after), unit=unit)


def _rounded(gib: float) -> float:
    return round(gib, 2)


def _environment(worked: Start, failed: Start, elsewhere: bool) -> Iterator[Change]:
    yield from _facts("environment", worked, failed, {"kernel_release": "kernel of the machine"})
    anew = any(line > worked.line for line in failed.boots)
    if anew and not elsewhere and worked.source == failed.source:
        yield Change("environment", "the machine was started anew", None, "between the two starts")


def _warnings(worked: Start, failed: Start, every: bool) -> Iterator[Change]:
    """Warnings that only the failed start prints; not `every`: only those that a rule knows.

    A start that did not come to serve may have ended before it printed them.
    """
    told = [
        warned
        for same, warned in failed.warned.items()
        if worked.served and same not in worked.warned and (every or warned.rule)
    ]
    known = {warned.rule for warned in worked.warned.values() if warned.rule}
    for warned in [w for w in told if not w.rule or w.rule not in known][:MOST_WARNINGS]:
        yield Change("environment", "a new warning", None, warned.text[:300])
