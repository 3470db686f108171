"""From a regex as a contributor writes it to the forms that matching needs.

White space in it is made to match any white space, a second form is loosened for wrapped text, and the texts it
cannot match without are read off its parse. A small tokenizer does the first two, Python's own parser the third.
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any, NamedTuple

from vdiag.rulebook.captures import AUTO, TYPES, WRAP
from vdiag.rulebook.phrases import GAP, Wording, WordingError, ink

if sys.version_info >= (3, 11):
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser as sre_parse  # type: ignore[attr-defined]
else:
    import sre_constants as sre
    import sre_parse

_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[?+]?")
_OPEN = re.compile(r"\(\?(?:P<(\w+)>|<(\w+)>|[:>=!|]|<[=!]|[a-zA-Z-]+:)|\(")
_ATOM = re.compile(r"\(\?(?:#[^)]*|P=\w+|[a-zA-Z-]+)\)")
_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[pP]\{[^}]*\}|g<\w+>|.)", re.DOTALL
)
_NAMED = re.compile(r"(?<!\\)\(\?P?<\w+>")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]", re.DOTALL)
_DIGITS = re.compile(r"\\d|\[(?:\\d|0-9)")
_REPEATED = re.compile(r"[*+]$|\{\d*,\d*\}$")  # greedily
_OPTIONAL = re.compile(r"[*?]|\{0?,")


class Token(NamedTuple):
    """One atom of a regex with its quantifier."""

    kind: (
        str  # literal | space (any white space) | break (one kind of it) | class | anchor | open | close | or
    )
    text: str
    quantifier: str = ""


def tokens(source: str) -> list[Token]:
    """The atoms of a regex in their order; WordingError for one that breaks off."""
    found: list[Token] = []
    at = 0
    while at < len(source):
        kind, text = _atom(source, at)
        at += len(text)
        quantifier = ""
        if kind not in ("open", "or", "anchor"):
            match = _QUANTIFIER.match(source, at)
            if match and match[0] != "{}":
                quantifier = match[0]
                at = match.end()
        found.append(Token(kind, text, quantifier))
    return found


def _atom(source: str, at: int) -> tuple[str, str]:
    char = source[at]
    if char == "\\":
        match = _ESCAPE.match(source, at)
        if not match:
            raise WordingError("a character after the last backslash", f"`{source}`")
        text = match[0]
        if text in ("\\s", "\\ "):
            return "space", text
        if text[1] in "bBAZGmM":
            return "anchor", text
        if text[1] in "nrtfv":
            return "break", text
        if text[1] in "pPg" or (len(text) == 2 and text[1] in "dDwWSXRNVHhK123456789"):
            return "class", text
        return "literal", text
    if char == "[":
        match = _CLASS.match(source, at)
        if not match:
            raise WordingError("a closing `]`", f"`{source[at : at + 20]}`")
        return "class", match[0]
    if char == "(":
        atom = _ATOM.match(source, at)
        if atom:
            return ("class" if atom[0].startswith("(?P=") else "anchor"), atom[0]
        match = _OPEN.match(source, at)
        return "open", match[0] if match else char
    if char == ")":
        return "close", char
    if char == "|":
        return "or", char
    if char in "^$":
        return "anchor", char
    if char == ".":
        return "class", char
    return ("space" if char.isspace() else "literal"), char


def compile_regex(source: str) -> Wording:
    """The wording of a regex; WordingError says what is wrong with one that cannot be read."""
    if not source.strip():
        raise WordingError("a regular expression", "nothing")
    read = tokens(source)
    if any(token.kind == "anchor" and re.match(r"\(\?[a-zA-Z-]*x", token.text) for token in read):
        raise WordingError("a regex without the verbose flag", "`(?x)`")
    read, types = _typed(read)
    strict = _joined(read)
    _accepted(strict, source)
    fixed = fixed_texts("".join(token.text + token.quantifier for token in read))
    return Wording(strict, _if_read(_loosened(read), strict), fixed.runs, types, fixed.weight, fixed.choices)


def _if_read(loose: str, strict: str) -> str:
    """The loose form; the strict one again where loosening takes apart what only the `regex` module knows."""
    import regex

    try:
        regex.compile(loose)
    except (regex.error, OverflowError, RecursionError):
        return strict
    return loose


def _accepted(strict: str, source: str) -> None:
    import regex

    try:
        regex.compile(strict)
    except (regex.error, OverflowError, RecursionError) as fault:
        raise WordingError(f"a regex that compiles ({fault})", f"`{source}`") from None


def _typed(read: list[Token]) -> tuple[list[Token], dict[str, str]]:
    """The tokens with `name__type` groups renamed to `name`, and the types."""
    types: dict[str, str] = {}
    renamed = []
    for token in read:
        match = _OPEN.match(token.text) if token.kind == "open" else None
        name = match and (match[1] or match[2])
        if name:
            plain, _, suffix = name.rpartition("__")
            if not plain or suffix not in TYPES:
                plain, suffix = name, AUTO
            types[plain] = suffix
            token = Token("open", f"(?P<{plain}>")
        renamed.append(token)
    return renamed, types


def _multiline(read: list[Token]) -> str:
    """`^` and `$` are the ends of a row: a message may have several."""
    return "(?m)" if any(token.text in ("^", "$") for token in read) else ""


def _joined(read: list[Token]) -> str:
    out = [_multiline(read)]
    for token in read:
        if token.kind == "space":
            piece = GAP if _OPTIONAL.match(token.quantifier) else r"\s+"
            if out[-1] in (GAP, r"\s+"):
                piece = r"\s+" if r"\s+" in (out.pop(), piece) else GAP
            out.append(piece)
        else:
            out.append(_blank_class(token.text) + token.quantifier)
    return "".join(out)


def _blank_class(text: str) -> str:
    """A class that holds a space holds all white space."""
    return text.replace("\\ ", " ").replace(" ", r"\s") if text.startswith("[") else text


def _loosened(read: list[Token]) -> str:
    """The regex for wrapped text: a gap after each thing that consumes text, but none before `)`, `|` and the end."""
    out: list[str] = [_multiline(read)]

    def gap() -> None:
        if out[-1] != GAP:
            out.append(GAP)

    last = max((index for index, token in enumerate(read) if token.kind != "close"), default=0)
    for index, token in enumerate(read):
        repeats = token.quantifier[:1] in ("*", "+", "{")
        if token.kind in ("close", "or") and out[-1] == GAP and not repeats:
            out.pop()
        if token.kind in ("open", "or"):
            out.append(token.text)
            if token.text == "(?!" and index and read[index - 1].kind == "space":
                out.append(GAP)  # else the gap before it gives way, and nothing is forbidden
        elif token.kind == "anchor":
            if token.text not in (r"\b", r"\B"):
                out.append(token.text)
        elif token.kind == "break" and _is_branch(read, index):
            out.append(token.text + token.quantifier)  # else the branch would match anywhere
        elif token.kind in ("space", "break"):
            gap()
        else:
            out.append(_loose_atom(token, index == last))
            gap()
    if out[-1] == GAP:
        out.pop()
    return "".join(out)


def _is_branch(read: list[Token], index: int) -> bool:
    """Whether a token is all of an alternative."""
    begins = index > 0 and read[index - 1].kind in ("open", "or")
    return begins and index + 1 < len(read) and read[index + 1].kind in ("close", "or")


def _loose_atom(token: Token, last: bool) -> str:
    text = _blank_class(token.text)
    if token.kind == "literal" and token.quantifier[:1] in ("?", "*"):
        return rf"(?:{text}\s*){token.quantifier}"
    if token.kind == "class" and not last:
        if text in (".", r"[^\n]") and token.quantifier.endswith("?") and len(token.quantifier) > 1:
            return r"[\s\S]" + token.quantifier
        if _DIGITS.match(text) and token.quantifier[-1:] in ("+", "*", "}"):
            again = token.quantifier if token.quantifier[0] != "*" else "+"
            return rf"{text}{token.quantifier}(?:{WRAP}{text}{again}){{0,3}}"
        if _REPEATED.match(token.quantifier) and _on_one_line(text):
            return rf"{text}{token.quantifier}(?:{WRAP}{text}+){{0,3}}"
    return text + token.quantifier


def _on_one_line(text: str) -> bool:
    """Whether a class admits no line end without naming it; a run of such characters may be wrapped all the same."""
    import regex

    return text not in (".", r"[^\n]") and regex.match(text, "\n") is None


# ---- fixed runs ------------------------------------------------------------------------------------------


class Fixed(NamedTuple):
    """The fixed texts of a regex, as `Wording` has them."""

    runs: list[str]
    choices: list[list[str]]
    weight: int


def fixed_texts(source: str) -> Fixed:
    """The texts every match of a regex holds, and how many fixed characters a match has at least.

    Without texts for a regex that ignores case or that only the `regex` module can parse: such a rule has to give
    its `literal`.
    """
    try:
        with warnings.catch_warnings():  # of what only `re` will read in another way one day
            warnings.simplefilter("ignore", FutureWarning)
            parsed = sre_parse.parse(_NAMED.sub("(", source))
    except (re.error, OverflowError, RecursionError):
        return Fixed([], [], sum(token.kind == "literal" for token in tokens(source)))
    fixed = _fixed(parsed)
    if parsed.state.flags & re.IGNORECASE:
        return Fixed([], [], fixed.weight)
    return fixed._replace(runs=[run for run in fixed.runs if run.strip()])


def _fixed(items: Any) -> Fixed:
    """The fixed texts of a concatenation."""
    runs = [""]
    choices: list[list[str]] = []
    weight = 0
    for operation, value in items:
        if operation is sre.LITERAL:
            char = chr(value)
            runs[-1] += "\n" if char.isspace() and char != " " else char
            weight += ink(char)
        elif operation in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
            continue
        elif operation is sre.SUBPATTERN and not value[1] & re.IGNORECASE:
            inner = _fixed(value[3])
            runs[-1] += inner.runs[0]
            runs += inner.runs[1:]
            choices += inner.choices
            weight += inner.weight
        elif _is_space(operation, value):
            runs[-1] += "\n"
        else:
            runs.append("")
            if operation is sre.BRANCH:
                branches = [_fixed(branch) for branch in value[1]]
                weight += min(branch.weight for branch in branches)
                choices.append([max(branch.runs, key=ink, default="") for branch in branches])
            elif operation in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0]:
                weight += _fixed(value[2]).weight
    return Fixed(runs, choices, weight)


def _is_space(operation: Any, value: Any) -> bool:
    """Whether an item matches white space only."""
    if operation in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        return all(_is_space(*item) for item in value[2])
    if operation is sre.LITERAL:
        return chr(value).isspace()
    if operation is sre.IN:
        return all(
            (kind is sre.LITERAL and chr(what).isspace())
            or (kind is sre.CATEGORY and what is sre.CATEGORY_SPACE)
            for kind, what in value
        )
    return False
