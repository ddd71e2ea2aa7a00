"""Limits on the audience, as a campaign file writes them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from runner.campaign.model import AudienceLimit
from runner.source.quantity import parse_share


def read_audience_limit(written: int | dict[str, Any]) -> AudienceLimit:
    """Return the limit that is given as the most people, or as a mapping; the schema checks its form."""
    if isinstance(written, int):
        return AudienceLimit(most=written)
    given = {**written}
    if "change" in given:
        given["change"] = parse_share(given["change"])
    if "expected" in given:
        said = given["expected"]
        said = {"people": said} if isinstance(said, int) else {**said}
        shares = {("filled", name): parse_share(one) for name, one in said.pop("filled", {}).items()}
        given["expected"] = {**{(name,): Fraction(count) for name, count in said.items()}, **shares}
    return AudienceLimit(**given)
