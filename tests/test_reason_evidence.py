"""The rules of evidence, on logs of a steam engine: each test is one sentence of them."""

from __future__ import annotations

import pytest

from logtext import (
    CAUSE,
    CONTEXT,
    LOADING,
    READY,
    SERVED,
    START,
    STOPPED,
    ask,
    ask_files,
    behind,
    first,
    lines,
    rule,
    said,
    steam,
    traceback,
)
from vdiag.model import Phase, Report, Severity
from vdiag.reason.unknown import search_for, search_words

DRY = "The boiler has no water in it"
CRACKED = "A crack runs through the boiler 7"
BOILER = "(Boiler pid=7) ERROR 03-01 10:00:30 [work.py:5] "
FRONT = "(APIServer pid=3) "
WORKER = "(Worker_TP0 pid=9) ERROR 03-01 10:00:30 [work.py:5] "


def judged(*rows: str, **rules: object) -> Report:
    return ask(lines(*rows), steam(**rules))  # type: ignore[arg-type]


def explained(report: Report) -> list[tuple[str | None, int]]:
    return [(e.rule, e.line) for e in report.diagnoses[0].explains]


def aside(report: Report) -> list[str | None]:
    return [seen.rule for seen in report.also_seen]


# ---- 1: trailers and symptoms ----------------------------------------------------------------------------


def test_a_trailer_never_outranks_a_cause() -> None:
    report = judged(START, said(DRY), STOPPED)
    assert first(report) == ("diagnosed", "dry", 2)
    assert explained(report) == [("stopped", 3)]
    assert len(report.diagnoses) == 1


def test_a_trailer_printed_before_the_cause_is_explained_too() -> None:
    report = judged(START, STOPPED, said(DRY))
    assert first(report) == ("diagnosed", "dry", 3)
    assert explained(report) == [("stopped", 2)]


def test_a_symptom_never_outranks_a_cause() -> None:
    report = judged(START, said("The wheels turn slowly today"), said(DRY), STOPPED)
    assert first(report) == ("diagnosed", "dry", 3)
    assert explained(report) == [("slow", 2), ("stopped", 4)]


def test_a_trailer_alone_is_incomplete() -> None:
    report = judged(START, STOPPED)
    assert first(report) == ("incomplete", "stopped", 2)
    assert report.diagnoses[0].confidence <= 0.3


def test_of_a_death_and_a_trailer_alone_the_death_is_told() -> None:
    report = judged(START, STOPPED, said("Stoker process S-1 died without a word"))
    assert first(report) == ("incomplete", "died", 3)


def test_a_trailer_over_a_traceback_gives_way_to_the_symptom_it_ends_in() -> None:
    """The logging call that prints the trailer prints the traceback too; the exception says more."""
    over = said("The engine has stopped. See above")
    rows = behind(BOILER, traceback("RuntimeError: The wheels turn slowly today", "look"))
    report = judged(START, over, *rows)
    assert first(report) == ("incomplete", "slow", 6)
    other_call = judged(START, STOPPED, *rows)
    assert first(other_call) == ("incomplete", "stopped", 2)


# ---- 2: chains -------------------------------------------------------------------------------------------


def chain(inner: str, outer: str, phrase: str = CAUSE) -> list[str]:
    return [
        *behind(BOILER, traceback(inner, "look")),
        "",
        phrase,
        "",
        *behind(BOILER, traceback(outer, "main")),
    ]


@pytest.mark.parametrize("phrase", [CAUSE, CONTEXT])
def test_in_a_chain_the_innermost_known_exception_is_the_root(phrase: str) -> None:
    rows = [*behind(BOILER, traceback(f"OSError: {DRY}", "look")), BOILER, BOILER + phrase, BOILER]
    report = judged(START, *rows, *behind(BOILER, traceback(f"RuntimeError: {CRACKED}", "main")), STOPPED)
    assert first(report) == ("diagnosed", "dry", 5)
    assert ("cracked", 12) in explained(report)


def test_a_later_exception_that_beats_the_inner_one_is_the_root() -> None:
    rows = [*behind(BOILER, traceback(f"OSError: {DRY}", "look")), BOILER, BOILER + CAUSE, BOILER]
    rows += behind(BOILER, traceback(f"RuntimeError: {CRACKED}", "main"))
    report = judged(START, *rows, STOPPED)
    beating = ask(
        lines(START, *rows, STOPPED),
        steam(rule("cracked", "A crack runs through the boiler {name:name}", beats=["dry"])),
    )
    assert first(report) == ("diagnosed", "dry", 5)
    assert first(beating) == ("diagnosed", "cracked", 12)
    assert ("dry", 5) in explained(beating)


def test_of_an_unknown_inner_and_a_known_outer_exception_the_known_one_is_told() -> None:
    rows = [*behind(BOILER, traceback("KeyError: 'coal'", "look")), BOILER, BOILER + CAUSE, BOILER]
    report = judged(START, *rows, *behind(BOILER, traceback(f"RuntimeError: {DRY}", "main")), STOPPED)
    assert first(report) == ("diagnosed", "dry", 12)


def test_of_unknown_exceptions_in_a_chain_the_innermost_is_the_root() -> None:
    rows = [*behind(BOILER, traceback("KeyError: 'coal'", "look")), BOILER, BOILER + CAUSE, BOILER]
    report = judged(START, *rows, *behind(BOILER, traceback("RuntimeError: outer", "main")), STOPPED)
    assert first(report) == ("unrecognised", None, 5)


# ---- 3: quotes -------------------------------------------------------------------------------------------


def test_a_quote_whose_original_is_here_is_a_consequence() -> None:
    report = judged(
        START, said(f"OSError: {DRY}"), said(f"RuntimeError: Stoker failed with error '{CRACKED}'"), STOPPED
    )
    assert first(report)[1:] == ("dry", 2)


def test_a_quote_of_a_known_fault_whose_original_is_missing_is_the_event() -> None:
    report = judged(START, said(f"Stoker failed with error '{DRY}'"), STOPPED)
    assert first(report) == ("diagnosed", "dry", 2)


def test_a_quote_of_an_unknown_fault_whose_original_is_missing_is_the_event() -> None:
    report = judged(START, said("Stoker failed with error 'the moon is full'"), STOPPED)
    assert first(report) == ("unrecognised", None, 2)


# ---- 4: lines without a prefix, warnings, `alone` ---------------------------------------------------------


def test_a_bare_line_before_a_failure_can_be_its_cause() -> None:
    assert first(judged(START, DRY, STOPPED)) == ("diagnosed", "dry", 2)


def test_a_warning_is_no_cause_unless_its_rule_says_so() -> None:
    assert first(judged(START, said(DRY, "WARNING"), STOPPED)) == ("incomplete", "stopped", 3)


def test_a_rule_that_needs_a_failure_counts_when_there_is_one() -> None:
    report = judged(START, said("A draught comes through the door", "WARNING"), STOPPED)
    assert first(report) == ("diagnosed", "draught", 2)
    assert report.diagnoses[0].confidence < 0.9


def test_a_rule_that_needs_a_failure_is_silent_without_one() -> None:
    report = judged(START, READY, said("A draught comes through the door", "WARNING"), SERVED)
    assert first(report) == ("healthy", None, None)


def test_a_warning_never_comes_before_an_error() -> None:
    report = judged(START, said("A draught comes through the door", "WARNING"), said(DRY), STOPPED)
    assert first(report) == ("diagnosed", "dry", 3)
    assert "draught" in aside(report)


def test_a_cause_may_stand_alone() -> None:
    report = judged(DRY)
    assert first(report) == ("diagnosed", "dry", 1)
    assert report.diagnoses[0].confidence < judged(START, said(DRY), STOPPED).diagnoses[0].confidence


# ---- 5: deaths and the kernel ------------------------------------------------------------------------------

KILL = "Mar 01 10:00:31 shed kernel: Out of memory: Killed process {} ({})"
DIED = said("Stoker process S-1 died without a word", who="APIServer pid=3")


def test_a_death_is_explained_by_the_kernel_that_names_its_pid() -> None:
    report = judged(START, DIED, KILL.format(7, "anything"))
    assert first(report) == ("diagnosed", "killed", 3)
    assert explained(report) == [("died", 2)]
    assert report.diagnoses[0].confidence >= 0.9


def test_the_kernels_word_wins_also_when_it_is_printed_first() -> None:
    assert first(judged(KILL.format(7, "anything"), START, DIED)) == ("diagnosed", "killed", 1)


@pytest.mark.parametrize("comm", ["VLLM::EngineCor", "VLLM::Worker_TP", "ray::RayWorkerW"])
def test_a_name_cut_to_fifteen_characters_is_still_the_servers(comm: str) -> None:
    assert first(judged(START, DIED, KILL.format(99, comm)))[1] == "killed"


def test_with_only_a_likely_name_the_answer_is_no_more_than_likely() -> None:
    report = judged(START, DIED, KILL.format(99, "python3"))
    assert first(report)[1] == "killed"
    assert report.diagnoses[0].confidence <= 0.7


@pytest.mark.parametrize("comm", ["mysqld", "chrome", "java", "postgres"])
def test_the_kill_of_another_program_is_no_diagnosis(comm: str) -> None:
    report = judged(START, READY, KILL.format(99, comm), SERVED)
    assert first(report) == ("healthy", None, None)
    assert "killed" in aside(report)


def test_the_kill_of_another_program_does_not_explain_a_death_here() -> None:
    assert first(judged(START, KILL.format(99, "mysqld"), DIED)) == ("incomplete", "died", 3)


def test_a_kernel_log_beside_it_explains_the_death_in_a_log() -> None:
    report = ask_files(lines(START, DIED), lines("x", KILL.format(7, "VLLM::EngineCor")), rulebook=steam())
    assert first(report) == ("diagnosed", "killed", 2)
    assert report.diagnoses[0].source == "b.log"
    assert explained(report) == [("died", 2)]


def test_a_kernel_log_with_another_programs_end_explains_nothing() -> None:
    report = ask_files(lines(START, DIED), lines(KILL.format(99, "mysqld")), rulebook=steam())
    assert first(report) == ("incomplete", "died", 2)


def test_inputs_are_never_told_in_one_order() -> None:
    one, other = lines(START, said(DRY), STOPPED), lines(START, READY)
    report = ask_files(other, one, rulebook=steam())
    assert (first(report), report.diagnoses[0].source) == (("diagnosed", "dry", 2), "b.log")
    assert report.diagnoses[0].recovered_at is None
    assert {e.source for e in report.episodes} == {"a.log", "b.log"}


# ---- 6: after the failure ----------------------------------------------------------------------------------


def test_what_processes_say_after_a_death_is_its_consequence() -> None:
    report = judged(START, DIED, *behind(FRONT, traceback("ConnectionResetError: peer", "main")), STOPPED)
    assert first(report) == ("incomplete", "died", 2)


def test_the_first_failure_in_time_explains_the_later_ones() -> None:
    report = judged(
        START, said(DRY), *behind(FRONT, traceback("KeyError: 'x'", "main")), said(CRACKED), STOPPED
    )
    assert first(report) == ("diagnosed", "dry", 2)
    assert ("cracked", 7) in explained(report)


def test_a_unit_that_speaks_last_does_not_take_a_known_causes_place() -> None:
    unit = "Mar 01 10:00:31 shed systemd[1]: vllm.service: Main process was shot"
    assert first(judged(START, said(DRY), STOPPED, unit))[1:] == ("dry", 2)


def test_a_unit_that_speaks_last_explains_what_nothing_else_does() -> None:
    unit = "Mar 01 10:00:31 shed systemd[1]: vllm.service: Main process was shot"
    assert first(judged(START, DIED, unit)) == ("diagnosed", "unit-died", 3)


def test_the_failure_of_another_unit_is_not_ours() -> None:
    mine = "Mar 01 10:00:01 shed systemd[1]: Started vllm.service - vLLM."
    other = "Mar 01 10:00:31 shed systemd[1]: backup.service: Main process was shot"
    report = judged(mine, START, READY, other, SERVED)
    assert first(report) == ("healthy", None, None)


# ---- 7: survival -------------------------------------------------------------------------------------------


def test_a_fault_that_the_server_survived_is_a_note() -> None:
    report = judged(START, READY, said(DRY), SERVED)
    assert first(report) == ("healthy", None, None)
    assert "dry" in aside(report)


def test_an_unknown_exception_that_the_server_survived_is_no_diagnosis() -> None:
    report = judged(START, READY, *behind(BOILER, traceback("KeyError: 'x'", "main")), SERVED)
    assert first(report) == ("healthy", None, None)


def test_going_on_with_the_start_is_survival_too() -> None:
    assert first(judged(START, said(DRY), LOADING, READY))[0] == "healthy"


def test_another_process_that_goes_on_is_no_survival() -> None:
    other = LOADING.replace("Boiler pid=7", "Tender pid=8")
    assert first(judged(START, said(DRY), other, STOPPED)) == ("diagnosed", "dry", 2)


def test_a_death_that_a_later_start_made_good_is_told_with_that_start() -> None:
    report = judged(START, LOADING, said(DRY), STOPPED, START, LOADING, READY, SERVED)
    assert first(report) == ("diagnosed", "dry", 3)
    assert report.diagnoses[0].recovered_at == 5


def test_the_latest_failure_that_was_not_made_good_comes_first() -> None:
    report = judged(
        START, LOADING, said(DRY), STOPPED, START, LOADING, READY, START, LOADING, said(CRACKED), STOPPED
    )
    assert [(d.rule, d.line, d.recovered_at) for d in report.diagnoses] == [
        ("cracked", 10, None),
        ("dry", 3, 5),
    ]


def test_a_kill_counts_whatever_came_after() -> None:
    assert first(judged(START, READY, KILL.format(7, "VLLM::EngineCor"), SERVED))[1] == "killed"


# ---- 8: loops ----------------------------------------------------------------------------------------------


def run_at(minute: int, *rows: str) -> list[str]:
    return [row.replace("03-01 10:", f"03-01 {10 + minute}:") for row in (START, LOADING, *rows)]


def test_a_crash_loop_is_one_diagnosis_with_its_count_and_span() -> None:
    report = judged(*[row for n in range(5) for row in run_at(n, said(DRY), STOPPED)])
    (only,) = report.diagnoses
    assert (only.rule, only.line, only.times, only.last_line) == ("dry", 3, 5, 19)
    assert (only.first_time, only.last_time) == ("03-01 10:00:30", "03-01 14:00:30")
    assert len(report.episodes) == 5


def test_a_loop_of_an_unknown_exception_folds_whatever_its_numbers() -> None:
    rows = []
    for n in range(4):
        rows += run_at(n, *behind(BOILER, traceback(f"KeyError: 'layer {n} at 0x7f{n}a'", "look")), STOPPED)
    (only,) = judged(*rows).diagnoses
    assert (only.rule, only.line, only.times) == (None, 6, 4)


def test_another_cause_that_began_a_loop_stands_beside_it() -> None:
    rows = run_at(0, said(CRACKED), STOPPED)
    for n in range(1, 4):
        rows += run_at(n, said(DRY), STOPPED)
    report = judged(*rows)
    assert [(d.rule, d.times) for d in report.diagnoses] == [("dry", 3), ("cracked", 1)]


# ---- 9: nothing known ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frames", "home"),
    [
        (["vllm/v1/worker/gpu_worker.py", "torch/_ops.py"], "vllm-project/vllm"),
        (["vllm_ascend/worker/worker.py", "vllm/model_executor/models/acme.py"], "vllm-project/vllm"),
        (["vllm/v1/engine/core.py", "vllm_ascend/attention/mla.py", "torch/_ops.py"], "vllm-project/vllm-ascend"),
        (["vllm/v1/core/sched/scheduler.py", "lmcache/integration/adapter.py"], "LMCache/LMCache"),
        (["acme/worker.py"], "vllm-project/vllm"),
    ],
)  # fmt: skip
def test_an_unknown_failure_is_sought_where_the_code_that_raised_it_has_its_issues(
    frames: list[str], home: str
) -> None:
    rows = [f'  File "/opt/venv/lib/python3.12/site-packages/{file}", line 5, in f' for file in frames]
    report = judged("Traceback (most recent call last):", *rows, "KeyError: 'no such valve'")
    only = report.diagnoses[0]
    assert only.search.startswith(f"https://github.com/{home}/issues?q=")
    assert (home in only.fixes[0].do) == (home != "vllm-project/vllm")


def test_an_unknown_failure_has_a_frame_a_fingerprint_and_a_search() -> None:
    report = judged(START, *behind(BOILER, traceback("KeyError: 'coal'", "main", "look")), STOPPED)
    (only,) = report.diagnoses
    assert first(report) == ("unrecognised", None, 7)
    assert only.frame.endswith("engine.py:20 in look")
    assert len(only.fingerprint) == 12
    assert "KeyError" in only.search
    assert only.confidence < 0.9


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            'ValueError: the model\'s length (8192) is "too" long: x',
            "ValueError the model length is too long",
        ),
        ("--max-model-len AND OR NOT repo:acme/x -label:bug", "max-model-len repo acme label bug"),
        ("failed at /srv/x/y.py:12 with 0x7f12 {}", "failed at with"),
        ("wort " * 40, " ".join(["wort"] * 24)),
        ("x" * 500, "x" * 500),
        ("Straße 語語", "Straße 語語"),
        ("12 (3)", ""),
    ],
)
def test_a_search_is_of_whole_words_without_what_the_search_reads_as_its_own(
    message: str, words: str
) -> None:
    assert search_for(message) == search_words(words)


def test_a_fingerprint_does_not_hang_on_numbers_paths_and_lines() -> None:
    def mark(number: int) -> str:
        row = f"RuntimeError: tensor {number} of /srv/m{number}/x at 0x7f{number}0 is '{number}'"
        return judged(*["x"] * number, *traceback(row, "look"), STOPPED).diagnoses[0].fingerprint

    assert mark(1) == mark(23)


def test_other_failures_have_other_fingerprints() -> None:
    one = judged(*traceback("KeyError: 'x'", "look"), STOPPED).diagnoses[0]
    two = judged(*traceback("KeyError: 'x'", "burn"), STOPPED).diagnoses[0]
    three = judged(*traceback("OSError: x", "look"), STOPPED).diagnoses[0]
    assert len({one.fingerprint, two.fingerprint, three.fingerprint}) == 3


def test_a_traceback_that_was_cut_off_is_incomplete() -> None:
    report = judged(START, *behind(BOILER, traceback("x", "main", "look")[:-1]))
    assert first(report) == ("incomplete", None, 5)


def test_a_headless_unknown_traceback_says_that_something_is_missing_above() -> None:
    report = judged(*traceback("KeyError: 'x'", "look", head=False), STOPPED)
    assert any("earlier lines" in gap.what for read in report.inputs for gap in read.gaps)


def test_the_last_error_of_a_start_that_ends_there_is_shown() -> None:
    assert first(judged(START, said("the moon is full"))) == ("unrecognised", None, 2)


def test_an_error_that_its_process_outlived_is_not() -> None:
    assert first(judged(START, said("the moon is full"), said("all is well", "INFO")))[0] == "starting"


# ---- 10: clients -------------------------------------------------------------------------------------------

TICKET = said("A passenger has no valid ticket", who="APIServer pid=3")
LATE = said("The train is always late now", "WARNING")


def test_a_clients_mistake_is_a_diagnosis_where_nothing_is_worse() -> None:
    report = judged(START, READY, TICKET, SERVED)
    assert first(report) == ("diagnosed", "ticket", 3)
    assert report.diagnoses[0].severity is Severity.CLIENT


@pytest.mark.parametrize("order", [0, 1])
def test_a_clients_mistake_never_hides_a_crash(order: int) -> None:
    rows = [TICKET, said(DRY)] if order else [said(DRY), TICKET]
    report = judged(START, READY, *rows, STOPPED)
    assert first(report)[1] == "dry"
    assert [d.rule for d in report.diagnoses] == ["dry"]
    assert "ticket" in aside(report)


def test_a_clients_mistake_does_not_explain_an_unknown_crash() -> None:
    report = judged(START, READY, TICKET, *behind(BOILER, traceback("KeyError: 'x'", "look")), STOPPED)
    assert first(report) == ("unrecognised", None, 7)


def test_a_clients_mistake_does_not_explain_a_death() -> None:
    assert first(judged(START, READY, TICKET, DIED)) == ("incomplete", "died", 4)


def test_overload_never_comes_before_a_crash() -> None:
    report = judged(START, READY, LATE, LATE, said(DRY), STOPPED)
    assert [d.rule for d in report.diagnoses] == ["dry"]


def test_an_overloaded_but_living_server_is_degraded() -> None:
    report = judged(START, READY, LATE, SERVED, TICKET)
    assert [(d.rule, d.severity.value) for d in report.diagnoses] == [
        ("late", "degraded"),
        ("ticket", "client"),
    ]


def test_clients_that_call_too_early_do_not_hide_a_start() -> None:
    report = judged(START, LOADING, TICKET)
    assert first(report) == ("starting", None, None)
    assert "ticket" in aside(report)


# ---- 11: quiet --------------------------------------------------------------------------------------------


def test_a_healthy_server_has_no_diagnosis() -> None:
    assert first(judged(START, LOADING, READY, *[SERVED] * 50)) == ("healthy", None, None)


def test_a_line_that_only_looks_alarming_takes_the_cause_away() -> None:
    seen = ask(
        lines(START, said("ERROR: the whistle is only being tested")),
        steam(rule("whistle-broken", "the whistle is")),
    )
    assert seen.diagnoses == [] or seen.diagnoses[0].rule != "whistle-broken"


def test_an_ignored_exception_is_no_failure() -> None:
    rows = [
        "Exception ignored in: <function Pool.__del__ at 0x7f00>",
        *traceback("ValueError: no way", "__del__"),
    ]
    assert first(judged(START, READY, SERVED, *rows))[0] == "healthy"


# ---- 12: what was set aside -------------------------------------------------------------------------------


def test_what_was_set_aside_stands_with_its_line_and_reason() -> None:
    report = judged(START, READY, said(CRACKED), *[SERVED] * 5, said(DRY), STOPPED)
    assert first(report)[1:] == ("dry", 9)
    (seen,) = [s for s in report.also_seen if s.rule == "cracked"]
    assert (seen.line, seen.source) == (3, "<text>")
    assert seen.reason == "the same server went on working after it"
    assert CRACKED in seen.text


# ---- order and depth ----------------------------------------------------------------------------------------


def test_of_two_known_causes_the_earlier_wins() -> None:
    assert first(judged(START, said(CRACKED), said(DRY), STOPPED))[1:] == ("cracked", 2)


def test_what_a_rule_beats_it_beats_wherever_it_stands() -> None:
    beats = rule("dry", DRY, beats=["cracked"])
    assert first(ask(lines(START, said(CRACKED), said(DRY), STOPPED), steam(beats)))[1:] == ("dry", 3)


def test_conditions_on_other_rules_decide() -> None:
    needs = rule("dry", DRY, needs=["draught"])
    text = lines(START, said(DRY), STOPPED)
    draughty = lines(START, said("A draught comes through the door", "WARNING"), said(DRY), STOPPED)
    assert first(ask(text, steam(needs)))[0] == "incomplete"
    assert first(ask(draughty, steam(needs)))[1:] == ("dry", 3)
    never = rule("dry", DRY, unless=["draught"])
    assert first(ask(text, steam(never)))[1:] == ("dry", 2)
    assert first(ask(draughty, steam(never)))[1] == "draught"


def test_a_rule_may_ask_for_a_frame() -> None:
    framed = rule("dry", DRY, frames=["engine.py:look"])
    good = lines(START, *behind(BOILER, traceback(f"OSError: {DRY}", "look")), STOPPED)
    bad = good.replace("in look", "in burn")
    assert first(ask(good, steam(framed)))[1:] == ("dry", 5)
    assert first(ask(bad, steam(framed))) == ("unrecognised", None, 5)


@pytest.mark.parametrize(
    ("framed", "wins"),
    [
        ("ValueError", "plain"),  # says no more than the class: the place does not make up for that
        (
            "ValueError: The boiler has no",
            "framed",
        ),  # of two that say something the one that knows the place
    ],
)
def test_a_place_in_the_code_is_no_wording_of_its_own(framed: str, wins: str) -> None:
    book = steam(rule("framed", framed, frames=["engine.py"]), rule("plain", DRY), without=("dry",))
    report = ask(lines(START, *behind(BOILER, traceback(f"ValueError: {DRY}", "look")), STOPPED), book)
    assert report.diagnoses[0].rule == wins


@pytest.mark.parametrize(
    ("wanted", "holds"), [("app/", True), ("opt/app/", True), ("pp/", False), ("engine.py/", False)]
)
def test_a_rule_may_ask_for_a_folder_of_the_code(wanted: str, holds: bool) -> None:
    framed = rule("dry", DRY, frames=[wanted])
    text = lines(START, *behind(BOILER, traceback(f"OSError: {DRY}", "look")), STOPPED)
    assert first(ask(text, steam(framed)))[1:] == ("dry" if holds else None, 5)


@pytest.mark.parametrize(("rows", "rule_id"), [([LOADING], "dry"), ([LOADING, READY], None), ([], None)])
def test_a_rule_may_ask_for_a_phase(rows: list[str], rule_id: str | None) -> None:
    phased = rule("dry", DRY, phase=[Phase.LOAD])
    report = ask(lines(START, *rows, said(DRY), STOPPED), steam(phased))
    assert report.diagnoses[0].rule == (rule_id or "stopped")


def test_a_span_of_many_requests_ends_with_the_last_one() -> None:
    asked = (
        "(APIServer pid=71) ERROR 03-03 09:{:02d}:00 [serving_chat.py:201] Error with model error=ErrorInfo(message='The "
        "model `acme/other` does not exist.', type='NotFoundError', param='model', code=404)"
    )
    (only,) = ask("".join(f"{asked.format(minute)}\n" for minute in range(7))).diagnoses
    assert (only.times, only.line, only.last_line) == (7, 1, 7)
    assert (only.first_time, only.last_time) == ("03-03 09:00:00", "03-03 09:06:00")
