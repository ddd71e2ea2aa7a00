"""A report's tables, as values that every document draws in its own way; texts are not yet escaped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from runner.report.findings import write_p_value
from runner.report.scores import divide
from runner.report.timing import format_duration
from runner.report.wording import (
    NOT_DEFINED,
    count_nouns,
    write_count,
    write_known,
    write_number,
    write_number_range,
    write_percent,
    write_percent_range,
    write_points,
    write_score,
    write_score_range,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from runner.report.answered import QuestionReport
    from runner.report.model import MessageReport
    from runner.report.timing import TimeSummary
    from runner.report.turnout import Audience, Day, Experiment, GroupScore, Turnout

DISPOSITIONS = {
    "excluded": "Left out by the campaign",
    "already_sent": "Had it already",
    "opted_out": "Opted out",
    "opt_out_doubtful": "May have opted out",
    "held_out": "Holdout",
    "no_consent": "No consent on record",
    "awaiting": "Wait for an earlier message",
    "not_qualified": "Not meant by this message",
    "timezone_unknown": "Time zone not known",
    "no_rule": "Legal hours of their place not known",
    "expired": "Campaign ends before they may be texted",
    "open_session": "Have an open survey",
    "capped": "Texted as often as allowed",
    "deferred": "Due later",
    "on_hold": "Campaign paused",
    "over_limit": "Beyond the limit of the run",
    "unresolved": "Outcome not known",
}
"""What a report calls the plan's reasons not to send; one that it does not know keeps the plan's name."""

MEASURES = {"nps": "NPS", "csat": "CSAT", "mean": "Mean"}
"""What a report calls a score."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: texts that anybody may have written, figures, shares drawn as bars, or pages to go to."""

    name: str
    kind: Literal["text", "figure", "bar", "link"] = "figure"


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        caption: what it has, for people and screen readers.
        columns: the first is what its rows are about.
        rows: a cell for each column: a text; of a bar, its share, of a link, its address; None for none.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str | Fraction | None, ...], ...]


@dataclass(frozen=True, slots=True)
class FunnelRow:
    """One row of a message's funnel: how many, and of whom they are what share.

    Attributes:
        label: what they did.
        count: how many; None if that is not known.
        share: of the whole.
        whole: in words; empty for none.
        name: of the count, as in `MessageReport.partly_known`.
    """

    label: str
    count: int | None
    share: Fraction | None = None
    whole: str = ""
    name: str = ""


def tabulate_funnel(message: MessageReport) -> Table:
    """Return what became of a message's recipients."""
    columns = (Column("Step", "text"), Column("People"), Column("Share"))
    rows = tuple(
        (
            row.label,
            write_known(message, row.name, row.count),
            f"{write_percent(row.share)} of {row.whole}"
            if row.whole and row.count is not None
            else _write_part_share(message, row),
        )
        for row in list_funnel(message)
    )
    return Table("What became of the recipients", columns, rows)


def _write_part_share(message: MessageReport, row: FunnelRow) -> str:
    """Return the share among the launches that were reconciled; empty where that is not known either."""
    part, answered = (message.partly_known.get(name) for name in (row.name, "participants_answered"))
    read = message.launches - message.unread_launches
    if row.count is not None or part is None or part.launches != read:
        return ""
    whole = message.sent_read if row.whole == "sent" else 0 if answered is None else answered.count
    share = divide(part.count, whole)
    if share is None or share > 1:
        return ""
    return f"{write_percent(share)} of {whole:,} {row.whole} in {read:,} of {message.launches:,} launches"


def list_funnel(message: MessageReport) -> Iterator[FunnelRow]:
    """Yield a message's funnel; steps that nobody is in are left out where they would only distract."""
    sent, sessions = message.sent, message.sessions
    yield FunnelRow("Recipients", message.recipients)
    if message.unresolved:
        share = divide(message.unresolved, message.recipients)
        yield FunnelRow("Outcome not known", message.unresolved, share, "recipients")
    yield FunnelRow("Sent", sent, divide(sent, message.recipients), "recipients")
    if sessions.queued != 0:
        yield FunnelRow("Still queued", sessions.queued, divide(sessions.queued, sent), "sent", "queued")
    if sessions.active != 0:
        yield FunnelRow("In progress", sessions.active, divide(sessions.active, sent), "sent", "active")
    yield FunnelRow("Ended", sessions.complete, divide(sessions.complete, sent), "sent", "complete")
    if message.questions:
        answered, completed = message.participants_answered, message.participants_completed
        yield FunnelRow("Answered", answered, message.response_rate, "sent", "participants_answered")
        yield FunnelRow(
            "Reached the end", completed, message.completion_rate, "answered", "participants_completed"
        )
    if message.opt_outs != 0:
        yield FunnelRow("Opted out", message.opt_outs, divide(message.opt_outs, sent), "sent", "opt_outs")
    if message.rejected:
        yield FunnelRow("Refused by the service", message.rejected)


def tabulate_reserved(audience: Audience) -> Table:
    """Return who of the audience was not sent to, by reason."""
    columns = (Column("Reason", "text"), Column("People"), Column("Share"))
    rows = tuple(
        (
            DISPOSITIONS.get(reservation.disposition, reservation.disposition),
            write_count(reservation.recipients),
            f"{write_percent(divide(reservation.recipients, audience.recipients))} of the audience",
        )
        for reservation in audience.reserved
    )
    return Table("Who of the audience was not texted", columns, rows)


def tabulate_questions(questions: Sequence[QuestionReport]) -> Table:
    """Return how far people came, and how long they took for each question."""
    columns = (
        Column("Question", "text"),
        Column("Asked"),
        Column("Answered"),
        Column("Rate"),
        Column("", "bar"),
        Column("Stopped here"),
        Column("Half within"),
        Column("Nine in ten within"),
    )
    rows = tuple(
        (
            question.tag or question.text,
            NOT_DEFINED if question.asked is None and not question.is_unread else write_count(question.asked),
            write_count(question.answers),
            write_percent(question.answer_rate),
            question.answer_rate,
            NOT_DEFINED if question.broke_off is None else write_count(question.broke_off),
            *_write_times(question.time_to_answer),
        )
        for question in questions
    )
    return Table("How far people came, and how long they took", columns, rows)


def tabulate_responses(question: QuestionReport) -> Table:
    """Return how many chose each response."""
    columns = (Column("Response", "text"), Column("Answers"), Column("Share"), Column("", "bar"))
    rows = tuple(
        (response.label, write_count(response.count), write_percent(response.share), response.share)
        for response in question.distribution
    )
    return Table("Answers by response", columns, rows)


def tabulate_words(question: QuestionReport) -> Table:
    """Return the words that participants use most in a question's answers."""
    counted = 0 if question.texts is None else question.texts.counted
    words = () if question.texts is None else question.texts.words
    columns = (Column("Word", "text"), Column("People"), Column("Share"), Column("", "bar"))
    rows = tuple(
        (word.word, write_count(word.participants), write_percent(share), share)
        for word in words
        for share in (divide(word.participants, counted),)
    )
    return Table("Words that people use most", columns, rows)


def tabulate_groups(what: str, groups: Sequence[Turnout], caption: str) -> Table:
    """Return how groups responded, and their scores.

    Args:
        what: what the groups are, as in `Arm` or a column's name.
        groups: one for each row.
        caption: of the table.
    """
    scores = groups[0].scores if groups else ()
    columns = (
        Column(what, "text"),
        Column("Sent"),
        Column("Answered"),
        Column("Response"),
        Column("95 % interval"),
        Column("Completed"),
        *(Column(name_score(MEASURES[score.measure], score.tag)) for score in scores),
    )
    rows = tuple(
        (
            group.name,
            write_count(group.sent),
            write_count(group.answered),
            write_percent(group.response_rate),
            write_percent_range(group.response_interval),
            write_count(group.completed),
            *map(_write_group_score, group.scores),
        )
        for group in groups
    )
    return Table(caption, columns, rows)


def name_score(measure: str, tag: str) -> str:
    """Return what a question's score is called: `CSAT service`; a tag that says the same is left out."""
    return measure if tag.casefold() in ("", measure.casefold()) else f"{measure} {tag}"


def tabulate_differences(experiment: Experiment) -> Table:
    """Return each further arm's response rate against the first arm's."""
    columns = (
        Column("Arm", "text"),
        Column("Difference"),
        Column("95 % interval"),
        Column("p"),
    )
    rows = tuple(
        (
            one.arm,
            write_points(one.difference),
            write_score_range(one.interval and (100 * one.interval[0], 100 * one.interval[1])),
            write_p_value(one.p_value) or NOT_DEFINED,
        )
        for one in experiment.differences
    )
    against = experiment.arms[0].name if experiment.arms else "the first arm"
    return Table(f"Response rate of each arm, compared with {against}", columns, rows)


def tabulate_days(days: Sequence[Day]) -> Table:
    """Return what happened on each day."""
    columns = (Column("Day (UTC)", "text"), Column("Sent"), Column("First answers"), Column("All answers"))
    rows = tuple(
        (
            day.date.isoformat(),
            write_count(day.sent),
            write_count(day.first_answers),
            write_count(day.answers),
        )
        for day in days
    )
    return Table("Sent and answered, by day", columns, rows)


def _write_times(times: TimeSummary | None) -> tuple[str, str]:
    if times is None or times.median_s is None or times.p90_s is None:
        return NOT_DEFINED, NOT_DEFINED
    return format_duration(times.median_s), format_duration(times.p90_s)


def _write_group_score(score: GroupScore) -> str:
    """Return a group's score with its interval, or else with its few answers, as its measure is written."""
    if score.measure == "nps":
        value, ends = write_score(score.value), write_score_range(score.interval)
    elif score.measure == "csat":
        value, ends = write_percent(score.value), write_percent_range(score.interval)
    else:
        value, ends = write_number(score.value), write_number_range(score.interval)
    if score.value is None:
        return value
    return f"{value} ({ends if score.interval else count_nouns(score.counted, 'answer')})"
