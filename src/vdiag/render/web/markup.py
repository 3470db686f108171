"""Markup that is safe by construction: text is escaped on its way into an element, only `Html` passes as it is."""

from __future__ import annotations

import re
from html import escape

from vdiag.render.page import harmless

_LINK = re.compile(r"https?://[!-~]+")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def text(given: str) -> Html:
    """A stranger's text: escaped, with every character visible or written out as `\\x1b`."""
    return Html(escape(harmless(given)))


def element(tag: str, /, *children: str, **attributes: object) -> Html:
    """`<tag attribute="…">children</tag>`; `class_` is `class`, `_` is `-`, None and False leave one out."""
    said = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{text(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{tag}{said}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Html:
    """Children in a row, each escaped unless it is markup."""
    return Html("".join(child if isinstance(child, Html) else text(child) for child in children))


def listed(items: list[Html], **attributes: object) -> Html:
    """A list of items; nothing for none."""
    return element("ul", *(element("li", item) for item in items), **attributes) if items else Html()


def section(name: str, title: str, *children: str, level: int = 2, class_: str | None = None) -> Html:
    """A part of the page under a heading, reached by `#name`."""
    heading = element(f"h{level}", title, id=f"{name}-title")
    return element("section", heading, *children, id=name, aria_labelledby=f"{name}-title", class_=class_)


def folded(summary: str, *children: str, class_: str | None = None) -> Html:
    """A part that is closed at first."""
    return element("details", element("summary", summary), *children, class_=class_)


def linked(url: str) -> Html:
    """An address to open, if it is one of the web; else its text."""
    if _LINK.fullmatch(url) is None:
        return text(url)
    return element("a", url, href=url, rel="noopener noreferrer")


def table(head: list[str], rows: list[list[str]], caption: str = "") -> Html:
    """A table whose first column names its rows; it scrolls in itself where it is too wide."""
    columns = element("tr", *(element("th", cell, scope="col") for cell in head))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", c) for c in row[1:]))
        for row in rows
    ]
    told = element("caption", caption) if caption else ""
    whole = element("table", told, element("thead", columns), element("tbody", *body))
    return element("div", whole, class_="wide", tabindex="0", role="region", aria_label=caption or head[0])
