"""Move of a target's records to a new state key: ledger, lockfiles, suppressions, and state remote.

What lies under the old key is read into the ledger, the ledger is moved in one transaction, and then every
file is written from it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runner.audience.audience import AudienceTally, iterate_audience
from runner.audience.renumbering import list_forms
from runner.errors import ConfigurationError, MissingKeyError, RunnerError
from runner.ledger.database import find_absorbed
from runner.ledger.files.lockfile import read_key_name
from runner.ledger.files.sealed import digest_text
from runner.ledger.fingerprint import TargetKey
from runner.ledger.maintenance import Translation, list_tags_on_record
from runner.ledger.target_key import read_key_name as read_recorded_key
from runner.service.paging import list_launches
from runner.service.target import OLD_STATE_KEY, find_key_variable, read_old_state_key
from runner.source.diagnostic import Problems
from runner.text.outgoing import digest_filled
from runner.wording import count_words
from runner.workflow.campaigns import DEFAULT_FOLDER, load_valid_campaigns, refuse_errors, show_path
from runner.workflow.delivery.remote_intents import RemoteIntents
from runner.workflow.observer import note
from runner.workflow.records.phones import iterate_phones
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.workflow.records.phones import PhoneReading
    from runner.workflow.scope import Scope


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """The rewritten files of a target whose key was rotated.

    `is_behind` is True if the state remote could not be updated.
    """

    target: str
    changed: Sequence[Path]
    is_behind: bool


def rotate_key(
    scope: Scope,
    listed: Sequence[Path],
    reading: PhoneReading,
    lock_timeout_s: float,
    approve: Callable[[str], None],
) -> RotatedKey:
    """Move the records of a target to the current key.

    `listed` are CSV files with phones of recorded people; `lock_timeout_s` limits the wait for active runs;
    `approve` asks before changes, and raises to refuse. After an interruption this can be repeated.
    """
    workspace = Workspace.open(scope)
    old = _find_old_key(workspace)
    campaigns = load_valid_campaigns(scope) if scope.paths or DEFAULT_FOLDER.exists() else ()
    problems = Problems()
    phones = [phone for file in listed for phone in iterate_phones(file, reading, problems)]
    refuse_errors(problems)
    with workspace.open_bare_ledger() as ledger, ExitStack() as stack:
        remote_intents = RemoteIntents(workspace, ledger)
        names = {name for one in campaigns for name in (one.name, *one.renamed_from)}
        remote_intents.hold_all(stack, lock_timeout_s, names)
        rotation = _Rotation(workspace, ledger, campaigns, old, remote_intents)
        changed = rotation.run(phones, approve)
    return RotatedKey(workspace.target.name, changed, remote_intents.is_behind)


def _find_old_key(workspace: Workspace) -> TargetKey:
    if not workspace.key.is_secret:
        variable = find_key_variable(workspace.target.name, workspace.targets)
        raise ConfigurationError(
            f"there is no key to move records to: {variable} is not set",
            hint=f"`runner key new` prints one: put it into {variable}, and the old one, if there is one, "
            f"into {OLD_STATE_KEY}",
        )
    return TargetKey.of(workspace.target.name, read_old_state_key(workspace.environ))


@dataclass(slots=True)
class _Rotation:
    """The move of one target's records to another key, under the locks of campaigns and ref."""

    workspace: Workspace
    ledger: Ledger
    campaigns: Sequence[Campaign]
    old: TargetKey
    remote_intents: RemoteIntents

    def run(self, phones: Iterable[str], approve: Callable[[str], None]) -> list[Path]:
        """Move everything, after asking; return the files that changed."""
        new, files = self.workspace.key, self.workspace.files
        texts = files.read_texts()
        self._require_known_keys(texts)
        left = {file: text for file, text in texts.items() if read_key_name(text) == self.old.name}
        with self.ledger.reading() as connection:
            recorded = read_recorded_key(connection, new.target)
        is_moved = recorded == new.name
        if is_moved:
            self._require_absorbed(left)
        translation = Translation(self.old, new, digest_filled)
        if not is_moved:
            self._fill_old(recorded, left)
            self._match(translation, phones)
        if not left and (is_moved or recorded is None):
            return []
        places = ", ".join(show_path(file) for file in left)
        people = count_words(len(translation.found), "fingerprint")
        rest = f" and in {places}" if left else ""
        note(f"Move {people} on {new.target} to the new key, in the ledger{rest}.")
        approve("Go ahead?")
        with self.ledger.writing() as connection:
            if not is_moved:
                translation.write(connection)
        texts = files.read_texts()
        files.absorb(self.ledger, {file: text for file, text in texts.items() if file not in left})
        changed = files.rewrite(self.ledger, left)
        self.remote_intents.keep_all()
        return changed

    def _require_known_keys(self, texts: Mapping[Path, str]) -> None:
        for file, text in texts.items():
            if read_key_name(text) not in (self.old.name, self.workspace.key.name):
                raise self._lack_key(show_path(file))

    def _lack_key(self, what: str) -> MissingKeyError:
        than = (
            f" than the one in {OLD_STATE_KEY}" if self.old.is_secret else f", and {OLD_STATE_KEY} is not set"
        )
        return MissingKeyError(
            f"{what} was written with another key{than}",
            hint=f"set {OLD_STATE_KEY} to the key that it was written with; nothing was changed",
        )

    def _require_absorbed(self, left: Mapping[Path, str]) -> None:
        """Ensure that a ledger that was moved by an earlier run has all that the files say."""
        with self.ledger.reading() as connection:
            known = find_absorbed(connection, [digest_text(text) for text in left.values()])
        for file, text in left.items():
            if digest_text(text) not in known:
                raise RunnerError(
                    f"{show_path(file)} was written with the old key after the ledger had been moved",
                    hint="restore it with git; or move the ledger away, and run this again: it is filled "
                    "from the files, and `runner reconcile` reads answers again",
                )

    def _fill_old(self, recorded: str | None, left: Mapping[Path, str]) -> None:
        """Enter everything that lies under the old key."""
        if recorded not in (None, self.old.name):
            raise self._lack_key(f"the ledger's record of {self.old.target}")
        files = replace(self.workspace.files, key=self.old)
        files.absorb(self.ledger, left)
        for _, error in files.unread.values():
            raise error
        self.remote_intents.enter_all(self.old)

    def _match(self, translation: Translation, phones: Iterable[str]) -> None:
        """Find the phones of all recorded people; `phones` (E.164) are named by the user."""
        with self.ledger.reading() as connection:
            translation.gather(connection)
        translation.offer(phones)
        for campaign in self.campaigns:
            if translation.missing:
                audience = iterate_audience(campaign, frozenset(), Problems(), AudienceTally())
                translation.offer(form for one in audience for form in list_forms(one.phone))
        if translation.missing:
            self._ask_service(translation)
        if translation.missing:
            raise RunnerError(
                f"nothing was changed: {count_words(translation.missing, 'person', 'people')} cannot be "
                "found, neither in audiences nor at the service",
                hint="name a CSV file that has their phones with --phones: fingerprints tell nothing",
            )
        if translation.missing_dates:
            raise RunnerError(
                f"nothing was changed: {count_words(translation.missing_dates, 'date', 'dates')} that a "
                "message went by cannot be found within twelve years of its text",
                hint="keep the old key: under the new one people could be texted for it again",
            )

    def _ask_service(self, translation: Translation) -> None:
        with self.ledger.reading() as connection:
            tags = list_tags_on_record(connection, self.old.target)
        with self.workspace.open_service() as (client, _):
            for tag in sorted({form for one in tags for form in (one, one.casefold())}):
                listed = list_launches(client, tag).launches
                translation.offer(phone for launch in listed for phone in launch.recipients)
                if not translation.missing:
                    return
