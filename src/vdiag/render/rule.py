"""What a rule knows, for a person: its cause, its wordings, its fixes. Placeholders stay as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdiag.advise import form
from vdiag.model import Role
from vdiag.render.page import Page

if TYPE_CHECKING:
    from vdiag.rulebook import Rule

ROLES = {
    Role.CAUSE: "is a cause",
    Role.SYMPTOM: "is a consequence, not a cause by itself",
    Role.TRAILER: "says only that something failed; the cause stands above it",
    Role.CONTEXT: "is a fact about the server, not a fault",
    Role.BENIGN: "looks alarming, but is not a fault",
}


def render(rule: Rule, *, width: int) -> Page:
    """The page of one rule."""
    page = Page(width)
    page.prose(f"{rule.id}: {rule.title}.", style="bold")
    page.blank()
    severity = f"; severity: {rule.severity.value}" if rule.role is Role.CAUSE else ""
    page.prose(f"What it matches {ROLES[rule.role]}{severity}.")
    if rule.why:
        page.heading("Why")
        page.prose(rule.why)
    if rule.takes:
        page.heading("How long it takes")
        page.prose(rule.takes)
    if rule.phrases or rule.patterns:
        page.heading("How a log says it")
        for phrase in rule.phrases:
            page.prose(phrase, first="- ", indent="  ")
        for pattern in rule.patterns:
            page.prose(f"pattern: {pattern.regex}", first="- ", indent="  ")
    if rule.fixes:
        page.heading("Fixes, best first")
        for number, fix in enumerate(rule.fixes, start=1):
            first = f"{number}. "
            page.prose(f"{fix.do} ({fix.safety.value})", first=first, indent=" " * len(first))
            for line in fix.run + form.change(fix.set, fix.unset, fix.env, {}):
                page.command(line)
            when = ", ".join(fix.only_if)
            bounds = " ".join(
                filter(
                    None,
                    [
                        f"from vLLM {fix.since}" if fix.since else "",
                        f"up to vLLM {fix.until}" if fix.until else "",
                    ],
                )
            )
            for text in (fix.note, f"only if known: {when}" if when else "", bounds):
                if text:
                    page.prose(text, first=" " * len(first), indent=" " * len(first))
    if rule.avoid:
        page.heading("Avoid")
        for text in rule.avoid:
            page.prose(text, first="- ", indent="  ")
    links = [*rule.refs, *(_issue(item.issue, item.fixed_in) for item in rule.upstream)]
    if links:
        page.heading("To read")
        for link in links:
            page.command(link)
    return page


def _issue(issue: str, fixed_in: str) -> str:
    """`owner/repo#12` as a link, with the version that fixed it."""
    repository, _, number = issue.partition("#")
    link = f"https://github.com/{repository}/issues/{number}" if number else issue
    return f"{link}  # fixed in {fixed_in}" if fixed_in else link
