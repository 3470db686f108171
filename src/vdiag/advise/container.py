"""Prints what a container is given (shared memory, cards, limits) in the form the server is run.

A rule says it once, by docker compose's names (`shm_size`, `memory`, `ulimits` …). Where a form has no such
setting nothing is printed; a fix that has nothing else is then not offered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

KEYS = (
    "gpus", "shm_size", "ipc", "memory", "pids_limit", "network", "ulimits",
    "cap_add", "devices", "volumes", "security_opt",
)  # fmt: skip
_FLAGS = {"network": "network", "devices": "device", "volumes": "volume", "memory": "memory"}
_IN_UNIT = {"memory": "MemoryMax", "pids_limit": "TasksMax"}
_LIMITS = {"memlock": "LimitMEMLOCK", "nofile": "LimitNOFILE", "stack": "LimitSTACK", "nproc": "LimitNPROC"}


def docker(given: Mapping[str, Any]) -> list[str]:
    """Options of `docker run`."""
    options = []
    for key, value in given.items():
        flag = "--" + _FLAGS.get(key, key).replace("_", "-")
        if key == "gpus":
            options.append(f"--gpus {value}")
        elif key == "ulimits":
            options += [f"--ulimit {name}={limit}" for name, limit in value.items()]
        elif isinstance(value, list):
            options += [f"{'-v' if key == 'volumes' else flag} {item}" for item in value]
        else:
            options.append(f"{flag}={value}")
    return options


def compose(given: Mapping[str, Any]) -> list[str]:
    """Rows of a service in a compose file."""
    rows: list[str] = []
    for key, value in given.items():
        if key == "gpus":
            rows += [
                "deploy:", "  resources:", "    reservations:", "      devices:", "        - driver: nvidia",
                f"          count: {value}", "          capabilities: [gpu]",
            ]  # fmt: skip
        elif key == "memory":
            rows.append(f"mem_limit: {value}")
        elif key == "network":
            rows.append(f"network_mode: {value}")
        elif isinstance(value, dict):
            rows += [f"{key}:", *(f"  {name}: {_scalar(item)}" for name, item in value.items())]
        elif isinstance(value, list):
            rows += [f"{key}:", *(f"  - {_scalar(item)}" for item in value)]
        else:
            rows.append(f"{key}: {_scalar(value)}")
    return rows


def kubernetes(given: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(rows of the container, rows of the pod's spec) in a manifest."""
    container: list[str] = []
    pod: list[str] = []
    limits: list[str] = []
    if "gpus" in given:
        cards = 1 if given["gpus"] == "all" else given["gpus"]
        limits.append(f"    nvidia.com/gpu: {cards}{'  # as many as it is to use' if cards == 1 else ''}")
    if "memory" in given:
        limits.append(f"    memory: {_in_kubernetes(given['memory'])}")
    if limits:
        container += ["resources:", "  limits:", *limits]
    mounts: list[str] = []
    volumes: list[str] = []
    if "shm_size" in given or given.get("ipc") == "host":
        size = _in_kubernetes(given.get("shm_size", "8g"))
        mounts += ["  - name: shm", "    mountPath: /dev/shm"]
        volumes += ["  - name: shm", "    emptyDir:", "      medium: Memory", f"      sizeLimit: {size}"]
    for volume in given.get("volumes", ()):
        mounts += ["  - name: files", f"    mountPath: {json.dumps(volume.split(':')[1])}"]
        mounts += ["    readOnly: true"] if volume.endswith(":ro") else []
        volumes += ["  - name: files", "    persistentVolumeClaim:", "      claimName: <claim>"]
    if mounts:
        container += ["volumeMounts:", *mounts]
        pod += ["volumes:", *volumes]
    if "cap_add" in given:
        container += ["securityContext:", "  capabilities:", f"    add: [{', '.join(given['cap_add'])}]"]
    if given.get("network") == "host":
        pod += ["hostNetwork: true", "dnsPolicy: ClusterFirstWithHostNet"]
    return container, pod


def unit(given: Mapping[str, Any]) -> list[str]:
    """Rows of a unit's [Service] section."""
    rows = [f"{_IN_UNIT[key]}={_unlimited(value)}" for key, value in given.items() if key in _IN_UNIT]
    ulimits: dict[str, Any] = given.get("ulimits", {})
    return rows + [
        f"{_LIMITS[name]}={_unlimited(limit)}" for name, limit in ulimits.items() if name in _LIMITS
    ]


def _unlimited(value: Any) -> str:
    text = str(value)
    return "infinity" if text == "-1" else re.sub(r"(?<=[\d>])g$", "G", text)


def _in_kubernetes(value: Any) -> str:
    return re.sub(r"(?<=[\d>])g$", "Gi", str(value))


def _scalar(value: Any) -> str:
    """A YAML scalar; quoted only where YAML would read something else."""
    text = str(value)
    return (
        text
        if re.fullmatch(r"-?\d+|[A-Za-z0-9/~<][\w ./~<>=:@-]*", text) and ": " not in text
        else json.dumps(text)
    )
