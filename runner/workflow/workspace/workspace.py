"""The target, ledger, service and campaign records of a command."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from runner.errors import LockfileError, RunnerError, UsageError
from runner.ledger.database import Ledger
from runner.ledger.engine import show_url
from runner.ledger.lockfile.writer import rewrite_lockfile
from runner.ledger.locks.campaign_lock import LockHolder, find_run_url, hold_campaign_lock
from runner.ledger.model import format_moment
from runner.ledger.record.campaign_record import (
    enter_head,
    enter_record,
    is_overtaken,
    read_filled_head,
    read_record,
)
from runner.ledger.record.deliveries import count_accepted
from runner.ledger.record.recorded import CampaignRecord, Identity
from runner.service.target import (
    SANDBOX,
    Credentials,
    Target,
    TargetsProblemError,
    choose_target,
    read_targets,
)
from runner.source.diagnostic import Problems
from runner.source.storage import stamp_file
from runner.workflow.campaigns import find_campaign_files, find_targets_file, refuse_errors, show_path
from runner.workflow.observer import note, warn
from runner.workflow.workspace.folders import (
    make_sandbox_database,
    make_state_folder,
    refuse_committed_state,
    sandbox_database,
    state_folder,
)
from runner.workflow.workspace.record_files import OtherRecords, SuppressionFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.ledger.locks.campaign_lock import CampaignLock
    from runner.ledger.people.suppressions import Told
    from runner.ledger.record.recorded import Record
    from runner.sandbox.rehearsal.simulate import SimulationSummary
    from runner.service.client import ServiceClient
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.state_remote import StateRemote


MANY_LAUNCHES = 100_000
_CLOCK_TIMEOUT_S = 30.0
_FURTHEST_AHEAD = timedelta(days=3660)
_Head = TypeVar("_Head", bound=CampaignRecord)


def advise_summary(ledger: Ledger, campaign: str, record: CampaignRecord) -> str | None:
    """Return advice for a lockfile with very many launches, or None."""
    campaign_id, _ = record.require_entered()
    with ledger.reading() as connection:
        launches = count_accepted(connection, campaign_id)
    if launches <= MANY_LAUNCHES:
        return None
    return (
        f"{campaign}: its lockfile holds {launches:,} launches. With `lockfile: summary` in the campaign it "
        "holds counts and digests instead, and the ledger the rest."
    )


def describe_this_run(since: str, environment: Mapping[str, str]) -> LockHolder:
    """Return host, process and, in CI, the address of the job's page.

    `since` is when the lock was taken (UTC, ISO 8601).
    """
    return LockHolder(socket.gethostname(), os.getpid(), find_run_url(environment), since)


@dataclass(frozen=True)
class Workspace:
    """The target of a command, with its service, ledger, suppressions and state remote.

    `targets` has all of `targets.yaml`, and `stamps` that file's stamp by its path; `state` is None if there
    is no state remote.
    """

    target: Target
    ledger_url: str
    suppressions: SuppressionFiles
    targets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    state: StateRemote | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    stamps: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    _told: list[Told] = field(default_factory=list, init=False, repr=False, compare=False)
    _writers: list[Ledger] = field(default_factory=list, init=False, repr=False, compare=False)
    _said: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @classmethod
    def open(cls, scope: Scope, *, asks_service: bool = False) -> Workspace:
        """Build a workspace from options, environment and the `targets.yaml` beside the scope's paths.

        With `asks_service`, the target's credentials must be set: others read and change records alone.

        Raises:
            RunnerError: the target is missing or ambiguous, or its credentials are missing.
        """
        file = find_targets_file(scope.paths)
        stamps = {str(file): stamp_file(str(file))}
        try:
            targets = read_targets(file, scope.environ)
        except TargetsProblemError as error:
            problems = Problems()
            problems.extend(error.diagnostics)
            refuse_errors(problems, quiet=scope.quiet)
            raise
        target = choose_target(scope.target, targets, scope.environ, needs_credentials=asks_service)
        if target.base_url is not None:
            refuse_committed_state()
        state = _open_state(scope, target) if scope.state_remote else None
        suppressions = SuppressionFiles.find(scope.paths, target.name, target.state_key)
        workspace = cls(
            target, scope.ledger or default_ledger_url(), suppressions, targets, state, scope.environ, stamps
        )
        if scope.verbose:
            note(f"Target: {workspace.target.name}. Ledger: {show_url(workspace.ledger_url)}.")
        return workspace

    @classmethod
    def open_known(cls, scope: Scope) -> Workspace:
        """Build a workspace where there are campaigns, or a ledger: elsewhere nobody would heed its records.

        Raises:
            RunnerError: there are neither; or as `open`.
        """
        workspace = cls.open(scope)
        if scope.ledger is None and not Ledger.exists(workspace.ledger_url):
            find_campaign_files(scope.paths)
        return workspace

    def now(self) -> datetime:
        """Return the present moment in UTC, by the sandbox's clock if that is the target.

        `runner sandbox clock advance` thus rehearses a campaign's days in a minute.

        Raises:
            RunnerError: the sandbox's database cannot be read.
        """
        return datetime.now(UTC) + self.ahead

    @cached_property
    def ahead(self) -> timedelta:
        """The difference between the clock of `now` (a sandbox has its own) and this machine's.

        Raises:
            RunnerError: the sandbox's database cannot be read.
        """
        if self.target.base_url is not None:
            # By no other name: a service must not move the clock of those who text real people.
            return self._ask_sandbox() if self.target.name == SANDBOX else timedelta()
        if not self.may_know_launches:
            return timedelta()
        # Imported here: slow to import, and only the sandbox needs it.
        from runner.sandbox.clock import read_offset
        from runner.sandbox.sandbox_errors import SandboxError

        try:
            return read_offset(sandbox_database())
        except SandboxError as error:
            raise RunnerError(str(error)) from None

    def _ask_sandbox(self) -> timedelta:
        """Return how far the clock of a served sandbox is ahead; nothing if it doesn't say."""
        if self.target.credentials is None:
            return timedelta()
        # Imported here: the HTTP libraries are slow to import.
        from runner.service.connection import Connection, NetworkError

        connection = Connection(
            replace(self.target, read_timeout=_CLOCK_TIMEOUT_S), verify=ca_bundle(self.environ)
        )
        try:
            answer = connection.get("/_sandbox/state", {})
            ahead = timedelta(seconds=float(json.loads(answer.body)["clock_offset_s"]))
        except (NetworkError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            # Whoever needs the service says that it cannot be reached.
            return timedelta()
        finally:
            connection.close()
        return ahead if timedelta() <= ahead <= _FURTHEST_AHEAD else timedelta()

    def now_text(self) -> str:
        """Return the present moment in the format of records."""
        return format_moment(self.now())

    def identify(self, campaign: Campaign) -> Identity:
        """Return the campaign and target of a record, with all places of its lockfiles.

        Raises:
            GitError: the state remote cannot be read.
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

    @cached_property
    def others(self) -> OtherRecords:
        """The target's lockfiles that are not beside their campaigns; searched for once."""
        return OtherRecords(self.target.name)

    @contextmanager
    def open_ledger(self) -> Iterator[Ledger]:
        """Open the ledger for writing; create it if missing."""
        with self.open_bare_ledger() as ledger:
            self.suppressions.absorb(ledger)
            self._writers.append(ledger)
            try:
                yield ledger
            except BaseException:
                # The user must see the error that ended the command.
                with suppress(RunnerError):
                    self.suppressions.write(ledger)
                raise
            finally:
                self._writers.remove(ledger)
            self.suppressions.write(ledger)

    @contextmanager
    def open_bare_ledger(self) -> Iterator[Ledger]:
        """Open the ledger for writing without filling it.

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

    def read_record(self, ledger: Ledger | None, campaign: Campaign, *, counts_only: bool = False) -> Record:
        """Return a campaign's record, including people held according to files; write nothing."""
        identity = self.identify(campaign)
        if not counts_only:
            holds = self.read_told(ledger).holds
            held = tuple(entry for entry in holds if entry["campaign"] in identity.names)
            identity = replace(identity, held=held)
        return self._checked(read_record(ledger, identity, counts_only=counts_only), campaign)

    def read_told(self, ledger: Ledger | None) -> Told:
        """Return suppressed recipients and paused campaigns, from ledger and files together.

        Cached, except by commands that write.

        Raises:
            LedgerError: the ledger cannot be read, or its key is missing.
            SuppressionsError: a file cannot be read, or its signature is invalid.
        """
        if not self._told or self._writers:
            self._told[:] = [self.suppressions.read(ledger, self.others.waiting)]
        return self._told[0]

    def read_filled_head(self, ledger: Ledger | None, campaign: Campaign) -> CampaignRecord:
        """Return the head of a campaign's record if the ledger has all its launches; write nothing."""
        return self._checked(read_filled_head(ledger, self.identify(campaign)), campaign)

    def enter_record(self, ledger: Ledger, campaign: Campaign, *, counts_only: bool = False) -> Record:
        """Return a campaign's record, after filling the ledger from the lockfile."""
        identity, salt = self.identify(campaign), secrets.token_hex(16)
        return self._checked(enter_record(ledger, identity, salt, counts_only=counts_only), campaign)

    def enter_head(self, ledger: Ledger, campaign: Campaign) -> CampaignRecord:
        """Return the head of a campaign's record, after filling the ledger from the lockfile."""
        return self._checked(enter_head(ledger, self.identify(campaign), secrets.token_hex(16)), campaign)

    def hold_lock(
        self, ledger: Ledger, campaign: Campaign, *, timeout_s: float = 0
    ) -> AbstractContextManager[CampaignLock]:
        """Hold the lock of a campaign, under all of its names, while the block lasts.

        `timeout_s` limits the wait for another run.

        Raises:
            RunLockedError: another run still holds it.
        """
        identity = self.identify(campaign)
        holder = describe_this_run(utc_now(), self.environ)
        return hold_campaign_lock(ledger, identity.target, identity.names, holder, timeout_s=timeout_s)

    def rewrite_lockfile(self, ledger: Ledger, campaign: Campaign, record: CampaignRecord) -> None:
        """Rewrite a campaign's lockfile from the ledger, under the campaign's lock.

        Raises:
            LockfileError: it cannot be written, or is no longer readable.
        """
        identity = self.identify(campaign)
        if is_overtaken(record, identity):
            # Import what git has brought meanwhile, before the file is rewritten.
            record = self._enter_again(ledger, campaign)
        if rewrite_lockfile(ledger, identity, record) and not identity.keeps_summary:
            advice = advise_summary(ledger, campaign.name, record)
            if advice is not None:
                self._say_once(note, advice)

    def _enter_again(self, ledger: Ledger, campaign: Campaign) -> CampaignRecord:
        try:
            return self.enter_head(ledger, campaign)
        except LockfileError as error:
            raise LockfileError(
                error.message, hint=f"the ledger has all that was sent; {error.hint}"
            ) from None

    def _checked(self, record: _Head, campaign: Campaign) -> _Head:
        identity = self.identify(campaign)
        for file in identity.left_behind:
            self._say_once(warn, _say_left_behind(campaign, file, identity.lockfile))
        for file in record.merged:
            self._say_once(
                warn,
                f"{show_path(file)} was merged by git: the launches of both sides count as sent; "
                "the next `runner apply` or `runner reconcile` writes it clean",
            )
        return record

    def _say_once(self, say: Callable[[str], None], text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            say(text)

    @contextmanager
    def open_service(
        self, concurrency: int | None = None, wait: Callable[[float], bool | None] = time.sleep
    ) -> Iterator[tuple[ServiceClient, Target]]:
        """Yield a client of the target's service, and the target; start the sandbox if it is the target.

        The target has the settings that the sandbox was started with. `wait` sleeps between attempts when the
        service asks for it, and returns True to stop; `concurrency` None means the target's own.

        Raises:
            RunnerError: the sandbox cannot be started.
        """
        # Imported here: the HTTP libraries are slow to import.
        from runner.service.client import ServiceClient
        from runner.service.connection import Connection

        with _reach_target(self.target) as reached:
            chosen = reached if concurrency is None else replace(reached, concurrency=concurrency)
            connection = Connection(chosen, verify=ca_bundle(self.environ))
            try:
                yield ServiceClient(chosen, connection, wait=wait), chosen
            finally:
                connection.close()

    @property
    def may_know_launches(self) -> bool:
        """True if the target's service can have launches; a sandbox that never ran has none."""
        return self.target.base_url is not None or sandbox_database().exists()

    def simulate_answers(self, *, seed: int, response_rate: float) -> SimulationSummary:
        """Let simulated participants answer on the embedded sandbox, and advance its clock.

        The same `seed` gives the same participants; `response_rate` (0 to 1) is the share who reply.

        Raises:
            UsageError: the target is another service.
            RunnerError: the sandbox's database cannot be used.
        """
        if self.target.base_url is not None:
            raise UsageError(
                f"the target {self.target.name!r} is no built-in sandbox: its participants are not simulated",
                hint="leave RUNNER_BASE_URL out of the environment, and take the target `sandbox`",
            )
        # Imported here: only the sandbox needs it.
        from runner.sandbox.rehearsal.participants import Habits
        from runner.sandbox.rehearsal.simulate import simulate
        from runner.sandbox.sandbox_errors import SandboxError

        try:
            return simulate(make_sandbox_database(), seed=seed, habits=Habits(response_rate))
        except SandboxError as error:
            raise RunnerError(str(error)) from None


def default_ledger_url() -> str:
    """Return the URL of the SQLite ledger below `.runner/`."""
    return f"sqlite:///{state_folder() / 'ledger.sqlite'}"


def utc_now() -> str:
    """Return this machine's time in the format of records."""
    return format_moment(datetime.now(UTC))


def _say_left_behind(campaign: Campaign, file: Path, own: Path) -> str:
    said = f"{show_path(file)} is a record of {campaign.name}, which has moved, and counts: "
    if own.exists():
        return f"{said}remove it once {show_path(own)} is committed, which has all of it after `runner apply`"
    return f"{said}`git mv` it along, to {show_path(own)}"


def _open_state(scope: Scope, target: Target) -> StateRemote:
    # Imported here: slow to import, and rarely needed.
    from runner.workflow.workspace.state_remote import StateRemote

    return StateRemote.open(scope.state_remote or "", target, scope.state_lease_s)


def ca_bundle(environment: Mapping[str, str]) -> bool | str:
    """Return the CA bundle that the environment names, or True for the default."""
    return environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE") or True


@contextmanager
def _reach_target(target: Target) -> Iterator[Target]:
    if target.base_url is not None:
        yield target
        return
    # Imported here: a web server is slow to import, and only the sandbox needs it.
    from runner.sandbox.sandbox_errors import SandboxError
    from runner.sandbox.web.server import running_service

    try:
        with running_service(make_sandbox_database(), sends_webhooks=False) as service:
            credentials = Credentials(service.username, service.api_key)
            yield replace(target, base_url=service.url, credentials=credentials)
    except SandboxError as error:
        raise RunnerError(str(error)) from None
