"""Simulated participants: their habits, replies and moods, drawn from a seed."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, get_type_hints

import msgspec

from runner.sandbox.conversation import is_scale, match_response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.sandbox.model import Prompt, ServiceQuestion


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_COMMENTS: dict[str, list[str]] = json.loads(Path(__file__).with_name("comments.json").read_bytes())
EVASIONS = ("maybe", "not sure 🤷", "who is this?", "idk", "what do you mean", "?")
_FIRST_REPLY_MEDIAN = timedelta(minutes=9)
_NEXT_REPLY_MEDIAN = timedelta(seconds=45)
_DELAY_SPREAD = 1.3  # sigma of the lognormal: the slowest of a hundred take twenty times the median
_DELAY_BOUNDS = (timedelta(seconds=4), timedelta(hours=36))
# Moods with this shape put about half of the scores at 9 and 10 and a fifth at 6 and below, as real NPS does.
_MOOD_SHAPE = (3.4, 0.8)
_SCORE_NOISE = 0.06
_GLAD, _UPSET = 0.8, 0.55
_FAREWELLS = ("STOP", "stop", "Stop.", "unsubscribe")
_NUMBER_RATE = 0.5  # of the choices, share of replies by number


class Habits(msgspec.Struct, frozen=True):
    """People's habits, as shares; each is described where it is set."""

    response_rate: Annotated[Share, msgspec.Meta(description="Share of the people who reply at all.")] = 0.6
    quit_rate: Annotated[Share, msgspec.Meta(description="Of them, those who stop half-way.")] = 0.12
    invalid_rate: Annotated[Share, msgspec.Meta(description="Of choices, those first answered wrongly.")] = (
        0.08
    )
    stop_rate: Annotated[Share, msgspec.Meta(description="Of those who reply, those who write STOP.")] = 0.0


def describe_habits() -> dict[str, tuple[str, float]]:
    """Return description and default of each habit, by its name."""
    hints = get_type_hints(Habits, include_extras=True)
    return {
        name: (str(hints[name].__metadata__[-1].description), getattr(AVERAGE, name))
        for name in Habits.__struct_fields__
    }


AVERAGE = Habits()


@dataclass(frozen=True, slots=True)
class Person:
    """One simulated participant.

    Attributes:
        identity: the seed of their randomness.
        habits: those of all.
        is_silent: True if they never reply.
        quits_after: share of a survey after which they stop; None if they answer everything.
        mood: from 0 (upset) to 1 (glad).
        pace: factor on the time they take.
        leaves_after: index of the question to which they write STOP, if any.
    """

    identity: str = field(repr=False)
    habits: Habits
    is_silent: bool
    quits_after: float | None
    mood: float
    pace: float
    leaves_after: int | None


@dataclass(frozen=True, slots=True)
class Reply:
    """A text to be sent after a `delay` from the question, or from the text before it."""

    text: str = field(repr=False)
    delay: timedelta


def draw_person(seed: int, phone: str, habits: Habits) -> Person:
    """Return the participant of a phone, independent of all others."""
    identity = f"{seed}/{phone}"
    random = Random(identity)
    is_silent = random.random() >= habits.response_rate
    quits = random.random() < habits.quit_rate
    quits_after = random.uniform(0.2, 0.9)
    mood = random.betavariate(*_MOOD_SHAPE)
    pace = random.lognormvariate(0, 0.5)
    leaves = random.random() < habits.stop_rate
    return Person(
        identity=identity,
        habits=habits,
        is_silent=is_silent,
        quits_after=quits_after if quits else None,
        mood=mood,
        pace=pace,
        leaves_after=random.randrange(2) if leaves else None,
    )


def plan_replies(person: Person, prompt: Prompt, session_number: int) -> tuple[Reply, ...]:
    """Return a participant's replies to a question in order: several if the first are invalid, perhaps none.

    `session_number` counts the participant's sessions from 1. With the question's position it makes a
    repeated simulation continue as it would have.
    """
    if person.is_silent or _has_quit(person, prompt):
        return ()
    random = Random(f"{person.identity}/{session_number}/{prompt.position}")
    is_first = prompt.position == 0
    delay = _draw_delay(random, person.pace, _FIRST_REPLY_MEDIAN if is_first else _NEXT_REPLY_MEDIAN)
    if person.leaves_after is not None and prompt.position >= person.leaves_after:
        return (Reply(random.choice(_FAREWELLS), delay),)
    valid = _choose_answer(random, person, prompt.question)
    is_wrong = random.random() < person.habits.invalid_rate
    first = _choose_invalid(random, prompt.question) if is_wrong else None
    if first is None:
        return (Reply(valid, delay),)
    return Reply(first, delay), Reply(valid, _draw_delay(random, person.pace, _NEXT_REPLY_MEDIAN))


def _has_quit(person: Person, prompt: Prompt) -> bool:
    if person.quits_after is None:
        return False
    answered = math.ceil(person.quits_after * len(prompt.definition.questions))
    return prompt.position >= max(1, answered)


def _draw_delay(random: Random, pace: float, median: timedelta) -> timedelta:
    shortest, longest = _DELAY_BOUNDS
    delay = median * (pace * random.lognormvariate(0, _DELAY_SPREAD))
    return min(max(delay, shortest), longest)


def _choose_answer(random: Random, person: Person, question: ServiceQuestion) -> str:
    if not question.responses:
        return random.choice(_choose_comments(person.mood))
    count = len(question.responses)
    if is_scale(question.responses):
        mood = min(max(person.mood + random.gauss(0, _SCORE_NOISE), 0.0), 1.0)
        return _vary_case(random, question.responses[round(mood * (count - 1))])
    # Earlier responses are chosen more often.
    (index,) = random.choices(range(count), weights=range(count, 0, -1))
    number = str(index + 1)
    if random.random() < _NUMBER_RATE and match_response(question.responses, number) == index:
        return number
    return _vary_case(random, question.responses[index])


def _choose_comments(mood: float) -> Sequence[str]:
    return _COMMENTS["praise" if mood >= _GLAD else "complaints" if mood < _UPSET else "mixed"]


def _vary_case(random: Random, response: str) -> str:
    """Return a response with the case and blanks that people type, which the service ignores."""
    return random.choice(
        (response, response, response.lower(), response.upper(), f" {response} ", f"{response}\n")
    )


def _choose_invalid(random: Random, question: ServiceQuestion) -> str | None:
    if not question.responses:
        return None
    candidates = [*EVASIONS, str(len(question.responses) + 1), "10/10"]
    invalid = [text for text in candidates if match_response(question.responses, text) is None]
    return random.choice(invalid) if invalid else None
