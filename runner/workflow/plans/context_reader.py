"""Context of plans beyond campaigns and their own records."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.load import load_campaign
from runner.errors import RunnerError
from runner.ledger.fingerprint import FingerprintSet
from runner.ledger.lockfile.checkpoints import is_told
from runner.ledger.lockfile.format import read_lockfile
from runner.ledger.lockfile.lockfiles import OtherLockfile, read_other_lockfiles
from runner.ledger.model import format_moment
from runner.ledger.people.open_sessions import OpenSessions, OpenShelf
from runner.ledger.people.recent import (
    RecentDeliveries,
    read_open_sessions,
    read_recent,
    read_recent_guids,
)
from runner.ledger.people.replies import UnreadReplies, find_unread_replies
from runner.ledger.record.campaign_record import list_unentered, read_earlier_messages, read_head
from runner.ledger.record.deliveries import find_campaign, read_guids
from runner.plan.plan_context import PlanContext
from runner.text.include import include_folder
from runner.timing.legal_hours import load_law
from runner.workflow.campaigns import DEFAULT_FOLDER, find_campaign_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.lockfile.format import Lockfile
    from runner.ledger.model import LaunchRecord
    from runner.ledger.people.opt_outs import Suppressions
    from runner.ledger.people.suppressions import Told
    from runner.ledger.record.recorded import CampaignRecord
    from runner.plan.plan_context import TextedPeople
    from runner.workflow.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class _ToldSurveys:
    """Surveys known from a lockfile alone, so that no replies were read; at least one launch."""

    campaign: str
    key: FingerprintKey
    launches: tuple[LaunchRecord, ...]

    @property
    def unread(self) -> UnreadReplies:
        """The surveys' replies."""
        return UnreadReplies(
            self.campaign, datetime.fromisoformat(min(launch.sent_at for launch in self.launches))
        )

    @property
    def people(self) -> FingerprintSet:
        """The surveys' recipients."""
        return FingerprintSet(sorted(one for launch in self.launches for one in launch.recipients))


class PlanContextReader:
    """Reads plan contexts for the campaigns of one command.

    `ledger` is None if there is none yet; `now` is the (aware) time planned for.
    """

    def __init__(self, workspace: Workspace, ledger: Ledger | None, now: datetime) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self.now = now
        self._told: Told | None = None
        self._records: list[tuple[Campaign, CampaignRecord]] = []
        self._siblings: list[OtherLockfile] | None = None
        self._surveys: list[_ToldSurveys] | None = None
        self._sessions: OpenSessions | None = None
        self._unread: list[UnreadReplies | None] = []

    def note_records(self, records: Sequence[tuple[Campaign, CampaignRecord]]) -> None:
        """Register the command's campaigns, whose lockfiles count for frequency caps and surveys.

        The target's other lockfiles beside them or below `campaigns` count as well.
        """
        self._records = list(records)
        self._siblings = self._surveys = self._sessions = None
        self._unread = []

    def read(
        self, campaign: Campaign, planned: Sequence[TextedPeople] = (), *, leaves_people: bool = False
    ) -> PlanContext:
        """Return the context of one campaign, after earlier campaigns of the run (`planned`).

        `leaves_people`: without the ledger's people, whom workers look up there.

        Raises:
            LedgerError: the ledger cannot be read, or its key is missing.
            LockfileError: the lockfile cannot be read.
            SuppressionsError: the file of suppressions cannot be read, or its signature is invalid.
        """
        after = () if leaves_people else campaign.list_earlier()
        identity, names = self._workspace.identify(campaign), (campaign.name, *campaign.renamed_from)
        pauses = self._read_told().pauses
        return PlanContext(
            now=self.now,
            suppressions=self._read_suppressions(leaves_people=leaves_people),
            earlier=read_earlier_messages(self._ledger, identity, after) if after else {},
            sessions=self._read_sessions(leaves_people=leaves_people),
            recent=self._read_recent(campaign, leaves_people=leaves_people),
            planned=planned,
            law=load_law() if campaign.policy.quiet_hours == "legal" else None,
            pause=next((pauses[name] for name in names if name in pauses), None),
            unread=self.find_unread(),
        )

    def find_unread(self) -> UnreadReplies | None:
        """Return the target's longest unread replies; None if there can be none.

        Raises:
            LedgerError: the ledger cannot be read.
            LockfileError: a lockfile cannot be read.
        """
        if not self._unread:
            found = [surveys.unread for surveys in self._read_told_surveys()]
            if self._ledger is not None:
                with self._ledger.reading() as connection:
                    entered = find_unread_replies(connection, self._workspace.target.name)
                found += [] if entered is None else [entered]
            self._unread = [min(found, key=lambda one: (one.reply is None, one.since), default=None)]
        return self._unread[0]

    def _read_told(self) -> Told:
        """Return the target's suppressed recipients and paused campaigns; read once."""
        if self._told is None:
            self._told = self._workspace.read_told(self._ledger)
        return self._told

    def _read_sessions(self, *, leaves_people: bool) -> OpenSessions | None:
        """Return the people with an open survey on the target, or None; read once."""
        if self._sessions is None:
            found, target = OpenSessions(), self._workspace.target
            if self._ledger is not None and not leaves_people:
                with self._ledger.reading() as connection:
                    found = read_open_sessions(connection, target.name, target.state_key)
            told = (
                OpenShelf(one.campaign, one.campaign, one.key, FingerprintSet(), one.people)
                for one in self._read_told_surveys()
            )
            self._sessions = OpenSessions((*found.shelves, *told))
        return self._sessions if self._sessions.shelves else None

    def _read_told_surveys(self) -> list[_ToldSurveys]:
        """Return the surveys known from lockfiles alone; read once.

        This includes the target's other lockfiles, since their campaigns reach the same people. Unreadable
        lockfiles and campaigns are skipped; their own plans report the error.
        """
        if self._surveys is None:
            told = [
                self._find_told(campaign, record.key)
                for campaign, record in self._records
                # A record with stamps was entered, so the ledger has all of it.
                if record.key is not None and not record.stamps
            ]
            for file in self._find_other_lockfiles():
                with suppress(RunnerError):
                    told.append(self._read_told_elsewhere(file))
            self._surveys = [surveys for surveys in told if surveys is not None]
        return self._surveys

    def _find_told(self, campaign: Campaign, key: FingerprintKey) -> _ToldSurveys | None:
        surveys = campaign.list_surveys()
        unentered = list_unentered(self._ledger, self._workspace.identify(campaign)) if surveys else []
        launches = tuple(launch for launch in unentered if launch.message in surveys)
        return _ToldSurveys(campaign.name, key, launches) if launches else None

    def _read_told_elsewhere(self, file: Path) -> _ToldSurveys | None:
        """Return the surveys in the lockfile of a campaign outside this command."""
        lockfile = read_lockfile(file, state_key=self._workspace.target.state_key)
        # First, since loading a campaign is slow and most are in the ledger.
        if lockfile is None or self._is_entered(lockfile):
            return None
        source = find_campaign_file(file, lockfile.target)
        campaign = None if source is None else load_campaign(source, current=Path.cwd())[0]
        if campaign is None or lockfile.campaign not in (campaign.name, *campaign.renamed_from):
            return None
        key = read_head(self._ledger, self._workspace.identify(campaign)).key
        return None if key is None else self._find_told(campaign, key)

    def _is_entered(self, lockfile: Lockfile) -> bool:
        """Return whether the ledger has all launches of a lockfile."""
        if self._ledger is None:
            return False
        with self._ledger.reading() as connection:
            row = find_campaign(connection, lockfile.target, lockfile.campaign)
            known = set[str]() if row is None else read_guids(connection, row.id)
        return all(launch.project_launch_guid in known for launch in lockfile.launches)

    def _read_suppressions(self, *, leaves_people: bool) -> Suppressions | None:
        """Return the suppressed recipients; None if there are none, or the ledger has all that it leaves."""
        if leaves_people and self._workspace.suppressions.are_absorbed(self._ledger):
            return None
        found = self._read_told().suppressions
        return found if found.confirmed or found.doubtful else None

    def _read_recent(self, campaign: Campaign, *, leaves_people: bool) -> RecentDeliveries | None:
        cap = campaign.policy.frequency_cap
        if cap is None:
            return None
        target, entered, guids = self._workspace.target, RecentDeliveries(()), set[str]()
        since = format_moment(self.now - cap.within)
        if self._ledger is not None:
            with self._ledger.reading() as connection:
                if not leaves_people:
                    entered = read_recent(connection, target.name, target.state_key, since)
                guids = read_recent_guids(connection, target.name, since)
        return RecentDeliveries((*entered.shelves, *self._list_unentered(since, guids)))

    def _list_unentered(
        self, since: str, counted: set[str]
    ) -> Iterator[tuple[str, FingerprintKey, FingerprintSet]]:
        """Yield launches known from lockfiles alone, since the planning machine may lack the sender's ledger.

        `since` is in UTC, ISO 8601; `counted` has the `project_launch_guid`s in the ledger, and receives
        those found.
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

    def _read_siblings(self) -> list[OtherLockfile]:
        """Return the lockfiles' content of campaigns outside this command; read once."""
        if self._siblings is None:
            caps = [c.policy.frequency_cap for c, _ in self._records if c.policy.frequency_cap is not None]
            since = format_moment(self.now - max((cap.within for cap in caps), default=timedelta()))
            names = [
                name for campaign, _ in self._records for name in self._workspace.identify(campaign).names
            ]
            others = self._find_other_lockfiles()
            state = self._workspace.state
            shared = state.tell_others(names) if state is not None and caps else {}
            target = self._workspace.target
            self._siblings = list(
                read_other_lockfiles(
                    others, target.name, names, since, target.state_key, shared, self._is_told
                )
            )
        return self._siblings

    def _find_other_lockfiles(self) -> list[Path]:
        """Return the target's lockfiles of campaigns outside this command."""
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
    """Return the sorted fingerprints of people reached by launches, counting each launch once."""
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
        # Another folder may be a home folder: only below `campaigns` is a deep search safe.
        if folder.name == DEFAULT_FOLDER.name:
            folders.add(folder)
    for folder in folders:
        below = (file.relative_to(folder) for file in folder.rglob(pattern))
        found.update(folder / file for file in below if not any(part.startswith(".") for part in file.parts))
    return sorted({file.resolve(): file for file in sorted(found)}.values())
