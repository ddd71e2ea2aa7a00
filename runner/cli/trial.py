"""`runner apply --test-to`: the first recipients' texts and the largest, sent to one's own phone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from runner.campaign.phone import mask_phone
from runner.cli.approval import approve_sending
from runner.cli.circumstances import CircumstanceReader
from runner.cli.console import count_words, note
from runner.cli.phone_list import parse_phones
from runner.cli.planning import plan_campaigns
from runner.errors import LimitError, ServiceError
from runner.ledger.model import Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.cli.planning import Planned
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.ledger.recorded import Record
    from runner.plan.model import PlannedLaunch, PlanOptions

TRIALS = 3
"""Launches that are tried of each message, and of each of its arms; one more if a later one is larger."""
TAG_SUFFIX = "-test"


def send_trial(
    workspace: Workspace, scope: Scope, options: PlanOptions, phone: str, *, is_approved: bool
) -> int:
    """Send what the first recipients of each message and arm would get to `phone`, and record nothing.

    The one that takes the most segments comes first: if any text is cut or split, it is this. What is
    deferred, and what everybody already has, is tried, too: one may text oneself at any time. The launches
    carry the message's tag with `-test` behind it, so that they stay out of its results. The record is only
    read, as by `runner plan`: no lock, and nothing is settled.

    Args:
        workspace: where to send.
        scope: says which campaigns.
        options: what the user asks of the plan.
        phone: `--test-to`.
        is_approved: send without asking.

    Raises:
        UsageError: `phone` is none, or there is nobody to ask.
        LimitError: whoever has `phone` opted out, or may have; or no recipient is left to take texts from.
        ServiceError: the service did not take a launch.
    """
    (own,) = parse_phones([phone])
    anytime = replace(options, ignore_time=True)
    with workspace.open_ledger_if_present() as opened:
        reader = CircumstanceReader(workspace, opened, workspace.now())
        planned = plan_campaigns(
            workspace, scope, anytime, lambda c: _as_if_new(workspace.read_record(opened, c)), reader
        )
    _refuse_opted_out(planned, own)
    launches = [launch for item in planned for launch in choose_launches(item.planner.iterate_launches())]
    if not launches:
        raise LimitError(
            "--test-to: no recipient is left whose texts could be tried: nothing was sent",
            hint="`runner plan` says what keeps them from being texted",
        )
    what = f"{count_words(len(launches), 'test launch', 'test launches')} to {mask_phone(own)}"
    approve_sending(f"Send {what}?", is_approved=is_approved)
    _send_to(workspace, launches, own)
    if not scope.quiet:
        note(f"Sent {what}; nothing was recorded.")
    return 0


def _send_to(workspace: Workspace, launches: Iterable[PlannedLaunch], own: str) -> None:
    with workspace.open_service() as (client, _):
        for launch in launches:
            definition = {**launch.payload.definition, "tag": launch.message.tag + TAG_SUFFIX}
            reply = client.send(json.dumps(definition, ensure_ascii=False), [own])
            if reply.outcome != "sent":
                raise ServiceError(f"the test launch of {launch.message.id} was not accepted: {reply.detail}")


def _as_if_new(record: Record) -> Record:
    """Return a record without deliveries: samples show what a message says, whoever has it already."""
    return replace(record, known=Known({}, {}, record.known.forgotten))


def _refuse_opted_out(planned: Iterable[Planned], phone: str) -> None:
    for item in planned:
        suppressions = item.circumstances.suppressions
        found = suppressions.find(phone) if suppressions is not None else None
        if found is not None:
            how = "opted out" if found == "confirmed" else "may have opted out"
            raise LimitError(
                f"--test-to: whoever has {mask_phone(phone)} {how} on {item.plan.target}: nothing was sent",
                hint="name a phone of your own; `runner optouts remove` is for who wants to be texted again",
            )


@dataclass(slots=True)
class _Choice:
    """What is tried of one message, as one arm sends it."""

    first: list[PlannedLaunch] = field(default_factory=list)
    largest: PlannedLaunch | None = None

    def offer(self, launch: PlannedLaunch) -> None:
        if self.largest is None or launch.payload.segments_max > self.largest.payload.segments_max:
            self.largest = launch
        if len(self.first) < TRIALS:
            self.first.append(launch)

    def list_launches(self) -> list[PlannedLaunch]:
        largest = [self.largest] if self.largest is not None else []
        return [*largest, *(launch for launch in self.first if launch is not self.largest)]


def choose_launches(launches: Iterable[PlannedLaunch]) -> Iterator[PlannedLaunch]:
    """Yield the launches to try: of each message and arm the largest, then the first ones.

    Args:
        launches: those of a plan.
    """
    choices: dict[tuple[str, str | None], _Choice] = {}
    for launch in launches:
        choices.setdefault((launch.message.id, launch.arm), _Choice()).offer(launch)
    for choice in choices.values():
        yield from choice.list_launches()
