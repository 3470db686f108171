"""An exception that no rule names, raised by vLLM's own code: the settings it concerns and the part it came from."""

from __future__ import annotations

from typing import Any

import pytest

from vdiag.advise import settings
from vdiag.model import Envelope, Event, Kind, Verdict
from vdiag.pipeline import diagnose_text
from vdiag.rulebook.compile import Rulebook

PACKAGES = "/opt/acme/lib/python3.12/site-packages/"
ARGS = {"max_model_len": 8192, "enable_lora": True}


def raised(text: str, *files: str, name: str = "ValueError") -> Event:
    frames = [f'File "{file}", line 77, in check' for file in files]
    rows = f"{name}: {text}".split("\n")
    lines = list(range(1, len(rows) + 1))
    return Event(0, Kind.EXCEPTION, Envelope(), rows, lines, exception=name, frames=frames)


def named(text: str, file: str = "vllm/engine/arg_utils.py", version: str = "0.11.0") -> dict[str, Any]:
    return settings.settings_of(text, file, {"vllm": version, "args": ARGS})


@pytest.mark.parametrize(
    "text",
    [
        "max_model_len must be a multiple of 16",
        "set --max-model-len to a multiple of 16",
        "the max-model-len is no multiple of 16",
        "scheduler_config.max_model_len=8192 is odd",
        "The maximum model length is no multiple of 16",
        "a max model len of 8192 is odd",
    ],
)
def test_a_setting_is_found_in_any_spelling(text: str) -> None:
    assert named(text) == {"--max-model-len": 8192}


def test_a_setting_that_the_user_did_not_give_has_no_value() -> None:
    assert named("tensor parallel size 3 does not divide 8 experts") == {"--tensor-parallel-size": None}


@pytest.mark.parametrize(
    "text",
    ["this model is odd", "the max_model_lengths differ", "lora_request is empty", "no host memory left"],
)
def test_a_word_that_only_looks_like_a_setting_is_none(text: str) -> None:
    assert named(text) == {}


def test_a_name_of_one_word_counts_where_it_is_quoted_or_assigned() -> None:
    assert named("unknown value for `runner`") == {"--runner": None}
    assert named("runner='embed' is unknown") == {"--runner": None}
    assert named("the runner stopped") == {}


def test_a_flag_that_the_version_no_longer_takes_is_not_named() -> None:
    old = named("num_speculative_tokens must be positive", version="0.6.6.post1")
    assert old == {"--num-speculative-tokens": None}
    assert named("num_speculative_tokens must be positive") == {"--speculative-config": None}


def test_environment_variables_are_settings_too() -> None:
    assert named("VLLM_CPU_KVCACHE_SPACE is not a number") == {"VLLM_CPU_KVCACHE_SPACE": None}


def test_a_file_that_checks_one_json_argument_names_it() -> None:
    assert named("the draft must be smaller", "vllm/config/speculative.py") == {"--speculative-config": None}


def test_what_pydantic_was_given_is_not_what_it_complains_of() -> None:
    text = "1 validation error for ModelConfig\n  Value error, too odd [type=value_error, input_value={'dtype': 'half', 'max_model_len': 9}]"
    event = raised(text, PACKAGES + "vllm/config/model.py", PACKAGES + "pydantic/_internal/_dataclasses.py")
    assert settings.own_file(event) == "vllm/config/model.py"
    assert "--max-model-len" not in settings.facts_about(event, {}).get("settings", {})


@pytest.mark.parametrize(
    ("path", "file"),
    [
        (PACKAGES + "vllm/config/model.py", "vllm/config/model.py"),
        ("/home/dev/vllm/vllm/platforms/cuda.py", "vllm/platforms/cuda.py"),
        (PACKAGES + "torch/cuda/__init__.py", ""),
        ("/opt/vllm/lib/python3.12/socket.py", ""),
        ("/opt/vllm/lib/python3.12/site-packages/torch/nn.py", ""),
        ("/srv/app/main.py", ""),
    ],
)
def test_vllms_own_files_are_told_from_others(path: str, file: str) -> None:
    assert settings.own_file(raised("odd", path)) == file


def test_what_other_code_raised_is_not_explained_as_vllms() -> None:
    assert settings.facts_about(raised("max_model_len is odd", PACKAGES + "acme/x.py"), {}) == {}


def test_without_frames_only_names_of_code_count() -> None:
    assert settings.facts_about(raised("max_num_seqs is odd"), {}) == {"settings": {"--max-num-seqs": None}}
    assert settings.facts_about(raised("the tensor parallel size is odd"), {}) == {}


LOG = f"""\
(APIServer pid=5312) INFO 08-28 10:12:31 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=5312) INFO 08-28 10:12:31 [utils.py:233] non-default args: {{'model': 'acme/model-7b', 'max_model_len': 8192}}
(APIServer pid=5312) Traceback (most recent call last):
(APIServer pid=5312)   File "{PACKAGES}vllm/config/scheduler.py", line 91, in check
(APIServer pid=5312)     raise ValueError(msg)
(APIServer pid=5312) ValueError: a max_model_len of this kind was never heard of
"""


def test_the_answer_to_an_unknown_failure_names_the_setting_first() -> None:
    from vdiag.rulebook.shipped import shipped

    report = diagnose_text(LOG, shipped())
    assert report.verdict is Verdict.UNRECOGNISED
    (diagnosis,) = report.diagnoses
    assert diagnosis.facts["settings"] == {"--max-model-len": 8192}
    assert diagnosis.facts["part"] == "checking the configuration"
    assert "while checking the configuration, and it concerns --max-model-len (now 8192)." in diagnosis.why
    assert diagnosis.fixes[0].do == "Look at --max-model-len (now 8192): the message concerns it"
    assert diagnosis.fixes[0].run == ["vllm serve acme/model-7b … --max-model-len <value>"]


def test_a_switch_that_is_on_can_be_taken_out() -> None:
    fix = settings.fix_of({"settings": {"--enable-lora": True}}, {"args": ARGS, "model": "acme/model-7b"})
    assert fix is not None
    assert fix.run == ["vllm serve acme/model-7b …  # without --enable-lora"]


def test_without_a_setting_there_is_nothing_to_look_at() -> None:
    assert settings.fix_of({"part": "sampling"}, {}) is None
    assert (
        diagnose_text("RuntimeError: odd\n", Rulebook())
        .diagnoses[0]
        .fixes[0]
        .do.startswith("Look for the same")
    )
