"""Which files are of one replica, and which are of none."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from fleetlogs import SAMPLES
from test_fleet import HEALTHY, OOM, answer, here, rows
from vdiag.fleet.sets import sets

__all__ = ["here"]

pytestmark = pytest.mark.usefixtures("here")

POD = "pods/inference_llm-6d5f7c9b8d-x7kqz_1b2c3d4e-0000-4abc-8def-0123456789ab/vllm"


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "ordered",
    [
        [f"{POD}/0.log.20261129-020000.gz", f"{POD}/0.log", f"{POD}/1.log", f"{POD}/2.log"],
        ["out/slurm-77_4.out", "out/slurm-77_4.err"],
        ["run/vllm.stdout", "run/vllm.stderr"],
        ["pm2/vllm-out.log", "pm2/vllm-error.log"],
        ["logs/2026-11-28/23/vllm-0.log", "logs/2026-11-29/00/vllm-0.log", "logs/2026-11-29/01/vllm-0.log"],
        ["s3://acme/2026/11/28/09/a.log.gz", "s3://acme/2026/11/29/08/a.log.gz"],
        ["logs/year=2026/month=11/day=29/a.log", "logs/year=2026/month=11/day=30/a.log"],
        ["logs/vllm.log.2.gz", "logs/vllm.log.1", "logs/vllm.log"],
    ],
)
def test_what_belongs_to_one_replica_is_read_oldest_first(ordered: list[str]) -> None:
    for shuffled in itertools.permutations(ordered):
        (group,) = sets(shuffled)
        assert [shuffled[i] for i in group] == ordered


@pytest.mark.parametrize(
    "paths",
    [
        [f"{POD}/0.log", f"{POD.replace('x7kqz', 'aaaaa')}/0.log"],
        [f"{POD}/0.log", f"{POD.replace('/vllm', '/proxy')}/0.log"],
        ["slurm-77_4.out", "slurm-77_5.out", "slurm-77_5.log"],
        ["2026-11-29/a.log", "2026-11-29/b.log"],
        ["2026-11-29/node-1/a.log", "2026-11-29/node-2/a.log"],
        ["run-01/vllm.log", "run-02/vllm.log"],
        ["10/vllm.log", "11/vllm.log"],
        ["vllm.log", "vllm.log.gz"],
    ],
)
def test_what_belongs_to_several_stays_apart(paths: list[str]) -> None:
    assert sets(paths) == [[i] for i in range(len(paths))]


def test_a_pod_that_was_restarted_is_one_replica(tmp_path: Path) -> None:
    for restart in range(3):
        put(tmp_path / POD / f"{restart}.log", OOM)
    link = tmp_path / "containers" / f"llm-6d5f7c9b8d-x7kqz_inference_vllm-{'7f' * 32}.log"
    link.parent.mkdir()
    link.symlink_to(tmp_path / POD / "0.log")
    (row,) = rows(tmp_path)
    assert (row["replica"], row["times"]) == ("inference/llm-6d5f7c9b8d-x7kqz/vllm", 3)


def test_a_cause_in_the_other_stream_is_found(tmp_path: Path) -> None:
    text = (SAMPLES / "real-trunc-weights.log").read_bytes()
    at = text.find(b"Traceback (most recent call last):")
    at = text.rfind(b"\n", 0, at) + 1
    put(tmp_path / "slurm-77_0.out", text[:at])
    put(tmp_path / "slurm-77_0.err", text[at:])
    (row,) = rows(tmp_path)
    assert (row["rule"], row["source"]) == ("safetensors-damaged", "")
    assert row["input"].endswith(".err")


def test_both_streams_may_go_on_between_runs(tmp_path: Path) -> None:
    out, err = tmp_path / "logs" / "job.out", tmp_path / "logs" / "job.err"
    put(out, HEALTHY)
    put(err, b"INFO 11-29 10:00:00 [a.py:1] quiet\n")
    state = tmp_path / "fleet.db"
    assert answer("--state", state, out.parent)["failed"] == 0
    with out.open("ab") as file:
        file.write(OOM)
    told = answer("--state", state, out.parent)
    assert [(c["rule"], c["times"]) for c in told["news"]["causes"]] == [("cuda-oom-serving", 1)]
    with err.open("ab") as file:
        file.write(b"INFO 11-29 10:00:00 [a.py:1] quiet still\n")
    assert answer("--state", state, out.parent)["news"]["causes"] == []


def test_what_is_not_from_a_server_is_no_replica(tmp_path: Path) -> None:
    put(tmp_path / "node-1" / "vllm.log", OOM)
    put(tmp_path / "node-2" / "vllm.log", HEALTHY)
    put(tmp_path / "node-3" / "proxy.log", b"2026-11-29T02:00:00.000000Z\tinfo\tEnvoy proxy is ready\n")
    put(tmp_path / "node-3" / "fetch.log", b"Fetching 12 files\ndone\n")
    put(
        tmp_path / "node-3" / "raylet.out",
        b"[2026-11-29 02:00:00,001 I 7 7] (raylet) main.cc:226: cluster ID\n",
    )
    told = answer(tmp_path, status=1)
    assert (told["replicas"], told["failed"], told["others"], told["nodes"]) == (2, 1, 3, 2)
    assert sum(told["verdicts"].values()) == 2


def test_a_fleet_without_a_server_is_no_clean_bill_of_health(tmp_path: Path) -> None:
    put(tmp_path / "fetch.log", b"INFO Fetching 12 files\ndone\n")
    assert answer(tmp_path, status=3)["replicas"] == 0


def test_a_failure_before_the_server_spoke_is_a_replica(tmp_path: Path) -> None:
    put(tmp_path / "vllm.log", (SAMPLES / "undefined-symbol.log").read_bytes())
    told = answer(tmp_path, status=1)
    assert (told["replicas"], told["failed"]) == (1, 1)
