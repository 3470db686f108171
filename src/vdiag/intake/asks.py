"""What `vdiag collect` asks of a machine, as tables: nothing here changes anything, or leaves the machine."""

from __future__ import annotations

import re
from typing import NamedTuple

ABOUT = "collect.md"  # what was asked, what came of it, and all that no rule reads


NAMES = {  # what systemd, docker and podman take for one; no pattern, no option
    "unit": re.compile(r"[A-Za-z0-9_][A-Za-z0-9:_.\\@-]{0,254}"),
    "container": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}"),
}


class Ask(NamedTuple):
    """A program to run, without a shell, or files to read; `{…}` stands for what is known by then."""

    command: tuple[str, ...] = ()
    member: str = ""  # the file of the bundle it becomes; empty: a part of ABOUT
    spare: bool = False  # that the program is not installed is no news
    files: tuple[str, ...] = ()  # read in place of a program


SERVERS = (  # what may be meant where nothing was named: the first word of a row is a name
    ("unit", ("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", "--type=service")),
    ("container", ("docker", "ps", "--all", "--format={{.Names}} {{.Image}}")),
    ("container", ("podman", "ps", "--all", "--format={{.Names}} {{.Image}}")),
)

MACHINE = (
    Ask(("nvidia-smi",), "nvidia-smi.log"),
    Ask(("nvidia-smi", "--query-compute-apps=gpu_bus_id,pid,process_name,used_memory", "--format=csv")),
    Ask(("nvidia-smi", "-q", "-d", "MEMORY,ECC,COMPUTE,TEMPERATURE,POWER,PERFORMANCE,PAGE_RETIREMENT")),
    Ask(("nvidia-smi", "topo", "-m")),
    Ask(("amd-smi", "static", "--asic", "--driver", "--vram"), spare=True),
    Ask(("amd-smi", "process"), spare=True),
    Ask(("rocm-smi", "--showproductname", "--showdriverversion", "--showmeminfo", "vram"), spare=True),
    Ask(("rocm-smi", "--showpids"), spare=True),
    Ask(("df", "-h", "--", "/", "/tmp", "/dev/shm")),
    Ask(("df", "-i", "--", "/", "/tmp", "/dev/shm")),
    Ask(("free", "-m")),
    Ask(("lscpu",)),
    Ask(("uname", "-srvm")),
    Ask(files=("/etc/os-release", "/proc/meminfo", "/proc/pressure/memory", "/proc/driver/nvidia/version")),
)

UNIT = (Ask(("systemctl", "{manager}", "cat", "--no-pager", "--", "{unit}"), "unit.log"),)

STORES = (  # {store}: where the server keeps models; another file system than the rest, often one that hangs
    Ask(("df", "-h", "--", "{store}")),
)

PROCESS = (Ask(files=("/proc/{pid}/limits", "/proc/{pid}/cgroup")),)

GROUP = (
    Ask(
        files=tuple(
            f"/sys/fs/cgroup{{group}}/memory.{name}"
            for name in ("max", "high", "current", "peak", "swap.max", "events")
        )
    ),
)

CONTAINER = (Ask(("{engine}", "inspect", "--type=container", "--", "{container}")),)

# Of the unit, without Environment=: what a unit's file says of it stands in `systemctl cat`.
PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "Result", "Type", "Restart", "RestartUSec", "NRestarts",
    "StartLimitBurst", "StartLimitIntervalUSec", "TimeoutStartUSec", "TimeoutStopUSec", "RuntimeMaxUSec", "WatchdogUSec",
    "ExecStartPre", "ExecStart", "InactiveExitTimestamp", "InactiveEnterTimestamp", "ExecMainStartTimestamp",
    "ExecMainExitTimestamp", "ExecMainCode", "ExecMainStatus", "MainPID", "ControlGroup", "Slice", "User", "Group",
    "WorkingDirectory", "RootDirectory", "FragmentPath", "DropInPaths", "EnvironmentFiles", "MemoryCurrent", "MemoryPeak",
    "MemoryMax", "MemoryHigh", "MemorySwapMax", "TasksMax", "CPUQuotaPerSecUSec", "AllowedCPUs", "OOMPolicy",
    "OOMScoreAdjust", "LimitNOFILE", "LimitMEMLOCK", "LimitNPROC", "LimitAS", "LimitSTACK", "LimitCORE", "PrivateDevices",
    "DevicePolicy", "DeviceAllow", "PrivateTmp", "ProtectSystem", "ProtectHome", "ReadWritePaths",
)  # fmt: skip

# Variables of the server's process that decide how it runs, but for keys and passwords among them.
VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_HOME",
    "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH", "LD_PRELOAD", "HF_HOME", "HF_HUB_CACHE",
    "HF_HUB_OFFLINE", "HF_HUB_ENABLE_HF_TRANSFER", "TRANSFORMERS_OFFLINE", "TRANSFORMERS_CACHE", "OMP_NUM_THREADS",
    "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR",
    "XDG_CACHE_HOME", "VIRTUAL_ENV", "PYTHONPATH", "GLOO_SOCKET_IFNAME", "NCCL_*", "VLLM_*",
)  # fmt: skip
