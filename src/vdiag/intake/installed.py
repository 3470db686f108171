"""What is installed beside vLLM, read from the folders of its environment: nothing is executed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

WANTED = re.compile(  # what failures of vLLM have to do with
    r"(?:vllm|torch|torchvision|torchaudio|transformers|tokenizers|huggingface-hub|hf-xet|triton|pytorch-triton.*|xformers"
    r"|flash-attn.*|flashinfer.*|ray|numpy|numba|pydantic|fastapi|uvicorn|outlines.*|xgrammar|lm-format-enforcer|compressed-tensors"
    r"|bitsandbytes|safetensors|accelerate|deep-gemm|deep-ep|nixl.*|lmcache|mistral-common|openai|nvidia-.*|amdsmi|aiter|vllm-.*)"
)
_METADATA = re.compile(r"(?P<name>.+?)-(?P<version>\d[^-]*)\.(?:dist-info|egg-info)")
_CUDA = re.compile(r"^(cuda|hip)\b[^=\n]*= *'([\d.]+)", re.MULTILINE)
_HEAD = 4096  # bytes read of a script or of torch's version file


def prefixes(words: Iterable[str]) -> list[str]:
    """The environments that the words of a command lead to, as `/opt/vllm` for `/opt/vllm/bin/vllm`, each once."""
    found: list[str] = []
    for word in words:
        program = word.strip("\"'")
        if not program.startswith("/") or "/bin/" not in program:
            continue
        real = os.path.realpath(program)
        for path in (program, _interpreter(program), real, _interpreter(real)):
            prefix = path.rpartition("/bin/")[0]
            if prefix and prefix not in found:
                found.append(prefix)
    return found


def packages(prefix: str) -> dict[str, str]:
    """Names and versions of what matters in an environment; empty where vLLM is not in it."""
    found: dict[str, str] = {}
    for folder in _folders(prefix):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for entry in names:
            told = _METADATA.fullmatch(entry)
            if told is None:
                continue
            name = told["name"].lower().replace("_", "-")
            if WANTED.fullmatch(name):
                found.setdefault(name, told["version"])
    return found if "vllm" in found else {}


def built_for(prefix: str) -> str:
    """What torch was built for in an environment, as `CUDA 12.8`; empty if it does not say."""
    for folder in _folders(prefix):
        told = dict(_CUDA.findall(_head(folder / "torch" / "version.py")))
        for name, shown in (("cuda", "CUDA"), ("hip", "ROCM")):
            if name in told:
                return f"{shown} {told[name]}"
    return ""


def _folders(prefix: str) -> list[Path]:
    found: list[Path] = []
    for pattern in ("lib*/python3*/site-packages", "lib*/python3*/dist-packages"):
        found += sorted(Path(prefix).glob(pattern))
    return found


def _interpreter(script: str) -> str:
    """The program behind a script's `#!`; empty where there is none."""
    first = _head(Path(script)).split("\n", 1)[0]
    return first[2:].strip().split(" ", 1)[0] if first.startswith("#!") else ""


def _head(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return file.read(_HEAD).decode("utf8", "replace")
    except OSError:
        return ""
