"""The same journal in every format that the real `journalctl` prints: the same answer, on the line where it stands.

`systemd-journal-remote` makes a journal out of an export file, `journalctl --file` prints it. Where either is missing
the tests are skipped.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from logtext import FAILED, Sample, ask, first, sample
from vdiag.intake.formats import detect
from vdiag.model import Kind, Record
from vdiag.scan.encoded import decoder_of
from vdiag.scan.records import Scanner

REMOTE = next(
    (
        path
        for path in ("/lib/systemd/systemd-journal-remote", "/usr/lib/systemd/systemd-journal-remote")
        if Path(path).exists()
    ),
    "",
)
pytestmark = pytest.mark.skipif(
    not REMOTE or not shutil.which("journalctl"),
    reason="needs journalctl and systemd-journal-remote (Debian and Ubuntu: apt-get install systemd-journal-remote)",
)

TEXT = (
    "short", "short-iso", "short-precise", "short-full", "short-iso-precise", "short-monotonic", "short-unix",
    "with-unit", "cat",
)  # fmt: skip
ENCODED = ("json", "json-sse", "json-pretty", "export", "verbose")
FORMATS = (*TEXT, *ENCODED)

_SYSLOG = re.compile(r"\w{3} [ \d]\d [\d:]{8} (?P<host>\S+) (?P<tag>[^\s\[:]+)(?:\[(?P<pid>\d+)\])?: ?")
VLLM = {"_TRANSPORT": "stdout", "PRIORITY": 6, "SYSLOG_IDENTIFIER": "vllm", "_PID": 5312, "_COMM": "vllm",
        "_SYSTEMD_UNIT": "vllm.service"}  # fmt: skip
SYSTEMD = {"_TRANSPORT": "journal", "PRIORITY": 6, "SYSLOG_IDENTIFIER": "systemd", "_PID": 1, "_COMM": "systemd",
           "_SYSTEMD_UNIT": "init.scope"}  # fmt: skip
KERNEL = {"_TRANSPORT": "kernel", "PRIORITY": 4, "SYSLOG_IDENTIFIER": "kernel", "SYSLOG_FACILITY": 0}
BOOT = "0123456789abcdef0123456789abcdef"


def entry(number: int, fields: dict[str, object], *messages: str, boot: str = BOOT) -> bytes:
    """An entry of the export format: https://systemd.io/JOURNAL_EXPORT_FORMATS/"""
    at = 1_790_000_000_000_000 + number * 250_000
    own = {
        "__REALTIME_TIMESTAMP": at, "__MONOTONIC_TIMESTAMP": 60_000_000 + number * 250_000, "_BOOT_ID": boot,
        "_MACHINE_ID": "a" * 32, "_HOSTNAME": "gpu1",
    }  # fmt: skip
    out = b"".join(f"{name}={value}\n".encode() for name, value in {**own, **fields}.items())
    for message in messages:
        data = message.encode()
        if "\n" in message or "\x1b" in message:
            out += b"MESSAGE\n" + struct.pack("<Q", len(data)) + data + b"\n"
        else:
            out += b"MESSAGE=" + data + b"\n"
    return out + b"\n"


def entries_of(s: Sample, coloured: bool) -> Iterator[bytes]:
    """A sample as a journal: its lines as one service's, the kernel's and the service manager's as theirs."""
    for number, line in enumerate(s.lines):
        m = _SYSLOG.match(line)
        message = line[m.end() :] if m else line
        fields = VLLM
        if m is not None:
            own = {"kernel": KERNEL, "systemd": SYSTEMD}
            fields = own.get(m["tag"], {**VLLM, "SYSLOG_IDENTIFIER": m["tag"], "_PID": m["pid"] or 5312})
        if coloured and message.startswith("("):
            message = re.sub(r"^(\([^)]*\))", "\x1b[0;36m\\1\x1b[0;0m", message)
        yield entry(number, fields, message)


def journal(folder: Path, *entries: bytes) -> Path:
    """A journal file that holds these entries."""
    folder.mkdir(parents=True, exist_ok=True)
    export, made = folder / "all.export", folder / "all.journal"
    export.write_bytes(b"".join(entries))
    subprocess.run([REMOTE, "-o", str(made), str(export)], check=True, capture_output=True, timeout=60)
    return made


def printed(made: Path, form: str, *options: str) -> bytes:
    command = ["journalctl", "--file", str(made), "--no-pager", "-o", form, "--utc", *options]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


def places(text: bytes, form: str) -> list[int]:
    """The physical line of each entry's message, found by what the format's own documentation says."""
    rows = text.split(b"\n")
    if form in TEXT or form == "json":
        return [i for i, row in enumerate(rows, 1) if row or form == "cat"]
    if form == "json-sse":
        return [i for i, row in enumerate(rows, 1) if row.startswith(b"data: ")]
    if form == "json-pretty":
        return [i for i, row in enumerate(rows, 1) if row.startswith(b'\t"MESSAGE" : ')]
    begins = [i for i, row in enumerate(rows, 1) if re.match(rb" *MESSAGE(?:=|$)", row)]
    return [i + 1 if rows[i - 1].strip() == b"MESSAGE" else i for i in begins]


@pytest.mark.parametrize("coloured", [False, True], ids=["plain", "coloured"])
@pytest.mark.parametrize(
    "name",
    ["kv-cache-too-small", "gated-repo-systemd", "host-oom-kill", "heads-not-divisible", "real-lora-missing"],
)
def test_every_format_gives_the_same_answer_on_its_own_line(
    tmp_path: Path, name: str, coloured: bool
) -> None:
    s = sample(name)
    assert s in FAILED
    assert s.line is not None
    made = journal(tmp_path, *entries_of(s, coloured))
    for form in FORMATS:
        if form == "verbose" and (coloured or "\r" in s.text):
            continue  # it hides such messages as blob data
        text = printed(made, form)
        report = ask(text)
        assert (form, *first(report)) == (form, "diagnosed", s.rule, places(text, form)[s.line - 1])
        assert report.inputs[0].format == ("plain" if form in TEXT else f"journald {form}")
        assert report.inputs[0].lines == text.count(b"\n")


def records(text: bytes) -> list[Record]:
    scanner = Scanner(0)
    decoder = decoder_of(detect(text), scanner)
    if decoder is None:
        return [r for r in scanner.text(text.decode("utf8", "replace")) if r.message]
    return [*decoder.feed(text, 1), *decoder.flush()]


MIXED = [
    entry(0, {**SYSTEMD, "UNIT": "vllm.service"}, "Started vllm.service - The model server."),
    entry(1, VLLM, "(EngineCore pid=5400) ERROR 08-28 10:12:45 [core.py:708] Boom"),
    entry(2, VLLM, "first row\nsecond row\n  third row"),
    entry(3, VLLM, "said once", "said twice"),
    entry(4, KERNEL, "Out of memory: Killed process 5400 (python3) total-vm:1kB"),
    entry(5, VLLM, "after the boot", boot="1" * 32),
]


@pytest.mark.parametrize("form", FORMATS)
def test_what_the_entries_say_stands_behind_their_messages(tmp_path: Path, form: str) -> None:
    found = records(printed(journal(tmp_path, *MIXED), form))
    told = [r.message for r in found]
    twice = (
        ["said once", "said twice"] if form in ENCODED else ["said once"] if form == "cat" else ["said twice"]
    )
    assert told == [
        "Started vllm.service - The model server.", "Boom", "first row", "second row", "  third row", *twice,
        "Out of memory: Killed process 5400 (python3) total-vm:1kB", "after the boot",
    ]  # fmt: skip
    if form == "cat":
        return
    by = {r.message: r.envelope for r in found}
    assert by["Started vllm.service - The model server."].kind is Kind.UNIT
    boom = by["Boom"]
    assert (boom.kind, boom.level, boom.role, boom.pid, boom.host) == (
        Kind.LOG,
        "ERROR",
        "EngineCore",
        5400,
        "gpu1",
    )
    assert by["Out of memory: Killed process 5400 (python3) total-vm:1kB"].kind is Kind.KERNEL
    rows = [by["first row"], by["second row"], by["  third row"]]
    assert {(e.pid, e.unit.removesuffix(".service")) for e in rows} == {(5312, "vllm")}
    assert all(e.time for e in (boom, by["after the boot"]))


def test_rows_of_a_message_stand_on_their_own_lines_where_the_format_has_them(tmp_path: Path) -> None:
    made = journal(tmp_path, *MIXED)
    for form in ("short", "with-unit", "cat", "export", "verbose"):
        text = printed(made, form)
        for r in records(text):
            if r.message.endswith(" row"):
                assert r.message.encode().strip() in text.split(b"\n")[r.line - 1]
    for form in ("json", "json-sse", "json-pretty"):
        found = {r.line for r in records(printed(made, form)) if r.message.endswith(" row")}
        assert len(found) == 1


def test_long_messages_that_the_json_leaves_out_are_a_gap(tmp_path: Path) -> None:
    made = journal(tmp_path, *MIXED, entry(9, VLLM, "x" * 5000))
    text = printed(made, "json")
    assert json.loads(text.split(b"\n")[6])["MESSAGE"] is None
    gaps = ask(text).inputs[0].gaps
    assert [(g.line, g.command) for g in gaps] == [(7, "journalctl -a -o json -t vllm")]
    assert not ask(printed(made, "json", "-a")).inputs[0].gaps


def test_blob_data_is_a_gap_with_the_command_that_prints_it(tmp_path: Path) -> None:
    made = journal(tmp_path, *MIXED, entry(9, VLLM, "\x01\x02\x1b bytes " * 9))
    text = printed(made, "short")
    assert b" blob data]" in text
    line = next(i for i, row in enumerate(text.split(b"\n"), 1) if b"blob data" in row)
    assert [(g.line, g.command) for g in ask(text).inputs[0].gaps] == [(line, "journalctl -a -t vllm")]


def test_no_entries_is_no_log(tmp_path: Path) -> None:
    text = printed(journal(tmp_path, *MIXED), "short", "-u", "no-such-unit")
    assert text.strip() == b"-- No entries --"
    report = ask(text)
    assert report.verdict.value == "empty"
    assert [g.line for g in report.inputs[0].gaps] == [1]


def test_the_catalogue_is_no_part_of_the_log(tmp_path: Path) -> None:
    started = {**SYSTEMD, "UNIT": "vllm.service", "MESSAGE_ID": "39f53479d3a045ac8e11786248231fbf"}
    made = journal(tmp_path, entry(0, started, "Started vllm.service."), *MIXED[1:])
    text = printed(made, "short", "-x")
    assert "░░" in text.decode()
    assert not [r for r in records(text) if "░" in r.message]
    assert text.split(b"\n")[records(text)[1].line - 1].endswith(b"Boom")


def test_hosts_may_be_left_out(tmp_path: Path) -> None:
    found = records(printed(journal(tmp_path, *MIXED), "short", "--no-hostname"))
    assert [(r.envelope.unit, r.envelope.pid) for r in found[:2]] == [("systemd", 1), ("vllm", 5400)]
