"""What changed since the server last worked: pairs of starts that differ in one thing, and pairs that differ in none."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

import vdiag
from logtext import FAILED, LIVING, ask, ask_files, by_name, first, lines, sample
from test_cli_diagnose import World
from vdiag.advise.given import of_command, of_namespace
from vdiag.intake.sources import of_bytes
from vdiag.model import Change, Report, Verdict
from vdiag.pipeline import compare
from vdiag.render import changes as render_changes
from vdiag.render import terminal
from vdiag.rulebook.shipped import shipped

SAMPLES = Path(__file__).parent.parent / "samples"
ARGS = {"model_tag": "acme/notes-8b", "model": "acme/notes-8b", "max_model_len": 8192}
GOOD = {**ARGS}
BAD = {**ARGS, "max_model_len": 131072}
KV = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (4.71 GiB). Based on the available memory, the estimated "
    "maximum model length is 38576."
)
HEADS = "ValueError: Total number of attention heads (32) must be divisible by tensor parallel size (3)."
UNKNOWN = "RuntimeError: the flux of the notes is out of order"


def start(
    args: dict[str, Any] | None = None,
    *,
    error: str = "",
    hour: int = 9,
    day: int = 20,
    pid: int = 3310,
    vllm: str = "0.11.0",
    engine: str = "V1",
    weights: float = 14.99,
    kv: float = 4.71,
    tokens: int = 38576,
    free: float = 23.2,
    before: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    ends: bool = True,
) -> list[str]:
    """The rows of one start; with an `error` the engine fails, else it serves."""
    args = GOOD if args is None else args
    clock = f"09-{day} {hour:02}:{pid % 60:02}"
    api, core = f"(APIServer pid={pid})", f"(EngineCore_DP0 pid={pid + 78})"

    def says(who: str, second: int, origin: str, text: str, level: str = "INFO") -> str:
        return f"{who} {level} {clock}:{second:02} [{origin}] {text}"

    model = args.get("model", "acme/notes-8b")
    rows = [
        says(api, 5, "api_server.py:1839", f"vLLM API server version {vllm}"),
        says(api, 5, "utils.py:233", f"non-default args: {args!r}"),
        says(api, 6, "model.py:547", "Resolved architecture: LlamaForCausalLM"),
        *before,
        *(says(api, 7, "notes.py:12", text, "WARNING") for text in warnings),
        says(core, 9, "core.py:77", f"Initializing a {engine} LLM engine (v{vllm}) with config: model='{model}', speculative_config=None"),
        says(core, 10, "parallel_state.py:1208", f"distributed_init_method=tcp://127.0.0.1:{40000 + pid}"),
        says(core, 20, "gpu_model_runner.py:2653", f"Model loading took {weights} GiB and {pid / 300:.6f} seconds"),
        says(core, 30, "backends.py:548", f"Using cache directory: /srv/cache/{pid * 7919:x}/rank_0_0/backbone"),
        says(core, 31, "gpu_worker.py:298", f"Available KV cache memory: {kv} GiB"),
    ]  # fmt: skip
    if error:
        return [
            *rows,
            says(core, 32, "core.py:708", "EngineCore failed to start.", "ERROR"),
            says(core, 32, "core.py:708", "Traceback (most recent call last):", "ERROR"),
            says(core, 32, "core.py:708", '  File "/opt/vllm/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 92, in __init__', "ERROR"),
            says(core, 32, "core.py:708", "    self._initialize_kv_caches(vllm_config)", "ERROR"),
            says(core, 32, "core.py:708", error, "ERROR"),
            f"{api} RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}",
        ]  # fmt: skip
    rows += [
        says(core, 32, "kv_cache_utils.py:1087", f"GPU KV cache size: {tokens:,} tokens"),
        says(core, 40, "gpu_worker.py:391", f"Free memory on device ({free}/23.64 GiB) on startup. Desired GPU memory utilization is (0.9, 21.28 GiB). Actual usage is {weights} GiB for weight, 1.22 GiB for peak activation, 0.12 GiB for non-torch memory, and 0.58 GiB for CUDAGraph memory."),
        says(api, 41, "api_server.py:1912", "Starting vLLM API server 0 on http://127.0.0.1:8000"),
        f"{api} INFO:     Application startup complete.",
        f'{api} INFO:     127.0.0.1:{50000 + pid} - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    ]  # fmt: skip
    if ends:
        rows += [f"{api} INFO:     Shutting down", f"{api} INFO:     Application shutdown complete."]
    return rows


def items(report: Report) -> list[tuple[str, str, Any, Any, bool]]:
    told = report.changes.items if report.changes is not None else []
    return [(i.what, i.name, i.before, i.after, i.explains) for i in told]


def since(good: list[str], bad: list[str]) -> list[tuple[str, str, Any, Any, bool]]:
    """What differs where one start follows another in one log; the same as `vdiag diff` says of two."""
    told = items(ask(lines(*good, *bad)))
    apart = compare(
        [of_bytes(lines(*good).encode(), "good")], [of_bytes(lines(*bad).encode(), "bad")], rulebook=shipped()
    )
    assert items(apart) == told
    return told


# ---- what is told ---------------------------------------------------------------------------------------------


def test_a_changed_argument_explains_the_failure_and_the_way_back_is_the_first_fix() -> None:
    report = ask(lines(*start(), *start(BAD, error=KV, hour=11, pid=7702)))
    assert items(report) == [("argument", "--max-model-len", 8192, 131072, True)]
    assert report.changes is not None
    assert (report.changes.good_line, report.changes.bad_line) == (1, len(start()) + 1)
    fix = report.diagnoses[0].fixes[0]
    assert "--max-model-len 8192" in fix.do
    assert any("--max-model-len 8192" in line for line in fix.run)


def test_the_way_back_is_the_whole_command_where_the_log_tells_it() -> None:
    bad = {**BAD, "port": 8000, "max_num_seqs": 64}
    fix = (
        ask(lines(*start({**bad, "max_model_len": 8192}), *start(bad, error=KV, hour=11, pid=7702)))
        .diagnoses[0]
        .fixes[0]
    )
    whole = " ".join(fix.run)
    assert all(flag in whole for flag in ("--port 8000", "--max-num-seqs 64", "--max-model-len 8192"))
    assert "131072" not in whole
    assert "…" not in whole
    assert "--port" not in " ".join(fix.change)


def test_the_figures_of_an_earlier_start_are_not_those_of_the_failed_one() -> None:
    good = start(tokens=1_002_470, kv=19.5, before=(
        "(EngineCore_DP0 pid=3388) INFO 09-20 09:10:32 [kv_cache_utils.py:1091] Maximum concurrency for 131,072 tokens per request: 7.65x",
    ))  # fmt: skip
    together = ask(lines(*good, *start(BAD, error=KV, hour=11, pid=7702))).memory
    alone = ask(lines(*start(BAD, error=KV, hour=11, pid=7702))).memory
    assert together is not None
    assert alone is not None
    assert (together.kv_tokens, together.concurrency, together.fitting_len) == (38576, 0.29, 38576)
    assert (together.kv_gib, together.need_gib) == (alone.kv_gib, alone.need_gib)


def test_the_root_cause_and_its_confidence_are_those_without_the_earlier_start() -> None:
    alone = ask(lines(*start(BAD, error=KV, hour=11, pid=7702))).diagnoses[0]
    told = ask(lines(*start(), *start(BAD, error=KV, hour=11, pid=7702))).diagnoses[0]
    assert (told.rule, told.confidence, told.line) == (
        alone.rule,
        alone.confidence,
        alone.line + len(start()),
    )
    assert told.fixes[1:] == alone.fixes


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"max_model_len": 4096}, {"max_model_len": 8192}, ("--max-model-len", 4096, 8192)),
        ({}, {"enforce_eager": True}, ("--enforce-eager", None, True)),
        ({"quantization": "awq"}, {}, ("--quantization", "awq", None)),
        ({"lora_modules": ["a=/x"]}, {"lora_modules": ["a=/y"]}, ("--lora-modules", ["a=/x"], ["a=/y"])),
        (
            {"compilation_config": {"level": 3, "mode": 1}},
            {"compilation_config": {"level": 0, "mode": 1}},
            ("--compilation-config.level", 3, 0),
        ),
        (
            {"speculative_config": '{"model": "acme/draft", "num": 3}'},
            {"speculative_config": '{"num": 5, "model": "acme/draft"}'},
            ("--speculative-config.num", 3, 5),
        ),
    ],
)
def test_each_argument_that_differs_is_one_change(
    before: dict[str, Any], after: dict[str, Any], expected: tuple[str, Any, Any]
) -> None:
    told = since(start({**ARGS, **before}), start({**ARGS, **after}, error=UNKNOWN, pid=4000))
    assert [(what, *rest) for what, *rest, _ in told] == [("argument", *expected)]


def test_all_arguments_of_old_versions_are_compared_by_their_values() -> None:
    def old(rows: list[str], length: int) -> list[str]:
        space = f"args: Namespace(subparser='serve', port=8000, model='acme/notes-8b', max_model_len={length}, config='', dispatch_function=<function serve at 0x7f{length:x}>)"
        return [row if "non-default" not in row else row.split("non-default")[0] + space for row in rows]

    good = old(start(vllm="0.8.5.post1", engine="V0"), 8192)
    bad = old(start(BAD, error=KV, vllm="0.8.5.post1", engine="V0", pid=4000), 131072)
    assert since(good, bad) == [("argument", "--max-model-len", 8192, 131072, True)]


def test_a_namespace_holds_every_argument() -> None:
    found = of_namespace("x args: Namespace(a=1, b=['x'], c=<function f at 0x7f00>, d=LoRA(name='q'))")
    assert found == {"a": 1, "b": ["x"], "d": {"name": "q"}}
    assert of_namespace("args: Namespace(a=1, b='cut") == {}


@pytest.mark.parametrize(
    "command",
    [
        "CUDA_VISIBLE_DEVICES=1 vllm serve acme/notes-8b --max-model-len 8192 -tp 2 --enforce-eager",
        "ExecStart=/usr/bin/env CUDA_VISIBLE_DEVICES=1 /opt/vllm/bin/vllm serve acme/notes-8b --max-model-len=8192 --enforce-eager -tp=2",
    ],
)
def test_a_command_is_read_like_its_arguments(command: str) -> None:
    args, env = of_command(command)
    assert args == {
        "model": "acme/notes-8b",
        "max_model_len": 8192,
        "tensor_parallel_size": 2,
        "enforce_eager": True,
    }
    assert env["CUDA_VISIBLE_DEVICES"] == "1"


def test_version_engine_and_model_are_compared() -> None:
    other = {**ARGS, "model": "acme/notes-70b", "model_tag": "acme/notes-70b"}
    told = since(start(vllm="0.8.5.post1", engine="V0"), start(other, error=UNKNOWN, pid=4000))
    assert [(what, name, a, b) for what, name, a, b, _ in told] == [
        ("version", "vLLM", "0.8.5.post1", "0.11.0"),
        ("version", "engine", "V0", "V1"),
        ("model", "model", "acme/notes-8b", "acme/notes-70b"),
    ]


DEVICES = [
    ("| NVIDIA-SMI 550.54.15   Driver Version: {}   CUDA Version: 12.4 |", "550.54.15", "570.86.10", "NVIDIA driver"),
    ("| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: {} |", 12.4, 12.8, "CUDA of the driver"),
    ("GPU 0: {} (UUID: GPU-7f3c2b1a-0000-0000-0000-000000000000)", "NVIDIA L4", "NVIDIA L40S", "card"),
    ("(Worker_TP0 pid=882) INFO 08-28 10:12:09 [pynccl.py:103] vLLM is using nccl=={}", "2.26.2", "2.27.3", "NCCL"),
    ("INFO 11-29 12:01:00 [__init__.py:216] Automatically detected platform {}.", "cuda", "cpu", "platform"),
    ("[pip3] transformers=={}", "4.57.1", "5.0.0", "transformers"),
    ("[pip3] torch=={}", "2.8.0", "2.9.0", "torch"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "old", "new", "name"), DEVICES, ids=[d[3] for d in DEVICES])
def test_devices_and_packages_are_compared(row: str, old: Any, new: Any, name: str) -> None:
    good = start(before=(row.format(old),))
    told = since(good, start(error=UNKNOWN, pid=4000, before=(row.format(new),)))
    assert [(n, a, b) for _, n, a, b, _ in told] == [(name, old, new)]
    # What only one of the two tells is no difference.
    assert since(good, start(error=UNKNOWN, pid=4000)) == []
    assert since(start(), start(error=UNKNOWN, pid=4000, before=(row.format(new),))) == []


def test_memory_counts_beyond_noise_only() -> None:
    failed = start(error=UNKNOWN, pid=4000, kv=1.5, weights=15.0)
    assert [(n, a, b) for _, n, a, b, _ in since(start(), failed)] == [("memory of the KV cache", 4.71, 1.5)]
    assert since(start(), start(error=UNKNOWN, pid=4000, kv=4.75, weights=15.02)) == []


def test_free_memory_that_fell_explains_a_start_without_enough_of_it() -> None:
    little = (
        "ValueError: Free memory on device (3.2/23.64 GiB) on startup is less than desired GPU memory utilization "
        "(0.9, 21.28 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
    )
    told = since(start(), start(error=little, pid=4000))
    assert ("memory", "free memory at the start", 23.2, 3.2, True) in told


def test_a_kv_cache_that_shrank_explains_that_it_is_too_small() -> None:
    told = since(start(BAD, kv=18.0, tokens=147456), start(BAD, error=KV, pid=4000))
    assert told == [("memory", "memory of the KV cache", 18.0, 4.71, True)]


def test_a_typed_command_is_compared_where_the_server_printed_no_arguments() -> None:
    def typed(command: list[str], rows: list[str]) -> list[str]:
        return [*command, *(row for row in rows if "non-default args" not in row)]

    good = typed(["ops@gpu-03:~$ CUDA_VISIBLE_DEVICES=0 vllm serve acme/notes-8b --seed 3"], start())
    bad = typed(
        ["ops@gpu-03:~$ CUDA_VISIBLE_DEVICES=0,1 vllm serve acme/notes-8b \\", "    --seed 4 \\", "    --enforce-eager"],
        start(error=UNKNOWN, pid=4000),
    )  # fmt: skip
    apart = compare(
        [of_bytes(lines(*good).encode(), "good")], [of_bytes(lines(*bad).encode(), "bad")], rulebook=shipped()
    )
    assert [i[1:4] for i in items(apart)] == [
        ("--seed", 3, 4),
        ("--enforce-eager", None, True),
        ("CUDA_VISIBLE_DEVICES", "0", "0,1"),
    ]


def test_temporary_files_are_the_same() -> None:
    good, bad = ({**ARGS, "chat_template": f"/tmp/tmp{word}/t.jinja"} for word in ("k3x9q", "zz81m"))
    assert since(start(good), start(bad, error=UNKNOWN, pid=4000)) == []


def test_a_secret_inside_a_value_is_not_shown() -> None:
    def args(word: str) -> dict[str, Any]:
        adapter = {"name": "ink", "path": "/srv/ink", "hf_token": word}
        return {
            **ARGS,
            "kv_transfer_config": {"kv_connector_extra_config": {"secret": word}},
            "lora_modules": [adapter],
        }

    report = ask(lines(*start(args("apples")), *start(args("pears"), error=UNKNOWN, pid=4000)))
    assert report.changes is not None
    assert [i.name for i in report.changes.items] == [
        "--kv-transfer-config.kv_connector_extra_config.secret",
        "--lora-modules",
    ]
    told = repr(report.changes) + "".join(map(render_changes.row, report.changes.items, [200] * 2))
    assert "apples" not in told
    assert "pears" not in told


def test_a_warning_that_is_new_is_told_and_one_that_was_there_is_not() -> None:
    old, new = "The notes on card 3 are 17 seconds late", "The ink well of the notes runs dry"
    good = start(warnings=(old,))
    told = since(
        good, start(error=UNKNOWN, pid=4000, warnings=("The notes on card 5 are 99 seconds late", new))
    )
    assert [(what, after) for what, _, _, after, _ in told] == [("environment", told[0][3])]
    assert told[0][3].endswith(new)


def test_warnings_of_the_teardown_are_none() -> None:
    bad = start(error=UNKNOWN, pid=4000)
    bad.append("(APIServer pid=4000) WARNING 09-20 11:40:40 [utils.py:1] The worker is put away by force")
    assert since(start(), bad) == []


def test_secrets_are_told_as_changed_and_never_shown() -> None:
    good = start({**ARGS, "api_key": "sk-first-acme-0123456789", "hf_token": "hf_FirstFirstFirstFirst"})
    bad = start({**ARGS, "api_key": "sk-second-acme-0123456789"}, error=UNKNOWN, pid=4000)
    report = ask(lines(*good, *bad))
    assert [i.name for i in report.changes.items] == ["--api-key", "--hf-token"]  # type: ignore[union-attr]
    shown = terminal.render(report, width=200, everything=True).plain()
    section = shown[shown.index("What changed") :].split("\n\n")[0]
    told = section + json.dumps([[i.before, i.after] for i in report.changes.items])  # type: ignore[union-attr]
    assert "--api-key was changed" in section
    assert "--hf-token was taken out" in section
    assert "sk-" not in told
    assert "hf_" not in told.replace("--hf-token", "")


def test_several_keys_are_one_secret() -> None:
    good = start({**ARGS, "api_key": ["first-word", "third-word"]})
    bad = start({**ARGS, "api_key": ["other-word", "third-word"]}, error=UNKNOWN)
    assert since(good, bad) == [("argument", "--api-key", "(not shown)", "(not shown)", False)]


def test_a_password_in_an_address_is_a_secret() -> None:
    good = start({**ARGS, "otlp_traces_endpoint": "http://ops:first-word@traces.example:4317"})
    bad = start({**ARGS, "otlp_traces_endpoint": "http://ops:other-word@traces.example:4317"}, error=UNKNOWN)
    assert since(good, bad) == [("argument", "--otlp-traces-endpoint", "(not shown)", "(not shown)", False)]


def test_an_argument_of_a_stranger_is_neither_obeyed_nor_typed() -> None:
    evil = "\x1b]0;x\x07\u202eacme"
    good = start({**ARGS, "dtype": "auto", evil: 1})
    bad = start(
        {**ARGS, "dtype": evil, evil: "; reboot"}, error=f"ValueError: Unknown dtype: {evil}", pid=4000
    )
    report = ask(lines(*good, *bad))
    assert report.changes is not None
    page = terminal.render(report, everything=True).plain()
    assert not {"\x1b", "\x07", "\u202e"} & set(page)
    assert not any("reboot" in row for fix in report.diagnoses[0].fixes for row in fix.run)


# ---- what explains ----------------------------------------------------------------------------------------------


def test_a_change_the_other_way_explains_nothing() -> None:
    good = start({**ARGS, "max_model_len": 262144})
    assert since(good, start(BAD, error=KV, pid=4000)) == [
        ("argument", "--max-model-len", 262144, 131072, False)
    ]


def test_an_unrelated_argument_does_not_explain_and_stands_below() -> None:
    bad = {**BAD, "served_model_name": ["notes"]}
    report = ask(lines(*start(), *start(bad, error=KV, pid=4000)))
    assert [(i.name, i.explains) for i in report.changes.items] == [  # type: ignore[union-attr]
        ("--max-model-len", True),
        ("--served-model-name", False),
    ]
    page = terminal.render(report).plain()
    at = page.index("--max-model-len 8192 -> 131072")
    assert page.index("What changed since it last worked") < at < page.index("What to do first")
    assert page.index("What to do first") < page.index("--served-model-name")


def test_something_new_that_was_asked_for_is_dropped_only_after_the_rules_own_fix() -> None:
    told = ask(lines(*start(), *start({**ARGS, "tensor_parallel_size": 3}, error=HEADS, pid=4000)))
    assert items(told) == [("argument", "--tensor-parallel-size", None, 3, True)]
    assert "without --tensor-parallel-size" not in " ".join(told.diagnoses[0].fixes[0].run)
    assert "Start without --tensor-parallel-size again" in told.diagnoses[0].fixes[1].do


def test_a_way_back_that_a_fix_of_the_rule_is_already_is_not_said_twice() -> None:
    error = "ValueError: Quantization method specified in the model config (awq) does not match the quantization method specified in the `quantization` argument (gptq)."
    report = ask(lines(*start(), *start({**ARGS, "quantization": "gptq"}, error=error, pid=4000)))
    assert items(report) == [("argument", "--quantization", None, "gptq", True)]
    fixes = report.diagnoses[0].fixes
    assert sum(any("without --quantization" in row for row in fix.change) for fix in fixes) == 1
    assert all(fix.run != other.run for fix in fixes for other in fixes if fix is not other)


def test_with_another_model_nothing_says_that_the_way_back_works() -> None:
    other = {**BAD, "model": "acme/notes-70b", "model_tag": "acme/notes-70b"}
    report = ask(lines(*start(), *start(other, error=KV, pid=4000)))
    assert report.changes is not None
    assert not any(fix.do.startswith("Go back") for fix in report.diagnoses[0].fixes)


def test_a_failure_no_rule_knows_is_shown_with_what_changed() -> None:
    report = ask(lines(*start(), *start({**ARGS, "enforce_eager": True}, error=UNKNOWN, pid=4000)))
    assert report.verdict is Verdict.UNRECOGNISED
    page = terminal.render(report).plain()
    assert page.index("--enforce-eager (added)") < page.index("What to do first")
    assert page.count("--enforce-eager (added)") == 1


# ---- which starts -------------------------------------------------------------------------------------------------


def test_nothing_differs_between_two_starts_with_the_same_arguments() -> None:
    report = ask(lines(*start(), *start(error=UNKNOWN, hour=17, pid=9101)))
    assert report.diagnoses
    assert report.changes is None


PAIRS = [
    (a, b)
    for a, b in itertools.product([s for s in LIVING if s.verdict == "healthy"], repeat=2)
    if "non-default args" in a.text and "non-default args" in b.text
]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=[f"{a.name}-{b.name}" for a, b in PAIRS])
def test_two_healthy_starts_differ_in_what_they_were_given_and_in_what_follows_from_that_alone(
    one: Any, other: Any
) -> None:
    report = compare(
        [of_bytes(one.text.encode(), "one")], [of_bytes(other.text.encode(), "other")], rulebook=shipped()
    )
    told = report.changes
    assert told is not None
    assert {i.what for i in told.items} <= {"argument", "model", "memory"}
    if one is other:
        assert told.items == []
    assert not any(i.explains for i in told.items)


@pytest.mark.parametrize("healthy", [s for s in LIVING if s.verdict == "healthy"], ids=lambda s: s.name)
def test_a_healthy_log_twice_has_no_changes(healthy: Any) -> None:
    report = ask(healthy.text + healthy.text)
    assert (report.diagnoses, report.changes) == ([], None)


def test_of_a_crash_loop_what_all_its_starts_share_comes_first() -> None:
    shared = {**ARGS, "max_model_len": 131072}
    later = {**shared, "enforce_eager": True}
    fallen = {**shared, "seed": 7}
    report = ask(
        lines(
            *start(),
            *start(fallen, error=KV, hour=10, pid=4000),
            *start(shared, error=KV, hour=10, pid=4100),
            *start(later, error=KV, hour=11, pid=4200),
        )
    )
    assert report.diagnoses[0].times == 3
    assert [(i.name, i.explains) for i in report.changes.items] == [  # type: ignore[union-attr]
        ("--max-model-len", True),
        ("--enforce-eager", False),
    ]


def test_the_latest_start_that_worked_counts() -> None:
    older = start({**ARGS, "max_model_len": 2048})
    newer = start(hour=10, pid=3500)
    report = ask(lines(*older, *newer, *start(BAD, error=KV, hour=11, pid=4000)))
    assert items(report) == [("argument", "--max-model-len", 8192, 131072, True)]
    assert report.changes.good_line == len(older) + 1  # type: ignore[union-attr]


def test_a_start_after_the_failure_is_not_what_worked_before() -> None:
    report = ask(lines(*start(BAD, error=KV), *start(hour=12, pid=5000)))
    assert report.diagnoses[0].recovered_at is not None
    assert report.changes is None


def test_another_server_in_the_same_log_is_not_compared() -> None:
    other = {"model_tag": "acme/songs-7b", "port": 8001, "model": "acme/songs-7b", "max_model_len": 4096}
    report = ask(lines(*start(other), *start(BAD, error=KV, pid=4000)))
    assert report.diagnoses
    assert report.changes is None


def test_another_container_is_another_server() -> None:
    def of(name: str, rows: list[str]) -> list[str]:
        return [f"{name:<8} | {row}" for row in rows]

    apart = lines(*of("songs-1", start()), *of("notes-1", start(BAD, error=KV, pid=4000)))
    same = lines(*of("notes-1", start()), *of("notes-1", start(BAD, error=KV, pid=4000)))
    assert ask(apart).changes is None
    assert items(ask(same)) == [("argument", "--max-model-len", 8192, 131072, True)]


def test_a_pod_is_the_same_server_under_its_next_name() -> None:
    def of(name: str, rows: list[str]) -> list[str]:
        return [f"[pod/{name}/vllm] {row}" for row in rows]

    told = lines(
        *of("notes-6c9d8f7b5-x2k4v", start()), *of("notes-5b7c9d8f64-q8w2z", start(BAD, error=KV, pid=4000))
    )
    assert items(ask(told)) == [("argument", "--max-model-len", 8192, 131072, True)]


def test_a_run_that_served_and_died_is_compared_with_one_that_ended_well() -> None:
    dies = start({**ARGS, "max_num_seqs": 512}, hour=12, pid=5000, ends=False)
    oom = [
        "(EngineCore_DP0 pid=5078) ERROR 09-20 13:20:00 [core.py:710] EngineCore encountered a fatal error.",
        "(EngineCore_DP0 pid=5078) ERROR 09-20 13:20:00 [core.py:710] Traceback (most recent call last):",
        '(EngineCore_DP0 pid=5078) ERROR 09-20 13:20:00 [core.py:710]   File "/opt/vllm/lib/python3.12/site-packages/vllm/v1/worker/gpu_model_runner.py", line 2200, in execute_model',
        "(EngineCore_DP0 pid=5078) ERROR 09-20 13:20:00 [core.py:710]     hidden = self.model(",
        "(EngineCore_DP0 pid=5078) ERROR 09-20 13:20:00 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.20 GiB. GPU 0 has a total capacity of 23.64 GiB of which 310.00 MiB is free.",
        "(APIServer pid=5000) ERROR 09-20 13:20:01 [async_llm.py:480] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
    ]
    report = ask(lines(*start(), *dies, *oom))
    assert ("argument", "--max-num-seqs", None, 512) in [i[:4] for i in items(report)]
    # A run that died itself tells nothing of how to live.
    again = [row.replace("50", "60") for row in oom]
    report = ask(lines(*dies, *oom, *start({**ARGS, "seed": 1}, hour=14, pid=6000, ends=False), *again))
    assert report.changes is None


def test_an_earlier_log_counts_by_its_times_whatever_the_order_of_the_files() -> None:
    good, bad = lines(*start(day=18)), lines(*start(BAD, error=KV, day=20, pid=4000))
    for texts in ((good, bad), (bad, good)):
        told = ask_files(*texts)
        assert items(told) == [("argument", "--max-model-len", 8192, 131072, True)]
    assert ask_files(lines(*start(day=22)), bad).changes is None


def test_without_times_the_order_of_the_files_counts() -> None:
    def bare(rows: list[str]) -> str:
        return lines(*(row.split("] ", 1)[-1] if "core.py:708" not in row else row for row in rows))

    good = bare(start())
    bad = bare([r.replace("09-20", "").replace("ERROR", "") for r in start(BAD, error=KV, pid=4000)])
    assert [i[1] for i in items(ask_files(good, bad))] == ["--max-model-len"]
    assert ask_files(bad, good).changes is None


def test_lines_of_a_rotated_set_are_those_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "vllm.log.1").write_text(lines("", *start()))
    (tmp_path / "vllm.log").write_text(lines("", "", *start(BAD, error=KV, hour=11, pid=4000)))
    report = vdiag.diagnose([tmp_path / "vllm.log", tmp_path / "vllm.log.1"])
    told = report.changes
    assert told is not None
    assert (Path(told.good).name, told.good_line) == ("vllm.log.1", 2)
    assert (Path(told.bad).name, told.bad_line) == ("vllm.log", 3)


def journal(rows: list[str], pid: int, clock: str) -> list[str]:
    return [f"Sep 20 {clock} gpu-03 vllm[{pid}]: {row}" for row in rows]


def test_a_reboot_and_what_it_brought_are_told() -> None:
    def boot(clock: str, release: str, driver: str) -> list[str]:
        return [
            f"Sep 20 {clock} gpu-03 kernel: Linux version {release} (build@host) (gcc 13.3.0) #40 SMP",
            f"Sep 20 {clock} gpu-03 kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Mar  5 22:23:56 UTC 2024",
        ]

    rows = [
        *boot("08:50:01", "6.8.0-40-generic", "550.54.15"),
        *journal(start(), 3310, "09:10:00"),
        *boot("10:50:01", "6.8.0-45-generic", "570.86.10"),
        *journal(start(error=UNKNOWN, hour=11, pid=4000), 4000, "11:10:00"),
    ]
    told = ask(lines(*rows))
    assert [i[1:4] for i in items(told)] == [
        ("NVIDIA driver", "550.54.15", "570.86.10"),
        ("kernel of the machine", "6.8.0-40-generic", "6.8.0-45-generic"),
        ("the machine was started anew", None, "between the two starts"),
    ]
    # A boot before both, or behind the failure, is none between them.
    calm = [
        *rows[: 2 + len(start())],
        *rows[4 + len(start()) :],
        *boot("12:50:01", "6.8.0-45-generic", "570.86.10"),
    ]
    assert ask(lines(*calm)).changes is None


def test_a_good_start_in_the_bulk_of_a_long_log_is_found() -> None:
    access = 'INFO:     127.0.0.1:50410 - "GET /metrics HTTP/1.1" 200 OK'
    filling = [access] * (9 * 1024 * 1024 // (len(access) + 1))
    warned = ("The ink well of the notes runs dry",)
    good, bad = start(warnings=warned), start(BAD, error=KV, hour=23, pid=4000, warnings=warned)
    report = ask(lines(*good[:-2], *filling, *good[-2:], *bad))
    assert items(report) == [("argument", "--max-model-len", 8192, 131072, True)]
    assert report.changes.bad_line == len(good) + len(filling) + 1  # type: ignore[union-attr]


# ---- the page and the command -------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 200])
def test_each_difference_is_one_line_of_the_page(width: int) -> None:
    name = "a-name-that-goes-on-" * 12
    good = start({**ARGS, "download_dir": f"/srv/{name}/one/x", "seed": 3})
    bad = start({**ARGS, "download_dir": f"/srv/{name}/two/x"}, error=UNKNOWN, pid=4000)
    page = terminal.render(ask(lines(*good, *bad)), width=width).plain()
    section = page[page.index("What changed since") :].split("\n\n")[0].split("\n")
    assert len(section) == 3
    assert all(len(row) <= width for row in section)
    assert " -> " in section[1]
    assert "one/x" in section[1]
    assert "two/x" in section[1]
    assert section[2] == "- --seed 3 (taken out)"
    assert page.isascii() or "…" in page


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (Change("argument", "--enforce-eager", None, True), "--enforce-eager (added)"),
        (Change("argument", "--enforce-eager", False, True), "--enforce-eager off -> on"),
        (Change("argument", "--seed", 0, None), "--seed 0 (taken out)"),
        (Change("memory", "weights", 14.99, 16.0, unit="GiB"), "weights: 14.99 -> 16 GiB"),
        (
            Change("argument", "--api-key", None, "(not shown)"),
            "--api-key was added (its value is not shown)",
        ),
        (Change("environment", "a new warning", None, "it\nis \x1b[31mlate"), "a new warning: it is late"),
    ],
)
def test_a_row(item: Change, expected: str) -> None:
    assert render_changes.row(item, 78) == expected


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, str]:
    texts = {
        "good": lines(*start()),
        "bad": lines(*start(BAD, error=KV, pid=4000)),
        "same": lines(*start(error=UNKNOWN, pid=4000)),
        "none": "Nov 29 10:00:00 gpu-03 sshd[9]: Server listening on port 22.\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


@pytest.mark.parametrize(
    ("good", "bad", "status", "said"),
    [
        ("good", "bad", 1, "--max-model-len 8192 -> 131072"),
        ("good", "same", 0, "Nothing that both starts tell of themselves differs"),
        ("good", "good", 0, "failed: this is its last one"),
        ("bad", "same", 1, "came to serve: this is its last one"),
        ("none", "bad", 2, "The KV cache cannot hold"),
        ("good", "none", 2, ""),
    ],
)
def test_diff_exits_like_diff(logs: dict[str, str], good: str, bad: str, status: int, said: str) -> None:
    world = World(b"")
    assert world.run("diff", logs[good], logs[bad]) == status
    assert said in " ".join(world.out.getvalue().decode().split())
    assert bool(world.err.getvalue()) is (status == 2)


def test_diff_as_json_is_the_report_of_the_second_log(logs: dict[str, str]) -> None:
    world = World(b"")
    assert world.run("diff", "--format", "json", logs["good"], logs["bad"]) == 1
    report = json.loads(world.out.getvalue())
    assert report["diagnoses"][0]["rule"] == "kv-cache-too-small"
    assert [read["name"] for read in report["inputs"]] == [logs["bad"]]
    assert (report["changes"]["good"], report["changes"]["bad"]) == (logs["good"], logs["bad"])


def test_diff_reads_one_of_the_two_from_standard_input(logs: dict[str, str]) -> None:
    world = World(lines(*start(BAD, error=KV, pid=4000)).encode())
    assert world.run("diff", logs["good"], "-") == 1
    assert World(b"").run("diff", "-", "-") == 2
    assert World(b"").run("diff", logs["good"], logs["good"] + ".not") == 2


REAL = [s for s in FAILED if s.name.startswith("real-") and "version 0.32.0" in s.text]


@pytest.mark.parametrize("failed", REAL, ids=by_name)
def test_behind_a_real_start_that_worked_a_real_failure_keeps_its_cause(failed: Any) -> None:
    good = sample("real-healthy-start").text
    report = ask(good + failed.text)
    assert first(report) == ("diagnosed", failed.rule, failed.line + good.count("\n"))
    told = report.changes.items if report.changes is not None else []
    assert {i.what for i in told if i.name != "a new warning"} <= {"argument", "model"}
    assert all(i.what == "argument" for i in told if i.explains)


def test_real_logs_tell_what_was_added() -> None:
    report = ask(sample("real-healthy-start").text + sample("real-pp3-numa").text)
    assert ("argument", "--pipeline-parallel-size", None, 3, True) in items(report)


def test_the_sample_that_worked_before() -> None:
    told = sample("worked-with-a-shorter-context")
    assert items(ask(told.text)) == [("argument", "--max-model-len", 8192, 131072, True)]
