"""The lines around what a report names, read once more: whatever the input's length, format or packing."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

from vdiag import excerpts
from vdiag.intake.sources import Source, of_bytes, sources
from vdiag.model import Line
from vdiag.render.spans import Wanted

ROW = "(EngineCore pid=41) ERROR 08-28 10:12:45 [core.py:708] row {}"


def around(lines: list[int], before: int, after: int) -> list[range]:
    wanted = Wanted()
    for line in lines:
        wanted.add("a", line, before, after)
    return wanted.told()["a"]


def numbers(lines: list[Line]) -> list[int]:
    return [line.number for line in lines]


def test_stretches_that_touch_are_one() -> None:
    assert around([7, 5, 5, 20], 1, 1) == [range(4, 9), range(19, 22)]
    assert around([1], 3, 0) == [range(1, 2)]


def test_a_line_comes_with_its_number_its_text_and_its_process() -> None:
    text = "\n".join(ROW.format(i) for i in range(1, 10))
    found = excerpts.read([of_bytes(text.encode(), "a")], {"a": [range(3, 5)]})["a"]
    assert numbers(found) == [3, 4]
    assert found[0].text == ROW.format(3)
    assert (found[0].lane, found[0].level) == ("EngineCore pid=41", "ERROR")


def test_of_a_progress_bar_the_last_drawing_is_shown() -> None:
    rows = "\rLoading weights: 0%\rLoading weights: 50%\rLoading weights: 100%\r\nE: gone\rLoading weights: 7%\nend\r\n"
    found = excerpts.read([of_bytes(rows.encode(), "a")], {"a": [range(1, 4)]})["a"]
    assert [line.text for line in found] == ["Loading weights: 100%", "E: gone\rLoading weights: 7%", "end"]


def test_in_a_long_input_the_same_lines_come_as_in_a_short_one() -> None:
    rows = [ROW.format(i) for i in range(1, 300_001)]
    source = of_bytes(("\n".join(rows) + "\n").encode(), "long")
    wanted = around([1, 150_000, 150_001, 300_000], 1, 1)
    found = excerpts.read([source], {"long": wanted})["long"]
    assert numbers(found) == [1, 2, 149_999, 150_000, 150_001, 150_002, 299_999, 300_000]
    assert all(line.text == rows[line.number - 1] for line in found)


def test_an_encoded_input_gives_the_text_that_its_entries_hold() -> None:
    entries = [
        {"MESSAGE": f"row {i}", "_HOSTNAME": "gpu-01", "SYSLOG_IDENTIFIER": "vllm", "_PID": "7"}
        for i in range(1, 6)
    ]
    data = "".join(json.dumps(entry) + "\n" for entry in entries).encode()
    found = excerpts.read([of_bytes(data, "j")], {"j": [range(2, 4)]})["j"]
    assert numbers(found) == [2, 3]
    assert [line.text.endswith(f"row {line.number}") for line in found] == [True, True]
    assert found[0].lane == "vllm pid=7"


def test_a_stream_that_can_be_read_once_is_read_again_from_its_copy() -> None:
    stream = io.BytesIO(b"one\ntwo\nthree\n")
    copy = excerpts.spooled(Source("s", lambda: stream))
    for _ in range(2):
        assert [line.text for line in excerpts.read([copy], {"s": [range(2, 3)]})["s"]] == ["two"]


class Breaks(io.BytesIO):
    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        if not piece:
            raise OSError("the disk is gone")
        return piece


def test_what_could_be_read_of_a_stream_that_breaks_is_kept() -> None:
    copy = excerpts.spooled(Source("s", lambda: Breaks(b"one\ntwo\n")))
    assert [line.text for line in excerpts.read([copy], {"s": [range(1, 9)]})["s"]] == ["one", "two"]


def test_a_packed_file_of_a_rotated_set_is_read_by_its_own_lines(tmp_path: Path) -> None:
    old, new = tmp_path / "vllm.log.1.gz", tmp_path / "vllm.log"
    old.write_bytes(gzip.compress(b"old 1\nold 2\n"))
    new.write_text("new 1\nnew 2\n")
    found, problems = sources([str(new), str(old)], io.BytesIO(), joined=False)
    assert not problems
    lines = excerpts.read(found, {str(old): [range(2, 3)], str(new): [range(1, 2)]})
    assert [line.text for line in lines[str(old)] + lines[str(new)]] == ["old 2", "new 1"]
