"""Containers that could not be read: the reason in brief, and what to type."""

from __future__ import annotations

import pytest

from vdiag.cli.refusals import brief, retell
from vdiag.intake.fetch import Fetched

DOWN = "docker: Cannot connect to the Docker daemon at unix:///run/d.sock. Is the docker daemon running?"


@pytest.mark.parametrize(
    ("problem", "first", "command"),
    [
        (
            f"srv: {DOWN}; podman is not installed",
            "srv: docker: Cannot connect to the Docker daemon at unix:///run/d.sock; podman is not installed",
            "docker logs --timestamps srv 2>&1 | vdiag",
        ),
        (
            "srv: docker is not installed; podman: permission denied",
            "srv: docker is not installed; podman: permission denied",
            "sudo podman logs --timestamps srv 2>&1 | vdiag",
        ),
        (
            "srv: docker: Error: No such container: srv; podman is not installed",
            "srv: docker: Error: No such container: srv; podman is not installed",
            "docker ps --all",
        ),
        (
            "srv: docker is not installed; podman is not installed",
            "srv: docker is not installed; podman is not installed",
            "docker logs --timestamps srv 2>&1 | vdiag",
        ),
    ],
)
def test_a_container_that_cannot_be_read_comes_with_a_command(problem: str, first: str, command: str) -> None:
    fetched = Fetched(problems=[problem])
    retell(fetched, ["other", "srv"])
    rows = fetched.problems[0].split("\n")
    assert rows[0] == first
    assert f"    {command}" in rows


def test_other_problems_stay_and_long_reasons_are_cut() -> None:
    fetched = Fetched(
        problems=["something else"],
        notes=[
            "systemctl could not say when vllm started (No bus (PID 1). It is down): the whole boot is read"
        ],
    )
    retell(fetched, ["srv"])
    assert fetched.problems == ["something else"]
    assert fetched.notes == [
        "systemctl could not say when vllm started (No bus (PID 1)): the whole boot is read"
    ]
    assert len(brief("word " * 100)) <= 100
