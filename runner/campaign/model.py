"""A campaign file's content as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from runner.campaign.message_model import AnswerCondition, Arm, Languages, Message, Question, When
from runner.campaign.rule_model import CampaignRules
from runner.timing.schedule import Schedule

if TYPE_CHECKING:
    from pathlib import Path

    from runner.source.diagnostic import Position
    from runner.source.money import Money
    from runner.timing.schedule import FrequencyCap, NoRule, Purpose, TimezoneUnknown


ConsentRule = Literal["required", "not_required"]
QuietHours = Literal["legal", "none"]
OpenSessionRule = Literal["wait", "complete", "queue"]
Variable: TypeAlias = str | int | float | bool | list["Variable"] | dict[str, "Variable"] | None
Variables: TypeAlias = Mapping[str, Variable]
PhoneForm = Literal["international", "national"]
"""The form of phones that are digits with neither `+` nor another prefix."""
Landlines = Literal["refuse", "warn", "allow"]
AudienceRule = Literal["any", "encrypted"]
ColumnKey = Literal[
    "phone_column",
    "timezone_column",
    "region_column",
    "language_column",
    "consent.source_column",
    "consent.date_column",
]
DEFAULT_REVIEW_MARGIN = Fraction(1, 10)
DEFAULT_READ_REPLIES_WITHIN = timedelta(hours=24)


class Consent(NamedTuple):
    """A recipient's consent on record: its source, its ISO 8601 day if known, and how old it may be."""

    source: str
    date: str | None = None
    not_older_than: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ConsentColumns:
    """The columns of an audience file with the place of consent, or whether there is any, and its date.

    `yes` are further words for consent; consent that is `not_older_than` this counts.
    """

    source_column: str
    date_column: str | None = None
    yes: tuple[str, ...] = ()
    not_older_than: timedelta | None = None


class InlineRecipient(NamedTuple):
    """A recipient in the campaign file, its phone not yet parsed. A tuple: there may be thousands.

    `region` is an ISO 3166 country or state, `timezone` an IANA name; None falls back to the number.
    """

    phone: str
    region: str | None
    vars: Variables
    position: Position
    timezone: str | None = None
    consent: Consent | None = None
    language: str | None = None

    @property
    def country(self) -> str | None:
        """The country of a number in national form, ISO 3166-1; None for one in E.164 form."""
        return None if self.region is None else self.region.partition("-")[0]


@dataclass(frozen=True, slots=True)
class FileRecipients:
    """An audience file (CSV): every column is a variable, one column is the phone.

    Attributes:
        path: its path; of a URL, the name in messages.
        region: the country of numbers in national form, ISO 3166-1.
        timezone_column: column of IANA names; None to use the regions, or the numbers.
        location: an absolute path, or a URL, valid in every process.
        region_column: column of legal regions; None to use the numbers.
        encoding: None to detect it.
        skips_invalid: True to skip unreadable rows instead of reporting errors.
        phone_form: the form of digits without a prefix; None to read them both ways.
        language_column: column of languages; None for the campaign's default.
        rows: its rows, as written for readers without its key; None if not written.
        rows_position: where that is written.
        identity: the key of encrypted files; empty if there is none here.
    """

    path: Path
    phone_column: str
    region: str | None
    position: Position
    timezone_column: str | None = None
    consent: ConsentColumns | None = None
    location: str = ""
    region_column: str | None = None
    encoding: str | None = None
    skips_invalid: bool = False
    phone_form: PhoneForm | None = None
    language_column: str | None = None
    rows: int | None = None
    rows_position: Position | None = None
    identity: str = field(default="", repr=False, compare=False)

    @property
    def columns(self) -> dict[ColumnKey, str]:
        """The columns with meanings of their own, by the keys that name them."""
        consent = self.consent
        named: dict[ColumnKey, str | None] = {
            "phone_column": self.phone_column,
            "timezone_column": self.timezone_column,
            "region_column": self.region_column,
            "language_column": self.language_column,
            "consent.source_column": None if consent is None else consent.source_column,
            "consent.date_column": None if consent is None else consent.date_column,
        }
        return {key: name for key, name in named.items() if name is not None}

    @property
    def country(self) -> str | None:
        """The country of numbers in national form, ISO 3166-1."""
        return self.region

    @property
    def url(self) -> str | None:
        """Its URL; None if it is a path."""
        return self.location if "://" in self.location else None


RecipientSource = InlineRecipient | FileRecipients


@dataclass(frozen=True, slots=True)
class AudienceLimit:
    """Limits on the number of people; None means unlimited.

    Attributes:
        most: people texted by one plan.
        least: people of the audience: distinct phones, before exclusions.
        change: share by which the audience may differ from the one last sent to.
        expected: what a person says that the audience is like now, in place of what it last was, by the
            path of the figure: of columns the share of people with a value.
    """

    most: int | None = None
    least: int | None = None
    change: Fraction | None = None
    expected: Mapping[tuple[str, ...], Fraction] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Limits:
    """The safety limits of a campaign; None means unlimited.

    Attributes:
        recipients: people in one plan, and in the audience.
        renders: cost of one plan.
        cost: cost of one plan in money.
        recipients_per_send: phones in one launch.
        rate: sends a second.
        segments_per_message: SMS segments of a single text.
        completes: people who have answered to the end, after whom nobody is texted any more.
        invalid_rows: unreadable rows to skip: a number, or a share of all.
        settle_margin: time between the last sends and the end of their hours; None to use the service's
            response times.
    """

    recipients: AudienceLimit = field(default_factory=AudienceLimit)
    renders: int | None = None
    cost: Money | None = None
    recipients_per_send: int | None = None
    rate: float | None = None
    segments_per_message: int | None = None
    completes: int | None = None
    invalid_rows: int | Fraction | None = None
    settle_margin: timedelta | None = None


@dataclass(frozen=True, slots=True)
class AudienceSample:
    """A random part of the audience: a number of people (`size`), or a `share` of all, from 0 to 1.

    The same seed draws the same people in any campaign.
    """

    seed: str
    position: Position
    size: int | None = None
    share: Fraction | None = None

    def estimate(self, everybody: int) -> int:
        """Return about how many people of an audience are in it."""
        if self.share is not None:
            return round(self.share * everybody)
        return everybody if self.size is None else min(self.size, everybody)


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules that a campaign keeps.

    Attributes:
        consent: True to skip recipients without consent on record.
        timezone_unknown: the rule for people of unknown time zone, where the time matters.
        quiet_hours: True to keep the legal sending hours of the recipient's place.
        no_rule: with legal hours, the rule for places without known hours.
        purpose: the purpose of the texts, which selects the legal hours.
        open_session: the rule for people with an open survey; `complete` is the default of the messages'
            `complete_existing_sessions`.
        opt_out_words: further words that opt out.
        read_replies_within: maximum time since replies on the target were read; otherwise texts wait.
        landlines: the rule for numbers that surely get no texts: landlines, pagers, personal and universal
            numbers.
        review_margin: share by which recipients may exceed the number in the pull request's comment.
        sender: the name that the first text to a person must say; None if there is no such rule.
        audience: whether people may only stand in encrypted files.
        retention: how long texts and answers are kept after the last text; None if for good.
    """

    consent: ConsentRule = "not_required"
    timezone_unknown: TimezoneUnknown = "refuse"
    quiet_hours: QuietHours = "none"
    no_rule: NoRule = "refuse"
    purpose: Purpose = "survey"
    frequency_cap: FrequencyCap | None = None
    open_session: OpenSessionRule = "wait"
    opt_out_words: tuple[str, ...] = ()
    read_replies_within: timedelta = DEFAULT_READ_REPLIES_WITHIN
    review_margin: Fraction = DEFAULT_REVIEW_MARGIN
    landlines: Landlines = "warn"
    sender: str | None = None
    audience: AudienceRule = "any"
    retention: timedelta | None = None


LockfileKind = Literal["full", "counts"]
DEFAULT_RECIPIENTS_PER_SEND = 500
"""Default number of phones in one send; no maximum is documented."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """The day or size at which an experiment's verdict is taken; with neither, at every look.

    `at` is an ISO 8601 day of the campaign's time zone, perhaps missing from the calendar; `per_arm` counts
    people to ask in each arm.
    """

    position: Position
    at: str | None = None
    per_arm: int | None = None


@dataclass(frozen=True, slots=True)
class Variants:
    """An experiment, or only a holdout.

    Attributes:
        seed: of the draw. The same seed, arms and weights give everyone the same arm in any campaign.
        of: id of the varied message; None if there is only a holdout.
        arms: in any order; none if there is only a holdout.
        position: of `of`, or of the first key of the experiment.
        holdout: share, from 0 to below 1, of recipients that get nothing.
        analysis: time of the verdict, if the campaign sets it.
    """

    seed: str
    of: str | None
    arms: tuple[Arm, ...]
    position: Position
    holdout: float = 0.0
    analysis: Analysis | None = None


GuardName = Literal["opt_outs", "rejected"]


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """One step: the share of the audience that it opens, and the wait after its last text.

    `hold` is None if none is written.
    """

    share: Fraction
    position: Position
    hold: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """The highest share of the people texted to whom something may happen."""

    name: GuardName
    limit: Fraction
    position: Position


@dataclass(frozen=True, slots=True)
class Rollout:
    """The steps of a campaign, and what stops it.

    Attributes:
        seed: of the draw; the campaign's name if none is written.
        position: of the key.
        steps: nested shares of the audience, the smallest first.
        is_seeded: whether the seed is written.
    """

    seed: str
    position: Position
    steps: tuple[RolloutStep, ...]
    guards: tuple[Guard, ...] = ()
    is_seeded: bool = False


class Ignore(NamedTuple):
    """Warnings of a code about the campaign's file that are silenced, with the reason."""

    code: str
    reason: str
    position: Position


@dataclass(frozen=True, slots=True)
class Campaign:
    """A whole campaign file; the phones in it stay out of its `repr`, which may end up in a log.

    Attributes:
        name: unique in the repository; one third of a delivery's identity.
        position: of the name; the file's start if the file gives the name.
        root: the folder below which this campaign may read files.
        vars: template variables for every recipient.
        recipients: the audience's sources, in order: the first mention of a phone wins.
        exclude: phones that this campaign never texts.
        sample: the part of the audience to text; None for all.
        messages: in the order of the file.
        renamed_from: its former names.
        is_new: whether it says that it has none (`renamed_from: none`).
        is_named: whether its file gives the name.
        lockfile: whether the lockfile lists launches or counts them.
        languages: of its texts; None if all are in one language.
        export_columns: columns of the audience for files of answers, each with its position.
        score: the tag of the question with the campaign's score; None to use the scales that messages share.
        score_target: what that score should reach, a line in reports.
        title: heading of its reports; None to use the name.
        description: what it is for, as written, for readers of reports.
        owner: whom readers of reports ask.
        series: what it is a wave of: reports compare it with the others of the same series.
        wave: the occasion on which everyone is texted again; empty if there is none.
        rollout: the steps in which its audience is texted; None for all at once.
        shows_comments: whether reports quote answers in people's own words.
        ignore: the warnings that it silences.
        rules: what the files `targets.yaml` say of it.
        stamp: of the file when it was read (`stamp_file`).
        digest: of all that the file says, without comments, layout and what only reports read.
    """

    name: str
    position: Position
    file: Path
    root: Path
    messages: tuple[Message, ...]
    recipients: tuple[RecipientSource, ...] = field(repr=False)
    exclude: tuple[RecipientSource, ...] = field(default=(), repr=False)
    vars: Variables = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    renamed_from: tuple[str, ...] = ()
    is_new: bool = False
    is_named: bool = True
    variants: Variants | None = None
    sample: AudienceSample | None = None
    schedule: Schedule = field(default_factory=Schedule)
    policy: Policy = field(default_factory=Policy)
    lockfile: LockfileKind = "full"
    export_columns: tuple[tuple[str, Position], ...] = ()
    score: str | None = None
    score_target: Fraction | None = None
    title: str | None = None
    description: str | None = None
    owner: str | None = None
    series: str | None = None
    wave: str = ""
    rollout: Rollout | None = None
    shows_comments: bool = False
    languages: Languages | None = None
    ignore: tuple[Ignore, ...] = ()
    rules: CampaignRules = field(default_factory=CampaignRules)
    stamp: object = field(default=None, compare=False, repr=False)
    digest: str = field(default="", compare=False, repr=False)

    @property
    def message_ids(self) -> dict[str, str]:
        """The ids of the messages, by their present and former ids."""
        return {name: message.id for message in self.messages for name in (*message.renamed_from, message.id)}

    @property
    def goes_by_clock(self) -> bool:
        """True if hours or dates decide who gets its texts, and when."""
        policy = self.policy
        has_rule = policy.quiet_hours != "none" or policy.consent == "required" or policy.frequency_cap
        is_timed = bool(self.list_earlier() or self.date_columns) or not self.schedule.is_always_open()
        return bool(has_rule or is_timed)

    @property
    def date_columns(self) -> frozenset[str]:
        """The columns with dates that messages go by."""
        return frozenset(message.when.column for message in self.messages if message.when is not None)

    def find_when(self, message: Message) -> tuple[When | None, timedelta]:
        """Return the dates that a message, or the message that it comes after, goes by, and its wait."""
        by_id, wait = {one.id: one for one in self.messages}, timedelta()
        while message.when is None and message.after is not None and message.after.message in by_id:
            wait += message.after.wait
            message = by_id[message.after.message]
        return message.when, wait

    def find_date_column(self, message: Message) -> str | None:
        """Return the column with the dates that a message, or the message that it comes after, goes by."""
        when, _ = self.find_when(message)
        return None if when is None else when.column

    def list_earlier(self) -> set[str]:
        """Return the ids of the messages whose recipients or answers others go by."""
        after = {message.after.message for message in self.messages if message.after is not None}
        return after.union(*([one.id for one in self.list_asking(each)] for each in self.messages))

    def list_asking(self, message: Message) -> tuple[Message, ...]:
        """Return the messages above one that ask, in any arm, the question whose answer it goes by.

        Those of another date ask about something else.
        """
        condition, dated = message.to, (None, self.find_date_column(message))
        if not isinstance(condition, AnswerCondition):
            return ()
        above = takewhile(lambda one: one.id != message.id, self.messages)
        return tuple(
            one
            for one in above
            if self.find_date_column(one) in dated
            and any(question.tag == condition.question for _, question in self.list_ways(one))
        )

    def list_ways(self, message: Message) -> list[tuple[str | None, Question]]:
        """Return the questions of a message in each arm, and without arms as it stands."""
        ways = [(None, message), *self.list_arms(message.id).items()]
        return [(arm, question) for arm, varied in ways for question in varied.questions]

    def list_surveys(self) -> frozenset[str]:
        """Return the ids of the messages that have questions, in any arm."""
        return frozenset(message.id for message in self.messages if self.asks(message))

    def asks(self, message: Message) -> bool:
        """Return whether a message has questions, in any arm."""
        return any(one.questions for one in self.list_written(message))

    def list_arms(self, message_id: str) -> dict[str, Message]:
        """Return a message as each arm of the experiment sends it; empty if it has no arms."""
        if self.variants is None or self.variants.of != message_id:
            return {}
        message = next(message for message in self.messages if message.id == message_id)
        return {arm.id: arm.apply_to(message) for arm in self.variants.arms}

    def list_written(self, message: Message) -> tuple[Message, ...]:
        """Return a message as it stands, and as each arm sends it."""
        return (message, *self.list_arms(message.id).values())

    def iterate_sent(self, message: Message) -> Iterator[Message]:
        """Yield a message as it is sent, in each arm and language."""
        for one in self.list_arms(message.id).values() or (message,):
            if self.languages is None:
                yield one
            else:
                yield from map(one.in_language, self.languages.known)

    def list_tags(self, message_id: str) -> tuple[str, ...]:
        """Return the project tags that a message is sent with."""
        message = next(message for message in self.messages if message.id == message_id)
        varied = self.list_arms(message_id).values()
        return tuple(dict.fromkeys(one.tag for one in varied)) or (message.tag,)
