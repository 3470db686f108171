"""From physical lines to records: one line may hold several (progress bars redrawn, lines glued together, JSON)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from vdiag.model import Envelope, Kind, Record
from vdiag.scan.collected import speaker
from vdiag.scan.envelope import Peeler, cleaned, escapes_in, strip_escapes
from vdiag.scan.gaps import Gaps
from vdiag.scan.learned import HEAD, STERN, learned, pumped, without

if TYPE_CHECKING:
    from vdiag.scan import journal
    from vdiag.scan.decoding import Decoder

LONGEST_LINE = 64 * 1024  # characters kept of one line: its head and its end
FAR = 1 << 62

# A second envelope in the middle of a line: two writes without a line end between them.
_GLUE = re.compile(
    r"(?<=\S)(?=\((?:APIServer|EngineCore|Worker|VllmWorker|RayWorkerWrapper|ApiServer)\w*(?:[ -]\w+=?\d*)? pid=\d+)"
    r"|(?<!\) )(?=(?:INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[)"
)
_MAYBE_GLUE = re.compile(
    r"\S\(\w+(?:[ -]\w+=?\d*)? pid=\d|(?:INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \["
)
_ACCESS = re.compile(
    r'\S+ - (?:\S+ \[[^\]]+\] )?"(?P<method>[A-Z]{3,7}) (?P<path>\S+) HTTP/[\d.]+" (?P<status>\d{3})'
)
# Rows of a traceback that only mean something whole.
_TRACEBACK_ROWS = ('File "', "Traceback (most", "The above exception was", "During handling of the above")
_WORTH_SPLITTING = re.compile(r"File \\?\"|\\n(?:\([A-Z]\w+ pid=|INFO|WARNING|ERROR|Traceback|\w*Error: )")
# What journalctl says itself between the entries, and its catalogue's explanations of an entry.
_NOTICE = re.compile(
    r"░░|-- (?:Boot [0-9a-f]{32} --|Reboot --|No entries --|(?:Journal|Logs) begins? at |"
    r"(?:Subject|Defined-By|Support|Documentation): )"
)
_BOX = "│┃"
_ODD = frozenset("{ -░" + _BOX)  # first characters that ask for a closer look
LOOKS = 20  # texts with a traceback that are looked at for an envelope that no grammar knows
FEW = 5  # lines of a paste that may have lost its line ends; in a longer log an INFO line that holds some quotes
_LEVEL_IN_JSON = re.compile(
    r'"(?:level|levelname|severity)": ?"(DEBUG|INFO|WARNING|ERROR|CRITICAL)"', re.IGNORECASE
)
_JSON_KEYS = ("message", "msg", "log", "MESSAGE", "event", "text", "textPayload", "line")


def access_status(message: str) -> tuple[str, str, int] | None:
    """(method, path, status) of an HTTP access line (uvicorn's or nginx's), else None."""
    if " HTTP/" not in message:
        return None
    m = _ACCESS.match(message)
    return (m["method"], m["path"], int(m["status"])) if m else None


_JOINED_FRAME = re.compile(r'File "[^"]+", line \d+, in ')
_JOINED = re.compile(  # where rows began before a page made one line of a log
    r' +(?=(?:\(\w+(?: rank=\d+)? pid=\d+\)|File "[^"]+", line \d+, in |Traceback \(most recent|During handling of the above|'
    r"The above exception was|(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:|(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): ))"
)


def _parts(line: str) -> list[str]:
    """What a line holds that was written as several: progress bars redrawn, or a log joined to one line."""
    if line.count("\\n") >= 3 and line[:1] != "{" and _WORTH_SPLITTING.search(line):
        line = line.replace("\\r\\n", "\r").replace("\\n", "\r").replace('\\"', '"')
    elif line.count('File "') >= 2 and len(_JOINED_FRAME.findall(line)) >= 2:
        return [part for part in _JOINED.split(line) if part.strip()]
    return [part for part in line.split("\r") if part.strip()] if "\r" in line else [line]


def sound(text: str) -> str:
    """A text without the half characters that JSON can spell (`\\ud800`) and nothing can print."""
    return text if text.isascii() else text.encode("utf8", "replace").decode("utf8")


def clip(line: str) -> str:
    """A line of bounded length: a dump of megabytes keeps its head and its end."""
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return f"{line[:half]} … {line[-half:]}"


class Scanner:
    """Turns the lines of one input into records."""

    def __init__(self, source: int) -> None:
        self.source = source
        self._peeler = Peeler()
        self._few = False  # a whole log may stand on one line
        self._looks = 0  # at texts, for what can be learned
        self._prefix: re.Pattern[str] | None = None  # an envelope that no grammar knows
        self._named = False  # a collector's JSON tells who wrote its lines
        self.gaps = Gaps()

    def decoder(self, form: str) -> Decoder | None:
        """What decodes a format by its name (see `intake.formats`) and hands its rows to this scanner; None for plain text."""
        if form == "plain":
            return None
        from vdiag.scan.encoded import decoder_of  # late: most logs are plain

        return decoder_of(form, self)

    def text(self, text: str, first: int = 1) -> Iterator[Record]:
        """Records of a text whose first physical line has the number `first`."""
        self.gaps.look(text, first.__add__)
        self._learn(text)
        self._few = text.count("\n") < FEW
        return self.records(cleaned(text.split("\n"), text), first)

    def records(self, lines: Iterable[str], first: int = 1) -> Iterator[Record]:
        """Records of physical lines without escapes, numbered from `first`; they come without their `\\n`."""
        source, peel = self.source, self._peeler.peel
        if self._prefix is not None:
            lines = map(self._without, lines)
        head = ""  # the latest line that begins with a prefix, if any does
        for number, raw in enumerate(lines, first):
            line = raw
            if line.endswith("\r"):
                line = line.rstrip("\r")
            if len(line) > LONGEST_LINE:
                line = clip(line)
            if "\r" in line or "\\n" in line or (len(line) > 300 and 'File "' in line):
                if line.endswith("\\n"):  # RunPod ends each line so
                    line = line[:-2]
                quoting = not self._few and peel(line)[0].level in ("INFO", "DEBUG")
                parts = [p for p in line.split("\r") if p.strip()] if quoting else _parts(line)
                if len(parts) > 1:
                    for part in parts:
                        yield from self._split(part, number)
                    continue
            mark = line[:1]
            if mark not in _ODD:
                head = line
            elif mark == " ":
                if line[2:3] == "月" or line[2:3] == "월":
                    line = head = line[1:]  # a month of one digit
                width = head.find(": ", 12) + 2
                if width > 14 and line[:width].isspace() and len(line) > width:
                    yield from self._hanging(head[:width], line, number)
                    continue
            elif mark == "{":
                if line.rstrip()[-1:] == "}":
                    yield from self._json(line, number)
                    continue
            elif mark in _BOX:
                line = line[2 if line[1:2] == " " else 1 :].rstrip(_BOX + " ")
            elif _NOTICE.match(line):
                continue
            envelope, message = peel(line)
            if (
                ("pid=" in message or "-" in message)
                and _MAYBE_GLUE.search(message)
                and not ("\\n" in message and envelope.level in ("INFO", "DEBUG"))
            ):
                yield from self._split(line, number)
            elif (
                message[:1] == "{"
                and (envelope.unit or envelope.time)
                and envelope.kind is Kind.NATIVE
                and message.rstrip()[-1:] == "}"
            ):
                yield from self._json(message, number, envelope)
            else:
                yield Record(source, number, message, envelope)

    def _learn(self, text: str) -> None:
        """Learns what no grammar knows: an unknown prefix, and whether a wrapper logs the server's lines as its own."""
        if self._prefix is None and self._looks < LOOKS and (not self._looks or HEAD in text):
            self._looks += 1
            self._peeler.pumped = self._peeler.pumped or pumped(text)
            self._prefix = learned(text, self._peeler)

    @property
    def collected(self) -> bool:
        """Whether a collector named the pod or host of each line: then nothing was pasted, and nothing is to repair."""
        return self._named or self._prefix is STERN

    def _without(self, line: str) -> str:
        """A line without the prefix that no grammar knows."""
        return line if self._prefix is None else without(line, self._prefix)

    def joined(self, lines: Sequence[list[str]], number: int = 1) -> Iterator[Record]:
        """Records of logical lines that stood in pieces; pieces are numbered through from `number`.

        A row of a traceback comes whole; a message keeps its pieces as rows, so that a match tells its line.
        """
        self._learn("\n".join("".join(pieces) for pieces in lines[:1000]))
        for pieces in lines:
            first, number = number, number + len(pieces)
            if len(pieces) == 1:
                yield from self.text(pieces[0], first)
                continue
            whole = strip_escapes("".join(pieces))
            envelope, message = self._peeler.peel(self._without(whole))
            begin = len(whole) - len(message)
            if message.lstrip().startswith(_TRACEBACK_ROWS):
                yield Record(self.source, first, message, envelope)
                continue
            offset = 0
            opened = False
            for i, end in enumerate(_ends(pieces)):
                if end > begin:
                    yield Record(self.source, first + i, whole[max(offset, begin) : end], envelope, opened)
                    opened = True
                offset = end
            if not opened:
                yield Record(self.source, first, message, envelope)

    def _hanging(self, prefix: str, line: str, number: int) -> Iterator[Record]:
        """A later row of a message that journalctl printed with several: it is indented by the first one's prefix."""
        from vdiag.scan import journal  # late: plain logs do without

        outer, rest = self._peeler.peel(prefix)
        if rest or not outer.time:
            envelope, message = self._peeler.peel(line)
        else:
            inner, message = self._peeler.peel(line[len(prefix) :])
            envelope = journal.merged(inner, journal.rest_of(outer))
        yield Record(self.source, number, message, envelope)

    def _split(self, line: str, number: int) -> Iterator[Record]:
        envelope, message = self._peeler.peel(line)
        parts = [p for p in _GLUE.split(message) if p]
        if len(parts) < 2:
            yield Record(self.source, number, message, envelope)
            return
        yield Record(self.source, number, parts[0], envelope)
        for part in parts[1:]:
            inner, text = self._peeler.peel(part)
            yield Record(self.source, number, text, inner)

    def _json(self, line: str, number: int, outer: Envelope | None = None) -> Iterator[Record]:
        """A JSON log line as the records it stands for; any other JSON is a record as it is (an HTTP body)."""
        from vdiag.scan import journal  # late: plain logs do without

        value = _decode(line)
        named = outer
        if value is not None and any(told := speaker(value)):
            self._named, (host, unit) = True, told
            named = outer or Envelope()
            named = msgspec.structs.replace(named, host=host or named.host, unit=unit or named.unit)
        if value is not None and journal.is_entry(value):
            yield from self._entry(journal.of_dict(value), number, named)
            return
        key = next((k for k in _JSON_KEYS if isinstance(value.get(k), str)), "") if value else ""
        if (
            value is None
            or not key
            or "object" in value
            or "code" in value
            or isinstance(value.get("error"), dict)
        ):
            envelope = outer or Envelope(kind=Kind.HTTP if value is not None else Kind.NATIVE)
            written = _LEVEL_IN_JSON.search(line[:400]) if value is None else None
            if written is not None:  # JSON that its writer did not escape: at least its level is known
                envelope = msgspec.structs.replace(envelope, kind=Kind.LOG, level=written[1].upper())
            yield Record(self.source, number, line, envelope)
            return
        level = str(value.get("levelname") or value.get("level") or value.get("severity") or "").upper()
        origin = value.get("filename") or value.get("module") or value.get("name") or ""
        if origin and value.get("lineno"):
            origin = f"{origin}:{value['lineno']}"
        time = value.get("asctime") or value.get("timestamp") or value.get("time") or value.get("ts") or ""
        name, pid = (
            str(value.get("processName") or value.get("process_name") or ""),
            value.get("process") or 0,
        )
        text = str(value[key])
        for extra in ("exc_info", "exc_text", "exception", "stack_info", "stack", "traceback"):
            if isinstance(value.get(extra), str):
                text += "\n" + value[extra]
        fixed = Envelope(
            kind=Kind.LOG if level else Kind.NATIVE,
            role=name if name not in ("MainProcess", "") else (outer.role if outer else ""),
            pid=pid if isinstance(pid, int) and 0 <= pid < 2**40 else 0,
            level=level if level in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL") else "",
            time=str(time) or (outer.time if outer else ""),
            origin=str(origin),
            host=named.host if named else "",
            unit=named.unit if named else "",
        )
        if level in ("INFO", "DEBUG"):  # what it holds in further rows it quotes
            text = text.rstrip("\n").replace("\n", "\\n")
        for row in text.rstrip("\n").split("\n"):
            inner, message = self._peeler.peel(sound(strip_escapes(row.rstrip("\r"))))
            own = inner if inner.level or inner.role else fixed
            if own is inner and (fixed.host or fixed.unit):
                own = journal.merged(inner, msgspec.structs.replace(fixed, kind=Kind.NATIVE, level=""))
            yield Record(self.source, number, message, own)

    def _entry(self, entry: journal.Entry, number: int, outer: Envelope | None) -> Iterator[Record]:
        """An entry of a journal or of docker's json-file among other lines."""
        from vdiag.scan import journal  # late: plain logs do without

        told = entry.envelope()
        if outer is not None:
            told = journal.merged(told, outer)
        texts = [entry.log] if isinstance(entry.log, str) else entry.texts()
        if texts is None:
            self.gaps.long(number, journal.one(entry.tag))
        for text in texts or ():
            for i, row in enumerate(text.rstrip("\n").split("\n")):
                inner, message = self._peeler.peel(sound(strip_escapes(row.rstrip("\r"))))
                envelope = journal.merged(inner, journal.rest_of(told) if i else told)
                yield Record(self.source, number, message, envelope)


def _ends(pieces: list[str]) -> Iterator[int]:
    """Where each piece of a line ends in it, once the escapes are off."""
    escapes = escapes_in("".join(pieces))
    begin, stop = next(escapes, (FAR, FAR))
    at = lost = 0
    for piece in pieces:
        at += len(piece)
        while stop <= at:
            lost += stop - begin
            begin, stop = next(escapes, (FAR, FAR))
        yield at - lost - max(0, at - begin)


def _decode(line: str) -> dict[str, Any] | None:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        try:  # slower, and less strict
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None
