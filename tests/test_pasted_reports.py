"""What people paste: the command above the log, a log that begins where the engine died, a start that stands still."""

from __future__ import annotations

from pathlib import Path

from vdiag import diagnose
from vdiag.model import Report, Verdict

DUMP = (
    "(EngineCore pid=87) ERROR 05-23 10:15:42 [dump_input.py:72] Dumping input data for V1 LLM engine (v0.21.0) "
    "with config: model='/srv/models/x', dtype=torch.bfloat16, max_seq_len=16384, tensor_parallel_size=1, "
)
CRASH = "(EngineCore pid=87) ERROR 05-23 10:15:42 [core.py:1142] torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
NO_DRIVER = "WARNING 10-21 03:58:18 [interface.py:391] Failed to import from vllm._C with ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')"
VERSION = "(APIServer pid=1) INFO 10-21 03:58:25 [api_server.py:1839] vLLM API server version 0.11.0"
ARGS = "(APIServer pid=1) INFO 10-21 03:58:25 [utils.py:233] non-default args: {'model': 'acme/model-7b', 'gpu_memory_utilization': 0.8}"
NO_CARD = "(APIServer pid=1) RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue."
CAPTURE_OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 22.36 GiB of which 120.88 MiB is free."
CACHE = "INFO 06-19 23:05:18 [kv_cache_utils.py:578] GPU KV cache size: 613,024 tokens"


def read(tmp_path: Path, *rows: str) -> Report:
    log = tmp_path / "vllm.log"
    log.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return diagnose([log])


def commands(report: Report) -> str:
    return "\n".join(line for fix in report.diagnoses[0].fixes for line in fix.run)


def test_a_log_that_begins_with_the_engines_dump_still_tells_version_and_model(tmp_path: Path) -> None:
    report = read(tmp_path, DUMP, CRASH)
    assert (report.environment.vllm, report.environment.model) == ("0.21.0", "/srv/models/x")
    assert "vllm serve /srv/models/x … --enforce-eager" in commands(report)


def test_a_typed_command_fills_in_what_the_server_did_not_say(tmp_path: Path) -> None:
    report = read(
        tmp_path, "$ vllm serve acme/model-7b \\", "    --gpu-memory-utilization 0.98 \\", "    --max-num-seqs 4",
        CACHE, CAPTURE_OOM,
    )  # fmt: skip
    assert report.diagnoses[0].rule == "cuda-oom-capture"
    assert "vllm serve acme/model-7b --gpu-memory-utilization 0.92 --max-num-seqs 4" in commands(report)
    assert "--max-num-seqs 64" not in commands(report)  # there are fewer already


def test_what_the_server_says_of_its_arguments_counts_more_than_what_was_typed(tmp_path: Path) -> None:
    typed = "$ vllm serve acme/other-7b --gpu-memory-utilization 0.98"
    report = read(tmp_path, typed, VERSION, ARGS, CACHE, CAPTURE_OOM)
    assert report.environment.model == "acme/model-7b"
    assert "vllm serve acme/model-7b --gpu-memory-utilization 0.75" in commands(report)


def test_kubectl_names_the_pod_and_its_deployment(tmp_path: Path) -> None:
    report = read(
        tmp_path, "$ kubectl -n ml describe pod chat-6c9d8f7b5-x2k4v", "    Last State:     Terminated",
        "      Reason:       OOMKilled", "      Exit Code:    137",
    )  # fmt: skip
    assert report.environment.deploy == "kubernetes"
    assert "deployment/chat " in commands(report)
    assert "kubectl describe pod chat-6c9d8f7b5-x2k4v" in commands(report)


def test_a_warning_of_the_imports_belongs_to_the_run_that_they_are_of(tmp_path: Path) -> None:
    report = read(tmp_path, NO_DRIVER, VERSION, ARGS, NO_CARD)
    assert (report.diagnoses[0].rule, report.diagnoses[0].line) == ("nvml-library-missing", 1)
    assert [(e.first_line, e.last_line) for e in report.episodes] == [(1, 4)]


def test_a_library_that_did_not_load_is_the_cause_though_the_start_went_on(tmp_path: Path) -> None:
    report = read(
        tmp_path,
        "WARNING 04-02 14:54:22 [_custom_ops.py:21] Failed to import from vllm._C with ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')",
        "INFO 04-02 14:54:23 [llm_engine.py:240] Initializing a V0 LLM engine (v0.8.2) with config: model='acme/m'",
        "ERROR 04-02 14:54:24 [engine.py:448] AttributeError: '_OpNamespace' '_C' object has no attribute 'silu_and_mul'",
    )
    assert report.diagnoses[0].line == 1


def test_no_phase_is_claimed_where_lines_of_the_start_are_missing(tmp_path: Path) -> None:
    report = read(tmp_path, VERSION, ARGS, CRASH)
    assert report.diagnoses[0].phase is None


def joining(minute: int) -> list[str]:
    wait = f"(APIServer pid=1) DEBUG 07-30 12:{minute}:10 [utils.py:1120] Waiting for 1 local, 0 remote core engine proc(s) to start."
    return [
        "(Worker pid=7) INFO 07-30 12:25:02 [parallel_state.py:1615] world_size=2 rank=1 local_rank=1 distributed_init_method=tcp://127.0.0.1:33015 backend=nccl",
        "(Worker pid=7) INFO 07-30 12:25:10 [pynccl.py:113] vLLM is using nccl==2.28.9",
        wait,
    ]


def test_a_start_that_stands_still_says_for_how_long(tmp_path: Path) -> None:
    report = read(tmp_path, *joining(40))
    assert report.verdict is Verdict.STARTING
    assert any("on line 1" in note and "15 minutes" in note for note in report.notes)
    assert any("NCCL" in note for note in report.notes)


def test_a_start_that_just_made_a_step_is_not_called_slow(tmp_path: Path) -> None:
    assert not any("minutes behind it" in note for note in read(tmp_path, *joining(26)).notes)
