"""Fetching: which commands are run for a unit or a container, and what is said where they fail."""

from __future__ import annotations

import io
import json
import stat
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from logtext import sample
from test_cli_diagnose import World
from vdiag.intake.commands import Running, read_all
from vdiag.intake.commands import run as run_for_real
from vdiag.intake.fetch import KERNEL, Fetched, fetch, kernel_log
from vdiag.intake.sources import of_bytes
from vdiag.model import Report, Verdict
from vdiag.pipeline import diagnose
from vdiag.rulebook.shipped import shipped

KV = sample("kv-cache-too-small")
OOM = sample("host-oom-kill")
STATE = """\
LoadState=loaded
NRestarts=0
InactiveExitTimestamp=Mon 2026-09-14 07:40:00 UTC
InactiveEnterTimestamp=Mon 2026-09-14 07:42:47 UTC
"""
START = 1789371600  # 2026-09-14 07:40:00 UTC
END = START + 167


class Printed(io.BytesIO):
    """A command's output; `error` is what it fails with at its end."""

    def __init__(self, text: str | bytes = b"", complaint: str = "", error: str = "") -> None:
        super().__init__(text.encode() if isinstance(text, str) else text)
        self.complaint = complaint
        self._error = error

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        size = super().readinto(buffer)
        if not size and self._error:
            raise OSError(self._error)
        return size


class Machine:
    """A runner that knows answers by what a command holds; unknown programs are not installed."""

    def __init__(self, **answers: Callable[[], Printed]) -> None:
        self.answers = answers
        self.ran: list[list[str]] = []

    def __call__(self, command: Sequence[str], seconds: float, *, merged: bool = False) -> Printed:
        assert seconds > 0
        self.ran.append(list(command))
        for name, answer in self.answers.items():
            if all(word in command for word in name.split("_")) or name == command[0]:
                return answer()
        raise OSError(f"{command[0]} is not installed")

    def told(self, name: str) -> list[str]:
        return next(command for command in self.ran if any(name in word for word in command))


def machine(**answers: Callable[[], Printed]) -> Machine:
    return Machine(**{"systemctl": lambda: Printed(STATE), **answers})


def report_on(found: Fetched) -> tuple[Report, list[str]]:
    report = diagnose(found.sources, rulebook=shipped())
    return report, found.tell(report)


def journal(unit: str = KV.text, kernel: str = "") -> Callable[[], Printed]:
    """journalctl, which is asked for the unit first, then for the kernel."""
    texts = iter([unit, kernel])
    return lambda: Printed(next(texts))


# ---- units ----------------------------------------------------------------------------------------------


def test_a_unit_is_read_since_its_last_start_with_the_kernel_around_it() -> None:
    world = machine(journalctl=journal())
    report, faults = report_on(fetch(["vllm"], runner=world))
    assert [told.name for told in report.inputs] == ["journal of vllm", KERNEL]
    assert report.diagnoses[0].rule == "kv-cache-too-small"
    assert not faults
    unit, kernel = world.ran[1:]
    assert unit[0] == "journalctl"
    assert {"--unit=vllm", "--boot", f"--since=@{START}", "--output=short-iso"} <= set(unit)
    assert {"--dmesg", "--boot", f"--since=@{START - 5}", f"--until=@{END + 60}"} <= set(kernel)


def test_a_users_unit_is_asked_of_the_users_manager() -> None:
    world = machine(journalctl=journal())
    report_on(fetch(["vllm"], user=True, runner=world))
    assert "--user" in world.told("systemctl")
    assert "--user-unit=vllm" in world.told("journalctl")


def test_a_unit_that_was_restarted_is_read_from_the_boot_on() -> None:
    world = Machine(systemctl=lambda: Printed(STATE.replace("=0", "=4")), journalctl=journal())
    report, _ = report_on(fetch(["vllm"], runner=world))
    assert not any("--since" in word for word in world.told("--unit"))
    assert any("restarted vllm 4 times" in note for note in report.notes)


def test_without_systemctl_the_whole_boot_is_read_and_that_is_said() -> None:
    report, faults = report_on(fetch(["vllm"], runner=Machine(journalctl=journal())))
    assert report.verdict is Verdict.DIAGNOSED
    assert any("systemctl is not installed" in note for note in report.notes)
    assert not faults


def test_the_kernel_explains_what_the_unit_alone_does_not() -> None:
    """The kernel's lines of the sample come from the other command."""
    kernel = "\n".join(line for line in OOM.lines if " kernel: " in line) + "\n"
    unit = "\n".join(line for line in OOM.lines if " kernel: " not in line) + "\n"
    alone, _ = report_on(fetch(["vllm"], runner=machine(journalctl=journal(unit, "-- No entries --\n"))))
    assert alone.diagnoses[0].rule != OOM.rule
    both, _ = report_on(fetch(["vllm"], runner=machine(journalctl=journal(unit, kernel))))
    assert (both.diagnoses[0].rule, both.diagnoses[0].source) == (OOM.rule, KERNEL)


def test_where_the_journal_hides_the_kernel_dmesg_is_asked_for_the_same_time() -> None:
    def at(seconds: int, what: str) -> str:
        return f"[{datetime.fromtimestamp(seconds):%a %b %d %H:%M:%S %Y}] {what}\n"

    ring = at(START - 3600, "long before") + at(START + 9, "right then") + at(START + 9000, "long after")
    world = Machine(
        journalctl=lambda: Printed("-- No entries --\n", "Hint: You are not in the group adm."),
        dmesg=lambda: Printed(ring),
    )
    found = fetch(containers=["srv"], runner=Machine(**docker(inspected(), "hello\n"), **world.answers))
    assert found.sources[0].open().read()
    assert found.sources[-1].open().read().decode() == at(START + 9, "right then")
    assert kernel_log(START, runner=world).sources[0].open().read().count(b"\n") == 2


def test_an_unreadable_kernel_log_is_a_gap_with_a_command_and_no_fault_of_the_call() -> None:
    texts = iter([Printed(KV.text), Printed("", "No journal files were opened.")])
    world = machine(
        journalctl=lambda: next(texts), dmesg=lambda: Printed(error="dmesg: Operation not permitted")
    )
    report, faults = report_on(fetch(["vllm"], runner=world))
    assert report.diagnoses[0].rule == "kv-cache-too-small"
    [gap] = report.inputs[1].gaps
    assert "No journal files were opened" in gap.what
    assert "Operation not permitted" in gap.what
    assert gap.command.startswith("sudo journalctl --dmesg --boot")
    assert not faults


def test_a_complaint_of_a_journal_that_was_read_is_told() -> None:
    texts = iter([Printed(KV.text, "Hint: You are not seeing messages of others."), Printed()])
    report, _ = report_on(fetch(["vllm"], runner=machine(journalctl=lambda: next(texts))))
    [gap] = report.inputs[0].gaps
    assert "not seeing messages of others" in gap.what
    assert gap.command.startswith("sudo journalctl --unit=vllm")


def test_a_unit_that_nobody_knows_is_the_calls_fault() -> None:
    world = Machine(
        systemctl=lambda: Printed("LoadState=not-found\n"), journalctl=lambda: Printed("-- No entries --\n")
    )
    report, faults = report_on(fetch(["vlm"], runner=world))
    assert report.verdict is Verdict.EMPTY
    assert faults[0].startswith("vlm: no such unit")


def test_a_silent_unit_is_empty_not_healthy_whatever_the_kernel_says() -> None:
    world = machine(
        journalctl=journal("-- No entries --\n", "Sep 14 07:41:00 box kernel: usb 1-1: new device\n")
    )
    report, faults = report_on(fetch(["vllm"], runner=world))
    assert report.verdict is Verdict.EMPTY
    assert not faults
    assert report.inputs[0].gaps


STALE = "Sep 12 01:00:00 box kernel: Out of memory: Killed process 17 (python) total-vm:9kB, anon-rss:9kB\n"


def test_without_a_word_of_the_unit_the_kernel_is_not_blamed() -> None:
    """An out-of-memory kill of something else, days before, is no answer to a mistyped name."""
    texts = iter([Printed("", "No journal files were found."), Printed(STALE)])
    world = Machine(systemctl=lambda: Printed(error="no systemd here"), journalctl=lambda: next(texts))
    report, faults = report_on(fetch(["vllm"], runner=world))
    assert report.verdict is Verdict.EMPTY
    assert not report.diagnoses
    assert faults == ["journal of vllm: No journal files were found."]
    assert any("kernel log was left out" in note for note in report.notes)


def test_where_the_start_is_not_known_the_kernel_is_read_from_the_units_first_line_on() -> None:
    unit = "2026-09-14T07:40:00+0000 box vllm[7]: hello\n"
    world = Machine(journalctl=journal(unit))
    report_on(fetch(["vllm"], runner=world))
    assert f"--since=@{START - 5}" in world.told("--dmesg")


def test_two_units_share_one_kernel_log_of_both_times() -> None:
    later = STATE.replace("07:40:00", "07:41:00").replace("07:42:47", "07:50:00")
    states = iter([STATE, later])
    world = Machine(systemctl=lambda: Printed(next(states)), journalctl=lambda: Printed("hello\n"))
    found = fetch(["a", "b"], runner=world)
    report_on(found)
    assert [source.name for source in found.sources] == ["journal of a", "journal of b", KERNEL]
    assert f"--since=@{START - 5}" in world.ran[-1]
    assert f"--until=@{START + 600 + 60}" in world.ran[-1]


# ---- containers -------------------------------------------------------------------------------------------


def inspected(**state: object) -> str:
    known = {"Status": "exited", "OOMKilled": False, "ExitCode": 1, "StartedAt": "2026-09-14T07:40:00.5Z",
             "FinishedAt": "2026-09-14T07:42:47.1Z", **state}  # fmt: skip
    restarts = known.pop("RestartCount", 0)
    return json.dumps(
        [{"Name": "/srv", "RestartCount": restarts, "State": known, "HostConfig": {"Memory": 68719476736}}]
    )


def stamped(text: str) -> str:
    return "".join(f"2026-09-14T07:41:00.000000001Z {line}\n" for line in text.splitlines())


def docker(state: str, log: str) -> dict[str, Callable[[], Printed]]:
    return {"docker_inspect": lambda: Printed(state), "docker_logs": lambda: Printed(log)}


def test_a_container_is_read_since_its_last_start_with_its_state() -> None:
    log = stamped("\n".join(line.split(": ", 1)[1] for line in KV.lines if " vllm[" in line))
    world = Machine(**docker(inspected(), log), journalctl=lambda: Printed())
    report, faults = report_on(fetch(containers=["srv"], runner=world))
    assert [told.name for told in report.inputs] == ["log of srv", "docker inspect srv", KERNEL]
    assert report.diagnoses[0].rule == "kv-cache-too-small"
    assert not faults
    assert world.told("logs") == [
        "docker", "logs", "--timestamps", "--since=2026-09-14T07:40:00.5Z", "--", "srv"
    ]  # fmt: skip
    assert f"--since=@{START - 5}" in world.ran[-1]


def test_the_state_of_a_container_tells_an_oom_kill() -> None:
    state = inspected(OOMKilled=True, ExitCode=137)
    world = Machine(
        **docker(state, stamped("INFO 09-14 07:40:02 [api_server.py:9] vLLM API server version 0.11.0"))
    )
    report, _ = report_on(fetch(containers=["srv"], runner=world))
    assert report.diagnoses[0].rule == "container-oom-kill"
    assert report.diagnoses[0].source == "docker inspect srv"


def test_a_container_that_was_restarted_is_read_whole() -> None:
    world = Machine(**docker(inspected(RestartCount=2), stamped("hello")))
    report, _ = report_on(fetch(containers=["srv"], runner=world))
    assert not any("--since" in word for word in world.told("logs"))
    assert any("restarted srv twice" in note or "2 times" in note for note in report.notes)


def test_podman_is_asked_where_docker_does_not_know_the_container() -> None:
    world = Machine(
        docker_inspect=lambda: Printed(error="Error: No such container: srv"),
        podman_inspect=lambda: Printed(inspected(StartedAt="2026-09-14T09:40:00.5+02:00")),
        podman_logs=lambda: Printed(stamped("hello")),
    )
    found = fetch(containers=["srv"], runner=world)
    report_on(found)
    assert found.sources[0].name == "log of srv"
    assert f"--since=@{START - 5}" in world.told("--dmesg")


def test_a_container_that_nobody_knows_is_the_calls_fault_with_both_reasons() -> None:
    world = Machine(docker_inspect=lambda: Printed(error="Error: No such container: srv"))
    found = fetch(containers=["srv"], runner=world)
    assert not found.sources
    [problem] = found.problems
    assert "No such container" in problem
    assert "podman is not installed" in problem


@pytest.mark.parametrize("answer", ["", "[]", "{}", "null", "[7]", '[{"State": null, "HostConfig": null}]'])
def test_odd_answers_about_a_container_are_no_crash(answer: str) -> None:
    world = Machine(docker_inspect=lambda: Printed(answer), docker_logs=lambda: Printed("hello\n"))
    found = fetch(containers=["srv"], runner=world)
    assert found.sources or found.problems
    if found.sources:
        report_on(found)


# ---- real commands ------------------------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a program of this name into a folder that is alone on the path, but for the shell's own tools."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def put(name: str, script: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return put


def test_a_command_runs_in_the_c_locale_and_tells_its_complaint(programs: Callable[[str, str], None]) -> None:
    programs("ask", 'echo "$LC_ALL: $1"; echo "careful  now" >&2')
    output = run_for_real(["ask", "a; b"], 60)
    assert read_all(output) == b"C: a; b\n"
    assert output.complaint == "careful now"


def test_a_command_that_fails_says_why_after_what_it_printed(programs: Callable[[str, str], None]) -> None:
    programs("ask", "echo half; echo no rights >&2; exit 4")
    output = run_for_real(["ask"], 60)
    buffer = bytearray(99)
    assert output.readinto(buffer) == 5
    with pytest.raises(OSError, match="no rights"):
        output.readinto(buffer)
    output.close()


def test_a_command_that_keeps_us_waiting_is_ended(programs: Callable[[str, str], None]) -> None:
    programs("ask", "exec sleep 1000")
    output = run_for_real(["ask"], 0.1)
    assert isinstance(output, Running)
    with pytest.raises(TimeoutError, match=r"ask took longer than 0\.1 s"):
        read_all(output)
    assert output._process.returncode is not None


def test_an_unknown_command_is_not_installed() -> None:
    with pytest.raises(OSError, match="no-such-program is not installed"):
        run_for_real(["no-such-program"], 1)


def test_the_kernel_log_alone() -> None:
    world = Machine(journalctl=lambda: Printed("box kernel: x\n"))
    assert kernel_log(START, runner=world).sources[0].open().read() == b"box kernel: x\n"


def test_the_command_line_fetches_a_unit_by_the_programs_on_the_path(
    programs: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    (tmp_path / "unit.log").write_text(KV.text)
    programs("systemctl", "cat <<'END'\n" + STATE + "END")
    programs(
        "journalctl",
        f'case "$*" in *--unit=vllm*) cat {tmp_path}/unit.log;; *) echo "-- No entries --";; esac',
    )
    programs("dmesg", "exit 1")
    world = World()
    assert world.run("--format", "json", "-u", "vllm") == 1, world.err.getvalue()
    report = json.loads(world.printed)
    assert report["diagnoses"][0]["rule"] == "kv-cache-too-small"
    assert report["diagnoses"][0]["source"] == "journal of vllm"
    assert report["diagnoses"][0]["line"] == KV.line


def test_a_file_is_told_together_with_what_was_fetched(
    programs: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("systemctl", "journalctl", "dmesg"):
        programs(name, "echo refused >&2; exit 1")
    log = tmp_path / "x.log"
    log.write_text(KV.text)
    world = World()
    assert world.run("--format", "json", "-u", "vllm", str(log)) == 2
    report = json.loads(world.printed)
    assert report["diagnoses"][0]["source"] == str(log)
    assert "journal of vllm: reading ended early: refused" in world.err.getvalue()


@pytest.mark.parametrize(
    "arguments", [["--user", "x.log"], ["--follow", "-u", "vllm"], ["--follow", "a.log", "b.log"]]
)
def test_options_that_do_not_go_together(arguments: list[str]) -> None:
    assert World().run(*arguments) == 2


def test_a_fetched_input_can_stand_beside_a_text() -> None:
    found = fetch(["vllm"], runner=machine(journalctl=journal("hello\n")))
    report = diagnose([*found.sources, of_bytes(KV.text.encode(), "x.log")], rulebook=shipped())
    assert report.diagnoses[0].source == "x.log"


def test_a_program_that_is_given_up_leaves_none_of_its_own_behind() -> None:
    output = run_for_real(["sh", "-c", "sleep 1000 & echo $!; wait"], 60)
    row = bytearray(64)
    child = int(row[: output.readinto(row)])
    output.close()
    state = Path(f"/proc/{child}/stat")
    end = time.monotonic() + 60
    while state.exists() and state.read_text().split()[2] != "Z":  # gone, or waiting for init to take note
        assert time.monotonic() < end
        time.sleep(0.01)
