"""A report's tables and tiles of main figures, as values for every document, not yet escaped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from runner.reasons import REASONS
from runner.report.documents.findings import caution, write_p_value
from runner.report.documents.wording import (
    NOT_DEFINED,
    NOT_KNOWN,
    SCORE_FORMATS,
    count_nouns,
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
from runner.report.model import ResponseRates
from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from fractions import Fraction

    from runner.report.model import (
        Audience,
        Day,
        Dispositions,
        Experiment,
        MessageReport,
        QuestionReport,
        RunReport,
        Score,
        TimeSummary,
        Turnout,
    )


@dataclass(frozen=True, slots=True)
class Column:
    """A column of texts of any origin, figures, shares drawn as bars, or links."""

    name: str
    kind: Literal["text", "figure", "bar", "link"] = "figure"


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with a caption for people and screen readers; the first column names the subjects of its rows.

    A cell is a text; the share of a bar, or the address of a link; None for none.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str | Fraction | None, ...], ...]


_Row = TypeVar("_Row")


def build_table(
    caption: str, rows: Iterable[_Row], *columns: tuple[Column, Callable[[_Row], str | Fraction | None]]
) -> ReportTable:
    """Return a table of rows; each column comes with the function that returns a row's cell."""
    return ReportTable(
        caption,
        tuple(column for column, _ in columns),
        tuple(tuple(write(row) for _, write in columns) for row in rows),
    )


@dataclass(frozen=True, slots=True)
class FunnelRow:
    """A row of a message's funnel: a count (None if not known), its share, and the whole in words.

    `name` is the count's, as in `MessageReport.partly_known`.
    """

    label: str
    count: int | None
    share: Fraction | None = None
    whole: str = ""
    name: str = ""


def tabulate_funnel(message: MessageReport) -> ReportTable:
    """Return the outcomes of a message's recipients."""
    return build_table(
        "What became of the recipients",
        list_funnel(message),
        (Column("Step", "text"), lambda row: row.label),
        (Column("People"), lambda row: write_known(message, row.name, row.count)),
        (Column("Share"), lambda row: _write_share(message, row)),
    )


def _write_share(message: MessageReport, row: FunnelRow) -> str:
    """Return a row's share, or that among the reconciled launches; empty if that is not known either."""
    if row.whole and row.count is not None:
        return f"{write_percent(row.share)} of {row.whole}"
    part, answered = (message.find_part(name) for name in (row.name, "participants_answered"))
    read = message.reconciled_launches
    if row.count is not None or part is None or part.launches != read:
        return ""
    whole = message.reconciled_sent if row.whole == "sent" else 0 if answered is None else answered.count
    share = divide(part.count, whole)
    if share is None or share > 1:
        return ""
    return f"{write_percent(share)} of {whole:,} {row.whole} in {read:,} of {message.launches:,} launches"


def list_funnel(message: MessageReport) -> Iterator[FunnelRow]:
    """Yield a message's funnel, without empty steps that would only distract."""
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


def _label(disposition: str) -> str:
    """Return a reason's label; a ledger of another version may have others, which keep their names."""
    reason = REASONS.get(disposition)
    return disposition if reason is None else reason.label


def tabulate_reserved(audience: Audience) -> ReportTable:
    """Return the recipients of the audience not sent to, by reason."""
    return build_table(
        "Who of the audience was not texted",
        audience.reserved,
        (Column("Reason", "text"), lambda one: _label(one.disposition)),
        (Column("People"), lambda one: write_count(one.recipients)),
        (
            Column("Share"),
            lambda one: f"{write_percent(divide(one.recipients, audience.recipients))} of the audience",
        ),
    )


def tabulate_questions(questions: Sequence[QuestionReport]) -> ReportTable:
    """Return the participants who reached each question, and their times."""
    return build_table(
        "How far people came, and how long they took",
        questions,
        (Column("Question", "text"), lambda one: one.tag or one.text),
        (
            Column("Asked"),
            lambda one: NOT_DEFINED if one.asked is None and not one.is_unread else write_count(one.asked),
        ),
        (Column("Answered"), lambda one: write_count(one.answers)),
        (Column("Rate"), lambda one: write_percent(one.answer_rate)),
        (Column("", "bar"), lambda one: one.answer_rate),
        (
            Column("Stopped here"),
            lambda one: NOT_DEFINED if one.broke_off is None else write_count(one.broke_off),
        ),
        (Column("Half within"), lambda one: _write_times(one.time_to_answer)[0]),
        (Column("Nine in ten within"), lambda one: _write_times(one.time_to_answer)[1]),
    )


def tabulate_responses(question: QuestionReport) -> ReportTable:
    """Return the participants by response."""
    return build_table(
        "Answers by response",
        question.distribution,
        (Column("Response", "text"), lambda one: one.label),
        (Column("Answers"), lambda one: write_count(one.count)),
        (Column("Share"), lambda one: write_percent(one.share)),
        (Column("", "bar"), lambda one: one.share),
    )


def tabulate_words(question: QuestionReport) -> ReportTable:
    """Return the words that participants use most in a question's answers."""
    texts = question.texts
    counted, words = (0, ()) if texts is None else (texts.counted, texts.words)
    return build_table(
        "Words that people use most",
        words,
        (Column("Word", "text"), lambda one: one.word),
        (Column("People"), lambda one: write_count(one.participants)),
        (Column("Share"), lambda one: write_percent(divide(one.participants, counted))),
        (Column("", "bar"), lambda one: divide(one.participants, counted)),
    )


def tabulate_groups(what: str, groups: Sequence[Turnout], caption: str) -> ReportTable:
    """Return the response of groups, a row each, and their scores.

    `what` names the groups, as in `Arm` or a column's name.
    """
    table = build_table(
        caption,
        groups,
        (Column(what, "text"), lambda group: group.name),
        (Column("Sent"), lambda group: write_count(group.sent)),
        (Column("Answered"), lambda group: write_count(group.answered)),
        (Column("Response"), lambda group: write_percent(group.response_rate)),
        (Column("95 % interval"), lambda group: write_percent_range(group.response_interval)),
        (Column("Completed"), lambda group: write_count(group.completed)),
    )
    scored = groups[0].scores if groups else ()
    names = (Column(name_score(SCORE_FORMATS[one.measure].label, one.tag)) for one in scored)
    rows = zip(table.rows, groups, strict=True)
    return ReportTable(
        caption,
        (*table.columns, *names),
        tuple((*row, *map(_write_group_score, group.scores)) for row, group in rows),
    )


def name_score(measure: str, tag: str) -> str:
    """Return a score's name: `CSAT service`; a tag that says the same is left out."""
    return measure if tag.casefold() in ("", measure.casefold()) else f"{measure} {tag}"


def tabulate_differences(experiment: Experiment) -> ReportTable:
    """Return each further arm's response rate against the first arm's."""
    against = experiment.arms[0].name if experiment.arms else "the first arm"
    return build_table(
        f"Response rate of each arm, compared with {against}",
        experiment.differences,
        (Column("Arm", "text"), lambda one: one.arm),
        (Column("Difference"), lambda one: write_points(one.difference)),
        (
            Column("95 % interval"),
            lambda one: write_score_range(one.interval and (100 * one.interval[0], 100 * one.interval[1])),
        ),
        (Column("p"), lambda one: write_p_value(one.p_value) or NOT_DEFINED),
    )


def tabulate_days(days: Sequence[Day]) -> ReportTable:
    """Return the events of each day."""
    return build_table(
        "Sent and answered, by day",
        days,
        (Column("Day (UTC)", "text"), lambda day: day.date.isoformat()),
        (Column("Sent"), lambda day: write_count(day.sent)),
        (Column("First answers"), lambda day: write_count(day.first_answers)),
        (Column("All answers"), lambda day: write_count(day.answers)),
    )


def _write_times(times: TimeSummary | None) -> tuple[str, str]:
    if times is None or times.median_s is None or times.p90_s is None:
        return NOT_DEFINED, NOT_DEFINED
    return format_duration(times.median_s), format_duration(times.p90_s)


def _write_group_score(score: Score) -> str:
    """Return a group's score with its interval, or with its few answers, as its measure is written."""
    form = SCORE_FORMATS[score.measure]
    value = form.write(score.value)
    if score.value is None:
        return value
    basis = form.write_range(score.interval) if score.interval else count_nouns(score.counted, "answer")
    return f"{value} ({basis})"


_SHORT = 10
"""Digits that identify a commit or a digest: as many as git shows of large repositories."""


def tabulate_runs(runs: Sequence[RunReport]) -> ReportTable:
    """Return the runs as a table, without empty columns."""
    table = build_table(
        "The runs that sent the campaign",
        runs,
        (Column("Started", "text"), lambda run: write_time(run.started_at)),
        (Column("Commit", "text"), _write_commit),
        (Column("Plan digest", "text"), lambda run: run.plan_digest[:_SHORT]),
        (Column("Triggered by", "text"), lambda run: run.triggered_by),
        (Column("Job", "link"), lambda run: run.run_url),
        (Column("Launches"), lambda run: write_count(run.launches)),
        (Column("Recipients"), lambda run: write_count(run.recipients)),
    )
    kept = [place for place in range(len(table.columns)) if any(row[place] for row in table.rows)]
    columns = [table.columns[place] for place in kept]
    return ReportTable(
        table.caption,
        tuple(columns),
        tuple(tuple(map(_fill_cell, columns, (row[place] for place in kept))) for row in table.rows),
    )


def _fill_cell(column: Column, cell: str | Fraction | None) -> str | Fraction | None:
    return cell if column.kind == "link" else cell or NOT_DEFINED


def _write_commit(run: RunReport) -> str | None:
    if run.commit is None:
        return None
    return run.commit[:_SHORT] + (", with changes" if run.dirty else "")


def tabulate_dispositions(dispositions: Dispositions) -> ReportTable:
    """Return the recipients by AAPOR disposition."""
    return build_table(
        "Final dispositions",
        (
            ("Complete interviews", "I", dispositions.complete),
            ("Partial interviews", "P", dispositions.partial),
            ("Refusals", "R", dispositions.refusal),
            ("Non-contacts", "NC", dispositions.non_contact),
            ("Other eligible", "O", dispositions.other),
            ("Unknown eligibility", "UH + UO", dispositions.unknown_eligibility),
        ),
        (Column("Disposition", "text"), lambda row: row[0]),
        (Column("Letter"), lambda row: row[1]),
        (Column("People"), lambda row: write_count(row[2])),
    )


def tabulate_rates(rates: ResponseRates) -> ReportTable:
    """Return the six response rates, each with its formula."""
    known = "(I + P) + (R + NC + O)"
    formulas = (
        f"I / ({known} + (UH + UO))",
        f"(I + P) / ({known} + (UH + UO))",
        f"I / ({known} + e (UH + UO))",
        f"(I + P) / ({known} + e (UH + UO))",
        f"I / ({known})",
        f"(I + P) / ({known})",
    )
    return build_table(
        "Response rates; e is the share of the unknown that is taken to be eligible",
        zip(ResponseRates.__struct_fields__, formulas, strict=True),
        (Column("Rate", "text"), lambda row: row[0].upper()),
        (Column("Formula", "text"), lambda row: row[1]),
        (Column("Value"), lambda row: write_percent(getattr(rates, row[0]))),
    )


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure, with its name and its interval or whole."""

    name: str
    figure: str
    note: str


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
