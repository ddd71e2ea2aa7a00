"""Opt-outs outlive machines, ledgers and campaigns: the file of suppressions, from the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Serve = Callable[..., AbstractContextManager[dict[str, str]]]

ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
FILE = "campaigns/live.suppressions.json"
KEY = {"RUNNER_STATE_KEY": "an0Ther-l0ng-4nd-rand0m-key-0f-tests"}
CAMPAIGN = """\
version: 1
name: {name}
recipients:
  - phone: "+14155550101"
  - phone: "+14155550102"
  - phone: "+14155550103"
messages:
  - id: ask
    introduction: "{name}?"
    questions: [{{tag: q, text: "How was it?"}}]
"""


@pytest.fixture
def live(tmp_path: Path, serve: Serve) -> Iterator[dict[str, str]]:
    """A service of its own, and a key."""
    with serve(tmp_path, "--db", "service.sqlite") as service:
        yield service | KEY


def write(folder: Path, *names: str) -> Path:
    """Write campaigns of three recipients each; return the folder."""
    (folder / "campaigns").mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"campaigns/{name}.yaml").write_text(CAMPAIGN.format(name=name), encoding="utf-8")
    return folder


def replace_machine(old: Path, name: str) -> Path:
    """Return a new machine that has of another one only what is committed."""
    new = old.parent / name
    shutil.copytree(old, new, ignore=shutil.ignore_patterns(".runner"))
    return new


def say(folder: Path, phone: str, *texts: str) -> None:
    """Have a participant text the service."""
    with closing(open_store(folder / "service.sqlite")) as store:
        for text in texts:
            Service(store).receive(phone, text, datetime.now(UTC))


def plan(run: Run, folder: Path, env: dict[str, str]) -> dict[str, dict[str, int]]:
    """Return what is planned, by campaign: the counts of its one message."""
    done = run("plan", "--format", "json", cwd=folder, env=env)
    campaigns = json.loads(done.stdout)["campaigns"]
    return {one["name"]: one["messages"][0] for one in campaigns}


def last_write(file: Path) -> tuple[int, int]:
    """Return what a write of the file would change, and a read would not."""
    status = file.stat()
    return status.st_ino, status.st_mtime_ns


def read_entries(folder: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((folder / FILE).read_text(encoding="utf-8"))["entries"]
    return entries


@pytest.mark.slow
def test_a_stop_outlives_its_campaign_and_its_machine(tmp_path: Path, run: Run, live: dict[str, str]) -> None:
    """Somebody replies STOP, the campaign is deleted: another campaign on a new machine doesn't text them."""
    first = write(tmp_path / "first", "pulse")
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 0
    say(tmp_path, ADA, "STOP")
    for phone in (BOB, CY):
        say(tmp_path, phone, "10")
    assert run("reconcile", cwd=first, env=live).returncode == 0
    (first / "campaigns/pulse.yaml").unlink()
    second = write(replace_machine(first, "second"), "coffee")
    file = second / "campaigns/coffee.yaml"
    file.write_text(file.read_text(encoding="utf-8") + "renamed_from: none\n", encoding="utf-8")
    coffee = plan(run, second, live)["coffee"]
    # Whether they still answer the survey is not known there before it is read.
    assert (coffee["opted_out"], coffee["open_session"]) == (1, 2)
    assert not (second / ".runner").exists()
    assert run("reconcile", cwd=second, env=live).returncode == 0
    done = run("apply", "--auto-approve", cwd=second, env=live)
    assert done.stdout == "coffee: 2 people texted.\n"
    assert (second / FILE).read_bytes() == (first / FILE).read_bytes()


def test_a_stop_to_a_campaign_whose_file_is_gone_counts(
    tmp_path: Path, run: Run, live: dict[str, str]
) -> None:
    """Its lockfile says which launches to read; it is named, and planned no more."""
    first = write(tmp_path / "first", "pulse")
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 0
    (first / "campaigns/pulse.yaml").unlink()
    say(tmp_path, ADA, "STOP")
    second = write(replace_machine(first, "second"), "coffee")
    done = run("reconcile", "--format", "json", cwd=second, env=live)
    assert (done.returncode, done.stderr) == (
        0,
        (
            "pulse: its file is gone. What it has sent is still recorded (campaigns/pulse.live.lock.json), and read "
            "for opt-outs.\n"
        ),
    )
    document = json.loads(done.stdout)
    assert document["gone"] == ["pulse"]
    assert {one["name"]: one["opted_out"] for one in document["campaigns"]} == {"coffee": 0, "pulse": 1}
    assert plan(run, second, live)["coffee"]["opted_out"] == 1
    status = run("status", "--format", "json", cwd=second, env=live)
    assert json.loads(status.stdout)["gone"] == ["pulse"]
    assert "pulse: its file is gone." in status.stderr


@pytest.mark.slow
def test_the_file_changes_only_if_something_has(tmp_path: Path, run: Run, live: dict[str, str]) -> None:
    """Byte for byte the same after commands that decide nothing; there is none as long as nothing is to say."""
    first = write(tmp_path / "first", "pulse")
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 0
    assert not (first / FILE).exists()
    run("optouts", "add", ADA, cwd=first, env=live)
    before = last_write(first / FILE)
    for command in (
        ("apply", "--auto-approve"),
        ("reconcile",),
        ("optouts", "list"),
        ("optouts", "add", ADA),
    ):
        assert run(*command, cwd=first, env=live).returncode == 0
    # Said again, it is newer: no other machine takes it for undone by what it has decided since.
    assert last_write(first / FILE) != before
    after = last_write(first / FILE)
    for command in (("apply", "--auto-approve"), ("reconcile",), ("optouts", "list")):
        assert run(*command, cwd=first, env=live).returncode == 0
    assert last_write(first / FILE) == after
    assert (first / FILE).stat().st_mode & 0o777 == 0o644


def test_who_was_forgotten_is_so_everywhere(tmp_path: Path, run: Run, live: dict[str, str]) -> None:
    """A new campaign on a new machine doesn't text them, whatever else there was of them."""
    first = write(tmp_path / "first", "pulse")
    run("optouts", "add", ADA, cwd=first, env=live)
    other = replace_machine(first, "other")
    assert run("forget", ADA, "--auto-approve", cwd=first, env=live).returncode == 0
    (entry,) = read_entries(first)
    assert (entry["source"], entry["state"]) == ("forgotten", "confirmed")
    shutil.copy(first / FILE, other / FILE)
    assert plan(run, write(other, "coffee"), live)["coffee"]["opted_out"] == 1
    run("apply", "--auto-approve", cwd=other, env=live)
    assert read_entries(other) == [entry]


def test_a_file_that_git_still_has_is_missed(tmp_path: Path, run: Run, live: dict[str, str]) -> None:
    """Removed from the work tree alone, it stops everything until it is back, or gone from git as well."""
    first = write(tmp_path / "first", "pulse")
    run("optouts", "add", ADA, cwd=first, env=live)
    for command in ("init --quiet", "add .", "commit --quiet --message=Begin"):
        subprocess.run(["git", *command.split()], cwd=first, check=True)
    shutil.rmtree(first / ".runner")
    (first / FILE).unlink()
    done = run("plan", cwd=first, env=live)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        (
            f"Error: {FILE} is gone, and git still has it: without it nobody would have opted out\n"
            f"  bring it back with `git checkout -- {FILE}`; or, if it is to go, `git rm {FILE}`\n"
        ),
    )
    for remedy in (f"checkout -- {FILE}", f"rm --quiet {FILE}"):
        subprocess.run(["git", *remedy.split()], cwd=first, check=True)
        assert run("plan", cwd=first, env=live).returncode == 0


def test_what_git_has_merged_is_read_and_written_clean(
    tmp_path: Path, run: Run, live: dict[str, str]
) -> None:
    """With conflict markers in it, both sides count."""
    first = write(tmp_path / "first", "pulse")
    run("optouts", "add", ADA, cwd=first, env=live)
    second = replace_machine(first, "second")
    run("optouts", "add", BOB, cwd=first, env=live)
    run("optouts", "add", CY, cwd=second, env=live)
    texts = [(folder / FILE).read_text(encoding="utf-8") for folder in (first, second)]
    (first / FILE).write_text(
        f"<<<<<<< ours\n{texts[0]}=======\n{texts[1]}>>>>>>> theirs\n", encoding="utf-8"
    )
    assert plan(run, first, live)["pulse"]["opted_out"] == 3
    run("reconcile", cwd=first, env=live)
    assert len(read_entries(first)) == 3


def git(folder: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    done = subprocess.run(
        ["git", *settings, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    """A bare repository with one campaign."""
    bare = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", "-b", "main", str(bare))
    seed = write(clone(bare, tmp_path / "seed"), "pulse")
    (seed / ".gitignore").write_text(".runner/\n", encoding="utf-8")
    git(seed, "checkout", "--quiet", "-b", "main")
    git(seed, "add", ".")
    git(seed, "commit", "--quiet", "-m", "Start")
    git(seed, "push", "--quiet", "origin", "main")
    return bare


def clone(bare: Path, folder: Path) -> Path:
    git(bare.parent, "clone", "--quiet", str(bare), str(folder))
    return folder


def test_machines_that_record_at_once_lose_nobody(
    tmp_path: Path, run: Run, live: dict[str, str], remote: Path
) -> None:
    """The second push unites; it needs no key; the log says what was decided; a new clone texts nobody of them."""
    first, second = clone(remote, tmp_path / "first"), clone(remote, tmp_path / "second")
    run("optouts", "add", ADA, cwd=first, env=live)
    run("optouts", "add", BOB, cwd=second, env=live)
    run("pause", "pulse", cwd=second, env=live)
    for machine in (first, second):
        assert run("ci", "record", cwd=machine).returncode == 0
    third = clone(remote, tmp_path / "third")
    counts = plan(run, third, live)["pulse"]
    assert (counts["opted_out"], counts["paused"], counts["to_send"]) == (2, 1, 0)
    assert git(third, "log", "-1", "--format=%s") == "Record decisions on live"
    assert (
        run("ci", "record", cwd=third, env=live).stdout == "Nothing to record: the lockfiles are unchanged.\n"
    )


@pytest.mark.slow
def test_records_that_were_moved_to_a_new_key_are_recorded(
    tmp_path: Path, run: Run, live: dict[str, str], remote: Path
) -> None:
    """They take the place of the old ones, count nobody anew, and a new machine goes on from them."""
    first = clone(remote, tmp_path / "first")
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 0
    run("forget", CY, "--auto-approve", cwd=first, env=live)
    run("optouts", "add", BOB, cwd=first, env=live)
    assert run("ci", "record", cwd=first, env=live).returncode == 0
    new = live | {"RUNNER_STATE_KEY": STATE_KEY}
    old_key = {"RUNNER_OLD_STATE_KEY": live["RUNNER_STATE_KEY"]}
    assert run("key", "rotate", "--auto-approve", cwd=first, env=new | old_key).returncode == 0
    done = run("ci", "record", cwd=first, env=new | old_key)
    assert done.returncode == 0, done.stderr
    message = git(remote, "log", "-1", "--format=%B", "main")
    assert message.startswith("Bring the record of pulse on live up to date\n\nCampaigns-Commit: ")
    counts = plan(run, clone(remote, tmp_path / "second"), new)["pulse"]
    assert (counts["opted_out"], counts["already_sent"], counts["to_send"]) == (1, 2, 0)


@pytest.mark.slow
def test_an_opt_out_under_the_old_key_is_not_taken_for_one_that_was_moved(
    tmp_path: Path, run: Run, live: dict[str, str], remote: Path
) -> None:
    """A machine that still has the old key moves nothing back, and is told what to do."""
    first = clone(remote, tmp_path / "first")
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 0
    assert run("ci", "record", cwd=first, env=live).returncode == 0
    second = clone(remote, tmp_path / "second")
    new = live | {"RUNNER_STATE_KEY": STATE_KEY}
    move = new | {"RUNNER_OLD_STATE_KEY": live["RUNNER_STATE_KEY"]}
    assert run("key", "rotate", "--auto-approve", cwd=second, env=move).returncode == 0
    run("forget", CY, "--auto-approve", cwd=second, env=new)
    assert run("ci", "record", cwd=second, env=move).returncode == 0
    moved = git(remote, "show", f"main:{FILE}")
    run("optouts", "add", BOB, cwd=first, env=live)
    done = run("ci", "record", cwd=first, env=live)
    assert done.returncode == 3
    assert done.stderr.endswith(
        f"{first / FILE} is there under two keys, and one version may have people that the other lacks\n"
        "  was it moved by `runner key rotate`? Then set RUNNER_STATE_KEY to the new key, and RUNNER_OLD_STATE_KEY to "
        "the old one. If a machine with the old key has written it since, enter its opt-outs again with `runner "
        "optouts add`, and keep the version that was moved\n"
    )
    assert git(remote, "show", f"main:{FILE}") == moved


@pytest.mark.slow
def test_edited_lines_are_not_recorded(tmp_path: Path, run: Run, live: dict[str, str], remote: Path) -> None:
    """A line that does not fit its seal replaces none that does; it is named, and what is right is recorded."""
    first = clone(remote, tmp_path / "first")
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 0
    run("pause", "pulse", cwd=first, env=live)
    assert run("ci", "record", cwd=first, env=live).returncode == 0
    paused = git(remote, "show", f"main:{FILE}")
    for name, old, new in (
        (FILE, '"state":"paused"', '"state":"resumed"'),
        ("campaigns/pulse.live.lock.json", '"message":"ask"', '"message":"why"'),
    ):
        file = first / name
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")
        done = run("ci", "record", cwd=first, env=live)
        assert done.returncode == 3
        assert "does not fit its seal" in done.stderr
        file.write_text(text, encoding="utf-8")
    assert git(remote, "show", f"main:{FILE}") == paused
    assert run("ci", "record", cwd=first, env=live).stdout.startswith("Nothing to record")


def test_a_damaged_file_keeps_no_lockfile_from_being_recorded(
    tmp_path: Path, run: Run, live: dict[str, str], remote: Path
) -> None:
    """It is left out and named; what was sent is on the branch all the same."""
    first = clone(remote, tmp_path / "first")
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 0
    (first / FILE).write_text("{", encoding="utf-8")
    done = run("ci", "record", cwd=first)
    assert done.returncode == 3
    assert "Left out: campaigns/live.suppressions.json is not JSON" in done.stderr.replace(f"{first}/", "")
    assert "campaigns/pulse.live.lock.json" in git(remote, "ls-tree", "-r", "--name-only", "main")


@pytest.mark.slow
def test_held_people_are_held_elsewhere(tmp_path: Path, run: Run, live: dict[str, str]) -> None:
    """A launch that no record explains holds its people on a new machine, too, before it has asked anybody."""
    first = write(tmp_path / "first", "pulse")
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 0
    (first / "campaigns/pulse.live.lock.json").unlink()
    shutil.rmtree(first / ".runner")
    campaign = first / "campaigns/pulse.yaml"
    campaign.write_text(
        campaign.read_text(encoding="utf-8").replace("How was it?", "How is it?"), encoding="utf-8"
    )
    assert run("apply", "--auto-approve", cwd=first, env=live).returncode == 4
    (entry,) = read_entries(first)
    assert (entry["kind"], entry["campaign"], entry["message"], len(entry["fingerprints"])) == (
        "hold", "pulse", "ask", 3,
    )  # fmt: skip
    second = replace_machine(first, "second")
    counts = plan(run, second, live)["pulse"]
    assert (counts["unresolved"], counts["to_send"]) == (3, 0)
    assert not (second / ".runner").exists()
    assert run("apply", "--auto-approve", cwd=second, env=live).returncode == 4
    assert (second / FILE).read_bytes() == (first / FILE).read_bytes()
    third = replace_machine(first, "third")
    held = (third / FILE).read_bytes()
    assert run("resolve", "--adopt-all", "--auto-approve", cwd=third, env=live).returncode == 0
    assert read_entries(third) == []
    (third / FILE).write_bytes(held)
    assert plan(run, replace_machine(third, "fourth"), live)["pulse"]["already_sent"] == 3
    run("reconcile", cwd=third, env=live)
    assert read_entries(third) == []


def test_a_file_that_is_not_as_it_was_written_stops_everything(
    tmp_path: Path, run: Run, live: dict[str, str]
) -> None:
    """Forged without the key, emptied by a full disk, or without its key: nobody is let in by that."""
    first = write(tmp_path / "first", "pulse")
    run("optouts", "add", ADA, cwd=first, env=live)
    whole = (first / FILE).read_text(encoding="utf-8")
    data = json.loads(whole)
    data["entries"][0] |= {"state": "dismissed", "at": "2027-01-01T00:00:00.000000Z"}
    second = replace_machine(first, "second")
    for folder, text, env, words in (
        (
            first,
            json.dumps(data),
            live,
            (
                "Error: campaigns/live.suppressions.json:1: the entry of 2027-01-01T00:00:00.000000Z (person) was "
                "written without this RUNNER_STATE_KEY: it does not fit its seal\n  restore it with git\n"
            ),
        ),
        (
            first,
            "",
            live,
            f"Error: {FILE} is not JSON, or was edited by hand (line 1)\n  restore it with git\n",
        ),
        (
            second,
            whole,
            {name: live[name] for name in live.keys() - KEY.keys()},
            (
                f"Error: {FILE} was written with a RUNNER_STATE_KEY, and none is set\n  set RUNNER_STATE_KEY to the "
                "key it was written with; with another one nobody would have opted out\n"
            ),
        ),
    ):
        (folder / FILE).write_text(text, encoding="utf-8")
        for command in (("plan",), ("apply", "--auto-approve"), ("optouts", "list")):
            done = run(*command, cwd=folder, env=env)
            assert (done.returncode, done.stdout, done.stderr) == (1, "", words)


@pytest.mark.slow
def test_ledger_and_file_bring_each_other_up_to_date(tmp_path: Path, run: Run, live: dict[str, str]) -> None:
    """An older file undoes nothing, a command killed before it wrote is made up for, and a lost ledger is too."""
    first = write(tmp_path / "first", "pulse")
    run("optouts", "add", ADA, cwd=first, env=live)
    old = (first / FILE).read_bytes()
    run("optouts", "remove", ADA, "--auto-approve", cwd=first, env=live)
    run("optouts", "add", BOB, cwd=first, env=live)
    new = (first / FILE).read_bytes()
    # As git restores it, and as a command leaves it that is killed between ledger and file.
    (first / FILE).write_bytes(old)
    assert plan(run, first, live)["pulse"]["opted_out"] == 1
    run("reconcile", cwd=first, env=live)
    assert (first / FILE).read_bytes() == new
    (first / FILE).write_bytes(old)
    assert run("apply", "--auto-approve", "--limit", "1", cwd=first, env=live).returncode == 0
    assert (first / FILE).read_bytes() == new
    # Later decisions go on from those in the file.
    shutil.rmtree(first / ".runner")
    run("optouts", "add", CY, cwd=first, env=live)
    assert [entry["state"] for entry in read_entries(first)].count("confirmed") == 2
    assert plan(run, first, live)["pulse"]["opted_out"] == 2


def test_a_file_of_suppressions_is_no_campaign_and_no_lockfile(
    tmp_path: Path, run: Run, live: dict[str, str]
) -> None:
    """Not among the paths, nor laid out by an editor; another folder's campaigns have a file of their own."""
    first = write(tmp_path / "first", "pulse")
    other = write(first / "shop", "coffee")
    run("optouts", "add", ADA, cwd=first, env=live)
    run("optouts", "add", BOB, cwd=other, env=live)
    assert (other / FILE).is_file()
    for folder, paths, opted_out in (
        (first, ("campaigns/pulse.yaml", FILE), 1),
        (first, ("shop/campaigns/coffee.yaml",), 2),
        (other, (), 1),
    ):
        done = run("plan", *paths, "--format", "json", cwd=folder, env=live)
        (campaign,) = json.loads(done.stdout)["campaigns"]
        assert campaign["messages"][0]["opted_out"] == opted_out
    run("pause", "pulse", cwd=first, env=live)
    data = json.loads((first / FILE).read_text(encoding="utf-8"))
    (first / FILE).write_text(json.dumps(data, indent=2), encoding="utf-8")
    done = run("plan", "campaigns", cwd=first, env=live)
    assert done.returncode == 7
