"""What a rule knows, for a person: its cause, its wordings, its fixes. What a log fills in stands in `<…>`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vdiag.advise import form
from vdiag.advise.upstream import link
from vdiag.model import Role
from vdiag.render.page import Page
from vdiag.render.sections import SAFETY, commands, sentence

if TYPE_CHECKING:
    from vdiag.rulebook import Rule
    from vdiag.rulebook.schema import FixRule, Upstream

ROLES = {
    Role.CAUSE: "",
    Role.SYMPTOM: " (a consequence, not a cause by itself)",
    Role.TRAILER: " (says only that something failed; the cause stands above it)",
    Role.CONTEXT: " (a fact about the server, not a fault)",
    Role.BENIGN: " (looks alarming, but is not a fault)",
}
_FACT = re.compile(r"(?<![{$])\{([a-z][a-z0-9_]*)\}(?!\})")


def render(rule: Rule, *, width: int) -> Page:
    """The page of one rule."""
    page = Page(width)
    page.prose(f"{rule.id}: {sentence(opened(rule.title))}", style="bold")
    page.blank()
    severity = f" Severity: {rule.severity.value}." if rule.role is Role.CAUSE else ""
    page.prose(f"Role: {rule.role.value}{ROLES[rule.role]}.{severity}")
    if rule.why:
        page.heading("Why")
        page.prose(opened(rule.why).strip())
    if rule.takes:
        page.heading("How long it takes")
        page.prose(rule.takes)
    if rule.phrases or rule.patterns:
        page.heading("How a log says it")
        for phrase in rule.phrases:
            page.prose(wording(phrase), first="- ", indent="  ")
        for pattern in rule.patterns:
            page.prose(f"pattern: {pattern.regex.strip()}", first="- ", indent="  ")
    if rule.fixes:
        page.heading("Fixes, best first")
        for number, fix in enumerate(rule.fixes, start=1):
            _fix(page, fix, f"{number}. ")
    if rule.avoid:
        page.heading("Avoid")
        for text in rule.avoid:
            page.prose(sentence(opened(text)), first="- ", indent="  ")
    links = [*rule.refs, *map(_issue, rule.upstream)]
    if links:
        page.heading("To read")
        for link in links:
            page.command(link)
    return page


def _fix(page: Page, fix: FixRule, first: str) -> None:
    indent = " " * len(first)
    page.prose(f"{opened(fix.do).strip().rstrip('.')} ({SAFETY[fix.safety]}).", first=first, indent=indent)
    env = {name: opened(value) for name, value in fix.env.items()}
    deploy = dict(text.split("=", 1) for text in fix.only_if if text.startswith("deploy="))
    commands(
        page,
        [
            *map(opened, fix.run),
            *form.change(_all_opened(fix.set), fix.unset, env, deploy, _all_opened(fix.container)),
        ],
    )
    bounds = [
        f"from vLLM {fix.since}" if fix.since else "",
        f"up to vLLM {fix.until}" if fix.until else "",
    ]
    only = " and ".join([*filter(None, bounds), *(f"if {_condition(text)}" for text in fix.only_if)])
    for text in (f"Note: {sentence(opened(fix.note))}" if fix.note else "", f"Only {only}." if only else ""):
        if text:
            page.prose(text, first=indent, indent=indent)


def _condition(text: str) -> str:
    """`fact` or `fact=value`, with `not` before it or without, as words."""
    name, _, value = text.partition("=")
    if value:
        holds = "is not" if name.startswith("not ") else "is"
        return f"the {_named(name.removeprefix('not '))} {holds} {value.strip()}"
    if name.startswith("not "):
        return f"the {_named(name.removeprefix('not '))} is not known"
    return f"the {_named(name)} is known"


def _named(fact: str) -> str:
    return fact.strip().replace("_", " ")


def opened(text: str) -> str:
    """`{fitting_len}` as `<fitting len>`, or without the brackets where it stands in such already."""

    def shown(found: re.Match[str]) -> str:
        within = text.rfind("<", 0, found.start()) > text.rfind(">", 0, found.start())
        return _named(found[1]) if within else f"<{_named(found[1])}>"

    return _FACT.sub(shown, text)


def _all_opened(value: Any) -> Any:
    """The same for all texts of a value."""
    if isinstance(value, str):
        return opened(value)
    if isinstance(value, dict):
        return {name: _all_opened(item) for name, item in value.items()}
    return [_all_opened(item) for item in value] if isinstance(value, list) else value


def wording(phrase: str) -> str:
    """A phrase as a message: what varies in `<…>`, alternatives in `(… or …)`, what may be missing in `[…]`."""
    from vdiag.rulebook.phrases import Choice, Hole, Maybe, parse_phrase

    said = []
    for part in parse_phrase(phrase):
        if isinstance(part, Hole):
            said.append(f"<{_named(part.name)}>" if part.name else "…")
        elif isinstance(part, Choice):
            said.append(f"({' or '.join(part.texts)})")
        else:
            said.append(f"[{part.text}]" if isinstance(part, Maybe) else part.text)
    return "".join(said)


def _issue(item: Upstream) -> str:
    """An issue as a link, with the version that fixed it."""
    fixed = f"  # fixed in {item.package_name} {item.fixed_in}" if item.fixed_in else ""
    return f"{link(item.issue)}{fixed}"
