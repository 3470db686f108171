"""What of a fix's settings the server would refuse beside its others, or what would change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vdiag.advise.facts import Known


def accepted(set_: Mapping[str, Any], known: Known) -> dict[str, Any]:
    """The settings of a fix without those that this server would not start with, or that it never came up to.

    A value that is a person's choice (`<tokens>`) stays.
    """
    kept = dict(set_)
    batch, length = _number(kept, "max_num_batched_tokens"), _number(kept, "max_model_len")
    if batch is not None and known.get("whole_prompts") and batch < (length or known.number("max_len") or 0):
        del kept["max_num_batched_tokens"]  # a batch has to hold the longest prompt
    requests, ran = _number(kept, "max_num_seqs"), known.number("peak_running")
    if requests is not None and ran is not None and requests >= ran:
        del kept["max_num_seqs"]  # so many never ran at once before it failed
    return kept


def _number(set_: Mapping[str, Any], name: str) -> float | None:
    value = set_.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
