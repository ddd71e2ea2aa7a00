"""Replies with their questions and readings, as tables of the engine.

Messages are known by their places in the campaign, in the views `named` of results, whose message is null if
the campaign does not have it, `reached` of contacts (people have one a message), `sendings` of all texts to
them, and `refusing` of people whose reply opts out.
`read_replies` has the replies to its messages:

- `place`, `question`: of the question, in its message and in the campaign; null for one that the campaign
  does not have, whose participants have answered all the same;
- `reading`: its number; participants' own words, and rare unknown responses, share one;
- `rank`: of several answers of a person, the highest is the latest: by time, then by message, then by guid.

`read_answers` are those of them that neither opt out nor answer nothing.
The engine keeps candidates, and `build_reader` decides what of them is kept: a response or a number, never a
participant's own text.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

from runner.campaign.answers import find_endings, find_places
from runner.campaign.scales import read_points, read_scale_point
from runner.report.columns.engine import Engine, quote
from runner.report.facts import AnswerReading, CampaignOutline, QuestionOutline
from runner.source.normalize import fold_answer
from runner.source.quantity import read_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from fractions import Fraction


# An index, unlike a phone number or other digits that somebody typed into a freeform question.
_INDEX = re.compile(r"[1-9][0-9]{0,2}")

OWN_WORDS = AnswerReading()
"""A text of the participant's own, without further reading."""
_MOST_STRANGERS = 1000
"""Responses kept that a question does not have: the rarest beyond these count as own words."""
_OWN_WORDS_NUMBER = 0
"""The number of the reading of all answers that are not kept."""
_FOUND = "SELECT message, refuses, says_nothing, arm, question_tag, count(*) AS n FROM named GROUP BY ALL"
# A slot is a question as an arm of a message asks it.
_ASKED = (
    "slot INTEGER, message INTEGER, arm VARCHAR, place INTEGER, question INTEGER, question_tag VARCHAR, "
    "text VARCHAR, kind VARCHAR"
)
_READINGS = "slot INTEGER, answer VARCHAR, response VARCHAR, reading INTEGER"
_NAMED = """
CREATE OR REPLACE TEMP VIEW named AS SELECT * REPLACE ({number} AS message) FROM results;
CREATE OR REPLACE TEMP VIEW reached AS SELECT * REPLACE ({number} AS message) FROM contacts;
CREATE OR REPLACE TEMP VIEW sendings AS SELECT * REPLACE ({number} AS message) FROM texts;
CREATE OR REPLACE TEMP VIEW refusing AS
SELECT {number} AS message, person, bool_or(is_opt_out) AS is_opt_out FROM refused GROUP BY ALL;
"""
_REPLIES = f"""
CREATE OR REPLACE TEMP VIEW replies AS
SELECT r.*, asked.slot, asked.place, asked.question, asked.text, asked.kind FROM named r
LEFT JOIN asked ON asked.message = r.message AND asked.arm = r.arm AND asked.question_tag = r.question_tag
WHERE r.message IS NOT NULL;
CREATE OR REPLACE TEMP VIEW read_replies AS
SELECT replies.*, coalesce(readings.reading, {_OWN_WORDS_NUMBER}) AS reading,
  created_us::HUGEINT * 281474976710656 + (message::BIGINT * 4294967296 + nth) AS rank
FROM replies LEFT JOIN readings ON readings.slot = replies.slot
  AND readings.answer = replies.answer AND readings.response = replies.response;
CREATE OR REPLACE TEMP VIEW read_answers AS FROM read_replies WHERE NOT refuses;
"""
# The offer and a question's kind follow from the other columns: they split no group.
_CANDIDATES = f"""
SELECT replies.slot, answer, response
FROM replies LEFT JOIN offered ON offered.slot = replies.slot AND offered.folded = replies.folded
WHERE NOT refuses AND (offered.folded IS NOT NULL
  OR (is_index AND kind = 'choice')
  OR (is_number AND kind = 'number'))
GROUP BY replies.slot, answer, response, kind, offered.folded
QUALIFY kind = 'number' OR offered.folded IS NOT NULL OR row_number() OVER (
  PARTITION BY replies.slot ORDER BY count(*) DESC, answer, response) <= {_MOST_STRANGERS}
"""


def number_messages(
    engine: Engine, outline: CampaignOutline, message_ids: Mapping[str, str]
) -> list[tuple[Any, ...]]:
    """Make the views `named`, `reached`, `sendings` and `refusing`, and return the counts of results.

    They are by message, by whether they are no answers, whether they say nothing, by arm and question tag.
    """
    places = {one.id: number for number, one in enumerate(outline.messages)}
    places |= {former: places[now] for former, now in message_ids.items() if now in places}
    cases = "".join(f" WHEN {quote(name)} THEN {number}" for name, number in places.items())
    number = f"CASE message{cases} END" if cases else "NULL"
    engine.run(_NAMED.format(number=f"({number})::INTEGER"))
    return engine.rows(_FOUND)


def read_replies(
    engine: Engine, outline: CampaignOutline, found: Sequence[tuple[Any, ...]]
) -> list[AnswerReading]:
    """Make the views `read_replies` and `read_answers`, and return the readings by their numbers.

    `found` are the counts of results.
    """
    slots = list(_list_slots(outline, {(message, arm) for message, _, _, arm, *_ in found}))
    engine.fill(
        "asked", _ASKED, [(slot, *row, _kind_of(question)) for slot, (*row, question) in enumerate(slots)]
    )
    engine.fill(
        "offered",
        "slot INTEGER, folded VARCHAR",
        [(slot, text) for slot, row in enumerate(slots) for text in _list_offered(row[-1])],
    )
    engine.fill("readings", _READINGS, ())
    engine.run(_REPLIES)
    readers = [build_reader(row[-1]) for row in slots]
    numbers = {OWN_WORDS: _OWN_WORDS_NUMBER}
    kept = []
    for slot, answer, response in sorted(engine.rows(_CANDIDATES)):
        reading = readers[slot](answer, response)
        kept.append((slot, answer, response, numbers.setdefault(reading, len(numbers))))
    engine.fill("readings", _READINGS, kept)
    return list(numbers)


def _list_slots(
    outline: CampaignOutline, arms: set[tuple[int, str]]
) -> Iterator[tuple[int, str, int, int | None, str, str, QuestionOutline]]:
    """Yield the questions of the arms that results have, as each arm asks them."""
    numbers = {(one.question.tag, one.question.scale): number for number, one in enumerate(outline.questions)}
    for message, one in enumerate(outline.messages):
        ways = {arm: {question.tag: question for question in way} for arm, way in one.all_ways.items()}
        for arm in sorted(arm for number, arm in arms if number == message):
            for place, base in enumerate(one.questions):
                own = ways.get(arm, {}).get(base.tag, base)
                yield message, arm, place, numbers.get((base.tag, base.scale)), base.tag, base.text, own


def _kind_of(question: QuestionOutline) -> str:
    if question.responses:
        return "choice"
    return "text" if question.scale in ("text", "choice") else "number"


def _list_offered(question: QuestionOutline) -> set[str]:
    texts = (
        *chain.from_iterable(question.all_responses),
        *find_places(question.all_responses),
        *question.endings,
    )
    # The engine has neither case folding, as of ß, nor compatibility forms: it has either of these.
    return {folded for text in texts for folded in (fold_answer(text), text.strip().lower())}


def build_reader(question: QuestionOutline) -> Callable[[str, str], AnswerReading]:
    """Return the reader of answers to a question, by their `result_answer` and `result_response`.

    `result_response` is matched to responses, and `result_answer` only without one: beside other words, the
    service alone knows what an index means. A freeform answer leaves nothing but its number, where the scale
    wants one.
    """
    places = find_places(question.all_responses)
    endings = find_endings(question.all_responses, question.endings)
    points = read_points(question.scale, question.responses, question.values)

    def read(answer: str, response: str) -> AnswerReading:
        key = fold_answer(response) or fold_answer(answer)
        concludes, place = key in endings, places.get(key)
        if not question.responses:
            wants_number = question.scale not in ("text", "choice")
            return AnswerReading(number=read_number(response) if wants_number else None, concludes=concludes)
        if place is not None:
            return AnswerReading(str(place + 1), question.responses[place], points[place], concludes)
        if _INDEX.fullmatch(answer.strip()):
            number = _read_stranger(question, response)
            return AnswerReading(answer.strip(), response.strip(), number, concludes)
        return AnswerReading(concludes=concludes)

    return read


def _read_stranger(question: QuestionOutline, response: str) -> Fraction | None:
    # Where places or values count, a response that is none of them has no number.
    if question.values or question.scale in ("csat", "ces"):
        return None
    return read_scale_point(response) if question.scale == "nps" else read_number(response)
