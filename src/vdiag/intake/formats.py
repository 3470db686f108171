"""Which format an input is in, by the shape of its first kilobytes: encoded ones must be decoded to be read at all."""

from __future__ import annotations

import re
from collections import Counter

SAMPLE = 64 * 1024  # bytes that are looked at
LINES = 60
MOSTLY = 0.6  # part of the lines with text that must be of one format

# What vdiag does not open, by its first bytes.
_CLOSED = {
    b"7z\xbc\xaf\x27\x1c": "this is a 7-Zip archive: unpack it and give vdiag the log that was in it",
    b"Rar!\x1a\x07": "this is a RAR archive: unpack it and give vdiag the log that was in it",
    b"\x04\x22\x4d\x18": "this is compressed with lz4: pipe it through `lz4 -dc` to vdiag",
    b"\x1f\x9d": "this is compressed with `compress`: pipe it through `zcat` to vdiag",
    b"PK\x03\x04": "this is a zip file: unpack it and give vdiag the log that was in it",
    b"\x1f\x8b": "this is compressed once more inside: unpack it and give vdiag the log that was in it",
    b"\xfd7zXZ\x00": "this is compressed once more inside: unpack it and give vdiag the log that was in it",
    b"\x28\xb5\x2f\xfd": "this is compressed once more inside: unpack it and give vdiag the log that was in it",
    b"BZh": "this is compressed once more inside: unpack it and give vdiag the log that was in it",
    b"LPKSHHRH": "this is a journal as journald keeps it: print it with `journalctl --file` and pipe that to vdiag",
}

_JOURNAL_KEY = re.compile(
    rb'"(?:MESSAGE|__CURSOR|__REALTIME_TIMESTAMP|__MONOTONIC_TIMESTAMP|_BOOT_ID|_SYSTEMD_UNIT|_HOSTNAME)"\s*:'
)
_FIELD = re.compile(rb"_{0,2}[A-Z][A-Z0-9_]*(?:=|$)")
_FIRST_FIELD = re.compile(rb"(?:__[A-Z_]+|_(?:BOOT_ID|MACHINE_ID|HOSTNAME|TRANSPORT|SYSTEMD_UNIT))=")
_VERBOSE = re.compile(rb"\S+ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \S+ \[s=[0-9a-f]+;i=")
_CRI = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S* (?:stdout|stderr) [FP](?::\S*)?(?: |$)")
_MESSAGE_KEY = re.compile(rb'"(?:message|msg|event|text|levelname|level|severity)"\s*:')


def detect(sample: bytes) -> str:
    """The format's name from the first bytes of an input; `plain` for text as it is printed."""
    lines = [line.rstrip(b"\r") for line in sample[:SAMPLE].removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    full = [line for line in lines if line.strip()][:LINES]
    own = [line for line in full if not line.startswith((b"-- ", b"Hint: ", b"$ ", b"# "))] or full
    if not own:
        return "plain"
    spread = _of_many_lines(own)
    if spread:
        return spread
    told = Counter(map(_of_line, own))
    name, times = told.most_common(1)[0]
    return name if times >= len(own) * MOSTLY else "plain"


def no_text(head: bytes) -> str:
    """What to say of an input that is no text, by its first bytes."""
    told = (said for magic, said in _CLOSED.items() if head.startswith(magic))
    return next(told, "this does not look like text: is it the log?")


def _of_many_lines(lines: list[bytes]) -> str:
    """A format whose entries go over several lines."""
    if lines[0] == b"{" and any(_JOURNAL_KEY.match(line.strip()) for line in lines[1:]):
        return "journald json-pretty"
    if _VERBOSE.match(lines[0]):
        return "journald verbose"
    head = lines[:4]
    if any(map(_FIRST_FIELD.match, head)) and all(map(_FIELD.match, head)):
        return "journald export"
    return ""


def _of_line(line: bytes) -> str:
    """The format that one line speaks for."""
    if line.startswith(b"data: {"):
        return "journald json-sse" if _JOURNAL_KEY.search(line) else "plain"
    line = line.lstrip(b"\x1e ")
    if line.startswith(b"{"):
        if line.startswith(b'{"log":') and b'"stream":' in line[-200:]:
            return "docker json-file"
        if _JOURNAL_KEY.search(line):
            return "journald json"
        return "json" if _MESSAGE_KEY.search(line) else "plain"
    return "cri" if _CRI.match(line) else "plain"
