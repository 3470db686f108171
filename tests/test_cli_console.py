"""The console: colour and width by the environment."""

import io

import pytest

from vdiag.cli.console import Console


def console(*, terminal: bool = True, **env: str) -> Console:
    return Console(io.BytesIO(), io.StringIO(), io.StringIO(), env, stdout_is_terminal=terminal)


@pytest.mark.parametrize(
    ("env", "terminal", "choice", "colored"),
    [
        ({}, True, "auto", True),
        ({}, False, "auto", False),
        ({"NO_COLOR": "1"}, True, "auto", False),
        ({"NO_COLOR": ""}, True, "auto", True),
        ({"CLICOLOR_FORCE": "1"}, False, "auto", True),
        ({"CLICOLOR_FORCE": "0"}, False, "auto", False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, True, "auto", False),
        ({"CLICOLOR": "0"}, True, "auto", False),
        ({"TERM": "dumb"}, True, "auto", False),
        ({"NO_COLOR": "1"}, False, "always", True),
        ({"CLICOLOR_FORCE": "1"}, True, "never", False),
    ],
)
def test_colour(env: dict[str, str], terminal: bool, choice: str, colored: bool) -> None:
    assert console(terminal=terminal, **env).colored(choice) is colored


def test_width() -> None:
    assert console(COLUMNS="132").columns == 132
    assert console(COLUMNS="wide").columns == 80
    assert console(terminal=False).columns == 80


def test_messages_are_harmless() -> None:
    world = console()
    world.say("no such file: \x1b[2J")
    assert world.stderr.getvalue() == "vdiag: no such file: \\x1b[2J\n"  # type: ignore[attr-defined]
