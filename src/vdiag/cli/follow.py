"""`vdiag --follow`: a diagnosis as soon as a failure has settled, until Ctrl-C or the end of the stream."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from vdiag.cli.console import Console
from vdiag.cli.status import ExitStatus, status_of
from vdiag.model import Report, Severity

if TYPE_CHECKING:
    from vdiag.follow import Follower, Told
    from vdiag.intake.growing import GrowingFile, GrowingPipe
    from vdiag.render.page import Page

WAIT = 0.1  # seconds between two looks at the log
QUIET = 0.7  # seconds without news after which a failure has settled
OPEN = 3.0  # the same while a traceback is open
STOPS = (signal.SIGINT, signal.SIGTERM)


def follow(console: Console, file: str, *, rules: tuple[str, ...], **options: Any) -> ExitStatus:
    """Follows a file, or standard input for `-`, and prints what fails; the status is the summary's."""
    from vdiag.cli.diagnose import rulebook_for
    from vdiag.cli.names import with_meaning
    from vdiag.follow import Follower
    from vdiag.intake.growing import GrowingPipe, growing
    from vdiag.intake.sources import STDIN, SourceError

    rulebook, faults = rulebook_for(rules)
    for fault in faults:
        console.say(fault)
    try:
        log = GrowingPipe(console.stdin) if file == "-" else growing(file)
    except (OSError, SourceError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        console.say(with_meaning(f"{file}: {why}", [file], rulebook))
        return ExitStatus.USAGE
    name = STDIN if file == "-" else file
    follower = Follower(rulebook, name, log.line)
    show = _Showing(console, **options)
    heard = console.redaction.heard if console.redaction is not None else None
    with _until_stopped() as stopped:
        try:
            watch(log, follower, show.told, stopped, heard=heard)
        except SourceError as error:
            console.say(f"{name}: {error}")
            return ExitStatus.USAGE
        return show.summary(follower.summary(), faulty=bool(faults))


def watch(
    log: GrowingFile | GrowingPipe,
    follower: Follower,
    show: Callable[[Told], None],
    stopped: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    heard: Callable[[bytes], None] | None = None,
) -> None:
    """Feeds the follower, and asks it once the log, or what matters in it, has become quiet."""
    turns, news = log.turns, follower.news
    last_line = last_news = clock()
    unasked = False  # something came since the follower was asked
    while not stopped():
        data = log.read(WAIT)
        if log.turns != turns:
            turns = log.turns
            follower.turn()
        if data is None:
            break
        now = clock()
        if data:
            last_line, unasked = now, True
            if heard is not None:
                heard(data)
            for told in follower.feed(data):
                show(told)
            if follower.news != news:
                news, last_news = follower.news, now
        if not unasked:
            continue
        quiet = now - last_line
        chatty = follower.fresh and not follower.busy and now - last_news >= QUIET
        if chatty or quiet >= (OPEN if follower.busy else QUIET):
            unasked = quiet < QUIET  # what is incomplete in the midst of other lines is asked for again
            if settled := follower.settle():
                show(settled)
    if settled := follower.settle():
        show(settled)


@contextlib.contextmanager
def _until_stopped() -> Iterator[Callable[[], bool]]:
    """A function that says whether the user wants an end. A second Ctrl-C ends at once."""
    asked: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def stop(number: int, _: FrameType | None) -> None:
        asked.append(number)
        _restore(before)

    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, stop) for number in STOPS}
    try:
        yield lambda: bool(asked)
    finally:
        _restore(before)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


class _Showing:
    """Prints what is told, at once, in the format that was asked for."""

    def __init__(
        self,
        console: Console,
        *,
        format_: str,
        everything: bool,
        color: str,
        fail_on: str,
        exit_zero: bool,
    ) -> None:
        self._console = console
        self._json = format_ == "json"
        self._everything = everything
        self._color = console.colored(color)
        self._fail_on, self._exit_zero = Severity(fail_on), exit_zero
        self._shown = 0

    def told(self, told: Told) -> None:
        from vdiag.render import following, terminal

        report = self._console.redacted(told.report)
        self._shown += 1
        if self._json:
            self._print_json(report)
        elif told.times > 1:
            self._print(following.repetition(report, told.times, width=self._console.columns))
        else:
            self._print(terminal.render(report, width=self._console.columns, everything=self._everything))

    def summary(self, report: Report, *, faulty: bool) -> ExitStatus:
        from vdiag.render import following, terminal

        report = self._console.redacted(report)
        if self._json:
            self._print_json(report)
        elif self._shown:
            self._print(following.summary(report, width=self._console.columns))
        else:
            self._print(terminal.render(report, width=self._console.columns, everything=self._everything))
        if faulty:
            return ExitStatus.USAGE
        return ExitStatus.OK if self._exit_zero else status_of(report, self._fail_on)

    def _print_json(self, report: Report) -> None:
        from vdiag.render import json

        self._console.write_utf8(json.render(report))

    def _print(self, page: Page) -> None:
        from vdiag.render import terminal

        page.blank()
        terminal.write(page, self._console.stdout, color=self._color)
        self._console.stdout.flush()
