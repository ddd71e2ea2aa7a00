"""Comparisons as blocks: waves of a series, groups of people, and the texts of an experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from runner.report.documents.wording import (
    INTERVAL,
    MEASURES,
    NOT_DEFINED,
    Measure,
    name_score,
    write_certainty,
    write_day,
    write_percent,
    write_response_range,
    write_score,
)
from runner.report.question_model import FEW_ANSWERS
from runner.view.blocks import Chart, Column, Estimate, Items, Link, Section, Sentence, TableBlock
from runner.view.charts import TimePoint, fit_axis, plot_points
from runner.wording import count_people, count_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.report.comparison_model import (
        AnalysisReport,
        Change,
        Compared,
        ExperimentReport,
        SeriesReport,
        SplitReport,
        Verdict,
    )
    from runner.report.model import CampaignReport
    from runner.report.people_model import ColumnReport, GroupReport
    from runner.report.question_model import Score
    from runner.view.blocks import Block, Cell


_SURE_P = 0.001
_MOST_SCORES = 2
"""Scores that a table of groups has room for beside the response."""
_LINES = f"Horizontal lines: {INTERVAL}s."


def show_series(report: CampaignReport) -> Iterator[Block]:
    """Yield the campaign's score over the waves of its series, and whether anything differs."""
    series, score = report.series, report.score
    if series is None or score is None or len(series.waves) < 2:  # noqa: PLR2004  # one is no series
        return
    measure, zone = MEASURES[score.measure], ZoneInfo(report.time_zone)
    points = [
        TimePoint(
            day := wave.first_sent_at.astimezone(zone).date(),
            f"{day:%b %Y}",
            float(wave.score),
            # The tile has this campaign's own.
            "this survey" if wave.campaign == report.campaign else measure.write(wave.score, wave.scored),
            wave.score_interval,
        )
        for wave in series.waves
        if wave.score is not None
    ]
    if not points:
        return
    goal = [] if report.goal is None else [(float(report.goal), f"target {measure.write(report.goal, 1)}")]
    svg = plot_points(points, f"Line: {measure.name} over time", lambda value: measure.write(value, 1), goal)
    rows = [(write_day(point.day), point.text) for point in points]
    caption = f"{measure.label} of each survey of the series, with its {INTERVAL}"
    yield Chart(svg, TableBlock(("Sent", measure.label), rows, caption))
    yield Items([*_list_changes(series, score.measure)])


def _list_changes(series: SeriesReport, score_measure: str) -> Iterator[str]:
    """Yield a sentence on each change since the last survey, and one on all surveys."""
    for one in series.changes:
        measure, since = _find_measure(one.measure, score_measure), f"since {_name_wave(series, one)}"
        certainty = ""
        if one.interval is not None:
            ends = measure.write_difference_range(one.interval, _count_fewest(series, one))
            certainty = f" ({INTERVAL} of the change {ends})"
        if one.verdict == "differs":
            yield f"The {measure.name} is {'up' if one.difference > 0 else 'down'} {since}{certainty}."
        else:
            yield _write_unchanged(measure, one.verdict, f"{since}{certainty}")
    for test in series.tests:
        measure = _find_measure(test.measure, score_measure)
        over = f"over {'all ' if test.waves == len(series.waves) else ''}{test.waves} surveys"
        if test.verdict == "differs":
            yield f"The {measure.name} has changed {over}."
        else:
            yield _write_unchanged(measure, test.verdict, over)


def _write_unchanged(measure: Measure, verdict: Verdict, period: str) -> str:
    if verdict == "too_few":
        return f"There are too few people to tell whether the {measure.name} has changed {period}."
    return f"The {measure.name} has not clearly changed {period}."


def _find_measure(compared: Compared, score_measure: str) -> Measure:
    return MEASURES["response" if compared == "response" else score_measure]


def _name_wave(series: SeriesReport, change: Change) -> str:
    titles = {wave.campaign: wave.title for wave in series.waves}
    return titles.get(change.against, change.against)


def write_change(series: SeriesReport, score_measure: str) -> str:
    """Return how the score differs from that of the last wave: `▲ +5.1 since June 2026`.

    It is empty if that is not known, and where no difference is shown: chance alone moves a score, too.
    """
    change = next((one for one in series.changes if one.measure == "score"), None)
    if change is None or change.verdict != "differs":
        return ""
    arrow = "▲" if change.difference > 0 else "▼"
    fewest = _count_fewest(series, change)
    difference = MEASURES[score_measure].write_difference(change.difference, fewest)
    return f"{arrow} {difference} since {_name_wave(series, change)}"


def _count_fewest(series: SeriesReport, change: Change) -> int | None:
    """Return the people, or answers, of the smaller one of the waves compared."""
    names = [wave.campaign for wave in series.waves]
    last = names.index(change.against) if change.against in names else 0
    counts = [
        wave.texted if change.measure == "response" else wave.scored for wave in series.waves[last : last + 2]
    ]
    return min((count for count in counts if count is not None), default=None)


def show_groups(column: ColumnReport) -> Section:
    """Return the groups of a column as dots on the axes of response and scores, beside everybody."""
    blocks: list[Block] = [_tabulate(column.column, column.groups, column.everybody)]
    if not column.groups and not column.suppressed:
        blocks.append(Sentence("Nobody has been texted yet."))
    if column.suppressed:
        people = column.suppressed_texted
        whom = "" if people is None else f" with {count_people(people)} in all"
        # A larger group may be left out as well, so that the total does not reveal the small ones.
        why = f"so that nobody in a group of fewer than {column.least} can be recognised"
        blocks.append(Sentence(f"Left out: {count_words(column.suppressed, 'group')}{whom}, {why}.", "quiet"))
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
    whole = None if everybody is None else _read(everybody.response_rate)
    drawn = [list(map(_estimate_response, groups))]
    columns = [Column(name, "text"), Column("People"), _make_column("Response", drawn[0], whole, "response")]
    for number in range(min(_MOST_SCORES, *(len(group.scores) for group in all_groups)) if all_groups else 0):
        first = all_groups[0].scores[number]
        whole = None if everybody is None else _estimate(everybody.scores[number]).value
        drawn.append([_estimate(group.scores[number]) for group in groups])
        columns.append(_make_column(name_score(first, first.tag), drawn[-1], whole, first.measure))
    rows: list[tuple[Cell, ...]] = [
        (group.name, group.texted, *cells) for group, *cells in zip(groups, *drawn, strict=True)
    ]
    return TableBlock(columns, rows, f"{_LINES}{'' if everybody is None else ' Vertical line: everybody.'}")


def show_scores(report: CampaignReport) -> Iterator[TableBlock]:
    """Yield the scores of many questions as dots, in their order, a table a measure.

    Each question leads to its message below.
    """
    places = {message.id: number for number, message in enumerate(report.messages, start=1)}
    asked = [(one.question, places[one.parts[0].message]) for one in report.questions]
    for name, measure in MEASURES.items():
        rows = [
            (Link(one.text, f"#message-{place}"), one.answers, _estimate(one.scores[0]))
            for one, place in asked
            if one.scores and one.scores[0].measure == name
        ]
        drawn = _make_column(measure.label, [estimate for _, _, estimate in rows], None, name)
        columns = Column("Question", "text"), "Answers", drawn
        yield TableBlock(columns, rows, _LINES)


def _make_column(name: str, estimates: Sequence[Estimate], everybody: float | None, measure: str) -> Column:
    ends = [end for one in estimates for end in (one.value, *(one.interval or ())) if end is not None]
    if not ends:
        return Column(name, "estimate")
    write = MEASURES[measure].write
    return Column(name, "estimate", fit_axis(ends, lambda value: write(value, 1), everybody))


def _estimate_response(group: GroupReport) -> Estimate:
    """Return a group's response rate with its interval."""
    rate, interval = group.response_rate, group.response_rate_interval
    note = "" if interval is None else write_response_range(interval, group.texted)
    return Estimate(_read(rate), interval, write_percent(rate, group.texted), note)


def _estimate(score: Score) -> Estimate:
    text, note = write_score(score), write_certainty(score)
    return Estimate(None if text == NOT_DEFINED else _read(score.value), score.interval, text, note)


def _read(value: object) -> float | None:
    return None if value is None else float(value)  # type: ignore[arg-type]  # a fraction


def show_experiment(experiment: ExperimentReport, score_measure: str) -> Section:
    """Return the texts of an experiment, what may be said of them, and how people were split.

    `score_measure` is that of the campaign's score.
    """
    blocks: list[Block] = [Sentence(one, "strong") for one in _list_verdicts(experiment, score_measure)]
    blocks.append(_tabulate("Text", experiment.arms, None))
    if experiment.analysis is not None:
        blocks.append(Sentence(write_analysis(experiment.analysis), "quiet"))
    details: list[Block] = [_tabulate_pairs(experiment, score_measure)]
    if experiment.split is not None:
        is_skewed = experiment.split.is_as_planned is False
        (blocks if is_skewed else details).append(
            Sentence(write_split(experiment.split), "notice" if is_skewed else "quiet")
        )
    if experiment.comparisons:
        blocks.append(Section("How sure this is", details, is_folded=True))
    return Section("Which text did better" if experiment.comparisons else "The texts", blocks)


def _list_verdicts(experiment: ExperimentReport, score_measure: str) -> Iterator[str]:
    """Yield what differs; else one sentence on why nothing is said to."""
    verdicts = {one.verdict for one in experiment.comparisons}
    for one in experiment.comparisons:
        if one.verdict == "differs" and one.difference:
            better, worse = (one.arm, one.against) if one.difference > 0 else (one.against, one.arm)
            yield (
                f"More people answered “{better}” than “{worse}”."
                if one.measure == "response"
                else f"“{better}” has a higher {MEASURES[score_measure].name} than “{worse}”."
            )
    if verdicts and "differs" not in verdicts:
        yield next(words for verdict, words in _UNDECIDED.items() if verdict in verdicts)


_UNDECIDED = {
    "too_early": "It is too early to tell which text does better.",
    "no_difference_shown": "No text clearly does better than another.",
    "too_few": "There are too few people to tell which text does better.",
}
_VERDICTS = {
    "too_few": "too few people to tell",
    "no_difference_shown": "no difference shown",
    "differs": "a difference",
}


def _tabulate_pairs(experiment: ExperimentReport, score_measure: str) -> TableBlock:
    """Return every pair of texts that is compared."""
    rows = []
    for one in experiment.comparisons:
        if one.verdict == "too_early":
            continue
        measure = _find_measure(one.measure, score_measure)
        arms = [arm for arm in experiment.arms if arm.name in (one.arm, one.against)]
        fewest = min((_count_basis(arm, one.measure, score_measure) for arm in arms), default=None)
        difference = ends = p = NOT_DEFINED
        if one.interval is not None:
            ends = measure.write_difference_range(one.interval, fewest)
        # What rests on a few answers says nothing, and may say what one person answered.
        if one.difference is not None and (one.interval is not None or one.verdict != "too_few"):
            difference = measure.write_difference(one.difference, fewest)
            p = write_p_value(one.p_value)
        pair = f"{one.arm} against {one.against}"
        rows.append((pair, measure.label, difference, ends, p, _VERDICTS[one.verdict]))
    columns = ("Text", Column("What", "text"), "Difference", INTERVAL, "p", Column("Verdict", "text"))
    return TableBlock(columns, rows, "Each text compared with those before it")


def _count_basis(arm: GroupReport, compared: Compared, measure: str) -> int:
    """Return the people, or the answers to a question of this measure, that an arm is compared by."""
    if compared == "response":
        return arm.texted or 0
    return next((score.counted for score in arm.scores if score.measure == measure), 0)


def write_analysis(analysis: AnalysisReport) -> str:
    """Return a sentence on the time of the verdicts, and on the people counted."""
    if analysis.method == "sequential":
        return "Tested at every report: of 100 experiments without a difference, at most 5 ever show one."
    if analysis.due is None:
        return f"The texts are compared 7 days after {count_people(analysis.per_arm or 0)} got each of them."
    if not analysis.is_due:
        return f"The first report with all answers of {write_day(analysis.due)} compares the texts."
    counted = f"Texts and answers before {write_day(analysis.due)} count here."
    if not analysis.answered_later:
        return counted
    return f"{counted} {count_people(analysis.answered_later)} answered later."


def write_split(split: SplitReport) -> str:
    """Return a sentence on the share of people that each text got."""
    shares = ", ".join(
        f"{one.arm} {write_percent(one.share, one.people)} (planned {write_percent(one.planned, 1)})"
        for one in split.arms
    )
    if split.is_as_planned is False:
        return (
            f"Not split as planned: {shares}. Something other than chance decided who got which text, so the "
            "differences mean little."
        )
    return f"Share of the people who got each text: {shares}."


def write_p_value(p_value: float | None) -> str:
    """Return a p-value to three decimals: `0.016`, `below 0.001`."""
    if p_value is None:
        return NOT_DEFINED
    return f"below {_SURE_P}" if p_value < _SURE_P else f"{p_value:.3f}"
