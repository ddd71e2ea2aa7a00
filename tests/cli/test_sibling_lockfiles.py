"""A frequency cap on a machine without the ledger: what the lockfiles of other campaigns tell of counts."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from runner.ledger.lockfile.integrity import LineMacs
from runner.ledger.lockfile.writer import LockfileContents, write_lockfile

from runner.cli.main import run as run_command
from runner.ledger.fingerprint import FingerprintKey, launch_key
from runner.ledger.model import LaunchRecord, format_moment
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[str, str]]

ADA, BOB = "+14155550101", "+14155550102"
SALT = "0123456789abcdef" * 2
HOUR = timedelta(hours=1)
KEY = FingerprintKey.from_salt(SALT)
SECRET = FingerprintKey.from_secret(STATE_KEY)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in a new repository; return what it writes to standard output and error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "campaigns").mkdir()

    def run_here(*arguments: str, code: int = 0) -> tuple[str, str]:
        done = run_command(arguments)
        written = capsys.readouterr()
        assert done == code, written.err
        return written.out, written.err

    return run_here


def write_campaign(
    name: str, *phones: str, folder: str = "campaigns", more: str = "", messages: int = 1
) -> str:
    """Write a campaign with a cap in two hours, of one message unless told; return its path."""
    file = Path(folder) / f"{name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    recipients = "".join(f'  - phone: "{phone}"\n' for phone in phones)
    rule = f"policy: {{frequency_cap: {{messages: {messages}, within: 2h}}}}"
    file.write_text(
        f"version: 1\nname: {name}\n{more}recipients:\n{recipients}messages:\n  - {{id: ask, text: Hi}}\n{rule}\n",
        encoding="utf-8",
    )
    return str(file)


def write_sent(
    name: str,
    *phones: str,
    ago: timedelta = HOUR,
    key: FingerprintKey = KEY,
    folder: str = "campaigns",
    guid: str = "guid",
    target: str = "sandbox",
) -> Path:
    """Write the lockfile of a campaign that was sent a while ago."""
    people = tuple(sorted(key.fingerprint(name, phone) for phone in phones))
    launch = LaunchRecord(
        "ask",
        launch_key(name, "ask", "0" * 32, people),
        "ask",
        "0" * 32,
        people,
        guid,
        format_moment(datetime.now(UTC) - ago),
    )
    file = Path(folder) / f"{name}.sandbox.lock.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    macs = LineMacs(STATE_KEY, target, name) if key is SECRET else None
    write_lockfile(file, LockfileContents(name, target, key, [launch], macs=macs))
    return file


def count_planned(run: Run, *paths: str) -> tuple[int, int]:
    """Return how many are sent to by the last campaign of a plan, and how many are capped."""
    document = json.loads(run("plan", "--format", "json", *paths)[0])
    message = document["campaigns"][-1]["messages"][0]
    return message["to_send"], message["capped"]


def test_a_campaign_that_is_sent_alone_counts_the_others(run: Run) -> None:
    """With the ledger lost, whoever got one campaign is not texted by another that is applied by its path."""
    first, second = write_campaign("a", ADA), write_campaign("b", ADA, BOB)
    run("apply", "--auto-approve", first)
    for file in Path(".runner").glob("ledger*"):
        file.unlink()
    assert count_planned(run, second) == (1, 1)
    out, _ = run("apply", "--auto-approve", "--quiet", second)
    assert out == "b: 1 recipient texted in 1 launch.\n"
    with closing(sqlite3.connect(".runner/sandbox/service.sqlite")) as service:
        assert service.execute("SELECT count(*) FROM session").fetchone() == (2,)


def test_what_the_ledger_tells_of_counts_once(run: Run) -> None:
    """Whoever got one message may get a second one, though ledger and lockfile both tell of the first."""
    run("apply", "--auto-approve", write_campaign("a", ADA))
    assert count_planned(run, write_campaign("b", ADA, messages=2)) == (1, 0)
    assert count_planned(run, write_campaign("c", ADA)) == (0, 1)


@pytest.mark.parametrize(("ago", "planned"), [(HOUR, (1, 1)), (3 * HOUR, (2, 0))])
def test_it_counts_for_the_time_of_the_cap(run: Run, ago: timedelta, planned: tuple[int, int]) -> None:
    """What was sent before that does not; that the campaign's file is gone makes no difference."""
    write_sent("gone", ADA, ago=ago)
    assert count_planned(run, write_campaign("b", ADA, BOB)) == planned


@pytest.mark.parametrize(
    ("there", "here", "planned"),
    [
        ("campaigns/eu", "campaigns", (0, 1)),
        ("campaigns", "campaigns/eu", (0, 1)),
        ("elsewhere", "elsewhere", (0, 1)),
        ("campaigns", "elsewhere", (0, 1)),
        ("elsewhere", "campaigns", (1, 0)),
        ("campaigns/.old", "campaigns", (1, 0)),
        ("elsewhere/deep", "elsewhere", (1, 0)),
    ],
)
def test_lockfiles_count_where_campaigns_are_looked_for(
    run: Run, there: str, here: str, planned: tuple[int, int]
) -> None:
    """They are looked for beside the campaign and below `campaigns`, hidden folders left out."""
    write_sent("a", ADA, folder=there)
    assert count_planned(run, write_campaign("b", ADA, folder=here)) == planned


@pytest.mark.slow
def test_a_launch_counts_once(run: Run) -> None:
    """Copies of a lockfile, and those that a renamed campaign has left behind, tell of the same launches."""
    write_sent("old", ADA)
    write_sent("old", ADA, folder="campaigns/copy")
    for more in ("", "renamed_from: [old]\n"):
        file = write_campaign("b", ADA, BOB, more=more, messages=2)
        # Under its old name Ada has had the message; else there is room for a second one.
        assert count_planned(run, file) == ((1, 0) if more else (2, 0))


def test_another_target_does_not_count(run: Run) -> None:
    """A cap is the target's: what was sent on another one is left alone, readable or not."""
    Path("campaigns/a.live.lock.json").write_text("{", encoding="utf-8")
    assert count_planned(run, write_campaign("b", ADA)) == (1, 0)


def test_without_a_cap_no_other_lockfile_is_read(run: Run) -> None:
    """A campaign that promises nothing is not stopped by what another one cannot tell, while that has its file."""
    write_campaign("a", ADA)
    Path("campaigns/a.sandbox.lock.json").write_text("{", encoding="utf-8")
    file = Path(write_campaign("b", ADA))
    file.write_text(file.read_text(encoding="utf-8").partition("policy")[0], encoding="utf-8")
    assert count_planned(run, str(file)) == (1, 0)


def refuse(run: Run, message: str, hint: str) -> None:
    """See that a campaign with a cap is neither planned nor sent."""
    campaign = write_campaign("b", ADA)
    for command in (("plan", campaign), ("apply", "--auto-approve", campaign)):
        assert (
            run(*command, code=1)[1] == f"Error: the frequency cap cannot be counted: {message}\n  {hint}\n"
        )


def test_a_lockfile_that_cannot_be_read_stops(run: Run) -> None:
    """Who may have been texted lately is not texted: it is said which file cannot be counted."""
    Path("campaigns/a.sandbox.lock.json").write_text("{", encoding="utf-8")
    refuse(
        run,
        "the lockfile campaigns/a.sandbox.lock.json is not JSON (line 1, column 2)",
        "restore it with git; nothing is sent as long as it is unclear who was texted",
    )


def test_a_lockfile_under_the_name_of_another_target_stops(run: Run) -> None:
    """Of a file that was copied nobody can tell whether it counts."""
    write_sent("a", ADA, target="live")
    refuse(
        run,
        "the lockfile campaigns/a.sandbox.lock.json is of the target 'live', not 'sandbox'",
        "targets' names are for good: put it back",
    )


def test_a_lockfile_whose_key_is_missing_stops(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as it tells of the time of the cap; with the key it is counted."""
    write_sent("a", ADA, key=SECRET)
    refuse(
        run,
        "the lockfile campaigns/a.sandbox.lock.json was written with another RUNNER_STATE_KEY, or with one "
        "that is not set",
        "set RUNNER_STATE_KEY to the key it was written with",
    )
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    assert count_planned(run, "campaigns/b.yaml") == (0, 1)
    write_sent("a", ADA, key=SECRET, ago=3 * HOUR)
    # Without its file, the campaign could be the other one under a new name.
    write_campaign("a", ADA)
    monkeypatch.delenv("RUNNER_STATE_KEY")
    assert count_planned(run, "campaigns/b.yaml") == (1, 0)


def test_a_damaged_salt_stops(run: Run) -> None:
    """A salt that does not make the key would make everybody look new."""
    file = write_sent("a", ADA)
    file.write_text(file.read_text(encoding="utf-8").replace(SALT, "f" * 32), encoding="utf-8")
    refuse(
        run,
        "the lockfile campaigns/a.sandbox.lock.json has a damaged salt",
        "restore it with git; nothing is sent as long as it is unclear who was texted",
    )


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        (
            FingerprintKey.from_secret(OTHER_STATE_KEY),
            "cannot be read: it was written with another RUNNER_STATE_KEY",
            "set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new",
        ),
        (
            KEY,
            "was written with a salt, and now there is a RUNNER_STATE_KEY",
            (
                "`runner key rotate` moves the records to the key. Until then nothing is sent: anybody who can "
                "change the file could choose the salt, and so who seems to have been texted"
            ),
        ),
        (
            FingerprintKey.from_secret(STATE_KEY),
            "was written without the RUNNER_STATE_KEY: its head, the launch guid have no MAC",
            (
                "restore it with git; if it is as it should be, since an older version of runner wrote it: "
                "`runner key rotate`, with RUNNER_OLD_STATE_KEY set to the same key, shows what has no MAC, "
                "asks, and signs it"
            ),
        ),
    ],
)
def test_a_lockfile_that_the_key_has_not_signed_stops(
    run: Run, monkeypatch: pytest.MonkeyPatch, key: FingerprintKey, message: str, hint: str
) -> None:
    """Anybody could have written it, to keep people from being texted."""
    write_sent("a", ADA, key=key)
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    refuse(run, f"the lockfile campaigns/a.sandbox.lock.json {message}", hint)
