"""The typed values of many logs read together: a row for each replica, and the answer they fold into.

`Fleet` and what it holds is the public JSON contract `vdiag.fleet/1`; `Row` is a line of `--format jsonl`.
"""

from __future__ import annotations

import msgspec

UNREAD = "unread"  # the verdict on what could not be read


class Other(msgspec.Struct):
    """A further diagnosis of a replica, besides the first."""

    verdict: str
    rule: str | None
    title: str
    fingerprint: str
    severity: str
    times: int


class Row(msgspec.Struct):
    """What one replica's log came to."""

    input: str  # the log, as it was named or found
    node: str = ""  # the machine; empty: unknown
    replica: str = ""
    verdict: str = UNREAD  # as in a report, or `unread`
    failed: bool = False  # it did not start, or died: fatal, unrecognised, or cut off
    rule: str | None = None
    title: str = ""
    fingerprint: str = ""
    confidence: float = 0.0
    severity: str = ""
    source: str = ""  # the file that `line` is in, where that is not the input itself
    line: int = 0
    text: str = ""  # of that line
    times: int = 0  # how often this happened in the log
    first_time: str = ""  # as printed
    last_time: str = ""
    first_at: str = ""  # by ISO 8601 in UTC, where date and zone were printed
    last_at: str = ""
    recovered: bool = False  # a later start succeeded
    others: list[Other] = []
    marks: dict[str, int] = {}  # what the kernel said, with how often: `Xid 79`, or the rule
    vllm: str = ""  # version
    model: str = ""
    bytes: int = 0  # of a log that several servers write, with the first of them
    lines: int = 0
    server: bool = False  # a server speaks in it, or a failure: it counts as a replica
    at_once: int = 0  # servers that write these lines under one name, at least, where they are more than one
    error: str = ""  # why it was not read, or not to its end
    fix: str = ""  # what to do first about the first diagnosis, in a sentence


class Example(msgspec.Struct):
    """A line that shows a cause."""

    input: str
    line: int
    text: str


class Place(msgspec.Struct):
    """A node, and how many of its replicas are meant."""

    node: str
    replicas: int


class Cause(msgspec.Struct):
    """One cause, over all replicas that it stands in."""

    verdict: str  # diagnosed | unrecognised | incomplete
    rule: str | None
    title: str
    fingerprint: str  # of the example
    severity: str
    replicas: int  # whose first diagnosis it is
    also: int  # in which it stands beside a worse or later one
    recovered: int  # of `replicas`, in whose log a later start came to serve
    times: int  # in all of them together
    example: Example
    first_time: str = ""  # as printed, of the replica that was first
    last_time: str = ""
    first_at: str = ""  # in UTC, where that is sure
    last_at: str = ""
    first_input: str = ""
    last_input: str = ""
    nodes: list[Place] = []  # those with most first; at most 50
    node_count: int = 0
    draft: str = ""  # of an unknown one: the command that drafts a rule
    fix: str = ""  # what to do first, of the example


class Outlier(msgspec.Struct):
    """A node on which something is far more frequent than elsewhere."""

    node: str
    what: str  # `Xid 79`, or a rule
    here: int  # replicas of the node with it
    replicas_here: int
    elsewhere: int
    replicas_elsewhere: int
    chance: float  # that one of the tests would show this much if the replicas had been dealt to nodes by lot
    said: str


class New(msgspec.Struct):
    """A cause that was not known before, or has become more."""

    verdict: str
    rule: str | None
    title: str
    fingerprint: str
    times: int  # since the last run
    before: int  # up to it
    replicas: int  # in how many of them it is new or more
    nodes: list[str]  # at most 50


class News(msgspec.Struct):
    """What came since the last run that ended."""

    since: str  # when that was, in UTC; empty: this is the first
    causes: list[New]  # new ones first, then those with most; at most 200
    nodes: list[str]  # on which something failed for the first time
    read: int  # replicas that had something new
    bytes: int  # that were read of them
    cause_count: int  # how many causes are new or have become more


class Total(msgspec.Struct):
    """All failures of one rule so far."""

    rule: str  # empty: of causes that no rule knows
    severity: str
    times: int
    last_at: str  # in UTC, of those whose time is sure; empty: none is


class Fleet(msgspec.Struct):
    """The whole answer on many logs."""

    schema: str
    vdiag: str
    replicas: (
        int  # logs, or parts of a log, in which a server speaks, or a failure; and what could not be read
    )
    failed: int
    recovered: int  # of the failed, in whose log a later start came to serve
    others: int  # logs that are not from a server
    nodes: int  # of the replicas, that are known by name
    failed_nodes: int
    bytes: int
    lines: int
    verdicts: dict[str, int]
    causes: list[Cause]  # the most frequent first; unknown ones are in `unknown`
    unknown: list[Cause]  # no rule knows them: by fingerprint
    outliers: list[Outlier]
    unread: list[Row]  # at most 200; `verdicts` has their number
    cut_short: list[Row]  # of which a part was read; at most 200
    notes: list[str] = []
    news: News | None = None
    interrupted: bool = False
    redacted: dict[str, int] | None = None


SCHEMA = "vdiag.fleet/1"
