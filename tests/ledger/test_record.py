"""A campaign's record in ledger and lockfile: neither alone can make anybody look new (docs/delivery.md)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import LedgerError, LockfileError, MissingKeyError
from runner.ledger.database import Ledger
from runner.ledger.files.lockfile import parse_lockfile
from runner.ledger.files.suppressions import HoldLine, OptOut, PauseLine, settle
from runner.ledger.fingerprint import TargetKey, launch_key
from runner.ledger.model import CampaignLaunches, LaunchRecord, Outcome, Run
from runner.ledger.people.forgotten import remove_lingering
from runner.ledger.people.suppressions import iterate_entries
from runner.ledger.record.campaign_record import Identity, enter_record, list_former_names, read_record
from runner.ledger.record.deliveries import find_record, iterate_accepted, read_known, record_outcomes
from runner.ledger.record.entry import dismiss_launches, list_unexplained, read_dismissed
from runner.ledger.record.unsettled import list_unsettled
from runner.ledger.report_model import RunRow
from runner.ledger.results.reconciled import read_totals
from runner.ledger.results.runs import count_by_run, enter_runs, name_run
from runner.ledger.results.sendings import count_answered
from tests.keys import OTHER_STATE_KEY, STATE_KEY
from tests.ledger.conftest import AT, FILE, KEY, absorb, dump, fill, rewrite
from tests.ledger.test_record_files import write_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy import Connection

    from runner.ledger.model import LaunchState

    MakeRecord = Callable[..., LaunchRecord]
    Deliver = Callable[..., list[int]]

EARLY = name_run(Run("", "2026-11-20T11:00:00.000000Z", "ab" * 16))
LATE = name_run(Run("", "2026-11-21T11:00:00.000000Z", "cd" * 16, "9d" * 20, dirty=True, triggered_by="ada"))


@pytest.fixture
def other(new_url: Callable[[], str]) -> Iterator[Ledger]:
    """The ledger of another machine, on the same kind of database."""
    with Ledger(new_url()) as opened:
        opened.prepare()
        yield opened


def list_guids(text: str) -> set[str]:
    return {one.project_launch_guid for one in parse_lockfile(FILE, text, KEY).lockfile.launches}


def test_ledger_and_lockfile_are_made_of_each_other(
    ledger: Ledger, other: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A lost ledger is filled from the lockfile, with arms and runs; a lost lockfile comes back byte for byte."""
    with ledger.writing() as connection:
        enter_runs(connection, [EARLY, LATE])
    deliver(
        make_record("a", 101, 102, arm="short", run=LATE.id),
        make_record("b", 103, arm="warm"),
        make_record("c", 101, message="nudge"),
    )
    deliver(make_record("x", 104, run=EARLY.id), state="rejected")
    with ledger.writing() as connection:
        dismiss_launches(connection, 1, ["foreign"])
    renamed = replace(identity, name="heartbeat", renamed_from=("pulse",))
    text = rewrite(ledger, renamed)
    assert text.count('"arm":"') == 2
    # Only runs that sent.
    assert (LATE.id in text, EARLY.id in text, '"foreign"' in text) == (True, False, True)
    for opened in (ledger, other):
        fill(opened, text)
        fill(opened, text)
        assert rewrite(opened, renamed) == text
        identity.lockfile.unlink()
        assert rewrite(opened, renamed) == text
        record = read_record(opened, replace(renamed, renamed_from=()))
        assert {name: len(people) for name, people in record.known.sent.items()} == {"ask": 3, "nudge": 1}
    with other.reading() as connection:
        assert count_by_run(connection, CampaignLaunches(1)) == [RunRow(LATE, 1, 2)]


def test_an_older_lockfile_takes_nothing_and_a_newer_one_gives(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """What git put back, or brought meanwhile, is entered before the lockfile is written."""
    old, new, foreign = make_record("a", 101), make_record("b", 102), make_record("c", 103)
    deliver(old, new)
    for found in ([old], [foreign], [old, foreign]):
        identity.lockfile.write_text(dump(*found), encoding="utf-8")
        text = rewrite(ledger, identity)
    assert list_guids(text) == {"guid-a", "guid-b", "guid-c"}
    identity.lockfile.write_text("{}", encoding="utf-8")
    with pytest.raises(LockfileError) as caught:
        rewrite(ledger, identity)
    assert str(caught.value.hint).startswith("the ledger has all that was sent; restore it with git")


def test_a_launch_stays_listed_when_another_has_its_recipients(
    ledger: Ledger, other: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """Two machines that texted the same people leave both launches: both were accepted; any ledger writes the same."""
    deliver(make_record("a", 101), make_record("b", 102, 103))
    fill(ledger, dump(make_record("x", 101), make_record("y", 103)))
    text = rewrite(ledger, identity)
    held = {
        one.project_launch_guid: len(one.recipients) for one in parse_lockfile(FILE, text).lockfile.launches
    }
    assert held == {"guid-a": 0, "guid-b": 1, "guid-x": 1, "guid-y": 1}
    fill(other, text)
    assert rewrite(other, identity) == text


@pytest.mark.parametrize("state", ["intent", "unknown", "not_sent", "rejected"])
def test_only_what_was_accepted_is_in_the_lockfile(
    ledger: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver, state: LaunchState
) -> None:
    """An open intent whose recipients stand in a lockfile was sent; the rest stays open."""
    launch, sent = make_record("a", 101, 102), make_record("b", 101)
    deliver(launch, state=state)
    assert rewrite(ledger, identity) == ""
    fill(ledger, dump(sent))
    known = read_record(ledger, identity).known
    assert known.sent == {"ask": set(sent.recipients)}
    is_open = state in ("intent", "unknown")
    assert known.unresolved.get("ask", set()) == (
        set(launch.recipients) - set(sent.recipients) if is_open else set()
    )
    assert list_guids(rewrite(ledger, identity)) == {"guid-b"}


def test_another_key_stops(ledger: Ledger, identity: Identity, make_record: MakeRecord) -> None:
    """With another key everyone would look new; a key can be set until something is on record."""
    keyed = replace(identity, key=TargetKey.of("live", STATE_KEY))
    enter_record(ledger, identity)
    assert enter_record(ledger, keyed).known.is_empty()
    fill(ledger, dump(make_record("a", 101), key=keyed.key), key=keyed.key)
    cases: list[tuple[str | None, type[LedgerError | MissingKeyError], str]] = [
        (None, MissingKeyError, "was written with a RUNNER_STATE_KEY, and none is set"),
        (OTHER_STATE_KEY, LedgerError, "was written with another RUNNER_STATE_KEY"),
    ]
    for secret, kind, words in cases:
        with pytest.raises(kind) as caught:
            enter_record(ledger, replace(identity, key=TargetKey.of("live", secret)))
        assert caught.value.message == f"the ledger's record of live {words}"
        assert caught.value.hint == (
            "set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new"
        )
    public = replace(identity, key=TargetKey.of("test", None))
    fill(ledger, dump(make_record("b", 101), key=public.key), key=public.key)
    with pytest.raises(LedgerError) as caught:
        enter_record(ledger, replace(identity, key=TargetKey.of("test", STATE_KEY)))
    assert caught.value.message == (
        "the ledger's record of test was written without a RUNNER_STATE_KEY, and now there is one"
    )
    assert caught.value.hint == "`runner key rotate` moves the records to the key; until then nothing is sent"


def test_an_adopted_launch_has_the_run_that_intended_it(
    ledger: Ledger, other: Ledger, identity: Identity, make_record: MakeRecord, deliver: Deliver
) -> None:
    """A run that dies after the send is still the one that sent; a machine that found the launch learns of it."""
    with ledger.writing() as connection:
        enter_runs(connection, [EARLY])
    (launch_id,) = deliver(make_record("a", 101, run=EARLY.id), state="intent")
    with ledger.writing() as connection:
        record_outcomes(connection, [Outcome(launch_id, "sent", AT, "guid-a")])
    text = rewrite(ledger, identity)
    fill(other, dump(make_record("a", 101)), text)
    for opened in (ledger, other):
        with opened.reading() as connection:
            assert count_by_run(connection, CampaignLaunches(1)) == [RunRow(EARLY, 1, 1)]


class TestCountedLockfile:
    """Lockfiles that hold the number of launches (`lockfile: counts`)."""

    @pytest.fixture
    def counted(self, identity: Identity) -> Identity:
        """The campaign, its lockfile with counts."""
        return replace(identity, keeps_counts=True)

    def test_it_needs_a_server(self, sqlite_ledger: Ledger, counted: Identity) -> None:
        """A file beside the lockfile has no backups."""
        with pytest.raises(LockfileError) as caught:
            enter_record(sqlite_ledger, counted)
        assert caught.value.message == (
            "pulse: `lockfile: counts` needs a ledger on PostgreSQL, which has backups and is shared by all machines"
        )
        assert caught.value.hint == (
            "set RUNNER_LEDGER=postgresql://…, or take `lockfile: counts` out of the campaign"
        )

    @pytest.mark.parametrize("new_url", ["postgresql"], indirect=True)
    def test_it_goes_with_ledgers_that_have_its_last_launch(
        self, ledger: Ledger, other: Ledger, counted: Identity, make_record: MakeRecord, deliver: Deliver
    ) -> None:
        """Any ledger that has it, and as many, goes with any earlier one; others are refused, also after a merge."""
        records = [make_record(name, number) for number, name in enumerate("abc", 101)]
        texts = []
        for record in records:
            deliver(record)
            texts.append(rewrite(ledger, counted))
        assert not any(record.recipients[0] in texts[-1] for record in records)
        assert parse_lockfile(FILE, texts[-1], KEY).lockfile.counts[0].launches == 3
        fill(ledger, *texts)
        deliver(*records[:2], into=other)
        fill(other, *texts[:2])
        message = (
            f"the ledger is not the one that the lockfile {FILE} counts: that has 3 launches up to guid-c, and the "
            "ledger 2"
        )
        for text in (texts[2], merge_counts(texts[1], texts[2])):
            with pytest.raises(LockfileError) as caught:
                fill(other, text)
            assert caught.value.message == message
            assert str(caught.value.hint).startswith("the lockfile holds counts (`lockfile: counts`)")
        deliver(make_record("x", 110), into=other)
        with pytest.raises(LockfileError, match="has 3 launches up to guid-c, and the ledger 3"):
            fill(other, texts[2])
        # Back to all launches: they are in the ledger.
        full = replace(counted, keeps_counts=False)
        text = rewrite(ledger, full)
        assert list_guids(text) == {"guid-a", "guid-b", "guid-c"}
        fill(other, text, texts[2])


def merge_counts(ours: str, theirs: str) -> str:
    """Return a conflict of two versions, line by line."""
    lines = []
    for one, another in zip(ours.splitlines(), theirs.splitlines(), strict=True):
        lines += [one] if one == another else ["<<<<<<< HEAD", one, "=======", another, ">>>>>>> branch"]
    return "\n".join([*lines, ""])


class TestRenamedCampaign:
    """Nobody looks new under a new file or name."""

    @pytest.fixture
    def renamed(self, identity: Identity) -> Identity:
        """The campaign `pulse` under the name `heartbeat`, in a file of that name."""
        file = identity.file.with_name("heartbeat.yaml")
        return replace(identity, name="heartbeat", renamed_from=("pulse",), file=file)

    @pytest.mark.parametrize("told", [("old",), ("new",), ("old", "new"), ("new", "old"), ("ledger",)])
    def test_old_and_new_files_make_one_record(
        self,
        ledger: Ledger,
        other: Ledger,
        identity: Identity,
        renamed: Identity,
        make_record: MakeRecord,
        deliver: Deliver,
        told: tuple[str, ...],
    ) -> None:
        """In whatever order a ledger learns of them; an old checkout does not start over."""
        deliver(make_record("a", 101), make_record("b", 102))
        old = rewrite(ledger, identity)
        new = rewrite(ledger, renamed)
        opened = ledger if told == ("ledger",) else other
        fill(opened, *({"old": old, "new": new}[one] for one in told if one != "ledger"))
        assert len(read_record(opened, renamed).known.sent["ask"]) == 2
        identity.lockfile.unlink()
        renamed.lockfile.unlink()
        assert rewrite(opened, renamed) == new
        assert len(read_record(opened, replace(renamed, renamed_from=())).known.sent["ask"]) == 2
        fill(opened, old)
        for act in (read_record, enter_record):
            with pytest.raises(LockfileError) as caught:
                act(opened, identity)
            assert caught.value.message == "the ledger knows the campaign 'pulse' as 'heartbeat' now"
            assert caught.value.hint == (
                "update this checkout, it is older than the rename; or rename back: `renamed_from: [heartbeat]`"
            )

    def test_it_may_be_renamed_again_and_back(
        self, ledger: Ledger, identity: Identity, renamed: Identity, make_record: MakeRecord, deliver: Deliver
    ) -> None:
        """With what is unresolved; each lockfile on the way can be read again."""
        deliver(make_record("a", 101))
        deliver(make_record("b", 102), state="unknown")
        again = replace(renamed, name="beat", renamed_from=("heartbeat", "pulse"))
        back = replace(identity, renamed_from=("beat",))
        texts = []
        for current in (identity, renamed, again, back):
            assert {len(found["ask"]) for found in vars_of(read_record(ledger, current))} == {1}
            texts.append(rewrite(ledger, current))
            fill(ledger, *texts)
        assert {len(found["ask"]) for found in vars_of(read_record(ledger, back))} == {1}

    def test_a_new_name_without_a_record_starts_afresh(self, ledger: Ledger, renamed: Identity) -> None:
        """Naming old names that nothing was sent under changes nothing."""
        assert read_record(ledger, renamed).campaign_id is None
        assert enter_record(ledger, renamed).known.is_empty()

    def test_records_that_grew_apart_stop(
        self, ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver
    ) -> None:
        """A campaign that was sent under both names has two records: it stops rather than forget one."""
        deliver(make_record("a", 101))
        fill(ledger, dump(make_record("b", 102), name="heartbeat"))
        acts = (
            partial(read_record, ledger, renamed),
            partial(enter_record, ledger, renamed),
            partial(fill, ledger, dump(make_record("c", 103), name="heartbeat", former_names=["pulse"])),
        )
        for act in acts:
            with pytest.raises(
                LockfileError, match="has several records, made under the names heartbeat, pulse"
            ):
                act()


def vars_of(record: Any) -> list[dict[str, set[str]]]:
    return [record.known.sent, record.known.unresolved]


RENAMED = {"opener": "opener", "ask": "opener"}


class TestRenamedMessage:
    """Nobody looks new under a message's new id."""

    @pytest.fixture
    def renamed(self, identity: Identity) -> Identity:
        """The campaign `pulse`, its message `ask` under the id `opener`."""
        return replace(identity, message_ids=RENAMED)

    def test_who_got_it_under_its_old_id_is_known(
        self,
        ledger: Ledger,
        other: Ledger,
        identity: Identity,
        renamed: Identity,
        make_record: MakeRecord,
        deliver: Deliver,
    ) -> None:
        """Ledger and lockfile of the old id are honoured and written under the new one, which then is enough."""
        deliver(make_record("a", 101, 102), make_record("c", 101, message="nudge"))
        deliver(make_record("b", 103), state="unknown")
        old = rewrite(ledger, identity)
        assert {name: len(people) for name, people in read_record(ledger, renamed).known.sent.items()} == {
            "nudge": 1, "opener": 2,
        }  # fmt: skip
        with ledger.reading() as connection:
            totals = read_totals(connection, CampaignLaunches(1, RENAMED))
            assert not count_answered(connection, CampaignLaunches(1, RENAMED))
        assert (totals["opener"].sent, totals["opener"].unresolved) == (2, 1)
        new = rewrite(ledger, renamed)
        assert new.count('"message":"opener"') == new.count('"message":"nudge"') == 1
        with ledger.reading() as connection:
            (unsettled,) = list_unsettled(connection, 1)
        assert unsettled.message == "opener"
        forgetful = replace(renamed, message_ids={"opener": "opener"})
        # Ledgers that learn of both, in any order, and of a file older than the rename with a launch of its own.
        branch = dump(make_record("d", 104))
        fill(ledger, old, branch)
        fill(other, new)
        enter_record(other, renamed)
        fill(other, branch, old)
        for opened in (ledger, other):
            assert len(read_record(opened, forgetful).known.sent["opener"]) == 3
            for act in (read_record, enter_record):
                with pytest.raises(LockfileError) as caught:
                    act(opened, replace(identity, message_ids={"ask": "ask"}))
                assert caught.value.message == "the ledger knows the message 'ask' as 'opener' now"
                assert str(caught.value.hint).startswith("update this checkout, it is older than the rename")

    @pytest.mark.parametrize("first", ["ask", "opener"])
    def test_a_rename_on_one_branch(
        self, ledger: Ledger, identity: Identity, renamed: Identity, make_record: MakeRecord, first: str
    ) -> None:
        """A merged file has the launch under both ids: its people got both, and are one person once that is known."""
        launch = make_record("a", 101, 102)
        both = [launch, msgspec.structs.replace(launch, message="opener")]
        texts = sorted((dump(one) for one in both), key=lambda text: f'"{first}"' not in text)
        fill(ledger, dump(*both) if first == "ask" else texts[0], *texts)
        for ids in ({"ask": "ask"}, {"opener": "opener"}):
            known = read_record(ledger, replace(identity, message_ids=ids)).known
            assert known.sent[next(iter(ids))] == set(launch.recipients)
        assert enter_record(ledger, renamed).known.sent == {"opener": set(launch.recipients)}
        (line,) = parse_lockfile(FILE, rewrite(ledger, renamed)).lockfile.launches
        assert (line.message, line.recipients) == ("opener", launch.recipients)

    @pytest.mark.parametrize(
        ("before", "after", "winner"),
        [
            ("sent", "unknown", "sent"),
            ("unknown", "sent", "sent"),
            ("sent", "sent", "sent"),
            ("unknown", "unknown", "unknown"),
            ("rejected", "unknown", "unknown"),
            ("unknown", "rejected", "unknown"),
            ("sent", "rejected", "sent"),
            ("rejected", "rejected", "rejected"),
        ],
    )
    def test_a_delivery_under_both_ids_stays_once(
        self, sqlite_ledger: Ledger, renamed: Identity, make_record: MakeRecord, deliver: Deliver,
        before: LaunchState, after: LaunchState, winner: LaunchState,
    ) -> None:  # fmt: skip
        """Somebody whom both ids have on record is known by the more certain of the two; others are untouched."""
        deliver(make_record("a", 101, 102), state=before, into=sqlite_ledger)
        deliver(make_record("b", 101, 103, message="opener"), state=after, into=sqlite_ledger)
        known = enter_record(sqlite_ledger, renamed).known
        for number, state in ((101, winner), (102, before), (103, after)):
            (person,) = make_record("c", number).recipients
            assert (person in known.sent.get("opener", ())) == (state == "sent")
            assert (person in known.unresolved.get("opener", ())) == (state == "unknown")

    def test_it_may_be_renamed_again_and_back(
        self, ledger: Ledger, identity: Identity, renamed: Identity, make_record: MakeRecord, deliver: Deliver
    ) -> None:
        """However often it is renamed, it keeps its record, and no old id of it can start over."""
        deliver(make_record("a", 101))
        again = replace(identity, message_ids={"hello": "hello", "opener": "hello", "ask": "hello"})
        back = replace(identity, message_ids={"ask": "ask", "hello": "ask"})
        for current, message in ((renamed, "opener"), (again, "hello"), (back, "ask")):
            assert f'"message":"{message}"' in rewrite(ledger, current)
            assert read_record(ledger, current).known.messages == {message}
        for message in ("opener", "hello"):
            with pytest.raises(LockfileError, match=f"knows the message '{message}' as 'ask' now"):
                read_record(ledger, replace(identity, message_ids={message: message}))


PEOPLE = [f"{number:020x}" for number in range(5)]
MOMENTS = st.integers(1, 3).map(lambda day: f"2026-11-2{day}T12:00:00.000000Z")


def make_launch(number: int, people: set[str], run: str | None) -> LaunchRecord:
    message, found = ("ask", "nudge")[number % 2], tuple(sorted(people))
    key = launch_key("pulse", message, f"d{number}", found)
    return LaunchRecord(message, key, "tag", f"d{number}", found, f"guid-{number}", AT, run=run)


LAUNCHES = st.builds(
    make_launch,
    st.integers(0, 4),
    st.sets(st.sampled_from(PEOPLE), max_size=3),
    st.sampled_from([None, EARLY.id, LATE.id]),
)
LOCKFILES = st.builds(
    lambda launches, dismissed, name: dump(
        *{one.project_launch_guid: one for one in launches}.values(),
        dismissed=dismissed, runs=[EARLY, LATE], name=name, former_names=() if name == "pulse" else ["pulse"],
    ),
    st.lists(LAUNCHES, max_size=3), st.sets(st.sampled_from(["guid-8", "guid-9"])), st.sampled_from(["pulse", "heartbeat"]),
)  # fmt: skip
OPT_OUTS = st.builds(
    lambda person, evidence, state, at: OptOut(
        person, evidence, "forgotten" if evidence == "forgotten" else "reply",
        "confirmed" if evidence == "forgotten" else state, at,
    ),
    st.sampled_from(PEOPLE), st.sampled_from(["r1", "r2", "forgotten"]),
    st.sampled_from(["confirmed", "doubtful", "dismissed"]), MOMENTS,
)  # fmt: skip
PAUSES = st.builds(
    PauseLine, st.just("pulse"), st.sampled_from(["", "why"]), st.sampled_from(["paused", "resumed"]), MOMENTS
)
HOLDS = st.builds(
    lambda number, whole: HoldLine("pulse", f"guid-{number}", "ask", "tag", (PEOPLE[number % 5],), whole, AT),
    st.sampled_from([1, 8, 7]),
    st.just(value=True),
)
BOOKS = st.lists(OPT_OUTS | PAUSES | HOLDS, max_size=4).map(lambda lines: write_entries(lines, KEY))


def describe(connection: Connection) -> tuple[Any, ...]:
    """Return all that a ledger says of the campaign, after what a command does first."""
    row = find_record(connection, "live", ["heartbeat", "pulse"], takes_heirs=True)
    entries = list(iterate_entries(connection, "live"))
    assert settle(entries) == sorted(entries, key=lambda one: one.identity)
    if row is None:
        return (entries,)
    remove_lingering(connection, row.id, row.name)
    known = read_known(connection, row.id)
    # Who is held as well as on record may be held by either launch.
    held = {m: people - known.sent.get(m, set()) for m, people in known.unresolved.items()}
    return (
        row.name,
        set(list_former_names(connection, row.id)),
        {m: people for m, people in known.sent.items() if people},
        {m: people for m, people in held.items() if people},
        {one.project_launch_guid for one in iterate_accepted(connection, row.id)},
        read_dismissed(connection, row.id),
        {one.project_launch_guid for one in list_unexplained(connection, row.id)},
        [one for one in entries if not isinstance(one, HoldLine)],
    )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    """A ledger for many examples, which are taken back."""
    with Ledger(f"sqlite:///{tmp_path_factory.mktemp('scratch') / 'ledger.sqlite'}") as opened:
        opened.prepare()
        yield opened


def try_order(ledger: Ledger, texts: Iterable[str]) -> tuple[Any, ...]:
    """Return what a ledger says that has learned of files in this order; nothing of it stays."""
    with ledger.writing() as connection, connection.begin_nested() as attempt:
        absorb(connection, *texts)
        found = describe(connection)
        attempt.rollback()
    return found


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(LOCKFILES | BOOKS, min_size=2, max_size=3))
def test_files_may_come_in_any_order(scratch: Ledger, texts: list[str]) -> None:
    """Whatever a ledger learns first, and however often, it knows the same in the end."""
    first, *others = [try_order(scratch, [*order, order[0]]) for order in permutations(texts)]
    for found in others:
        assert found == first
