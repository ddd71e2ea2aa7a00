"""Writes the launches of a plan that this process has made as a plan set, for the workers of a cluster."""

from __future__ import annotations

import secrets
from itertools import islice
from typing import TYPE_CHECKING

from runner.cluster.plan_set import PlanSet, write_partition

if TYPE_CHECKING:
    from runner.cli.planning import Planned

_RECIPIENTS = 100_000
"""Of one partition, about."""
_FOR_EACH_SLOT = 2
"""Partitions at least for each task that can run at once, so that none is left with most of the work."""


def write_plan_parts(item: Planned, scratch: str, slots: int) -> PlanSet:
    """Write a plan's launches, in their order, in files of about the same number; return them as a set.

    Args:
        item: the plan.
        scratch: the URL of the folder for it; a folder of the set's own is made there.
        slots: tasks that can run at once.

    Raises:
        PlanChangedError: a file of the campaign has changed since it was planned.
        RunnerError: a file cannot be written.
    """
    name, plan = item.campaign.name, item.plan
    launches = sum(message.launches for message in plan.messages)
    recipients = sum(message.to_send for message in plan.messages)
    count = max(1, min(launches, max(_FOR_EACH_SLOT * slots, -(-recipients // _RECIPIENTS))))
    url = f"{scratch}/plan-{secrets.token_hex(4)}"
    waiting, drafts = item.planner.iterate_launches(), item.planner.list_drafts()
    sizes = [(launches * (each + 1)) // count - (launches * each) // count for each in range(count)]
    parts = tuple(
        write_partition(url, name, each, islice(waiting, size), drafts) for each, size in enumerate(sizes)
    )
    # The end of the audience is read, too: it must be the one that was planned.
    next(waiting, None)
    return PlanSet(url, (), None, None, item.circumstances.now, plan.digest, {name: parts})
