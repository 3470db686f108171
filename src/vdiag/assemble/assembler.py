"""Lanes, tracebacks and their chains, and messages of several rows: from records to events.

Each lane (one process's lines) is followed on its own, so that interleaved processes do not tear a traceback.
Cost per frame row is what decides the speed on an error-dense log: a frame is kept as printed and parsed only
if a rule or the answer asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vdiag.assemble.shapes import (
    AFTER_FRAMES,
    ALONE,
    DIRECT_CAUSE,
    DURING_HANDLING,
    FRAME,
    GROUP_HEAD,
    GROUP_MARK,
    HEAD,
    is_echo,
)
from vdiag.model import Envelope, Event, Kind, Record

MOST_ROWS = 40  # rows of one event
MOST_FRAMES = 40  # frames kept of one traceback: the innermost
MOST_SPILL = 12  # unprefixed lines behind a prefixed one that may be its wrapped rest
MOST_LANES = 4096
SHOWN = ("raise ", 'f"', "f'")  # how source code that a program shows begins
REACH = 64  # physical lines between a row and the one it goes on from

_PYDANTIC = re.compile(r"(?<!\d)\d{1,6} validation errors? for ")
_BREAKS = re.compile(  # an unprefixed row that begins something of its own
    r"Process \S+:$|Exception (?:in|ignored in) |(?:Task|Future) exception |\S+: error: |INFO|Traceback|Loading |Capturing |\[rank\d"
)


class _Lane:
    """The state of one process's lines."""

    __slots__ = (
        "chain",
        "code_next",
        "event",
        "flat",
        "frames",
        "headless",
        "ignored",
        "last",
        "link",
        "margin",
        "open",
    )

    def __init__(self) -> None:
        self.open = False  # inside a traceback, before its exception
        self.headless = False
        self.frames: list[str] = []
        self.code_next = False  # the row under a frame
        self.margin = 0  # the indentation of the whole traceback
        self.flat = False  # its rows lost their indentation
        self.event: Event | None = None  # what later rows may continue
        self.chain = 0
        self.link = ""  # the next traceback hangs on the chain so
        self.ignored = False
        self.last: tuple[int, Envelope] | None = None  # where the last frame stood


class Assembler:
    """Feed it records in order; it hands out events, each complete."""

    def __init__(self) -> None:
        self.reach = REACH  # larger where an entry of the input is many lines long
        self._lanes: dict[tuple[int, str, str, str, str, int, bool], _Lane] = {}
        self._chains = 0
        self._done: list[Event] = []
        self._open_tracebacks = 0
        self._latest: Event | None = None  # the event of the physical line before
        self._latest_line = -1

    @property
    def busy(self) -> bool:
        """Whether a traceback is open in some lane."""
        return self._open_tracebacks > 0

    def feed(self, records: Iterable[Record]) -> Iterator[Event]:
        """Events that are complete after these records."""
        for record in records:
            self._record(record)
            if len(self._done) > 256:
                done, self._done = self._done, []
                yield from done
        done, self._done = self._done, []
        yield from done

    def flush(self) -> Iterator[Event]:
        """What is still open at the end of an input."""
        for lane in self._lanes.values():
            if not lane.headless and lane.open and not lane.frames:
                lane.frames.append(HEAD)  # the log stops behind the head
            self._cut(lane)
            self._close(lane)
        self._lanes.clear()
        self._open_tracebacks = 0
        self._latest = None
        done, self._done = self._done, []
        yield from done

    # ---- one record ---------------------------------------------------------------------------------------

    def _record(self, record: Record) -> None:
        env = record.envelope
        message = record.message
        # Kernel lines are a lane of their own; a level header does not change the lane.
        key = (record.source, env.host, env.unit, env.role, env.rank, env.pid, env.kind is Kind.KERNEL)
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= MOST_LANES:
                self._done = list(self.flush())
            lane = self._lanes[key] = _Lane()
        first = message[:1]
        if record.goes_on:
            if lane.event is not None and len(lane.event.rows) < MOST_ROWS:
                self._append(lane.event, message, record.line)
            return
        if first == "F" and FRAME.match(message):  # a paste that lost its indentation
            message = "  " + message
            lane.flat = True
            first = " "
        if (
            lane.open
            and lane.margin > 0
            and message[: lane.margin].isspace()
            and AFTER_FRAMES.match(message[lane.margin :])
        ):  # the exception of a traceback that stands in a margin, as pip quotes it
            message = message[lane.margin :]
            first = message[0]
        if first == " " or first == "\t":
            stripped = message.lstrip()
            if stripped[:1] in ("|", "+") and (lane.open or lane.chain or GROUP_HEAD in message):
                message = GROUP_MARK.sub("", message)
                stripped = message.lstrip()
                first = message[:1]
                if stripped.startswith(GROUP_HEAD):
                    self._head(lane, record)
                    return
            if stripped.startswith('File "'):
                if not lane.open:
                    self._begin(lane, headless=not lane.link)
                frames = lane.frames
                frames.append(stripped)
                lane.margin = len(message) - len(stripped) - 2
                if len(frames) > MOST_FRAMES:
                    del frames[0]
                lane.code_next = True
                lane.last = (record.line, env)
                return
            if lane.open and first in (" ", "\t") and (lane.code_next or is_echo(message)):
                lane.code_next = is_echo(message)
                return
            if stripped.startswith(HEAD):
                self._head(lane, record)
                return
            if (
                first in (" ", "\t")
                and is_echo(message)
                and (lane.event is None or stripped.startswith(SHOWN))
            ):
                return  # source code: of a fragment that begins under a frame, or shown as it is
        if first == "T" and message.startswith(HEAD):
            self._head(lane, record)
            return
        if lane.open:
            if lane.flat and (lane.code_next or not message.strip("^~ ")) and not ALONE.match(message):
                lane.code_next = False
                return
            if lane.frames and first not in (" ", "\t", ""):
                m = AFTER_FRAMES.match(message)
                if m is not None:
                    self._exception(lane, record, message, m["name"])
                    return
            if not message:
                return
            if message.startswith(HEAD[:9]) or (
                env.level and lane.last and lane.last[1] is not env and lane.last[1].level
            ):
                self._cut(lane)
        if first == "T" and message.startswith(DIRECT_CAUSE):
            self._close(lane)
            lane.link = "cause"
            return
        if first == "D" and message.startswith(DURING_HANDLING):
            self._close(lane)
            lane.link = "context"
            return
        if not message.strip():
            if (
                lane.event is not None
                and lane.event.lines[-1] == record.line - 1
                and len(lane.event.rows) < MOST_ROWS
            ):
                self._append(lane.event, "", record.line)
            return
        if first not in (" ", "\t"):
            m = ALONE.match(message)
            if m is not None and (not lane.open or lane.frames):
                if not lane.open:
                    self._begin(lane, headless=True)
                    lane.link = ""
                self._exception(lane, record, message, m["name"])
                return
        if message.startswith("Exception ignored in"):
            lane.ignored = True
        self._plain(lane, record, message)

    def _head(self, lane: _Lane, record: Record) -> None:
        if lane.open and lane.frames:
            self._cut(lane)
        self._close(lane)
        self._begin(lane, headless=False)
        lane.last = (record.line, record.envelope)

    def _begin(self, lane: _Lane, *, headless: bool) -> None:
        if not lane.open:
            self._open_tracebacks += 1
        self._close(lane)
        lane.open = True
        lane.headless = headless
        lane.frames = []
        lane.code_next = lane.flat = False
        if not lane.link or not lane.chain:
            self._chains += 1
            lane.chain = self._chains

    def _exception(self, lane: _Lane, record: Record, message: str, name: str) -> None:
        event = _raised(lane, record.source, record.envelope, message, record.line, name)
        self._end_frames(lane)
        lane.link = "group" if name.endswith("ExceptionGroup") else ""
        lane.event = event
        self._latest, self._latest_line = event, record.line

    def _cut(self, lane: _Lane) -> None:
        """A traceback whose exception never came."""
        if not lane.open:
            return
        if lane.frames and lane.last is not None:
            line, envelope = lane.last
            self._done.append(_raised(lane, self._source_of(lane), envelope, lane.frames[-1], line))
        self._end_frames(lane)
        lane.link = ""

    def _end_frames(self, lane: _Lane) -> None:
        lane.open = False
        self._open_tracebacks -= 1
        lane.frames = []
        lane.ignored = False

    def _source_of(self, lane: _Lane) -> int:
        return next((key[0] for key, value in self._lanes.items() if value is lane), 0)

    # ---- rows of a message ------------------------------------------------------------------------------

    def _plain(self, lane: _Lane, record: Record, message: str) -> None:
        env, line = record.envelope, record.line
        open_event = lane.event
        bare = not env.level
        latest = self._latest
        unprefixed = (
            bare
            and env.kind is Kind.NATIVE
            and (
                not env.lane
                or (not env.role and latest is not None and _same_collector(env, latest.envelope))
            )
        )
        if unprefixed:
            self._spill(open_event, message, line)
        if (
            open_event is not None
            and len(open_event.rows) < MOST_ROWS
            and line - open_event.lines[-1] <= self.reach
            and self._continues(open_event, env, message, bare)
        ):
            self._append(open_event, message, line)
            if not unprefixed:
                self._latest, self._latest_line = open_event, line
            return
        self._close(lane)
        lane.event = Event(
            source=record.source,
            kind=env.kind,
            envelope=env,
            rows=[message],
            lines=[line],
            own=1,
        )
        lane.chain = lane.chain if lane.open else 0
        if not unprefixed:
            self._latest, self._latest_line = lane.event, line

    def _spill(self, own: Event | None, message: str, line: int) -> None:
        """An unprefixed line right behind a prefixed one is perhaps its wrapped rest, and is tried as such too."""
        latest = self._latest
        if latest is None or latest is own or line != self._latest_line + 1:
            return
        if len(latest.rows) - latest.own < MOST_SPILL:
            latest.rows.append(message)
            latest.lines.append(line)
            self._latest_line = line

    @staticmethod
    def _continues(event: Event, env: Envelope, message: str, bare: bool) -> bool:
        if event.kind is Kind.KERNEL or env.kind is Kind.KERNEL:
            return message[:1] in " \t" and env.kind is event.kind
        if not bare:
            if event.kind is Kind.EXCEPTION:
                return event.envelope is env or (
                    event.envelope.level == env.level and event.envelope.origin == env.origin
                )
            return False
        if env.kind is Kind.UNIT or event.kind is Kind.UNIT:
            return False
        if event.envelope.time and env.time and event.kind is not Kind.EXCEPTION and message[:1] not in " \t":
            return False
        return message[:1] in " \t" or not _BREAKS.match(message)

    @staticmethod
    def _append(event: Event, message: str, line: int) -> None:
        if event.own < len(event.rows):  # spilled rows end where own rows go on
            del event.rows[event.own :], event.lines[event.own :]
        event.rows.append(message)
        event.lines.append(line)
        event.own += 1

    def _close(self, lane: _Lane) -> None:
        event = lane.event
        if event is None:
            return
        lane.event = None
        while event.own > 1 and event.own == len(event.rows) and not event.rows[-1].strip():
            event.rows.pop()
            event.lines.pop()
            event.own -= 1
        if event.own > 1 and " validation error" in event.rows[0] and _PYDANTIC.search(event.rows[0]):
            event.root_row = 1
        self._done.append(event)


def _same_collector(env: Envelope, latest: Envelope) -> bool:
    """Whether a line with a collector's prefix alone stands in the same container or service as the one before."""
    return bool(env.unit) and env.unit == latest.unit and env.host == latest.host and bool(latest.role)


def _raised(lane: _Lane, source: int, envelope: Envelope, row: str, line: int, name: str = "") -> Event:
    """The exception a lane's open traceback ends in; without a name where it was cut off."""
    return Event(
        source=source,
        kind=Kind.EXCEPTION,
        envelope=envelope,
        rows=[row],
        lines=[line],
        exception=name,
        traceback=lane.chain,
        link=lane.link,
        frames=lane.frames,
        headless=lane.headless,
        ignored=lane.ignored,
        own=1,
    )
