"""Which files of a folder or bundle are logs: by name and first bytes, of a bounded number and size.

A person points at the folder they have; it may hold a model, a virtual environment, or gigabytes of other logs.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, cast

from vdiag.intake.asks import ABOUT
from vdiag.intake.blocks import looks_binary
from vdiag.intake.compressed import decompressed
from vdiag.model import Gap

MOST_FILES = 64  # read of one folder or bundle
MOST_BYTES = 4 << 30  # of all of them together, as they lie there
MOST_ENTRIES = 20_000  # looked at
DEEPEST = 8  # folders under the one that was named
NAMED = 8  # names listed of what was left out
TOO_MUCH = "because it holds too much to read at once"
HEAD = 4096  # bytes by which a file is judged

_SKIPPED_FOLDERS = {
    ".git", "__pycache__", "node_modules", "site-packages", "dist-packages", ".venv", "venv", ".cache",
}  # fmt: skip
_LOG_NAME = re.compile(
    r"(?:^|[./_-])(?:[\w-]*log|logs|syslog|messages|dmesg|journal(?:ctl)?|kern(?:el)?|stdout|stderr|console|nohup"
    r"|inspect|describe|events?)"
    r"(?:$|[._-])|\.(?:out|err|stdout|stderr|jsonl|ndjson|trace)(?:$|[.-]\d)",
    re.IGNORECASE,
)
_OTHER_NAME = re.compile(
    r"\.(?:py|pyc|pyi|so|c|cc|cpp|cu|h|hpp|sh|md|rst|html?|css|js|ya?ml|toml|cfg|ini|conf|lock|safetensors|bin|pt|pth|"
    r"gguf|onnx|png|jpe?g|gif|svg|pdf|whl|jar|zip|tar|tgz|7z|rar|service|journal|csv|parquet|sqlite|db|pid|sock|env)$"
    r"|(?:^|/)(?:requirements|constraints|license|copying|readme|notice|changelog|vocab|merges)[^/]*$",
    re.IGNORECASE,
)
_LACKING = re.compile(r"^- ((?:journal|log of|kernel)\b.{1,200}?) \(by hand: .*\)$", re.MULTILINE)
_PACKED = re.compile(r"\.(?:gz|xz|bz2|zst|zstd)$", re.IGNORECASE)
_SPEAKS = re.compile(rb"\d\d:\d\d:\d\d|Traceback \(most|\b(?:ERROR|WARNING|INFO|Error)\b")


_JSON_LOG = re.compile(  # an entry a line, or a list of Google Cloud's or CloudWatch's entries; no configuration
    rb"\{[^\n]*\"(?:__REALTIME_TIMESTAMP|@?timestamp|time|ts|date)\"\s*:|[\s\S]*\"(?:textPayload|logStreamName)\"\s*:"
)


class Entry(NamedTuple):
    """A file that may be a log."""

    name: str  # as people find it: the path, or `bundle.zip:path/in/it`
    size: int  # bytes as it lies there
    open: Callable[[], BinaryIO]
    changed: float = 0.0  # when it was written last; only the order counts


class Choice(NamedTuple):
    """What of a folder is read, and what is said of the rest."""

    entries: list[Entry]
    gaps: list[Gap]


def choose(
    entries: Iterator[Entry], of: str, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES
) -> Choice:
    """The logs among the entries, of too many those written last. `of` names the folder or bundle in what is said."""
    logs: list[Entry] = []
    other: list[str] = []
    missing: list[Gap] = []
    unseen = False
    for seen, entry in enumerate(entries):
        unseen = seen == MOST_ENTRIES
        if unseen:
            break
        if is_log(entry):
            logs.append(entry)
        elif entry.name.endswith(f"/{ABOUT}"):
            missing += _lacking(entry)
        else:
            other.append(entry.name)
    taken: set[int] = set()
    total = 0
    for i in sorted(range(len(logs)), key=lambda i: -logs[i].changed):
        if len(taken) < most_files and total + logs[i].size <= most_bytes:
            taken.add(i)
            total += logs[i].size
    kept = [entry for i, entry in enumerate(logs) if i in taken]
    beyond = [entry.name for i, entry in enumerate(logs) if i not in taken]
    beyond += ["what comes after the first files"] if unseen else []
    gaps = missing
    if beyond:
        gaps.append(
            Gap(what=f"left out of {of}, {TOO_MUCH}: {_listed(beyond, of)}",
                command=f"vdiag {shlex.quote(beyond[0])}" if os.path.isfile(beyond[0]) else "")
        )  # fmt: skip
    if other and kept:
        gaps.append(Gap(what=f"left out of {of}, because they do not look like logs: {_listed(other, of)}"))
    return Choice(kept, gaps)


def _lacking(entry: Entry) -> list[Gap]:
    """The logs that `vdiag collect` could not get, by its own remarks. Their commands are not passed on.

    The file comes from another machine, and what is printed as a command gets typed.
    """
    try:
        told = _head(entry).decode("utf8", "replace")
    except Exception:  # what can't be read says nothing
        return []
    return [Gap(what=f"was not collected: {found[1]}") for found in _LACKING.finditer(told)][:NAMED]


def is_log(entry: Entry) -> bool:
    """Whether a file is a log, by its name where that says so, else by its first bytes."""
    name = _PACKED.sub("", entry.name)
    short = name.replace("\\", "/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    if not entry.size or _OTHER_NAME.search(short):
        return False
    named = _LOG_NAME.search(short) is not None
    try:
        head = _head(entry)
    except Exception:  # what can't be read is told when it is read, if its name says that it is a log
        return named
    if short.endswith(".json") and not named and not _JSON_LOG.match(head):
        return False
    return not looks_binary(head) and (named or _SPEAKS.search(head) is not None)


def _head(entry: Entry) -> bytes:
    """The first bytes of a file, decompressed; a stream may give them in small pieces."""
    stream = decompressed(entry.open(), entry.name)
    head = b""
    try:
        while len(head) < HEAD and (piece := stream.read(HEAD - len(head))):
            head += piece
    except Exception:  # damaged further on, which is told when it is read
        if not head:
            raise
    finally:
        stream.close()
    return head


def walk(folder: str, lost: list[OSError], deepest: int = DEEPEST) -> Iterator[Entry]:
    """The files of a folder and those under it, in the order of their names. Links to folders are not followed.

    A file that is there under two names (a link) comes once. Folders that cannot be read or lie too deep, and links
    that lead nowhere, are added to `lost`.
    """
    known: set[tuple[int, int]] = set()
    links: list[tuple[Entry, tuple[int, int]]] = []  # to files that should come by their own names
    for at, folders, files in os.walk(folder, onerror=lost.append):
        depth = at[len(folder) :].count(os.sep)
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
        if depth >= deepest:
            lost += [
                OSError(None, f"lies more than {deepest} folders deep", os.path.join(at, f)) for f in folders
            ]
            folders.clear()
        for file in sorted(files):
            path = os.path.join(at, file)
            try:
                info = os.stat(path)
            except OSError as error:
                if os.path.islink(path):
                    lost.append(error)
                continue
            if not stat.S_ISREG(info.st_mode) or (info.st_dev, info.st_ino) in known:
                continue
            entry = Entry(path, info.st_size, _opener(path), info.st_mtime)
            if os.path.islink(path) and _leads_into(path, folder):
                links.append((entry, (info.st_dev, info.st_ino)))
                continue
            known.add((info.st_dev, info.st_ino))
            yield entry
    for entry, identity in links:
        if identity not in known:
            known.add(identity)
            yield entry


def _leads_into(link: str, folder: str) -> bool:
    """Whether a link names a file below a folder, as those of /var/log/containers do in /var/log."""
    target = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(link)), os.readlink(link)))
    return target.startswith(os.path.abspath(folder) + os.sep)


def _opener(path: str) -> Callable[[], BinaryIO]:
    return lambda: cast(BinaryIO, open(path, "rb", buffering=0))


def _listed(names: list[str], of: str) -> str:
    shown = ", ".join(name.removeprefix(of).lstrip("/:") for name in names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"
