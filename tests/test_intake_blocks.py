"""Blocks of whole lines: whatever the sizes, nothing is lost, doubled or torn."""

from __future__ import annotations

import io

import pytest

from vdiag.intake import blocks as intake
from vdiag.intake.blocks import Blocks, decode, looks_binary

SMALL = {"WHOLE": 4000, "TAIL": 700, "BLOCK": 1000}


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code over kilobytes instead of megabytes."""
    for name, value in SMALL.items():
        monkeypatch.setattr(intake, name, value)


def read(stream: io.RawIOBase | io.BytesIO) -> tuple[list[bytes], bytes, Blocks]:
    blocks = Blocks(stream)  # type: ignore[arg-type]
    bulk = [bytes(memoryview(block)[:size]) for block, size in blocks.bulk()]
    return bulk, blocks.tail, blocks


def numbered(size: int, width: int = 30) -> bytes:
    """Lines with numbers in them, cut to a size."""
    return b"".join(b"%06d %s\n" % (n, b"x" * (n * 7 % width)) for n in range(size // 8 + 1))[:size]


class Trickle(io.RawIOBase):
    """A pipe that gives a few bytes at a time, and may break."""

    def __init__(self, data: bytes, step: int, error: Exception | None = None) -> None:
        self._left = memoryview(data)
        self._step = step
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        n = min(self._step, len(buffer), len(self._left))
        if not n and self._error:
            raise self._error
        buffer[:n] = self._left[:n]
        self._left = self._left[n:]
        return n


@pytest.mark.parametrize(
    "size", [0, 1, 3999, 4000, 4001, 4002, 4700, 4999, 5000, 5001, 6000, 6001, 7123, 8000, 9999, 12345, 30011]
)
@pytest.mark.parametrize("width", [1, 30, 400])
def test_all_bytes_come_once_and_in_order(size: int, width: int) -> None:
    data = numbered(size, width)
    bulk, tail, blocks = read(io.BytesIO(data))
    assert b"".join(bulk) + tail == data
    assert blocks.bytes == size
    assert all(block.endswith(b"\n") for block in bulk)
    assert blocks.error == ""


@pytest.mark.parametrize("size", [0, 1, 4000])
def test_a_short_input_is_all_tail(size: int) -> None:
    data = numbered(size)
    assert read(io.BytesIO(data))[:2] == ([], data)


@pytest.mark.parametrize("size", [4001, 5000, 5700, 9000, 40_001])
def test_the_end_of_a_long_input_is_held_back(size: int) -> None:
    data = numbered(size)
    bulk, tail, _ = read(io.BytesIO(data))
    assert bulk
    assert 700 <= len(tail) <= 700 + 40  # the last 700 bytes and the rest of the line they begin in


@pytest.mark.parametrize("step", [1, 7, 999, 1000, 1001, 100_000])
def test_a_slow_pipe_gives_the_same(step: int) -> None:
    data = numbered(9000)
    bulk, tail, _ = read(Trickle(data, step))
    assert b"".join(bulk) + tail == data
    assert all(block.endswith(b"\n") for block in bulk)


@pytest.mark.parametrize("size", [0, 100, 4000, 9000])
def test_an_end_is_asked_for_once(size: int) -> None:
    class Terminal(Trickle):
        ends = 0

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            n = super().readinto(buffer)
            self.ends += not n
            return n

    stream = Terminal(numbered(size), 500)
    read(stream)
    assert stream.ends == 1


@pytest.mark.parametrize("before", [0, 10, 3990, 5000])
@pytest.mark.parametrize("long", [1001, 2000, 2001, 5000, 20_000])
def test_a_line_longer_than_a_block_is_passed_on_in_pieces(before: int, long: int) -> None:
    data = numbered(before) + b"y" * long + b"\n" + numbered(3000)
    bulk, tail, blocks = read(io.BytesIO(data))
    assert b"".join(bulk) + tail == data
    assert blocks.bytes == len(data)


def test_one_line_without_an_end_is_all_there() -> None:
    data = b"z" * 25_000
    bulk, tail, _ = read(io.BytesIO(data))
    assert b"".join(bulk) + tail == data


@pytest.mark.parametrize("size", [100, 5000])
def test_what_came_before_an_error_counts(size: int) -> None:
    data = numbered(size)
    bulk, tail, blocks = read(Trickle(data, 64, OSError(5, "Input/output error")))
    assert b"".join(bulk) + tail == data
    assert blocks.error == "Input/output error"


def test_any_error_of_a_stream_has_a_name() -> None:
    _, _, blocks = read(Trickle(b"x\n", 64, RuntimeError("")))
    assert blocks.error.startswith("RuntimeError")


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", ["\ufeff", ""])
@pytest.mark.parametrize("times", [3, 700])
def test_utf16_is_told_by_its_mark_or_its_nuls_and_decoded(codec: str, mark: str, times: int) -> None:
    text = "ValueError: no way, нет\n" * times
    bulk, tail, blocks = read(io.BytesIO((mark + text).encode(codec)))
    assert blocks.utf16 == codec
    assert decode(b"".join(bulk) + tail) == text


@pytest.mark.parametrize(
    "data", [b"", b"a\n", "Модель не найдена\n".encode() * 9, b"a\0b\0" + b"plain text " * 20]
)
def test_other_text_is_not_taken_for_utf16(data: bytes) -> None:
    assert read(io.BytesIO(data))[2].utf16 == ""


def test_nuls_and_bytes_that_are_no_text_do_not_stop_decoding() -> None:
    assert decode(b"\xef\xbb\xbfa\x00b\xffc\n") == "ab\ufffdc\n"


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (bytes(range(256)) * 4, True),
        (b"\x7fELF" + b"\x01\x02\x03\x90" * 50, True),
        (b"short \x01\x02", False),
        (b"plain text\n" * 20, False),
        (("Ошибка: модель не найдена\n" * 20).encode(), False),
        (b"\x1b[1;31mred\x1b[0m\n" * 20, False),
        (b"padded" + b"\x00" * 100, False),
    ],
)
def test_binary_is_told_by_its_share_of_controls(data: bytes, binary: bool) -> None:
    assert looks_binary(data) is binary


@pytest.mark.parametrize(
    "bar", ["\rLoading weights: {n:3}% |", "\r{n}/100 [00:0{n}<00:01, 3.4it/s]", "\r[{n:3} ==========>  ]"]
)
def test_a_redrawn_progress_bar_is_one_line(bar: str) -> None:
    *_, blocks = read(io.BytesIO("".join(bar.format(n=n) for n in range(100)).encode()))
    assert not blocks.returns
    assert b"\n" not in blocks.tail
