"""Argument lists: what was read out of vLLM's sources, and judging versions between them."""

from pathlib import Path

import pytest

from vdiag.advise import argument_list, arguments, extract_arguments


def test_versions_between_two_lists_are_judged_by_both() -> None:
    assert arguments.takes("max_model_len", "0.9.2") is True
    assert arguments.takes("swap_space", "0.25.1") is False
    assert arguments.takes("async_scheduling", "0.9.2") is None
    assert arguments.takes("async_scheduling", "0.6.6.post1") is False
    assert arguments.takes("no_such_argument", "0.11.0") is None
    assert arguments.takes("max_model_len", None) is None


def test_newer_than_the_newest_list_follows_it() -> None:
    assert arguments.takes("task", "0.40.0") is False
    assert arguments.takes("max_num_seqs", "1.2.0rc1") is True


def test_negated_flags_count_as_their_flag() -> None:
    assert arguments.takes("--no-enable-prefix-caching", "0.11.0") is True


def test_flag_spellings() -> None:
    assert arguments.flag_of("max_model_len") == "--max-model-len"
    assert arguments.flag_of("--max_model_len=4096") == "--max-model-len"
    assert arguments.flag_of("--") == ""


def test_successors_are_flags_that_went() -> None:
    versions, flags = arguments._table()
    assert all(flags[flag][-1] == "0" for flag in arguments.SUCCESSORS)
    assert len(versions) == 6


def test_extraction_reads_literals_loops_and_front_end_fields(tmp_path: Path) -> None:
    engine, openai = tmp_path / "vllm/engine", tmp_path / "vllm/entrypoints/openai"
    engine.mkdir(parents=True)
    openai.mkdir(parents=True)
    (engine / "arg_utils.py").write_text(
        "class EngineArgs:\n"
        "    def add_cli_args(parser):\n"
        "        parser.add_argument('--max-model-len', '-m', type=int)\n"
        "        for arg, kind in [('--old-one', str)]:\n"
        "            parser.add_argument(arg, type=kind)\n"
    )
    (openai / "cli_args.py").write_text("class FrontendArgs:\n    api_key: str = ''\n    def f(): ...\n")
    assert extract_arguments.table({"0.9": tmp_path}) == {
        "versions": ["0.9"],
        "flags": {"--api-key": "v", "--max-model-len": "i", "--old-one": "v"},
        "choices": {},
        "short": {"-m": "--max-model-len"},
        "defaults": {},
    }


def test_extraction_reads_kinds_off_config_classes(tmp_path: Path) -> None:
    engine, config = tmp_path / "vllm/engine", tmp_path / "vllm/config"
    engine.mkdir(parents=True)
    config.mkdir(parents=True)
    (config / "all.py").write_text(
        "Backend = Literal['fast', 'slow']\n"
        "@config\n"
        "class Nested:\n    depth: int = 1\n"
        "@config\n"
        "class AConfig:\n"
        "    share: float = 0.9\n"
        "    eager: bool = False\n"
        "    backend: Backend | None = None\n"
        "    named: Backend | str = 'fast'\n"
        "    sizes: Optional[list[int]] = None\n"
        "    nested: Nested | None = None\n"
        "    extra: dict[str, Any] = field()\n"
        "    max_model_len: Annotated[int, Field()] = None\n"
    )
    (engine / "arg_utils.py").write_text(
        "def add_cli_args(parser):\n"
        "    kwargs = get_kwargs(AConfig)\n"
        + "".join(
            f"    parser.add_argument('--{name}', **kwargs['{name.replace('-', '_')}'])\n"
            for name in ("share", "backend", "named", "sizes", "nested", "extra", "max-model-len")
        )
        + "    parser.add_argument('--eager', **{**kwargs['eager'], 'default': None})\n"
        "    parser.add_argument('--old', action='store_true')\n"
        "    parser.add_argument('--maybe', nargs='?', const=True)\n"
    )
    table = extract_arguments.table({"0.9": tmp_path})
    assert table["flags"] == {
        "--share": "f",
        "--eager": "b",
        "--backend": "v",
        "--named": "v",
        "--sizes": "s",
        "--nested": "j",
        "--extra": "j",
        "--max-model-len": "k",
        "--old": "n",
        "--maybe": "o",
    }
    assert table["choices"] == {"--backend": {"fast|slow": "1"}}


@pytest.mark.parametrize(
    ("words", "version", "wrong"),
    [
        ("acme/m --max-model-len 4096 -tp 2", "0.11.0", []),
        ("acme/m --max_model_len=32K", "0.11.0", []),
        ("acme/m --max-model-len auto", "0.17.1", []),
        ("--model acme/m --enforce-eager", "0.6.6.post1", []),
        ("acme/m --no-enable-prefix-caching", "0.11.0", []),
        ("acme/m --served-model-name a b --port 8001", "0.11.0", []),
        ("acme/m -O3", "0.8.5.post1", []),
        ("acme/m -cc.mode 3 --compilation-config.cudagraph_mode=NONE", "0.17.1", []),
        ("acme/m --max-model-len <tokens>", "0.11.0", []),
        ("acme/m --nonsense 1", "0.11.0", ["--nonsense is unknown"]),
        ("acme/m --async-scheduling", "0.8.5.post1", ["--async-scheduling is unknown"]),
        ("acme/m --max-model-len", "0.11.0", ["--max-model-len needs a value"]),
        ("acme/m --enforce-eager=true", "0.11.0", ["--enforce-eager takes no value"]),
        ("acme/m --no-enforce-eager", "0.6.6.post1", ["--enforce-eager cannot be negated"]),
        ("acme/m --port many", "0.11.0", ["--port takes an integer, not 'many'"]),
        ("acme/m other", "0.11.0", ["'other' stands where no value is taken"]),
        ("acme/m --speculative-config ngram", "0.11.0", ["--speculative-config takes JSON, not 'ngram'"]),
    ],
)
def test_the_strict_parser(words: str, version: str, wrong: list[str]) -> None:
    assert argument_list.problems(words.split(), version) == wrong


def test_choices_are_those_of_the_version() -> None:
    assert argument_list.problems(["m", "--dtype", "int3"], "0.11.0") == [
        "--dtype takes auto, bfloat16, float, float16, float32, half, not 'int3'"
    ]
    assert argument_list.problems(["m", "--kv-cache-dtype", "bfloat16"], "0.11.0") == []
    assert argument_list.problems(["m", "--kv-cache-dtype", "bfloat16"], "0.8.5.post1") != []
