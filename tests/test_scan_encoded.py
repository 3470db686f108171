"""Encoded formats: what comes out of them whatever pieces they come in, and of those that are damaged."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import pytest

from logtext import HEAD, ask, first, sample
from vdiag.intake.formats import detect
from vdiag.model import Envelope, Gap, Kind, Record
from vdiag.scan.encoded import decoder_of
from vdiag.scan.records import Scanner

KV = sample("kv-cache-too-small")
PREFIX = "(EngineCore pid=5) ERROR 08-28 10:12:45 [core.py:708] "
OWN = {"_TRANSPORT": "stdout", "PRIORITY": "6", "SYSLOG_IDENTIFIER": "vllm", "_PID": "812", "_HOSTNAME": "gpu1",
       "_SYSTEMD_UNIT": "vllm.service", "__REALTIME_TIMESTAMP": "1790000000250000"}  # fmt: skip


def decoded(data: bytes | str, form: str = "", pieces: int = 0) -> tuple[list[Record], list[Gap]]:
    """The records of an encoded text and its gaps, fed whole or in pieces of so many bytes."""
    data = data.encode() if isinstance(data, str) else data
    scanner = Scanner(0)
    decoder = decoder_of(form or detect(data), scanner)
    assert decoder is not None
    records: list[Record] = []
    for at in range(0, len(data), pieces or len(data) or 1):
        piece = data[at : at + (pieces or len(data))]
        records += decoder.feed(piece, 1 + data.count(b"\n", 0, at))
    records += decoder.flush()
    return records, scanner.gaps.told()


def told(data: bytes | str, form: str = "", pieces: int = 0) -> list[tuple[int, str]]:
    return [(r.line, r.message) for r in decoded(data, form, pieces)[0]]


def as_json(message: Any, **fields: Any) -> str:
    return json.dumps({**OWN, "MESSAGE": message, **fields}) + "\n"


def as_export(*messages: bytes, **fields: str) -> bytes:
    out = b"".join(f"{name}={value}\n".encode() for name, value in {**OWN, **fields}.items())
    for message in messages:
        if b"\n" in message or b"\x1b" in message:
            out += b"MESSAGE\n" + struct.pack("<Q", len(message)) + message + b"\n"
        else:
            out += b"MESSAGE=" + message + b"\n"
    return out + b"\n"


def as_docker(log: str, stream: str = "stderr") -> str:
    return json.dumps({"log": log, "stream": stream, "time": "2026-09-21T14:13:21.1Z"}) + "\n"


def as_cri(text: str, tag: str = "F", stream: str = "stderr") -> str:
    return f"2026-09-21T14:13:21.123456789Z {stream} {tag} {text}\n"


# ---- journald's JSON ----------------------------------------------------------------------------------------


def test_an_entry_says_who_spoke_and_its_message_what() -> None:
    records, gaps = decoded(as_json(PREFIX + "Boom"))
    assert [(r.line, r.message) for r in records] == [(1, "Boom")]
    assert records[0].envelope == Envelope(
        kind=Kind.LOG, role="EngineCore", pid=5, level="ERROR", time="2026-09-21T14:13:20.250000Z", origin="core.py:708",
        host="gpu1", unit="vllm",
    )  # fmt: skip
    assert gaps == []


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Boom", ["Boom"]),
        (list(b"\x1b[31mBoom\x1b[0m"), ["Boom"]),
        (["one", "two"], ["one", "two"]),
        (["one", list(b"two"), None], ["one", "two"]),
        ("one\ntwo\n", ["one", "two"]),
        ("", [""]),
        ([], []),
        (list(b"\xff\xfe bytes"), ["\ufffd\ufffd bytes"]),
        ("a\x00b", ["ab"]),
        (17, ["17"]),
    ],
)
def test_a_message_in_any_shape(message: Any, wanted: list[str]) -> None:
    assert told(as_json(message)) == [(1, text) for text in wanted]


def test_a_message_that_was_left_out_is_a_gap() -> None:
    records, gaps = decoded(as_json("a") + as_json(None) + as_json(None))
    assert [r.message for r in records] == ["a"]
    assert [(g.line, g.command, "2 long" in g.what) for g in gaps] == [
        (2, "journalctl -a -o json -t vllm", True)
    ]


@pytest.mark.parametrize(
    ("fields", "kind", "unit", "level"),
    [
        (
            {"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "3", "_PID": None},
            "kernel",
            "",
            "ERROR",
        ),
        (
            {"_TRANSPORT": "kernel", "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "4", "_PID": None},
            "kernel",
            "",
            "",
        ),
        ({"_TRANSPORT": "journal", "SYSLOG_IDENTIFIER": "systemd", "_PID": "1"}, "unit", "systemd", ""),
        ({"_TRANSPORT": "syslog", "SYSLOG_IDENTIFIER": "nvidia", "PRIORITY": "3"}, "log", "nvidia", "ERROR"),
        ({"_TRANSPORT": "stdout", "PRIORITY": "3"}, "native", "vllm", ""),
        ({"_TRANSPORT": "journal", "CONTAINER_NAME": "llm-1", "PRIORITY": "3"}, "native", "llm-1", ""),
        ({"SYSLOG_IDENTIFIER": None, "_COMM": "python3"}, "native", "python3", ""),
        ({"SYSLOG_IDENTIFIER": ["a", "b"]}, "native", "b", ""),
        ({"_PID": "x", "PRIORITY": "", "__REALTIME_TIMESTAMP": "9" * 40}, "native", "vllm", ""),
    ],
)
def test_who_spoke(fields: dict[str, Any], kind: str, unit: str, level: str) -> None:
    env = decoded(as_json("some text", **fields))[0][0].envelope
    assert (env.kind.value, env.unit, env.level) == (kind, unit, level)


def test_later_rows_of_a_message_go_on_from_the_first() -> None:
    rows = decoded(as_json(f'{HEAD}\n  File "/a.py", line 3, in run\nValueError: x'))[0]
    assert [r.envelope.time == "" for r in rows] == [False, True, True]
    assert {(r.envelope.pid, r.envelope.unit, r.line) for r in rows} == {(812, "vllm", 1)}


def test_server_sent_events_and_json_sequences() -> None:
    assert told(f"data: {as_json('a')}\ndata: {as_json('b')}\n") == [(1, "a"), (3, "b")]
    assert told(f"\x1e{as_json('a')}\x1e{as_json('b')}") == [(1, "a"), (2, "b")]


def test_pretty_entries_stand_where_their_message_does() -> None:
    pretty = json.dumps({"_PID": "1", "MESSAGE": "a", **OWN}, indent="\t", separators=(",", " : ")) + "\n"
    assert told(pretty * 2) == [(3, "a"), (3 + pretty.count("\n"), "a")]


# ---- damage: nothing of the rest is lost ------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [40, 90, 150, 200])
def test_a_cut_line_of_json_gives_what_is_left(cut: int) -> None:
    line = json.dumps({"MESSAGE": "0123456789 the message", **OWN})
    records, gaps = decoded(as_json("before") + line[:cut] + "\n" + as_json("behind"))
    assert [r.line for r in records] == [1, 2, 3]
    assert records[1].message in ("0123456789 the message", "0123456789 the message"[: cut - 13])
    assert [g.line for g in gaps] == [2]


def test_a_cut_message_in_bytes_gives_what_is_left() -> None:
    line = json.dumps({"MESSAGE": list(b"Boom, and more"), **OWN})
    assert told(as_json("a") + line[:30] + "\n" + as_json("b")) == [(1, "a"), (2, "Boo"), (3, "b")]


def test_entries_glued_together_are_two() -> None:
    assert told(as_json("a") + as_json("b").strip() + as_json("c") + as_json("d")) == [
        (1, "a"), (2, "b"), (2, "c"), (3, "d"),
    ]  # fmt: skip


def test_a_cut_pretty_entry_gives_what_is_left() -> None:
    pretty = json.dumps({"MESSAGE": "a", **OWN}, indent="\t", separators=(",", " : ")) + "\n"
    records, gaps = decoded(pretty + "\n".join(pretty.split("\n")[:4]) + "\n" + pretty + pretty[:20])
    assert [r.message for r in records][:3] == ["a", "a", "a"]
    assert [g.line for g in gaps] == [12]


def test_text_that_is_no_json_stays_text() -> None:
    records, _ = decoded(as_json("a") + "-- Boot 0 --x\nplain words\n{broken\n" + as_json("b") * 4)
    assert [(r.line, r.message) for r in records][1:4] == [
        (2, "-- Boot 0 --x"),
        (3, "plain words"),
        (4, "{broken"),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        '{"MESSAGE":' + "[" * 100_000,
        '{"MESSAGE":' + "[" * 600 + "]" * 600 + "}",
        '{"MESSAGE":"x","a":' + "[" * 100_000,
        '{"MESSAGE":"x","a":' + '{"b":' * 50_000,
        '{"MESSAGE":{"a":1},"_PID":[[[1]]],"PRIORITY":"\\u00b2","__REALTIME_TIMESTAMP":-5}',
        '{"MESSAGE":[300,-1],"_PID":true}',
        '{"log":5,"stream":null}',
        '{"MESSAGE":' + "9" * 5000 + "}",
    ],
    ids=range(8),
)
@pytest.mark.parametrize("form", ["journald json", "docker json-file", "journald json-pretty", ""])
def test_json_that_no_journal_writes(odd: str, form: str) -> None:
    text = f"{as_json('before')}{odd}\n{as_json('behind')}"
    found = decoded(text, form)[0] if form else list(Scanner(0).text(text))
    if form != "journald json-pretty":
        assert [r.message for r in found if r.line in (1, 3)] == ["before", "behind"]


def test_bytes_that_are_no_text_and_lone_surrogates() -> None:
    data = as_json("x").encode().replace(b'"x"', b'"a\xff"') + as_json("x").encode().replace(
        b'"x"', b'"\\ud83d b"'
    )
    assert told(data, "journald json") == [(1, "a\ufffd"), (2, "? b")]


def test_a_line_without_an_end_is_bounded() -> None:
    data = as_json("a").encode() + b'{"MESSAGE":"' + b"x" * 9_000_000 + b'"}\n' + as_json("b").encode()
    found = decoded(data, pieces=1 << 20)[0]
    assert [(r.line, r.message[:1]) for r in found] == [(1, "a"), (2, "x"), (3, "b")]
    assert len(found[1].message) < 100_000


# ---- the export format ------------------------------------------------------------------------------------------


def test_fields_come_in_any_order_and_rows_on_their_own_lines() -> None:
    data = (
        b"__CURSOR=s=1\nMESSAGE\n"
        + struct.pack("<Q", 7)
        + b"one\ntwo\n_PID=7\nSYSLOG_IDENTIFIER=vllm\n\n"
        + as_export(b"z")
    )
    records, gaps = decoded(data, "journald export")
    assert [(r.line, r.message, r.envelope.pid) for r in records] == [
        (3, "one", 7),
        (4, "two", 7),
        (15, "z", 812),
    ]
    assert gaps == []


def test_line_ends_in_a_length_count_as_lines() -> None:
    text = b"\x1b[m" + b"x" * 7  # ten bytes: the length begins with a line end
    data = as_export(text) + as_export(b"last")
    rows = data.split(b"\n")
    assert [(line, rows[line - 1][-4:]) for line, _ in told(data, "journald export")] == [
        (10, b"xxxx"),
        (19, b"last"),
    ]


def test_a_large_field_that_is_not_read_costs_no_memory() -> None:
    core = b"COREDUMP\n" + struct.pack("<Q", 30_000_000) + b"A\n=" * 10_000_000 + b"\n"
    records, gaps = decoded(core + as_export(b"a"), "journald export", pieces=1 << 20)
    assert [(r.line, r.message) for r in records] == [(10_000_000 + 1 + 1 + 8, "a")]
    assert gaps == []


@pytest.mark.parametrize("size", [3, 40, 4000, 2**40, 2**63])
def test_a_wrong_length_loses_nothing_of_the_rest(size: int) -> None:
    bad = as_export(b"ValueError: no way\nmore of it").replace(struct.pack("<Q", 29), struct.pack("<Q", size))
    records, gaps = decoded(as_export(b"before") + bad + as_export(b"behind"), "journald export")
    assert [r.message for r in records] == ["before", "ValueError: no way", "more of it", "behind"]
    rows = (as_export(b"before") + bad).split(b"\n")
    assert rows[records[1].line - 1].endswith(b"ValueError: no way")
    assert len(gaps) == 1


def test_an_export_that_ends_inside_an_entry() -> None:
    data = as_export(b"a") + as_export(b"one\ntwo")
    for cut in range(len(as_export(b"a")) + 1, len(data)):
        found = told(data[:cut], "journald export")
        assert found[0] == (8, "a")
        assert len(found) <= 3


# ---- docker and Kubernetes --------------------------------------------------------------------------------------


def test_a_docker_line_in_parts_is_one_line() -> None:
    data = (
        as_docker("a\n")
        + as_docker(PREFIX + "Bo")
        + as_docker("other\n", "stdout")
        + as_docker("om\n")
        + as_docker("z\n")
    )
    records, _ = decoded(data)
    assert [(r.line, r.message) for r in records] == [(1, "a"), (3, "other"), (2, "Boom"), (5, "z")]
    assert (records[2].envelope.pid, records[2].envelope.time) == (5, "2026-09-21T14:13:21.1Z")


def test_cri_parts_are_joined_by_stream() -> None:
    data = (
        as_cri("a") + as_cri(PREFIX + "Bo", "P") + as_cri("other", "F", "stdout") + as_cri("om", "P") + as_cri("!", "F")
        + as_cri("", "F")
    )  # fmt: skip
    records, _ = decoded(data)
    assert [(r.line, r.message) for r in records] == [(1, "a"), (3, "other"), (2, "Boom!"), (6, "")]
    assert (records[2].envelope.pid, records[2].envelope.time) == (5, "2026-09-21T14:13:21.123456789Z")


def test_a_line_whose_last_part_never_came_is_not_lost() -> None:
    assert told(as_cri("a") + as_cri("Boom", "P")) == [(1, "a"), (2, "Boom")]
    assert told(as_docker("a\n") + as_docker("Boom")) == [(1, "a"), (2, "Boom")]


def test_rows_spelled_out_in_a_joined_line_stand_where_their_part_does() -> None:
    rows = [HEAD, *['  File "/opt/a.py", line 3, in run'] * 4, "ValueError: no way"]
    text = "\\n".join(rows)
    cut = text.index("ValueError")
    records, _ = decoded(as_cri(text[:cut], "P") + as_cri(text[cut:], "F"))
    assert [(r.line, r.message[:10]) for r in (records[0], records[-1])] == [
        (1, HEAD[:10]),
        (2, "ValueError"),
    ]


def test_parts_without_an_end_are_bounded() -> None:
    records, _ = decoded(as_docker("x" * 16_000) * 500)
    assert len(records) > 3
    assert all(len(r.message) < 100_000 for r in records)


# ---- all of them ------------------------------------------------------------------------------------------------

PRETTY = "\n".join(
    json.dumps({"MESSAGE": row, **OWN}, indent="\t", separators=(",", " : ")) for row in KV.lines
)
ENCODED = {
    "journald json": "".join(map(as_json, KV.lines)).encode(),
    "journald json-sse": "".join(f"data: {as_json(row)}\n" for row in KV.lines).encode(),
    "journald json-pretty": PRETTY.encode(),
    "journald export": b"".join(as_export(row.encode()) for row in KV.lines),
    "docker json-file": "".join(as_docker(row + "\n") for row in KV.lines).encode(),
    "cri": "".join(map(as_cri, KV.lines)).encode(),
}


@pytest.mark.parametrize("form", ENCODED)
def test_the_answer_is_that_of_the_plain_log(form: str) -> None:
    report = ask(ENCODED[form])
    assert report.inputs[0].format == form
    assert first(report)[:2] == ("diagnosed", KV.rule)
    rows = ENCODED[form].split(b"\n")
    assert b"To serve at least one request" in rows[report.diagnoses[0].line - 1]


@pytest.mark.parametrize("form", ENCODED)
def test_it_does_not_matter_in_which_pieces_it_comes(form: str) -> None:
    whole = [(r.line, r.message, r.envelope) for r in decoded(ENCODED[form], form)[0]]
    for size in (1, 7, 333, 4096):
        data = ENCODED[form] if size > 7 else ENCODED[form][:6000]
        wanted = whole if size > 7 else [(r.line, r.message, r.envelope) for r in decoded(data, form)[0]]
        assert [(r.line, r.message, r.envelope) for r in decoded(data, form, size)[0]] == wanted


@pytest.mark.parametrize("form", ENCODED)
def test_any_damage_is_survived(form: str) -> None:
    rng = random.Random(form)
    for _ in range(60):
        data = bytearray(ENCODED[form][:20_000])
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(data))
            data[at : at + rng.randint(0, 60)] = rng.randbytes(rng.randint(0, 30))
        records, _ = decoded(bytes(data), form, rng.choice((0, 100, 5000)))
        most = data.count(b"\n") + 1
        assert all(1 <= r.line <= most for r in records)


def test_a_long_encoded_log_is_read_whole() -> None:
    noise = (
        as_json('(APIServer pid=9) INFO:     10.0.0.1:5000 - "GET /health HTTP/1.1" 200 OK').encode() * 35_000
    )
    data = ENCODED["journald json"] + noise
    assert len(data) > 9 << 20
    report = ask(data)
    assert first(report) == ("diagnosed", KV.rule, KV.line)
    assert report.inputs[0].lines == data.count(b"\n")
