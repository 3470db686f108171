"""Reading rulebooks: what is wrong is named by file, line, rule and field, all of it at once."""

import textwrap

import pytest

from vdiag.rulebook.load import RulebookError, load
from vdiag.rulebook.places import default_user_paths

GOOD = """
- id: good-rule
  title: A good rule
  phrases: ["something broke in {part:word} today"]
"""


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(textwrap.dedent(text), encoding="utf-8")
        return tmp_path

    return write


def problems_of(path):
    with pytest.raises(RulebookError) as caught:
        load([path])
    return caught.value.problems


def places(problems):
    return [(problem.line, problem.rule, problem.field) for problem in problems]


def test_folders_are_walked_and_rules_compiled(folder, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "more.yml").write_text(GOOD.replace("good-rule", "deep-rule"))
    rulebook = load([folder(a=GOOD)])
    assert {rule.id for rule in rulebook.rules} == {"good-rule", "deep-rule"}
    for pattern in rulebook.patterns:
        assert pattern.literal == "something broke in"
        assert pattern.squeezed == "somethingbrokein"


def test_every_problem_of_every_file_comes_at_once(folder):
    path = folder(
        a="""
        - id: one
          titel: Misspelt
          phrases: ["x {n:itn} y"]
          fixes:
            - do: Try
              sett: {a: 1}
              env: {NAME: 1}
              safety: danger
          where: kernal
        """,
        b="""
        - title: no id
        - id: two
          title: Two
          phrases: "not a list"
          patterns: [{regex: 'a(b'}]
        """,
    )
    problems = problems_of(path)
    assert places(problems) == [
        (3, "one", "titel"),
        (7, "one", "fixes[0].sett"),
        (8, "one", "fixes[0].env"),
        (9, "one", "fixes[0].safety"),
        (2, "one", ""),
        (10, "one", "where"),
        (4, "one", "phrases[0]"),
        (2, "", ""),
        (2, "", "phrases"),
        (5, "two", "phrases"),
        (6, "two", "patterns[0].regex"),
    ]
    text = "\n".join(map(str, problems))
    assert "a.yaml:3: one: titel: expected `title`, got `titel`, which is no field" in text
    assert "one of safe, tradeoff, manual, got `danger`" in text
    assert "expected a field `title`, got none" in text
    assert "expected a list (`- …`), got `not a list`" in text


def test_wordings_and_open_values_are_checked(folder):
    path = folder(
        a="""
        - id: one
          title: One
          phrases:
            - good text
            - bad {n:itn}
          patterns:
            - regex: 'a(b'
          where: kernal
          level: loud
          at: nothing
        - id: two
          title: Two
        - id: three
          title: Three
          phrases: ['text {n:int}']
          at: m
        """
    )
    assert [(p.line, p.field) for p in problems_of(path)] == [
        (9, "where"),
        (10, "level"),
        (6, "phrases[1]"),
        (8, "patterns[0].regex"),
        (12, "phrases"),
        (17, "at"),
    ]


def test_numbers_where_text_belongs_are_told_to_be_quoted(folder):
    path = folder(a=GOOD.rstrip() + "\n  patterns: [{regex: abcdef, since: 0.8}]\n")
    (problem,) = problems_of(path)
    assert (problem.field, problem.expected, problem.got) == (
        "patterns[0].since",
        "text (in quotes)",
        "`0.8`",
    )


def test_duplicate_keys_ids_and_aliases_are_problems(folder):
    path = folder(
        a=GOOD + "  title: again\n",
        b=GOOD.replace("good-rule", "b-rule"),
        c=GOOD.replace("good-rule", "b-rule"),
        d=GOOD.replace("good-rule", "d-rule") + "  aliases: [b-rule]\n",
    )
    problems = problems_of(path)
    assert [(problem.rule, problem.field) for problem in problems] == [
        ("good-rule", "title"),
        ("b-rule", "id"),
        ("d-rule", "aliases"),
    ]
    assert "b.yaml:2" in problems[1].got


def test_unknown_ids_are_problems_and_aliases_become_ids(folder):
    path = folder(
        a=GOOD + "  aliases: [old-name]\n",
        b=GOOD.replace("good-rule", "b-rule") + "  beats: [old-name, god-rule]\n",
    )
    problems = []
    rulebook = load([path], collect=problems)
    assert [(problem.field, problem.got) for problem in problems] == [("beats[1]", "`god-rule`")]
    assert "good-rule" in problems[0].expected
    assert rulebook.by_id("b-rule").beats == ["good-rule"]
    assert rulebook.by_id("old-name").id == "good-rule"
    assert rulebook.index("old-name") == rulebook.index("good-rule")
    assert rulebook.by_id("nobody") is None


def test_a_broken_rule_leaves_the_good_ones(folder):
    problems = []
    rulebook = load([folder(a=GOOD, b="- id: [", c="- id: bad\n  title: 3\n")], collect=problems)
    assert [rule.id for rule in rulebook.rules] == ["good-rule"]
    assert [problem.whole_file for problem in problems] == [True, False, False]


def test_a_rule_with_a_known_id_replaces_it(folder, tmp_path):
    base = load([folder(a=GOOD + GOOD.replace("good-rule", "other-rule"))])
    own = tmp_path / "own"
    own.mkdir()
    (own / "x.yaml").write_text("- id: good-rule\n  title: Mine\n  phrases: [my own wording]\n")
    rulebook = load([own], base=base)
    assert [rule.id for rule in rulebook.rules] == ["other-rule", "good-rule"]
    assert rulebook.by_id("good-rule").title == "Mine"
    assert [(rulebook.rules[p.rule].id, p.squeezed) for p in rulebook.patterns] == [
        ("other-rule", "somethingbrokein"),
        ("good-rule", "myownwording"),
    ]
    assert [rule.id for rule in base.rules] == ["good-rule", "other-rule"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe\x00", "UTF-8"),
        (b"id: one\n", "a list of rules"),
        (b"- id: [\n", "YAML"),
        (b"- !!python/object/apply:os.system ['true']\n", "YAML"),
        (b"- &a [*a]\n", "YAML that ends"),
        (b"- " + b"[" * 5000 + b"]" * 5000, "YAML"),
        (b"- \x00", "YAML"),
    ],
)
def test_what_is_no_rule_file_is_said_in_one_problem(tmp_path, content, expected):
    (tmp_path / "a.yaml").write_bytes(content)
    (problem,) = problems_of(tmp_path)
    assert problem.whole_file
    assert expected in problem.expected


def test_aliases_of_aliases_do_not_explode(tmp_path):
    rows = ['- &a0 ["x","x","x","x","x","x","x","x","x"]']
    rows += [f"- &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (tmp_path / "a.yaml").write_text("\n".join(rows))
    (problem,) = problems_of(tmp_path)
    assert "aliases" in problem.got


def test_entries_that_are_no_rules_are_named_with_their_line(tmp_path):
    (tmp_path / "a.yaml").write_text("- just text\n- 3\n- [a]\n-\n")
    assert [(p.line, p.got) for p in problems_of(tmp_path)] == [
        (1, "`just text`"),
        (2, "`3`"),
        (3, "a list"),
        (4, "nothing"),
    ]


def test_missing_paths_and_empty_files(tmp_path):
    (problem,) = problems_of(tmp_path / "none")
    assert problem.got == "nothing there"
    (tmp_path / "a.yaml").write_text("# nothing yet\n")
    assert load([tmp_path]).rules == []


def test_user_paths_come_from_the_environment_and_the_config_folder(tmp_path, monkeypatch):
    (tmp_path / "vdiag" / "rules").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("VDIAG_RULES", "/one:/two")
    assert list(map(str, default_user_paths())) == ["/one", "/two", str(tmp_path / "vdiag" / "rules")]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("VDIAG_RULES")
    assert default_user_paths() == []
