"""Names that may have changed: a campaign or message that looks new, beside a record that nobody claims.

Deliveries are known by campaign name and message id. Under a new one everybody would look new, so what may be
renamed is held until a person says `renamed_from`: the former name, or `none`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from runner.campaign.load import read_names
from runner.errors import LockfileError, RunnerError, UnclearNameError
from runner.ledger.lockfile.format import parse_lockfile, read_lockfile
from runner.ledger.record.campaign_record import read_head
from runner.ledger.record.orphaned import iterate_reached
from runner.text.outgoing import digest_filled
from runner.wording import count_words
from runner.workflow.campaigns import DEFAULT_FOLDER, find_campaign_files, show_path
from runner.workflow.delivery.gone import find_place, make_stand_in
from runner.workflow.plans.context_reader import find_lockfiles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import LaunchRecord
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.workspace.workspace import Workspace


@dataclass(slots=True)
class _Orphan:
    """A recorded campaign that no file has any more.

    `people` has the fingerprints of those it may have reached by payload digest.
    """

    campaign: Campaign
    tags: set[str] = field(default_factory=set)
    people: dict[str, set[str]] = field(default_factory=dict)

    def add(self, tag: str, payload_digest: str, people: Iterable[str]) -> None:
        """Add a launch, or a part of its recipients."""
        self.tags.add(tag)
        self.people.setdefault(payload_digest, set()).update(people)

    @property
    def name(self) -> str:
        return self.campaign.name

    def count_people(self) -> int:
        """Return the number of people whom it may have reached."""
        return len(set().union(*self.people.values()))


class RecordNames:
    """The check that what looks new has no other name on record.

    `claimed` has the names, also former ones, of the command's campaigns. `ledger` is None if there is none.
    """

    def __init__(self, workspace: Workspace, ledger: Ledger | None) -> None:
        self._workspace = workspace
        self._ledger = ledger
        self.claimed: Collection[str] = frozenset()
        self.campaigns: Collection[Campaign] = ()

    def require_clear(self, item: PlanResult) -> None:
        """Ensure that a plan texts nobody who may have been texted under a former name.

        Raises:
            UnclearNameError: a record without a campaign, or without a message, may be of this one.
            GitError: the state remote cannot be read.
        """
        _require_known_ids(item)
        if item.campaign.is_new or not item.record.is_empty() or not _sends(item):
            return
        for orphan in self._orphans:
            people = self._find_shared(item, orphan)
            if people:
                raise _refuse_name(item.campaign, orphan.name, people)

    def _find_shared(self, item: PlanResult, orphan: _Orphan) -> str:
        """Return whom both campaigns text, in words; empty if they have nothing in common."""
        campaign = item.campaign
        own = {tag.casefold() for message in campaign.messages for tag in campaign.list_tags(message.id)}
        if same := sorted(tag for tag in orphan.tags if tag.casefold() in own):
            people = count_words(orphan.count_people(), "person", "people")
            return f"texted {people} under the same tag {same[0]!r}"
        key = self._find_key(orphan)
        if key is None or item.own_planner is None:
            return ""
        count = _count_same(item, orphan, key)
        return f"sent {count_words(count, 'person', 'people')} the same texts" if count else ""

    def _find_key(self, orphan: _Orphan) -> FingerprintKey | None:
        with suppress(RunnerError):
            return read_head(self._ledger, self._workspace.identify(orphan.campaign)).key
        return None

    @cached_property
    def _orphans(self) -> list[_Orphan]:
        target = self._workspace.target
        found: dict[str, _Orphan] = {}

        def add(name: str, file: Path, launches: Iterable[LaunchRecord]) -> None:
            orphan = found.setdefault(name, _Orphan(make_stand_in(name, file)))
            for launch in launches:
                orphan.add(launch.tag, launch.payload_digest, launch.recipients)

        for file in find_lockfiles(self.campaigns, target.name):
            with suppress(LockfileError):
                lockfile = read_lockfile(file, state_key=target.state_key)
                if lockfile is not None and lockfile.target == target.name:
                    add(lockfile.campaign, find_place(file, target.name), lockfile.launches)
        state = self._workspace.state
        for name in state.list_campaigns() if state is not None else ():
            for place, text in state.tell([name]).lockfiles.items() if state is not None else ():
                with suppress(LockfileError):
                    add(name, DEFAULT_FOLDER / f"{name}.yaml", parse_lockfile(place, text).launches)
        if self._ledger is not None:
            with self._ledger.reading() as connection:
                for name, tag, digest, person in iterate_reached(connection, target.name, self.claimed):
                    orphan = found.setdefault(
                        name, _Orphan(make_stand_in(name, DEFAULT_FOLDER / f"{name}.yaml"))
                    )
                    orphan.add(tag, digest, (person,))
        unclaimed = found.keys() - set(self.claimed)
        # Reading the other files takes time, and mostly nothing is left to be claimed.
        unclaimed -= self._read_other_names() if unclaimed else set()
        return [found[name] for name in sorted(unclaimed)]

    def _read_other_names(self) -> set[str]:
        """Return the names that campaign files outside of this command claim."""
        files = {file for campaign in self.campaigns for file in campaign.file.parent.glob("*.y*ml")}
        with suppress(RunnerError):
            files.update(find_campaign_files([DEFAULT_FOLDER] if DEFAULT_FOLDER.is_dir() else []))
        return {name for file in files for name in read_names(file, current=Path.cwd())}


def _sends(item: PlanResult) -> bool:
    return bool(item.plan.recipients_to_send) or any(message.deferred for message in item.plan.messages)


def _count_same(item: PlanResult, orphan: _Orphan, key: FingerprintKey) -> int:
    """Return how many people would get a text that an orphaned campaign has sent them, whatever its tag."""
    reached: set[str] = set()
    known: dict[str, set[str]] = {}
    for launch in item.planner.iterate_launches():
        payload = launch.payload
        if payload.digest not in known:
            digests = {payload.digest} | {
                digest_filled({**payload.definition, "tag": tag}) for tag in orphan.tags
            }
            known[payload.digest] = set().union(*(orphan.people.get(one, ()) for one in digests))
        if people := known[payload.digest]:
            reached.update(people.intersection(key.fingerprint(orphan.name, one) for one in launch.phones))
    return len(reached)


def _refuse_name(campaign: Campaign, former: str, people: str) -> UnclearNameError:
    return UnclearNameError(
        f"{campaign.name}: it has no record, and {former!r}, which no file has any more, {people}: if it was "
        "renamed, they would be texted again. Nothing of it is sent",
        hint=f"add `renamed_from: [{former}]` to {show_path(campaign.file)} if it is that campaign under a new "
        "name, or `renamed_from: none` if it is a new one",
    )


def _require_known_ids(item: PlanResult) -> None:
    """Refuse a message without a record, beside a record of a message that the campaign has no more.

    Raises:
        UnclearNameError: nobody has said whether it was renamed.
    """
    texted = item.record.count_texted()
    lost = sorted(texted.keys() - {message.id for message in item.campaign.messages})
    new = [
        message.id
        for message in item.campaign.messages
        if message.id not in texted and not message.renamed_from and not message.is_new
    ]
    if not lost or not new or not _sends(item):
        return
    sent, unresolved = texted[lost[0]]
    people = count_words(sent + unresolved, "person", "people")
    raise UnclearNameError(
        f"{item.campaign.name}: `{lost[0]}`, which it has no more, texted {people}, and `{new[0]}` has no record: "
        "if it was renamed, they would be texted again. Nothing of it is sent",
        hint=f"add `renamed_from: [{lost[0]}]` to the message `{new[0]}` in {show_path(item.campaign.file)} if "
        "it has a new id, or `renamed_from: none` if it is a new message",
    )
