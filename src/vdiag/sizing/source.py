"""Where a model's config and weights lie: a file, a folder, or the folder of a hub cache. Nothing is fetched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vdiag.sizing.config import LONGEST_CONFIG, Config, Unsizable, parsed

SHORTEST_COMMIT = 7


@dataclass(frozen=True)
class Source:
    """A config, and the folder that may hold weights; None where it came from elsewhere."""

    config: Config
    folder: Path | None


def from_bytes(data: bytes, name: str) -> Source:
    """A config read from standard input; raises Unsizable."""
    return Source(Config(parsed(data, name), name), None)


def from_path(path: Path) -> Source:
    """A config.json, a model's folder, or `models--org--name` of a hub cache.

    Raises:
        Unsizable: there is no config, or it is none.
        OSError: it cannot be read.
    """
    if path.suffix == ".gguf":
        raise Unsizable(f"{path}: a GGUF file; vdiag reads config.json and safetensors only")
    folder = _snapshot(path) if path.is_dir() else path.parent
    file = folder / "config.json" if path.is_dir() else path
    if not file.is_file():
        if path.is_dir():
            raise Unsizable(f"{folder}: no config.json in it{_instead(folder)}")
        raise Unsizable(f"{path}: no regular file" if file.exists() else f"{path}: no such file or folder")
    with file.open("rb") as opened:
        data = opened.read(LONGEST_CONFIG + 1)
    # Beside a file of another name lie perhaps the weights of another model.
    return Source(Config(parsed(data, str(file)), str(file)), folder if file.name == "config.json" else None)


def _instead(folder: Path) -> str:
    if any(folder.glob("*.gguf")):
        return ", only GGUF files, which vdiag does not read"
    if (folder / "params.json").is_file():
        return ", only Mistral's params.json, which vdiag does not read"
    return ""


def _snapshot(folder: Path) -> Path:
    """The snapshot of a hub cache's folder that its `main` names, else the newest; any other folder as it is."""
    snapshots = folder / "snapshots"
    if not snapshots.is_dir() or (folder / "config.json").is_file():
        return folder
    main = folder / "refs" / "main"
    if main.is_file() and main.stat().st_size < 1000:
        named = snapshots / main.read_text(encoding="utf-8", errors="replace").strip()
        if named.parent == snapshots and (named / "config.json").is_file():
            return named
    found = [path for path in snapshots.iterdir() if (path / "config.json").is_file()]
    if not found:
        raise Unsizable(f"{folder}: no snapshot in it has a config.json; the model was not downloaded")
    return max(found, key=lambda path: path.stat().st_mtime)
