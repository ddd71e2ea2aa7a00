"""Lockfiles that sum up: which ledgers they go with."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import delete

from runner.errors import LockfileError
from runner.ledger.database import Ledger
from runner.ledger.fingerprint import PeopleTally
from runner.ledger.lockfile.checkpoints import is_told
from runner.ledger.lockfile.diff import Advance, lacks_something, unite_lockfiles
from runner.ledger.lockfile.format import read_lockfile
from runner.ledger.lockfile.lockfiles import read_other_lockfiles
from runner.ledger.lockfile.writer import rewrite_lockfile
from runner.ledger.model import Outcome
from runner.ledger.people.forgotten import mark_forgotten, remove_person
from runner.ledger.record.campaign_record import enter_record, read_record
from runner.ledger.record.deliveries import record_outcomes
from runner.ledger.record.recorded import SharedRecord
from runner.ledger.tables import deliveries
from tests.ledger.conftest import AT, SALT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from runner.ledger.model import LaunchRecord
    from runner.ledger.record.recorded import Identity

HINT = (
    "the lockfile holds counts (`lockfile: summary`) and cannot fill a ledger: restore the newest copy of "
    "the ledger, or fill a new one with `runner ledger copy --from URL`. If there is none, move the lockfile "
    "away: `runner apply` then asks the service for what the ledger lacks"
)


@pytest.fixture
def identity(identity: Identity) -> Identity:
    """The campaign, its lockfile a summary."""
    return replace(identity, keeps_summary=True)


def write(ledger: Ledger, identity: Identity) -> str:
    """Enter the record, write the lockfile, and return its text."""
    rewrite_lockfile(ledger, identity, enter_record(ledger, identity, SALT))
    return identity.lockfile.read_text(encoding="utf-8")


def refusal(ledger: Ledger | None, identity: Identity) -> LockfileError | None:
    """Return why a ledger is refused: by whatever reads or enters the record; None if it isn't."""
    looks: list[Callable[[], Any]] = [
        lambda: read_record(ledger, identity),
        lambda: read_record(ledger, identity, counts_only=True),
    ]
    if ledger is not None:
        entered: Ledger = ledger
        looks.append(lambda: enter_record(entered, identity, SALT))
        looks.append(lambda: enter_record(entered, identity, SALT, counts_only=True))
    found = []
    for look in looks:
        try:
            look()
        except LockfileError as error:
            found.append(error)
    assert len(found) in (0, len(looks))
    return found[0] if found else None


def test_contents(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """It holds counts and a digest of each message, no fingerprint and no launch; the same again and again."""
    one, two = make_record("a", 1, 2), make_record("b", 3)
    deliver(one, two, make_record("c", 4, message="other"))
    deliver(make_record("d", 5), state="unknown")
    text = write(ledger, identity)
    data = json.loads(text)
    assert (data["kind"], data["lockfile_version"], data["salt"]) == ("summary", 2, SALT)
    assert "launches" not in data
    assert [line["message"] for line in data["messages"]] == ["ask", "other"]
    assert data["messages"][0] == {
        "digest": PeopleTally([*one.recipients, *two.recipients]).digest,
        "first_sent_at": AT,
        "last_sent_at": AT,
        "launches": 2,
        "message": "ask",
        "recipients": 3,
        "tags": ["pulse-2026"],
    }
    assert not any(name in text for name in (*one.recipients, one.project_launch_guid))
    assert write(ledger, identity) == text
    assert refusal(ledger, identity) is None


def test_no_ledger(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
    new_url: Callable[[], str],
) -> None:
    """Without its ledger, or with a new one, it is refused, and says what to do."""
    deliver(make_record("a", 1, 2))
    write(ledger, identity)
    message = (
        f"the ledger is not the one that the lockfile {identity.lockfile} sums up: of the message 'ask' that "
        "has 2 recipients, the ledger has none"
    )
    with Ledger(new_url()) as other:
        other.prepare()
        for opened in (None, other):
            error = refusal(opened, identity)
            assert error is not None
            assert (error.message, error.hint) == (message, HINT)


def test_ledger_that_lost_rows(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """A ledger that has lost somebody is refused, also if others came since."""
    record = make_record("a", 1, 2)
    deliver(record)
    write(ledger, identity)
    deliver(make_record("b", 3))
    with ledger.writing() as connection:
        connection.execute(delete(deliveries).where(deliveries.c.fingerprint == record.recipients[0]))
    error = refusal(ledger, identity)
    assert error is not None
    assert error.message.endswith("has 2 recipients, the ledger has 2, not all of them the same")


def test_newer_ledger(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """A ledger that went on goes with every lockfile that it has written: a run died, or a commit is old."""
    texts = []
    (waiting,) = deliver(make_record("u", 9), state="intent")
    for name, number in (("a", 1), ("b", 2), ("c", 3)):
        deliver(make_record(name, number))
        texts.append(write(ledger, identity))
    with ledger.writing() as connection:
        record_outcomes(connection, [Outcome(waiting, "sent", AT, "guid-u")])
    for text in texts:
        identity.lockfile.write_text(text, encoding="utf-8")
        assert refusal(ledger, identity) is None
    assert json.loads(write(ledger, identity))["messages"][0]["recipients"] == 4


def test_many_new_launches(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Too many launches to ask for one by one add up to the same, without those that were told before."""
    records = [make_record(name, number) for number, name in enumerate("abc")]
    deliver(records[0])
    write(ledger, identity)
    deliver(*records[1:])
    monkeypatch.setattr("runner.ledger.lockfile.checkpoints._FEW", 1)
    (line,) = json.loads(write(ledger, identity))["messages"]
    assert line["digest"] == PeopleTally(record.recipients[0] for record in records).digest


def test_older_copy(
    sqlite_ledger: Ledger,
    sqlite_file: Path,
    tmp_path: Path,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """A copy from before the last send is refused; one from before the lockfile was written is not."""
    deliver(make_record("a", 1), into=sqlite_ledger)
    write(sqlite_ledger, identity)
    _copy(sqlite_ledger, sqlite_file, tmp_path / "older")
    deliver(make_record("b", 2), into=sqlite_ledger)
    _copy(sqlite_ledger, sqlite_file, tmp_path / "unwritten")
    write(sqlite_ledger, identity)
    with Ledger(f"sqlite:///{tmp_path / 'older'}") as older:
        assert refusal(older, identity) is not None
    with Ledger(f"sqlite:///{tmp_path / 'unwritten'}") as same:
        assert refusal(same, identity) is None


def _copy(ledger: Ledger, file: Path, to: Path) -> None:
    with ledger.autocommit() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(file, to)


def test_people_who_leave(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """Who is forgotten is no loss; older lockfiles go on being taken."""
    record = make_record("a", 1, 2, 3)
    deliver(record, make_record("b", 4))
    before = write(ledger, identity)
    with ledger.writing() as connection:
        remove_person(connection, 1, "pulse", record.recipients[0])
        mark_forgotten(connection, 1, record.recipients[0])
    assert refusal(ledger, identity) is None
    after = write(ledger, identity)
    data = json.loads(after)
    assert data["forgotten"] == [record.recipients[0]]
    assert data["messages"][0]["recipients"] == 3
    identity.lockfile.write_text(before, encoding="utf-8")
    assert refusal(ledger, identity) is None


def test_renamed_message(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """A message that was renamed has the people of its old id, in the lockfile, too."""
    deliver(make_record("a", 1, 2), make_record("b", 3, message="invite"))
    before = write(ledger, identity)
    renamed = replace(identity, message_ids={"invite": "invite", "ask": "invite"})
    assert refusal(ledger, renamed) is None
    assert [one["message"] for one in json.loads(write(ledger, renamed))["messages"]] == ["invite"]
    renamed.lockfile.write_text(before, encoding="utf-8")
    assert refusal(ledger, renamed) is None


def test_change_of_kind(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
    new_url: Callable[[], str],
) -> None:
    """Full becomes summary and full again, with the same launches; a ledger without them stays refused."""
    full = replace(identity, keeps_summary=False)
    deliver(make_record("a", 1, 2), make_record("b", 3))
    text = write(ledger, full)
    write(ledger, identity)
    with Ledger(new_url()) as other:
        other.prepare()
        assert refusal(other, full) is not None
    assert write(ledger, full) == text


def test_filled_elsewhere(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
    new_url: Callable[[], str],
) -> None:
    """Another ledger that was filled from the full lockfile has the same people, and is taken."""
    deliver(make_record("a", 1, 2), make_record("b", 3))
    full = replace(identity, keeps_summary=False)
    write(ledger, full)
    with Ledger(new_url()) as other:
        other.prepare()
        enter_record(other, full, SALT)
        write(ledger, identity)
        assert refusal(other, identity) is None
        deliver(make_record("c", 4))
        write(ledger, identity)
        assert refusal(other, identity) is not None


@pytest.mark.parametrize("by", ["git", "runner record"])
def test_merged(
    by: str,
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
    new_url: Callable[[], str],
) -> None:
    """Of two branches' summaries every line has to be true; the ledger then makes one of them."""
    deliver(make_record("a", 1))
    ours = write(ledger, identity)
    deliver(make_record("b", 2))
    theirs = write(ledger, identity)
    merged = _conflict(ours, theirs) if by == "git" else unite_lockfiles(identity.lockfile, ours, theirs)
    identity.lockfile.write_text(merged, encoding="utf-8")
    lockfile = read_lockfile(identity.lockfile)
    assert lockfile is not None
    assert sorted(line.recipients for line in lockfile.lines) == [1, 2]
    assert lockfile.is_merged is (by == "git")
    assert refusal(ledger, identity) is None
    with Ledger(new_url()) as other:
        other.prepare()
        deliver(make_record("a", 1), into=other)
        assert refusal(other, identity) is not None
    assert write(ledger, identity) == theirs


def _conflict(ours: str, theirs: str) -> str:
    lines = []
    for one, other in zip(ours.splitlines(), theirs.splitlines(), strict=True):
        lines += [one] if one == other else ["<<<<<<< HEAD", one, "=======", other, ">>>>>>> branch"]
    return "\n".join([*lines, ""])


def test_mixture(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """A branch with all launches and one that sums up cannot be one lockfile."""
    deliver(make_record("a", 1))
    theirs = write(ledger, identity)
    ours = write(ledger, replace(identity, keeps_summary=False))
    with pytest.raises(LockfileError) as caught:
        unite_lockfiles(identity.lockfile, ours, theirs)
    message = f"the lockfile {identity.lockfile} is a merge of one with all launches and one that sums up"
    hint = (
        "keep the side with the launches (git checkout --ours, or --theirs): the ledger is filled from it, "
        "and `runner apply` asks the service for what it lacks"
    )
    assert (caught.value.message, caught.value.hint) == (message, hint)
    identity.lockfile.write_text(
        "{\n"
        + "\n".join(["<<<<<<< a", *ours.split("\n")[1:-2], "=======", *theirs.split("\n")[1:-2]])
        + "\n>>>>>>> b\n}\n",
        encoding="utf-8",
    )
    with pytest.raises(LockfileError) as read:
        read_lockfile(identity.lockfile)
    assert read.value.message == message


def test_state_remote(ledger: Ledger, identity: Identity) -> None:
    """A summary cannot be shared on a git remote."""
    shared = replace(identity, shared=SharedRecord())
    with pytest.raises(LockfileError) as caught:
        enter_record(ledger, shared, SALT)
    assert (
        caught.value.message == "the lockfile of pulse is a summary, which cannot be shared on a git remote"
    )
    assert caught.value.hint == (
        "leave out --state-remote and let all machines use one ledger (RUNNER_LEDGER); or keep all "
        "launches in the lockfile: `lockfile: full`"
    )
    with pytest.raises(LockfileError):
        read_record(ledger, shared)


def test_gain(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """The log of the repository tells by the counts what was sent between two summaries, or since a full one."""
    full = replace(identity, keeps_summary=False)
    deliver(make_record("a", 1))
    before = write(ledger, full)
    summed = write(ledger, identity)
    deliver(make_record("b", 2, 3), make_record("c", 4, message="other"))
    after = write(ledger, identity)
    file = identity.lockfile
    for earlier in (before, summed):
        gain = Advance.read(file, earlier, after).find_gain(())
        assert (gain.launches, gain.texts) == ({"ask": 1, "other": 1}, {"ask": 2, "other": 1})
        assert not lacks_something(file, earlier, after)
        assert lacks_something(file, after, earlier)
    assert Advance.read(file, None, summed).find_gain(()).texts == {"ask": 1}
    other = summed.replace(json.loads(summed)["messages"][0]["digest"], "0" * 64)
    assert lacks_something(file, summed, other)


def test_older_program(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
) -> None:
    """A program that doesn't know summaries sees a version that it refuses, as this one refuses the next."""
    deliver(make_record("a", 1))
    text = write(ledger, identity).replace('"lockfile_version": 2', '"lockfile_version": 3')
    identity.lockfile.write_text(text, encoding="utf-8")
    with pytest.raises(LockfileError) as caught:
        read_lockfile(identity.lockfile)
    assert (
        caught.value.message == f"the lockfile {identity.lockfile} was written by a newer version of runner"
    )


def test_frequency_cap(
    ledger: Ledger,
    identity: Identity,
    make_record: Callable[..., LaunchRecord],
    deliver: Callable[..., list[int]],
    new_url: Callable[[], str],
) -> None:
    """Another campaign's summary counts for a cap if the ledger tells of it, or if it is long past."""
    deliver(make_record("a", 1))
    write(ledger, identity)
    file = identity.lockfile
    message = (
        f"the frequency cap cannot be counted: the lockfile {file} holds counts only, and the ledger lacks "
        "what it counts"
    )
    with Ledger(new_url()) as other:
        other.prepare()
        for opened, is_enough in ((ledger, True), (other, False)):
            with opened.reading() as connection:
                found = read_other_lockfiles(
                    [file], "live", (), AT, None, is_told=partial(is_told, connection)
                )
                if is_enough:
                    assert list(found) == []
                    continue
                with pytest.raises(LockfileError) as caught:
                    list(found)
                assert (caught.value.message, caught.value.hint) == (
                    message,
                    "use the ledger that it was written with (RUNNER_LEDGER), or restore that one",
                )
    assert list(read_other_lockfiles([file], "live", (), "2027", None)) == []
