"""The page on a fleet for a browser: one file without a script, that loads nothing."""

from __future__ import annotations

from vdiag.fleet_model import Cause, Fleet, Row
from vdiag.render import fleet_words as words
from vdiag.render.sections import sentence
from vdiag.render.web.diagnosis import commands
from vdiag.render.web.document import document, redacted
from vdiag.render.web.markup import Html, element, folded, joined, listed, section, table

HEAD = ["Replicas", "Cause", "Also in", "Times", "First", "Last", "Nodes"]


def render(fleet: Fleet) -> str:
    """The whole page."""
    title = words.headline(fleet)
    parts = [
        ("news", "What is new", _news(fleet)),
        ("causes", "Causes", _table("causes", "Causes", fleet.causes)),
        ("unknown", "Unknown causes", _table("unknown", "Unknown causes, by fingerprint", fleet.unknown)),
        ("nodes", "Nodes that stand out", _outliers(fleet)),
        ("unread", "Could not be read", _rows("unread", "Could not be read", fleet.unread)),
        ("part", "Read in part", _rows("part", "Read only in part", fleet.cut_short)),
        ("notes", "Notes", _notes(fleet)),
    ]
    said = [part for part in parts if part[2]]
    verdict = "diagnosed" if fleet.failed else "healthy"
    head = element(
        "header",
        element("h1", title),
        element(
            "p", words.read(fleet), " ", sentence("; ".join(words.verdicts(fleet))), " ", words.others(fleet)
        ),
        class_=verdict,
    )
    links = [element("a", name, href=f"#{anchor}") for anchor, name, _ in said]
    contents = element("nav", listed(links), aria_label="On this page")
    main = element("main", head, contents, *(body for _, _, body in said), id="main", tabindex="-1")
    foot = f"{redacted(fleet.redacted)} Written by vdiag {fleet.vdiag}. Nothing on this page is loaded from elsewhere."
    return document(title, main, foot, script=False)


def _news(fleet: Fleet) -> Html:
    if fleet.news is None:
        return Html()
    return section(
        "news",
        "What is new",
        listed([joined(said) for said in words.news(fleet.news, len(fleet.news.causes))]),
    )


def _table(anchor: str, title: str, causes: list[Cause]) -> Html:
    if not causes:
        return Html()
    rows = [
        [
            str(cause.replicas), f"{sentence(cause.title)} ({words.name(cause)}{_kind(cause)})", str(cause.also),
            str(cause.times), words.clock(cause.first_time), words.clock(cause.last_time), words.nodes(cause, 5),
        ]
        for cause in causes
    ]  # fmt: skip
    return section(anchor, title, table(HEAD, rows, title), *map(_details, causes))


def _kind(cause: Cause) -> str:
    mild = f", {cause.severity}" if cause.severity not in ("", "fatal") else ""
    return mild + (", cause not in the log" if cause.verdict == "incomplete" else "")


def _details(cause: Cause) -> Html:
    told = [sentence(said) for said in (words.counts(cause), words.when(cause)) if said]
    body: list[Html] = [element("p", " ".join(told))]
    if cause.fix:
        body.append(element("p", f"To do first: {sentence(cause.fix)}"))
    if cause.example.line:
        where = f"{cause.example.input}:{cause.example.line}"
        body += [element("p", where), element("blockquote", cause.example.text)]
    if cause.first_input and cause.first_input != cause.last_input:
        body.append(element("p", f"First in {cause.first_input}, last in {cause.last_input}."))
    if cause.nodes:
        body.append(element("p", f"On {words.nodes(cause, len(cause.nodes))}."))
    if cause.draft:
        body.append(commands([cause.draft]))
    return folded(f"{cause.replicas} × {words.name(cause)}", *body)


def _outliers(fleet: Fleet) -> Html:
    if not fleet.outliers:
        return Html()
    items = [joined(f"{item.node}, {item.what}: {item.said}.") for item in fleet.outliers]
    return section("nodes", "Nodes that stand out", listed(items))


def _rows(anchor: str, title: str, rows: list[Row]) -> Html:
    return (
        section(anchor, title, listed([joined(f"{row.input}: {row.error}") for row in rows]))
        if rows
        else Html()
    )


def _notes(fleet: Fleet) -> Html:
    return (
        section("notes", "Notes", listed([joined(sentence(note)) for note in fleet.notes]))
        if fleet.notes
        else Html()
    )
