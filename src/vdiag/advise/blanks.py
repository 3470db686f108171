"""Blanks: the `<placeholders>` of a rule's commands that the log can fill in, such as `<model>` and `<unit>`.

A blank whose fact is not known stays visible, for the person to fill in; any other `<…>` is never touched. The
table here is the one that docs/rules.md prints. It knows nothing of rules; facts.py derives the facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from vdiag.advise.facts import Known

#: What a blank is filled in with: the name of a fact. `{}` in a longer form stands for the fact.
BLANKS = {
    "<model>": ("model", "{}"),
    "<owner>/<model>": ("model_id", "{}"),
    "<owner>--<model>": ("model_cache", "{}"),
    "/srv/models/<model>": ("model_store", "{}"),
    "<model folder>": ("model_dir", "{}"),
    "<unit>": ("unit_name", "{}"),
    "<container>": ("container_name", "{}"),
    "<service>": ("compose_service", "{}"),
    "<pod>": ("pod", "{}"),
    "<deployment>": ("deployment", "{}"),
    "<namespace>": ("namespace", "{}"),
}
#: Not blanks by their look: the address of the server where its port is the default one.
PORTS = {"127.0.0.1:8000": "127.0.0.1:{}", "localhost:8000": "localhost:{}"}
OF_THE_MODEL = re.compile(r"<([\w ,]+ of) the model>")

# Longest first; `<model>-AWQ`, `s3://<bucket>/<model>` and `/opt/<model>` are other names than the model's own.
_BLANK = (
    r"(?<![\w/:-])(?:"
    + "|".join(re.escape(blank) for blank in sorted(BLANKS, key=len, reverse=True))
    + r"|models--<owner>--<model>)(?![\w<-])"
)


def pattern() -> str:
    """A regular expression without groups that finds every blank of the table."""
    ports = "|".join(re.escape(port) + r"(?!\d)" for port in PORTS)
    return rf"{_BLANK}|(?<=https://huggingface\.co/)<owner>/<model>|{ports}|<[\w ,]+ of the model>"
