"""`runner resolve`: a person's decisions on launches that may have reached people."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from runner.delivery.comparison import is_same_text
from runner.delivery.launch_list import write_moment
from runner.document import Count, Described, Document, Part, build
from runner.errors import RunnerError, UsageError
from runner.ledger.record.entry import adopt_in_part
from runner.ledger.record.unexplained import dismiss_launches, list_unexplained
from runner.ledger.record.unsettled import release_launch
from runner.source.normalize import normalize_guid
from runner.wording import count_words
from runner.workflow.delivery.apply_session import ApplySession
from runner.workflow.delivery.gone import find_gone
from runner.workflow.failures import Failures
from runner.workflow.observer import note
from runner.workflow.workspace.workspace import Workspace, utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from runner.campaign.model import Campaign
    from runner.delivery.comparison import Candidate, Verdict
    from runner.ledger.database import Ledger
    from runner.ledger.record.unexplained import UnexplainedLaunch
    from runner.workflow.scope import Scope


_SAID = "a person said that it was not sent"


@dataclass(frozen=True, slots=True)
class UnexplainedGroup:
    """Unexplained launches under one project tag, and the ids of the messages that they may have been."""

    tag: str
    messages: tuple[str, ...]
    launches: tuple[UnexplainedLaunch, ...]

    @property
    def people(self) -> set[str]:
        """The fingerprints of the people held because of them."""
        return {fingerprint for launch in self.launches for fingerprint in launch.people}


@dataclass(slots=True)
class Case:
    """One campaign's launches that may have reached people.

    `verdicts` are launches of unknown outcome, with candidates in the service's list; `groups` are launches
    under the campaign's tags without a record.
    """

    campaign: Campaign
    verdicts: list[Verdict] = field(default_factory=list)
    groups: list[UnexplainedGroup] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """True if anything is left to resolve."""
        return bool(self.verdicts or self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved(Described):
    """Unresolved launches; iterates over their campaigns.

    `is_behind` is True if the state remote could not be updated completely.
    """

    cases: tuple[Case, ...]
    is_behind: bool

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def document(self) -> UnresolvedDocument:
        """The launches as a document."""
        launches = (_list_launch(case.campaign, one) for case in self for one in case.verdicts)
        groups = (_list_group(case.campaign, one) for case in self for one in case.groups)
        return UnresolvedDocument(tuple(launches), tuple(groups))


class CandidateLaunch(Part, frozen=True):
    """A launch that the service lists, that no record claims, and that may be a launch of unknown outcome.

    Attributes:
        project_launch_guid: the identifier that the service has given the launch.
        project_launch_start: when the service says that the launch began.
        recipients: how many recipients.
        recipients_in_common: of them, those that the launch has, too.
        same_definition: whether what was sent is the same.
    """

    project_launch_guid: str
    project_launch_start: str
    recipients: Count
    recipients_in_common: Count
    same_definition: bool


class UnknownLaunch(Part, frozen=True):
    """A launch of unknown outcome.

    Attributes:
        campaign: the campaign's name.
        key: names the launch; for --launch.
        message: the message's id.
        tag: the project tag.
        recipients: how many.
        intent_at: when it was about to be sent; UTC, ISO 8601.
        detail: what is known of the outcome.
        candidates: launches that the service lists, that no record claims, and that may be this one.
    """

    campaign: str
    key: str
    message: str
    tag: str
    recipients: Count
    intent_at: str
    detail: str
    candidates: tuple[CandidateLaunch, ...]


class ListedLaunch(Part, frozen=True):
    """A launch that no record explains.

    Attributes:
        project_launch_guid: the service's name for it; for --adopt and --launch.
        project_launch_start: UTC, ISO 8601.
        recipients: how many people are held because of it.
        is_survey: whether it asks questions.
    """

    project_launch_guid: str
    project_launch_start: str
    recipients: Count
    is_survey: bool


class ListedGroup(Part, frozen=True):
    """Launches that no record explains, and that can be settled at once.

    Attributes:
        campaign: the campaign's name.
        tag: the project tag that they are listed under.
        messages: the ids of the messages that they may have been; for --message.
        recipients: how many people are held because of them.
        launches: the launches, the earliest first.
    """

    campaign: str
    tag: str
    messages: tuple[str, ...]
    recipients: Count
    launches: tuple[ListedLaunch, ...]


class UnresolvedDocument(Document, frozen=True):
    """The document that `runner resolve --format json` writes.

    Attributes:
        launches: launches of unknown outcome.
        unexplained: launches that the service lists under a campaign's tags and no record explains.
    """

    launches: tuple[UnknownLaunch, ...]
    unexplained: tuple[ListedGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A person's decision on launches; without one, launches are only listed.

    Attributes:
        message: the launches' message; None for all.
        key: the launch's key, or the service's guid.
        guid: the service's launch that this one was sent as.
        not_sent: True if this campaign did not send the launch.
        adopt_all: True if the campaigns sent all listed launches.
        not_sent_all: True if they sent none of them.
    """

    message: str | None = None
    key: str | None = None
    guid: str | None = None
    not_sent: bool = False
    adopt_all: bool = False
    not_sent_all: bool = False

    def require_one(self) -> None:
        """Refuse contradictory decisions."""
        given = {
            "--adopt": self.guid is not None,
            "--not-sent": self.not_sent,
            "--adopt-all": self.adopt_all,
            "--not-sent-all": self.not_sent_all,
        }
        names = [name for name, is_given in given.items() if is_given]
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} contradict each other")

    def is_meant(self, case: Case, verdict: Verdict) -> bool:
        """Return whether the decision may be about a launch of unknown outcome."""
        return self.key in (None, verdict.launch.key) and self._fits(case, [verdict.launch.message])

    def _fits(self, case: Case, messages: Iterable[str]) -> bool:
        current = case.campaign.message_ids
        return self.message is None or self.message in {current.get(one, one) for one in messages}

    def keep_meant(self, case: Case) -> Case:
        """Return the part of a case about the decision's message."""
        return Case(
            case.campaign,
            [verdict for verdict in case.verdicts if self._fits(case, [verdict.launch.message])],
            [group for group in case.groups if self._fits(case, group.messages)],
        )


def resolve_launches(scope: Scope, word: Word, approve: Callable[[str], None]) -> Unresolved:
    """Record a person's decision on launches that may have reached people; return the open ones.

    Those of campaigns whose files are gone are among them. For decisions on all launches, `approve` gets the
    numbers of launches and people, and raises to refuse.

    Raises:
        UsageError: the decision contradicts itself, or fits several launches.
        RunnerError: the launch does not exist, another run holds a campaign, or the service cannot be asked.
    """
    word.require_one()
    workspace = Workspace.open(scope, asks_service=True)
    failures = Failures(is_apart=False)
    campaigns = failures.load(scope)
    with workspace.open_ledger() as opened, ApplySession(workspace, opened, scope) as held:
        resolving = _Resolving(held, word)
        cases = resolving.find_cases([*campaigns, *find_gone(workspace, scope, opened, failures.claimed)])
        if word.guid is not None:
            resolving.adopt_one(cases, word.guid)
        elif word.not_sent:
            resolving.release_one(cases)
        elif word.adopt_all or word.not_sent_all:
            approve(_describe_all(cases, word))
            (resolving.adopt_all if word.adopt_all else resolving.release_all)(cases)
        left = resolving.list_left(cases)
    return Unresolved(cases=tuple(left), is_behind=held.remote_intents.is_behind)


@dataclass(frozen=True, slots=True)
class _Resolving:
    """Records decisions on launches, and removes the launches from the cases."""

    session: ApplySession
    word: Word

    def find_cases(self, campaigns: Iterable[Campaign]) -> list[Case]:
        """Lock campaigns, ask the service about them, and return the open cases."""
        cases = [Case(one, self.session.judge(one), []) for one in campaigns]
        for case in cases:
            self._read_groups(case)
        return [case for case in cases if case.is_open]

    def _read_groups(self, case: Case) -> None:
        campaign_id, _ = self.session.record_of(case.campaign).require_entered()
        case.groups = _group_unexplained(self.session.ledger, campaign_id, case.campaign.message_ids)

    def adopt_one(self, cases: Sequence[Case], guid: str) -> None:
        """Record that the campaign sent one of the service's launches."""
        unexplained = _find_unexplained(cases, guid) if self.word.key in (None, guid) else None
        if unexplained is not None:
            self._adopt_group(*unexplained)
            return
        wanted = normalize_guid(guid)
        found = [
            (case, verdict, candidate)
            for case in cases
            for verdict in case.verdicts
            if self.word.is_meant(case, verdict)
            for candidate in list_candidates(verdict)
            if normalize_guid(candidate.stat.project_launch_guid) == wanted
        ]
        self._adopt(*_choose(found, f"the service's launch {guid} may be none of"))

    def release_one(self, cases: Sequence[Case]) -> None:
        """Record that one launch was not sent, or not by the campaign."""
        key = self.word.key
        unexplained = None if key is None else _find_unexplained(cases, key)
        if unexplained is not None:
            self._dismiss_group(*unexplained)
            return
        found = [
            (case, verdict)
            for case in cases
            for verdict in case.verdicts
            if self.word.is_meant(case, verdict)
        ]
        self._release(*_choose(found, "there is no such launch among"))

    def adopt_all(self, cases: Sequence[Case]) -> None:
        """Record that all listed launches were sent by their campaigns."""
        for case in map(self.word.keep_meant, cases):
            for group in case.groups:
                self._adopt_group(case, group)
            taken: set[str] = set()
            for verdict in case.verdicts:
                candidates = [
                    one for one in list_candidates(verdict) if one.stat.project_launch_guid not in taken
                ]
                if len(candidates) == 1:
                    taken.add(candidates[0].stat.project_launch_guid)
                    self._adopt(case, verdict, candidates[0])

    def release_all(self, cases: Sequence[Case]) -> None:
        """Record that no listed launch was sent by its campaign."""
        for case in map(self.word.keep_meant, cases):
            for group in case.groups:
                self._dismiss_group(case, group)
            for verdict in case.verdicts:
                if verdict.match is None:
                    self._release(case, verdict)

    def list_left(self, cases: Sequence[Case]) -> list[Case]:
        """Return the cases that are still open."""
        left = []
        for case in cases:
            self._read_groups(case)
            unsettled = self.session.list_unsettled_keys(case.campaign)
            case.verdicts = [verdict for verdict in case.verdicts if verdict.launch.key in unsettled]
            left += [case] if case.is_open else []
        return left

    def _adopt(self, case: Case, verdict: Verdict, candidate: Candidate) -> None:
        launch, guid = verdict.launch, candidate.stat.project_launch_guid
        at = write_moment(candidate.stat.project_launch_start, utc_now())
        reached = candidate.recipients | launch.recipients
        with self.session.ledger.writing() as connection:
            adopt_in_part(connection, case.campaign.name, launch, guid, at, reached)
        self._say(case, f"{launch.key} ({count_words(len(reached), 'recipient')}) was sent")

    def _release(self, case: Case, verdict: Verdict) -> None:
        launch = verdict.launch
        if verdict.match is not None:
            guid = verdict.match.stat.project_launch_guid
            raise RunnerError(
                f"{launch.key} was sent: the service lists the same text to the same recipients as {guid}",
                hint=f"record it with: runner resolve --launch {launch.key} --adopt {guid}",
            )
        with self.session.ledger.writing() as connection:
            release_launch(connection, launch.id, utc_now(), _SAID)
        self._say(case, f"{launch.key} ({count_words(len(launch.recipients), 'recipient')}) was not sent")

    def _adopt_group(self, case: Case, group: UnexplainedGroup) -> None:
        message = _choose_message(group, self.word.message)
        record = self.session.record_of(case.campaign)
        self.session.recover(case.campaign, record).adopt_unexplained(message, group.launches)
        self._say(
            case, f"{describe_group(group)} were the message {message!r}", is_one=len(group.launches) == 1
        )

    def _dismiss_group(self, case: Case, group: UnexplainedGroup) -> None:
        campaign_id, _ = self.session.record_of(case.campaign).require_entered()
        with self.session.ledger.writing() as connection:
            dismiss_launches(connection, campaign_id, [one.project_launch_guid for one in group.launches])
        words = f"{describe_group(group)} were not sent by this campaign"
        self._say(case, words, is_one=len(group.launches) == 1)

    def _say(self, case: Case, words: str, *, is_one: bool = False) -> None:
        self.session.rewrite_lockfile(case.campaign)
        if not self.session.scope.quiet:
            note(f"Recorded: {words.replace(' were ', ' was ') if is_one else words}.")


def _find_unexplained(cases: Iterable[Case], guid: str) -> tuple[Case, UnexplainedGroup] | None:
    """Return an unexplained launch as a group of its own; None if the guid is not one's."""
    wanted = normalize_guid(guid)
    found = (
        (case, replace(group, launches=(launch,)))
        for case in cases
        for group in case.groups
        for launch in group.launches
        if normalize_guid(launch.project_launch_guid) == wanted
    )
    return next(found, None)


_Found = TypeVar("_Found", bound=tuple[Any, ...])


def _choose(found: Sequence[_Found], otherwise: str) -> _Found:
    """Return the only match.

    Raises:
        UsageError: there are several.
        RunnerError: there is none.
    """
    if len(found) == 1:
        return found[0]
    if found:
        keys = ", ".join(verdict.launch.key for _, verdict, *_ in found)
        raise UsageError(
            "there are several launches of unknown outcome", hint=f"name one with --launch: {keys}"
        )
    raise RunnerError(f"{otherwise} the launches of unknown outcome", hint="`runner resolve` lists them")


def _describe_all(cases: Sequence[Case], word: Word) -> str:
    """Return a sentence on what a decision on all launches would record."""
    meant = [word.keep_meant(case) for case in cases]
    groups = [group for case in meant for group in case.groups]
    verdicts = [verdict for case in meant for verdict in case.verdicts]
    launches = sum(len(group.launches) for group in groups) + len(verdicts)
    people = sum(len(group.people) for group in groups) + sum(len(one.launch.recipients) for one in verdicts)
    if not launches:
        raise RunnerError("there is nothing to resolve", hint="`runner resolve` lists what there is")
    return f"{count_words(launches, 'launch', 'launches')} that reached {count_words(people, 'recipient')}"


def list_candidates(verdict: Verdict) -> tuple[Candidate, ...]:
    """Return the service's launches that match one of unknown outcome."""
    return (verdict.match, *verdict.doubtful) if verdict.match else verdict.doubtful


def describe_group(group: UnexplainedGroup) -> str:
    """Return a phrase with a group's numbers of launches and people."""
    launches = count_words(len(group.launches), "launch", "launches")
    return f"{launches} under the tag {group.tag!r} ({count_words(len(group.people), 'recipient')})"


def _list_launch(campaign: Campaign, verdict: Verdict) -> UnknownLaunch:
    launch = verdict.launch
    candidates = tuple(
        build(
            CandidateLaunch,
            one.stat,
            project_launch_start=write_moment(one.stat.project_launch_start, "unknown"),
            recipients=len(one.recipients),
            recipients_in_common=len(one.recipients & launch.recipients),
            same_definition=is_same_text(launch, one),
        )
        for one in list_candidates(verdict)
    )
    return build(
        UnknownLaunch,
        launch,
        campaign=campaign.name,
        recipients=len(launch.recipients),
        detail=launch.detail or "the process ended before an answer came",
        candidates=candidates,
    )


def _list_group(campaign: Campaign, group: UnexplainedGroup) -> ListedGroup:
    launches = tuple(
        ListedLaunch(
            one.project_launch_guid, one.started_at, len(one.people), bool(one.definition.get("questions"))
        )
        for one in group.launches
    )
    return ListedGroup(campaign.name, group.tag, group.messages, len(group.people), launches)


def _group_unexplained(
    ledger: Ledger, campaign_id: int, message_ids: Mapping[str, str]
) -> list[UnexplainedGroup]:
    """Return a campaign's unexplained launches, by tag and messages.

    `message_ids` maps former ids of messages to present ones.
    """
    with ledger.reading() as connection:
        found = list_unexplained(connection, campaign_id, message_ids)
    groups: dict[tuple[str, tuple[str, ...]], list[UnexplainedLaunch]] = {}
    # A launch whose people another one holds gets its turn when that one is settled.
    for launch in (one for one in found if one.held):
        groups.setdefault((launch.tag, tuple(sorted(launch.held))), []).append(launch)
    return [UnexplainedGroup(tag, messages, tuple(some)) for (tag, messages), some in sorted(groups.items())]


def _choose_message(group: UnexplainedGroup, message: str | None) -> str:
    """Return the message to record a group's launches as; the user may leave out `message` if there is one.

    Raises:
        UsageError: there are several, and the user names none of them.
    """
    if message in group.messages:
        return message
    if message is None and len(group.messages) == 1:
        return group.messages[0]
    known = ", ".join(group.messages)
    raise UsageError(
        f"the launches under the tag {group.tag!r} may have been several messages: {known}",
        hint="say which one with --message",
    )
