"""A diagnosis on the page: the line that says so, the fixes, why, how sure."""

from __future__ import annotations

from vdiag.model import Diagnosis, Evidence, Explained, Fix
from vdiag.render.sections import (
    BRIEF,
    PHASES,
    SAFETY,
    confidence_words,
    counted,
    main_evidence,
    sentence,
    typed,
)
from vdiag.render.web.markup import Html, element, folded, joined, linked, listed, section
from vdiag.render.web.places import Places

NOTHING = Html()


def first(diagnosis: Diagnosis, places: Places, title: str, changed: Html) -> Html:
    """The answer in full; `changed` tells what explains it of what differs from a start that worked."""
    return section("d1", title, *_answer(diagnosis, places, changed), *_background(diagnosis, places))


def noticed(diagnosis: Diagnosis, places: Places, title: str) -> Html:
    """A failure whose cause is not in the log: what there is, and how to get the rest; nothing to be sure of."""
    said = element("p", sentence(diagnosis.title))
    main = _quote(main_evidence(diagnosis), places)
    return section("d1", title, said, main, *_start(diagnosis), *_background(diagnosis, places))


def other(number: int, diagnosis: Diagnosis, places: Places) -> Html:
    """One beside it: its line and first fix, the rest folded."""
    rest = _background(diagnosis, places)
    return section(
        f"d{number}",
        f"Also wrong ({number}): {sentence(diagnosis.title)}",
        *_answer(diagnosis, places),
        folded("Why, when, and what else to do", *rest) if rest else "",
    )


def commands(lines: list[str]) -> Html:
    """Lines to type, as one block to copy."""
    if len(lines) == 1 and lines[0].startswith(("https://", "http://")):
        return element("p", linked(lines[0]), class_="address")
    return element("pre", element("code", "\n".join(lines)), class_="run", tabindex="0") if lines else Html()


def _answer(diagnosis: Diagnosis, places: Places, changed: Html = NOTHING) -> list[Html]:
    sure = element("p", confidence_words(diagnosis.confidence), class_="sure")
    return [_quote(main_evidence(diagnosis), places), sure, changed, *_start(diagnosis)]


def _start(diagnosis: Diagnosis) -> list[Html]:
    return (
        [element("h3", "What to do first"), _fix(diagnosis.fixes[0], whole=True)] if diagnosis.fixes else []
    )


def _background(diagnosis: Diagnosis, places: Places) -> list[Html]:
    told: list[Html] = []
    if diagnosis.upstream:
        told.append(element("h3", "Known upstream"))
        told += [element("p", item.said, " ", linked(item.url)) for item in diagnosis.upstream]
    if diagnosis.why:
        told += [element("h3", "Why"), element("p", diagnosis.why)]
    main = main_evidence(diagnosis)
    more = [item for item in diagnosis.evidence if (item.source, item.line) != (main.source, main.line)]
    if more:
        told += [element("h3", "More evidence"), *(_quote(item, places) for item in more)]
    told += _when(diagnosis, places)
    if diagnosis.fixes[1:]:
        told.append(element("h3", "If that does not suit"))
        told.append(_fixes(diagnosis.fixes[1:BRIEF], 2))
        if rest := diagnosis.fixes[BRIEF:]:
            told.append(folded(counted(len(rest), "more fix", "more fixes"), _fixes(rest, BRIEF + 1)))
    if diagnosis.avoid:
        told += [element("h3", "Avoid"), listed([joined(sentence(item)) for item in diagnosis.avoid])]
    shown = {line for fix in diagnosis.fixes for line in fix.run}
    links = [link for link in (*diagnosis.refs, diagnosis.search) if link and link not in shown]
    if links or diagnosis.rule:
        told += [element("h3", "To read"), listed([linked(link) for link in links], class_="address")]
        if diagnosis.rule:
            told.append(commands([f"vdiag explain {diagnosis.rule}"]))
    return told


def _quote(item: Evidence, places: Places) -> Html:
    """A line of the log, with where it stands."""
    where = [places.link(item.source, item.line)]
    if item.lane:
        where.append(joined(" in ", element("span", item.lane, class_="lane")))
    said = element("blockquote", item.text) if item.text else Html()
    return element("figure", element("figcaption", *where), said)


def _fix(fix: Fix, *, whole: bool = False) -> Html:
    safety = element("span", SAFETY[fix.safety], class_=f"safety {fix.safety.value}")
    note = element("p", f"Note: {sentence(fix.note)}", class_="note") if fix.note else ""
    return element(
        "div",
        element("p", sentence(fix.do), " ", safety),
        commands(typed(fix, whole=whole)),
        note,
        class_="fix",
    )


def _fixes(fixes: list[Fix], first: int) -> Html:
    return element("ol", *(element("li", _fix(fix)) for fix in fixes), start=first)


def _when(diagnosis: Diagnosis, places: Places) -> list[Html]:
    """When it happened, how often, and what came of it."""
    source, told = diagnosis.source, []
    if diagnosis.phase and diagnosis.phase in PHASES:
        told.append(joined(f"It happened while the server was {PHASES[diagnosis.phase]}."))
    if diagnosis.frame and diagnosis.frame not in diagnosis.why:
        told.append(joined("It was raised at ", element("code", diagnosis.frame), "."))
    if diagnosis.times > 1:
        last = places.link(diagnosis.last_source or source, diagnosis.last_line)
        span = (f", {diagnosis.first_time} to {diagnosis.last_time}") if diagnosis.first_time else ""
        told.append(joined(f"It happened {diagnosis.times} times, the last on ", last, f"{span}."))
    if diagnosis.recovered_at:
        later = places.link(diagnosis.recovered_in or source, diagnosis.recovered_at)
        told.append(joined("A later start succeeded (", later, ")."))
    same = [item for item in diagnosis.explains if item.rule and item.rule == diagnosis.rule]
    for items, said in (
        (same, "Repeated on "),
        ([item for item in diagnosis.explains if item not in same], "Explained by it: "),
    ):
        if items:
            told.append(joined(said, *_lines(items, source, places), "."))
    if diagnosis.fingerprint:
        told.append(
            joined("The same failure has the same fingerprint: ", element("code", diagnosis.fingerprint), ".")
        )
    return [element("h3", "When, and what came of it"), listed(told)] if told else []


def _lines(items: list[Explained], source: str, places: Places) -> list[Html]:
    """`lines 31, 48 and kernel.log, line 7`, those of the diagnosis's own input first."""
    own = [places.link(source, item.line, brief=True) for item in items if not item.source]
    others = [places.link(item.source, item.line) for item in items if item.source]
    word = f"{'line' if len(own) == 1 else 'lines'} " if own else ""
    return [joined(word), *_in_words([*own, *others])]


def _in_words(items: list[Html]) -> list[Html]:
    """`a, b and c`."""
    marks = ["", *[", "] * (len(items) - 2), *([" and "] if len(items) > 1 else [])]
    return [joined(mark, item) for mark, item in zip(marks, items, strict=True)]
