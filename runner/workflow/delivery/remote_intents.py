"""Reservations of launches on the state remote before sending, and their outcomes."""

from __future__ import annotations

import secrets
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from runner.delivery.campaign_ref import CampaignRef
from runner.delivery.comparison import digest_definition
from runner.errors import RunLockedError, RunnerError, StateLockedError
from runner.git.lease import LeasePatience
from runner.ledger.database import find_absorbed, note_absorbed
from runner.ledger.files.lockfile import dump_reservation
from runner.ledger.files.sealed import digest_text
from runner.ledger.locks.campaign_lock import CampaignLock, hold_campaign_lock
from runner.ledger.model import ReservedLaunch
from runner.ledger.people.replies import list_launched_campaigns, list_recorded_campaigns
from runner.ledger.people.suppressions import compose_suppressions
from runner.ledger.record.campaign_record import Identity, compose_lockfile, enter_identity
from runner.ledger.record.deliveries import describe_sessions
from runner.ledger.record.entry import list_open
from runner.ledger.record.unsettled import is_settled
from runner.ledger.results.runs import find_runs
from runner.workflow.campaigns import DEFAULT_FOLDER, show_path
from runner.workflow.observer import warn
from runner.workflow.workspace.workspace import describe_this_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import ExitStack

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.locks.campaign_lock import LockHolder
    from runner.ledger.model import Run
    from runner.plan.model import PlannedLaunch
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.workspace.state_remote import StateRemote
    from runner.workflow.workspace.workspace import Workspace

GROUP_LAUNCHES = 2_000
GROUP_RECIPIENTS = 100_000
"""The most launches, and recipients, reserved with one push."""
_SHARED = ("message", "occasion", "key", "tag", "payload_digest", "recipients", "arm")
"""The fields of an intent that other machines learn."""


class RemoteIntents:
    """Reserves a run's launches on the state remote; does nothing without one."""

    def __init__(self, workspace: Workspace, ledger: Ledger) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._state: StateRemote | None = workspace.state
        # The campaigns that the ref had a record of before this run.
        self._recorded: frozenset[str] = frozenset()
        self._begun: set[str] = set()

    @property
    def is_behind(self) -> bool:
        """True if the remote could not be updated completely in the end."""
        return self._state is not None and self._state.is_behind

    def is_idle(self) -> bool:
        """Return whether no run on any machine has left launches to settle, as the remote was last read."""
        if self._state is None:
            return False
        target = self._workspace.target.name
        with self._ledger.reading() as connection:
            is_clear = is_settled(connection, target)
            recorded = list_launched_campaigns(connection, target)
        return is_clear and self._state.is_idle(recorded)

    def hold(
        self,
        stack: ExitStack,
        timeout_s: float,
        *,
        settle_window_s: float | None = None,
        makes_ref: bool = True,
    ) -> bool:
        """Hold the target's ref, for all campaigns of the run, until the stack is closed.

        Returns True if it was not held before, and is now. Call this before locking any campaign: a fixed
        order prevents deadlocks. A ref that is not there is waited for and made, if that is wished.
        """
        state, target, run = self._state, self._workspace.target, secrets.token_hex(8)
        if state is None or state.is_held or not (makes_ref or state.exists()):
            return False
        holder = describe_this_run(self._workspace.environ)
        self._lock_ref(stack, state, holder, timeout_s)
        with self._ledger.writing() as connection:
            note_absorbed(connection, [run])
        settle_s = target.settle_window if settle_window_s is None else settle_window_s
        patience = LeasePatience(timeout_s, settle_s, self._is_own)
        stack.enter_context(state.hold(holder.describe(), run, patience))
        self._recorded = frozenset(state.list_campaigns())
        return True

    def hold_all(
        self,
        stack: ExitStack,
        timeout_s: float,
        names: Iterable[str] = (),
        *,
        every_target: bool = False,
    ) -> None:
        """Hold the ref, if there is one, and all campaigns on record, with those of some `names`."""
        self.hold(stack, timeout_s, makes_ref=False)
        target = self._workspace.target.name
        found = {(target, name) for name in names}
        with self._ledger.reading() as connection:
            known = list_recorded_campaigns(connection)
            found.update(one for one in known if every_target or one[0] == target)
        holder = describe_this_run(self._workspace.environ)
        for place, theirs in groupby(sorted(found), itemgetter(0)):
            held = {name for _, name in theirs}
            stack.enter_context(hold_campaign_lock(self._ledger, place, held, holder, timeout_s=timeout_s))

    def _lock_ref(self, stack: ExitStack, state: StateRemote, holder: LockHolder, timeout_s: float) -> None:
        """Lock the ref in the ledger: a run of this ledger that still has the ref must have died then."""
        target, ref = self._workspace.target.name, state.ref.name
        try:
            lock = hold_campaign_lock(self._ledger, target, [ref], holder, timeout_s=timeout_s)
            stack.enter_context(lock)
        except RunLockedError as error:
            by = error.message.removeprefix(f"{ref} on {target} is being sent")
            raise StateLockedError(f"{state.ref} is held{by}", hint=error.hint) from None

    def has_record(self, campaign: str) -> bool:
        """Return whether the ref had a campaign's record before this run: then it lacks no machine's runs."""
        return campaign in self._recorded

    def _is_own(self, run: str) -> bool:
        with self._ledger.reading() as connection:
            return run in find_absorbed(connection, [run])

    def guard(self, lock: CampaignLock) -> CampaignLock:
        """Return a lock that is lost with the ref."""
        return lock if self._state is None else replace(lock, require_other=self._state.require_held)

    def reserve(
        self, item: PlanResult, launches: Iterator[PlannedLaunch], run: Run | None
    ) -> Iterator[PlannedLaunch]:
        """Yield launches after reserving them on the remote, a group with each push.

        Raises:
            RunnerError: the remote cannot be updated; launches not yielded must not be sent.
        """
        if self._state is None:
            yield from launches
            return
        for group in iterate_groups(launches):
            name = item.campaign.name
            if name not in self._begun:
                # With the current record, since it names the key that is needed to read the rest.
                identity = self._workspace.identify(item.campaign)
                self._stage(self._state, identity, item.record.require_entered(), is_needed=True)
                self._begun.add(name)
            described = self._describe(item, group, run)
            self._state.add_reserved(name, self._dump(name, described, [run] if run else []))
            yield from group

    def enter_all(self, key: TargetKey | None = None) -> None:
        """Enter what the remote has reserved for any campaign; `key` is None for the present one."""
        state = self._state
        for name in state.list_campaigns() if state is not None else ():
            reserved = state.list_reservations([name], key) if state is not None else []
            enter_identity(self._ledger, self._identify(name, key), reserved)

    def keep_all(self) -> None:
        """Bring the records of all campaigns that the remote has there again, as `keep` does."""
        for name in self._state.list_campaigns() if self._state is not None else ():
            identity = self._identify(name)
            self.keep(identity, enter_identity(self._ledger, identity))

    def _identify(self, name: str, key: TargetKey | None = None) -> Identity:
        return Identity(name, DEFAULT_FOLDER / f"{name}.yaml", key or self._workspace.key)

    def keep(self, identity: Identity, campaign_id: int) -> None:
        """Bring a campaign's record to the remote, when the ref is let go; the run holds its lock.

        Only unresolved launches stay reserved. After a failure the user is warned and `is_behind` is True:
        ledger and lockfile are complete, and the next run looks up the reservations.
        """
        if self._state is None or not self._state.is_held:
            return
        self._begun.discard(identity.name)
        is_there = not set(identity.names).isdisjoint(self._state.list_campaigns())
        try:
            self._stage(self._state, identity, campaign_id, is_needed=is_there)
        except RunnerError as error:
            self._state.is_behind = True
            warn(
                f"{identity.name}: the record could not be brought to {self._state.ref}: {error.message}",
                f"the ledger and {show_path(identity.lockfile)} have everything: commit and push the "
                "lockfile, or run the same command again here. Until then other machines ask the service",
            )

    def _describe(
        self, item: PlanResult, group: Sequence[PlannedLaunch], run: Run | None
    ) -> list[ReservedLaunch]:
        target, campaign = self._workspace.target.name, item.campaign
        number, key = item.record.require_entered(), self._workspace.key
        ref = CampaignRef(self._ledger, target, number, campaign.name, key, wave=campaign.wave)
        at = self._workspace.now_text()
        pairs = ((launch, ref.make_intent(launch)) for launch in group)
        return [
            ReservedLaunch(
                **{name: getattr(intent, name) for name in _SHARED},
                definition_digest=digest_definition(launch.payload.definition, key),
                reserved_at=at,
                asks=describe_sessions(intent.definition)["asks"],
                run=run.id if run else None,
            )
            for launch, intent in pairs
        ]

    def _stage(self, state: StateRemote, identity: Identity, campaign_id: int, *, is_needed: bool) -> None:
        with self._ledger.reading() as connection:
            digest = partial(digest_definition, key=self._workspace.key)
            still_open = list_open(connection, campaign_id, digest)
            runs = find_runs(connection, {one.run for one in still_open if one.run is not None})
            keeps_empty = is_needed or bool(still_open)
            pieces = compose_lockfile(connection, identity, campaign_id, keeps_empty=keeps_empty)
            text = None if pieces is None else "".join(pieces)
            suppressions = compose_suppressions(connection, identity.key)
        unknown = self._dump(identity.name, still_open, runs) if still_open else None
        state.stage_campaign(identity.names, text, unknown, suppressions)

    def _dump(self, campaign: str, launches: Sequence[ReservedLaunch], runs: Sequence[Run]) -> str:
        """Return a reservation's text, once the ledger has it as its own."""
        text = dump_reservation(self._workspace.key, campaign, launches, runs)
        with self._ledger.writing() as connection:
            note_absorbed(connection, [digest_text(text)])
        return text


def iterate_groups(
    launches: Iterator[PlannedLaunch], most: int = GROUP_LAUNCHES, most_recipients: int = GROUP_RECIPIENTS
) -> Iterator[list[PlannedLaunch]]:
    """Yield launches in groups of at most `most` launches, in order.

    A group is full once it has `most_recipients`; launches are taken lazily.
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
