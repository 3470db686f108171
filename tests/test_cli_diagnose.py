"""The command line, without a subprocess: what is read, what is printed, what the exit status says."""

import io
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vdiag.cli import run
from vdiag.cli.console import Console
from vdiag.cli.status import ExitStatus, status_of
from vdiag.model import Diagnosis, Environment, Evidence, Fix, Gap, Input, Report, Severity, Verdict


class World:
    """A console whose streams are memory, and a run of vdiag in it."""

    def __init__(self, stdin: bytes = b"", *, terminal: bool = False, **env: str) -> None:
        self.out, self.err = io.BytesIO(), io.StringIO()
        self.console = Console(
            io.BytesIO(stdin), io.TextIOWrapper(self.out, "utf-8"), self.err, env,
            stdin_is_terminal=terminal, stdout_is_terminal=terminal, stderr_is_terminal=terminal,
        )  # fmt: skip

    def run(self, *arguments: str) -> int:
        return run(arguments, self.console)

    @property
    def printed(self) -> str:
        return self.out.getvalue().decode()


def report(verdict: Verdict = Verdict.DIAGNOSED, severity: Severity = Severity.FATAL) -> Report:
    diagnoses = [
        Diagnosis("kv", "It broke", 0.95, severity, "x.log", 1, "", evidence=[Evidence("x.log", 1, "", "E: x")],
                  fixes=[Fix(do="Mend it")])
    ]  # fmt: skip
    has = verdict not in (Verdict.HEALTHY, Verdict.EMPTY, Verdict.STARTING)
    return Report("vdiag.report/1", "0", verdict, [Input("x.log")], Environment(), diagnoses if has else [])


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """In place of the real one: `answer` is what it says, `seen` what it was given."""
    fake = types.SimpleNamespace(answer=report(), seen=[], rulebook=None, action=None)

    def diagnose(
        inputs: list[Any], *, rulebook: Any, progress: Callable[[int], None] | None = None
    ) -> Report:
        fake.seen = [(source.name, source.open().read()) for source in inputs]
        fake.rulebook = rulebook
        fake.progress = progress
        if fake.action:
            fake.action()
        return fake.answer

    module = types.ModuleType("vdiag.pipeline")
    module.diagnose = diagnose  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vdiag.pipeline", module)
    monkeypatch.delenv("VDIAG_RULES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")
    return fake


def raising(error: BaseException) -> Callable[[], None]:
    def action() -> None:
        raise error

    return action


def test_standard_input_is_read_when_piped(pipeline: types.SimpleNamespace) -> None:
    world = World(b"a log")
    assert world.run() == 1
    assert [data for _, data in pipeline.seen] == [b"a log"]
    assert world.printed.startswith("Diagnosed: It broke.")


@pytest.mark.parametrize("arguments", [[], ["diagnose"], ["--color", "never"]])
def test_on_a_terminal_it_says_how_to_use_it_instead_of_waiting(
    arguments: list[str], pipeline: types.SimpleNamespace
) -> None:
    world = World(terminal=True)
    assert world.run(*arguments) == 2
    assert "vdiag vllm.log" in world.err.getvalue()
    assert pipeline.seen == []


@pytest.mark.parametrize(
    "form",
    [
        ["{}"],
        ["--format", "json", "{}"],
        ["{}", "--format=json"],
        ["diagnose", "{}"],
        ["--", "{}"],
        ["explain", "{}"],
    ],
)
def test_an_unknown_first_word_is_a_file(
    form: list[str], tmp_path: Path, pipeline: types.SimpleNamespace
) -> None:
    log = tmp_path / "vllm.log"
    log.write_bytes(b"in a file")
    assert World().run(*(part.format(log) for part in form)) == 1
    assert pipeline.seen == [(str(log), b"in a file")]


def test_options_may_stand_before_a_command(pipeline: types.SimpleNamespace) -> None:
    world = World(b"x")
    assert world.run("--format", "json", "explain") == 1
    assert json.loads(world.printed)["verdict"] == "diagnosed"


def test_an_unreadable_file_is_named_and_the_rest_is_reported(
    tmp_path: Path, pipeline: types.SimpleNamespace
) -> None:
    good = tmp_path / "good.log"
    good.write_text("x")
    world = World()
    assert world.run(str(good), str(tmp_path / "missing.log"), str(tmp_path), "--exit-zero") == 2
    assert "missing.log" in world.err.getvalue()
    assert "no such file" in world.err.getvalue()
    assert "It broke" in world.printed


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("rulez", "rulez: no such file; did you mean the command `rules`?"),
        ("vlm.log", "vlm.log: no such file; did you mean vllm.log?"),
        ("kv-cache-too-small", "`vdiag explain kv-cache-too-small`"),
        ("elsewhere/x.log", "elsewhere/x.log: no such file\n"),
        ("", "'': no such file\n"),
        ("help", "help: no such file; did you mean `vdiag --help`?"),
        ("lint", "lint: no such file; did you mean the command `rules lint`?"),
        ("https://host/vllm.log", "`curl -fsSL ADDRESS | vdiag`"),
    ],
)
def test_a_name_that_is_no_file_is_told_what_was_meant(
    name: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vllm.log").write_text("x")
    world = World()
    assert world.run(name) == 2
    assert meant in world.err.getvalue()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--json", "x.log"], "Did you mean '--format json'?"),
        (["--no-color", "x.log"], "Did you mean '--color never'?"),
        (["-V"], "Did you mean '--version'?"),
        (["--frmat", "json", "x.log"], "'--format'"),
        (["run", "--json", "--", "true"], "Did you mean '--format json'?"),
    ],
)
def test_an_option_of_other_programs_is_told_as_it_is_written_here(words: list[str], meant: str) -> None:
    world = World()
    assert world.run(*words) == 2
    assert meant in world.err.getvalue()


def test_an_option_that_the_command_lacks_is_not_proposed() -> None:
    world = World()
    assert world.run("rules", "list", "--json") == 2
    assert "--format" not in world.err.getvalue()


def test_the_commands_of_rules_are_known_by_name() -> None:
    from vdiag.cli.names import OF_RULES
    from vdiag.cli.rules import rules

    assert set(OF_RULES) == set(rules.commands)


@pytest.mark.parametrize("words", [["--follow"], ["explain"], ["rules", "new", "--from"]])
def test_every_command_tells_a_misspelt_file(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vllm.log").write_text("x")
    world = World()
    assert world.run(*words, "vlm.log") == 2
    said = world.err.getvalue() + capsys.readouterr().err
    assert "vlm.log: no such file" in said
    assert "did you mean vllm.log?" in said


def test_a_line_of_a_file_reads_the_file_and_says_so(tmp_path: Path, pipeline: types.SimpleNamespace) -> None:
    log, odd = tmp_path / "vllm.log", tmp_path / "odd.log:3"
    log.write_bytes(b"whole")
    odd.write_bytes(b"its name")
    world = World()
    assert world.run(f"{log}:47", str(odd)) == 1
    assert pipeline.seen == [(str(log), b"whole"), (str(odd), b"its name")]
    assert world.err.getvalue() == (
        f"vdiag: {log}:47: vdiag reads whole files; it reads all of {log}, not only line 47\n"
    )


def test_a_usage_error_speaks_of_plain_vdiag() -> None:
    for form in (["--unheard-of"], ["diagnose", "--unheard-of"], ["--user"]):
        world = World()
        assert world.run(*form) == 2
        assert world.err.getvalue().startswith("Usage: vdiag [OPTIONS] [FILES]...\nTry 'vdiag --help'")


def test_an_input_that_fails_while_it_is_read_is_the_calls_fault(pipeline: types.SimpleNamespace) -> None:
    pipeline.answer.inputs[0].gaps = [Gap("reading ended early: damaged")]
    world = World(b"x")
    assert world.run() == 2
    assert "damaged" in world.err.getvalue()
    assert "It broke" in world.printed


def test_nothing_readable_prints_no_report(pipeline: types.SimpleNamespace) -> None:
    world = World()
    assert world.run("/nonexistent.log", "--format", "json") == 2
    assert world.printed == ""


def test_a_broken_rulebook_is_told_and_the_log_is_diagnosed(
    tmp_path: Path, pipeline: types.SimpleNamespace
) -> None:
    rules = tmp_path / "mine.yaml"
    rules.write_text("- id: 7\n  title: [")
    world = World(b"x")
    assert world.run("--rules", str(rules)) == 2
    assert "mine.yaml" in world.err.getvalue()
    assert "It broke" in world.printed


def test_rules_none_means_no_rulebook(pipeline: types.SimpleNamespace) -> None:
    World(b"x").run("--rules", "none")
    assert pipeline.rulebook.rules == []


def test_a_bad_option_is_a_usage_error(pipeline: types.SimpleNamespace) -> None:
    world = World(b"x")
    assert world.run("--format", "xml") == 2
    assert "json" in world.err.getvalue()
    assert World(b"x").run("--unheard-of") == 2


@pytest.mark.parametrize(
    ("verdict", "severity", "fail_on", "status"),
    [
        (Verdict.HEALTHY, Severity.FATAL, "client", 0),
        (Verdict.DIAGNOSED, Severity.CLIENT, "client", 1),
        (Verdict.DIAGNOSED, Severity.CLIENT, "degraded", 0),
        (Verdict.DIAGNOSED, Severity.DEGRADED, "degraded", 1),
        (Verdict.DIAGNOSED, Severity.DEGRADED, "fatal", 0),
        (Verdict.DIAGNOSED, Severity.FATAL, "fatal", 1),
        (Verdict.UNRECOGNISED, Severity.FATAL, "fatal", 3),
        (Verdict.INCOMPLETE, Severity.FATAL, "client", 3),
        (Verdict.STARTING, Severity.FATAL, "client", 3),
        (Verdict.EMPTY, Severity.FATAL, "client", 3),
    ],
)
def test_exit_status(
    verdict: Verdict, severity: Severity, fail_on: str, status: int, pipeline: types.SimpleNamespace
) -> None:
    assert status_of(report(verdict, severity), Severity(fail_on)) == status
    pipeline.answer = report(verdict, severity)
    assert World(b"x").run("--fail-on", fail_on) == status
    assert World(b"x").run("--fail-on", fail_on, "--exit-zero") == 0


def test_statuses_are_the_documented_numbers() -> None:
    assert {status.name: int(status) for status in ExitStatus} == {
        "OK": 0, "DIAGNOSED": 1, "USAGE": 2, "NO_ANSWER": 3, "INTERRUPTED": 130
    }  # fmt: skip


def test_our_own_fault_is_one_line_and_prints_no_half_report(pipeline: types.SimpleNamespace) -> None:
    pipeline.action = raising(RuntimeError("odd\nthing"))
    world = World(b"x")
    assert world.run("--format", "json") == 2
    assert world.printed == ""
    message = world.err.getvalue()
    assert message.startswith("vdiag: internal error: RuntimeError: odd thing (please report")
    assert message.count("\n") == 1


def test_debugging_shows_our_traceback(pipeline: types.SimpleNamespace) -> None:
    pipeline.action = raising(RuntimeError("odd"))
    world = World(b"x", VDIAG_DEBUG="1")
    world.run()
    assert "Traceback" in world.err.getvalue()


def test_the_systems_refusal_is_no_internal_error(pipeline: types.SimpleNamespace) -> None:
    pipeline.action = raising(OSError(28, "No space left on device"))
    world = World(b"x")
    assert world.run() == 2
    assert world.err.getvalue() == "vdiag: reading or writing: No space left on device\n"


def test_interrupts_and_closed_pipes_are_quiet(pipeline: types.SimpleNamespace) -> None:
    pipeline.action = raising(KeyboardInterrupt())
    world = World(b"x")
    assert world.run() == 130
    assert "Traceback" not in world.err.getvalue()

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    pipeline.action = None
    world = World(b"x")
    world.console.stdout = Closed()
    world.run()
    assert world.err.getvalue() == ""


def test_colour_on_request(pipeline: types.SimpleNamespace) -> None:
    world = World(b"x")
    world.run("--color", "always")
    assert "\x1b[" in world.printed
    world = World(b"x")
    world.run()
    assert "\x1b[" not in world.printed


def test_a_progress_bar_only_for_long_files_on_a_terminal(
    tmp_path: Path, pipeline: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vdiag.cli.progress.LONG", 10)
    log = tmp_path / "long.log"
    log.write_bytes(b"x" * 100)
    world = World(terminal=True)
    pipeline.action = lambda: pipeline.progress(50)
    world.run(str(log))
    assert "50%" in world.err.getvalue()
    pipeline.action = None
    World().run(str(log))
    assert pipeline.progress is None
