"""Campaigns with encrypted audiences, with and without their key."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyrage import encrypt, x25519

from runner.git.command import Git
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.forge.github_server import GitHub

    Run = Callable[..., CompletedProcess[str]]

KEY = x25519.Identity.generate()
WITH_KEY = {"RUNNER_AGE_IDENTITY": str(KEY)}
SEALED = "its audience is encrypted, and RUNNER_AGE_IDENTITY is not set; rows in it: 2"
CAMPAIGN = """\
version: 1
name: sealed
recipients:
  - {csv: audience/sealed.csv.age, rows: 2}
messages:
  - {id: ask, text: "Hi {{ first_name }}."}
export_columns: [city]
"""


@pytest.fixture
def mixed(folder: Path) -> Path:
    """A folder with a plain campaign, and an encrypted one of two people."""
    rows = b"phone,first_name,city\n+14155550111,Ada,Oakland\n+14155550112,Bob,Berkeley\n"
    content = encrypt(rows, [KEY.to_public()])
    (folder / "campaigns/audience/sealed.csv.age").write_bytes(content)
    (folder / "campaigns/sealed.yaml").write_text(CAMPAIGN, encoding="utf-8")
    return folder


def test_tests_need_the_key_for_lists_to_exclude_alone(run: Run, mixed: Path) -> None:
    """A campaign test has its own person, so that only a list to exclude has to be read; without, that is said."""
    (mixed / "campaigns/audience/never.csv.age").write_bytes(
        encrypt(b"phone\n+14155550112\n", [KEY.to_public()])
    )
    campaign = CAMPAIGN.replace("messages:", "exclude: [{csv: audience/never.csv.age, rows: 1}]\nmessages:")
    (mixed / "campaigns/sealed.yaml").write_text(campaign, encoding="utf-8")
    (mixed / "campaigns/tests").mkdir(exist_ok=True)
    (mixed / "campaigns/tests/sealed.yaml").write_text(
        "campaign: sealed\ntests:\n"
        '  - {name: t1, person: {phone: "+14155550111", first_name: Ada}, expect: {message: ask, says: Ada}}\n'
        '  - {name: t2, person: {phone: "+14155550112", first_name: Bob}, expect: {none: excluded}}\n',
        encoding="utf-8",
    )
    assert run("test", cwd=mixed, env=WITH_KEY).returncode == 0
    done = run("test", cwd=mixed)
    assert done.returncode == 1
    assert "t2: expected no `ask`: excluded; this is not known here" in done.stdout
    assert "1 campaign test passed, 1 failed." in done.stdout


def test_without_the_key_the_others_go_on(run: Run, mixed: Path, check_json: Callable[..., Any]) -> None:
    """The campaign is left out of plan and apply with what is known of it, and sent once the key is there."""
    done = run("plan", "--format", "json", cwd=mixed)
    document = check_json(done.stdout, "plan")
    assert done.returncode == 3
    assert [one["name"] for one in document["campaigns"]] == ["pulse"]
    (left,) = document["failures"]
    assert (left["campaign"], left["exit_code"], left["message"]) == ("sealed", 1, f"sealed: {SEALED}")
    sent = run("apply", "--auto-approve", "--format", "json", cwd=mixed)
    assert sent.returncode == 3
    assert [one["name"] for one in json.loads(sent.stdout)["campaigns"]] == ["pulse"]
    sent = run("apply", "--auto-approve", "--format", "json", cwd=mixed, env=WITH_KEY)
    assert sent.returncode == 0
    counts = {one["name"]: one["recipients_sent"] for one in json.loads(sent.stdout)["campaigns"]}
    assert counts["sealed"] == 2


@pytest.mark.slow
def test_the_only_campaign_is_refused(run: Run, mixed: Path) -> None:
    """Alone, it ends the command with its error, and reports are still made."""
    (mixed / "campaigns/pulse.yaml").unlink()
    for command in (("plan",), ("apply", "--auto-approve"), ("preview", "campaigns/sealed.yaml")):
        done = run(*command, cwd=mixed)
        assert done.returncode == 1
        assert "is encrypted, and RUNNER_AGE_IDENTITY is not set; rows in it: 2" in done.stderr
    assert run("apply", "--auto-approve", cwd=mixed, env=WITH_KEY).returncode == 0
    assert "not set; rows in it: 2" in run("status", cwd=mixed).stderr
    assert run("reconcile", cwd=mixed).returncode == 0
    assert run("report", "--format", "md", cwd=mixed).returncode == 0


def test_a_damaged_file_sends_nothing(run: Run, mixed: Path) -> None:
    """No row of a file that was cut is used, also of those before its end."""
    file = mixed / "campaigns/audience/sealed.csv.age"
    rows = "phone,first_name,city\n" + "".join(f"+1415{n},Ada,\n" for n in range(2_000_000, 2_006_000))
    file.write_bytes(encrypt(rows.encode(), [KEY.to_public()])[:-1_000])
    (mixed / "campaigns/pulse.yaml").unlink()
    done = run("apply", "--auto-approve", cwd=mixed, env=WITH_KEY)
    assert done.returncode == 1
    assert done.stderr.count("[audience-damaged]") == 1
    assert not list((mixed / "campaigns").glob("*.lock.json"))


@pytest.mark.parametrize("has_record", [False, True])
@pytest.mark.parametrize("is_alone", [False, True])
def test_a_fork_gets_its_comment(
    run: Run, mixed: Path, github: GitHub, *, is_alone: bool, has_record: bool
) -> None:
    """Without any key the job succeeds, and says how many rows there are and what would be sent."""
    if is_alone:
        (mixed / "campaigns/pulse.yaml").unlink()
    if has_record:
        key = {"RUNNER_STATE_KEY": STATE_KEY}
        assert run("apply", "--auto-approve", cwd=mixed, env={**WITH_KEY, **key}).returncode == 0
        shutil.rmtree(mixed / ".runner")
    done = run("ci", "comment", cwd=mixed, env=github.job(mixed))
    assert done.returncode == 0, done.stderr
    (body,) = github.bodies()
    assert "1 campaign whose people are not known here" in body
    assert SEALED.replace("_", "\\_") in body
    assert "Hi ‹first_name›." in body
    assert not is_alone or ("0 people to text" not in body and "0 texts to send" not in body)


def test_phones_in_git_are_found(run: Run, mixed: Path) -> None:
    """They are named by place, with two digits; the audience itself and what git ignores may have them."""
    (mixed / "campaigns/notes.md").write_text("Ask Ada: 415 201 0711\n", encoding="utf-8")
    (mixed / ".gitignore").write_text("*.secret.csv\n", encoding="utf-8")
    (mixed / "campaigns/kept.secret.csv").write_text("+14152010712\n", encoding="utf-8")
    Git(mixed).ask("init", "-q")
    Git(mixed).ask("add", ".")
    done = run("validate", "--phones", cwd=mixed, env=WITH_KEY)
    assert (
        "campaigns/notes.md:1:10: error: there is a phone number in this line: it ends in 11" in done.stdout
    )
    assert "0711" not in done.stdout
    assert done.returncode == 1
    (mixed / "campaigns/notes.md").write_text("Ask Ada\n", encoding="utf-8")
    assert run("validate", "--phones", cwd=mixed, env=WITH_KEY).returncode == 0


def test_a_file_encrypted_by_its_name_alone_is_searched(run: Run, mixed: Path) -> None:
    """Whether a file is encrypted its first bytes say, also without the key."""
    (mixed / "campaigns/old.csv.age").write_text("phone\n+14152010711\n", encoding="utf-8")
    (mixed / "campaigns/old.csv").write_bytes(encrypt(b"phone\n+14152010711\n", [KEY.to_public()]))
    done = run("validate", "--phones", cwd=mixed)
    assert done.stdout.count("[phone-committed]") == 1
    assert "campaigns/old.csv.age:2:1: error" in done.stdout


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (b"phone,tz,optin\n+14155550111,ada@example.org,Max Mustermann\n", "the time zone '…' is refused"),
        (b"phone,tz,optin\n+14155550111,,Max Mustermann\n", "unknown, so no consent: … (1)"),
        (b"phone,tz,optin\nAda Mustermann,,yes\n", "the phone '…' is refused"),
        (b"phone,tz,optin\n+14155550111,,Ren\xe9 Mustermann\n", "its text is '…' in windows-1252"),
        (b"Ada Mustermann,tel. 0171 2345678\n", "the first row looks like a person"),
    ],
)
def test_no_cell_is_shown(run: Run, mixed: Path, rows: bytes, said: str) -> None:
    """What is wrong in an encrypted file is told of without the cell, since logs are not encrypted."""
    (mixed / "campaigns/audience/sealed.csv.age").write_bytes(encrypt(rows, [KEY.to_public()]))
    columns = "rows: 1, timezone_column: tz, consent: {source_column: optin}"
    campaign = CAMPAIGN.replace("rows: 2", columns).replace("Hi {{ first_name }}.", "Hi.")
    (mixed / "campaigns/sealed.yaml").write_text(
        campaign.replace("export_columns: [city]", "policy: {consent: required}"), encoding="utf-8"
    )
    done = run("validate", cwd=mixed, env=WITH_KEY)
    shown = done.stdout + done.stderr
    assert said in shown
    assert not any(cell in shown for cell in ("ada@", "Ada", "Mustermann", "234"))
