"""`vdiag rules`: look at the rulebook, check one, try one on its own examples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vdiag.cli.console import tell

if TYPE_CHECKING:
    from vdiag.rulebook import Rulebook
    from vdiag.rulebook.examples import Diagnose, Outcome
    from vdiag.rulebook.load import Placed, Problem
    from vdiag.rulebook.sources import Source

FAULTY, UNREADABLE = 1, 2  # exit status, as docs/rules.md says

PATHS = click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))


@click.group()
def rules() -> None:
    """List, check and try rules.

    \b
    vdiag rules list                    every rule, one a line
    vdiag rules lint my-rules.yaml      what is missing or weak in a rule file
    vdiag rules test my-rules.yaml      does each rule win its examples?
    vdiag rules test --explain vllm.log which rules match a log, which wins, and why
    vdiag rules new --from vllm.log:141 draft a rule from a line
    vdiag rules audit vllm-0.11.0.whl   hold the rules against a release of vLLM
    vdiag rules catalogue               write all rules as Markdown pages
    """


@rules.command("list")
@PATHS
@click.option(
    "--role", type=click.Choice(["cause", "symptom", "trailer", "context", "benign"]), help="Only these."
)
def list_(paths: tuple[Path, ...], role: str | None) -> None:
    """Print id, role and title of every rule: those of PATH, or the shipped ones and your own."""
    from vdiag.rulebook.load import load
    from vdiag.rulebook.places import default_user_paths

    problems: list[Problem] = []
    rulebook = (
        load(paths, collect=problems)
        if paths
        else load(default_user_paths(), base=_shipped(), collect=problems)
    )
    wanted = [rule for rule in rulebook.rules if role is None or rule.role.value == role]
    width = min(max((len(rule.id) for rule in wanted), default=0), 40)
    for rule in wanted:
        tell(f"{rule.id:{width}}  {rule.role.value:8}{' '.join(rule.title.split())}")
    for problem in problems:
        tell(str(problem), err=True)
    _leave(UNREADABLE if problems else 0)


@rules.command()
@PATHS
@click.option("--strict", is_flag=True, help="Warnings fail too.")
def lint(paths: tuple[Path, ...], strict: bool) -> None:
    """Say what is missing, wrong or weak in rules: file, line, rule, field.

    Without PATH: the rules of the checkout vdiag runs from, else your own. Exit status: 1 if a rule has errors,
    2 if a file cannot be read or is no YAML list of rules.
    """
    from vdiag.rulebook import lint as linting

    paths = paths or _own_paths()
    result = linting.lint(paths, base=_base(paths))
    for problem in result.unreadable:
        tell(str(problem))
    for finding in result.findings:
        tell(str(finding))
    errors = len(result.errors)
    warnings = len(result.findings) + len(result.unreadable) - errors
    tell(f"{_count(len(result.placed), 'rule')}: {_count(errors, 'error')}, {_count(warnings, 'warning')}")
    if result.unreadable:
        _leave(UNREADABLE)
    _leave(FAULTY if errors or (strict and warnings) else 0)


@rules.command()
@PATHS
@click.option(
    "--explain", is_flag=True, help="Show which rules matched, which won, and why; PATH may be a log too."
)
@click.option("--wordings", is_flag=True, help="Try the wordings alone, not the whole program.")
@click.option(
    "--rule", "only", metavar="ID", multiple=True, help="Only this rule (of a log: why not this); repeatable."
)
def test(paths: tuple[Path, ...], explain: bool, wordings: bool, only: tuple[str, ...]) -> None:
    """Run each rule's examples (it must win) and lookalikes (it must not match).

    PATH is a rule file or a folder of them. Without PATH: the rules of the checkout vdiag runs from, else your
    own. With --explain a PATH that is no YAML file is a log: the shipped rules and those of the other PATHs are
    held against it. Exit status: 1 if an example fails or a rule has errors, 2 if a file cannot be read or is no
    YAML list of rules, or if there is no rule of an ID.
    """
    from vdiag.rulebook.examples import try_rules
    from vdiag.rulebook.load import SUFFIXES, assemble, read_rules
    from vdiag.rulebook.places import default_user_paths

    logs = [path for path in paths if explain and path.suffix not in SUFFIXES and not path.is_dir()]
    paths = tuple(path for path in paths if path not in logs) or (
        tuple(default_user_paths()) if logs else _own_paths()
    )
    problems: list[Problem] = []
    placed = read_rules(paths, problems)
    rulebook = assemble(placed, _base(paths), problems)
    for problem in problems:
        tell(str(problem), err=True)
    if logs:
        from vdiag.cli.rules_log import explain_log

        good = [explain_log(log, rulebook, only) for log in logs]
        _leave(0 if all(good) and not problems else UNREADABLE)
    where = {own.rule.id: own for own in placed if not only or own.rule.id in only}
    unknown = [name for name in only if name not in where and all(name != fault.rule for fault in problems)]
    for name in unknown:
        from vdiag.cli.rules_log import unknown_id

        tell(unknown_id(name, (own.rule.id for own in placed)), err=True)
    tried = {"example": 0, "lookalike": 0}
    failed = 0
    for outcome in try_rules(where.values(), rulebook, None if wordings else _diagnose()):
        tried[outcome.kind] += 1
        failed += not outcome.passed
        if explain or not outcome.passed:
            _show(outcome, where[outcome.rule], explain)
    parts = [_count(len(where), "rule"), *(_count(number, kind) for kind, number in tried.items())]
    faults = f"; {_count(len(problems), 'error')} above" if problems else ""
    tell(f"{', '.join(parts)}: {failed} failed{faults}")
    if unknown or any(problem.whole_file for problem in problems):
        _leave(UNREADABLE)
    _leave(FAULTY if failed or problems else 0)


@rules.command()
@click.option(
    "--from", "given", metavar="LOG[:LINE]", required=True, help="The log, and the line the rule is for."
)
def new(given: str) -> None:
    """Draft a rule from a real line: YAML on standard output, with slots for what only you can write.

    Without LINE the line that vdiag takes for the root is used. Numbers, amounts, paths and names become typed
    captures. Exit status: 2 if there is no such line.
    """
    from vdiag.cli.names import with_meaning
    from vdiag.cli.rules_new import NoLine, origin_of
    from vdiag.rulebook.draft import draft
    from vdiag.rulebook.load import load
    from vdiag.rulebook.places import default_user_paths

    rulebook = load(default_user_paths(), base=_shipped(), collect=[])
    try:
        written = draft(origin_of(given, rulebook))
    except (NoLine, ValueError) as fault:
        said = with_meaning(str(fault), [given, given.rpartition(":")[0]], rulebook)
        tell(f"no rule can be drafted: {said}", err=True)
        _leave(UNREADABLE)
        return
    click.echo(written, nl=False)


@rules.command()
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--since", metavar="OTHER", type=click.Path(path_type=Path), help="Say what is new since this release."
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["terminal", "json"]),
    default="terminal",
    help="How to print it.",
)
@click.option(
    "--all", "everything", is_flag=True, help="List everything, not only what operators meet first."
)
def audit(sources: tuple[Path, ...], since: Path | None, format_: str, everything: bool) -> None:
    """Hold the rules against releases of vLLM: what no rule names, what is stale, where versions are wrong.

    SOURCE is a wheel, an sdist, a checkout or a site-packages folder; nothing of it is run. Every raise, assertion
    and error log call is read. Exit status: 1 if a rule is stale or a `since` or `until` wrong, 2 if a SOURCE
    cannot be read.
    """
    from vdiag.rulebook import audit as auditing
    from vdiag.rulebook.load import load
    from vdiag.rulebook.places import default_user_paths
    from vdiag.rulebook.sources import SourceError

    try:
        read, older = [_read(path) for path in sources], _read(since) if since else None
    except SourceError as fault:
        tell(str(fault), err=True)
        _leave(UNREADABLE)
        return
    answer = auditing.audit(read, load(default_user_paths(), base=_shipped(), collect=[]), older)
    if format_ == "json":
        import msgspec

        click.echo(msgspec.json.encode(answer).decode())
    else:
        from vdiag.render.audit import rows

        for row in rows(answer, everything):
            tell(row)
    stale = any(found.reason == auditing.GONE for found in answer.unmatched)
    _leave(FAULTY if stale or answer.wrong_versions else 0)


@rules.command()
@PATHS
@click.option(
    "--into",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the pages go; default: docs/catalogue of the checkout vdiag runs from.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit status 1 if a page is out of date.")
def catalogue(paths: tuple[Path, ...], into: Path | None, check: bool) -> None:
    """Write all rules as Markdown pages: an index, and a page for each folder of rule files.

    Without PATH: the rules of the checkout vdiag runs from, else your own. Exit status: 1 if a page is out of date
    (with --check), 2 if a rule file cannot be read.
    """
    from vdiag.cli.rules_catalogue import out_of_date, pages_of, write
    from vdiag.rulebook.shipped import checkout_rules

    checkout = checkout_rules()
    if into is None and checkout is not None and not paths:
        into = checkout.parent / "docs" / "catalogue"
    if into is None:
        raise click.UsageError("give the folder: --into FOLDER")
    problems: list[Problem] = []
    texts = pages_of(paths or _own_paths(), problems)
    for problem in problems:
        tell(str(problem), err=True)
    if problems:
        _leave(UNREADABLE)
    old = out_of_date(texts, into)
    if not check:
        write(texts, into, old)
    for name in old:
        tell(f"{into / name}: {'out of date' if check else 'written' if name in texts else 'removed'}")
    if not old and not check:
        tell(f"{into}: {_count(len(texts), 'page')}, all up to date")
    _leave(FAULTY if check and old else 0)


def _read(path: Path) -> Source:
    from vdiag.rulebook.sources import read_source

    if sys.stderr.isatty():
        tell(f"reading {path} …", err=True)
    return read_source(path)


def _show(outcome: Outcome, own: Placed, explain: bool) -> None:
    line = own.line_of(f"{outcome.kind}s[{outcome.number}]")
    mark = "ok" if outcome.passed else "FAILED"
    tell(f"{own.file}:{line}: {outcome.rule}: {outcome.kind} {outcome.number + 1}: {mark}: {outcome.reason}")
    if not explain:
        return
    for found in outcome.found:
        row = outcome.text.count("\n", 0, found.start) + 1
        facts = ", ".join(f"{name}={value!r}" for name, value in found.captures.items())
        tell(f"    matched {found.rule} on line {row}, weight {found.weight}{': ' if facts else ''}{facts}")
    if outcome.report is None:
        return
    for place, diagnosis in enumerate(outcome.report.diagnoses, 1):
        name = diagnosis.rule or "(no rule)"
        tell(f"    {place}. {name}, line {diagnosis.line}, confidence {diagnosis.confidence:.2f}")
        for explained in diagnosis.explains:
            tell(f"       explains {explained.rule or 'line'} on line {explained.line}")
    for seen in outcome.report.also_seen:
        tell(f"    set aside: {seen.rule or seen.text[:60]}, line {seen.line}: {seen.reason}")
    if not outcome.report.diagnoses:
        tell(f"    verdict: {outcome.report.verdict.value}")


def _diagnose() -> Diagnose:
    from vdiag.pipeline import diagnose_text

    return diagnose_text


def _shipped() -> Rulebook:
    from vdiag.rulebook.shipped import shipped

    return shipped()


def _own_paths() -> tuple[Path, ...]:
    """The rules a bare `lint` or `test` is about."""
    from vdiag.rulebook.places import default_user_paths
    from vdiag.rulebook.shipped import checkout_rules

    checkout = checkout_rules()
    paths = (checkout,) if checkout else tuple(default_user_paths())
    if not paths:
        raise click.UsageError("there are no rules of your own; give a file or a folder")
    return paths


def _base(paths: tuple[Path, ...]) -> Rulebook | None:
    """The shipped rules, which other rules may name; none where the shipped ones themselves are asked about."""
    from vdiag.rulebook.shipped import checkout_rules

    checkout = checkout_rules()
    if checkout and any(path.resolve() == checkout.resolve() for path in paths):
        return None
    return _shipped()


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _leave(status: int) -> None:
    click.get_current_context().exit(status)
