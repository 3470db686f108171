"""Values that are given to a name which says that they are secret, in every form in which that stands in logs.

A name is found first; where its value ends depends on what stands in front of the name (a quote, a dash, a `?`) and
on what the value begins with. Nothing here looks at the value's own form, except to leave placeholders alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from vdiag.redact.book import Book, is_pseudonym

# ---- names ----------------------------------------------------------------------------------------------

_STRONG = re.compile(
    r"(?:^|_)(?:api_?keys?|apikeys?|access_?keys?(?:_id)?|secret_?keys?|private_?keys?(?:_id)?|account_?keys?"
    r"|encryption_?keys?|signing_?keys?|master_?keys?|shared_?(?:access_?)?keys?|subscription_?keys?|license_?keys?"
    r"|auth_?keys?|service_?keys?|pass|pwd|passphrases?|creds?|(?:auth|access|api|hf|hub|bearer|refresh|id|session|security"
    r"|service|github|gitlab|gh|git|ngc|wandb|csrf|xsrf|identity|registry|personal|deploy|bot|login|slack|vault|jwt"
    r"|user|admin|secret|huggingface|huggingfacehub|hugging_face|hugging_face_hub|openai|anthropic)_?tokens?|authorization"
    r"|cookies?|client_?secrets?|connection_?string|session_?id|sessionid|jwt|ssh_?key|pat|otp)$"
    r"|(?:apikeys?|passwords?|passwds?|secrets?|credentials?)$"
)
_ENV = re.compile(
    r"^[A-Z][A-Z0-9_]*(?:_KEY|TOKEN|_TOKENS|_PAT|_AUTH|_DSN)$"
)  # as environment variables are written
_WEAK = re.compile(r"(?:^|_)(?:token|auth|bearer|dsn|sas|sig|signature)$")
_PLAIN = re.compile(  # names that end like one and hold nothing secret
    r"(?:^|_)(?:public|primary|foreign|cache|sort|partition|group|routing|hash|dict|state|lookup|kv|config)_?keys?$"
    r"|(?:^|_)(?:pad|eos|bos|unk|sep|cls|mask|image|img|audio|video|vision|boi|eoi|start|end|stop|special|placeholder|im"
    r"|think|thinking|tool|tool_call|next|last|first|new|added|prefix|suffix|middle|eot|eom|per|each|bad|draft|sampled|target"
    r"|current|unexpected|invalid|input|output|prompt|patch|frame|trigger|bot_end|eop|single|extra|row|column|num|max|min"
    r"|speech|content|begin|reasoning|fim|noise|call|delimiter|separator)_?tokens?$"
    r"|(?:^|_)(?:by|im|one|bi|multi|first_|second_|(?:pre|post|grad|fusion|inductor|compile|custom)_)pass$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_PLACEHOLDER = re.compile(
    r"(?:none|null|nil|true|false|yes|no|empty|n/a|unset|undefined|\**|x{3,}|\.{2,}|…|<[^<>]*>?|\$.*|\{\{.*|%[({]?\w+[)}]?.?"
    r"|\[?secure\]?|\[?redacted\]?|\{\w*\}|(?:my|your|the)[-_]\w[\w-]*|key|token|secret|password|str|string|optional.*|required)",
    re.IGNORECASE,
)
_VALUE_LIKE = re.compile(r"(?=.*[\dA-Z_/+=!@#$%^&*-]).{8,}|.{16,}")  # what prose seldom says behind a colon


def is_secret(name: str) -> bool:
    """Whether a name, as an option, a variable or a header is written, says that its value is secret."""
    return _rank(name) > 0


def _rank(name: str) -> int:
    """2: whatever the value; 1: if the value looks like one; 0: no secret."""
    bare = name.strip("-_.")
    if not bare:
        return 0
    flat = _CAMEL.sub("_", bare).replace("-", "_").replace(".", "_").lower()
    if _PLAIN.search(flat):
        return 0
    if _STRONG.search(flat) or (_ENV.search(bare) and not flat.endswith("public_key")):
        return 2
    return 1 if _WEAK.search(flat) else 0


# ---- values ---------------------------------------------------------------------------------------------

_HEADERS = ("authorization", "cookie", "set-cookie", "proxy-authorization")
_SCHEME = re.compile(
    r"(?:Bearer|Basic|Token|Digest|Negotiate|ApiKey|AWS4-HMAC-SHA256|SSWS)[ \t]+(?=\S)", re.IGNORECASE
)
_TYPE = re.compile(r"(?:SecretStr|SecretBytes|str|repr|Secret|bytes)\(")
_QUOTE = re.compile(r"(?:[bBuUrRfF]{0,2}|\$)(\\*)([\"'`])")
_BEFORE = re.compile(r"(?:\\*[\"'`]|[?&])-{0,2}$")
_BARE = re.compile(r"[^\s\"'<>`]+")
_QUERY = re.compile(r"[^\s\"'<>`&#;]+")
_TAIL = ",;)]}.:|\\"
_NAME = r"[A-Za-z_][\w.\-]*"
_GIVEN = re.compile(  # NAME=, NAME:, 'NAME':, \"NAME\":, ["NAME"] =, ('NAME', …)
    rf"(?<![A-Za-z0-9_.])(?P<name>{_NAME}?)(?P<close>\\*[\"'`])?"
    rf"(?:(?(close)\]?)[ \t]{{0,40}}(?P<sep>=>|->|:=|[=:>|│]|\\u003[dDaA]|\\x3[dDaA]|%3[dDaA])(?!/)[ \t]*|(?(close),[ \t]*(?=[bu]?\\*[\"'])|(?!)))"
)
_OPTION = re.compile(rf"(?<![\w-])--?({_NAME})[ \t\0]+")
_PAIR = re.compile(  # name: HF_TOKEN, on this or the next row value: v
    rf"\b(?:name|key|header|field)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?({_NAME})\\*[\"']?[ \t]*,?[ \t]*\n?[^\n]{{0,160}}?"
    r"(?<![A-Za-z])value\\*[\"']?[ \t]*[:=][ \t]*",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    rf"\b(?:setenv|ENV|setx|fish_set|login\s+\S+\s+(?=password))[ \t]+({_NAME})[ \t]+|\b(password)[ \t]+(?=\S+[ \t]*$)"
)
_PHRASE = re.compile(
    r"\b(?:api|access|secret|auth|bearer|hf)[ -](?:keys?|tokens?)(?: provided)?[ \t]*[:=][ \t]*[\"'`]?(?=[^\s\"'`])",
    re.IGNORECASE,
)
_FIELD_ROW = re.compile(r"(?:^|[ \t])([\w.-]+)[ \t]*\n[^\n]*?\binput_value=", re.MULTILINE)
_REFUSED = re.compile(
    rf"\bargument (?:[-\w]+/)?--?({_NAME})(?:/-\w+)?: [^\n'\"]*?(?=['\"])|\bproxy_set_header[ \t]+({_NAME})[ \t]+"
)
_CARRIED = re.compile(r"\b(Bearer|Basic)[ \t]+([A-Za-z0-9._~+/=-]{8,})", re.IGNORECASE)
_SAID = re.compile(  # in a sentence; only what looks like a value
    rf"\b(?:({_NAME})(?:[ \t]+is|[ \t]+was|[ \t]+set to|[ \t]*\()|(?:api[ _-]?key|token|password|passphrase|secret)s?(?: provided| given| for \S+)?(?: is| was|:)?|\b(?:AccessKey|SecretKey|wandb login))"
    r"[ \t]*(?<=[ \t(])[\"'`]?(?=[^\s\"'`]*\d)(?=[^\s\"'`]*[A-Za-z])([^\s\"'`<>()]{8,})",
    re.IGNORECASE,
)
_NEXT_ROW = re.compile(rf"(?<![\w-])--({_NAME})[\"']?,?[ \t]*\\?[ \t]*\n[ \t]*(?:- )?[\"']?(?=[^\s-])")
_PROGRAM = re.compile(
    r"\b(sshpass[ \t]+-p[ \t]*|mysql\w*\b[^\n]*?[ \t]-p|(?:docker|podman|skopeo|registry)[ \t]+login\b[^\n]*?[ \t]-p[ \t]+)([^\s\"']+)"
)
_LOGIN = re.compile(r"(?<![\w-])(-u|--user|--proxy-user)([ =]+)([\"']?)([^\s:\"']+):([^\s\"']+)")
_COMMAND = re.compile(
    r"\bvllm\b|\bdocker\b|\bpodman\b|\bpython|\bcurl\b|ExecStart|entrypoints|\\\s*$|\bserve\b|--\w[\w-]*[ =]\S+.*--\w",
    re.DOTALL,
)
_WORD = re.compile(r"(?!-)(\\*[\"'])?(?(1).*?(?:\1|$)|[^\s\0\"'`|;&<>\\]+)")


def replace(text: str, book: Book) -> str:
    """The text without the values of secret names."""
    text = _walk(_PAIR, text, lambda t, m: _value(t, m.end(), m[1], "", book))
    text = _walk(_REFUSED, text, lambda t, m: _value(t, m.end(), m[1] or m[2], "", book))
    if "input_value=" in text and "\n" in text:
        text = _walk(_FIELD_ROW, text, lambda t, m: _value(t, m.end(), m[1], "", book))
    text = _walk(_GIVEN, text, lambda t, m: _given(t, m, book))
    text = _walk(_OPTION, text, lambda t, m: _words(t, m, book))
    text = _walk(_PHRASE, text, lambda t, m: _phrase(t, m, book))
    text = _walk(_SPOKEN, text, lambda t, m: _value(t, m.end(), m[1] or m[2], "", book))
    if "\n" in text:
        text = _walk(_NEXT_ROW, text, lambda t, m: _value(t, m.end(), m[1], "", book))
    text = _SAID.sub(lambda m: _sentence(m, book), text)
    if "-p" in text:
        text = _PROGRAM.sub(lambda m: m[1] + secret_value(m[2], book), text)
    text = _CARRIED.sub(lambda m: f"{m[1]} {_carried(m[2], book)}", text)
    if "curl" in text or "wget" in text:
        text = _LOGIN.sub(lambda m: f"{m[1]}{m[2]}{m[3]}{m[4]}:{_secret(m[5], book)}", text)
    return text


Read = Callable[
    [str, "re.Match[str]"], "tuple[int, int, str] | None"
]  # (from, to, what stands there instead)


def _walk(pattern: re.Pattern[str], text: str, read: Read) -> str:
    """Replaces what `read` finds behind each match, and goes on behind it."""
    out: list[str] = []
    at = begin = 0
    while found := pattern.search(text, at):
        told = read(text, found)
        if told is None:
            at = max(found.end(), at + 1)
            continue
        start, end, instead = told
        out += [text[begin:start], instead]
        at = begin = max(end, at + 1)
    return "".join(out) + text[begin:] if out else text


def _given(text: str, found: re.Match[str], book: Book) -> tuple[int, int, str] | None:
    name = found["name"]
    rank = _rank(name)
    if not rank or (found["sep"] == ":" and text[max(0, found.start("name") - 1)] == "/"):  # /etc/passwd:ro
        return None
    start, close = found.start("name"), found["close"]
    before = "" if close else _BEFORE.search(text, max(0, start - 16), start)
    quoted = before[0].rstrip("-") if before else ""
    if rank == 2:
        return _value(text, found.end(), name, quoted, book)
    told = _value(text, found.end(), name, quoted, Book())  # a trial, which counts for nothing
    if told is None:
        return None
    prose = found["sep"] == ":" and text[told[0] - 1 : told[0]] not in ('"', "'", ":")
    value = text[told[0] : told[1]]
    return (
        _value(text, found.end(), name, quoted, book)
        if len(value) >= 8 and not value.isdigit() and (not prose or _VALUE_LIKE.fullmatch(value))
        else None
    )


def _value(text: str, at: int, name: str, before: str, book: Book) -> tuple[int, int, str] | None:
    """The value that begins at `at`: from where, to where, and what stands there instead; None: nothing secret."""
    if not _rank(name):
        return None
    if kind := _TYPE.match(text, at):
        at = kind.end()
    if text[at : at + 1] in ("[", "(") and not text.startswith("[REDACTED]", at):
        return _list(text, at, book)
    if quote := _QUOTE.match(text, at):
        end = _end_of(text, quote.end(), quote[1], quote[2])
        return _kept_scheme(text, quote.end(), end, book)
    if before in ("?", "&"):
        bare = _QUERY.match(text, at)
    elif before:
        end = _end_of(text, at, before[:-1], before[-1])
        return _kept_scheme(text, at, end, book)
    elif name.lower() in _HEADERS:
        bare = re.compile(r"(?:(?!\\[rn])[^\r\n\"'])+").match(text, at)
        if bare and "cookie" not in name.lower():
            scheme = _SCHEME.match(text, at)
            bare = re.compile(r"[^\s\"',\\]+").match(text, scheme.end() if scheme else at)
            at = bare.start() if bare else at
    else:
        bare = _BARE.match(text, at)
        if bare and (scheme := _SCHEME.match(text, at)):
            bare = _BARE.match(text, scheme.end())
    if bare is None:
        return None
    value = bare[0].split("\\n", 1)[0].rstrip(_TAIL)
    start = bare.start()
    return _instead(text, start, start + len(value), book)


def _end_of(text: str, at: int, slashes: str, quote: str) -> int:
    """Where a quoted value ends: at the same quote with as many backslashes before it, else at the end of the row."""
    if slashes:
        closing = re.compile(rf"(?<!\\){re.escape(slashes + quote)}")
        end = closing.search(text, at)
        row = text.find("\n", at)
        return end.start() if end and (row < 0 or end.start() < row) else (row if row >= 0 else len(text))
    inside = re.compile(rf"(?:[^\\{quote}\n]|\\.)*").match(text, at)
    return inside.end() if inside else at


def _list(text: str, at: int, book: Book) -> tuple[int, int, str] | None:
    """Each member of `['v1', "v2"]`, `(…)` or `[v1, v2]`."""
    closing = {"[": "]", "(": ")"}[text[at]]
    pos, out, last = at + 1, text[at], ""
    while pos < len(text) and text[pos] != closing and text[pos] != "\n":
        if quote := _QUOTE.match(text, pos):
            end = _end_of(text, quote.end(), quote[1], quote[2])
            told = _instead(text, quote.end(), end, book)
            last = told[2] if told else text[quote.end() : end]
            out += quote[0] + last + text[end : end + len(quote[1]) + 1]
            pos = end + len(quote[1]) + 1
        elif bare := re.compile(rf"[^\s,\"'\n{re.escape(closing)}]+").match(text, pos):
            told = _instead(text, pos, bare.end(), book)
            out, pos = out + (told[2] if told else bare[0]), bare.end()
        else:
            out, pos = out + text[pos], pos + 1
    return at, pos, out


def _kept_scheme(text: str, start: int, end: int, book: Book) -> tuple[int, int, str] | None:
    scheme = _SCHEME.match(text, start, end)
    return _instead(text, scheme.end() if scheme else start, end, book)


def _phrase(text: str, found: re.Match[str], book: Book) -> tuple[int, int, str] | None:
    """What stands behind `API key:`, two words for a name; prose goes on with an ordinary word."""
    bare = _BARE.match(text, found.end())
    value = bare[0].rstrip(_TAIL) if bare else ""
    if not _VALUE_LIKE.fullmatch(value):
        return None
    return _instead(text, found.end(), found.end() + len(value), book)


def _words(text: str, found: re.Match[str], book: Book) -> tuple[int, int, str] | None:
    """The words behind `--api-key`: all up to the next option in a command, one that looks like a value in prose."""
    if not _rank(found[1]):
        return None
    row_end = text.find("\n", found.end())
    row_begin = text.rfind("\n", 0, found.start()) + 1
    row = text[row_begin : row_end if row_end >= 0 else len(text)]
    commanded = _COMMAND.search(row) is not None
    pos, out = found.end(), ""
    while word := _WORD.match(text, pos):
        quoted = word[1]
        inner = word[0].strip(quoted) if quoted else word[0]
        bare = inner.rstrip(_TAIL) if not quoted else inner
        if not bare or (not commanded and not quoted and not _VALUE_LIKE.fullmatch(bare)):
            break
        at = pos + word[0].index(bare)
        told = _instead(text, at, at + len(bare), book)
        out += text[pos:at] + (told[2] if told else bare) + text[at + len(bare) : word.end()]
        pos = word.end()
        space = re.compile(r"[ \t\0]+(?=[^\s\\|&;<>-])").match(text, pos)
        if not space or not commanded:
            break
        out, pos = out + space[0], space.end()
    return (found.end(), pos, out) if out else None


def _sentence(found: re.Match[str], book: Book) -> str:
    value = found[2].rstrip(_TAIL)
    if (
        (found[1] and _rank(found[1]) < 2)
        or len(value) < 8
        or ("-" in value and value.islower() and "/" not in value and len(value) < 16)
    ):
        return found[0]
    start = found.start(2) - found.start()
    return found[0][:start] + secret_value(value, book) + found[0][start + len(value) :]


def _carried(value: str, book: Book) -> str:
    plausible = any(c.isdigit() for c in value) or len(value) >= 24
    return _secret(value, book) if plausible else value


def _instead(text: str, start: int, end: int, book: Book) -> tuple[int, int, str] | None:
    value = text[start:end]
    if not value.strip() or is_pseudonym(value) or _PLACEHOLDER.fullmatch(value):
        return None
    return start, end, _secret(value, book)


def _secret(value: str, book: Book) -> str:
    """The pseudonym of a secret, which is looked for everywhere from now on if it is no mere word."""
    from vdiag.redact.tokens import replace as by_form

    told = by_form(value, book)
    if is_pseudonym(told):
        return told
    if (
        len(value) >= 6
        and not (value.isalpha() and value.islower() and len(value) < 12)
        and not value.isdigit()
    ):
        book.spread("secret", value)
    return book.name("secret", value)


def secret_value(value: str, book: Book) -> str:
    """A whole value that stands under a secret name in a structure; placeholders stay."""
    told = _instead(value, 0, len(value), book)
    return told[2] if told else value


# What a row must hold, in lower case, for any of this to find something there: one of these words with what gives it a
# value behind it, or an option.
_WORDS = (
    "key", "keys", "key_id", "pass", "password", "passwords", "passwd", "passphrase", "pwd", "secret", "secrets", "token",
    "auth_tokens", "access_tokens", "api_tokens", "hf_tokens", "cred", "creds", "credential", "credentials", "auth", "authorization", "cookie", "cookies", "bearer", "session_id",
    "sessionid", "connection_string", "connectionstring", "_pat", "dsn", "otp", "jwt", "sas", "sig", "signature",
)  # fmt: skip
LITERALS = (
    *(f"{word}{behind}" for word in _WORDS for behind in ("=", ":", " =", " :", " |", " set to", " is ", " was ", " (", " -", ">", "  ", "\t", "'", '"', "`", "\\")),
    *(f"{word} {said}" for word in ("key", "token", "password", "secret", "passphrase") for said in ("is ", "was ", "set to", "(", "provided", "given", "for ")),
    "--", "bearer ", "basic ", "password ", "setenv ", "env ", "setx ", "-u ", "-token ", "-key ", "-password ", "token '", "token \"", "key '", "sshpass", "mysql", "name:", "key:", "name=",
    *(f"{word}{behind}" for word in _WORDS for behind in ("\n", "\u2502", " \u2502", "%3d", "%3a")),
    "api key ", "access key ", "auth token ", "using token ", "with token ", "accesskey ", "secretkey ", "wandb login", " login ",
    "authorization ", "argument -",
)  # fmt: skip
