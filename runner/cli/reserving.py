"""Reserves launches on the state remote before they leave, and brings it their outcomes."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from runner.cli.campaigns import show_path
from runner.cli.console import note, warn
from runner.cli.holder import describe_this_run
from runner.cli.workspace import utc_now
from runner.deliver.journal import make_intent
from runner.deliver.match import digest_definition
from runner.errors import RunLockedError, RunnerError, StateLockedError
from runner.ledger.lock import hold_campaign_lock
from runner.ledger.reserved import is_own, list_open, note_own
from runner.ledger.rewriting import compose_lockfile
from runner.ledger.run_lock import JointLock, RunLock
from runner.ledger.runs import find_runs
from runner.ledger.shared import Reservation, ReservedLaunch, dump_reservation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import ExitStack

    from runner.campaign.model import Campaign
    from runner.cli.planning import Planned
    from runner.cli.state_remote import StateRemote
    from runner.cli.workspace import Workspace
    from runner.ledger.database import Ledger
    from runner.ledger.identity import Identity
    from runner.ledger.lock import CampaignLock
    from runner.ledger.model import Run
    from runner.ledger.recorded import RecordHead
    from runner.plan.model import PlannedLaunch

GROUP_LAUNCHES = 2_000
GROUP_RECIPIENTS = 100_000
"""The most launches, and recipients, that are reserved with one push."""


class Reserving:
    """Has a run's launches on the state remote before they leave; does nothing where there is none.

    Args:
        workspace: knows the remote.
        ledger: open for writing.
    """

    def __init__(self, workspace: Workspace, ledger: Ledger) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._state: StateRemote | None = workspace.state
        self._is_held = False
        self._begun: set[str] = set()

    @property
    def is_behind(self) -> bool:
        """Whether the remote could not be told of something in the end."""
        return self._state is not None and self._state.is_behind

    def hold(
        self,
        stack: ExitStack,
        timeout_s: float,
        *,
        settle_window_s: float | None = None,
        quiet: bool = False,
    ) -> None:
        """Hold the target's ref until the stack is closed; once for all of the run's campaigns.

        To be called before the lock of any campaign is taken: always in this order, runs cannot wait for
        each other in a circle.

        Args:
            stack: releases it.
            timeout_s: for how long to wait for another run, in seconds.
            settle_window_s: how long the service may take to list a launch, in seconds; None for the
                target's own.
            quiet: say nothing of waiting.

        Raises:
            StateLockedError: another run holds it.
            GitError: the remote cannot be used.
        """
        if self._state is None or self._is_held:
            return
        holder, run, ref = describe_this_run(utc_now()), secrets.token_hex(8), self._state.ref.name
        # While it is held here, a run of this ledger that hasn't let the ref go must have died.
        target = self._workspace.target
        lock = hold_campaign_lock(self._ledger, target.name, [ref], holder, timeout_s=timeout_s)
        try:
            stack.enter_context(lock)
        except RunLockedError as error:
            raise StateLockedError(error.message, hint=error.hint) from None
        with self._ledger.writing() as connection:
            note_own(connection, run)
        held = self._state.hold(
            holder,
            run,
            self._is_own,
            timeout_s=timeout_s,
            settle_s=target.settle_window if settle_window_s is None else settle_window_s,
            quiet=quiet,
        )
        stack.enter_context(held)
        self._is_held = True

    def _is_own(self, run: str) -> bool:
        with self._ledger.reading() as connection:
            return is_own(connection, run)

    def guard(self, lock: CampaignLock) -> RunLock:
        """Return a lock that is held only as long as the ref is, too."""
        return lock if self._state is None else JointLock(lock, self._state.require_held)

    def reserve(
        self, item: Planned, launches: Iterator[PlannedLaunch], run: Run | None
    ) -> Iterator[PlannedLaunch]:
        """Yield launches, each after it is on the remote: a group of them with one push.

        Args:
            item: the campaign, entered.
            launches: what is to be sent.
            run: this one.

        Raises:
            RunnerError: the remote cannot be told; those that were not yielded must not leave.
        """
        if self._state is None:
            yield from launches
            return
        for group in iterate_groups(launches):
            described = self._describe(item, group, run.id if run else None)
            self._reserve(self._state, item, self._dump(item.campaign.name, described, [run] if run else []))
            yield from group

    def keep(self, campaign: Campaign, record: RecordHead) -> None:
        """Bring a campaign's record to the remote, with nothing reserved but what is still unknown.

        If that fails, the user is told, and `is_behind` says so: ledger and lockfile have everything, and
        what stays reserved is looked up by whoever comes next.

        Args:
            campaign: this run holds its lock.
            record: as it was entered.
        """
        if self._state is None:
            return
        identity = self._workspace.identify(campaign)
        self._begun.discard(campaign.name)
        try:
            self._write(self._state, identity, record, (), is_needed=self._state.has(identity.names))
        except RunnerError as error:
            self._state.is_behind = True
            warn(f"{campaign.name}: the record could not be brought to {self._state.ref}: {error.message}")
            note(
                f"  the ledger and {show_path(identity.lockfile)} have everything: commit and push the "
                "lockfile, or run the same command again here. Until then other machines ask the service"
            )

    def _describe(
        self, item: Planned, group: Sequence[PlannedLaunch], run: str | None
    ) -> list[ReservedLaunch]:
        _, key = item.record.require_entered()
        at = self._workspace.now_text()
        pairs = ((launch, make_intent(key, item.campaign.name, launch)) for launch in group)
        return [
            ReservedLaunch(
                message=intent.message,
                key=intent.key,
                tag=intent.tag,
                payload_digest=intent.payload_digest,
                definition_digest=digest_definition(launch.payload.definition),
                reserved_at=at,
                recipients=intent.recipients,
                arm=intent.arm,
                run=run,
            )
            for launch, intent in pairs
        ]

    def _reserve(self, state: StateRemote, item: Planned, reserved: str) -> None:
        name = item.campaign.name
        if name in self._begun:
            state.add(name, reserved)
        else:
            # With the record as it is now: it names the key without which nobody can read the rest.
            identity = self._workspace.identify(item.campaign)
            self._write(state, identity, item.record, [reserved], is_needed=True)
            self._begun.add(name)

    def _write(
        self,
        state: StateRemote,
        identity: Identity,
        record: RecordHead,
        reserved: Sequence[str],
        *,
        is_needed: bool,
    ) -> None:
        campaign_id, _ = record.require_entered()
        with self._ledger.reading() as connection:
            still_open = list_open(connection, campaign_id, digest_definition)
            runs = find_runs(connection, {one.run for one in still_open if one.run is not None})
            text = compose_lockfile(connection, identity, record, is_needed=is_needed or bool(still_open))
        unknown = [self._dump(identity.name, still_open, runs)] if still_open else []
        state.replace(identity.names, text, [*unknown, *reserved])

    def _dump(self, campaign: str, launches: Sequence[ReservedLaunch], runs: Sequence[Run]) -> str:
        """Return a reservation's text, once the ledger knows that it is its own."""
        reservation = Reservation(secrets.token_hex(8), tuple(launches), tuple(runs))
        with self._ledger.writing() as connection:
            note_own(connection, reservation.id)
        macs = None if self._state is None else self._state.make_macs(campaign)
        return dump_reservation(reservation, macs)


def iterate_groups(
    launches: Iterator[PlannedLaunch], most: int = GROUP_LAUNCHES, most_recipients: int = GROUP_RECIPIENTS
) -> Iterator[list[PlannedLaunch]]:
    """Yield launches in groups, in their order.

    Args:
        launches: taken from as groups are asked for.
        most: launches in a group.
        most_recipients: after which a group is full.
    """
    group: list[PlannedLaunch] = []
    recipients = 0
    for launch in launches:
        group.append(launch)
        recipients += len(launch.phones)
        if len(group) == most or recipients >= most_recipients:
            yield group
            group, recipients = [], 0
    if group:
        yield group
