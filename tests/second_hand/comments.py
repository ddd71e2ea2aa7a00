"""What people wrote, found again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pandas as pd

from tests.second_hand.groups import find_latest, list_asked
from tests.second_hand.questions import count_points
from tests.second_hand.tables import fold

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.second_hand.people import People
    from tests.second_hand.tables import Figures

_MOST = 1000


def quote_people(people: People, main: str | None, listed: Collection[str]) -> Figures:
    """Return the comments of a report; `listed` are the phones of the audience."""
    written, scores = [], {}
    for question, places in list_asked(people):
        latest = find_latest(people, places, question["tag"])
        for row in latest.itertuples():
            points = count_points(question, pd.DataFrame({"response": [row.response]}))
            if question["tag"] == main and points:
                scores[row.phone] = points[0]
            if not points and _is_own(question, str(row.answer), str(row.response)):
                written.append((row.at, row.phone, question["tag"], str(row.response).strip()))
    known = sorted((one for one in written if one[1] in listed), reverse=True)
    newest = [
        {"question": tag, "words": _mask(words), "score": scores.get(phone), "answered_at": at}
        for at, phone, tag, words in known[:_MOST]
    ]
    return {
        "newest": newest,
        "total": len(known),
        "left_out": len(written) - len(known),
        "is_audience_changed": False,
    }


def _is_own(question: dict[str, Any], answer: str, response: str) -> bool:
    """Tell whether a reply is no response, of the campaign or the service, and says something."""
    offered = {fold(text) for text in (*question.get("responses", ()), question.get("conclude_on", "\0"))}
    is_index = bool(question.get("responses")) and re.fullmatch(r"[1-9][0-9]{0,2}", answer.strip())
    return fold(response) not in offered and not is_index and response.strip() != ""


def _mask(words: str) -> str:
    """Return words without phones: nobody here writes anything else that tells who they are."""
    return re.sub(r"\d[\d.]{8,}", "[phone]", words)
