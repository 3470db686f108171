"""From a conclusion to the report: each finding with its texts, facts, fixes and the lines that prove it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any

from vdiag import __version__
from vdiag.advise.budget import ABOUT_MEMORY, budget, facts_of_run, with_figures
from vdiag.advise.figures import OF_A_RUN
from vdiag.advise.fixes import command, facts_of, fill, placeholders
from vdiag.advise.gaps import find_gaps
from vdiag.advise.shown import Shown
from vdiag.model import (
    AlsoSeen,
    Changes,
    Diagnosis,
    Environment,
    EpisodeInfo,
    Event,
    Evidence,
    Explained,
    Fix,
    Gap,
    Harmless,
    Input,
    Kind,
    Phase,
    Report,
    Role,
    Safety,
    Severity,
    Verdict,
)
from vdiag.reason.blame import Blame, Node
from vdiag.reason.clock import apart, parse
from vdiag.reason.conclude import CAUSE, NOTICED, Conclusion, Finding
from vdiag.reason.story import Episode, facts_of_unit
from vdiag.reason.unknown import fingerprint, raising_frame, search_link
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.schema import Rule

if TYPE_CHECKING:
    from vdiag.advise.load import Failure

SCHEMA = "vdiag.report/1"
CUT = "reading ended early"  # how a gap says that an input could not be read to its end
MOST_TEXT = 2000  # characters quoted of one line
_ALARMING = ("CRITICAL", "ERROR", "WARNING", "")  # levels, the most alarming first
LONG_WAIT = 300.0  # seconds without a step of the start that are worth a word
PACKAGES = ("torch", "transformers", "triton", "flashinfer_python", "nccl")  # facts that are versions
MOST_LISTED = 12  # explained or set aside lines of one diagnosis
MOST_DIMMED = 500  # lines of one harmless rule

Place = Callable[[int], int]  # the physical line of a line as it was read
Since = Callable[[Blame], Changes | None]  # what differs between a run and one that worked


def answer(
    conclusion: Conclusion,
    inputs: list[Input],
    rulebook: Rulebook,
    notes: list[str],
    places: Mapping[int, Place],
    holed: Container[int] = (),
    since: Since | None = None,
) -> Report:
    """The report of a conclusion.

    `places` gives the physical lines of inputs that were read repaired, `holed` the inputs that lack a part.
    `since` compares a run with one of another log, in the place of an earlier one of these inputs.
    """
    blames = conclusion.blames
    context = _context(conclusion, rulebook)
    report = Report(
        schema=SCHEMA,
        vdiag=__version__,
        verdict=conclusion.verdict,
        inputs=inputs,
        environment=_environment(conclusion, context),
        diagnoses=[_diagnosis(f, inputs, context, blames, rulebook) for f in conclusion.findings],
        episodes=[_episode(b, inputs) for b in blames],
        also_seen=_also_seen(blames, inputs),
        notes=[*notes, *_joined(conclusion, inputs)],
        harmless=_harmless(blames, inputs),
    )
    _numbers(report, conclusion, rulebook, context, since)
    if report.verdict is Verdict.HEALTHY and any(gap.what.startswith(CUT) for i in inputs for gap in i.gaps):
        report.verdict = Verdict.INCOMPLETE
    if report.verdict is Verdict.STARTING:
        report.notes += _starting_notes(blames[-1].episode, rulebook)
    found = find_gaps(conclusion, context, holed)
    for number, gap in found:
        if gap not in inputs[number].gaps:
            inputs[number].gaps.append(gap)
    if places:
        told = {gap.what for _, gap in found}
        _placed(report, {inputs[number].name: place for number, place in places.items()}, told)
    return report


def _environment(conclusion: Conclusion, context: dict[str, Any]) -> Environment:
    return Environment(
        vllm=_text(context.get("vllm")),
        engine=_text(context.get("engine")),
        model=_text(context.get("model")),
        args=_opened(context.get("args") or {}),
        deploy=context.get("deploy"),
        command=_command(conclusion, context),
        platform=_text(context.get("platform")),
        driver=_text(context.get("driver")),
        gpu=_text(context.get("gpu")),
        packages={
            name.replace("_", "-"): str(context[name]) for name in PACKAGES if context.get(name) is not None
        },
    )


def _numbers(
    report: Report,
    conclusion: Conclusion,
    rulebook: Rulebook,
    context: dict[str, Any],
    since: Since | None,
) -> None:
    """The memory, the load and the changes of the run that the report is about: the first finding's, else the last."""
    blames = conclusion.blames
    if not blames:
        return
    told = conclusion.findings[0].blame if conclusion.findings else blames[-1]
    name = report.inputs[told.episode.source].name
    node = conclusion.findings[0].node if conclusion.findings else None
    latest = _latest(conclusion.findings[0]) if conclusion.findings else None
    here = (
        _facts(conclusion.findings[0], context, blames, rulebook, latest)
        if conclusion.findings
        else {**context, **told.episode.facts, **facts_of_run(told.episode, rulebook)}
    )
    rule = node.rule if node else None
    settings = frozenset(setting for fix in rule.fixes for setting in fix.set) if rule else frozenset()
    report.memory = budget(told.episode, rulebook, name, here, latest.match if latest else None, settings)
    if report.memory is not None and rule is not None:
        report.memory.asked = not ABOUT_MEMORY.isdisjoint(placeholders(rule)) or report.memory.when_full
    if report.memory is not None and report.diagnoses:
        with_figures(report.diagnoses[0].fixes, report.memory)
    if "load_running" in told.episode.facts:
        from vdiag.advise.load import load  # late: a start that fails says nothing of a load

        failure = _failure(conclusion.findings[0]) if conclusion.findings else None
        report.load = load(told.episode, rulebook, name, failure)
    fatal = bool(conclusion.findings) and _is_fatal(conclusion.findings[0])
    if since is not None:
        report.changes = since(told)
    elif fatal and len(blames) > 1:
        from vdiag.advise.changes import changed  # late: few logs hold two starts

        report.changes = changed(told, blames, report.inputs, rulebook)
    if fatal and report.changes is not None:
        _weigh(report, conclusion, rulebook)


def _weigh(report: Report, conclusion: Conclusion, rulebook: Rulebook) -> None:
    """Says which of the changes the first failure is about, and offers the way back among its first fixes."""
    from vdiag.advise import back  # late too

    assert report.changes is not None
    finding = conclusion.findings[0]
    context = _facts(finding, _context(conclusion, rulebook), conclusion.blames, rulebook)
    node = finding.node
    back.explain(report.changes, node, context)
    fix = back.way_back(report.changes, context)
    if fix is None or not report.diagnoses or report.diagnoses[0].rule is None:
        return
    fixes = report.diagnoses[0].fixes
    if all(other.run != fix.run for other in fixes):
        fixes.insert(back.place_of(report.changes), fix)


def _is_fatal(finding: Finding) -> bool:
    return finding.node.rule is None or finding.node.rule.severity is Severity.FATAL


def _opened(args: dict[str, Any]) -> dict[str, Any]:
    """The server's arguments without its keys and passwords."""
    from vdiag.advise.secrets import open_value  # late: a log without arguments needs none

    return {name: open_value(name, value) for name, value in args.items()}


def _command(conclusion: Conclusion, context: dict[str, Any]) -> str | None:
    """The command that started the server, without its keys and passwords; None where the log shows none whole."""
    if not (context.get("command") or context.get("typed_model")) or not conclusion.blames:
        return None
    from vdiag.advise.written import as_shown  # late, as all that reads commands

    finding = conclusion.findings[0] if conclusion.findings else None
    told = finding.blame if finding else conclusion.blames[-1]
    others = [blame.episode.events for blame in reversed(conclusion.blames) if blame is not told]
    line = _line_here(finding.node, told) if finding else told.episode.last_line
    return as_shown(Shown([told.episode.events, *others], line, context)) or None


def _joined(conclusion: Conclusion, inputs: list[Input]) -> list[str]:
    """On what ground lines of different inputs were told as one story."""
    return list(
        dict.fromkeys(
            f"What {inputs[j.told.event.source].name} says was joined to the failure in "
            f"{inputs[j.noticed.event.source].name} {j.ground}."
            for j in conclusion.joins
        )
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _placed(report: Report, places: Mapping[str, Place], told: set[str]) -> None:
    """Line numbers as they are in the text that was given."""

    def at(source: str, line: int) -> int:
        place = places.get(source)
        return place(line) if place is not None and line > 0 else line

    for diagnosis in report.diagnoses:
        source = diagnosis.source
        diagnosis.line = at(source, diagnosis.line)
        diagnosis.last_line = at(diagnosis.last_source or source, diagnosis.last_line)
        if diagnosis.recovered_at is not None:
            diagnosis.recovered_at = at(diagnosis.recovered_in or source, diagnosis.recovered_at)
        for explained in diagnosis.explains:
            explained.line = at(explained.source or source, explained.line)
        for evidence in diagnosis.evidence:
            evidence.line = at(evidence.source, evidence.line)
    for read in report.inputs:
        read.gaps = [
            Gap(gap.what, at(read.name, gap.line), gap.command) if gap.what in told else gap
            for gap in read.gaps
        ]
    for seen in report.also_seen:
        seen.line = at(seen.source, seen.line)
    if report.memory is not None:
        report.memory.line = at(report.memory.source, report.memory.line)
        for share in report.memory.shares:
            share.line = at(report.memory.source, share.line)
    for harmless in report.harmless:
        harmless.line = at(harmless.source, harmless.line)
        harmless.lines = sorted({at(harmless.source, line) for line in harmless.lines})
    if report.load is not None:
        for point in [*report.load.points, *filter(None, [report.load.peak])]:
            point.line = at(report.load.source, point.line)
    for episode in report.episodes:
        ends = at(episode.source, episode.first_line), at(episode.source, episode.last_line)
        episode.first_line, episode.last_line = min(ends), max(ends)
    if report.changes is not None:
        told_of = report.changes
        told_of.good_line, told_of.bad_line = (
            at(told_of.good, told_of.good_line),
            at(told_of.bad, told_of.bad_line),
        )


def _context(conclusion: Conclusion, rulebook: Rulebook) -> dict[str, Any]:
    """What the log says of the server: of the first finding's episode, else of the last one."""
    blames = conclusion.blames
    context: dict[str, Any] = {}
    told = conclusion.findings[0].blame if conclusion.findings else blames[-1] if blames else None
    for blame in blames:
        mine = {k: v for k, v in blame.episode.facts.items() if v not in ("", None, {})}
        context.update(mine if blame is told else {k: v for k, v in mine.items() if k not in OF_A_RUN})
    if told is not None:
        context.update(told.episode.facts)
    if conclusion.findings:
        event = conclusion.findings[0].node.event
        own = facts_of_unit([blame.episode for blame in blames], rulebook, event)
        context = context if own is None else own
    args = context.get("args")
    if isinstance(args, dict):
        context.setdefault("model", args.get("model") or args.get("model_tag"))
    context["model"] = context.get("model") or context.get("typed_model")
    if "deploy" not in context:
        for name, value in _deploy([e for b in blames for e in b.episode.events]).items():
            context.setdefault(name, value)
    if "deploy" not in context and _of_a_script(context, [e for b in blames for e in b.episode.events]):
        context["deploy"] = "python"
    return context


def _of_a_script(context: dict[str, Any], events: list[Event]) -> bool:
    """Whether a script called `LLM(…)`: it logs no statistics unless asked to, and there is no API server."""
    args = context.get("args")
    if not isinstance(args, dict) or args.get("disable_log_stats") is not True or "model_tag" in args:
        return False
    return not any(e.envelope.role == "APIServer" or "server version" in e.rows[0] for e in events)


def _deploy(events: list[Event]) -> dict[str, str]:
    """How the server is run, and the unit, pod or container it is run in, as far as the envelopes show it."""
    for event in events:
        env = event.envelope
        if env.kind is Kind.UNIT and ".service" in event.rows[0]:
            unit = event.rows[0].split(".service", 1)[0].split()[-1].strip("'\"(") + ".service"
            return {"deploy": "systemd", "unit": unit}
    for event in events:
        env = event.envelope
        if "/" in env.unit:  # kubectl's pod/container
            pod, _, container = _speaker(events).partition("/")
            return {"deploy": "kubernetes", "pod": pod, "pod_container": container}
        if env.host and env.unit and env.kind is not Kind.KERNEL:
            return {"deploy": "systemd"}
        if env.unit and not env.host and env.kind is not Kind.UNIT and not env.time.startswith("20"):
            return {"deploy": "compose", "container": _speaker(events)}
    return {}


def _speaker(events: list[Event]) -> str:
    """The pod or container whose lines these mostly are; of several, the one that vLLM's own lines come from."""
    named = [e.envelope for e in events if e.envelope.unit]
    own = [env.unit for env in named if env.role or env.origin] or [env.unit for env in named]
    return Counter(own).most_common(1)[0][0]


def _failure(finding: Finding) -> Failure | None:
    """Where the load ends that led to a finding; None where the server lived on."""
    if not _is_fatal(finding):
        return None
    from vdiag.advise.load import Failure

    return Failure(_line_here(finding.node, finding.blame), finding.node.event)


def _latest(finding: Finding) -> Node:
    """The failure of the run that a finding is about: of a fatal one that came back, the last."""
    return finding.last if finding.last is not None and _is_fatal(finding) else finding.node


def _load_facts(finding: Finding, rulebook: Rulebook) -> dict[str, Any]:
    """What fixes may ask of the load before a failure."""
    if "load_running" not in finding.blame.episode.facts:
        return {}
    from vdiag.advise.load import load_facts  # late, as above

    return load_facts(finding.blame.episode, rulebook, _failure(finding))


def _facts(
    finding: Finding,
    context: dict[str, Any],
    blames: list[Blame],
    rulebook: Rulebook,
    latest: Node | None = None,
) -> dict[str, Any]:
    """What texts and fixes of a finding may ask for: its run's own facts count most.

    `latest`: the node whose unit's figures count, where it is not the finding's own.
    """
    blame = finding.blame
    unit = (latest or finding.node).event.envelope.unit
    own = facts_of_unit([other.episode for other in blames], rulebook, finding.node.event)
    facts = {
        **context,
        **(blame.episode.facts if own is None else own),
        **facts_of_run(blame.episode, rulebook, unit),
        **_load_facts(finding, rulebook),
    }
    others = [other.episode.events for other in reversed(blames) if other is not blame]
    facts["shown"] = shown = Shown([blame.episode.events, *others], _line_here(finding.node, blame), facts)
    if not facts.get("model"):
        facts["model"] = shown.model or None
    return facts


def _diagnosis(
    finding: Finding,
    inputs: list[Input],
    context: dict[str, Any],
    blames: list[Blame],
    rulebook: Rulebook,
) -> Diagnosis:
    node, blame = finding.node, finding.blame
    event, rule, match = node.event, node.rule, node.match
    facts = _facts(finding, context, blames, rulebook)
    phase = blame.episode.phase_at(_line_here(node, blame), ending=False)
    if phase is Phase.ARGUMENTS and event.envelope.role not in ("", "APIServer"):
        phase = None  # the engine's processes come later: lines between are missing
    last = finding.last or node
    captures = match.captures if match else {}
    diagnosis = Diagnosis(
        rule=rule.id if rule else None,
        title="",
        confidence=finding.confidence,
        severity=rule.severity if rule else Severity.FATAL,
        source=inputs[event.source].name,
        line=node.line,
        why="",
        times=finding.times,
        first_time=event.envelope.time,
        last_time=last.event.envelope.time,
        last_line=last.line,
        last_source=_other(last.event.source, event.source, inputs),
        recovered_at=finding.recovered_at,
        recovered_in=_other(finding.recovered_in, event.source, inputs) if finding.recovered_at else "",
        phase=phase,
        evidence=_evidence(node, blame, inputs),
        explains=[
            Explained(n.rule.id if n.rule else None, n.line, _other(n.event.source, event.source, inputs))
            for n in _later(node, blame)[:MOST_LISTED]
        ],
        fingerprint=fingerprint(event),
        frame=raising_frame(event),
    )
    if rule is not None:
        diagnosis.title, diagnosis.why, diagnosis.fixes, diagnosis.avoid = fill(rule, captures, facts)
        latest = _latest(finding).match
        if (
            latest is not None
            and match is not None
            and latest.rule == match.rule
            and latest.captures != captures
        ):
            _, _, diagnosis.fixes, diagnosis.avoid = fill(rule, latest.captures, facts)  # by what fails now
        diagnosis.facts = facts_of(rule, captures, facts)
        diagnosis.refs = list(rule.refs)
        if rule.upstream:
            _upstream(diagnosis, rule, facts, event.text)
    if finding.kind == NOTICED:
        _noticed(diagnosis, finding, facts)
    elif finding.kind != CAUSE:
        _unknown(diagnosis, event, facts)
    return diagnosis


def _upstream(diagnosis: Diagnosis, rule: Rule, facts: dict[str, Any], message: str) -> None:
    from vdiag.advise import upstream  # late: most rules have none

    diagnosis.upstream = upstream.known_fixes(rule, facts, message)
    named = {item.issue for item in diagnosis.upstream}
    diagnosis.refs += [
        upstream.link(item.issue) for item in rule.upstream if not item.says or item.issue in named
    ]
    diagnosis.fixes = upstream.with_upgrade(diagnosis.fixes, diagnosis.upstream, facts)


def _other(source: int, diagnosis: int, inputs: list[Input]) -> str:
    """The name of an input that is not the diagnosis's own."""
    return inputs[source].name if source != diagnosis else ""


def _line_here(node: Node, blame: Blame) -> int:
    """The line by which a root is placed in its episode: where it stands in another input, that of the first notice."""
    episode = blame.episode
    if node.event.source == episode.source:
        return node.line
    return min((n.line for n in blame.notices if n.event.source == episode.source), default=episode.last_line)


def _later(node: Node, blame: Blame) -> list[Node]:
    """What a root explains: consequences and the lines that notice the failure, each line once."""
    seen = {(node.event.source, node.line)}
    nodes = []
    for other in sorted([*blame.explained, *blame.notices], key=lambda n: (n.event.source, n.line)):
        key = (other.event.source, other.line)
        if key not in seen:
            seen.add(key)
            nodes.append(other)
    return nodes


def _evidence(node: Node, blame: Blame, inputs: list[Input]) -> list[Evidence]:
    """The root line, then up to two lines of other processes that notice the failure."""
    rows = [_quote(node, inputs)]
    envelope = node.event.envelope
    later = [
        n for n in _later(node, blame) if n.event.envelope.role and n.event.envelope.lane != envelope.lane
    ]
    notices = [n for n in later if n.rule is not None and n.rule.role in (Role.TRAILER, Role.SYMPTOM)]
    rows += [_quote(n, inputs) for n in notices[:2]]
    return rows


def _quote(node: Node, inputs: list[Input]) -> Evidence:
    event = node.event
    row = event.lines.index(node.line) if node.line in event.lines else event.root_row
    text = event.rows[row].strip()
    if node.match is not None and node.match.span[1] > sum(len(r) + 1 for r in event.rows[: row + 1]):
        end = event.text.count("\n", 0, node.match.span[1])
        text = " ".join(r.strip() for r in event.rows[row : min(end, row + 6) + 1])
    return Evidence(inputs[event.source].name, node.line, event.envelope.lane, text[:MOST_TEXT])


def _unknown(diagnosis: Diagnosis, event: Event, context: dict[str, Any]) -> None:
    from vdiag.advise import settings  # late: most answers do without

    said = event.rows[event.root_row].strip()
    diagnosis.title = f"No rule knows this failure; the deepest exception here is: {said[:200]}"
    diagnosis.why = (
        "It failed with this error, and nothing in the log explains it further. "
        "The search link looks for the same message among vLLM's issues."
    )
    told = settings.facts_about(event, context)
    if told:
        diagnosis.why = f"{settings.why_of(told)} {diagnosis.why}"
    if diagnosis.frame:
        diagnosis.why = f"It was raised at {diagnosis.frame}. " + diagnosis.why
    diagnosis.search = search_link(event)
    diagnosis.facts = {**({"exception": event.exception} if event.exception else {}), **told}
    diagnosis.fixes = [
        Fix(do="Look for the same message in vLLM's issues", run=[diagnosis.search], safety=Safety.SAFE),
        Fix(
            do="Start the server once with more detail, and diagnose that log",
            run=["VLLM_LOGGING_LEVEL=DEBUG vllm serve … 2>&1 | tee vllm.log", "vdiag vllm.log"],
            safety=Safety.SAFE,
        ),
    ]
    look = settings.fix_of(told, context)
    if look is not None:
        diagnosis.fixes.insert(0, look)


def _noticed(diagnosis: Diagnosis, finding: Finding, context: dict[str, Any]) -> None:
    event = finding.node.event
    if not diagnosis.title or finding.node.rule is None:
        diagnosis.title = "A traceback is cut off before its exception: the cause is not in this log"
        diagnosis.why = f"The last frame here is {raising_frame(event) or event.rows[0].strip()[:160]}."
    if not diagnosis.fixes:
        diagnosis.fixes = [
            Fix(do="Get the whole log of the failed start, from its first line", run=[
                "journalctl -u <unit> -b --no-pager > vllm.log    # a systemd service",
                "docker logs <container> > vllm.log 2>&1           # a container",
                "kubectl logs <pod> --previous > vllm.log          # a pod that was restarted",
            ]),
            Fix(do="If the process vanished without a word, ask the kernel", run=[
                "sudo dmesg -T | grep -iE 'out of memory|killed process|oom-kill|xid|segfault'",
                "journalctl -k -b --no-pager > kernel.log && vdiag vllm.log kernel.log",
            ]),
        ]  # fmt: skip
        for fix in diagnosis.fixes:
            fix.run = [command(line, context) for line in fix.run]


def _episode(blame: Blame, inputs: list[Input]) -> EpisodeInfo:
    episode = blame.episode
    if blame.failed or any(n.rule is None or n.rule.severity is Severity.FATAL for n in blame.roots):
        outcome = "failed"
    elif episode.ready:
        outcome = "stopped" if episode.marks and episode.marks[-1].what == Phase.SHUTDOWN.value else "serving"
    else:
        outcome = "starting" if episode.marks else "unknown"
    times = [e.envelope.time for e in episode.events if e.envelope.time]
    return EpisodeInfo(
        source=inputs[episode.source].name,
        first_line=episode.first_line,
        last_line=episode.last_line,
        phase=episode.phase_at(episode.last_line),
        outcome=outcome,
        first_time=times[0] if times else "",
        last_time=times[-1] if times else "",
    )


def _also_seen(blames: list[Blame], inputs: list[Input]) -> list[AlsoSeen]:
    seen: dict[tuple[str | None, str], AlsoSeen] = {}
    for blame in blames:
        for node, reason in blame.aside:
            quote = _quote(node, inputs)
            key = (node.rule.id if node.rule else None, reason)
            seen.setdefault(key, AlsoSeen(key[0], node.line, quote.source, quote.text[:300], reason))
    return list(seen.values())[:MOST_LISTED]


def _harmless(blames: list[Blame], inputs: list[Input]) -> list[Harmless]:
    """What healthy servers print too, each rule once, in the order of how it was printed: errors, warnings, the rest."""
    nodes: dict[str, list[Node]] = {}
    facts: dict[str, dict[str, Any]] = {}
    for blame in blames:
        for node in blame.harmless:
            if node.rule is not None:
                nodes.setdefault(node.rule.id, []).append(node)
                facts.setdefault(node.rule.id, blame.episode.facts)
    ranked = sorted(nodes.values(), key=lambda own: min(_ALARMING.index(_level(node)) for node in own))
    return [_told(own, facts, inputs) for own in ranked[:MOST_LISTED]]


def _level(node: Node) -> str:
    level = node.event.envelope.level
    return level if level in _ALARMING else ""


def _told(own: list[Node], facts: dict[str, dict[str, Any]], inputs: list[Input]) -> Harmless:
    first = own[0]
    rule = first.rule
    assert rule is not None
    title, why, _, _ = fill(rule, first.match.captures if first.match else {}, facts[rule.id])
    quote = _quote(first, inputs)
    lines = sorted({node.line for node in own if node.event.source == first.event.source})
    return Harmless(
        rule.id, title, why, quote.line, quote.source, quote.text[:300], len(own), lines[:MOST_DIMMED]
    )


def _starting_notes(episode: Episode, rulebook: Rulebook) -> list[str]:
    """Which phase the start stands in, and how long that takes by the rule that marks it."""
    phase = episode.phase_at(episode.last_line)
    notes = [
        f"The log ends while the server is still starting (phase: {phase.value})."
        if phase
        else "The log ends while the server is still starting."
    ]
    for match in reversed(episode.matches):
        rule = rulebook.rules[match.rule]
        if phase is not None and rule.marks == phase.value and rule.takes:
            notes.append(f"How long this phase usually takes: {rule.takes}.")
            break
    if waited := _waited(episode):
        notes.append(waited)
    return notes


def _waited(episode: Episode) -> str:
    """How long the start has made no step, by the log's own times; empty below LONG_WAIT or where they do not tell."""
    if not episode.marks:
        return ""
    step = episode.marks[-1].line
    timed = [(e.lines[0], stamp) for e in episode.events if (stamp := parse(e.envelope.time))]
    before = [stamp for line, stamp in timed if line <= step]
    seconds = apart(before[-1], timed[-1][1]) if before else None
    if seconds is None or seconds < LONG_WAIT:
        return ""
    return (
        f"The last step forward is on line {step}; the log goes on for {seconds / 60:.0f} minutes behind it "
        "without another. If that is more than the above allows, it hangs."
    )
