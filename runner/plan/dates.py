"""The dates that a campaign's messages go by, and the records of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.ledger.model import on_occasion
from runner.plan.decisions import NEVER
from runner.timing.dates import CellTime, DatedText, read_time
from runner.timing.decision import Timekeeper
from runner.timing.zone import find_zones

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from runner.audience.audience import Recipient
    from runner.campaign.message_model import Message
    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import TargetKey
    from runner.plan.decisions import Decision
    from runner.timing.legal_hours import LawBook


class Dates:
    """A reader of recipients' dates, for the planned messages.

    `columns` are the columns that they go by, by their places; None for those that go by none. `key` is of
    the recorded fingerprints; None if there are none. The `law` may move texts to earlier hours.
    """

    def __init__(
        self, campaign: Campaign, messages: Sequence[Message], key: TargetKey | None, law: LawBook | None
    ) -> None:
        self.columns = [campaign.find_date_column(message) for message in messages]
        self._key = key
        self._clock = Timekeeper(
            campaign.schedule,
            timezone_unknown=campaign.policy.timezone_unknown,
            law=law,
            purpose=campaign.policy.purpose,
            no_rule="schedule",
            keeps_number=campaign.rules.keeps_number,
        )
        self._rules = list(map(campaign.find_when, messages))

    def read(self, index: int, recipient: Recipient) -> CellTime | None:
        """Return the date that a message to a recipient goes by; None if there is none."""
        written = recipient.vars.get(self.columns[index] or "")
        found = None if written is None else read_time(str(written))
        return found if isinstance(found, CellTime) else None

    def list_keys(
        self, known_as: Sequence[str], recipient: Recipient, time: CellTime | None
    ) -> Sequence[str]:
        """Return the keys of a recipient's deliveries for a date, in each form, and of those without one."""
        if self._key is None or time is None:
            return known_as
        own = self._clock.find_clocks(recipient.phone, recipient.timezone, recipient.region)
        # The number's as well: on record may be a date from before the row had a time zone.
        zones = dict.fromkeys((*own, *find_zones(recipient.phone)))
        names = map(self._key.name_occasion, time.list_forms(zones))
        return (*known_as, *[on_occasion(one, name) for name in names for one in known_as])

    def find_earliest(self, index: int, recipient: Recipient, time: CellTime) -> datetime:
        """Return the moment before which a message does not go by a date; NEVER if that is not known."""
        when, wait = self._rules[index]
        if when is None:
            return NEVER
        zone, region = recipient.timezone, recipient.region
        found = DatedText(self._clock, when.rule, time, recipient.phone, zone, region).find_earliest()
        return NEVER if found is None else found + wait


def rank_by_date(decision: Decision) -> tuple[int, datetime]:
    """Return the place of a decision among those on a recipient's dates: what goes now, next, or perhaps."""
    if decision.counts:
        return 0, decision.until or NEVER
    if decision.due is not None:
        return 1, decision.due[0]
    return 2 if decision.comes_later else 3, NEVER
