"""`vdiag memory`: what it reads, what it answers, and what it says of a config that is none."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test_cli_diagnose import World
from vdiag.sizing import sizes

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def model(folder: Path, **fields: Any) -> Path:
    """A folder with the config of a Llama, changed where `fields` say so; `…=None` leaves a field out."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in {**LLAMA, **fields}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def weights(path: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    """A safetensors file of these tensors (type, shape, bytes), whose data is a hole."""
    at, said = 0, {}
    for name, (dtype, shape, size) in tensors.items():
        said[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(said).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + at)


def asked(*arguments: str, stdin: bytes = b"") -> tuple[int, dict[str, Any], str]:
    world = World(stdin)
    status = world.run("memory", *arguments, "--format", "json")
    return status, json.loads(world.printed) if world.printed else {}, world.err.getvalue()


# ---- answers ----------------------------------------------------------------------------------------------


def test_a_context_that_fits(tmp_path: Path) -> None:
    status, said, _ = asked(
        str(model(tmp_path)), "--gpu", "24GiB", "--util", "0.9", "--max-model-len", "8192"
    )
    memory = said["memory"]
    assert status == 0
    assert said["schema"] == "vdiag.memory/1"
    assert said["fits"] is True
    assert memory["bytes_per_token"] == 131_072
    assert memory["need_gib"] == 1.0
    assert memory["budget_gib"] == 21.6
    assert sum(share["gib"] for share in memory["shares"]) == pytest.approx(21.6, abs=0.03)
    assert {share["what"] for share in memory["shares"] if share.get("estimated")} == {
        "activations", "non-torch", "CUDA graphs", "KV cache",
    }  # fmt: skip


def test_a_context_that_does_not_fit_names_one_that_does(tmp_path: Path) -> None:
    status, said, _ = asked(str(model(tmp_path)), "--gpu", "24GiB", "--util", "0.9")
    assert (status, said["fits"]) == (1, False)
    fitting = said["memory"]["fitting_len"]
    assert f"--max-model-len {fitting}" in said["flags"]
    arguments = ["--gpu", "24GiB", "--util", "0.9", "--max-model-len"]
    assert asked(str(tmp_path), *arguments, str(fitting))[0] == 0
    assert asked(str(tmp_path), *arguments, "131072")[0] == 1
    assert fitting % 16 == 0
    # A margin for the estimates: somewhat more fits by them, much more does not.
    assert asked(str(tmp_path), *arguments, str(int(fitting * 1.3)))[0] == 1


def test_each_choice_does_what_it_says(tmp_path: Path) -> None:
    _, said, _ = asked(str(model(tmp_path)), "--gpu", "24GiB")
    levers = said["memory"]["levers"]
    assert [next(iter(lever["set"])) for lever in levers] == [
        "max_model_len", "kv_cache_dtype", "quantization", "tensor_parallel_size",
    ]  # fmt: skip
    for lever in levers:
        ((name, value),) = lever["set"].items()
        status, _, _ = asked(str(tmp_path), "--gpu", "24GiB", f"--{name.replace('_', '-')}", str(value))
        assert lever["enough"] is (status == 0)


def test_a_close_call_is_told(tmp_path: Path) -> None:
    folder = str(model(tmp_path))
    _, said, _ = asked(folder, "--gpu", "24GiB")
    low, high = said["range_gib"]
    length = int((low + high) / 2 * (1 << 30) / 131_072)
    _, said, _ = asked(folder, "--gpu", "24GiB", "--max-model-len", str(length))
    assert any("It is close" in note for note in said["memory"]["notes"])
    _, said, _ = asked(folder, "--gpu", "24GiB", "--max-model-len", "4096")
    assert not any("It is close" in note for note in said["memory"]["notes"])


HYBRID: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"], "model_type": "nemotron_h", "hybrid_override_pattern": "M-M-M*-M-M*-",
    "num_hidden_layers": 12, "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
    "conv_kernel": 4, "expand": 2, "chunk_size": 128, "attention_head_dim": 128, "max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize("fields", [{}, HYBRID], ids=["attention", "states"])
@pytest.mark.parametrize("length", [4096, 5000, 8192])
def test_a_length_that_fits_is_not_cut_to_whole_blocks(
    tmp_path: Path, fields: dict[str, Any], length: int
) -> None:
    limit = {"max_position_embeddings": length}
    _, said, _ = asked(str(model(tmp_path, **{**fields, **limit})), "--gpu", "80GiB")
    assert said["memory"]["fitting_len"] == length
    assert f"--max-model-len {length}" in said["flags"]


def test_a_length_that_only_the_estimates_let_fit_is_said_to_be_one(tmp_path: Path) -> None:
    folder = str(model(tmp_path))
    _, said, _ = asked(folder, "--gpu", "24GiB")
    low, high = said["range_gib"]
    length = int((low + (high - low) / 4) * (1 << 30) / 131_072)
    _, said, _ = asked(folder, "--gpu", "24GiB", "--max-model-len", str(length))
    assert said["fits"] is True
    assert said["memory"]["fitting_len"] < length
    assert said["said"].startswith("It fits if the estimates hold")


def test_weights_alone_are_too_much(tmp_path: Path) -> None:
    status, said, _ = asked(str(model(tmp_path)), "--gpu", "16GiB", "--max-model-len", "512")
    assert status == 1
    assert said["memory"]["kv_gib"] < 0
    assert "fitting_len" not in said["memory"]
    assert said["flags"] == []
    world = World()
    world.run("memory", str(tmp_path), "--gpu", "16GiB", "--max-model-len", "512")
    page = " ".join(world.printed.split())
    assert "Nothing is left for the KV cache" in page
    assert "GiB are missing." in page
    assert "-" not in page.split("By what is estimated, ")[1].split(" GiB")[0]


@pytest.mark.parametrize(
    ("arguments", "bytes_per_token"),
    [
        (["--kv-cache-dtype", "fp8"], 65_536),
        (["--tp", "2"], 65_536),
        (["--tp", "16"], 8192 * 2),  # eight heads on sixteen ranks: one each
        (["--tp", "2", "--pp", "2"], 32_768),
        (["--tp", "16", "--dcp", "2"], 8192),
        (["--dtype", "float16"], 131_072),
        (["--kv-cache-dtype", "nvfp4"], 131_072 * 9 // 32),
    ],
)
def test_what_divides_the_cache(tmp_path: Path, arguments: list[str], bytes_per_token: float) -> None:
    _, said, _ = asked(str(model(tmp_path)), "--gpu", "80GiB", "--max-model-len", "8192", *arguments)
    assert said["memory"]["bytes_per_token"] == pytest.approx(bytes_per_token, rel=0.002)


def test_weights_come_from_the_headers_where_there_are_some(tmp_path: Path) -> None:
    folder = model(tmp_path)
    weights(
        folder / "model-00001-of-00002.safetensors",
        {"model.embed_tokens.weight": ("BF16", [1 << 20, 1024], 2 << 30)},
    )
    weights(folder / "model-00002-of-00002.safetensors", {
        "model.layers.0.mlp.up_proj.weight": ("F32", [1 << 20, 1024], 4 << 30),  # loaded in 16 bits
        "model.layers.40.mlp.up_proj.weight": ("BF16", [1 << 20, 1024], 2 << 30),  # of no layer that is loaded
    })  # fmt: skip
    weights(
        folder / "consolidated.safetensors", {"tok_embeddings.weight": ("BF16", [1 << 20, 1024], 2 << 30)}
    )
    _, said, _ = asked(str(folder), "--gpu", "24GiB", "--max-model-len", "8192")
    assert said["weights_how"] == "from the safetensors headers"
    assert said["memory"]["shares"][0] == {"what": "weights", "gib": 4.0}
    _, said, _ = asked(str(folder), "--gpu", "24GiB", "--max-model-len", "8192", "--tp", "2")
    assert said["memory"]["shares"][0] == {"what": "weights", "gib": 2.0}


def test_a_hub_cache_is_read_at_the_snapshot_of_its_main(tmp_path: Path) -> None:
    hub = tmp_path / "models--acme--model-7b"
    model(hub / "snapshots" / "aaaa", num_hidden_layers=16)
    model(hub / "snapshots" / "bbbb", num_hidden_layers=8)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("aaaa\n")
    _, said, _ = asked(str(hub), "--gpu", "24GiB")
    assert said["model"]["layers"] == 16


def test_standard_input(tmp_path: Path) -> None:
    status, said, _ = asked("--config", "-", "--gpu", "80G", stdin=json.dumps(LLAMA).encode())
    assert (status, said["config"]) == (0, "standard input")


def test_a_nested_config_and_what_its_class_fills_in(tmp_path: Path) -> None:
    nested = {
        "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "vision_config": {"hidden_size": 8},
        "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34,
                        "intermediate_size": 10240, "sliding_window": 1024},
    }  # fmt: skip
    _, said, _ = asked(
        "--config", "-", "--gpu", "24GiB", "--max-model-len", "8192", stdin=json.dumps(nested).encode()
    )
    assert [(kept["kind"], kept["layers"], kept["bytes_per_token"]) for kept in said["kept"]] == [
        ("sliding window", 29, 29 * 2 * 4 * 256 * 2),
        ("full attention", 5, 5 * 2 * 4 * 256 * 2),
    ]
    assert any("more parts" in note for note in said["memory"]["notes"])


def test_the_page_shows_the_same(tmp_path: Path) -> None:
    world = World()
    assert world.run("memory", str(model(tmp_path)), "--gpu", "24GiB", "--util", "0.9") == 1
    for text in (
        "131,072 B a token",
        "131,072 tokens (16.00 GiB)",
        "(estimated)",
        "parameter count",
        "--max-model-len",
    ):
        assert text in world.printed


def test_an_unknown_kind_of_model_is_told(tmp_path: Path) -> None:
    _, said, _ = asked(str(model(tmp_path, model_type="acme")), "--gpu", "24GiB")
    assert any("model_type acme is not known" in note for note in said["memory"]["notes"])
    assert said["memory"]["shares"][0]["estimated"] is True
    _, said, _ = asked(str(model(tmp_path)), "--gpu", "24GiB")
    assert not any("not known" in note for note in said["memory"]["notes"])


def test_unknown_weights_leave_the_answer_open(tmp_path: Path) -> None:
    status, said, _ = asked(str(model(tmp_path, vocab_size=None, model_type="acme")), "--gpu", "24GiB")
    assert (status, said["fits"]) == (3, None)
    assert "vocab_size" in said["memory"]["notes"][0]


# ---- refusals ---------------------------------------------------------------------------------------------

BROKEN = [
    (b"", "empty"),
    (b"{", "not JSON"),
    (b"[]", "an object"),
    (b"\xff\xfe\x00", "not JSON"),
    (b"<html></html>", "not JSON"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"a":' * 100_000, "nested too deeply"),
    (b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", "not JSON"),
    (b"{}", "num_hidden_layers"),
    (b" " * ((16 << 20) + 1) + b"{}", "longer than"),
]


@pytest.mark.parametrize(("data", "says"), BROKEN, ids=[says for _, says in BROKEN])
def test_what_is_no_config_is_refused(data: bytes, says: str) -> None:
    status, _, error = asked("--config", "-", "--gpu", "24GiB", stdin=data)
    assert status == 2
    assert says in error
    assert "standard input" in error


@pytest.mark.parametrize(
    "name", ["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "vocab_size"]
)
@pytest.mark.parametrize("value", [-1, 0, 10**30, 1.5, float("nan"), float("inf"), "8", [8], {}, True])
def test_a_number_that_is_none_is_named(tmp_path: Path, name: str, value: Any) -> None:
    status, said, error = asked(str(model(tmp_path, **{name: value})), "--gpu", "24GiB")
    if name == "vocab_size":  # without it only the weights are unknown
        assert status == 3 or (status == 2 and name in error)
    elif not (name == "num_key_value_heads" and isinstance(value, list)):  # a list: a number a layer
        assert status == 2
        assert name in error
        assert "config.json" in error
        assert said == {}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for 32 layers"),
        ({"hybrid_override_pattern": "M*-"}, "hybrid_override_pattern has 3 letters for 32 layers"),
        ({"block_configs": [{}]}, "block_configs has 1 entries for 32 layers"),
        ({"model_type": "deepseek_v4"}, "compression ratios"),
        ({"max_position_embeddings": None, "model_type": "acme"}, "--max-model-len"),
        ({"layer_types": ["mamba"] * 32}, "a form that vdiag does not know"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
    ],
)
def test_what_cannot_be_sized_says_why(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    status, _, error = asked(str(model(tmp_path, **fields)), "--gpu", "24GiB")
    assert status == 2
    assert says in error


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "git-lfs"),
        (b"", "no safetensors file"),
        (struct.pack("<Q", 1 << 60) + b"{}", "no safetensors file"),
        (struct.pack("<Q", 5) + b"nojso" + b"\0" * 9, "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "no object"),
        (struct.pack("<Q", 9) + b'{"a": {}}', "nothing sound"),
        (struct.pack("<Q", 58) + b'{"a":{"dtype":"BF16","shape":[9],"data_offsets":[0, 180]}}', "cut off"),
        (
            struct.pack("<Q", 57) + b'{"a":{"dtype":"BF16","shape":[9],"data_offsets":[-1,18]}}',
            "nothing sound",
        ),
        (
            struct.pack("<Q", 58) + b'{"a":{"dtype":"BF16","shape":[9999],"data_offsets":[0,9]}}' + b"0" * 9,
            "nothing sound",
        ),
        (struct.pack("<Q", 49) + b'{"a":{"dtype":7,"shape":"x","data_offsets":null}}', "nothing sound"),
    ],
)
def test_a_broken_weight_file_is_named(tmp_path: Path, data: bytes, says: str) -> None:
    folder = model(tmp_path)
    (folder / "model.safetensors").write_bytes(data)
    status, _, error = asked(str(folder), "--gpu", "24GiB")
    assert status == 2
    assert says in error
    assert "model.safetensors" in error


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["a pipe", "a folder"])
def test_weights_that_are_no_file_are_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """To open a pipe that nobody writes to takes for ever."""
    folder = model(tmp_path)
    make(folder / "model.safetensors")
    status, _, error = asked(str(folder), "--gpu", "24GiB")
    assert status == 2
    assert "model.safetensors: no regular file" in error


def test_a_shard_that_the_index_names_and_is_missing(tmp_path: Path) -> None:
    folder = model(tmp_path)
    for name in ("first", "second"):
        weights(folder / f"{name}.safetensors", {"a": ("BF16", [1], 2)})
    shards = {name: f"{name}.safetensors" for name in ("first", "second", "third")}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    status, _, error = asked(str(folder), "--gpu", "24GiB")
    assert status == 2
    assert "third.safetensors" in error


def test_a_numbered_part_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = model(tmp_path)
    weights(folder / "model-00002-of-00002.safetensors", {"a": ("BF16", [1], 2)})
    status, _, error = asked(str(folder), "--gpu", "24GiB")
    assert status == 2
    assert "part 1 of 2 is missing" in error


def test_weights_of_others_are_left(tmp_path: Path) -> None:
    folder = model(tmp_path)
    weights(folder / "adapter_model.safetensors", {"a": ("BF16", [1], 2)})
    (folder / "other.json").write_text((folder / "config.json").read_text())
    assert asked(str(folder), "--gpu", "24GiB")[1]["weights_how"] == "from the parameter count"
    weights(folder / "model.safetensors", {"a": ("BF16", [1], 2)})
    assert asked(str(folder), "--gpu", "24GiB")[1]["weights_how"] == "from the safetensors headers"
    assert asked(str(folder / "other.json"), "--gpu", "24GiB")[1]["weights_how"] == "from the parameter count"


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128}


@pytest.mark.parametrize(
    ("quantization", "gib"),
    [
        (None, 14.96),
        ({"quant_method": "fp8"}, 8.46),
        (AWQ, 5.33),
        ({**AWQ, "modules_to_not_convert": ["model.visual.blocks.0.self_attn.qkv", "lm_head"]}, 5.33),
        ({**AWQ, "modules_to_not_convert": ["re:.*self_attn.*"]}, 7.18),
        ({**AWQ, "modules_to_not_convert": ["model.layers.0.self_attn.q_proj"]}, 5.33),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 5.61),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}}, 8.46),
    ],
)
def test_quantised_weights(tmp_path: Path, quantization: dict[str, Any] | None, gib: float) -> None:
    # 6.98 billion parameters in the layers' matrices (1.34 of them attention), twice 0.53 outside them
    folder = model(tmp_path, quantization_config=quantization)
    _, said, _ = asked(str(folder), "--gpu", "24GiB")
    assert said["memory"]["shares"][0]["gib"] == pytest.approx(gib, abs=0.03)


def test_other_formats_are_named(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    for path in (tmp_path, tmp_path / "model.gguf"):
        status, _, error = asked(str(path), "--gpu", "24GiB")
        assert status == 2
        assert "GGUF" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["--gpu", "24GiB"],
        ["/nonexistent/x", "--gpu", "24GiB"],
        ["a\0b", "--gpu", "24GiB"],
        ["x" * 5000, "--gpu", "24GiB"],
        ["/nonexistent/x"],
        ["x", "--config", "-", "--gpu", "24GiB"],
        ["/nonexistent/x", "--gpu", "a lot"],
        ["/nonexistent/x", "--gpu", "24GiB", "--util", "0"],
        ["/nonexistent/x", "--gpu", "24GiB", "--tp", "0"],
    ],
)
def test_a_call_at_fault(arguments: list[str]) -> None:
    assert asked(*arguments)[0] == 2


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 << 30), ("24G", 24 << 30), ("24 gib", 24 << 30), ("24", 24 << 30), ("80GB", 80 * 10**9),
     ("24576MiB", 24 << 30), ("24564MiB", 24564 << 20), ("0.5T", 512 << 30)],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert sizes.parsed(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "1e9", "24 apples", "24MiB", "9999T", "nan", "9" * 400])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="24GiB"):
        sizes.parsed(text)


# ---- any config at all ------------------------------------------------------------------------------------

SIZING = Path(__file__).parent / "sizing"
KNOWN = [
    *json.loads((SIZING / "models.json").read_text()).values(),
    *(case["config"] for case in json.loads((SIZING / "engine.json").read_text())),
]
HOSTILE: list[Any] = [
    None, 0, -1, 1, 3, 10**12, 10**30, 0.5, -0.0, float("nan"), float("inf"), "", "8", "MMMM", "\x1b[31m", True, False,
    [], [None], [0, 1], ["full_attention"], ["sliding_attention"] * 3, ["mamba"] * 100, [{}], [{"attention": 7}], {},
    {"num_heads": "x"}, {"quant_method": 5}, {"quant_method": "awq", "bits": -4}, {"config_groups": {"a": {"weights": []}}},
]  # fmt: skip
OTHERS = [
    "layer_types", "layers_block_type", "block_configs", "hybrid_override_pattern", "attn_layer_indices", "kv_lora_rank",
    "attn_type_list", "sliding_window_pattern", "max_window_layers", "num_kv_shared_layers", "index_topk", "text_config",
    "quantization_config", "rope_scaling", "model_type", "moe_layer_freq", "linear_attn_config", "architectures",
    "hybrid_layer_pattern", "encoder_layers", "mamba_n_heads", "use_sliding_window", "hidden_size_per_layer_input",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_no_config_makes_it_stumble(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(25):
        config = dict(chosen.choice(KNOWN))
        for _ in range(chosen.randint(1, 4)):
            config[chosen.choice([*config, *OTHERS])] = chosen.choice(HOSTILE)
        if chosen.random() < 0.2:
            config["model_type"] = chosen.choice(KNOWN)["model_type"]
        arguments = ["--gpu", "24GiB", "--tp", chosen.choice(["1", "2"]), "--pp", chosen.choice(["1", "3"])]
        world = World(json.dumps(config).encode())
        status = world.run("memory", "--config", "-", *arguments)
        assert status in (0, 1, 2, 3), (config, world.err.getvalue())
        assert "Traceback" not in world.err.getvalue()
        assert "internal" not in world.err.getvalue().lower(), (config, world.err.getvalue())
        assert "\x1b" not in world.printed + world.err.getvalue()
        assert bool(world.printed) == (status != 2)
