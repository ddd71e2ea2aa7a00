"""Composes what a command works with: the target, the ledger, the service."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from runner.cli.campaigns import find_targets_file, show_path
from runner.cli.console import note, warn
from runner.cli.diagnostics import refuse_errors
from runner.cli.folders import make_state_folder, refuse_committed_state, state_folder
from runner.cli.holder import describe_this_run
from runner.cli.lockfile_advice import advise_summary
from runner.cli.other_records import OtherRecords
from runner.cli.service_access import find_clock_lead, open_service
from runner.cli.suppressions import SuppressionFiles
from runner.errors import LockfileError, RunnerError
from runner.ledger.database import Ledger, show_url
from runner.ledger.identity import Identity
from runner.ledger.lock import hold_campaign_lock
from runner.ledger.moment import format_moment
from runner.ledger.record import enter_head, enter_record, is_overtaken, read_head, read_record
from runner.ledger.recorded import RecordHead
from runner.ledger.rewriting import rewrite_lockfile
from runner.ledger.summed_record import enter_summed_record, read_summed_record
from runner.service.target import Target, TargetsProblemError, choose_target, read_targets
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.cli.scope import Scope
    from runner.cli.state_remote import StateRemote
    from runner.ledger.lease_wait import LiveLeases
    from runner.ledger.lock import CampaignLock
    from runner.ledger.recorded import Record, SummedRecord
    from runner.ledger.suppressions import Told
    from runner.service.client import ServiceClient

_Head = TypeVar("_Head", bound=RecordHead)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where a command sends, and where it records.

    Attributes:
        target: where it sends.
        ledger_url: where it records.
        suppressions: where the target's opt-outs and paused campaigns are kept beside the ledger.
        targets: what `targets.yaml` says, of other targets as well.
        state: what all machines share of the record; None if there is no state remote.
    """

    target: Target
    ledger_url: str
    suppressions: SuppressionFiles
    targets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: StateRemote | None = None
    _ahead: list[timedelta] = field(default_factory=list, init=False, repr=False, compare=False)
    _told: list[Told] = field(default_factory=list, init=False, repr=False, compare=False)
    _writers: list[Ledger] = field(default_factory=list, init=False, repr=False, compare=False)
    _others: list[OtherRecords] = field(default_factory=list, init=False, repr=False, compare=False)
    _said: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @classmethod
    def open(cls, scope: Scope, *, needs_credentials: bool = True) -> Workspace:
        """Compose a workspace from options, environment and `targets.yaml`.

        Args:
            scope: what the command was given; `targets.yaml` is looked for beside its paths.
            needs_credentials: whether the service has to be asked.

        Raises:
            RunnerError: they don't say clearly where to send.
        """
        try:
            targets = read_targets(find_targets_file(scope.paths), os.environ)
        except TargetsProblemError as error:
            problems = Problems()
            problems.extend(error.diagnostics)
            refuse_errors(problems, quiet=scope.quiet)
            raise
        target = choose_target(scope.target, targets, os.environ, needs_credentials=needs_credentials)
        if target.base_url is not None:
            refuse_committed_state()
        state = _open_state(scope, target) if scope.state_remote else None
        suppressions = SuppressionFiles.find(scope.paths, target.name, target.state_key)
        workspace = cls(target, scope.ledger or default_ledger_url(), suppressions, targets, state)
        if scope.verbose:
            note(f"Target: {workspace.target.name}. Ledger: {show_url(workspace.ledger_url)}.")
        return workspace

    def now(self) -> datetime:
        """Return the present moment, in UTC: on the sandbox's own clock if that is the target.

        So a campaign's days can be rehearsed in a minute: `runner sandbox clock advance`.

        Raises:
            RunnerError: the sandbox's database cannot be read.
        """
        return datetime.now(UTC) + self.find_ahead()

    def find_ahead(self) -> timedelta:
        """Return how far the clock that `now` goes by is ahead of this machine's.

        Raises:
            RunnerError: the sandbox's database cannot be read.
        """
        if not self._ahead:
            self._ahead.append(find_clock_lead(self.target))
        return self._ahead[0]

    def now_text(self) -> str:
        """Return the present moment as the records write it."""
        return format_moment(self.now())

    def identify(self, campaign: Campaign) -> Identity:
        """Return what a campaign's record on this target goes by.

        Raises:
            GitError: there is a state remote, and what it says cannot be read.
        """
        identity = Identity(
            campaign.name,
            campaign.file,
            self.target.name,
            self.target.state_key,
            campaign.renamed_from,
            campaign.message_ids,
            campaign.list_surveys(),
            keeps_summary=campaign.lockfile == "summary",
        )
        others = self.others
        identity = replace(
            identity,
            left_behind=others.find_left_behind(campaign, identity),
            waiting=others.find_waiting(identity),
        )
        return identity if self.state is None else replace(identity, shared=self.state.tell(identity.names))

    @property
    def others(self) -> OtherRecords:
        """The lockfiles of the target in other places than beside their campaigns; looked for once."""
        if not self._others:
            self._others.append(OtherRecords(self.target.name))
        return self._others[0]

    @contextmanager
    def open_ledger(self) -> Iterator[Ledger]:
        """Open the ledger for writing, and create it if it isn't there.

        What the file of suppressions tells is entered first, and what has been learned is written there in
        the end, whatever has happened.

        Raises:
            LedgerError: it cannot be used.
            SuppressionsError: the file cannot be read or written, or proves nothing.
        """
        with self.open_bare_ledger() as ledger:
            self.suppressions.absorb(ledger)
            self._writers.append(ledger)
            try:
                yield ledger
            except BaseException:
                # What ended the command is what the user has to hear.
                with suppress(RunnerError):
                    self.suppressions.write(ledger)
                raise
            finally:
                self._writers.remove(ledger)
            self.suppressions.write(ledger)

    @contextmanager
    def open_bare_ledger(self) -> Iterator[Ledger]:
        """Open the ledger for writing as it is, for what fills an empty one.

        Raises:
            LedgerError: it cannot be used.
        """
        if self.ledger_url == default_ledger_url():
            make_state_folder()
        with Ledger(self.ledger_url) as ledger:
            ledger.prepare()
            yield ledger

    @contextmanager
    def open_ledger_if_present(self) -> Iterator[Ledger | None]:
        """Open the ledger for reading; None if there is none yet.

        Raises:
            LedgerError: it cannot be read.
        """
        if not Ledger.exists(self.ledger_url):
            yield None
            return
        with Ledger(self.ledger_url) as ledger:
            if ledger.is_blank():
                yield None
                return
            ledger.check_version()
            yield ledger

    def read_record(self, ledger: Ledger | None, campaign: Campaign) -> Record:
        """Return what is on record of a campaign, with those whom files say are held; writes nothing."""
        identity = self.identify(campaign)
        held = tuple(entry for entry in self.read_told(ledger).holds if entry["campaign"] in identity.names)
        return self._checked(read_record(ledger, replace(identity, held=held)), campaign)

    def read_told(self, ledger: Ledger | None) -> Told:
        """Return who is not to be texted and what waits, as ledger and files say together.

        Read once, unless this command writes: then it is as of now.

        Raises:
            LedgerError: the ledger cannot be read, or its key is not at hand.
            SuppressionsError: a file cannot be read, or proves nothing.
        """
        if not self._told or self._writers:
            self._told[:] = [self.suppressions.read(ledger, self.others.waiting)]
        return self._told[0]

    def read_head(self, ledger: Ledger | None, campaign: Campaign) -> RecordHead:
        """Return what a campaign's record goes by, without its deliveries, writing nothing."""
        return self._checked(read_head(ledger, self.identify(campaign)), campaign)

    def read_summed_record(self, ledger: Ledger | None, campaign: Campaign) -> SummedRecord:
        """Return what is on record of a campaign, the deliveries as counts and digests; writes nothing."""
        return self._checked(read_summed_record(ledger, self.identify(campaign)), campaign)

    def enter_summed_record(self, ledger: Ledger, campaign: Campaign) -> SummedRecord:
        """Return counts and digests of what is on record, after filling the ledger from the lockfile."""
        identity = self.identify(campaign)
        return self._checked(enter_summed_record(ledger, identity, secrets.token_hex(16)), campaign)

    def enter_record(self, ledger: Ledger, campaign: Campaign) -> Record:
        """Return what is on record of a campaign, after filling the ledger from the lockfile."""
        return self._checked(enter_record(ledger, self.identify(campaign), secrets.token_hex(16)), campaign)

    def enter_head(self, ledger: Ledger, campaign: Campaign) -> RecordHead:
        """Return what a campaign's record goes by, after filling the ledger from the lockfile."""
        return self._checked(enter_head(ledger, self.identify(campaign), secrets.token_hex(16)), campaign)

    def hold_lock(
        self, ledger: Ledger, campaign: Campaign, *, timeout_s: float = 0, quiet: bool = False
    ) -> AbstractContextManager[CampaignLock]:
        """Hold the lock of a campaign, under all of its names, while the block lasts.

        Args:
            ledger: open for writing.
            campaign: the campaign.
            timeout_s: for how long to wait for another run, in seconds.
            quiet: say nothing of tasks of an earlier run on a cluster that have to be waited for.

        Raises:
            RunLockedError: another run still holds it.
        """
        identity = self.identify(campaign)
        holder = describe_this_run(utc_now())
        return hold_campaign_lock(
            ledger,
            identity.target,
            identity.names,
            holder,
            timeout_s=timeout_s,
            tell=lambda leases: None if quiet else note(_say_waiting(campaign.name, leases)),
        )

    def rewrite_lockfile(self, ledger: Ledger, campaign: Campaign, record: RecordHead) -> None:
        """Write a campaign's lockfile from the ledger. To be called by who holds its lock.

        Args:
            ledger: open for writing.
            campaign: the campaign.
            record: as it was entered.

        Raises:
            LockfileError: it cannot be written, or has become one that cannot be read.
        """
        identity = self.identify(campaign)
        if is_overtaken(record, identity):
            # What git has brought meanwhile must be in the ledger before the file is written anew.
            record = self._enter_again(ledger, campaign)
        if rewrite_lockfile(ledger, identity, record) and not identity.keeps_summary:
            advice = advise_summary(ledger, campaign.name, record)
            if advice is not None:
                self._say_once(note, advice)

    def _enter_again(self, ledger: Ledger, campaign: Campaign) -> RecordHead:
        try:
            return self.enter_head(ledger, campaign)
        except LockfileError as error:
            raise LockfileError(
                error.message, hint=f"the ledger has all that was sent; {error.hint}"
            ) from None

    def _checked(self, record: _Head, campaign: Campaign) -> _Head:
        identity = self.identify(campaign)
        for file in identity.left_behind:
            self._warn_once(_say_left_behind(campaign, file, identity.lockfile))
        for file in record.merged:
            self._warn_once(
                f"{show_path(file)} was merged by git: the launches of both sides count as sent; "
                "the next `runner apply` or `runner reconcile` writes it clean"
            )
        return record

    def _warn_once(self, text: str) -> None:
        self._say_once(warn, text)

    def _say_once(self, say: Callable[[str], None], text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            say(text)

    def open_service(
        self, concurrency: int | None = None, wait: Callable[[float], bool | None] = time.sleep
    ) -> AbstractContextManager[tuple[ServiceClient, Target]]:
        """Open a client of the target's service, which is started first if it is the sandbox.

        Args:
            concurrency: `--concurrency`; None for the target's own.
            wait: waits for some seconds where the service asks for it; returns True if it was told to stop.

        Raises:
            RunnerError: the sandbox cannot be started.
        """
        return open_service(self.target, concurrency, wait)


def default_ledger_url() -> str:
    """Return the URL of the SQLite ledger below `.runner/`."""
    return f"sqlite:///{state_folder() / 'ledger.sqlite'}"


def utc_now() -> str:
    """Return this machine's time as the records write it."""
    return format_moment(datetime.now(UTC))


def _say_left_behind(campaign: Campaign, file: Path, own: Path) -> str:
    said = f"{show_path(file)} is a record of {campaign.name}, which stands elsewhere by now, and counts: "
    if own.exists():
        return f"{said}remove it once {show_path(own)} is committed, which has all of it after `runner apply`"
    return f"{said}`git mv` it along, to {show_path(own)}"


def _say_waiting(campaign: str, leases: LiveLeases) -> str:
    return (
        f"{campaign}: an earlier run's tasks may still send: waiting for {leases.holder}, "
        f"{leases.left_s:.0f} s at most."
    )


def _open_state(scope: Scope, target: Target) -> StateRemote:
    # Imported here: only those who keep their state on a remote pay for it.
    from runner.cli.state_remote import StateRemote

    return StateRemote.open(scope.state_remote or "", target, scope.state_lease_s)
