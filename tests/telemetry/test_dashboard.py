"""The Grafana dashboard and the page of the documentation, held to the metrics that the program has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from runner.telemetry import INSTRUMENTS

DOCS = Path(__file__).parents[2] / "docs"
DASHBOARD: dict[str, Any] = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))
_UNITS = {"s": "_seconds"}
LABELS = ("arm", "campaign", "command", "exit_code", "message", "outcome", "recipients", "round", "target")
_FOREIGN_LABELS = {"job", "le", "http_response_status_code", "error_type"}
_LABELS = re.compile(r"(\w+)(?:=~|!=|=)\"|by \(([^)]*)\)")


def list_series(name: str) -> set[str]:
    """Return the names of a metric's series in Prometheus.

    Source: "Prometheus and OpenMetrics Compatibility" in OpenTelemetry's specification: other characters
    become underscores, units are written out, annotations in braces left out, counters end in `_total`.
    """
    kind, unit, _ = INSTRUMENTS[name]
    series = name.replace(".", "_") + _UNITS.get(unit, "")
    if kind == "histogram":
        return {f"{series}_{end}" for end in ("bucket", "count", "sum")}
    return {f"{series}_total"} if kind == "counter" else {series}


SERIES = {name: list_series(name) for name in INSTRUMENTS}
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_the_dashboard_asks_for_what_there_is() -> None:
    """Each query, and each variable, is about a metric of the program and attributes that it gives."""
    known = set().union(*SERIES.values())
    labels = {f"sms_campaign_{name}" for name in LABELS} | _FOREIGN_LABELS
    for query in QUERIES:
        assert set(re.findall(r"\w+(?=\{)", query)) <= known, query
        found = {name.strip() for one, some in _LABELS.findall(query) for name in (one, *some.split(","))}
        assert found - {""} <= labels, query
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
            assert metric in known
            assert label in labels


def test_the_dashboard_shows_every_metric() -> None:
    """No metric is without a panel, and each panel has a place of its own."""
    asked = set(re.findall(r"\w+(?=\{)", " ".join(QUERIES)))
    assert [name for name, series in SERIES.items() if not series & asked] == []
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    assert len({*places}) == len(places)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_the_page_lists_every_metric_and_attribute() -> None:
    """The guide's table has each metric with its unit and meaning, and each attribute is named."""
    page = (DOCS / "how-to/observability.md").read_text(encoding="utf-8")
    for name, (_, unit, meaning) in INSTRUMENTS.items():
        assert f"| `{name}` | `{unit}` | {meaning} |" in page
    assert [name for name in LABELS if f"`{name}`" not in page] == []
