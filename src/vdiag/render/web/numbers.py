"""Figures on the page: the memory of a card, the load over time, what changed between two starts."""

from __future__ import annotations

from vdiag.model import Changes, Load, LoadPoint, Memory
from vdiag.render import budget
from vdiag.render.changes import row
from vdiag.render.changes import text as as_typed
from vdiag.render.sections import counted, sentence, value_words
from vdiag.render.web.markup import Html, element, folded, joined, listed, section, table
from vdiag.render.web.places import Places

FIGURES = {
    "running": "requests running",
    "waiting": "requests waiting",
    "kv_usage": "KV cache used, %",
    "prompt_tps": "prompt tokens per second",
    "generation_tps": "generated tokens per second",
    "preemptions": "preemptions so far",
}
WIDTH, HEIGHT = 600, 48  # of a curve, in its own units
COLOURS = 7  # of the style sheet's lanes
ROWS = 240  # points of a table of the load


def memory(told: Memory, places: Places) -> Html:
    """Where the memory of a card goes: a bar, a table, the levers."""
    whole = told.total_gib or told.budget_gib or sum(share.gib for share in told.shares)
    rows: list[list[str]] = []
    for number, share in enumerate(told.shares):
        what = joined(element("span", class_=f"swatch l{number % COLOURS + 1}"), budget.name(share))
        origin = places.link(told.source, share.line) if share.line else joined("computed")
        part = f"{100 * share.gib / whole:.0f} %" if whole else ""
        rows.append([what, f"{share.gib:.2f}", part, origin])
    parts = [*(element("p", text) for text in budget.where(told)), _bar(told, whole)]
    if rows:
        of = "of the host" if told.host else "of the card" if told.total_gib else "of the budget"
        parts.append(table(["what", "GiB", of, "where it stands"], rows, "Where the memory goes"))
    parts.append(listed([joined(said) for said in budget.fits(told)]))
    parts.append(listed([joined(sentence(note)) for note in told.notes]))
    if told.levers:
        levers = [
            [budget.does(lever), budget.gives(lever), sentence(lever.price) if lever.price else ""]
            for lever in told.levers
        ]
        parts.append(table(["setting", "what it gives", "what it costs"], levers, "What would change it"))
    return section("memory", budget.title(told), *parts)


def _bar(told: Memory, whole: float) -> Html:
    """The shares side by side; the table below says the same in words."""
    total = max(whole, sum(max(share.gib, 0) for share in told.shares))
    if not total:
        return Html()
    drawn, at = [], 0.0
    for number, share in enumerate(told.shares):
        width = WIDTH * max(share.gib, 0) / total
        title = element("title", f"{share.what}: {share.gib:.2f} GiB")
        drawn.append(
            element(
                "rect",
                title,
                x=f"{at:.1f}",
                width=f"{width:.1f}",
                height=24,
                class_=f"l{number % COLOURS + 1}",
            )
        )
        at += width
    frame = element("rect", x=0, width=WIDTH, height=24, class_="frame")
    return _drawing("bar", 24, "Shares of the memory, as in the table below", *drawn, frame)


def load(told: Load, places: Places) -> Html:
    """What the server said of its load: a curve for each figure, the points as a table."""
    parts: list[Html] = []
    if told.said:
        parts.append(element("p", sentence(told.said)))
    if told.remedy:
        parts.append(element("p", sentence(told.remedy)))
    if told.engines > 1:
        parts.append(element("p", f"Figures of {told.engines} engines together; KV cache of the fullest."))
    if told.preempted:
        parts.append(element("p", f"Requests preempted: {told.preempted}."))
    given = [name for name in FIGURES if any(getattr(p, name) is not None for p in told.points)]
    parts += [_curve(told, name) for name in given]
    shown = told.points[-ROWS:]
    rows: list[list[str]] = [
        [
            places.link(point.source or told.source, point.line),
            point.time,
            *(_figure(point, name) for name in given),
        ]
        for point in shown
    ]
    head = ["line", "time", *(FIGURES[name] for name in given)]
    seen = max(told.seen, len(told.points))
    last = f" (of {seen:,} that were read)" if seen > len(shown) else ""
    if rows:
        title = f"{counted(len(shown), 'point')} as a table{last}"
        parts.append(folded(title, table(head, rows, "The load over time")))
    return section("load", "The load", *parts)


def _figure(point: LoadPoint, name: str) -> str:
    value = getattr(point, name)
    return "" if value is None else value_words(value)


def _curve(told: Load, name: str) -> Html:
    values = [(n, float(v)) for n, p in enumerate(told.points) if (v := getattr(p, name)) is not None]
    low, high = min(v for _, v in values), max(v for _, v in values)
    if low == high:
        return element("p", f"{FIGURES[name]}: {value_words(low)} throughout")
    top = 100.0 if name == "kv_usage" else high
    step = WIDTH / max(len(told.points) - 1, 1)
    points = " ".join(f"{n * step:.1f},{2 + (HEIGHT - 4) * (1 - v / top):.1f}" for n, v in values)
    said = f"{FIGURES[name]}: {value_words(low)} to {value_words(high)}, at last {value_words(values[-1][1])}"
    line = element("polyline", points=points, vector_effect="non-scaling-stroke")
    drawing = _drawing("curve", HEIGHT, said, line)
    return element("figure", element("figcaption", said), drawing, class_="figure")


def _drawing(kind: str, height: int, said: str, *shapes: Html) -> Html:
    return element(
        "svg", *shapes, viewBox=f"0 0 {WIDTH} {height}", preserveAspectRatio="none",
        role="img", aria_label=said, class_=kind,
    )  # fmt: skip


def explaining(told: Changes) -> Html:
    """What the failure is about of what changed."""
    items = [element("code", row(item, 0, everything=True)) for item in told.items if item.explains]
    if not items:
        return Html()
    lead = joined("What ", element("a", "changed since it last worked", href="#changes"), ":")
    return joined(element("p", lead), listed(items))


def changes(told: Changes, places: Places) -> Html:
    """What differs between a start that worked and the one that did not."""
    good, bad = places.link(told.good, told.good_line), places.link(told.bad, told.bad_line)
    rows: list[list[str]] = [
        [
            item.name,
            item.what,
            _value_of(item.before, item.unit),
            _value_of(item.after, item.unit),
            "yes" if item.explains else "",
        ]
        for item in told.items
    ]
    return section(
        "changes",
        "What changed since it last worked",
        element("p", sentence(told.said)) if told.said else "",
        element("p", "The start that worked: ", good, "; the one that did not: ", bad, "."),
        table(["name", "kind", "before", "after", "explains the failure"], rows, "What differs")
        if rows
        else "",
    )


def _value_of(value: object, unit: str) -> str:
    if value is None:
        return "not there"
    return " ".join(filter(None, [as_typed(value), unit]))
