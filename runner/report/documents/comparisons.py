"""Comparisons as blocks: waves of a series, groups of people, and the texts of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from runner.report.documents.wording import (
    FEW_ANSWERS,
    INTERVAL,
    NOT_DEFINED,
    SCORE_FORMATS,
    name_score,
    write_certainty,
    write_day,
    write_people,
    write_percent,
    write_percent_range,
    write_points,
    write_score,
)
from runner.view.blocks import Chart, Column, Estimate, Items, Link, Section, Sentence, TableBlock
from runner.view.charts import TimePoint, fit_axis, plot_points
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from fractions import Fraction

    from runner.report.comparison_model import (
        AnalysisReport,
        Change,
        Compared,
        ExperimentReport,
        PairComparison,
        SeriesReport,
        SplitReport,
    )
    from runner.report.model import CampaignReport
    from runner.report.people_model import ColumnReport, GroupReport
    from runner.report.question_model import Score
    from runner.view.blocks import Block, Cell


_SURE_P = 0.001
_MOST_SCORES = 2
"""Scores that a table of groups has room for beside the response."""


def show_series(report: CampaignReport) -> Iterator[Block]:
    """Yield the campaign's score over the waves of its series, and whether anything differs."""
    series, score = report.series, report.score
    if series is None or score is None or len(series.waves) < 2:  # noqa: PLR2004  # one is no series
        return
    form, zone = SCORE_FORMATS[score.measure], ZoneInfo(report.time_zone)
    points = [
        TimePoint(
            day := wave.first_sent_at.astimezone(zone).date(),
            f"{day:%b %Y}",
            float(wave.score),
            # The tile has this campaign's own.
            "this survey" if wave.campaign == report.campaign else form.write(wave.score, wave.scored),
            wave.score_interval,
        )
        for wave in series.waves
        if wave.score is not None
    ]
    if not points:
        return
    goal = [] if report.goal is None else [(float(report.goal), f"target {form.write(report.goal, 1)}")]
    svg = plot_points(points, f"Line: {form.name} over time", lambda value: form.write(value, 1), goal)
    rows = [(write_day(point.day), point.text) for point in points]
    caption = f"{form.label} of each survey of the series, with its {INTERVAL}"
    yield Chart(svg, TableBlock(("Sent", form.label), rows, caption))
    yield Items([*_list_changes(series, score.measure)])


def _list_changes(series: SeriesReport, measure: str) -> Iterator[str]:
    for one in series.changes:
        what, since = _name_compared(one.measure, measure), _name_wave(series, one)
        between = f"{INTERVAL} of the change {_write_ends(one, measure, _count_fewest(series, one))}"
        if one.interval is None:
            between = f"p {write_p_value(one.p_value)}"
        if one.verdict == "differs":
            yield f"{what} is {'up' if one.difference > 0 else 'down'} since {since}: {between}."
        elif one.verdict == "no_difference_shown":
            yield f"{what} shows no change since {since}: {between}."
        else:
            yield f"{what}: too few people to tell a change since {since}."
    for test in series.tests:
        what, p = _name_compared(test.measure, measure), write_p_value(test.p_value)
        over = f"over {'all ' if test.waves == len(series.waves) else ''}{test.waves} surveys"
        if test.verdict == "too_few":
            yield f"{what}: too few people to tell a difference {over}."
        else:
            found = "differs" if test.verdict == "differs" else "shows no difference"
            yield f"{what} {found} {over} (p {p})."


def _name_compared(compared: Compared, measure: str) -> str:
    return "The response" if compared == "response" else f"The {SCORE_FORMATS[measure].name}"


def _name_wave(series: SeriesReport, change: Change) -> str:
    titles = {wave.campaign: wave.title for wave in series.waves}
    return titles.get(change.against, change.against)


def write_change(series: SeriesReport, measure: str) -> str:
    """Return how the score differs from that of the last wave: `▲ +5.1 since June 2026`.

    It is empty if that is not known, and where no difference is shown: chance alone moves a score, too.
    """
    change = next((one for one in series.changes if one.measure == "score"), None)
    if change is None or change.verdict != "differs":
        return ""
    arrow = "▲" if change.difference > 0 else "▼"
    fewest = _count_fewest(series, change)
    difference = SCORE_FORMATS[measure].write_difference(change.difference, fewest)
    return f"{arrow} {difference} since {_name_wave(series, change)}"


def _count_fewest(series: SeriesReport, change: Change) -> int | None:
    """Return the people, or answers, of the smaller one of the waves compared."""
    names = [wave.campaign for wave in series.waves]
    last = names.index(change.against) if change.against in names else 0
    counts = [
        wave.texted if change.measure == "response" else wave.scored for wave in series.waves[last : last + 2]
    ]
    return min((count for count in counts if count is not None), default=None)


def _choose_writer(compared: Compared, measure: str) -> Callable[[Fraction | float, int | None], str]:
    return write_points if compared == "response" else SCORE_FORMATS[measure].write_difference


def _write_ends(compared: Change | PairComparison, measure: str, fewest: int | None) -> str:
    if compared.interval is None:
        return NOT_DEFINED
    write = _choose_writer(compared.measure, measure)
    return " to ".join(write(end, fewest).removesuffix(" points") for end in compared.interval)


def show_groups(column: ColumnReport) -> Section:
    """Return the groups of a column as dots on the axes of response and scores, beside everybody."""
    blocks: list[Block] = [_tabulate(column.column, column.groups, column.everybody)]
    if not column.groups and not column.suppressed:
        blocks.append(Sentence("Nobody was texted yet."))
    if column.suppressed:
        people = column.suppressed_texted
        left = count_words(column.suppressed, "group") + (
            "" if people is None else f", {write_people(people)} together"
        )
        # A larger group may be left out as well, so that the total does not reveal the small ones.
        words = f"Left out: {left}, so that no group of fewer than {column.least} people can be made out."
        blocks.append(Sentence(words, "quiet"))
    blocks += [Sentence(one, "quiet") for one in _explain_dashes(column.groups)]
    return Section(f"By {column.column}", blocks)


def _explain_dashes(groups: Sequence[GroupReport]) -> Iterator[str]:
    """Yield why groups that are shown have no score."""
    missing = [
        one.counted
        for group in groups
        for one in group.scores[:_MOST_SCORES]
        if one.counted and write_score(one) == NOT_DEFINED
    ]
    if any(count < FEW_ANSWERS for count in missing):
        yield f"Scores of fewer than {FEW_ANSWERS} answers are left out ({NOT_DEFINED})."
    if any(count >= FEW_ANSWERS for count in missing):
        yield (
            f"The score of a larger group is left out as well ({NOT_DEFINED}), so that nobody can work out "
            "that of a small one."
        )


def _tabulate(name: str, groups: Sequence[GroupReport], everybody: GroupReport | None) -> TableBlock:
    """Return a row for each group, with a line for everybody."""
    all_groups = [*groups, *([] if everybody is None else [everybody])]
    kept = range(min(_MOST_SCORES, min((len(group.scores) for group in all_groups), default=0)))
    rates = [_estimate_response(group) for group in groups]
    whole = None if everybody is None else _read(everybody.response_rate)
    columns = [Column(name, "text"), Column("People"), _make_column("Response", rates, whole, "csat")]
    drawn = [rates]
    for number in kept:
        scores = [group.scores[number] for group in groups]
        estimates = [_estimate(score) for score in scores]
        line = None if everybody is None else _estimate(everybody.scores[number]).value
        first = all_groups[0].scores[number]
        columns.append(_make_column(name_score(first, first.tag), estimates, line, first.measure))
        drawn.append(estimates)
    rows: list[tuple[Cell, ...]] = [
        (group.name, group.texted, *cells) for group, *cells in zip(groups, *drawn, strict=True)
    ]
    upright = "" if everybody is None else "; the upright line is everybody"
    return TableBlock(columns, rows, f"Lying lines are {INTERVAL}s{upright}.")


def show_scores(report: CampaignReport) -> Iterator[TableBlock]:
    """Yield the scores of many questions as dots, in their order, a table a measure.

    Each question leads to its message below.
    """
    places = {message.id: number for number, message in enumerate(report.messages, start=1)}
    asked = [(one.question, places[one.parts[0].message]) for one in report.questions]
    for measure, form in SCORE_FORMATS.items():
        scored = [(one, place, one.scores[0]) for one, place in asked if one.scores]
        same = [(one, place, score) for one, place, score in scored if score.measure == measure]
        estimates = [_estimate(score) for _, _, score in same]
        columns = Column("Question", "text"), "Answers", _make_column(form.label, estimates, None, measure)
        rows: list[tuple[Cell, ...]] = [
            (Link(one.text, f"#message-{place}"), one.answers, estimate)
            for (one, place, _), estimate in zip(same, estimates, strict=True)
        ]
        yield TableBlock(columns, rows, f"Lying lines are {INTERVAL}s.")


def _make_column(name: str, estimates: Sequence[Estimate], everybody: float | None, measure: str) -> Column:
    ends = [end for one in estimates for end in (one.value, *(one.interval or ())) if end is not None]
    if not ends:
        return Column(name, "estimate")
    write = SCORE_FORMATS[measure].write
    return Column(name, "estimate", fit_axis(ends, lambda value: write(value, 1), everybody))


def _estimate_response(group: GroupReport) -> Estimate:
    """Return a group's response rate with its interval."""
    interval = group.response_rate_interval
    note = "" if interval is None else write_percent_range(interval, group.texted)
    rate = write_percent(group.response_rate, group.texted)
    return Estimate(_read(group.response_rate), interval, rate, note)


def _estimate(score: Score) -> Estimate:
    text, note = write_score(score), write_certainty(score)
    return Estimate(None if text == NOT_DEFINED else _read(score.value), score.interval, text, note)


def _read(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]  # a fraction


def show_experiment(experiment: ExperimentReport, measure: str) -> Section:
    """Return the texts of an experiment, what may be said of them, and how people were split.

    `measure` is that of the campaign's score.
    """
    blocks: list[Block] = [Sentence(one, "strong") for one in _list_verdicts(experiment, measure)]
    blocks.append(_tabulate("Text", experiment.arms, None))
    blocks.append(_tabulate_pairs(experiment, measure))
    if experiment.analysis is not None:
        blocks.append(Sentence(write_analysis(experiment.analysis), "quiet"))
    if experiment.split is not None:
        is_skewed = experiment.split.is_as_planned is False
        blocks.append(Sentence(write_split(experiment.split), "notice" if is_skewed else "quiet"))
    return Section("Which text did better" if experiment.comparisons else "The texts", blocks)


def _list_verdicts(experiment: ExperimentReport, measure: str) -> Iterator[str]:
    """Yield what differs; else one sentence on why nothing is said to."""
    verdicts = {one.verdict for one in experiment.comparisons}
    for one in experiment.comparisons:
        if one.verdict == "differs" and one.difference:
            better, worse = (one.arm, one.against) if one.difference > 0 else (one.against, one.arm)
            yield (
                f"More people answered {better} than {worse}."
                if one.measure == "response"
                else f"{better} has a higher {SCORE_FORMATS[measure].name} than {worse}."
            )
    if verdicts and "differs" not in verdicts:
        found = next(one for one in ("too_early", "no_difference_shown", "too_few") if one in verdicts)
        yield f"{_VERDICTS[found].capitalize()} between the texts."


def _tabulate_pairs(experiment: ExperimentReport, measure: str) -> TableBlock:
    """Return every pair of texts that is compared."""
    rows = []
    for one in experiment.comparisons:
        if one.verdict == "too_early":
            continue
        pair = f"{one.arm} against {one.against}"
        what = "Response" if one.measure == "response" else SCORE_FORMATS[measure].label
        arms = [arm for arm in experiment.arms if arm.name in (one.arm, one.against)]
        fewest = min((_count_basis(arm, one.measure, measure) for arm in arms), default=None)
        difference, ends, p = NOT_DEFINED, _write_ends(one, measure, fewest), NOT_DEFINED
        # What rests on a few answers says nothing, and may say what one person answered.
        if one.difference is not None and (one.interval is not None or one.verdict != "too_few"):
            difference = _choose_writer(one.measure, measure)(one.difference, fewest)
            p = write_p_value(one.p_value)
        rows.append((pair, what, difference, ends, p, _VERDICTS[one.verdict]))
    columns = ("Text", Column("What", "text"), "Difference", INTERVAL, "p", Column("Verdict", "text"))
    return TableBlock(columns, rows, "Each text compared with those before it")


def _count_basis(arm: GroupReport, compared: Compared, measure: str) -> int:
    """Return the people, or the answers to a question of this measure, that an arm is compared by."""
    if compared == "response":
        return arm.texted or 0
    return next((score.counted for score in arm.scores if score.measure == measure), 0)


_VERDICTS = {
    "too_early": "too early to tell",
    "too_few": "too few people to tell",
    "no_difference_shown": "no difference shown",
    "differs": "a difference",
}


def write_analysis(analysis: AnalysisReport) -> str:
    """Return a sentence on the time of the verdicts, and on the people counted."""
    if analysis.method == "sequential":
        return "Tested anew at every look: of 100 experiments without a difference, at most 5 ever show one."
    if analysis.due is None:
        return f"The verdict is taken 7 days after {write_people(analysis.per_arm or 0)} got each text."
    if not analysis.is_due:
        return f"The verdict is taken by the first report with all answers of {write_day(analysis.due)}."
    day = write_day(analysis.due)
    counted = f"The verdict and these figures are of the people texted, and of the answers, before {day}."
    if not analysis.answered_later:
        return counted
    return f"{counted} {write_people(analysis.answered_later)} answered later, which is not counted here."


def write_split(split: SplitReport) -> str:
    """Return a sentence on the share of people that each text got."""
    shares = ", ".join(
        f"{one.arm} {write_percent(one.share, one.people)} (planned {write_percent(one.planned, 1)})"
        for one in split.arms
    )
    if split.is_as_planned is False:
        return (
            f"Not split as planned: {shares}. Something other than the lot chose, so differences mean little."
        )
    return f"Share of the people who got each text: {shares}."


def write_p_value(p_value: float | None) -> str:
    """Return a p-value to three decimals: `0.016`, `below 0.001`."""
    if p_value is None:
        return NOT_DEFINED
    return f"below {_SURE_P}" if p_value < _SURE_P else f"{p_value:.3f}"
