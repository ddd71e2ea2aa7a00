"""Says in a sentence what a run did with a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.console import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.cli.campaign_run import CampaignRun
    from runner.ledger.model import LaunchState


def describe_run(run: CampaignRun) -> str:
    """Return what a run did; each delivery of the plan is counted once.

    Recipients are people, as in the plan. Where people get several messages, what is counted is texts.
    """
    done = [*_iterate_done(run)] or ["nothing sent"]
    return f"{run.planned.campaign.name}: {', '.join([*done, *_iterate_left(run)])}.{_say_held(run)}"


def describe_settled(run: CampaignRun) -> str:
    """Return what a run found out of earlier ones."""
    found = count_words(run.adopted, "launch", "launches")
    what = f"{found} of earlier runs found at the service" if run.adopted else "nothing new on record"
    return f"{run.planned.campaign.name}: {what}.{_say_held(run)}"


def _say_held(run: CampaignRun) -> str:
    people = count_words(run.unresolved, "recipient has", "recipients have")
    return f" {people} an unknown outcome and will not be texted: `runner resolve`." if run.unresolved else ""


def _iterate_done(run: CampaignRun) -> Iterator[str]:
    summary = run.summary
    # Launches that became too late are told of as deferred, or expired, with their recipients.
    if not summary.has_outcomes_in_time:
        return
    launches = count_words(summary.count("sent"), "launch", "launches")
    if not run.sends_several_each:
        yield f"{count_words(summary.recipients_sent, 'recipient')} texted in {launches}"
    elif summary.recipients_sent == run.to_send:
        people = count_words(run.planned.plan.recipients_to_send, "recipient")
        yield f"{count_words(summary.recipients_sent, 'text')} to {people} in {launches}"
    else:
        yield f"{count_words(summary.recipients_sent, 'text')} sent in {launches}"
    words: dict[LaunchState, str] = {
        "rejected": "rejected",
        "unknown": "of unknown outcome",
        "not_sent": "not sent",
    }
    for state, text in words.items():
        count = summary.count(state) - (summary.launches_too_late if state == "not_sent" else 0)
        if count:
            yield f"{count_words(count, 'launch', 'launches')} {text}"


def _iterate_left(run: CampaignRun) -> Iterator[str]:
    unit = "text" if run.counts_texts else "recipient"
    for count, why in (
        (run.not_tried, "not tried"),
        (run.deferred, "deferred"),
        (run.expired, "too late for `expires`"),
        (run.summary.opted_out, "opted out meanwhile"),
        (run.summary.capped, "at the frequency cap meanwhile"),
        (run.open_session, "behind an open survey"),
        (run.no_rule, "in places whose legal hours are not known"),
        (run.summary.waiting, "behind a message that was not sent, or nobody knows"),
    ):
        if count:
            yield f"{count_words(count, unit)} {why}"
