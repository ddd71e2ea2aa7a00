"""Move of a target's records to a new state key, all or none: ledger, lockfiles, and state remote."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, iterate_audience
from runner.audience.renumbering import list_forms
from runner.errors import ConfigurationError, LockfileError, RunnerError
from runner.git.command import Git, find_work_tree, hide_credentials
from runner.git.recording import ASIDE
from runner.ledger.lockfile.checkpoints import list_lines, require_coverage
from runner.ledger.lockfile.format import parse_lockfile, read_text
from runner.ledger.lockfile.writer import write_text
from runner.ledger.locks.campaign_lock import hold_campaign_lock
from runner.ledger.maintenance.rotation import (
    LockfileMove,
    ReservationMove,
    Translation,
    find_makers,
    list_tags_on_record,
    needs_rotation,
    open_lockfile,
    open_reservation,
    read_maker,
    rotate_ledger,
    want_ledger,
)
from runner.ledger.people.replies import list_recorded_campaigns
from runner.ledger.record.deliveries import find_campaign
from runner.service.paging import list_launches
from runner.service.target import OLD_STATE_KEY, list_variables, read_old_state_key
from runner.source.diagnostic import Problems
from runner.wording import count_words
from runner.workflow.campaigns import DEFAULT_FOLDER, refuse_errors, show_path
from runner.workflow.delivery.remote_intents import RemoteIntents
from runner.workflow.observer import note
from runner.workflow.plans.context_reader import find_lockfiles
from runner.workflow.records.phones import PhoneReading, iterate_phones
from runner.workflow.records.record_push import find_branch, list_waiting
from runner.workflow.workspace.state_remote import campaign_of
from runner.workflow.workspace.workspace import Workspace, describe_this_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.maintenance.rotation import Maker
    from runner.ledger.model import SummaryLine
    from runner.ledger.target_key import LedgerConnection
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.state_remote import StateRemote


_LOCKFILE = ".lock.json"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class PhoneColumns:
    """CSV files with phones of recorded people."""

    files: Sequence[Path]
    reading: PhoneReading

    def read(self, *, quiet: bool) -> list[str]:
        """Return the phones; raise InvalidCampaignError if a row has none."""
        problems = Problems()
        phones = [phone for file in self.files for phone in iterate_phones(file, self.reading, problems)]
        refuse_errors(problems, quiet=quiet)
        return phones


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """The rewritten files of a target whose key was rotated.

    `is_behind` is True if the state remote could not be updated.
    """

    target: str
    changed: Sequence[Path]
    is_behind: bool


def rotate_key(
    scope: Scope, listed: PhoneColumns, lock_timeout_s: float, approve: Callable[[str], None]
) -> RotatedKey:
    """Move the records of a target to the current key.

    `listed` has phones of recorded people; `lock_timeout_s` limits the wait for active runs; `approve` asks
    before changes, and raises to refuse.

    Raises:
        RunnerError: a key is missing, a record is unmerged, or one cannot be read or written.
    """
    workspace = Workspace.open(scope)
    translation = _make_translation(workspace)
    _require_merged(scope)
    campaigns = scope.load_valid_campaigns() if scope.paths or DEFAULT_FOLDER.exists() else ()
    phones = listed.read(quiet=scope.quiet)
    with workspace.open_bare_ledger() as ledger, ExitStack() as stack:
        remote_intents = RemoteIntents(workspace, ledger)
        remote_intents.hold(stack, lock_timeout_s, quiet=scope.quiet)
        _hold_locks(stack, workspace, ledger, campaigns, lock_timeout_s)
        rotation = Rotation(workspace, ledger, campaigns, translation)
        changed = _move(rotation, phones, approve)
    return RotatedKey(workspace.target.name, changed, remote_intents.is_behind)


def _move(rotation: Rotation, phones: Sequence[str], approve: Callable[[str], None]) -> list[Path]:
    """Move records to the key, after asking; return the changed files."""
    suppressions = rotation.workspace.suppressions
    suppressions.absorb_old(
        rotation.ledger,
        read_old_state_key(rotation.workspace.environ),
        lambda file: approve(f"Sign all of {file}, which no key has signed?"),
    )
    rotation.gather()
    rotation.match(phones)
    changed = []
    if not rotation.is_empty():
        for sentence in rotation.describe():
            note(sentence)
        approve("Go ahead?")
        changed = rotation.write()
    return [*changed, *suppressions.replace(rotation.ledger)]


def _require_merged(scope: Scope) -> None:
    """Refuse to rotate while an unmerged record would stay under the old key."""
    remote = scope.state_remote or "origin"
    root = find_work_tree(Path.cwd())
    if root is None or Git(root).ask("remote", "get-url", "--", remote).status:
        return
    branch = find_branch(scope.environ)
    if list_waiting(scope.environ, remote, branch):
        raise RunnerError(
            f"nothing was changed: a record waits on the branch {ASIDE} of {hide_credentials(remote)}, and "
            "versions under two keys cannot be united",
            hint=f"merge it into {branch}, `git pull`, and run this again",
        )


def _make_translation(workspace: Workspace) -> Translation:
    target = workspace.target
    variable = list_variables(target.name, workspace.targets)[2]
    if target.state_key is None:
        raise ConfigurationError(
            f"there is no key to move records to: {variable} is not set",
            hint=f"`runner key new` prints one: put it into {variable}, and the old one, if there is one, "
            f"into {OLD_STATE_KEY}",
        )
    return Translation(target.name, target.state_key, read_old_state_key(workspace.environ))


def _hold_locks(
    stack: ExitStack, workspace: Workspace, ledger: Ledger, campaigns: Sequence[Campaign], timeout_s: float
) -> None:
    """Hold the locks of all known campaigns of the target."""
    target = workspace.target.name
    names = {name for one in campaigns for name in (one.name, *one.renamed_from)}
    with ledger.reading() as connection:
        names.update(name for recorded, name in list_recorded_campaigns(connection) if recorded == target)
    if names:
        holder = describe_this_run(workspace.now_text(), workspace.environ)
        stack.enter_context(hold_campaign_lock(ledger, target, names, holder, timeout_s=timeout_s))


@dataclass(slots=True)
class Rotation:
    """The move of one target's records to another key, under the locks of campaigns and ref.

    `translation` maps fingerprints; `lockfiles` and `shared` (files on the ref, by name) are to be moved or
    signed.
    """

    workspace: Workspace
    ledger: Ledger
    campaigns: Sequence[Campaign]
    translation: Translation
    lockfiles: dict[Path, LockfileMove] = field(default_factory=dict)
    shared: dict[str, LockfileMove | ReservationMove] = field(default_factory=dict)
    _moves_ledger: bool = False

    def gather(self) -> None:
        """Find all records, and all people in them.

        Raises:
            RunnerError: one cannot be read, was changed, or its key is missing.
        """
        names = [name for one in self.campaigns for name in (one.name, *one.renamed_from)]
        makers: dict[str, Maker] = {}
        with self.ledger.reading() as connection:
            want_ledger(connection, self.translation)
            self._moves_ledger = needs_rotation(connection, self.translation)
            makers |= find_makers(connection, self.translation.target)
            for file in find_lockfiles(self.campaigns, self.translation.target):
                text = read_text(file)
                if text is not None and (move := open_lockfile(file, text, names, self.translation)):
                    self._require_summed(connection, move, text)
                    self.lockfiles[file] = move
        if self.workspace.state is not None:
            self._gather_shared(self.workspace.state, names, makers)

    def _gather_shared(self, state: StateRemote, names: Sequence[str], makers: dict[str, Maker]) -> None:
        texts, where = state.read_texts(), str(state.ref)
        for name, text in sorted(texts.items()):
            if name.endswith(_LOCKFILE):
                makers[name.removesuffix(_LOCKFILE)] = read_maker(Path(where, name), text)
                if lockfile := open_lockfile(Path(where, name), text, names, self.translation):
                    self.shared[name] = lockfile
        for name, text in sorted(texts.items()):
            campaign = campaign_of(name)
            if not campaign:
                continue
            place = f"the reservation {name} on {where}"
            if campaign not in makers:
                raise LockfileError(f"{place} is of no campaign on record", hint="nothing was changed")
            if move := open_reservation(place, campaign, text, makers[campaign], self.translation):
                self.shared[name] = move

    def _require_summed(self, connection: LedgerConnection, move: LockfileMove, text: str) -> None:
        """Check that the ledger has all people counted in a lockfile, to be able to count again."""
        if "messages" not in move.data or self.translation.is_moved(move.maker):
            return
        row = find_campaign(connection, self.translation.target, move.campaign)
        if row is None or row.key_fingerprint != self.translation.new.name:
            lockfile = parse_lockfile(move.file, text)
            require_coverage(connection, row.id if row else None, {move.file: lockfile}, {}, set())
            return
        # The ledger was moved by an earlier run, which then died.
        lines = {one.message: (one.launches, one.recipients) for one in list_lines(connection, row.id)}
        told = {one["message"]: (one["launches"], one["recipients"]) for one in move.data["messages"]}
        if lines != told:
            raise LockfileError(
                f"the lockfile {move.file} does not sum up what the ledger has", hint="restore it with git"
            )

    def match(self, phones: Iterable[str]) -> None:
        """Find the phones of all recorded people; `phones` (E.164) are named by the user.

        Raises:
            RunnerError: some cannot be found, or the service cannot be asked.
        """
        self.translation.offer(phones)
        for campaign in self.campaigns:
            if self.translation.count_missing():
                self.translation.offer(_list_phones(campaign))
        if self.translation.count_missing():
            self._ask_service()
        missing = self.translation.count_missing()
        if missing:
            who = [
                f"{count_words(count, 'person', 'people')} of {name}"
                if name
                else f"{count_words(count, 'person', 'people')} who opted out"
                for name, count in sorted(missing.items())
            ]
            raise RunnerError(
                f"nothing was changed: {' and '.join(who)} cannot be found, neither in audiences nor at the "
                "service",
                hint="name a CSV file that has their phones with --phones: fingerprints tell nothing",
            )

    def _ask_service(self) -> None:
        with self.ledger.reading() as connection:
            tags = list_tags_on_record(connection, self.translation.target)
        moves = [*self.lockfiles.values(), *self.shared.values()]
        for move in moves:
            tags |= set(move.list_tags())
        with self.workspace.open_service() as (client, _):
            for tag in sorted({form for one in tags for form in (one, one.casefold())}):
                listed = list_launches(client, tag).launches
                self.translation.offer(phone for launch in listed for phone in launch.recipients)
                if not self.translation.count_missing():
                    return

    def is_empty(self) -> bool:
        """Return whether there is nothing to move or sign."""
        return not (self.lockfiles or self.shared or self._moves_ledger or self.translation.count_people())

    def describe(self) -> Iterator[str]:
        """Yield sentences on the changes to make."""
        places = [*map(show_path, self.lockfiles), *self.shared]
        people = count_words(self.translation.count_people(), "fingerprint")
        if not self.translation.is_signing_only:
            yield f"Move {people} on {self.translation.target} to the new key, in the ledger" + (
                f" and in {', '.join(places)}." if places else "."
            )
        for place, move in [*((show_path(f), m) for f, m in self.lockfiles.items()), *self.shared.items()]:
            lines = move.bare
            if lines:
                rest = f" and {len(lines) - _NAMED:,} more" if len(lines) > _NAMED else ""
                yield f"Sign what no key has signed in {place}: {', '.join(lines[:_NAMED])}{rest}."

    def write(self) -> list[Path]:
        """Move everything, and return the lockfiles that changed.

        After an interruption this can be repeated: moved records are recognised by their key.

        Raises:
            RunnerError: something cannot be written. Earlier moves are kept.
        """
        with self.ledger.writing() as connection:
            rotate_ledger(connection, self.translation)
        with self.ledger.reading() as connection:

            def sum_up(campaign: str) -> list[SummaryLine]:
                row = find_campaign(connection, self.translation.target, campaign)
                return [] if row is None else list_lines(connection, row.id)

            texts = {file: move.write(self.translation, sum_up) for file, move in self.lockfiles.items()}
            shared = {name: move.write(self.translation, sum_up) for name, move in self.shared.items()}
        changed = [file for file, text in texts.items() if write_text(file, text)]
        if shared and self.workspace.state is not None:
            self.workspace.state.rewrite(shared)
        return changed


def _list_phones(campaign: Campaign) -> Iterator[str]:
    """Yield the phones in a campaign's audience, up to the first error."""
    for recipient in iterate_audience(campaign, frozenset(), Problems(), AudienceTally()):
        yield from list_forms(recipient.phone)
