"""Who wrote a line, by what a log collector adds to its JSON: Fluent Bit, Vector, Loki, Google Cloud, CloudWatch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_HOLDERS = ("kubernetes", "labels", "stream", "metadata", "resource", "agent", "docker")
_HOSTS = ("host", "hostname", "node_name", "node", "pod_node_name", "instance_id")
_PODS = ("pod_name", "pod")
_CONTAINERS = ("container_name", "container")
_STREAMS = ("logStreamName", "log_stream")


def speaker(value: dict[str, Any]) -> tuple[str, str]:
    """Host and unit (pod with its container, a container, or a log stream); empty where the entry does not tell."""
    places = [value, *_inner(value)]
    pod, container = _first(places, _PODS), _first(places, _CONTAINERS).lstrip("/")
    unit = "/".join(filter(None, (pod, container))) or _first(places, _STREAMS)
    return _first(places, _HOSTS), unit


def _inner(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in _HOLDERS:
        held = value.get(name)
        if isinstance(held, dict):
            yield held
            if isinstance(held.get("labels"), dict):
                yield held["labels"]


def _first(places: list[dict[str, Any]], names: tuple[str, ...]) -> str:
    """The first of these names that has a short text."""
    told = (place.get(name) for place in places for name in names)
    return next((text for text in told if isinstance(text, str) and 0 < len(text) <= 253), "")
