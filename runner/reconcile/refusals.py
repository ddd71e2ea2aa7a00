"""Results that opt out: they are no answers, to whatever question they came."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.ledger.sendings import iterate_opt_out_replies
from runner.optout.reply import classify

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from runner.ledger.report_model import OptOutReply
    from runner.ledger.target_key import LedgerConnection


def iterate_refusals(
    connection: LedgerConnection, campaign_id: int, span: tuple[int, int] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the results of a campaign that opt out: the ledger's number of the launch, and `result_guid`.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        span: first and last of the numbers of the launches that are wanted; None for all.
    """
    for reply in iterate_opt_out_replies(connection, campaign_id, span):
        if _opts_out(reply):
            yield reply.launch_id, reply.result_guid


def count_refusing(
    connection: LedgerConnection, campaign_id: int, message_ids: Mapping[str, str]
) -> Counter[str]:
    """Return how many people have opted out by reply and answered nothing, by message id.

    Args:
        connection: reads the ledger.
        campaign_id: the ledger's number of the campaign.
        message_ids: the ids that messages have now, by those that they had before.
    """
    answered: dict[tuple[str, str], bool] = {}
    for reply in iterate_opt_out_replies(connection, campaign_id):
        person = message_ids.get(reply.message, reply.message), reply.participant
        answered[person] = answered.get(person, False) or not _opts_out(reply)
    return Counter(message for (message, _), has_answered in answered.items() if not has_answered)


def _opts_out(reply: OptOutReply) -> bool:
    """Tell whether a result is an opt-out, and so no answer.

    One that a person confirmed, or that needed no decision, is; a doubtful one is an answer until somebody
    confirms that it opts out. Who was let in again has still not answered by writing STOP.
    """
    if reply.state == "dismissed":
        return classify(reply.response).kind == "sure"
    return reply.state == "confirmed"
