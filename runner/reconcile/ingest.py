"""Entry of results into the ledger, with their opt-outs and without forgotten people.

A service that obeys STOP itself reports no result for it. A session that it reports as ended by the
participant's opt-out counts as their reply.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.ledger.database import exclude_others
from runner.ledger.files.suppressions import OptOut
from runner.ledger.model import ENDED, StoredResult, StoredSession
from runner.ledger.people.forgotten import note_forgotten_results
from runner.ledger.people.opt_outs import add_replies, find_suppressed
from runner.ledger.people.replies import read_definition
from runner.ledger.report_model import ORDER_UNKNOWN
from runner.ledger.results.reconciled import find_held, read_members, store_results, store_sessions
from runner.ledger.target_key import enter_key
from runner.optout.non_answer import find_non_answer
from runner.optout.reply import find_offered
from runner.reconcile.replies import ReplyScreen, read_reply
from runner.source.normalize import normalize

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from runner.ledger.files.suppressions import Source as OptOutSource
    from runner.ledger.model import OpenLaunch
    from runner.ledger.target_key import LedgerConnection
    from runner.optout.reply import ReplyReading
    from runner.reconcile.context import ReconcileContext
    from runner.reconcile.missing_results import Source
    from runner.service.model import ResultRecord, StatRecord

_GROUP = 500
_SESSIONS = 10_000
_LAUNCHES = 64
"""Launches whose recipients are held in memory."""


class Stored(NamedTuple):
    """New results, by launch and `result_guid`, and those not kept as their question is not certain.

    New ones are only those of launches that are not read whole.
    """

    new: set[tuple[str, str]]
    unplaced: list[ResultRecord]


@dataclass(slots=True)
class ResultIngest:
    """Entry of the results of some launches of one campaign (`sources`, by `project_launch_guid`)."""

    context: ReconcileContext
    sources: Mapping[str, Source]
    _left_out: dict[int, set[str]] = field(init=False)
    _screen: ReplyScreen = field(init=False)
    _members: dict[str, frozenset[str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Start with nothing left out."""
        self._left_out = {source.launch.id: set() for source in self.sources.values()}
        context = self.context
        self._screen = ReplyScreen(
            context.ledger, context.client, context.key, context.order.at, self._find_members
        )

    def store(self, page: Sequence[ResultRecord], partial: Sequence[ResultRecord] = ()) -> Stored:
        """Put a page of results, each once, into the ledger.

        A result whose question or author is not certain is not kept, since it would be missing from one
        question or another. If it opts out, the opt-out is entered all the same; also one of the `partial`
        results, which cannot be read as a whole.

        Raises:
            ServiceError: the service cannot be asked.
            LedgerError: it cannot be written, or the target's key is not at hand.
        """
        told, lost = self._screen.place(page)
        others = self._screen.place(self._find_opt_outs(partial))
        strange = self._find_strangers([*told, *others.placed])
        with self.context.ledger.writing() as connection:
            # A concurrent request to forget somebody is either seen here, or finds what is stored here.
            exclude_others(connection)
            kept, left_out = self._leave_out_forgotten(connection, told)
            placed, unplaced = self._place(connection, kept)
            new = self._find_new(connection, placed)
            store_results(connection, [self._result_of(connection, record) for record in placed])
            screened = [one for one in (*kept, *others.placed) if _name(one) not in strange]
            self._screen.enter(connection, [(one, self._read_reply(connection, one)) for one in screened])
            doubtful = (*lost, *others.lost, *strange.values())
            held = [(one, self._read_reply(connection, one)) for one in doubtful]
        self._screen.hold(held)
        return Stored({_name(record) for record in (*new, *left_out)}, [*unplaced, *lost])

    def _find_opt_outs(self, partial: Sequence[ResultRecord]) -> list[ResultRecord]:
        if not partial:
            return []
        with self.context.ledger.reading() as connection:
            return [one for one in partial if self._read_reply(connection, one).kind != "answer"]

    def _find_strangers(self, records: Sequence[ResultRecord]) -> dict[tuple[str, str], ResultRecord]:
        """Return the opt-outs from phones that their launch did not go to, by launch and name."""
        others = [
            one
            for one in records
            if not self._find_members(one.project_launch_guid, [one.participant_phone_number])
        ]
        return {_name(one): one for one in self._find_opt_outs(others) if self._screen.is_stranger(one)}

    def _find_members(self, guid: str, phones: list[str]) -> list[str]:
        """Return those of some phones that a launch was sent to."""
        if guid not in self._members:
            if len(self._members) >= _LAUNCHES:
                self._members.clear()
            with self.context.ledger.reading() as connection:
                self._members[guid] = read_members(connection, self.sources[guid].launch.id)
        members = self._members[guid]
        return [phone for phone in phones if self.context.key.fingerprint(phone) in members]

    def store_stopped(self, stats: Iterable[StatRecord]) -> None:
        """Enter the people whose opt-out the service itself reports.

        Earlier opt-outs are on the service's list already: they were not a reply to this launch.

        Raises:
            LedgerError: it cannot be written, or the target's key is not at hand.
        """
        waiting: Iterator[tuple[str, str, OptOutSource]] = (
            (phone, stat.project_launch_guid, "import" if phone in blocked else "reply")
            for stat in stats
            for blocked in [frozenset(stat.blocked)]
            for phone in stat.stopped
        )
        while group := list(islice(waiting, _GROUP)):
            with self.context.ledger.writing() as connection:
                exclude_others(connection)
                key = self.context.key
                enter_key(connection, key)
                forgotten = self._find_forgotten(connection, {phone for phone, *_ in group})
                replies = [
                    OptOut(key.fingerprint(phone), guid, source, "confirmed", self.context.order.at)
                    for phone, guid, source in group
                    if phone not in forgotten
                ]
                add_replies(connection, key.target, replies)

    def store_sessions(self, launches: Mapping[str, OpenLaunch], stats: Iterable[StatRecord]) -> None:
        """Store the state of launches' sessions, without those of forgotten people.

        Of several sessions of one person in one launch the one that is still open counts. Launches are given
        by `project_launch_guid`.

        Raises:
            LedgerError: it cannot be written.
        """
        waiting = (
            (launches[stat.project_launch_guid].id, phone, status, phone in stopped, phone in blocked)
            for stat in stats
            for stopped, blocked in [(frozenset(stat.stopped), frozenset(stat.blocked))]
            for phone, status in zip(stat.recipients, stat.statuses, strict=True)
        )
        while group := list(islice(waiting, _SESSIONS)):
            with self.context.ledger.writing() as connection:
                exclude_others(connection)
                forgotten = self._find_forgotten(connection, {phone for _, phone, *_ in group})
                rows: dict[tuple[int, str], StoredSession] = {}
                for number, phone, status, *how in group:
                    known = rows.get((number, phone))
                    if phone not in forgotten and (known is None or known.status == ENDED):
                        participant = self.context.key.fingerprint(phone)
                        rows[number, phone] = StoredSession(number, participant, status, *how)
                store_sessions(connection, list(rows.values()))

    def close(self, forgotten: Mapping[int, int], short: Collection[str]) -> None:
        """Record the results left out, after the others were stored.

        `forgotten` are those recorded so far, by the ledger's number of the launch. Nothing is recorded for
        launches that could not be read in full (`short`).
        """
        full = {source.launch.id for guid, source in self.sources.items() if guid not in short}
        counts = {number: len(guids) for number, guids in self._left_out.items() if number in full}
        changed = {number: n for number, n in counts.items() if n != forgotten.get(number, 0)}
        with self.context.ledger.writing() as connection:
            note_forgotten_results(connection, changed)

    def _leave_out_forgotten(
        self, connection: LedgerConnection, page: Sequence[ResultRecord]
    ) -> tuple[list[ResultRecord], list[ResultRecord]]:
        """Return the results to keep, and those left out for the first time."""
        forgotten = self._find_forgotten(connection, {record.participant_phone_number for record in page})
        kept, left_out = [], []
        for record in page:
            if record.participant_phone_number not in forgotten:
                kept.append(record)
                continue
            known = self._left_out[self.sources[record.project_launch_guid].launch.id]
            if record.result_guid not in known:
                known.add(record.result_guid)
                left_out.append(record)
        return kept, left_out

    def _place(
        self, connection: LedgerConnection, page: Sequence[ResultRecord]
    ) -> tuple[list[ResultRecord], list[ResultRecord]]:
        """Return results with their questions, and those whose question is not certain."""
        placed, unplaced = [], []
        definitions: dict[str, tuple[dict[str, Any], bool]] = {}
        for record in page:
            found: ResultRecord | None = record
            if not is_told(record):
                guid = record.project_launch_guid
                if guid not in definitions:
                    definitions[guid] = self._read_definition(connection, record)
                definition, is_own = definitions[guid]
                found = place_result(record, definition, is_own=is_own)
            if found is None:
                unplaced.append(record)
            else:
                placed.append(found)
        return placed, unplaced

    def _read_definition(
        self, connection: LedgerConnection, record: ResultRecord
    ) -> tuple[dict[str, Any], bool]:
        """Return the text sent by a result's launch, and whether it is on record or the service's word."""
        source = self.sources[record.project_launch_guid]
        written = read_definition(connection, source.launch.id)
        return (json.loads(written), True) if written else (source.stat.project_definition, False)

    def _find_new(self, connection: LedgerConnection, page: Sequence[ResultRecord]) -> list[ResultRecord]:
        looked_up = {
            (self.sources[record.project_launch_guid].launch.id, record.result_guid): record
            for record in page
            if not self.sources[record.project_launch_guid].is_whole
        }
        held = find_held(connection, looked_up.keys())
        return [record for key, record in looked_up.items() if key not in held]

    def _find_forgotten(self, connection: LedgerConnection, phones: Collection[str]) -> set[str]:
        """Return the phones of forgotten people."""
        return find_suppressed(connection, self.context.key, phones, "forgotten")

    def _read_reply(self, connection: LedgerConnection, record: ResultRecord) -> ReplyReading:
        def find() -> tuple[str, ...]:
            definition, _ = self._read_definition(connection, record)
            return find_offered(definition, record.question_tag, record.question_text)

        return read_reply(record, self.context.order.opt_out_words, find)

    def _find_non_answer(self, connection: LedgerConnection, record: ResultRecord) -> str:
        """Return why a result answers nothing; what its question offers is an answer to it."""
        said = record.result_response if record.result_response.strip() else record.result_answer
        if find_non_answer(said, said) is None:
            return ""
        definition, _ = self._read_definition(connection, record)
        if find_offered(definition, record.question_tag, record.question_text):
            return ""
        return (
            find_non_answer(said, f"{record.question_text} {json.dumps(definition, ensure_ascii=False)}")
            or ""
        )

    def _result_of(self, connection: LedgerConnection, record: ResultRecord) -> StoredResult:
        return StoredResult(
            launch_id=self.sources[record.project_launch_guid].launch.id,
            result_guid=record.result_guid,
            participant=self.context.key.fingerprint(record.participant_phone_number),
            question_guid=record.question_guid,
            question_tag=record.question_tag,
            question_text=record.question_text,
            question_display_order=ORDER_UNKNOWN
            if record.question_display_order is None
            else record.question_display_order,
            result_answer=record.result_answer,
            result_response=record.result_response,
            created=record.created,
            updated=record.updated,
            non_answer=self._find_non_answer(connection, record),
        )


def _name(record: ResultRecord) -> tuple[str, str]:
    return record.project_launch_guid, record.result_guid


def is_told(result: ResultRecord) -> bool:
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
