"""A report's findings as sentences, and how to read them: the same in every document, not yet escaped."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from runner.report.comparison import DAYS_TO_ANSWER
from runner.report.documents.wording import (
    NOT_KNOWN,
    SCORE_FORMATS,
    format_duration,
    write_count,
    write_known,
    write_message_headline,
    write_number,
    write_percent,
    write_points,
    write_score_range,
    write_time,
)
from runner.report.scores import divide
from runner.view.blocks import ListItem
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.model import (
        ArmDifference,
        Audience,
        Breakdown,
        CampaignReport,
        MessageReport,
        PooledQuestion,
        VariantAnalysis,
    )
    from runner.report.question_model import QuestionReport, Score, TimeSummary


FREEFORM_NOTE = "Answered in the participants’ own words, which a report does not show."
"""The text in place of the answers to a freeform question."""

_SURE_P = 0.001
FEW_ANSWERS = 10
"""A score of fewer answers has a caution and is not shown large: our choice, as for the interval of a Net
Promoter Score."""


def list_findings(report: CampaignReport) -> Iterator[str]:
    """Yield the findings: turnout, scores with their certainty, and the comparison of the arms."""
    for pooled in report.questions:
        if len(pooled.parts) > 1:
            yield from _write_pooled(pooled)
    tags = Counter(question.tag for message in report.messages for question in message.questions)
    for message in report.messages:
        if message.questions and len(report.messages) > 1:
            yield f"{message.id}: {write_message_headline(message, is_simulated=report.is_simulated)}"
        for question in message.questions:
            score = next(list_scores(question), None)
            if score is not None and question.scale != "number":
                # A tag that several messages have does not identify the score.
                of = f"{question.tag} in {message.id}" if tags[question.tag] > 1 else question.tag
                yield f"{of}: {score}" if question.tag else score
        if message.experiment is not None:
            yield from map(write_verdict, message.experiment.differences)
            if message.experiment.analysis is not None:
                yield write_analysis(message.experiment.analysis)


def has_few_answers(question: QuestionReport) -> bool:
    """Return whether a score rests on so few answers that no document shows it large."""
    return question.score is not None and question.score.counted < FEW_ANSWERS


def caution(counted: int) -> str:
    """Return the caution beside a score of few answers, without a full stop; empty for enough."""
    if not counted:
        return "no answers yet"
    return f"{count_words(counted, 'answer')}, too few to go by" if counted < FEW_ANSWERS else ""


def _write_pooled(pooled: PooledQuestion) -> Iterator[str]:
    """Yield the campaign's one score, with the messages that it is pooled over."""
    *others, last = (part.message for part in pooled.parts)
    names = f"{', '.join(others)} and {last}"
    for sentence in list_scores(pooled.question):
        yield f"{pooled.question.tag}, each person’s latest answer to {names}: {sentence}"


def list_scores(question: QuestionReport) -> Iterator[str]:
    """Yield the scores of a question, each as a sentence."""
    for score in question.scores:
        form = SCORE_FORMATS[score.measure]
        if not score.counted:
            yield f"{form.label}: no answers yet."
            continue
        interval = f" (95 % interval {form.write_range(score.interval)})" if score.interval else ""
        hedge = ": too few to go by" if score.counted < FEW_ANSWERS else ""
        yield f"{form.label} {form.write(score.value)}{interval}{_write_basis(question, score)}{hedge}."


def is_freeform(question: QuestionReport) -> bool:
    """Return whether a question's answers are words that a report does not show."""
    is_known = question.answers is not None
    return is_known and not question.distribution and question.scale in ("text", "choice")


def write_turnout(question: QuestionReport) -> str:
    """Return a sentence on how many were asked, answered, and stopped here."""
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
        return f"{question.answers:,} answered; how many were asked is not known."
    rate = "" if question.answer_rate is None else f" ({write_percent(question.answer_rate)})"
    stopped = f"; {question.broke_off:,} of them stopped here" if question.broke_off else ""
    return f"{question.asked:,} asked, {question.answers:,} answered{rate}{stopped}."


def write_times(times: TimeSummary | None, what: str) -> str:
    """Return a sentence on how long people took; empty when nobody's time is known.

    `what` is what they did, as in `gave their first answer`.
    """
    if times is None or times.median_s is None or times.p90_s is None:
        return ""
    half, most = format_duration(times.median_s), format_duration(times.p90_s)
    return f"Half of those who answered {what} within {half}, nine in ten within {most}."


def write_cost(message: MessageReport) -> str:
    """Return a sentence on a message's part of the service's plan; empty if it is not known."""
    volume = message.volume
    if volume.plan_share is None:
        return ""
    cost = f", {write_number(volume.cost_usd)} US dollars of its price" if volume.cost_usd else ""
    return f"Together the renders are {write_percent(volume.plan_share)} of the service’s plan{cost}."


def write_opt_outs(message: MessageReport) -> str:
    """Return how many opted out, and may have, as a sentence; empty for a message that was not sent."""
    if not message.sent:
        return ""
    if message.opt_outs is None:
        opted_out, doubtful = (write_known(message, name, None) for name in ("opt_outs", "doubtful"))
        return f"How many opted out: {opted_out}; how many doubtful replies wait for a decision: {doubtful}."
    rate = write_percent(divide(message.opt_outs, message.sent))
    opted_out = f"{count_words(message.opt_outs, 'person', 'people')} opted out ({rate} of those texted)"
    waiting = f"; doubtful replies that wait for a decision: {message.doubtful:,}" if message.doubtful else ""
    return f"{opted_out}{waiting}."


def write_non_answers(message: MessageReport) -> str:
    """Return how many results answer nothing, as a sentence; empty if none is known."""
    if not message.non_answers:
        return ""
    found = count_words(message.non_answers, "reply is", "replies are")
    return f"{found} no answer, and counted as none: blank, a phone's reaction, or automatic."


def write_audience(audience: Audience | None) -> str:
    """Return a sentence on the size of the campaign's audience."""
    if audience is None:
        return (
            "How large the audience was, who of it was not texted, and what the service refused is "
            f"{NOT_KNOWN}: nothing was planned with this ledger."
        )
    people = count_words(audience.recipients, "person", "people")
    return f"The audience had {people} when it was last applied, {write_time(audience.planned_at)}."


def write_holdout(audience: Audience | None) -> str:
    """Return how many are in the control group, as a sentence; empty when nobody is."""
    if audience is None or not audience.control_group:
        return ""
    share = write_percent(divide(audience.control_group, audience.recipients))
    people = count_words(audience.control_group, "person", "people")
    return (
        f"Control group: {people} ({share} of the audience), drawn by lot and not texted, so that what they "
        "do can be compared with what the others do."
    )


def write_verdict(difference: ArmDifference) -> str:
    """Return the verdict on two arms' response rates, as a sentence."""
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


def write_analysis(analysis: VariantAnalysis) -> str:
    """Return a sentence on the time of the arms' verdicts, and on the people counted."""
    if analysis.method == "sequential":
        return "A test for every look: of 100 experiments without a difference, at most 5 ever show one."
    if analysis.due is None:
        people = count_words(analysis.per_arm or 0, "person has", "people have")
        return f"The verdict is taken {DAYS_TO_ANSWER} days after {people} been asked in each arm."
    day = analysis.due.isoformat()
    if not analysis.is_due:
        return f"The verdict is taken by the first report that is reconciled on {day} (UTC) or later."
    people = count_words(sum(arm.sent for arm in analysis.arms), "person", "people")
    return f"The verdict is of the {people} asked, and of the answers that came, before {day} (UTC)."


def write_p_value(p_value: float | None) -> str:
    """Return a p-value to three decimals: `0.016`, `below 0.001`."""
    if p_value is None:
        return ""
    return f"below {_SURE_P}" if p_value < _SURE_P else f"{p_value:.3f}"


def write_suppressed(breakdown: Breakdown) -> str:
    """Return how many groups are not shown, or that there are none; empty when all are shown."""
    if not breakdown.suppressed:
        return "" if breakdown.groups else "Nobody was texted yet."
    together = f", {breakdown.suppressed_sent:,} people together" if breakdown.suppressed_sent else ""
    # A larger group may be left out as well, so that the total does not reveal the small ones.
    return (
        f"Left out: {count_words(breakdown.suppressed, 'group')}{together}, so that no group of fewer than "
        f"{breakdown.least} people can be made out."
    )


def _write_basis(question: QuestionReport, score: Score) -> str:
    """Return the answers that a score rests on, as the end of its sentence."""
    nps, csat = question.nps, question.csat
    answers = count_words(score.counted, "answer")
    if score.measure == "nps" and nps is not None:
        groups = {"promoters": nps.promoters, "passives": nps.passives, "detractors": nps.detractors}
        parts = (f"{name} {write_percent(divide(count, nps.counted))}" for name, count in groups.items())
        return f": {', '.join(parts)}, of {answers}"
    if score.measure == "csat" and csat is not None:
        top = " or ".join(f"“{text}”" for text in csat.top_two)
        return f": {csat.satisfied:,} of {csat.counted:,} chose one of the top two responses" + (
            f", {top}" if top else ""
        )
    return f", median {write_number(question.median)}, of {answers}"


AAPOR_NOTE = (
    "Outcome rates as the American Association for Public Opinion Research defines them (AAPOR, Standard "
    "Definitions, 10th edition, 2023). A partial interview counts from the first answer on."
)
"""The note beside the response rates: the standard wants them named with their definition."""


_EXPLANATIONS = """\
questions: Response rate and its 95 % interval
People with at least one answer, of the people texted. Another draw of as many people like these would give a
somewhat different rate; 95 of 100 such intervals hold the true one. Wilson (1927).

questions: Completion
People who answered the last question, or ended the survey early by an answer that does so, of those who
answered at all.

questions: Times
Half, and nine in ten, of those who answered took at most so long. Those who never answered are not among
them.

nps: NPS (Net Promoter Score)
Percentage of 9 and 10 less percentage of 0 to 6; from -100 to +100. Reichheld (2003).

csat: CSAT (customer satisfaction)
Share of answers that are one of the top two responses, with its Wilson interval.

numeric_answers: Mean and its 95 % interval
Student’s interval, with the skewness taken off: where most answers are near one end of the scale, it reaches
further to where the few are. Hall (1992).

arms: Arms compared
The difference of two response rates with its 95 % interval. “No difference shown” does not mean that there is
none: there may be too few people to show it. P-values and intervals are adjusted alike for the number of
comparisons. Where the campaign fixes no day and no size, they are those of a test that may be looked at any
number of times. Newcombe (1998), Dunn (1961), Johari et al. (2022).

rates: AAPOR response rates
RR1 to RR6 differ in whether partial interviews count, and in how many of the people of whom nothing is known
are taken to be eligible. AAPOR (2023).

report: What is not here
Phone numbers, answers in people’s own words, and groups so small that a rate may tell of one person."""
"""The entries of "How to read this", each with what a report needs for it. Sources: docs/statistics.md."""


def list_explanations(report: CampaignReport) -> Iterator[ListItem]:
    """Yield the explanations of a report's content."""
    questions = [question.shown for message in report.messages for question in message.questions]
    topics = {
        "report": True,
        "questions": bool(questions),
        **{
            name: any(getattr(one, name) is not None for one in questions)
            for name in ("nps", "csat", "numeric_answers")
        },
        "arms": any(message.experiment is not None for message in report.messages),
        "rates": any(message.response_rates is not None for message in report.messages),
    }
    for entry in _EXPLANATIONS.split("\n\n"):
        head, *lines = entry.split("\n")
        topic, term = head.split(": ", 1)
        if topics[topic]:
            yield ListItem(term=term, text=" ".join(lines))
