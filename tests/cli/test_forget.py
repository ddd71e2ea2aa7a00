"""`runner forget`: a person's data goes, and they are never texted again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from runner.ledger.database import Ledger
from runner.ledger.locks.campaign_lock import LockHolder, hold_campaign_lock
from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

ADA, BOB, EVE = "+14155550101", "+14155550102", "+14155550105"
LOCKFILE = "campaigns/pulse.sandbox.lock.json"
ALWAYS_UNREACHED = [
    (
        "lockfiles in git's history, branches and clones hold their fingerprints: commit the ones that are "
        "written anew; ledgers of other machines keep what they have: run `runner forget` there, too"
    ),
    (
        "the service keeps its own records: ask its operator; reports, exports, audience files and backups "
        "are yours to write anew"
    ),
]


def send_and_answer(folder: Path, run: Run) -> None:
    """Send the campaign, and have Ada answer."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    with closing(open_store(folder / ".runner/sandbox/service.sqlite")) as store:
        for text in ("10", "My secret reason"):
            Service(store).receive(ADA, text, datetime.now(UTC))
    assert run("reconcile", cwd=folder).returncode == 0


def add_other_campaign(folder: Path) -> None:
    """Write a campaign `other` beside the folder of campaigns."""
    text = (folder / "campaigns/pulse.yaml").read_text(encoding="utf-8").replace("name: pulse", "name: other")
    (folder / "other.yaml").write_text(
        text.replace("csv: audience", "csv: campaigns/audience"), encoding="utf-8"
    )


def read_ledger(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in (folder / ".runner").glob("ledger.sqlite*"))


def count_launches(folder: Path, phone: str) -> int:
    """Return how often the service was asked to text a phone."""
    with closing(sqlite3.connect(folder / ".runner/sandbox/service.sqlite")) as connection:
        query = (
            "SELECT count(*) FROM session JOIN participant ON participant.id = participant_id WHERE phone = ?"
        )
        return int(connection.execute(query, [phone]).fetchone()[0])


def list_recipients(folder: Path) -> list[int]:
    """Return the number of recipients of each launch in the lockfile, in order."""
    launches = json.loads((folder / LOCKFILE).read_text(encoding="utf-8"))["launches"]
    return sorted(len(launch["recipients"]) for launch in launches)


@pytest.mark.slow
def test_a_person_is_forgotten_everywhere(folder: Path, run: Run, check_json: CheckJson) -> None:
    """Ledger and lockfile lose them, the text that was theirs alone too; what is left is said."""
    send_and_answer(folder, run)
    assert b"My secret reason" in read_ledger(folder)
    done = run("forget", "+1 (415) 555-0101", "--auto-approve", "--format", "json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    document = check_json(done.stdout, "forget")
    assert document["phone"] == "+14•••••••01"
    assert document["targets"] == ["sandbox"]
    assert document["lockfiles"] == [LOCKFILE]
    assert document["unreached"] == ALWAYS_UNREACHED
    assert document["campaigns"] == [
        {
            "target": "sandbox", "campaign": "pulse", "deliveries": 1, "results": 2, "unresolved": 0,
        }
    ]  # fmt: skip
    content = read_ledger(folder)
    assert b"My secret reason" not in content
    assert b"Hi Ada" not in content
    assert list_recipients(folder) == [0, 1, 1, 1]


@pytest.mark.slow
def test_the_lockfile_of_before_brings_nobody_back(folder: Path, run: Run) -> None:
    """With the old lockfile checked out again, the next reconcile writes it without the person."""
    send_and_answer(folder, run)
    before = (folder / LOCKFILE).read_bytes()
    run("forget", ADA, "--auto-approve", cwd=folder)
    after = (folder / LOCKFILE).read_bytes()
    (folder / LOCKFILE).write_bytes(before)
    assert run("reconcile", cwd=folder).returncode == 0
    assert (folder / LOCKFILE).read_bytes() == after


@pytest.mark.slow
def test_a_lost_ledger_brings_nobody_back(folder: Path, run: Run) -> None:
    """With the files alone the campaign goes on leaving them alone, and keeps nothing that they answered."""
    send_and_answer(folder, run)
    run("forget", ADA, "--auto-approve", cwd=folder)
    after = (folder / LOCKFILE).read_bytes()
    for file in (folder / ".runner").glob("ledger.sqlite*"):
        file.unlink()
    before = count_launches(folder, ADA)
    for command in (("apply", "--auto-approve"), ("reconcile",)):
        done = run(*command, cwd=folder)
        assert (done.returncode, done.stderr.count("Error")) == (0, 0)
        assert (folder / LOCKFILE).read_bytes() == after
    assert count_launches(folder, ADA) == before
    assert b"My secret reason" not in read_ledger(folder)
    assert run("optouts", "remove", ADA, "--auto-approve", cwd=folder).stdout.startswith(
        "1 entry dismissed. "
    )
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    assert count_launches(folder, ADA) > before


def write_targets(folder: Path, **services: dict[str, str]) -> dict[str, str]:
    """Describe services, each with a key and credentials of its own; return the environment for these."""
    lines: list[str] = []
    environment: dict[str, str] = {}
    for name, service in services.items():
        own = name.upper()
        lines.append(
            f'  {name}: {{base_url: "{service["RUNNER_BASE_URL"]}", state_key_env: KEY_{own}, '
            f"username_env: RUNNER_{own}_USERNAME, api_key_env: RUNNER_{own}_API_KEY}}\n"
        )
        environment |= {
            f"RUNNER_{own}_USERNAME": service["RUNNER_USERNAME"],
            f"RUNNER_{own}_API_KEY": service["RUNNER_API_KEY"],
            f"KEY_{own}": f"{name}: {STATE_KEY}",
        }
    text = "version: 1\ntargets:\n" + "".join(lines)
    (folder / "campaigns/targets.yaml").write_text(text, encoding="utf-8")
    return environment


@pytest.mark.slow
@pytest.mark.parametrize("text", ["a word", "another word"])
def test_adoption_leaves_the_forgotten_out(folder: Path, run: Run, text: str) -> None:
    """With ledger and lockfile lost, launches are adopted, or hold people, without whoever was forgotten."""
    campaign = folder / "campaigns/pulse.yaml"
    key = {"RUNNER_STATE_KEY": STATE_KEY, "RUNNER_SETTLE_WINDOW": "100ms"}
    assert run("apply", "--auto-approve", cwd=folder, env=key).returncode == 0
    before = (folder / LOCKFILE).read_text(encoding="utf-8")
    assert run("forget", ADA, "--auto-approve", cwd=folder, env=key).returncode == 0
    after = (folder / LOCKFILE).read_text(encoding="utf-8")
    (gone,) = {
        name
        for launch in json.loads(before)["launches"]
        for name in launch["recipients"]
        if f'"{name}"' not in json.dumps(json.loads(after)["launches"])
    }
    (folder / LOCKFILE).unlink()
    for file in (folder / ".runner").glob("ledger.sqlite*"):
        file.unlink()
    campaign.write_text(campaign.read_text(encoding="utf-8").replace("a word", text), encoding="utf-8")
    done = run("apply", "--auto-approve", cwd=folder, env=key)
    assert done.returncode == (0 if text == "a word" else 4), done.stderr
    assert [count_launches(folder, phone) for phone in (ADA, BOB)] == [1, 1]
    if (folder / LOCKFILE).exists():
        assert gone not in (folder / LOCKFILE).read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_target_has_its_own_key(folder: Path, run: Run, serve: Any, check_json: CheckJson) -> None:
    """No target is locked out by another's key; one whose key is not set is named, and the others go on."""
    with (
        serve(folder, "--db", str(folder / "one.sqlite")) as one,
        serve(folder, "--db", str(folder / "two.sqlite")) as two,
    ):
        env = {**write_targets(folder, one=one, two=two), "RUNNER_SETTLE_WINDOW": "100ms"}
        for target in ("one", "two"):
            assert run("apply", "--auto-approve", "--target", target, cwd=folder, env=env).returncode == 0
        forget = ("forget", ADA, "--auto-approve", "--target", "one", "--format", "json")
        done = run(*forget, cwd=folder, env={**env, "KEY_TWO": ""})
        document = check_json(done.stdout, "forget")
        assert document["targets"] == ["one"]
        assert (
            "the target two, where nothing was changed: set KEY_TWO to the key of its records, and forget them again "
            "with --target two"
        ) in document["unreached"]
        document = check_json(run(*forget, cwd=folder, env=env).stdout, "forget")
        assert document["targets"] == ["one", "two"]
        for target in ("one", "two"):
            for command in (("optouts", "add", BOB), ("reconcile",), ("apply", "--auto-approve")):
                done = run(*command, "--target", target, cwd=folder, env=env)
                assert (done.returncode, done.stderr.count("Error")) == (0, 0)


@pytest.mark.slow
def test_a_running_apply_is_not_disturbed(folder: Path, run: Run, run_process: Run) -> None:
    """As long as another run holds a campaign's lock, be it named or not, nothing is removed."""
    send_and_answer(folder, run)
    add_other_campaign(folder)
    holder = LockHolder("ci.example", 42, None, "2026-11-20T12:00:00.000000Z")
    with (
        Ledger(f"sqlite:///{folder / '.runner/ledger.sqlite'}") as ledger,
        hold_campaign_lock(ledger, "sandbox", ["pulse"], holder),
    ):
        for path in ("campaigns", "other.yaml"):
            done = run_process("forget", ADA, path, "--auto-approve", cwd=folder)
            assert done.returncode == 6
            assert done.stderr == (
                "+14•••••••01 is on record as opted out, and gets no more texts. Their data stays until the run that "
                "is under way has ended, and this command can remove it.\n"
                "Error: pulse on sandbox is being sent by another run: process 42 on ci.example "
                "since 2026-11-20 12:00 UTC\n"
                "  wait until that run has ended, or have this one wait with --lock-timeout\n"
            )
    assert list_recipients(folder) == [1, 1, 1, 1]


def test_without_campaigns_the_ledger_is_enough(tmp_path: Path, run: Run, check_json: CheckJson) -> None:
    """Somebody who was never texted can ask to be left alone for good."""
    (tmp_path / "campaigns").mkdir()
    done = run("forget", EVE, "--auto-approve", "--format", "json", cwd=tmp_path)
    document = check_json(done.stdout, "forget")
    assert (document["campaigns"], document["targets"]) == ([], ["sandbox"])
    with closing(sqlite3.connect(tmp_path / ".runner/ledger.sqlite")) as connection:
        assert connection.execute("SELECT source, state FROM opt_outs").fetchall() == [
            ("forgotten", "confirmed")
        ]
