"""Blanks: the `<placeholders>` of a rule's texts that the log can fill in, such as `<model>` and `<unit>`.

A blank whose fact is not known stays visible, for the person to fill in; any other `<…>` is never touched. The
table is the one that docs/rules.md prints. What the log says of the server counts, not what a rule captured as its
`model`: that may be the name a client got wrong.
"""

from __future__ import annotations

import math
import re
import shlex

from vdiag.advise.facts import Known, fact

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_CACHED = re.compile(r"/models--([A-Za-z0-9][\w.-]*?)--([A-Za-z0-9][\w.-]*)(?:/|$)")
_FOLDERS = (
    "models",
    "model",
    "data",
    "checkpoints",
    "ckpt",
    "weights",
    "output",
    "outputs",
    "results",
    "mnt",
)
_NAME = re.compile(r"[A-Za-z0-9][\w.@:-]{0,254}")
_REPLICA = re.compile(r"(?P<service>.+)[-_]\d+")  # compose's name of a container without its project
# Kubernetes makes random parts of names of these letters (apimachinery, util/rand).
_OF_DEPLOYMENT = re.compile(
    r"(?P<name>.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}"
)
_PLAIN_HOME = re.compile(r"~(?:/[\w@%+=:,.-]+)*/?")  # a shell expands it only without quotes

#: Blank → the fact that fills it. Longest first where one holds another.
BLANKS = {
    "/srv/models/<model>": "model_store",
    "<owner>/<model>": "model_id",
    "<owner>--<model>": "model_cached",
    "<model folder>": "model_dir",
    "<model>": "model_given",
    "<unit>": "unit_name",
    "<container>": "container_name",
    "<service>": "compose_service",
    "<pod>": "pod_name",
    "<deployment>": "deployment_name",
    "<GiB>": "memory_limit_gib",
}
_BEFORE = {
    "/srv/models/<model>": "",
    "<owner>/<model>": r"(?:(?<![\w/:>-])|(?<=huggingface\.co/))",
    "<owner>--<model>": "(?<=models--)",
    "<pod>": r"(?<![\w:>-])",
    "<deployment>": r"(?<![\w:>-])",
    "<GiB>": "",
}
_BEHIND = {"<GiB>": r"(?=(?:g|Gi?)\b)"}
_OF_THE_MODEL = r"<[\w ,]{1,60} of the model>"  # `<a quantised build of the model>`: it is named within

_NO_PART_BEFORE = r"(?<![\w/:>-])"
_NO_PART_BEHIND = r"(?![\w<-])"

#: Finds a blank, has no groups. `<model>-AWQ` or `s3://<bucket>/<model>` are other names than the server's model.
PATTERN = "|".join(
    [
        *(
            _BEFORE.get(blank, _NO_PART_BEFORE) + re.escape(blank) + _BEHIND.get(blank, _NO_PART_BEHIND)
            for blank in BLANKS
        ),
        _OF_THE_MODEL,
    ]
)


def filled(blank: str, known: Known) -> str:
    """What stands in prose in place of a blank."""
    if blank in BLANKS:
        return str(known.get(BLANKS[blank]) or blank)
    model = known.get("model_given")
    return blank.replace("the model>", f"{model}>") if model and ">" not in model else blank


def filled_word(blank: str, known: Known) -> str:
    """What stands in a command in place of a blank: quoted for a shell."""
    word = filled(blank, known)
    if word == blank or BLANKS.get(blank) == "container_name" or _PLAIN_HOME.fullmatch(word):
        return word
    return shlex.quote(word)


# ---- the facts behind them ------------------------------------------------------------------------------


@fact
def model_given(known: Known) -> str | None:
    """The model as the server was given it: an id, a folder or a file."""
    model = str(known.said("model") or "")
    return model if model and model.isprintable() else None


@fact
def model_id(known: Known) -> str | None:
    """The model's name on the hub, `owner/name`; also where it is served out of the hub's cache."""
    model = known.get("model_given") or ""
    if cached := _CACHED.search(model):
        return f"{cached[1]}/{cached[2]}"
    return model if _HUB_ID.fullmatch(model) and model.split("/")[0] not in _FOLDERS else None


@fact
def model_cached(known: Known) -> str | None:
    """The model's name as the hub's cache spells it behind `models--`."""
    name = known.get("model_id")
    return name.replace("/", "--") if name else None


@fact
def model_dir(known: Known) -> str | None:
    """The folder of a model that is served out of one."""
    model = known.get("model_given") or ""
    if not re.match(r"[/~]|\.\.?/", model):
        return None
    folder = model.rpartition("/")[0] if model.endswith((".gguf", ".json")) else model.rstrip("/")
    return folder or None


@fact
def model_store(known: Known) -> str | None:
    """Where to keep the model as a plain folder: its own, or one named after it (not in the hub's cache)."""
    name = known.get("model_id")
    return f"/srv/models/{name.split('/')[1]}" if name else known.get("model_dir")


@fact
def unit_name(known: Known) -> str | None:
    """The systemd unit of the server, without `.service`."""
    name = str(known.get("unit") or "").removesuffix(".service")
    return name if _NAME.fullmatch(name) else None


@fact
def pod_name(known: Known) -> str | None:
    """The pod of the server."""
    name = str(known.get("pod") or "")
    return name if _NAME.fullmatch(name) else None


@fact
def deployment_name(known: Known) -> str | None:
    """The Deployment that made the pod, by the way Kubernetes names its pods."""
    made = _OF_DEPLOYMENT.fullmatch(known.get("pod_name") or "")
    return made["name"] if made else None


@fact
def compose_service(known: Known) -> str | None:
    """The service of the compose file: the container's name in its log without the number."""
    name = str(known.get("container") or "")
    if known.get("deploy") != "compose" or not _NAME.fullmatch(name):
        return None
    replica = _REPLICA.fullmatch(name)
    return replica["service"] if replica else name


@fact
def container_name(known: Known) -> str | None:
    """The container for docker's commands: its name, or under compose the command that tells it."""
    name = str(known.get("container") or "")
    if not _NAME.fullmatch(name) or known.get("deploy") == "kubernetes":
        return None
    service = known.get("compose_service")
    return f"$(docker compose ps -aq {service})" if service and service != name else name


@fact
def memory_limit_gib(known: Known) -> int | None:
    """A limit on host memory that loading fits in: twice the checkpoint on disk, in GiB."""
    size = known.number("checkpoint_gib")
    return math.ceil(2 * size) if size and size > 0 else None
