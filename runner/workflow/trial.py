"""`runner apply --test-to`: some texts of a plan, sent to one's own phone and recorded nowhere."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from runner.audience.phone import mask_phone
from runner.errors import LimitError, ServiceError
from runner.ledger.model import RecordedDeliveries
from runner.wording import count_words
from runner.workflow.apply import prepare_run
from runner.workflow.failures import Failures
from runner.workflow.observer import note
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.planning import plan_campaigns
from runner.workflow.records.phones import parse_phones

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.campaign.model import Campaign
    from runner.ledger.record.campaign_record import Record
    from runner.plan.model import PlannedLaunch
    from runner.workflow.apply import ApplyOptions
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.workspace import Workspace

TRIALS = 3
"""Launches tried of each message and arm; one more if a later one is larger."""
TAG_SUFFIX = "-test"


def try_texts(scope: Scope, options: ApplyOptions, phone: str, approve: Callable[[str], None]) -> int:
    """Send the first recipients' texts of each message and arm to one's own phone, and record nothing.

    Returns the exit code: that of campaigns which were left out, else 0.

    The text with the most segments comes first, to show cuts and splits. Deferred and delivered texts are
    included. The launches' tags end in `-test`, to stay out of results. As in `runner plan`, the record is
    only read: no lock, no settling. `approve` gets a summary, and raises to refuse.
    """
    scope, workspace, plan_options = prepare_run(scope, options)
    (own,) = parse_phones([phone])
    failures = Failures()
    with workspace.open_ledger_for_reading() as opened:
        reader = PlanContextReader(workspace, opened, workspace.now(), is_for_any_time=True)

        def find_record(campaign: Campaign) -> Record:
            # Without deliveries, so that delivered messages are sampled, too.
            return replace(workspace.read_record(opened, campaign), known=RecordedDeliveries({}, {}))

        planned = plan_campaigns(scope, plan_options, find_record, reader, failures)
    _refuse_opted_out(planned, own)
    launches = [launch for item in planned for launch in choose_launches(item.iterate_launches())]
    if not launches:
        raise LimitError(
            "--test-to: no recipient is left whose texts could be tried: nothing was sent",
            hint="`runner plan` says what keeps them from being texted",
        )
    what = f"{count_words(len(launches), 'test launch', 'test launches')} to {mask_phone(own)}"
    approve(what)
    _send_to(workspace, launches, own)
    note(f"Sent {what}; nothing was recorded.")
    return failures.find_exit_code(0)


def _send_to(workspace: Workspace, launches: Iterable[PlannedLaunch], own: str) -> None:
    with workspace.open_service() as (client, _):
        for launch in launches:
            definition = {**launch.payload.definition, "tag": launch.message.tag + TAG_SUFFIX}
            reply = client.send(json.dumps(definition, ensure_ascii=False), [own])
            if reply.outcome != "sent":
                raise ServiceError(f"the test launch of {launch.message.id} was not accepted: {reply.detail}")


def _refuse_opted_out(planned: Iterable[PlanResult], phone: str) -> None:
    for item in planned:
        suppressions = None if item.planner is None else item.planner.context.suppressions
        found = suppressions.find(phone) if suppressions is not None else None
        if found is not None:
            how = "opted out" if found == "confirmed" else "may have opted out"
            raise LimitError(
                f"--test-to: whoever has {mask_phone(phone)} {how} on {item.plan.target}: nothing was sent",
                hint="name a phone of your own; `runner optouts remove` is for who wants to be texted again",
            )


def choose_launches(launches: Iterable[PlannedLaunch]) -> Iterator[PlannedLaunch]:
    """Yield the launches to try: the largest of each message and arm, then the first ones."""
    first: dict[tuple[str, str | None], list[PlannedLaunch]] = {}
    largest: dict[tuple[str, str | None], PlannedLaunch] = {}
    for launch in launches:
        kind = launch.message.id, launch.arm
        some = first.setdefault(kind, [])
        if len(some) < TRIALS:
            some.append(launch)
        if kind not in largest or launch.payload.segments_max > largest[kind].payload.segments_max:
            largest[kind] = launch
    for kind, some in first.items():
        yield largest[kind]
        yield from (launch for launch in some if launch is not largest[kind])
