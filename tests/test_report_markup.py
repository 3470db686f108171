"""Any text as GitHub's Markdown that renders as text: a real parser finds nothing in it but words and code."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from vdiag.render.markup import LIMIT, code, fenced, fitting, folding, link, prose, size
from vdiag.render.page import harmless

PARSER = MarkdownIt("gfm-like")
assert PARSER.linkify is not None
PARSER.linkify.set({"fuzzy_link": False})  # GitHub links no bare names such as `nvidia.com`
# What GitHub makes more of in the words of a page, outside of code: mentions, references, addresses, emoji.
LIVE = re.compile(r"@\w|#\d|://|\bwww\.|\bGH-\d|:(?!\d\d:)[\w+-]+:|\$|\b[0-9a-f]{40}\b")

HOSTILE = [
    "@octocat see acme/engine#12 and #7, GH-9",
    "</details></summary><script>alert(1)</script><!-- a comment",
    "``` fence ```` and ~~~",
    "*bold* _under_score_ **x** ~~gone~~ [a](http://b) ![i](http://j)",
    "| a | b |\n|---|---|",
    "# heading", "- item", "1. item", "> quote", "===", "---", "+", "    indented",
    "&lt;b&gt; &#64;user &amp;",
    "https://example.org/x?y=1 www.example.org mail@example.org",
    "$x$ :tada: \\@user \\`x\\`",
    "`paired` and ` single", "`a`b", "(`x`", "`", "``", "` `", "``a`` `b",
    "\x1b[31mred\x1b[0m \u202e\u200b \x00 \ud800",
    "[^1]: note", "[x]: http://y", "da39a3ee5e6b4b0d3255bfef95601890afd80709",
]  # fmt: skip

texts = st.one_of(
    st.text(max_size=80),
    st.lists(st.sampled_from([*HOSTILE, *"`<>@#*_[]()|\\~&$:!\"'-+= \n"]), max_size=8).map("".join),
    st.lists(st.sampled_from(HOSTILE), max_size=4).map(" ".join),
)


def inline(text: str) -> list[Token]:
    """The inline tokens of one paragraph; anything else than one is a failure."""
    tokens = PARSER.parse(text)
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"], text
    return tokens[1].children or []


@given(texts)
@example("\n".join(HOSTILE))
def test_prose_is_words_and_code(text: str) -> None:
    told = prose(text)
    if not told:
        assert not text.split()
        return
    tokens = inline(told)
    assert {token.type for token in tokens} <= {"text", "code_inline"}
    words = "".join(token.content for token in tokens if token.type == "text")
    assert not LIVE.search(words)


@pytest.mark.parametrize("text", HOSTILE)
def test_prose_says_what_was_said(text: str) -> None:
    """Nothing is lost but backticks, which may have become marks of code, and white space."""
    shown = "".join(token.content for token in inline(prose(text)))
    assert re.sub(r"[`\s]", "", shown) == re.sub(r"[`\s]", "", harmless(text))


@given(texts)
def test_a_code_span_holds_its_text_and_nothing_else(text: str) -> None:
    told = code(text)
    if not told:
        return
    (only,) = inline(f"{told} and")[:1]
    assert only.type == "code_inline"
    assert only.content.split() == harmless(text).split()


@given(st.lists(texts, min_size=1, max_size=6))
def test_a_block_shows_its_rows(rows: list[str]) -> None:
    tokens = PARSER.parse(f"before\n\n{fenced(rows, 20_000)}\n\nafter")
    assert [token.type for token in tokens[3:-3]] == ["fence"]
    assert tokens[3].content.split("\n")[:-1] == [harmless(row).replace("\n", "\\n") for row in rows]


@given(st.lists(texts, min_size=1, max_size=30), st.integers(200, 2_000), st.data())
def test_a_block_keeps_to_its_room_and_its_row(rows: list[str], most: int, data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, len(rows) - 1))
    rows[keep] = "the cause"
    told = fenced(rows, most, keep=keep)
    assert size(told) <= most
    assert "the cause" in told.split("\n")


def test_what_a_block_leaves_out_is_counted() -> None:
    told = fenced([f"row {i}" for i in range(1_000)], 400, keep=500).split("\n")
    assert told[1].startswith("… ")
    left = [int(row.replace(",", "").split()[1]) for row in (told[1], told[-2])]
    assert sum(left) + len(told) - 4 == 1_000
    assert "row 500" in told


@given(st.text(alphabet="a😀\n語", max_size=50))
def test_size_is_never_less_than_any_way_of_counting(text: str) -> None:
    assert size(text) >= max(len(text), len(text.encode("utf-16-le")) // 2, len(text.replace("\n", "\r\n")))


@given(st.lists(st.text(min_size=1, max_size=300), max_size=20), st.integers(100, 1_000))
def test_blocks_keep_to_their_room_and_say_what_is_left_out(blocks: list[str], most: int) -> None:
    told = fitting(blocks, most)
    assert size(told) <= most
    if sum(size(block) + 4 for block in blocks) > most:
        assert re.search(r"\*\d+ more left out", told)


def test_a_summary_is_text() -> None:
    told = folding("</summary><b>@x</b> & more", ["inside"], LIMIT)
    blocks = [token.content for token in PARSER.parse(told) if token.type == "html_block"]
    assert blocks[0] == "<details>\n<summary>&lt;/summary&gt;&lt;b&gt;@x&lt;/b&gt; &amp; more</summary>\n"


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "https://x/)[y](z", "https://x/<b>", "x y", "https://x/ y"]
)
def test_an_odd_address_is_no_link(address: str) -> None:
    for told in (link(address), link(address, "words")):
        assert [token.type for token in inline(told)] == ["code_inline"]


def test_an_address_is_a_link() -> None:
    address = "https://example.org/issues?q=is%3Aissue+a_b"
    assert [token.attrGet("href") for token in inline(link(address, "x")) if token.type == "link_open"] == [
        address
    ]
