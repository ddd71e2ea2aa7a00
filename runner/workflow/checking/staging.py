"""The staging of a campaign test: its person in the place of the audience, and a record of them.

The person is a row of an audience file with one row, so that everything about them is read as it is there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

from runner.audience.audience import AudienceTally, iterate_audience
from runner.audience.rows import read_header
from runner.audience.sealing import is_sealed
from runner.audience.table import normalize_name
from runner.campaign.answers import Endings
from runner.campaign.conditions import build_answer_reader
from runner.campaign.model import FileRecipients, InlineRecipient
from runner.campaign.variants import Draw
from runner.ledger.fingerprint import KnownPeople, OpenSession, TargetKey
from runner.ledger.model import DATE, RecordedDeliveries, on_occasion
from runner.ledger.people.history import EarlierAnswer, EarlierLaunch, EarlierMessage
from runner.optout.non_answer import find_non_answer
from runner.optout.reply import classify, find_offered
from runner.plan.dates import Dates
from runner.plan.plan_context import PlanContext
from runner.plan.planner import find_payloads
from runner.reconcile.replies import STATES
from runner.source.diagnostic import Diagnostic, Problems
from runner.source.normalize import suggest
from runner.source.quantity import read_number
from runner.text.include import include_folder
from runner.text.template import TextCompiler
from runner.timing.dates import CellTime, read_time
from runner.timing.legal_hours import load_law
from runner.timing.zone import find_zones

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import timedelta
    from pathlib import Path

    from runner.audience.audience import Recipient
    from runner.campaign.answers import AnswerValue
    from runner.campaign.message_model import Question
    from runner.campaign.model import Campaign, RecipientSource
    from runner.ledger.files.suppressions import State
    from runner.source.yaml import Key
    from runner.text.outgoing import Definition
    from runner.timing.legal_hours import LawBook
    from runner.workflow.checking.campaign_tests import CampaignTest


_KEY = TargetKey.of("test", None)
_INLINE = ("phone", "region", "timezone", "language")
_HELD = "control_group"
"""The arm of a test whose person is in the holdout."""
_ANY_MOMENT = datetime(2000, 1, 1, 12, tzinfo=UTC)
"""The moment of tests of campaigns that do not go by the clock."""


class StagingError(Exception):
    """A test cannot be run, as `problems` say."""

    def __init__(self, *problems: Diagnostic) -> None:
        super().__init__(f"{len(problems)} problems")
        self.problems = problems


@dataclass
class Stage:
    """The campaign, person and record of one test; `file` is a place for its audience of one.

    Each attribute raises StagingError for what is wrong in the test.
    """

    test: CampaignTest
    written_campaign: Campaign
    file: Path
    key: TargetKey = field(default=_KEY, init=False)

    def refuse(self, keys: Sequence[Key], words: str, hint: str, *, at_key: bool = False) -> NoReturn:
        """Raise the error for a value of the test, or its key."""
        raise StagingError(self.test.place(*keys, at_key=at_key).problem("test-invalid", words, hint))

    def require_known(self, keys: Sequence[Key], kind: str, name: str, known: Iterable[str]) -> None:
        """Refuse a name at a place of the test, or the key there, that is not among the known ones."""
        if name not in (listed := list(dict.fromkeys(known))):
            hint = f"known: {', '.join(listed)}" if listed else "take it out"
            words = f"there is no {kind} `{name}`{suggest(name, listed)}"
            self.refuse(keys, words, hint, at_key=keys[-1] == name)

    @property
    def knows_excluded(self) -> bool:
        """True if all lists of people to exclude can be read here."""
        return len(self.campaign.exclude) == len(self.written_campaign.exclude)

    @cached_property
    def campaign(self) -> Campaign:
        """The campaign with the person as its audience, and the arm that the test names."""
        campaign = self.written_campaign
        exclude = tuple(filter(_is_readable, campaign.exclude))
        campaign = replace(campaign, recipients=(self._find_source(),), exclude=exclude)
        variants, arm = campaign.variants, self.test.written.get("arm")
        if arm is not None:
            arms = () if variants is None else variants.arms
            held = [_HELD] if variants is not None and variants.holdout else []
            self.require_known(["arm"], "arm", arm, [*(one.id for one in arms), *held])
        if arm is None or variants is None:
            return campaign
        arms = tuple(replace(one, weight=float(arm in (one.id, _HELD))) for one in variants.arms)
        return replace(campaign, variants=replace(variants, arms=arms, holdout=float(arm == _HELD)))

    def _find_source(self) -> RecipientSource:
        """Return a source with the person alone, like each part of the audience that they may be in."""
        (first, own), *others = self._list_fitting()
        chosen = self._make_source(first, own)
        person = self._read_person(chosen)._replace(vars={}) if others else None
        for other, columns in others:
            made = self._make_source(other, columns)
            if made != chosen and self._read_person(made)._replace(vars={}) != person:
                names = f"{_find_file(first).name} and {_find_file(other).name}"
                words = f"{names} both have these columns, and do not say the same of the person"
                self.refuse(["person"], words, f"say where they are, as in `file: {_find_file(other).name}`")
            chosen = made
        return chosen

    def _list_fitting(self) -> list[tuple[RecipientSource, list[str]]]:
        """Return the parts of the audience that have all of the person's columns, each with its own."""
        person, wanted = self.test.written["person"], self.test.written.get("file")
        columns: dict[str, str] = {}
        for name in person:
            if (other := columns.setdefault(normalize_name(name), name)) != name:
                words = f"`{other}` and `{name}` are one column"
                self.refuse(["person", name], words, "write it once", at_key=True)
        fitting: list[tuple[RecipientSource, list[str]]] = []
        given: list[str] = []
        for source in self.written_campaign.recipients:
            if wanted is not None and not _find_file(source).match(wanted):
                continue
            own = read_header(source) if isinstance(source, FileRecipients) else [*_INLINE, *source.vars]
            known = {normalize_name(name) for name in ("phone", *own)}
            # The columns of a file that is not here are not known.
            if not own or known.issuperset(columns):
                fitting.append((source, own))
            given += own
        if fitting:
            return fitting
        if wanted is not None and not given:
            names = [_find_file(one).name for one in self.written_campaign.recipients]
            self.require_known(["file"], "part of the audience", wanted, names)
        plain = {normalize_name(name) for name in ("phone", *given)}
        unknown = [written for name, written in columns.items() if name not in plain]
        words, hint = "no part of the audience has all of these columns", "write those of one file"
        if unknown:
            words = f"no part of the audience has the column `{unknown[0]}`{suggest(unknown[0], given)}"
            hint = f"known: {', '.join(dict.fromkeys(given))}"
        return self.refuse(["person", *unknown[:1]], words, hint, at_key=True)

    def _make_source(self, source: RecipientSource, columns: Sequence[str]) -> RecipientSource:
        person = self.test.written["person"]
        cells = {normalize_name(name): _write_cell(value) for name, value in person.items()}
        if isinstance(source, InlineRecipient):
            phone, region, zone, language = (cells.get(name) or None for name in _INLINE)
            own = {name: value for name, value in person.items() if normalize_name(name) not in _INLINE}
            place = self.test.place("person")
            return InlineRecipient(phone or "", region, own, place, zone, source.consent, language)
        row = {normalize_name(name): name for name in (*person, *source.columns.values(), *columns)}
        # `phone` is understood in any file.
        cells.setdefault(normalize_name(source.phone_column), cells.get("phone", ""))
        table = row.values(), [cells.get(name, "") for name in row]
        self.file.write_text("".join(map(_write_row, table)), encoding="utf-8")
        source = replace(source, path=self.file, location=str(self.file), rows=None, identity="")
        return replace(source, encoding="utf-8", skips_invalid=False, position=self.test.place("person"))

    @cached_property
    def person(self) -> Recipient:
        """The person, as the audience is read."""
        return self._read_person(*self.campaign.recipients)

    def _read_person(self, source: RecipientSource) -> Recipient:
        problems, tally = Problems(), AudienceTally()
        campaign = replace(self.written_campaign, recipients=(source,))
        names = frozenset(self.test.written["person"]) | campaign.date_columns
        found = next(iterate_audience(campaign, names, problems, tally), None)
        if found is None:
            raise StagingError(*self.place_problems(problems))
        return found._replace(file=self.file, line=1)

    def place_problems(self, problems: Problems) -> Iterator[Diagnostic]:
        """Yield errors about the person at their place in the test."""
        for one in problems:
            if one.severity == "error":
                hint = None if one.hint and self.file.name in one.hint else one.hint
                yield self.test.place("person").problem(one.code, one.message, hint)

    def _read_moment(self, *keys: Key) -> datetime:
        """Return the moment that a value of the test is."""
        written = str(self.test.read(*keys))
        time, zone = read_time(written), self.campaign.schedule.timezone or self.person.timezone
        if not isinstance(time, CellTime):
            self.refuse(keys, f"{written!r} is refused: {time.reason}", time.hint.partition(";")[0])
        zones = (zone,) if zone else find_zones(self.person.phone) if time.time.tzinfo is None else ("UTC",)
        moments = {moment for one in zones for moment in time.find_moments(one)}
        if len(moments) != 1:
            clocks = f"it is several moments in {zone}" if zone else "the campaign has no `schedule.timezone`"
            hint = "write its offset, as in 2026-12-01T10:00-05:00 or …Z"
            self.refuse(keys, f"which moment {written!r} is cannot be told: {clocks}", hint)
        return moments.pop()

    @cached_property
    def now(self) -> datetime:
        """The moment of the test."""
        if "at" in self.test.written:
            return self._read_moment("at")
        if self.campaign.goes_by_clock or "sent" in self.test.written:
            words = "what they get depends on the time, and this test has no `at`"
            self.refuse(["name"], words, "add `at: 2026-12-01T10:00`")
        return _ANY_MOMENT

    @cached_property
    def _law(self) -> LawBook | None:
        return load_law() if self.campaign.policy.quiet_hours == "legal" else None

    @cached_property
    def sent(self) -> dict[str, tuple[str, datetime]]:
        """The messages that the person has, by id: the delivery's key, and when it was sent.

        What was sent before it was due by the person's date was for another date, before that was moved.
        """
        messages = {one.id: index for index, one in enumerate(self.campaign.messages)}
        dates = Dates(self.campaign, self.campaign.messages, self.key, self._law)
        person = on_occasion(self.key.fingerprint(self.person.phone), self.campaign.wave)
        found = {}
        for name in self.test.written.get("sent", {}):
            self.require_known(["sent", name], "message", name, messages)
            at, time = self._read_moment("sent", name), dates.read(messages[name], self.person)
            if at > self.now:
                words = f"`{name}` was sent after the moment of the test"
                self.refuse(["sent", name], words, "write an earlier time, or a later `at`")
            is_early = time is not None and at < dates.find_earliest(messages[name], self.person, time)
            own = dates.list_keys((person,), self.person, time)[-1]
            found[name] = on_occasion(person, DATE) if is_early else own, at
        return found

    @cached_property
    def known(self) -> RecordedDeliveries:
        """The record of the person."""
        return RecordedDeliveries({name: {delivery} for name, (delivery, _) in self.sent.items()}, {})

    @cached_property
    def context(self) -> PlanContext:
        """The context of the plan: nothing is on record but what the test says."""
        policy, key, law = self.campaign.policy, self.key, self._law
        person, (earlier, has_open, barred) = key.fingerprint(self.person.phone), self._read_answers()
        is_open = has_open and not self.test.written.get("surveys_ended", False)
        session = OpenSession(self.campaign.name, "read")
        caps = (policy.frequency_cap, *(law.list_caps() if law is not None else ()))

        def list_recent(within: timedelta) -> Iterable[tuple[str, str]]:
            return ((person, "") for _, at in self.sent.values() if at >= self.now - within)

        return PlanContext(
            now=self.now,
            law=law,
            earlier=earlier,
            suppressions=KnownPeople.gather(key, [(person, state) for state in barred]),
            sessions=KnownPeople.gather(key, [(person, session)] * is_open) or None,
            recent={cap.within: KnownPeople.gather(key, list_recent(cap.within)) for cap in caps if cap},
        )

    def _read_answers(self) -> tuple[dict[str, EarlierMessage], bool, list[State]]:
        """Return the earlier messages with their answers, whether a survey is open, and what bars the person.

        Answers are judged as `reconcile` judges replies.
        """
        campaign, compiler = self.campaign, TextCompiler(include_folder(self.campaign))
        endings, read = Endings(campaign, compiler), build_answer_reader(campaign, compiler)
        arm = Draw(campaign.variants).choose_arm(self.person.phone) if campaign.variants else None
        earlier = {
            name: EarlierMessage({one: EarlierLaunch(at, self.now)}) for name, (one, at) in self.sent.items()
        }
        barred: list[State] = ["confirmed"] * self.test.written.get("opted_out", False)
        surveys = set(campaign.list_surveys() & self.sent.keys())
        for tag, written in self.test.written.get("answers", {}).items():
            message, question = self._find_question(tag)
            (delivery, at), answer = self.sent[message], _write_cell(written)
            value = read(tag, message, arm or "", answer)
            self._check_answer(tag, answer, question, value)
            if endings.ends(message, tag, answer):
                surveys.discard(message)
            definition = self._definitions.get(message, {})
            offered = find_offered(definition, tag, "") or [one.source for one in question.responses]
            kind = classify(answer, offered=offered, words=campaign.policy.opt_out_words).kind
            barred += [STATES[kind]] if kind in STATES else []
            if offered or not find_non_answer(answer, json.dumps(definition, ensure_ascii=False)):
                earlier[message].answered.add(delivery)
                if value is not None:
                    earlier[message].answers[tag] = {delivery: EarlierAnswer(at, value)}
        return earlier, bool(surveys), barred

    @cached_property
    def _definitions(self) -> dict[str, Definition]:
        """The messages as the person gets them, by id, but for those that lack a variable."""
        offers = find_payloads(self.campaign, RecordedDeliveries({}, {}), None, None)
        return {one.message.id: one.payload.definition for one in offers[self.person.phone]}

    def _find_question(self, tag: str) -> tuple[str, Question]:
        """Return the question that an answer is to, and the message that asks it: the latest one sent."""
        list_ways, messages = self.campaign.list_ways, self.campaign.messages
        asked = {(one.id, question.tag): question for one in messages for _, question in list_ways(one)}
        self.require_known(["answers", tag], "question", tag, [known for _, known in asked])
        got = [name for name in self.sent if (name, tag) in asked]
        if not got:
            hint = "say when they got it, as in `sent: {ask: 2026-11-29T10:00}`"
            words = f"they answer `{tag}`, and have got no message that asks it"
            self.refuse(["answers", tag], words, hint, at_key=True)
        message = max(got, key=lambda name: self.sent[name][1])
        return message, asked[message, tag]

    def _check_answer(self, tag: str, answer: str, question: Question, value: AnswerValue | None) -> None:
        """Refuse what is no response, and the number of one response that is the value of another."""
        responses, number = [one.source for one in question.responses], read_number(answer)
        if value is None or (responses and value.label is None):
            self.require_known(["answers", tag], f"response to `{tag}`:", answer, responses)
        elif number in question.values and number not in (None, value.value) and answer != value.label:
            other = responses[question.values.index(number)]
            words = f"{answer} is the number of {value.label!r} in the list, and the value of {other!r}"
            self.refuse(["answers", tag], words, "write the response itself")


def _find_file(source: RecipientSource) -> Path:
    return source.path if isinstance(source, FileRecipients) else source.position.file


def _is_readable(source: RecipientSource) -> bool:
    """Return whether a list is at hand: others are not fetched for a test, or their key is elsewhere."""
    return not isinstance(source, FileRecipients) or (source.path.exists() and not is_sealed(source))


def _write_cell(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_row(cells: Iterable[str]) -> str:
    """Return a row of a CSV file (RFC 4180)."""
    quoted = (cell.replace('"', '""') for cell in cells)
    return ",".join(f'"{cell}"' for cell in quoted) + "\n"
