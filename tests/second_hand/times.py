"""Times, days and renders, counted again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from tests.second_hand.tables import Figures, Message


def time_first(one: Message) -> float | None:
    """Return the median of the seconds to people's first answers."""
    gaps: pd.Series[pd.Timedelta] = (one.answers["at"] - one.answers.start).groupby(one.answers.phone).min()
    seconds = (gaps[gaps >= pd.Timedelta(0)] // pd.Timedelta(seconds=1)).to_numpy(dtype=float)
    return float(np.median(seconds)) if len(seconds) else None


def measure_volume(one: Message, renders: int) -> Figures:
    share = renders / one.situation.renders_max if one.is_read and one.situation.renders_max else None
    return {
        "plan_share": share,
        "cost_usd": None if share is None else share * one.situation.price,
    }


def list_days(one: Message) -> list[Figures]:
    if not one.is_read or not one.questions:
        return []
    zone = one.campaign.get("schedule", {}).get("timezone", "UTC")
    every = Counter(one.answers["at"].dt.tz_convert(zone).dt.date)
    return [{"date": str(day), "answers": every[day]} for day in sorted(every)]
