"""Which branches of a template somebody takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from runner.text.include import include_folder
from runner.text.preview import BranchTracer

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign

YAML = """\
version: 1
recipients:
  - phone: "+14155550101"
messages:
  - id: hello
    text: |
      {% if language == "de" %}
      Hallo {{ name | default("du") }}
      {% elif language == "fr" -%}
      Salut{% if name is defined %} {{ name }}{% endif %}
      {% else %}
      Hi {{ "old" if age > 60 else "young" }}
      {% endif %}
      {% for item in items %}{{ item }}{% endfor %}
"""


def trace(tracer: BranchTracer, **variables: object) -> set[tuple[str, int]]:
    taken = tracer.trace(variables)  # type: ignore[arg-type]
    return {(tracer.branches[number].words, tracer.branches[number].line) for number in taken}


def test_every_branch_has_its_words_and_its_line(campaign: Callable[[str], Campaign]) -> None:
    """What a text takes is named by its condition, where it stands in the campaign file."""
    loaded = campaign(YAML)
    tracer = BranchTracer(loaded.messages[0], include_folder(loaded))
    assert trace(tracer, language="de", items=[]) == {
        ('if language == "de"', 7),
        ("default of name", 8),
        ("nothing for item in items", 14),
    }
    assert trace(tracer, language="fr", name="Ada", items=["1"]) == {
        ('elif language == "fr"', 9),
        ("if name is defined", 10),
        ("for item in items", 14),
    }
    assert trace(tracer, language="fr", items=["1"]) == {
        ('elif language == "fr"', 9),
        ("else of if name is defined", 10),
        ("for item in items", 14),
    }
    assert trace(tracer, language="en", age=61, items=["1"]) == {
        ('else of if language == "de"', 7),
        ("first value of the inline if in line 6", 12),
        ("for item in items", 14),
    }


def test_branches_that_nobody_takes_are_known(campaign: Callable[[str], Campaign]) -> None:
    """All branches of a text are known before anybody's is rendered."""
    loaded = campaign(YAML)
    tracer = BranchTracer(loaded.messages[0], include_folder(loaded))
    assert [branch.kind for branch in tracer.branches].count("default") == 1
    assert len(tracer.branches) == 10


def test_an_included_file_s_branches_are_in_that_file(
    campaign: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """A branch of an included file stands in a line of that file."""
    (tmp_path / "footer.j2").write_text("Bye\n{% if loud %}!{% endif %}\n", encoding="utf-8")
    lines = YAML.splitlines(keepends=True)
    loaded = campaign("".join(lines[:5]) + "    text: 'Hi {% include \"footer.j2\" %}'\n")
    tracer = BranchTracer(loaded.messages[0], include_folder(loaded))
    (number,) = tracer.trace({"loud": True})
    branch = tracer.branches[number]
    assert (branch.words, Path(branch.file).name, branch.line) == ("if loud", "footer.j2", 2)


def test_what_only_looks_like_a_tag_names_no_branch(campaign: Callable[[str], Campaign]) -> None:
    """Tags in a comment, a raw block or a quoted text are passed over: each branch keeps its own words."""
    lines = YAML.splitlines(keepends=True)
    loaded = campaign(
        "".join(lines[:5])
        + """\
    text: |
      {# {% if old %}{% for old in olds %} #}
      {% raw %}{% if shown %}{% for shown in all %}{% endraw %}
      {% if language == "%} {% if x %}" %}a{% elif language
          == "fr" -%} b {% endif %}
      {% for item in items %}{{ item }}{% endfor %}
"""
    )
    tracer = BranchTracer(loaded.messages[0], include_folder(loaded))
    assert {(branch.words, branch.line) for branch in tracer.branches} == {
        ('if language == "%} {% if x %}"', 9),
        ('elif language == "fr"', 9),
        ('else of if language == "%} {% if x %}"', 9),
        ("for item in items", 11),
        ("nothing for item in items", 11),
    }


def test_a_default_is_used_where_the_value_is_false_if_it_says_so(
    campaign: Callable[[str], Campaign],
) -> None:
    """`default(…, true)` is used for false values, too; a constant branch is none that Jinja2 computes early."""
    lines = YAML.splitlines(keepends=True)
    loaded = campaign(
        "".join(lines[:5]) + "    text: '{{ name | d(\"you\", true) }}{{ 1 if true else 2 }}'\n"
    )
    tracer = BranchTracer(loaded.messages[0], include_folder(loaded))
    always = ("first value of the inline if in line 1", 6)
    assert trace(tracer, name=0) == {("default of name", 6), always}
    assert trace(tracer, name="Ada") == {always}
