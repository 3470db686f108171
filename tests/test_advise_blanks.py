"""Blanks: placeholders that the log fills in; and what a container is given, in the form the server is run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from vdiag.advise import fill, form
from vdiag.advise.blanks import BLANKS
from vdiag.rulebook.schema import FixRule, Rule


def run(*lines: str, captures: dict[str, Any] | None = None, **context: Any) -> list[str]:
    rule = Rule(id="r", title="It broke", fixes=[FixRule(do="x", run=list(lines))])
    return fill(rule, captures or {}, context)[2][0].run


def test_a_blank_stays_where_the_log_does_not_tell() -> None:
    lines = [f"a {blank} b" for blank in BLANKS]
    assert run(*lines) == lines


@pytest.mark.parametrize(
    ("model", "line", "filled"),
    [
        ("acme/m-7b", "vllm serve <model>", "vllm serve acme/m-7b"),
        ("acme/m-7b", "hf download <owner>/<model> --local-dir /srv/models/<model>",
         "hf download acme/m-7b --local-dir /srv/models/m-7b"),
        ("acme/m-7b", "rm -r x/models--<owner>--<model>", "rm -r x/models--acme--m-7b"),
        ("acme/m-7b", "curl https://huggingface.co/<owner>/<model>/raw", "curl https://huggingface.co/acme/m-7b/raw"),
        ("acme/m-7b", "ls <model folder>/config.json", "ls <model folder>/config.json"),
        ("/data/m 7b/", "ls <model folder>/*.json", "ls '/data/m 7b'/*.json"),
        ("/data/m", "hf download <owner>/<model> --local-dir /srv/models/<model>",
         "hf download <owner>/<model> --local-dir /data/m"),
        ("~/models/m", "ls <model folder>", "ls ~/models/m"),
        ("/data/m.Q4.gguf", "ls <model folder>", "ls /data"),
        ("/root/.cache/huggingface/hub/models--acme--m-7b/snapshots/0a1b", "hf download <owner>/<model>",
         "hf download acme/m-7b"),
        ("models/m", "hf download <owner>/<model>", "hf download <owner>/<model>"),
        ("acme/m-7b", "vllm serve <model>-AWQ s3://<bucket>/<model>/", "vllm serve <model>-AWQ s3://<bucket>/<model>/"),
    ],
)  # fmt: skip
def test_blanks_of_the_model(model: str, line: str, filled: str) -> None:
    assert run(line, model=model) == [filled]


def test_a_models_name_is_that_of_the_server_not_one_a_client_asked_for() -> None:
    assert run("vllm serve <model>", captures={"model": "gpt-9"}) == ["vllm serve <model>"]
    assert run("vllm serve <model>", captures={"model": "gpt-9"}, model="acme/m") == ["vllm serve acme/m"]


def test_a_strangers_model_name_is_quoted() -> None:
    assert run("ls <model>", model="a; id") == ["ls 'a; id'"]
    assert run("echo '<model>'", model="a'; id; '") == ["echo '<model>'"]


def test_blanks_of_the_place() -> None:
    pod = {"deploy": "kubernetes", "pod": "llm-6d4cf56db6-x7k2p"}
    assert run("systemctl restart <unit>", unit="vllm@a.service") == ["systemctl restart vllm@a"]
    assert run("systemctl restart <unit>", unit="a; id") == ["systemctl restart <unit>"]
    assert run("kubectl logs <pod>", "kubectl edit deployment/<deployment>", **pod) == [
        "kubectl logs llm-6d4cf56db6-x7k2p", "kubectl edit deployment/llm",
    ]  # fmt: skip
    compose = {"deploy": "compose", "container": "llm-1"}
    assert run("docker compose logs <service>", "docker logs <container>", **compose) == [
        "docker compose logs llm", "docker logs $(docker compose ps -aq llm)",
    ]  # fmt: skip
    assert run("docker logs <container>", deploy="docker", container="llm") == ["docker logs llm"]


def test_another_build_is_named_after_the_model_but_not_invented() -> None:
    rule = Rule(id="r", title="x", fixes=[FixRule(do="x", set={"model": "<an AWQ build of the model>"})])
    build = "<an AWQ build of acme/m>"
    assert fill(rule, {}, {})[2][0].run == ["vllm serve <an AWQ build of the model> …"]
    assert fill(rule, {}, {"model": "acme/m"})[2][0].run == [f"vllm serve {build} …"]
    systemd = fill(rule, {}, {"model": "acme/m", "deploy": "systemd", "unit": "vllm"})[2][0].run
    assert f"# in the ExecStart= command, put {build} in place of acme/m" in systemd


GIVEN: dict[str, Any] = {"gpus": "all", "shm_size": "8g", "memory": "64g", "ulimits": {"memlock": -1}}


def given(deploy: str, what: dict[str, Any] = GIVEN) -> list[str]:
    return form.change({}, [], {}, {"deploy": deploy, "unit": "vllm"}, what)


def test_what_a_container_is_given() -> None:
    docker = "docker run --gpus all --shm-size=8g --memory=64g --ulimit memlock=-1 … <image> …"
    assert given("docker") == given("cli") == [docker]
    service = yaml.safe_load("\n".join(given("compose")[:-1]))
    assert (service["shm_size"], service["mem_limit"], service["ulimits"]) == ("8g", "64g", {"memlock": -1})
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    pod = yaml.safe_load("\n".join(given("kubernetes")[:-1]))
    assert pod["resources"]["limits"] == {"nvidia.com/gpu": 1, "memory": "64Gi"}
    assert pod["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert given("systemd")[2:5] == ["[Service]", "MemoryMax=64G", "LimitMEMLOCK=infinity"]


def test_a_form_without_such_a_setting_has_no_such_fix() -> None:
    rule = Rule(id="r", title="x", fixes=[FixRule(do="x", container={"shm_size": "8g"})])
    assert given("systemd", {"shm_size": "8g"}) == []
    assert fill(rule, {}, {"deploy": "systemd"})[2] == []


def test_variables_to_take_out_go_where_the_server_is_run() -> None:
    assert run("unset A B", deploy="systemd", unit="vllm")[3] == "UnsetEnvironment=A B"
    assert "# take out of environment: and env_file: A, B" in run("unset A B", deploy="compose")
    assert run("unset A", "python -c 1") == ["unset A", "python -c 1"]


def test_the_documentation_lists_every_blank() -> None:
    text = (Path(__file__).parent.parent / "docs" / "rules.md").read_text(encoding="utf-8")
    assert [blank for blank in BLANKS if blank not in text] == []


def test_a_misspelt_flag_is_written_right_in_a_command() -> None:
    fix = FixRule(do="x", set={"{nearest_flag}": "{value}"}, unset=["{flag}"])
    rule = Rule(id="r", title="x", fixes=[fix])
    (told,) = fill(rule, {"flag": "--max-modle-len", "value": 4096}, {"model": "acme/m"})[2]
    assert told.run == ["vllm serve acme/m … --max-model-len 4096  # without --max-modle-len"]
