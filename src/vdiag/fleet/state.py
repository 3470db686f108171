"""What is remembered between runs: of every replica its row, how far each of its files was read, and its counts.

Rows, offsets and counts of a portion of tasks are written in one transaction, so that a run that is killed leaves
either all of them or none; what was read twice because of it replaces itself. What is new is counted from the last
run that ended, since one that was killed has told nobody.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone

import msgspec

from vdiag.fleet.found import File
from vdiag.fleet.known import Known, Part, recognise
from vdiag.fleet.merge import all_merged
from vdiag.fleet.remote import is_url
from vdiag.fleet.run import StateError
from vdiag.fleet.sets import spot
from vdiag.fleet.task import Done, Task, each
from vdiag.fleet.texts import valid
from vdiag.fleet.titles import Titles
from vdiag.fleet.work import causes
from vdiag.fleet_model import UNREAD, New, News, Total

VERSION = "1"
MOST_NODES = 50  # listed of one cause
MOST_NEW = 200  # causes with news that are listed
APPLICATION = 0x76646961  # by which SQLite tells that a file is ours: "vdia"
FOREIGN = "is there already, and is no state of vdiag fleet"
OTHER_VERSION = "was written by another version of vdiag: name a new file"
NOT_REDACTED = "was begun without --redact, and does not know all names in the logs: name a new file"
DAMAGED = "is damaged: name a new file, which will begin with all logs, or take a copy"
WAIT = 0.5  # seconds for a lock
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replica (key TEXT PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS part (
  replica TEXT, position INTEGER, path TEXT, mark TEXT, size INTEGER, offset INTEGER, lines INTEGER,
  head TEXT, head_size INTEGER, tail TEXT, PRIMARY KEY (replica, position)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cause (
  replica TEXT, cause TEXT, verdict TEXT, rule TEXT, title TEXT, fingerprint TEXT, severity TEXT, node TEXT,
  last_at TEXT, times INTEGER, told INTEGER DEFAULT 0, PRIMARY KEY (replica, cause)) WITHOUT ROWID;
"""


@contextmanager
def held(path: str, rules: str, redact: bool) -> Iterator[State]:
    """The state in a file, as long as the block runs; arguments as for `State`. StateError, also from within."""
    state = None
    try:
        state = State(path, rules, redact)
        yield state
    except sqlite3.Error as error:
        raise StateError(_why(error)) from None
    except msgspec.MsgspecError:
        raise StateError(DAMAGED) from None
    finally:
        if state is not None:
            state.close()


class State:
    """A state in a file, for one run at a time. Close it."""

    def __init__(self, path: str, rules: str, redact: bool) -> None:
        """`rules` is a mark of the rulebook: under another one everything is read again. StateError.

        `redact`: the answer will be redacted, for which every row must know the names in its log.
        """
        self._path = path
        self._planned: dict[
            str, tuple[str, Known | None, list[Part]]
        ] = {}  # task → key, what is known, its parts
        self._read = self._bytes = 0
        self._decode = msgspec.msgpack.Decoder(Done).decode
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # it quotes logs
            self._db = sqlite3.connect(os.path.abspath(path), timeout=WAIT, isolation_level=None)
            # The lock is held until the connection, or the process, ends.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("BEGIN EXCLUSIVE")
            self._claim()
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            version = self._meta("version") or VERSION
            if version != VERSION:
                raise StateError(OTHER_VERSION)
            self._rules = rules
            self.redact = (self._meta("redact") or str(int(redact))) == "1"  # rows have these names
            if redact and not self.redact:
                raise StateError(NOT_REDACTED)
            self._set_meta("redact", str(int(self.redact)))
            self._same_rules = self._meta("rules") in ("", rules)
            self._set_meta("version", version)
            if not self._meta("rules"):
                self._set_meta("rules", rules)
            self._db.execute("COMMIT")
        except OSError as error:
            raise StateError(str(error.strerror)) from None

    def _claim(self) -> None:
        """Marks an empty file as a state. StateError if it is some other program's."""
        (own,) = self._db.execute("PRAGMA application_id").fetchone()
        if own == APPLICATION:
            return
        if own or self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise StateError(FOREIGN)
        self._db.execute(f"PRAGMA application_id = {APPLICATION}")

    def close(self) -> None:
        """Lets another run have it."""
        self._db.close()

    # ---- before reading ---------------------------------------------------------------------------------------

    def plan(self, tasks: Iterable[Task], files: Mapping[str, File]) -> list[Task]:
        """The tasks that have something to read, each with where to go on; the others are `unchanged`."""
        reading: list[Task] = []
        self._unchanged: list[str] = []
        for key, task in _keyed(tasks):
            parts = self._parts(key)
            known = recognise(task, parts, files) if parts else None
            now = [Part(valid(path), files[path].mark, files[path].size) for path in task.paths]
            if known is not None and known.unchanged and (self._same_rules or not known.complete):
                self._unchanged.append(key)
                continue
            self._planned[task.name] = (key, known, now)
            resume = known.resume if known is not None else None
            if known is not None and known.complete and not self._same_rules:
                resume = None
            reading.append(msgspec.structs.replace(task, resume=resume))
        return reading

    def unchanged(self) -> Iterator[Done]:
        """The rows of replicas that have nothing new."""
        for key in self._unchanged:
            row = self._row(key)
            if row is not None:
                yield row

    # ---- while reading ----------------------------------------------------------------------------------------

    def keep(self, rows: list[Done]) -> list[Done]:
        """Remembers these rows, all or none; the rows as they stand with what was known before."""
        with self._transaction():
            return [self._keep(done) for done in rows]

    def _keep(self, done: Done) -> Done:
        key, known, now = self._planned[done.row.input]
        if done.row.verdict == UNREAD:
            return done
        before = self._row(key)
        replaced = known is None or known.complete
        how = "fresh" if done.how == "whole" and not replaced else done.how
        pairs = all_merged(before, done, how)
        made, *made.more = (one for one, _ in pairs)
        if done.row.error and how == "resumed":
            return made  # it is read again from where it was
        self._read += 1
        self._bytes += max(_bytes(made) - (_bytes(before) if before else 0), 0)
        for one, read in pairs:
            if read is not None:
                self._count(_slot(key, one), one, read, how)
        if before is not None:
            for gone in {_slot(key, one) for one in each(before)} - {_slot(key, one) for one, _ in pairs}:
                self._db.execute("UPDATE cause SET times = 0 WHERE replica = ?", (gone,))
        self._db.execute("REPLACE INTO replica VALUES (?, ?)", (key, msgspec.msgpack.encode(made)))
        self._mark(key, known, now, done)
        return made

    def _count(self, key: str, made: Done, done: Done, how: str) -> None:
        """Counts what this reading found; `fresh` adds, `whole` replaces, `resumed` adds what is new in it."""
        found = causes(done.row)
        old = dict(self._db.execute("SELECT cause, times FROM cause WHERE replica = ?", (key,)).fetchall())
        for cause in {*found, *done.before, *(old if how == "whole" else ())}:
            told = found.get(cause)
            times = told.times if told is not None else 0
            if how != "whole":
                times = max(old.get(cause, 0) + times - done.before.get(cause, 0), 0)
            if told is None:
                self._db.execute(
                    "UPDATE cause SET times = ? WHERE replica = ? AND cause = ?", (times, key, cause)
                )
                continue
            at = done.row.last_at if told.first else ""
            self._db.execute(
                "INSERT INTO cause VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT (replica, cause) DO UPDATE SET"
                " times = excluded.times, title = excluded.title, node = excluded.node,"
                " last_at = max(last_at, excluded.last_at)",
                (key, cause, told.verdict, told.rule, told.title, told.fingerprint, told.severity, made.row.node, at,
                 times),
            )  # fmt: skip

    def _mark(self, key: str, known: Known | None, now: list[Part], done: Done) -> None:
        """How far the files of a replica were read."""
        self._db.execute("DELETE FROM part WHERE replica = ?", (key,))
        if done.row.error:
            return  # not to its end: it is read again
        first = len(now) - len(done.seen) if done.seen else len(now)
        for position, part in enumerate(now):
            held = known.parts[position] if known is not None else None
            if position >= first:
                seen = done.seen[position - first]
                same_head = held is not None and seen.offset and not seen.head_size
                head, head_size = (
                    (held.head, held.head_size) if held and same_head else (seen.head, seen.head_size)
                )
                part = Part(
                    part.path, part.mark, part.size, seen.offset, seen.lines, head, head_size, seen.tail
                )
            elif held is not None:
                part = held._replace(path=part.path, mark=part.mark, size=part.size)
            self._db.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (key, position, *part))

    # ---- afterwards -------------------------------------------------------------------------------------------

    def news(self) -> News:
        """What came since the last run that ended."""
        found: dict[str, New] = {}
        titles: dict[str, Titles] = {}
        rows = self._db.execute(
            "SELECT cause, verdict, rule, title, fingerprint, node, times - told FROM cause WHERE times > told"
            " ORDER BY cause, node, replica"
        )
        for cause, verdict, rule, title, fingerprint, node, more in rows:
            new = found.setdefault(cause, New(verdict, rule, title, fingerprint, 0, 0, 0, []))
            titles.setdefault(cause, Titles()).add(title)
            new.times += more
            new.replicas += 1
            if node and node not in new.nodes and len(new.nodes) < MOST_NODES:
                new.nodes.append(node)
        for cause, told in self._db.execute("SELECT cause, sum(told) FROM cause GROUP BY cause"):
            if cause in found:
                found[cause].before = told
        for cause, new in found.items():
            new.title = titles[cause].text() or new.title
        nodes = self._db.execute(
            "SELECT node FROM cause WHERE node != '' AND severity = 'fatal'"
            " GROUP BY node HAVING sum(told) = 0 AND sum(times) > 0 ORDER BY node"
        )
        causes_ = sorted(
            found.values(), key=lambda new: (new.before > 0, -new.times, new.rule or "", new.fingerprint)
        )
        return News(
            self._meta("ended"),
            causes_[:MOST_NEW],
            [node for (node,) in nodes],
            self._read,
            self._bytes,
            len(causes_),
        )

    def totals(self) -> list[Total]:
        """All failures so far by rule, those of logs that are gone as well."""
        rows = self._db.execute(
            "SELECT coalesce(rule, ''), severity, sum(times), max(last_at) FROM cause WHERE times > 0"
            " GROUP BY 1, 2 ORDER BY 1, 2"
        )
        return [Total(*row) for row in rows]

    def told(self) -> None:
        """The run has ended, and its news has been told."""
        with self._transaction():
            self._db.execute("UPDATE cause SET told = times")
            self._set_meta("rules", self._rules)  # not before all was read under them
            self._set_meta("ended", datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"))

    # ---- rows of the tables -----------------------------------------------------------------------------------

    def _parts(self, key: str) -> list[Part]:
        rows = self._db.execute(
            "SELECT path, mark, size, offset, lines, head, head_size, tail FROM part WHERE replica = ? ORDER BY position",
            (key,),
        )
        return [Part(*row) for row in rows]

    def _row(self, key: str) -> Done | None:
        found = self._db.execute("SELECT row FROM replica WHERE key = ?", (key,)).fetchone()
        return None if found is None else self._decode(found[0])

    def _meta(self, key: str) -> str:
        found = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return "" if found is None else str(found[0])

    def _set_meta(self, key: str, value: str) -> None:
        self._db.execute("REPLACE INTO meta VALUES (?, ?)", (key, value))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _slot(key: str, done: Done) -> str:
    """By which the counts of one of a log's servers are remembered."""
    return f"{key}\0{done.slot}" if done.slot else key


def _bytes(done: Done) -> int:
    return sum(one.row.bytes for one in each(done))


def _keyed(tasks: Iterable[Task]) -> Iterator[tuple[str, Task]]:
    """Each task with a name that stays when a log is rotated: that of the live file, where it is one task's alone."""
    known: Sequence[Task] = list(tasks)
    bases = [spot(task.name).base for task in known]
    often = Counter(bases)
    for base, task in zip(bases, known, strict=True):
        name = task.name if often[base] > 1 else base
        yield name if is_url(name) else os.path.abspath(name), task


def _why(error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return "is in use by another run: wait for its end, or name another file"
    if "not a database" in str(error):
        return FOREIGN
    if "malformed" in str(error):
        return DAMAGED
    return str(error)
