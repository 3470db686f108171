"""Rows kept on disk until all are there, to be given back in the order of their inputs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import msgspec

from vdiag.fleet_model import Row

IN_MEMORY = 8 << 20  # bytes of rows that need no file


class Spool:
    """Takes rows in any order. What stays in memory of each is its input's name."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  (lives as long as this)
        self._index: list[tuple[str, int, int]] = []
        self._encode = msgspec.msgpack.Encoder().encode  # texts of rows are valid
        self._decode = msgspec.msgpack.Decoder(Row).decode

    def add(self, row: Row) -> None:
        """Keeps a row."""
        data = self._encode(row)
        self._index.append((row.input, self._file.seek(0, 2), len(data)))
        self._file.write(data)

    def __len__(self) -> int:
        return len(self._index)

    def __iter__(self) -> Iterator[Row]:
        """The rows, by the names of their inputs."""
        for _, offset, size in sorted(self._index):
            self._file.seek(offset)
            yield self._decode(self._file.read(size))
