"""What is peeled off in front of a message, and that the message itself stays as it was."""

from __future__ import annotations

import pytest

from vdiag.model import Envelope, Kind
from vdiag.scan.envelope import Peeler, has_escapes, strip_escapes

FORMS = {
    "nothing at all": ("ld: cannot find -lcuda", {}, "ld: cannot find -lcuda"),
    "vLLM": (
        "ERROR 08-28 10:12:45 [core.py:708] Boom",
        {"kind": Kind.LOG, "level": "ERROR", "time": "08-28 10:12:45", "origin": "core.py:708"},
        "Boom",
    ),
    "vLLM with a process": (
        "(EngineCore_DP0 pid=5400) ERROR 08-28 10:12:45 [core.py:708] Boom",
        {
            "kind": Kind.LOG,
            "role": "EngineCore",
            "rank": "DP0",
            "pid": 5400,
            "level": "ERROR",
            "time": "08-28 10:12:45",
            "origin": "core.py:708",
        },
        "Boom",
    ),
    "vLLM without a date": (
        "(EngineCore_DP0 pid=5400) ERROR [core.py:708] Boom",
        {
            "kind": Kind.LOG,
            "role": "EngineCore",
            "rank": "DP0",
            "pid": 5400,
            "level": "ERROR",
            "origin": "core.py:708",
        },
        "Boom",
    ),
    "vLLM before 0.9": (
        "WARNING 01-14 08:30:02 config.py:840] Slow",
        {"kind": Kind.LOG, "level": "WARNING", "time": "01-14 08:30:02", "origin": "config.py:840"},
        "Slow",
    ),
    "a process and nothing else": (
        "(APIServer pid=31) Traceback (most recent call last):",
        {"role": "APIServer", "pid": 31},
        "Traceback (most recent call last):",
    ),
    "several ranks": (
        "(Worker_DP1_TP3_EP3 pid=77) INFO 08-28 10:12:45 [w.py:1] x",
        {
            "kind": Kind.LOG,
            "role": "Worker",
            "rank": "DP1_TP3_EP3",
            "pid": 77,
            "level": "INFO",
            "time": "08-28 10:12:45",
            "origin": "w.py:1",
        },
        "x",
    ),
    "a rank in words": (
        "(VllmWorker rank=2 pid=9) ERROR 04-03 16:21:09 [multiproc_executor.py:379] x",
        {
            "kind": Kind.LOG,
            "role": "VllmWorker",
            "rank": "2",
            "pid": 9,
            "level": "ERROR",
            "time": "04-03 16:21:09",
            "origin": "multiproc_executor.py:379",
        },
        "x",
    ),
    "Ray": (
        "(RayWorkerWrapper pid=4242, ip=10.0.0.7) ERROR 08-28 10:12:45 [worker_base.py:9] x",
        {
            "kind": Kind.LOG,
            "role": "RayWorkerWrapper",
            "pid": 4242,
            "level": "ERROR",
            "time": "08-28 10:12:45",
            "origin": "worker_base.py:9",
        },
        "x",
    ),
    "uvicorn": (
        "INFO:     Started server process [12]",
        {"kind": Kind.LOG, "level": "INFO"},
        "Started server process [12]",
    ),
    "a torch rank": ("[rank3]: ValueError: x", {"role": "rank", "rank": "3"}, "ValueError: x"),
    "torch's C++ log": (
        "[W914 07:42:47.123456789 ProcessGroupNCCL.cpp:1250] Warning: x",
        {"kind": Kind.LOG, "level": "WARNING", "origin": "ProcessGroupNCCL.cpp:1250"},
        "Warning: x",
    ),
    "journald short": (
        "Sep 14 07:42:47 gpu-02 vllm[48210]: (EngineCore_DP0 pid=48377) ERROR 09-14 07:42:46 [core.py:708] x",
        {
            "kind": Kind.LOG,
            "role": "EngineCore",
            "rank": "DP0",
            "pid": 48377,
            "level": "ERROR",
            "time": "Sep 14 07:42:47",
            "origin": "core.py:708",
            "host": "gpu-02",
            "unit": "vllm",
        },
        "x",
    ),
    "journald short, a one-digit day": (
        "Sep  4 07:42:47 gpu-02 vllm[48210]: x",
        {"time": "Sep  4 07:42:47", "host": "gpu-02", "unit": "vllm", "pid": 48210},
        "x",
    ),
    "journald short-iso": (
        "2026-09-14T07:42:47+0000 gpu-02 vllm[48210]: x",
        {"time": "2026-09-14T07:42:47+0000", "host": "gpu-02", "unit": "vllm", "pid": 48210},
        "x",
    ),
    "systemd in the journal": (
        "Sep 14 07:42:47 gpu-02 systemd[1]: vllm.service: Failed with result 'oom-kill'.",
        {"kind": Kind.UNIT, "time": "Sep 14 07:42:47", "host": "gpu-02", "unit": "systemd", "pid": 1},
        "vllm.service: Failed with result 'oom-kill'.",
    ),
    "systemd alone": (
        "systemd[1]: vllm.service: Failed with result 'oom-kill'.",
        {"kind": Kind.UNIT},
        "vllm.service: Failed with result 'oom-kill'.",
    ),
    "the kernel in the journal": (
        "Sep 14 07:42:47 gpu-02 kernel: oom_reaper: reaped process 7",
        {"kind": Kind.KERNEL, "time": "Sep 14 07:42:47", "host": "gpu-02"},
        "oom_reaper: reaped process 7",
    ),
    "dmesg": (
        "[12345.678901] Out of memory: Killed process 7 (python3)",
        {"kind": Kind.KERNEL, "time": "12345.678901"},
        "Out of memory: Killed process 7 (python3)",
    ),
    "dmesg -T": (
        "[Mon Sep 14 07:42:47 2026] NVRM: Xid (PCI:0000:01:00): 79",
        {"kind": Kind.KERNEL, "time": "Mon Sep 14 07:42:47 2026"},
        "NVRM: Xid (PCI:0000:01:00): 79",
    ),
    "dmesg -x": (
        "kern  :err   : [12345.678901] usb 1-1: gone",
        {"kind": Kind.KERNEL, "level": "ERROR", "time": "12345.678901"},
        "usb 1-1: gone",
    ),
    "dmesg -d": (
        "[12345.678901 <    0.000012>] Out of memory: Killed process 7 (python3)",
        {"kind": Kind.KERNEL, "time": "12345.678901"},
        "Out of memory: Killed process 7 (python3)",
    ),
    "dmesg -e": (
        "[  +0.000012] Out of memory: Killed process 7 (python3)",
        {"kind": Kind.KERNEL},
        "Out of memory: Killed process 7 (python3)",
    ),
    "dmesg -e, a new minute": (
        "[Sep14 07:42] Out of memory: Killed process 7 (python3)",
        {"kind": Kind.KERNEL},
        "Out of memory: Killed process 7 (python3)",
    ),
    "dmesg -r": (
        "<3>[12345.678901] Out of memory: Killed process 7 (python3)",
        {"kind": Kind.KERNEL, "time": "12345.678901"},
        "Out of memory: Killed process 7 (python3)",
    ),
    "syslog, RFC 5424": (
        '<30>1 2026-09-14T07:42:47.123456+02:00 gpu-02 vllm 48210 - [meta seq="7"] x',
        {"time": "2026-09-14T07:42:47.123456+02:00", "host": "gpu-02", "unit": "vllm", "pid": 48210},
        "x",
    ),
    "syslog, RFC 5424, without a pid": (
        "<30>1 2026-09-14T07:42:47Z gpu-02 vllm - - - x",
        {"time": "2026-09-14T07:42:47Z", "host": "gpu-02", "unit": "vllm"},
        "x",
    ),
    "a Ray process without a name": ("(pid=4242, ip=10.0.0.7) x", {"pid": 4242}, "x"),
    "Ray's own": ("(raylet, ip=10.0.0.7) x", {"role": "raylet"}, "x"),
    "Ray's autoscaler": ("(autoscaler +12s) x", {"role": "autoscaler"}, "x"),
    "GitLab": ("2026-09-14T07:42:47.123456Z 01E x", {"time": "2026-09-14T07:42:47.123456Z"}, "x"),
    "ts": ("Sep 14 07:42:47 x", {"time": "Sep 14 07:42:47"}, "x"),
    "a clock": ("07:42:47.123 x", {}, "x"),
    "`podman run` in a unit": (
        "Sep 14 07:42:47 gpu-02 podman[48210]: (APIServer pid=1) x",
        {"role": "APIServer", "pid": 1, "time": "Sep 14 07:42:47", "host": "gpu-02", "unit": "podman"},
        "x",
    ),
    "docker compose": (
        "vllm-1  | (EngineCore_DP0 pid=107) ERROR 01-17 20:11:36 [core.py:1] x",
        {
            "kind": Kind.LOG,
            "role": "EngineCore",
            "rank": "DP0",
            "pid": 107,
            "level": "ERROR",
            "time": "01-17 20:11:36",
            "origin": "core.py:1",
            "unit": "vllm-1",
        },
        "x",
    ),
    "a container runtime (CRI)": (
        "2026-09-14T07:42:47.123456789Z stderr F ERROR 09-14 07:42:47 [core.py:1] x",
        {"kind": Kind.LOG, "level": "ERROR", "time": "2026-09-14T07:42:47.123456789Z", "origin": "core.py:1"},
        "x",
    ),
    "kubectl logs --timestamps": (
        "2026-09-14T07:42:47.123456789Z (APIServer pid=1) x",
        {"role": "APIServer", "pid": 1, "time": "2026-09-14T07:42:47.123456789Z"},
        "x",
    ),
    "Python's logging": (
        "2026-09-14 07:42:47,123 - vllm.engine - ERROR - x",
        {"kind": Kind.LOG, "level": "ERROR", "time": "2026-09-14 07:42:47,123"},
        "x",
    ),
    "nginx's error log": (
        "2026/09/14 07:42:47 [error] 31#31: *7 upstream timed out (110: Connection timed out)",
        {"kind": Kind.HTTP, "level": "ERROR", "time": "2026/09/14 07:42:47"},
        "upstream timed out (110: Connection timed out)",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_envelope_is_peeled_whole(form: str) -> None:
    line, fields, message = FORMS[form]
    assert Peeler().peel(line) == (Envelope(**fields), message)


PADDED = {"uvicorn"}  # pads its level to a column, and prints no traceback rows behind it
INDENTED = [f for f in FORMS if f not in PADDED]


@pytest.mark.parametrize("form", INDENTED)
def test_behind_any_envelope_the_indentation_of_a_frame_stays(form: str) -> None:
    line, _, message = FORMS[form]
    prefix = line[: len(line) - len(message)]
    row = '  File "/opt/app/engine.py", line 10, in run'
    assert Peeler().peel(prefix + row)[1] == row


@pytest.mark.parametrize("form", [f for f in FORMS if f != "nothing at all"])
def test_behind_any_envelope_an_empty_message_is_empty(form: str) -> None:
    line, _, message = FORMS[form]
    assert Peeler().peel(line[: len(line) - len(message)])[1] == ""


@pytest.mark.parametrize(
    "line",
    [
        '  File "/opt/app/engine.py", line 10, in run',
        "    raise ValueError('(EngineCore_DP0 pid=1) ERROR')",
        "ValueError: The model's max seq len (65536) is larger",
        "RuntimeError: [Errno 28] No space left on device",
        "| NVIDIA-SMI 570.1      Driver Version: 570.1   CUDA Version: 12.8 |",
        "(8.00 GiB KV cache is needed, which is larger than the available",
        "INFO is not a level here",
        "",
        "   ",
    ],
)
def test_a_line_without_an_envelope_stays_as_it_is(line: str) -> None:
    assert Peeler().peel(line) == (Envelope(), line)


def test_behind_vllms_own_header_nothing_more_is_peeled() -> None:
    _, message = Peeler().peel(
        "INFO 08-28 10:12:45 [api_utils.py:1] (quoted pid=3) ERROR 08-28 10:00:00 [x.py:1] y"
    )
    assert message == "(quoted pid=3) ERROR 08-28 10:00:00 [x.py:1] y"


def test_equal_prefixes_share_one_envelope() -> None:
    peeler = Peeler()
    line = "(APIServer pid=3) ERROR 08-28 10:12:45 [core.py:708] "
    assert peeler.peel(line + "a")[0] is peeler.peel(line + "b")[0]


def test_what_was_peeled_before_does_not_change_what_comes_next() -> None:
    fresh = {form: Peeler().peel(line) for form, (line, _, _) in FORMS.items()}
    used = Peeler()
    for _ in range(2):
        for form, (line, _, _) in FORMS.items():
            assert used.peel(line) == fresh[form]


def test_a_lane_is_written_as_people_write_it() -> None:
    assert Envelope(role="EngineCore", rank="DP0", pid=5400).lane == "EngineCore_DP0 pid=5400"
    assert Envelope(unit="vllm-1", role="APIServer", pid=1).lane == "vllm-1 APIServer pid=1"
    assert Envelope().lane == ""


@pytest.mark.parametrize(
    "coloured",
    [
        "\x1b[1;36m(APIServer pid=3)\x1b[0;0m Boom",
        "[1;36m(APIServer pid=3)[0;0m Boom",
        "^[[1;36m(APIServer pid=3)^[[0;0m Boom",
        "#033[1;36m(APIServer pid=3)#033[0;0m Boom",
        "\\x1b[1;36m(APIServer pid=3)\\x1b[0;0m Boom",
        "\\e[1;36m(APIServer pid=3)\\e[0;0m Boom",
        "ESC[1;36m(APIServer pid=3)ESC[0;0m Boom",
        "←[1;36m(APIServer pid=3)←[0;0m Boom",
        "\ufffd[1;36m(APIServer pid=3)\ufffd[0;0m Boom",
        "\x1b[2K\x1b[1G(APIServer pid=3) Boom",
        "\x1b]8;;http://example.org\x07(APIServer pid=3)\x1b]8;;\x07 Boom",
    ],
)
def test_colours_and_what_a_copy_leaves_of_them_go(coloured: str) -> None:
    assert has_escapes(coloured)
    assert strip_escapes(coloured) == "(APIServer pid=3) Boom"


@pytest.mark.parametrize("text", ["model[0] has shape [1, 2m]", "took [12 ms]", "array[3;]", "[rank0]: x"])
def test_brackets_that_are_no_colours_stay(text: str) -> None:
    assert strip_escapes(text) == text
