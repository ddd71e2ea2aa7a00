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

_STATES: Mapping[Kind, State] = {"sure": "confirmed", "doubtful": "doubtful"}
_GRAVEST: tuple[Kind, ...] = ("sure", "doubtful", "opt_in", "answer")
_FEWEST_DIGITS = 4
"""Digits at a phone's end by which one of a launch's people can be told from the others."""


class ReadReply(NamedTuple):
    """A result, and what its texts say."""

    record: ResultRecord
    reading: ReplyReading

    @property
    def phone(self) -> str:
        """The phone of its author, as far as that is known."""
        return self.record.participant_phone_number

    @property
    def asks(self) -> bool:
        """True if it may opt out, or ask for texts again."""
        return self.reading.kind != "answer"


def read_replies(
    records: Iterable[ResultRecord],
    words: tuple[str, ...],
    find_offered: Callable[[ResultRecord], tuple[str, ...]],
) -> list[ReadReply]:
    """Classify replies by both of their texts; the gravest reading counts.

    `find_offered` is called for possible opt-outs only: the responses that its question offers.
    """
    found, answers = [], dict[tuple[str, str], ReplyReading]()
    for record in records:
        texts = record.result_response, record.result_answer
        reading = answers.get(texts)
        if reading is None:
            reading = _find_gravest(classify(text, words=words) for text in texts)
            if reading.kind == "answer":
                answers[texts] = reading
            else:
                offered = find_offered(record)
                reading = _find_gravest(classify(text, offered=offered, words=words) for text in texts)
        found.append(ReadReply(record, reading))
    return found


def _find_gravest(readings: Iterable[ReplyReading]) -> ReplyReading:
    return min(readings, key=lambda reading: _GRAVEST.index(reading.kind))


@dataclass(slots=True)
class ReplyScreen:
    """Finds authors of replies, and enters opt-outs at the moment `at` (UTC, ISO 8601).

    `find_members` returns those of some phones that a launch was sent to, by the record of it.
    """

    ledger: Ledger
    client: ServiceClient
    key: TargetKey
    at: str
    find_members: Callable[[str, list[str]], list[str]] = lambda _guid, _phones: []
    _stats: dict[str, StatRecord | None] = field(default_factory=dict, init=False)

    def place(self, replies: Iterable[ReadReply]) -> tuple[list[ReadReply], list[ReadReply]]:
        """Return replies with the phones of their authors, and those without a certain author."""
        placed, lost = [], []
        for reply in replies:
            written = reply.record.participant_phone_number
            phone = written if written.startswith("+") else self._find_author(reply.record)
            if phone is None:
                lost.append(reply)
            elif phone == written:
                placed.append(reply)
            else:
                placed.append(reply._replace(record=replace(reply.record, participant_phone_number=phone)))
        return placed, lost

    def enter(self, connection: LedgerConnection, replies: Collection[ReadReply]) -> None:
        """Enter the opt-outs among replies with known authors, and the wishes to be texted again."""
        asking = [reply for reply in replies if reply.asks]
        if not asking:
            return
        key = self.key
        enter_key(connection, key)
        opt_outs, proposals = list[OptOut](), list[OptIn]()
        for reply in asking:
            guid, author = reply.record.result_guid, key.fingerprint(reply.phone)
            if reply.reading.kind in _STATES:
                opt_outs.append(OptOut(author, guid, "reply", _STATES[reply.reading.kind], self.at))
            else:
                proposals.append(OptIn(guid, author, reply.record.created, self.at))
        add_replies(connection, key.target, opt_outs)
        add_opt_ins(connection, key.target, proposals)

    def hold(self, replies: Iterable[ReadReply]) -> None:
        """Hold the people of launches with opt-outs, sure or doubtful, that have no certain author."""
        key, held = self.key, list[OptOut]()
        for record, reading in replies:
            if reading.kind not in _STATES:
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

    def is_stranger(self, record: ResultRecord) -> bool:
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
