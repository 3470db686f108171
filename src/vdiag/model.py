"""The typed values that pass between the stages, and the report they end in.

Everything here is data. The names are those of docs/architecture.md; `Report` and what it holds is the
public JSON contract `vdiag.report/1` (additions are allowed, changes need a new version).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import msgspec


class Role(str, Enum):
    """What a rule's match can be in a story."""

    CAUSE = "cause"  # can be a root cause
    SYMPTOM = "symptom"  # a consequence with news in it
    TRAILER = "trailer"  # says only that something failed
    CONTEXT = "context"  # a fact
    BENIGN = "benign"  # looks alarming, is not


class Severity(str, Enum):
    """How bad a diagnosis is for the server."""

    FATAL = "fatal"  # it did not start, or died
    DEGRADED = "degraded"  # it lives, badly
    CLIENT = "client"  # it is fine, a caller erred


class Safety(str, Enum):
    """What a fix can cost."""

    SAFE = "safe"
    TRADEOFF = "tradeoff"
    MANUAL = "manual"


class Verdict(str, Enum):
    """The answer in one word."""

    DIAGNOSED = "diagnosed"
    UNRECOGNISED = "unrecognised"
    INCOMPLETE = "incomplete"
    STARTING = "starting"
    HEALTHY = "healthy"
    EMPTY = "empty"


class Phase(str, Enum):
    """Where a run of the server stands, by vLLM's own lines."""

    ARGUMENTS = "arguments"
    CONFIG = "config"
    DOWNLOAD = "download"
    LOAD = "load"
    PROFILE = "profile"
    CAPTURE = "capture"
    SERVING = "serving"
    SHUTDOWN = "shutdown"


class Kind(str, Enum):
    """What sort of event a text is; rules may ask for one with `where`."""

    LOG = "log"  # a log record: it has a level
    EXCEPTION = "exception"  # a Python exception, with or without its traceback
    KERNEL = "kernel"
    UNIT = "unit"  # systemd, docker, kubelet about the server's process
    HTTP = "http"  # an access line, a proxy's error log, an HTTP error body
    NATIVE = "native"  # a line without a prefix of its own


# ---- scan → assemble ------------------------------------------------------------------------------------


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """What was peeled off in front of a message. Empty strings where nothing was said."""

    kind: Kind = Kind.NATIVE
    role: str = ""  # APIServer, EngineCore, Worker …
    pid: int = 0  # 0: unknown
    rank: str = ""  # TP0, DP1, rank 3 … as printed
    level: str = ""  # DEBUG, INFO, WARNING, ERROR, CRITICAL
    time: str = ""  # as printed
    origin: str = ""  # core.py:708
    host: str = ""
    unit: str = ""  # systemd unit, syslog tag, container or Ray actor

    @property
    def lane(self) -> str:
        """The process this came from, as people write it; empty for the lane `unknown`."""
        name = self.role + (f"_{self.rank}" if self.rank else "")
        where = f"{self.unit} " if self.unit and (self.role or not self.pid) else self.unit
        return f"{where}{name}{f' pid={self.pid}' if self.pid else ''}".strip()


class Record(msgspec.Struct, gc=False):
    """One logical line after its envelope is peeled."""

    source: int  # index into the inputs
    line: int  # 1-based physical line in that input
    message: str
    envelope: Envelope
    goes_on: bool = False  # the rest of the record before, cut off by a wrapped line


class Line(NamedTuple):
    """A physical line of an input as an output shows it, or the row of text that an entry of an encoded one holds."""

    number: int
    text: str  # without colours; the envelope is part of it
    lane: str = ""  # the process that wrote it, where it says so
    level: str = ""


# ---- assemble → match → reason ---------------------------------------------------------------------------


class Event(msgspec.Struct):
    """What rules see: one logical message with its rows, or one exception of a traceback."""

    source: int
    kind: Kind
    envelope: Envelope
    rows: list[str]  # the logical message, row by row
    lines: list[int]  # the physical line of each row
    exception: str = ""  # dotted type; empty for other kinds
    traceback: int = 0  # number of the traceback (chain) it belongs to; 0: none
    link: str = ""  # how it hangs on the exception before it in its chain: "cause" | "context" | "group" | ""
    frames: list[str] = []  # `File "…", line N, in f` as printed, outermost first, at most the last 40
    headless: bool = False  # the traceback's head is not in the log
    ignored: bool = False  # Python itself says it ignored the exception
    root_row: int = 0  # the row that states the cause (pydantic says it on its second)
    own: int = 0  # how many rows are its own; later ones are lines that may be its wrapped rest

    @property
    def line(self) -> int:
        """Physical line of the row that states the fault."""
        return self.lines[self.root_row]

    @property
    def text(self) -> str:
        """All rows, joined by newlines."""
        return "\n".join(self.rows)


# ---- the report (public) ---------------------------------------------------------------------------------


class Gap(msgspec.Struct, omit_defaults=True):
    """Something that is missing from an input, and how to get it."""

    what: str
    line: int = 0
    command: str = ""


class Input(msgspec.Struct):
    """One input as it was read."""

    name: str
    lines: int = 0
    bytes: int = 0
    format: str = "plain"
    gaps: list[Gap] = []


class Environment(msgspec.Struct):
    """What the log says about the server that wrote it."""

    vllm: str | None = None
    engine: str | None = None
    model: str | None = None
    args: dict[str, Any] = {}
    deploy: str | None = None  # cli | systemd | docker | compose | kubernetes | python
    command: str | None = None  # that started it, as the log shows it
    platform: str | None = None  # cuda | rocm | cpu …, as vLLM names it
    driver: str | None = None  # version
    gpu: str | None = None  # model of the card
    packages: dict[str, str] = {}  # name → version


class Evidence(msgspec.Struct):
    """A line that proves a claim."""

    source: str
    line: int
    lane: str
    text: str


class Explained(msgspec.Struct):
    """A later line that this diagnosis explains."""

    rule: str | None
    line: int
    source: str = ""  # its input; empty: that of the diagnosis


class Fix(msgspec.Struct):
    """One thing to do, best first; `run` is ready to paste."""

    do: str
    run: list[str] = []
    safety: Safety = Safety.SAFE
    note: str = ""
    change: list[str] = []  # the change alone, where `run` holds the user's whole command with it
    set: dict[str, Any] = {}  # the engine arguments that it sets
    gives: str = ""  # what it comes to in this budget, computed
    enough: bool | None = None  # whether it alone makes the server fit; None: unknown


class Fixed(msgspec.Struct):
    """A fix of this failure upstream, and whether the log's version has it."""

    issue: str  # owner/repo#number
    url: str
    package: str  # its name for pip
    fixed_in: str
    version: str | None  # of the package, by the log; None: unknown
    has_fix: bool | None  # whether `version` has it; None: unknown
    said: str  # all of that in a sentence


class Diagnosis(msgspec.Struct):
    """A cause, the lines that prove it, what it explains, its facts and its ranked fixes."""

    rule: str | None
    title: str
    confidence: float
    severity: Severity
    source: str
    line: int
    why: str
    times: int = 1
    first_time: str = ""
    last_time: str = ""
    last_line: int = 0
    recovered_at: int | None = None  # the line of a later start that succeeded
    phase: Phase | None = None
    facts: dict[str, Any] = {}
    evidence: list[Evidence] = []
    explains: list[Explained] = []
    fixes: list[Fix] = []
    avoid: list[str] = []
    refs: list[str] = []
    fingerprint: str = ""
    frame: str = ""  # the raising frame, `file:line in function`
    search: str = ""  # a link that looks for the same failure upstream
    last_source: str = ""  # the input of `last_line`; empty: `source`
    recovered_in: str = ""  # the input of `recovered_at`; empty: `source`
    upstream: list[Fixed] = []


class EpisodeInfo(msgspec.Struct):
    """One run of the server in the log."""

    source: str
    first_line: int
    last_line: int
    phase: Phase | None
    outcome: str  # failed | serving | starting | stopped | unknown
    first_time: str = ""
    last_time: str = ""
    last_source: str = ""  # the input of the last line; empty: that of the first


class AlsoSeen(msgspec.Struct):
    """Something that was considered and set aside, with the reason."""

    rule: str | None
    line: int
    source: str
    text: str
    reason: str


class Harmless(msgspec.Struct):
    """A line that looks alarming and that healthy servers print, with what it means."""

    rule: str
    title: str
    why: str
    line: int  # of the first
    source: str
    text: str
    times: int = 1
    lines: list[int] = []  # where it stands in `source`, ascending; of many the first


class Share(msgspec.Struct, omit_defaults=True):
    """One part of a memory budget."""

    what: str  # weights | activations | non-torch | CUDA graphs | KV cache | …
    gib: float
    line: int = 0  # where the log says so; 0: computed
    estimated: bool = False
    beside: bool = False  # outside vLLM's budget, on top of it


class Lever(msgspec.Struct, omit_defaults=True):
    """One setting that changes a memory budget, with what it gives and what it costs."""

    do: str
    set: dict[str, Any] = {}  # engine arguments
    env: dict[str, str] = {}  # environment variables
    gives: str = ""  # computed, in words with its figures
    price: str = ""
    enough: bool | None = None  # whether it alone makes the server fit; None: unknown


class Memory(msgspec.Struct, omit_defaults=True):
    """Where the memory of one card goes, and what would fit: of several ranks the one that decides."""

    source: str = ""
    line: int = 0  # of the figure that decides
    lane: str = ""  # the rank that decides
    ranks: int = 1  # how many of them told their figures
    total_gib: float | None = None
    free_gib: float | None = None  # when the server started
    utilization: float | None = None  # vLLM's share of the card, 0 to 1
    budget_gib: float | None = None
    shares: list[Share] = []
    kv_gib: float | None = None  # what is left for the KV cache
    need_gib: float | None = None  # KV cache of one request of the full length
    max_model_len: int | None = None
    kv_tokens: int | None = None
    bytes_per_token: float | None = None
    concurrency: float | None = None  # requests of the full length that fit at once
    fitting_len: int | None = None  # the longest context that fits, in tokens
    needed_utilization: float | None = None  # at which the full length would fit; it may be more than is sane
    levers: list[Lever] = []  # the cheapest first
    when_full: bool = False  # the shares are those of a card on which memory ran out, not vLLM's budget
    host: bool = False  # it is host memory: the server runs on the CPU
    asked: bool = False  # whether the first diagnosis is about memory
    notes: list[str] = []


class LoadPoint(msgspec.Struct, omit_defaults=True):
    """What a server said of its load at one time."""

    line: int
    time: str = ""
    running: int | None = None  # requests
    waiting: int | None = None
    kv_usage: float | None = None  # per cent of the KV cache
    prompt_tps: float | None = None  # tokens per second
    generation_tps: float | None = None
    preemptions: int | None = None  # so far
    source: str = ""  # its input; empty: that of the load


class Load(msgspec.Struct, omit_defaults=True):
    """The load before a failure, or of a server that lives."""

    source: str
    points: list[LoadPoint]
    peak: LoadPoint | None = None  # the largest of each figure
    preempted: int = 0
    pattern: str = ""  # memory | queue | cache | calm
    said: str = ""  # what the figures come to
    remedy: str = ""
    engines: int = 1  # whose figures were put together: counts summed, KV use of the fullest
    seen: int = 0  # points that were read; at most 240 of them are listed


class Change(msgspec.Struct):
    """Something that differs between a start that worked and one that did not; None: it was not there."""

    what: str  # version | argument | model | device | memory | environment | package
    name: str
    before: Any
    after: Any
    explains: bool = False  # whether the failure is about this
    unit: str = ""  # of a figure: GiB, tokens


class Changes(msgspec.Struct):
    """What differs between two starts of a server."""

    good: str  # input of the one that worked
    good_line: int
    bad: str
    bad_line: int
    items: list[Change]  # those that explain the failure first
    said: str = ""


class Report(msgspec.Struct):
    """The whole answer."""

    schema: str
    vdiag: str
    verdict: Verdict
    inputs: list[Input]
    environment: Environment
    diagnoses: list[Diagnosis]
    episodes: list[EpisodeInfo] = []
    memory: Memory | None = None
    also_seen: list[AlsoSeen] = []
    notes: list[str] = []
    harmless: list[Harmless] = []  # the most alarming first
    load: Load | None = None
    changes: Changes | None = None
    redacted: dict[str, int] | None = None  # different values replaced, by kind; None: nothing was redacted
