"""Whether a failure is about what changed since the server last worked, and the way back to that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from vdiag.advise import form
from vdiag.advise.arguments import takes
from vdiag.advise.facts import ALIASES, Known
from vdiag.advise.fixes import applies, placeholders, to_type
from vdiag.advise.given import UNTOLD
from vdiag.advise.start import DEVICE, MEMORY, PACKAGES, TOLD_AS
from vdiag.model import Change, Changes, Fix, Safety
from vdiag.reason.blame import Node
from vdiag.rulebook.schema import Rule

LEAST_SAID = 5  # characters of a value that a message does not hold by chance
NOTE = "it worked so before; what the change was for is lost"
_PIP = re.compile(r"\bpip3? install [^\n]*")
_FELL = ("total_gib", "free_gib", "kv_gib", "kv_tokens")  # figures of which less is worse
_FACTS = {
    **{called: name for name, called in DEVICE.items()},
    **{called: name for name, (_, called, _) in MEMORY.items()},
    **{name.replace("_", "-"): name for name in PACKAGES},
}  # what a change is called → its fact


def explain(told: Changes, node: Node, context: Mapping[str, Any]) -> None:
    """Marks the changes that the failure at `node` is about, and puts them first."""
    captures = dict(node.match.captures) if node.match else {}
    about = _About(node, captures, context)
    for item in told.items:
        item.explains = about.named(item)
    told.items.sort(key=lambda item: not item.explains)


class _About:
    """What a failure is about: by its rule's fixes and texts, what it captured, and the settings its message names."""

    def __init__(self, node: Node, captures: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        self.rule = node.rule
        self.known = Known(captures, context)
        self.text = node.event.text
        self.names = {alias for name in captures for alias in _aliases(name)}
        self.flags = [
            value for value in captures.values() if isinstance(value, str) and value.startswith("--")
        ]
        self.names |= {value.lstrip("-").replace("-", "_") for value in self.flags}
        self.fixes: dict[str, list[Any]] = {}  # argument → the values that fixes give it
        self.env: set[str] = set()
        if self.rule is not None:
            asked = {name for name in placeholders(self.rule) if name not in ("vllm", "model", "args")}
            self.asked = {alias for name in asked for alias in _aliases(name)}
            for fix in self.rule.fixes:
                if not applies(fix, self.known, context):
                    continue
                for name, value in fix.set.items():
                    self.fixes.setdefault(name, []).append(value)
                for name in fix.unset:
                    self.fixes.setdefault(name, []).append(None)
                self.env |= set(fix.env)
        else:
            self.asked = set()
        from vdiag.advise import settings

        said = settings.settings_of(
            node.event.text[: settings.MOST_TEXT], settings.own_file(node.event), context
        )
        for name in said:
            if name.startswith("--"):
                self.names.add(name.lstrip("-").replace("-", "_"))
            else:
                self.env.add(name)

    def named(self, item: Change) -> bool:
        """Whether a change is what the failure is about."""
        if item.what == "argument":
            return self._argument(item)
        if item.what == "model":
            return bool({"model", "weights_gib"} & self.names) or self._said(item.after)
        if item.what == "version":
            return item.name == "vLLM" and self._version(item)
        if item.what == "package":
            return self.rule is not None and any(_of_version(self.rule, item.name))
        if item.what == "memory":
            return self._memory(item)
        if item.what == "device":
            return bool(set(_aliases(_FACTS[item.name])) & (self.names | self.asked))
        return item.name in self.env

    def _version(self, item: Change) -> bool:
        """Whether the failure is one of versions: by its rule, or since a flag it names came or went."""
        if self.rule is not None and any(_of_version(self.rule, "vllm")):
            return True
        return any(
            takes(f, str(item.before)) is True and takes(f, str(item.after)) is False for f in self.flags
        )

    def _argument(self, item: Change) -> bool:
        """Whether a fix would turn the argument back the way it came, or, where no fix can tell, it is spoken of."""
        name = argument_of(item)
        told = {self._back(item, value) for value in self.fixes.get(name, ())} - {None}
        if told:
            return True in told
        return name in self.names or self._said(item.after)

    def _back(self, item: Change, value: Any) -> bool | None:
        """Whether a fix's value lies behind the old one, seen from the new; None where that cannot be told."""
        if isinstance(value, str) and (found := re.fullmatch(r"\{([a-z0-9_]+)\}", value)):
            value = self.known.get(found[1])
            if value is None:
                return None
        if isinstance(value, str) and re.search(r"[<{…]", value):
            return None  # a person's choice
        if value is None:
            return item.after is not None
        if not (_is_number(item.before) and _is_number(item.after)):
            return bool(value != item.after)
        return bool((item.after - item.before) * (item.after - value) > 0) if _is_number(value) else None

    def _said(self, value: Any) -> bool:
        """Whether the message itself holds a value, such as a path."""
        return isinstance(value, str) and len(value) >= LEAST_SAID and value in self.text

    def _memory(self, item: Change) -> bool:
        fact = _FACTS[item.name]
        worse = item.after < item.before if fact in _FELL else item.after > item.before
        return worse and bool(set(_aliases(fact)) & (self.names | self.asked))


def _aliases(name: str) -> set[str]:
    """All names of one fact."""
    name = TOLD_AS.get(name, name)
    same = {name, *(told for told, fact in TOLD_AS.items() if fact == name)}
    for first, others in ALIASES.items():
        if name == first or name in others:
            same |= {first, *others}
    return same


def _of_version(rule: Rule, package: str) -> Iterator[bool]:
    """Whether a rule tells that the version of a package matters: by an issue upstream, or by what it installs."""
    yield any(item.package_name == package for item in rule.upstream)
    named = re.compile(rf"(?<![\w-]){re.escape(package)}(?![\w-])", re.I)
    for fix in rule.fixes:
        yield any(named.search(found) for line in fix.run for found in _PIP.findall(line))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def way_back(told: Changes, context: Mapping[str, Any]) -> Fix | None:
    """The fix that takes back what explains the failure; None where that is not known, or another model was served."""
    explaining = [item for item in told.items if item.explains]
    if any(item.what == "model" for item in told.items):
        return None
    arguments = [item for item in explaining if item.what == "argument"]
    if not arguments:
        version = next((item for item in explaining if item.what == "version"), None)
        return None if version is None else _older(str(version.before), context)
    set_: dict[str, Any] = {}
    unset: list[str] = []
    for item in arguments:
        name = argument_of(item)
        if (
            not (_can_be_typed(item) and _can_be(name, item.before))
            or takes(name, str(context.get("vllm") or "")) is False
        ):
            return None
        if item.before is None:
            unset.append(name)
        else:
            set_[name] = item.before
    wording = [f"Go back to {' '.join(form.words(set_))}"] if set_ else []
    if unset:
        dropped = " and ".join(item.name for item in arguments if item.before is None)
        wording.append(f"without {dropped}" if set_ else f"Start without {dropped} again")
    run, change = to_type(set_, unset, {}, {}, context, Known({}, context))
    return Fix(do=", ".join(wording), run=run, safety=Safety.TRADEOFF, note=NOTE, change=change, set=set_)


def _can_be_typed(item: Change) -> bool:
    """Not so a secret, what does not print, and one key of a JSON argument, of which the rest may differ too."""
    told = f"{item.before}"
    plain = re.fullmatch(r"--[a-z][a-z0-9-]*", item.name) is not None
    return plain and UNTOLD not in told and item.after != UNTOLD and told.isprintable()


def _can_be(name: str, value: Any) -> bool:
    """Not so a number that no server starts with, as a damaged line may hold it."""
    if not _is_number(value):
        return True
    if name == "gpu_memory_utilization":
        return bool(0 < value <= 1)
    return (
        value >= 1 or not (name.startswith("max_") or name.endswith("_size")) or value == -1
    )  # -1: automatic


def place_of(told: Changes) -> int:
    """Where the way back stands among the fixes: first, behind the rule's own where something new was asked for."""
    return int(any(item.explains and item.what == "argument" and item.before is None for item in told.items))


def argument_of(item: Change) -> str:
    """The Python name of the argument that a change is about."""
    return item.name.lstrip("-").split(".")[0].replace("-", "_")


def _older(version: str, context: Mapping[str, Any]) -> Fix:
    return Fix(
        do=f"Go back to vLLM {version}",
        run=_install(version, context),
        safety=Safety.TRADEOFF,
        note=NOTE,
    )


def _install(version: str, context: Mapping[str, Any]) -> list[str]:
    if not re.fullmatch(r"\d[\w.]*", version):
        return []
    if form.deploy_of(context) in ("docker", "compose", "kubernetes"):
        return [f"# the image: vllm/vllm-openai:v{version}"]
    return [f"pip install vllm=={version}"]
