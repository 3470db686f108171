"""What collectors, container runtimes and hosts put in front of a message, and what they say between the lines."""

from __future__ import annotations

import pytest

from logtext import ask, first, lines, records_of, sample
from vdiag.model import Kind

KV = sample("kv-cache-too-small")
OOM = sample("host-oom-kill")

# A prefix for any line of a program, and what it says: (time, host, unit, pid).
PREFIXES = {
    "journald, Russian": ("сен 21 14:13:21 gpu1 vllm[5312]: ", ("сен 21 14:13:21", "gpu1", "vllm", 5312)),
    "journald, French": ("sept. 21 14:13:21 gpu1 vllm[5312]: ", ("sept. 21 14:13:21", "gpu1", "vllm", 5312)),
    "journald, Japanese": (" 9月 21 14:13:21 gpu1 vllm[5312]: ", ("9月 21 14:13:21", "gpu1", "vllm", 5312)),
    "journald, Korean": ("12월 21 14:13:21 gpu1 vllm[5312]: ", ("12월 21 14:13:21", "gpu1", "vllm", 5312)),
    "journald, Vietnamese": ("Thg 9 21 14:13:21 gpu1 vllm[5312]: ", ("Thg 9 21 14:13:21", "gpu1", "vllm", 5312)),
    "journald short-precise": ("Sep 21 14:13:21.234567 gpu1 vllm[5312]: ", ("Sep 21 14:13:21.234567", "gpu1", "vllm", 5312)),
    "journald short-full": ("Mon 2026-09-21 14:13:21 UTC gpu1 vllm[5312]: ", ("2026-09-21 14:13:21", "gpu1", "vllm", 5312)),
    "journald short-full, Russian": ("Пн 2026-09-21 14:13:21 MSK gpu1 vllm[5312]: ", ("2026-09-21 14:13:21", "gpu1", "vllm", 5312)),
    "journald with-unit": ("Mon 2026-09-21 14:13:21 CEST gpu1 vllm.service[5312]: ", ("2026-09-21 14:13:21", "gpu1", "vllm.service", 5312)),
    "journald short-iso": ("2026-09-21T14:13:21+02:00 gpu1 vllm[5312]: ", ("2026-09-21T14:13:21+02:00", "gpu1", "vllm", 5312)),
    "journald short-monotonic": ("[ 1001.234567] gpu1 vllm[5312]: ", ("1001.234567", "gpu1", "vllm", 5312)),
    "journald short-delta": ("[ 1001.234567 <    1.234567 >] gpu1 vllm[5312]: ", ("1001.234567", "gpu1", "vllm", 5312)),
    "journald short-unix": ("1790000001.234567 gpu1 vllm[5312]: ", ("1790000001.234567", "gpu1", "vllm", 5312)),
    "journald without hosts": ("Sep 21 14:13:21 vllm[5312]: ", ("Sep 21 14:13:21", "", "vllm", 5312)),
    "rsyslog": ("2026-09-21T14:13:21.123456+02:00 gpu1 vllm: ", ("2026-09-21T14:13:21.123456+02:00", "gpu1", "vllm", 0)),
    "syslog from an IPv6 host": ("Sep 21 14:13:21 fe80::1 vllm[5312]: ", ("Sep 21 14:13:21", "fe80::1", "vllm", 5312)),
    "docker logs -t": ("2026-09-21T14:13:21.123456789Z ", ("2026-09-21T14:13:21.123456789Z", "", "", 0)),
    "podman logs -t": ("2026-09-21T14:13:21.12345678+02:00 ", ("2026-09-21T14:13:21.12345678+02:00", "", "", 0)),
    "Docker Desktop": ("2026-09-21 14:13:21 ", ("2026-09-21 14:13:21", "", "", 0)),
    "compose v1": ("vllm_1     | ", ("", "", "vllm_1", 0)),
    "compose v2": ("vllm-1  | ", ("", "", "vllm-1", 0)),
    "compose, coloured": ("\x1b[36mvllm-1  | \x1b[0m", ("", "", "vllm-1", 0)),
    "compose -t": ("vllm-1  | 2026-09-21T14:13:21.123456789Z ", ("2026-09-21T14:13:21.123456789Z", "", "vllm-1", 0)),
    "CRI": ("2026-09-21T14:13:21.123456789Z stderr F ", ("2026-09-21T14:13:21.123456789Z", "", "", 0)),
    "kubectl --prefix": ("[pod/llm-0/vllm] ", ("", "", "llm-0/vllm", 0)),
    "kubectl --prefix --timestamps": ("[pod/llm-0/vllm] 2026-09-21T14:13:21.123456789Z ", ("2026-09-21T14:13:21.123456789Z", "", "llm-0/vllm", 0)),
    "Talos": ("10.5.0.2: 2026-09-21T14:13:21.123456789Z stderr F ", ("2026-09-21T14:13:21.123456789Z", "10.5.0.2", "", 0)),
    "pm2": ("0|vllm     | ", ("", "", "vllm", 0)),
    "pm2 with times": ("0|vllm     | 2026-09-21T14:13:21: ", ("2026-09-21T14:13:21", "", "vllm", 0)),
    "supervisor": ("vllm stderr | ", ("", "", "vllm", 0)),
    "RunPod": ("8x4k2m9qz1ab[info]", ("", "", "8x4k2m9qz1ab", 0)),
    "Google Cloud": ("ERROR 2026-09-21T14:13:21.123456789Z [resource.labels.containerName: vllm] ", ("2026-09-21T14:13:21.123456789Z", "", "vllm", 0)),
    "TorchServe": ("2026-09-21T14:13:21,123 [INFO ] W-9000-acme_1.0-stdout MODEL_LOG - ", ("2026-09-21T14:13:21,123", "", "W-9000-acme_1.0", 0)),
    "Google Cloud's console": ("2026-09-21 14:13:21.123 CEST ", ("2026-09-21 14:13:21.123", "", "", 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_says_what_it_says_and_the_message_stays(name: str) -> None:
    prefix, wanted = PREFIXES[name]
    for message in ("ValueError: no way", '  File "/opt/a.py", line 3, in run', "Process SpawnProcess-1:"):
        record = records_of(prefix + message)[0]
        env = record.envelope
        assert (record.message, (env.time, env.host, env.unit, env.pid)) == (message, wanted)
        assert (env.kind, env.level) == (Kind.NATIVE, "")
    inner = records_of(prefix + "(EngineCore pid=7) ERROR 09-21 14:13:21 [core.py:9] Boom")[0]
    assert (inner.message, inner.envelope.pid, inner.envelope.level) == ("Boom", 7, "ERROR")


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_changes_no_answer(name: str) -> None:
    text = lines(*(PREFIXES[name][0] + row for row in KV.lines))
    assert first(ask(text)) == ("diagnosed", KV.rule, KV.line)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("12월 21 14:13:21 gpu1 kernel: Out of memory", "Out of memory"),
        ("Sep 21 14:13:21 kernel: oom_reaper: reaped process 7", "oom_reaper: reaped process 7"),
        ("2026-09-21T14:13:21+00:00 gpu1 kernel: [   12.345678] Out of memory", "Out of memory"),
        ("[ 1001.234567] gpu1 kernel: Out of memory", "Out of memory"),
        ("[   12.345678][  T123] Out of memory", "Out of memory"),
        ("[Mo Sep 21 14:13:21 2026] Out of memory", "Out of memory"),
        ("2026-09-21T14:13:21,345678+00:00 Out of memory", "Out of memory"),
        ("kern  :warn  : [   12.345678] NVRM: Xid (PCI:0000:01:00): 79", "NVRM: Xid (PCI:0000:01:00): 79"),
        ("daemon:info  : [   12.345678] systemd[1]: started", "systemd[1]: started"),
        ("10.5.0.2: kern:    info: [2026-09-21T14:13:21.123456789Z]: Out of memory", "Out of memory"),
        ("kern: warning: [2026-09-21T14:13:21.123456789Z]: Out of memory", "Out of memory"),
        ("[   12.345678] python3[1234]: segfault at 0", "python3[1234]: segfault at 0"),
    ],
)  # fmt: skip
def test_kernel_lines(line: str, message: str) -> None:
    record = records_of(line)[0]
    assert (record.envelope.kind, record.envelope.level) in ((Kind.KERNEL, ""), (Kind.UNIT, ""))
    assert record.message == message or message.endswith(record.message)


@pytest.mark.parametrize(
    "line",
    [
        "May 5 is a nice day: x",
        "see 3 things: a",
        "Mon Sep 21 14:13:21 2026 something",
        "abcdefgh[warned] x",
        "3|",
        "10.0.0.1: no route",
    ],
)
def test_what_only_looks_like_a_prefix(line: str) -> None:
    assert [r.message for r in records_of(line)] == [line]


def test_a_level_and_vllm_s_header_behind_a_time() -> None:
    record = records_of("2026-09-21 14:13:21 ERROR 09-21 14:13:21 [core.py:9] Boom")[0]
    assert (record.message, record.envelope.origin) == ("Boom", "core.py:9")


def test_a_box_around_each_line() -> None:
    width = max(map(len, KV.lines)) + 2
    text = lines(*(f"│ {row:<{width}} │" for row in KV.lines))
    assert first(ask(text)) == ("diagnosed", KV.rule, KV.line)


def test_runpod_ends_lines_in_words() -> None:
    text = lines(*(f"8x4k2m9qz1ab[info]{row}\\n" for row in KV.lines))
    assert first(ask(text)) == ("diagnosed", KV.rule, KV.line)


def test_json_behind_a_time_stamp() -> None:
    record = records_of('2026-09-21T14:13:21.123456789Z {"levelname": "ERROR", "message": "Boom"}')[0]
    assert (record.message, record.envelope.level, record.envelope.time[:4]) == ("Boom", "ERROR", "2026")


def test_later_rows_that_journalctl_indented() -> None:
    head = "Sep 21 14:13:24 gpu1 vllm[5312]: "
    found = records_of(lines(head + "one", " " * len(head) + "two", " " * len(head) + "  three", "    four"))
    assert [(r.message, r.envelope.pid) for r in found[:3]] == [
        ("one", 5312),
        ("two", 5312),
        ("  three", 5312),
    ]
    assert (found[3].message, found[3].envelope.pid) == ("    four", 0)


def test_what_journalctl_says_itself_is_no_record() -> None:
    text = lines(
        "-- Journal begins at Mon 2026-09-21 14:13:21 UTC, ends at Mon 2026-09-21 14:13:22 UTC. --",
        "-- Boot 0123456789abcdef0123456789abcdef --",
        "Sep 21 14:13:24 gpu1 vllm[5312]: one",
        "░░ Subject: A start job has failed",
        "-- Reboot --",
        "-- a list of things",
    )
    assert [(r.line, r.message) for r in records_of(text) if r.message] == [
        (3, "one"),
        (6, "-- a list of things"),
    ]


@pytest.mark.parametrize(
    ("row", "words", "command"),
    [
        ("Sep 21 14:13:24 gpu1 vllm[5312]: [159B blob data]", "blob data", "journalctl -a -t vllm"),
        ("Mon 2026-09-21 14:13:24 UTC gpu1 vllm.service[5312]: [1.2K blob data]", "blob data", "journalctl -a -u vllm.service"),
        ("Sep 21 14:13:24 gpu1 kernel: [159B blob data]", "blob data", "journalctl -a -k"),
        ("[159B blob data]", "blob data", "journalctl -a"),
        ("Sep 21 14:13:24 gpu1 systemd-journald[400]: Suppressed 12,3 messages", "", ""),
        ("Sep 21 14:13:24 gpu1 systemd-journald[400]: Suppressed 1234 messages from vllm.service", "1,234 messages of vllm.service", "sudo systemctl edit vllm.service"),
        ("Sep 21 14:13:24 gpu1 systemd-journald[400]: Suppressed 7 messages from /system.slice/llm@a.service", "7 messages of llm@a.service", "sudo systemctl edit llm@a.service"),
        ("Sep 21 14:13:24 gpu1 systemd-journald[400]: Missed 31 kernel messages", "31 kernel messages", "dmesg -T"),
    ],
)  # fmt: skip
def test_what_the_journal_left_out_is_a_gap(row: str, words: str, command: str) -> None:
    gaps = ask(lines(*KV.lines[:3], row, *KV.lines[3:])).inputs[0].gaps
    assert [(g.line, g.command) for g in gaps] == ([(4, command)] if command else [])
    assert all(words in g.what for g in gaps)


def test_gaps_of_a_kind_are_one() -> None:
    rows = ["Sep 21 14:13:24 gpu1 vllm[5312]: [159B blob data]"] * 1200
    gaps = ask(lines("x", *rows)).inputs[0].gaps
    assert [(g.line, "1,200 of" in g.what) for g in gaps] == [(2, True)]


@pytest.mark.parametrize("text", ["-- No entries --\n", "-- Journal begins at Mon. --\n-- No entries --\n"])
def test_a_journal_without_entries_is_empty(text: str) -> None:
    assert ask(text).verdict.value == "empty"
