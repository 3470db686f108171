"""A first draft of a rule from one real message: what varies becomes typed captures, what a person must write a slot.

The draft is YAML text. Slots begin with `TODO`, which lint does not let pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec
import regex

from vdiag.rulebook.phrases import WordingError, compile_phrase

LONGEST_PHRASE = 400  # characters of a row that become the phrase
FEWEST_LETTERS = 5  # outside of captures, for a phrase that says something
MOST_ROWS = 12  # rows of the message that become the example
TODO = "TODO"

_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Fault): ")
_BLANK = re.compile(
    "[\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\U000e0100-\U000e01ef]"
)  # Python prints them
_ADVICE = re.compile(r"(?<=[.;)]) (?:Try|Please|Consider|See|If you|You (?:can|may)|Use) ")
_VARIES = re.compile(
    r"""(?P<gib>(?<![\w.])-?\d[\d,]*(?:\.\d+)?\ ?(?:[KMGTkmgt]i?B|bytes)\b)
      | (?P<time>(?<![\w.])\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?(?!\w))
      | (?P<pci>\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.\d\b)
      | (?P<hex>\b0x[0-9a-fA-F]+|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)
      | (?P<quoted>(?<![\w])(?:'[^'\n]{1,200}'|"[^"\n]{1,200}"))
      | (?P<list>\[[^\[\]\n]{2,400}\])
      | (?P<dict>\{[^{}\n]{0,400}\})
      | (?P<url>\b[a-z]{2,6}://[^\s'",)]+)
      | (?P<path>(?<![\w.])~?/[\w.@+-]+(?:/[\w.@+-]*)+)
      | (?P<repo>(?<![\w/.])[A-Za-z][\w.-]*/[\w-]*\d[\w.-]*(?<!\.))
      | (?P<version>(?<![\w.])v?\d+\.\d+\.\d+[\w.+]*(?<!\.))
      | (?P<num>(?<![\w.])-?\d[\d,]*\.\d+(?![\w]))
      | (?P<int>(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?![\w]|\.\d))""",
    re.VERBOSE,
)
_TYPES = {
    "gib": "gib",
    "num": "num",
    "int": "int",
    "repo": "name",
    "path": "word",
    "url": "word",
    "version": "word",
}
_DEFAULTS = {"quoted": "name", "repo": "model", "path": "path", "url": "url", "version": "version"}
_SMALL_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "cannot",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "got",
        "had",
        "has",
        "have",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "please",
        "set",
        "should",
        "than",
        "that",
        "the",
        "then",
        "there",
        "this",
        "to",
        "too",
        "try",
        "was",
        "were",
        "which",
        "while",
        "will",
        "with",
        "you",
        "your",
        "must",
        "not",
        "no",
        "only",
        "value",
        "but",
        "expected",
        "error",
        "failed",
    ]
)


class Origin(msgspec.Struct, frozen=True):
    """The message a draft is made from. `row` is the row of `text` that states the fault, counted from 0."""

    text: str
    row: int = 0
    kind: str = "log"  # as rules say in `where`
    level: str = ""  # of its log line; empty: none
    frame: str = ""  # `file.py:function` that raised, empty where none is known
    known: tuple[str, ...] = ()  # ids of rules that match it already


def draft(origin: Origin) -> str:
    """The YAML of a rule for a message. ValueError says why there is nothing in it to go by."""
    rows = origin.text.split("\n")
    said = _EXCEPTION.sub("", rows[origin.row].strip()).strip()
    if len(re.findall(r"[A-Za-z]{2,}", said)) < 2:
        raise ValueError("there are no words in it that a rule could go by")
    phrase, names = phrase_of(said)
    if len(re.findall(r"[A-Za-z]", re.sub(r"\{[^{}]*\}", "", phrase))) < FEWEST_LETTERS:
        said, names = rows[origin.row].strip(), []  # a KeyError, say, whose message is the key alone
        phrase = _braced(_cut(said))
    return "\n".join(_written(origin, rows, phrase, names)) + "\n"


def phrase_of(said: str) -> tuple[str, list[str]]:
    """(phrase, names of its captures) for a row of a message; the phrase matches the row."""
    cut = _cut(said)
    phrase, names = _with_captures(cut)
    try:
        matches = regex.search(compile_phrase(phrase).source, said, timeout=1.0) is not None
    except (WordingError, TimeoutError):
        matches = False
    return (phrase, names) if matches else (_braced(cut), [])


def id_of(said: str) -> str:
    """A suggestion for the id: the first words that say something."""
    fixed = _VARIES.sub(" ", said).lower()
    words = [
        word for word in re.findall(r"[a-z][a-z0-9]+", fixed.replace("_", " ")) if word not in _SMALL_WORDS
    ]
    return "-".join(dict.fromkeys(words[:5])) or "unnamed-fault"


def _cut(said: str) -> str:
    """The row without the advice at its end, which changes from version to version; of a long one the beginning."""
    advice = _ADVICE.search(said, 60)
    if advice:
        said = said[: advice.start()]
    if len(said) <= LONGEST_PHRASE:
        return said
    end = said.rfind(". ", 60, LONGEST_PHRASE)
    return said[: end + 1] if end > 0 else said[:LONGEST_PHRASE].rsplit(" ", 1)[0]


def _with_captures(said: str) -> tuple[str, list[str]]:
    parts: list[str] = []
    names: list[str] = []
    at = 0
    for found in _VARIES.finditer(said):
        before = said[at : found.start()]
        parts.append(_braced(before))
        kind = found.lastgroup or "int"
        parts.append(_capture(kind, found[0], said[: found.start()], names))
        at = found.end()
    parts.append(_braced(said[at:]))
    return "".join(parts), names


def _capture(kind: str, text: str, before: str, names: list[str]) -> str:
    """The placeholder for a value; its name, if it gets one, is appended to `names`."""
    if kind in ("hex", "pci"):
        return "{*:word}"
    if kind == "time":
        return "{*:word} {*:word}" if " " in text else "{*:word}"
    if kind == "dict":
        return "{{{*}}}" if len(text) > 2 else "{{}}"
    if kind == "list":
        return "[{*}]"
    name = _name(kind, before)
    if kind == "gib" and not name.endswith("_gib"):
        name += "_gib"
    number = 2
    while name in names:
        name = f"{name.rstrip('0123456789').rstrip('_')}_{number}"
        number += 1
    names.append(name)
    if kind == "quoted":
        inner = text[1:-1]
        return f"{text[0]}{{{name}{'' if ' ' in inner else ':word'}}}{text[-1]}"
    return f"{{{name}:{_TYPES[kind]}}}"


def _name(kind: str, before: str) -> str:
    """A name for a value: the one or two words in front of it that say something."""
    near = re.findall(r"[A-Za-z][A-Za-z0-9_]*", _VARIES.sub(" ", before)[-60:])[-4:]
    words = [word.lower() for word in near if word.lower() not in _SMALL_WORDS and len(word) > 1]
    if before.endswith("=") and near:
        words = [near[-1].lower()]
    name = "_".join(dict.fromkeys(words[-2:]))[:30].strip("_")
    return name if re.fullmatch(r"[a-z]\w*", name) else _DEFAULTS.get(kind, "value")


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _written(origin: Origin, rows: list[str], phrase: str, names: list[str]) -> Iterator[str]:
    said = _EXCEPTION.sub("", rows[origin.row].strip())
    for known in origin.known:
        yield f"# `{known}` already matches this line: should it have another wording instead?"
    yield f"- id: {id_of(said)}"
    yield f"  title: {TODO} the cause in one sentence, without a full stop"
    yield "  phrases:"
    yield f"    - {_quoted(phrase)}"
    yield "  why: >"
    facts = f" Known: {', '.join(f'{{{name}}}' for name in names)}." if names else ""
    yield f"    {TODO} What happens, and why, in two or three sentences.{facts}"
    yield from _conditions(origin)
    yield "  fixes:"
    yield f"    - do: {TODO} the best thing to do, one imperative sentence"
    yield "      # set: {max_model_len: 4096}     engine arguments by their Python name, or `run:`, `env:`"
    yield f"    - do: {TODO} another way, where the first does not suit"
    yield "      safety: tradeoff"
    yield f"      note: {TODO} its price"
    yield "  # avoid: [what people commonly do that makes it worse, and why]"
    yield "  examples:"
    yield from _item(rows[:MOST_ROWS])
    yield "  lookalikes:"
    yield f"    - {TODO} a line that resembles it and is another fault, or none"


def _conditions(origin: Origin) -> Iterator[str]:
    if origin.kind in ("kernel", "unit", "http"):
        yield f"  where: {origin.kind}"
    if origin.level in ("WARNING", "INFO", "DEBUG"):
        yield f"  level: {origin.level.lower()}"
        yield "  alone: false  # a healthy server may print it too; true if it never does"
    if origin.frame:
        yield f"  # frames: [{_quoted(origin.frame)}]  # if the same words mean something else elsewhere"


def _item(rows: list[str]) -> Iterator[str]:
    """A list item of one or several rows, as a block where YAML can hold it as one."""
    if len(rows) == 1 or rows[0][:1].isspace() or not all(map(_is_seen, rows)):
        yield f"    - {_quoted(chr(10).join(rows))}"
        return
    yield "    - |-"
    yield from (f"      {row}".rstrip() for row in rows)


def _quoted(text: str) -> str:
    """A YAML scalar in double quotes, as JSON's are; what cannot be seen is spelled out."""
    shown = json.dumps(text, ensure_ascii=False)
    if _is_seen(shown):
        return shown
    return "".join(
        c if _is_seen(c) else f"\\u{ord(c):04x}" if c <= "\uffff" else f"\\U{ord(c):08x}" for c in shown
    )


def _is_seen(text: str) -> bool:
    return text.isprintable() and (text.isascii() or not _BLANK.search(text))
