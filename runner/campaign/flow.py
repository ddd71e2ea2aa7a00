"""Rules between a campaign's messages: what comes after what, who gets which, and when."""

from __future__ import annotations

import difflib
from datetime import timedelta
from typing import TYPE_CHECKING

from runner.campaign.variants import find_problems
from runner.source.diagnostic import Diagnostic
from runner.timing.opening import Calendar, LocalWindow
from runner.timing.schedule import Schedule, read_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign, Message
    from runner.source.document import Key, YamlDocument

_LONGEST = timedelta(days=3660)
SCORED = frozenset({"nps", "csat", "ces", "number"})
"""The scales of questions that have a score."""


def check_flow(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    """Yield what is wrong with follow-ups, experiment, schedule and policy.

    Args:
        campaign: its document fits the schema.
        document: gives the places.
    """
    for index, message in enumerate(campaign.messages):
        yield from _check_follow_up(campaign, index, message)
    if campaign.variants is not None:
        yield from find_problems(campaign.variants, campaign.messages)
    yield from _check_score(campaign, document)
    yield from _check_schedule(campaign, document)
    yield from _check_policy(campaign, document)
    yield from _check_lengths(campaign, document)


def _check_follow_up(campaign: Campaign, index: int, message: Message) -> Iterator[Diagnostic]:
    after = message.after
    if after is None:
        return
    above = {other.id: other for other in campaign.messages[:index]}
    place = after.position
    earlier = above.get(after.message)
    if earlier is None:
        words, hint = _explain_after(campaign, message, list(above))
        yield Diagnostic("error", "after-unknown", words, place.file, place.line, place.column, hint)
    elif message.to != "everyone" and not campaign.asks(earlier):
        words = f"`to: {message.to}` goes by answers, and the message `{earlier.id}` asks nothing"
        hint = "take `to` out, or give that message `questions`"
        yield Diagnostic("error", "after-asks-nothing", words, place.file, place.line, place.column, hint)
    elif message.to != "answered" and not message.complete_existing_sessions and campaign.asks(earlier):
        queues = campaign.policy.open_session == "queue"
        words = f"`{message.id}` waits for those who have not ended the survey `{earlier.id}`: " + (
            "at the service, until that expires, and then leaves at any hour"
            if queues
            else "it is sent when that has expired and `runner reconcile` has read so"
        )
        hint = "add `complete_existing_sessions: true`, which ends that survey for them"
        yield Diagnostic("warning", "after-queued", words, place.file, place.line, place.column, hint)


def _check_score(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    if campaign.score is None:
        return
    path: list[Key] = ["score", "question"]
    asked = [
        question
        for message in campaign.messages
        for one in (message, *campaign.list_arms(message.id).values())
        for question in one.questions
    ]
    scales = {question.scale for question in asked if question.tag == campaign.score}
    if not scales:
        close = difflib.get_close_matches(campaign.score, [question.tag for question in asked], n=1)
        hint = f"did you mean `{close[0]}`?" if close else "write the `tag` of a question"
        words = f"no message asks a question tagged `{campaign.score}`"
        yield _problem(document, "score-unknown", words, hint, path)
    elif len(scales) > 1:
        words = f"`{campaign.score}` is asked on several scales: {', '.join(sorted(scales))}"
        yield _problem(document, "score-scales", words, "give each of its questions the same `scale`", path)
    elif not scales <= SCORED:
        words = f"`{campaign.score}` has `scale: {min(scales)}`, of which there is no score"
        hint = f"give its questions a `scale` that has one: {', '.join(sorted(SCORED))}"
        yield _problem(document, "score-none", words, hint, path)


def _explain_after(campaign: Campaign, message: Message, above: list[str]) -> tuple[str, str]:
    wanted = message.after.message if message.after else ""
    if wanted == message.id:
        return f"the message `{wanted}` cannot come after itself", "name a message further up"
    if wanted in {other.id for other in campaign.messages}:
        words = f"the message `{wanted}`, which `{message.id}` comes after, stands below it"
        return words, f"move `{message.id}` down"
    close = difflib.get_close_matches(wanted, above, n=1)
    known = f"name a message further up: {', '.join(above)}" if above else "there is no message further up"
    words = f"there is no message `{wanted}`" + (f": did you mean `{close[0]}`?" if close else "")
    return words, known


def _check_schedule(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    schedule = read_schedule(document.data.get("schedule", {}))
    if not isinstance(schedule, Schedule):
        for problem in schedule:
            words = f"`{problem.key}`: {problem.reason}"
            yield _problem(document, "schedule", words, problem.hint, ["schedule", problem.key])
        return
    start, end = schedule.not_before, schedule.expires
    if start is None or end is None or schedule.timezone is None:
        return
    opening = Calendar((LocalWindow(schedule.window, schedule.timezone),)).next_open(start)
    if opening is None or opening >= end:
        # No error: people whose clocks show another time may well be texted.
        line, column = document.locate(["schedule", "expires"])
        words = (
            f"`not_before` to `expires`: `send_between` and `days` never allow sending in {schedule.timezone}"
        )
        hint = "nobody there would be texted: move one of them"
        yield Diagnostic("warning", "schedule-never-open", words, document.file, line, column, hint)
    yield from _check_waits(campaign, end - start)


def _check_waits(campaign: Campaign, length: timedelta) -> Iterator[Diagnostic]:
    """Warn of follow-ups that come due after the campaign's end, however early the first message leaves."""
    earliest: dict[str, timedelta] = {}
    for message in campaign.messages:
        after = message.after
        if after is None:
            earliest[message.id] = timedelta()
            continue
        # Longer waits are a problem of their own; added up they would be too long to count.
        due = earliest.get(after.message, timedelta()) + min(after.wait, _LONGEST)
        earliest[message.id] = due
        if due >= length:
            place = after.position
            words = f"`{message.id}` is never sent: it comes due when the campaign has expired"
            hint = "shorten `wait`, or move `expires`"
            yield Diagnostic("warning", "after-expires", words, place.file, place.line, place.column, hint)


def _check_policy(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    policy = campaign.policy
    if policy.timezone_unknown == "campaign" and campaign.schedule.timezone is None:
        yield _problem(
            document,
            "policy-timezone",
            "`timezone_unknown: campaign` needs the campaign's time zone, and `schedule` names none",
            "add `timezone` to `schedule`, such as America/New_York",
            ["policy", "timezone_unknown"],
        )
    if policy.consent == "required" and all(source.consent is None for source in campaign.recipients):
        yield _problem(
            document,
            "policy-consent",
            "`consent: required` would text nobody: no entry of `recipients` says where consent is on record",
            "add `consent` to the entries whose people agreed to be texted",
            ["policy", "consent"],
        )


def _check_lengths(campaign: Campaign, document: YamlDocument) -> Iterator[Diagnostic]:
    cap = campaign.policy.frequency_cap
    lengths: list[tuple[timedelta, list[Key]]] = [
        (message.after.wait, ["messages", index, "after", "wait"])
        for index, message in enumerate(campaign.messages)
        if message.after is not None
    ]
    lengths += [(cap.within, ["policy", "frequency_cap", "within"])] if cap is not None else []
    lengths.append((campaign.policy.read_replies_within, ["policy", "read_replies_within"]))
    for length, path in lengths:
        if length > _LONGEST:
            words = f"`{path[-1]}` is {length.days:,} days"
            yield _problem(document, "duration-too-long", words, "ten years (3660d) are the most", path)


def _problem(document: YamlDocument, code: str, words: str, hint: str, path: list[Key]) -> Diagnostic:
    line, column = document.locate(path)
    return Diagnostic("error", code, words, document.file, line, column, hint)
