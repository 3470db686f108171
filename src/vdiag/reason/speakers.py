"""Under which name a line stands in a log, and whether a server wrote it."""

from __future__ import annotations

from typing import NamedTuple

from vdiag.match.keeper import Answered
from vdiag.model import Envelope, Kind


class Who(NamedTuple):
    """The name under which a server's lines stand in a log."""

    host: str = ""
    unit: str = ""  # systemd unit, syslog tag, container, or pod with its container


def who(envelope: Envelope | Answered) -> Who:
    """Under which name a line stands."""
    return Who(envelope.host, envelope.unit)


def is_servers(envelope: Envelope) -> bool:
    """Whether a line has what vLLM's processes put in front of theirs."""
    if envelope.kind not in (Kind.LOG, Kind.NATIVE):
        return False
    return bool((envelope.role and envelope.pid) or (envelope.level and ".py:" in envelope.origin))
