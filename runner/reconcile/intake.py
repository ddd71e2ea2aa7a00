"""Puts results into the ledger, with the opt-outs among them, and without those of forgotten people.

A service that obeys STOP itself reports no result for it. Where it says of a session that its participant
opted out, that counts as their reply.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.ledger.database import exclude_others
from runner.ledger.forgotten import read_forgotten
from runner.ledger.model import ENDED, StoredResult, StoredSession
from runner.ledger.opt_ins import OptIn, add_opt_ins
from runner.ledger.opt_outs import OptOut, add_replies
from runner.ledger.reconciled import find_held, store_results, store_sessions
from runner.ledger.removal import note_forgotten_results
from runner.ledger.report_model import ORDER_UNKNOWN
from runner.ledger.screening import find_forgotten, mark_screened, read_definition
from runner.optout.offered import find_offered
from runner.optout.reply import Reading, classify
from runner.reconcile.question import is_told, place_result

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.model import OpenLaunch
    from runner.ledger.opt_outs import Source as OptOutSource
    from runner.ledger.opt_outs import State
    from runner.ledger.target_key import KeySource, LedgerConnection
    from runner.optout.reply import Kind
    from runner.reconcile.source import Source
    from runner.service.model import ResultRecord, StatRecord

_GROUP = 500
_SESSIONS = 10_000
_STATES: Mapping[Kind, State] = {"sure": "confirmed", "doubtful": "doubtful"}


class Stored(NamedTuple):
    """What became of some results.

    Attributes:
        new: launch and `result_guid` of those that are new here, of launches that are not read whole.
        unplaced: those that are not kept: which question they answer is not certain.
    """

    new: set[tuple[str, str]]
    unplaced: list[ResultRecord]


@dataclass(slots=True)
class Intake:
    """Takes the results of some launches of one campaign.

    Attributes:
        ledger: where they go.
        sources: those launches, by `project_launch_guid`.
        campaign_id: the ledger's number of the campaign.
        campaign: the campaign's name.
        key: makes the fingerprints of its participants.
        people: makes those of the target's people.
        words: those that opt out besides, as the campaign has it.
        opted_out: replies that opt out and were not known to.
    """

    ledger: Ledger
    sources: Mapping[str, Source]
    campaign_id: int
    campaign: str
    key: FingerprintKey
    people: KeySource
    words: tuple[str, ...] = ()
    opted_out: int = field(default=0, init=False)
    _left_out: dict[int, set[str]] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing left out."""
        self._left_out = {source.launch.id: set() for source in self.sources.values()}

    def store(self, page: Sequence[ResultRecord], at: str) -> Stored:
        """Put some results into the ledger.

        One of which it is not certain which question it answers is not kept: it would be missing from one
        question, or from another. If it opts out, that holds all the same.

        Args:
            page: each once, of these launches.
            at: UTC, ISO 8601.

        Raises:
            LedgerError: it cannot be written, or the target's key is not at hand.
        """
        with self.ledger.writing() as connection:
            # Who is being forgotten at this moment is either seen here, or finds what is stored here.
            exclude_others(connection)
            kept, left_out = self._leave_out_forgotten(connection, page)
            placed, unplaced = self._place(connection, kept)
            new = self._find_new(connection, placed)
            store_results(connection, [self._result_of(record) for record in placed])
            self._enter_opt_outs(connection, kept, at)
        return Stored({_name(record) for record in (*new, *left_out)}, unplaced)

    def store_stopped(self, stats: Iterable[StatRecord], at: str) -> None:
        """Enter the people of whom the service itself says that they opted out.

        Who had done so before a launch is on the service's list: the launch met with no opt-out of theirs.

        Args:
            stats: all launches of the campaign.
            at: UTC, ISO 8601.

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
            with self.ledger.writing() as connection:
                exclude_others(connection)
                key = self.people.enter(connection)
                found = [(key.fingerprint(phone), guid, source) for phone, guid, source in group]
                forgotten = find_forgotten(connection, key.target, {person for person, *_ in found})
                replies = [
                    OptOut(person, guid, source, "confirmed", at)
                    for person, guid, source in found
                    if person not in forgotten
                ]
                self.opted_out += add_replies(connection, key.target, replies)

    def store_sessions(self, launches: Mapping[str, OpenLaunch], stats: Iterable[StatRecord]) -> None:
        """Keep how the sessions of launches stand, but for those of forgotten people.

        Of several sessions of one person in one launch the one that is still open counts.

        Args:
            launches: the campaign's, by `project_launch_guid`.
            stats: with their sessions.

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
            with self.ledger.writing() as connection:
                exclude_others(connection)
                forgotten = self._find_forgotten(connection, {phone for _, phone, *_ in group})
                rows: dict[tuple[int, str], StoredSession] = {}
                for number, phone, status, *how in group:
                    known = rows.get((number, phone))
                    if phone not in forgotten and (known is None or known.status == ENDED):
                        participant = self.key.fingerprint(self.campaign, phone)
                        rows[number, phone] = StoredSession(number, participant, status, *how)
                if rows:
                    store_sessions(connection, list(rows.values()))

    def close(self, forgotten: Mapping[int, int], short: Collection[str], *, is_screened: bool) -> None:
        """Take note of what was left out, after the results of the launches were stored.

        Args:
            forgotten: what is noted by now, by the ledger's number of the launch.
            short: launches that could not be read in full: of these nothing is noted.
            is_screened: whether every result in the ledger has been looked at for opt-outs.
        """
        full = {source.launch.id for guid, source in self.sources.items() if guid not in short}
        counts = {number: len(guids) for number, guids in self._left_out.items() if number in full}
        changed = {number: n for number, n in counts.items() if n != forgotten.get(number, 0)}
        with self.ledger.writing() as connection:
            note_forgotten_results(connection, changed)
            if is_screened:
                mark_screened(connection, self.campaign_id, self.words)

    def _leave_out_forgotten(
        self, connection: LedgerConnection, page: Sequence[ResultRecord]
    ) -> tuple[list[ResultRecord], list[ResultRecord]]:
        """Return what may be kept, and what was left out for the first time."""
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
        """Return what a result's launch sent, and whether that is on record or only the service's word."""
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
        """Return the phones of those whom the target, or by a lockfile the campaign alone, is to forget."""
        by_campaign = read_forgotten(connection, self.campaign_id)
        found = {
            phone
            for phone in phones
            if by_campaign and self.key.fingerprint(self.campaign, phone) in by_campaign
        }
        key = self.people.read(connection)
        if key is not None:
            people = {key.fingerprint(phone): phone for phone in phones}
            found.update(people[one] for one in find_forgotten(connection, key.target, people.keys()))
        return found

    def _enter_opt_outs(self, connection: LedgerConnection, page: Sequence[ResultRecord], at: str) -> None:
        read = [(record, self._read_reply(connection, record).kind) for record in page]
        found = [(record, _STATES[kind]) for record, kind in read if kind in _STATES]
        returning = [record for record, kind in read if kind == "opt_in"]
        if not found and not returning:
            return
        key = self.people.enter(connection)
        replies = [
            OptOut(key.fingerprint(record.participant_phone_number), record.result_guid, "reply", state, at)
            for record, state in found
        ]
        certain = [reply for reply in replies if reply.state == "confirmed"]
        self.opted_out += add_replies(connection, key.target, certain)
        add_replies(connection, key.target, [reply for reply in replies if reply.state == "doubtful"])
        proposals = [
            OptIn(record.result_guid, key.fingerprint(record.participant_phone_number), record.created, at)
            for record in returning
        ]
        add_opt_ins(connection, key.target, proposals)

    def _read_reply(self, connection: LedgerConnection, record: ResultRecord) -> Reading:
        reading = classify(record.result_response, words=self.words)
        if reading.kind == "answer":
            return reading
        # What was offered is looked up for the few that may opt out, and only takes away from these.
        definition, _ = self._read_definition(connection, record)
        offered = find_offered(definition, record.question_tag, record.question_text)
        return classify(record.result_response, offered=offered, words=self.words)

    def _result_of(self, record: ResultRecord) -> StoredResult:
        return StoredResult(
            launch_id=self.sources[record.project_launch_guid].launch.id,
            result_guid=record.result_guid,
            participant=self.key.fingerprint(self.campaign, record.participant_phone_number),
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
        )


def _name(record: ResultRecord) -> tuple[str, str]:
    return record.project_launch_guid, record.result_guid
