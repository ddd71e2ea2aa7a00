"""Charts as SVG, drawn by pygal, which no other module uses.

Only shapes and texts are kept of a drawing, without scripts, styles, random ids, dates, tooltips or hidden
texts. Coordinates have one decimal, enough for a screen and equal on every machine. The page's style sheet
gives colours and fonts by class, so that dark mode and paper work. A chart is an image with a name for screen
readers; its figures are in a table beside it.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pygal
from pygal.etree import etree
from pygal.style import Style

from runner.report.documents.wording import write_count, write_line, write_percent
from runner.report.model import Day

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runner.report.model import Interval, MessageReport, NetPromoterScore, QuestionReport, Turnout


_KEPT_TAGS = frozenset({"circle", "g", "path", "rect", "text"})
_DROPPED_PARTS = frozenset({"background", "tooltip-overlay"})
_DROPPED_CLASSES = frozenset({"reactive", "tooltip-trigger", "nofill", "always_show"})
_KEPT_ATTRIBUTES = frozenset(
    ("class", "cx", "cy", "d", "height", "r", "text-anchor", "transform", "viewBox", "width", "x", "y")
)
_LONG_NUMBER = re.compile(r"-?\d+\.\d+")


def keep_shapes(node: ET.Element, kinds: Sequence[str]) -> None:
    """Remove everything but shapes and texts from a drawing's tree.

    `kinds` are the classes that give the series their colours, by number.
    """
    for child in list(node):
        if _is_dropped(child):
            node.remove(child)
            continue
        keep_shapes(child, kinds)
        child.attrib = {
            key: _LONG_NUMBER.sub(_round, value)
            for key, value in child.attrib.items()
            if key in _KEPT_ATTRIBUTES and value
        }
        classes = [name for name in child.get("class", "").split() if name not in _DROPPED_CLASSES]
        if "series" in classes:
            classes = ["series", kinds[_find_series(classes)]]
        elif "value" in classes:
            # Pygal sets the middle of a text on the end of its bar.
            child.set("text-anchor", "start")
        if classes:
            child.set("class", " ".join(classes))
        if child.tag == "g" and not len(child):
            node.remove(child)


def frame_bars(root: ET.Element, offset: float) -> None:
    """Crop a drawing to its bars, whose coordinates begin at `offset`, to the right and down."""
    bars = [[float(bar.get(name, 0)) for name in ("x", "y", "width", "height")] for bar in root.iter("rect")]
    left, top = min(bar[0] for bar in bars), min(bar[1] for bar in bars)
    right = max(bar[0] + bar[2] for bar in bars)
    root.set("viewBox", f"{left + offset:g} {top + offset:g} {right - left:g} {bars[0][3]:g}")


def write_svg(root: ET.Element, name: str) -> str:
    """Return a drawing as SVG on one line, with a name for screen readers."""
    root.attrib = {"class": "chart", "viewBox": root.get("viewBox", ""), "role": "img", "aria-label": name}
    return ET.tostring(root, encoding="unicode")


def _is_dropped(node: ET.Element) -> bool:
    return node.tag not in _KEPT_TAGS or not _DROPPED_PARTS.isdisjoint(node.get("class", "").split())


def _find_series(classes: Sequence[str]) -> int:
    return next(int(name.removeprefix("serie-")) for name in classes if name.startswith("serie-"))


def _round(found: re.Match[str]) -> str:
    # Adding zero turns minus zero into zero.
    return f"{round(float(found[0]), 1) + 0.0:g}"


# With lxml installed pygal would use it, and write the same tree differently.
etree.to_etree()


# This finder of map plugins has the protocol of Python 3.11 and before: left in place, every import
# that fails after pygal's would warn.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != pygal.__name__]

WIDTH = 480
"""Width of a chart in its own units, which are CSS pixels where there is room."""

LONGEST_LABEL = 18
"""Characters of a label in a chart; the table beside it has the whole label."""

# The page uses 13 where there is room, and this on a phone and on paper: labels fit the larger one.
_FONT_SIZE = 15
_MARGIN = 4
_BAR_HEIGHT = 30
_COLUMN_CHART_HEIGHT = 190
_TREND_CHART_HEIGHT = 210
# For labels side by side, in units of the chart; pygal guesses a character's width as 0.6 of its height.
_ROOM_FOR_LABELS = 430
_CHARACTER_WIDTH = 9
_LABEL_GAP = 12
# The longest text after a bar, as a share of the longest bar.
_ROOM_FOR_TEXTS = 1.5


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A value in the chart's unit, the text beside it, and an interval drawn as whiskers."""

    label: str
    value: float | None
    text: str = ""
    interval: Interval | None = None


def draw_bars(marks: Sequence[ChartMark], name: str) -> str:
    """Return lying bars from 0, the first on top, each with its text after its end."""
    highest = max((mark.value or 0 for mark in marks), default=0) or 1
    chart = _configure(
        pygal.HorizontalBar,
        height=_BAR_HEIGHT * len(marks) + 8,
        range=(0, highest * _ROOM_FOR_TEXTS),
        show_x_labels=False,
        print_values=True,
        print_values_position="top",
    )
    chart.x_labels = [_shorten(mark.label) for mark in reversed(marks)]
    chart.add("part", [{"value": mark.value, "formatter": _say(mark.text)} for mark in reversed(marks)])
    return _write(chart, ("part",), name)


def draw_estimates(marks: Sequence[ChartMark], name: str, write_value: Callable[[float], str]) -> str:
    """Return lying bars from 0, the first on top, with the intervals of their values, on a common axis."""
    ends = [end for mark in marks for end in (mark.value or 0, *(mark.interval or ()))]
    chart = _configure(
        pygal.HorizontalBar,
        height=_BAR_HEIGHT * len(marks) + 40,
        range=(min(0.0, *ends), max(*ends, 0.01) * 1.02),
        value_formatter=write_value,
        show_x_guides=True,
        max_scale=5,
    )
    chart.x_labels = [_shorten(mark.label) for mark in reversed(marks)]
    chart.add("part", [_estimate(mark) for mark in reversed(marks)])
    return _write(chart, ("part",), name)


def draw_columns(labels: Sequence[str], parts: Mapping[str, Sequence[int]], name: str) -> str:
    """Return standing columns of counts, each stacked from its parts.

    `parts` are by the class that gives the colour, with a count for each column.
    """
    highest = max((sum(counts) for counts in zip(*parts.values(), strict=True)), default=0)
    chart = _configure(
        pygal.StackedBar,
        height=_COLUMN_CHART_HEIGHT,
        range=(0, max(highest, 1)),
        value_formatter=_write_whole,
        show_y_guides=True,
        order_min=0,
        max_scale=5,
    )
    chart.x_labels = _thin_out(labels)
    # Thinned out labels are empty, and leave their room to others; pygal measures room a label at a time.
    chart.truncate_label = -1
    for kind, counts in parts.items():
        chart.add(kind, list(counts))
    return _write(chart, tuple(parts), name)


def draw_parts(parts: Mapping[str, int], name: str) -> str:
    """Return one lying bar of the parts of a whole, in order, by the class that gives the colour."""
    chart = _configure(
        pygal.HorizontalStackedBar,
        height=36,
        range=(0, max(sum(parts.values()), 1)),
        show_x_labels=False,
        show_y_labels=False,
    )
    for kind, count in parts.items():
        chart.add(kind, [count])
    return _write(chart, tuple(parts), name, is_cropped=True)


def draw_trend(
    marks: Sequence[ChartMark],
    name: str,
    write_value: Callable[[float], str],
    limits: tuple[float, float],
) -> str:
    """Return a line through values in the order of time, with their intervals.

    `limits` are the lowest and highest possible value, where the axis ends at the latest.
    """
    ends = [end for mark in marks if mark.value is not None for end in (mark.value, *(mark.interval or ()))]
    lowest, highest = min(ends, default=limits[0]), max(ends, default=limits[1])
    room = (highest - lowest) / 10 or (limits[1] - limits[0]) / 10
    chart = _configure(
        pygal.Line,
        height=_TREND_CHART_HEIGHT,
        range=(max(limits[0], lowest - room), min(limits[1], highest + room)),
        value_formatter=write_value,
        show_y_guides=True,
        dots_size=4,
        max_scale=5,
        margin_right=36,
        truncate_label=-1,
    )
    chart.x_labels = _thin_out([_shorten(mark.label) for mark in marks])
    chart.add("part", [_estimate(mark) for mark in marks])
    return _write(chart, ("part",), name)


def _configure(kind: Callable[..., Any], **options: Any) -> Any:
    sizes = Style(label_font_size=_FONT_SIZE, major_label_font_size=_FONT_SIZE, value_font_size=_FONT_SIZE)
    common = {
        "width": WIDTH,
        "style": sizes,
        "margin": _MARGIN,
        "spacing": 6,
        "show_legend": False,
        "show_x_guides": False,
        "show_y_guides": False,
        "js": (),
    }
    return kind(**(common | options))


def _estimate(mark: ChartMark) -> dict[str, Any]:
    if mark.value is None or mark.interval is None:
        return {"value": mark.value}
    return {"value": mark.value, "ci": {"low": mark.interval[0], "high": mark.interval[1]}}


def _say(text: str) -> Callable[[Any], str]:
    return lambda _: text


def _write_whole(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else ""


def _shorten(label: str) -> str:
    line = write_line(label)
    return line if len(line) <= LONGEST_LABEL else line[: LONGEST_LABEL - 1].rstrip() + "…"


def _thin_out(labels: Sequence[str]) -> list[str]:
    """Return labels with as many emptied as needed to make room for the others."""
    longest = max(map(len, labels), default=0)
    most = _ROOM_FOR_LABELS // (longest * _CHARACTER_WIDTH + _LABEL_GAP)
    step = -(-len(labels) // max(most, 1)) or 1
    return [label if place % step == 0 else "" for place, label in enumerate(labels)]


def _write(chart: Any, kinds: Sequence[str], name: str, *, is_cropped: bool = False) -> str:
    """Return a chart as SVG for a page, cropped to its bars if asked for."""
    root = chart.render_tree()
    keep_shapes(root, kinds)
    if is_cropped:
        # Bars are within their plot, which pygal moves to the right and down by its margin.
        frame_bars(root, _MARGIN)
    return write_svg(root, write_line(name))


MOST_BARS = 24
"""Bars of a chart, at most: more would be longer than a page; the table has all of them."""

MOST_DAYS = 120
"""Days of a chart, at most; a chart of more has only days with events."""

_LOWEST_PASSIVE = 7
_LOWEST_PROMOTER = 9
_NPS_POINTS = 11


def draw_funnel(message: MessageReport) -> str:
    """Return a message's way from its audience to the end of the survey, as bars."""
    marks = []
    if message.audience is not None:
        marks.append(_mark("Audience", message.audience.recipients))
    marks.append(_mark("Sent", message.sent))
    if message.questions:
        answered, completed = message.participants_answered, message.participants_completed
        of_sent, of_answered = write_percent(message.response_rate), write_percent(message.completion_rate)
        # An unknown count has no bar.
        if answered is not None:
            marks.append(_mark("Answered", answered, f"{of_sent} of sent"))
        if completed is not None:
            marks.append(_mark("Reached the end", completed, f"{of_answered} of these"))
    if len(marks) == 1 or not message.sent:
        return ""
    return draw_bars(marks, "Bar chart: people at each step, from the audience to the end of the survey")


def draw_nps(nps: NetPromoterScore) -> str:
    """Return the detractors, passives and promoters as one bar."""
    if not nps.counted:
        return ""
    parts = {"detractors": nps.detractors, "passives": nps.passives, "promoters": nps.promoters}
    return draw_parts(parts, "Bar: shares of detractors, passives and promoters")


def draw_distribution(question: QuestionReport) -> str:
    """Return the frequency of each score of an NPS question, as columns; empty for other questions."""
    responses = question.distribution
    if question.nps is None or not question.nps.counted or len(responses) != _NPS_POINTS:
        return ""
    kinds = [_name_group(place) for place in range(_NPS_POINTS)]
    parts = {
        group: [
            response.count if kind == group else 0 for kind, response in zip(kinds, responses, strict=True)
        ]
        for group in ("detractors", "passives", "promoters")
    }
    return draw_columns([str(place) for place in range(_NPS_POINTS)], parts, "Column chart: answers by score")


def draw_days(days: Sequence[Day]) -> str:
    """Return first and further answers by day, as columns; empty for fewer than two days of answers."""
    by_date = {day.date: day for day in days}
    if sum((day.answers or 0) > 0 for day in days) < 2:  # noqa: PLR2004  # one column is no chart
        return ""
    dates = sorted(by_date)
    if (dates[-1] - dates[0]).days < MOST_DAYS:
        # Days without events have no rows, but take time.
        dates = [dates[0] + timedelta(days=number) for number in range((dates[-1] - dates[0]).days + 1)]
    shown = [by_date.get(date) or Day(date, 0, 0, 0) for date in dates]
    parts = {
        "first": [day.first_answers or 0 for day in shown],
        "further": [max((day.answers or 0) - (day.first_answers or 0), 0) for day in shown],
    }
    return draw_columns([f"{date:%m-%d}" for date in dates], parts, "Column chart: answers by day")


def draw_groups(groups: Sequence[Turnout]) -> str:
    """Return the response rates of groups with their intervals, as bars."""
    if not 1 < len(groups) <= MOST_BARS or all(group.response_rate is None for group in groups):
        return ""
    marks = [
        ChartMark(
            group.name,
            None if group.response_rate is None else float(group.response_rate),
            interval=group.response_interval,
        )
        for group in groups
    ]
    return draw_estimates(
        marks,
        "Bar chart: response rate of each group, with its 95 % interval",
        _write_rounded_percent,
    )


def _mark(label: str, count: int, share: str = "") -> ChartMark:
    text = f"{write_count(count)} ({share})" if share else write_count(count)
    return ChartMark(label, count, text)


def _name_group(score: int) -> str:
    if score < _LOWEST_PASSIVE:
        return "detractors"
    return "passives" if score < _LOWEST_PROMOTER else "promoters"


def _write_rounded_percent(rate: float) -> str:
    return f"{100 * rate:.0f} %"
