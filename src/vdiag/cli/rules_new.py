"""`vdiag rules new --from LOG[:LINE]`: finds the line a draft is wanted of, with what the program knows of it."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdiag.intake.sources import Source
    from vdiag.model import Event
    from vdiag.pipeline import Reading
    from vdiag.rulebook import Rulebook
    from vdiag.rulebook.draft import Origin


class NoLine(Exception):
    """There is no line to make a rule of; the text says why, and what to give instead."""


def origin_of(given: str, rulebook: Rulebook) -> Origin:
    """The message at `LOG:LINE`, or the root of what failed in `LOG`. NoLine if there is none."""
    from vdiag.pipeline import Reading

    path, line = _split(given)
    reading = Reading(rulebook)
    source = _source(path)
    reading.read(0, source)
    told = reading.inputs[0]
    if told.gaps and not told.lines:
        raise NoLine(f"{path}: {told.gaps[0].what}")
    if line is None:
        findings = reading.conclusion().findings
        if not findings:
            raise NoLine(f"nothing in {path} failed: name the line, {path}:LINE")
        return _origin(findings[0].node.event, findings[0].node.line, reading, rulebook)
    if not 1 <= line <= told.lines:
        raise NoLine(f"{path} has {told.lines} lines, and none of number {line}")
    events = [event for event in reading.events if line in event.lines[: max(event.own, 1)]]
    if not events:
        raise NoLine(_nothing_at(path, line, reading))
    return _origin(max(events, key=lambda event: bool(event.exception)), line, reading, rulebook)


def _split(given: str) -> tuple[str, int | None]:
    from pathlib import Path

    name, colon, number = given.rpartition(":")
    if not colon or not number.isdigit() or Path(given).exists():
        return given, None
    return name, int(number)


def _source(path: str) -> Source:
    from vdiag.intake.sources import sources

    found, problems = sources([path], sys.stdin.buffer)
    if problems or not found:
        raise NoLine(problems[0] if problems else f"{path}: nothing to read")
    return found[0]


def _origin(event: Event, line: int, reading: Reading, rulebook: Rulebook) -> Origin:
    from vdiag.assemble.shapes import frame_parts
    from vdiag.model import Role
    from vdiag.rulebook.draft import Origin

    rows = event.rows[: max(event.own, 1)]
    frame = ""
    if event.frames:
        file, _, function = frame_parts(event.frames[-1])
        frame = ":".join(filter(None, (re.split(r"[\\/]", file)[-1], function)))
    row = min(event.lines.index(line) if line in event.lines else event.root_row, len(rows) - 1)
    legible = set().union(*(blame.legible for blame in reading.conclusion().blames))
    known = dict.fromkeys(
        rulebook.rules[match.rule].id
        for match in reading.matches
        if match.event is event
        and rulebook.rules[match.rule].role is not Role.CONTEXT
        and rulebook.rules[match.rule].id in legible
    )
    return Origin("\n".join(rows), row, event.kind.value, event.envelope.level, frame, tuple(known))


def _nothing_at(path: str, line: int, reading: Reading) -> str:
    """Why a line is none to make a rule of, with the exception that stands behind it, if one does."""
    behind = [e.line for e in reading.events if e.exception and line < e.line <= line + 100]
    hint = f"; the exception of the traceback there is on line {min(behind)}" if behind else ""
    return f"line {line} of {path} holds no message of its own (a frame, an access line, or nothing){hint}"
