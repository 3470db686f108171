"""Formats are told by the shape of their first lines."""

from __future__ import annotations

import json

import pytest

from logtext import ALL, Sample, by_name, lines
from vdiag.intake.formats import SAMPLE, detect

ENTRY = {
    "__CURSOR": "s=1",
    "__REALTIME_TIMESTAMP": "1790000000000000",
    "_HOSTNAME": "gpu1",
    "MESSAGE": "Boom",
}
DOCKER = '{"log":"Boom\\n","stream":"stderr","time":"2026-09-21T14:13:21.1Z"}'
CRI = "2026-09-21T14:13:21.123456789Z stderr F Boom"

FORMS = {
    "journald json": json.dumps(ENTRY),
    "journald json-sse": f"data: {json.dumps(ENTRY)}\n",
    "journald json-pretty": json.dumps(ENTRY, indent="\t", separators=(",", " : ")),
    "journald export": lines(*(f"{k}={v}" for k, v in ENTRY.items())),
    "journald verbose": lines(
        "Mon 2026-09-21 14:13:21.234567 UTC [s=18f2;i=1;b=01;m=3b]", "    MESSAGE=Boom"
    ),
    "docker json-file": DOCKER,
    "cri": CRI,
    "json": '{"levelname": "ERROR", "message": "Boom"}',
    "plain": "Boom",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("times", [1, 40])
def test_each_format_is_told_by_its_own_lines(form: str, times: int) -> None:
    assert detect((FORMS[form] + "\n").encode() * times) == form


@pytest.mark.parametrize("form", FORMS)
def test_a_cut_at_the_sample_s_end_changes_nothing(form: str) -> None:
    text = (FORMS[form] + "\n").encode() * 5000
    assert detect(text[:SAMPLE]) == form


@pytest.mark.parametrize(
    "before", ["-- Journal begins at Mon 2026-09-21 14:13:21 UTC. --\n", "\ufeff", "\n\n"]
)
@pytest.mark.parametrize("form", ["journald json", "docker json-file", "cri", "journald export"])
def test_what_journalctl_says_first_is_no_format(form: str, before: str) -> None:
    assert detect((before + FORMS[form] + "\n" + FORMS[form]).encode()) == form


def test_a_message_in_bytes_may_fill_the_sample() -> None:
    entry = json.dumps({"MESSAGE": [120] * 40_000, "_PID": "1"})
    assert detect(entry.encode()) == "journald json"


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\x00" * 90, b"{", b"{}", b"[]", b"\xff\xfe\x00", b"data: x", b"A=1"]
)
def test_next_to_nothing_is_plain(data: bytes) -> None:
    assert detect(data) == "plain"


def test_one_odd_line_is_not_the_format_of_all() -> None:
    assert detect(lines(*["plain text"] * 9, json.dumps(ENTRY)).encode()) == "plain"
    assert detect(lines(*[json.dumps(ENTRY)] * 9, "plain text").encode()) == "journald json"


def test_an_environment_printed_first_is_no_export() -> None:
    assert (
        detect(lines("CUDA_HOME=/usr/local/cuda", "PATH=/bin", "VLLM_USE_V1=1", "HOME=/root").encode())
        == "plain"
    )


@pytest.mark.parametrize("s", ALL, ids=by_name)
def test_every_sample_is_plain(s: Sample) -> None:
    assert detect(s.text.encode()) == "plain"
