"""The parts of the JSON report about groups, times and volumes, each as the schema defines it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runner.report.rounding import store_interval, store_number, store_time

if TYPE_CHECKING:
    from runner.report.dispositions import Dispositions, ResponseRates
    from runner.report.timing import TimeSummary
    from runner.report.turnout import Analysis, Audience, Breakdown, Day, Experiment, Turnout, Volume


def describe_audience(audience: Audience) -> dict[str, Any]:
    """Return the audience."""
    return {
        "planned_at": store_time(audience.planned_at),
        "recipients": audience.recipients,
        "held_out": audience.held_out,
        "reserved": [
            {"disposition": reservation.disposition, "recipients": reservation.recipients}
            for reservation in audience.reserved
        ],
    }


def describe_volume(volume: Volume) -> dict[str, Any]:
    """Return the renders against their forecast, and what they cost."""
    return {
        "renders": volume.renders,
        "forecast_min": volume.forecast_min,
        "forecast_max": volume.forecast_max,
        "asked_again": volume.asked_again,
        "plan_share": store_number(volume.plan_share),
        "cost_usd": store_number(volume.cost_usd),
    }


def describe_dispositions(dispositions: Dispositions) -> dict[str, Any]:
    """Return the recipients as the survey field counts them."""
    return {
        "complete": dispositions.complete,
        "partial": dispositions.partial,
        "refusal": dispositions.refusal,
        "non_contact": dispositions.non_contact,
        "other": dispositions.other,
        "unknown_eligibility": dispositions.unknown_eligibility,
    }


def describe_rates(rates: ResponseRates) -> dict[str, Any]:
    """Return AAPOR's response rates."""
    named = {
        "rr1": rates.rr1,
        "rr2": rates.rr2,
        "rr3": rates.rr3,
        "rr4": rates.rr4,
        "rr5": rates.rr5,
        "rr6": rates.rr6,
    }
    return {name: store_number(rate) for name, rate in named.items()}


def describe_times(times: TimeSummary) -> dict[str, Any]:
    """Return how long people took."""
    return {
        "counted": times.counted,
        "median_s": store_number(times.median_s),
        "p90_s": store_number(times.p90_s),
    }


def describe_experiment(experiment: Experiment) -> dict[str, Any]:
    """Return the arms, and each further one against the first."""
    return {
        "arms": [_describe_turnout(arm) for arm in experiment.arms],
        "differences": [
            {
                "arm": one.arm,
                "against": one.against,
                "difference": store_number(one.difference),
                "interval": store_interval(one.interval),
                "p_value": store_p_value(one.p_value),
                "verdict": one.verdict,
            }
            for one in experiment.differences
        ],
        "analysis": experiment.analysis and _describe_analysis(experiment.analysis),
    }


def _describe_analysis(analysis: Analysis) -> dict[str, Any]:
    return {
        "method": analysis.method,
        "due": analysis.due and analysis.due.isoformat(),
        "per_arm": analysis.per_arm,
        "is_due": analysis.is_due,
        "arms": [{"name": arm.name, "sent": arm.sent, "answered": arm.answered} for arm in analysis.arms],
    }


def describe_breakdown(breakdown: Breakdown) -> dict[str, Any]:
    """Return turnout by one column of the audience."""
    return {
        "column": breakdown.column,
        "groups": [_describe_turnout(group) for group in breakdown.groups],
        "suppressed": breakdown.suppressed,
        "suppressed_sent": breakdown.suppressed_sent,
        "least": breakdown.least,
    }


def describe_day(day: Day) -> dict[str, Any]:
    """Return one day of a message."""
    return {
        "date": day.date.isoformat(),
        "sent": day.sent,
        "first_answers": day.first_answers,
        "answers": day.answers,
    }


def store_p_value(p_value: float | None) -> float | None:
    """Return a p-value to four significant figures, since small ones differ by magnitudes."""
    return None if p_value is None else float(f"{p_value:.4g}")


def _describe_turnout(group: Turnout) -> dict[str, Any]:
    return {
        "name": group.name,
        "sent": group.sent,
        "answered": group.answered,
        "response_rate": store_number(group.response_rate),
        "response_interval": store_interval(group.response_interval),
        "completed": group.completed,
        "scores": [
            {
                "tag": score.tag,
                "measure": score.measure,
                "value": store_number(score.value),
                "interval": store_interval(score.interval),
                "counted": score.counted,
            }
            for score in group.scores
        ],
    }
