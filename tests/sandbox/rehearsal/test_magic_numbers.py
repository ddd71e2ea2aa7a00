"""The table of magic numbers: which they are, and what a send to some of them meets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import phonenumbers
import pytest

from runner.sandbox.rehearsal.magic import MAGIC_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

    Call = Callable[..., requests.Response]


def test_numbers_are_valid_and_for_fiction() -> None:
    """Every magic number is a valid one of the block that is kept for fiction."""
    for phone in MAGIC_NUMBERS:
        assert phonenumbers.is_valid_number(phonenumbers.parse(phone))
        assert phone[-7:-2] == "55501"


@pytest.mark.parametrize(
    ("phone", "status", "launches"),
    [("+13025550140", 400, 0), ("+13025550143", 403, 0), ("+13025550150", 500, 1)],
)
def test_send_to_some_numbers_goes_wrong(call: Call, phone: str, status: int, launches: int) -> None:
    """A send to a number that is there for it is refused, or fails after it was accepted."""
    answer = call("POST", "/api/send", {"text": "Hello", "phone": ["+14155550101", phone]})
    assert (answer.status_code, phone in answer.text) == (status, False)
    assert call("GET", "/api/stats/").json()["meta"]["total_count"] == launches
