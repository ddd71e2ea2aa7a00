"""Names that may have changed: what looks new beside a record that nobody claims.

Deliveries are known by target, campaign name and message id. Under a new one everybody would look new, so
what may be renamed is held until a person says `renamed_from`: the former name, or `none`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from runner.audience.audience import read_excluded
from runner.campaign.load import NONE, read_names
from runner.errors import RunnerError, UnclearNameError
from runner.ledger.model import DATE, SUPPRESSIONS_SUFFIX, RecordedDeliveries
from runner.ledger.record.deliveries import read_digests
from runner.ledger.record.unsettled import has_own_launches, list_targets, list_unclaimed
from runner.plan.model import PlanOptions
from runner.plan.planner import iterate_offers
from runner.service.target import SANDBOX, require_one_name
from runner.source.diagnostic import Problems
from runner.text.outgoing import digest_filled
from runner.wording import count_people
from runner.workflow.campaigns import DEFAULT_FOLDER, find_campaign_file, find_campaign_files, show_path
from runner.workflow.observer import warn
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.planning import plan_campaigns
from runner.workflow.workspace.workspace import default_ledger_url

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.model import LaunchEntry
    from runner.ledger.target_key import LedgerConnection
    from runner.plan.model import Offer
    from runner.text.outgoing import Definition
    from runner.workflow.failures import Failures
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.scope import Scope
    from runner.workflow.workspace.workspace import Workspace

    _Planned = dict[str, list[Offer]]

_AT_ONCE = 1_000


@dataclass(slots=True)
class _Orphan:
    """A recorded campaign that none of the command's files claims.

    Attributes:
        campaign_id: the ledger's number of it; None if only a state remote has something of it.
        tags: the most people that were reached under each tag.
        reserved: launches of runs that were lost.
        same_texts: people who would get the same texts again.
        same_messages: people who would get a message of the same id.
    """

    name: str
    campaign_id: int | None = None
    tags: dict[str, int] = field(default_factory=dict)
    reserved: list[LaunchEntry] = field(default_factory=list)
    same_texts: set[str] = field(default_factory=set)
    same_messages: set[str] = field(default_factory=set)

    def compare(self, connection: LedgerConnection, people: _Planned, key: TargetKey) -> None:
        """Compare what some people would get with what they got."""
        found = [
            (one.message, person, one.occasion, one.payload_digest, "")
            for one in self.reserved
            for person in people.keys() & set(one.recipients)
        ]
        if self.campaign_id is not None:
            found += read_digests(connection, self.campaign_id, people)
        for message, person, _, digest, _ in found:
            for planned in people[person]:
                digests = self._digest(planned.payload.definition)
                if any(key.matches_payload(digest, one) for one in digests):
                    self.same_texts.add(person)
                if message == planned.message.id:
                    self.same_messages.add(person)

    def _digest(self, definition: Definition) -> set[str]:
        """Return the digests of a definition under each of the tags."""
        return {digest_filled({**definition, "tag": tag}) for tag in self.tags}


@dataclass
class RecordNames:
    """The check that what looks new has no other name on record.

    With `is_target_only` campaigns and messages may have any name, as where nothing is sent: what is found
    at the service is recorded then, and would be the record of a target that has another name.
    """

    workspace: Workspace
    ledger: Ledger
    is_target_only: bool = False
    _campaigns: Collection[Campaign] = field(default=(), init=False)
    _claimed: Collection[str] = field(default=(), init=False)

    def begin(self, campaigns: Collection[Campaign], claimed: Collection[str]) -> None:
        """Take the command's campaigns, with the names of all its files (`claimed`), also former ones."""
        self._campaigns, self._claimed = campaigns, claimed
        target, targets = self.workspace.target.name, self.workspace.targets
        require_one_name(self.workspace.target, targets, self.workspace.environ)
        entry = targets["targets"].get(target, {})
        if target == SANDBOX or entry.get("renamed_from") == NONE:
            return
        recorded = self._find_targets()
        if target in recorded:
            return
        known = {target, SANDBOX, *targets["targets"]}
        gone = recorded - known
        if not gone and self.workspace.state is not None:
            gone = self.workspace.state.find_targets(known)
        if gone:
            raise _refuse_target(target, min(gone))

    def _find_targets(self) -> set[str]:
        """Return the targets with records."""
        target = self.workspace.target.name
        found = {file.name.split(".")[-3] for file in self.workspace.files.list_lockfiles(every_target=True)}
        for home in {place.parent for place in self.workspace.files.places}:
            files = home.glob(f"*{SUPPRESSIONS_SUFFIX}")
            # An opt-out alone leaves the target as new as it was: its people are known by the other name.
            found |= {file.name.removesuffix(SUPPRESSIONS_SUFFIX) for file in files} - {target}
        if self.workspace.state is not None and self.workspace.state.list_campaigns():
            found.add(target)
        # A ledger outside of the repository may have other repositories' targets.
        is_own = self.workspace.ledger_url == default_ledger_url()
        with self.ledger.reading() as connection:
            return found | list_targets(connection, target, None if is_own else self._claimed)

    def require_clear(self, item: PlanResult) -> None:
        """Ensure that a plan texts nobody who may have been texted under a former name."""
        if self.is_target_only:
            return
        _require_known_ids(item)
        _require_wave(item)
        _require_dates(item)
        if item.campaign.is_new and not item.record.known.is_empty():
            warn(
                f"{item.campaign.name} has a record now: take `renamed_from: none` out of "
                f"{show_path(item.campaign.file)}, so that it is held if it is renamed"
            )
        sends = item.plan.recipients_to_send or any(message.deferred for message in item.plan.messages)
        if item.campaign.is_new or not sends or not self._is_new(item):
            return
        own = {
            tag.casefold()
            for message in item.campaign.messages
            for tag in item.campaign.list_tags(message.id)
        }
        for orphan in self._orphans:
            same = [tag for tag in sorted(orphan.tags) if tag.casefold() in own]
            if same and orphan.name not in self._names_elsewhere:
                people = count_people(max(orphan.tags[tag] for tag in same))
                raise _refuse_name(item.campaign, orphan, f"texted {people} under the tag {same[0]!r}")
        self._require_other_people(item)

    def _is_new(self, item: PlanResult) -> bool:
        """Return whether no run has sent a campaign by this name: what was found may be another's."""
        if item.record.known.is_empty() or item.record.campaign_id is None:
            return item.record.known.is_empty()
        with self.ledger.reading() as connection:
            return not has_own_launches(connection, item.record.campaign_id)

    def _require_other_people(self, item: PlanResult) -> None:
        """Refuse a campaign that sends what one that is gone has sent to the same people, whatever its tag.

        That is the same texts, or, of a campaign whose record is this repository's, messages of the same ids.
        """
        orphans = [one for one in self._orphans if one.name not in self._names_elsewhere]
        for people in self._iterate_people(item) if orphans else ():
            with self.ledger.reading() as connection:
                for orphan in orphans:
                    orphan.compare(connection, people, self.workspace.key)
        # A ledger outside of the repository may have other repositories' campaigns.
        is_own = self.workspace.ledger_url == default_ledger_url()
        names = set(self.workspace.files.campaigns.values())
        for orphan in orphans:
            if orphan.same_texts:
                count = count_people(len(orphan.same_texts))
                raise _refuse_name(
                    item.campaign, orphan, f"sent the same texts to {count} of {item.campaign.name}"
                )
            if orphan.same_messages and (is_own or orphan.name in names):
                count = count_people(len(orphan.same_messages))
                what = f"sent messages of the same ids to {count} of {item.campaign.name}"
                raise _refuse_name(item.campaign, orphan, what)

    def _iterate_people(self, item: PlanResult) -> Iterator[_Planned]:
        """Yield by fingerprint, some at a time, the people whom a campaign texts sooner or later, and how.

        What waits for other reasons than an exclusion is compared, too.
        """
        excluded = read_excluded(item.campaign, Problems())
        people: _Planned = {}
        for phone, offers in iterate_offers(item.campaign, RecordedDeliveries({}, {}), None):
            if phone not in excluded:
                people[self.workspace.key.fingerprint(phone)] = offers
            if len(people) >= _AT_ONCE:
                yield people
                people = {}
        yield people

    @cached_property
    def _orphans(self) -> list[_Orphan]:
        """The campaigns with records that none of the command's files claims, by name."""
        found = dict[str, _Orphan]()
        for file, (_, error) in self.workspace.files.unread.items():
            # The campaign beside it says so itself.
            if find_campaign_file(file, self.workspace.target.name) is None:
                raise error
        state = self.workspace.state
        for name, reservation in state.list_reserved() if state is not None else ():
            if name not in self._claimed:
                orphan = found.setdefault(name, _Orphan(name))
                orphan.reserved += reservation.launches
                for one in reservation.launches:
                    orphan.tags[one.tag] = max(len(one.recipients), orphan.tags.get(one.tag, 0))
        with self.ledger.reading() as connection:
            unclaimed = list_unclaimed(connection, self.workspace.target.name, self._claimed)
            for number, name, tag, count in unclaimed:
                orphan = found.setdefault(name, _Orphan(name))
                orphan.campaign_id = number
                orphan.tags[tag] = max(count, orphan.tags.get(tag, 0))
        return [found[name] for name in sorted(found)]

    @cached_property
    def _names_elsewhere(self) -> set[str]:
        """The names that campaign files outside of this command claim."""
        files = {file for one in self._campaigns for file in one.file.parent.glob("*.y*ml")}
        homes = [place.parent for place in self.workspace.files.places]
        with suppress(RunnerError):
            files.update(find_campaign_files([home for home in homes if home.name == DEFAULT_FOLDER.name]))
        return {name for file in files for name in read_names(file, current=Path.cwd())}


def plan_on_record(
    workspace: Workspace, scope: Scope, ledger: Ledger, failures: Failures, watched: Iterable[str] = ()
) -> list[PlanResult]:
    """Return the plans of what is left to send, as far as they can be made; nothing of it is sent.

    What keeps a campaign from being planned goes to `failures`; if these are tolerant, what keeps all from it
    is warned of, and leaves all out. The decisions on `watched` phones (E.164) are kept.
    """
    options = PlanOptions(watched=frozenset(watched))
    reader = PlanContextReader(workspace, ledger, workspace.now())
    find_record = partial(workspace.read_record, ledger)
    try:
        # A campaign that is held as renamed sends nothing.
        names = RecordNames(workspace, ledger)
        return plan_campaigns(scope, options, find_record, reader, failures, names=names)
    except RunnerError as error:
        if not failures.is_tolerant or not failures.campaigns:
            raise
        failures.end(error)
        return []


def _refuse_name(campaign: Campaign, orphan: _Orphan, what: str) -> UnclearNameError:
    return UnclearNameError(
        f"{campaign.name} has no record, and {orphan.name!r}, which no file has any more, {what}: if it was "
        "renamed, they would be texted again. Nothing of it is sent",
        hint=f"add `renamed_from: [{orphan.name}]` to {show_path(campaign.file)} if it is that campaign "
        "under a new name, or `renamed_from: none` if it is a new one",
    )


def _refuse_target(target: str, former: str) -> UnclearNameError:
    return UnclearNameError(
        f"the target {target!r} has no record, and there is one of {former!r}, which targets.yaml does not "
        "define: if it is the same account, people who were texted or opted out under that name would be "
        "texted again. Nothing is sent",
        hint=f"put the name {former!r} back in targets.yaml; if {target!r} is another account, add "
        "`renamed_from: none` to its entry there",
    )


def _require_wave(item: PlanResult) -> None:
    """Refuse a campaign that has lost its wave, or that goes back to an earlier one."""
    wave, campaign = item.plan.wave, item.campaign
    if wave is not None and wave.later is not None:
        raise UnclearNameError(
            f"{campaign.name} has `wave: {wave.name}`, and its wave {wave.later} has begun since: this may "
            "be an old checkout, or a wave that has the name of an earlier one. Nothing of it is sent",
            hint=f"write `wave: {wave.later}` in {show_path(campaign.file)} to go on with the latest one, or "
            "a name that no wave had to text everybody again",
        )
    if wave is None or wave.name:
        return
    people = count_people(wave.texted_before or 0)
    raise UnclearNameError(
        f"{campaign.name} has no `wave`, and {people} were texted in its wave {wave.before}: without one "
        "everybody would be texted again. Nothing of it is sent",
        hint=f"put `wave: {wave.before}` back in {show_path(campaign.file)} to go on with that wave, or "
        "write a new one to text everybody again",
    )


def _require_dates(item: PlanResult) -> None:
    """Refuse a message that has been sent by a date and goes by none now, or the other way round."""
    campaign, sent = item.campaign, item.record.known.sent
    for message in campaign.messages:
        is_dated = campaign.find_date_column(message) is not None
        # Deliveries of a message are all by dates, or none is.
        one = next(iter(sent.get(message.id, ())), None)
        if one is None or (f"@{DATE}" in one) == is_dated:
            continue
        now, then = ("goes by a date", "by none") if is_dated else ("goes by no date", "by one")
        back = "take `when` out again" if is_dated else "put `when` back"
        raise UnclearNameError(
            f"the message {message.id} of {campaign.name} {now} (`when`), and it was sent {then}: people who "
            "have it could get it twice. Nothing of the campaign is sent",
            hint=f"{back} in {show_path(campaign.file)}, or give the message a new id with "
            "`renamed_from: none` if it is to go to them by the new rule as well",
        )


def _require_known_ids(item: PlanResult) -> None:
    """Refuse a message without a record, beside a record of a message that the campaign has no more."""
    counted = item.record.known.count_texted(item.campaign.wave)
    texted = {message: sum(counts) for message, counts in counted.items() if any(counts)}
    messages = {message.id: message for message in item.campaign.messages}
    lost = sorted(texted.keys() - messages)
    new = [
        one.id
        for one in item.plan.messages
        if (one.to_send or one.deferred)
        and one.id not in texted
        and not messages[one.id].renamed_from
        and not messages[one.id].is_new
    ]
    if not lost or not new:
        return
    people = count_people(texted[lost[0]])
    raise UnclearNameError(
        f"{item.campaign.name}: `{lost[0]}`, which it has no more, texted {people}, and `{new[0]}` has no "
        "record: if it was renamed, they would be texted again. Nothing of it is sent",
        hint=f"add `renamed_from: [{lost[0]}]` to the message `{new[0]}` in {show_path(item.campaign.file)} "
        "if it has a new id, or `renamed_from: none` if it is a new message",
    )
