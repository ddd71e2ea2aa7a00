"""The bounds that a campaign sets itself: limits, and whom it may text how often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from runner.timing.schedule import NoRule, Purpose, TimezoneUnknown

ConsentRule = Literal["required", "not_required"]
QuietHours = Literal["legal", "none"]
OpenSessionRule = Literal["wait", "complete", "queue"]
DEFAULT_REVIEW_MARGIN = Fraction(1, 10)
DEFAULT_READ_REPLIES_WITHIN = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Limits:
    """The safety limits of a campaign; `None` means unlimited.

    Attributes:
        recipients: the most people one plan may text.
        renders: the most renders one plan may cost.
        recipients_per_send: the most phones in one launch.
        rate: the most sends a second.
        segments_per_message: the most SMS segments that a single text may take.
        invalid_rows: the most rows that may be left out as unreadable: a number, or a share of all.
        settle_margin: how long before the end of their hours the last sends leave; None to go by how long the
            service takes to answer.
    """

    recipients: int | None = None
    renders: int | None = None
    recipients_per_send: int | None = None
    rate: float | None = None
    segments_per_message: int | None = None
    invalid_rows: int | Fraction | None = None
    settle_margin: timedelta | None = None


@dataclass(frozen=True, slots=True)
class FrequencyCap:
    """How often a person may be texted, by all campaigns on a target together.

    Attributes:
        messages: the most messages; a survey is one.
        within: in this time, up to now.
    """

    messages: int
    within: timedelta


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules that a campaign keeps.

    Attributes:
        consent: whether recipients without consent on record are left out.
        timezone_unknown: what happens to people whose time zone cannot be told, where the time matters.
        quiet_hours: whether the legal sending hours of the recipient's place are kept.
        no_rule: with legal hours, what happens to people of places whose hours are not known.
        purpose: what people are texted for, which decides over the legal hours that hold.
        frequency_cap: None if there is none.
        open_session: what becomes of people who have an open survey. `complete` is the default of the
            messages' `complete_existing_sessions`.
        opt_out_words: words that opt out beside those that are known.
        read_replies_within: how long replies on the target may be unread before texts wait for them.
        review_margin: how many more recipients than its pull request's comment said a message may reach: a
            share of them.
    """

    consent: ConsentRule = "not_required"
    timezone_unknown: TimezoneUnknown = "refuse"
    quiet_hours: QuietHours = "none"
    no_rule: NoRule = "refuse"
    purpose: Purpose = "survey"
    frequency_cap: FrequencyCap | None = None
    open_session: OpenSessionRule = "wait"
    opt_out_words: tuple[str, ...] = ()
    read_replies_within: timedelta = DEFAULT_READ_REPLIES_WITHIN
    review_margin: Fraction = DEFAULT_REVIEW_MARGIN
