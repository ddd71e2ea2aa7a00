"""Charts: sound and plain SVG, with nothing that runs or loads, and bars and dots in tables."""

from __future__ import annotations

import re
from datetime import date
from fractions import Fraction
from xml.etree import ElementTree as ET

import pytest

from runner.view.blocks import BAR, Axis, Bar, Column, Estimate, Line, Stack, StackPart, TableBlock
from runner.view.charts import TimePoint, draw_spark, fit_axis, plot_columns, plot_points
from runner.view.html import write_html
from runner.view.markdown import write_markdown

POINTS = (
    TimePoint(date(2026, 1, 1), "Jan <b>", 12.0, "+12 & more", (8.0, 16.0)),
    TimePoint(date(2026, 2, 1), "Feb", 20.0, "+20"),
    TimePoint(date(2026, 5, 1), "May", 18.0, "this one", (15.0, 21.0)),
)
DAYS = [date(2026, 1, day) for day in range(1, 31)]
LABELS = [f"{day.day} Jan" for day in DAYS]


def write_number(value: float) -> str:
    return f"{value:g}"


CHARTS = (
    plot_points(POINTS, "points <&>", write_number, [(25.0, "target 25")]),
    plot_points(POINTS[:1], "one point", write_number),
    plot_columns(DAYS, LABELS, range(30), "columns"),
    plot_columns([], [], [], "no columns"),
)


def read(chart: str) -> ET.Element:
    return ET.fromstring(chart)  # noqa: S314  # our own


def test_a_chart_is_plain_svg() -> None:
    """Shapes and texts, a name and values for screen readers, and no ids, styles, scripts or long numbers."""
    for chart in CHARTS:
        root = read(chart)
        assert {node.tag for node in root.iter()} <= {"svg", "desc", "rect", "line", "text", "circle"}
        assert root.get("role") == "img"
        assert root.get("aria-label")
        assert not re.search(r"\b(id|style|on\w+|href|xmlns)=|<!--|<\?|\d\.\d\d", chart)
        assert "nan" not in chart
    assert read(CHARTS[0]).findtext("desc") == "Jan <b>: +12 & more; Feb: +20; May: this one"


def test_time_is_to_scale() -> None:
    """A month takes as much room as any other, whatever was sent in between; an interval is a line."""
    places = [float(node.get("cx", "").rstrip("%")) for node in read(CHARTS[0]).iter("circle")]
    near, far = places[1] - places[0], places[2] - places[1]
    assert far / near == pytest.approx(89 / 31, rel=0.01)
    assert CHARTS[0].count('class="whisker"') == 2
    assert CHARTS[0].count('class="compared"') == 1


def test_many_columns_have_few_labels() -> None:
    """As many dates are written as there is room for on a phone, the last one among them."""
    shown = [label for label in LABELS if f">{label}<" in CHARTS[2]]
    assert len(shown) == 4
    assert shown[-1] == "30 Jan"


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.31, 0.48], ["0.3", "0.35", "0.4", "0.45", "0.5"]),
        ([-32.0, 57.5], ["-50", "0", "50", "100"]),
        ([7.0], ["7"]),
        ([], ["0"]),
    ],
)
def test_an_axis_has_round_values(values: list[float], ticks: list[str]) -> None:
    """Its values are few and round, and what is drawn stands between its ends."""
    axis = fit_axis(values, write_number)
    assert [text for _, text in axis.ticks] == ticks
    assert all(axis.low <= value <= axis.high for value in values)
    assert axis.low < axis.high


def test_a_small_line_ends_in_a_dot() -> None:
    """Gaps are left out, and one value is no line."""
    assert draw_spark(Line([1.0, None, 3.0])).count("<circle") == 1
    assert draw_spark(Line([1.0, None])) == ""


def test_bars_are_shares_of_the_longest() -> None:
    """The longest bar has all the room; nobody's choice has no bar; Markdown draws shares of all."""
    rows = [
        ("A", Bar(Fraction(1, 4), "good"), "25 %"),
        ("B", Bar(Fraction(1, 2)), "50 %"),
        ("C", Bar(None), "–"),
    ]
    table = TableBlock((Column("Answer", "text"), BAR, "Share"), rows)
    assert re.findall(r'class="(share[^"]*)" style="--share:([^"]+)"', write_html([table])) == [
        ("share good", "0.5"),
        ("share", "1"),
    ]
    assert "| A | █████ | 25 % |" in write_markdown([table])


def test_a_dot_stands_at_its_value() -> None:
    """Its interval is a line, everybody is another, and what is not known is only written."""
    column = Column("NPS", "estimate", Axis(0, 100, [(0, "0"), (100, "+100")], everybody=25))
    rows = [("A", Estimate(50, (40, 60), "+50", "+40 to +60")), ("B", Estimate(None, None, "–", "3 answers"))]
    page = write_html([TableBlock((Column("City", "text"), column), rows)])
    marks = re.findall(r'<i class="(\w+)" style="([^"]+)"', page)
    assert marks == [("everybody", "--at:0.25"), ("between", "--at:0.4;--to:0.6"), ("dot", "--at:0.5")]
    assert "| A | +50 (+40 to +60) |" in write_markdown([TableBlock((Column("City", "text"), column), rows)])


@pytest.mark.parametrize(("counts", "is_direct"), [((30, 30, 40), True), ((2, 58, 40), False)])
def test_names_stand_below_their_parts_if_all_have_room(counts: tuple[int, ...], *, is_direct: bool) -> None:
    """Else they are a legend; a share that has no room in its part stands with its name."""
    names = ("Detractors", "Passives", "Promoters")
    parts = [StackPart(n, c, Fraction(c, 100), f"{c} %") for n, c in zip(names, counts, strict=True)]
    page = write_html([Stack(parts)])
    assert ('class="legend direct"' in page) == is_direct
    assert page.count('<b class="inside">') == sum(count >= 6 for count in counts)
