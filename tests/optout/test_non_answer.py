"""Replies to open questions that answer nothing."""

from __future__ import annotations

from runner.optout.non_answer import NonAnswer, find_non_answer

SENT = "How was it? Tell us. À demain."
REACTIONS = """
Liked “How was it?”|Loved "How was it?"|Disliked “Tell us.”|Emphasized “How was…”|Emphasised “it”|Questioned “How”
Laughed at “How was it?”|Reacted 👍🏽 to “How was it?”|Removed a like from “How”|A adoré « à demain »
N’a pas aimé « à demain »|A réagi 😂 à « à demain »|a attribué la mention « Adore » à « à demain »|Le gustó “How”
Gefällt „How“|👍 to “How was it”|\u200a\u200b\U0001f44d\u200b à "\u200aà demain\u200a"\u200a|❤️ to "How"
Liked “Your parcel has been delivered to a neighbour”
"""
AUTOMATIC = """
I'm driving with Do Not Disturb While Driving turned on. I'll see your message when I get where I'm going.
I’m driving with Driving Focus turned on. I’ll see your message when I get where I’m going.
(I'm not receiving notifications. If this is urgent, reply "urgent")|Auto-reply: I am away|I'm driving
Automatic reply: Out of office|Out of office: back Monday|AutoReply: busy|I'm driving right now, I'll call you
This is an automated message. Do not reply|Automatische Antwort: ich bin weg|Auto response - can't talk
"""
BLANK = ["", "  ", "\n\t", "\u200b", "\u2060\u200d", "\u3164", "\u2800\u2800", "\ufe0f", "\u00a0"]
ANSWERS = """
ok|thanks|?|👍|.|Liked it a lot|Liked the "Margherita" pizza|I liked "the show"|Loved it|Loved "The Lion King"|5|No.
I'm driving a truck for a living|I'm driving there daily, so parking matters|Automatic doors are broken|Out of order
The auto parts were late|the office is nice|"Great"|Great "service" as always|Questioned my bill|away from home
Automatic payment would be nice|My message: more staff|vacation was good|out of office supplies|Away team was better
automatic message on the phone is annoying|Reacted well to “Tell us.”
"""


def split(table: str) -> list[str]:
    return [text for line in table.strip().splitlines() for text in line.split("|")]


WHAT_ANSWERS_NOTHING_IS_TOLD_FROM_AN_ANSWER: list[tuple[str, NonAnswer | None]] = [
    *((text, "reaction") for text in split(REACTIONS)),
    *((text, "automatic") for text in split(AUTOMATIC)),
    *((text, "blank") for text in BLANK),
    *((text, None) for text in split(ANSWERS)),
]


def test_what_answers_nothing_is_told_from_an_answer() -> None:
    """Nothing visible, a phone's reaction to what was sent, and what a phone answers by itself."""
    for text, reason in WHAT_ANSWERS_NOTHING_IS_TOLD_FROM_AN_ANSWER:
        assert find_non_answer(text, SENT) == reason
