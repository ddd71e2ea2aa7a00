"""A report's tables, and the tiles of its main figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from runner.reasons import REASONS
from runner.report.documents.findings import caution, write_p_value
from runner.report.documents.wording import (
    NOT_DEFINED,
    NOT_KNOWN,
    SCORE_FORMATS,
    format_duration,
    write_count,
    write_known,
    write_number,
    write_part,
    write_percent,
    write_percent_range,
    write_points,
    write_score_range,
    write_time,
)
from runner.report.scores import divide
from runner.view.blocks import BAR, Column, Link, TableBlock, Tile
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.report.model import (
        Audience,
        Day,
        Experiment,
        MessageReport,
        ResponseRates,
        RunReport,
        Turnout,
    )
    from runner.report.people_model import Dispositions
    from runner.report.question_model import QuestionReport, Score
    from runner.view.blocks import Cell


class _Step(NamedTuple):
    """A step of a message's funnel: a count (None if not known), and what it is a share of.

    `name` is the count's, as in `MessageReport.partly_known`.
    """

    label: str
    people: int | None
    whole: str = ""
    name: str = ""


def tabulate_funnel(message: MessageReport) -> TableBlock:
    """Return the outcomes of a message's recipients."""
    wholes = {
        "recipients": message.recipients,
        "sent": message.sent,
        "answered": message.participants_answered,
    }
    rows = []
    for step in _list_steps(message):
        share = ""
        if step.whole and step.people is not None:
            part = divide(step.people, wholes[step.whole])
            share = f"{write_percent(part if part is None or part <= 1 else None)} of {step.whole}"
        rows.append((step.label, write_known(message, step.name, step.people), share))
    return TableBlock(("Step", "People", "Share"), rows, "What became of the recipients")


def _list_steps(message: MessageReport) -> Iterator[_Step]:
    """Yield a message's funnel, without empty steps that would only distract."""
    yield _Step("Recipients", message.recipients)
    if message.unresolved:
        yield _Step("Outcome not known", message.unresolved, "recipients")
    yield _Step("Sent", message.sent, "recipients")
    for label, name in {"Still queued": "queued", "In progress": "active", "Ended": "complete"}.items():
        count = getattr(message.sessions, name)
        if count != 0 or name == "complete":
            yield _Step(label, count, "sent", name)
    if message.questions:
        yield _Step("Answered", message.participants_answered, "sent", "participants_answered")
        yield _Step("Reached the end", message.participants_completed, "answered", "participants_completed")
    if message.opt_outs != 0:
        yield _Step("Opted out", message.opt_outs, "sent", "opt_outs")
    if message.rejected:
        yield _Step("Refused by the service", message.rejected)


def _list_values(part: Dispositions | ResponseRates) -> list[Any]:
    return [getattr(part, name) for name in part.__struct_fields__]


def _label(disposition: str) -> str:
    """Return a reason's label; a ledger of another version may have others, which keep their names."""
    reason = REASONS.get(disposition)
    return disposition if reason is None else reason.label


def tabulate_reserved(audience: Audience) -> TableBlock:
    """Return the recipients of the audience not sent to, by reason."""
    rows = [
        (
            _label(one.disposition),
            one.recipients,
            f"{write_percent(divide(one.recipients, audience.recipients))} of the audience",
        )
        for one in audience.reserved
    ]
    return TableBlock(("Reason", "People", "Share"), rows, "Who of the audience was not texted")


def tabulate_questions(questions: Sequence[QuestionReport]) -> TableBlock:
    """Return the participants who reached each question."""
    rows = [
        (
            one.tag or one.text,
            NOT_DEFINED if one.asked is None and not one.is_unread else one.asked,
            one.answers,
            write_percent(one.answer_rate),
            one.answer_rate,
            NOT_DEFINED if one.broke_off is None else one.broke_off,
        )
        for one in questions
    ]
    names = "Question", "Asked", "Answered", "Rate", BAR, "Stopped here"
    return TableBlock(names, rows, "How far people came")


def tabulate_responses(question: QuestionReport) -> TableBlock:
    """Return the participants by response."""
    rows = [(one.label, one.count, write_percent(one.share), one.share) for one in question.distribution]
    return TableBlock(("Response", "Answers", "Share", BAR), rows, "Answers by response")


def tabulate_groups(what: str, groups: Sequence[Turnout], caption: str) -> TableBlock:
    """Return the response of groups, a row each, and their scores.

    `what` names the groups, as in `Arm` or a column's name.
    """
    scored = groups[0].scores if groups else ()
    names = (name_score(SCORE_FORMATS[one.measure].label, one.tag) for one in scored)
    rows = [
        (
            group.name,
            group.sent,
            group.answered,
            write_percent(group.response_rate),
            write_percent_range(group.response_interval),
            group.completed,
            *map(_write_group_score, group.scores),
        )
        for group in groups
    ]
    columns = what, "Sent", "Answered", "Response", "95 % interval", "Completed", *names
    return TableBlock(columns, rows, caption)


def name_score(measure: str, tag: str) -> str:
    """Return a score's name: `CSAT service`; a tag that says the same is left out."""
    return measure if tag.casefold() in ("", measure.casefold()) else f"{measure} {tag}"


def tabulate_differences(experiment: Experiment) -> TableBlock:
    """Return each further arm's response rate against the first arm's."""
    against = experiment.arms[0].name if experiment.arms else "the first arm"
    rows = [
        (
            one.arm,
            write_points(one.difference),
            write_score_range(one.interval and (100 * one.interval[0], 100 * one.interval[1])),
            write_p_value(one.p_value) or NOT_DEFINED,
        )
        for one in experiment.differences
    ]
    caption = f"Response rate of each arm, compared with {against}"
    return TableBlock(("Arm", "Difference", "95 % interval", "p"), rows, caption)


def tabulate_days(days: Sequence[Day]) -> TableBlock:
    """Return the events of each day."""
    rows = [(day.date.isoformat(), day.sent, day.first_answers, day.answers) for day in days]
    columns = "Day (UTC)", "Sent", "First answers", "All answers"
    return TableBlock(columns, rows, "Sent and answered, by day")


def _write_group_score(score: Score) -> str:
    """Return a group's score with its interval, or with its few answers, as its measure is written."""
    form = SCORE_FORMATS[score.measure]
    value = form.write(score.value)
    if score.value is None:
        return value
    basis = form.write_range(score.interval) if score.interval else count_words(score.counted, "answer")
    return f"{value} ({basis})"


_SHORT = 10
"""Digits that identify a commit or a digest: as many as git shows of large repositories."""


def tabulate_runs(runs: Sequence[RunReport]) -> TableBlock:
    """Return the runs as a table, without empty columns."""
    columns: dict[Column, list[Cell]] = {
        Column("Started", "text"): [write_time(run.started_at) for run in runs],
        Column("Commit", "text"): [_write_commit(run) for run in runs],
        Column("Plan digest", "text"): [run.plan_digest[:_SHORT] for run in runs],
        Column("Triggered by", "text"): [run.triggered_by for run in runs],
        Column("Job", "text"): [Link("open", run.run_url) if run.run_url else None for run in runs],
        Column("Launches"): [run.launches for run in runs],
        Column("Recipients"): [run.recipients for run in runs],
    }
    kept = {
        column: [NOT_DEFINED if cell is None else cell for cell in cells]
        for column, cells in columns.items()
        if any(cells)
    }
    return TableBlock(tuple(kept), list(zip(*kept.values(), strict=True)), "The runs that sent the campaign")


def _write_commit(run: RunReport) -> str | None:
    return run.commit and run.commit[:_SHORT] + (", with changes" if run.dirty else "")


_DISPOSITION_NAMES = (
    ("Complete interviews", "I"),
    ("Partial interviews", "P"),
    ("Refusals", "R"),
    ("Non-contacts", "NC"),
    ("Other eligible", "O"),
    ("Unknown eligibility", "UH + UO"),
    ("Ended by a later text of ours", "NC"),
)


def tabulate_dispositions(dispositions: Dispositions) -> TableBlock:
    """Return the recipients by AAPOR disposition."""
    counts = _list_values(dispositions)
    rows = [(*names, count) for names, count in zip(_DISPOSITION_NAMES, counts, strict=True)]
    return TableBlock(("Disposition", Column("Letter", "text"), "People"), rows, "Final dispositions")


def tabulate_rates(rates: ResponseRates) -> TableBlock:
    """Return the six response rates, each with its formula."""
    known = "(I + P) + (R + NC + O)"
    wholes = f"({known} + (UH + UO))", f"({known} + e (UH + UO))", f"({known})"
    formulas = [f"{part} / {whole}" for whole in wholes for part in ("I", "(I + P)")]
    rows = [
        (f"RR{number}", formula, write_percent(rate))
        for number, (formula, rate) in enumerate(zip(formulas, _list_values(rates), strict=True), start=1)
    ]
    caption = "Response rates; e is the share of the unknown that is taken to be eligible"
    return TableBlock(("Rate", Column("Formula", "text"), "Value"), rows, caption)


def list_tiles(message: MessageReport) -> Iterator[Tile]:
    """Yield the tiles of a message."""
    queued = f", {write_count(message.sessions.queued)} still queued" if message.sessions.queued else ""
    yield Tile("Sent", write_count(message.sent), f"of {write_count(message.recipients)} recipients{queued}")
    if message.questions:
        yield from _list_turnout_tiles(message)
    for question in message.questions:
        yield from _list_score_tiles(question)
    times = message.time_to_first_answer
    if times.median_s is not None:
        yield Tile("First answer", format_duration(times.median_s), "half answered within")
    if message.opt_outs:
        rate = write_percent(divide(message.opt_outs, message.sent))
        yield Tile("Opt-outs", write_count(message.opt_outs), f"{rate} of sent")
    if message.volume.cost_usd:
        renders = f"US dollars, {write_count(message.volume.renders)} renders"
        yield Tile("Cost", write_number(message.volume.cost_usd), renders)


def _list_turnout_tiles(message: MessageReport) -> Iterator[Tile]:
    answered, completed = message.participants_answered, message.participants_completed
    if answered is None or completed is None:
        for name, figure in (("Response", "answered"), ("Completion", "completed")):
            part = message.find_part(f"participants_{figure}")
            yield Tile(name, NOT_KNOWN, "" if part is None else f"{figure}: {write_part(part, message)}")
        return
    interval = message.response_rate_interval
    note = f"{write_count(answered)} answered"
    if interval is not None:
        note = f"95 % interval {write_percent_range(interval)}"
    yield Tile("Response", write_percent(message.response_rate), note)
    yield Tile(
        "Completion", write_percent(message.completion_rate), f"{write_count(completed)} reached the end"
    )


def _list_score_tiles(question: QuestionReport) -> Iterator[Tile]:
    score = question.score
    if score is None:
        return
    form = SCORE_FORMATS[score.measure]
    name = name_score("CES, mean" if question.scale == "ces" else form.label, question.tag)
    # Tiles are large: a figure that rests on few answers must not be one.
    if few := caution(score.counted):
        yield Tile(name, NOT_DEFINED, few)
    else:
        ends = f"95 % interval {form.write_range(score.interval)}" if score.interval else ""
        yield Tile(name, form.write(score.value), ends)
