"""A whole page around its main part: head, style, content security policy, foot. Nothing is loaded from outside."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from pathlib import Path

from vdiag.render.web.markup import Html, text

WEB = Path(__file__).parent


def document(title: str, main: Html, foot: str, *, script: bool) -> str:
    """The page. With `script` it holds the log, and the script that searches it."""
    style = (WEB / "page.css").read_text(encoding="utf-8")
    code = (WEB / "page.js").read_text(encoding="utf-8") if script else ""
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src {_quoted(code)}; "
        "base-uri 'none'; form-action 'none'"
    )
    skip = '\n<a class="skip" href="#log">Skip to the log</a>' if script else ""
    run = f"\n<script>{code}</script>" if script else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{text(title)}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the answer</a>{skip}
{main}
<footer>{text(foot)}</footer>{run}
</body>
</html>
"""


def redacted(counts: dict[str, int] | None) -> str:
    """What was replaced by pseudonyms, by kind of value."""
    if counts is None:
        return "Not redacted: the lines of the log are quoted as they are."
    told = [f"{number} {kind}" for kind, number in counts.items() if number]
    return f"Replaced by pseudonyms: {', '.join(told) or 'nothing'}."


def _quoted(code: str) -> str:
    return f"'{_hash(code)}'" if code else "'none'"


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"
