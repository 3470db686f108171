"""What the projects themselves know of a failure: which version fixed it, and whether the log's version is older.

A rule's `upstream` names the report and the version; the log tells which version runs. An upgrade is offered behind
two fixes of the rule's own, since it changes more than the failure, unless one of them is that upgrade already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vdiag.advise.form import deploy_of
from vdiag.advise.versions import holds, parse
from vdiag.model import Fix, Fixed, Safety
from vdiag.rulebook.schema import Rule

DIRECT = 2  # fixes of the rule's own that stand before an upgrade
_UPGRADE = re.compile(r"\bpip3? install\b[^\n]*?(?:\s-U\b|\s--upgrade\b|[>=]=)")
_NAMES = {"vllm": "vLLM"}  # packages that people write in another way


def link(issue: str) -> str:
    """`owner/repo#12` as an address; GitHub leads from an issue to a pull request of that number."""
    repository, _, number = issue.partition("#")
    return f"https://github.com/{repository}/issues/{number}"


def known_fixes(rule: Rule, context: Mapping[str, Any], message: str = "") -> list[Fixed]:
    """The fixes upstream of a rule, held against the versions that the log names (`context`, by package).

    `message` is what the rule matched in; entries that speak of another one are left out.
    """
    said_here = " ".join(message.split())
    found = []
    for item in rule.upstream:
        if not item.fixed_in or item.says not in said_here:
            continue
        package = item.package_name
        said = context.get(package.replace("-", "_"))
        version = str(said) if said and parse(str(said)) else None
        has = holds(version, item.fixed_in)
        told = _sentence(_NAMES.get(package, package), item.fixed_in, item.issue, version, has)
        found.append(Fixed(item.issue, link(item.issue), package, item.fixed_in, version, has, told))
    return found


def _sentence(name: str, fixed_in: str, issue: str, version: str | None, has: bool | None) -> str:
    if has:
        return (
            f"Reported as fixed in {name} {fixed_in} ({issue}), and this log is of {version}: "
            "if the failure is the same, report it there."
        )
    if has is None and version:
        return (
            f"Fixed in {name} {fixed_in} ({issue}); this log is of {version}, a build from before that release, "
            "which may lack the fix."
        )
    if has is None:
        return f"Fixed in {name} {fixed_in} ({issue}), if this is an older one: the log does not say."
    return f"Fixed in {name} {fixed_in} ({issue}); this log is of {version}."


def with_upgrade(fixes: Sequence[Fix], known: Sequence[Fixed], context: Mapping[str, Any]) -> list[Fix]:
    """The fixes, with an upgrade where the version is not known to hold what was fixed."""
    offered = list(fixes)
    missing = [item for item in known if not item.has_fix]
    for package in dict.fromkeys(item.package for item in missing):
        if any(_upgrades(fix, package) for fix in offered):
            continue
        item = max(
            (item for item in missing if item.package == package), key=lambda item: parse(item.fixed_in) or ()
        )
        offered.insert(min(DIRECT, len(offered)), _upgrade(item, context))
    return offered


def _upgrades(fix: Fix, package: str) -> bool:
    named = re.compile(rf"(?<![\w/-]){re.escape(package)}(?![\w/-])")
    return any(_UPGRADE.search(line) and named.search(line) for line in fix.run)


def _upgrade(item: Fixed, context: Mapping[str, Any]) -> Fix:
    name = _NAMES.get(item.package, item.package)
    if_older = "" if item.has_fix is False else ", if yours is older"
    return Fix(
        do=f"Upgrade {name} to {item.fixed_in} or newer, which has the fix{if_older}",
        run=_commands(item, deploy_of(context)),
        safety=Safety.TRADEOFF,
        note=f"{item.said} Another version changes more than this: try it beside the present one first.",
    )


def _commands(item: Fixed, deploy: str) -> list[str]:
    if item.package == "vllm" and deploy in ("docker", "compose", "kubernetes"):
        image = f"vllm/vllm-openai:v{item.fixed_in}"
        if deploy == "docker":
            return [f"docker pull {image}", "# then start the container from this image"]
        place = "service of your compose file" if deploy == "compose" else "container of your manifest"
        return [f"# in the {place}:", f"image: {image}"]
    return [f"pip install -U '{item.package}>={item.fixed_in}'"]
