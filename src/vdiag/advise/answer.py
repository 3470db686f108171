"""From a conclusion to the report: each finding with its texts, facts, fixes and the lines that prove it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from vdiag import __version__
from vdiag.advise.aside import MOST_LISTED, harmless_lines, set_aside
from vdiag.advise.budget import ABOUT_MEMORY, budget, facts_of_run, with_figures
from vdiag.advise.context import context_of, environment
from vdiag.advise.fixes import command, facts_of, fill, placeholders
from vdiag.advise.gaps import find_gaps
from vdiag.advise.known import facts_for, failure_of, is_fatal, latest_of, line_here
from vdiag.advise.placed import Place, placed
from vdiag.advise.quotes import evidence_of, later_of, other_than
from vdiag.model import (
    Changes,
    Diagnosis,
    EpisodeInfo,
    Event,
    Explained,
    Fix,
    Input,
    Phase,
    Report,
    Safety,
    Severity,
    Verdict,
)
from vdiag.reason.blame import Blame
from vdiag.reason.clock import apart, parse
from vdiag.reason.conclude import CAUSE, NOTICED, Conclusion, Finding
from vdiag.reason.story import Episode
from vdiag.reason.unknown import VLLM, fingerprint, home_of, raising_frame, search_link
from vdiag.rulebook.compile import Rulebook
from vdiag.rulebook.schema import Rule

SCHEMA = "vdiag.report/1"
CUT = "reading ended early"  # how a gap says that an input could not be read to its end
LONG_WAIT = 300.0  # seconds without a step of the start that are worth a word

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
    context = context_of(conclusion, rulebook)
    facts = [facts_for(finding, context, blames, rulebook) for finding in conclusion.findings]
    report = Report(
        schema=SCHEMA,
        vdiag=__version__,
        verdict=conclusion.verdict,
        inputs=inputs,
        environment=environment(conclusion, context),
        diagnoses=[_diagnosis(*told, inputs) for told in zip(conclusion.findings, facts, strict=True)],
        episodes=[_episode(b, inputs) for b in blames],
        also_seen=set_aside(blames, inputs),
        notes=[*notes, *_joined(conclusion, inputs)],
        harmless=harmless_lines(blames, inputs),
    )
    _numbers(report, conclusion, rulebook, context, facts[0] if facts else None, since)
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
        placed(report, {inputs[number].name: place for number, place in places.items()}, told)
    return report


def _numbers(
    report: Report,
    conclusion: Conclusion,
    rulebook: Rulebook,
    context: dict[str, Any],
    facts: dict[str, Any] | None,
    since: Since | None,
) -> None:
    """The memory, the load and the changes of the run that the report is about: the first finding's, else the last.

    `facts`: those of the first finding.
    """
    blames = conclusion.blames
    if not blames:
        return
    told = conclusion.findings[0].blame if conclusion.findings else blames[-1]
    name = report.inputs[told.episode.source].name
    node = conclusion.findings[0].node if conclusion.findings else None
    latest = latest_of(conclusion.findings[0]) if conclusion.findings else None
    if facts is None:
        here = {**context, **told.episode.facts, **facts_of_run(told.episode, rulebook)}
    elif latest is None or node is None or latest.event.envelope.unit == node.event.envelope.unit:
        here = facts
    else:
        here = facts_for(conclusion.findings[0], context, blames, rulebook, latest)
    rule = node.rule if node else None
    settings = frozenset(setting for fix in rule.fixes for setting in fix.set) if rule else frozenset()
    report.memory = budget(told.episode, rulebook, name, here, latest.match if latest else None, settings)
    if report.memory is not None and rule is not None:
        report.memory.asked = not ABOUT_MEMORY.isdisjoint(placeholders(rule)) or report.memory.when_full
    if report.memory is not None and report.diagnoses:
        with_figures(report.diagnoses[0].fixes, report.memory)
    if "load_running" in told.episode.facts:
        from vdiag.advise.load import load  # late: a start that fails says nothing of a load

        failure = failure_of(conclusion.findings[0]) if conclusion.findings else None
        report.load = load(told.episode, rulebook, name, failure)
    fatal = bool(conclusion.findings) and is_fatal(conclusion.findings[0])
    if since is not None:
        report.changes = since(told)
    elif fatal and len(blames) > 1:
        from vdiag.advise.changes import changed  # late: few logs hold two starts

        report.changes = changed(told, blames, report.inputs, rulebook)
    if fatal and facts is not None and report.changes is not None:
        _weigh(report, report.changes, conclusion.findings[0], facts)


def _weigh(report: Report, changes: Changes, finding: Finding, facts: dict[str, Any]) -> None:
    """Says which of the changes the first failure is about, and offers the way back among its first fixes."""
    from vdiag.advise import back  # late too

    back.explain(changes, finding.node, facts)
    fix = back.way_back(changes, facts)
    if fix is None or not report.diagnoses or report.diagnoses[0].rule is None:
        return
    fixes = report.diagnoses[0].fixes
    if all(other.run != fix.run for other in fixes):
        fixes.insert(back.place_of(changes), fix)


def _joined(conclusion: Conclusion, inputs: list[Input]) -> list[str]:
    """On what ground lines of different inputs were told as one story."""
    return list(
        dict.fromkeys(
            f"What {inputs[j.told.event.source].name} says was joined to the failure in "
            f"{inputs[j.noticed.event.source].name} {j.ground}."
            for j in conclusion.joins
        )
    )


def _diagnosis(finding: Finding, facts: dict[str, Any], inputs: list[Input]) -> Diagnosis:
    node, blame = finding.node, finding.blame
    event, rule, match = node.event, node.rule, node.match
    phase = blame.episode.phase_at(line_here(node, blame), ending=False)
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
        last_source=other_than(last.event.source, event.source, inputs),
        recovered_at=finding.recovered_at,
        recovered_in=other_than(finding.recovered_in, event.source, inputs) if finding.recovered_at else "",
        phase=phase,
        evidence=evidence_of(node, blame, inputs),
        explains=[
            Explained(n.rule.id if n.rule else None, n.line, other_than(n.event.source, event.source, inputs))
            for n in later_of(node, blame)[:MOST_LISTED]
        ],
        fingerprint=fingerprint(event),
        frame=raising_frame(event),
    )
    if rule is not None:
        diagnosis.title, diagnosis.why, diagnosis.fixes, diagnosis.avoid = fill(rule, captures, facts)
        latest = latest_of(finding).match
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


def _unknown(diagnosis: Diagnosis, event: Event, context: dict[str, Any]) -> None:
    from vdiag.advise import settings  # late: most answers do without

    said = event.rows[event.root_row].strip()
    home = home_of(event)
    whose = "vLLM's issues" if home == VLLM else f"the issues of {home}"
    diagnosis.title = f"No rule knows this failure; the deepest exception here is: {said[:200]}"
    diagnosis.why = (
        "It failed with this error, and nothing in the log explains it further. "
        f"The search link looks for the same message among {whose}."
    )
    told = settings.facts_about(event, context)
    if told:
        diagnosis.why = f"{settings.why_of(told)} {diagnosis.why}"
    if diagnosis.frame:
        diagnosis.why = f"It was raised at {diagnosis.frame}. " + diagnosis.why
    diagnosis.search = search_link(event)
    diagnosis.facts = {**({"exception": event.exception} if event.exception else {}), **told}
    diagnosis.fixes = [
        Fix(do=f"Look for the same message in {whose}", run=[diagnosis.search], safety=Safety.SAFE),
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
