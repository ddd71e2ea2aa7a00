"""A report as a flat list of measures, the rows of its tidy table.

Of a message:

- recipients, sent, rejected, unresolved, launches, launches_reconciled, sent_reconciled, queued, active,
  complete, renders, results, opt_outs; a count that is empty is not known of every launch, …_in_part is of as
  many launches as `label` says;
- participants_answered (a share of `sent`), participants_completed (of participants_answered);
- response_rate_low, response_rate_high: the ends of its 95 % interval;
- audience, reserved (by reason, in `label`), held_out: shares of the audience;
- forecast_min, forecast_max, asked_again, plan_share, cost_usd: of its renders;
- aapor_i, aapor_p, aapor_r, aapor_nc, aapor_o, aapor_u: dispositions; aapor_rr1 to aapor_rr6: rates;
- first_answer_median_s, first_answer_p90_s: seconds;
- day_sent, day_first_answers, day_answers: by day, in `label`;
- arm_… of an arm and group_… of a group: sent, answered (a share of sent), completed, response_rate_low,
  response_rate_high; nps, csat or mean of a question, with …_low and …_high;
- groups_suppressed: groups of a column, in `answer`, that are left out because they are small;
- arm_difference, with arm_difference_low, arm_difference_high and arm_p_value: against the first arm.

Of a question:

- asked, answers (a share of asked), response (of all answers), broke_off (of answers);
- nps (-100 to 100), nps_promoters, nps_passives, nps_detractors, csat (a fraction of 1), mean, median; the
  ends of intervals nps_low, nps_high, csat_low, csat_high, mean_low, mean_high;
- texts, text_median_length, text_longest, word (a share of texts): of answers in participants' own words;
- answer_median_s, answer_p90_s: seconds;
- …_in_part: the same of as many launches as `label` says, where the answers to these alone were read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from runner.report.scores import divide

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.answered import QuestionReport
    from runner.report.dispositions import Dispositions, ResponseRates
    from runner.report.model import MessageReport
    from runner.report.rounding import Interval
    from runner.report.timing import TimeSummary
    from runner.report.turnout import Audience, Experiment, Turnout, Volume


@dataclass(frozen=True, slots=True)
class Measure:
    """The part of a row that says how many.

    Attributes:
        name: what is counted, as listed above.
        count: how many.
        share: the count as a part of its whole.
        value: what is no count.
        answer: see `csv_table`.
        label: see `csv_table`.
        question_tag: of a group's score, the question's.
    """

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
        yield from _measure_dispositions(message.dispositions)
    if message.response_rates is not None:
        yield from _measure_rates(message.response_rates)
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
    yield Measure("recipients", message.recipients)
    yield Measure("sent", message.sent)
    yield Measure("rejected", message.rejected)
    yield Measure("unresolved", message.unresolved)
    yield Measure("launches", message.launches)
    yield Measure("launches_reconciled", message.launches - message.unread_launches)
    yield Measure("sent_reconciled", message.sent_read)
    yield Measure("queued", message.sessions.queued)
    yield Measure("active", message.sessions.active)
    yield Measure("complete", message.sessions.complete)
    yield Measure("participants_answered", message.participants_answered, message.response_rate)
    yield from _measure_ends("response_rate", message.response_rate_interval, message.sent)
    yield Measure("participants_completed", message.participants_completed, message.completion_rate)
    yield Measure("renders", message.renders)
    yield Measure("results", message.results)
    yield Measure("opt_outs", message.opt_outs, divide(message.opt_outs, message.sent))
    for name, part in message.partly_known.items():
        label = f"{part.launches:,} of {message.launches:,} launches"
        yield Measure(f"{name}_in_part", part.count, label=label)


def _measure_audience(audience: Audience) -> Iterator[Measure]:
    yield Measure("audience", audience.recipients)
    for reservation in audience.reserved:
        share = divide(reservation.recipients, audience.recipients)
        yield Measure("reserved", reservation.recipients, share, label=reservation.disposition)
    yield Measure("held_out", audience.held_out, divide(audience.held_out, audience.recipients))


def _measure_volume(volume: Volume) -> Iterator[Measure]:
    yield Measure("forecast_min", volume.forecast_min)
    yield Measure("forecast_max", volume.forecast_max)
    yield Measure("asked_again", volume.asked_again)
    yield Measure("plan_share", volume.renders, volume.plan_share)
    yield Measure("cost_usd", volume.renders, value=volume.cost_usd)


def _measure_dispositions(dispositions: Dispositions) -> Iterator[Measure]:
    yield Measure("aapor_i", dispositions.complete)
    yield Measure("aapor_p", dispositions.partial)
    yield Measure("aapor_r", dispositions.refusal)
    yield Measure("aapor_nc", dispositions.non_contact)
    yield Measure("aapor_o", dispositions.other)
    yield Measure("aapor_u", dispositions.unknown_eligibility)


def _measure_rates(rates: ResponseRates) -> Iterator[Measure]:
    values = (rates.rr1, rates.rr2, rates.rr3, rates.rr4, rates.rr5, rates.rr6)
    for number, rate in enumerate(values, start=1):
        yield Measure(f"aapor_rr{number}", value=rate)


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
        yield Measure(score.measure, score.counted, value=score.value, question_tag=score.tag)
        for end in _measure_ends(score.measure, score.interval, score.counted):
            yield replace(end, question_tag=score.tag)


def _measure_scores(question: QuestionReport) -> Iterator[Measure]:
    if question.nps is not None:
        nps = question.nps
        yield Measure("nps", nps.counted, value=nps.score)
        yield from _measure_ends("nps", nps.interval, nps.counted)
        yield Measure("nps_promoters", nps.promoters, divide(nps.promoters, nps.counted))
        yield Measure("nps_passives", nps.passives, divide(nps.passives, nps.counted))
        yield Measure("nps_detractors", nps.detractors, divide(nps.detractors, nps.counted))
    if question.csat is not None:
        yield Measure("csat", question.csat.counted, value=question.csat.score)
        yield from _measure_ends("csat", question.csat.interval, question.csat.counted)
    if question.numbers is not None:
        numbers = question.numbers
        yield Measure("mean", numbers.counted, value=numbers.mean)
        yield from _measure_ends("mean", numbers.interval, numbers.counted)
        yield Measure("median", numbers.counted, value=numbers.median)


def _measure_ends(name: str, interval: Interval | None, count: int | None) -> Iterator[Measure]:
    """Yield both ends of an interval; nothing where there is none."""
    if interval is not None:
        yield Measure(f"{name}_low", count, value=Fraction(interval[0]))
        yield Measure(f"{name}_high", count, value=Fraction(interval[1]))
