"""The README and docs/ are true: their commands run, their output is real, and nothing there is unknown to the program.

Commands of the README's `sh` blocks run in a folder that holds the files they name; `#` comments that begin with a
verdict are held against the answer.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from test_cli_diagnose import World
from vdiag.assemble import assembler
from vdiag.cli import rules_catalogue
from vdiag.cli.commands import main
from vdiag.cli.status import ExitStatus
from vdiag.intake import blocks as reading
from vdiag.match import keeper, matcher
from vdiag.model import Phase, Role, Severity, Verdict
from vdiag.reason import confidence
from vdiag.render import catalogue
from vdiag.rulebook.schema import FixRule, Rule, Upstream
from vdiag.rulebook.shipped import shipped
from vdiag.scan import records, sieve

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
CATALOGUE = rules_catalogue.pages_of([ROOT / "rules"], [])
EVERYTHING = "\n".join([README, *DOCS.values()])

CUT = "[…]"  # on a line of its own in a sample output: lines were left out
SAMPLE = "samples/kv-cache-too-small.log"
MADE_UP = {"acme-plugin-missing"}  # rules that the docs write themselves


# ---- commands and options ---------------------------------------------------------------------------------


def commands(command: click.Command, name: str = "vdiag") -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, the outermost first."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from commands(inner, f"{name} {word}")


COMMANDS = dict(commands(main))
OPTIONS = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.params
    if isinstance(option, click.Option)
]
FALLS_THROUGH = "vdiag diagnose"  # what plain `vdiag` runs; nobody needs its name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    assert COMMANDS[name].help, f"{name} has no help text"
    assert name == FALLS_THROUGH or name in EVERYTHING


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda x: x if isinstance(x, str) else x.opts[0])
def test_every_option_is_documented(name: str, option: click.Option) -> None:
    assert option.help, f"{name} {option.opts[0]} has no help text"
    assert re.search(rf"(?<![\w-]){option.opts[0]}(?![\w-])", EVERYTHING), f"{name}: {option.opts[0]}"


# ---- what the docs name -------------------------------------------------------------------------------------


def named_rules(text: str) -> set[str]:
    """Rule ids that a text names: in `vdiag explain`, in YAML, in JSON, behind `--rule`, in a sample's output."""
    found = set(re.findall(r"vdiag explain ([a-z0-9]+(?:-[a-z0-9]+)+)\b(?!\.)", text))
    found |= set(re.findall(r"(?:- id|\brule|\"rule\"): \"?([a-z0-9]+(?:-[a-z0-9]+)+)", text))
    found |= set(re.findall(r"--rule ([a-z0-9]+(?:-[a-z0-9]+)+)", text))
    return found | set(re.findall(r"line \d+\s+\(([a-z0-9-]+)\)", text))


def test_every_rule_that_the_docs_name_exists() -> None:
    rulebook = shipped()
    named = named_rules(EVERYTHING) - MADE_UP
    assert named
    assert {name for name in named if rulebook.by_id(name) is None} == set()


def test_rule_fields_are_documented() -> None:
    text = DOCS["rules.md"]
    schema = {f.encode_name for kind in (Rule, FixRule, Upstream) for f in msgspec.structs.fields(kind)}
    tables = re.findall(r"^\| field \| meaning \|\n\|[-| ]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row.split(" | ")[0] for table in tables for row in table.splitlines()]
    listed = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert listed, "the tables of fields are gone"
    assert listed - schema == set(), "documented, but no field"
    untold = {name for name in schema - listed if not re.search(rf"`{name}:?`|(?<!\w){name}: ", text)}
    assert untold == set(), "fields that docs/rules.md does not tell of"


def anchors(page: str) -> set[str]:
    """The anchors GitHub gives the headings of a page whose headings are names: letters, digits, `-` and `_`."""
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-") for heading in headings}


MOST_RENDERED = 500_000  # bytes of a Markdown page that GitHub still renders


def test_the_catalogue_is_that_of_the_rules() -> None:
    old = rules_catalogue.out_of_date(CATALOGUE, ROOT / "docs" / "catalogue")
    assert old == [], "run `vdiag rules catalogue`"


def test_the_catalogue_leads_from_its_index_to_every_rule() -> None:
    index = CATALOGUE[catalogue.INDEX]
    links = re.findall(r"\]\(([\w-]*(?:\.md)?)#([^)]+)\)", index)
    there = {name: anchors(page) for name, page in CATALOGUE.items()}
    assert [(page, anchor) for page, anchor in links if anchor not in there[page or catalogue.INDEX]] == []
    assert {anchor for page, anchor in links if page} == {rule.id for rule in shipped().rules}
    assert max(len(page.encode()) for page in CATALOGUE.values()) < MOST_RENDERED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("it says <name> and *more*", r"it says \<name\> and \*more\*"),
        ("a `<name>` in code", "a `<name>` in code"),
        ("an odd ` before <name>", r"an odd ` before \<name\>"),
    ],
)
def test_texts_of_rules_are_no_markup(text: str, said: str) -> None:
    assert catalogue.plain(text) == said


@pytest.mark.parametrize(("text", "said"), [("a", "`a`"), ("a `b` c", "``a `b` c``"), ("`a`", "`` `a` ``")])
def test_messages_are_code(text: str, said: str) -> None:
    assert catalogue.code(text) == said


def test_a_catalogue_of_other_rules(folder: Path) -> None:
    (folder / "old").mkdir()
    (folder / "old" / "README.md").write_text(catalogue.MARK, encoding="utf-8")
    (folder / "old" / "gone.md").write_text(catalogue.MARK, encoding="utf-8")
    (folder / "old" / "mine.md").write_text("# Mine", encoding="utf-8")
    asked = CliRunner().invoke(main, ["rules", "catalogue", "my-rules.yaml", "--into", "old", "--check"])
    assert asked.exit_code == 1
    assert "gone.md: out of date" in asked.output
    assert CliRunner().invoke(main, ["rules", "catalogue", "my-rules.yaml", "--into", "old"]).exit_code == 0
    names = sorted(path.name for path in (folder / "old").iterdir())
    assert names == sorted(["README.md", f"{folder.resolve().name}.md", "mine.md"])
    page = (folder / "old" / f"{folder.resolve().name}.md").read_text(encoding="utf-8")
    for part in ("### acme-plugin-missing", "`acme: plugin <plugin> is missing`", "Install the plugin into"):
        assert part in page
    again = CliRunner().invoke(main, ["rules", "catalogue", "my-rules.yaml", "--into", "old", "--check"])
    assert (again.exit_code, again.output) == (0, "")


KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        (f"Up to {reading.WHOLE // MIB} MiB an input is read whole", reading.WHOLE),
        ("Of a longer one the last MiB is", reading.TAIL == MIB),
        (f"blocks of whole lines of about {reading.BLOCK // MIB} MiB", reading.BLOCK),
        (f"in pieces of {sieve.PIECE // KIB} KiB", sieve.PIECE),
        (f"at least the {sieve.NEAR // KIB} KiB behind it", sieve.NEAR),
        (f"in steps of {sieve.MORE // KIB} KiB for at most {sieve.MOST_MORE // MIB} MiB", sieve.MORE),
        (f"the first {sieve.KEEP} lines are read at once", sieve.KEEP),
        (f"the first {keeper.FIRST:,} and the last {keeper.LAST:,}", keeper.FIRST),
        (f"up to {keeper.ORDINARY:,} others are kept", keeper.ORDINARY),
        (f"its first and last {records.LONGEST_LINE // KIB // 2} KiB", records.LONGEST_LINE),
        (f"Up to {assembler.MOST_FRAMES} frames are kept", assembler.MOST_FRAMES),
        (f"at most {assembler.MOST_ROWS}.", assembler.MOST_ROWS),
        ("Up to twelve unprefixed rows", assembler.MOST_SPILL == 12),
        ("half a second each", matcher.TIMEOUT == 0.5),
        (f"at least {confidence.SPECIFIC} fixed characters", confidence.SPECIFIC),
        (f"at most {confidence.BY_NAME:.2f}", confidence.BY_NAME),
        (f"an unknown exception | {confidence.UNKNOWN:.2f}", confidence.UNKNOWN),
        (f"a cut-off traceback | {confidence.NOTICE:.2f}; {confidence.NOTICE - 0.1:.2f}", confidence.NOTICE),
    ],
)
def test_the_numbers_in_the_architecture_are_those_of_the_code(told: str, meant: object) -> None:
    assert meant
    assert told in " ".join(DOCS["architecture.md"].split())


def test_every_word_of_the_contract_is_told() -> None:
    words = [member.value for kind in (Verdict, Role, Phase, Severity) for member in kind]
    assert [word for word in words if f"`{word}`" not in EVERYTHING] == []


def test_links_lead_somewhere() -> None:
    for base, text in ((ROOT, README), *((ROOT / "docs", text) for text in DOCS.values())):
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (base / link).exists(), link


def test_every_sample_has_an_expected_answer() -> None:
    for name in set(re.findall(r"samples/[\w.-]+\.log", EVERYTHING)):
        assert (ROOT / name).exists(), name
        assert (ROOT / name).with_suffix(".expected.yaml").exists(), name


# ---- the README runs ----------------------------------------------------------------------------------------


def blocks(language: str, text: str = README) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def vdiag_commands() -> Iterator[tuple[str, list[str], str]]:
    """(the line, vdiag's arguments, the comment behind it) of each command in the `sh` blocks."""
    for block in blocks("sh"):
        for line in block.splitlines():
            written, _, comment = line.partition("  #")
            lexer = shlex.shlex(written, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            words = list(lexer)
            if "vdiag" not in words:
                continue
            rest = words[words.index("vdiag") + 1 :]
            end = next((i for i, word in enumerate(rest) if set(word) <= set("|&;<>()")), len(rest))
            yield line, rest[:end], comment.strip()


RUNS = list(vdiag_commands())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files the README speaks of, as the current one; no rules of the user's own."""
    import gzip
    import tarfile

    (tmp_path / "samples").symlink_to(ROOT / "samples")
    shutil.copy(ROOT / SAMPLE, tmp_path / "vllm.log")
    (tmp_path / "vllm.log.gz").write_bytes(gzip.compress((ROOT / SAMPLE).read_bytes()))
    shutil.copy(ROOT / "samples/healthy-busy.log", tmp_path / "kernel.log")
    shutil.copy(ROOT / "samples/healthy-busy.log", tmp_path / "vllm.log.1")
    shutil.copy(tmp_path / "vllm.log.gz", tmp_path / "vllm.log.2.gz")
    (tmp_path / "logs").mkdir()
    shutil.copy(ROOT / SAMPLE, tmp_path / "logs")
    with tarfile.open(tmp_path / "bug-report.tar.gz", "w:gz") as bundle:
        bundle.add(tmp_path / "logs", "logs")
    (tmp_path / "my-rules.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VDIAG_RULES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "arguments", "comment"), RUNS, ids=[line.split("  #")[0] for line, *_ in RUNS]
)
def test_a_command_of_the_readme_runs(
    folder: Path, line: str, arguments: list[str], comment: str, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World((ROOT / SAMPLE).read_bytes())
    status = world.run(*arguments)
    assert status != ExitStatus.USAGE, world.err.getvalue()
    assert world.printed or capsys.readouterr().out
    if arguments[:1] == ["rules"]:
        assert status == ExitStatus.OK
    verdict = comment.split(":")[0]
    if verdict in {v.value for v in Verdict}:
        asked = World()
        asked.run("--format", "json", *arguments)
        assert json.loads(asked.printed)["verdict"] == verdict
    elif any(word.startswith("samples/") for word in arguments):
        pytest.fail(f"says no verdict: {line}")


def test_the_first_command_ends_as_the_readme_says(folder: Path) -> None:
    assert World().run(SAMPLE) == ExitStatus.DIAGNOSED


def test_the_sample_output_is_what_the_program_prints(folder: Path) -> None:
    shown = re.findall(r"<!-- output: vdiag (.*?) -->\n```text\n(.*?)\n```", README, re.DOTALL)
    assert shown
    for arguments, text in shown:
        world = World(COLUMNS="80")
        world.run(*shlex.split(arguments))
        printed = [row for row in world.printed.splitlines() if row]
        at = 0
        for part in text.split(CUT):
            rows = [row for row in part.splitlines() if row]
            places = [i for i in range(at, len(printed)) if printed[i : i + len(rows)] == rows]
            assert places, f"vdiag {arguments} no longer prints\n\n{part}\n\nbut\n\n{world.printed}"
            at = places[0] + len(rows)
        assert printed[0] == text.splitlines()[0]
        assert text.rstrip().endswith(CUT) or at == len(printed)


def test_the_readme_as_a_library(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    assert "kv-cache-too-small 47" in capsys.readouterr().out


def test_exit_statuses_are_documented() -> None:
    told = {int(number) for number in re.findall(r"^\| (\d) \| ", README, re.MULTILINE)}
    assert told == {s.value for s in ExitStatus if s is not ExitStatus.INTERRUPTED}


def test_the_two_commands_are_marked_for_ci() -> None:
    """`.ci/run` takes its test command from here."""
    marked = dict(re.findall(r"<!-- (install|test) command -->\n```sh\n(.+)\n```", README))
    assert marked["install"].endswith(SAMPLE)
    assert marked["test"].endswith("-m pytest")
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "<!-- test command -->" in run
    assert marked["test"] not in run
