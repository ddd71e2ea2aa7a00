"""The people who have answered a campaign to the end, for `limits.completes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from runner.ledger.results.sendings import is_confirmed_refusal
from runner.ledger.tables import ANSWER, in_wave, launches, results

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from sqlalchemy import Connection


def count_completed(
    connection: Connection,
    campaign_id: int,
    message_ids: Mapping[str, str],
    questions: Collection[str],
    ends: Callable[[str, str, str], bool],
    wave: str = "",
) -> int:
    """Return the number of people with an answer that ends a survey of a campaign, each once.

    `ends` tells that of an answer to one of `questions`, by message, question and the service's response.
    """
    columns = launches.c.message, results.c.question_tag, ANSWER, results.c.participant
    query = (
        select(*columns)
        .join(launches, launches.c.id == results.c.launch_id)
        .where(in_wave(campaign_id, wave), results.c.question_tag.in_(questions))
        .where(results.c.non_answer == "", ~is_confirmed_refusal(campaign_id))
    )
    people = set[str]()
    for message, question, response, person in connection.execute(query.execution_options(yield_per=1000)):
        if ends(message_ids.get(message, message), question, response):
            people.add(person)
    return len(people)
