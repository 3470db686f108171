"""What lint asks of a rule: one small function a question. Those about wordings stand in wordings.py.

A check gets a rule with its place and the book it stands in, and yields what is wrong: the field, the message,
and `error` or `warning`. `CHECKS` lists them in the order in which their findings are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from vdiag.model import Role
from vdiag.rulebook.book import Book, Check, Said
from vdiag.rulebook.load import Placed
from vdiag.rulebook.schema import Rule
from vdiag.rulebook.wordings import (
    every_wording_has_an_example,
    examples_are_not_contested,
    literal_is_good,
    lookalikes_stay_apart,
    patterns_are_bounded,
    phrases_are_tidy,
)

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_FACT = re.compile(r"(?<![{$])\{([a-z][a-z0-9_]*)\}(?!\})")
_CONDITION = re.compile(r"(?:not\s+)?[a-z][a-z0-9_]*(?:\s*=\s*\S.*)?\Z")
_ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+\Z")
_LINK = re.compile(r"https?://[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:/\S*)?\Z")
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:\.?(?:post|rc|dev)\d+)?\Z")


def id_is_well_formed(placed: Placed, book: Book) -> Iterator[Said]:
    """Ids are lower-case words with hyphens."""
    for index, name in enumerate((placed.rule.id, *placed.rule.aliases)):
        if not _ID.match(name):
            field = f"aliases[{index - 1}]" if index else "id"
            yield Said(field, f"`{name}` is not lower-case words with hyphens")


def cause_is_complete(placed: Placed, book: Book) -> Iterator[Said]:
    """A cause says why, what to do and what merely looks like it."""
    rule = placed.rule
    if rule.role is not Role.CAUSE:
        return
    for field in ("why", "fixes", "lookalikes"):
        if not getattr(rule, field):
            yield Said(field, f"a cause needs `{field}`")


def title_is_a_headline(placed: Placed, book: Book) -> Iterator[Said]:
    """A title is one line without a full stop."""
    title = placed.rule.title
    if not title.strip():
        yield Said("title", "is empty")
    if "\n" in title.strip():
        yield Said("title", "has more than one line")
    if title.rstrip().endswith(".") and not title.rstrip().endswith("..."):
        yield Said("title", "ends with a full stop")


def roles_fit(placed: Placed, book: Book) -> Iterator[Said]:
    """Only context marks phases, only a mark takes time, and a fix needs something that is broken."""
    rule = placed.rule
    if rule.marks and rule.role is not (Role.TRAILER if rule.marks == "death" else Role.CONTEXT):
        yield Said("marks", "only rules with `role: context` mark a phase, and only trailers a death")
    if rule.takes and not rule.marks:
        yield Said("takes", "says how long a phase takes, but the rule marks none")
    if rule.fixes and rule.role in (Role.CONTEXT, Role.BENIGN):
        yield Said("fixes", f"are not shown for `role: {rule.role.value}`", "warning")


def drafts_are_finished(placed: Placed, book: Book) -> Iterator[Said]:
    """No slot of a draft (`vdiag rules new`) is left for a person to fill in."""
    lookalikes = [(f"lookalikes[{i}]", text) for i, text in enumerate(placed.rule.lookalikes)]
    for field, text in [*texts(placed.rule), *lookalikes]:
        if text.lstrip().startswith("TODO "):
            yield Said(field, "is still to be written")


def facts_exist(placed: Placed, book: Book) -> Iterator[Said]:
    """What texts name is captured by the rule, known from the log, or computed by a named function."""
    if book.vocabulary.facts is None:
        return
    rule = placed.rule
    own = {name for _, pattern in book.patterns(rule) for name in pattern.types}
    known = own | book.context_facts | book.vocabulary.facts
    for field, text in texts(rule):
        for name in dict.fromkeys(_FACT.findall(text)):
            if name not in known and not _is_argument(name, book):
                yield Said(field, f"`{{{name}}}` is neither captured nor a known fact")
    for index, fix in enumerate(rule.fixes):
        for place, condition in enumerate(fix.only_if):
            field = f"fixes[{index}].if[{place}]"
            if not _CONDITION.match(condition):
                yield Said(
                    field, f"`{condition}` is not `fact` or `fact=value`, with `not` before it or without"
                )
                continue
            name = condition.removeprefix("not ").split("=")[0].strip()
            if name not in known and not _is_argument(name, book):
                yield Said(field, f"`{name}` is neither captured nor a known fact")


def arguments_exist(placed: Placed, book: Book) -> Iterator[Said]:
    """What a fix sets or drops is an engine argument of some version of vLLM, and of the newest unless it says so."""
    versions_with = book.vocabulary.versions_with
    if versions_with is None:
        return
    newest = (versions_with("model") or [""])[-1]
    for index, fix in enumerate(placed.rule.fixes):
        named = [(f"set.{name}", name) for name in fix.set]
        named += [(f"unset[{place}]", name) for place, name in enumerate(fix.unset)]
        for place, name in named:
            if name.startswith("{"):  # a fact gives the name
                continue
            having = versions_with(name)
            if not having:
                yield Said(
                    f"fixes[{index}].{place}", f"`{name}` is an engine argument of no version known here"
                )
            elif place.startswith("set") and newest and having[-1] != newest and not fix.until:
                message = f"vLLM {newest} does not take `{name}` any more: give the fix an `until`"
                yield Said(f"fixes[{index}].{place}", message, "warning")


def variables_are_literal(placed: Placed, book: Book) -> Iterator[Said]:
    """The value of an environment variable names no other: only a shell would fill it in, and not inside quotes."""
    for index, fix in enumerate(placed.rule.fixes):
        for name, value in fix.env.items():
            if value is not None and "$" in value:
                message = (
                    f"`{value}` stays as it is in a unit, a container and a manifest: give the whole value"
                )
                yield Said(f"fixes[{index}].env.{name}", message)


def versions_are_versions(placed: Placed, book: Book) -> Iterator[Said]:
    """`since`, `until` and `fixed_in` are version numbers."""
    rule = placed.rule
    named = [
        (f"{field}[{index}].{bound}", getattr(item, bound))
        for field, items in (("patterns", rule.patterns), ("fixes", rule.fixes))
        for index, item in enumerate(items)
        for bound in ("since", "until")
    ]
    named += [(f"upstream[{index}].fixed_in", item.fixed_in) for index, item in enumerate(rule.upstream)]
    for field, version in named:
        if version and not _VERSION.match(version):
            yield Said(field, f"`{version}` is no version number")


def references_are_links(placed: Placed, book: Book) -> Iterator[Said]:
    """What is to be read is an address that a browser opens."""
    for index, text in enumerate(placed.rule.refs):
        if not _LINK.match(text):
            yield Said(f"refs[{index}]", f"`{text}` is no https:// address")


def upstream_is_named(placed: Placed, book: Book) -> Iterator[Said]:
    """An issue is `owner/repo#number`; what it was fixed in is a version of a package that is known."""
    for index, item in enumerate(placed.rule.upstream):
        if not _ISSUE.match(item.issue):
            yield Said(f"upstream[{index}].issue", f"`{item.issue}` is not `owner/repo#number`")
        elif item.fixed_in and not item.package_name:
            message = f"is a version of what? {item.issue} is not vLLM's: name the `package`"
            yield Said(f"upstream[{index}].fixed_in", message)
        if item.package and not item.fixed_in:
            yield Said(f"upstream[{index}].package", "says nothing without `fixed_in`", "warning")
        if not any(item.says in " ".join(text.split()) for text in placed.rule.examples):
            yield Said(f"upstream[{index}].says", f"no example of the rule holds `{item.says}`")


CHECKS: tuple[Check, ...] = (
    id_is_well_formed,
    title_is_a_headline,
    cause_is_complete,
    drafts_are_finished,
    roles_fit,
    every_wording_has_an_example,
    lookalikes_stay_apart,
    literal_is_good,
    patterns_are_bounded,
    phrases_are_tidy,
    facts_exist,
    arguments_exist,
    variables_are_literal,
    versions_are_versions,
    references_are_links,
    upstream_is_named,
    examples_are_not_contested,
)


def texts(rule: Rule) -> Iterator[tuple[str, str]]:
    """Every text of a rule in which facts are filled in, with its field."""
    yield "title", rule.title
    yield "why", rule.why
    for index, text in enumerate(rule.avoid):
        yield f"avoid[{index}]", text
    for index, fix in enumerate(rule.fixes):
        at = f"fixes[{index}]"
        yield f"{at}.do", fix.do
        yield f"{at}.note", fix.note
        yield from ((f"{at}.run[{place}]", command) for place, command in enumerate(fix.run))
        yield from ((f"{at}.env.{name}", value) for name, value in fix.env.items())
        for field, given in (("set", fix.set), ("container", fix.container)):
            yield from (
                (f"{at}.{field}.{name}", text) for name, value in given.items() for text in _strings(value)
            )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for item in value.values() for text in _strings(item))
    elif isinstance(value, list):
        yield from (text for item in value for text in _strings(item))


def _is_argument(name: str, book: Book) -> bool:
    versions_with = book.vocabulary.versions_with
    return versions_with is not None and bool(versions_with(name))
