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
_PARTS = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORDS = frozenset(
    [
        "key",
        "keys",
        "token",
        "secret",
        "secrets",
        "pass",
        "password",
        "passwords",
        "passwd",
        "pwd",
        "pw",
        "passphrase",
        "credential",
        "credentials",
        "cred",
        "creds",
        "auth",
        "authorization",
        "bearer",
        "jwt",
        "cookie",
        "cookies",
        "pat",
        "sas",
        "dsn",
        "webhook",
    ]
)
_ENDS = ("token", "secret", "password", "passwd", "passphrase", "pass", "apikey", "apikeys", "accesskey", "privatekey",
         "secretkey", "authkey")  # fmt: skip
_NO_ENDS = frozenset(["bypass", "compass"])
_OF_PEOPLE = frozenset(
    ["access", "auth", "api", "hf", "hub", "bearer", "my", "refresh", "session", "secret", "user", "login"]
)
_VALUE = re.compile(
    r"hf_[A-Za-z0-9]{6,}|sk-[\w-]{6,}|gh[pousr]_\w{10,}|github_pat_\w{10,}|xox[a-z]-[\w-]{8,}|AKIA[A-Z0-9]{12,}|"
    r"AIza[\w-]{20,}|glpat-[\w-]{10,}|nvapi-[\w-]{8,}|eyJ[\w-]{10,1000}\.[\w.-]+|(?i:bearer)\s+\S+"
)
_LOGIN = re.compile(r"(?<=://)[^/\s@:]{0,200}:[^/\s@]{1,500}(?=@)|(?<=://)[^/\s@:]{20,500}(?=@)")
_QUERY = re.compile(r"([?&;])([\w.-]{1,100})=([^&\s#]+)")
_SIGNED = frozenset(["sig", "signature", "x-amz-signature", "code"])  # of an address
_ASSIGNED = re.compile(r"(--?[\w-]{1,60}=)?(\w[\w.-]{0,100})(=|:\s+)(.+)", re.DOTALL)
_PAIR = re.compile(r"""(["'])([\w.-]{1,100})\1(\s{0,9}:\s{0,9})(["'])((?:(?!\4).){1,2000})\4""")
_REFERENCE = re.compile(r"\$\w+|\$\{\w+\}|\$\(\w+\)|%[A-Za-z]|<[^<>]*>")


def of_flag(flag: str) -> bool:
    """Whether what stands behind a long flag is a secret."""
    return bool(_FLAG.fullmatch(flag)) and not _NOT.fullmatch(flag)


def of_name(name: str) -> bool:
    """Whether what a variable, a JSON key or a dotted path of this name holds is a secret: `HF_TOKEN`, `accessToken`."""
    return any(map(_is_secret, name.split(".")))


def _is_secret(name: str) -> bool:
    words = [word.casefold().rstrip("0123456789") for word in _PARTS.split(name)]
    for at, word in enumerate(words):
        before, behind = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        if word == "pass" and behind == "config":
            continue  # passes of the compiler
        if word in _WORDS or (word.endswith(_ENDS) and word not in _NO_ENDS):
            return True
        if word == "tokens" and (before in _OF_PEOPLE or len(words) == 1):
            return True  # others are counts
    return False


def placeholder(name: str) -> str:
    """What stands for the value of a flag, variable or key: `<api key>`, `<value of HF_TOKEN>`."""
    return f"<{name.lstrip('-').replace('-', ' ')}>" if name.startswith("-") else f"<value of {name}>"


def without(text: str) -> str:
    """A text whose name tells nothing, with what looks like a secret in it replaced: `PASSWORD=…`, `hf_…`, a login."""
    if (found := _ASSIGNED.fullmatch(text)) and of_name(found[2]) and not reference(found[4]):
        return f"{found[1] or ''}{found[2]}{found[3]}{placeholder(found[2])}"
    text = _LOGIN.sub("<login>", text)
    text = _PAIR.sub(_held, _QUERY.sub(_asked, text))
    return _VALUE.sub("<secret>", text)


def _asked(found: re.Match[str]) -> str:
    """One parameter of an address."""
    secret = of_name(found[2]) or found[2].casefold() in _SIGNED
    return f"{found[1]}{found[2]}=<secret>" if secret and found[3][0] not in "<$" else found[0]


def _held(found: re.Match[str]) -> str:
    """One key with its text in what is, or was once, JSON."""
    if not of_name(found[2]) or reference(found[5]):
        return found[0]
    return f"{found[1]}{found[2]}{found[1]}{found[3]}{found[4]}<secret>{found[4]}"


def reference(value: str) -> bool:
    """Whether a value only points to the secret: `$HF_TOKEN`, `$(API_KEY)`."""
    return not value or bool(_REFERENCE.fullmatch(value))


def assigned(name: str, value: str) -> str:
    """The value of a variable as it may be shown."""
    if of_name(name) and not reference(value):
        return placeholder(name)
    return without(value)


def open_value(name: str, value: Any, hidden: list[str] | None = None) -> Any:
    """An engine argument's value as it may be shown; what is taken out of it is added to `hidden`."""
    return _opened(
        value, _shown_as(name) if of_flag(_shown_as(name)) else "", hidden if hidden is not None else []
    )


def _opened(value: Any, secret: str, hidden: list[str]) -> Any:
    """A value; `secret`: the name of the secret that its texts are part of, empty for none."""
    if isinstance(value, dict):
        return {
            str(key): _opened(item, secret or (_shown_as(str(key)) if of_name(str(key)) else ""), hidden)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_opened(item, secret, hidden) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        if not secret.endswith(("password", "passwd", "pass", "pwd", "pin")):
            return value  # `eos_token_id`
    elif not secret:
        return without(str(value))
    elif reference(str(value)):
        return value
    hidden.append(str(value))
    return placeholder(secret)


def _shown_as(name: str) -> str:
    return f"--{name.replace('_', '-')}"
