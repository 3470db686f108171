"""Command lines from a log as words: what a shell or systemd would make of them, and how they were spelled.

A log is a stranger's text. What would run something else when pasted (substitutions, a second command) or cannot be
shown is never carried over: `Unsafe` is raised and the caller prints the change alone.
"""

from __future__ import annotations

import re
import shlex
from typing import NamedTuple

LONGEST = 8_000  # characters of a command line that a person still reads
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?::?-[\w./:@-]*)?\})")
_BLANK = re.compile(r"<[\w ./|,:'-]{1,60}>")
_ENDS = ";|&<>()"
_NO_QUOTES = "‘’“”„«»—–"  # what a word processor makes of quotes and of `--`


class Unsafe(Exception):
    """A command line that is not carried over, with the reason."""


class Word(NamedTuple):
    """A word of a command as it was spelled, and what the program gets."""

    raw: str
    value: str


def shell(text: str) -> list[Word]:
    """The words of the first command in a line, up to `;`, `|`, `&`, a redirection or a comment. Raises Unsafe."""
    _check(text)
    words: list[Word] = []
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if char in " \t\n":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif char == "#" or _ends(text, at):
            break
        else:
            word, at = _word(text, at)
            words.append(word)
    return words


def _ends(text: str, at: int) -> bool:
    """Whether the command ends here: an operator that is no `<placeholder>`, or a redirection with its number."""
    if text[at].isdigit():
        return bool(re.match(r"\d+[<>]", text[at : at + 4])) and not _BLANK.match(text, at + 1)
    return text[at] in _ENDS and not _BLANK.match(text, at)


def _word(text: str, at: int) -> tuple[Word, int]:
    start, value = at, ""
    while at < len(text) and text[at] not in " \t\n":
        char = text[at]
        if char == "'":
            close = text.find("'", at + 1)
            if close < 0:
                raise Unsafe("a quote is open")
            value += text[at + 1 : close]
            at = close + 1
        elif char == '"':
            part, at = _double(text, at + 1)
            value += part
        elif char == "\\":
            if text.startswith("\\\n", at):
                break
            if at + 1 >= len(text):
                raise Unsafe("it goes on in a line that is not here")
            value += text[at + 1]
            at += 2
        elif char == "$":
            at, part = _variable(text, at)
            value += part
        elif blank := _BLANK.match(text, at):
            value += blank[0]
            at = blank.end()
        elif char in _ENDS:
            break
        elif char in "`!":
            raise Unsafe("it would run something else")
        elif char in _NO_QUOTES:
            raise Unsafe("a program for text has changed its quotes")
        else:
            value += char
            at += 1
    return Word(text[start:at], value), at


def _double(text: str, at: int) -> tuple[str, int]:
    """What stands in double quotes from here on, and where they close."""
    value = ""
    while at < len(text):
        char = text[at]
        if char == '"':
            return value, at + 1
        if char == "\\" and text[at + 1 : at + 2] in ('"', "\\", "$", "`", "\n"):
            value += text[at + 1].strip("\n")
            at += 2
        elif char == "$":
            at, part = _variable(text, at)
            value += part
        elif char in "`!":
            raise Unsafe("it would run something else")
        else:
            value += char
            at += 1
    raise Unsafe("a quote is open")


def _variable(text: str, at: int) -> tuple[int, str]:
    found = _VARIABLE.match(text, at)
    if not found:
        raise Unsafe("it would run something else")
    return found.end(), found[0]


def unit(text: str) -> list[Word]:
    """The words of an `ExecStart=` (systemd.service, systemd.syntax). Raises Unsafe."""
    _check(text)
    words: list[Word] = []
    at = 0
    while at < len(text):
        if text[at].isspace() or text.startswith("\\\n", at):
            at += 2 if text[at] == "\\" else 1
            continue
        start, value = at, ""
        quote = ""
        while at < len(text) and (quote or not text[at].isspace()):
            char = text[at]
            if char == quote:
                quote = ""
            elif char in "'\"" and not quote:
                quote = char
            elif char == "\\":
                if text.startswith("\\\n", at):
                    break
                if text[at + 1 : at + 2] not in ("\\", '"', "'"):
                    raise Unsafe("an escape that is not read here")
                value += text[at + 1]
                at += 1
            elif text.startswith(("%%", "$$"), at):
                value += char
                at += 1
            else:
                value += char
            at += 1
        if quote:
            raise Unsafe("a quote is open")
        words.append(Word(text[start:at], value))
    if any(word.raw == ";" for word in words):
        raise Unsafe("there are several commands")
    return words


def _check(text: str) -> None:
    if len(text) > LONGEST:
        raise Unsafe("it is too long")
    if any(not char.isprintable() and char not in "\n\t" for char in text):
        raise Unsafe("it holds what cannot be shown")


def quote(word: str) -> str:
    """Quoted for a shell, but `<placeholder>` and `…` stay readable: a person replaces them anyway."""
    return (
        word if re.fullmatch(r"<[\w ./|,:-]+>(?:/<[\w ./|,:-]+>|/[\w./-]+)?|…", word) else shlex.quote(word)
    )


def in_unit(text: str) -> str:
    """Quoted for a unit file: `%` is doubled, double quotes around what holds anything unusual (systemd.syntax)."""
    text = text.replace("%", "%%")
    if re.fullmatch(r"[\w@%+=:,./<>…-]+", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
