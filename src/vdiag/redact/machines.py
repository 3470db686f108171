"""Addresses and numbers that name one machine, card or account: told by their form, and by what stands around it."""

from __future__ import annotations

import ipaddress
import re

from vdiag.redact.book import Book, is_pseudonym

_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_CARD = re.compile(
    rf"(?<![A-Za-z0-9])(?i:GPU|MIG)-(?:GPU-)?{_UUID}|(?<=\bgpu[._ -]uuid[=:])[ \t]*{_UUID}", re.IGNORECASE
)
_MACHINE = re.compile(
    r"(?i)(\b_?(?:machine|boot|invocation|system|host|chassis|product)[ _-]?(?:u?u?id)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?|\bDMI: UUID |^\s*UUID:[ \t]*)"
    rf"({_UUID}|[0-9a-f]{{32}})(?![0-9A-Za-z])"
)
_SERIAL = re.compile(
    r"(?i)((?<![A-Za-z])(?:serial(?:[ _-]?(?:number|no|num|short))?|asset tag|board serial|S/N|SN)\\*[\"']?[ \t]*[:=#][ \t]*\\*[\"']?"
    r"|\bserial (?=\d{6})|/by-id/(?:[\w.-]*_)?(?=[A-Za-z0-9]*\d[A-Za-z0-9]*))([A-Za-z0-9][A-Za-z0-9._/-]{3,})"
)
_PORT_MAC = re.compile(r"\b(enx|wlx)([0-9a-f]{12})\b")
_GUID = re.compile(
    r"(?i)(\b\w*guid\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?)((?:[0-9a-f]{4}:){3}[0-9a-f]{4}|0x[0-9a-f]{12,16})\b"
)
_NO_SERIAL = re.compile(
    r"(?i)n/a|not|none|unknown|default|to|no|0+|invalid.*|.*serial.*|requested|error|unspecified"
)
_ACCOUNT = re.compile(
    r"(\barn:aws[\w-]*:[\w-]*:[\w-]*:|(?<![\d.])(?=\d{12}\.dkr\.ecr\.)|\baws_account_id\W{1,4}|\"?AccountId\W{1,4})(\d{12})(?!\d)"
)
_EMAIL = re.compile(
    r"(?<![^\W_])(?<![^\W_][\w.+%-])[^\W_](?:[\w.+-]|%(?!40)){0,1024}(?:@|%40|\\u0040)(?:[^\W_](?:(?:[^\W_]|-)*[^\W_])?\.)+[^\W\d_]{2,}(?![\w-])"
)
_NO_EMAIL = re.compile(
    r"git@git(?:hub|lab)\.com|.*\.(?:service|socket|timer|scope|slice|mount|target|so|py|js|json)$|.*@sha256"
)
_URL_LOGIN = re.compile(
    r"(?<=://)([^\s/:@\"'<>\\]*):(?!\d{1,5}(?:[/?#]|@sha))([^\s\"'<>\\]+)@(?=[\w.\[-]+(?::\d+)?(?:[/?#\s\"',;)\]}\\]|$))"
)
_URL_TOKEN = re.compile(r"(?<=://)([^\s/:@\"'<>\\]{2,})@(?=[\w.\[-]+(?::\d+)?(?:[/?#\s\"',;)\]}\\]|$))")

MAC = re.compile(
    r"(?<![\w:-])(?:[0-9A-Fa-f]{2}:){5,19}[0-9A-Fa-f]{2}(?![\w:-])|(?<![\w:-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w:-])"
)
IPV6 = re.compile(
    r"(?<![\w:.])(?=[0-9A-Fa-f:]*:[0-9A-Fa-f]*:)[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])(?!\.\d)"
)
IPV4 = re.compile(r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![A-Za-z0-9]|\.\d)")
_GLUED = re.compile(  # what may touch an address: a spelled-out character, or a word that says what it is
    r"(?:\\[nrt]|\\u00[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2}|(?:^|[^a-z])(?:node|host|ip|worker|raylet|peer|head|addr)[_-]?)$",
    re.IGNORECASE,
)
_VERSIONED = re.compile(  # what stands before a version of four parts
    r"(?i)(?:[=<>~!]=[ \t]*[\"']?|[<>][ \t]*|\.so\.|(?<![a-z])v|[a-z0-9]-cu\d+[^\n]{0,40}[ \t=@(:|]+[\"']?"
    r"|\b(?:nvidia|cuda|cudnn|cublas|nccl|cufft|curand|cusolver|cusparse|nvjitlink|nvtx|tensorrt|rocm|hip|torch|python|pip)[-_\w]*[ \t=@(:|/]+[\"']?"
    r"|\b(?:version|versions|driver|release|build|firmware|toolkit|ver|chrome|chromium|firefox|safari|edg|edge|opr|mozilla|cargo|rustc|gcc|clang|kernel|linux)"
    r"(?:[\"'_]?\w*)[\"']?[ \t:=/(]+[\"']?(?:is[ \t]+)?|[a-z0-9]-)$"
)
_SAID = re.compile(r"(?i)(?:host|addr(?:ess)?|ip|peer|server|node|url|client)\w*[\"']?[ \t:=]+$|[@/\[(]$")


def replace(text: str, book: Book) -> str:
    """The text without hardware numbers, e-mail addresses and what logs in through an address."""
    if "://" in text:
        text = _URL_LOGIN.sub(lambda m: _login(m, book), text)
        text = _URL_TOKEN.sub(lambda m: _token(m, book), text)
    if "@" in text or "%40" in text or "u0040" in text:
        text = _EMAIL.sub(lambda m: _mail(m[0], book), text)
    if "-" in text:
        text = _CARD.sub(lambda m: book.name("gpu-uuid", m[0]), text)
        text = _MACHINE.sub(lambda m: m[1] + book.name("machine-id", m[2]), text)
    elif "id" in text.lower():
        text = _MACHINE.sub(lambda m: m[1] + book.name("machine-id", m[2]), text)
    if "nx" in text or "lx" in text:
        text = _PORT_MAC.sub(lambda m: m[1] + book.name("mac", ":".join(re.findall("..", m[2]))), text)
    if "uid" in text.lower():
        text = _GUID.sub(lambda m: m[1] + book.name("mac", m[2].lower()), text)
    text = _SERIAL.sub(lambda m: _serial(m, book), text)
    return _ACCOUNT.sub(lambda m: m[1] + _account(m[2], book), text)


def addresses(text: str, book: Book) -> str:
    """The text without MAC, IPv6 and IPv4 addresses; those that mean this machine or any stay."""
    text = MAC.sub(lambda m: _mac(m[0], book), text)
    text = IPV6.sub(lambda m: _ipv6(m[0], book), text)
    return ipv4(text, book)


def ipv4(text: str, book: Book) -> str:
    """The text without IPv4 addresses."""
    return IPV4.sub(lambda m: _ipv4(m, book), text)


def _login(found: re.Match[str], book: Book) -> str:
    from vdiag.redact.keys import secret_value
    from vdiag.redact.names import user_name

    user = user_name(found[1], book) if found[1] else ""
    return f"{user}:{secret_value(found[2], book)}@"


def _token(found: re.Match[str], book: Book) -> str:
    from vdiag.redact.keys import secret_value
    from vdiag.redact.names import user_name

    known = found[1]
    return f"{secret_value(known, book) if len(known) >= 16 else user_name(known, book)}@"


def _mail(value: str, book: Book) -> str:
    if _NO_EMAIL.fullmatch(value) or is_pseudonym(value.partition("@")[0]):
        return value
    book.spread("email", value)
    return book.name("email", value)


def _serial(found: re.Match[str], book: Book) -> str:
    value = found[2]
    if _NO_SERIAL.fullmatch(value) or not any(c.isdigit() for c in value) or is_pseudonym(value):
        return found[0]
    book.spread("serial", value)
    return found[1] + book.name("serial", value)


def _account(value: str, book: Book) -> str:
    book.spread("account", value)
    return book.name("account", value)


def _mac(value: str, book: Book) -> str:
    plain = value.lower().replace("-", ":")
    return value if plain in ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff") else book.name("mac", plain)


def _ipv6(value: str, book: Book) -> str:
    parts = [part for part in value.split(":") if part]
    if len(parts) < 2 or (not any(c.isdigit() for c in value) and len(parts) < 4):
        return value
    if "::" in value and len(parts) < 3 and len(parts[0]) < 3:  # a slice, or a C++ name
        return value
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return value
    return value if address.is_loopback or address.is_unspecified else book.name("ip", value.lower())


def _ipv4(found: re.Match[str], book: Book) -> str:
    value, text, start = found[0], found.string, found.start()
    glued = _GLUED.search(text, max(0, start - 10), start) is not None
    if start and (text[start - 1].isalnum() or text[start - 1] in "._") and not glued:
        return value
    if book.knows("ip", value):
        return book.name("ip", value)
    octets = value.split(".")
    if any(int(octet) > 255 or (len(octet) > 1 and octet[0] == "0") for octet in octets):
        return value
    if octets[0] in ("127", "0", "255") or value.startswith(("224.", "239.")):
        return value
    before = text[max(0, start - 60) : start]
    port = text[found.end() : found.end() + 1] == ":" and text[found.end() + 1 : found.end() + 2].isdigit()
    if not port and not glued and _VERSIONED.search(before) and not _SAID.search(before):
        return value
    return book.name("ip", value)


# What a row must hold, in lower case, for anything but an address to be found in it.
LITERALS = (
    "://", "@", "gpu-", "mig-", "uuid", "machine_id", "machine-id", "machine id", "boot_id", "boot-id", "boot id", "invocation_id", "invocationid",
    "machineid", "bootid", "system_id", "serial", "asset tag", "s/n", "sn:", "sn=", "arn:aws", ".dkr.ecr.", "accountid", "account_id", "guid", "/by-id/",
    "%40", "\\u0040", "enx", "wlx",
)  # fmt: skip
