"""Looks for the cause of a refused send before anybody speaks of it (design: delivery, "403")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.errors import ServiceError
from runner.service.client import AccessRefusedError

if TYPE_CHECKING:
    from runner.service.client import ServiceClient
    from runner.service.model import PlanUsage

_AGAIN = "then run the same command again: whoever was texted is not texted again"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The likely cause of a refusal.

    Attributes:
        message: what is wrong, as a sentence without a full stop at its end.
        hint: what to do about it.
    """

    message: str
    hint: str


def diagnose_refusal(client: ServiceClient, status: int) -> Diagnosis:
    """Ask the service, with one small request, why it may have refused a send.

    Args:
        client: with the credentials that were refused.
        status: what the send was answered with, 401 or 403.
    """
    refusal = f"the service refuses to send (HTTP {status})"
    try:
        usage = client.read_plan_usage()
    except AccessRefusedError:
        return Diagnosis(
            f"{refusal}, and to be read with these credentials: they are wrong, or no longer valid",
            f"check the username, the API key and the base URL, {_AGAIN}",
        )
    except ServiceError as error:
        return Diagnosis(
            f"{refusal}, and the cause cannot be told: {error.message}",
            f"check the credentials and the plan with the service's provider, {_AGAIN}",
        )
    return _diagnose_plan(refusal, usage)


def _diagnose_plan(refusal: str, usage: PlanUsage | None) -> Diagnosis:
    """Return the likely cause when the credentials are good."""
    if usage is None:
        return Diagnosis(
            f"{refusal} but takes these credentials: the plan may not suffice, or may not cover sending",
            f"check the plan and the settings of the account with the service's provider, {_AGAIN}",
        )
    used = f"{usage.renders_used:,} of {usage.renders_max:,} renders are used"
    if usage.is_used_up:
        return Diagnosis(
            f"{refusal} because its plan is used up: {used}",
            f"get more renders from the service's provider, {_AGAIN}",
        )
    return Diagnosis(
        f"{refusal} but takes these credentials, and its plan is not used up: {used}",
        "what is sent may need more renders than are left, or the account may not be set up to send: "
        f"check both with the service's provider, {_AGAIN}",
    )
