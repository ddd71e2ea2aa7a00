"""What is sent: definitions, their digests, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.source.diagnostic import ProblemError
from runner.text.outgoing import PayloadTemplate, question_as_asked
from runner.text.payload import MessageRenderer
from runner.text.template import MissingVariablesError, TextCompiler
from tests.canonical import digest_definition
from tests.choices import SHOWN

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.campaign.model import Campaign, Variables

TEXTS = st.text(st.sampled_from('ab \n"\\é€👍,:{}[]'), max_size=4)
QUESTIONS = st.fixed_dictionaries(
    {"text": TEXTS, "tag": TEXTS}, optional={"responses": st.lists(TEXTS, max_size=2), "conclude_on": TEXTS}
)
DEFINITIONS = st.fixed_dictionaries(
    {"tag": TEXTS},
    optional={
        "text": TEXTS,
        "introduction": TEXTS,
        "questions": st.lists(QUESTIONS, max_size=2),
        "conclusion": TEXTS,
        "method": st.just("VOICE"),
        "complete_existing_sessions": st.just(value=True),
    },
)


@given(st.data(), DEFINITIONS)
def test_equal_digests_are_equal_definitions(data: st.DataObject, one: dict[str, Any]) -> None:
    """Two definitions have one digest exactly if they are equal, in whatever order their keys stand."""
    reordered = dict(data.draw(st.permutations(list(one.items()))))
    changed = {**one, "tag": data.draw(TEXTS)}
    other = data.draw(DEFINITIONS)
    digest = PayloadTemplate(one).digest(())
    assert digest == PayloadTemplate(reordered).digest(()) == digest_definition(one)
    for second in (changed, other):
        assert (digest == PayloadTemplate(second).digest(())) is (one == second)
    assert len(digest) == 32


SURVEY = """\
version: 1
recipients:
  - phone: "+14155550101"
messages:
  - id: ask
    tag: pulse
    introduction: Hi {{ name }}
    questions:
      - tag: nps
        text: How likely{{ comma | default('') }} {{ name }}?
        responses: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
        scale: nps
      - tag: more
        text: More about {{ topic }}?
        responses: [Sure, "{{ refusal | default('No') }}"]
        conclude_on: "{{ refusal | default('No') }}"
      - tag: why
        text: Why?
    conclusion: Thanks
  - id: call
    method: VOICE
    text: Hello {{ name }}
    complete_existing_sessions: true
"""


@pytest.fixture
def renderers(campaign: Callable[[str], Campaign], tmp_path: Path) -> list[MessageRenderer]:
    compiler = TextCompiler(tmp_path)
    return [MessageRenderer(message, compiler) for message in campaign(SURVEY).messages]


def test_a_definition_is_the_send_body_less_phone(renderers: list[MessageRenderer]) -> None:
    """A rendered message holds the fields that the service takes, and those alone."""
    ask, call = (renderer.render({"name": "Ada", "topic": "it"}) for renderer in renderers)
    assert ask.definition == {
        "tag": "pulse",
        "introduction": "Hi Ada",
        "questions": [
            {"text": "How likely Ada?", "tag": "nps", "responses": [str(number) for number in range(11)]},
            {"text": "More about it?", "tag": "more", "responses": ["Sure", "No"], "conclude_on": "No"},
            {"text": "Why?", "tag": "why"},
        ],
        "conclusion": "Thanks",
    }
    assert call.definition == {
        "tag": "campaign",
        "text": "Hello Ada",
        "method": "VOICE",
        "complete_existing_sessions": True,
    }


def test_segments_are_those_that_leave_at_once(renderers: list[MessageRenderer]) -> None:
    """Introduction and first question count, choices included; a call has no segments."""
    ask, call = renderers
    plain = ask.render({"name": "Ada", "topic": "it"})
    costly = ask.render({"name": "Ağa", "topic": "ı" * 200})
    assert (plain.segments, plain.costly) == (2, None)
    assert (costly.segments, costly.costly) == (2, "ğ")
    assert call.render({"name": "Ağa"}).segments == 0


def test_the_whole_conversation_is_counted_too(renderers: list[MessageRenderer]) -> None:
    """Later questions and the conclusion count for what a conversation can take, and for its largest text."""
    ask, call = renderers
    plain = ask.render({"name": "Ada", "topic": "it"})
    costly = ask.render({"name": "Ada", "topic": "ı" * 200})
    assert (plain.segments_max, plain.largest, plain.segments_plain) == (5, 1, 5)
    assert (costly.segments, costly.segments_max, costly.largest) == (2, 8, 4)
    assert (costly.costly, costly.segments_plain) == ("ı", 6)
    assert call.render({"name": "Ağa"})[2:7] == (0, None, 0, 0, 0)


def test_what_a_text_sets_is_its_own(campaign: Callable[[str], Campaign], tmp_path: Path) -> None:
    """A variable that one text of a message sets is none of the texts after it."""
    yaml = SURVEY.replace("Hi {{ name }}", '"{% set topic = 1 %}Hi {{ name }}{{ topic }}"')
    renderer = MessageRenderer(campaign(yaml).messages[0], TextCompiler(tmp_path))
    definition = renderer.render({"name": "Ada", "topic": "it"}).definition
    assert (definition["introduction"], definition["questions"][1]["text"]) == ("Hi Ada1", "More about it?")
    with pytest.raises(MissingVariablesError) as caught:
        renderer.render({"name": "Bob"})
    assert [name for name, _ in caught.value.missing] == ["topic"]


def test_what_is_missing_is_named_for_the_whole_message(renderers: list[MessageRenderer]) -> None:
    """All texts of a message are asked at once, and each variable is said with the first that needs it."""
    with pytest.raises(MissingVariablesError) as caught:
        renderers[0].render({})
    assert [(name, text.source) for name, text in caught.value.missing] == [
        ("name", "Hi {{ name }}"),
        ("topic", "More about {{ topic }}?"),
    ]


VALUES = st.one_of(TEXTS, st.integers(-3, 3), st.booleans(), st.sampled_from(["1", "True", "None", 1.0]))


@pytest.mark.slow
@settings(max_examples=10)
@given(st.lists(st.fixed_dictionaries({"name": VALUES, "topic": VALUES, "else": VALUES}), max_size=5))
def test_rendering_does_not_depend_on_what_was_rendered_before(
    campaign: Callable[[str], Campaign], tmp_path: Path, people: list[Variables]
) -> None:
    """A renderer that has served others says the same as a new one."""
    message = campaign(SURVEY).messages[0]
    compiler = TextCompiler(tmp_path)
    served = MessageRenderer(message, compiler)
    for variables in people:
        outcomes = []
        for renderer in (served, MessageRenderer(message, compiler)):
            try:
                outcomes.append(str(renderer.render(variables)))
            except ProblemError as error:
                outcomes.append(str(error.diagnostics))
        assert outcomes[0] == outcomes[1]


def test_choices_are_shown_as_the_table_says() -> None:
    """Segments are counted, and conversations previewed, with the choices as they arrive."""
    for row in SHOWN:
        assert question_as_asked("Well?", row["responses"]) == row["shown"]
