"""Fixes: filled in with facts, dropped where a fact is unknown, printed in the form the user runs."""

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vdiag.advise import facts_of, fill, form, placeholders
from vdiag.model import Fix
from vdiag.rulebook.schema import FixRule, Rule


def rule(*fixes: FixRule, title: str = "It broke", why: str = "", avoid: list[str] | None = None) -> Rule:
    return Rule(id="r", title=title, why=why, fixes=list(fixes), avoid=avoid or [])


def fixes(fix: FixRule, captures: dict[str, Any] | None = None, **context: Any) -> list[Fix]:
    return fill(rule(fix), captures or {}, context)[2]


SHORTER = FixRule(
    do="Serve a shorter context", set={"max_model_len": "{fitting_len}"}, only_if=["fitting_len"]
)
KV = {"max_len": 131072, "need_gib": 16.0, "have_gib": 4.95}


def test_an_argument_is_filled_in_and_printed_as_a_command() -> None:
    (fix,) = fixes(SHORTER, KV, model="acme/model-7b")
    assert fix.run == ["vllm serve acme/model-7b … --max-model-len 40080"]


def test_a_fix_without_its_fact_is_not_offered() -> None:
    assert fixes(SHORTER, {}) == []
    assert fixes(FixRule(do="Use {unheard_of}")) == []
    assert fixes(FixRule(do="x", note="costs {unheard_of}")) == []


def test_sentences_without_their_fact_are_left_out() -> None:
    text = "It needs {need_gib} GiB. There are {have_gib} GiB left, e.g. less than {lost}. So it stops."
    title, why, _, avoid = fill(
        rule(title="{need_gib} GiB of {lost}", why=text, avoid=["{lost}", "a"]), KV, {}
    )
    assert title == "16 GiB of …"
    assert why == "It needs 16 GiB. So it stops."
    assert avoid == ["a"]


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("The kernel killed {comm} (pid {pid}): no memory", "The kernel killed a process: no memory"),
        ("{comm} (pid {pid}) crashed in {library}", "A process crashed in …"),
        ("A folder is missing: {path}", "A folder is missing"),
        ("It needs {need_gib} (of {max_len})", "It needs 16 (of 131072)"),
    ],
)
def test_a_title_stands_without_its_facts(title: str, shown: str) -> None:
    assert fill(rule(title=title), KV, {})[0] == shown


def test_braces_of_json_shell_and_go_templates_stay() -> None:
    lines = [
        'a \'{"image": {"count": 0}}\'',
        "echo ${HOME} ${max_len}",
        "docker inspect -f '{{.State}}' {{max_len}}",
    ]
    (fix,) = fixes(FixRule(do="x", run=lines), KV)
    assert fix.run == lines


def test_conditions() -> None:
    for condition, holds in [
        ("max_len", True),
        ("not max_len", False),
        ("max_len=131072", True),
        ("not max_len=131072", False),
        ("deploy=systemd", True),
        ("deploy=docker", False),
        ("not lost", True),
        ("enforce_eager", False),
    ]:
        offered = fixes(
            FixRule(do="x", only_if=[condition]), KV, deploy="systemd", args={"enforce_eager": False}
        )
        assert bool(offered) is holds, condition


@pytest.mark.parametrize(
    ("vllm", "since", "until", "offered"),
    [
        (None, "0.9", "0.10", True),
        ("0.11.0", "0.8", "", True),
        ("0.6.6.post1", "0.8", "", False),
        ("0.13.2", "", "0.13", True),
        ("0.14.0", "", "0.13", False),
        ("0.11", "0.11.0", "", True),
        ("0.11.1rc2.dev3+gabc", "", "0.11.1", True),
    ],
)
def test_version_bounds(vllm: str | None, since: str, until: str, offered: bool) -> None:
    assert bool(fixes(FixRule(do="x", since=since, until=until), vllm=vllm)) is offered


def test_an_argument_the_version_does_not_take_is_not_offered() -> None:
    fix = FixRule(do="x", set={"async_scheduling": True})
    assert fixes(fix, vllm="0.6.6.post1") == []
    assert fixes(fix, vllm="0.17.1")
    assert fixes(FixRule(do="x", set={"of_a_plugin": 1}), vllm="0.17.1")


def test_values_in_commands_are_quoted_against_strangers() -> None:
    evil = "x; rm -rf ~ $(id) `id`"
    (fix,) = fixes(FixRule(do="x", run=["ls {path}"]), {"path": evil})
    assert shlex.split(fix.run[0]) == ["ls", evil]
    assert fixes(FixRule(do="x", run=["echo '{path}'"]), {"path": "a'; id; '"}) == []
    assert fixes(FixRule(do="x", run=['echo "{path}"']), {"path": "$(id)"}) == []
    assert fixes(FixRule(do="x", run=["ls {path}"]), {"path": "a\nid"}) == []


@given(st.text(max_size=40))
def test_no_capture_escapes_its_word(value: str) -> None:
    for fix in fixes(FixRule(do="x", run=["ls {path} end"]), {"path": value}):
        words = shlex.split(fix.run[0])
        assert words == ["ls", value, "end"]


CHANGE: dict[str, Any] = {"max_model_len": 4096, "enforce_eager": True, "hf_overrides": {"a": [1, 2]}}


def lines(deploy: str, **context: Any) -> list[str]:
    return form.change(CHANGE, ["swap_space"], {"X": "a b"}, {"deploy": deploy, "model": "acme/m", **context})


def test_command_line() -> None:
    assert lines("cli") == [
        "export X='a b'",
        "vllm serve acme/m … --max-model-len 4096 --enforce-eager --hf-overrides '{\"a\": [1, 2]}'"
        "  # without --swap-space",
    ]


def test_systemd_unit() -> None:
    assert lines("systemd", unit="vllm@a.service") == [
        "sudo systemctl edit vllm@a",
        "# put these lines into the editor:",
        "[Service]",
        'Environment="X=a b"',
        "sudo systemctl edit --full vllm@a",
        "# add at the end of the ExecStart= command:",
        '--max-model-len 4096 --enforce-eager --hf-overrides "{\\"a\\": [1, 2]}"',
        "# take out of the ExecStart= command: --swap-space",
        "# then:",
        "sudo systemctl restart vllm@a",
    ]


def test_a_strange_unit_name_is_not_put_into_a_command() -> None:
    assert "sudo systemctl restart <unit>" in lines("systemd", unit="a; id")


def test_docker() -> None:
    (line,) = form.change({"shm": "1g"}, [], {"X": "1"}, {"deploy": "docker"})
    assert line == "docker run -e X=1 … <image> … --shm 1g"


def test_compose_and_kubernetes_are_yaml() -> None:
    import yaml

    compose = yaml.safe_load("\n".join(lines("compose")[:-2]))
    assert compose["command"] == ["--max-model-len=4096", "--enforce-eager", '--hf-overrides={"a": [1, 2]}']
    assert compose["environment"] == {"X": "a b"}
    pod = yaml.safe_load("\n".join(lines("kubernetes")[:-2]))
    assert pod["args"] == compose["command"]
    assert pod["env"] == [{"name": "X", "value": "a b"}]


def test_python() -> None:
    assert form.change({"max_model_len": 4096}, [], {}, {"deploy": "python", "model": "acme/m"}) == [
        "LLM('acme/m', …, max_model_len=4096)"
    ]


def test_lists_are_words_and_false_negates() -> None:
    changed = {"served_model_name": ["a", "b"], "enable_prefix_caching": False, "allowed_origins": ["*"]}
    assert form.words(changed) == [
        "--served-model-name", "a", "b", "--no-enable-prefix-caching", "--allowed-origins", '["*"]'
    ]  # fmt: skip


def test_another_model_takes_the_place_of_the_first() -> None:
    assert form.change({"model": "acme/small"}, [], {}, {"model": "acme/big"}) == ["vllm serve acme/small …"]


def test_facts_of_lists_captures_and_what_texts_ask_for() -> None:
    asked = rule(SHORTER, why="{tp} cards")
    assert facts_of(asked, KV, {}) == {**KV, "fitting_len": 40080}
    assert placeholders(asked) == {"fitting_len", "tp"}


@pytest.mark.parametrize(
    ("written", "port", "shown"),
    [
        ("curl -s http://localhost:8000/v1/models", 9000, "curl -s http://localhost:9000/v1/models"),
        ("curl -s 127.0.0.1:8000/health", 9000, "curl -s 127.0.0.1:9000/health"),
        ("curl -s http://localhost:8000/health", None, "curl -s http://localhost:8000/health"),
        ("curl -s http://localhost:8000/health", "9000; reboot", "curl -s http://localhost:8000/health"),
        ("curl -s http://localhost:80001/", 9000, "curl -s http://localhost:80001/"),
        ("docker run -p 8000:8000 img", 9000, "docker run -p 8000:8000 img"),
    ],
)
def test_a_command_asks_the_server_at_its_port(written: str, port: Any, shown: str) -> None:
    (fix,) = fixes(FixRule(do="Ask it", run=[written]), {"port": 29500}, args={"port": port})
    assert fix.run == [shown]
