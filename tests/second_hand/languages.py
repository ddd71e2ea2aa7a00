"""A quarterly survey in three languages, and the people who answer it, each in their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

LANGUAGES = ("en", "es", "ar")
DETRACTORS = range(7)
_DIGITS = "٠١٢٣٤٥٦٧٨٩"
SATISFIED: dict[int | None, dict[str, str]] = {
    5: {"en": "Great", "es": "Excelente", "ar": "ممتاز"},
    4: {"en": "Good", "es": "Bueno", "ar": "جيد"},
    3: {"en": "Fair", "es": "Regular", "ar": "مقبول"},
    2: {"en": "Poor", "es": "Malo", "ar": "سيئ"},
    1: {"en": "Awful", "es": "Pésimo", "ar": "سيئ جدا"},
    None: {"en": "Don't know", "es": "No sé", "ar": "لا أعرف"},
}
"""The responses by value; without one for those who cannot say."""
POINTS: dict[int, dict[str, str]] = {
    point: {"en": str(point), "es": str(point), "ar": "".join(_DIGITS[int(digit)] for digit in str(point))}
    for point in range(11)
}
REASONS = {"en": "It took too long", "es": "Tardó demasiado", "ar": "استغرق وقتا طويلا"}


def build_campaign(wave: str) -> dict[str, Any]:
    """Return the campaign of a wave."""
    nps = {
        "tag": "nps",
        "scale": "nps",
        "text": {"en": "Would you recommend us?", "es": "¿Nos recomendaría?", "ar": "هل توصي بنا؟"},
        "responses": _list_responses(POINTS),
    }
    sat = {
        "tag": "sat",
        "scale": "csat",
        "text": {"en": "How was it?", "es": "¿Qué tal fue?", "ar": "كيف كان؟"},
        "responses": _list_responses(SATISFIED),
    }
    why = {"en": "What went wrong?", "es": "¿Qué salió mal?", "ar": "ما الذي حدث؟"}
    return {
        "version": 1,
        "name": "pulse",
        "tag": "pulse",
        "wave": wave,
        "languages": {"default": "en", "known": list(LANGUAGES)},
        "recipients": [{"csv": "people.csv", "language_column": "lang"}],
        "messages": [
            {
                "id": "ask",
                "introduction": {"en": "Two questions.", "es": "Dos preguntas.", "ar": "سؤالان."},
                "questions": [nps, sat],
                "conclusion": {"en": "Thank you!", "es": "¡Gracias!", "ar": "شكرا!"},
            },
            {
                "id": "remind",
                "after": {"message": "ask", "wait": "2d"},
                "to": "unanswered",
                "complete_existing_sessions": True,
                "introduction": {"en": "Still there?", "es": "¿Sigue ahí?", "ar": "هل أنت هنا؟"},
                "questions": [nps],
            },
            {
                "id": "why",
                "after": {"message": "ask", "wait": "1h"},
                "to": {"question": "nps", "values": "0-6"},
                "questions": [{"tag": "reason", "text": why}],
            },
        ],
    }


def _list_responses(texts: dict[Any, dict[str, str]]) -> list[dict[str, Any]]:
    return [{"value": "none" if value is None else value, "text": text} for value, text in texts.items()]


@dataclass(frozen=True)
class Respondent:
    """A person: `language` is empty for somebody whose cell is blank, who gets English.

    Attributes:
        phone: E.164.
        language: as in the file.
    """

    phone: str
    language: str

    @property
    def said(self) -> str:
        """The language that they are asked in."""
        return self.language or LANGUAGES[0]


def make_people(number: int) -> list[Respondent]:
    """Return people of whom a fourth has no language."""
    return [
        Respondent(f"+1212{2000000 + place * 37}", ("", *LANGUAGES)[place % 4]) for place in range(number)
    ]


def answer(person: Respondent, question: str, random: Random) -> str:
    """Return what a person writes, in their language."""
    if question == "reason":
        return REASONS[person.said]
    texts = list((POINTS if question == "nps" else SATISFIED).values())
    place = random.randrange(len(texts))
    return texts[place][person.said]


def read_value(question: str, response: str) -> int | None:
    """Return the value of a response in any language.

    Raises:
        LookupError: it is none.
    """
    texts = list((POINTS if question == "nps" else SATISFIED).items())
    return next(value for value, text in texts if response in text.values())
