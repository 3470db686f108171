"""Secrets of a command never come back out: keys, tokens and passwords become visible placeholders.

Judged by the name of the flag, variable or JSON key, and by the shape of the value where its name tells nothing.
"""

from __future__ import annotations

import re
from typing import Any

_FLAG = re.compile(
    r"--(?:[\w-]*[-_])?(?:api[-_]?key|token|secret|password|passwd|credentials?|access[-_]?key)s?"
)
_NOT = re.compile(r"--(?:[\w-]*-)?tokens|--ssl-\w+|--[\w-]*-ids")
_NAME = re.compile(
    r"(?i)(?:^|[_\W])(?:api_?keys?|keys?|token|secrets?|pass|password|passwd|pwd|credentials?|auth|authorization|bearer)(?:$|[_\W])"
)
_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{6,}|sk-[\w-]{6,}|gh[pousr]_\w{10,}|github_pat_\w{10,}|xox[a-z]-[\w-]{8,}|AKIA[A-Z0-9]{12,}|"
    r"AIza[\w-]{20,}|glpat-[\w-]{10,}|nvapi-[\w-]{8,}|eyJ[\w-]{10,1000}\.[\w.-]+|(?i:bearer)\s+\S+"
)
_LOGIN = re.compile(r"(?<=://)[^/\s@:]{0,200}:[^/\s@]{1,500}(?=@)|(?<=://)[^/\s@:]{20,500}(?=@)")
_QUERY = re.compile(r"(?i)([?&;][\w-]*(?:key|token|secret|password|sig|signature)=)(?![<$])[^&\s#]+")
_REFERENCE = re.compile(r"\$\w+|\$\{\w+\}|\$\(\w+\)|%[A-Za-z]|<[^<>]*>")


def of_flag(flag: str) -> bool:
    """Whether what stands behind a long flag is a secret."""
    return bool(_FLAG.fullmatch(flag)) and not _NOT.fullmatch(flag)


def of_name(name: str) -> bool:
    """Whether what an environment variable or a JSON key of this name holds is a secret."""
    return bool(_NAME.search(name))


def placeholder(name: str) -> str:
    """What stands for the value of a flag, variable or key: `<api key>`, `<value of HF_TOKEN>`."""
    return f"<{name.lstrip('-').replace('-', ' ')}>" if name.startswith("-") else f"<value of {name}>"


def without(text: str) -> str:
    """A text whose name tells nothing, with what looks like a secret in it replaced."""
    text = _LOGIN.sub("<login>", text)
    text = _QUERY.sub(r"\1<secret>", text)
    return _VALUE.sub("<secret>", text)


def reference(value: str) -> bool:
    """Whether a value only points to the secret: `$HF_TOKEN`, `$(API_KEY)`."""
    return not value or bool(_REFERENCE.fullmatch(value))


def assigned(name: str, value: str) -> str:
    """The value of a variable as it may be shown."""
    if of_name(name) and not reference(value):
        return placeholder(name)
    return without(value)


def open_value(name: str, value: Any) -> Any:
    """An engine argument's value, or a JSON key's, as it may be shown."""
    if isinstance(value, dict):
        return {
            str(key): placeholder(f"--{key}")
            if isinstance(item, str) and of_name(str(key)) and not reference(item)
            else open_value(str(key), item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)) and not _secret(name):
        return [open_value(name, item) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if _secret(name):
        return placeholder(f"--{name.replace('_', '-')}")
    return without(str(value))


def _secret(name: str) -> bool:
    return of_flag("--" + name.replace("_", "-"))
