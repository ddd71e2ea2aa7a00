"""The target, ledger, service and campaign records of a command.

The launches of campaigns whose files are gone are still settled, recorded and checked for opt-outs. They are
in lockfiles, or after a killed job in this machine's ledger or the state remote. Nothing of them is planned
or sent.
"""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from runner.campaign.model import Campaign
from runner.errors import LockfileError, RunnerError
from runner.ledger.database import Ledger, show_url
from runner.ledger.files.lockfile import lockfile_name
from runner.ledger.fingerprint import TargetKey
from runner.ledger.locks.campaign_lock import LockHolder, find_run_url, hold_campaign_lock
from runner.ledger.model import format_moment
from runner.ledger.people.replies import list_launched_campaigns
from runner.ledger.record.campaign_record import Identity, read_record
from runner.service.target import (
    SANDBOX,
    Credentials,
    Target,
    choose_target,
    find_key_variable,
    leads_elsewhere,
    read_targets,
)
from runner.source.diagnostic import Position, ProblemError, Problems
from runner.source.storage import stamp_file
from runner.source.targets_file import TARGETS_FILE, list_targets_files
from runner.workflow.campaigns import (
    DEFAULT_FOLDER,
    find_campaign_file,
    find_campaign_files,
    find_named,
    find_targets_file,
    refuse_errors,
    show_path,
)
from runner.workflow.observer import note, warn
from runner.workflow.workspace.folders import (
    find_prices,
    make_sandbox_database,
    make_state_folder,
    refuse_committed_state,
    require_one_service,
    sandbox_database,
    state_folder,
)
from runner.workflow.workspace.record_files import RecordFiles
from runner.workflow.workspace.state_remote import NO_REMOTE, StateRemote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from contextlib import AbstractContextManager

    from runner.ledger.locks.campaign_lock import CampaignLock
    from runner.ledger.record.campaign_record import Record
    from runner.service.client import ServiceClient
    from runner.workflow.scope import Scope


_CLOCK_TIMEOUT_S = 30.0
_FURTHEST_AHEAD = timedelta(days=3660)


def describe_this_run(environment: Mapping[str, str]) -> LockHolder:
    """Return host, process and, in CI, the address of the job's page, with the present time."""
    return LockHolder(socket.gethostname(), os.getpid(), find_run_url(environment), utc_now())


@dataclass(frozen=True)
class Workspace:
    """The target of a command, with its service, ledger, record files and state remote.

    `targets` has all of `targets.yaml`, and `stamps` that file's stamp by its path; if it `is_alone`, a
    person has said that no other machine sends.
    """

    target: Target
    ledger_url: str
    files: RecordFiles
    targets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    stamps: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    is_alone: bool = False

    @classmethod
    def open(cls, scope: Scope, *, asks_service: bool = False) -> Workspace:
        """Build a workspace from options, environment and the `targets.yaml` beside the scope's paths.

        With `asks_service`, the target's credentials must be set: others read and change records alone.
        """
        file = find_targets_file(scope.paths)
        stamps = {str(file): stamp_file(str(file))}
        try:
            targets = read_targets(file, scope.environ)
        except ProblemError as error:
            problems = Problems()
            problems.extend(error.diagnostics)
            refuse_errors(problems)
            raise
        target = choose_target(scope.target, targets, scope.environ, needs_credentials=asks_service)
        if target.base_url is not None:
            scope.share(refuse_committed_state, refuse_committed_state)
        ledger_url = scope.ledger or default_ledger_url()
        files = RecordFiles.find(scope.paths, TargetKey.of(target.name, target.state_key))
        others = [place.with_name(TARGETS_FILE) for place in files.places]
        require_one_service(target.name, targets, file, others, scope.environ)
        around = [*(path if path.is_dir() else path.parent for path in scope.paths), Path.cwd()]
        holding = [file, *list_targets_files(map(Path.absolute, around), Path.cwd())]
        target = replace(target, prices=find_prices(target.name, holding, scope.environ))
        # Looked at once, however many use cases a process has.
        files.state = scope.share(
            (StateRemote, target.name), lambda: StateRemote.choose(scope, target, ledger_url)
        )
        is_alone = (scope.state_remote or target.state_remote) == NO_REMOTE
        workspace = cls(target, ledger_url, files, targets, scope.environ, stamps, is_alone=is_alone)
        if scope.verbose:
            note(f"Target: {workspace.target.name}. Ledger: {show_url(workspace.ledger_url)}.")
        return workspace

    @classmethod
    def open_known(cls, scope: Scope) -> Workspace:
        """Build a workspace where there are campaigns, or a ledger: elsewhere nobody heeds its records."""
        workspace = cls.open(scope)
        if scope.ledger is None and not Ledger.exists(workspace.ledger_url):
            find_campaign_files(scope.paths)
        return workspace

    def now(self) -> datetime:
        """Return the present moment in UTC, by the sandbox's clock if that is the target."""
        return datetime.now(UTC) + self.ahead

    @cached_property
    def ahead(self) -> timedelta:
        """The difference between the clock of `now` (a sandbox has its own) and this machine's."""
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

    @property
    def state(self) -> StateRemote | None:
        """The state remote, if there is one."""
        return self.files.state

    @property
    def key(self) -> TargetKey:
        """The key of the target's fingerprints and seals."""
        return self.files.key

    def identify(self, campaign: Campaign) -> Identity:
        """Return the campaign and target of a record."""
        return Identity(
            campaign.name,
            campaign.file,
            self.key,
            campaign.renamed_from,
            campaign.message_ids,
            keeps_counts=campaign.lockfile == "counts",
        )

    @contextmanager
    def open_ledger(self, *, needs_shared: bool = True) -> Iterator[Ledger]:
        """Open the ledger for writing, filled from all stores of the record; create it if missing.

        Unless it `needs_shared`, as for a person's decision, the state remote may be out of reach.
        """
        with self.open_bare_ledger() as ledger:
            self.files.fill(ledger, needs_shared=needs_shared)
            try:
                yield ledger
            except BaseException:
                # The user must see the error that ended the command.
                with suppress(RunnerError):
                    self.files.write_suppressions(ledger)
                raise
            self.files.write_suppressions(ledger)

    @contextmanager
    def open_ledger_for_reading(self) -> Iterator[Ledger]:
        """Open the ledger, filled from all stores of the record; a temporary one if there is none yet.

        A state remote that cannot be reached is named and left out: nothing is sent by what is read here.
        """
        with self.open_ledger_if_present() as present, ExitStack() as stack:
            ledger = present or stack.enter_context(_open_temporary_ledger())
            self.files.fill(ledger, needs_shared=False)
            yield ledger

    @contextmanager
    def open_bare_ledger(self) -> Iterator[Ledger]:
        """Open the ledger for writing without filling it."""
        if self.ledger_url == default_ledger_url():
            make_state_folder()
        with Ledger(self.ledger_url) as ledger:
            ledger.prepare()
            yield ledger

    @contextmanager
    def open_ledger_if_present(self) -> Iterator[Ledger | None]:
        """Open the ledger for reading without filling it; None if there is none yet."""
        if not Ledger.exists(self.ledger_url):
            yield None
            return
        with Ledger(self.ledger_url) as ledger:
            yield ledger if ledger.is_ready() else None

    def read_record(self, ledger: Ledger, campaign: Campaign) -> Record:
        """Return a campaign's record; write nothing."""
        identity = self.identify_safely(campaign)
        reserved = [] if self.state is None else self.state.list_reservations(identity.names)
        return read_record(ledger, identity, reserved)

    def hold_lock(
        self, ledger: Ledger, campaign: Campaign, *, timeout_s: float = 0
    ) -> AbstractContextManager[CampaignLock]:
        """Hold the lock of a campaign, under all of its names, while the block lasts.

        `timeout_s` limits the wait for another run.
        """
        identity = self.identify(campaign)
        holder = describe_this_run(self.environ)
        return hold_campaign_lock(ledger, identity.target, identity.names, holder, timeout_s=timeout_s)

    def identify_safely(self, campaign: Campaign) -> Identity:
        """Identify a campaign, all of whose lockfiles could be read, and whose own is its own."""
        identity = self.identify(campaign)
        own = identity.lockfile.absolute()
        for file, (name, error) in self.files.unread.items():
            if name in identity.names or file.absolute() == own:
                raise error
        name = self.files.campaigns.get(own)
        if name is not None and name not in identity.names:
            raise LockfileError(
                f"the lockfile {show_path(own)} is of the campaign {name!r}, not {identity.name!r}",
                hint="with a new name everyone would be texted again: put the old one back, or, if the "
                f"campaign was renamed, add `renamed_from: [{name}]` to it",
            )
        known = {own.with_name(lockfile_name(name, identity.target)) for name in identity.names} | {own}
        for file, name in self.files.campaigns.items():
            is_rival = name in identity.names and file not in known and file.exists()
            if is_rival and (rival := find_named(file.parent, identity.name)) is not None:
                raise LockfileError(
                    f"{show_path(file)} is the record of {show_path(rival)}, which is called "
                    f"{identity.name!r}, too",
                    hint="on a target, a name has one record: name one of the two otherwise, or have "
                    "them on two targets",
                )
        return identity

    def say_risks(self, ledger: Ledger) -> None:
        """Say what a target lacks: a certain address and, elsewhere, a secret key and a shared record."""
        written = self.targets.get("targets", {}).get(self.target.name, {}).get("base_url")
        if written is not None and written.rstrip("/") != self.target.base_url:
            warn(
                f"RUNNER_BASE_URL leads {self.target.name} to {self.target.base_url}, and not to {written}, "
                "as in targets.yaml"
            )
        if not leads_elsewhere(self.target):
            return
        if not self.key.is_secret:
            variable = find_key_variable(self.target.name, self.targets)
            note(
                f"{variable} is not set: whoever reads the record can find out whose phones are in it, and "
                "change it unnoticed. `runner key new` makes a key."
            )
        is_known = self.is_alone or ledger.file is None
        if self.state is None and not is_known:
            note(
                "Only this machine's ledger knows what is being sent: two clones that apply at once text "
                "everybody twice. Have the campaigns in a git repository with a remote `origin`, or set "
                f"`state_remote: none` for {self.target.name} in targets.yaml if one machine alone sends."
            )

    @contextmanager
    def open_service(
        self, concurrency: int | None = None, wait: Callable[[float], bool | None] = time.sleep
    ) -> Iterator[tuple[ServiceClient, Target]]:
        """Yield a client of the target's service, and the target; start the sandbox if it is the target.

        `wait` sleeps when the service asks for it, and returns True to stop; `concurrency` None means the
        target's own.
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


def default_ledger_url() -> str:
    """Return the URL of the SQLite ledger below `.runner/`."""
    return f"sqlite:///{state_folder() / 'ledger.sqlite'}"


def utc_now() -> str:
    """Return this machine's time in the format of records."""
    return format_moment(datetime.now(UTC))


def ca_bundle(environment: Mapping[str, str]) -> bool | str:
    """Return the CA bundle that the environment names, or True for the default."""
    return environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE") or True


@contextmanager
def _open_temporary_ledger() -> Iterator[Ledger]:
    with (
        TemporaryDirectory(prefix="runner-") as folder,
        Ledger(f"sqlite:///{folder}/ledger.sqlite") as ledger,
    ):
        ledger.prepare()
        yield ledger


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


def find_gone(workspace: Workspace, scope: Scope, ledger: Ledger, claimed: Collection[str]) -> list[Campaign]:
    """Return campaigns with launches whose files are gone, without their content.

    Only folders are searched, since a campaign file stands for itself. `claimed` has all names, also former
    ones, of existing campaigns.
    """
    found: dict[str, Campaign] = {}
    target = workspace.target.name
    folders = [path.absolute() for path in scope.paths or (DEFAULT_FOLDER,) if path.is_dir()]
    for file, (_, error) in workspace.files.unread.items():
        if find_campaign_file(file, target) is None:
            warn(f"the campaign's file of a record is gone, and {error.message}")
    for file, name in sorted(workspace.files.campaigns.items()):
        is_below = any(file.absolute().is_relative_to(folder) for folder in folders)
        # A campaign file of another name in its place reports this itself.
        if is_below and name not in claimed and find_campaign_file(file, target) is None:
            stem = file.name.removesuffix(f".{target}.lock.json")
            found.setdefault(name, make_stand_in(name, file.with_name(f"{stem}.yaml")))
    if not scope.paths:
        for name in _iterate_recorded(workspace, ledger):
            if name not in claimed:
                found.setdefault(name, make_stand_in(name, DEFAULT_FOLDER / f"{name}.yaml"))
    return [found[name] for name in sorted(found)]


def say_gone(workspace: Workspace, gone: Collection[Campaign]) -> None:
    """Name campaigns whose files are gone."""
    for campaign in gone:
        lockfile = show_path(workspace.identify(campaign).lockfile)
        note(
            f"{campaign.name}: its file is gone. What it has sent is still recorded ({lockfile}), and read "
            "for opt-outs."
        )


def _iterate_recorded(workspace: Workspace, ledger: Ledger) -> Iterator[str]:
    """Yield the names of this repository's campaigns in records other than lockfiles."""
    if workspace.state is not None:
        yield from workspace.state.list_campaigns()
    # A ledger outside of the repository may have other repositories' campaigns.
    if workspace.ledger_url == default_ledger_url() and workspace.target.base_url:
        with ledger.reading() as connection:
            yield from list_launched_campaigns(connection, workspace.target.name)


def make_stand_in(name: str, file: Path) -> Campaign:
    """Return a campaign without content, for a record whose file is gone."""
    return Campaign(name, Position(file, 1, 1), file, file.parent, (), ())
