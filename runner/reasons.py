"""Why recipients get no text now: one table for plans, runs, status, reports and their documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Disposition = Literal[
    "excluded",
    "already_sent",
    "unresolved",
    "opted_out",
    "opt_out_doubtful",
    "control_group",
    "no_consent",
    "not_sampled",
    "no_date",
    "awaiting",
    "not_qualified",
    "missed",
    "timezone_unknown",
    "no_rule",
    "expired",
    "deferred",
    "open_session",
    "capped",
    "enough",
    "later_step",
    "paused",
    "over_limit",
    "to_send",
]
"""The outcomes of decisions, in order of precedence. What each counts: `runner.plan.model.MessageCounts`."""


class Hold(NamedTuple):
    """A disposition in words, and its end.

    Attributes:
        label: of these people, in a report.
        lasts: whether the hold ends: never by itself (`always`), by a decision of the service or a person
            (`undecided`), at any moment (`meanwhile`), or by the message before it (`chained`).
        ends: what ends it; empty for `always`.
        later: in the plan's table of later texts; empty for the name itself.
        left: at the end of a run's last line; empty if that does not count it.
    """

    label: str
    lasts: Literal["always", "undecided", "meanwhile", "chained"] = "always"
    ends: str = ""
    later: str = ""
    left: str = ""


_LATER = "a later `runner apply` sends"
REASONS: Mapping[str, Hold] = {
    "excluded": Hold("Left out by the campaign"),
    "already_sent": Hold("Had it already"),
    "unresolved": Hold("Outcome not known", "undecided", "`runner resolve`", "held: `runner resolve`"),
    "opted_out": Hold("Opted out", left="opted out meanwhile"),
    "opt_out_doubtful": Hold(
        "May have opted out",
        "undecided",
        "`runner optouts list`",
        "a person must decide: `runner optouts list`",
        "held until a person decides: `runner optouts list`",
    ),
    "control_group": Hold("Control group"),
    "no_consent": Hold("No consent on record"),
    "not_sampled": Hold("Not in the sample"),
    "no_date": Hold("No date in their row"),
    "awaiting": Hold(
        "Wait for an earlier message", "chained", "the wait of a follow-up, then `runner reconcile`"
    ),
    "not_qualified": Hold(
        "Not meant by this message", "chained", "their answer, if that is what counts", "if they answer"
    ),
    "missed": Hold("Too late for their date"),
    "timezone_unknown": Hold("Time zone not known"),
    "no_rule": Hold("Legal hours of their place not known", left="in places whose legal hours are not known"),
    "expired": Hold("Campaign ends before they may be texted", left="too late for `expires`"),
    "deferred": Hold("Due later", "meanwhile", f"their hours: {_LATER}", left="deferred"),
    "open_session": Hold(
        "Have an open survey",
        "meanwhile",
        "their open survey ends, and `runner reconcile` reads it",
        "behind an open survey",
        "behind an open survey",
    ),
    "capped": Hold(
        "Texted as often as allowed",
        "meanwhile",
        f"the time of the cap: {_LATER}",
        "at the frequency cap",
        "at the frequency cap meanwhile",
    ),
    "enough": Hold("Enough people have answered", left="not needed: enough people have answered"),
    "later_step": Hold(
        "In a later step of the rollout",
        "meanwhile",
        "the open step ends, and `runner reconcile` reads what came",
        "in a later step of the rollout",
    ),
    "paused": Hold("Campaign paused", "meanwhile", "`runner resume CAMPAIGN`", "paused"),
    "over_limit": Hold("Beyond the limit of the run", "meanwhile", _LATER, "over `--limit`"),
}
"""Every disposition but `to_send`."""
LEFT: Mapping[str, str] = {
    "not_tried": "left for the next run, since this one ended early",
    **{name: reason.left for name, reason in REASONS.items() if reason.left},
    "waiting": "left for the next run, since an earlier message may not have gone out",
}
"""Why planned texts were not sent by a run."""
