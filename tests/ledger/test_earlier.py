"""What follow-ups go by: who got a message before, when, and who has answered it, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.lockfile.writer import LockfileContents, refresh_lockfile, write_lockfile
from runner.ledger.model import Intent, LaunchRecord, LaunchStats, Outcome, StoredResult
from runner.ledger.people.earlier import EarlierLaunch, EarlierMessage, read_earlier
from runner.ledger.record.campaign_record import enter_record, read_earlier_messages
from runner.ledger.record.deliveries import record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.record.recorded import Identity
from runner.ledger.report_model import LaunchDifference, OpenDifferences
from runner.ledger.results.differences import store_differences
from runner.ledger.results.reconciled import store_results
from tests.ledger.counts import store_stats

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.ledger.database import Ledger

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

SALT = "0123456789abcdef" * 2
KEY = FingerprintKey.from_salt(SALT)
SENT_AT = datetime.fromisoformat("2026-11-20T12:00:00.000000Z")
READ_AT = "2026-11-21T08:30:00.000000Z"


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    """The campaign `pulse` on the target `live`, with its messages."""
    messages = {message: message for message in ("ask", "nudge", "other")}
    return Identity("pulse", tmp_path / "pulse.yaml", "live", message_ids=messages)


def person(number: int) -> str:
    return KEY.fingerprint("pulse", f"+1415555{number:04}")


def reconcile(ledger: Ledger, launch_id: int, *answered: int, at: str = READ_AT) -> None:
    """Store the results of a launch, two of each person, and its counts."""
    results = [
        StoredResult(
            launch_id, f"{launch_id}-{n}-{tag}", person(n), tag, tag, "Why?", 1, "1", "1", "2026", "2026"
        )
        for n in answered
        for tag in ("nps", "why")
    ]
    stats = LaunchStats(launch_id, 0, 1, 1, 1, 0, 1, len(results), "2026-11-20T12:00:00")
    with ledger.writing() as connection:
        store_results(connection, results)
        store_stats(connection, [stats], at)


def test_nothing_is_known_without_a_record(ledger: Ledger, identity: Identity) -> None:
    """Each message that is asked for is there, and nobody got it: with an empty ledger, and without one."""
    nobody = {"ask": EarlierMessage(), "nudge": EarlierMessage()}
    assert read_earlier_messages(ledger, identity, {"ask", "nudge"}) == nobody
    assert read_earlier_messages(None, identity, {"ask", "nudge"}) == nobody
    assert read_earlier_messages(ledger, identity, set()) == {}


def test_it_tells_who_got_it_and_who_answered(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Everybody has the launch they got it by; each answer counts for the message that it answers."""
    first, _second, other = deliver(
        make_record("a", 101, 102), make_record("b", 103), make_record("c", 101, message="other")
    )
    reconcile(ledger, first, 102)
    reconcile(ledger, other, 101)
    found = read_earlier_messages(ledger, identity, {"ask"})
    read = EarlierLaunch(SENT_AT, datetime.fromisoformat(READ_AT))
    assert found == {
        "ask": EarlierMessage(
            {person(101): read, person(102): read, person(103): EarlierLaunch(SENT_AT, None)}, {person(102)}
        )
    }


def test_a_difference_keeps_answers_as_they_were_known(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Until it is accepted the launch is known as of when it last agreed; in parts as in the whole."""
    first, second = deliver(make_record("a", 101), make_record("b", 102))
    for launch_id in (first, second):
        reconcile(ledger, launch_id)
    since = "2026-11-22T12:00:00.000000Z"
    open_one = LaunchDifference(first, "guid-a", "more_counted", 2, 1, since, "2026-11-01T12:00:00.000000Z")
    accepted = LaunchDifference(second, "guid-b", "uncounted", None, 1, since, None, accepted_at=since)
    with ledger.writing() as connection:
        store_differences(connection, [], [open_one, accepted])
    found = read_earlier_messages(ledger, identity, {"ask"})["ask"]
    assert found.launches == {
        person(101): EarlierLaunch(SENT_AT, datetime(2026, 11, 1, 12, tzinfo=UTC), differs=True),
        person(102): EarlierLaunch(SENT_AT, datetime.fromisoformat(READ_AT)),
    }
    assert found.differences == OpenDifferences(1, 1, (open_one, accepted))
    with ledger.reading() as connection:
        people = [person(101), person(102)]
        assert read_earlier(connection, 1, {"ask": "ask"}, {"ask"}, people) == {"ask": found}
    with ledger.writing() as connection:
        store_differences(connection, [first, second], [])
    assert read_earlier_messages(ledger, identity, {"ask"})["ask"].differences is None


@pytest.mark.parametrize("state", ["intent", "unknown", "not_sent", "rejected"])
def test_only_what_was_accepted_counts(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver, state: str
) -> None:
    """Whoever may or may not have got a message is not followed up."""
    deliver(make_record("a", 101), state=state)
    assert read_earlier_messages(ledger, identity, {"ask"}) == {"ask": EarlierMessage()}


def test_other_campaigns_and_targets_are_left_out(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """The record of another name, or of the same on another target, is none of it."""
    deliver(make_record("a", 101))
    for other in (replace(identity, name="news"), replace(identity, target="sandbox")):
        assert read_earlier_messages(ledger, other, {"ask"}) == {"ask": EarlierMessage()}


def test_renamed_messages_are_found(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """What was sent and answered under an old id counts for the message under its new one."""
    (launch_id,) = deliver(make_record("a", 101, 102))
    reconcile(ledger, launch_id, 101)
    renamed = replace(identity, message_ids={"ask": "question", "question": "question"})
    found = read_earlier_messages(ledger, renamed, {"question"})["question"]
    assert (set(found.launches), found.answered) == ({person(101), person(102)}, {person(101)})


def test_a_renamed_campaign_is_found(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Who got it before the campaign was renamed is known by the name of that time."""
    deliver(make_record("a", 101))
    renamed = replace(identity, name="heartbeat", renamed_from=("pulse",))
    assert set(read_earlier_messages(ledger, renamed, {"ask"})["ask"].launches) == {person(101)}
    enter_record(ledger, renamed, SALT)
    assert set(read_earlier_messages(ledger, renamed, {"ask"})["ask"].launches) == {person(101)}


def test_a_lockfile_adds_what_the_ledger_lacks(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Launches that only the lockfile tells of were never reconciled here; what the ledger knows stays."""
    known, lost = make_record("a", 101), make_record("b", 102, 103)
    (launch_id,) = deliver(known)
    reconcile(ledger, launch_id, 101)
    write_lockfile(
        identity.lockfile,
        LockfileContents("pulse", "live", KEY, sorted((known, lost), key=lambda one: one.key)),
    )
    found = read_earlier_messages(ledger, identity, {"ask"})["ask"]
    unread = EarlierLaunch(SENT_AT, None)
    assert found.launches == {
        person(101): EarlierLaunch(SENT_AT, datetime.fromisoformat(READ_AT)),
        person(102): unread,
        person(103): unread,
    }
    assert read_earlier_messages(None, identity, {"ask"})["ask"] == EarlierMessage(
        dict.fromkeys(map(person, (101, 102, 103)), unread)
    )


def test_the_last_reading_counts(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A launch that is reconciled again has the time of that, and the answers of both."""
    (launch_id,) = deliver(make_record("a", 101, 102))
    reconcile(ledger, launch_id, 101)
    later = "2026-11-22T08:30:00.000000Z"
    reconcile(ledger, launch_id, 101, 102, at=later)
    found = read_earlier_messages(ledger, identity, {"ask"})["ask"]
    assert {one.reconciled_at for one in found.launches.values()} == {datetime.fromisoformat(later)}
    assert found.answered == {person(101), person(102)}


class TestArms:
    """The arms of an experiment, between ledger and lockfile."""

    @pytest.fixture
    def records(self, make_record: MakeRecord) -> list[LaunchRecord]:
        """Two arms whose texts may be the same, and a message without arms."""
        short = replace(make_record("a", 101, 102), arm="short")
        warm = replace(make_record("b", 103), arm="warm")
        return sorted([short, warm, make_record("c", 101, message="nudge")], key=lambda r: (r.message, r.key))

    def test_they_go_from_lockfile_to_ledger_and_back(
        self, ledger: Ledger, identity: Identity, records: list[LaunchRecord]
    ) -> None:
        """A ledger that is filled from a lockfile writes it again byte for byte."""
        write_lockfile(identity.lockfile, LockfileContents("pulse", "live", KEY, records))
        content = identity.lockfile.read_bytes()
        assert content.count(b'"arm": ') == 2
        record = enter_record(ledger, identity, "f" * 32)
        with ledger.reading() as connection:
            assert not refresh_lockfile(connection, identity, record)
        identity.lockfile.unlink()
        with ledger.reading() as connection:
            assert refresh_lockfile(connection, identity, record)
        assert identity.lockfile.read_bytes() == content

    def test_they_survive_a_merge(
        self, ledger: Ledger, identity: Identity, records: list[LaunchRecord]
    ) -> None:
        """From a lockfile with both sides of a conflict the ledger takes the launches of both, with their arms."""
        write_lockfile(identity.lockfile, LockfileContents("pulse", "live", KEY, records))
        whole = identity.lockfile.read_bytes()
        lines = identity.lockfile.read_text(encoding="utf-8").splitlines(keepends=True)
        (first, *_, last) = [n for n, line in enumerate(lines) if '"arm"' in line]
        conflict = ["<<<<<<< ours\n", *lines[first:last], "=======\n", lines[last], ">>>>>>> theirs\n"]
        lines[first : last + 1] = conflict
        identity.lockfile.write_text("".join(lines), encoding="utf-8")
        record = enter_record(ledger, identity, "f" * 32)
        assert record.merged == (identity.lockfile,)
        with ledger.reading() as connection:
            assert refresh_lockfile(connection, identity, record)
        assert identity.lockfile.read_bytes() == whole

    def test_they_survive_a_rename(
        self, ledger: Ledger, identity: Identity, records: list[LaunchRecord]
    ) -> None:
        """Under the campaign's and the message's new names each launch keeps its arm."""
        write_lockfile(identity.lockfile, LockfileContents("pulse", "live", KEY, records))
        renamed = replace(
            identity,
            name="heartbeat",
            renamed_from=("pulse",),
            message_ids={"ask": "question", "question": "question", "nudge": "nudge"},
        )
        record = enter_record(ledger, renamed, "f" * 32)
        with ledger.reading() as connection:
            refresh_lockfile(connection, renamed, record)
        text = identity.lockfile.read_text(encoding="utf-8")
        assert text.count('"arm": "short"') == text.count('"arm": "warm"') == 1
        assert text.count('"message": "question"') == 2

    def test_intents_have_them(self, ledger: Ledger, identity: Identity, records: list[LaunchRecord]) -> None:
        """A launch that this ledger has sent itself comes into the lockfile with its arm."""
        at = "2026-11-20T12:00:00.000000Z"
        record = enter_record(ledger, identity, SALT)
        campaign_id, _ = record.require_entered()
        with ledger.writing() as connection:
            intents = [
                Intent(r.message, r.key, r.tag, r.payload_digest, r.recipients, "{}", arm=r.arm)
                for r in records
            ]
            ids = add_intents(connection, campaign_id, intents, at)
            guids = [one.project_launch_guid for one in records]
            record_outcomes(
                connection, [Outcome(n, "sent", at, guid) for n, guid in zip(ids, guids, strict=True)]
            )
        with ledger.reading() as connection:
            refresh_lockfile(connection, identity, record)
        written = identity.lockfile.read_bytes()
        write_lockfile(identity.lockfile, LockfileContents("pulse", "live", KEY, records))
        assert identity.lockfile.read_bytes() == written


def test_the_arm_is_no_part_of_a_launchs_key(make_record: MakeRecord) -> None:
    """A delivery is campaign, message and phone: whoever moves to another arm does not get it twice."""
    record = make_record("a", 101)
    assert record.key == launch_key("pulse", "ask", "d1g35t-a", record.recipients)
    assert replace(record, arm="short").key == record.key
