"""`runner key`: state keys, and records that are moved to a new one."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from runner.ledger.files.lockfile import LOCKFILE as KIND
from runner.ledger.files.lockfile import dump_lockfile, parse_lockfile
from runner.ledger.files.suppressions import OptOut, parse_book
from runner.ledger.fingerprint import TargetKey, launch_key
from runner.ledger.model import LaunchRecord, format_moment
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from runner.service.target import read_state_key
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]

ADA, BOB, CY, DEE = (f"+1415555010{number}" for number in (1, 2, 3, 4))
LOCKFILE = "campaigns/pulse.sandbox.lock.json"
SUPPRESSIONS = "campaigns/sandbox.suppressions.json"
LEDGER = ".runner/ledger.sqlite"
DONE = "All records of sandbox are under this key, and signed.\n"
WRITTEN = f"{LOCKFILE}: rewritten; commit it.\n"
WRITTEN_TOO = f"{SUPPRESSIONS}: rewritten; commit it.\n"
NEW, OLD = {"RUNNER_STATE_KEY": STATE_KEY}, {"RUNNER_STATE_KEY": OTHER_STATE_KEY}
MOVE = {**NEW, "RUNNER_OLD_STATE_KEY": OTHER_STATE_KEY}


def test_a_new_key_is_a_good_one(run: Run, tmp_path: Path) -> None:
    """Printed alone, so that it can be piped to where secrets are kept; each time another."""
    first, second = (run("key", "new", cwd=tmp_path) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert read_state_key({"KEY": first.stdout.removesuffix("\n")}, "KEY")
    assert first.stdout != second.stdout
    assert len(first.stdout.splitlines()) == 1


def test_a_weak_key_stops_every_command(run: Run, tmp_path: Path) -> None:
    """It is refused where it is read, before anything else; the key is not shown."""
    done = run("optouts", "add", ADA, cwd=tmp_path, env={"RUNNER_STATE_KEY": "hunter2"})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: the key in RUNNER_STATE_KEY can be guessed: it has less than 16 random bytes\n"
        "  `runner key new` prints a good one. If something was sent with this one, `runner key rotate` moves "
        "the records, with the new key in RUNNER_STATE_KEY and the old one in RUNNER_OLD_STATE_KEY\n"
    )


def send(folder: Path, run: Run, env: dict[str, str]) -> None:
    """Have people texted, answered, opted out and forgotten."""
    assert run("apply", "--auto-approve", cwd=folder, env=env).returncode == 0
    with closing(open_store(folder / ".runner/sandbox/service.sqlite")) as store:
        for phone, text in ((ADA, "10"), (ADA, "Because"), (BOB, "STOP")):
            Service(store).receive(phone, text, datetime.now(UTC))
    for command in (
        ("reconcile",),
        ("forget", CY, "--auto-approve"),
        ("optouts", "add", "+14155550188"),
    ):
        done = run(*command, cwd=folder, env=env)
        assert done.returncode == 0, done.stderr


def write_imported(folder: Path) -> None:
    """Write a list of the one who opted out and was never texted."""
    (folder / "people.csv").write_text("phone\n+14155550188\n", encoding="utf-8")


def read(folder: Path) -> str:
    return (folder / SUPPRESSIONS).read_text(encoding="utf-8")


def rotate(run: Run, folder: Path, env: dict[str, str], *options: str) -> CompletedProcess[str]:
    return run("key", "rotate", "--auto-approve", *options, cwd=folder, env=env)


def read_ledger(folder: Path) -> list[str]:
    """Return what the ledger says, as statements; without what is another with each run."""
    with closing(sqlite3.connect(folder / LEDGER)) as ledger:
        lines = list(ledger.iterdump())
    return [line for line in lines if '"locks"' not in line and "results_edition" not in line]


def read_people(folder: Path) -> list[str]:
    """Return what the ledger says of people."""
    tables = ("deliveries", "launches", "opt_outs", "results")
    return [
        line
        for line in read_ledger(folder)
        if line.startswith(tuple(f'INSERT INTO "{one}"' for one in tables)) or "'key of " in line
    ]


def read_facts(folder: Path, run: Run, env: dict[str, str]) -> list[Any]:
    """Return what commands say that rests on who is who."""
    found: list[Any] = []
    for command in (("plan", "--format", "json"), ("report", "--format", "json"), ("optouts", "list")):
        done = run(*command, cwd=folder, env=env)
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    # Fingerprints are of a key.
    found[2] = sorted(re.sub(r"^[0-9a-f]{20} ", "", line) for line in found[2].splitlines())
    plan = json.loads(found[0])["campaigns"][0]["messages"][0]
    return [{name: plan[name] for name in ("already_sent", "opted_out", "to_send", "unresolved")}, *found[1:]]


@pytest.mark.slow
@pytest.mark.parametrize("before", [{}, OLD])
def test_records_are_moved(folder: Path, run: Run, before: dict[str, str]) -> None:
    """From the public key or a secret one to another: everybody is who they were, and nothing of the old key is left."""
    send(folder, run, before)
    facts = read_facts(folder, run, before)
    old = json.loads((folder / LOCKFILE).read_text(encoding="utf-8"))
    names = [*(one for launch in old["launches"] for one in launch["recipients"])]
    people = [entry["fingerprint"] for entry in json.loads(read(folder))["entries"]]
    write_imported(folder)
    done = rotate(run, folder, MOVE if before else NEW, "--phones", "people.csv")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines(keepends=True)) == sorted([DONE, WRITTEN, WRITTEN_TOO])
    text = (folder / LOCKFILE).read_text(encoding="utf-8")
    parse_lockfile(folder / LOCKFILE, text, TargetKey.of("sandbox", STATE_KEY))
    assert len(parse_book(folder / SUPPRESSIONS, read(folder)).pick(OptOut)) == 3
    assert not [name for name in people if name in read(folder)]
    ledger = "\n".join(read_ledger(folder))
    assert not [name for name in (*names, old["key_fingerprint"]) if name in ledger + text]
    after = read_facts(folder, run, NEW)
    assert after[0] == facts[0] == {"already_sent": 3, "opted_out": 1, "to_send": 0, "unresolved": 0}
    assert after[2] == facts[2]
    for side in (facts, after):
        report = json.loads(side[1])
        side[1] = [report["campaign"], report["messages"]]
    assert after == facts
    for command in (("apply", "--auto-approve"), ("reconcile",)):
        assert run(*command, cwd=folder, env=NEW).returncode == 0
    assert (folder / LOCKFILE).read_text(encoding="utf-8") == text
    again = rotate(run, folder, MOVE)
    assert (again.returncode, again.stdout) == (0, DONE)


CHANGED = "Changed since it was sent: pulse/ask."


@pytest.mark.slow
def test_texts_cannot_be_tried_on_a_lockfile_without_the_key(folder: Path, run: Run) -> None:
    """Digests of what was sent are of the key, too, and of the new one after a rotation."""
    shown = json.loads(run("plan", "--launches", "--format", "json", cwd=folder, env=OLD).stdout)
    public = {launch["payload_digest"] for launch in shown["campaigns"][0]["launches"]}
    assert run("apply", "--auto-approve", cwd=folder, env=OLD).returncode == 0

    def read_digests() -> set[str]:
        launches = json.loads((folder / LOCKFILE).read_text(encoding="utf-8"))["launches"]
        return {launch[name] for launch in launches for name in ("key", "payload_digest")}

    old = read_digests()
    assert public
    assert old.isdisjoint(public)
    assert rotate(run, folder, MOVE).returncode == 0
    assert read_digests().isdisjoint(old | public)
    assert CHANGED not in run("plan", cwd=folder, env=NEW).stdout
    file = folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("Why?", "But why?"), encoding="utf-8")
    assert CHANGED in run("plan", cwd=folder, env=NEW).stdout


@pytest.mark.slow
def test_a_record_that_is_only_in_git_is_moved(folder: Path, run: Run) -> None:
    """A new machine has no ledger; the old key may be a weak one."""
    weak = TargetKey.of("sandbox", "a")
    people = tuple(sorted(weak.fingerprint(phone) for phone in (ADA, BOB)))
    key = launch_key("pulse", "ask", "0" * 32, people)
    # A minute ago: with replies that are unread for a day, further texts would wait.
    sent_at = format_moment(datetime.now(UTC) - timedelta(minutes=1))
    launch = LaunchRecord("ask", key, "t", "0" * 32, people, "guid", sent_at)
    KIND.save(folder / LOCKFILE, dump_lockfile("pulse", weak, [launch]))
    done = rotate(run, folder, {**NEW, "RUNNER_OLD_STATE_KEY": "a"})
    assert (done.returncode, done.stdout) == (0, WRITTEN + DONE), done.stderr
    assert done.stderr == (
        f"Move 2 fingerprints on sandbox to the new key, in the ledger and in {LOCKFILE}.\n"
    )
    plan = json.loads(run("plan", "--format", "json", cwd=folder, env=NEW).stdout)
    message = plan["campaigns"][0]["messages"][0]
    assert (message["already_sent"], message["opted_out"], message["to_send"]) == (2, 0, 2)


@pytest.mark.slow
def test_a_person_who_cannot_be_found_stops_all(folder: Path, run: Run) -> None:
    """Whoever is missing would look new: nothing is changed, and the error says of how many."""
    send(folder, run, OLD)
    before = (folder / LOCKFILE).read_bytes(), read_ledger(folder)
    done = rotate(run, folder, MOVE)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: nothing was changed: 1 person cannot be found, neither in audiences nor at the "
        "service\n  name a CSV file that has their phones with --phones: fingerprints tell nothing\n"
    )
    # Those of whom the service tells are found, also if no audience has them any more.
    (folder / "campaigns/audience/people.csv").write_text("first_name,mobile\n", encoding="utf-8")
    shutil.rmtree(folder / ".runner/sandbox")
    done = rotate(run, folder, MOVE)
    assert done.stderr.startswith(
        "Error: nothing was changed: 4 people cannot be found, neither in audiences nor at the service\n"
    )
    assert before == ((folder / LOCKFILE).read_bytes(), read_ledger(folder))


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["lockfile", "ledger"])
def test_a_rotation_that_died_is_done_again(folder: Path, run: Run, lost: str) -> None:
    """What has the new key already stays, the rest is moved; until then nobody is sent anything."""
    send(folder, run, OLD)
    write_imported(folder)
    shutil.copy(folder / LOCKFILE, folder / "lockfile")
    shutil.copy(folder / LEDGER, folder / "ledger")
    assert rotate(run, folder, MOVE, "--phones", "people.csv").returncode == 0
    whole = (folder / LOCKFILE).read_bytes(), read(folder), read_people(folder)
    place = {"lockfile": LOCKFILE, "ledger": LEDGER}[lost]
    shutil.copy(folder / lost, folder / place)
    done = run("apply", "--auto-approve", cwd=folder, env=NEW)
    if lost == "lockfile":
        # The ledger has all of it.
        assert (done.returncode, done.stdout) == (0, "pulse: nothing sent.\n")
    else:
        assert done.returncode == 1
        assert "written with another RUNNER_STATE_KEY" in done.stderr
    assert rotate(run, folder, MOVE, "--phones", "people.csv").returncode == 0
    assert ((folder / LOCKFILE).read_bytes(), read(folder), read_people(folder)) == whole


@pytest.mark.slow
def test_a_missing_key_is_said(folder: Path, run: Run) -> None:
    """Which of the two is missing, or is the wrong one; nothing is changed."""
    assert run("apply", "--auto-approve", cwd=folder, env=OLD).returncode == 0
    for env, words in (
        (
            {},
            (
                "there is no key to move records to: RUNNER_STATE_KEY is not set\n  `runner key new` prints one: "
                "put it into RUNNER_STATE_KEY, and the old one, if there is one, into RUNNER_OLD_STATE_KEY\n"
            ),
        ),
        (
            NEW,
            (
                "campaigns/pulse.sandbox.lock.json was written with another key, and RUNNER_OLD_STATE_KEY is "
                "not set\n  set RUNNER_OLD_STATE_KEY to the key that it was written with; nothing was changed\n"
            ),
        ),
        (
            {**NEW, "RUNNER_OLD_STATE_KEY": "x"},
            (
                "campaigns/pulse.sandbox.lock.json was written with another key than the one in "
                "RUNNER_OLD_STATE_KEY\n  set RUNNER_OLD_STATE_KEY to the key that it was written with; nothing "
                "was changed\n"
            ),
        ),
    ):
        done = rotate(run, folder, env)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"Error: {words}")
    text = (folder / LOCKFILE).read_text(encoding="utf-8")
    (folder / LOCKFILE).write_text(text.replace('"sent_at":"20', '"sent_at":"19'), encoding="utf-8")
    before = (folder / LOCKFILE).read_bytes(), read_ledger(folder)
    # A line with a wrong seal is somebody else's: no key takes it over.
    done = rotate(run, folder, MOVE)
    assert done.returncode == 1
    assert "was written without this RUNNER_STATE_KEY: it does not fit its seal\n" in done.stderr
    assert before == ((folder / LOCKFILE).read_bytes(), read_ledger(folder))


@pytest.mark.slow
def test_opt_outs_that_are_only_in_git_are_moved(folder: Path, run: Run) -> None:
    """A new machine without ledger moves them, once their phones are named; until then nothing is changed."""
    run("optouts", "add", ADA, "+14155550188", cwd=folder, env=OLD)
    before = read(folder)
    shutil.rmtree(folder / ".runner")
    assert run("plan", cwd=folder, env=NEW).returncode == 1
    refused = rotate(run, folder, MOVE)
    assert refused.stderr.startswith("Error: nothing was changed: 1 person cannot be found")
    assert read(folder) == before
    write_imported(folder)
    done = rotate(run, folder, MOVE, "--phones", "people.csv")
    assert (done.returncode, done.stdout) == (0, WRITTEN_TOO + DONE)
    shutil.rmtree(folder / ".runner")
    done = run("plan", "--format", "json", cwd=folder, env=NEW)
    assert json.loads(done.stdout)["campaigns"][0]["messages"][0]["opted_out"] == 1
