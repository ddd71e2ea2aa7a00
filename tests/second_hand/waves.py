"""The waves of a series, counted again from the reports that were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from tests.second_hand import formulas
from tests.second_hand.recount import order

if TYPE_CHECKING:
    from tests.second_hand.tables import Figures


def link_series(reports: dict[str, Figures], campaigns: dict[str, dict[str, Any]]) -> None:
    """Give each report of a series its waves; all have the same score."""
    for name, report in reports.items():
        series = campaigns[name].get("series")
        if series is not None:
            own = [one for key, one in reports.items() if campaigns[key].get("series") == series]
            waves = sorted((one for one in own if one["first_sent_at"] is not None), key=_tell_order)
            report["series"] = {
                "name": series,
                "waves": [_describe(one) for one in waves],
                "changes": _compare(report, waves),
                "tests": [*_test_response(waves), *_test_score(waves)],
            }


def _tell_order(one: Figures) -> Any:
    return order(one["first_sent_at"])


def _describe(one: Figures) -> Figures:
    people, score = one["people"], one["score"] or {"value": None, "interval": None, "counted": None}
    return {
        "campaign": one["campaign"],
        "title": one["title"] or one["campaign"],
        "first_sent_at": one["first_sent_at"],
        **{key: people[key] for key in ("texted", "answered", "response_rate", "response_rate_interval")},
        "score": score["value"],
        "score_interval": score["interval"],
        "scored": score["counted"],
    }


def _compare(report: Figures, waves: list[Figures]) -> list[Figures]:
    names = [one["campaign"] for one in waves]
    if report["campaign"] not in names[1:]:
        return []
    last = waves[names.index(report["campaign"]) - 1]
    found = []
    for measure in ("response", "score"):
        pair = [_sample(measure, one) for one in (report, last)]
        if None in pair:
            continue
        compared = formulas.compare(pair[0], pair[1], 0.05, is_sequential=False)
        row = {"measure": measure, "against": last["campaign"], "verdict": "too_few"}
        if compared.is_enough and compared.p_value is not None:
            row["verdict"] = "differs" if compared.p_value < 0.05 else "no_difference_shown"
        figures = ("difference", "interval", "p_value")
        row |= {name: getattr(compared, name) for name in figures}
        if not formulas.agree(compared.p_value, compared.interval):
            row["interval"] = None
        found.append(row)
    return found


def _sample(measure: str, one: Figures) -> formulas.Share | formulas.Mean | None:
    people, score = one["people"], one["score"]
    if measure == "response":
        return formulas.Share(people["answered"], people["texted"]) if _is_told(people) else None
    if score is None or score["value"] is None:
        return None
    return formulas.Mean(
        score["value"], score["standard_error"], score["counted"], lambda _: score["interval"]
    )


def _is_told(people: Figures) -> bool:
    return bool(people["texted"]) and people["answered"] is not None


def _test_response(waves: list[Figures]) -> list[Figures]:
    told = [one["people"] for one in waves if _is_told(one["people"])]
    counted = [(people["answered"], people["texted"]) for people in told]
    if len(counted) < 3:
        return []
    table = [[answered, texted - answered] for answered, texted in counted]
    found = stats.chi2_contingency(table, correction=False)
    is_enough = min(texted for _, texted in counted) >= 30 and found.expected_freq.min() >= 5
    return [_report("response", len(counted), found.statistic, found.pvalue, is_enough=is_enough)]


def _test_score(waves: list[Figures]) -> list[Figures]:
    scores = [one["score"] for one in waves if one["score"] and one["score"]["value"] is not None]
    if len(scores) < 3:
        return []
    values = np.array([score["value"] for score in scores])
    weights = 1 / np.array([score["standard_error"] for score in scores]) ** 2
    statistic = float(np.sum(weights * (values - np.average(values, weights=weights)) ** 2))
    is_enough = min(score["counted"] for score in scores) >= 30
    p_value = stats.chi2.sf(statistic, len(scores) - 1)
    return [_report("score", len(scores), statistic, p_value, is_enough=is_enough)]


def _report(measure: str, waves: int, statistic: float, p_value: float, *, is_enough: bool) -> Figures:
    verdict = "differs" if p_value < 0.05 else "no_difference_shown"
    return {
        "measure": measure,
        "waves": waves,
        "statistic": float(statistic),
        "freedom": waves - 1,
        "p_value": float(p_value),
        "verdict": verdict if is_enough else "too_few",
    }
