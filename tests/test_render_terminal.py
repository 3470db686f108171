"""The report for a person: the answer first, harmless, readable without colour."""

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdiag.model import (
    AlsoSeen,
    Diagnosis,
    Environment,
    EpisodeInfo,
    Evidence,
    Explained,
    Fix,
    Gap,
    Input,
    Phase,
    Report,
    Safety,
    Severity,
    Verdict,
)
from vdiag.render import terminal
from vdiag.render.page import cells, harmless, shorten, wrap

LONG_COMMAND = "docker run --gpus all " + "-e A_LONG_VARIABLE=with-a-long-value " * 5 + "image"


def diagnosis(**changes: Any) -> Diagnosis:
    fields: dict[str, Any] = {
        "rule": "kv-cache-too-small",
        "title": "The KV cache cannot hold one request",
        "confidence": 0.97,
        "severity": Severity.FATAL,
        "source": "vllm.log",
        "line": 141,
        "why": "The cache is too small.",
        "evidence": [
            Evidence("vllm.log", 141, "EngineCore pid=5400", "ValueError: To serve at least one request")
        ],
        "fixes": [
            Fix(do="Serve a shorter context", run=["vllm serve acme/m … --max-model-len 40544"]),
            Fix(
                do="Use an 8-bit cache",
                run=[LONG_COMMAND],
                safety=Safety.TRADEOFF,
                note="long answers can suffer",
            ),
        ],
        "avoid": ["raise the utilization to 0.98"],
        "refs": ["https://docs.vllm.ai/x"],
    }
    return Diagnosis(**{**fields, **changes})


def report(verdict: Verdict, *diagnoses: Diagnosis, **changes: Any) -> Report:
    fields: dict[str, Any] = {
        "schema": "vdiag.report/1",
        "vdiag": "0",
        "verdict": verdict,
        "inputs": [Input(name="vllm.log", lines=167, bytes=30211)],
        "environment": Environment(),
        "diagnoses": list(diagnoses),
    }
    return Report(**{**fields, **changes})


def shown(*arguments: Any, width: int = 80, everything: bool = False, **changes: Any) -> str:
    return terminal.render(report(*arguments, **changes), width=width, everything=everything).plain()


def test_the_answer_stands_first_and_whole_on_one_screen() -> None:
    text = shown(Verdict.DIAGNOSED, diagnosis())
    wanted = [
        "Diagnosed: The KV cache cannot hold one request.",
        "vllm.log:141 in EngineCore pid=5400",
        "ValueError: To serve at least one request",
        "Serve a shorter context (safe).",
        "--max-model-len 40544",
        "The cache is too small.",
        "Sure (confidence 0.97 of 1)",
        "2. Use an 8-bit cache (trade-off).",
        "raise the utilization",
    ]
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    assert text[: places[5]].count("\n") < 15


@pytest.mark.parametrize("width", [40, 80, 200])
def test_prose_wraps_and_commands_do_not(width: int) -> None:
    lines = shown(Verdict.DIAGNOSED, diagnosis(why="many words " * 60), width=width).splitlines()
    assert f"    {LONG_COMMAND}" in lines
    assert all(len(line) <= width for line in lines if not line.startswith("    "))


def test_doubt_and_mildness_are_said_in_the_first_line() -> None:
    assert shown(Verdict.DIAGNOSED, diagnosis(confidence=0.65)).startswith("Diagnosed (not certain): ")
    first = shown(Verdict.DIAGNOSED, diagnosis(confidence=0.8, severity=Severity.CLIENT)).splitlines()[0]
    assert first.startswith("Diagnosed (likely; the server is fine, a caller erred): ")


def test_control_sequences_of_the_log_never_reach_the_terminal() -> None:
    evil = "\x1b]0;title\x07 \x1b[2J \x9b31m \u202etxt.exe \r overwritten"
    item = diagnosis(
        title=evil,
        why=evil,
        evidence=[Evidence(evil, 141, evil, evil)],
        fixes=[Fix(do=evil, run=[evil], note=evil)],
        avoid=[evil],
        refs=[evil],
    )
    also = [AlsoSeen("x", 1, evil, evil, evil)]
    text = shown(Verdict.DIAGNOSED, item, item, also_seen=also, notes=[evil], everything=True)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "\\x1b]0;title\\x07" in text


def test_markup_of_the_log_is_not_interpreted_in_colour() -> None:
    stream = io.StringIO()
    page = terminal.render(report(Verdict.DIAGNOSED, diagnosis(title="[bold]x[/bold] :smile: [red]")))
    terminal.write(page, stream, color=True)
    text = stream.getvalue()
    assert "[bold]x[/bold] :smile: [red]" in text
    assert "\x1b[" in text
    assert LONG_COMMAND in text


def test_colour_changes_no_word() -> None:
    page = terminal.render(report(Verdict.DIAGNOSED, diagnosis()))
    stream = io.StringIO()
    terminal.write(page, stream, color=True)
    bare = re.sub("\x1b\\[[0-9;]*m", "", stream.getvalue())
    assert [line.rstrip() for line in bare.splitlines()] == page.plain().splitlines()


def test_a_very_long_line_is_shortened_around_what_matters() -> None:
    text = "filler " * 1000 + "needs 4242 tokens " + "filler " * 1000
    item = diagnosis(evidence=[Evidence("vllm.log", 141, "", text)], facts={"need": 4242})
    brief = shown(Verdict.DIAGNOSED, item)
    assert "4242" in brief
    assert len(brief) < 3000
    assert "… " in brief
    assert len(shown(Verdict.DIAGNOSED, item, everything=True)) > len(text)


def test_repeats_recovery_and_consequences_are_told() -> None:
    text = shown(
        Verdict.DIAGNOSED,
        diagnosis(
            times=12,
            last_line=2033,
            recovered_at=3000,
            phase=Phase.PROFILE,
            explains=[Explained("trailer", 167)],
        ),
    )
    for part in ("12 times", "line 2033", "line 3000", "phase: profile", "Its consequence: line 167."):
        assert part in " ".join(text.split())


def test_repeats_and_consequences_are_told_by_their_lines() -> None:
    from vdiag.model import Explained

    explains = [Explained("kv-cache-too-small", 170), *(Explained("x", n) for n in range(31, 41))]
    explains.append(Explained("y", 7, "kernel.log"))
    brief = " ".join(shown(Verdict.DIAGNOSED, diagnosis(explains=explains)).split())
    assert "Repeated on line 170." in brief
    assert "Its consequences: lines 31, 32, 33, 34, 35, 36, 37, 38 and 3 more." in brief
    full = " ".join(shown(Verdict.DIAGNOSED, diagnosis(explains=explains), everything=True).split())
    assert "38, 39, 40 and kernel.log:7." in full


def test_a_consequence_that_is_told_by_its_line_is_quoted_only_with_all() -> None:
    main = Evidence("vllm.log", 141, "EngineCore pid=5400", "ValueError: To serve at least one request")
    notice = Evidence("vllm.log", 160, "APIServer pid=71", "RuntimeError: Engine core initialization failed.")
    kernel = Evidence("kernel.log", 7, "kernel", "Out of memory: Killed process 5400")
    told = diagnosis(
        evidence=[main, notice, kernel], explains=[Explained(None, 160, ""), Explained(None, 7, "kernel.log")]
    )
    brief, whole = (shown(Verdict.DIAGNOSED, told, everything=everything) for everything in (False, True))
    assert "initialization failed" not in brief
    assert "lines 160 and kernel.log:7" in brief or "line 160 and kernel.log:7" in brief
    assert "Killed process 5400" in brief  # another input's words
    assert "initialization failed" in whole
    assert "Killed process 5400" in whole


def test_steps_that_an_earlier_fix_did_not_show_are_shown() -> None:
    """Only what stands above is left out: a patch is no `kubectl apply`."""
    steps = [
        "# in the container of your manifest:",
        "args:",
        '  - "--b"',
        "# then:",
        "kubectl apply -f <manifest.yaml>",
    ]
    patch = Fix(do="one", run=["kubectl patch …", "EOF"], change=[row.replace("--b", "--a") for row in steps])
    same = Fix(do="one", run=["args:", '  - "--a"', *steps[3:]], change=patch.change)
    other = Fix(do="two", run=["kubectl patch …", "EOF"], change=steps)
    assert "kubectl apply" in shown(Verdict.DIAGNOSED, diagnosis(fixes=[patch, other]))
    assert shown(Verdict.DIAGNOSED, diagnosis(fixes=[same, other])).count("kubectl apply") == 1


def test_many_fixes_do_not_push_the_proof_away() -> None:
    fixes = [Fix(do=f"Try number {n}", safety=Safety.MANUAL) for n in range(1, 8)]
    brief = shown(Verdict.DIAGNOSED, diagnosis(fixes=fixes))
    assert "4. Try number 4 (by hand).\n3 more fixes: --all\n" in brief
    assert "number 5" not in brief
    assert brief.index("Sure (") < brief.index("2. Try number 2")
    full = shown(Verdict.DIAGNOSED, diagnosis(fixes=fixes), everything=True)
    assert "7. Try number 7 (by hand)." in full
    assert "more fix" not in full
    assert "1 more fix: --all" in shown(Verdict.DIAGNOSED, diagnosis(fixes=fixes[:5]))


def test_the_ellipsis_of_a_command_is_told_once() -> None:
    fixes = [Fix(do=f"Do {n}", run=[f"vllm serve acme/m … --seed {n}"]) for n in range(3)]
    text = shown(Verdict.DIAGNOSED, diagnosis(fixes=fixes))
    told = "    # … stands for your other arguments\n"
    assert f"    vllm serve acme/m … --seed 0\n{told}" in text
    assert text.count(told) == 1
    plain = [Fix(do="Look", run=["nvidia-smi"])]
    assert "other arguments" not in shown(Verdict.DIAGNOSED, diagnosis(fixes=plain))


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("mark", [",", ";", ""])
def test_a_quoted_line_without_spaces_stays_on_the_page(width: int, mark: str) -> None:
    long = "oom-kill:" + "".join(f"part{n}=value-{n}{mark}" for n in range(8))
    text = shown(Verdict.DIAGNOSED, diagnosis(evidence=[Evidence("vllm.log", 141, "", long)]), width=width)
    assert all(cells(line) <= width for line in text.splitlines() if not line.startswith("    "))
    assert long in text.replace("\n  ", "")
    if mark:
        assert f"{mark}\n  part" in text
    link = "https://example.org/" + "a,b" * 30
    assert f"  {link}\n" in shown(
        Verdict.DIAGNOSED, diagnosis(evidence=[Evidence("vllm.log", 1, "", link)]), width=width
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"since": "2031-01-01"}, "nothing in vllm.log lies after 2031-01-01; its"),
        ({"until": "09-13 00:00"}, "nothing in vllm.log lies before 09-13 00:00; its"),
        ({"since": "-2h", "until": "-2h"}, "lies between 2h ago and 2h ago; its"),
    ],
)
def test_a_window_without_a_line_names_file_and_times(options: dict[str, str], said: str) -> None:
    from vdiag.cli.diagnose import window_of
    from vdiag.intake.sources import of_bytes
    from vdiag.pipeline import diagnose
    from vdiag.rulebook import Rulebook

    log = (
        b"INFO 09-14 07:41:52 [api_server.py:9] vLLM API server version 0.11.0\n"
        b"Sep 14 07:42:47 box systemd[1]: vllm.service: Failed with result 'exit-code'.\n"
    )
    window = window_of(options.get("since"), options.get("until"))
    found = diagnose([of_bytes(log, "vllm.log")], rulebook=Rulebook(), window=window)
    text = " ".join(terminal.render(found).plain().split())
    assert text.startswith("Empty: ")
    assert said in text
    assert text.endswith("its times run from 09-14 07:41:52 to 09-14 07:42:47.")


def test_further_diagnoses_are_brief() -> None:
    second = diagnosis(rule="port-in-use", title="Port 8000 is taken", why="Not shown in brief.")
    assert "Port 8000 is taken" in shown(Verdict.DIAGNOSED, diagnosis(), second)
    assert "Not shown in brief." not in shown(Verdict.DIAGNOSED, diagnosis(), second)
    assert "Not shown in brief." in shown(Verdict.DIAGNOSED, diagnosis(), second, everything=True)


def test_unrecognised_shows_the_deepest_error_and_promises_nothing() -> None:
    text = shown(
        Verdict.UNRECOGNISED,
        diagnosis(
            rule=None, fixes=[], frame="a.py:3 in f", fingerprint="abc123", search="https://github.com/s?q=x"
        ),
    )
    assert text.startswith("Unrecognised")
    for part in ("ValueError: To serve", "a.py:3 in f", "abc123", "https://github.com/s?q=x", "not why"):
        assert part in text


def test_incomplete_says_what_to_fetch() -> None:
    gap = Gap("the first lines are missing", command="journalctl -u vllm -b")
    text = shown(Verdict.INCOMPLETE, diagnosis(fixes=[]), inputs=[Input("vllm.log", gaps=[gap])])
    assert text.startswith("Incomplete")
    assert "    journalctl -u vllm -b\n" in text
    assert "journalctl -u <unit>" in shown(Verdict.INCOMPLETE, diagnosis(fixes=[]))


@pytest.mark.parametrize(
    "run",
    [
        ["journalctl -k -b > kernel.log && vdiag vllm.log kernel.log"],
        ["journalctl -k -b > kernel.log", "vdiag vllm.log kernel.log"],
    ],
)
def test_a_gap_whose_commands_a_fix_has_is_not_told_again(run: list[str]) -> None:
    inputs = [
        Input(
            "vllm.log",
            gaps=[
                Gap(
                    "the kernel log is missing",
                    command="journalctl -k -b > kernel.log; vdiag vllm.log kernel.log",
                ),
                Gap("the first lines are missing", command="journalctl -u vllm -b"),
            ],
        )
    ]
    text = shown(Verdict.INCOMPLETE, diagnosis(fixes=[Fix(do="Ask the kernel", run=run)]), inputs=inputs)
    assert text.count("kernel.log") == sum(row.count("kernel.log") for row in run)
    assert "the kernel log is missing" not in text.lower()
    assert "    journalctl -u vllm -b\n" in text


def test_what_was_no_run_of_a_server_is_not_called_one() -> None:
    kernel = EpisodeInfo("kernel.log", 1, 1, None, "unknown")
    failed = EpisodeInfo("vllm.log", 1, 90, Phase.LOAD, "failed")
    again = EpisodeInfo("vllm.log", 91, 167, Phase.LOAD, "failed")
    assert "a run in" not in shown(Verdict.DIAGNOSED, diagnosis(), episodes=[kernel, failed])
    text = shown(Verdict.DIAGNOSED, diagnosis(), episodes=[kernel, failed, again])
    assert text.count("a run in vllm.log") == 2
    assert "kernel.log" not in text
    kernel.outcome = "failed"
    text = shown(Verdict.DIAGNOSED, diagnosis(), episodes=[kernel, failed])
    assert "- kernel.log, lines 1 to 1: failed\n" in text


def test_starting_names_phase_duration_and_what_to_run() -> None:
    text = shown(
        Verdict.STARTING,
        episodes=[EpisodeInfo("vllm.log", 1, 167, Phase.LOAD, "starting")],
        notes=["this takes minutes"],
        environment=Environment(args={"port": 9000}),
    )
    for part in ("phase: load", "this takes minutes", "localhost:9000/health"):
        assert part in text
    assert text.count("this takes minutes") == 1


def test_healthy_and_empty_are_one_honest_sentence() -> None:
    assert "167 lines (29.5 KiB) of vllm.log read" in shown(Verdict.HEALTHY)
    assert shown(Verdict.EMPTY, inputs=[Input("vllm.log")]).startswith("Empty: there is nothing in vllm.log.")
    assert "nothing in it is from a vLLM server" in " ".join(shown(Verdict.EMPTY).split())


@given(st.text())
def test_harmless_text_has_no_control_characters(text: str) -> None:
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", harmless(text))


@given(st.text(), st.integers(10, 100))
def test_wrapping_loses_no_word(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert " ".join(lines).split() == text.split()
    assert all(cells(line) <= width or " " not in line for line in lines)


@given(st.text(), st.integers(30, 100))
def test_shortened_text_is_short(text: str, limit: int) -> None:
    assert len(shorten(text, limit)) <= limit + 4
