"""A release of vLLM as it lies around: a wheel, an sdist, a checkout or a site-packages folder; its version and texts.

Archives are read where they are: nothing is unpacked, written or imported.
"""

from __future__ import annotations

import gc
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import msgspec

from vdiag.rulebook.messages import Message, read_module

MAX_BYTES = 8 << 20  # of one module; vLLM's largest has a tenth of that
PACKAGE = "vllm"
#: Not run by a server, or code of others with checks of their own.
SKIPPED = ("vllm/benchmarks/", "vllm/third_party/", "vllm/vllm_flash_attn/")

_VERSION = re.compile(
    r"^(?:__version__ = )?(?:version = )?['\"](\d+\.\d+[\w.+]*)['\"]|^__version__.*?['\"](\d[\w.+]*)['\"]",
    re.M,
)
_METADATA = re.compile(r"^Version: (\S+)", re.M)
_NAMED = re.compile(r"vllm-(\d+(?:\.\d+)*(?:\.?(?:post|rc|a|b|dev)\d+)?)")
_ANYWHERE = re.compile(r"(?<![\w.])v?(\d+\.\d+(?:\.\d+)*(?:\.?(?:post|rc)\d+)?)(?![\w])")


class SourceError(Exception):
    """A path that holds no vLLM; the text says what was expected."""


class Source(msgspec.Struct):
    """What one release says."""

    name: str
    version: str  # empty: not found
    files: int = 0
    names: set[str] = set()  # of all its files, without folders
    unread: list[str] = []  # files that are no Python this interpreter reads
    messages: list[Message] = []
    mute: int = 0
    squeezed: str = ""  # every string literal without white space, for a look whether a text is anywhere here


def read_source(path: Path, progress: Callable[[int], None] | None = None) -> Source:
    """The messages of the vLLM under `path`. SourceError if there is none, or it cannot be read.

    `progress` is called with the number of files read so far.
    """
    source = Source(str(path), "")
    texts: list[str] = []
    collecting = gc.isenabled()
    gc.disable()  # syntax trees are many small objects that all live; collecting them takes longer than parsing
    try:
        for name, data in _members(path):
            if not name.endswith(".py"):
                source.version = _version(name, data) or source.version  # surer than what a checkout made up
                continue
            if name in (f"{PACKAGE}/_version.py", f"{PACKAGE}/version.py"):
                source.version = source.version or _version(name, data)
            if name.startswith(SKIPPED) or len(data) > MAX_BYTES:
                continue
            _module(source, texts, name, data)
            if progress is not None:
                progress(source.files)
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as fault:
        raise SourceError(f"{path} cannot be read: {fault}") from None
    finally:
        if collecting:
            gc.enable()
    if not source.files:
        raise SourceError(
            f"{path} holds no `{PACKAGE}` package: give a wheel, an sdist, a checkout or site-packages"
        )
    if not source.version:
        found = _NAMED.search(path.name) or _ANYWHERE.search(path.name) or _ANYWHERE.search(path.parent.name)
        source.version = found[1] if found else ""
    source.squeezed = "\n".join(texts)
    return source


def _module(source: Source, texts: list[str], name: str, data: bytes) -> None:
    try:
        found = read_module(data.decode("utf-8-sig"), name)
    except (SyntaxError, ValueError, RecursionError):
        source.unread.append(name)
        return
    source.files += 1
    source.names.add(name.rpartition("/")[2])
    source.messages += found.messages
    source.mute += found.mute
    texts += ["".join(text.split()) for text in found.others]


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """(`vllm/…` or a metadata file's name, content) of what matters under a path, in the order of names."""
    if path.is_dir():
        yield from _of_folder(path)
    elif not path.exists():
        raise SourceError(f"{path} does not exist")
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in sorted(archive.infolist(), key=lambda info: info.filename):
                name = _wanted(info.filename)
                if name and info.file_size <= MAX_BYTES:
                    yield name, archive.read(info)
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            for member in archive:
                name = _wanted(member.name)
                if name and member.isfile() and member.size <= MAX_BYTES:
                    held = archive.extractfile(member)
                    yield name, held.read() if held else b""
    else:
        raise SourceError(f"{path} is no wheel, sdist or folder")


def _of_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    root = path.parent if path.name == PACKAGE and (path / "__init__.py").exists() else path
    if not (root / PACKAGE).is_dir() and (root / "src" / PACKAGE).is_dir():
        root = root / "src"
    for metadata in sorted(root.glob(f"{PACKAGE}-*.dist-info/METADATA")):
        yield "METADATA", metadata.read_bytes()
    for file in sorted((root / PACKAGE).rglob("*.py")):
        yield file.relative_to(root).as_posix(), file.read_bytes()


def _wanted(name: str) -> str:
    """A member's name from `vllm/` on; an sdist has one folder above it. Empty: not wanted."""
    parts = PurePosixPath(name).parts
    for start in (0, 1, 2):
        if parts[start : start + 1] == (PACKAGE,) and name.endswith(".py"):
            return "/".join(parts[start:])
    if parts[-1:] == ("METADATA",) and parts[0].startswith(f"{PACKAGE}-"):
        return "METADATA"
    return "PKG-INFO" if parts[1:] == ("PKG-INFO",) else ""


def _version(name: str, data: bytes) -> str:
    text = data[:20_000].decode("utf-8", "replace")
    found = _METADATA.search(text) if name in ("METADATA", "PKG-INFO") else _VERSION.search(text)
    return next(filter(None, found.groups()), "") if found else ""
