"""Charts: sound and plain SVG, with nothing that runs or loads."""

from __future__ import annotations

import re
from datetime import date
from xml.etree import ElementTree as ET

from runner.report.documents.charts import draw_days, draw_groups, draw_nps
from runner.report.model import Day
from runner.view.charts import (
    LONGEST_LABEL,
    ChartMark,
    plot_bars,
    plot_columns,
    plot_parts,
)
from tests.report.sample import build_breakdown, replace
from tests.report.sample_questions import build_questions

MARKS = (ChartMark("Sent <b>", 100, "100 & more"), ChartMark("Answered", 40, "40"))
ESTIMATES = (ChartMark("A", 0.4, "40 %", (0.3, 0.5)), ChartMark("B", None, "–"))


def write_percent(share: float) -> str:
    return f"{100 * share:.0f} %"


CHARTS = (
    plot_bars(MARKS, "bars <&>"),
    plot_bars(ESTIMATES, "estimates", write_percent),
    plot_columns(("1", "2"), {"first": (1, 0), "further": (2, 3)}, "columns"),
    plot_columns((), {"first": ()}, "no columns"),
    plot_parts({"detractors": 1, "passives": 2, "promoters": 3}, "parts"),
)


def read(chart: str) -> ET.Element:
    return ET.fromstring(chart)  # noqa: S314  # our own


def test_a_chart_is_plain_svg() -> None:
    """Shapes and texts, a name and values for screen readers, and no ids, styles, scripts or long numbers."""
    for chart in CHARTS:
        root = read(chart)
        assert {node.tag for node in root.iter()} <= {"svg", "desc", "rect", "path", "text", "circle"}
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert not re.search(r"\b(id|style|on\w+|href|xmlns)=|<!--|<\?|\d\.\d\d", chart)
        assert "nan" not in chart
    assert read(CHARTS[0]).findtext("desc") == "Sent <b>: 100 & more; Answered: 40"


def test_texts_stand_as_they_are() -> None:
    """Labels and texts are escaped, and a long label ends in an ellipsis."""
    texts = [node.text for node in read(plot_bars(MARKS, "bars")).iter("text")]
    assert {"Sent <b>", "100 & more"} <= set(texts)
    long = plot_bars((ChartMark("x" * 40, 1, "1"),), "bars")
    assert f">{'x' * (LONGEST_LABEL - 1)}…<" in long


def test_an_estimate_has_whiskers() -> None:
    """An interval is drawn where there is one, and a missing value leaves its place empty."""
    assert CHARTS[1].count('class="whisker"') == 1
    assert CHARTS[1].count("<rect ") == 1


def test_many_columns_have_few_labels() -> None:
    """As many dates are written as there is room for."""
    labels = [f"11-{day:02}" for day in range(1, 31)]
    chart = plot_columns(labels, {"first": tuple(range(30))}, "columns")
    assert [text for text in labels if f">{text}<" in chart] == labels[::5]


def test_there_is_nothing_to_draw_of_nothing() -> None:
    """Charts of no answers, one group or one day are left out."""
    nps = build_questions()[0].nps
    assert nps is not None
    groups = build_breakdown().groups
    for charts in (
        draw_nps(replace(nps, counted=0)),
        draw_nps(None),
        draw_days((Day(date(2026, 1, 1), 5, 2, 3),)),
        draw_groups(groups[:1]),
        draw_groups(groups * 10),
    ):
        assert list(charts) == []


def test_days_without_anything_are_time_all_the_same() -> None:
    """Days that are no rows take their place in the chart; of very long times only days with rows do."""
    near = (Day(date(2026, 1, 1), 5, 2, 3), Day(date(2026, 1, 4), 0, 1, 1))
    far = (near[0], Day(date(2027, 1, 1), 0, 1, 1))
    assert "01-02" in next(draw_days(near)).svg
    assert "01-02" not in next(draw_days(far)).svg
