"""A run whose sends all fail ends early; one with good answers among them goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.delivery.pace import Breaker, is_failure
from runner.service.model import SendReply

if TYPE_CHECKING:
    from collections.abc import Sequence

SENT = SendReply("sent", "a-guid", status=201)
UNKNOWN = SendReply("unknown", detail="it did not answer in time")


@pytest.mark.parametrize(
    ("reply", "fails"),
    [
        (SENT, False),
        (UNKNOWN, True),
        (SendReply("unknown", status=500), True),
        (SendReply("not_sent"), True),
        (SendReply("rejected", status=400), False),
        (SendReply("rejected", status=422), False),
    ],
)
def test_what_counts_as_a_failure(reply: SendReply, fails: bool) -> None:  # noqa: FBT001  a column of the table
    """What blames the service counts; what blames the launch does not."""
    assert is_failure(reply) is fails


def find_longest_run(replies: Sequence[SendReply]) -> int:
    text = "".join("x" if is_failure(reply) else " " for reply in replies)
    return max((len(run) for run in text.split()), default=0)


@given(st.data(), st.lists(st.sampled_from([SENT, UNKNOWN]), max_size=30), st.integers(1, 8))
def test_a_run_of_failures_opens_it(data: st.DataObject, replies: list[SendReply], limit: int) -> None:
    """It opens at so many failures in a row, counted as the launches started, in whatever order they end."""
    breaker = Breaker(limit)
    numbers = [breaker.enter() for _ in replies]
    ended = data.draw(st.permutations(list(zip(numbers, replies, strict=True))))
    opened = [breaker.observe(number, reply) for number, reply in ended]
    assert any(opened) == (find_longest_run(replies) >= limit)


def test_quick_failures_do_not_outrun_slow_successes() -> None:
    """Every second send fails at once, the others succeed later: that is no dead service."""
    breaker = Breaker(10)
    numbers = [breaker.enter() for _ in range(1000)]
    assert not any(breaker.observe(number, UNKNOWN) for number in numbers[::2])


BUSY = SendReply("unknown", detail="HTTP 429", status=429, is_busy=True)


def test_pauses_without_a_success_open_it() -> None:
    """A service that asks for the fifth pause in a row, and accepts nothing in between, ends the run."""
    breaker = Breaker(10)
    assert [breaker.observe(breaker.enter(), BUSY) for _ in range(5)] == [False, False, False, False, True]


def test_a_success_between_pauses_keeps_it_closed() -> None:
    """A service that limits the rate, and accepts in between, is no dead one."""
    breaker = Breaker(10)
    for _ in range(20):
        assert not breaker.observe(breaker.enter(), BUSY)
        assert not breaker.observe(breaker.enter(), SENT)
