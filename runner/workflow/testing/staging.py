"""The staging of a campaign test: its person in the place of the audience, and a record of them.

The person is a row of an audience file with one row, so that everything about them is read as it is there.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from runner.audience.audience import AudienceTally, iterate_audience
from runner.audience.rows import read_header
from runner.audience.table import normalize_name
from runner.campaign.answers import Endings
from runner.campaign.conditions import build_answer_reader
from runner.campaign.model import FileRecipients, InlineRecipient
from runner.campaign.variants import Draw
from runner.ledger.fingerprint import KnownPeople, OpenSession, TargetKey
from runner.ledger.model import RecordedDeliveries, on_occasion
from runner.ledger.people.history import EarlierAnswer, EarlierLaunch, EarlierMessage
from runner.plan.dates import Dates
from runner.plan.plan_context import PlanContext
from runner.source.diagnostic import Diagnostic, Problems
from runner.source.normalize import suggest
from runner.text.include import include_folder
from runner.text.template import TextCompiler
from runner.timing.dates import CellTime, read_time
from runner.timing.legal_hours import load_law
from runner.timing.zone import find_zones

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from runner.audience.audience import Recipient
    from runner.campaign.model import Campaign, RecipientSource
    from runner.source.yaml import Key
    from runner.workflow.testing.cases import CampaignTest

_KEY = TargetKey.of("test", None)
_INLINE = ("phone", "region", "timezone", "language")
_ANY_MOMENT = datetime(2000, 1, 1, 12, tzinfo=UTC)
"""The moment of tests of campaigns that do not go by the clock."""


class StagingError(Exception):
    """A test cannot be run, as `problems` say."""

    def __init__(self, *problems: Diagnostic) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = problems


@dataclass
class Stage:
    """What a test is run on; `file` is a place for its audience of one.

    Each attribute raises StagingError for what is wrong in the test.
    """

    test: CampaignTest
    written_campaign: Campaign
    file: Path
    key: TargetKey = field(default=_KEY, init=False)

    def refuse(
        self, keys: Sequence[Key], code: str, words: str, hint: str, *, at_key: bool = False
    ) -> NoReturn:
        """Raise the error for a value of the test."""
        raise StagingError(self.test.place(*keys, at_key=at_key).problem(code, words, hint))

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign with the person as its audience, and the arm that the test names."""
        campaign = replace(self.written_campaign, recipients=(self._find_source(),))
        # Lists of other machines are not fetched for a test.
        here = [one for one in campaign.exclude if not isinstance(one, FileRecipients) or one.path.exists()]
        campaign = replace(campaign, exclude=tuple(here))
        arm, variants = self.test.written.get("arm"), campaign.variants
        if arm is None:
            return campaign
        known = [one.id for one in variants.arms] if variants else []
        if variants is None or arm not in known:
            hint = f"one of: {', '.join(known)}" if known else "leave `arm` out"
            self.refuse(["arm"], "test-arm-unknown", f"there is no arm `{arm}`{suggest(arm, known)}", hint)
        arms = tuple(replace(one, weight=float(one.id == arm)) for one in variants.arms)
        return replace(campaign, variants=replace(variants, arms=arms, holdout=0.0))

    def _find_source(self) -> RecipientSource:
        """Return a source with the person alone, like the first that has all of their columns."""
        person: dict[str, Any] = self.test.written["person"]
        wanted = {normalize_name(name): name for name in person}
        unknown: dict[str, list[str]] = {}
        for source in self.written_campaign.recipients:
            columns = list(_list_columns(source))
            known = {normalize_name(name) for name in (*columns, "phone")}
            # The columns of a file that is not here are not known.
            lacking = [name for plain, name in wanted.items() if columns and plain not in known]
            if not lacking:
                return self._make_source(source, person)
            unknown.setdefault(lacking[0], columns)
        name = next(iter(unknown))
        given = dict.fromkeys(one for each in unknown.values() for one in each)
        words = f"the audience has no column `{name}`{suggest(name, given)}"
        place = self.test.place("person", name, at_key=True)
        raise StagingError(place.problem("test-column-unknown", words, f"known: {', '.join(given)}"))

    def _make_source(self, source: RecipientSource, person: dict[str, Any]) -> RecipientSource:
        cells = {normalize_name(name): _write_cell(value) for name, value in person.items()}
        if isinstance(source, InlineRecipient):
            phone, region, zone, language = (cells.get(name) or None for name in _INLINE)
            own = {name: value for name, value in person.items() if normalize_name(name) not in _INLINE}
            place, consent = self.test.place("person"), source.consent
            return InlineRecipient(phone or "", region, own, place, zone, consent, language)
        columns = dict.fromkeys([*read_header(source), *source.columns.values(), *person])
        # `phone` is understood in any file.
        cells.setdefault(normalize_name(source.phone_column), cells.get("phone", ""))
        with self.file.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns, [cells.get(normalize_name(one), "") for one in columns]])
        return replace(source, path=self.file, location=str(self.file), encoding="utf-8", skips_invalid=False)

    @cached_property
    def person(self) -> Recipient:
        """The person, as the audience is read."""
        problems = Problems()
        names = frozenset(self.test.written["person"]) | self.campaign.date_columns
        found = list(iterate_audience(self.campaign, names, problems, AudienceTally()))
        if not found:
            raise StagingError(*self.place_problems(problems))
        return found[0]

    def place_problems(self, problems: Problems) -> Iterator[Diagnostic]:
        """Yield errors about the person at their place in the test."""
        for one in problems:
            if one.severity == "error":
                hint = None if one.hint and self.file.name in one.hint else one.hint
                yield self.test.place("person").problem(one.code, one.message, hint)

    def _read_moment(self, *keys: Key) -> datetime:
        """Return the moment that a value of the test is."""
        written = self.test.read(*keys)
        time, zone = read_time(str(written)), self.campaign.schedule.timezone or self.person.timezone
        if not isinstance(time, CellTime):
            self.refuse(keys, "test-time", f"{written!r} is refused: {time.reason}", time.hint)
        zones = (zone,) if zone else find_zones(self.person.phone) if time.time.tzinfo is None else ("UTC",)
        moments = {moment for one in zones for moment in time.find_moments(one)}
        if len(moments) != 1:
            clocks = f"it is several moments in {zone}" if zone else "the campaign has no `schedule.timezone`"
            words = f"which moment {written!r} is cannot be told: {clocks}"
            self.refuse(keys, "test-time", words, "write its offset, as in 2026-12-01T10:00-05:00 or …Z")
        return moments.pop()

    @cached_property
    def now(self) -> datetime:
        """The moment of the test."""
        if "at" in self.test.written:
            return self._read_moment("at")
        if self.campaign.goes_by_clock or "sent" in self.test.written:
            words = "what they get depends on the time, and this test has no `at`"
            self.refuse(["name"], "test-time", words, "add `at: 2026-12-01T10:00`")
        return _ANY_MOMENT

    @cached_property
    def sent(self) -> dict[str, tuple[str, datetime]]:
        """The messages that the person has, by id: the delivery's key, and when it was sent."""
        messages = {one.id: index for index, one in enumerate(self.campaign.messages)}
        dates = Dates(self.campaign, self.campaign.messages, self.key)
        person = on_occasion(self.key.fingerprint(self.person.phone), self.campaign.wave)
        found = {}
        for name in self.test.written.get("sent", {}):
            if name not in messages:
                words = f"the campaign has no message `{name}`{suggest(name, messages)}"
                self.refuse(["sent", name], "test-message-unknown", words, self.list_messages(), at_key=True)
            at, time = self._read_moment("sent", name), dates.read(messages[name], self.person)
            if at > self.now:
                words = f"`{name}` was sent after the moment of the test"
                self.refuse(["sent", name], "test-time", words, "write an earlier time, or a later `at`")
            found[name] = dates.list_keys((person,), self.person, time)[-1], at
        return found

    def list_messages(self) -> str:
        """Return the ids of the campaign's messages, as a hint."""
        return f"one of: {', '.join(one.id for one in self.campaign.messages)}"

    @cached_property
    def known(self) -> RecordedDeliveries:
        """The record of the person."""
        return RecordedDeliveries({name: {delivery} for name, (delivery, _) in self.sent.items()}, {})

    @cached_property
    def context(self) -> PlanContext:
        """The context of the plan: nothing is on record but what the test says."""
        fingerprint = self.key.fingerprint(self.person.phone)
        policy, (earlier, has_open) = self.campaign.policy, self._read_answers()
        session = OpenSession(self.campaign.name, "read")
        has_open = has_open and not self.test.written.get("surveys_ended")
        opted_out = [(fingerprint, "confirmed")] * bool(self.test.written.get("opted_out"))
        since = None if policy.frequency_cap is None else self.now - policy.frequency_cap.within
        recent = [(fingerprint, "") for _, at in self.sent.values() if since and at >= since]
        return PlanContext(
            now=self.now,
            law=load_law() if policy.quiet_hours == "legal" else None,
            earlier=earlier,
            suppressions=KnownPeople.gather(self.key, opted_out) or None,
            sessions=KnownPeople.gather(self.key, [(fingerprint, session)] * has_open) or None,
            recent=KnownPeople.gather(self.key, recent) if since else None,
        )

    def _read_answers(self) -> tuple[dict[str, EarlierMessage], bool]:
        """Return the earlier messages with their answers, and whether a survey among them is open."""
        campaign, compiler = self.campaign, TextCompiler(include_folder(self.campaign))
        endings, read = Endings(campaign, compiler), build_answer_reader(campaign, compiler)
        drawn = Draw(campaign.variants).choose_arm(self.person.phone) if campaign.variants else None
        arm = "" if drawn is None else drawn.id
        earlier = {
            name: EarlierMessage({delivery: EarlierLaunch(at, self.now)})
            for name, (delivery, at) in self.sent.items()
        }
        surveys = set(campaign.list_surveys() & self.sent.keys())
        for tag, written in self.test.written.get("answers", {}).items():
            message = self._find_asking(tag)
            delivery, at = self.sent[message]
            answer = _write_cell(written)
            value = read(tag, message, arm, answer)
            ways = campaign.list_ways(next(one for one in campaign.messages if one.id == message))
            responses = {one.source: None for _, each in ways if each.tag == tag for one in each.responses}
            if value is None or (responses and value.label is None):
                words = f"{answer!r} is none of the responses to `{tag}`{suggest(answer, responses, '{!r}')}"
                self.refuse(["answers", tag], "test-answer", words, f"one of: {', '.join(responses)}")
            earlier[message].answered.add(delivery)
            earlier[message].answers[tag] = {delivery: EarlierAnswer(at, value)}
            if endings.ends(message, tag, answer):
                surveys.discard(message)
        return earlier, bool(surveys)

    def _find_asking(self, tag: str) -> str:
        """Return the latest message of the person that asks a question."""
        messages = self.campaign.messages
        tags = {one.id: [asked.tag for _, asked in self.campaign.list_ways(one)] for one in messages}
        asking = [name for name, asked in tags.items() if tag in asked]
        got = [name for name in asking if name in self.sent]
        if not asking:
            known = dict.fromkeys(one for each in tags.values() for one in each)
            words, hint = f"no message asks `{tag}`{suggest(tag, known)}", f"one of: {', '.join(known)}"
            self.refuse(["answers", tag], "test-answer", words, hint, at_key=True)
        if not got:
            words = f"they answer `{tag}`, and have got no message that asks it"
            hint = f"say when they got it, as in `sent: {{{asking[0]}: 2026-11-29T10:00}}`"
            self.refuse(["answers", tag], "test-answer", words, hint, at_key=True)
        return max(got, key=lambda name: self.sent[name][1])


def _list_columns(source: RecipientSource) -> Iterator[str]:
    """Yield the columns of a source; none if its file cannot be read."""
    if isinstance(source, FileRecipients):
        yield from read_header(source)
    else:
        yield from (*_INLINE, *source.vars)


def _write_cell(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
