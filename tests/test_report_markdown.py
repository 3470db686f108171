"""`vdiag report` in Markdown: what a maintainer looks for, in GitHub's limit, and nothing of a log but text.

The pages are read by a real parser of GitHub's Markdown; what is asserted is its tree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it.token import Token

from logtext import ALL, FAILED, Sample, by_name, sample
from test_cli_diagnose import World
from test_report_markup import HOSTILE, LIVE, PARSER
from vdiag.model import (
    AlsoSeen,
    Diagnosis,
    Environment,
    Evidence,
    Explained,
    Fix,
    Fixed,
    Gap,
    Harmless,
    Input,
    Line,
    Report,
    Severity,
    Verdict,
)
from vdiag.render import bugform, markdown
from vdiag.render.markup import LIMIT, size

OWN_HTML = re.compile(
    r"</?details>\n?|<details>\n<summary>(?:<code>)?[^<>]*(?:</code>)?[^<>]*</summary>\n?"
    r"|<summary>The output of <code>python collect_env.py</code></summary>\n?|</?sub>"
    r"|<details>\n<summary>The output of <code>python collect_env.py</code></summary>\n?"
)
HEADINGS = {
    "What to do first", "Evidence", "Environment, as far as the log shows it", "Command", "Also wrong",
    "Notes, and what is missing", "How this was made",
    "Your current environment", "🐛 Describe the bug", "Before submitting a new issue...",
}  # fmt: skip
FIGURES = ("What changed since", "The memory", "The load")
RENDERERS = [markdown, bugform]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VDIAG_RULES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")


def reported(*arguments: str, stdin: bytes = b"") -> str:
    world = World(stdin)
    assert world.run("report", *arguments) == 0, world.err.getvalue()
    return world.printed


def flat(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or []


def headings(text: str) -> list[str]:
    tokens = PARSER.parse(text)
    return [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]


def harmful(text: str) -> list[str]:
    """What of a page is more than text and not this program's own."""
    found = []
    depth = 0
    linked = False
    for token in flat(text):
        if token.type in ("link_open", "link_close"):
            linked = token.type == "link_open"
        if token.type in ("html_block", "html_inline"):
            depth += token.content.count("<details>") - token.content.count("</details>")
            if not OWN_HTML.fullmatch(token.content):
                found.append(token.content)
        elif token.type == "text" and not linked and LIVE.search(token.content):
            found.append(token.content)
        elif token.type in ("image", "table_open", "s_open", "em_open"):
            found.append(token.type)
        elif linked and (
            token.markup == "linkify" or not str(token.attrGet("href") or "https:").startswith("https:")
        ):
            found.append(str(token.attrGet("href")))
    found += [h for h in headings(text)[1:] if h not in HEADINGS and not h.startswith(FIGURES)]
    return [*found, *(["details stay open"] if depth else [])]


# ---- what it says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", FAILED, ids=by_name)
def test_the_cause_comes_first_and_its_line_is_marked(log: Sample) -> None:
    text = reported(f"samples/{log.name}.log")
    tokens = PARSER.parse(text)
    assert tokens[0].tag == "h2"
    assert f"samples/{log.name}.log:{log.line}" in tokens[4].content
    assert tokens[6].type == "fence"
    marked = [
        row
        for token in tokens
        if token.type == "fence"
        for row in token.content.split("\n")
        if row[:1] == ">"
    ]
    assert any(re.match(rf"> +{log.line} \| ", row) for row in marked)


@pytest.mark.parametrize("log", ALL, ids=by_name)
@pytest.mark.parametrize("form", [(), ("--for", "vllm")], ids=["plain", "vllm"])
def test_a_sample_renders_as_text_within_the_limit(log: Sample, form: tuple[str, ...]) -> None:
    text = reported(f"samples/{log.name}.log", *form)
    assert harmful(text) == []
    assert size(text) < LIMIT
    assert headings(text)


def test_the_order_is_that_of_a_maintainer() -> None:
    found = headings(reported("samples/kv-cache-too-small.log"))
    assert found[0] == "Diagnosed: The KV cache cannot hold one request of the full context"
    assert found[1:] == [
        "What to do first", "Evidence", "Environment, as far as the log shows it", "Command",
        "The memory budget", "How this was made",
    ]  # fmt: skip


def test_what_changed_is_told_with_where_it_last_worked() -> None:
    text = reported("samples/worked-with-a-shorter-context.log")
    place = headings(text).index("What changed since it last worked (line 1)")
    assert headings(text)[place - 2 : place] == ["Command", "The memory budget"]
    assert "8192 -> 131072" in text.split("What changed since")[1]


def folded(text: str, summary: str) -> list[int]:
    """The numbers of the lines that stand below a summary; none without it."""
    after = text.partition(f"<summary>{summary}")[2]
    shown = next((token.content for token in flat(after) if token.type == "fence"), "") if after else ""
    return [int(n) for n in re.findall(r"^[> ] +(\d+) \|", shown, re.MULTILINE)]


@pytest.mark.parametrize("name", ["kv-cache-too-small", "healthy-busy", "starting-cuda-graphs"])
def test_a_short_log_is_there_as_a_whole(name: str) -> None:
    text = reported(f"samples/{name}.log")
    assert folded(text, "The whole log") == list(range(1, len(sample(name).lines) + 1))
    assert text.count("<summary>The ") == 1


def test_of_a_long_log_the_start_of_the_run_is_there_and_its_end() -> None:
    """Version, arguments and configuration stand far above a failure under load, which is what a maintainer asks for."""
    rows = sample("cuda-oom-many-requests").lines
    busy = [row for row in rows if '" 200 OK' in row]
    log = [*sample("healthy-busy").lines, *rows[:20], *busy * 100, *rows[39:], *busy * 10]
    text = reported("-", stdin="\n".join(log).encode())
    first = len(sample("healthy-busy").lines) + 1
    assert folded(text, "The start of this run") == list(range(first, first + 40))
    cause = next(number for number, row in enumerate(log, 1) if "torch.OutOfMemoryError" in row)
    assert cause in folded(text, "The log around the cause")
    assert folded(text, "The log at its end")[-1] == len(log)
    assert harmful(text) == []


def test_a_log_without_a_failure_shows_its_start_and_its_end() -> None:
    rows = sample("healthy-busy").lines
    log = [*rows, *[row for row in rows if '" 200 OK' in row] * 20]
    text = reported("-", stdin="\n".join(log).encode())
    start, end = folded(text, "The start of this run"), folded(text, "The log at its end")
    assert start[0] == 1
    assert end[-1] == len(log)
    assert not {*start} & {*end}


def test_of_an_input_that_no_server_wrote_no_line_is_quoted() -> None:
    assert "shopping" not in reported("-", stdin=b"my shopping: apples\nand pears\n")


def evidence_rows(text: str) -> list[int]:
    after = re.split(r"^### Evidence$", text, flags=re.MULTILINE)[1].split("<details>")[0]
    return [int(n) for n in re.findall(r"^[> ] +(\d+) \|", after, re.MULTILINE)]


@pytest.mark.parametrize("log", ALL, ids=by_name)
def test_no_line_stands_twice_among_the_evidence(log: Sample) -> None:
    text = reported(f"samples/{log.name}.log")
    if "Evidence" in headings(text):
        rows = evidence_rows(text)
        assert len(rows) == len(set(rows))


def test_evidence_that_stands_close_is_one_excerpt_that_names_both() -> None:
    text = reported("samples/cuda-oom-many-requests.log")
    [said] = [row for row in text.splitlines() if row.endswith(":") and ".log:53`" in row]
    assert ".log:52`" in said
    assert {52, 53} <= set(evidence_rows(text))


@pytest.mark.parametrize("name", ["healthy-busy", "starting-cuda-graphs"])
def test_without_a_failure_the_verdict_is_told(name: str) -> None:
    text = reported(f"samples/{name}.log")
    assert headings(text)[0].split(":")[0].lower() == sample(name).verdict
    assert "What to do first" not in headings(text)


@pytest.mark.parametrize("form", [(), ("--for", "vllm")], ids=["plain", "vllm"])
def test_nothing_is_told_twice_of_a_start_that_goes_on(form: tuple[str, ...]) -> None:
    text = " ".join(reported("samples/starting-cuda-graphs.log", *form).split())
    for once in (
        "How long this phase usually takes",
        "Redacted, by kind of value",
        "log ends while the server",
    ):
        assert text.count(once) == 1


def test_a_command_that_several_gaps_need_stands_once() -> None:
    told = full("x", 1)
    told.inputs[0].gaps = [
        Gap(what=f"part {number} is missing", command="journalctl -k") for number in range(3)
    ]
    text = markdown.missing(told, 3)
    assert text.count("journalctl -k") == 1
    assert text.count("is missing.") == 3


def test_an_address_among_the_fixes_is_a_link_and_no_command() -> None:
    text = reported("samples/kv-cache-too-small.log", "--rules", "none")
    links = [token.attrGet("href") for token in flat(text) if token.type == "link_open"]
    assert any(str(address).startswith("https://github.com/vllm-project/vllm/issues?q=") for address in links)
    assert not any("https://github.com" in token.content for token in flat(text) if token.type == "fence")


def test_a_report_tells_what_is_missing_and_the_command_that_gets_it() -> None:
    text = reported("samples/only-the-trailer.log")
    assert "Notes, and what is missing" in headings(text)
    assert "journalctl -u <unit> -b" in text.split("what is missing")[1]


# ---- hostile logs ------------------------------------------------------------------------------------------


def hostile_log(evil: str) -> bytes:
    """A start that fails in a way no rule knows, with the same text wherever a log may bring one."""
    said = evil.replace("\n", " ")
    rows = [
        f"(APIServer pid=7) INFO 08-28 10:12:01 [api_server.py:1839] vLLM API server version 0.11.0 {said}",
        f"(APIServer pid=7) INFO 08-28 10:12:01 [utils.py:233] non-default args: {{'model': {said!r}}}",
        f"(EngineCore_DP0 pid=9) INFO 08-28 10:12:09 [core.py:77] {said}",
        "(EngineCore_DP0 pid=9) ERROR 08-28 10:12:45 [core.py:708] EngineCore failed to start.",
        "(EngineCore_DP0 pid=9) ERROR 08-28 10:12:45 [core.py:708] Traceback (most recent call last):",
        f'(EngineCore_DP0 pid=9) ERROR 08-28 10:12:45 [core.py:708]   File "/srv/{said}/x.py", line 5, in run',
        f"(EngineCore_DP0 pid=9) ERROR 08-28 10:12:45 [core.py:708]     {said}",
        f"(EngineCore_DP0 pid=9) ERROR 08-28 10:12:45 [core.py:708] RuntimeError: {said} the wheels came off {said}",
        said,
        "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}",
    ]
    return ("\n".join(rows) + "\n").encode("utf8", "surrogatepass")


@pytest.mark.parametrize("evil", HOSTILE)
@pytest.mark.parametrize("form", [(), ("--for", "vllm")], ids=["plain", "vllm"])
def test_lines_of_a_hostile_log_render_as_text(evil: str, form: tuple[str, ...]) -> None:
    text = reported(*form, stdin=hostile_log(evil))
    assert harmful(text) == []
    shown = [token.content for token in flat(text) if token.type == "fence"]
    said = evil.replace("\n", " ") if evil.isprintable() or "\n" in evil else ""  # a scan takes escapes off
    assert any(f"the wheels came off {said}"[:60].rstrip() in block for block in shown)


def test_a_hostile_file_name_renders_as_text(tmp_path: Path) -> None:
    path = tmp_path / "@octocat #7 `<summary>` *x*.log"
    path.write_bytes(hostile_log("plain"))
    assert harmful(reported(str(path))) == []


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("evil", HOSTILE)
def test_whatever_a_report_holds_renders_as_text(evil: str, renderer: object) -> None:
    told = full(evil, 1)
    assert harmful(renderer.render(told, {evil: [Line(3, evil), Line(4, evil), Line(9, evil)]})) == []  # type: ignore[attr-defined]


def full(text: str, many: int) -> Report:
    """A report whose every field holds the text, and whose every list is `many` long."""
    fix = Fix(do=text, run=[text] * many, note=text)
    diagnosis = Diagnosis(
        "some-rule", text, 0.95, Severity.FATAL, text, 3, text, times=2, first_time=text, last_time=text, last_line=9,
        recovered_at=9, recovered_in=text, facts={"x": text},
        evidence=[Evidence(text, line, text, text) for line in range(3, 3 + many)],
        explains=[Explained("other-rule", line, text) for line in range(3, 9)],
        fixes=[fix] * many, avoid=[text] * many, refs=[text] * many, fingerprint=text, frame=text, search=text,
        upstream=[Fixed(text, text, text, text, text, None, text)] * many,
    )  # fmt: skip
    return Report(
        "vdiag.report/1", "0", Verdict.DIAGNOSED,
        [Input(text, 10, 10, text, [Gap(text, 3, text)] * many)] * many,
        Environment(text, text, text, {"arg": text}, text, text, text, text, text, {"torch": text}),
        [diagnosis] * many,
        also_seen=[AlsoSeen("some-rule", 3, text, text, text)] * many,
        notes=[text] * many,
        harmless=[Harmless("some-rule", text, text, 3, text, text)] * many,
        redacted={"host": 2},
    )  # fmt: skip


# ---- the limit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("text", ["a word ", "x", "語", "😀 ", "`", "@a ", "\n"])
@pytest.mark.parametrize(("long", "many"), [(1, 40), (40, 20), (2_000, 10)])
def test_no_report_is_longer_than_an_issue(renderer: object, text: str, long: int, many: int) -> None:
    told = full(text * long, many)
    lines = {told.inputs[0].name: [Line(number, text * long) for number in range(1, 400)]}
    assert size(renderer.render(told, lines)) <= LIMIT  # type: ignore[attr-defined]


def test_what_does_not_fit_is_told() -> None:
    told = full("a word " * 200, 20)
    text = markdown.render(told, {told.inputs[0].name: [Line(n, "row " * 90) for n in range(1, 400)]})
    assert len(re.findall(r"\d+ more left out", text)) > 3
    assert re.search(r"^… [\d,]+ lines left out …$", text, re.MULTILINE)


def test_the_report_of_a_long_log_is_short(tmp_path: Path) -> None:
    """Twice what is read whole: the lines around the cause come from the middle."""
    busy = sample("healthy-busy").text
    failed = sample("kv-cache-too-small").text
    half = busy * (9_000_000 // len(busy) + 1)
    path = tmp_path / "long.log"
    path.write_text(failed + half + failed + half, encoding="utf8")
    text = reported(str(path))
    assert harmful(text) == []
    assert size(text) < LIMIT
    line = len((failed + half).split("\n")) - 1 + 47
    assert re.search(rf"^> +(?:{line}|47) \| .*KV cache is needed", text, re.MULTILINE)
