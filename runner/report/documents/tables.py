"""A report's tables and tiles of main figures, as values for every document, not yet escaped."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

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
from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.report.model import (
        Audience,
        Day,
        Dispositions,
        Experiment,
        MessageReport,
        QuestionReport,
        ResponseRates,
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


_Cell = str | Fraction | None
_BAR = Column("", "bar")


def build_table(
    caption: str, columns: Sequence[str | Column], rows: Iterable[Sequence[_Cell]]
) -> ReportTable:
    """Return a table; of columns that are only names, the first has texts, the others figures."""
    first, *others = columns
    return ReportTable(
        caption,
        tuple(
            one if isinstance(one, Column) else Column(one, "text" if number == 0 else "figure")
            for number, one in enumerate((first, *others))
        ),
        tuple(map(tuple, rows)),
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
    rows = (
        (row.label, write_known(message, row.name, row.count), _write_share(message, row))
        for row in list_funnel(message)
    )
    return build_table("What became of the recipients", ("Step", "People", "Share"), rows)


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
    states = {"Still queued": "queued", "In progress": "active", "Ended": "complete"}
    for label, name in states.items():
        count = getattr(sessions, name)
        if count != 0 or name == "complete":
            yield FunnelRow(label, count, divide(count, sent), "sent", name)
    if message.questions:
        answered, completed = message.participants_answered, message.participants_completed
        yield FunnelRow("Answered", answered, message.response_rate, "sent", "participants_answered")
        end = completed, message.completion_rate, "answered", "participants_completed"
        yield FunnelRow("Reached the end", *end)
    if message.opt_outs != 0:
        yield FunnelRow("Opted out", message.opt_outs, divide(message.opt_outs, sent), "sent", "opt_outs")
    if message.rejected:
        yield FunnelRow("Refused by the service", message.rejected)


def _list_values(part: Dispositions | ResponseRates) -> list[Any]:
    return [getattr(part, name) for name in part.__struct_fields__]


def _label(disposition: str) -> str:
    """Return a reason's label; a ledger of another version may have others, which keep their names."""
    reason = REASONS.get(disposition)
    return disposition if reason is None else reason.label


def tabulate_reserved(audience: Audience) -> ReportTable:
    """Return the recipients of the audience not sent to, by reason."""
    rows = (
        (
            _label(one.disposition),
            write_count(one.recipients),
            f"{write_percent(divide(one.recipients, audience.recipients))} of the audience",
        )
        for one in audience.reserved
    )
    return build_table("Who of the audience was not texted", ("Reason", "People", "Share"), rows)


def tabulate_questions(questions: Sequence[QuestionReport]) -> ReportTable:
    """Return the participants who reached each question, and their times."""
    rows = (
        (
            one.tag or one.text,
            NOT_DEFINED if one.asked is None and not one.is_unread else write_count(one.asked),
            write_count(one.answers),
            write_percent(one.answer_rate),
            one.answer_rate,
            NOT_DEFINED if one.broke_off is None else write_count(one.broke_off),
            *_write_times(one.time_to_answer),
        )
        for one in questions
    )
    names = "Question", "Asked", "Answered", "Rate", _BAR, "Stopped here", "Half within", "Nine in ten within"
    return build_table("How far people came, and how long they took", names, rows)


def tabulate_responses(question: QuestionReport) -> ReportTable:
    """Return the participants by response."""
    rows = (
        (one.label, write_count(one.count), write_percent(one.share), one.share)
        for one in question.distribution
    )
    return build_table("Answers by response", ("Response", "Answers", "Share", _BAR), rows)


def tabulate_words(question: QuestionReport) -> ReportTable:
    """Return the words that participants use most in a question's answers."""
    texts = question.texts
    shares = {} if texts is None else {one: divide(one.participants, texts.counted) for one in texts.words}
    rows = (
        (one.word, write_count(one.participants), write_percent(share), share)
        for one, share in shares.items()
    )
    return build_table("Words that people use most", ("Word", "People", "Share", _BAR), rows)


def tabulate_groups(what: str, groups: Sequence[Turnout], caption: str) -> ReportTable:
    """Return the response of groups, a row each, and their scores.

    `what` names the groups, as in `Arm` or a column's name.
    """
    scored = groups[0].scores if groups else ()
    names = (name_score(SCORE_FORMATS[one.measure].label, one.tag) for one in scored)
    rows = (
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
    columns = what, "Sent", "Answered", "Response", "95 % interval", "Completed", *names
    return build_table(caption, columns, rows)


def name_score(measure: str, tag: str) -> str:
    """Return a score's name: `CSAT service`; a tag that says the same is left out."""
    return measure if tag.casefold() in ("", measure.casefold()) else f"{measure} {tag}"


def tabulate_differences(experiment: Experiment) -> ReportTable:
    """Return each further arm's response rate against the first arm's."""
    against = experiment.arms[0].name if experiment.arms else "the first arm"
    rows = (
        (
            one.arm,
            write_points(one.difference),
            write_score_range(one.interval and (100 * one.interval[0], 100 * one.interval[1])),
            write_p_value(one.p_value) or NOT_DEFINED,
        )
        for one in experiment.differences
    )
    caption = f"Response rate of each arm, compared with {against}"
    return build_table(caption, ("Arm", "Difference", "95 % interval", "p"), rows)


def tabulate_days(days: Sequence[Day]) -> ReportTable:
    """Return the events of each day."""
    rows = (
        (day.date.isoformat(), *map(write_count, (day.sent, day.first_answers, day.answers))) for day in days
    )
    columns = "Day (UTC)", "Sent", "First answers", "All answers"
    return build_table("Sent and answered, by day", columns, rows)


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
    columns: dict[Column, list[str | None]] = {
        Column("Started", "text"): [write_time(run.started_at) for run in runs],
        Column("Commit", "text"): [_write_commit(run) for run in runs],
        Column("Plan digest", "text"): [run.plan_digest[:_SHORT] for run in runs],
        Column("Triggered by", "text"): [run.triggered_by for run in runs],
        Column("Job", "link"): [run.run_url for run in runs],
        Column("Launches"): [write_count(run.launches) for run in runs],
        Column("Recipients"): [write_count(run.recipients) for run in runs],
    }
    kept = {
        column: [cell or (None if column.kind == "link" else NOT_DEFINED) for cell in cells]
        for column, cells in columns.items()
        if any(cells)
    }
    rows = zip(*kept.values(), strict=True)
    return build_table("The runs that sent the campaign", list(kept), rows)


def _write_commit(run: RunReport) -> str | None:
    return run.commit and run.commit[:_SHORT] + (", with changes" if run.dirty else "")


_DISPOSITION_NAMES = (
    ("Complete interviews", "I"),
    ("Partial interviews", "P"),
    ("Refusals", "R"),
    ("Non-contacts", "NC"),
    ("Other eligible", "O"),
    ("Unknown eligibility", "UH + UO"),
)


def tabulate_dispositions(dispositions: Dispositions) -> ReportTable:
    """Return the recipients by AAPOR disposition."""
    counts = map(write_count, _list_values(dispositions))
    rows = ((*names, count) for names, count in zip(_DISPOSITION_NAMES, counts, strict=True))
    return build_table("Final dispositions", ("Disposition", "Letter", "People"), rows)


def tabulate_rates(rates: ResponseRates) -> ReportTable:
    """Return the six response rates, each with its formula."""
    known = "(I + P) + (R + NC + O)"
    wholes = f"({known} + (UH + UO))", f"({known} + e (UH + UO))", f"({known})"
    formulas = [f"{part} / {whole}" for whole in wholes for part in ("I", "(I + P)")]
    rows = (
        (f"RR{number}", formula, write_percent(rate))
        for number, (formula, rate) in enumerate(zip(formulas, _list_values(rates), strict=True), start=1)
    )
    caption = "Response rates; e is the share of the unknown that is taken to be eligible"
    return build_table(caption, ("Rate", Column("Formula", "text"), "Value"), rows)


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
