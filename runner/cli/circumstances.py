"""Gathers what plans depend on besides campaigns and their own records."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.include import include_folder
from runner.campaign.load import load_campaign
from runner.cli.campaigns import DEFAULT_FOLDER, find_campaign_file
from runner.errors import RunnerError
from runner.ledger.containment import is_told
from runner.ledger.deliveries import find_campaign, read_guids
from runner.ledger.fingerprint_set import FingerprintSet
from runner.ledger.frequency import RecentDeliveries, read_recent, read_recent_guids
from runner.ledger.lockfile import read_lockfile
from runner.ledger.moment import format_moment
from runner.ledger.open_sessions import OpenSessions, OpenShelf, read_open_sessions
from runner.ledger.record import list_unentered, read_earlier_messages, read_head
from runner.ledger.siblings import Sibling, read_siblings
from runner.ledger.unread_replies import find_unread_replies
from runner.plan.circumstances import Circumstances
from runner.timing.law import load_law

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from runner.campaign.model import Campaign
    from runner.cli.workspace import Workspace
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.lockfile import Lockfile
    from runner.ledger.model import LaunchRecord
    from runner.ledger.opt_outs import Suppressions
    from runner.ledger.recorded import RecordHead
    from runner.ledger.suppressions import Pause, Told
    from runner.ledger.unread_replies import UnreadReplies
    from runner.plan.texted import TextedPeople


class CircumstanceReader:
    """Reads circumstances for the campaigns of one command.

    Args:
        workspace: names the target.
        ledger: open; None if there is none yet.
        now: the moment for which is planned; any aware time.
    """

    def __init__(self, workspace: Workspace, ledger: Ledger | None, now: datetime) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self._now = now
        self._told: Told | None = None
        self._records: list[tuple[Campaign, RecordHead]] = []
        self._siblings: list[Sibling] | None = None
        self._sessions: OpenSessions | None = None
        self._unread: list[UnreadReplies | None] = []

    @property
    def now(self) -> datetime:
        """The moment for which is planned."""
        return self._now

    def note_records(self, records: Sequence[tuple[Campaign, RecordHead]]) -> None:
        """Take note of the campaigns of this command: their lockfiles count for frequency caps.

        So do the other lockfiles of the target that stand beside theirs, or below `campaigns`.

        Args:
            records: campaigns, each with what is on record of it.
        """
        self._records = list(records)
        self._siblings = self._sessions = None

    def read(self, campaign: Campaign, planned: Sequence[TextedPeople]) -> Circumstances:
        """Return the circumstances of one campaign.

        Args:
            campaign: the campaign.
            planned: the people whom campaigns before it, in the same run, will text.

        Raises:
            LedgerError: the ledger cannot be read, or a key that it was written with is not at hand.
            LockfileError: the lockfile cannot be read.
        """
        after = campaign.list_earlier()
        identity = self._workspace.identify(campaign)
        return Circumstances(
            now=self._now,
            suppressions=self._read_suppressions(),
            earlier=read_earlier_messages(self._ledger, identity, after) if after else {},
            sessions=self.read_sessions(),
            recent=self._read_recent(campaign),
            planned=planned,
            law=load_law() if campaign.policy.quiet_hours == "legal" else None,
            pause=self.find_pause(campaign),
            unread=self.find_unread(),
        )

    def find_pause(self, campaign: Campaign) -> Pause | None:
        """Return the word that a campaign is to wait, under any of its names; None if it isn't.

        Raises:
            LedgerError: the ledger cannot be read, or a key that it was written with is not at hand.
            SuppressionsError: the file of suppressions cannot be read, or proves nothing.
        """
        names = (campaign.name, *campaign.renamed_from)
        return next((found for name in names if (found := self.read_told().pauses.get(name))), None)

    def find_unread(self) -> UnreadReplies | None:
        """Return the replies on the target that are unread for longest; None if there can be none.

        Raises:
            LedgerError: the ledger cannot be read.
        """
        if not self._unread and self._ledger is not None:
            with self._ledger.reading() as connection:
                self._unread = [find_unread_replies(connection, self._workspace.target.name)]
        return self._unread[0] if self._unread else None

    def read_told(self) -> Told:
        """Return who is not to be texted on the target, and which campaigns wait; read once."""
        if self._told is None:
            self._told = self._workspace.read_told(self._ledger)
        return self._told

    def read_sessions(self) -> OpenSessions | None:
        """Return who has an open survey on the target, None if nobody has; read once.

        Raises:
            LedgerError: the ledger cannot be read, or a key that it was written with is not at hand.
            LockfileError: a lockfile cannot be read.
        """
        if self._sessions is None:
            found, target = OpenSessions(), self._workspace.target
            if self._ledger is not None:
                with self._ledger.reading() as connection:
                    found = read_open_sessions(connection, target.name, target.state_key)
            self._sessions = OpenSessions((*found.shelves, *self.list_told_sessions()))
        return self._sessions if self._sessions.shelves else None

    def list_told_sessions(self) -> list[OpenShelf]:
        """Return the people who were sent a survey that only lockfiles tell of: nothing was read of it.

        The other lockfiles of the target count, too: a campaign that is sent by its path meets their people.
        One that cannot be read, or whose campaign cannot, tells of nobody; its own plan says why.
        """
        told = [
            self._find_told(campaign, record.key)
            for campaign, record in self._records
            if record.key is not None and not record.stamps
        ]
        for file in self._find_other_lockfiles():
            with suppress(RunnerError):
                told.append(self._read_told_elsewhere(file))
        return [shelf for shelf in told if shelf is not None]

    def _find_told(self, campaign: Campaign, key: FingerprintKey) -> OpenShelf | None:
        surveys = campaign.list_surveys()
        launches = list_unentered(self._ledger, self._workspace.identify(campaign)) if surveys else []
        people = sorted(
            person for launch in launches if launch.message in surveys for person in launch.recipients
        )
        if not people:
            return None
        return OpenShelf(campaign.name, campaign.name, key, FingerprintSet(), FingerprintSet(people))

    def _read_told_elsewhere(self, file: Path) -> OpenShelf | None:
        """Return whom the lockfile of a campaign tells of that this command is not about."""
        lockfile = read_lockfile(file, state_key=self._workspace.target.state_key)
        # First: to load a campaign takes its time, and most are in the ledger.
        if lockfile is None or self._is_entered(lockfile):
            return None
        source = find_campaign_file(file, lockfile.target)
        campaign = None if source is None else load_campaign(source, current=Path.cwd())[0]
        if campaign is None or lockfile.campaign not in (campaign.name, *campaign.renamed_from):
            return None
        key = read_head(self._ledger, self._workspace.identify(campaign)).key
        return None if key is None else self._find_told(campaign, key)

    def _is_entered(self, lockfile: Lockfile) -> bool:
        """Return whether the ledger has all launches that a lockfile tells of."""
        if self._ledger is None:
            return False
        with self._ledger.reading() as connection:
            row = find_campaign(connection, lockfile.target, lockfile.campaign)
            known = set[str]() if row is None else read_guids(connection, row.id)
        return all(launch.project_launch_guid in known for launch in lockfile.launches)

    def _read_suppressions(self) -> Suppressions | None:
        found = self.read_told().suppressions
        return found if found.confirmed or found.doubtful else None

    def _read_recent(self, campaign: Campaign) -> RecentDeliveries | None:
        cap = campaign.policy.frequency_cap
        if cap is None:
            return None
        target = self._workspace.target
        since = format_moment(self._now - cap.within)
        if self._ledger is None:
            return RecentDeliveries(tuple(self._list_unentered(since, set())))
        with self._ledger.reading() as connection:
            entered = read_recent(connection, target.name, target.state_key, since)
            guids = read_recent_guids(connection, target.name, since)
        return RecentDeliveries((*entered.shelves, *self._list_unentered(since, guids)))

    def list_told_elsewhere(self, campaign: Campaign) -> list[tuple[str, FingerprintKey, FingerprintSet]]:
        """Return what lockfiles alone tell and a campaign's cap counts: shelves of `RecentDeliveries`.

        Args:
            campaign: one with a cap.

        Raises:
            LedgerError: a key that a lockfile was written with is not at hand.
            LockfileError: a lockfile cannot be read.
        """
        cap = campaign.policy.frequency_cap
        if cap is None:
            return []
        since, guids = format_moment(self._now - cap.within), set[str]()
        if self._ledger is not None:
            with self._ledger.reading() as connection:
                guids = read_recent_guids(connection, self._workspace.target.name, since)
        return list(self._list_unentered(since, guids))

    def _list_unentered(
        self, since: str, counted: set[str]
    ) -> Iterator[tuple[str, FingerprintKey, FingerprintSet]]:
        """Yield what only lockfiles tell of: a machine that plans need not have the ledger of who sends.

        Args:
            since: UTC, ISO 8601.
            counted: the `project_launch_guid`s of what the ledger tells; those that are found are added.
        """
        for campaign, record in self._records:
            launches = list_unentered(self._ledger, self._workspace.identify(campaign))
            people = _list_people(launches, since, counted)
            if people and record.key is not None:
                yield campaign.name, record.key, FingerprintSet(people)
        for sibling in self._read_siblings():
            people = _list_people(sibling.launches, since, counted)
            if people:
                key = sibling.open_key(self._workspace.target.state_key)
                yield sibling.first_name, key, FingerprintSet(people)

    def _read_siblings(self) -> list[Sibling]:
        """Return what lockfiles of campaigns tell that this command is not about; read once."""
        if self._siblings is None:
            caps = [c.policy.frequency_cap for c, _ in self._records if c.policy.frequency_cap is not None]
            since = format_moment(self._now - max((cap.within for cap in caps), default=timedelta()))
            names = [
                name for campaign, _ in self._records for name in self._workspace.identify(campaign).names
            ]
            others = self._find_other_lockfiles()
            state = self._workspace.state
            shared = state.tell_others(names) if state is not None and caps else {}
            target = self._workspace.target
            self._siblings = list(
                read_siblings(others, target.name, names, since, target.state_key, shared, self._is_told)
            )
        return self._siblings

    def _find_other_lockfiles(self) -> list[Path]:
        """Return the lockfiles of the target of campaigns that this command is not about."""
        campaigns = [campaign for campaign, _ in self._records]
        own = {self._workspace.identify(campaign).lockfile.resolve() for campaign in campaigns}
        found = find_lockfiles(campaigns, self._workspace.target.name)
        return [file for file in found if file.resolve() not in own]

    def _is_told(self, lockfile: Lockfile) -> bool:
        if self._ledger is None:
            return False
        with self._ledger.reading() as connection:
            return is_told(connection, lockfile)


def _list_people(launches: Iterable[LaunchRecord], since: str, counted: set[str]) -> list[str]:
    """Return the sorted fingerprints of those whom launches reached, each launch counted once."""
    new = {
        launch.project_launch_guid: launch.recipients
        for launch in launches
        if launch.sent_at >= since and launch.project_launch_guid not in counted
    }
    counted.update(new)
    return sorted(name for recipients in new.values() for name in recipients)


def find_lockfiles(campaigns: Iterable[Campaign], target: str) -> list[Path]:
    """Return the lockfiles of a target beside campaigns and below their `campaigns` folder."""
    pattern = f"*.{target}.lock.json"
    found: set[Path] = set()
    folders = {DEFAULT_FOLDER}
    for campaign in campaigns:
        found.update(campaign.file.parent.glob(pattern))
        folder = include_folder(campaign)
        # Another folder may be anyone's home: only the one of this name has campaigns all the way down.
        if folder.name == DEFAULT_FOLDER.name:
            folders.add(folder)
    for folder in folders:
        below = (file.relative_to(folder) for file in folder.rglob(pattern))
        found.update(folder / file for file in below if not any(part.startswith(".") for part in file.parts))
    return sorted({file.resolve(): file for file in sorted(found)}.values())
