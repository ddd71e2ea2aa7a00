"""Chance that can be had again."""

from __future__ import annotations

import random


def make_random(*parts: object) -> random.Random:
    """Return a source of chance that is a function of these parts, and of no other one's use."""
    return random.Random("/".join(map(str, parts)))  # noqa: S311  a schedule has to come again, not to be secret
