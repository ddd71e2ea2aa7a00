"""A definition in words, part by part, and how two of them differ."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Wording = tuple[tuple[str, str], ...]
"""What a recipient gets: the names of its parts with their texts."""

_MOST_PAIRS = 200_000
"""Pairs of equal words in two texts that are still matched: the time grows with them, and faster. Texts of a
thousand words stay far below; one word a thousand times over would take minutes."""
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Change:
    """How two definitions differ.

    Attributes:
        key: 60 bits: equal for changes that replace the same words in the same parts, whatever stands around
            them.
        old: the parts that differ, as they were.
        new: the same, as they are.
    """

    key: int
    old: Wording
    new: Wording


def word_definition(definition: dict[str, Any]) -> Wording:
    """Return a definition, the send body less `phone`, in words: one part after the other."""
    return tuple(_iterate_parts(definition))


def _iterate_parts(definition: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in definition.items():
        if name == "questions":
            for question in value:
                yield from _iterate_question(question)
        else:
            yield name, value if isinstance(value, str) else str(value).lower()


def _iterate_question(question: dict[str, Any]) -> Iterator[tuple[str, str]]:
    name = f"question {question['tag']}"
    yield name, question["text"]
    if "responses" in question:
        yield f"{name}, responses", "\n".join(question["responses"])
    if "conclude_on" in question:
        yield f"{name}, conclude_on", question["conclude_on"]


def compare_wordings(old: Wording, new: Wording) -> Change:
    """Return how two wordings differ."""
    before, after = dict(old), dict(new)
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    if not names:
        # The same parts in another order: all there is.
        return Change(_hash_change([(name, "") for name in after]), old, new)
    said = [(name, repr(list(_replace_words(before.get(name), after.get(name))))) for name in names]
    return Change(
        _hash_change(said),
        tuple((name, before[name]) for name in names if name in before),
        tuple((name, after[name]) for name in names if name in after),
    )


def _replace_words(old: str | None, new: str | None) -> Iterator[tuple[str | None, str | None]]:
    if old is None or new is None:
        yield old, new
        return
    before, after = _TOKEN.findall(old), _TOKEN.findall(new)
    times = Counter(after)
    if sum(times[word] for word in before) > _MOST_PAIRS:
        yield old, new
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind != "equal":
            yield "".join(before[start:end]), "".join(after[new_start:new_end])


def _hash_change(said: list[tuple[str, str]]) -> int:
    # As in a plan's groups: there may be a million, and this is the smallest integer of two digits.
    digest = hashlib.blake2b(repr(said).encode(), digest_size=8).digest()
    return int.from_bytes(digest) >> 4
