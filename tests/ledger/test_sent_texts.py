"""What recipients got, as the ledger has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.record.deliveries import SentTexts, find_campaign, read_sent_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.model import LaunchRecord

    Make = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]


def read(ledger: Ledger, message_ids: dict[str, str]) -> SentTexts:
    with ledger.reading() as connection:
        campaign = find_campaign(connection, "live", "pulse")
        assert campaign is not None
        return read_sent_texts(connection, campaign.id, message_ids)


def test_each_delivery_has_its_launch(ledger: Ledger, make_record: Make, deliver: Deliver) -> None:
    """Recipients are found by message and fingerprint, under the ids that messages have now."""
    ask, nudge = make_record("one", 1, 2), make_record("two", 1, message="old-nudge")
    first, second = deliver(ask, nudge)
    sent = read(ledger, {"ask": "ask", "old-nudge": "nudge", "nudge": "nudge"})
    assert sent.launches == {
        "ask": dict.fromkeys(ask.recipients, first),
        "nudge": dict.fromkeys(nudge.recipients, second),
    }
    assert sent.digests == {first: "d1g35t-one", second: "d1g35t-two"}
