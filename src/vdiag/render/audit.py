"""An audit of the rulebook as a page of plain text: numbers, what no rule names, what is stale or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from vdiag.rulebook.audit import GONE, OPERATORS, OTHER, OWN, Audit, Audited

BRIEF = 20  # messages of a list shown without --all


def rows(audit: Audit, everything: bool) -> Iterator[str]:
    """The page, row by row. `everything`: lists in full, and of all of vLLM."""
    for release in audit.releases:
        yield (
            f"vLLM {release.version or '(version unknown)'}, {release.name}: {release.files} files, "
            f"{release.messages} messages, {_share(release.named, release.messages)} named"
        )
        yield (
            f"  in {', '.join(part.removeprefix('vllm/') for part in OPERATORS)}: "
            f"{release.operators}, {_share(release.operators_named, release.operators)} named"
        )
        if release.unread:
            yield f"  not read, as this Python cannot: {', '.join(release.unread)}"
    yield ""
    yield from _parts(audit)
    unknown = [m for m in audit.messages if not m.named]
    wanted = unknown if everything else [m for m in unknown if m.file.startswith(OPERATORS)]
    if audit.since:
        new = [m for m in audit.messages if m.new]
        yield from _list(
            f"New since {audit.since}: {len(new)}, {sum(m.named for m in new)} named. Of those no rule names:",
            [m for m in wanted if m.new],
            everything,
        )
    else:
        yield from _list(f"No rule names {len(unknown)} messages. Of these:", wanted, everything)
    yield from _stale(audit, everything)
    for wrong in audit.wrong_versions:
        span = " ".join(
            f"{word} {bound}" for word, bound in (("since", wrong.since), ("until", wrong.until)) if bound
        )
        yield f"{wrong.rule}: wording {wrong.wording + 1} says {span}, but {wrong.version} {wrong.says}"


def _share(some: int, every: int) -> str:
    return f"{some} ({100 * some / every:.0f} %)" if every else "0"


def _parts(audit: Audit) -> Iterator[str]:
    every = Counter(m.part for m in audit.messages)
    named = Counter(m.part for m in audit.messages if m.named)
    width = max(map(len, every), default=0)
    yield f"{'part':{width}}  messages  named  unknown"
    for part, number in every.most_common():
        yield f"{part:{width}}  {number:8}  {named[part]:5}  {number - named[part]:7}"
    yield ""


def _list(title: str, messages: list[Audited], everything: bool) -> Iterator[str]:
    yield title
    for message in messages if everything else messages[:BRIEF]:
        name = f"{message.exception}: " if message.exception else ""
        yield f"  {message.file}:{message.line} {message.function}: {name}{message.shape}"
    if not everything and len(messages) > BRIEF:
        yield f"  and {len(messages) - BRIEF} more (--all)"
    yield ""


def _stale(audit: Audit, everything: bool) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {GONE: [], OWN: [], OTHER: []}
    for found in audit.unmatched:
        by_reason[found.reason].append(found.rule)
    if by_reason[GONE]:
        yield f"Rules that {audit.since} prints and no audited release: {', '.join(by_reason[GONE])}"
    if by_reason[OWN]:
        yield (
            "Rules that match nothing here, though an example shows vLLM logging it "
            f"(stale, or it passes on another program's words): {', '.join(by_reason[OWN])}"
        )
    if by_reason[OTHER]:
        listed = f": {', '.join(by_reason[OTHER])}" if everything else " (--all lists them)"
        yield f"Rules that match nothing here, mostly other programs' words: {len(by_reason[OTHER])}{listed}"
