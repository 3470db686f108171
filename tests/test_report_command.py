"""`vdiag report` as a command: what it reads, where it writes, how it exits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from logtext import sample
from test_cli_diagnose import World
from vdiag.model import Diagnosis, Fix, Fixed, Report, Severity, Verdict
from vdiag.pipeline import diagnose_text
from vdiag.render import bugform
from vdiag.render.bugform import Whose, advice, whose
from vdiag.render.quoted import BEFORE
from vdiag.rulebook.shipped import shipped

KV = "samples/kv-cache-too-small.log"


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VDIAG_RULES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")


# ---- reading, writing, exit status ---------------------------------------------------------------------------


def test_a_written_report_is_success_whatever_it_says() -> None:
    for log in (KV, "samples/healthy-busy.log", "samples/only-the-trailer.log"):
        assert World().run("report", log) == 0


@pytest.mark.parametrize(
    ("log", "least", "status"),
    [(KV, "fatal", 1), ("samples/healthy-busy.log", "client", 0), ("samples/only-the-trailer.log", "fatal", 3),
     ("samples/real-healthy-with-client-404.log", "fatal", 0), ("samples/real-healthy-with-client-404.log", "client", 1)],
)  # fmt: skip
def test_with_fail_on_it_exits_as_vdiag_does(log: str, least: str, status: int) -> None:
    world = World()
    assert world.run("report", "--fail-on", least, log) == status
    assert world.printed


def test_standard_input_is_read_twice() -> None:
    text = sample("kv-cache-too-small").text
    world = World(text.encode())
    assert world.run("report") == 0
    assert "`<stdin>:47`" in world.printed
    assert "> 47 | " in world.printed
    assert "  46 | " in world.printed


def test_without_a_log_the_terminal_is_not_waited_for() -> None:
    world = World(terminal=True)
    assert world.run("report") == 2
    assert "nothing to read" in world.err.getvalue()


def test_only_the_time_asked_for_is_reported() -> None:
    world = World()
    assert world.run("report", "--until", "2026-09-14 07:42:00", KV) == 0
    assert "Diagnosed" not in world.printed


def test_what_could_be_read_is_reported_and_the_fault_is_said(tmp_path: Path) -> None:
    world = World()
    assert world.run("report", KV, str(tmp_path / "none.log")) == 2
    assert "Diagnosed" in world.printed
    assert "none.log: no such file" in world.err.getvalue()


def test_a_rotated_log_shows_the_lines_of_each_file(tmp_path: Path) -> None:
    rows = sample("kv-cache-too-small").lines
    old, new = tmp_path / "vllm.log.1", tmp_path / "vllm.log"
    old.write_text("\n".join(rows[:60]) + "\n", encoding="utf8")
    new.write_text("\n".join(rows[60:]) + "\n", encoding="utf8")
    world = World()
    assert world.run("report", "--no-redact", str(new), str(old)) == 0  # which keeps the names of folders
    assert f"`{old}:47`" in world.printed
    assert "> 47 | " in world.printed
    assert f"`{new}:66` in" in world.printed  # line 126 of both
    assert "> 66 | " in world.printed


def test_the_report_goes_into_a_file(tmp_path: Path) -> None:
    printed, world = World(), World()
    printed.run("report", KV)
    out = tmp_path / "report.md"
    assert world.run("report", KV, "-o", str(out)) == 0
    assert not world.printed
    assert out.read_text(encoding="utf8") == printed.printed


def test_a_dash_is_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, world = World(planted()), World(planted())
    printed.run("report")
    monkeypatch.chdir(tmp_path)
    assert world.run("report", "-o", "-") == 0
    assert world.printed == printed.printed
    assert not list(tmp_path.iterdir())


def test_a_log_is_not_overwritten(tmp_path: Path) -> None:
    log = tmp_path / "vllm.log"
    log.write_text("a log\n", encoding="utf8")
    world = World()
    assert world.run("report", str(log), "-o", f"{tmp_path}/./vllm.log") == 2
    assert log.read_text(encoding="utf8") == "a log\n"


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    world = World()
    assert world.run("report", KV, "-o", str(tmp_path / "none" / "report.md")) == 2
    assert "No such file" in world.err.getvalue()


def test_json_is_the_report_of_vdiag_itself() -> None:
    asked, plain = World(), World()
    asked.run("report", "--no-redact", "--format", "json", KV)
    plain.run("--format", "json", KV)
    assert json.loads(asked.printed) == json.loads(plain.printed)


def test_a_form_is_markdown() -> None:
    world = World()
    assert world.run("report", "--for", "vllm", "--format", "html", KV) == 2
    assert "--format" in world.err.getvalue()


# ---- redaction -----------------------------------------------------------------------------------------------

KEY_ROWS = [f"{i:02d}" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2 for i in range(40)]
SECRETS = {
    "hf-token": "hf_" + "QwErTyUiOpAsDfGhJkLzXcVbNm0123",
    "openai-key": "sk-proj-" + "Ab3dEf6hIj9lMn2pQr5tUv8x" * 2,
    "github-token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "password": "tr0ub4dor-and-3",
    "email": "jane.roe@corp.example.com",
    "user": "jroe77",
    "host": "zeus-gpu-17",
    "ip": "10.77.88.99",
    "mac": "3c:ec:ef:12:34:56",
    "gpu-uuid": "GPU-7f3c2b1a-1111-2222-3333-444455556666",
    "prompt": "my landlord is suing me",
}


def planted() -> bytes:
    """An unknown failure with every kind of secret before, in and behind its line."""
    own = (
        f"token={SECRETS['hf-token']} OPENAI_API_KEY={SECRETS['openai-key']} url=https://bob:{SECRETS['password']}@x.org/ "
        f"{SECRETS['github-token']} mail {SECRETS['email']} from {SECRETS['ip']} {SECRETS['mac']} {SECRETS['gpu-uuid']} "
        f"/home/{SECRETS['user']}/models"
    )
    head = f"Sep 14 07:42:47 {SECRETS['host']} vllm[48210]: "
    said = "(EngineCore_DP0 pid=9) ERROR 09-14 07:42:47 [core.py:708] "
    rows = [
        f"(APIServer pid=7) INFO 09-14 07:42:01 [utils.py:233] non-default args: {{'api_key': ['{SECRETS['password']}']}}",
        f"(APIServer pid=7) INFO 09-14 07:42:02 [logger.py:39] Received request cmpl-1: prompt: '{SECRETS['prompt']}', "
        "params: SamplingParams(n=1), prompt_token_ids: [1, 2, 3], lora_request: None.",
        "-----BEGIN PRIVATE KEY-----",
        *KEY_ROWS,
        "-----END PRIVATE KEY-----",
        f"{said}EngineCore failed to start.",
        f"{said}Traceback (most recent call last):",
        f'{said}  File "/home/{SECRETS["user"]}/x.py", line 5, in run',
        f"{said}    spin({own})",
        f"{said}RuntimeError: the wheels came off: {own}",
        "(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}",
    ]
    return "\n".join(head + row for row in rows).encode() + b"\n"


def leaked(text: str) -> list[str]:
    return [kind for kind, value in SECRETS.items() if value in text] + [
        row for row in KEY_ROWS if row in text
    ]


OUTPUTS = [("--format", "markdown"), ("--format", "json"), ("--format", "github"), ("--for", "vllm")]


@pytest.mark.parametrize("output", OUTPUTS, ids="-".join)
@pytest.mark.parametrize("rules", [(), ("--rules", "none")], ids=["known", "unknown"])
def test_no_secret_leaves_by_any_output(output: tuple[str, ...], rules: tuple[str, ...]) -> None:
    world = World(planted())
    assert world.run("report", *output, *rules) == 0
    assert leaked(world.printed + world.err.getvalue()) == []
    assert "the wheels came off" in world.printed


def test_what_a_named_file_is_called_is_redacted_too(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "jroe77"
    folder.mkdir(parents=True)
    log = folder / "vllm.log"
    log.write_bytes(planted())
    world = World()
    assert world.run("report", str(log), str(folder / "none.log")) == 2
    assert leaked(world.printed + world.err.getvalue()) == []
    assert re.search(r"^> 49 \| ", world.printed, re.MULTILINE), (
        "the lines are found under the file's real name"
    )


def test_a_key_whose_beginning_is_not_shown_is_no_less_a_key() -> None:
    """The lines around the cause begin inside the key."""
    rows = planted().splitlines()
    end = next(number for number, row in enumerate(rows) if b"END PRIVATE" in row)
    rows[end + 1 : end + 1] = [b"Sep 14 07:42:40 x vllm[48210]: INFO calm"] * (BEFORE - 20)
    world = World(b"\n".join(rows))
    assert world.run("report") == 0
    assert leaked(world.printed) == []
    assert "END PRIVATE" not in world.printed
    assert "<private-key-1>" in world.printed


def test_what_was_replaced_is_counted_and_named_alike() -> None:
    world = World(planted())
    world.run("report")
    assert re.search(r"Redacted, by kind of value: .*\b1 email\b", world.printed)
    shown = [row for row in world.printed.splitlines() if "mail " in row and "the wheels came off" in row]
    assert len({row.split("mail ")[1].split(" ")[0] for row in shown}) == 1
    assert len(shown) > 1


def test_the_owner_keeps_the_map(tmp_path: Path) -> None:
    world = World(planted())
    assert world.run("report", "--redact-map", str(tmp_path / "map.json")) == 0
    assert SECRETS["email"] in json.loads((tmp_path / "map.json").read_text(encoding="utf8")).values()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("--api-key topsecret --port 8000", '--api-key "<api key>" --port 8000'),
        ("--api-key=topsecret", '--api-key="<api key>"'),
        ("--api-key topsecret another", '--api-key "<api key>"'),
        ("--hf-token 'topsecret word'", '--hf-token "<hf token>"'),
        ("--max-num-batched-tokens 8192", "--max-num-batched-tokens 8192"),
        ("--api-key $VLLM_API_KEY", "--api-key $VLLM_API_KEY"),
    ],
)
def test_the_environment_tells_no_keys_of_the_command(said: str, shown: str) -> None:
    rows = sample("kv-cache-too-small").text.split("\n")
    text = "\n".join(row for row in rows if "non-default args" not in row)  # it was given others
    report = diagnose_text(f"ExecStart=/opt/vllm/bin/vllm serve acme/model-7b {said}\n{text}", shipped())
    assert report.environment.command == f"/opt/vllm/bin/vllm serve acme/model-7b {shown}"


def test_without_redaction_the_log_is_quoted_and_the_report_says_so(tmp_path: Path) -> None:
    world = World(planted())
    assert world.run("report", "--no-redact") == 0
    assert SECRETS["email"] in world.printed
    assert "Not redacted" in world.printed
    assert World(planted()).run("report", "--no-redact", "--redact-map", str(tmp_path / "map.json")) == 2


def test_an_annotation_keeps_the_path_in_the_workspace(tmp_path: Path) -> None:
    log = tmp_path / "home" / "jroe77" / "logs" / "zeus-gpu-17.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(planted())
    world = World(GITHUB_WORKSPACE=str(log.parent.parent))
    world.run("report", "--format", "github", str(log))
    assert "file=logs/zeus-gpu-17.log," in world.printed


@pytest.mark.parametrize(
    "folder", ["jane.roe@zeus-mail.com", "hf" + "_" + "Qq3wE5rT7yU9iO1pA2sD4fG6hJ8kL0zXcV"]
)
def test_an_annotation_tells_no_secret_by_its_path(folder: str, tmp_path: Path) -> None:
    log = tmp_path / folder / "server.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(planted())
    world = World(GITHUB_WORKSPACE=str(tmp_path))
    world.run("report", "--format", "github", str(log))
    assert "server.log" in world.printed
    assert folder not in world.printed


# ---- vLLM's form -----------------------------------------------------------------------------------------------


def told(name: str, *, rules: bool = True) -> Report:
    from vdiag.rulebook import Rulebook

    return diagnose_text(sample(name).text, shipped() if rules else Rulebook())


@pytest.mark.parametrize(
    ("name", "rules", "kind", "word"),
    [
        ("kv-cache-too-small", True, Whose.OWN, "Do not file before you have tried it"),
        ("kv-cache-too-small", False, Whose.UNKNOWN, "may be a bug of vLLM"),
        ("only-the-trailer", True, Whose.CUT_OFF, "Do not file yet"),
        ("healthy-busy", True, Whose.NOTHING, "nothing failed"),
        ("starting-cuda-graphs", True, Whose.STARTING, "If it hangs there, say for how long"),
    ],
)
def test_it_says_whether_to_file(name: str, rules: bool, kind: Whose, word: str) -> None:
    report = told(name, rules=rules)
    assert whose(report) is kind
    assert word in advice(report)
    assert word in bugform.render(report, {}).split("\n---\n")[0]


def test_a_known_failure_is_not_said_to_be_no_bug() -> None:
    """Some rules name a fault of vLLM itself, with a way round it."""
    books = Diagnosis(
        "acme-books",
        "The books contradict each other, a fault of vLLM itself",
        0.97,
        Severity.FATAL,
        "a.log",
        1,
        "",
    )
    books.fixes = [Fix(do="Switch prefix caching off")]
    report = told("kv-cache-too-small")
    report.diagnoses = [books]
    assert whose(report) is Whose.OWN
    assert "not a bug" not in advice(report)
    assert "Switch prefix caching off" in advice(report)


@pytest.mark.parametrize(
    ("has_fix", "word"),
    [(True, "Your version has that fix"), (False, "Upgrade acme to 1.2"), (None, "There it is")],
)
def test_a_known_bug_is_not_filed_again(has_fix: bool | None, word: str) -> None:
    report = told("kv-cache-too-small")
    report.diagnoses[0].upstream = [
        Fixed(
            "acme/acme#5",
            "https://github.com/acme/acme/issues/5",
            "acme",
            "1.2",
            None,
            has_fix,
            "There it is",
        )
    ]
    assert whose(report) is Whose.UPSTREAM
    assert "Do not file another one" in advice(report)
    assert word in advice(report)
    assert "(https://github.com/acme/acme/issues/5)" in bugform.render(report, {})


def test_a_doubtful_cause_is_to_be_ruled_out_first() -> None:
    report = told("kv-cache-too-small")
    report.diagnoses[0].confidence = 0.6
    assert whose(report) is Whose.DOUBTFUL
    assert "Rule that out first" in advice(report)


def test_the_reporter_is_told_on_standard_error_too() -> None:
    world = World()
    world.run("report", "--for", "vllm", KV)
    assert "This failure is known" in world.err.getvalue()


def test_the_form_has_its_sections_in_order_with_the_traceback() -> None:
    world = World()
    world.run("report", "--for", "vllm", KV)
    form = world.printed.split("\n---\n")[1]
    places = [form.index(f"\n### {title}") for title in (
        "Your current environment", "🐛 Describe the bug", "Before submitting a new issue...",
    )]  # fmt: skip
    assert places == sorted(places)
    assert "- vLLM: `0.11.0`" in form[: places[1]]
    assert "collect_env.py" in form[: places[1]]
    assert "Traceback (most recent call last)" in form[places[1] : places[2]]


def test_duplicates_are_looked_for_by_message_and_by_fingerprint() -> None:
    report = told("kv-cache-too-small")
    text = bugform.render(report, {})
    assert "q=is%3Aissue+ValueError+To+serve+at+least+one+request" in text
    assert f"q=is%3Aissue+{report.diagnoses[0].fingerprint}" in text
    assert f"`{report.diagnoses[0].fingerprint}`" in text.split("\n---\n")[1]


def test_the_reporter_is_told_how_to_get_what_is_cut_off() -> None:
    before, _ = bugform.render(told("only-the-trailer"), {}).split("\n---\n")
    assert "journalctl -u <unit> -b --no-pager | vdiag" in before
    assert "journalctl -k -b --no-pager > kernel.log" in before
    assert "what you expected" not in before  # it is not to be filed


def test_the_form_leaves_to_the_operator_what_a_setting_would_change() -> None:
    before, form = bugform.render(told("kv-cache-too-small"), {}).split("\n---\n")
    assert "The memory budget" in form
    assert "What would change it" not in form
    assert "--kv-cache-dtype fp8" in before
    assert "what you expected" in before


def test_an_unknown_failure_is_searched_by_its_message() -> None:
    report = told("kv-cache-too-small", rules=False)
    assert report.verdict is Verdict.UNRECOGNISED
    assert f"({report.diagnoses[0].search})" in bugform.render(report, {})
