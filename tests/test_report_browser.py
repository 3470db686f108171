"""The page in a real browser: what it asks of the network, what axe says, links, search, keyboard, no script.

Needs Debian's `chromium` or another build of it on the path; without one these tests are skipped.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from htmltext import everything, long_log, page_of
from logtext import lines, sample
from vdiag.render import html

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if BROWSER is None:
    pytest.skip("no chromium on the path", allow_module_level=True)
api = pytest.importorskip("playwright.sync_api")
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

KV = sample("kv-cache-too-small")
UNKNOWN = lines(
    "INFO 08-28 10:12:01 [api_server.py:1839] vLLM API server version 0.11.0",
    "(EngineCore_DP0 pid=41) ERROR 08-28 10:12:45 [core.py:708] Traceback (most recent call last):",
    '(EngineCore_DP0 pid=41) ERROR 08-28 10:12:45 [core.py:708]   File "/srv/plugin/gear.py", line 12, in turn',
    "(EngineCore_DP0 pid=41) ERROR 08-28 10:12:45 [core.py:708]     raise GearError(wheel)",
    "(EngineCore_DP0 pid=41) ERROR 08-28 10:12:45 [core.py:708] gear.GearError: the third wheel does not turn",
)
ATTACK = "</script><script>document.title='hit'</script><img src='http://192.0.2.1/x' onerror=\"document.title='hit'\">"
# What is looked at: a name and the page.
PAGES: dict[str, Callable[[], str]] = {
    "diagnosed": lambda: page_of(long_log(400) + KV.text),
    "unrecognised": lambda: page_of(UNKNOWN),
    "incomplete": lambda: page_of(sample("only-the-trailer").text),
    "starting": lambda: page_of(sample("starting-cuda-graphs").text),
    "healthy": lambda: page_of(sample("healthy-busy").text),
    "empty": lambda: page_of(""),
    "several": lambda: page_of(KV.text, sample("host-oom-kill").text),
    "full": lambda: html.render(
        *everything("a figure of speech " * 6, name="a-very-long-name/" * 9 + "a.log")
    ),
    "hostile": lambda: html.render(*everything(ATTACK)),
    "letters": lambda: page_of(lines("İİİİ and İ", "Straße \\ (( $& % 😀", *KV.lines[:3])),
    "wide": lambda: page_of(KV.text.replace("ValueError: ", "ValueError: " + "x" * 60_000)),
}
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as play:
        running = play.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    for name, page in PAGES.items():
        (made / f"{name}.html").write_text(page(), encoding="utf8")
    return made


@pytest.fixture
def show(browser: Any, folder: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page from disk; what it asks of the network, and errors of its script, fail the test."""
    opened: list[Any] = []
    faults: list[str] = []

    def of(
        name: str,
        *,
        scheme: Literal["light", "dark"] = "light",
        width: int = 1280,
        script: bool = True,
        at: str = "",
    ) -> Any:
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 800}, java_script_enabled=script
        )
        opened.append(context)
        page = context.new_page()
        address = (folder / f"{name}.html").as_uri()
        page.on("request", lambda asked: None if asked.url.startswith(address) else faults.append(asked.url))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: faults.append(said.text))
        page.goto(address + at)
        return page

    yield of
    for context in opened:
        context.close()
    assert not faults


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    name: str, scheme: Literal["light", "dark"], width: int, show: Callable[..., Any]
) -> None:
    page = show(name, scheme=scheme, width=width)
    for fold in page.locator("details").all()[:40]:
        fold.evaluate("fold => (fold.open = true)")
    wide, seen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= seen
    found = axe.Axe().run(page).response["violations"]
    assert not found, "\n".join(f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:300]}" for v in found)


@pytest.mark.parametrize("width", [320, 1280, 1920])
def test_the_answer_stands_in_the_middle_and_the_log_has_the_width(
    width: int, show: Callable[..., Any]
) -> None:
    page = show("diagnosed", width=width)
    for part in ("main > header", "main > nav", "#d1", "footer"):
        box = page.locator(part).bounding_box()
        assert abs(box["x"] - (width - box["x"] - box["width"])) < 2, part
    assert page.locator("#log").bounding_box()["width"] >= min(width, 1400) - 60


def test_what_a_log_holds_does_nothing(show: Callable[..., Any]) -> None:
    page = show("hostile")
    assert "hit" not in (page.title().replace(ATTACK, ""))
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1


@pytest.mark.parametrize("script", [True, False])
def test_the_answer_leads_to_the_marked_line_and_back(script: bool, show: Callable[..., Any]) -> None:
    page = show("diagnosed", script=script)
    line = 400 + (KV.line or 0)
    row = page.locator(f"#L1-{line}")
    page.locator("#d1 figcaption a").first.click()
    api.expect(row).to_be_in_viewport()
    assert "the cause" in row.inner_text()
    assert "To serve at least one request" in row.inner_text()
    row.locator("a.tag").click()
    api.expect(page.locator("#d1-title")).to_be_in_viewport()


def test_a_line_of_a_fold_is_reached_by_its_address(show: Callable[..., Any]) -> None:
    row = show("diagnosed", at="#L1-200").locator("#L1-200")
    api.expect(row).to_be_in_viewport()


def test_search_counts_and_goes_round(show: Callable[..., Any]) -> None:
    page = show("diagnosed")
    text = long_log(400) + KV.text
    box, count = page.get_by_label("Search the log"), page.locator("#count")
    total = sum("enginecore_dp0" in row.lower() for row in text.split("\n"))
    box.fill("ENGINECORE_dp0")
    api.expect(count).to_have_text(f"{total} lines")
    box.press("Enter")
    first = next(n for n, row in enumerate(text.split("\n"), start=1) if "EngineCore_DP0" in row)
    api.expect(count).to_have_text(f"1 of {total} lines (line {first})")
    api.expect(page.locator(".now")).to_be_in_viewport()
    box.press("Shift+Enter")
    api.expect(count).to_have_text(re.compile(f"^{total} of {total} lines"))
    page.get_by_role("button", name="Next line").click()
    api.expect(count).to_have_text(re.compile(f"^1 of {total} lines"))
    box.press("Escape")
    api.expect(count).to_have_text("")
    assert page.locator(".hit").count() == 0


def test_search_finds_what_is_folded_and_nothing_where_nothing_is(show: Callable[..., Any]) -> None:
    page = show("diagnosed")
    box = page.get_by_label("Search the log")
    api.expect(page.locator("#L1-200")).to_be_hidden()
    box.fill(":200")
    box.press("Enter")
    api.expect(page.locator("#L1-200")).to_be_in_viewport()
    box.fill("no such words are here")
    api.expect(page.locator("#count")).to_have_text("0 lines")
    box.fill("longest text <&\">'")
    api.expect(page.locator("#count")).to_have_text("0 lines")


@pytest.mark.parametrize("query", ["İ", "i̇", "ß", "\\", "((", "$&", "%", "😀"])
def test_any_text_can_be_searched_for(query: str, show: Callable[..., Any]) -> None:
    page = show("letters")
    page.get_by_label("Search the log").fill(query)
    api.expect(page.locator("#count")).to_have_text("1 line")


def test_only_lines_that_match_are_left_when_asked_for(show: Callable[..., Any]) -> None:
    page = show("diagnosed")
    page.get_by_label("Search the log").fill("max seq len")
    page.get_by_label("matches only").check()
    total = sum("max seq len" in row for row in KV.lines)
    api.expect(page.locator("#lines li:visible")).to_have_count(total)


@pytest.mark.parametrize("script", [True, False])
def test_a_process_is_hidden_and_the_cause_stays(script: bool, show: Callable[..., Any]) -> None:
    page = show("several", script=script)
    engine = page.get_by_label(re.compile("EngineCore_DP0 pid=48377"))
    row = page.locator("#L1-46")
    api.expect(row).to_be_visible()
    engine.uncheck()
    api.expect(row).to_be_hidden()
    api.expect(page.locator(f"#L1-{KV.line}")).to_be_visible()


def test_without_a_script_all_is_there_but_the_search(show: Callable[..., Any]) -> None:
    page = show("diagnosed", script=False)
    api.expect(page.get_by_role("search")).to_be_hidden()
    assert page.locator("button:visible").count() == 0
    fold = page.locator("#log details").first
    fold.locator("summary").first.click()
    api.expect(fold.locator("li").first).to_be_visible()
    assert page.locator("pre.run").first.inner_text()


def test_the_keyboard_alone_goes_everywhere(show: Callable[..., Any]) -> None:
    page = show("diagnosed")
    page.keyboard.press("Tab")
    api.expect(page.get_by_text("Skip to the answer")).to_be_focused()
    api.expect(page.get_by_text("Skip to the answer")).to_be_in_viewport()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    api.expect(page.locator("#log-title")).to_be_in_viewport()
    page.keyboard.press("Tab")
    api.expect(page.get_by_label("Search the log")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.type("max seq len")
    page.keyboard.press("Enter")
    api.expect(page.locator(".now")).to_be_in_viewport()
    summary = page.locator("#log summary").first
    summary.focus()
    page.keyboard.press("Enter")
    api.expect(page.locator("#log details").first).to_have_attribute("open", "")
    box = page.locator("fieldset input").first
    box.focus()
    page.keyboard.press("Space")
    api.expect(box).not_to_be_checked()


def test_letters_pressed_outside_the_search_do_nothing(show: Callable[..., Any]) -> None:
    """Keys that belong to the browser or a screen reader are left to them."""
    page = show("diagnosed")
    before = page.evaluate("[scrollY, document.activeElement.localName, location.hash]")
    for key in "/nNjkhgf?":
        page.keyboard.press(key)
    assert page.evaluate("[scrollY, document.activeElement.localName, location.hash]") == before


def test_commands_are_copied_as_they_stand(show: Callable[..., Any]) -> None:
    page = show("diagnosed")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    block = page.locator("#d1 .command").first
    block.get_by_role("button").click()
    api.expect(block.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == block.locator("code").text_content()


def test_line_numbers_and_marks_are_not_copied_with_the_log(show: Callable[..., Any]) -> None:
    page = show("diagnosed")
    row = page.locator(f"#L1-{400 + (KV.line or 0)}")
    copied = row.evaluate(
        "row => { getSelection().selectAllChildren(row); return getSelection().toString(); }"
    )
    assert copied.strip() == KV.lines[(KV.line or 0) - 1]


def test_a_printed_page_has_no_controls(show: Callable[..., Any]) -> None:
    page = show("diagnosed", scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    api.expect(page.get_by_role("search")).to_be_hidden()
    api.expect(page.locator("nav")).to_be_hidden()
    assert page.locator("button:visible").count() == 0
