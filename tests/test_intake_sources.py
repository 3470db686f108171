"""Opening what people bring: plain, compressed, missing, or no file at all."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from vdiag.intake.blocks import Blocks
from vdiag.intake.sources import STDIN, SourceError, sources

TEXT = b"".join(b"%d ValueError: no way\n" % n for n in range(20_000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}


def contents(path: Path) -> tuple[bytes, str]:
    (source,), problems = sources([str(path)], io.BytesIO())
    assert problems == []
    blocks = Blocks(source.open())
    return b"".join(bytes(memoryview(b)[:n]) for b, n in blocks.bulk()) + blocks.tail, blocks.error


def test_a_plain_file_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(TEXT)
    (source,), _ = sources([str(path)], io.BytesIO())
    assert (source.name, source.size) == (str(path), len(TEXT))
    assert contents(path) == (TEXT, "")


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("name", ["a.log", "a.anything"])
def test_compression_is_told_by_the_first_bytes_whatever_the_name(
    packer: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(PACKERS[packer](TEXT))
    assert contents(path) == (TEXT, "")


@pytest.mark.parametrize("packer", PACKERS)
def test_several_members_are_one_stream(packer: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(PACKERS[packer](b"one\n") + PACKERS[packer](TEXT) + PACKERS[packer](b"three\n"))
    assert contents(path) == (b"one\n" + TEXT + b"three\n", "")


def test_a_cut_off_gzip_gives_what_it_holds_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    packed = gzip.compress(os.urandom(0) + TEXT)
    path.write_bytes(packed[: len(packed) // 2])
    data, error = contents(path)
    assert len(data) > len(TEXT) // 4
    assert TEXT.startswith(data)
    assert error == "the compressed file is cut off"


def test_a_damaged_gzip_is_an_error_of_its_input_only(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    packed = bytearray(gzip.compress(TEXT))
    packed[10:200] = b"\xff" * 190
    path.write_bytes(bytes(packed))
    assert contents(path)[1] != ""


@pytest.mark.parametrize("data", [b"", b"\x1f", b"B", b"BZ", b"\xfd7z"])
def test_a_few_bytes_are_no_compression(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(data)
    assert contents(path) == (data, "")


def test_text_that_begins_like_bzip2_is_still_text_or_a_named_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"BZhello, this is a log\n")
    data, error = contents(path)
    assert data or error


def test_zstd_is_read_or_the_message_says_how(tmp_path: Path) -> None:
    path = tmp_path / "a.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00\x00")
    (source,), _ = sources([str(path)], io.BytesIO())
    try:
        source.open()
    except SourceError as error:
        assert "zstd -dc" in str(error)  # noqa: PT017


def test_what_cannot_be_read_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    good = tmp_path / "good.log"
    good.write_bytes(b"x\n")
    found, problems = sources([str(tmp_path / "missing.log"), str(tmp_path), str(good)], io.BytesIO())
    assert [s.name for s in found] == [str(good)]
    assert problems[0] == f"{tmp_path}/missing.log: No such file or directory"
    assert problems[1].startswith(f"{tmp_path}: is a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret.log"
    path.write_bytes(b"x")
    path.chmod(0)
    assert sources([str(path)], io.BytesIO()) == ([], [f"{path}: Permission denied"])


@pytest.mark.parametrize("paths", [[], ["-"]])
def test_standard_input_is_a_source(paths: list[str]) -> None:
    stdin = io.BytesIO(b"x\n")
    (source,), problems = sources(paths, stdin)
    assert (source.name, source.size, problems) == (STDIN, None, [])
    assert source.open() is stdin
