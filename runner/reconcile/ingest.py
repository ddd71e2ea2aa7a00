"""Entry of results into the ledger, with their opt-outs and without forgotten people."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from runner.ledger.database import exclude_others
from runner.ledger.model import StoredResult
from runner.ledger.people.forgotten import note_forgotten_results
from runner.ledger.people.replies import find_owners
from runner.ledger.record.deliveries import read_definitions
from runner.ledger.report_model import ORDER_UNKNOWN
from runner.ledger.results.readings import DueLaunch
from runner.ledger.results.reconciled import (
    find_held,
    find_texted,
    list_untexted,
    note_strangers,
    store_results,
)
from runner.optout.non_answer import find_non_answer
from runner.optout.reply import find_offered
from runner.reconcile.replies import ReplyScreen, read_replies
from runner.service.model import StatRecord
from runner.source.normalize import normalize

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from runner.ledger.results.readings import Reading
    from runner.ledger.target_key import LedgerConnection
    from runner.reconcile.launches import ReconcileContext
    from runner.reconcile.replies import ReadReply
    from runner.service.model import ResultRecord

_KEPT = 64
"""Launches whose texts are held in memory."""
_KNOWN = 20_000


@dataclass(slots=True)
class ResultIngest:
    """Entry of the results of launches of one campaign (`sources`, by `project_launch_guid`)."""

    context: ReconcileContext
    reading: Reading | None = None
    sources: dict[str, DueLaunch] = field(default_factory=dict)
    _left_out: dict[str, set[str]] = field(default_factory=dict, init=False)
    _screen: ReplyScreen = field(init=False)
    _definitions: dict[str, tuple[dict[str, Any], bool]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Start with nothing left out."""
        context = self.context
        self._screen = ReplyScreen(
            context.ledger, context.client, context.key, context.at, self._find_members
        )

    def store_all(self, records: Sequence[ResultRecord], partial: Sequence[ResultRecord]) -> int:
        """Store those of some results that are the campaign's, whatever launches; return their number."""
        guids = {one.project_launch_guid for one in (*records, *partial)} - self.sources.keys()
        if guids:
            if len(self.sources) > _KNOWN:
                self.sources.clear()
                return self.store_all(records, partial)
            with self.context.ledger.reading() as connection:
                found = find_owners(connection, self.context.key.target, guids)
            self.sources |= {
                one.project_launch_guid: DueLaunch(one.launch_id, one.project_launch_guid)
                for one in found
                if one.campaign_id == self.context.campaign_id
            }
        ours = {_name(one): one for one in records if one.project_launch_guid in self.sources}
        theirs = [one for one in partial if one.project_launch_guid in self.sources]
        if ours or theirs:
            self.store(list(ours.values()), theirs)
        return len(ours)

    def store(
        self, page: Sequence[ResultRecord], partial: Sequence[ResultRecord] = ()
    ) -> tuple[set[tuple[str, str]], list[ResultRecord]]:
        """Put results, each once, into the ledger.

        A result whose question or author is not certain is not kept, since it would be missing from one
        question or another. If it opts out, the opt-out is entered all the same; also one of the `partial`
        results, which cannot be read as a whole.

        Returns the new results of launches that are not read whole, by launch and `result_guid`, and those
        not kept.

        Raises:
            ServiceError: the service cannot be asked.
            LedgerError: it cannot be written, or the target's key is not at hand.
        """
        authored, lost = self._screen.place(self._read_replies(page))
        others, unheard = self._screen.place(one for one in self._read_replies(partial) if one.asks)
        strange = [one for one in (*authored, *others) if one.asks and self._screen.is_stranger(one.record)]
        rows = [(one, self._make_result(one.record)) for one in authored]
        is_asked = any(one.asks for one in (*authored, *others))
        ledger = self.context.ledger
        # Results that a power loss takes are read again, by the counts.
        with ledger.writing() if is_asked else ledger.writing_again() as connection:
            # A concurrent request to forget somebody is either seen here, or finds what is stored here.
            exclude_others(connection)
            forgotten = self.context.find_forgotten(connection, {one.phone for one in authored})
            kept = [(one, row) for one, row in rows if one.phone not in forgotten]
            stored = [(one.record, row) for one, row in kept if row is not None]
            new = self._find_new(connection, stored)
            store_results(connection, [row for _, row in stored])
            entered = [*(one for one, _ in kept), *others] if is_asked else []
            self._screen.enter(connection, [one for one in entered if one not in strange])
        self._screen.hold((*lost, *unheard, *strange))
        new |= self._leave_out(one.record for one in authored if one.phone in forgotten)
        return new, [*(one.record for one, row in kept if row is None), *(one.record for one in lost)]

    def close(self, short: Collection[int]) -> None:
        """Record the results left out, after the others were stored.

        Nothing is recorded for launches that could not be read in full (`short`, the ledger's numbers).
        """
        counts = {
            one.launch_id: count
            for guid, one in self.sources.items()
            if one.launch_id not in short and (count := len(self._left_out.get(guid, ()))) != one.forgotten
        }
        with self.context.ledger.writing() as connection:
            note_forgotten_results(connection, counts)

    def _find_members(self, guid: str, phones: list[str]) -> list[str]:
        """Return those of some phones that a launch was sent to."""
        launch_id, people = self.sources[guid].launch_id, [*map(self.context.key.fingerprint, phones)]
        with self.context.ledger.reading() as connection:
            texted = find_texted(connection, self.context.campaign_id, people)
        return [phone for phone, one in zip(phones, people, strict=True) if (launch_id, one) in texted]

    def _leave_out(self, records: Iterable[ResultRecord]) -> set[tuple[str, str]]:
        """Note results of forgotten people; return the names of those met for the first time."""
        first = set()
        for record in records:
            known = self._left_out.setdefault(record.project_launch_guid, set())
            if record.result_guid not in known:
                known.add(record.result_guid)
                first.add(_name(record))
        return first

    def _find_new(
        self, connection: LedgerConnection, stored: Iterable[tuple[ResultRecord, StoredResult]]
    ) -> set[tuple[str, str]]:
        """Return the names of results that the ledger lacks, of launches that are not read whole."""
        asked = {
            (row.launch_id, row.result_guid): _name(record)
            for record, row in stored
            if not self.sources[record.project_launch_guid].is_whole
        }
        held = find_held(connection, asked.keys())
        return {name for key, name in asked.items() if key not in held}

    def _read_definition(self, record: ResultRecord) -> tuple[dict[str, Any], bool]:
        """Return the text sent by a result's launch, and whether it is on record or the service's word."""
        guid = record.project_launch_guid
        if guid not in self._definitions:
            number, listed = self.sources[guid].launch_id, None
            with self.context.ledger.reading() as connection:
                own = read_definitions(connection, [number]).get(number)
                if own is None and self.reading is not None:
                    listed = self.reading.read_definition(connection, number)
            if own is None and listed is None:
                stat = self._screen.read_launch(guid)
                listed = {} if stat is None else stat.project_definition
            if len(self._definitions) >= _KEPT:
                self._definitions.clear()
            self._definitions[guid] = (listed or {}, False) if own is None else (own, True)
        return self._definitions[guid]

    def _read_replies(self, records: Iterable[ResultRecord]) -> list[ReadReply]:
        return read_replies(records, self.context.opt_out_words, self._find_offered)

    def _find_offered(self, record: ResultRecord) -> tuple[str, ...]:
        definition, _ = self._read_definition(record)
        return find_offered(definition, record.question_tag, record.question_text)

    def _find_non_answer(self, record: ResultRecord) -> str:
        """Return why a result answers nothing; what its question offers is an answer to it."""
        said = record.result_response if record.result_response.strip() else record.result_answer
        if find_non_answer(said, said) is None or self._find_offered(record):
            return ""
        definition, _ = self._read_definition(record)
        sent = f"{record.question_text} {json.dumps(definition, ensure_ascii=False)}"
        return find_non_answer(said, sent) or ""

    def _make_result(self, record: ResultRecord) -> StoredResult | None:
        """Return a result as it is stored; None if its question is not certain."""
        if not names_its_question(record):
            definition, is_own = self._read_definition(record)
            placed = place_result(record, definition, is_own=is_own)
            if placed is None:
                return None
            record = placed
        order = record.question_display_order
        return StoredResult(
            launch_id=self.sources[record.project_launch_guid].launch_id,
            result_guid=record.result_guid,
            participant=self.context.key.fingerprint(record.participant_phone_number),
            question_guid=record.question_guid,
            question_tag=record.question_tag,
            question_text=record.question_text,
            question_display_order=ORDER_UNKNOWN if order is None else order,
            result_answer=record.result_answer,
            result_response=record.result_response,
            created=record.created,
            updated=record.updated,
            non_answer=self._find_non_answer(record),
        )


def leave_out_strangers(context: ReconcileContext, since: int) -> None:
    """Count results of phones that their launch was not sent to as no answers, from after a revision on.

    They are those whose phone neither the record has, nor the service's own list, if that has everybody.

    Raises:
        ServiceError: the service cannot be asked.
        LedgerError: the ledger cannot be used.
    """
    with context.ledger.reading() as connection:
        found = list_untexted(connection, context.campaign_id, since)
    strangers = []
    for guid, results in found.items():
        stat = context.client.read_stat(guid)
        if isinstance(stat, StatRecord) and stat.is_whole and not stat.missing_counts:
            people = set(map(context.key.fingerprint, stat.recipients))
            strangers += [one for one in results if one.participant not in people]
    if strangers:
        with context.ledger.writing() as connection:
            note_strangers(connection, strangers)


def _name(record: ResultRecord) -> tuple[str, str]:
    return record.project_launch_guid, record.result_guid


def names_its_question(result: ResultRecord) -> bool:
    """Return whether a result itself names its question."""
    return bool(result.question_tag) and result.question_display_order is not None


def place_result(result: ResultRecord, definition: Mapping[str, Any], *, is_own: bool) -> ResultRecord | None:
    """Return a result with its question's tag and order; None if its question is not certain.

    `definition` is the send body of its launch. `is_own` is true if that is on record: the service's own copy
    may lack the questions.
    """
    listed = definition.get("questions")
    questions = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    place = _find_place(result, questions)
    tag = result.question_tag or (str(questions[place].get("tag") or "") if place is not None else "")
    if not tag and (questions or not is_own):
        return None
    order = result.question_display_order
    if order is None:
        order = ORDER_UNKNOWN if place is None else place
    return replace(result, question_tag=tag, question_display_order=order)


def _find_place(result: ResultRecord, questions: Sequence[dict[str, Any]]) -> int | None:
    if result.question_tag:
        found = {place for place, one in enumerate(questions) if one.get("tag") == result.question_tag}
    else:
        found = _find_worded(result.question_text, questions) & _find_ordered(result, len(questions))
    return found.pop() if len(found) == 1 else None


def _find_worded(text: str, questions: Sequence[dict[str, Any]]) -> set[int]:
    """Return the places of the questions with a text; all if the result has none."""
    folded = normalize(text)
    return {
        place
        for place, one in enumerate(questions)
        if not folded or normalize(str(one.get("text"))) == folded
    }


def _find_ordered(result: ResultRecord, count: int) -> set[int]:
    """Return the places that a result's order may mean: services count from 0 or from 1."""
    order = result.question_display_order
    return set(range(count)) if order is None else {order, order - 1}.intersection(range(count))
