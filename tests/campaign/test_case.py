"""The worst conversations of an audience, and how conversations go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.audience.audience import AudienceTally, iterate_audience
from runner.source.diagnostic import Problems
from runner.text.include import include_folder
from runner.text.payload import MessageRenderer
from runner.text.preview import CaseFinder, list_bubbles
from runner.text.segment import count_segments, write_plainly
from runner.text.template import TextCompiler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from runner.campaign.model import Campaign

YAML = """\
version: 1
recipients:
  - csv: people.csv
messages:
  - id: ask
    method: {method}
    introduction: 'Hi {{{{ name | default("you") }}}}{{% if vip is defined %}}, dear friend{{% endif %}}'
    questions:
      - {{tag: how, text: How?, responses: [Good, Bad], conclude_on: Bad}}
      - {{tag: why, text: Why?}}
    conclusion: Bye
"""


def find(
    load: Callable[[str], Campaign], folder: Path, rows: Iterable[str], *, method: str = "SMS"
) -> CaseFinder:
    """Show rows of `name,vip` to a finder."""
    table = "phone,name,vip\n" + "".join(f"+1415555{n:04},{row}\n" for n, row in enumerate(rows))
    (folder / "people.csv").write_text(table, encoding="utf-8")
    campaign = load(YAML.format(method=method))
    compiler = TextCompiler(include_folder(campaign))
    message = campaign.messages[0]
    renderer = MessageRenderer(message, compiler)
    finder = CaseFinder(renderer)
    for recipient in iterate_audience(campaign, renderer.names, Problems(), AudienceTally()):
        finder.take(recipient)
    return finder


def test_the_worst_conversations_come_first(campaign: Callable[[str], Campaign], tmp_path: Path) -> None:
    """Most segments, then the longest text."""
    rows = ["Ada,", "Bo,", f"{'Cy ' * 60},", f"{'Ж' * 140},", ",", ",", "Di,1"]
    cases = find(campaign, tmp_path, rows).list_cases()
    assert [case.recipient.line for case in cases] == [5, 4]
    shown = [[(r.kind, r.count) for r in case.reasons] for case in cases]
    assert shown == [[("most_segments", 6)], [("longest_text", 182)]]


def test_costly_characters_are_counted_over_the_conversation(
    campaign: Callable[[str], Campaign], tmp_path: Path
) -> None:
    """The first character outside GSM-7 of each conversation, with what it would cost without."""
    finder = find(campaign, tmp_path, ["Ada,", f"{'á' * 80},", "Ián,", "O’Neil,"])
    assert {
        x.character: (x.recipients, x.segments, x.segments_without) for x in finder.list_characters()
    } == {
        "á": (2, 9, 8),
        "’": (1, 4, 4),
    }


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["", "Ada", "Ж" * 80, "Bo " * 70]), st.booleans()), max_size=12))
def test_the_worst_are_the_worst(
    campaign: Callable[[str], Campaign], tmp_path: Path, people: list[tuple[str, bool]]
) -> None:
    """Whatever the audience, nobody has more segments or a longer text than the cases that say so."""
    finder = find(campaign, tmp_path, [f"{name},{'1' if vip else ''}" for name, vip in people])
    every = [
        list(list_bubbles(finder.renderer.render(variables).definition))
        for variables in ({k: v for k, v in (("name", n.strip()), ("vip", "1" * p)) if v} for n, p in people)
    ]
    counts = {r.kind: r.count for case in finder.list_cases() for r in case.reasons}
    if people:
        assert counts == {
            "most_segments": max(sum(b.segments for b in bubbles) for bubbles in every),
            "longest_text": max(len(b.text) for bubbles in every for b in bubbles),
        }
    else:
        assert counts == {}


def turns_of(definition: dict[str, object]) -> list[list[tuple[str, tuple[str, ...], str | None, int]]]:
    bubbles = list(list_bubbles(definition))
    return [
        [(t.on, t.answers, t.question_tag or t.part, t.skipped) for t in bubbles[n].turns]
        for n in range(len(bubbles))
    ]


def test_a_conversation_goes_on_by_the_answer() -> None:
    """A valid answer leads on, `conclude_on` skips to the conclusion, anything else asks again."""
    how = {"text": "How?", "tag": "how", "responses": ["Good", "Bad"], "conclude_on": "bad "}
    why = {"text": "Why?", "tag": "why"}
    assert turns_of({"introduction": "Hi", "questions": [how, why], "conclusion": "Bye"}) == [
        [],
        [
            ("valid", ("Good",), "why", 0),
            ("conclude_on", ("bad ",), "conclusion", 1),
            ("invalid", (), "how", 0),
        ],
        [("valid", (), "conclusion", 0)],
        [],
    ]


def test_a_conversation_ends() -> None:
    """Without a conclusion nothing follows the last answer; a freeform question can conclude, too."""
    only = {"text": "Why?", "tag": "why", "conclude_on": "skip"}
    assert turns_of({"questions": [only]}) == [[("valid", (), None, 0), ("conclude_on", ("skip",), None, 0)]]


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(["Ada", "…" * 40, "a’中" + "x" * 66, "“" * 80, "Ж" * 80]), min_size=1, max_size=4
    )
)
def test_the_plan_and_the_preview_count_alike(
    campaign: Callable[[str], Campaign], tmp_path: Path, names: list[str]
) -> None:
    """What would be saved is what the texts written plainly would take, in both."""
    finder = find(campaign, tmp_path, [f"{name}," for name in names])
    payloads = [finder.renderer.render({"name": name}) for name in names]
    plain = [
        sum(count_segments(write_plainly(bubble.text)).segments for bubble in list_bubbles(one.definition))
        for one in payloads
    ]
    assert [one.segments_plain for one in payloads] == plain
    costly = [number for number, one in zip(plain, payloads, strict=True) if one.costly]
    assert sum(cost.segments_without for cost in finder.list_characters()) == sum(costly)
