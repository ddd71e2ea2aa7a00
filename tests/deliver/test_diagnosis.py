"""The diagnosis of a refused send, which follows a look at the service (docs/delivery.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runner.workflow.delivery.delivery import diagnose_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.service.client import ServiceClient
    from tests.deliver.conftest import FaultyService

AGAIN = "then run the same command again: whoever was texted is not texted again"
PROVIDER = "with the service's provider, "


TAKES_THEM = "the service refuses to send (HTTP 403) but takes these credentials"
USED_UP = (
    "the service refuses to send (HTTP 403) because its plan is used up: 5,000 of 5,000 renders are used"
)
NOT_USED_UP = f"{TAKES_THEM}: 4,990 of 5,000 renders are used"
CHECK_BOTH = (
    "what is sent may need more renders than are left, or the account may not be set up to send: "
    f"check both {PROVIDER}{AGAIN}"
)


@pytest.mark.parametrize(
    ("plan", "message", "hint"),
    [
        (
            {"renders": {"used": 5000, "max": 5000}},
            USED_UP,
            f"get more renders from the service's provider, {AGAIN}",
        ),
        ({"renders": {"used": 4990, "max": 5000}}, NOT_USED_UP, CHECK_BOTH),
        (None, TAKES_THEM, CHECK_BOTH),
        ({"renders": {"used": "many"}}, TAKES_THEM, CHECK_BOTH),
    ],
)
def test_good_credentials_point_to_the_plan(
    faulty: FaultyService,
    connect: Callable[..., ServiceClient],
    plan: Any,
    message: str,
    hint: str,
) -> None:
    """If reading is allowed the credentials are good, and the plan says the rest."""
    faulty.plan = plan
    diagnosis = diagnose_refusal(connect(faulty.url), 403)
    assert (diagnosis.message, diagnosis.hint) == (message, hint)
    (read,) = faulty.reads
    assert read.target.startswith("/api/stats/?limit=1&")


@pytest.mark.parametrize("status", [401, 403])
def test_bad_credentials_are_named(
    faulty: FaultyService, connect: Callable[..., ServiceClient], status: int
) -> None:
    """If reading is refused too, the credentials are to blame."""
    faulty.refuse_reads(status)
    diagnosis = diagnose_refusal(connect(faulty.url), 401)
    assert diagnosis.message == (
        "the service refuses to send (HTTP 401), and to be read with these credentials: "
        "they are wrong, or no longer valid"
    )
    assert diagnosis.hint == f"check the username, the API key and the base URL, {AGAIN}"


def test_no_cause_is_made_up(faulty: FaultyService, connect: Callable[..., ServiceClient]) -> None:
    """If the service cannot be read for another reason, the diagnosis says so."""
    faulty.refuse_reads(500)
    diagnosis = diagnose_refusal(connect(faulty.url), 403)
    assert diagnosis.message == (
        "the service refuses to send (HTTP 403), and the cause cannot be told: "
        "the service refuses GET /api/stats/: HTTP 500"
    )
    assert diagnosis.hint == f"check the credentials and the plan {PROVIDER}{AGAIN}"
