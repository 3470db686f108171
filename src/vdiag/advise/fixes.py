"""Fills a rule's texts and fixes in with facts. What names an unknown fact is left out, never guessed.

Substitution is plain: `{name}` with a lower-case name, nothing nested, no attributes, no format strings. A blank
such as `<model>` is filled in where the log tells it (blanks.py) and else stays. Values come from a log, that is from strangers; in a command they are quoted or, where they cannot be, the fix is dropped.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from vdiag.advise import blanks, form
from vdiag.advise.arguments import number, takes
from vdiag.advise.facts import Known
from vdiag.advise.shown import Shown
from vdiag.advise.together import accepted
from vdiag.model import Fix
from vdiag.rulebook.schema import FixRule, Rule

# `${name}`, `{{name}}` and JSON's `{"name": 1}` are not placeholders.
_PLACEHOLDER = re.compile(r"(?<![{$])\{([a-z][a-z0-9_]*)\}(?!\})")
_TO_FILL = re.compile(rf"{_PLACEHOLDER.pattern}|{blanks.PATTERN}")
_UNSET = re.compile(r"unset((?: +(?:[A-Z][A-Z0-9_]*|\{[a-z_]+\}))+)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`\"'(<{])")
_SAFE_IN_QUOTES = re.compile(r"[^'\"\\$`!\x00-\x1f\x7f]*")
_HERE = re.compile(r"\b(localhost|127\.0\.0\.1):8000\b")  # vLLM's default port, as rules write it
_BRACKETS = re.compile(r" \([^()]*\)")
_NOUNS = {"comm": "a process", "invoker": "a process", "unit": "the service"}
UNKNOWN = "…"


class Unknown(Exception):
    """A text asks for a fact that is not known."""


def fill(
    rule: Rule, captures: Mapping[str, Any], context: Mapping[str, Any]
) -> tuple[str, str, list[Fix], list[str]]:
    """(title, why, fixes best first, avoid) of a rule for what it captured in an episode.

    `context` holds the episode's facts: `vllm`, `model`, `args` (engine arguments by name), `deploy`, `unit`, ….
    """
    known = Known(captures, context)
    fixes = [fix for written in rule.fixes if (fix := _fix(written, known, context)) is not None]
    avoid = [text for sentence in rule.avoid if (text := _sentences(sentence, known))]
    return _title(rule.title, known), _sentences(rule.why, known), fixes, avoid


def command(text: str, context: Mapping[str, Any]) -> str:
    """A shell command that belongs to no rule, with its blanks filled in."""
    return _command(text, Known({}, context))


def facts_of(rule: Rule, captures: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """What was captured, and the facts that the rule's texts ask for, as the report lists them."""
    known = Known(captures, context)
    asked = {name for text in _texts(rule) for name in _PLACEHOLDER.findall(text)}
    facts = {name: value for name, value in captures.items() if value is not None and value != ""}
    for name in sorted(asked - facts.keys()):
        value = known.get(name)
        if value is not None:
            facts[name] = value
    return facts


def placeholders(rule: Rule) -> set[str]:
    """The names of all facts that a rule's texts and conditions ask for (lint checks them)."""
    names = {name for text in _texts(rule) for name in _PLACEHOLDER.findall(text)}
    for fix in rule.fixes:
        names |= {condition.removeprefix("not ").split("=")[0].strip() for condition in fix.only_if}
    return names


def words(value: Any) -> str:
    """A fact as people read it: floats with at most two decimals, lists with commas."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else f"{value:g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(words(item) for item in value)
    return str(value)


def _texts(rule: Rule) -> list[str]:
    texts = [rule.title, rule.why, *rule.avoid]
    for fix in rule.fixes:
        texts += [fix.do, fix.note, *fix.run, *fix.env.values(), *_leaves(fix.set), *_leaves(fix.container)]
    return texts


def _leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _leaves(item)]
    if isinstance(value, list):
        return [text for item in value for text in _leaves(item)]
    return [value] if isinstance(value, str) else []


def _shown(known: Known, name: str) -> str | None:
    value = known.get(name)
    return None if value is None or isinstance(value, dict) else words(value)


def _text(text: str, known: Known) -> str:
    """Prose with its facts and blanks. Raises Unknown."""

    def value(found: re.Match[str]) -> str:
        if not found[1]:
            return blanks.filled(found[0], known)
        shown = _shown(known, found[1])
        if shown is None:
            raise Unknown(found[1])
        return shown

    return _TO_FILL.sub(value, text)


def _title(text: str, known: Known) -> str:
    """A title always stands: brackets about unknown facts go, other unknown facts become a noun or `…`."""

    def bracket(found: re.Match[str]) -> str:
        names = _PLACEHOLDER.findall(found[0])
        return "" if any(_shown(known, name) is None for name in names) else found[0]

    def value(found: re.Match[str]) -> str:
        shown = _shown(known, found[1])
        return _NOUNS.get(found[1], UNKNOWN) if shown is None else shown

    title = _PLACEHOLDER.sub(value, _BRACKETS.sub(bracket, text)).removesuffix(f": {UNKNOWN}")
    return title[:1].upper() + title[1:] if text.startswith("{") and title.startswith("a ") else title


def _sentences(text: str, known: Known) -> str:
    """Prose without the sentences that ask for an unknown fact."""
    kept = []
    for sentence in _SENTENCE_END.split(" ".join(text.split())):
        try:
            kept.append(_text(sentence, known))
        except Unknown:
            continue
    return " ".join(kept)


def _command(text: str, known: Known) -> str:
    """A shell command with its facts quoted. Raises Unknown also for what cannot be quoted where it stands."""

    def value(found: re.Match[str]) -> str:
        before = text[: found.start()]
        quoted = before.count("'") % 2 or before.count('"') % 2
        if not found[1]:
            word = blanks.filled(found[0], known)
            if quoted:
                return word if _SAFE_IN_QUOTES.fullmatch(word) else found[0]
            return blanks.filled_word(found[0], known)
        shown = _shown(known, found[1])
        if shown is None or not shown.isprintable():
            raise Unknown(found[1])
        if quoted:
            if not _SAFE_IN_QUOTES.fullmatch(shown):
                raise Unknown(found[1])
            return shown
        return shlex.quote(shown)

    return _at_its_port(_TO_FILL.sub(value, text), known)


def _at_its_port(text: str, known: Known) -> str:
    """A command that asks this machine's server, with the port that the server's log names."""
    arguments = known.said("args")
    port = arguments.get("port") if isinstance(arguments, dict) else None
    if type(port) is not int or not 0 < port < 65536:
        return text
    return _HERE.sub(rf"\g<1>:{port}", text)


def _value(value: Any, known: Known) -> Any:
    """An argument's value with its facts; one that is a single placeholder keeps the fact's type."""
    if isinstance(value, dict):
        return {name: _value(item, known) for name, item in value.items()}
    if isinstance(value, list):
        return [_value(item, known) for item in value]
    if not isinstance(value, str):
        return value
    alone = _PLACEHOLDER.fullmatch(value)
    found = known.get(alone[1]) if alone else _text(value, known)
    if found is None or (isinstance(found, str) and not found.isprintable()):
        raise Unknown(value)
    return round(found, 4) if isinstance(found, float) else found


def _fix(fix: FixRule, known: Known, context: Mapping[str, Any]) -> Fix | None:
    """The fix filled in, or None where it does not apply or asks for what is unknown."""
    if not applies(fix, known, context):
        return None
    written, gone = _without_unset(fix.run)
    try:
        run = [_command(line, known) for line in written]
        set_ = {_argument(name, known): _value(value, known) for name, value in fix.set.items()}
        if set_ and not (set_ := accepted(set_, known)):
            return None
        unset = [_argument(name, known) for name in fix.unset]
        env: dict[str, str | None] = {name: str(_value(value, known)) for name, value in fix.env.items()}
        env.update((_text(name, known), None) for name in gone)
        container = {name: _value(value, known) for name, value in fix.container.items()}
        lines, change = to_type(set_, unset, env, container, context, known)
        if container and not lines:
            return None  # this way of running a server has no such setting
        return Fix(
            do=_text(fix.do, known),
            run=[*run, *lines],
            safety=fix.safety,
            note=_text(" ".join(fix.note.split()), known),
            change=[*run, *change] if change else [],
            set=set_,
        )
    except Unknown:
        return None


def to_type(
    set_: Mapping[str, Any],
    unset: Sequence[str],
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    context: Mapping[str, Any],
    known: Known,
) -> tuple[list[str], list[str]]:
    """(what to type, the change alone) in the user's form; the second is empty where the first is no more than it."""
    if not (set_ or unset or env or container):
        return [], []
    placed = _placed(context, known)
    lines = form.change(set_, unset, env, placed, container)
    whole = _whole(set_, unset, env, container, placed) if lines else []
    return (whole, lines) if whole else (lines, [])


def applies(fix: FixRule, known: Known, context: Mapping[str, Any]) -> bool:
    """Whether its version is that of the log, its conditions hold, and that version takes what it sets."""
    vllm = context.get("vllm")
    if not _admits(fix, vllm) or not all(_holds(condition, known) for condition in fix.only_if):
        return False
    return all(takes(name, vllm) is not False for name in fix.set)


def _whole(
    set_: Mapping[str, Any],
    unset: Sequence[str],
    env: Mapping[str, str | None],
    container: Mapping[str, Any],
    context: Mapping[str, Any],
) -> list[str]:
    """The user's own command with the change; empty where the log does not tell it."""
    from vdiag.advise.written import corrected  # late: only an answer with a change needs it

    return corrected(set_, unset, env, container, context)


def _argument(name: str, known: Known) -> str:
    """An argument's name; `{nearest_flag}` gives that of the flag."""
    text = _text(name, known)
    return text if text == name else text.lstrip("-").replace("-", "_")


def _without_unset(run: list[str]) -> tuple[list[str], list[str]]:
    """(commands, variables that the last commands `unset`): where these stand depends on how the server is run."""
    kept = list(run)
    gone: list[str] = []
    while kept and (found := _UNSET.fullmatch(kept[-1])):
        gone = found[1].split() + gone
        kept.pop()
    return kept, gone


def _placed(context: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """The episode's facts, with the unit, the compose service and the Deployment as commands name them."""
    shown = context.get("shown")
    around = shown.command.around if isinstance(shown, Shown) and shown.command is not None else {}
    names = {
        "unit": known.get("unit_name"),
        "service": known.get("compose_service"),
        "deployment": known.get("deployment_name"),
    }
    return {**around, **context, **{name: value for name, value in names.items() if value}}


def _admits(fix: FixRule, vllm: str | None) -> bool:
    """Whether the fix is for this version; a bound of fewer parts covers all below it (`0.13`: 0.13.x)."""
    version, since, until = number(vllm), number(fix.since), number(fix.until)
    if not version:
        return True
    return (not since or _padded(version, since) >= since) and (not until or _padded(version, until) <= until)


def _padded(version: tuple[int, ...], bound: tuple[int, ...]) -> tuple[int, ...]:
    return (*version, *(0,) * len(bound))[: len(bound)]


def _holds(condition: str, known: Known) -> bool:
    """`fact`, `not fact` or `fact=value`."""
    condition = condition.strip()
    if condition.startswith("not "):
        return not _holds(condition[4:], known)
    name, equals, wanted = condition.partition("=")
    value = known.get(name.strip())
    if value is None:
        return False
    return words(value).lower() == wanted.strip().lower() if equals else value is not False
