"""Bundles as people attach them: which of their files are read, under which names, within which bounds."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import lzma
import os
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from logtext import START, STOPPED, lines, said, steam
from vdiag.intake import archives
from vdiag.intake.blocks import Blocks
from vdiag.intake.sources import Source, sources
from vdiag.pipeline import diagnose

LOG = lines(START, said("The boiler has no water in it"), STOPPED).encode()
LONG = "a-very-long-folder-name/" * 12 + "vllm.log"
FILES = {
    "logs/vllm.log": LOG,
    "logs/kernel.log": b"INFO all is well\n",
    "shot.png": os.urandom(900),
    "notes.md": b"x",
}
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes, "tar.gz": gzip.compress, "tgz": gzip.compress, "tar.xz": lzma.compress, "tar.bz2": bz2.compress,
}  # fmt: skip
if importlib.util.find_spec("zstandard"):
    PACKED["tar.zst"] = importlib.import_module("zstandard").compress


def tarred(files: dict[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return out.getvalue()


def opened(path: Path, data: bytes) -> list[Source]:
    path.write_bytes(data)
    found, problems = sources([str(path)], io.BytesIO())
    assert problems == []
    return found


def contents(source: Source) -> tuple[bytes, str]:
    blocks = Blocks(source.open())
    assert not [*blocks.bulk()]
    return blocks.tail, blocks.error


def check(found: list[Source], path: Path) -> None:
    assert [s.name for s in found] == [f"{path}:logs/vllm.log", f"{path}:logs/kernel.log"]
    assert [contents(s) for s in found] == [(LOG, ""), (b"INFO all is well\n", "")]
    assert contents(found[0]) == (LOG, "")  # backwards, too
    assert "shot.png" in found[0].gaps[0].what


@pytest.mark.parametrize("kind", PACKED)
def test_a_tar_is_read_in_place_whatever_packs_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"bundle.{kind}"
    check(opened(path, PACKED[kind](tarred(FILES))), path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_zip_is_read_in_place(method: int, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    check(opened(path, zipped(FILES, method)), path)


@pytest.mark.parametrize("name", ["bundle", "bundle.log", "log.txt"])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_bundle_is_told_by_its_first_bytes(pack: Callable[..., bytes], name: str, tmp_path: Path) -> None:
    check(opened(tmp_path / name, pack(FILES)), tmp_path / name)


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_read(form: int, tmp_path: Path) -> None:
    name = LONG if form != tarfile.USTAR_FORMAT else LONG[-200:]
    (found,) = opened(tmp_path / "b.tar", tarred({name: LOG}, form))
    assert found.name == f"{tmp_path}/b.tar:{name}"
    assert contents(found) == (LOG, "")


def test_compressed_members_and_rotated_sets_in_a_bundle(tmp_path: Path) -> None:
    one, two = LOG.split(b"\n", 1)
    data = {"vllm.log": two, "vllm.log.1.gz": gzip.compress(one + b"\n")}
    for name, pack in (("b.tar.gz", lambda d: gzip.compress(tarred(d))), ("b.zip", zipped)):
        found = opened(tmp_path / name, pack(data))
        report = diagnose(found, rulebook=steam())
        assert [i.name for i in report.inputs] == [
            f"{tmp_path}/{name}:vllm.log.1.gz",
            f"{tmp_path}/{name}:vllm.log",
        ]
        assert (report.diagnoses[0].source, report.diagnoses[0].line) == (f"{tmp_path}/{name}:vllm.log", 1)


@pytest.mark.parametrize(
    "name", ["../../etc/cron.log", "/root/x.log", "./a.log", "C:\\x.log", "a\x1b[31m\n.log"]
)
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_a_members_name_is_only_a_name(pack: Callable[..., bytes], name: str, tmp_path: Path) -> None:
    (found,) = opened(tmp_path / "b", pack({name: LOG}))
    assert contents(found) == (LOG, "")
    assert "\x1b" not in found.name
    assert "\n" not in found.name
    assert [p.name for p in tmp_path.iterdir()] == ["b"]


def test_links_and_folders_in_a_tar_have_no_content(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo(f"{kind.decode()}.log")
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        info = tarfile.TarInfo("a.log")
        info.size = len(LOG)
        tar.addfile(info, io.BytesIO(LOG))
    (found,) = opened(tmp_path / "b.tar", out.getvalue())
    assert contents(found) == (LOG, "")


# ---- damaged and hostile ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [tarred, zipped])
def test_a_member_whose_name_says_nothing_is_judged_by_what_it_says(
    pack: Callable[..., bytes], tmp_path: Path
) -> None:
    server = b"starting\n" * 9 + b"INFO 09-14 07:40:02 [api_server.py:9] vLLM API server\n"
    found = opened(tmp_path / "b", pack({"server.txt": server, "notes.txt": b"buy milk\n" * 99}))
    assert [source.name for source in found] == [f"{tmp_path}/b:server.txt"]


def test_a_bundle_without_a_log_says_so(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(zipped({"a.png": b"x", "b.zip": zipped(FILES)}))
    found, problems = sources([str(path)], io.BytesIO())
    assert found == []
    assert "is a bundle without a file that looks like a log" in problems[0]


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(zipped(FILES)[:-40])
    assert "is a damaged zip file" in sources([str(path)], io.BytesIO())[1][0]


def test_an_encrypted_member_is_named(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.log": LOG}))
    data[6] |= 1  # the flag in the member's header, and in the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    report = diagnose(opened(tmp_path / "b.zip", bytes(data)), rulebook=steam())
    assert report.inputs[0].gaps[0].what == "could not be read: is encrypted"


@pytest.mark.parametrize("cut", [600, 1500, 3000])
def test_a_cut_off_tar_gives_what_it_holds(cut: int, tmp_path: Path) -> None:
    found = opened(tmp_path / "b.tar", tarred({"a.log": LOG * 3, "b.log": LOG * 3})[:cut])
    data = contents(found[0])[0]
    assert data
    assert (LOG * 3).startswith(data)
    if len(data) < len(LOG * 3):
        assert contents(found[0])[1] == "the bundle is cut off"


def test_a_header_of_any_size_is_not_held_in_memory(tmp_path: Path) -> None:
    data = bytearray(tarred({LONG: LOG}, tarfile.GNU_FORMAT))
    data[124:136] = b"77777777777\x00"  # 8 GiB of a name
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\x00 " % sum(data[:512])
    path = tmp_path / "b.tar"
    path.write_bytes(bytes(data))
    assert sources([str(path)], io.BytesIO())[0] == []


def test_the_directory_of_a_zip_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opens: list[tuple[object, ...]] = []
    real = zipfile.ZipFile
    monkeypatch.setattr(zipfile, "ZipFile", lambda *given: opens.append(given) or real(*given))
    found = opened(tmp_path / "b.zip", zipped({f"{n}.log": LOG for n in range(20)}))
    assert [contents(source) for source in found] == [(LOG, "")] * 20
    assert len([given for given in opens if given[0] == str(tmp_path / "b.zip")]) == 1


def test_an_empty_zip_file_holds_no_log(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(zipped({}))
    assert "without a file that looks like a log" in sources([str(path)], io.BytesIO())[1][0]


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_bomb_is_left(method: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "BOMB_SIZE", 1 << 20)
    (found,) = opened(tmp_path / "b.zip", zipped({"a.log": b"INFO\n" * (4 << 20)}, method))
    blocks = Blocks(found.open())
    for _ in blocks.bulk():
        pass
    assert "inflates more than" in blocks.error
    assert blocks.bytes < 20 << 20


@pytest.mark.parametrize("pack", [zipped, tarred, lambda d: gzip.compress(tarred(d))])
def test_random_damage_raises_nothing(pack: Callable[..., bytes], tmp_path: Path) -> None:
    whole = pack(FILES)
    chance = random.Random(7)
    path = tmp_path / "b"
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 20)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(bytes(data[: chance.randint(1, len(data))] if chance.random() < 0.3 else data))
        found, _ = sources([str(path)], io.BytesIO())
        diagnose(found, rulebook=steam())
