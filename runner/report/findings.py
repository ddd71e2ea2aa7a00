"""What a report's figures say, as sentences: the same in every document, and not yet escaped for any."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.report.analysis import DAYS_TO_ANSWER
from runner.report.scores import divide
from runner.report.timing import format_duration
from runner.report.wording import (
    NOT_KNOWN,
    count_nouns,
    write_count,
    write_known,
    write_message_headline,
    write_number,
    write_number_range,
    write_percent,
    write_percent_range,
    write_points,
    write_score,
    write_score_range,
    write_time,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.report.answered import NetPromoterScore, NumberSummary, QuestionReport, SatisfactionScore
    from runner.report.comparison import ArmDifference
    from runner.report.dispositions import ResponseRates
    from runner.report.model import CampaignReport, MessageReport, PooledScore
    from runner.report.timing import TimeSummary
    from runner.report.turnout import Analysis, Audience, Breakdown, Volume

FREEFORM_NOTE = "Answered in the participants’ own words, which a report does not show."
"""Stands in for the answers to a freeform question."""

_SURE_P = 0.001
FEW_ANSWERS = 10
"""A score of fewer answers has a caution and is not shown large: our choice, that of the interval of a Net
Promoter Score."""


def list_findings(report: CampaignReport) -> Iterator[str]:
    """Yield what came out: who answered, the scores, how sure they are, and how the arms compare."""
    if report.score is not None:
        yield from _write_pooled(report.score)
    tags = Counter(question.tag for message in report.messages for question in message.questions)
    for message in report.messages:
        if message.questions and len(report.messages) > 1:
            yield f"{message.id}: {write_message_headline(message, is_simulated=report.is_simulated)}"
        for question in message.questions:
            score = next(list_scores(question), None)
            if score is not None and question.scale != "number":
                # A tag that several messages have says nothing of which score it is.
                of = f"{question.tag} in {message.id}" if tags[question.tag] > 1 else question.tag
                yield f"{of}: {score}" if question.tag else score
        if message.experiment is not None:
            yield from map(write_verdict, message.experiment.differences)
            if message.experiment.analysis is not None:
                yield write_analysis(message.experiment.analysis)


def has_few_answers(question: QuestionReport) -> bool:
    """Tell whether a score rests on so few answers that no document shows it large."""
    counted = _count_scored(question)
    return counted is not None and counted < FEW_ANSWERS


def caution(counted: int) -> str:
    """Return what is to be said beside a score of few answers, without a full stop; empty for enough."""
    if not counted:
        return "no answers yet"
    return f"{count_nouns(counted, 'answer')}, too few to go by" if counted < FEW_ANSWERS else ""


def _count_scored(question: QuestionReport) -> int | None:
    for score in (question.nps, question.csat, question.numbers):
        if score is not None:
            return score.counted
    return None


def _hedge(sentence: str, counted: int) -> str:
    """Return the sentence of a score, with a caution when it rests on few answers."""
    return f"{sentence.removesuffix('.')}: too few to go by." if counted < FEW_ANSWERS else sentence


def _write_pooled(score: PooledScore) -> Iterator[str]:
    """Yield the campaign's one score, with the messages that it is pooled over."""
    for sentence in list_scores(score.question):
        yield f"{score.question.tag}, each person’s latest answer to {_join_names(score.parts)}: {sentence}"


def _join_names(names: Iterable[str]) -> str:
    """Return names as a list in words: `ask`, `ask and nudge`, `ask, nudge and last`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def list_scores(question: QuestionReport) -> Iterator[str]:
    """Yield the scores of a question, each as a sentence."""
    if question.nps is not None:
        yield _write_nps(question.nps)
    if question.csat is not None:
        yield _write_csat(question.csat)
    if question.numbers is not None:
        yield _write_numbers(question.numbers)


def is_freeform(question: QuestionReport) -> bool:
    """Tell whether a question's answers are words that a report does not show."""
    is_known = question.answers is not None
    return is_known and not question.distribution and question.scale in ("text", "choice")


def write_turnout(question: QuestionReport) -> str:
    """Return how many were asked and answered, and how many stopped here, as a sentence."""
    if question.in_part is not None:
        part = question.in_part
        read = f"{part.launches:,} of {part.of:,} launches"
        return (
            f"How many were asked, and answered, is not known. What follows is of {read}: "
            f"{write_count(part.question.answers)} answered."
        )
    if question.answers is None:
        return "How many were asked, and answered, is not known."
    if question.asked is None:
        why = (
            "how many were asked is not known"
            if question.is_unread
            else "the campaign does not have this question"
        )
        return f"{question.answers:,} answered; {why}."
    rate = "" if question.answer_rate is None else f" ({write_percent(question.answer_rate)})"
    stopped = f"; {question.broke_off:,} of them stopped here" if question.broke_off else ""
    return f"{question.asked:,} asked, {question.answers:,} answered{rate}{stopped}."


def write_texts(question: QuestionReport) -> str:
    """Return how long participants' own words are, as a sentence; empty when there are none."""
    texts = question.texts
    if texts is None or not texts.counted:
        return ""
    length = write_number(texts.median_length, 0)
    are = "is" if texts.counted == 1 else "are"
    left_out = f" {are} no number, and not in the mean" if question.scale == "number" else ""
    return (
        f"{count_nouns(texts.counted, 'answer')}{left_out}: half have at most {length} characters, the "
        f"longest has {texts.longest:,}."
    )


def write_times(times: TimeSummary | None, what: str) -> str:
    """Return how long people took, as a sentence; empty when nobody's time is known.

    Args:
        times: how long they took.
        what: what they did, as in `gave their first answer`.
    """
    if times is None or times.median_s is None or times.p90_s is None:
        return ""
    half, most = format_duration(times.median_s), format_duration(times.p90_s)
    return f"Half of those who answered {what} within {half}, nine in ten within {most}."


def write_volume(message: MessageReport) -> str:
    """Return what a message took, as a sentence."""
    parts = (
        count_nouns(message.launches, "launch", "launches"),
        _write_nouns(message, "renders", message.renders, "render"),
        _write_nouns(message, "results", message.results, "result"),
    )
    return f"{', '.join(parts)}."


def list_volume(volume: Volume) -> Iterator[str]:
    """Yield what the renders came to against their forecast, and what they cost, each as a sentence."""
    least, most = f"{volume.forecast_min:,}", f"{volume.forecast_max:,}"
    forecast = least if least == most else f"{least} to {most}"
    if volume.renders is None:
        yield f"How many renders there were is not known; the forecast was {forecast}."
        return
    renders = count_nouns(volume.renders, "render")
    if volume.renders < volume.forecast_min:
        yield f"{renders}, fewer than the forecast of {forecast}."
    elif volume.renders > volume.forecast_max:
        yield f"{renders}, more than the forecast of {forecast}."
    elif least == most:
        yield f"{renders}, as forecast."
    else:
        yield f"{renders}, within the forecast of {forecast}."
    share = "" if volume.plan_share is None else f"{write_percent(volume.plan_share)} of the service’s plan"
    cost = f"{write_cost(volume)} of its price" if volume.cost_usd else ""
    if share or cost:
        yield f"Together the renders are {', '.join(filter(None, (share, cost)))}."
    if volume.asked_again is not None:
        yield f"{count_nouns(volume.asked_again, 'render')} asked a question again after an invalid answer."


def write_cost(volume: Volume) -> str:
    """Return what renders cost: `33.91 US dollars`."""
    return f"{write_number(volume.cost_usd)} US dollars"


def write_opt_outs(message: MessageReport) -> str:
    """Return how many opted out, as a sentence; empty for a message that was not sent."""
    if not message.sent:
        return ""
    if message.opt_outs is None:
        return f"How many opted out: {write_known(message, 'opt_outs', None)}."
    rate = write_percent(divide(message.opt_outs, message.sent))
    return f"{count_nouns(message.opt_outs, 'person', 'people')} opted out ({rate} of those texted)."


def write_audience(audience: Audience | None) -> str:
    """Return how many people the campaign meant, as a sentence."""
    if audience is None:
        return (
            "How large the audience was, who of it was not texted, and what the service refused is "
            f"{NOT_KNOWN}: nothing was planned with this ledger."
        )
    people = count_nouns(audience.recipients, "person", "people")
    return f"The audience had {people} when it was last applied, {write_time(audience.planned_at)}."


def write_holdout(audience: Audience | None) -> str:
    """Return how many were held out, as a sentence; empty when nobody was."""
    if audience is None or not audience.held_out:
        return ""
    share = write_percent(divide(audience.held_out, audience.recipients))
    were = "was" if audience.held_out == 1 else "were"
    people = count_nouns(audience.held_out, "person", "people")
    return (
        f"Holdout: {people} ({share} of the audience) {were} not texted, drawn by lot, so that what they "
        "do can be compared with what the others do."
    )


def write_verdict(difference: ArmDifference) -> str:
    """Return what may be said of two arms' response rates, as a sentence."""
    arm, against = difference.arm, difference.against
    if difference.verdict == "too_early":
        return f"Too early to tell whether {arm} or {against} answers more."
    if difference.verdict == "too_few" or difference.difference is None or difference.interval is None:
        return f"Too few people to tell whether {arm} or {against} answers more."
    low, high = difference.interval
    interval = f"95 % interval {write_score_range((100 * low, 100 * high))}"
    figures = f"{write_points(difference.difference)}, {interval}"
    if difference.verdict == "no_difference_shown":
        return f"No difference shown between {arm} and {against}: {figures}."
    return f"{arm} answers {'more' if difference.difference > 0 else 'less'} than {against}: {figures}."


def write_analysis(analysis: Analysis) -> str:
    """Return when verdicts on arms are taken, and of whom, as a sentence."""
    if analysis.method == "sequential":
        return "A test for every look: of 100 experiments without a difference, at most 5 ever show one."
    if analysis.due is None:
        people = count_nouns(analysis.per_arm or 0, "person has", "people have")
        return f"The verdict is taken {DAYS_TO_ANSWER} days after {people} been asked in each arm."
    day = analysis.due.isoformat()
    if not analysis.is_due:
        return f"The verdict is taken by the first report that is reconciled on {day} (UTC) or later."
    people = count_nouns(sum(arm.sent for arm in analysis.arms), "person", "people")
    return f"The verdict is of the {people} asked, and of the answers that came, before {day} (UTC)."


def write_rates(rates: ResponseRates) -> str:
    """Return AAPOR's six response rates as a sentence, with the definition's name."""
    named = (
        ("RR1", rates.rr1),
        ("RR2", rates.rr2),
        ("RR3", rates.rr3),
        ("RR4", rates.rr4),
        ("RR5", rates.rr5),
        ("RR6", rates.rr6),
    )
    parts = ", ".join(f"{name} {write_percent(rate)}" for name, rate in named)
    return f"Response rates by AAPOR’s Standard Definitions (10th edition, 2023): {parts}."


def write_p_value(p_value: float | None) -> str:
    """Return a p-value to three decimals: `0.016`, `below 0.001`."""
    if p_value is None:
        return ""
    return f"below {_SURE_P}" if p_value < _SURE_P else f"{p_value:.3f}"


def write_suppressed(breakdown: Breakdown) -> str:
    """Return how many groups are not shown, or that there are none; empty when all are shown."""
    if not breakdown.suppressed:
        return "" if breakdown.groups else "Nobody was texted yet."
    are = "is" if breakdown.suppressed == 1 else "are"
    together = (
        "" if breakdown.suppressed_sent is None else f", {breakdown.suppressed_sent:,} people together,"
    )
    # A larger group may be left out as well, lest the small ones be told by what is missing from the total.
    return (
        f"{count_nouns(breakdown.suppressed, 'group')}{together} {are} left out, so that no group of fewer "
        f"than {breakdown.least} people can be made out."
    )


def _write_nouns(message: MessageReport, name: str, count: int | None, noun: str) -> str:
    """Return a count with its noun: `1 render`, `renders not known (120 in 60 of 61 launches)`."""
    return f"{name} {write_known(message, name, None)}" if count is None else count_nouns(count, noun)


def _write_nps(nps: NetPromoterScore) -> str:
    if not nps.counted:
        return "NPS: no answers yet."
    groups = (
        ("promoters", nps.promoters),
        ("passives", nps.passives),
        ("detractors", nps.detractors),
    )
    parts = ", ".join(f"{name} {write_percent(divide(count, nps.counted))}" for name, count in groups)
    interval = "" if nps.interval is None else f" (95 % interval {write_score_range(nps.interval)})"
    said = f"NPS {write_score(nps.score)}{interval}: {parts}, of {count_nouns(nps.counted, 'answer')}."
    return _hedge(said, nps.counted)


def _write_csat(csat: SatisfactionScore) -> str:
    if not csat.counted:
        return "CSAT: no answers yet."
    interval = "" if csat.interval is None else f" (95 % interval {write_percent_range(csat.interval)})"
    said = (
        f"CSAT {write_percent(csat.score)}{interval}: {csat.satisfied:,} of {csat.counted:,} chose one of "
        "the top two responses."
    )
    return _hedge(said, csat.counted)


def _write_numbers(numbers: NumberSummary) -> str:
    if not numbers.counted:
        return "Mean: no answers yet."
    interval = "" if numbers.interval is None else f" (95 % interval {write_number_range(numbers.interval)})"
    mean, median = write_number(numbers.mean), write_number(numbers.median)
    said = f"Mean {mean}{interval}, median {median}, of {count_nouns(numbers.counted, 'answer')}."
    return _hedge(said, numbers.counted)
