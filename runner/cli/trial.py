"""`runner apply --test-to`: the first recipients' texts, sent to one's own phone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from runner.campaign.phone import PhoneProblem, mask_phone, parse_phone
from runner.cli.consent import require_consent
from runner.cli.console import count_words, note
from runner.cli.planning import plan_campaigns
from runner.errors import ServiceError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.cli.planning import Planned
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.plan.model import PlannedLaunch, PlanOptions

TRIALS = 3
"""Recipients whose texts are tried, of each message."""
TAG_SUFFIX = "-test"


def send_trial(
    workspace: Workspace, scope: Scope, options: PlanOptions, phone: str, *, is_approved: bool
) -> int:
    """Send what the first recipients of each message would get to `phone`, and record nothing.

    The launches carry the message's tag with `-test` behind it, so that they stay out of its results. The
    record is only read, as by `runner plan`: no lock, and nothing is settled.

    Args:
        workspace: where to send.
        scope: says which campaigns.
        options: what the user asks of the plan.
        phone: `--test-to`.
        is_approved: send without asking.

    Raises:
        UsageError: `phone` is none, or there is nobody to ask.
        ServiceError: the service did not take a launch.
    """
    parsed = parse_phone(phone, None)
    if isinstance(parsed, PhoneProblem):
        raise UsageError(
            f"--test-to {phone}: {parsed.reason}", hint=parsed.hint or "write it as in +14155550101"
        )
    with workspace.open_ledger_if_present() as opened:
        planned = plan_campaigns(workspace, scope, options, lambda c: workspace.read_record(opened, c))
    launches = [launch for item in planned for launch in _first_launches(item)]
    what = f"{count_words(len(launches), 'test launch', 'test launches')} to {mask_phone(parsed)}"
    require_consent(f"Send {what}?", is_approved=is_approved)
    with workspace.open_service() as (client, _):
        for launch in launches:
            definition = {**launch.payload.definition, "tag": launch.message.tag + TAG_SUFFIX}
            reply = client.send(json.dumps(definition, ensure_ascii=False), [parsed])
            if reply.outcome != "sent":
                raise ServiceError(f"the test launch of {launch.message.id} was not accepted: {reply.detail}")
    if not scope.quiet:
        note(f"Sent {what}; nothing was recorded.")
    return 0


def _first_launches(item: Planned) -> Iterator[PlannedLaunch]:
    counts: dict[str, int] = {}
    for launch in item.planner.iterate_launches():
        taken = counts.get(launch.message.id, 0)
        if taken < TRIALS:
            counts[launch.message.id] = taken + 1
            yield launch
        if all(counts.get(message.id, 0) >= TRIALS for message in item.plan.messages):
            return
