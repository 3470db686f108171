"""The page for a browser as a text: valid, complete, nothing in it from outside, whatever the log holds."""

from __future__ import annotations

import io
import itertools
import re
import shutil
import subprocess
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from htmltext import classes, everything, long_log, numbered, page_of, rows, tree, words
from logtext import ALL, FAILED, Sample, by_name, sample
from vdiag import excerpts
from vdiag.intake.sources import sources
from vdiag.model import Gap, Line, Memory
from vdiag.pipeline import diagnose
from vdiag.render import html
from vdiag.rulebook.shipped import shipped

KV = sample("kv-cache-too-small")
HOSTILE = {
    "script": "</script><script>alert(1)</script>",
    "image": "<img src=x onerror=alert(1)>",
    "style": "</style><style>*{display:none}</style>",
    "comment": "<!-- --> <!--",
    "attribute": "\" onmouseover=\"alert(1)' x='",
    "entity": "&lt;b&gt; &amp; &#x3c;i&#x3e; &nbsp",
    "cdata": "<![CDATA[ ]]> <?php ?>",
    "details": "</li></ol></details></div></main>",
    "control": "a\x00b\x01\x07\x1b[31mred\x1b[0m\x7f\x85\x9b",
    "bidi": "\u202eevil\u202c \u2066x\u2069 \u061c\u200f",
    "none": "\ufeff\ufffe\uffff\ufdd0\U0001ffff\ud800",
    "brackets": "javascript:alert(1) data:text/html,x",
}


def pages(page: str) -> str:
    """Its text without head and script, to look for what must be shown."""
    return words(tree(page))


# ---- valid -----------------------------------------------------------------------------------------------


def held(page: str) -> None:
    """What holds for every page."""
    root = tree(page)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for link in root.iter("a"):
        target = link.get("href", "")
        assert target.startswith(("#", "https://", "http://")), target
        assert not target.startswith("#") or target[1:] in ids, target
        assert words(link).strip()
    for element in root.iter():
        for name in ("aria-labelledby", "for", "aria-describedby"):
            assert not element.get(name) or element.get(name) in ids
    levels = [int(element.tag[1]) for element in root.iter() if element.tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels))
    _nothing_from_outside(page)


def _nothing_from_outside(page: str) -> None:
    root = tree(page)
    for element in root.iter():
        assert element.tag not in (
            "link",
            "img",
            "iframe",
            "object",
            "embed",
            "base",
            "video",
            "audio",
            "source",
        )
        assert not {"src", "srcset", "style", "background", "data", "action"} & set(element.attrib), (
            element.tag
        )
        assert not [name for name in element.attrib if name.startswith("on")], element.tag
    style, script = (words(next(root.iter(name))) for name in ("style", "script"))
    assert len(list(root.iter("style"))) == len(list(root.iter("script"))) == 1
    assert "@import" not in style
    assert "url(" not in style
    policy = next(e.get("content", "") for e in root.iter("meta") if e.get("http-equiv"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for content in (style, script):
        assert f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'" in policy


@pytest.mark.parametrize("log", ALL, ids=by_name)
def test_the_page_of_a_sample_is_valid(log: Sample) -> None:
    held(page_of(log.text))


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_text_holds_the_page_is_valid_and_shows_it(text: str) -> None:
    page = html.render(*everything(text, name=f"{text}.log"))
    held(page)
    assert page.isprintable() or not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e]", page
    )
    if text.isascii() and text.isprintable():
        assert pages(page).count(text) > 20


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_log_of_hostile_lines_is_valid(text: str) -> None:
    held(page_of(KV.text.replace("ValueError: ", f"ValueError: {text} ").replace("acme/", f"acme{text}/")))


@pytest.mark.skipif(shutil.which("vnu") is None, reason="the Nu Html Checker (`vnu`) is not installed")
def test_the_nu_html_checker_finds_no_error(tmp_path: Path) -> None:
    made = {
        **{log.name: page_of(log.text) for log in ALL},
        **{name: html.render(*everything(text)) for name, text in HOSTILE.items()},
        "long": page_of(long_log(21_000)),
        "several": page_of(KV.text, sample("host-oom-kill").text),
        "empty": page_of(""),
    }
    for name, page in made.items():
        (tmp_path / f"{name}.html").write_text(page, encoding="utf8")
    told = subprocess.run(
        ["vnu", "--errors-only", "--also-check-svg", *map(str, sorted(tmp_path.glob("*.html")))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr


# ---- complete --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", FAILED, ids=by_name)
def test_the_diagnosis_comes_first_and_leads_to_the_marked_line(log: Sample) -> None:
    root = tree(page_of(log.text))
    row = numbered(root, f"L1-{log.line}")
    assert "cause" in classes(row)
    assert "the cause" in words(row)
    answer = numbered(root, "d1")
    assert f"#L1-{log.line}" in [link.get("href") for link in answer.iter("a")]
    parts = [element.get("id") for element in root.iter("section")]
    assert parts[0] == "d1"
    assert parts[-2:] == ["log", "i1"]


@pytest.mark.parametrize("log", ALL, ids=by_name)
def test_every_line_of_a_short_log_is_on_the_page_once_and_in_order(log: Sample) -> None:
    shown = [element.get("id") for element in rows(tree(page_of(log.text)))]
    assert shown == [f"L1-{n}" for n in range(1, len(log.lines) + 1)]


def test_every_part_of_a_report_is_shown() -> None:
    page = html.render(*everything("sixpence"))
    told = {element.get("id") for element in tree(page).iter("section")}
    assert told >= {
        "d1",
        "d2",
        "changes",
        "memory",
        "load",
        "server",
        "notes",
        "seen",
        "harmless",
        "read",
        "log",
    }
    root = tree(page)
    for part, figure in (("memory", "38,576"), ("load", "requests waiting"), ("changes", "not there")):
        assert figure in words(numbered(root, part))
    assert "vdiag explain kv-cache-too-small" in pages(page)


def test_what_changed_and_explains_the_failure_stands_above_the_fixes() -> None:
    answer = words(numbered(tree(page_of(sample("worked-with-a-shorter-context").text)), "d1"))
    assert answer.index("--max-model-len 8192 -> 131072") < answer.index("What to do first")


def test_a_figure_that_is_not_known_is_not_shown() -> None:
    report, lines = everything()
    report.memory = Memory("a.log")
    held(html.render(report, lines))


def test_figures_that_tell_nothing_make_no_section() -> None:
    report, shown = everything()
    report.memory = Memory(source="a.log", line=3, kv_gib=4.7)
    page = html.render(report, shown)
    held(page)
    assert 'id="memory"' not in page
    assert 'href="#memory"' not in page


def test_a_command_that_several_gaps_need_stands_once_in_the_notes() -> None:
    report, shown = everything()
    gaps = [Gap(what=f"part {number} is missing", command="journalctl -k -b") for number in range(3)]
    report.inputs = [msgspec.structs.replace(report.inputs[0], gaps=gaps), *report.inputs[1:]]
    said = words(numbered(tree(html.render(report, shown)), "notes"))
    assert said.count("journalctl -k -b") == 1
    assert said.count("is missing.") == 3


@pytest.mark.parametrize(
    ("redacted", "said"),
    [
        (None, "Not redacted"),
        ({}, "Replaced by pseudonyms: nothing."),
        ({"user": 2, "token": 1}, "Replaced by pseudonyms: 2 user, 1 token."),
    ],
)
def test_the_page_ends_with_what_was_replaced(redacted: dict[str, int] | None, said: str) -> None:
    report, lines = everything()
    report.redacted = redacted
    assert said in words(next(tree(html.render(report, lines)).iter("footer")))


def test_all_harmless_lines_are_dimmed_and_say_so() -> None:
    root = tree(html.render(*everything()))
    dimmed = [row for row in rows(root) if "harmless" in classes(row)]
    assert [row.get("id") for row in dimmed] == ["L1-10", "L1-11", "L1-12"]
    assert all("harmless" in words(row) for row in dimmed)


def test_a_line_that_is_the_cause_and_evidence_is_the_cause() -> None:
    marked = [row for row in rows(tree(html.render(*everything()))) if "cause" in classes(row)]
    assert [row.get("id") for row in marked] == ["L1-3"]


def test_each_process_has_a_letter_and_its_name_beside_it() -> None:
    root = tree(page_of(KV.text))
    choice = words(next(root.iter("fieldset")))
    letters = dict(re.findall(r"\b([A-N]) (.+?) \(\d+ lines?\)", choice))
    assert letters["B"] == "vllm EngineCore_DP0 pid=48377"
    assert "l2" in classes(numbered(root, f"L1-{KV.line}"))


def test_lines_of_more_processes_than_letters_are_told_as_others() -> None:
    report, lines = everything()
    lines["a.log"] = [Line(n, "x", f"worker pid={n}") for n in range(1, 41)]
    root = tree(html.render(report, lines))
    assert "+ other processes (26 lines)" in words(next(root.iter("fieldset")))


def test_an_entry_of_several_rows_is_one_line() -> None:
    report, lines = everything()
    lines["a.log"] = [Line(20, "one"), Line(20, "two"), Line(21, "three")]
    shown = list(rows(tree(html.render(report, lines))))
    assert [words(row).strip() for row in shown] == ["one\ntwo", "three"]


def test_of_several_inputs_each_line_leads_to_its_own() -> None:
    page = page_of(KV.text, sample("host-oom-kill").text)
    held(page)
    root = tree(page)
    assert {row.get("id", "").split("-")[0] for row in rows(root)} == {"L1", "L2"}
    assert "a.log, line 47" in pages(page)


def test_an_input_that_is_named_twice_is_shown_once(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text(KV.text, encoding="utf8")
    inputs, _ = sources([str(log), str(log)], io.BytesIO())
    report = diagnose(inputs, rulebook=shipped())
    page = html.render(report, excerpts.read(inputs, html.wanted(report)))
    held(page)
    assert len(list(rows(tree(page)))) == len(KV.lines)


def test_a_start_that_has_not_failed_is_told_how_to_go_on() -> None:
    page = page_of(sample("starting-cuda-graphs").text)
    assert "/health && echo ready" in words(numbered(tree(page), "d1"))
    assert "How long this phase usually takes" in pages(page)


def test_of_a_failure_without_its_cause_nothing_is_claimed() -> None:
    root = tree(page_of(sample("only-the-trailer").text))
    answer = words(numbered(root, "d1"))
    assert "confidence" not in answer
    assert "the cause" not in [words(link) for link in root.iter("a")]
    assert "journalctl" in answer


@pytest.mark.parametrize("text", ["", "\n", "\x00\x01\x02" * 50, "x"])
def test_a_page_without_a_log_is_still_a_page(text: str) -> None:
    held(page_of(text))


# ---- long ------------------------------------------------------------------------------------------------

LEFT_OUT = re.compile(r"Lines? [\d,]+(?: to [\d,]+)? \(([\d,]+) lines?\) (?:is|are) left out here")


@pytest.mark.parametrize("before", [0, 900, 12_000, 60_000])
@pytest.mark.parametrize("after", [0, 30_000])
def test_shown_and_left_out_lines_add_up_and_the_cause_is_shown(before: int, after: int) -> None:
    page = page_of((long_log(before) if before else "") + KV.text + (long_log(after) if after else ""))
    held(page)
    root = tree(page)
    shown = list(rows(root))
    left = sum(int(count.replace(",", "")) for count in LEFT_OUT.findall(words(numbered(root, "log"))))
    total = before + len(KV.lines) + after
    assert len(shown) + left == total
    assert len(shown) <= html.MOST_LINES
    assert (left > 0) == (total > html.MOST_LINES or len(page) > 2 * html.MOST_BYTES)
    assert "cause" in classes(numbered(root, f"L1-{before + (KV.line or 0)}"))


def test_what_is_far_from_all_that_is_named_is_folded_with_its_count() -> None:
    root = tree(page_of(long_log(3000) + KV.text))
    folds = numbered(root, "i1").findall("details")
    assert folds
    for fold in folds:
        told = re.search(r"\(([\d,]+) lines?\)", words(fold[0]))
        assert told
        assert len(list(fold.iter("li"))) == int(told[1].replace(",", ""))
        assert not [row for row in fold.iter("li") if "cause" in classes(row)]
    assert sum(len(list(fold.iter("li"))) for fold in folds) > 2500


def test_a_page_is_not_much_larger_than_the_log_it_shows() -> None:
    text = long_log(15_000)
    assert len(page_of(text)) < 2 * len(text)


def test_very_long_lines_are_folded_and_a_page_of_them_stays_small() -> None:
    one = page_of(KV.text + "x" * 65_000 + "\n")
    held(one)
    row = numbered(tree(one), f"L1-{len(KV.lines) + 1}")
    assert len(words(row)) > 65_000
    assert len(row.text or "") < 2000
    report, lines = everything()
    lines["a.log"] = [Line(n, "<y>" * 20_000) for n in range(1, 2001)]
    many = html.render(report, lines)
    assert "characters left out" in many
    assert len(many) < 16 * 1024 * 1024
