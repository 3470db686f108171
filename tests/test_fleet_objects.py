"""`vdiag fleet` over object stores: S3, Google Cloud Storage and HTTP by servers that stand in for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fleetlogs

BUCKET = "acme-logs"


class Store(NamedTuple):
    """A store that runs."""

    url: str  # of a bucket
    env: dict[str, str]  # for a client
    put: Callable[[str, bytes], None]


def _upload(store: Store, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.put(f"night/{path.relative_to(folder)}", path.read_bytes())


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    fleetlogs.make(folder, small=45)
    (folder / "node-1" / "pod-0.log.1").write_bytes(fleetlogs.healthy_lines(5000))
    (folder / "node-1" / "broken.log.gz").write_bytes(b"\x1f\x8b\x08\x00 no more of it")
    (folder / "node-2" / "model.safetensors").write_bytes(b"\0" * 100)
    return folder


@pytest.fixture(scope="module")
def s3(logs: Path) -> Iterator[Store]:
    pytest.importorskip("s3fs")
    boto3 = pytest.importorskip("boto3")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    env = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    client = boto3.client(
        "s3", endpoint_url=env["AWS_ENDPOINT_URL"], region_name="us-east-1", aws_access_key_id="none",
        aws_secret_access_key="none",
    )  # fmt: skip
    client.create_bucket(Bucket=BUCKET)
    store = Store(
        f"s3://{BUCKET}", env, lambda key, data: client.put_object(Bucket=BUCKET, Key=key, Body=data)
    )
    _upload(store, logs)
    yield store
    server.stop()


@pytest.fixture(scope="module")
def gcs(logs: Path) -> Iterator[Store]:
    pytest.importorskip("gcsfs")
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as free:
        port = free.server_port
    server = emulator.create_server("127.0.0.1", port, in_memory=True, default_bucket=BUCKET)
    server.start()
    base = f"http://127.0.0.1:{port}"

    def put(key: str, data: bytes) -> None:
        name = urllib.parse.quote(key, safe="")
        url = f"{base}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}"
        urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": "text/plain"})).close()

    store = Store(f"gs://{BUCKET}", {"STORAGE_EMULATOR_HOST": base}, put)
    _upload(store, logs)
    yield store
    server.stop()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def http(logs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    pytest.importorskip("aiohttp")
    root = tmp_path_factory.mktemp("web")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def put(key: str, data: bytes) -> None:
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            (root / key).write_bytes(data)

        store = Store(f"http://127.0.0.1:{server.server_port}", {}, put)
        _upload(store, logs)
        yield store
        server.shutdown()


@pytest.fixture(params=["s3", "gcs", "http"])
def store(request: pytest.FixtureRequest) -> Store:
    made: Store = request.getfixturevalue(request.param)
    return made


def fleet(
    store: Store, *arguments: str | Path, status: int = 1, **env: str
) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "GOOGLE_"))}
    done = subprocess.run(
        [sys.executable, "-m", "vdiag", "fleet", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, env={**clean, **store.env, **env},
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return done


def rows(store: Store, *arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in fleet(store, "--format", "jsonl", *arguments).stdout.splitlines()]


def test_a_store_gives_what_its_copy_on_disk_gives(store: Store, logs: Path) -> None:
    local = rows(store, logs)
    far = rows(store, f"{store.url}/night/")
    assert len(local) == 46
    for row in local:
        row["input"] = row["input"].replace(str(logs), f"{store.url}/night")
        row["error"] = row["error"].replace(str(logs), f"{store.url}/night")
    assert sorted(far, key=lambda row: row["input"]) == sorted(local, key=lambda row: row["input"])


def test_patterns_and_single_objects(store: Store) -> None:
    if store.url.startswith("http"):
        pytest.skip("a web server has no patterns")
    assert {row["node"] for row in rows(store, f"{store.url}/night/node-[34]/*.log*")} == {"node-3", "node-4"}
    (row,) = rows(store, f"{store.url}/night/node-2/pod-1.log")
    assert row["input"] == f"{store.url}/night/node-2/pod-1.log"


def test_a_state_reads_what_was_appended_alone(store: Store, tmp_path: Path) -> None:
    key = f"appended-{tmp_path.name}/node-5/pod-5.log"
    before, more = fleetlogs.healthy_lines(3 << 20), (fleetlogs.SAMPLES / "cuda-oom-serving.log").read_bytes()
    store.put(key, before)
    call = ("--format", "json", "--state", tmp_path / "fleet.db", f"{store.url}/{key.split('/')[0]}/")
    assert json.loads(fleet(store, *call, status=0).stdout)["failed"] == 0
    store.put(key, before + more)
    told = json.loads(fleet(store, *call).stdout)
    assert [new["rule"] for new in told["news"]["causes"]] == ["cuda-oom-serving"]
    assert told["news"]["bytes"] == len(more)
    told = json.loads(fleet(store, *call).stdout)
    assert told["failed"] == 1
    if not store.url.startswith("http"):  # a web server's listing tells neither times nor marks
        assert told["news"]["read"] == 0
    assert told["news"]["causes"] == []


@pytest.mark.parametrize("path", ["no-such-folder/", "night/node-1/none.log"])
def test_what_is_not_there_is_said_in_a_line(store: Store, path: str) -> None:
    done = fleet(store, f"{store.url}/{path}", status=2)
    assert done.stderr.strip() == f"vdiag: {store.url}/{path}: nothing there"
    assert done.stdout == ""


def test_one_place_that_fails_does_not_hide_the_other(store: Store) -> None:
    done = fleet(store, f"{store.url}/none/", f"{store.url}/night/node-2/pod-1.log", status=2)
    assert "nothing there" in done.stderr
    assert "1 replica of 1 node" in done.stdout


def test_without_credentials_s3_says_so(s3: Store) -> None:
    bare = s3._replace(
        env={"AWS_ENDPOINT_URL": s3.env["AWS_ENDPOINT_URL"], "AWS_EC2_METADATA_DISABLED": "true"}
    )
    done = fleet(bare, f"{s3.url}/night/", status=2, HOME="/nonexistent")
    assert done.stderr.strip() == f"vdiag: {s3.url}/night/: Unable to locate credentials"


def test_rays_processes_read_the_same(store: Store) -> None:
    pytest.importorskip("ray")
    call = ("--format", "json", "-j", "2", f"{store.url}/night/")
    local = fleet(store, *call)
    assert fleet(store, "--engine", "ray", "--address", "local", *call).stdout == local.stdout
