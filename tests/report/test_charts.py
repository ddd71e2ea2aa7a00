"""Charts: sound and plain SVG, the same each time, with nothing that runs or loads."""

from __future__ import annotations

import importlib
import re
import warnings
from datetime import date
from xml.etree import ElementTree as ET

import pytest
from freezegun import freeze_time

from runner.report.documents.charts import (
    LONGEST_LABEL,
    ChartMark,
    draw_bars,
    draw_columns,
    draw_days,
    draw_distribution,
    draw_estimates,
    draw_funnel,
    draw_groups,
    draw_nps,
    draw_parts,
    draw_trend,
)
from runner.report.model import Day
from tests.report.odd_reports import build_empty
from tests.report.sample import START, build_breakdown, build_survey, build_text, replace
from tests.report.sample_questions import build_questions

MARKS = (ChartMark("Sent <b>", 100, "100 & more"), ChartMark("Answered", 40, "40"))
ESTIMATES = (ChartMark("A", 0.4, interval=(0.3, 0.5)), ChartMark("B", None))


def write_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def draw_all() -> list[str]:
    return [
        draw_bars(MARKS, "bars"),
        draw_estimates(ESTIMATES, "estimates", write_percent),
        draw_columns(("1", "2"), {"first": (1, 0), "further": (2, 3)}, "columns"),
        draw_parts({"detractors": 1, "passives": 2, "promoters": 3}, "parts"),
        draw_trend(ESTIMATES, "trend", write_percent, (0, 1)),
    ]


def read(chart: str) -> ET.Element:
    return ET.fromstring(chart)  # noqa: S314  # our own


def list_bars(chart: str) -> list[dict[str, float]]:
    return [
        {name: float(bar.get(name, 0)) for name in ("x", "y", "width", "height")}
        for bar in read(chart).iter("rect")
    ]


@pytest.mark.parametrize("chart", draw_all())
def test_a_chart_is_plain_svg(chart: str) -> None:
    """Shapes and texts in groups, a name for screen readers, and no ids, styles, scripts or long numbers."""
    root = read(chart)
    assert {node.tag for node in root.iter()} <= {"svg", "g", "rect", "path", "text", "circle"}
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert not re.search(r"\b(id|style|on\w+|href|xmlns)=|<!--|<\?|\d\.\d\d", chart)
    assert "nan" not in chart


def test_charts_are_the_same_each_day() -> None:
    """Neither the day nor chance is in a chart."""
    with freeze_time("2020-01-01", real_asyncio=True):
        first = draw_all()
    with freeze_time("2031-12-31", real_asyncio=True):
        assert draw_all() == first


def test_bars_are_as_long_as_their_values() -> None:
    """From a common start, in proportion, the first on top."""
    below, above = sorted(list_bars(draw_bars(MARKS, "bars")), key=lambda bar: -bar["y"])
    assert above["x"] == below["x"]
    assert below["width"] / above["width"] == pytest.approx(0.4, abs=0.01)


def test_texts_stand_as_they_are() -> None:
    """Labels and texts are escaped, and a long label ends in an ellipsis."""
    texts = [node.text for node in read(draw_bars(MARKS, "bars")).iter("text")]
    assert {"Sent <b>", "100 & more"} <= set(texts)
    long = draw_bars((ChartMark("x" * 40, 1),), "bars")
    assert f">{'x' * (LONGEST_LABEL - 1)}…<" in long


def test_parts_fill_their_bar() -> None:
    """The frame of a bar of parts is the bar, and its parts follow each other."""
    chart = draw_parts({"detractors": 1, "passives": 2, "promoters": 5}, "parts")
    bars = list_bars(chart)
    whole = float(re.findall(r'viewBox="\S+ \S+ (\S+)', chart)[0])
    assert [bar["width"] / whole for bar in bars] == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=0.002)
    assert bars[1]["x"] == pytest.approx(bars[0]["x"] + bars[0]["width"], abs=0.2)


def test_an_estimate_has_whiskers() -> None:
    """An interval is drawn where there is one, and a missing value leaves its place empty."""
    chart = draw_estimates(ESTIMATES, "estimates", write_percent)
    assert chart.count('class="ci"') == 1
    assert len(list_bars(chart)) == 1


def test_many_columns_have_few_labels() -> None:
    """As many dates are written as there is room for."""
    labels = [f"11-{day:02}" for day in range(1, 31)]
    chart = draw_columns(labels, {"first": tuple(range(30))}, "columns")
    assert len([text for text in labels if f">{text}<" in chart]) == 6
    marks = [ChartMark(f"2026-01-{day:02}", day) for day in range(1, 13)]
    trend = draw_trend(marks, "trend", str, (0, 100))
    assert trend.count(">2026-01-") == 4


def test_pygal_leaves_no_finder_behind() -> None:
    """An import that fails after ours fails as it would without it, and does not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("there_is_no_such_module")


def test_there_is_nothing_to_draw_of_nothing() -> None:
    """Charts of no answers, one group, one day or a text that asks nothing are left out."""
    nps, service, *_ = build_questions()
    assert nps.nps is not None
    assert draw_nps(replace(nps.nps, counted=0)) == ""
    assert draw_distribution(service) == ""
    assert draw_distribution(replace(nps, distribution=nps.distribution[:5])) == ""
    assert draw_days((Day(date(2026, 1, 1), 5, 2, 3),)) == ""
    assert draw_groups(build_breakdown().groups[:1]) == ""
    assert draw_groups(build_breakdown().groups * 10) == ""
    assert draw_funnel(build_text("nudge", 5, START)) == ""
    assert draw_funnel(build_empty(0).messages[0]) == ""


def test_days_without_anything_are_time_all_the_same() -> None:
    """Days that are no rows take their place in the chart; of very long times only days with rows do."""
    near = (Day(date(2026, 1, 1), 5, 2, 3), Day(date(2026, 1, 4), 0, 1, 1))
    far = (near[0], Day(date(2027, 1, 1), 0, 1, 1))
    assert "01-02" in draw_days(near)
    assert "01-02" not in draw_days(far)


def test_the_funnel_begins_with_the_audience() -> None:
    """Audience, sent, answered, and who reached the end, with their shares."""
    texts = [node.text for node in read(draw_funnel(build_survey())).iter("text")]
    assert [text for text in texts if text and text[0].isdigit()] == [
        "301 (74.9 % of these)",
        "402 (40.4 % of sent)",
        "994",
        "1,060",
    ]
