"""Five campaigns as reports, to look at: one of everything, 60 messages, a reminder, 12 answers, none."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from runner.report.comparison_model import (
    AnalysisReport,
    ArmShare,
    Change,
    ExperimentReport,
    PairComparison,
    SeriesReport,
    SplitReport,
    Wave,
    WaveTest,
)
from runner.report.model import CampaignReport, MessageReport, PooledQuestion, QuestionPart
from runner.report.people_model import ColumnReport, Dispositions, GroupReport, OutcomeRates, PeopleReport
from runner.report.question_model import QuestionReport, Score
from runner.report.scores import (
    add_mean,
    divide,
    net_promoter_score,
    satisfaction_score,
    wilson_interval,
)
from tests.report.sample import START, build_runs, build_survey, build_text, replace
from tests.report.sample_questions import distribute

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FIELDS: dict[str, Any] = {
    "title": "How customers see us, autumn 2026",
    "description": "Everybody who bought in the third quarter is asked once, and reminded once after two days.",
    "owner": "Customer Experience, cx@acme.example",
    "time_zone": "America/New_York",
}
SCORES = (12, 5, 8, 11, 9, 31, 29, 74, 118, 96, 205)
SATISFACTION = {
    "Very dissatisfied": 24,
    "Dissatisfied": 41,
    "Neither satisfied nor dissatisfied": 71,
    "Satisfied": 233,
    "Very satisfied": 191,
}
CHANNELS = {"In a shop": 241, "On the website": 139, "In the app": 97, "By telephone": 44, "Another way": 18}


def build_people(texted: int, answered: int, completed: int, **changes: object) -> PeopleReport:
    """Return the outcome of people of whom all were texted, and none was kept from it."""
    return replace(
        PeopleReport(
            recipients=texted,
            sent=texted,
            queued=0,
            blocked=0,
            texted=texted,
            answered=answered,
            response_rate=divide(answered, texted),
            response_rate_interval=wilson_interval(answered, texted) if texted else None,
            replaced=0,
            completed=completed,
            completion_rate=divide(completed, answered),
            opted_out=0,
            open=0,
        ),
        **changes,
    )


def build_nps(counts: Sequence[int] = SCORES) -> QuestionReport:
    """Return a question from how often each score was given."""
    score = net_promoter_score(Counter({Fraction(number): count for number, count in enumerate(counts)}))
    return QuestionReport(
        tag="nps",
        text="How likely are you to recommend us to a friend or colleague, from 0 to 10?",
        scale="nps",
        answers=sum(counts),
        distribution=distribute({str(number): count for number, count in enumerate(counts)}),
        nps=score,
    )


def build_csat(counts: Mapping[str, int] = SATISFACTION, tag: str = "csat") -> QuestionReport:
    """Return a question from how often each response was given, the worst first."""
    points = [Fraction(point) for point in range(1, len(counts) + 1)]
    numbers = Counter(dict(zip(points, counts.values(), strict=True)))
    question = QuestionReport(
        tag=tag,
        text="How satisfied were you with our service?",
        scale="csat",
        answers=sum(counts.values()),
        distribution=distribute(dict(counts)),
        csat=satisfaction_score(numbers, points, tuple(counts)),
    )
    return add_mean(question, numbers)


def build_choice(counts: Mapping[str, int] = CHANNELS) -> QuestionReport:
    return QuestionReport(
        tag="channel",
        text="Where did you buy from us last?",
        scale="choice",
        answers=sum(counts.values()),
        distribution=distribute(dict(counts)),
    )


def build_visits() -> QuestionReport:
    return QuestionReport(
        tag="visits",
        text="How often did you buy from us this year?",
        scale="number",
        answers=498,
        mean=Fraction(437, 100),
        median=Fraction(3),
        mean_interval=(4.11, 4.67),
        numeric_answers=491,
    )


def build_reason() -> QuestionReport:
    return QuestionReport("reason", "What is the main reason for your score?", "text", answers=418)


def pool(*questions: QuestionReport, message: str = "ask") -> tuple[PooledQuestion, ...]:
    """Return questions that one message asks."""
    return tuple(PooledQuestion(one, (QuestionPart(message, one.answers or 0),)) for one in questions)


DISPOSITIONS = Dispositions(489, 109, 13, 701, 0, 0, 96)
RATES = OutcomeRates(
    e=None,
    rr1=divide(489, 1408),
    rr2=divide(598, 1408),
    rr3=divide(489, 1408),
    rr4=divide(598, 1408),
    rr5=divide(489, 1408),
    rr6=divide(598, 1408),
    coop1=divide(489, 611),
    coop2=divide(598, 611),
    ref1=divide(13, 1408),
    con1=divide(611, 1408),
)


def build_reminded() -> CampaignReport:
    """Return a survey and its reminder, of a series of five."""
    ask = replace(build_survey(), sent=1421, recipients=1421, participants_answered=371, discrepancies=())
    reminder = replace(
        ask,
        id="remind",
        first_sent_at=START + timedelta(days=2),
        last_sent_at=START + timedelta(days=2, minutes=3),
        sent=1037,
        participants_answered=227,
        audience=None,
        doubtful=0,
        opt_outs=5,
    )
    people = build_people(
        1408,
        598,
        489,
        recipients=1421,
        sent=1421,
        queued=0,
        blocked=13,
        opted_out=19,
        replaced=96,
        response_rate_without_replaced=divide(598, 1312),
        dispositions=DISPOSITIONS,
        rates=RATES,
    )
    return CampaignReport(
        campaign="customer-pulse-2026q3",
        target="live",
        reconciled_at=START + timedelta(days=9),
        messages=(ask, reminder),
        discrepancies=(),
        runs=build_runs(),
        first_sent_at=START,
        last_sent_at=START + timedelta(days=2, minutes=3),
        launches=8,
        reconciled_launches=8,
        people=people,
        score=build_nps().score,
        goal=Fraction(40),
        series=build_series(),
        questions=pool(build_nps(), build_csat(), build_choice(), build_visits(), build_reason()),
        **FIELDS,
    )


def find_nps() -> Fraction:
    """Return the score of the example with a series."""
    score = build_nps().score
    assert score is not None
    assert score.value is not None
    return score.value


def build_series() -> SeriesReport:
    days = (date(2025, 9, 10), date(2025, 11, 19), date(2026, 3, 4), date(2026, 6, 10), START.date())
    scores = (18.4, 21.0, 26.3, 24.9, float(find_nps()))
    waves = tuple(
        Wave(
            campaign=f"customer-pulse-{number}" if day != START.date() else "customer-pulse-2026q3",
            title=f"{day:%B %Y}",
            first_sent_at=datetime(day.year, day.month, day.day, 14, tzinfo=UTC),
            texted=1400,
            answered=560,
            response_rate=Fraction(2, 5),
            response_rate_interval=(0.37, 0.43),
            score=Fraction(score).limit_denominator(10),
            score_interval=(score - 5.9, score + 6.1),
            scored=560,
        )
        for number, (day, score) in enumerate(zip(days, scores, strict=True))
    )
    changes = (
        Change(
            "response", "customer-pulse-3", Fraction(247, 10000), (-0.012, 0.061), 0.19, "no_difference_shown"
        ),
        Change("score", "customer-pulse-3", Fraction(83, 10), (0.7, 15.9), 0.031, "differs"),
    )
    tests = (
        WaveTest("score", 5, Fraction(98, 10), 4, 0.0441, "differs"),
        WaveTest("response", 5, Fraction(41, 10), 4, 0.391, "no_difference_shown"),
    )
    return SeriesReport("pulse", waves, changes, tests)


def build_group(name: str, texted: int, answered: int, nps: float, csat: float) -> GroupReport:
    """Return a group whose scores are as sure as its answers make them."""
    reach, part = 98 * 1.7 / max(answered, 1) ** 0.5, round(csat * answered)
    return GroupReport(
        name=name,
        texted=texted,
        answered=answered,
        response_rate=divide(answered, texted),
        response_rate_interval=wilson_interval(answered, texted) if texted else None,
        completed=round(answered * 0.8),
        scores=(
            Score(
                "nps",
                "nps",
                Fraction(round(nps * 10), 10),
                (max(nps - reach, -100), min(nps + reach, 100)) if answered >= 10 else None,
                answered,
            ),
            Score(
                "csat",
                "csat",
                divide(part, answered),
                wilson_interval(part, answered) if answered else None,
                answered,
                satisfied=part,
            ),
        ),
    )


REGIONS = (
    "Aberystwyth", "Bath", "Belfast", "Birmingham", "Bradford", "Brighton", "Bristol", "Cambridge", "Canterbury",
    "Cardiff", "Carlisle", "Chester", "Coventry", "Derby", "Dundee", "Durham", "Edinburgh", "Exeter", "Glasgow",
    "Gloucester", "Hull", "Inverness", "Kingston upon Thames", "Lancaster", "Leeds", "Leicester", "Lincoln",
    "Liverpool", "London", "Manchester", "Newcastle upon Tyne", "Norwich", "Nottingham", "Oxford", "Perth",
    "Plymouth", "Sheffield", "Swansea", "York", "(empty)",
)  # fmt: skip


def build_regions() -> ColumnReport:
    """Return 40 groups, by their score."""
    groups = [
        build_group(
            name, 22 + 137 * number % 61, 8 + 53 * number % 19, 58 - 2.3 * number, 0.93 - 0.01 * number
        )
        for number, name in enumerate(REGIONS)
    ]
    return ColumnReport("city", tuple(groups), build_group("", 2190, 845, 19.4, 0.752), 3, 14)


def build_languages() -> ColumnReport:
    groups = (
        build_group("Deutsch", 401, 181, 31.2, 0.81),
        build_group("English", 1409, 531, 19.8, 0.76),
        build_group("Français", 380, 133, 3.1, 0.64),
    )
    return ColumnReport("language", groups, build_group("", 2190, 845, 19.4, 0.752), 0, 0)


def build_compared() -> ExperimentReport:
    """Return three arms, of which one has more answers, and nothing else is shown."""
    arms = (
        build_group("short", 731, 251, 17.1, 0.74),
        build_group("friendly", 733, 332, 21.9, 0.77),
        build_group("formal", 726, 262, 18.6, 0.75),
    )
    return ExperimentReport(
        message="ask",
        arms=arms,
        comparisons=(
            PairComparison(
                "response", "friendly", "short", Fraction(1096, 10000), (0.049, 0.169), 0.00006, "differs"
            ),
            PairComparison(
                "response",
                "formal",
                "short",
                Fraction(175, 10000),
                (-0.043, 0.078),
                1.0,
                "no_difference_shown",
            ),
            PairComparison(
                "response", "formal", "friendly", Fraction(-921, 10000), (-0.152, -0.031), 0.0009, "differs"
            ),
            PairComparison(
                "score", "friendly", "short", Fraction(48, 10), (-9.8, 19.4), 0.91, "no_difference_shown"
            ),
            PairComparison(
                "score", "formal", "short", Fraction(15, 10), (-14.1, 17.1), 1.0, "no_difference_shown"
            ),
            PairComparison(
                "score", "formal", "friendly", Fraction(-33, 10), (-18.2, 11.6), 1.0, "no_difference_shown"
            ),
        ),
        analysis=AnalysisReport(
            "fixed",
            date(2026, 11, 29),
            None,
            is_due=True,
            answered_later=31,
        ),
        split=SplitReport(
            tuple(
                ArmShare(arm.name, arm.texted or 0, divide(arm.texted, 2190), Fraction(1, 3)) for arm in arms
            ),
            0.98,
            is_as_planned=True,
        ),
    )


def build_everything() -> CampaignReport:
    """Return a control group, three arms, a reminder, three languages, 40 cities, and open surveys."""
    counts = (31, 9, 12, 14, 17, 44, 50, 101, 154, 137, 276)
    survey = build_reminded()
    people = build_people(
        2190,
        845,
        702,
        recipients=2212,
        sent=2212,
        queued=9,
        blocked=13,
        control_group=243,
        opted_out=94,
        open=62,
        is_interim=True,
        dispositions=Dispositions(702, 143, 28, 1198, 0, 119, 0),
        rates=replace(RATES, e=Fraction(989, 1000), rr5=None, rr6=None),
    )
    return replace(
        survey,
        campaign="customer-pulse-2026q4",
        people=people,
        score=build_nps(counts).score,
        goal=None,
        series=None,
        questions=pool(build_nps(counts), build_csat(), build_choice(), build_reason()),
        groups=(build_languages(), build_regions()),
        experiment=build_compared(),
        messages=(
            replace(
                survey.messages[0],
                discrepancies=("Results that the service counts: 1,601; in the ledger: 1,597.",),
            ),
            survey.messages[1],
        ),
    )


def build_few() -> CampaignReport:
    """Return 12 answers of 31 people, of whom 7 gave a score."""
    counts = (0, 0, 0, 1, 0, 0, 1, 0, 2, 1, 2)
    return replace(
        build_reminded(),
        campaign="pilot",
        title="Pilot of the customer survey",
        description=None,
        people=build_people(31, 12, 6, opted_out=1),
        messages=(
            replace(
                build_survey(),
                sent=31,
                recipients=31,
                participants_answered=12,
                discrepancies=(),
                days=(),
                audience=None,
            ),
        ),
        last_sent_at=START,
        score=build_nps(counts).score,
        goal=None,
        series=None,
        questions=pool(
            build_nps(counts), build_choice({"In a shop": 7, "On the website": 4, "In the app": 0})
        ),
        runs=(),
    )


def build_many() -> CampaignReport:
    """Return 60 messages, each with two questions of its own."""
    messages: list[MessageReport] = []
    questions: list[PooledQuestion] = []
    for week in range(1, 61):
        shifted = {
            label: count + (37 * week * place) % 41
            for place, (label, count) in enumerate(SATISFACTION.items())
        }
        csat = replace(
            build_csat(shifted, f"csat-{week:02}"), text=f"How satisfied were you with lesson {week}?"
        )
        choice = replace(
            build_choice({"Too slow": 17 + week, "Right": 171 - week, "Too fast": 21}),
            tag=f"pace-{week:02}",
            text=f"How was the pace of lesson {week}?",
        )
        sent_at = START + timedelta(weeks=week)
        messages.append(
            replace(
                build_survey(), id=f"lesson-{week:02}", first_sent_at=sent_at, last_sent_at=sent_at, sent=612 - week,
                participants_answered=244 - week, questions=(csat, choice), discrepancies=(), audience=None, days=(),
            )
        )  # fmt: skip
        questions += pool(csat, choice, message=f"lesson-{week:02}")
    return replace(
        build_reminded(),
        campaign="course-2026",
        title="Course for new customers",
        description="A text after each of 60 lessons, with two questions.",
        messages=tuple(messages),
        last_sent_at=START + timedelta(weeks=60),
        people=build_people(612, 431, 204, opted_out=31),
        score=None,
        goal=None,
        series=None,
        questions=tuple(questions),
    )


def build_unsent() -> CampaignReport:
    """Return a campaign that is to be sent in January."""
    empty = build_text("ask", 0, START)
    return CampaignReport(
        campaign="anniversary-survey",
        target="live",
        reconciled_at=None,
        messages=(replace(empty, first_sent_at=None, last_sent_at=None, launches=0, reconciled_launches=0),),
        discrepancies=(),
        next_send_at=datetime(2027, 1, 11, 15, 0, tzinfo=UTC),
        questions=pool(replace(build_nps([0] * 11), answers=0)),
        people=build_people(0, 0, 0),
        **{
            **FIELDS,
            "title": "A year with us",
            "description": "Everybody is asked on the day that they joined.",
        },
    )


EXAMPLES: Mapping[str, Callable[[], CampaignReport]] = {
    "everything": build_everything,
    "reminded": build_reminded,
    "many": build_many,
    "few": build_few,
    "unsent": build_unsent,
}
