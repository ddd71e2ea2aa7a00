"""Random campaigns as people write them: of one seed always the same."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

PHONES = [
    *(f"+1415555{number:04}" for number in range(100, 110)),
    *(f"+1212555{number:04}" for number in range(100, 110)),
]
"""In Los Angeles and in New York: three hours apart."""
_WORDS = (
    "Hello",
    "Grüße",
    "Wie geht’s",
    "Any news?",
    "[ok] {brackets}",
    "schön ✓",
    "x" * 75,
    "two\nlines",
    "50 % ~ €",
)
_CHOICES = (
    ["Yes please", "Not now"],
    ["1", "2", "3", "4", "5"],
    ["0", "1", "2"],
    ["Red", "Green", "blue", "7"],
)
_PEOPLE_TEXTS = (
    "Hi {{ name }}, {0}",
    "{0}",
    "{% if plan == 'pro' %}{0} for pros{% else %}{0} {{ name }}{% endif %}",
    "{{ company }}: {0} {{ nick | default('you') }}",
)


@dataclass
class Draw:
    """A random campaign.

    Attributes:
        chance: what else of a rehearsal is drawn from.
        document: the campaign file, as JSON, which is YAML.
        phones: of the audience, those of `exclude` among them.
    """

    chance: random.Random
    document: dict[str, Any] = field(default_factory=dict)
    phones: list[str] = field(default_factory=list)

    def write(self) -> str:
        """Return the campaign file."""
        return json.dumps(self.document, ensure_ascii=False, indent=1)


def draw_campaign(seed: int) -> Draw:
    """Return the campaign of a seed."""
    chance = random.Random(seed)  # noqa: S311  nothing to keep from anybody
    draw = Draw(chance)
    draw.phones = chance.sample(PHONES, chance.randint(3, 8))
    document: dict[str, Any] = {"version": 1, "name": f"pulse-{seed}", "vars": {"company": "Acme & Co"}}
    document["recipients"] = [{"phone": phone, "vars": _draw_person(chance)} for phone in draw.phones]
    if chance.random() < 0.3:
        document["exclude"] = [{"phone": draw.phones[0]}]
    messages: list[dict[str, Any]] = []
    for number in range(chance.randint(1, 4)):
        messages.append(_draw_message(chance, number, messages))
    document["messages"] = messages
    if chance.random() < 0.4:
        document["variants"] = _draw_variants(chance, chance.choice(messages))
    if chance.random() < 0.6:
        document["schedule"] = {"send_between": chance.choice([["09:00", "20:00"], ["10:00", "19:30"]])}
    document["policy"] = {"open_session": chance.choice(["wait", "wait", "complete", "queue"])}
    document["limits"] = {"recipients_per_send": chance.choice([1, 2, 500])}
    draw.document = document
    return draw


def _draw_person(chance: random.Random) -> dict[str, str]:
    person = {
        "name": chance.choice(["Ada", "Bo", "Zoë", "{{ company }}", "Łukasz"]),
        "plan": chance.choice(["pro", "free"]),
    }
    return person | ({"nick": "N"} if chance.random() < 0.5 else {})


def _draw_text(chance: random.Random) -> str:
    return chance.choice(_PEOPLE_TEXTS).replace("{0}", chance.choice(_WORDS))


def _draw_message(chance: random.Random, number: int, before: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"id": f"m{number}", "tag": f"tag-{number}"}
    if chance.random() < 0.5:
        message["text"] = _draw_text(chance)
        message |= {"replies": "recorded"} if chance.random() < 0.2 else {}
    else:
        message |= _draw_survey(chance)
    if before and chance.random() < 0.5:
        earlier = chance.choice(before)
        to = ["everyone", "answered", "unanswered"] if "questions" in earlier else ["everyone"]
        message |= {
            "after": {"message": earlier["id"], "wait": chance.choice(["1h", "6h"])},
            "to": chance.choice(to),
        }
    if chance.random() < 0.25:
        message["complete_existing_sessions"] = True
    return message


def _draw_survey(chance: random.Random) -> dict[str, Any]:
    survey: dict[str, Any] = {"questions": [_draw_question(chance, n) for n in range(chance.randint(1, 3))]}
    if chance.random() < 0.5:
        survey["introduction"] = _draw_text(chance)
    if chance.random() < 0.5:
        survey["conclusion"] = _draw_text(chance)
    return survey


def _draw_question(chance: random.Random, number: int) -> dict[str, Any]:
    question: dict[str, Any] = {"tag": f"q{number}", "text": _draw_text(chance)}
    if chance.random() < 0.6:
        question["responses"] = chance.choice(_CHOICES)
        if chance.random() < 0.3:
            question["conclude_on"] = chance.choice(question["responses"])
    return question


def _draw_variants(chance: random.Random, message: dict[str, Any]) -> dict[str, Any]:
    other = "text" if "text" in message else "introduction"
    arms = [{"id": "plain"}, {"id": "other", other: _draw_text(chance), "weight": chance.choice([1, 3])}]
    return {"seed": "s", "of": message["id"], "arms": arms, "holdout": chance.choice([0, 0.2])}
