"""What redaction takes out, and what it must leave: each kind in each form in which it stands in logs.

Secrets are put together when the test runs, so that no scanner takes this file for a leak.
"""

from __future__ import annotations

import re
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdiag.redact import Redactor
from vdiag.redact.book import KINDS, is_pseudonym

ALNUM = "Zx9qW3eR7tY1uI5oP8aS2dF6gH4jK0lMnBvC"
HEX = "9f3ac07be1d24856" * 4

TOKENS = {
    "hugging face": ("hf", "_", ALNUM[:34]),
    "openai": ("sk", "-", ALNUM + "T3Blbk" + ALNUM[:12]),
    "openai project": ("sk", "-proj-", ALNUM + "_" + ALNUM[:20]),
    "anthropic": ("sk", "-ant-api03-", ALNUM + "-" + ALNUM[:20]),
    "aws": ("AK", "IA", "Q7ZX3LMN5PRT9VWY"),
    "aws session": ("AS", "IA", "Q7ZX3LMN5PRT9VWY"),
    "github": ("gh", "p_", ALNUM[:36]),
    "github app": ("gh", "s_", ALNUM[:36]),
    "github fine-grained": ("github", "_pat_", ALNUM[:22] + "_" + ALNUM),
    "gitlab": ("gl", "pat-", ALNUM[:20]),
    "google": ("AI", "za", ALNUM[:35]),
    "google oauth": ("ya", "29.", ALNUM),
    "slack": ("xo", "xb-", "123456789012-" + ALNUM[:24]),
    "npm": ("np", "m_", ALNUM),
    "pypi": ("py", "pi-", "AgEIcHlwaS5vcmc" + ALNUM * 2),
    "nvidia": ("nv", "api-", ALNUM * 2),
    "jwt": ("ey", "J", "hbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0." + ALNUM),
    "stripe": ("sk", "_live_", ALNUM[:24]),
}
PLACES = [
    "{}", "see {} there", "'{}'", '"{}"', "({})", "token is {}.", "https://host.example.com/x?a={}&b=1", "x={};y", r"a\n{}\nb", "[{}]", "Bearer%20{}",
    "https://{}@github.com/x/y.git", "\x1b[31m{}\x1b[0m", r"\u001b[31m{}\u001b[0m", r"token\u003d{}\u0026", r"x\x3d{}",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_told_by_its_form_wherever_it_stands(kind: str, place: str) -> None:
    token = "".join(TOKENS[kind])
    line = place.format(token)
    made = Redactor().text(line)
    assert token not in made
    assert token[6:] not in made
    assert Redactor().bytes(line.encode()).decode() == made


NAMES = ["HF_TOKEN", "VLLM_API_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "WANDB_API_KEY", "DB_PASSWORD", "CLIENT_SECRET", "api_key",
         "apikey", "password", "passwd", "secret", "access_key", "private_key", "client_secret", "hf_token", "credentials", "apiKey", "x-api-key"]  # fmt: skip
FORMS = [
    "{n}={v}", "{n}='{v} {w}'", '{n}="{v}"', "export {n}={v}", "-e {n}={v} -p 80:80", '-e "{n}={v} {w}"', 'Environment="{n}={v}"', "Environment={n}={v}",
    "{{'{n}': ['{v}', '{w}'], 'port': 1}}", "Namespace({n}=['{v}'], port=8000)", "Config({n}='{v}', port=1)", '{{"{n}": "{v}"}}', r'{{\"{n}\": \"{v}\", \"a\": 1}}',
    '{{"name": "{n}", "value": "{v}"}}', "- name: {n}\n  value: {v}", "- name: {n}\n  value: '{v}'", '"Env": ["{n}={v}", "PATH=/bin"]', "{n}: {v}", "  {n}:  {v}", "?{n}={v}&x=1",
    "curl -H '{n}: {v}' http://localhost", "('{n}', '{v}')", "(b'{n}', b'{v}')", 'os.environ["{n}"] = "{v}"', "ENV {n} {v}", "{n} = {v}", "{n} => {v}", "| {n} | {v} |", "{n} set to {v}", "{n} -> {v}", "{n}  =  {v}", "<{n}>{v}</{n}>",
    "INFO 11-29 11:44:33 [x.py:1] non-default args: {{'{n}': '{v}'}}", "{n}=SecretStr('{v}')", "[('{n}', '{v}')]",
    "\x1b[32m'{n}'\x1b[0m: [\x1b[33m'{v}'\x1b[0m]", "{n}=\x1b[33m{v}\x1b[0m", r"{n}\u003d{v}", r"{n}\x3d{v}", "│ {n} │ {v} │",
    "1 validation error for S\n{n}\n  Input should be x [type=y, input_value='{v}', input_type=str]",
]  # fmt: skip
OPTIONS = [
    "vllm serve m --{n} {v} {w} --port 8000", "vllm serve m --{n}={v}", "ExecStart=/usr/bin/vllm serve m --{n} {v}", "vllm serve m --{n} '{v} {w}'", "--{n} {v}",
    "docker run img --{n} {v} {w}", "args:\n  - --{n}\n  - {v}", "      --{n}\n      {v}", "vllm serve m \\\n  --{n} \\\n  {v}", "--{n}\0{v}", "python -m vllm.entrypoints.openai.api_server --{n} {v} \\",
]  # fmt: skip


def values() -> tuple[str, str]:
    return "Tr0ub4dor" + "-x9", "corr3ct" + "horse"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_what_a_secret_name_is_given_goes(name: str, form: str) -> None:
    v, w = values()
    line = form.format(n=name, v=v, w=w)
    made = Redactor().text(line)
    assert v not in made, made
    assert w not in made, made
    assert name in made
    assert made.count("\n") == line.count("\n")
    assert Redactor().bytes(line.encode()).decode() == made


@pytest.mark.parametrize("form", OPTIONS)
@pytest.mark.parametrize("name", ["api-key", "api_key", "hf-token", "hf_token"])
def test_what_an_option_is_given_goes(name: str, form: str) -> None:
    v, w = values()
    made = Redactor().text(form.format(n=name, v=v, w=w))
    assert v not in made, made
    assert w not in made, made


@pytest.mark.parametrize(
    "form",
    [
        "Incorrect API key provided: {}.",
        "got api key '{}'",
        "password is {}",
        "sshpass -p {} ssh x",
        "bearer {}",
        "machine h login me password {}",
        "docker login -u me -p {} registry.corp.lan",
        "wandb login {}",
        "API key: {}",
        "Using API key {} now",
        "argument --api-key: invalid value: '{}'",
        'proxy_set_header Authorization "Bearer {}";',
    ],
)
def test_what_a_sentence_says_of_a_secret_goes(form: str) -> None:
    v, _ = values()
    assert v not in Redactor().text(form.format(v))


@pytest.mark.parametrize("token", ["hugging face", "openai", "github", "aws"])
def test_a_token_in_base64_and_a_token_cut_short_go(token: str) -> None:
    value = "".join(TOKENS[token])
    coded = b64encode(value.encode()).decode()
    assert coded[:20] not in Redactor().text(f"data: {coded}")
    assert value[:12] not in Redactor().text(f"input_value='{value[:14]}...{value[-4:]}', input_type=str")


@pytest.mark.parametrize("cut", [3, 8, 10])
def test_a_value_torn_by_the_width_of_a_terminal_goes_whole(cut: int) -> None:
    v, _ = values()
    before = "INFO 11-29 11:44:33 [api_utils.py:286] non-default args: {'api_key': ['"
    text = f"{before}{v[:cut]}\n{v[cut:]}'], 'port': 8000}}\nnext {v}\n"
    for made in (Redactor().text(text), Redactor().bytes(text.encode()).decode()):
        assert v[cut:] not in made, made
        assert made.count("<secret-1>") == 2, made
        assert made.count("\n") == text.count("\n")


def test_other_values_that_are_torn_stay_torn() -> None:
    text = "INFO 11-29 11:44:33 [api_utils.py:286] non-default args: {'model': '/srv/mod\nels/x', 'port': 8000}\n"
    assert Redactor().text(text) == text


def test_an_encoded_picture_goes() -> None:
    assert "iVBORw0K" not in Redactor().text("{'url': 'data:image/png;base64,iVBORw0KGgoAAAANSUhEUg=='}")


def test_a_value_that_is_left_in_place_is_not_counted() -> None:
    redactor = Redactor()
    redactor.text("#token: 210345, token usage: 0.61")
    assert redactor.counts() == {}


def test_short_and_ordinary_words_are_secrets_too_where_a_command_gives_them() -> None:
    made = Redactor().text("vllm serve m --api-key hunter zebra --port 8000")
    assert "hunter" not in made
    assert "zebra" not in made
    assert made.endswith("--port 8000")


HEADERS = [
    "Authorization: Bearer {v}", "authorization: Basic {v}", "{{'authorization': 'Bearer {v}'}}", "(b'authorization', b'Bearer {v}')", "Cookie: sid={v}; b={w}",
    "Set-Cookie: sid={v}; Path=/", "-H 'Authorization: Bearer {v}'", '-H "Cookie: a={v}"', "> Proxy-Authorization: Basic {v}", "Authorization: {v}",
    r'"headers": "{{\"Authorization\": \"Bearer {v}\"}}"', r"Authorization: Bearer {v}\r\nAccept: x",
]  # fmt: skip


@pytest.mark.parametrize("form", HEADERS)
def test_headers_that_log_in_go(form: str) -> None:
    v, w = values()
    made = Redactor().text(form.format(v=v, w=w))
    assert v not in made, made
    assert w not in made, made


ADDRESSES = {
    "user in an address": ("postgres://{}:pw123456@db.corp.lan:5432/x", "jdoe"),
    "password in an address": ("https://jdoe:{}@git.corp.lan/x", "s3cr3t/w@rd"),
    "e-mail": ("mail from {} came", "jane.doe@corp-mail.com"),
    "ipv4": ("connection from {}:4242", "10.20.30.40"),
    "public ipv4": ("peer {} closed", "203.0.113.77"),
    "ipv6": ("listen on [{}]:80", "2001:db8:12::7"),
    "full ipv6": ("addr {}", "fd12:3456:789a:1:2:3:4:5"),
    "mac": ("link/ether {} brd ff:ff:ff:ff:ff:ff", "3c:ec:ef:12:ab:90"),
    "gpu": ("GPU 0: (UUID: {})", "GPU-1a2b3c4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d"),
    "mig": ("device {}", "MIG-1a2b3c4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d"),
    "serial": ("    Serial Number                         : {}", "1652922012345"),
    "machine": ('"_MACHINE_ID":"{}"', "0123456789abcdef0123456789abcdef"),
    "boot": ("Boot ID: {}", "0123456789abcdef0123456789abcdef"),
    "account": ("arn:aws:iam::{}:role/x", "123456789012"),
    "home": ('File "/home/{}/x.py", line 3', "jdoe"),
    "mac home": ("/Users/{}/models", "jdoe"),
    "windows home": (r"C:\Users\{}\x", "jdoe"),
    "data home": ("/data/home/{}/x", "jdoe"),
    "prompt user": ("{}@gpubox:~/x$ ls", "jdoe"),
    "prompt host": ("jdoe@{}:~/x$ ls", "gpubox7"),
    "env user": ("USER={}", "jdoe"),
    "sudo": ("sudo:     {} : TTY=pts/0", "jdoe"),
    "pam": ("session opened for user root(uid=0) by {}(uid=1000)", "jdoe"),
    "syslog": ("Nov 29 11:02:52 {} vllm[12]: x", "gpubox7"),
    "iso syslog": ("2026-11-29T11:02:52+0000 {} vllm[12]: x", "gpubox7"),
    "journal json": ('{{"_HOSTNAME":"{}"}}', "gpubox7"),
    "store": ("TCPStore(host={}, port=29500)", "gpubox7"),
    "master": ("--master-addr {} --nnodes 2", "gpubox7"),
    "url host": ("http://{}:8000/v1", "gpubox7"),
    "private name": ("cannot reach {} now", "gpubox7.rack2.corp.lan"),
    "aws name": ("at {}", "ip-10-1-2-3.ec2.internal"),
    "kubernetes": ("Successfully assigned default/vllm-0 to {}", "gpubox7"),
    "slurm": ("srun: error: {}: task 0: Exited with exit code 1", "gpubox7"),
    "step": ("slurmstepd: error: *** STEP 1.0 ON {} CANCELLED AT x", "gpubox7"),
    "ssh": ("ssh: connect to host {} port 22: No route", "gpubox7"),
    "nginx": ("client: 10.2.3.4, server: {}, request: x", "llm.zephyrcorp.com"),
    "rfc 5424": ("<13>1 2026-11-29T11:02:52Z {} vllm 12 - - x", "gpubox7"),
    "journal with zone": ("Sat 2026-11-29 11:02:52 UTC {} vllm[1]: x", "gpubox7"),
    "listing": ("drwxr-xr-x 2 {} staff 4096 Nov 29 x", "jdoe"),
    "escaped home": ("x=%2Fhome%2F{}%2Fy", "jdoe"),
    "missing file": ("OSError: {}/m does not appear to have a file named config.json", "zephyrcorp"),
    "registry": ("image: registry.{}.com/vllm:1", "zephyrcorp"),
    "organisation": ("model='{}/model-7b'", "zephyrcorp"),
    "served": ("vllm serve {}/model-7b --port 1", "zephyrcorp"),
    "users": ("/data/users/{}/x", "jdoe"),
    "domain's home": ("/home/CORP/{}/x", "jdoe"),
    "name with a space": (r"C:\Users\Jane {}\x", "Doe"),
    "name with an accent": ("/home/{}/x", "jürgen"),
    "compile cache": ("/tmp/torchinductor_{}/ab", "jdoe"),
    "cron": ("CRON[1]: ({}) CMD (x)", "jdoe"),
    "session": ("New session 3 of user {}.", "jdoe"),
    "login": ("wandb: Currently logged in as: {} (team)", "jdoe"),
    "quoted user": ("'user': '{}'", "jdoe"),
    "group": ("drwxr-x--- 2 root {} 4096 Nov 29 x", "jdoe"),
    "escaped e-mail": ("x=jane.doe%40{}&y", "corp-mail.com"),
    "e-mail in json": (r"jane.doe\u0040{}", "corp-mail.com"),
    "nccl": ("{}:71:71 [0] NCCL WARN x", "gpubox7"),
    "nccl behind a prefix": ("(Worker pid=7) {}:71:72 [0] NCCL INFO x", "gpubox7"),
    "c10d": ("[c10d] The hostname of the client socket cannot be retrieved for {}", "gpubox7"),
    "c10d pair": ("trying to connect to ({}, 29500).", "gpubox7"),
    "gaierror": ("socket.gaierror: [Errno -2] {}", "gpubox7"),
    "go": ("dial tcp: lookup {}: no such host", "gpubox7"),
    "nfs": ("nfs: server {} not responding", "gpubox7"),
    "mpi": ("[{}:01234] *** Process received signal ***", "gpubox7"),
    "certificate": ("certificate is not valid for '{}'", "gpubox7"),
    "aiohttp": ("Cannot connect to host {}:443 ssl:default", "gpubox7"),
    "service": ("http://vllm.{}.svc.cluster.local/x", "zephyrcorp"),
    "ray address": ("node_{}", "10.20.30.40"),
    "glued address": (r"\n{}\n", "10.20.30.40"),
    "coloured address": ("\x1b[1m{}\x1b[0m", "10.20.30.40"),
    "address as name": ("worker-{} x", "10-20-30-40"),
    "firewall": ("MAC={}:08:00 SRC=x", "ff:ff:ff:ff:ff:ff:3c:ec:ef:12:ab:90"),
    "port": ("{}: renamed from eth0", "enx3cecef12ab90"),
    "guid": ("node_guid: {}", "3cec:ef03:0012:ab90"),
    "gpu by key": ("gpu_uuid={}", "1a2b3c4d-5e6f-7a8b-9c0d-1e2f3a4b5c6d"),
    "disk": ("/dev/disk/by-id/nvme-Maker_SSD_{}", "S5GXNX0T123456"),
    "udev": ("ID_SERIAL_SHORT={}", "S5GXNX0T123456"),
    "lora": ("--lora-modules sql={}/adapter", "zephyrcorp"),
    "image": ("image: {}/vllm:v1", "zephyrcorp"),
    "image of a registry": ("docker pull ghcr.io/{}/vllm:v1", "zephyrcorp"),
    "download": ("hf download {}/model-7b", "zephyrcorp"),
    "cache": ("/root/.cache/huggingface/hub/models--{}--model-7b/x", "zephyrcorp"),
    "hub": ("https://huggingface.co/{}/model-7b/resolve/main/config.json", "zephyrcorp"),
}  # fmt: skip


@pytest.mark.parametrize("what", ADDRESSES)
def test_what_names_a_person_or_a_machine_goes(what: str) -> None:
    form, value = ADDRESSES[what]
    line = form.format(value)
    made = Redactor().text(line)
    assert value not in made, made
    assert Redactor().bytes(line.encode()).decode() == made


PROMPTS = [
    "INFO 11-29 11:02:52 [logger.py:41] Received request cmpl-1: prompt: '{}', params: SamplingParams(n=1), prompt_token_ids: [1], lora_request: None.",
    "DEBUG 11-29 11:02:52 [logger.py:54] Request cmpl-1 details: prompt: \"{}\", prompt_token_ids: [1, 2], prompt_embeds shape: None.",
    "INFO 11-29 11:02:52 [logger.py:93] Generated response cmpl-1: output: '{}', output_token_ids: [5], finish_reason: stop",
    "INFO 11-29 11:02:52 [logger.py:120] Generated response cmpl-1 (streaming delta): output: '{}', finish_reason: None",
    'INFO 11-29 11:02:52 [logger.py:86] Request x JSON body: {{"messages":[{{"role":"user","content":"{}"}}]}}',
    'INFO 11-29 11:02:52 [logger.py:86] Request x JSON body: {{"messages":[{{"role":"user","content":[{{"type":"text","text":"{}"}}]}}]}}',
    'INFO 11-29 11:02:52 [logger.py:86] Request x JSON body: {{"prompt":["{}","{}"],"max_tokens":5}}',
    "INFO 11-29 11:02:52 [log_response.py:122] response_body={{streaming_complete: content='{}', chunks=3}}",
    'INFO 11-29 11:02:52 [log_response.py:141] response_body={{{{"choices":[{{"text":"{}"}}]}}}}',
    "ChatCompletionRequest(messages=[{{'content': '{}', 'role': 'user'}}], model='m')",
    "RequestOutput(request_id=0, prompt='{}', prompt_token_ids=[1, 2], outputs=[])",
    "CompletionOutput(index=0, text='{}', token_ids=[1])",
    "  Input should be a valid list [type=list_type, input_value='{}', input_type=str]",
    "  Input should be x [type=y, input_value={{'prompt': '{}...e 5'}}, input_type=dict]",
    "[{{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': {{'question': '{}'}}}}]",
    "DEBUG 11-29 11:02:52 [chat_utils.py:1142] Input prompt: {}",
    "DEBUG 11-29 11:02:52 [hermes_tool_parser.py:186] delta_text: {}",
    "DEBUG 11-29 11:02:52 [jamba_tool_parser.py:255] finding {} in {}",
    'curl http://localhost:8000/v1/chat/completions -d \'{{"messages": [{{"role": "user", "content": "{}"}}]}}\'',
    r'"log": "{{\"messages\": [{{\"role\": \"user\", \"content\": \"{}\"}}]}}"',
    '{{"tool_calls":[{{"function":{{"name":"f","arguments":"{}"}}}}]}}',
    'POST /v1/embeddings {{"input": "{}", "model": "m"}}',
    '"function": {{"name": "f", "arguments": {{"q": "{}"}}}}',
    "DEBUG 11-29 11:02:52 [deepseekv3_tool_parser.py:339] Skipping text {} - no arguments",
]  # fmt: skip


@pytest.mark.parametrize("form", PROMPTS)
def test_prompts_and_completions_go(form: str) -> None:
    said = "my aunt Ottoline in Quedlinburg is ill"
    line = form.format(said, said)
    made = Redactor().text(line)
    assert "Ottoline" not in made, made
    assert "Quedlinburg" not in made, made
    assert re.search(r"<(?:prompt|completion|input)-\d+, \d+ characters>", made), made


@pytest.mark.parametrize(
    "form",
    [
        "prompt_token_ids: [{}], x",
        "prompt_token_ids=[{}],mm",
        '"prompt_token_ids":[{}]',
        "output_token_ids: [{}]",
        "prefill_token_ids=[{}],",
    ],
)
def test_token_ids_go_and_their_number_stays(form: str) -> None:
    made = Redactor().text(form.format("151644, 8948, 198"))
    assert "151644" not in made
    assert "8948" not in made
    assert "3 numbers>" in made


KEY_ROWS = [
    "-----BEGIN RSA PRIVATE" + " KEY-----",
    "MIIEow" + ALNUM * 1,
    "Qq" + ALNUM,
    "x9" + "Q=",
    "-----END RSA PRIVATE" + " KEY-----",
]


@pytest.mark.parametrize("prefix", ["", "Nov 29 11:02:52 gpubox7 app[1]: ", "    "])
def test_a_private_key_goes_over_all_its_rows(prefix: str) -> None:
    text = "\n".join(["before", *(prefix + row for row in KEY_ROWS), "after"]) + "\n"
    for made in (Redactor().text(text), Redactor().bytes(text.encode()).decode()):
        assert not any(row in made for row in KEY_ROWS[1:4]), made
        assert made.count("\n") == text.count("\n")
        assert made.startswith("before\n")
        assert made.endswith("after\n")


def test_a_private_key_that_is_cut_into_blocks_goes() -> None:
    data = ("before\n" + "\n".join(KEY_ROWS) + "\nafter\n").encode()
    for cut in range(1, len(data)):
        made = b"".join(Redactor().blocks([data[:cut], data[cut:]])).decode()
        assert not any(row in made for row in KEY_ROWS[1:4]), (cut, made)
        assert made.endswith("after\n")


def test_a_private_key_with_line_ends_spelled_out_goes() -> None:
    made = Redactor().text('{"private_key": "' + r"\n".join(KEY_ROWS) + '", "client_id": 1}')
    assert not any(row in made for row in KEY_ROWS[1:4]), made


UNCHANGED = [
    "nvidia-cudnn-cu12 9.1.0.70", "nvidia-curand-cu12==10.3.5.147", "libcublas.so.12.4.5.8", "nvidia_cublas_cu12-12.4.5.8-py3-none-any.whl", "CUDA 12.4.1.0",
    "Driver Version: 550.54.15", "at 11:02:52.123 and 00:00<00:03", "NVRM: Xid (PCI:0000:01:00): 79, pid=1234", "GPU 00000000:01:00.0", "c10::Error at::add std::vector",
    "http://127.0.0.1:8000 http://0.0.0.0:8000 http://[::1]:8000 http://localhost:8000", "x[::2] y[1::3]", "eos_token='</s>', pad_token='<|im_end|>', bos_token: '<s>'",
    "max_tokens=16, max_num_batched_tokens: 2048, num_tokens=5", "model='meta-llama/Llama-3.1-8B-Instruct', tokenizer='Qwen/Qwen3-8B'", "--model mistralai/Mistral-7B-v0.1",
    "https://huggingface.co/docs/transformers/installation", "https://docs.vllm.ai/en/latest/", "https://github.com/vllm-project/vllm/issues/1234", "/root/.cache/huggingface",
    "/home/ubuntu/x /home/ec2-user/y /home/vllm/z", "File \"/opt/vllm/lib/python3.11/site-packages/vllm/v1/engine/core.py\", line 708, in run_engine_core",
    "(EngineCore_DP0 pid=5400) ERROR 08-28 10:12:45 [core.py:708] x", "Use the --api-key option, or set VLLM_API_KEY", "HF_TOKEN is not set", "export HF_TOKEN=<your token>",
    "HF_TOKEN=$HF_TOKEN", "HF_TOKEN=${TOKEN}", "'api_key': None, 'hf_token': None, 'ssl_keyfile': None", "token: True", "tokenizer_mode=auto, skip_tokenizer_init=False",
    "Avg prompt throughput: 12.0 tokens/s, Avg generation throughput: 3.0 tokens/s", "only active during compilation, disabled by user settings, will be ignored",
    "ValueError: Invalid token", "Unexpected token at position 5", "secret \"hf-secret\" not found", "password authentication failed", "stop_token_ids=[151643, 151645]",
    "[type=value_error, input_value=ArgsKwargs((), {'model': ...nderer_num_workers': 1}), input_type=ArgsKwargs]", "[type=literal_error, input_value='fp9', input_type=str]",
    "  File \"<frozen runpy>\", line 198, in _run_module_as_main", "llm@sha256:abc vllm.service user@1000.service", "key: value", "Cache key: abc", "sort_key=lambda x: x",
    "(Worker_TP0 pid=12) INFO [parallel_state.py:1] rank 0 in world size 2 is assigned as DP rank 0", "node_rank=0, master_addr=127.0.0.1", "HEAD is now at 1a2b3c4 x",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB", "--host 0.0.0.0 --port 8000", "Serial: N/A",
    "UUID: chatcmpl-1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d", "git@github.com:vllm-project/vllm.git", "image vllm/vllm-openai:v0.11.0", "threading.local", "~/.local/bin/vllm",
    "'content' format is 'string'", "Detected the chat template content format to be 'string'.", "prompt: None, params: x", "host=None, port=8000", "the api key is missing", "token is invalid", "Token for user was revoked in 2024-01", "with key cu_seqlens_q12 missing", "secret (see docs)", "model: /srv/models/x",
    'upstream: "http://127.0.0.1:8000/v1"', "symbol lookup error: x.so: undefined symbol", "The name given with --host cannot be resolved", "docker run -v /etc/passwd:/etc/passwd:ro x",
    "#token: 210345, token usage: 0.61", "file:///srv/media/x.jpg", "vllm/multimodal/media/audio.py", "resource 'nvidia.com/gpu'", "page fault for address: ffffb1e2c0a81000",
    "'post_grad_custom_post_pass': 'a.b'", "User= and Group= name an account", "docker pull quay.io/ascend/vllm-ascend:v1", "in docker.io/library/ubuntu", "vpc.amazonaws.com/efa",
]  # fmt: skip


@pytest.mark.parametrize("line", UNCHANGED)
def test_what_is_neither_secret_nor_personal_stays(line: str) -> None:
    assert Redactor().text(line) == line
    assert Redactor().bytes(line.encode()).decode() == line


def test_the_same_value_has_the_same_name_everywhere() -> None:
    redactor = Redactor()
    redactor.learn(
        "Nov 29 11:02:52 gpubox7 sshd[1]: session opened for user jdoe(uid=1) by (uid=0)\nmodel='zephyrcorp/model-7b'\n"
    )
    first = redactor.text("cannot resolve gpubox7 as jdoe for zephyrcorp from 10.1.2.3")
    second = redactor.text("http://gpubox7:8000 /home/jdoe/zephyrcorp/x 10.1.2.3:80")
    for name in ("host-1", "user-1", "org-1", "ip-1"):
        assert name in first
        assert name in second
    assert redactor.counts() == {"host": 1, "user": 1, "org": 1, "ip": 1}
    assert redactor.mapping() == {
        "host-1": "gpubox7",
        "user-1": "jdoe",
        "org-1": "zephyrcorp",
        "ip-1": "10.1.2.3",
    }


def test_a_secret_that_was_given_once_is_known_without_its_name() -> None:
    v, _ = values()
    redactor = Redactor()
    made = redactor.text(f"'api_key': ['{v}']\nrefused: {v} is no valid key\n")
    assert v not in made
    assert made.count("<secret-1>") == 2


EVERYTHING = [
    *(place.format("".join(token)) for token in TOKENS.values() for place in PLACES[:3]),
    *(form.format(n="HF_TOKEN", v=values()[0], w=values()[1]) for form in FORMS),
    *(form.format(value) for form, value in ADDRESSES.values()),
    *(form.format("my aunt is ill", "x y") for form in PROMPTS),
]


def test_redacting_twice_changes_nothing_more() -> None:
    redactor = Redactor()
    once = redactor.text("\n".join(EVERYTHING))
    assert redactor.text(once) == once
    assert Redactor().text(once) == once
    assert Redactor().bytes(once.encode()).decode() == once


def test_a_number_that_a_text_has_already_is_not_given_again() -> None:
    made = Redactor().text("10.1.2.3 and ip-1 and host-1 on http://gpubox7:1")
    assert made == "ip-2 and ip-1 and host-1 on http://host-2:1"


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_blocks_of_any_size_give_the_same(size: int) -> None:
    data = "\n".join(EVERYTHING).encode()
    whole = b"".join(Redactor().blocks([data]))
    assert b"".join(Redactor().blocks(data[at : at + size] for at in range(0, len(data), size))) == whole


def test_bytes_that_are_no_text_stay() -> None:
    data = b"\xff\xfe\x00 10.1.2.3 \xc3\x28\n"
    assert Redactor().bytes(data) == data.replace(b"10.1.2.3", b"ip-1")


def test_kinds_can_be_kept() -> None:
    assert Redactor(keep=["ip"]).text("10.1.2.3 3c:ec:ef:12:ab:90") == "10.1.2.3 mac-1"
    with pytest.raises(ValueError, match="no such kind"):
        Redactor(keep=["nonsense"])
    assert "ip" in KINDS


BODY = st.text("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789", min_size=34, max_size=40).filter(
    lambda b: any(c.isdigit() for c in b)
)


@settings(max_examples=60, deadline=None)
@given(BODY, st.sampled_from(sorted(TOKENS)), st.sampled_from(PLACES))
def test_tokens_with_any_body_go(body: str, kind: str, place: str) -> None:
    if kind in ("aws", "aws session", "jwt"):
        return
    token = TOKENS[kind][0] + TOKENS[kind][1] + body
    assert body not in Redactor().text(place.format(token))


SECRET = st.text("ABCxyz0189!#%+,./:;?@^_~-", min_size=8, max_size=24).filter(
    lambda v: v[0].isalnum() and v[-1].isalnum()
)


@settings(max_examples=80, deadline=None)
@given(
    SECRET,
    st.sampled_from(["HF_TOKEN", "api_key", "DB_PASSWORD"]),
    st.sampled_from(["{n}='{v}'", '{{"{n}": "{v}"}}', "'{n}': ['{v}']", "export {n}={v}"]),
)
def test_values_of_any_characters_go(value: str, name: str, form: str) -> None:
    made = Redactor().text(form.format(n=name, v=value))
    assert value not in made


def test_another_detector_finds_nothing_in_what_comes_out() -> None:
    """The detectors of detect-secrets, which know more issuers than a log of vLLM mentions, as a second opinion."""
    plugins = pytest.importorskip("detect_secrets.core.plugins.util")
    detectors = [
        plugin()
        for plugin in plugins.get_mapping_from_secret_type_to_class().values()
        if hasattr(plugin, "denylist") and "IP" not in plugin.__name__
    ]
    assert len(detectors) > 15
    text = "\n".join([*EVERYTHING, *KEY_ROWS])

    def found(text: str) -> list[str]:
        return [value for d in detectors for row in text.split("\n") for value in d.analyze_string(row)]

    assert len(found(text)) > 20
    assert [value for value in found(Redactor().text(text)) if not is_pseudonym(value)] == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("width", [60, 80, 100, 120, 133])
@pytest.mark.parametrize("shift", range(0, 40, 7))
def test_a_value_that_a_hard_wrap_tears_goes_whole(width: int, shift: int, end: str) -> None:
    v, _ = values()
    told = {
        "token": ("".join(TOKENS["hugging face"]), "{}"),
        "password": (v, "DB_PASSWORD={}"),
        "mail": ("jana.example@quartz-corp.net", "{}"),
        "card": ("GPU-7c1e2d3f-0a0b-1c1d-2e2f-1234567890ab", "{}"),
        "user": ("jexampleova", "/home/{}/models"),
        "prompt": (
            "Where is the green umbrella",
            "Received request 7: prompt: '{}', params: SamplingParams(n=1)",
        ),
    }
    row = (
        "INFO 11-29 11:44:33 [x.py:1] "
        + "a" * shift
        + " "
        + " ; ".join(form.format(value) for value, form in told.values())
    )
    row += " ; " + " ; ".join(form.format(value) for value, form in reversed(told.values()))
    text = "".join(row[at : at + width] + end for at in range(0, len(row), width)) + f"the end{end}"
    for made in (Redactor().text(text), Redactor().bytes(text.encode()).decode()):
        assert made.count("\n") == text.count("\n")
        assert made.count("\r") == text.count("\r")
        flat = "".join(made.split())
        for value, _ in told.values():
            assert value.replace(" ", "") not in flat, made
            assert value[:8] not in made, made
            assert value[-8:] not in made, made
        assert made.startswith("INFO 11-29 11:44:33 [x.py:1] ")
        assert made.endswith(f"the end{end}")


def test_rows_of_one_width_that_are_not_torn_stay_as_they_are() -> None:
    rows = [
        f"INFO 11-29 11:44:{n} [metrics.py:1] Running: {n} reqs, waiting: {n} reqs in queue"
        for n in range(10, 40)
    ]
    text = "\n".join(rows) + "\n"
    assert Redactor().text(text) == text
    words = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen " * 9
    text = "\n".join(words[at : at + 80] for at in range(0, len(words), 80))
    assert Redactor().text(text) == text
    assert Redactor().bytes(text.encode()).decode() == text


def test_a_text_that_was_cut_short_within_a_known_value_keeps_none_of_it() -> None:
    redactor = Redactor()
    redactor.learn(
        "contact jana.example@quartz-corp.net for the card GPU-7c1e2d3f-0a0b-1c1d-2e2f-1234567890ab\n"
    )
    assert redactor.text("it failed for jana.example@quartz") == "it failed for email-1"
    assert redactor.text("it failed for jana.example@quartz…") == "it failed for email-1…"
    assert redactor.text("0b-1c1d-2e2f-1234567890ab is lost") == "gpu-uuid-1 is lost"
    assert redactor.text("it failed for examples") == "it failed for examples"


@pytest.mark.parametrize(
    "name", ["{}-vllm-1", "vllm-{}", "docker_{}_vllm_1", "k8s_vllm_{}-0_ns", "vllm@{}.service", "{}_default"]
)
def test_names_that_are_made_up_with_a_known_one_lose_it(name: str) -> None:
    for told, known in (("model='quartzlabs/m-7b'", "quartzlabs"), ("/home/jexampleova/m", "jexampleova")):
        redactor = Redactor()
        redactor.learn(f"{told}\n")
        made = redactor.text(f"in {name.format(known)} | it failed")
        assert known not in made
        assert made.endswith(" | it failed")


def test_what_a_search_keeps_of_a_secret_without_its_digits_goes() -> None:
    redactor = Redactor()
    redactor.learn("DB_PASSWORD=Xq7Wert9Zuio4\n")
    link = "https://github.com/vllm-project/vllm/issues?q=is%3Aissue+RuntimeError+no+Xq+Wert+Zuio+connection"
    assert redactor.text(link) == link.replace("Xq+Wert+Zuio+", "")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("logs.zip:home/jexampleova/vllm.log", "logs.zip:home/user-1/vllm.log"),
        ("logs.tgz:granite7/quartzlabs/vllm.log", "logs.tgz:folder-1/folder-2/vllm.log"),
        ("/var/log/vllm/run3/2026-11-29/vllm.log", "/var/log/vllm/run3/2026-11-29/vllm.log"),
        ("sosreport-granite-2026-11-29-abc.tar.xz:sos_commands/logs/journal", "sosreport-host-1-2026-11-29-abc.tar.xz:sos_commands/logs/journal"),
        ("vllm.log", "vllm.log"),
    ],
)  # fmt: skip
def test_folders_in_the_names_of_inputs_go(name: str, made: str) -> None:
    redactor = Redactor()
    redactor.input(name)
    assert redactor.text(f"1 line of {name} read") == f"1 line of {made} read"
    assert redactor.text(made) == made
