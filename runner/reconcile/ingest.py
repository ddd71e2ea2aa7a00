"""Entry of results into the ledger, with their opt-outs and without forgotten people."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from runner.ledger.database import exclude_others
from runner.ledger.model import StoredResult
from runner.ledger.people.pruned import find_pruned
from runner.ledger.people.replies import find_owners
from runner.ledger.record.deliveries import read_definitions
from runner.ledger.report_model import ORDER_UNKNOWN
from runner.ledger.results.reconciled import find_texted, list_untexted, note_strangers, store_results
from runner.optout.non_answer import find_non_answer
from runner.optout.reply import find_offered
from runner.reconcile.replies import ReplyScreen
from runner.service.model import StatRecord, Unreadable
from runner.source.normalize import normalize_guid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from runner.ledger.database import Ledger
    from runner.reconcile.launches import ReconcileContext
    from runner.service.model import ResultRecord

_KEPT = 64
"""Launches whose texts are held in memory."""
_UNCERTAIN = "a result of the service does not tell whose answer it is, or which question it answers"


class Owner(NamedTuple):
    """A launch on record, and its campaign's number."""

    project_launch_guid: str
    campaign_id: int
    launch_id: int


class Owners:
    """The launches on record that results belong to, of any campaign; the case of guids doesn't matter.

    The `given` ones are not looked up.
    """

    def __init__(self, ledger: Ledger, target: str, given: Iterable[Owner] = ()) -> None:
        self._ledger = ledger
        self._target = target
        self._known: dict[str, Owner | None] = {normalize_guid(one.project_launch_guid): one for one in given}

    def find(self, guids: Iterable[str]) -> dict[str, Owner]:
        """Return those of some launches that are on record, by guid as given."""
        wanted = {guid: normalize_guid(guid) for guid in set(guids)}
        lacking = [guid for guid, name in wanted.items() if name not in self._known]
        if lacking:
            self._known |= dict.fromkeys(map(normalize_guid, lacking))
            with self._ledger.reading() as connection:
                found = [Owner(*row) for row in find_owners(connection, self._target, lacking)]
            self._known |= {normalize_guid(one.project_launch_guid): one for one in found}
        return {guid: owner for guid, name in wanted.items() if (owner := self._known[name]) is not None}


@dataclass(slots=True)
class Stored:
    """Results of a campaign that were entered.

    Attributes:
        has_others: whether there were results of other launches.
        changed: how many were new in the ledger, or changed.
        met: the names of those that the ledger has now, by their launch's `project_launch_guid`.
        forgotten: likewise those that it does not keep: of forgotten authors, and of pruned launches.
        unreadable: those whose question or author is not certain; they are not among the others.
    """

    has_others: bool
    changed: int = 0
    met: dict[str, set[str]] = field(default_factory=dict)
    forgotten: dict[str, set[str]] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of results, less the unreadable ones."""
        return sum(len(names) for found in (self.met, self.forgotten) for names in found.values())


@dataclass(slots=True)
class ResultIngest:
    """Entry of the results of one campaign's launches."""

    context: ReconcileContext
    owners: Owners
    _numbers: dict[str, int] = field(default_factory=dict, init=False)
    _screen: ReplyScreen = field(init=False)
    _find_definition: Callable[[str], tuple[dict[str, Any], bool]] = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the look-ups."""
        context, self._find_definition = self.context, lru_cache(_KEPT)(self._read_definition)
        self._screen = ReplyScreen(
            context.ledger,
            context.client,
            context.key,
            context.at,
            context.opt_out_words,
            self._find_offered,
            self._find_members,
        )

    def store(self, records: Sequence[ResultRecord], partial: Sequence[ResultRecord] = ()) -> Stored:
        """Put those of some results that are the campaign's, each once, into the ledger.

        A result whose question or author is not certain is not kept, since it would be missing from one
        question or another. If it opts out, the opt-out is entered all the same; also one of the `partial`
        results, which cannot be read as a whole.
        """
        self._numbers.clear()
        ours, theirs = self._pick(records), self._pick(partial)
        result = Stored(len(ours) < len(records))
        if not ours and not theirs:
            return result
        authored, lost = self._screen.place(ours)
        heard, unheard = self._screen.place(one.record for one in self._screen.find_requests(theirs))
        certain, others = self._screen.judge([*authored, *heard], [*lost, *unheard])
        rows = [(one, self._make_result(one)) for one in authored]
        ledger = self.context.ledger
        # Results that a power loss takes are read again, by the counts.
        with ledger.writing() if certain else ledger.writing_again() as connection:
            # A concurrent request to forget somebody is either seen here, or finds what is stored here.
            exclude_others(connection)
            gone = self.context.find_forgotten(connection, {one.participant_phone_number for one in authored})
            pruned = find_pruned(connection, set(self._numbers.values()))
            kept = [
                row
                for record, row in rows
                if row and row.launch_id not in pruned and record.participant_phone_number not in gone
            ]
            result.changed = store_results(connection, kept)
            known = [one for one in certain if one.record.participant_phone_number not in gone]
            self._screen.enter(connection, known)
        self._screen.hold(others)
        result.unreadable = [_doubt(one) for one in lost]
        for record, row in rows:
            is_pruned = self._numbers[record.project_launch_guid] in pruned
            if is_pruned or record.participant_phone_number in gone:
                result.forgotten.setdefault(record.project_launch_guid, set()).add(record.result_guid)
            elif row is None:
                result.unreadable.append(_doubt(record))
            else:
                result.met.setdefault(record.project_launch_guid, set()).add(record.result_guid)
        return result

    def _pick(self, records: Sequence[ResultRecord]) -> list[ResultRecord]:
        """Return the campaign's own results, with their launches' guids as on record."""
        owners = self.owners.find(one.project_launch_guid for one in records)
        self._numbers |= {one.project_launch_guid: one.launch_id for one in owners.values()}
        found = []
        for one in records:
            owner = owners.get(one.project_launch_guid)
            if owner is not None and owner.campaign_id == self.context.campaign_id:
                is_alike = owner.project_launch_guid == one.project_launch_guid
                found.append(one if is_alike else replace(one, project_launch_guid=owner.project_launch_guid))
        return found

    def _find_members(self, guid: str, phones: list[str]) -> list[str]:
        """Return those of some phones that a launch was sent to."""
        launch_id, people = self._numbers[guid], [*map(self.context.key.fingerprint, phones)]
        with self.context.ledger.reading() as connection:
            texted = find_texted(connection, self.context.campaign_id, people)
        return [phone for phone, one in zip(phones, people, strict=True) if (launch_id, one) in texted]

    def _read_definition(self, guid: str) -> tuple[dict[str, Any], bool]:
        """Return the text sent by a launch, and whether it is on record or the service's word."""
        number = self._numbers[guid]
        with self.context.ledger.reading() as connection:
            own = read_definitions(connection, [number]).get(number)
        if own is not None:
            return own, True
        stat = self._screen.read_launch(guid)
        return {} if stat is None else stat.project_definition, False

    def _find_offered(self, record: ResultRecord) -> tuple[str, ...]:
        definition, _ = self._find_definition(record.project_launch_guid)
        return find_offered(definition, record.question_tag, record.question_text)

    def _find_non_answer(self, record: ResultRecord) -> str:
        """Return why a result answers nothing; what its question offers is an answer to it."""
        said = record.result_response if record.result_response.strip() else record.result_answer
        if find_non_answer(said, said) is None or self._find_offered(record):
            return ""
        definition, _ = self._find_definition(record.project_launch_guid)
        sent = f"{record.question_text} {json.dumps(definition, ensure_ascii=False)}"
        return find_non_answer(said, sent) or ""

    def _make_result(self, record: ResultRecord) -> StoredResult | None:
        """Return a result as it is stored; None if its question is not certain."""
        if not record.question_tag:
            # A reply to a plain text answers no question; the service's own copy may lack the questions.
            definition, is_own = self._find_definition(record.project_launch_guid)
            if definition.get("questions") or not is_own:
                return None
        order = record.question_display_order
        return StoredResult(
            self._numbers[record.project_launch_guid],
            record.result_guid,
            self.context.key.fingerprint(record.participant_phone_number),
            record.question_guid,
            record.question_tag,
            record.question_text,
            ORDER_UNKNOWN if order is None else order,
            record.result_answer,
            record.result_response,
            record.created,
            record.updated,
            self._find_non_answer(record),
        )


def leave_out_strangers(context: ReconcileContext, since: int) -> None:
    """Count results of phones that their launch was not sent to as no answers, from after a revision on.

    They are those whose phone neither the record has, nor the service's own list, if that has everybody.
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


def _doubt(record: ResultRecord) -> Unreadable:
    return Unreadable(record.result_guid, record.project_launch_guid, 0, _UNCERTAIN)
