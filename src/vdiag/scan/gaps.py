"""What the collector of a log says that it left out, and the command that gets it: folded, one note a kind."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

from vdiag.model import Gap

_BLOB = re.compile(r"\[\d+(?:\.\d+)?[BKMGT]? blob data\]")
_TAG = re.compile(r"(?P<tag>[^\s:\[\]()]+)(?:\[\d+\])?: ?$")
_SUPPRESSED = re.compile(r"Suppressed (?P<count>\d+) messages from (?P<unit>[\w@.:\\/-]+)")
_MISSED = re.compile(r"Missed (?P<count>\d+) kernel messages")
_LEFT_OUT = re.compile(
    r"^-- vdiag collect left out (?P<count>\d+) bytes of messages from here on --$", re.MULTILINE
)
_NONE = re.compile(r"^-- No entries --$", re.MULTILINE)
_SAID = re.compile(
    r"(?:-- .* --|-- (?:Journal|Logs) begins? at .*|Hint: You are currently not seeing .*|\s*)$"
)


class Gaps:
    """Collects the gaps of one input; `told` gives them, each kind once with its first line and how often."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[int]] = {}  # kind → [first line, times]
        self._about: dict[str, tuple[str, str]] = {}  # kind → (what, with {n} for the times; command)

    def add(self, kind: str, line: int, what: str, command: str = "", times: int = 1) -> None:
        """`what` may say `{n}`; the first of a kind gives its text."""
        known = self._kinds.get(kind)
        if known is not None:
            known[1] += times
        elif len(self._kinds) < 20:
            self._kinds[kind] = [line, times]
            self._about[kind] = what, command

    def told(self) -> list[Gap]:
        """All gaps, in the order of their first lines."""
        return [
            Gap(
                what=self._about[kind][0].replace("{n}", f"{times:,}"),
                line=line,
                command=self._about[kind][1],
            )
            for kind, (line, times) in sorted(self._kinds.items(), key=lambda item: item[1][0])
        ]

    def look(self, text: str, place: Callable[[int], int]) -> None:
        """Looks for journald's own notices in a text; `place` gives the number of its line with an index."""
        # Three searches a text, since this is done for every line that is read.
        if "blob data]" not in text and " messages" not in text and "-- No entries --" not in text[:4096]:
            return

        def line_of(m: re.Match[str]) -> int:
            return place(text.count("\n", 0, m.start()))

        for m in _BLOB.finditer(text):
            begin = text.rfind("\n", 0, m.start()) + 1
            tag = _TAG.search(text, begin, m.start())
            self.blob(line_of(m), tag["tag"] if tag else "")
        for m in _SUPPRESSED.finditer(text):
            self.suppressed(line_of(m), m["unit"], int(m["count"][:15]))
        for m in _MISSED.finditer(text):
            what = "journald missed {n} kernel messages here"
            self.add("missed", line_of(m), what, "dmesg -T", int(m["count"][:15]))
        for m in _LEFT_OUT.finditer(text):
            what = (
                "vdiag collect left out {n} bytes here: of a very long log it takes the beginning and the end"
            )
            self.add("left out", line_of(m), what, times=int(m["count"][:15]))
        for m in _NONE.finditer(text):
            what = "journalctl found no entries: wrong unit, boot or time, or no right to read them"
            self.add("none", line_of(m), what, "sudo journalctl --list-boots")

    def blob(self, line: int, tag: str) -> None:
        """A message that journalctl shows as `[159B blob data]`, since it holds colours or bytes that are no text."""
        what = "journalctl hid {n} of the messages as [… blob data]: -a prints them (as does -o cat)" + (
            f"; first of {tag}" if tag else ""
        )
        self.add("blob", line, what, f"journalctl -a{_of(tag)}")

    def suppressed(self, line: int, unit: str, count: int) -> None:
        """Messages that journald dropped, since there were too many in a short while."""
        name = unit.rsplit("/", 1)[-1]
        what = (
            f"journald dropped {{n}} messages of {name} (its rate limit), they are lost: set LogRateLimitIntervalSec=0 "
            "under [Service] and start it again"
        )
        self.add(f"suppressed {name}", line, what, f"sudo systemctl edit {shlex.quote(name)}", count)

    def long(self, line: int, tag: str) -> None:
        """A message that journalctl left out of its JSON, since it is longer than 4096 bytes."""
        what = "journalctl left {n} long messages out of its JSON (null): -a prints them"
        self.add("long", line, what, f"journalctl -a -o json{_of(tag)}")

    def broken(self, line: int, form: str) -> None:
        """An entry that is cut off or damaged; what could be read of it was."""
        self.add(
            "broken", line, f"{{n}} entries of the {form} are cut off or damaged: read as far as they go"
        )


def _of(tag: str) -> str:
    """The option that asks journalctl for the entries of a tag as printed."""
    if tag == "kernel":
        return " -k"
    if tag.endswith((".service", ".scope")):
        return f" -u {shlex.quote(tag)}"
    return f" -t {shlex.quote(tag)}" if tag else ""


def says_nothing(text: str) -> bool:
    """Whether a text holds only what journalctl says itself (`-- No entries --`)."""
    text = text.strip()
    return len(text) < 4096 and all(_SAID.match(row) for row in text.split("\n"))
