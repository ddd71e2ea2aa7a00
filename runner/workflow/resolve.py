"""`runner resolve`: a person's decisions on launches that may have reached people."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import compress, groupby
from typing import TYPE_CHECKING

from runner.delivery.comparison import Verdict, is_same_text
from runner.document import Count, Described, Document, FailedCampaign, Part, build
from runner.errors import RunnerError, UnknownOutcomesError, UsageError
from runner.ledger.model import Outcome, find_wave, write_moment
from runner.ledger.record.deliveries import record_outcomes
from runner.ledger.record.entry import adopt_in_part, dismiss_launches, list_unexplained
from runner.ledger.record.unsettled import list_unsettled
from runner.source.normalize import normalize_guid
from runner.wording import count_people, count_words
from runner.workflow.delivery.apply_session import ApplySession
from runner.workflow.failures import Failures
from runner.workflow.observer import note, warn
from runner.workflow.workspace.workspace import Workspace, find_gone, utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runner.campaign.model import Campaign
    from runner.delivery.comparison import Candidate
    from runner.ledger.model import Unsettled
    from runner.ledger.record.entry import UnexplainedLaunch
    from runner.workflow.scope import Scope


_SAID = "a person said that it was not sent"


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
        wave: the wave that it is of; empty if it is of none.
        tag: the project tag.
        recipients: how many.
        intent_at: when it was about to be sent; UTC, ISO 8601.
        detail: what is known of the outcome.
        candidates: launches that the service lists, that no record claims, and that may be this one.
    """

    campaign: str
    key: str
    message: str
    wave: str
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
        failures: campaigns that were left out, while the others were gone on with.
    """

    launches: tuple[UnknownLaunch, ...]
    unexplained: tuple[ListedGroup, ...]
    failures: tuple[FailedCampaign, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved(Described):
    """The unresolved launches as a document; falsy if there are none."""

    document: UnresolvedDocument
    exit_code: int

    def __len__(self) -> int:
        return len(self.document.launches) + len(self.document.unexplained)


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
        given = self.guid is not None, self.not_sent, self.adopt_all, self.not_sent_all
        names = list(compress(("--adopt", "--not-sent", "--adopt-all", "--not-sent-all"), given))
        if len(names) > 1:
            raise UsageError(f"{' and '.join(names)} contradict each other")


@dataclass(frozen=True, slots=True)
class OpenLaunch:
    """A launch of unknown outcome, with the list's verdict on it; or one that no record explains."""

    campaign: Campaign
    launch: Verdict | UnexplainedLaunch

    @property
    def key(self) -> str:
        """Its key, or the service's guid."""
        return self.launch.launch.key if isinstance(self.launch, Verdict) else self.launch.project_launch_guid

    @property
    def messages(self) -> tuple[str, ...]:
        """The present ids of the messages that it may have been."""
        if not isinstance(self.launch, Verdict):
            return tuple(sorted(self.launch.held))
        message = self.launch.launch.message
        return (self.campaign.message_ids.get(message, message),)

    @property
    def people(self) -> set[str]:
        """The fingerprints of its people."""
        return set(self.launch.launch.recipients if isinstance(self.launch, Verdict) else self.launch.people)

    @property
    def match(self) -> Candidate | None:
        """The service's launch that one of unknown outcome certainly is."""
        return self.launch.match if isinstance(self.launch, Verdict) else None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The service's launches that one of unknown outcome may be."""
        doubtful = self.launch.doubtful if isinstance(self.launch, Verdict) else ()
        return doubtful if self.match is None else (self.match, *doubtful)

    def is_meant(self, word: Word) -> bool:
        """Return whether a decision may be about the launch."""
        is_key = word.key is None or normalize_guid(word.key) == normalize_guid(self.key)
        return is_key and word.message in (None, *self.messages)

    def has_guid(self, guid: str) -> bool:
        """Return whether it is, or may be, one of the service's launches."""
        guids = [one.guid for one in self.candidates]
        if not isinstance(self.launch, Verdict):
            guids = [normalize_guid(self.launch.project_launch_guid)]
        return normalize_guid(guid) in guids

    def choose_message(self, message: str | None) -> str:
        """Return the message that the launch is recorded as.

        Raises:
            UsageError: it may have been several, and the user names none of them.
        """
        if message is None and len(self.messages) > 1:
            tag = "" if isinstance(self.launch, Verdict) else self.launch.tag
            raise UsageError(
                f"the texts under the tag {tag!r} may have been several messages: {', '.join(self.messages)}",
                hint="say which one with --message",
            )
        return message or self.messages[0]


def resolve_launches(scope: Scope, word: Word, approve: Callable[[str], None]) -> Unresolved:
    """Record a person's decision on launches that may have reached people; return the open ones.

    Those of campaigns whose files are gone are among them. For decisions on all launches, `approve` gets the
    numbers of texts and people, and raises to refuse.

    Raises:
        UsageError: the decision contradicts itself, or fits several launches.
        RunnerError: the launch does not exist, or nothing can be resolved.
    """
    word.require_one()
    workspace = Workspace.open(scope, asks_service=True)
    failures = Failures()
    campaigns = failures.load(scope, keeps_rules=False)
    with workspace.open_ledger() as opened, ApplySession(workspace, opened, scope) as session:
        gone = find_gone(workspace, scope, opened, failures.claimed)
        failures.total += len(gone)
        resolving = _Resolving(session)
        for campaign in (*campaigns, *gone):
            failures.attempt(campaign, partial(resolving.enter, campaign))
        resolving.decide(word, approve)
        left = resolving.list_open()
    code = UnknownOutcomesError.exit_code if left else int(session.remote_intents.is_behind)
    document = _make_document(left, failures.describe())
    return Unresolved(document=document, exit_code=failures.find_exit_code(code))


@dataclass(frozen=True, slots=True)
class _Resolving:
    """Records decisions on the launches of the campaigns that it has entered."""

    session: ApplySession
    _entered: list[tuple[Campaign, list[Verdict]]] = field(default_factory=list, init=False)

    def enter(self, campaign: Campaign) -> None:
        """Lock a campaign, and ask the service about its launches."""
        self._entered.append((campaign, self.session.judge(campaign)))

    def list_open(self) -> list[OpenLaunch]:
        """Return what is unresolved."""
        found = []
        for campaign, verdicts in self._entered:
            unsettled = {one.key for one in self.session.ask(campaign, list_unsettled)}
            found += [OpenLaunch(campaign, one) for one in verdicts if one.launch.key in unsettled]
            list_listed = partial(list_unexplained, message_ids=campaign.message_ids)
            unexplained = self.session.ask(campaign, list_listed)
            # A launch whose people another one holds gets its turn when that one is settled.
            found += [OpenLaunch(campaign, one) for one in unexplained if one.held]
        return found

    def decide(self, word: Word, approve: Callable[[str], None]) -> None:
        """Record a decision."""
        meant = [one for one in self.list_open() if one.is_meant(word)]
        if word.guid is not None:
            found = [one for one in meant if one.has_guid(word.guid)]
            found = [one for one in found if not isinstance(one.launch, Verdict)] or found
            chosen = _choose(found, f"the service's launch {word.guid} may be none of")
            guid = normalize_guid(word.guid)
            candidates = [one for one in chosen.candidates if one.guid == guid]
            self._adopt([(chosen, next(iter(candidates), None))], word.message)
        elif word.not_sent:
            found = [one for one in meant if word.key is not None or isinstance(one.launch, Verdict)]
            self._release([_choose(found, "there is no such launch among")])
        elif word.adopt_all or word.not_sent_all:
            approve(_describe_all(meant))
            if word.adopt_all:
                self._adopt(_pair_certain(meant), word.message)
            else:
                self._release([one for one in meant if one.match is None])

    def _adopt(self, chosen: Sequence[tuple[OpenLaunch, Candidate | None]], message: str | None) -> None:
        """Record launches as sent by their campaigns; those of unknown outcome as their candidates."""
        messages = [one.choose_message(message) for one, _ in chosen]
        for (one, _), name in zip(chosen, messages, strict=True):
            _require_date(one, name)
        reached: list[tuple[Campaign, set[str]]] = []
        for (one, candidate), name in zip(chosen, messages, strict=True):
            people = one.people
            if isinstance(one.launch, Verdict) and candidate is not None:
                self._warn_of_unlisted(one.campaign, len(people - candidate.recipients))
                stat, people = candidate.stat, people | candidate.recipients
                at, guid = write_moment(stat.project_launch_start, utc_now()), stat.project_launch_guid
                with self.session.ledger.writing() as connection:
                    adopt_in_part(
                        connection, one.campaign.name, one.launch.launch, guid, at, frozenset(people)
                    )
            elif not isinstance(one.launch, Verdict):
                self.session.recover(one.campaign).adopt_unexplained(name, one.launch)
            reached.append((one.campaign, people))
        self._conclude(reached, "sent")

    @staticmethod
    def _warn_of_unlisted(campaign: Campaign, people: int) -> None:
        """Say that people count as texted whom the service does not list."""
        if people:
            are, count = ("are", "count") if people > 1 else ("is", "counts")
            warn(
                f"{campaign.name}: {count_words(people, 'person', 'people')} of this text {are} not in the "
                f"service's list of it, and {count} as texted: nobody sends it to them again"
            )

    def _release(self, chosen: Sequence[OpenLaunch]) -> None:
        """Record that launches were not sent, or not by their campaigns."""
        for one in chosen:
            if one.match is not None:
                guid = one.match.stat.project_launch_guid
                raise RunnerError(
                    f"{one.key} was sent: the service lists the same text to the same people as {guid}",
                    hint=f"record it with: runner resolve --launch {one.key} --adopt {guid}",
                )
        for one in chosen:
            campaign_id = self.session.number(one.campaign)
            with self.session.ledger.writing() as connection:
                if isinstance(one.launch, Verdict):
                    record_outcomes(
                        connection, [Outcome(one.launch.launch.id, "not_sent", utc_now(), detail=_SAID)]
                    )
                else:
                    dismiss_launches(connection, campaign_id, [one.key])
        self._conclude([(one.campaign, one.people) for one in chosen], "did not send")

    def _conclude(self, decided: Iterable[tuple[Campaign, set[str]]], verb: str) -> None:
        """Write the campaigns' lockfiles, and say what was recorded."""
        for name, group in groupby(decided, key=lambda one: one[0].name):
            found = list(group)
            self.session.rewrite_lockfile(found[0][0])
            note(f"Recorded: {name} {verb} {_count([people for _, people in found])}.")


def _count(people: Sequence[set[str]]) -> str:
    """Return a phrase with the numbers of texts and people."""
    return f"{count_words(len(people), 'text')} ({_count_people(people)})"


def _count_people(people: Sequence[set[str]]) -> str:
    return count_people(len(set[str]().union(*people)))


def _choose(found: Sequence[OpenLaunch], otherwise: str) -> OpenLaunch:
    """Return the only match.

    Raises:
        UsageError: there are several.
        RunnerError: there is none.
    """
    if len(found) == 1:
        return found[0]
    if found:
        keys = ", ".join(one.key for one in found)
        raise UsageError("there are several texts of unknown outcome", hint=f"name one with --launch: {keys}")
    raise RunnerError(f"{otherwise} the texts of unknown outcome", hint="`runner resolve` lists them")


def _require_date(one: OpenLaunch, message_id: str) -> None:
    """Refuse to adopt a launch of a message by a date if its people have several dates."""
    campaign, launch = one.campaign, one.launch
    message = next((each for each in campaign.messages if each.id == message_id), None)
    is_dated = message is not None and campaign.find_date_column(message) is not None
    if is_dated and not isinstance(launch, Verdict) and not launch.occasion:
        raise RunnerError(
            f"{campaign.name}: the people of {launch.project_launch_guid} have several dates, and nothing "
            f"says which of them {message_id!r} was sent for",
            hint="--not-sent has it sent for their dates to come; `exclude` keeps people out",
        )


def _pair_certain(meant: Iterable[OpenLaunch]) -> list[tuple[OpenLaunch, Candidate | None]]:
    """Return launches with what they are adopted as, without those that may be several of the service's."""
    found: list[tuple[OpenLaunch, Candidate | None]] = []
    taken: set[str] = set()
    for one in meant:
        candidates = [each for each in one.candidates if each.guid not in taken]
        taken |= {each.guid for each in candidates if len(candidates) == 1}
        if len(candidates) == 1 or not isinstance(one.launch, Verdict):
            found.append((one, candidates[0] if candidates else None))
    return found


def _describe_all(meant: Sequence[OpenLaunch]) -> str:
    """Return a phrase on what a decision on all launches would record."""
    if not meant:
        raise RunnerError("there is nothing to resolve", hint="`runner resolve` lists what there is")
    people = [one.people for one in meant]
    return f"{count_words(len(meant), 'text')} that reached {_count_people(people)}"


def _make_document(left: Iterable[OpenLaunch], failures: tuple[FailedCampaign, ...]) -> UnresolvedDocument:
    unknown: list[UnknownLaunch] = []
    groups: dict[tuple[str, str, tuple[str, ...]], list[UnexplainedLaunch]] = {}
    for one in left:
        if isinstance(one.launch, Verdict):
            unknown.append(_list_launch(one.campaign.name, one.launch.launch, one.candidates))
        else:
            groups.setdefault((one.campaign.name, one.launch.tag, one.messages), []).append(one.launch)
    listed = (_list_group(*key, launches) for key, launches in groups.items())
    return UnresolvedDocument(tuple(unknown), tuple(listed), failures)


def _list_launch(campaign: str, launch: Unsettled, candidates: Iterable[Candidate]) -> UnknownLaunch:
    listed = tuple(
        build(
            CandidateLaunch,
            one.stat,
            project_launch_start=write_moment(one.stat.project_launch_start, "unknown"),
            recipients=len(one.recipients),
            recipients_in_common=len(one.recipients & launch.recipients),
            same_definition=is_same_text(launch, one),
        )
        for one in candidates
    )
    return build(
        UnknownLaunch,
        launch,
        campaign=campaign,
        wave=find_wave(launch.occasion),
        recipients=len(launch.recipients),
        detail=launch.detail or "the process ended before an answer came",
        candidates=listed,
    )


def _list_group(
    campaign: str, tag: str, messages: tuple[str, ...], launches: Sequence[UnexplainedLaunch]
) -> ListedGroup:
    listed = tuple(
        ListedLaunch(
            one.project_launch_guid, one.started_at, len(one.people), bool(one.definition.get("questions"))
        )
        for one in launches
    )
    people = {person for one in launches for person in one.people}
    return ListedGroup(campaign, tag, messages, len(people), listed)
