"""The types of a plan as a document: what `runner plan` prints, saves and is held to."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal, NotRequired, TypedDict

from runner.document import UNSET, Count, Digest, Document, FailedCampaign, Part, Positive, UnsetType
from runner.ledger.people.replies import UnreadReplies
from runner.ledger.people.suppressions import Pause
from runner.plan.limits.audience_guard import PlannedAudience
from runner.plan.limits.cost import PlannedCost
from runner.plan.model import Coming, LanguageCounts, ListedCharacter, MessageCounts, PlannedWave, Span
from runner.plan.rollout import OpenStep
from runner.service.target import Destination
from runner.timing.decision import DueHour

ApprovalStatus = Literal["none", "covered", "needed"]


class EarlierDecisions(TypedDict):
    """Reviewers' decisions before a later attempt of a GitHub run, which approve nothing of its plan.

    Attributes:
        run: the run's id.
        attempt: the attempt's number.
        decisions: state, login and how often.
    """

    run: str
    attempt: str
    decisions: list[list[Any]]


class PlanDigests(TypedDict):
    """The digests that a saved plan must still have when it is applied.

    Attributes:
        campaign: of the campaign file.
        deliveries: of who gets what.
        record: of what was on record as sent or unresolved.
        rules: of the defaults and bounds in targets.yaml; left out where there are none.
    """

    campaign: Digest
    deliveries: Digest
    record: Digest
    rules: NotRequired[Digest]


class SavedOptions(Part, frozen=True):
    """The options that a saved plan was made with.

    Attributes:
        only: the one message that is planned (`--only`); None for all.
        limit: the most recipients now (`--limit`); None for all.
    """

    only: str | None
    limit: Positive | None


class AskedApproval(Part, frozen=True):
    """The approval that a plan needs, and its state.

    Attributes:
        status: how far the plan is covered.
        reason: what goes beyond what was approved; None if nothing does.
        request: as `runner ci approve` records it: how far each message goes, and digests of what is
            reviewed. None without a RUNNER_STATE_KEY.
        seal: proves, with the state key, that this plan asked for it; None without one.
    """

    status: ApprovalStatus
    reason: str | None
    request: dict[str, Any] | None
    seal: Digest | UnsetType | None = UNSET


class CountedReason(Part, frozen=True):
    """A reason for which recipients are not texted now.

    Attributes:
        reason: why, in words.
        recipients: how many recipients.
    """

    reason: str
    recipients: Count


class FindableDifference(Part, frozen=True):
    """The smallest difference that a pair of arms can be expected to show.

    Attributes:
        arm: the arm's id.
        against: the earlier arm's id.
        people: of the arm: who has the message, gets it now, or may later, by the arms' weights.
        against_people: of the earlier arm.
        difference: of the shares who answer, as a fraction of 1, if half of the earlier arm's people do: what
            is found in 80 of 100 experiments. None if none is.
    """

    arm: str
    against: str
    people: Count
    against_people: Count
    difference: Fraction | None


class PlannedMessage(MessageCounts, frozen=True, kw_only=True):
    """The plan of one message: who gets it now, and why not the others.

    Attributes:
        arms: of an experiment's message: recipients to send to now, by arm.
        coming: what comes later of this message, by why it does not come now, and of a follow-up by whether
            its moment is known.
        next_due: when the first of the deferred recipients is due: UTC, ISO 8601, the full minute.
        due: the deferred recipients by the hour in which they are due, in their local time.
        reasons: why recipients are not texted now, in words, with how many each reason holds back.
        costly_characters: characters outside GSM-7, each with what it costs.
        findable: of an experiment's message that asks: what each pair of arms can show.
        languages: of a campaign with `languages`: the people of each, most first.
    """

    arms: dict[str, Count]
    coming: tuple[Coming, ...]
    next_due: str | None
    due: tuple[DueHour, ...]
    reasons: tuple[CountedReason, ...]
    costly_characters: tuple[ListedCharacter, ...]
    findable: tuple[FindableDifference, ...] = ()
    languages: tuple[LanguageCounts, ...] | UnsetType = UNSET


class ShownLaunch(Part, frozen=True):
    """One request to the service: a rendered text or survey, and its phones.

    Attributes:
        message: the message's id.
        arm: the experiment's arm; None for a message without.
        payload_digest: the digest of what is sent: 128 bits in hexadecimal.
        payload: the send body less `phone`.
        phones: masked.
    """

    message: str
    arm: str | None
    payload_digest: Digest
    payload: Mapping[str, Any]
    phones: tuple[str, ...]


class ListedDefault(Part, frozen=True):
    """A value that a campaign takes from `defaults` of a targets.yaml.

    Attributes:
        key: as in `policy.consent`.
        value: as it is written there; of `policy.opt_out_words`, those that were added.
        file: the targets.yaml.
        line: from 1.
    """

    key: str
    value: Any
    file: str
    line: Positive


class PlannedCampaign(Part, frozen=True):
    """The plan of one campaign.

    Attributes:
        name: the campaign's name.
        file: the campaign file, as it is named on the command line.
        target: the target's name.
        destination: where it is sent.
        digests: what a saved plan is held to when it is applied.
        key_fingerprint: of the RUNNER_STATE_KEY that the digests are made with; None without one: they can
            then be found by guessing phones.
        pause: since when, and why, a person has paused the campaign; None if nobody has. Nothing of it is
            sent meanwhile.
        unread_replies: replies on the target that texts of this campaign wait for; None if it waits for none.
        wave: the wave that it is of; None if it has none.
        rollout: the open step of its rollout; None if it has none, or if nothing is known of it.
        completed: people who have answered to the end, as last reconciled; None without `limits.completes`.
        refusals: the safety limits that the plan breaks; apply sends nothing if there is one.
        people: who get something now, each once, however many messages they get.
        people_later: who get nothing now, and something later, by what is known now.
        messages: one entry a message.
        audience: what the whole audience is like, beside the one last sent to.
        cost: what it costs, by the prices of its target; left out where that has none.
        defaults: values that it takes from targets.yaml; left out where it takes none.
        approval: what people are asked to approve, and whether they have.
        launches: with --launches: each launch.
    """

    name: str
    file: str
    target: str
    destination: Destination
    digests: PlanDigests
    key_fingerprint: str | None
    pause: Pause | None
    unread_replies: UnreadReplies | None
    wave: PlannedWave | None
    rollout: OpenStep | None
    completed: Count | None
    refusals: tuple[str, ...]
    people: Count
    people_later: Span
    messages: tuple[PlannedMessage, ...]
    audience: PlannedAudience
    cost: PlannedCost | UnsetType = UNSET
    defaults: tuple[ListedDefault, ...] | UnsetType = UNSET
    approval: AskedApproval | UnsetType = UNSET
    launches: tuple[ShownLaunch, ...] | UnsetType = UNSET


class PlanDocument(Document, frozen=True):
    """The document that `runner plan --format json` writes, and `--out` saves.

    Attributes:
        now: the time as of which it was planned; UTC, ISO 8601.
        plan_digest: of where all campaigns are sent, of their digests and of how many get each message: plans
            that send the same to the same place share it. `apply` records it.
        notes: what is said once of the whole plan, for people: who sees replies to it.
        campaigns: one entry a campaign.
        approval: whether it is `covered` by what people approved, or an approval is `needed`; `none` if it
            sends nothing.
        earlier: of saved plans that a later attempt of a GitHub run made: its reviewers' decisions before.
        options: of saved plans: the options that they were made with.
        checksum: of saved plans: of all the rest. One that doesn't fit was edited.
        failures: campaigns that were left out, while the others were gone on with.
    """

    now: str
    plan_digest: Digest
    notes: tuple[str, ...]
    campaigns: tuple[PlannedCampaign, ...]
    approval: ApprovalStatus | UnsetType = UNSET
    earlier: EarlierDecisions | UnsetType = UNSET
    options: SavedOptions | UnsetType = UNSET
    checksum: Digest | UnsetType = UNSET
    failures: tuple[FailedCampaign, ...] | UnsetType = UNSET
