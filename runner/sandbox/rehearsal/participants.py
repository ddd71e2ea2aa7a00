"""Simulated participants: who they are and what they reply, drawn from a seed, the same ones every time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING

from runner.sandbox.comments import COMPLAINTS, EVASIONS, MIXED, PRAISE
from runner.sandbox.conversation import is_scale, match_response
from runner.sandbox.rehearsal.slips import mistype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.sandbox.model import Prompt, Question
    from runner.sandbox.rehearsal.personas import Habits

_FIRST_REPLY_MEDIAN = timedelta(minutes=9)
_NEXT_REPLY_MEDIAN = timedelta(seconds=45)
_DELAY_SPREAD = 1.3  # sigma of the lognormal: the slowest of a hundred take twenty times the median
_DELAY_BOUNDS = (timedelta(seconds=4), timedelta(hours=36))
# Moods with this shape put about half of the scores at 9 and 10 and a fifth at 6 and below, as real NPS does.
_MOOD_SHAPE = (3.4, 0.8)
_SCORE_NOISE = 0.06
_GLAD, _UPSET = 0.8, 0.55
_FAREWELLS = ("STOP", "stop", "Stop.", "unsubscribe")
_NUMBER_RATE = 0.5  # of the choices, those that are replied by number


@dataclass(frozen=True, slots=True)
class Persona:
    """One simulated participant.

    Attributes:
        identity: what all of their randomness grows from.
        is_silent: never replies.
        quits_after: the share of a survey after which they stop, or None if they answer everything.
        mood: from 0 (upset) to 1 (glad).
        moods: the range that their moods stay in.
        pace: factor on the time they take.
        invalid_rate: share of their replies to multiple choice that are preceded by an invalid one.
        typo_rate: share of their replies with a slip of the finger.
        leaves_after: the question, from 0, to which they write STOP, or None if they never do.
    """

    identity: str = field(repr=False)
    is_silent: bool
    quits_after: float | None
    mood: float
    moods: tuple[float, float]
    pace: float
    invalid_rate: float
    typo_rate: float
    leaves_after: int | None


@dataclass(frozen=True, slots=True)
class Reply:
    """A text that a participant will send.

    Attributes:
        text: what they write.
        delay: time since they were asked, or since their text before this one.
    """

    text: str = field(repr=False)
    delay: timedelta


def draw_persona(seed: int, phone: str, habits: Habits) -> Persona:
    """Draw who answers a phone; it depends on nobody else, so that more participants change nobody."""
    identity = f"{seed}/{phone}"
    random = Random(identity)
    is_silent = random.random() >= habits.response_rate
    quits = random.random() < habits.quit_rate
    quits_after = random.uniform(0.2, 0.9)
    lowest, highest = habits.mood
    mood = lowest + (highest - lowest) * random.betavariate(*_MOOD_SHAPE)
    pace = habits.pace * random.lognormvariate(0, 0.5)
    leaves = random.random() < habits.stop_rate
    return Persona(
        identity=identity,
        is_silent=is_silent,
        quits_after=quits_after if quits else None,
        mood=mood,
        moods=habits.mood,
        pace=pace,
        invalid_rate=habits.invalid_rate,
        typo_rate=habits.typo_rate,
        leaves_after=random.randrange(2) if leaves else None,
    )


def plan_replies(persona: Persona, prompt: Prompt, session_number: int) -> tuple[Reply, ...]:
    """Decide what a participant replies to a question.

    Args:
        persona: who is asked.
        prompt: what they are asked.
        session_number: which of the participant's sessions asks, from 1. With the question's position it is
            the moment, so that a simulation that is run again goes on as it would have.

    Returns:
        Their texts in order; none if they say nothing, several if the first ones are invalid.
    """
    if persona.is_silent or _has_quit(persona, prompt):
        return ()
    random = Random(f"{persona.identity}/{session_number}/{prompt.position}")
    is_first = prompt.position == 0
    delay = _draw_delay(random, persona.pace, _FIRST_REPLY_MEDIAN if is_first else _NEXT_REPLY_MEDIAN)
    if persona.leaves_after is not None and prompt.position >= persona.leaves_after:
        return (Reply(random.choice(_FAREWELLS), delay),)
    valid = _choose_answer(random, persona, prompt.question)
    slip = _slip(persona, random, prompt.question, valid)
    if slip is not None:
        return Reply(slip, delay), Reply(valid, _draw_delay(random, persona.pace, _NEXT_REPLY_MEDIAN))
    if random.random() >= persona.invalid_rate:
        return (Reply(valid, delay),)
    invalid = _choose_invalid(random, prompt.question)
    if invalid is None:
        return (Reply(valid, delay),)
    return Reply(invalid, delay), Reply(valid, _draw_delay(random, persona.pace, _NEXT_REPLY_MEDIAN))


def _slip(persona: Persona, random: Random, question: Question, text: str) -> str | None:
    """Decide whether a text goes out mistyped; where it is no answer then, the right one follows."""
    # Nothing is drawn for people who make no typos: they answer as they always did.
    if persona.typo_rate == 0 or random.random() >= persona.typo_rate:
        return None
    slip = mistype(random, text)
    # A slip must not become another answer.
    is_other = bool(question.responses) and match_response(question.responses, slip) is not None
    return None if slip == text or is_other else slip


def _has_quit(persona: Persona, prompt: Prompt) -> bool:
    if persona.quits_after is None:
        return False
    answered = math.ceil(persona.quits_after * len(prompt.definition.questions))
    return prompt.position >= max(1, answered)


def _draw_delay(random: Random, pace: float, median: timedelta) -> timedelta:
    shortest, longest = _DELAY_BOUNDS
    delay = median * (pace * random.lognormvariate(0, _DELAY_SPREAD))
    return min(max(delay, shortest), longest)


def _choose_answer(random: Random, persona: Persona, question: Question) -> str:
    if not question.responses:
        return random.choice(_choose_comments(persona.mood))
    count = len(question.responses)
    if is_scale(question.responses):
        lowest, highest = persona.moods
        mood = min(max(persona.mood + random.gauss(0, _SCORE_NOISE), lowest), highest)
        return _vary_case(random, question.responses[round(mood * (count - 1))])
    # What is listed first is chosen more often.
    (index,) = random.choices(range(count), weights=range(count, 0, -1))
    number = str(index + 1)
    if random.random() < _NUMBER_RATE and match_response(question.responses, number) == index:
        return number
    return _vary_case(random, question.responses[index])


def _choose_comments(mood: float) -> Sequence[str]:
    if mood >= _GLAD:
        return PRAISE
    return COMPLAINTS if mood < _UPSET else MIXED


def _vary_case(random: Random, response: str) -> str:
    """Write a response as people type it: case and outer blanks do not matter to the service."""
    return random.choice(
        (response, response, response.lower(), response.upper(), f" {response} ", f"{response}\n")
    )


def _choose_invalid(random: Random, question: Question) -> str | None:
    if not question.responses:
        return None
    candidates = [*EVASIONS, str(len(question.responses) + 1), "10/10"]
    invalid = [text for text in candidates if match_response(question.responses, text) is None]
    return random.choice(invalid) if invalid else None
