"""`vdiag collect`: what is gathered of a machine, what is said of the rest, and that the bundle gives its diagnosis."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from logtext import sample
from test_cli_diagnose import World
from test_fetch import KV, STATE, Machine, Printed, docker, inspected, stamped
from vdiag.intake import pack
from vdiag.intake.asks import ABOUT
from vdiag.intake.collect import Collected, Limits, about, collect, take
from vdiag.intake.installed import built_for, packages, prefixes

OOM = sample("host-oom-kill")
CARDS = """\
Sat Sep 14 07:43:00 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA L4                      On  |   00000000:00:03.0 Off |                    0 |
| N/A   42C    P8             12W /   72W |       4MiB /  23034MiB |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""
SHOWN = STATE + "MainPID=4711\nControlGroup=/system.slice/vllm.service\n"


def unit(**answers: Callable[[], Printed]) -> Machine:
    """A machine with a unit that failed; what is not named here is not installed."""
    usual: dict[str, Callable[[], Printed]] = {
        "systemctl_cat": lambda: Printed("[Service]\nExecStart=/opt/vllm/bin/vllm serve acme/model-7b\n"),
        "systemctl": lambda: Printed(SHOWN),
        "--dmesg": lambda: Printed("-- No entries --\n"),
        "journalctl": lambda: Printed(KV.text),
    }
    return Machine(**answers, **{name: said for name, said in usual.items() if name not in answers})


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# ---- what is gathered ---------------------------------------------------------------------------------------


def test_a_units_journal_and_what_systemd_knows_of_it_are_taken(tmp_path: Path) -> None:
    world = unit()
    made = collect("vllm", runner=world, root=str(tmp_path))
    assert made.members["journal.log"].decode() == KV.text
    told = dict(made.sections)
    assert "NRestarts=0" in told["systemctl show -- vllm"]
    assert b"ExecStart=/opt/vllm" in made.members["unit.log"]
    assert not made.faults


def test_the_environment_is_not_asked_of_systemd() -> None:
    world = unit()
    collect("vllm", runner=world)
    asked = [word for command in world.ran for word in command if word.startswith("--property=")]
    names = [name for word in asked for name in word.removeprefix("--property=").split(",")]
    assert "ExecStart" in names
    assert "Environment" not in names


def test_a_users_unit_is_asked_of_the_users_manager() -> None:
    world = unit()
    collect("vllm", user=True, runner=world)
    assert all("--user" in command for command in world.ran if command[0] == "systemctl")


def test_what_the_kernel_says_of_the_main_process_and_its_group_is_taken(tmp_path: Path) -> None:
    put(tmp_path, "proc/4711/limits", "Max open files 1024\n")
    put(tmp_path, "sys/fs/cgroup/system.slice/vllm.service/memory.events", "oom_kill 3\n")
    put(
        tmp_path,
        "proc/4711/environ",
        "HF_TOKEN=hf_x\0VLLM_LOGGING_LEVEL=DEBUG\0PASSWORD=y\0VLLM_API_KEY=z\0CUDA_VISIBLE_DEVICES=1\0",
    )
    told = dict(collect("vllm", runner=unit(), root=str(tmp_path)).sections)
    assert told["/proc/4711/limits"] == "Max open files 1024\n"
    assert told["/sys/fs/cgroup/system.slice/vllm.service/memory.events"] == "oom_kill 3\n"
    [variables] = [text for title, text in told.items() if "environ" in title]
    assert variables.split() == ["CUDA_VISIBLE_DEVICES=1", "VLLM_LOGGING_LEVEL=DEBUG"]


@pytest.mark.parametrize(
    "row", ["MainPID=../../etc", "MainPID=0", "ControlGroup=/../../etc", "ControlGroup=x"]
)
def test_no_path_is_made_of_odd_properties(row: str, tmp_path: Path) -> None:
    put(tmp_path, "etc/limits", "no")
    put(tmp_path, "etc/memory.max", "no")
    made = collect("vllm", runner=unit(systemctl=lambda: Printed(f"{STATE}{row}\n")), root=str(tmp_path))
    assert "no" not in [text for _, text in made.sections]


def test_a_container_is_taken_with_its_state_and_all_that_its_engine_says() -> None:
    world = Machine(**docker(inspected(), stamped("hello")), journalctl=lambda: Printed())
    made = collect(containers=["srv"], runner=world)
    assert made.members["container.log"].endswith(b" hello\n")
    assert b"ExitCode" in made.members["container-inspect.log"]
    assert "docker inspect --type=container -- srv" in dict(made.sections)
    assert not made.faults


def test_containers_are_numbered_since_their_names_are_not_file_names() -> None:
    world = Machine(**docker(inspected(), stamped("hello")), journalctl=lambda: Printed())
    made = collect(containers=["head", "worker"], runner=world)
    assert {"container-1.log", "container-2.log", "container-2-inspect.log"} <= made.members.keys()


def test_without_a_servers_log_the_kernel_is_shown_and_not_blamed() -> None:
    """What the kernel killed, at any time since the boot, need not be the server."""
    kill = (
        "Sep 12 01:00:00 box kernel: Out of memory: Killed process 17 (python) total-vm:9kB, anon-rss:9kB\n"
    )
    world = Machine(**docker(inspected(OOMKilled=True), ""), **{"--dmesg": lambda: Printed(kill)})
    for made in (
        collect(runner=world),
        collect(containers=["none"], runner=Machine(**{"--dmesg": lambda: Printed(kill)})),
    ):
        assert not made.members
        assert kill in dict(made.sections).values()
    silent = collect(containers=["srv"], runner=world)
    assert not silent.members
    assert any("OOMKilled" in text for _, text in silent.sections)


def test_where_nothing_is_named_the_one_unit_of_vllm_is_taken() -> None:
    listed = "ssh.service loaded active running OpenSSH\nvllm-chat.service loaded failed failed vLLM\n"
    made = collect(runner=unit(**{"systemctl_list-units": lambda: Printed(listed)}))
    assert made.members["journal.log"]
    assert any("vllm-chat.service was taken" in note for note in made.notes)


def test_of_several_that_may_be_meant_none_is_taken_and_all_are_named() -> None:
    listed = "vllm-a.service loaded active running a\nvllm-b.service loaded failed failed b\n"
    made = collect(runner=unit(**{"systemctl_list-units": lambda: Printed(listed)}))
    assert "journal.log" not in made.members
    assert any("vllm-a.service, vllm-b.service" in what for what in made.missing)


def test_versions_are_those_of_the_servers_own_environment(tmp_path: Path) -> None:
    environment = tmp_path / "env"
    put(environment, "bin/vllm", f"#!{environment}/bin/python3\n")
    for name in ("vllm-0.11.0", "torch-2.8.0", "nvidia_nccl_cu12-2.27.3", "flask-3.0.0"):
        put(environment, f"lib/python3.12/site-packages/{name}.dist-info/METADATA", "")
    put(
        environment,
        "lib/python3.12/site-packages/torch/version.py",
        "__version__ = '2.8.0'\ncuda: Optional[str] = '12.8'\n",
    )
    start = f"ExecStart={{ path={environment}/bin/vllm ; argv[]={environment}/bin/vllm serve m ; ignore_errors=no }}\n"
    made = collect("vllm", runner=unit(systemctl=lambda: Printed(STATE + start)), root=str(tmp_path))
    assert made.members["packages.log"].decode().splitlines() == [
        "[pip3] nvidia-nccl-cu12==2.27.3", "[pip3] torch==2.8.0", "[pip3] vllm==0.11.0",
        "CUDA used to build PyTorch: 12.8",
    ]  # fmt: skip


def test_the_versions_of_another_environment_are_not_taken_for_the_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "lib/python3.12/site-packages/vllm-0.9.0.dist-info/METADATA", "")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    made = collect("vllm", runner=unit(), root=str(tmp_path))
    assert "packages.log" not in made.members
    assert any("versions of vLLM" in what for what in made.missing)
    assert "[pip3] vllm==0.9.0\n" in dict(collect(runner=Machine()).sections).values()


def test_a_key_that_looks_like_a_path_is_no_path() -> None:
    start = "ExecStart={ path=/opt/v ; argv[]=/opt/v serve /srv/m --api-key /Ab3+x= --download-dir=/srv/d ; x=y }\n"
    world = unit(systemctl=lambda: Printed(STATE + start))
    collect("vllm", runner=world)
    asked = [command[-1] for command in world.ran if command[:2] == ["df", "-h"]]
    assert asked == ["/dev/shm", "/srv/m", "/srv/d"]


def test_an_environment_without_vllm_tells_no_versions(tmp_path: Path) -> None:
    put(tmp_path, "lib/python3.12/site-packages/torch-2.8.0.dist-info/METADATA", "")
    assert packages(str(tmp_path)) == {}
    assert built_for(str(tmp_path)) == ""
    assert prefixes(["vllm", "--model", "bin/vllm", "/srv/models/x"]) == []


# ---- limits and failures ------------------------------------------------------------------------------------


def test_what_is_not_installed_is_said_once_and_optional_programs_not_at_all() -> None:
    made = collect("vllm", runner=unit())
    assert made.missing.count("nvidia-smi is not installed") == 1
    assert not any("rocm" in what or "amd-smi" in what for what in made.missing)


def test_a_program_that_hangs_is_waited_for_once() -> None:
    class Hanging(Printed):
        def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
            raise TimeoutError("nvidia-smi took longer than 10 s")

    world = unit(**{"nvidia-smi": Hanging})
    made = collect("vllm", runner=world)
    assert sum(command[0] == "nvidia-smi" for command in world.ran) == 1
    assert any("took longer" in what for what in made.missing)
    assert made.members["journal.log"]


def test_what_a_failing_program_printed_is_kept_and_is_the_reason_that_is_told() -> None:
    said = "Failed to initialize NVML: Driver/library version mismatch\n"
    world = unit(**{"nvidia-smi": lambda: Printed(said, error="nvidia-smi ended with status 18")})
    made = collect("vllm", runner=world)
    assert made.members["nvidia-smi.log"].decode() == said
    assert f"nvidia-smi: {said.strip()}" in made.missing


def test_a_log_that_is_forbidden_is_told_with_the_command_to_type_and_blames_the_call() -> None:
    made = collect("vllm", runner=unit(journalctl=lambda: Printed(error="Permission denied")))
    [what] = made.faults
    assert what.startswith("journal of vllm: Permission denied (by hand: sudo journalctl --unit=vllm")
    assert not made.of_server


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 149, 150, 151, 1000, 5000])
def test_of_a_long_log_the_beginning_and_the_end_are_kept_in_whole_rows(size: int) -> None:
    rows = [f"{n:08}\n".encode() for n in range(size)]
    taken = take(io.BytesIO(b"".join(rows)), 900, 450)
    kept = taken.data.splitlines(keepends=True)
    if size <= 150:
        assert (kept, taken.left) == (rows, 0)
        return
    [mark] = [n for n, row in enumerate(kept) if b"left out" in row]
    assert kept[:mark] == rows[:mark]
    assert kept[mark + 1 :] == rows[-(len(kept) - mark - 1) :]
    assert taken.left == 9 * (size - (len(kept) - 1))
    assert 130 <= len(kept) <= 152


def test_reading_ends_where_a_log_does_not() -> None:
    class Endless(io.RawIOBase):
        def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
            buffer[:4] = b"row\n"
            return 4

    taken = take(Endless(), 100, 100, most=10_000)  # type: ignore[arg-type]
    assert "does not end" in taken.problem
    assert taken.data.startswith(b"row\nrow\n")


def test_the_place_of_what_was_left_out_is_a_gap_of_the_log() -> None:
    rows = b"".join(b"INFO 09-14 07:40:02 [x.py:9] row %d\n" % n for n in range(1000))
    world = World(take(io.BytesIO(rows), 900, 900).data)
    world.run("--format", "json")
    [gap] = json.loads(world.printed)["inputs"][0]["gaps"]
    assert "left out" in gap["what"]
    assert gap["line"] == rows[:900].count(b"\n") + 1


def test_a_hostile_answer_cannot_leave_its_place_in_the_summary() -> None:
    made = Collected(sections=[("x\n# Files", "~~~\n## Missing\n~~~~\n\x1b[31mred\r\n")], missing=["a\n- b"])
    rows = about(made, []).split("\n")
    assert rows.count("~~~~~") == 2
    assert "- a - b" in rows
    assert "\x1b" not in "".join(rows)
    assert [row for row in rows if row.startswith("## ")][:2] == ["## Missing", "## x # Files"]


# ---- the file -----------------------------------------------------------------------------------------------


def test_a_bundle_is_its_owners_alone_and_holds_no_names_of_people(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.zst"
    with pack.new(str(path)) as file:
        pack.write(file, {"a.log": b"hello\n"}, "collect", 1e9, pack.ending())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    [member] = members(path)
    assert (member.name, member.uid, member.uname) == ("collect/a.log", 0, "")


def test_without_a_library_for_zstd_it_is_gzip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "_zstd", lambda: None)
    assert pack.ending() == ".tar.gz"
    path = tmp_path / "x.tar.gz"
    with pack.new(str(path)) as file:
        pack.write(file, {"a.log": b"hello\n"}, "collect", 1e9, pack.ending())
    with tarfile.open(path, "r:gz") as tar:
        assert tar.getnames() == ["collect/a.log"]


def test_a_name_does_not_promise_zstd_where_it_is_gzip(
    programs: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack, "_zstd", lambda: None)
    world = World()
    assert world.run("collect", "-o", "x.tar.zst") == 3
    assert "x.tar.gz is made with gzip" in world.err.getvalue()
    with tarfile.open(tmp_path / "x.tar.gz", "r:gz") as tar:
        assert tar.getnames() == [f"collect/{ABOUT}"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_where_it_breaks_off_nothing_is_left(error: type[BaseException], tmp_path: Path) -> None:
    def broken() -> None:
        with pack.new(str(tmp_path / "x")) as file:
            file.write(b"half")
            raise error

    with pytest.raises(error):
        broken()
    assert not list(tmp_path.iterdir())


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with pytest.raises(FileExistsError), pack.new(str(path)):
        path.write_text("theirs")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    assert path.read_text() == "theirs"


def test_a_link_that_leads_nowhere_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError), pack.new(str(path)):
        pass
    with pack.new(str(path), replace=True) as file:
        file.write(b"new")
    assert not path.is_symlink()
    assert not (tmp_path / "elsewhere").exists()


def members(path: Path) -> list[tarfile.TarInfo]:
    with (
        path.open("rb") as file,
        tarfile.open(fileobj=zstandard.ZstdDecompressor().stream_reader(file), mode="r|") as tar,
    ):
        return list(tar)


# ---- by the programs on the path ------------------------------------------------------------------------------


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a program of this name into a folder that is alone on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.chdir(tmp_path)

    def put(name: str, script: str) -> None:
        path = folder / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        path.chmod(0o755)

    return put


def read_again(path: Path) -> dict[str, object]:
    world = World()
    world.run("--format", "json", str(path))
    told: dict[str, object] = json.loads(world.printed)
    return told


def systemd(start: str) -> str:
    """A `systemctl` that knows a unit that failed, and its file."""
    return f"""case "$*" in *cat*) printf '[Service]\\nExecStart=%s\\n' '{start}';; *) cat <<'END'
{STATE}END
;; esac"""


def test_a_machine_on_which_everything_goes_wrong_still_gives_its_diagnosis(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    (tmp_path / "unit.log").write_text(KV.text)
    (tmp_path / "cards.txt").write_text(CARDS)
    programs(
        "journalctl",
        f'case "$*" in *--unit=vllm*) cat {tmp_path}/unit.log;; *) echo "-- No entries --";; esac',
    )
    programs("systemctl", systemd("/opt/vllm/bin/vllm serve acme/model-7b"))
    programs("nvidia-smi", f"[ $# -gt 0 ] || exec cat {tmp_path}/cards.txt; echo no such field >&2; exit 6")
    programs("lscpu", "exec sleep 1000")
    programs("free", "exec yes 0123456789012345678901234567890")
    world = World()
    status = world.run("collect", "vllm", "-o", "x.tar.zst", "--timeout", "1", "--format", "json")
    told = world.err.getvalue()
    assert status == 1, told
    assert "lscpu took longer than 1 s" in told
    assert "no such field" in told
    assert "x.tar.zst: " in told
    path = tmp_path / "x.tar.zst"
    sizes = {member.name: member.size for member in members(path)}
    assert sizes.keys() == {
        f"collect/{name}" for name in (ABOUT, "journal.log", "nvidia-smi.log", "unit.log")
    }
    assert sizes[f"collect/{ABOUT}"] < 2 * Limits().answer
    report = json.loads(world.printed)
    assert report["diagnoses"][0]["rule"] == "kv-cache-too-small"
    assert report["diagnoses"][0]["line"] == KV.line
    assert [told["name"] for told in report["inputs"]] == [
        f"x.tar.zst:collect/{name}.log" for name in ("journal", "unit", "nvidia-smi")
    ]  # fmt: skip
    assert not [gap for told in report["inputs"] for gap in told["gaps"]]
    assert not report["notes"]
    assert len(report["diagnoses"]) == 1
    assert read_again(Path("x.tar.zst")) == report


def test_the_kernels_word_in_a_bundle_explains_the_journal(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    for name, kernel in (("unit", False), ("kernel", True)):
        rows = [row for row in OOM.lines if (" kernel: " in row) == kernel]
        (tmp_path / f"{name}.log").write_text("\n".join([*rows, ""]))
    programs(
        "journalctl", f'case "$*" in *--dmesg*) cat {tmp_path}/kernel.log;; *) cat {tmp_path}/unit.log;; esac'
    )
    programs("systemctl", f"cat <<'END'\n{STATE}END")
    programs("nvidia-smi", f"cat <<'END'\n{CARDS}END")
    world = World()
    assert world.run("collect", "vllm", "-o", "x.tar.zst", "--format", "json") == 1, world.err.getvalue()
    first = json.loads(world.printed)["diagnoses"][0]
    assert (first["rule"], first["source"]) == (OOM.rule, "x.tar.zst:collect/kernel.log")


def test_a_healthy_server_on_a_healthy_machine_raises_no_alarm(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    """State as programs print it, with figures and words that look like trouble, is no trouble."""
    (tmp_path / "unit.log").write_text(sample("healthy-busy").text)
    put(tmp_path, "env/bin/vllm", f"#!{tmp_path}/env/bin/python3\n")
    put(tmp_path, "env/lib/python3.12/site-packages/vllm-0.11.0.dist-info/METADATA", "")
    programs(
        "journalctl", f'case "$*" in *--dmesg*) echo "-- No entries --";; *) cat {tmp_path}/unit.log;; esac'
    )
    programs(
        "systemctl",
        f"cat <<'END'\n{STATE}Result=success\nExecStart={{ argv[]={tmp_path}/env/bin/vllm serve m ; x=y }}\n"
        "OOMPolicy=stop\nMemoryMax=infinity\nEND",
    )
    programs("nvidia-smi", f"[ $# -eq 0 ] && cat <<'END'\n{CARDS}END\necho 'Ecc Errors: Double Bit 0, Xid 0'")
    programs("df", "echo '/dev/sda1 100G 100G 0 100% /'; echo 'No space left on device'")
    world = World()
    assert world.run("collect", "vllm", "-o", "x.tar.zst", "--format", "json") == 0, world.err.getvalue()
    report = json.loads(world.printed)
    assert report["verdict"] == "healthy"
    assert not report["also_seen"]
    assert "x.tar.zst:collect/packages.log" in [told["name"] for told in report["inputs"]]


def test_the_owner_can_keep_what_was_replaced(programs: Callable[[str, str], None], tmp_path: Path) -> None:
    planted(programs, tmp_path)
    World().run("collect", "vllm", "-o", "x.tar.zst", "--redact-map", "map.json")
    kept = json.loads((tmp_path / "map.json").read_text())
    assert "zeus-gpu" in kept.values()
    assert b"zeus-gpu" not in content(tmp_path / "x.tar.zst")


def test_a_log_that_could_not_be_had_is_a_gap_wherever_the_bundle_is_read(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    (tmp_path / "unit.log").write_text(KV.text)
    programs(
        "journalctl",
        f'case "$*" in *--dmesg*) echo No journal files >&2; exit 1;; *) cat {tmp_path}/unit.log;; esac',
    )
    programs("systemctl", f"cat <<'END'\n{STATE}END")
    assert World().run("collect", "vllm", "-o", "x.tar.zst") == 1
    inputs = read_again(Path("x.tar.zst"))["inputs"]
    assert isinstance(inputs, list)
    [gap] = [gap for told in inputs for gap in told["gaps"]]
    assert gap["what"].startswith("was not collected: kernel log: journalctl: No journal files")
    assert not gap.get("command"), "a stranger's bundle must not put commands into an answer"


def test_without_any_program_it_says_what_is_missing_and_makes_a_bundle_all_the_same(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    world = World()
    assert world.run("collect") == 3
    told = world.err.getvalue()
    assert "nvidia-smi is not installed" in told
    assert "it holds no log of a server" in told
    [path] = tmp_path.glob("vdiag-collect-*.tar.zst")
    assert [member.name for member in members(path)] == [f"collect/{ABOUT}"]
    assert World().run(str(path)) == 2, "the state of a machine alone is no healthy server"


def test_a_unit_that_cannot_be_read_is_the_calls_fault_whatever_else_was_gathered(
    programs: Callable[[str, str], None],
) -> None:
    programs("nvidia-smi", f"cat <<'END'\n{CARDS}END")
    world = World()
    assert world.run("collect", "vllm", "-o", "x.tar.zst") == 2
    assert "journal of vllm: journalctl is not installed" in world.err.getvalue()
    assert not world.printed


def test_a_file_that_is_there_is_replaced_only_if_asked(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    path = tmp_path / "x.tar.zst"
    path.write_text("theirs")
    programs("df", f"touch {tmp_path}/ran")
    assert World().run("collect", "-o", str(path)) == 2
    assert path.read_text() == "theirs"
    assert not (tmp_path / "ran").exists(), "nothing is gathered in vain"
    assert World().run("collect", "-o", str(path), "--force") == 3
    assert path.read_bytes()[:4] == b"\x28\xb5\x2f\xfd"


@pytest.mark.parametrize(
    "arguments",
    [["--", "-x"], ["../x"], ["a\nb"], ["*"], [""], ["-c", "../x"], ["-c", "-x"], ["-c", "a b"],
     ["vllm", "--timeout", "0"], ["vllm", "-o", "/nonexistent/x.tar.zst"], ["-o", "-"],
     ["-o", ".", "--force"]],
)  # fmt: skip
def test_what_is_no_name_is_refused_before_anything_is_run(
    arguments: list[str], programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    for name in ("systemctl", "journalctl", "docker", "df"):
        programs(name, f"touch {tmp_path}/ran")
    assert World().run("collect", *arguments) == 2
    assert {p.name for p in tmp_path.iterdir()} == {"bin"}


def test_the_units_file_gives_the_command_of_the_first_fix(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    (tmp_path / "journal.txt").write_text(KV.text)
    programs("journalctl", f'case "$*" in *--unit=vllm*) cat {tmp_path}/journal.txt;; esac')
    programs(
        "systemctl",
        systemd(
            "/opt/vllm/bin/vllm serve ${MODEL} --uvicorn-log-level info --port 8000 --host 127.0.0.1 --gpu-memory-utilization 0.90"
        ),
    )
    world = World()
    assert world.run("collect", "vllm", "-o", "x.tar.zst", "--format", "json") == 1
    run = " ".join(json.loads(world.printed)["diagnoses"][0]["fixes"][0]["run"])
    for word in (
        "ExecStart=/opt/vllm/bin/vllm serve ${MODEL}",
        "--uvicorn-log-level info",
        "--max-model-len",
    ):
        assert word in run


SECRETS = ("hf_QwErTyUiOpAsDfGhJkLzXcVbNm12345678", "sk-t0p-s3cret-value-42", "hunter2-but-longer")


def planted(programs: Callable[[str, str], None], tmp_path: Path) -> None:
    """Secrets in each place that is read, and a host, a user and an address."""
    token, key, password = SECRETS
    start = f"argv[]=/opt/vllm/bin/vllm serve /home/miriam/m --api-key {key} ; ignore_errors=no"
    (tmp_path / "unit.log").write_text(
        KV.text
        + f"2026-09-14T07:42:00+0000 zeus-gpu vllm[7]: INFO args: {{'api_key': ['{key}'], 'host': '10.20.30.40'}}\n"
    )
    programs(
        "journalctl",
        f'case "$*" in *--unit=vllm*) cat {tmp_path}/unit.log;; *) echo "-- No entries --";; esac',
    )
    programs(
        "systemctl",
        f"""case "$*" in *cat*) cat <<'END'
[Service]
User=miriam
Environment=HF_TOKEN={token} DB_PASSWORD={password}
ExecStart=/opt/vllm/bin/vllm serve /home/miriam/m --api-key={key}
END
;; *) cat <<'END'
{STATE}ExecStart={{ path=/opt/vllm/bin/vllm ; {start} }}
END
;; esac""",
    )
    state = json.loads(inspected())
    state[0]["Config"] = {"Env": [f"HF_TOKEN={token}", f"DB_PASSWORD={password}"], "Cmd": ["--api-key", key]}
    programs("docker", f"""case $1 in inspect) cat <<'END'
{json.dumps(state, indent=4)}
END
;; *) echo "2026-09-14T07:41:00.000000001Z Authorization: Bearer {key}";; esac""")  # fmt: skip
    programs("nvidia-smi", f"echo --api-key {key}")
    programs("lscpu", f"echo HF_TOKEN={token}; exit 3")


def content(path: Path) -> bytes:
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


@pytest.mark.parametrize("options", [[], ["--redact"]])
def test_no_secret_is_in_the_bundle_or_in_what_is_said(
    options: list[str], programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    planted(programs, tmp_path)
    world = World()
    assert world.run("collect", "vllm", "-c", "srv", "-o", "x.tar.zst", *options) == 1, world.err.getvalue()
    held = content(tmp_path / "x.tar.zst")
    for secret in SECRETS:
        assert secret.encode() not in held
        assert secret not in world.printed + world.err.getvalue()


def test_names_go_only_if_asked_and_what_was_done_is_said(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    planted(programs, tmp_path)
    for options, there in ((["-o", "plain.tar.zst"], True), (["-o", "red.tar.zst", "--redact"], False)):
        world = World()
        world.run("collect", "vllm", *options)
        held = content(tmp_path / options[1])
        for name in (b"zeus-gpu", b"miriam", b"10.20.30.40"):
            assert (name in held) == there, name
        assert ("--redact replaces them" in world.err.getvalue()) == there
        assert (b"--redact replaces them" in held) == there


def test_a_redacted_bundle_has_the_same_diagnosis(
    programs: Callable[[str, str], None], tmp_path: Path
) -> None:
    planted(programs, tmp_path)
    answers = []
    for options in ([], ["--redact", "--force"]):
        world = World()
        world.run("collect", "vllm", "-o", "x.tar.zst", "--format", "json", *options)
        first = json.loads(world.printed)["diagnoses"][0]
        answers.append((first["rule"], first["line"], first["confidence"]))
    assert answers[0] == answers[1]
    assert answers[0][:2] == ("kv-cache-too-small", KV.line)


def test_ctrl_c_leaves_no_half_file(programs: Callable[[str, str], None], tmp_path: Path) -> None:
    programs("df", f"touch {tmp_path}/asked; exec sleep 1000")
    code = "import sys; from vdiag.cli import run; sys.exit(run(['collect', '-o', 'x.tar.zst', '--timeout', '60']))"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, start_new_session=True) as process:
        while process.poll() is None and not (tmp_path / "asked").exists():
            pass
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
    assert {p.name for p in tmp_path.iterdir()} == {"bin", "asked"}
