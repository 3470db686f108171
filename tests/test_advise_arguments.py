"""Argument lists: what was read out of vLLM's sources, and judging versions between them."""

from pathlib import Path

from vdiag.advise import arguments, extract_arguments


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
    assert extract_arguments.flags(tmp_path) == {"--max-model-len", "--old-one", "--api-key"}
    assert extract_arguments.table({"1": tmp_path})["flags"] == {
        "--api-key": "1",
        "--max-model-len": "1",
        "--old-one": "1",
    }
