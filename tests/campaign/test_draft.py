"""Drafts: what is filled in has the digest that the whole definition has."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runner.text.outgoing import PayloadTemplate, Slot
from tests.canonical import digest_definition

TEXTS = st.text(st.sampled_from('ab %s\n"\\é€👍,:{}[]\u2028\x00'), max_size=5)
SHAPES: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.just(Slot(0)) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def number_slots(shape: Any, numbers: list[int]) -> Any:
    """Give every slot a number of its own."""
    if isinstance(shape, Slot):
        return Slot(numbers.pop())
    if isinstance(shape, dict):
        return {key: number_slots(item, numbers) for key, item in shape.items()}
    return [number_slots(item, numbers) for item in shape] if isinstance(shape, list) else shape


def count_slots(shape: Any) -> int:
    if isinstance(shape, Slot):
        return 1
    items = shape.values() if isinstance(shape, dict) else shape if isinstance(shape, list) else ()
    return sum(map(count_slots, items))


def fill_slowly(shape: Any, texts: list[str]) -> Any:
    if isinstance(shape, Slot):
        return texts[shape.index]
    if isinstance(shape, dict):
        return {key: fill_slowly(item, texts) for key, item in shape.items()}
    return [fill_slowly(item, texts) for item in shape] if isinstance(shape, list) else shape


@given(st.dictionaries(TEXTS, SHAPES, max_size=4), st.data())
def test_a_draft_filled_in_is_the_definition(unnumbered: dict[str, Any], data: st.DataObject) -> None:
    """Texts land in their slots, and the digest is that of the canonical JSON, wherever the slots are."""
    count = count_slots(unnumbered)
    shape = number_slots(unnumbered, list(data.draw(st.permutations(range(count)))))
    texts = data.draw(st.lists(TEXTS, min_size=count, max_size=count))
    draft, definition = PayloadTemplate(shape), fill_slowly(shape, texts)
    assert draft.fill(texts) == definition
    assert draft.digest(texts) == digest_definition(definition)


def test_digests_of_earlier_versions_are_still_known() -> None:
    """Deliveries are known by the digest of their definition, so it never changes."""
    definition = {
        "tag": "pulse",
        "introduction": "Grüß dich, “Ada”!\n€5 👍",
        "questions": [{"text": "How?", "tag": "q", "responses": ["0", "1"], "conclude_on": "0"}],
        "complete_existing_sessions": True,
    }
    assert PayloadTemplate(definition).digest(()) == "9643c4f427fa39ba8b939bacc1629aaa"


def test_filling_changes_nothing_of_the_draft() -> None:
    """One recipient's definition has nothing of another's."""
    draft = PayloadTemplate(
        {"tag": "t", "questions": [{"text": Slot(0), "tag": "q", "responses": ["a", "b"]}]}
    )
    one, other = draft.fill(["One?"]), draft.fill(["Other?"])
    assert one["questions"][0]["text"] == "One?"
    assert other["questions"][0] == {"text": "Other?", "tag": "q", "responses": ["a", "b"]}
