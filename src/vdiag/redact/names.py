"""Names that only their place tells: hosts, users and organisations.

A name is replaced where it is told, and, once told, wherever it stands alone, unless it is also a word of any log.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from vdiag.redact.book import Book, is_pseudonym
from vdiag.redact.public import HOSTS, ORGS, PLACES, SAID, USERS, WORDS, is_public_host

_H = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_U = r"[A-Za-z0-9_][A-Za-z0-9._-]*"
_PERSON = r"\w(?:[\w.-]|%[0-9A-Fa-f]{2})*"
_Q = r"\\*[\"']?"
_ZONE = r"(?:Z|[+-]\d\d:?\d\d| (?:UTC|GMT|CES?T|BST|JST|KST|IST|[ECMP][SD]T))"
_SYSLOG = (
    r"(?:<\d{1,3}>(?:\d )?)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?"
    rf"|(?:[A-Z][a-z]{{2}} )?\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?{_ZONE})"
)
_TAG = r"(?=[\w./@()-]+(?:\[\d+\])?:[ ]|kernel:|systemd|[\w./@()-]+ (?:\d+|-) (?:\w+|-) )"
_ENDS = (
    r"(?:local|internal|lan|corp|intra|intranet|localdomain|home\.arpa|private|consul|svc|cluster\.local|compute\.internal"
    r"|(?:compute(?:-1)?\.)?amazonaws\.com(?:\.cn)?|cloudapp\.net|cloudapp\.azure\.com|azurecr\.io|jfrog\.io|ts\.net|hpc|cluster)"
)

USERS_TOLD = re.compile(
    rf"^[dl-][rwxsStT-]{{9}}[.+@]?[ \t]+\d+[ \t]+(?:root[ \t]+(?!root\b))?({_U})(?=[ \t])|%2[Ff]home%2[Ff]([A-Za-z0-9_.-]+?)(?=%2[Ff])|(?<=/scratch/)({_U})(?=/)|(?<![\w/.])~([a-z_][\w-]+)(?=/)|"
    rf"/home/(?:[A-Z][A-Z0-9]+|[\w-]+(?:\.[\w-]+)+|ldap|ad|domain)/({_U})(?=/)"
    rf"|(?:(?<=/home/)|(?<=/Users/)|(?<=\bUsers\\)|(?<=\bUsers\\\\)|(?<=/users/)|(?<=/homes/)|(?<=/home[0-9]/)|(?<=\bhome\\)|(?<=\bhome\\\\)|(?<=/spool/mail/)|(?<=/torchinductor_)|(?<=/tmp/ray_))"
    rf"({_PERSON} {_PERSON}(?=[/\\])|{_PERSON}(?=[/\\\s:'\",;)\]}}]|$))"
    rf"|(?<![\w-])(?:USER|LOGNAME|SUDO_USER|USERNAME|RUNAS|User|login|LOGIN|SLURM_JOB_USER|UserName|user_name|username|runAsUserName|UserId){_Q}[=:][ \t]?{_Q}({_U})(?![\w./-])"
    rf"|(?<![\w-])(?:user|owner|run_user|user_id)(?:=\\*[\"']?|\\*[\"'][ \t]*:[ \t]*\\*[\"'])({_U})(?![\w./-])"
    rf"|\b[Oo]f [Uu]ser ({_U})\b|\b[Ll]ogged in as:? ({_U})|\(({_U})\) CMD \(|\brunuser -u ({_U})|\bsu (?:- )?({_U})(?=$| -c)|\bsudo -u ({_U})|\bchown (?:-R )?({_U})(?=:)"
    rf"|\bdocker run\b[^\n]*? (?:-u|--user)[ =]({_U})|\bwandb\.ai/({_U})(?=/)|(?<![\w.])/(?:run/)?media/({_U})(?=/)|^({_U}):x:\d+:\d+:"
    rf"|\bsudo(?:\[\d+\])?:[ \t]+({_U}) :|\buser ({_U})(?=\(uid)|\(uid=\d+\) by ({_U})(?=\(uid| |$)|\b[ug]id=\d+\(({_U})\)"
    rf"|\b(?:session (?:opened|closed)|password|publickey) for (?:invalid user |user )?({_U})(?=[ (]|$)"
    rf"|(?:^|[\s(\[])({_U})@{_H}(?=:[~/][^\s$#]*[$#]|[ :]~?[^\s\]$#]*\][$#])"
    rf"|\b(?:ssh|scp|rsync)\b[^\n]*?[ \t]({_U})@(?={_H})",
    re.MULTILINE,
)
HOSTS_TOLD = re.compile(
    rf"^{_SYSLOG} ({_H}) {_TAG}"
    rf"|\bassigned \S+ to ({_H})$|\bsrun: error: ({_H}): | ON ({_H}) CANCELLED|\(\w+, ip=({_H})\)|\bgetaddrinfo failed for ({_H})|\bto host ({_H})(?: port|:\d)"
    rf"|(?:^|[\s\])])({_H})(?=:\d+:\d+ \[\d+\] NCCL )|\bcannot be retrieved for ({_H})|\baddresses of \(({_H})(?=, \d)|\bconnect to \(({_H})(?=, \d)|\bresolve hostname ({_H})(?=: )"
    rf"|\bping: ({_H})(?=: )|\bgaierror: \[Errno -?\d+\] ({_H})$|\bStepId=\S+ on ({_H})|\blookup ({_H})(?=: (?:no such host|i/o timeout|server misbehaving|Temporary|Try again))|\bnfs: server ({_H})|^({_H})(?=:/\S* on /\S* type nfs)"
    rf"|\[({_H})(?=:\d+\] \*\*\*)|\bprocess rank \d+ on node ({_H})|\bCN ?= ?({_H})|\b(?:not )?valid for '?({_H})(?=['\",]|$)|^({_H})(?= login: )"
    rf"|\bVLLM_HOST_IP=({_H})|\binstance={_Q}({_H})(?=:\d)|\bkubelet, ({_H})|\bstarted on ({_H})$|\bListening on ({_H})(?=:\d)"
    rf"|\bserver: ({_H})(?=, )|\b[Ii]mage[:=][ \t]*{_Q}((?:[A-Za-z0-9-]+\.)+[a-z]{{2,}})(?=/)"
    rf"|(?<![\w-])(?:_?HOSTNAME|HOST|Hostname|hostname|host_?name|HostName|NodeName|nodeName|node_?name|node|host|Host|master_addr|MASTER_ADDR|master-addr"
    rf"|data-parallel-address|data_parallel_address|node_ip|SLURMD_NODENAME|SLURM_NODELIST|SLURM_JOB_NODELIST|BatchHost|NodeList|server_name|static hostname"
    rf"|Static hostname|upstream|peer|remote|head_node|worker_node|ray_address|address|addr|server_addr|Node){_Q}(?:[=:]|[ \t]*[:=][ \t]+|=[ \t])[ \t]*{_Q}({_H})(?=[\s:,;/'\"\\)\]}}(]|$)"
    rf"|--(?:host|master-addr|node-addr|node_rank_addr|data-parallel-address|nnodes-host|head-node)[ \t=]+({_H})(?=[\s:,;/'\"\\)\]]|$)"
    rf"|\w@({_H})(?=:[~/][^\s$#]*[$#]|[ :]~?[^\s\]$#]*\][$#])"
    rf"|\b(?:ssh|scp|rsync)\b[^\n]*?[ \t](?:{_U}@)({_H})"
    rf"|(?<=://)(?:[^\s/@\"']*@)?({_H})(?=[:/\s?#'\",;)\]}}\\]|$)"
    rf"|\b(?:connect(?:ed|ing)? to|resolve(?: host)?:?|on node|on host|from host|from node|on machine|lookup|reach) [\[\"'`]?({_H})(?=[\]\"'`]?:\d{{2,5}}|[\]\"'`](?:[\s,.:)]|$)| on \d)"
    rf"|\[({_H})\]:\d{{2,5}}\b|\(['\"]({_H})['\"], \d{{2,5}}\)|\bLinux ({_H})(?= \d+\.\d+\.\d+\S* #)"
    rf"|(?<![\w/.@-])((?:[A-Za-z0-9-]+\.)+{_ENDS}\.?)(?![\w-]|\.\w|\()|(?<![\w.-])((?:ip|node|worker|host|ec2)-\d+-\d+-\d+-\d+)(?![\w-])",
    re.MULTILINE,
)
_PREFIX = re.compile(rf"^{_SYSLOG} ({_H}) {_TAG}", re.MULTILINE)
_MODEL_KEYS = (
    r"model|model_tag|model_name|model_id|model_path|served_model_name|tokenizer|hf_config_path|lora_path|repo_id|repo|repo_name|model_weights"
    r"|speculative_model|draft_model|base_model_name|base_model_name_or_path|_name_or_path|name_or_path|pretrained_model_name_or_path|MODEL|MODEL_ID|MODEL_NAME|HF_MODEL|HF_MODEL_ID"
    r"|model-id|model-name|served-model-name|speculative-model|hf-config-path|id|root|parent"
)
_O = r"[A-Za-z0-9][A-Za-z0-9._-]*"
ORGS_TOLD = re.compile(
    rf"(?<![\w./-])({_O})/(?={_O} (?:does not appear to have|is not a (?:local|valid)))|\bgated repo\. ({_O})/|LoRAModulePath\(name='[^']*', path='({_O})/(?={_O}')|"
    rf"--lora-modules[ \t=]+{_Q}[\w.-]+=({_O})/(?={_O})|\\*[\"']path\\*[\"']: ?\\*[\"']({_O})/(?={_O}\\*[\"'])|\b(?:hf|huggingface-cli) download ({_O})/(?={_O})"
    rf"|\b(?:ghcr\.io|docker\.io|quay\.io|git@github\.com:|git@gitlab\.com:)/?({_O})/(?={_O})|\b[Ii]mage[:=][ \t]*{_Q}({_O})/(?={_O}(?:[:@\s\"']|$))|\bOpenAI-Organization: ({_O})|"
    rf"(?<![\w./-])(?:{_MODEL_KEYS}){_Q}[ \t]*[=:][ \t]*[\[(]?{_Q}({_O})/(?={_O}{_Q}(?:[\s,;)\]}}'\"\\@:]|$))"
    rf"|--(?:{_MODEL_KEYS})[ \t=]+{_Q}({_O})/(?={_O}(?:[\s,;'\"\\]|$))"
    rf"|\bvllm serve {_Q}({_O})/(?={_O}(?:[\s,;'\"\\]|$))"
    rf"|\b(?:huggingface\.co|hf\.co|hf-mirror\.com|modelscope\.cn/models)/(?:(?:api/)?(?:models|datasets|spaces)/)?({_O})/(?={_O})"
    rf"|\bmodels--({_O}?)--(?=[A-Za-z0-9])|\burl: /(?:api/models/)?({_O})/(?={_O}/(?:resolve|raw|tree|revision)\b)"
    rf"|(?i:\b(?:model|repo|repository|for|access|load|loading|of|from|model name|checkpoint|adapter|the model)) [`'\"]({_O})/(?={_O}[`'\"])"
    rf"|(?i:\b(?:access to model|load model|loading model|model|repo|repository)) ({_O})/(?={_O}(?:[\s,.;:)]|$))",
    re.MULTILINE,
)
_BUCKET = re.compile(
    r"(?<=s3://)([a-z0-9][a-z0-9.-]{2,62})|(?<=gs://)([a-z0-9][a-z0-9._-]{2,62})|(?<=az://)([a-z0-9][a-z0-9-]{2,62})"
)
_NUMBERS = re.compile(r"\d+(?:\.\d+)*")
_CODE = re.compile(
    r".*\.(?:py|cpp|cu|cuh|h|hpp|cc|c|go|rs|so|json|txt|log|yaml|yml|toml|sh|bin|safetensors|gguf|pt|service|socket|jinja|whl|gz|html?)$"
)
_PLACED = re.compile(
    r"\.[\w-]+\.(?:cluster\.local|svc|lan|corp|compute\.internal|amazonaws\.com)$"
)  # no attribute of a module
_MODULES = (
    "torch",
    "threading",
    "pydantic",
    "vllm",
    "multiprocessing",
    "asyncio",
    "os",
    "sys",
    "google",
    "ray",
    "self",
    "tf",
    "np",
)


def users(text: str, book: Book) -> str:
    """The text without the users that their place in it tells."""
    return _told(USERS_TOLD, text, lambda value: user_name(value, book))


def hosts(text: str, book: Book) -> str:
    """The text without the hosts, and the buckets, that their place in it tells."""
    if "://" in text:
        text = _told(_BUCKET, text, lambda value: _plain("bucket", value, book))
    return _told(HOSTS_TOLD, text, lambda value: host_name(value, book))


def orgs(text: str, book: Book) -> str:
    """The text without the organisations that are named with a model."""
    return _told(ORGS_TOLD, text, lambda value: org_name(value, book))


def prefixes(text: str, book: Book) -> str:
    """The text without the hosts in front of syslog lines."""

    def named(value: str) -> str:
        if value not in book.decided:
            book.decided[value] = host_name(value, book)
        return book.decided[value]

    return _told(_PREFIX, text, named)


def learn_prefixes(text: str, book: Book) -> None:
    """Takes in the hosts in front of syslog lines; a long log has few of them and many lines."""
    for value in dict.fromkeys(_PREFIX.findall(text)):
        if value not in book.decided:
            book.decided[value] = host_name(value, book)


def _told(pattern: re.Pattern[str], text: str, name: Callable[[str], str]) -> str:
    def named(found: re.Match[str]) -> str:
        group = found.lastindex
        if group is None:
            return found[0]
        start, end = found.span(group)
        return found[0][: start - found.start()] + name(found[group]) + found[0][end - found.start() :]

    return pattern.sub(named, text)


def _plain(kind: str, value: str, book: Book) -> str:
    book.spread(kind, value)
    return book.name(kind, value)


def user_name(value: str, book: Book) -> str:
    """A user's pseudonym; accounts that images bring along stay."""
    bare = value.rstrip(".")
    low = bare.lower()
    if (
        not bare
        or low in USERS
        or low in SAID
        or bare.isdigit()
        or is_pseudonym(bare)
        or low.startswith(("systemd-", "_"))
    ):
        return value
    if len(bare) >= 4 and low not in WORDS:
        book.spread("user", bare)
    return book.name("user", bare) + value[len(bare) :]


def host_name(value: str, book: Book) -> str:
    """A host's pseudonym, that of its first label with one for its domain behind it; public ones stay."""
    bare = value.rstrip(".")
    low = bare.lower()
    label, _, domain = bare.partition(".")
    if (
        not bare or is_pseudonym(bare) or is_pseudonym(label) or is_public_host(bare) or _NUMBERS.fullmatch(bare) or _CODE.fullmatch(low)
        or ("_" in bare and not domain and bare.isupper()) or (label.lower() in _MODULES and not _PLACED.search(low)) or len(bare) < 2
        or re.fullmatch(r"0x[0-9a-f]+|[0-9a-f]{4}|[0-9a-f]{16}|cuda\d*|rank\d*|v\d+|numa\d*|cpu\d*|gpu\d+", low)
    ):  # fmt: skip
        return value
    if not domain and low in WORDS:
        return book.name("host", bare) + value[len(bare) :]
    told = label if label.lower() in HOSTS else ""
    if not told:
        if len(label) >= 3 and label.lower() not in WORDS and not label.isdigit():
            book.spread("host", label)
        told = book.name("host", label)
    if domain:
        if domain.count(".") >= 1 or domain.lower() not in ("local", "internal", "lan", "corp", "svc"):
            book.spread("domain", domain)
        told += f".{book.name('domain', domain)}"
    return told + value[len(bare) :]


def org_name(value: str, book: Book) -> str:
    """The pseudonym of an organisation on a model hub; public ones stay, and so do folders."""
    low = value.lower()
    if (
        low in ORGS
        or low in PLACES
        or is_pseudonym(value)
        or value.isdigit()
        or ("." in value and is_public_host(value))
        or low.startswith(("v0", "v1", "v2", "http", "models--"))
    ):
        return value
    if len(value) >= 4 and low not in WORDS:
        book.spread("org", value)
    return book.name("org", value)


# What a row must hold, in lower case, for any of these to find something there.
_BEHIND = ("=", ":", " =", " :", "'", '"', "\\")
USER_LITERALS = (
    "rw-",
    "rwx",
    "%2fhome",
    "/scratch/",
    "~",
    "of user ", "logged in as", ") cmd (", "runuser", "su ", "chown ", "docker run", "wandb.ai/", ":x:", "torchinductor_", "/ray_", "/media/", "/mail/", "userid=", "owner", "run_user",
    "home", "users/", "users\\", "sudo", "uid=", "gid=", "session opened", "session closed", "publickey for", "password for", "@", "ssh ", "scp ", "rsync ",
    *(f"{word}{behind}" for word in ("user", "logname", "username", "user_name", "runas", "login") for behind in _BEHIND),
)  # fmt: skip
HOST_LITERALS = (
    "assigned ",
    "] nccl ", "retrieved for", "addresses of (", "connect to (", "ping: ", "gaierror", "stepid=", "nfs", "] ***", "process rank", "cn=", "cn = ", "valid for ", " login: ",
    "vllm_host_ip", "instance=", "kubelet, ", "started on ", "listening on ", ".azurecr.", ".jfrog.",
    "srun:",
    " cancelled",
    ", ip=",
    "getaddrinfo",
    "to host ",
    "server: ",
    "image:",
    "image=",
    *(f"{word}{behind}" for word in ("host", "hostname", "host_name", "node", "nodename", "node_name", "nodelist", "node_ip", "addr", "address", "upstream",
                                     "peer", "remote", "server_name", "--host", "master-addr", "data-parallel-address", "head-node", "node-addr")
      for behind in (*_BEHIND, " ")),
    "://", "@", "connect", "resolve", "lookup", "reach", "on machine", "linux ", "ip-", "node-", "worker-", "host-", "ec2-", "ssh ", "scp ", "rsync ", "', ", '", ', ".local", ".internal", ".lan",
    ".corp", ".intra", ".home.arpa", ".private", ".consul", ".svc", ".amazonaws.", ".cloudapp.", ".ts.net", ".hpc", ".cluster", "]:",
)  # fmt: skip
ORG_LITERALS = (
    "not appear to have",
    "is not a ",
    "gated repo",
    "loramodulepath", "lora-modules", "path\"", "path'", " download ", "ghcr.io/", "docker.io/", "quay.io/", "git@git", "image", "openai-organization",
    *(f"{word}{behind}" for word in ("model", "model_tag", "model_name", "model_id", "model_path", "tokenizer", "hf_config_path", "lora_path", "repo", "repo_id",
                                     "repo_name", "model_weights", "base_model_name", "name_or_path", "model-id", "model-name", "_model",
                                     "model-path")
      for behind in _BEHIND),
    "-model ", "-tokenizer ", "--tokenizer ", "-path ", "-id ", "-name ", "vllm serve", "huggingface.co/", "hf.co/", "hf-mirror.com/", "modelscope.cn/", "models--", "url: /",
    "model `", "repo ", "repository ", "load model ", "loading model ", "access to model ", "checkpoint ", "adapter ", "for '", "from '", "of '", "for `", "of `",
    "access '", "load '", "loading '", "the model ", "--model", "model /",
)  # fmt: skip
