"""Which node and which replica a log is of, by its path.

A part of the path that says so counts first (`host=gpu-7`, `node-17`), then the forms that Kubernetes gives its log
files, then a folder around files that are all called alike (`gpu-7/vllm.log`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ENDINGS = re.compile(
    r"(?:\.(?:log|txt|out|err|jsonl?|ndjson|journal|gz|xz|bz2|zstd?|zip|tar|tgz|txz)|[.-]\d{4}-?\d\d-?\d\d[\d_T-]*|\.\d{1,4})+$",
    re.IGNORECASE,
)
_GIVEN = re.compile(
    r"(?:^|[/,;_&])(node|host|hostname|machine|pod|replica|instance)=([^/,;&]+)", re.IGNORECASE
)
_IS_NODE = {"node", "host", "hostname", "machine"}
_NODE = re.compile(
    r"(?:node|host|machine|server|gpu|worker|ip)[-_.]?\d[\w.-]*|[\w-]*(?:node|host|gpu)[-_]?\d+[\w.-]*"
    r"|\d{1,3}(?:\.\d{1,3}){3}|ip(?:-\d{1,3}){4}[\w.-]*|[\w-]+(?:\.[\w-]+)*\.(?:internal|local|lan|cluster)",
    re.IGNORECASE,
)
# kubelet's /var/log/pods/NAMESPACE_POD_UID/CONTAINER/0.log and /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
_POD_FOLDER = re.compile(
    r"(?P<space>[a-z0-9.-]+)_(?P<pod>[a-z0-9.-]+)_(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$"
)
_POD_FILE = re.compile(
    r"(?P<pod>[a-z0-9.-]+)_(?P<space>[a-z0-9.-]+)_(?P<container>[a-z0-9.-]+)-[0-9a-f]{64}$"
)
_GENERIC = re.compile(
    r"(?:vllm|server|serve|service|engine|api|app|main|container|std(?:out|err)|output|out|err(?:or)?|log|logs|console"
    r"|journal|syslog|messages|kern(?:el)?|dmesg|current|previous|nohup|bundle|\d{1,4})$",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"\d{4}[-_]?\d\d(?:[-_]?\d\d)?|\d\d|logs?|var|tmp|srv|data|home|archive|backup", re.IGNORECASE
)


class Named(NamedTuple):
    """Empty where the path does not say it."""

    node: str = ""
    replica: str = ""


def pattern(text: str) -> re.Pattern[str]:
    """The pattern of `--name`; ValueError where it is none, or names neither node nor replica."""
    try:
        made = re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if not {"node", "replica"} & set(made.groupindex):
        raise ValueError("it has no group (?P<node>…) or (?P<replica>…)")
    return made


def is_generic(name: str) -> bool:
    """Whether a name such as `vllm` or `stdout` tells nothing apart."""
    return _GENERIC.match(name) is not None


def named(path: str, given: re.Pattern[str] | None = None) -> Named:
    """Node and replica of a path or URL; what `given` finds comes first."""
    inner, _, outer = path.replace("\\", "/").partition(
        "::"
    )  # a chain of URLs: what is in a bundle, and where that is
    own = _by_form(inner)
    if not own.node and outer:
        own = own._replace(node=_by_form(outer).node)
    if given is not None and (found := given.search(path)):
        groups = {name: value for name, value in found.groupdict().items() if value}
        return Named(groups.get("node", own.node), groups.get("replica", own.replica))
    return own


def _by_form(path: str) -> Named:
    told = {key.lower(): _ENDINGS.sub("", value) for key, value in _GIVEN.findall(path)}
    node = next((value for key, value in told.items() if key in _IS_NODE), "")
    replica = next((value for key, value in told.items() if key not in _IS_NODE), "")
    parts = [part for part in path.split("://")[-1].split("/") if part not in ("", ".", "..")]
    if not parts:
        return Named(node, replica)
    stem = _ENDINGS.sub("", parts[-1])
    folders = parts[:-1]
    if not node:
        node = next((part for part in reversed(folders) if _NODE.fullmatch(part)), "")
    if pod := _POD_FILE.match(stem):
        return Named(node, replica or f"{pod['space']}/{pod['pod']}/{pod['container']}")
    for at, part in enumerate(folders):
        if pod := _POD_FOLDER.match(part):
            container = folders[at + 1] if at + 1 < len(folders) else ""
            return Named(node, replica or "/".join(filter(None, (pod["space"], pod["pod"], container))))
    if not node and _NODE.fullmatch(stem):
        node = stem
    if not replica:
        replica = stem
        if _GENERIC.match(stem) and folders and not _DATE.fullmatch(folders[-1]) and "=" not in folders[-1]:
            replica = folders[-1] if folders[-1] == node else f"{folders[-1]}/{stem}"
            replica = f"{node}/{stem}" if folders[-1] == node else replica
    return Named(node, replica)
