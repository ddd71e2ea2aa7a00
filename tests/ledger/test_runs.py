"""Which run sent a launch: kept with the intent, carried by lockfiles, united by merges."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import LockfileError
from runner.ledger.fingerprint import launch_key
from runner.ledger.lockfile.format import Lockfile, read_lockfile
from runner.ledger.lockfile.merge import unite_launches
from runner.ledger.lockfile.writer import LockfileContents, refresh_lockfile, write_lockfile
from runner.ledger.model import Intent, LaunchRecord, Outcome, Run
from runner.ledger.record.campaign_record import enter_record
from runner.ledger.record.deliveries import enter_campaign, record_outcomes
from runner.ledger.record.entry import add_intents
from runner.ledger.record.unsettled import adopt_launch
from runner.ledger.report_model import RunRow
from runner.ledger.results.runs import count_by_run, enter_runs, make_run, read_runs
from tests.ledger.conftest import AT, KEY, SALT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from runner.ledger.database import Ledger
    from runner.ledger.record.recorded import Identity

EARLY = make_run("2026-11-20T11:00:00.000000Z", "ab" * 16)
LATE = make_run(
    "2026-11-21T11:00:00.000000Z",
    "cd" * 16,
    "9d" * 20,
    dirty=True,
    run_url="https://ci.example/jobs/7",
    triggered_by="ada",
)
RESTORE = "restore it with git; nothing is sent as long as it is unclear who was texted"


def write(file: Path, records: Iterable[LaunchRecord], runs: Iterable[Run] = (EARLY, LATE)) -> None:
    ordered = sorted(records, key=lambda one: (one.message, one.key))
    write_lockfile(file, LockfileContents("pulse", "live", KEY, ordered, runs=runs))


def read(file: Path) -> Lockfile:
    lockfile = read_lockfile(file)
    assert lockfile is not None
    return lockfile


def send(ledger: Ledger, run: Run | None, *records: LaunchRecord, state: str = "sent") -> list[int]:
    """Enter launches as a run does, each with an outcome; return their numbers."""
    with ledger.writing() as connection:
        campaign_id = enter_campaign(connection, "live", "pulse", KEY)
        enter_runs(connection, [run] if run else [])
        intents = [
            Intent(r.message, r.key, r.tag, r.payload_digest, r.recipients, "{}", run=run.id if run else None)
            for r in records
        ]
        ids = add_intents(connection, campaign_id, intents, AT)
        outcomes = {
            "sent": [
                Outcome(i, "sent", AT, r.project_launch_guid) for i, r in zip(ids, records, strict=True)
            ],
            "rejected": [Outcome(launch_id, "rejected", AT) for launch_id in ids],
            "intent": [],
        }
        record_outcomes(connection, outcomes[state])
    return ids


class TestLockfile:
    """What a lockfile says of runs."""

    @pytest.fixture
    def file(self, identity: Identity) -> Path:
        """Where the lockfile stands."""
        return identity.lockfile

    def test_it_has_one_run_a_line(self, file: Path, make_record: Callable[..., LaunchRecord]) -> None:
        """Runs stand sorted by name between version and salt, each without what is not known of it."""
        write(file, [replace(make_record("a", 101), run=EARLY.id)])
        text = file.read_text(encoding="utf-8")
        assert text.endswith(
            '  "lockfile_version": 1,\n  "runs": [\n'
            f'    {{"id": "{EARLY.id}", "plan_digest": "{"ab" * 16}", '
            '"started_at": "2026-11-20T11:00:00.000000Z"},\n'
            f'    {{"commit": "{"9d" * 20}", "dirty": true, "id": "{LATE.id}", '
            f'"plan_digest": "{"cd" * 16}", "run_url": "https://ci.example/jobs/7", '
            '"started_at": "2026-11-21T11:00:00.000000Z", "triggered_by": "ada"}\n  ],\n'
            f'  "salt": "{SALT}",\n  "target": "live"\n}}\n'
        )
        assert f'"run": "{EARLY.id}"' in text

    def test_what_is_written_is_read(self, file: Path, make_record: Callable[..., LaunchRecord]) -> None:
        """Runs and the launches' names of them come back as they were."""
        records = [replace(make_record("a", 101), run=LATE.id), make_record("b", 102)]
        write(file, records)
        lockfile = read(file)
        assert set(lockfile.launches) == set(records)
        assert lockfile.runs == (EARLY, LATE)

    def test_without_runs_there_is_no_line_of_them(
        self, file: Path, make_record: Callable[..., LaunchRecord]
    ) -> None:
        """A record of launches of before is what it was."""
        write(file, [make_record("a", 101)], ())
        assert "run" not in json.loads(file.read_text(encoding="utf-8"))["launches"][0]
        assert '"runs"' not in file.read_text(encoding="utf-8")

    def test_a_run_that_was_edited_is_refused(
        self, file: Path, make_record: Callable[..., LaunchRecord]
    ) -> None:
        """A run whose fields don't make its id was changed by hand."""
        write(file, [replace(make_record("a", 101), run=LATE.id)])
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace('"triggered_by": "ada"', '"triggered_by": "bob"'), encoding="utf-8")
        with pytest.raises(LockfileError) as caught:
            read(file)
        assert caught.value.message == (
            f"the lockfile {file} was edited by hand: the run {LATE.id} was changed"
        )
        assert caught.value.hint == RESTORE

    def test_a_run_that_was_taken_out_is_missed(
        self, file: Path, make_record: Callable[..., LaunchRecord]
    ) -> None:
        """A launch that names a run which is not there was sent by one that somebody has removed."""
        write(file, [replace(make_record("a", 101), run=LATE.id)], [EARLY])
        with pytest.raises(LockfileError) as caught:
            read(file)
        assert caught.value.message == (
            f"the lockfile {file} was edited by hand: the run {LATE.id}, which launches name, is missing"
        )

    def test_an_address_that_is_no_page_is_refused(
        self, file: Path, make_record: Callable[..., LaunchRecord]
    ) -> None:
        """Reports link to the job: nothing but a page may stand there."""
        odd = make_run(AT, "ab" * 16, run_url="javascript:alert(1)")
        write(file, [replace(make_record("a", 101), run=odd.id)], [odd])
        with pytest.raises(LockfileError, match=r"is damaged at runs/0/run_url"):
            read(file)


class TestLedger:
    """What the ledger keeps of runs, on each of the databases."""

    def test_only_runs_that_sent_stand_in_the_lockfile(
        self, ledger: Ledger, identity: Identity, make_record: Callable[..., LaunchRecord]
    ) -> None:
        """A run of which everything was rejected is not there, nor one of another time twice."""
        send(ledger, EARLY, make_record("a", 101), make_record("b", 102, 103))
        send(ledger, LATE, make_record("c", 104), state="rejected")
        send(ledger, None, make_record("d", 105))
        record = enter_record(ledger, identity, SALT)
        with ledger.reading() as connection:
            refresh_lockfile(connection, identity, record)
            assert count_by_run(connection, record.require_entered()[0]) == [RunRow(EARLY, 2, 3)]
        lockfile = read(identity.lockfile)
        assert lockfile.runs == (EARLY,)
        named = {one.project_launch_guid: one.run for one in lockfile.launches}
        assert named == {"guid-a": EARLY.id, "guid-b": EARLY.id, "guid-d": None}

    def test_an_adopted_launch_has_the_run_that_intended_it(
        self, ledger: Ledger, identity: Identity, make_record: Callable[..., LaunchRecord]
    ) -> None:
        """A run that dies after the send is still the one that sent, whoever finds that out."""
        (launch_id,) = send(ledger, EARLY, make_record("a", 101), state="intent")
        with ledger.writing() as connection:
            adopt_launch(connection, launch_id, "guid-a", AT)
        record = enter_record(ledger, identity, SALT)
        with ledger.reading() as connection:
            refresh_lockfile(connection, identity, record)
        assert [one.run for one in read(identity.lockfile).launches] == [EARLY.id]

    def test_a_new_ledger_is_filled_and_writes_the_same_bytes(
        self, ledger: Ledger, identity: Identity, make_record: Callable[..., LaunchRecord]
    ) -> None:
        """From a lockfile alone another machine makes the same lockfile, however often."""
        records = [replace(make_record("a", 101), run=LATE.id), make_record("b", 102)]
        write(identity.lockfile, records, [LATE])
        before = identity.lockfile.read_bytes()
        for _ in range(2):
            record = enter_record(ledger, identity, SALT)
            with ledger.reading() as connection:
                assert not refresh_lockfile(connection, identity, record)
        assert identity.lockfile.read_bytes() == before

    def test_what_was_only_found_gets_its_run_from_the_lockfile(
        self, ledger: Ledger, identity: Identity, make_record: Callable[..., LaunchRecord]
    ) -> None:
        """A ledger that has adopted a launch takes over from git which run had sent it."""
        send(ledger, None, make_record("a", 101))
        write(identity.lockfile, [replace(make_record("a", 101), run=LATE.id)], [LATE])
        record = enter_record(ledger, identity, SALT)
        with ledger.reading() as connection:
            assert read_runs(connection, record.require_entered()[0]) == [LATE]


RUNS = [make_run(f"2026-11-20T11:00:0{number}.000000Z", f"{number:032x}") for number in range(4)]


def make_launch(number: int, run: Run | None) -> LaunchRecord:
    """Return a launch whose guid and recipient grow from its number."""
    recipients = (f"{number:020x}",)
    key = launch_key("pulse", "ask", "d1g35t", recipients)
    at = f"2026-11-20T12:00:{number:02}Z"
    return LaunchRecord(
        "ask", key, "pulse", "d1g35t", recipients, f"guid-{number}", at, run=run.id if run else None
    )


launches = st.builds(make_launch, st.integers(0, 9), st.sampled_from([None, *RUNS]))
sides = st.lists(launches, max_size=8, unique_by=lambda launch: launch.project_launch_guid)


@given(sides, sides)
def test_uniting_is_commutative_and_idempotent(ours: list[LaunchRecord], theirs: list[LaunchRecord]) -> None:
    """Whichever side comes first, and however often they are united, each launch has the same run."""
    file = Path("pulse.live.lock.json")
    united = set(unite_launches(file, [*ours, *theirs], "pulse"))
    assert united == set(unite_launches(file, [*theirs, *ours], "pulse"))
    assert united == set(unite_launches(file, [*united, *ours, *theirs], "pulse"))
    runs = {one.project_launch_guid: one.run for one in united}
    assert all(runs[one.project_launch_guid] is not None for one in (*ours, *theirs) if one.run is not None)


@given(base=sides, ours=sides, theirs=sides, style=st.sampled_from(["", "--diff3", "--zdiff3"]))
def test_git_unites_the_runs_of_both_sides(
    tmp_path_factory: pytest.TempPathFactory,
    base: list[LaunchRecord],
    ours: list[LaunchRecord],
    theirs: list[LaunchRecord],
    style: str,
) -> None:
    """Whatever two branches have sent in which runs, git's merge reads as all of their launches and runs."""
    folder = tmp_path_factory.mktemp("merge")
    known = {one.project_launch_guid: one for one in (*theirs, *ours, *base)}
    held = {"base": base, "ours": [*base, *ours], "theirs": [*base, *theirs]}
    for side, some in held.items():
        records = [known[guid] for guid in {one.project_launch_guid for one in some}]
        named = {record.run for record in records}
        write(folder / side, records, [run for run in RUNS if run.id in named])
    command = ["git", "merge-file", "-p", *filter(None, [style]), "ours", "base", "theirs"]
    merged = subprocess.run(command, cwd=folder, check=False, capture_output=True)
    (folder / "merged").write_bytes(merged.stdout)
    lockfile = read(folder / "merged")
    assert set(lockfile.launches) == set(known.values())
    assert {run.id for run in lockfile.runs} == {one.run for one in known.values()} - {None}
