"""The order of package versions as PEP 440 defines it, and whether a version holds a fix made in another.

Written out here because `packaging` is no dependency, and because a build from a source tree needs more care than
the order alone.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_VERSION = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_n>\d*))?"
    r"(?:[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d*))?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
_PRE = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
_NO_TAG = (0, 1)  # setuptools-scm calls a build from a tree without tags 0.1.devN
_BEFORE, _AFTER = -1, 1 << 62  # a part that is missing sorts before, or after, every number


class Version(NamedTuple):
    """A version in its parts; tuples compare as PEP 440 orders them. Local parts (`+cu129`) do not count."""

    release: tuple[int, ...]  # without zeros at its end
    pre: tuple[int, int]  # (alpha 0, beta 1, rc 2; number); a final release sorts after all of them
    post: int
    dev: int

    @property
    def is_final(self) -> bool:
        """A release or a post-release, not a build before one."""
        return self.pre[0] == _AFTER and self.dev == _AFTER


@lru_cache(maxsize=64)
def parse(text: str | None) -> Version | None:
    """The version a text is; None where it is none, or a build that does not know its version."""
    found = _VERSION.fullmatch((text or "").strip())
    if found is None:
        return None
    release = tuple(int(part) for part in found["release"].split("."))
    while release and release[-1] == 0:
        release = release[:-1]
    dev = int(found["dev_n"] or 0) if found["dev"] else _AFTER
    if not release or (release == _NO_TAG and found["dev"]):
        return None
    pre = (_PRE[found["pre"].lower()], int(found["pre_n"] or 0)) if found["pre"] else (_AFTER, 0)
    if found["dev"] and not found["pre"] and not found["post"]:
        pre = (_BEFORE, 0)  # 1.0.dev1 is older than 1.0a1
    post = int(found["post_n"] or 0) if found["post"] else _BEFORE
    return Version(release, pre, post, dev)


def holds(version: str | None, fixed_in: str) -> bool | None:
    """Whether a version holds what was fixed in another.

    None: a version is unknown, or it is a build from before the very release that brought the fix, which may have
    been made before the fix or after.
    """
    own, fixed = parse(version), parse(fixed_in)
    if own is None or fixed is None:
        return None
    if own >= fixed:
        return True
    return None if own.release == fixed.release and not own.is_final else False
