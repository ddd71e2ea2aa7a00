"""What a whole conversation takes over the air, held against its texts counted one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.text.outgoing import Airtime, OutgoingTexts, PayloadTemplate, Slot, question_as_asked
from runner.text.preview import list_bubbles
from runner.text.segment import count_segments, write_choices_plainly, write_plainly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORDS = st.sampled_from(
    [
        "Hi",
        "a" * 170,
        "€" * 90,
        "naïve…",
        "ё" * 80,
        "👍" * 40,
        "It’s " + "a" * 200,
        "’中" * 40,
        "…" * 60,
        "0",
        "1",
    ]
)
PARTS = WORDS | st.none()
QUESTIONS = st.fixed_dictionaries(
    {"text": PARTS, "tag": st.just("q")}, optional={"responses": st.lists(PARTS, min_size=2, max_size=4)}
)


def shape_of(value: Any, personal: list[str], draw: Callable[[], str]) -> Any:
    """Put a slot in the place of every None, and its text into `personal`."""
    if value is None:
        personal.append(draw())
        return Slot(len(personal) - 1)
    if isinstance(value, dict):
        return {key: shape_of(item, personal, draw) for key, item in value.items()}
    return [shape_of(item, personal, draw) for item in value] if isinstance(value, list) else value


def iterate_plain(definition: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a conversation, written plainly."""
    for part in ("text", "introduction"):
        yield from [write_plainly(definition[part])] if part in definition else []
    for question in definition.get("questions", []):
        choices = write_choices_plainly(question.get("responses", []))
        yield question_as_asked(write_plainly(question["text"]), choices)
    yield from [write_plainly(definition["conclusion"])] if "conclusion" in definition else []


@given(
    st.one_of(
        st.fixed_dictionaries({"tag": st.just("t"), "text": PARTS}),
        st.fixed_dictionaries(
            {"tag": st.just("t"), "questions": st.lists(QUESTIONS, min_size=1, max_size=3)},
            optional={"introduction": PARTS, "conclusion": PARTS},
        ),
    ),
    st.data(),
)
def test_every_text_of_a_conversation_counts(definition: dict[str, Any], data: st.DataObject) -> None:
    """Personal or not, each text counts as it arrives; what comes before the first answer leaves at once."""
    personal: list[str] = []
    shape = shape_of(definition, personal, lambda: data.draw(WORDS))
    filled = PayloadTemplate(shape).fill(personal)
    bubbles = list(list_bubbles(filled))
    counts = [count_segments(bubble.text) for bubble in bubbles]
    first_question = next((n for n, bubble in enumerate(bubbles) if bubble.part == "question"), 0)
    costly = [count for count in counts if count.costly]
    assert OutgoingTexts(shape).count(personal) == Airtime(
        segments=sum(count.segments for count in counts[: first_question + 1]),
        costly=costly[0].costly if costly else None,
        segments_max=sum(count.segments for count in counts),
        largest=max(count.segments for count in counts),
        segments_plain=sum(
            min(count.segments, count_segments(plain).segments)
            for count, plain in zip(counts, iterate_plain(filled), strict=True)
        ),
        repeated=sum(bubble.segments for bubble in bubbles if bubble.responses),
    )


@pytest.mark.parametrize(
    ("text", "segments", "plain"),
    [
        ("It’s time", 1, 1),
        ("It’s time " * 8, 2, 1),
        ("It’s time" + "!" * 151, 3, 1),
        ("It's time" + "!" * 151, 1, 1),
        ("€" * 80 + "’", 2, 2),
        # Three characters each are written instead: GSM-7, but a second segment all the same.
        ("…" * 4 + "x" * 152, 3, 2),
        # Nothing says 中 in GSM-7, so replacing the apostrophe gains nothing.
        ("a’中" + "x" * 100, 2, 2),
        ("ё" * 160, 3, 3),
    ],
)
def test_what_characters_outside_the_alphabet_cost(text: str, segments: int, plain: int) -> None:
    """A text written plainly takes the segments of what would be written instead, no fewer."""
    found = OutgoingTexts({"tag": "t", "text": text}).count(())
    assert (found.segments_max, found.segments_plain) == (segments, plain)


def test_choices_that_pictures_tell_apart_keep_them() -> None:
    """👍 and 👎 are not left out where they are the choices: nothing is gained, and nothing is advised."""
    question = {"tag": "q", "text": "Well?", "responses": ["👍", "👎"]}
    found = OutgoingTexts({"tag": "t", "questions": [question]}).count(())
    assert (found.costly, found.segments_max, found.segments_plain) == ("👍", 1, 1)
    question["text"] = "Well? " * 12
    found = OutgoingTexts({"tag": "t", "questions": [question]}).count(())
    assert (found.segments_max, found.segments_plain) == (2, 2)
