"""Journal entries and docker's json-file lines: from their fields to an envelope and rows of text.

Fields are as in systemd.journal-fields(7). A value may be a text, an array of bytes (journald writes that for anything
with control characters, such as colours), null (longer than 4096 bytes without `journalctl -a`) or a list of these
(the field was given several times).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, cast

import msgspec

from vdiag.model import Envelope, Kind
from vdiag.scan.envelope import UNIT_TAGS

_WORDS = {0: "CRITICAL", 1: "CRITICAL", 2: "CRITICAL", 3: "ERROR"}
_MESSAGE = re.compile(
    r'"(?:MESSAGE|log)"\s*:\s*(?:"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)|\[(?P<bytes>[\d,\s]*))', re.DOTALL
)
_FIELD = re.compile(r'"(?P<name>_?[A-Z][A-Z_]*|stream|time)"\s*:\s*"(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"')


_FIELDS = {
    "message": "MESSAGE", "transport": "_TRANSPORT", "priority": "PRIORITY", "tag": "SYSLOG_IDENTIFIER",
    "comm": "_COMM", "pid": "_PID", "syslog_pid": "SYSLOG_PID", "host": "_HOSTNAME", "unit": "_SYSTEMD_UNIT",
    "container": "CONTAINER_NAME", "realtime": "__REALTIME_TIMESTAMP", "source_time": "_SOURCE_REALTIME_TIMESTAMP",
    "log": "log", "stream": "stream", "time": "time",  # docker's own
}  # fmt: skip
NAMES = {name: field for field, name in _FIELDS.items()}


class Entry(msgspec.Struct, rename=_FIELDS):
    """The fields that are read of an entry; the decoder skips all others."""

    message: Any = msgspec.UNSET
    transport: Any = None
    priority: Any = None
    tag: Any = None
    comm: Any = None
    pid: Any = None
    syslog_pid: Any = None
    host: Any = None
    unit: Any = None
    container: Any = None
    realtime: Any = None
    source_time: Any = None
    log: Any = msgspec.UNSET
    stream: Any = None
    time: Any = None

    def texts(self) -> list[str] | None:
        """The messages; None if the entry has one and it was left out."""
        if self.message is msgspec.UNSET:
            return []
        return texts_of(self.message)

    def envelope(self) -> Envelope:
        """What the fields say of the message."""
        tag, pid = one(self.tag) or one(self.comm), one(self.pid) or one(self.syslog_pid)
        transport, priority, container = one(self.transport), one(self.priority), one(self.container)
        service = one(self.unit)
        # All instances of a unit have the same tag.
        instance = (
            service.removesuffix(".service") if "@" in service and not service.startswith("user@") else ""
        )
        if tag in UNIT_TAGS:
            instance = ""
        unit, kind, level = container or instance or tag or service, Kind.NATIVE, ""
        # Standard output has the priority of the whole unit, and a container's standard error that of its stream:
        # neither is the program's word on this line.
        if transport not in ("stdout", "") and not container and priority.isdecimal():
            level = _WORDS.get(int(priority[:3]), "")
        if transport == "kernel" or (tag == "kernel" and not pid):
            kind, unit = Kind.KERNEL, ""
        elif tag in UNIT_TAGS or service == "init.scope":
            kind = Kind.UNIT
        elif level:
            kind = Kind.LOG
        return Envelope(
            kind=kind,
            pid=int(pid) if pid.isdecimal() and len(pid) < 12 else 0,
            level=level,
            time=_stamp(one(self.realtime) or one(self.source_time)),
            host=one(self.host),
            unit=unit,
        )


UNSET = msgspec.UNSET
_decoder = msgspec.json.Decoder(Entry)


def texts_of(value: Any, depth: int = 0) -> list[str] | None:
    """The texts of a field's value; None where journald left them out, or where no journal nests lists."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, dict)):
        if depth > 1 or isinstance(value, dict):
            return None
        if value and all(isinstance(v, int) and 0 <= v < 256 for v in value):
            return [bytes(value).decode("utf8", "replace")]
        return [text for v in value for text in texts_of(v, depth + 1) or ()]
    return None if value is None else [str(value)]


def one(value: Any) -> str:
    """The single text of a field; of several the last, as journalctl shows it."""
    if value is None or isinstance(value, str):
        return value or ""
    return (texts_of(value) or [""])[-1]


def _stamp(microseconds: str) -> str:
    """A journal's time as ISO 8601 in UTC; empty if it is none."""
    if not microseconds.isdecimal() or len(microseconds) > 17:
        return ""
    return datetime.fromtimestamp(int(microseconds) / 1e6, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def entries(line: bytes) -> Iterator[tuple[Entry, bool]]:
    """The entries of a line of JSON, and whether each is whole; of a damaged one what is left of it.

    Nothing comes of a line that is no JSON object.
    """
    try:
        yield _decoder.decode(line), True
    except (msgspec.DecodeError, RecursionError):
        yield from _slowly(line.decode("utf8", "replace"))


def _slowly(text: str) -> Iterator[tuple[Entry, bool]]:
    """What msgspec does not take: bytes that are no text, lone surrogates, entries glued together or cut."""
    decoder, at = json.JSONDecoder(strict=False), 0
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield from salvaged(text[at:])
            return
        if not isinstance(value, dict):
            return
        yield of_dict(value), at == 0 and not text[end:].strip()
        at = len(text) - len(text[end:].lstrip())


def of_dict(value: dict[str, Any]) -> Entry:
    """The entry of a decoded JSON object."""
    return Entry(**{NAMES[name]: _sound(v) for name, v in value.items() if name in NAMES})


def _sound(value: Any, depth: int = 0) -> Any:
    """A value without lone surrogates, which no later stage could print."""
    if isinstance(value, str):
        return value.encode("utf8", "replace").decode("utf8")
    return [_sound(v, depth + 1) for v in value] if isinstance(value, list) and depth < 3 else value


def salvaged(text: str) -> Iterator[tuple[Entry, bool]]:
    """What is left of a damaged entry: its message as far as it goes, and the whole fields beside it."""
    m = _MESSAGE.search(text)
    if m is None:
        return
    values: dict[str, Any] = {f["name"]: _unquoted(f["text"]) for f in _FIELD.finditer(text)}
    name = "log" if m[0].startswith('"log') else "MESSAGE"
    if m["bytes"] is not None:
        whole = text[m.end() : m.end() + 1] == "]"  # else its last number is cut
        values[name] = [
            int(n) for n in re.findall(r"\d{1,3}(?!\d)" if whole else r"\d{1,3}(?=\s*,)", m["bytes"])
        ]
    else:
        values[name] = _unquoted(m["text"])
    yield of_dict(values), False


def _unquoted(text: str) -> str:
    try:
        return cast(str, json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def is_entry(value: dict[str, Any]) -> bool:
    """Whether a JSON object is an entry of a journal or of docker's json-file, not a program's own log line."""
    return "MESSAGE" in value or "__REALTIME_TIMESTAMP" in value or ("log" in value and "stream" in value)


def merged(inner: Envelope, outer: Envelope) -> Envelope:
    """What a message says of itself, and where it says nothing what its entry does."""
    kind = outer.kind if outer.kind in (Kind.KERNEL, Kind.UNIT) else inner.kind
    level = inner.level or outer.level
    if kind is Kind.NATIVE and level:
        kind = Kind.LOG
    return Envelope(
        kind=kind,
        role=inner.role,
        pid=inner.pid or outer.pid,
        rank=inner.rank,
        level=level,
        time=outer.time or inner.time,
        origin=inner.origin,
        host=outer.host or inner.host,
        unit="" if kind is Kind.KERNEL else inner.unit or outer.unit,
    )


def rest_of(envelope: Envelope) -> Envelope:
    """The envelope of a message's later rows: they go on, so they have no time and no level of their own."""
    return Envelope(kind=envelope.kind, pid=envelope.pid, host=envelope.host, unit=envelope.unit)
