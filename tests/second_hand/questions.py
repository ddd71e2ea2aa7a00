"""What came back to a question, counted again."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from tests.second_hand import formulas
from tests.second_hand.tables import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pandas as pd

    from tests.second_hand.tables import Figures, Message

SCORED = ("nps", "csat", "ces", "number")
"""The scales that have a score."""
STRANGE: dict[str, Any] = {
    "tag": "old",
    "text": "Did you come by bus?",
    "responses": ["Yes", "No", "By train"],
}
"""A question that is asked at the service, and in no campaign."""
_OWN_WORDS = "(in the participant's own words)"


def recount_question(one: Message, steps: Figures, question: dict[str, Any]) -> Figures:
    tag = question["tag"]
    if not one.is_read:
        return describe_question(question, None)
    latest = one.latest[one.latest.tag == tag]
    return describe_question(question, latest) | {
        "asked": steps["asked"][tag],
        "answer_rate": len(latest) / steps["asked"][tag] if steps["asked"][tag] else None,
    }


def count_points(question: dict[str, Any], latest: pd.DataFrame) -> list[float]:
    return _read_numbers(question, latest.response)


def describe_question(question: dict[str, Any], latest: pd.DataFrame | None, alpha: float = 0.05) -> Figures:
    scale = question.get("scale", "choice" if "responses" in question else "text")
    nothing = dict.fromkeys(
        ("asked", "answers", "answer_rate", "nps", "csat", "mean", "median", "mean_interval",
         "numeric_answers", "mean_standard_error")
    )  # fmt: skip
    about = {"tag": question["tag"], "text": question["text"], "scale": scale, "distribution": []}
    if latest is None:
        return nothing | about
    numbers = _read_numbers(question, latest.response)
    found = nothing | about | {"answers": len(latest), "distribution": _distribute(question, latest)}
    if scale == "nps":
        found["nps"] = _score_nps(numbers, alpha)
    if scale == "csat":
        found["csat"] = _score_csat(question, numbers, alpha)
    if scale in ("csat", "ces", "number"):
        found |= {
            "mean": float(np.mean(numbers)) if numbers else None,
            "median": float(np.median(numbers)) if numbers else None,
            "mean_interval": formulas.mean_of(numbers, alpha),
            "mean_standard_error": float(stats.sem(numbers)) if len(numbers) > 1 else None,
            "numeric_answers": len(numbers),
        }
    return found


def _distribute(question: dict[str, Any], latest: pd.DataFrame) -> list[Figures]:
    offered = question.get("responses", [])
    if not offered:
        return []
    folded = [fold(response) for response in offered]
    counts: Counter[int] = Counter()
    others: Counter[tuple[str, str]] = Counter()
    for answer, response in zip(latest.answer, latest.response, strict=True):
        if fold(response) in folded:
            counts[folded.index(fold(response))] += 1
        elif re.fullmatch(r"[1-9][0-9]{0,2}", answer.strip()):
            others[answer.strip(), f"{response.strip()} (not in the campaign)"] += 1
        else:
            others["", _OWN_WORDS] += 1
    rows = [(str(place + 1), label, counts[place]) for place, label in enumerate(offered)]
    rows += [(*key, count) for key, count in sorted(others.items(), key=lambda item: (-item[1], item[0]))]
    return [
        {"answer": a, "label": label, "count": n, "share": n / len(latest) if len(latest) else None}
        for a, label, n in rows
    ]


def _read_numbers(question: dict[str, Any], responses: Iterable[str]) -> list[float]:
    """Return what answers count as on the question's scale, without those that count as nothing."""
    offered, scale = question.get("responses"), question.get("scale", "choice")
    if scale not in SCORED:
        return []
    if not offered:
        read = (_read_number(text) for text in responses)
        return [number for number in read if number is not None]
    points = _list_points(question)
    folded = {fold(response): point for response, point in zip(offered, points, strict=True)}
    found = []
    for text in responses:
        point = folded.get(fold(text))
        if point is not None:
            found.append(point)
    return found


def _list_points(question: dict[str, Any]) -> list[float]:
    read = [re.match(r"\d+", response) for response in question["responses"]]
    if not all(read):
        return [float(place) for place in range(1, len(read) + 1)]
    return [float(one[0]) for one in read if one]


def _read_number(text: str) -> float | None:
    """Return a number written with a decimal point or comma; None where a comma may part thousands.

    A text with two kinds of marks says itself which one is decimal: the last, which comes once.
    """
    text = text.strip()
    for thousands, decimal in (".,", ",.", " ,", " ."):
        whole, _, fraction = text.partition(decimal)
        first, *groups = whole.split(thousands)
        if groups and fraction.isdecimal() and all(re.fullmatch(r"\d{3}", one) for one in groups):
            return float("".join((first, *groups, ".", fraction)))
    if re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", text) or not re.fullmatch(r"[+-]?\d+([.,]\d+)?", text):
        return None
    return float(text.replace(",", "."))


def _score_nps(numbers: Sequence[float], alpha: float) -> Figures:
    counted = [number for number in numbers if number in range(11)]
    promoters, detractors = (sum(map(test, counted)) for test in (lambda n: n >= 9, lambda n: n <= 6))
    return {
        "score": 100 * (promoters - detractors) / len(counted) if counted else None,
        "promoters": promoters,
        "passives": len(counted) - promoters - detractors,
        "detractors": detractors,
        "counted": len(counted),
        "interval": formulas.score_points(promoters, detractors, len(counted), alpha),
    }


def _score_csat(question: dict[str, Any], numbers: Sequence[float], alpha: float) -> Figures:
    points = _list_points(question)
    top = sorted(points)[-2:]
    satisfied, counted = sum(number in top for number in numbers), len(numbers)
    return {
        "score": satisfied / counted if counted else None,
        "satisfied": satisfied,
        "counted": counted,
        "interval": formulas.wilson(satisfied, counted, alpha) if counted else None,
        "top_two": [text for text, n in zip(question["responses"], points, strict=True) if n in top],
    }
