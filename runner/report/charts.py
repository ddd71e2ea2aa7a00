"""Charts as SVG, drawn by pygal: the one door to it.

Of what pygal draws the shapes and texts are kept (`svg`). The page's style sheet gives colours and fonts by
class, so that dark mode and paper work. A chart is an image with a name for screen readers; its figures stand
in a table beside it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pygal
from pygal.etree import etree
from pygal.style import Style

from runner.report.svg import frame_bars, keep_shapes, write_svg
from runner.report.wording import write_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from runner.report.rounding import Interval

# With lxml installed pygal would use it, and write the same tree differently.
etree.to_etree()
# Without this finder of map plugins, which has the protocol of Python 3.11 and before, every import that
# fails after pygal's would warn.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != pygal.__name__]

WIDTH = 480
"""Width of a chart in its own units, which are CSS pixels where there is room."""

LONGEST_LABEL = 18
"""Characters of a label in a chart; the table beside it has all of them."""

# The page has 13 where there is room, and this on a phone and on paper: labels get room for the larger one.
_FONT_SIZE = 15
_MARGIN = 4
_BAR_HEIGHT = 30
_COLUMN_CHART_HEIGHT = 190
_TREND_CHART_HEIGHT = 210
# Of labels side by side, in units of the chart; a character's width is pygal's guess, 0.6 of its height.
_ROOM_FOR_LABELS = 430
_CHARACTER_WIDTH = 9
_LABEL_GAP = 12
# The longest text after a bar, as a share of the longest bar.
_ROOM_FOR_TEXTS = 1.5


@dataclass(frozen=True, slots=True)
class Mark:
    """One value in a chart.

    Attributes:
        label: what it is the value of.
        value: in the chart's unit; None where there is none.
        text: the value as it is written beside it; empty for no text.
        interval: its low and high end, drawn as whiskers.
    """

    label: str
    value: float | None
    text: str = ""
    interval: Interval | None = None


def draw_bars(marks: Sequence[Mark], name: str) -> str:
    """Return lying bars from 0, the first on top, each with its text after its end.

    Args:
        marks: one for each bar.
        name: what the chart shows, for screen readers.
    """
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


def draw_estimates(marks: Sequence[Mark], name: str, write_value: Callable[[float], str]) -> str:
    """Return lying bars from 0 with the intervals of their values, on a common axis.

    Args:
        marks: one for each bar, the first on top.
        name: what the chart shows, for screen readers.
        write_value: writes a value of the axis.
    """
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

    Args:
        labels: one for each column.
        parts: by the class that gives it its colour, the counts of a part, one for each column.
        name: what the chart shows, for screen readers.
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
    # Thinned out labels are empty, and the others may use the room; pygal measures room a label at a time.
    chart.truncate_label = -1
    for kind, counts in parts.items():
        chart.add(kind, list(counts))
    return _write(chart, tuple(parts), name)


def draw_parts(parts: Mapping[str, int], name: str) -> str:
    """Return one lying bar of the parts of a whole, in their order.

    Args:
        parts: by the class that gives it its colour, how many it has.
        name: what the chart shows, for screen readers.
    """
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
    marks: Sequence[Mark],
    name: str,
    write_value: Callable[[float], str],
    limits: tuple[float, float],
) -> str:
    """Return a line through values over time, with their intervals.

    Args:
        marks: in the order of time.
        name: what the chart shows, for screen readers.
        write_value: writes a value of the axis.
        limits: the lowest and highest value there can be; the axis ends there at the latest.
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


def _estimate(mark: Mark) -> dict[str, Any]:
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
    """Return labels of which so many are empty that those that stay have room."""
    longest = max(map(len, labels), default=0)
    most = _ROOM_FOR_LABELS // (longest * _CHARACTER_WIDTH + _LABEL_GAP)
    step = -(-len(labels) // max(most, 1)) or 1
    return [label if place % step == 0 else "" for place, label in enumerate(labels)]


def _write(chart: Any, kinds: Sequence[str], name: str, *, is_cropped: bool = False) -> str:
    """Return what of a chart belongs on a page; cropped, its bars and nothing more."""
    root = chart.render_tree()
    keep_shapes(root, kinds)
    if is_cropped:
        # Bars stand within their plot, which pygal moves to the right and down by its margin.
        frame_bars(root, _MARGIN)
    return write_svg(root, write_line(name))
