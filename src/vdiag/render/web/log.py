"""The lines of the inputs on the page: numbered, marked, those far from all that the report names folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from vdiag.model import Input, Line, Report
from vdiag.render.sections import counted
from vdiag.render.web.markup import Html, element, folded, joined, section, text
from vdiag.render.web.places import Places

MOST_TEXT = 4 * 1024 * 1024  # characters of all lines together; when there are more, long lines are cut
LEAST_CUT = 200  # characters that every line keeps
CUT_MARKED = 16 * 1024  # those of a line that the report names
LONG = 2000  # characters of a line; of a longer one the first are shown and the rest is folded
FIRST = 1500
NEAR = 12  # lines shown around each named one
EDGE = 20  # lines shown at both ends of an input
LEAST_FOLDED = 30  # lines that are worth a fold
LANES = 14  # processes with a letter and a colour of their own
LETTERS = "ABCDEFGHIJKLMN"
LEVELS = {"ERROR": "e", "CRITICAL": "e", "WARNING": "w"}


def log(report: Report, lines: Mapping[str, Sequence[Line]], places: Places) -> Html:
    """The whole part, with the choice of processes."""
    lanes = Counter(line.lane for own in lines.values() for line in own if line.lane)
    letters = {lane: number for number, (lane, _) in enumerate(lanes.most_common(LANES), start=1)}
    limit = _limit(lines)
    once = {read.name: read for read in report.inputs}  # the same input may be named twice
    inputs = [
        _input(read, lines.get(name, []), places.order[name], letters, places, limit)
        for name, read in once.items()
    ]
    if not any(lines.values()):
        inputs.append(element("p", "No line of the log is shown."))
    shown = element("div", *inputs, class_="log", id="lines")
    return section("log", "The log", _search(), _lanes(lanes, letters), shown)


def _limit(lines: Mapping[str, Sequence[Line]]) -> int:
    """How many characters of a line that nothing names are kept: all, unless the page would grow too large."""
    sizes = [len(line.text) for own in lines.values() for line in own]
    return max(MOST_TEXT // len(sizes), LEAST_CUT) if sum(sizes) > MOST_TEXT else MOST_TEXT + len(sizes)


def _search() -> Html:
    """The search, which the script shows; without it the browser's own finds everything that is not folded."""
    box = element("label", "Search the log ", Html('<input type="search" name="q" autocomplete="off">'))
    steps = [
        element("button", said, type="button", name=name, aria_label=f"{said} line that matches")
        for name, said in (("previous", "Previous"), ("next", "Next"))
    ]
    only = element("label", Html('<input type="checkbox" name="only"> '), "matches only")
    count = element("output", id="count", aria_live="polite")
    help_ = "Enter goes to the next match, Shift+Enter to the one before, Escape clears; :47 goes to line 47."
    hint = element("p", help_, class_="hint")
    return element("form", box, *steps, only, count, hint, id="find", role="search", hidden=True)


def _lanes(lanes: Counter[str], letters: dict[str, int]) -> Html:
    """The processes with letter, colour and name; unticking one hides its lines, with the style sheet alone."""
    if not letters:
        return Html()
    others = sum(lanes.values()) - sum(lanes[lane] for lane in letters)
    entries = [
        (number, LETTERS[number - 1], f"{lane} ({counted(lanes[lane], 'line')})")
        for lane, number in letters.items()
    ]
    if others:
        entries.append((LANES + 1, "+", f"other processes ({counted(others, 'line')})"))
    choices = [
        element(
            "label",
            Html(f'<input type="checkbox" id="lane{number}" checked> '),
            element("span", letter, class_=f"chip l{number}"),
            f" {said}",
        )
        for number, letter, said in entries
    ]
    return element("fieldset", element("legend", "Processes shown"), *choices)


def _input(
    read: Input, lines: Sequence[Line], number: int, letters: dict[str, int], places: Places, limit: int
) -> Html:
    rows = [(key, list(own)) for key, own in groupby(lines, key=lambda line: line.number)]
    if not rows:
        return section(f"i{number}", read.name, element("p", "No line of it is shown."), level=3)
    ends = (rows[0][0] + EDGE, rows[-1][0] - EDGE)
    near = {
        key
        for (source, line), mark in places.marks.items()
        if source == read.name and mark.kind != "harmless"
        for key in range(line - NEAR, line + NEAR + 1)
    }
    shown = [key in near or key < ends[0] or key > ends[1] for key, _ in rows]
    parts: list[Html] = []
    last, at, seen = 0, 0, set[int]()
    for count, opened in _stretches(shown, [key for key, _ in rows]):
        stretch = rows[at : at + count]
        at += count
        if gap := stretch[0][0] - last - 1:
            parts.append(_left_out(last + 1, stretch[0][0] - 1, gap))
        body = Html(
            "\n".join(_row(key, own, read.name, letters, places, limit, seen) for key, own in stretch)
        )
        listing = element("ol", Html("\n"), body, start=stretch[0][0])
        last = max(last, stretch[-1][0])
        span = f"Lines {stretch[0][0]:,} to {stretch[-1][0]:,} ({counted(len(stretch), 'line')})"
        parts.append(listing if opened else folded(span, listing))
    if read.lines > last:
        parts.append(_left_out(last + 1, read.lines, read.lines - last))
    return section(f"i{number}", read.name, *parts, level=3)


def _stretches(shown: list[bool], keys: list[int]) -> Iterator[tuple[int, bool]]:
    """Runs of lines that are shown or folded; ones too short to fold are shown, and a hole in the numbers parts them."""
    runs: list[tuple[int, bool]] = []
    before = None
    for opened, own in groupby(range(len(shown)), key=lambda i: (shown[i], keys[i] - i)):
        count = len(list(own))
        wide = opened[0] or count < LEAST_FOLDED
        if runs and before == opened[1] and runs[-1][1] and wide:
            runs[-1] = (runs[-1][0] + count, True)
        else:
            runs.append((count, wide))
        before = opened[1]
    yield from runs


def _left_out(first: int, last: int, count: int) -> Html:
    lines = f"Lines {first:,} to {last:,}" if count > 1 else f"Line {first:,}"
    are = "are" if count > 1 else "is"
    return element("p", f"{lines} ({counted(count, 'line')}) {are} left out here.", class_="gap")


def _row(
    number: int,
    own: Iterable[Line],
    source: str,
    letters: dict[str, int],
    places: Places,
    limit: int,
    seen: set[int],
) -> str:
    """One item: `<li id="L1-47" class="l1 e">`. An entry of several rows is one item."""
    rows = list(own)
    mark = places.marks.get((source, number))
    said = "\n".join(row.text for row in rows) if len(rows) > 1 else rows[0].text
    lane = rows[0].lane
    classes = [f"l{letters.get(lane, LANES + 1)}"] if lane else []
    if level := LEVELS.get(rows[0].level):
        classes.append(level)
    tag = ""
    if mark is not None:
        classes.append(mark.kind)
        tag = f'<a class="tag" href="#{mark.part}">{text(places.word(mark))}</a> '
    named = f' id="{places.anchor(source, number)}"' if number not in seen else f' value="{number}"'
    seen.add(number)
    class_ = f' class="{" ".join(classes)}"' if classes else ""
    told = mark is not None and mark.kind != "harmless"
    return f"<li{named}{class_}>{tag}{_text(said, max(limit, CUT_MARKED) if told else limit)}"


def _text(said: str, limit: int) -> Html:
    """A line's text: cut in the middle to `limit` characters, what is long folded."""
    if len(said) > limit:
        cut = len(said) - limit
        said = f"{said[: limit - limit // 4]} [… {cut:,} characters left out …] {said[-(limit // 4) :]}"
    if len(said) <= LONG:
        return text(said)
    rest = said[FIRST:]
    return joined(said[:FIRST], folded(f"{len(rest):,} more characters", element("span", rest)))
