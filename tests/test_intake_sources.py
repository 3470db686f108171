"""Opening what people bring: plain, compressed, missing, or no file at all."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import itertools
import lzma
import os
import random
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from logtext import LOADING, START, STOPPED, lines, said, steam, traceback
from vdiag.intake import compressed
from vdiag.intake.blocks import Blocks
from vdiag.intake.folders import MOST_FILES
from vdiag.intake.rotated import Continued, sets
from vdiag.intake.sources import STDIN, sources
from vdiag.model import Report, Verdict
from vdiag.pipeline import diagnose

TEXT = b"".join(b"%d ValueError: no way\n" % n for n in range(20_000))
PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}
if importlib.util.find_spec("zstandard"):
    PACKERS["zst"] = importlib.import_module("zstandard").compress


def ask_paths(*paths: str) -> Report:
    found, problems = sources(paths, io.BytesIO())
    assert problems == []
    return diagnose(found, rulebook=steam())


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


def test_without_a_zstd_library_the_message_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "compression", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    path = tmp_path / "a.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x00\x00" + bytes(600))
    (found,), problems = sources([str(path), str(Path(__file__))], io.BytesIO())
    assert found.name == __file__
    assert f"zstd -dc {path} | vdiag" in problems[0]


def test_what_cannot_be_read_is_named_and_the_rest_is_kept(tmp_path: Path) -> None:
    good = tmp_path / "good.log"
    good.write_bytes(b"x\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    found, problems = sources([str(tmp_path / "missing.log"), str(empty), str(good)], io.BytesIO())
    assert [s.name for s in found] == [str(good)]
    assert problems[0] == f"{tmp_path}/missing.log: No such file or directory"
    assert problems[1].startswith(f"{empty}: is a folder without a file that looks like a log")


# ---- bounded, whatever is in it ----------------------------------------------------------------------------


@pytest.mark.parametrize("packer", PACKERS)
def test_a_bomb_is_left_when_it_inflates_beyond_any_log(
    packer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compressed, "BOMB_SIZE", 1 << 20)
    path = tmp_path / "a"
    path.write_bytes(PACKERS[packer](bytes(64 << 20)))
    data, error = contents(path)
    assert "inflates more than" in error
    assert 1 << 20 < len(data) < 64 << 20


@pytest.mark.parametrize("packer", PACKERS)
def test_inflating_holds_little_at_a_time(packer: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(PACKERS[packer](bytes(96 << 20)))
    (source,), _ = sources([str(path)], io.BytesIO())
    stream, buffer = source.open(), bytearray(1 << 20)
    tracemalloc.start()
    try:
        while stream.readinto(buffer):  # type: ignore[attr-defined]
            pass
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("packer", PACKERS)
def test_padding_behind_a_member_is_none_of_the_text(packer: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(PACKERS[packer](TEXT) + bytes(1000))
    assert contents(path) == (TEXT, "")


# ---- rotated sets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        ["vllm.log.2.gz", "vllm.log.1", "vllm.log"],
        ["vllm.log.10.gz", "vllm.log.9.xz", "vllm.log.1"],
        ["vllm.log-20261127.gz", "vllm.log-20261128", "vllm.log"],
        ["vllm.log.2026-11-27", "vllm.log.2026-11-28", "vllm.log"],
        ["0.log.20261128-101112.gz", "0.log.20261129-000000", "0.log"],
        ["x-json.log.2", "x-json.log.1", "x-json.log"],
        ["syslog.2.gz", "syslog.1", "syslog"],
        ["messages-20261122", "messages-20261129", "messages"],
    ],
)
def test_a_rotated_set_is_told_oldest_first(names: list[str]) -> None:
    for order in itertools.permutations(range(len(names))):
        given = [names[i] for i in order]
        (group,) = sets(given)
        assert [given[i] for i in group] == names


@pytest.mark.parametrize(
    "names",
    [
        ["a.log", "b.log"],
        ["vllm.log", "vllm.log.gz"],
        ["vllm.log", "vllm.log"],
        ["old/vllm.log", "new/vllm.log.1"],
        ["node.1", "node.2"],
        ["llama-3.1", "llama-3.2"],
    ],
)
def test_other_names_are_no_rotation(names: list[str]) -> None:
    assert sets(names) == [[0], [1]]


def rotated(folder: Path, *parts: bytes) -> list[str]:
    """Files `a.log.N` … `a.log` with these contents, oldest first; all but the newest two compressed."""
    paths = []
    for age, data in zip(reversed(range(len(parts))), parts, strict=True):
        path = folder / ("a.log" if not age else f"a.log.{age}{'.gz' if age > 1 else ''}")
        path.write_bytes(gzip.compress(data) if age > 1 else data)
        paths.append(str(path))
    return paths


def test_a_set_is_read_on_end_and_counted_file_by_file(tmp_path: Path) -> None:
    paths = rotated(tmp_path, b"one\ntwo\n", b"three\nfour", b"five\n")
    (source,), _ = sources(paths[::-1], io.BytesIO())
    assert source.name == paths[-1]
    stream = source.open()
    assert isinstance(stream, Continued)
    data = b""
    buffer = bytearray(3)
    while size := stream.readinto(buffer):
        data += buffer[:size]
    assert data == b"one\ntwo\nthree\nfour\nfive\n"
    assert [(p.name, p.lines, p.bytes) for p in stream.parts] == [
        (paths[0], 2, 8), (paths[1], 2, 10), (paths[2], 1, 5),
    ]  # fmt: skip


def test_a_story_goes_on_across_a_rotation_and_each_line_is_named_by_its_own_file(tmp_path: Path) -> None:
    frames = traceback("ValueError: The boiler has no water in it", "load", "run")
    paths = rotated(tmp_path, lines("x", START).encode(), lines(LOADING, *frames[:2]).encode(),
                    lines(*frames[2:], STOPPED).encode())  # fmt: skip
    report = ask_paths(*paths)
    found = report.diagnoses[0]
    assert (found.rule, found.source, found.line) == ("dry", paths[2], 4)
    assert [(e.line, e.source) for e in found.explains] == [(5, "")]
    assert found.phase == "load"
    assert [(i.name, i.lines) for i in report.inputs] == [(paths[0], 2), (paths[1], 3), (paths[2], 5)]
    (run,) = report.episodes
    assert (run.source, run.last_source) == (paths[0], paths[2])


def test_a_line_explained_in_the_next_file_is_named_by_it(tmp_path: Path) -> None:
    paths = rotated(
        tmp_path, lines(START, said("The boiler has no water in it")).encode(), lines(STOPPED).encode()
    )
    found = ask_paths(*paths).diagnoses[0]
    assert (found.source, found.line) == (paths[0], 2)
    assert [(e.line, e.source) for e in found.explains] == [(1, paths[1])]
    assert [(e.line, e.source) for e in found.evidence] == [(2, paths[0])]


def test_a_part_that_cannot_be_read_is_its_own_gap(tmp_path: Path) -> None:
    paths = rotated(tmp_path, TEXT, lines(START).encode(), lines(STOPPED).encode())
    packed = Path(paths[0]).read_bytes()
    Path(paths[0]).write_bytes(packed[: len(packed) // 2])
    report = ask_paths(*paths)
    assert [gap.what for gap in report.inputs[0].gaps] == [
        "reading ended early: the compressed file is cut off"
    ]
    assert report.inputs[1].gaps == []
    assert all("reading ended" not in gap.what for gap in report.inputs[2].gaps)
    assert report.diagnoses[-1].source in paths


# ---- folders -------------------------------------------------------------------------------------------------


def test_a_folder_is_read_for_its_logs_and_says_what_it_left_out(tmp_path: Path) -> None:
    for name, data in {
        "vllm.log": START.encode(), "pod/0.log": b"12:00:00 x\n", "dmesg": b"[ 1.0] x\n", "out.txt": b"INFO x\n",
        "server": b"2026-11-29 10:00:00 INFO x\n", "notes": b"buy milk\n", "config.json": b"{}",
        "requirements.txt": b"vllm\n", "model.safetensors": bytes(100), "core.log": os.urandom(4000), "empty.log": b"",
        ".git/index.log": b"x\n",
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    found, problems = sources([str(tmp_path)], io.BytesIO())
    assert problems == []
    assert [s.name[len(str(tmp_path)) + 1 :] for s in found] == [
        "dmesg",
        "out.txt",
        "server",
        "vllm.log",
        "pod/0.log",
    ]
    (gap,) = found[0].gaps
    assert all(name in gap.what for name in ("notes", "config.json", "model.safetensors", "core.log"))


def test_a_folders_rotated_set_is_one_source(tmp_path: Path) -> None:
    rotated(tmp_path, b"INFO one\n", b"INFO two\n", b"INFO three\n")
    (source,), _ = sources([str(tmp_path)], io.BytesIO())
    assert source.name == str(tmp_path / "a.log")


def test_a_large_folder_is_bounded_and_says_so(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 3):
        (tmp_path / f"{number:03}.log").write_bytes(b"INFO x\n")
    found, _ = sources([str(tmp_path)], io.BytesIO())
    assert len(found) == MOST_FILES
    assert "holds too much" in found[0].gaps[0].what


def test_links_that_go_round_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"INFO x\n")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    found, _ = sources([str(tmp_path)], io.BytesIO())
    assert [s.name for s in found] == [str(tmp_path / "a.log")]


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


# ---- damaged, closed or endless ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [3_000, 300_000])
@pytest.mark.parametrize("where", [0.5, 0.999])
def test_a_damaged_gzip_gives_what_stands_before_the_damage(size: int, where: float, tmp_path: Path) -> None:
    text = "".join(f"{n * 7919 % 10007} a line of the log\n" for n in range(size // 20)).encode()
    packed = bytearray(gzip.compress(text))
    at = int(len(packed) * where)
    packed[at : at + 40] = b"\xff" * len(packed[at : at + 40])
    path = tmp_path / "a.gz"
    path.write_bytes(bytes(packed))
    data, error = contents(path)
    assert len(data) > len(text) * (where - 0.25)
    assert data[: int(len(data) * 0.9)] == text[: int(len(data) * 0.9)]
    assert error.startswith(("the compressed file is damaged", "the compressed file is cut off"))


def test_a_wrong_checksum_loses_nothing_and_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT)[:-8] + bytes(8))
    data, error = contents(path)
    assert data == TEXT
    assert error.startswith("the compressed file is damaged")


@pytest.mark.parametrize(
    ("head", "word"),
    [
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
        (b"Rar!\x1a\x07\x00", "RAR"),
        (b"\x04\x22\x4d\x18", "lz4 -dc"),
        (b"LPKSHHRH", "journalctl --file"),
    ],
)
def test_what_vdiag_does_not_open_is_named(head: bytes, word: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(head + random.Random(1).randbytes(4000))
    (found,), _ = sources([str(path)], io.BytesIO())
    report = diagnose([found], rulebook=steam())
    assert report.verdict is Verdict.EMPTY
    assert word in report.inputs[0].gaps[0].what


def test_a_log_that_was_compressed_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(gzip.compress(random.Random(1).randbytes(3000))))
    (found,), _ = sources([str(path)], io.BytesIO())
    assert "compressed once more inside" in diagnose([found], rulebook=steam()).inputs[0].gaps[0].what


@pytest.mark.skipif(not os.path.exists("/dev/urandom"), reason="no such device here")
@pytest.mark.parametrize("name", ["zero", "urandom", "full"])
def test_a_device_that_never_ends_is_refused(name: str) -> None:
    assert sources([f"/dev/{name}"], io.BytesIO()) == ([], [f"/dev/{name}: is a device, not a log"])


def test_the_device_that_holds_nothing_is_an_empty_input() -> None:
    (found,), problems = sources([os.devnull], io.BytesIO())
    assert not problems
    assert diagnose([found], rulebook=steam()).verdict is Verdict.EMPTY


# ---- folders that are odd ------------------------------------------------------------------------------------


def test_of_too_many_logs_those_written_last_are_read(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 3):
        path = tmp_path / f"{number:03}.log"
        path.write_bytes(b"INFO x\n")
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    found, _ = sources([str(tmp_path)], io.BytesIO())
    assert "000.log, 001.log, 002.log" in found[0].gaps[0].what
    names = [os.path.basename(s.name) for s in found]
    assert names == [f"{number:03}.log" for number in range(3, MOST_FILES + 3)]


def test_a_log_under_two_names_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "0.log").write_bytes(b"INFO x\n")
    (tmp_path / "a.log").symlink_to(tmp_path / "pods" / "0.log")
    found, _ = sources([str(tmp_path)], io.BytesIO())
    assert [s.name for s in found] == [str(tmp_path / "pods" / "0.log")]


def test_a_folder_inside_that_may_not_be_read_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_bytes(b"INFO x\n")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    (found,), _ = sources([str(tmp_path)], io.BytesIO())
    assert found.gaps[-1].what.endswith(f"{tmp_path}/closed (Permission denied)")
