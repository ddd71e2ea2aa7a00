"""Durations on the command line, as in 500ms, 10s or 2m."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runner.source.duration import parse_duration

if TYPE_CHECKING:
    from click import Context, Parameter


class Duration(click.ParamType[float]):
    """A duration, in seconds once it is read."""

    name = "duration"

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> float:
        """Return a duration in seconds; a wrong one is a mistake on the command line."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value)).total_seconds()
        except ValueError:
            self.fail(f"{value!r} is no duration: write for example 500ms, 10s or 2m", param, ctx)


DURATION = Duration()
