"""Times, days and renders, counted again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tests.second_hand.tables import find_unreached

if TYPE_CHECKING:
    from tests.second_hand.tables import Figures, Message


def time_first(one: Message) -> Figures:
    return _summarise_times((one.answers["at"] - one.answers.start).groupby(one.answers.phone).min())


def time_answer(one: Message, tag: str) -> Figures:
    """From the latest answer to any question before it; of the first, from the start of the launch."""
    gaps = []
    for arm, way in one.ways.items():
        tags = [question["tag"] for question in way.get("questions", ())]
        before = tags[: tags.index(tag)] if tag in tags else tags
        latest = one.latest[one.latest.arm == arm]
        here = latest[latest.tag == tag].set_index("phone")
        earlier = latest[latest.tag.isin(before)].groupby("phone")["at"].max()
        gaps.append((here["at"] - earlier).dropna() if before else here["at"] - here.start)
    return _summarise_times(pd.concat(gaps))


def _summarise_times(gaps: pd.Series[pd.Timedelta]) -> Figures:
    seconds = (gaps[gaps >= pd.Timedelta(0)] // pd.Timedelta(seconds=1)).to_numpy(dtype=float)
    middle, late = np.percentile(seconds, [50, 90]) if len(seconds) else (None, None)
    return {"counted": len(seconds), "median_s": middle, "p90_s": late}


def time_nothing() -> Figures:
    return {"counted": None, "median_s": None, "p90_s": None}


def measure_volume(one: Message, renders: int) -> Figures:
    least = most = 0
    for arm, way in one.ways.items():
        sent = int(one.sent[one.sent.arm == arm]["size"].sum())
        opening = ("introduction" in way) + ("text" in way)
        questions = len(way.get("questions", ()))
        least += sent * (opening + bool(questions))
        most += sent * (opening + questions + ("conclusion" in way))
    share = renders / one.situation.renders_max if one.is_read and one.situation.renders_max else None
    return {
        "renders": renders if one.is_read else None,
        "forecast_min": least,
        "forecast_max": most,
        "asked_again": _count_asked_again(one),
        "plan_share": share,
        "cost_usd": None if share is None else share * one.situation.price,
    }


def _count_asked_again(one: Message) -> int | None:
    """Return the renders that no answer on record explains; None where nobody can tell who saw what."""
    beginnings = {
        ("introduction" in way, way["questions"][0]["tag"]) for way in one.ways.values() if one.questions
    }
    is_unclear = len(beginnings) > 1 and bool(find_unreached(one))
    if not one.is_read or not one.questions or one.sent.empty or is_unclear or one.replies.refuses.any():
        return None
    return int(one.people.again.sum() + one.people.lost.sum())


def list_days(one: Message) -> list[Figures]:
    sent: Counter[Any] = Counter()
    for launch in one.sent.to_dict("records"):
        # An `apply` may last beyond midnight.
        start = launch["start"] if launch["is_read"] else launch["taken"]
        sent[start.date()] += launch["size"]
    days: list[Figures] = []
    first = Counter(one.answers.groupby("phone")["at"].min().dt.date) if len(one.answers) else Counter()
    every = Counter(one.answers["at"].dt.date) if len(one.answers) else Counter()
    for day in sorted({*sent, *first, *every}):
        if one.is_read:
            days.append(
                {"date": str(day), "sent": sent[day], "first_answers": first[day], "answers": every[day]}
            )
        elif sent[day]:
            days.append({"date": str(day), "sent": sent[day], "first_answers": None, "answers": None})
    return days
