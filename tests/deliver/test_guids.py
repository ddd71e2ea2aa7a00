"""Guids that the service names: each of one launch, whoever hears of it, and when."""

from __future__ import annotations

from runner.delivery.guids import Claims, Guids
from runner.service.model import SendReply

SENT = SendReply("sent", project_launch_guid="g")


def test_a_launch_that_was_settled_meanwhile_keeps_its_guid() -> None:
    """An answer that comes late names what settling has adopted for the very launch: nothing is in doubt."""
    guids = Guids(lambda _: Claims(own={"g": 7}))
    assert guids.judge([(7, SENT)]) == [SENT]


def test_a_guid_of_another_launch_of_the_run_is_in_doubt() -> None:
    """What another process was given for another launch says nothing of either."""
    guids = Guids(lambda _: Claims(own={"g": 7}))
    assert [reply.outcome for reply in guids.judge([(8, SENT)])] == ["unknown"]


def test_a_guid_in_another_case_is_the_same_guid() -> None:
    """Hexadecimal comes in either case: a launch that is named so, too, is named twice."""
    guids = Guids()
    first, second = (
        SendReply("sent", project_launch_guid="c1f5"),
        SendReply("sent", project_launch_guid="C1F5"),
    )
    assert guids.judge([(1, first)]) == [first]
    (reply,) = guids.judge([(2, second)])
    assert reply.outcome == "unknown"
