"""From what a person names (files, folders, patterns, URLs) to tasks: a log, what belongs to it, or a bundle."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vdiag.fleet.names import named
from vdiag.fleet.remote import RemoteError, is_url, objects
from vdiag.fleet.sets import sets
from vdiag.fleet.task import Task
from vdiag.fleet.texts import valid
from vdiag.intake.folders import is_log, walk

BUNDLE = re.compile(r"\.(?:zip|tar|tgz|txz|tbz2?|tar\.(?:gz|xz|bz2|zstd?))$", re.IGNORECASE)
_NO_LOG = re.compile(
    r"\.(?:py|sh|md|html?|css|js|ya?ml|toml|cfg|ini|conf|safetensors|bin|pt|png|jpe?g|pdf|whl|jar|parquet|db)$",
    re.IGNORECASE,
)
DEEPEST = 200  # folders under the one that was named


NAMED = 3  # names listed of what was left out


class File(NamedTuple):
    """One file as it was found."""

    path: str
    size: int
    changed: float  # seconds since 1970; 0: unknown
    mark: str  # changes when the content does


class Found(NamedTuple):
    """What the names on a command line came to."""

    tasks: list[Task]
    files: dict[str, File]  # by path
    problems: list[str]  # what the call is to blame for
    lost: list[str]  # folders and links that cannot be read
    left: list[str]  # files in the folders that do not look like logs


def find(paths: Sequence[str], name: re.Pattern[str] | None = None) -> Found:
    """The tasks that these paths name, in their order; what is named twice is read once."""
    files: dict[str, File] = {}
    known: set[tuple[int, int]] = set()
    problems: list[str] = []
    lost: list[str] = []
    left: list[str] = []
    for path in paths:
        try:
            came = False
            for file, identity in _files(path, lost, left):
                came = True
                if identity is not None:
                    if identity in known:
                        continue
                    known.add(identity)
                files.setdefault(file.path, file)
            if not came:
                problems.append(f"{path}: no log in it{f' ({left_out(left)})' if left else ''}")
        except RemoteError as error:
            problems.append(f"{path}: {error}")
        except OSError as error:
            problems.append(f"{path}: {error.strerror or error}")
    names = list(files)
    tasks: list[Task] = []
    for group in sets(names):
        members = [files[names[i]] for i in group]
        newest = valid(members[-1].path)
        own = named(newest, name)
        tasks.append(
            Task(
                newest,
                tuple(file.path for file in members),
                own.node,
                own.replica,
                sum(file.size for file in members),
                max(file.changed for file in members),
            )
        )
    return Found(tasks, files, problems, lost, left)


def left_out(left: Sequence[str]) -> str:
    """What is said of files that do not look like logs."""
    shown = ", ".join(left[:NAMED]) + (f" and {len(left) - NAMED} more" if len(left) > NAMED else "")
    return f"left out, because {'it does' if len(left) == 1 else 'they do'} not look like logs: {shown}"


_Identified = tuple[File, "tuple[int, int] | None"]


def _files(path: str, lost: list[str], left: list[str]) -> Iterator[_Identified]:
    if is_url(path) and ("://" in path or not os.path.lexists(path)):
        whole = any(sign in path for sign in "*?[")
        for found in objects(path):
            if found.url == path or whole or not _NO_LOG.search(found.url.split("::")[0]):
                yield File(found.url, found.size, found.changed, found.mark), None
        return
    if not os.path.lexists(path) and any(sign in path for sign in "*?["):
        fitting = sorted(_fitting(path))
        if not fitting:
            raise FileNotFoundError(2, "no file fits this pattern", path)
        for one in fitting:
            yield from _local(one)
        return
    info = os.stat(path)
    if not stat.S_ISDIR(info.st_mode):
        if not stat.S_ISREG(info.st_mode):
            raise OSError(None, "is no file")
        yield from _local(path)
        return
    os.scandir(path).close()
    unread: list[OSError] = []
    for entry in walk(path, unread, DEEPEST):
        if BUNDLE.search(entry.name) or is_log(entry):
            yield from _local(entry.name)
        elif entry.size:
            left.append(entry.name)
    lost += [f"{error.filename}: {error.strerror}" for error in unread]


def _local(path: str) -> Iterator[_Identified]:
    """A file, unless it has gone since it was listed, or is none."""
    try:
        info = os.stat(path)
    except OSError:
        return
    if stat.S_ISREG(info.st_mode):
        mark = f"{info.st_dev}:{info.st_ino}:{info.st_mtime_ns}"
        name = (
            os.path.join(os.curdir, path) if is_url(path) else path
        )  # `ab::c.log` is no URL, if it lies here
        yield File(name, info.st_size, info.st_mtime, mark), (info.st_dev, info.st_ino)


def _fitting(pattern: str) -> set[str]:
    """The paths that fit a pattern. `**` stands for folders, not for links to them, which may lead in a circle."""
    parts = pattern.split(os.sep)
    if "**" not in parts:
        return set(glob.glob(pattern))
    at = parts.index("**")
    head, tail = "".join(part + os.sep for part in parts[:at]), os.sep.join(parts[at + 1 :]) or "*"
    found: set[str] = set()
    for top in glob.glob(head) if head else [os.curdir]:
        for folder, folders, _ in os.walk(top):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found |= _fitting(os.path.join(glob.escape(folder), tail))
    return found if head else {path.removeprefix(os.path.join(os.curdir, "")) for path in found}
