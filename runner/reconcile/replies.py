"""The authors of replies, and the replies that may opt out.

A service may write a reply's phone in another form than the recipient's, or leave it out. Then the author
is looked for among the people of the launch. If a reply that may opt out has no certain author, all people of
its launch are held until it has, or a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from runner.audience.phone import list_readings
from runner.ledger.files.suppressions import OptOut
from runner.ledger.people.opt_outs import NOBODY, add_replies
from runner.ledger.people.replies import OptIn, add_opt_ins
from runner.ledger.target_key import enter_key
from runner.optout.reply import ReplyReading, classify
from runner.service.model import StatRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from runner.ledger.database import Ledger
    from runner.ledger.files.suppressions import State
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.target_key import LedgerConnection
    from runner.optout.reply import Kind
    from runner.service.client import ServiceClient
    from runner.service.model import ResultRecord

STATES: Mapping[Kind, State] = {"sure": "confirmed", "doubtful": "doubtful"}
"""The states of opt-outs, by the kind of reply."""
_GRAVEST: tuple[Kind, ...] = ("sure", "doubtful", "opt_in", "answer")
_FEWEST_DIGITS = 4
"""Digits at a phone's end by which one of a launch's people can be told from the others."""


class Request(NamedTuple):
    """A result that may opt out, or ask for texts again, and what its texts say."""

    record: ResultRecord
    reading: ReplyReading


def _find_gravest(readings: Iterable[ReplyReading]) -> ReplyReading:
    return min(readings, key=lambda reading: _GRAVEST.index(reading.kind))


@dataclass(slots=True)
class ReplyScreen:
    """Finds requests in replies and their authors, and enters opt-outs at the moment `at` (UTC, ISO 8601).

    `words` are the campaign's own opt-out words. `find_offered` returns the responses that the question of a
    result offers; `find_members`, those of some phones that a launch was sent to, by the record of it.
    """

    ledger: Ledger
    client: ServiceClient
    key: TargetKey
    at: str
    words: tuple[str, ...]
    find_offered: Callable[[ResultRecord], tuple[str, ...]]
    find_members: Callable[[str, list[str]], list[str]] = lambda _guid, _phones: []
    _stats: dict[str, StatRecord | None] = field(default_factory=dict, init=False)

    def find_requests(self, records: Iterable[ResultRecord]) -> list[Request]:
        """Return the requests among replies, by both of their texts; the gravest reading counts."""
        found, answers = [], set[tuple[str, str]]()
        for record in records:
            texts = record.result_response, record.result_answer
            if texts in answers:
                continue
            if _find_gravest(classify(text, words=self.words) for text in texts).kind == "answer":
                answers.add(texts)
                continue
            offered = self.find_offered(record)
            reading = _find_gravest(classify(text, offered=offered, words=self.words) for text in texts)
            if reading.kind != "answer":
                found.append(Request(record, reading))
        return found

    def place(self, records: Iterable[ResultRecord]) -> tuple[list[ResultRecord], list[ResultRecord]]:
        """Return results with the phones of their authors, and those without a certain author."""
        placed, lost = [], []
        for record in records:
            if record.participant_phone_number.startswith("+"):
                placed.append(record)
            elif phone := self._find_author(record):
                placed.append(replace(record, participant_phone_number=phone))
            else:
                lost.append(record)
        return placed, lost

    def judge(
        self, placed: Iterable[ResultRecord], lost: Iterable[ResultRecord]
    ) -> tuple[list[Request], list[Request]]:
        """Return the requests of certain authors, and the others, among what `place` has returned."""
        certain, others = list[Request](), self.find_requests(lost)
        for request in self.find_requests(placed):
            (others if self._is_stranger(request.record) else certain).append(request)
        return certain, others

    def enter(self, connection: LedgerConnection, requests: Collection[Request]) -> None:
        """Enter opt-outs of known authors, and their wishes to be texted again."""
        if not requests:
            return
        key = self.key
        enter_key(connection, key)
        opt_outs, proposals = list[OptOut](), list[OptIn]()
        for record, reading in requests:
            guid, author = record.result_guid, key.fingerprint(record.participant_phone_number)
            if reading.kind in STATES:
                opt_outs.append(OptOut(author, guid, "reply", STATES[reading.kind], self.at))
            else:
                proposals.append(OptIn(guid, author, record.created, self.at))
        add_replies(connection, key.target, opt_outs)
        add_opt_ins(connection, key.target, proposals)

    def hold(self, requests: Iterable[Request]) -> None:
        """Hold the people of launches with opt-outs, sure or doubtful, that have no certain author."""
        key, held = self.key, list[OptOut]()
        for record, reading in requests:
            if reading.kind not in STATES:
                continue
            phones, is_whole = self._list_people(record)
            if (written := record.participant_phone_number).startswith("+"):
                phones = [*phones, written]
            people = [key.fingerprint(phone) for phone in phones] + [NOBODY] * (not is_whole)
            held += [OptOut(one, record.result_guid, "launch", "doubtful", self.at) for one in people]
        if held:
            with self.ledger.writing() as connection:
                enter_key(connection, key)
                add_replies(connection, key.target, held)

    def _is_stranger(self, record: ResultRecord) -> bool:
        """Return whether a result's phone is none that its launch went to: a service may write its own."""
        phone = record.participant_phone_number
        if self.find_members(record.project_launch_guid, [phone]):
            return False
        people, is_whole = self._list_people(record)
        return is_whole and phone not in people

    def read_launch(self, guid: str) -> StatRecord | None:
        """Return a launch as the service lists it; None if it doesn't."""
        if guid not in self._stats:
            stat = self.client.read_stat(guid) if guid else None
            self._stats[guid] = stat if isinstance(stat, StatRecord) else None
        return self._stats[guid]

    def _find_author(self, record: ResultRecord) -> str | None:
        """Return the phone of the author of a result that has no whole one; None if it is not certain."""
        written, guid = record.participant_phone_number, record.project_launch_guid
        if written:
            found = self.find_members(guid, list_readings(written))
            if not found and len(ending := written.lstrip("0")) >= _FEWEST_DIGITS:
                found = [phone for phone in self._list_people(record)[0] if phone.endswith(ending)]
        else:
            phones, is_whole = self._list_people(record)
            found = phones if is_whole else []
        return found[0] if len(found) == 1 else None

    def _list_people(self, record: ResultRecord) -> tuple[list[str], bool]:
        """Return the people whom the service lists for a result's launch, and whether that is all of them."""
        found = self.read_launch(record.project_launch_guid)
        if found is None:
            return [], False
        return sorted(set(found.recipients)), found.is_whole and not found.missing_counts
