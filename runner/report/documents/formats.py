"""The formats of a report. JSON has its values field by field (`schemas/report.schema.json`).

CSV, for spreadsheets and data frames, is one tidy table (RFC 4180). Each row is one measure of one thing, so
that a filter on `measure` gives a table of its own. Columns:

- `campaign`, `target`, `message`, `question_tag`, `question_text`: the subject of the row. The question's
  columns are empty in rows about a whole message. Rows without a message are of the campaign's one score.
- `measure`: one of those listed below.
- `answer`, `label`: for the measure `response`, the response's 1-based index and its text; in rows about an
  arm, a group, a day, a reason or a word, `label` names it, and of a group `answer` is the audience's column.
- `count`: people, launches, renders or results; for scores and times, the answers that the value rests on.
- `share`: the count as a fraction of 1, four decimal places; empty if undefined, or if the count is a part of
  nothing.
- `value`: a score, a rate, a time in seconds, an amount; four places.

Measures of a message:

- recipients, sent, rejected, unresolved, launches, launches_reconciled, sent_reconciled, queued, active,
  complete, renders, results, opt_outs, doubtful, non_answers; an empty count is not known of every launch,
  …_in_part is of as many launches as `label` says;
- participants_answered (a share of `sent`), participants_completed (of participants_answered);
- response_rate_low, response_rate_high: the ends of its 95 % interval;
- audience, reserved (by reason, in `label`), control_group: shares of the audience;
- forecast_min, forecast_max, asked_again, plan_share, cost_usd: of its renders;
- aapor_i, aapor_p, aapor_r, aapor_nc, aapor_o, aapor_u: dispositions; aapor_rr1 to aapor_rr6: rates;
- first_answer_median_s, first_answer_p90_s: seconds;
- day_sent, day_first_answers, day_answers: by day, in `label`;
- arm_… of an arm and group_… of a group: sent, answered (a share of sent), completed, response_rate_low,
  response_rate_high; nps, csat or mean of a question, with …_low and …_high;
- groups_suppressed: groups of a column, in `answer`, left out because they are small;
- arm_difference, with arm_difference_low, arm_difference_high and arm_p_value: against the first arm.

Measures of a question:

- asked, answers (a share of asked), response (of all answers), broke_off (of answers);
- nps (-100 to 100), nps_promoters, nps_passives, nps_detractors, csat (a fraction of 1), mean, median; the
  ends of intervals nps_low, nps_high, csat_low, csat_high, mean_low, mean_high;
- texts, text_median_length, text_longest, word (a share of texts): of answers in participants' own words;
- answer_median_s, answer_p90_s: seconds;
- …_in_part: the same of as many launches as `label` says, if only their answers were read.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from runner.document import PLACES, Count, Document, Part, build
from runner.report.documents.html import write_html
from runner.report.documents.markdown import write_markdown
from runner.report.documents.wording import defuse_formula, store_number
from runner.report.model import MessageReport, PooledScore, RunReport
from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from runner.report.model import (
        Audience,
        CampaignReport,
        Experiment,
        Interval,
        QuestionReport,
        Score,
        TimeSummary,
        Turnout,
        Volume,
    )


_LETTERS = ("i", "p", "r", "nc", "o", "u")
"""The dispositions' names in the standard."""


@dataclass(frozen=True, slots=True)
class Measure:
    """The columns of a row from `measure` on; `question_tag` is that of a group's score."""

    name: str
    count: int | None = None
    share: Fraction | None = None
    value: Fraction | None = None
    answer: str = ""
    label: str = ""
    question_tag: str = ""


def list_message_measures(message: MessageReport) -> Iterator[Measure]:
    """Yield the measures of a whole message."""
    yield from _measure_counts(message)
    if message.audience is not None:
        yield from _measure_audience(message.audience)
    yield from _measure_volume(message.volume)
    if message.dispositions is not None:
        for letters, name in zip(_LETTERS, message.dispositions.__struct_fields__, strict=True):
            yield Measure(f"aapor_{letters}", getattr(message.dispositions, name))
    if message.response_rates is not None:
        for name in message.response_rates.__struct_fields__:
            yield Measure(f"aapor_{name}", value=getattr(message.response_rates, name))
    yield from _measure_times("first_answer", message.time_to_first_answer)
    for day in message.days:
        label = day.date.isoformat()
        yield Measure("day_sent", day.sent, label=label)
        yield Measure("day_first_answers", day.first_answers, label=label)
        yield Measure("day_answers", day.answers, label=label)
    if message.experiment is not None:
        yield from _measure_experiment(message.experiment)
    for breakdown in message.breakdowns:
        for group in breakdown.groups:
            yield from _measure_group("group", breakdown.column, group)
        yield Measure("groups_suppressed", breakdown.suppressed, answer=breakdown.column)


def list_question_measures(question: QuestionReport) -> Iterator[Measure]:
    """Yield the measures of a question."""
    if (part := question.in_part) is not None:
        launches = f"{part.launches:,} of {part.of:,} launches"
        for one in list_question_measures(part.question):
            yield replace(one, name=f"{one.name}_in_part", label=one.label or launches)
    yield Measure("asked", question.asked)
    yield Measure("answers", question.answers, question.answer_rate)
    for response in question.distribution:
        yield Measure(
            "response",
            response.count,
            response.share,
            answer=response.answer,
            label=response.label,
        )
    yield from _measure_scores(question)
    if question.texts is not None:
        texts = question.texts
        yield Measure("texts", texts.counted)
        yield Measure("text_median_length", texts.counted, value=texts.median_length)
        yield Measure("text_longest", texts.counted, value=Fraction(texts.longest))
        for word in texts.words:
            share = divide(word.participants, texts.counted)
            yield Measure("word", word.participants, share, label=word.word)
    if question.broke_off is not None:
        yield Measure("broke_off", question.broke_off, divide(question.broke_off, question.answers))
    if question.time_to_answer is not None:
        yield from _measure_times("answer", question.time_to_answer)


def _measure_counts(message: MessageReport) -> Iterator[Measure]:
    for name in ("recipients", "sent", "rejected", "unresolved", "launches"):
        yield Measure(name, getattr(message, name))
    yield Measure("launches_reconciled", message.reconciled_launches)
    yield Measure("sent_reconciled", message.reconciled_sent)
    for state in ("queued", "active", "complete"):
        yield Measure(state, getattr(message.sessions, state))
    yield Measure("participants_answered", message.participants_answered, message.response_rate)
    yield from _measure_ends("response_rate", message.response_rate_interval, message.sent)
    yield Measure("participants_completed", message.participants_completed, message.completion_rate)
    yield Measure("renders", message.renders)
    yield Measure("results", message.results)
    yield Measure("opt_outs", message.opt_outs, divide(message.opt_outs, message.sent))
    yield Measure("doubtful", message.doubtful)
    yield Measure("non_answers", message.non_answers)
    for part in message.partly_known:
        label = f"{part.launches:,} of {message.launches:,} launches"
        yield Measure(f"{part.name}_in_part", part.count, label=label)


def _measure_audience(audience: Audience) -> Iterator[Measure]:
    yield Measure("audience", audience.recipients)
    for reservation in audience.reserved:
        share = divide(reservation.recipients, audience.recipients)
        yield Measure("reserved", reservation.recipients, share, label=reservation.disposition)
    yield Measure(
        "control_group", audience.control_group, divide(audience.control_group, audience.recipients)
    )


def _measure_volume(volume: Volume) -> Iterator[Measure]:
    yield Measure("forecast_min", volume.forecast_min)
    yield Measure("forecast_max", volume.forecast_max)
    yield Measure("asked_again", volume.asked_again)
    yield Measure("plan_share", volume.renders, volume.plan_share)
    yield Measure("cost_usd", volume.renders, value=volume.cost_usd)


def _measure_times(name: str, times: TimeSummary) -> Iterator[Measure]:
    yield Measure(f"{name}_median_s", times.counted, value=times.median_s)
    yield Measure(f"{name}_p90_s", times.counted, value=times.p90_s)


def _measure_experiment(experiment: Experiment) -> Iterator[Measure]:
    for arm in experiment.arms:
        yield from _measure_group("arm", "", arm)
    for one in experiment.differences:
        yield Measure("arm_difference", value=one.difference, answer=one.against, label=one.arm)
        for end in _measure_ends("arm_difference", one.interval, None):
            yield replace(end, answer=one.against, label=one.arm)
        p_value = None if one.p_value is None else Fraction(one.p_value)
        yield Measure("arm_p_value", value=p_value, answer=one.against, label=one.arm)


def _measure_group(kind: str, column: str, group: Turnout) -> Iterator[Measure]:
    for measure in _measure_turnout(group):
        yield replace(measure, name=f"{kind}_{measure.name}", answer=column, label=group.name)


def _measure_turnout(group: Turnout) -> Iterator[Measure]:
    yield Measure("sent", group.sent)
    yield Measure("answered", group.answered, group.response_rate)
    yield from _measure_ends("response_rate", group.response_interval, group.sent)
    yield Measure("completed", group.completed, divide(group.completed, group.answered))
    for score in group.scores:
        for measure in _measure_score(score):
            yield replace(measure, question_tag=score.tag)


def _measure_scores(question: QuestionReport) -> Iterator[Measure]:
    for score in question.scores:
        yield from _measure_score(score)
    if question.nps is not None:
        for name in ("promoters", "passives", "detractors"):
            count = getattr(question.nps, name)
            yield Measure(f"nps_{name}", count, divide(count, question.nps.counted))
    if question.numeric_answers is not None:
        yield Measure("median", question.numeric_answers, value=question.median)


def _measure_score(score: Score) -> Iterator[Measure]:
    yield Measure(score.measure, score.counted, value=score.value)
    yield from _measure_ends(score.measure, score.interval, score.counted)


def _measure_ends(name: str, interval: Interval | None, count: int | None) -> Iterator[Measure]:
    """Yield both ends of an interval; nothing where there is none."""
    if interval is not None:
        yield Measure(f"{name}_low", count, value=Fraction(interval[0]))
        yield Measure(f"{name}_high", count, value=Fraction(interval[1]))


COLUMNS = (
    "campaign",
    "target",
    "message",
    "question_tag",
    "question_text",
    "measure",
    "answer",
    "label",
    "count",
    "share",
    "value",
)


def write_csv(report: CampaignReport) -> str:
    """Return the report as a CSV table (see the module): a header row, then one line a row.

    Lines end in LF, as in files of answers. Text cells that a spreadsheet would run as a formula start with
    an apostrophe (OWASP, "CSV injection").
    """
    lines = _Lines()
    # With LF alone as line end, the writer would not quote a text that has a CR.
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    if report.score is not None:
        pooled = report.score.question
        for measure in list_question_measures(pooled):
            row = _build_row((report.campaign, report.target, "", pooled.tag, pooled.text), measure)
            writer.writerow(row)
    for message in report.messages:
        about = (report.campaign, report.target, message.id)
        for measure in list_message_measures(message):
            # A measure of a group may be of one question's score.
            writer.writerow(_build_row((*about, measure.question_tag, ""), measure))
        for question in message.questions:
            for measure in list_question_measures(question):
                writer.writerow(_build_row((*about, question.tag, question.text), measure))
    return "".join(lines)


class _Lines(list[str]):
    """Lines of the CSV writer, each ended in LF."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n") + "\n")


def _build_row(about: tuple[str, ...], measure: Measure) -> list[str | int | float | None]:
    return [
        *(defuse_formula(text) for text in (*about, measure.name, measure.answer, measure.label)),
        measure.count,
        store_number(measure.share),
        store_number(measure.value),
    ]


class ReportedCampaign(Document, frozen=True):
    """What became of one SMS survey campaign, from the reconciled record.

    It is a function of that record: the same record gives the same document, byte for byte. Answers in
    participants' own words and phone numbers never stand in it. What is not known is null, never 0.

    Attributes:
        campaign: the campaign's name.
        target: name of the target that the campaign was sent through. `sandbox` means simulated: nobody was
            texted.
        reconciled_at: when that one of the reconciled launches of the campaign was read that was read longest
            ago; None when none was. UTC, ISO 8601. `reconciled_launches` says how many of `launches` were.
        messages: in the order of the campaign.
        participants_answered: distinct participants with at least one answer, over all messages; a reply that
            opts out is none. None where some launch's answers were not read.
        discrepancies: what does not add up and belongs to no message, in sentences.
        runs: the runs that sent the campaign, as far as that is on record; the earliest first.
        launches: launches that the service accepted, over all messages.
        reconciled_launches: of these, those whose counts and answers were read, as far as the service has
            them.
        score: the campaign's one score (`score` of the campaign file); None for none, and where some launch's
            answers were not read.
    """

    campaign: str
    target: str
    reconciled_at: datetime | None
    messages: tuple[MessageReport, ...]
    participants_answered: Count | None
    discrepancies: tuple[str, ...]
    runs: tuple[RunReport, ...]
    launches: Count
    reconciled_launches: Count
    score: PooledScore | None


def describe_report(report: CampaignReport) -> ReportedCampaign:
    """Return the report as a document."""
    document = build(ReportedCampaign, report, reconciled_launches=report.launches - report.unread_launches)
    rounded: ReportedCampaign = _round_floats(document)
    return rounded


def _round_floats(value: Any) -> Any:
    """Return a report's value with the ends of intervals and p-values as documents have them."""
    if isinstance(value, float):
        # A p-value: small ones differ by magnitudes.
        return float(f"{value:.4g}")
    if isinstance(value, tuple):
        return (
            round_ends(value)
            if isinstance(next(iter(value), None), float)
            else tuple(map(_round_floats, value))
        )
    if isinstance(value, Part):
        return value.replace(
            **{name: _round_floats(getattr(value, name)) for name in value.__struct_fields__}
        )
    return value


def round_ends(interval: Interval) -> Interval:
    """Return an interval with its ends to four decimal places."""
    # Adding zero turns minus zero into zero.
    return round(interval[0], PLACES) + 0.0, round(interval[1], PLACES) + 0.0


def write_json(report: CampaignReport) -> str:
    """Return the report as JSON text, in UTF-8's characters, ending in a line break."""
    return describe_report(report).write() + "\n"


WRITERS: Mapping[str, tuple[str, Callable[[CampaignReport], str]]] = {
    "md": (".md", write_markdown),
    "html": (".html", write_html),
    "json": (".json", write_json),
    "csv": (".csv", write_csv),
}
"""The file suffix and the writer of each format. Files are UTF-8, written without translating line ends: the
CSV table has its own."""
