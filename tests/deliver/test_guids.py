"""Guids that the service names: each of one launch."""

from __future__ import annotations

from runner.delivery.intent_log import Guids
from runner.service.model import SendReply


def test_a_guid_in_another_case_is_the_same_guid() -> None:
    """Hexadecimal comes in either case: a launch that is named so, too, is named twice."""
    guids = Guids(["0ld"])
    first, second, third = (SendReply("sent", project_launch_guid=guid) for guid in ("c1f5", "C1F5", "0LD"))
    assert guids.judge(first) == first
    assert [guids.judge(reply).outcome for reply in (second, third)] == ["unknown"] * 2
