"""`runner optouts`: people who are not to be texted, from the command line."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.service import Service
from runner.sandbox.store import open_store
from tests.cli.test_terminal import run_at_terminal
from tests.keys import OTHER_STATE_KEY, STATE_KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

ADA, BOB, CY = "+14155550101", "+14155550102", "+14155550103"
NOBODY = "sandbox: 0 people have opted out; 0 doubtful replies wait for a decision.\n"
NO_TERMINAL = (
    "Error: there is no terminal to ask, and nothing was changed\n"
    "  continue without asking with --auto-approve\n"
)


def say(folder: Path, phone: str, *texts: str) -> None:
    """Have a participant text the sandbox."""
    with closing(open_store(folder / ".runner/sandbox/service.sqlite")) as store:
        for text in texts:
            Service(store).receive(phone, text, datetime.now(UTC))


@pytest.fixture
def project(tmp_path: Path) -> None:
    """A project that has no campaigns yet."""
    (tmp_path / "campaigns").mkdir()


@pytest.mark.usefixtures("project")
def test_people_are_added_and_let_in_again(tmp_path: Path, run: Run, check_json: CheckJson) -> None:
    """Each phone counts once; to be let in again takes an approval; no phone is shown."""
    added = run("optouts", "add", ADA, "+1 415-555-0102", ADA, cwd=tmp_path)
    assert (added.returncode, added.stderr) == (0, "")
    assert added.stdout == (
        "2 entries new. sandbox: 2 people have opted out; 0 doubtful replies wait for a decision.\n"
    )
    again = run("optouts", "add", ADA, "--format", "json", cwd=tmp_path)
    assert check_json(again.stdout, "optouts")["changed"] == 0
    refused = run("optouts", "remove", ADA, cwd=tmp_path)
    assert (refused.returncode, refused.stderr) == (64, NO_TERMINAL)
    removed = run("optouts", "remove", ADA, "--auto-approve", "--format", "json", cwd=tmp_path)
    document = check_json(removed.stdout, "optouts")
    assert (document["changed"], document["opted_out"], document["dismissed"]) == (1, 1, 1)
    for file in (tmp_path / ".runner").iterdir():
        assert b"4155550101" not in (file.read_bytes() if file.is_file() else b"")


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_letting_in_the_forgotten_is_warned_of(tmp_path: Path, run: Run) -> None:
    """Nobody knows any more what they got; on no, nothing changes."""
    run("forget", ADA, "--auto-approve", cwd=tmp_path)
    run("optouts", "add", BOB, cwd=tmp_path)
    code, shown = run_at_terminal(tmp_path, "optouts", "remove", ADA, BOB, keys="n\n")
    assert code == 1
    assert (
        "Every campaign on sandbox may text +14•••••••01, +14•••••••02 again. 1 person among them asked to be "
        "forgotten, and would get again what they got before. Let them in? [y/N]: "
    ) in shown
    assert "you answered no: nothing was changed" in shown
    assert '"opted_out": 2' in run("optouts", "list", "--format", "json", cwd=tmp_path).stdout


@pytest.mark.usefixtures("project")
def test_a_spreadsheet_is_imported(tmp_path: Path, run: Run, check_json: CheckJson) -> None:
    """A CSV is read as audiences are: any dialect, damage mended, each person once."""
    (tmp_path / "stopped.csv").write_text(
        "Name;Mobile Phone\nAda;(415) 555-0101\nBob;4155550102\nAda;+14155550101\n", encoding="utf-8"
    )
    options = ("--phone-column", "mobile_phone", "--region", "US")
    done = run("optouts", "import", "stopped.csv", *options, "--format", "json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    document = check_json(done.stdout, "optouts")
    assert (document["changed"], document["opted_out"]) == (2, 2)


@pytest.mark.slow
def test_a_campaign_adds_words_that_opt_out(folder: Path, run: Run) -> None:
    """`policy.opt_out_words` count as the whole reply and at its start, and in what was read before."""
    campaign = folder / "campaigns/pulse.yaml"
    text = campaign.read_text(encoding="utf-8")
    campaign.write_text(f"{text}policy:\n  opt_out_words: [genug]\n", encoding="utf-8")
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    for phone, reply in ((ADA, "GENUG!"), (BOB, "Schluss damit, Leute"), (CY, "nicht genug Auswahl")):
        say(folder, phone, "10", reply)
    run("reconcile", cwd=folder)
    assert '"opted_out": 1' in run("optouts", "list", "--format", "json", cwd=folder).stdout
    campaign.write_text(f"{text}policy:\n  opt_out_words: [genug, Schluss damit]\n", encoding="utf-8")
    run("reconcile", cwd=folder)
    assert '"opted_out": 2' in run("optouts", "list", "--format", "json", cwd=folder).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ('["!"]', "an opt-out word has a letter in it"),
        ("stop it", "policy.opt_out_words"),
        ("[a, a]", "policy.opt_out_words"),
    ],
)
def test_opt_out_words_that_are_none_are_refused(folder: Path, run: Run, words: str, message: str) -> None:
    """A word has a letter in it, and stands in the list once."""
    campaign = folder / "campaigns/pulse.yaml"
    with campaign.open("a", encoding="utf-8") as file:
        file.write(f"policy:\n  opt_out_words: {words}\n")
    done = run("validate", cwd=folder)
    assert done.returncode == 1
    assert message in done.stdout + done.stderr


def list_json(run: Run, folder: Path, *options: str) -> dict[str, Any]:
    """Return the document of `runner optouts list`."""
    document: dict[str, Any] = json.loads(
        run("optouts", "list", *options, "--format", "json", cwd=folder).stdout
    )
    return document


def test_outside_of_a_project_nothing_is_known_or_recorded(tmp_path: Path, run: Run) -> None:
    """In a wrong folder no campaign would heed a record: none is read or begun, unless its ledger is named."""
    for words in (
        f"optouts list|optouts add {ADA}|optouts remove {ADA} --auto-approve|forget {ADA} --auto-approve"
    ).split("|"):
        refused = run(*words.split(), cwd=tmp_path)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith(f"Error: there is no folder {tmp_path / 'campaigns'}\n")
        assert list(tmp_path.iterdir()) == []
    for words in ("list", f"add {ADA}"):
        ledger = f"sqlite:///{tmp_path / 'new.sqlite'}"
        assert run("optouts", *words.split(), "--ledger", ledger, cwd=tmp_path).returncode == 0


@pytest.mark.usefixtures("project")
def test_a_fresh_machine_knows_of_nobody(tmp_path: Path, run: Run, check_json: CheckJson) -> None:
    """Lists are empty, and nothing is created."""
    listed = run("optouts", "list", cwd=tmp_path)
    assert (listed.returncode, listed.stdout, listed.stderr) == (0, NOBODY, "")
    document = check_json(run("optouts", "list", "--format", "json", cwd=tmp_path).stdout, "optouts")
    assert (document["opted_out"], document["people"], document["replies"]) == (0, [], [])
    assert [path.name for path in tmp_path.rglob("*")] == ["campaigns"]
    # Letting in somebody who never opted out changes nothing, and leaves an empty ledger.
    for _ in range(2):
        removed = run("optouts", "remove", ADA, "--auto-approve", cwd=tmp_path)
        assert removed.stdout == f"0 entries dismissed. {NOBODY}"


@pytest.mark.usefixtures("project")
def test_people_are_listed_without_their_phones(tmp_path: Path, run: Run, check_json: CheckJson) -> None:
    """The latest first: a fingerprint, since when, and how it is known; all of many with -v."""
    run("optouts", "add", ADA, cwd=tmp_path)
    run("forget", BOB, "--auto-approve", cwd=tmp_path)
    shown = run("optouts", "list", cwd=tmp_path).stdout
    assert re.search(
        r"[0-9a-f]{20}  \d{4}-\d\d-\d\d \d\d:\d\d UTC  their data was removed\n"
        r"[0-9a-f]{20}  \S+ \S+ UTC  entered by hand\n$",
        shown,
    )
    assert "555" not in shown.replace(".", "")
    document = check_json(run("optouts", "list", "--format", "json", cwd=tmp_path).stdout, "optouts")
    assert [one["source"] for one in document["people"]] == ["forgotten", "person"]
    run("optouts", "add", *(f"+1415555{n:04}" for n in range(200, 230)), cwd=tmp_path)
    assert "\n12 earlier ones: `runner optouts list -v`.\n" in run("optouts", "list", cwd=tmp_path).stdout
    assert len(run("optouts", "list", "-v", cwd=tmp_path).stdout.splitlines()) == 4 + 32


@pytest.mark.usefixtures("project")
def test_what_is_wrong_enters_nobody(tmp_path: Path, run: Run) -> None:
    """Everything wrong on a command line or in a file is told at once, with its place and the way on."""
    rows = "phone\n" + "".join(f"+1415555{n:04}\n" for n in range(100, 200)) + "+1415\nnobody\n"
    (tmp_path / "stopped.csv").write_text(rows, encoding="utf-8")
    (tmp_path / "live.suppressions.json").touch()
    (tmp_path / "mobile.csv").write_text("name,mobile\nAda,+14155550101\n", encoding="utf-8")
    for words, code, said in (
        (
            ("add", ADA, "415555010", "Ada Lovelace"),
            64,
            (
                "Error: the phone '41•••••10' is refused: it does not start with + and a country code; "
                "the phone 'Ad• ••••••ce' is refused: it has letters in it\n"
                "  write it as in +14155550101, or name its country with --region\n"
            ),
        ),
        (
            ("import", "stopped.csv"),
            1,
            (
                "stopped.csv:102:1: error: the phone '+1415' is refused: it has too few digits "
                "[opt-out-phone-invalid]\n"
                "stopped.csv:103:1: error: the phone 'no••dy' is refused: it has letters in it "
                "[opt-out-phone-invalid]\n    write digits, also those that letters stand for\n"
                "Error: 2 errors: nothing was entered\n"
            ),
        ),
        (
            ("import", "mobile.csv"),
            1,
            (
                "mobile.csv:1:1: error: there is no column `phone` [csv-phone-column]\n"
                "    name the one that holds the phones with --phone-column; the file has: name, mobile\n"
                "Error: 1 error: nothing was entered\n"
            ),
        ),
        (
            ("import", "live.suppressions.json"),
            1,
            (
                "Error: live.suppressions.json is no list of phones\n"
                "  put it below campaigns: every command reads it\n"
            ),
        ),
        (("import", "mobile.csv", "--region", "UK"), 64, "there is no region UK: did you mean GB?\n"),
        (("import", "mobile.csv", "--region", "zz9"), 64, "use a code of ISO 3166-1, as in US, GB, DE\n"),
    ):
        done = run("optouts", *words, cwd=tmp_path)
        assert done.returncode == code
        assert done.stderr.endswith(said)
        assert run("optouts", "list", cwd=tmp_path).stdout == NOBODY
    # With a wrong key nobody would seem to have opted out: it stops.
    run("optouts", "add", ADA, cwd=tmp_path, env={"RUNNER_STATE_KEY": STATE_KEY})
    done = run("optouts", "add", ADA, cwd=tmp_path, env={"RUNNER_STATE_KEY": OTHER_STATE_KEY})
    assert (done.returncode, done.stderr) == (
        1,
        (
            "Error: the ledger's record of sandbox was written with another RUNNER_STATE_KEY\n"
            "  set RUNNER_STATE_KEY to the key it was written with; with another one everyone would look new\n"
        ),
    )


@pytest.mark.slow
def test_a_doubtful_reply_is_shown_and_decided(folder: Path, run: Run, check_json: CheckJson) -> None:
    """What it says is shown on request alone; a decision is kept when it is read again."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    say(folder, ADA, "10", "please stop texting me")
    assert run("reconcile", cwd=folder).returncode == 0
    plain = run("optouts", "list", cwd=folder).stdout
    (waiting,) = list_json(run, folder)["replies"]
    reply = waiting["reply"]
    assert plain.startswith(
        "sandbox: 0 people have opted out; 1 doubtful reply waits for a decision.\n\nDoubtful replies\nreply"
    )
    assert plain.endswith("Decide with `runner optouts confirm REPLY` or `runner optouts dismiss REPLY`.\n")
    assert re.search(rf"\n{reply}  \d{{4}}-\d\d-\d\d \d\d:\d\d UTC  one person\n", plain)
    assert "stop texting" not in plain
    shown = run("optouts", "list", "--show-replies", cwd=folder).stdout
    assert f"{reply} pulse/ask Why? please stop texting me" in " ".join(shown.split())
    (shown_reply,) = list_json(run, folder, "--show-replies")["replies"]
    assert (shown_reply["campaign"], shown_reply["text"]) == ("pulse", "please stop texting me")
    unknown = run("optouts", "confirm", reply, "another", cwd=folder)
    assert (unknown.returncode, unknown.stderr) == (
        1,
        (
            "Error: there is no such reply on sandbox: another; nothing was changed\n"
            "  `runner optouts list` names those that wait for a decision\n"
        ),
    )
    dismissed = run("optouts", "dismiss", reply, cwd=folder)
    assert dismissed.stdout == f"1 entry dismissed. {NOBODY}"
    assert run("reconcile", cwd=folder).stderr == ""
    document = check_json(run("optouts", "confirm", reply, "--format", "json", cwd=folder).stdout, "optouts")
    assert (document["changed"], document["opted_out"], document["doubtful"]) == (1, 1, 0)
    # The doubt about somebody who is on record in another way needs no decision.
    say(folder, BOB, "10", "please stop texting me")
    run("reconcile", cwd=folder)
    assert run("optouts", "add", BOB, cwd=folder).stdout == (
        "1 entry new. sandbox: 2 people have opted out; 0 doubtful replies wait for a decision.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("command", "left"), [("confirm", 0), ("dismiss", 1)])
def test_a_wish_to_be_texted_again_is_decided(folder: Path, run: Run, command: str, left: int) -> None:
    """Confirmed it lets its author in, dismissed it does not; a machine that reads it anew asks nobody again."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    run("optouts", "add", ADA, cwd=folder)
    say(folder, ADA, "10", "You can text me again")
    assert run("reconcile", cwd=folder).stderr == (
        "1 reply asks for texts again on sandbox; nobody is let in until you decide: `runner optouts list`\n"
    )
    document = list_json(run, folder)
    assert (document["opted_out"], document["doubtful"], document["opt_ins"]) == (1, 0, 1)
    (waiting,) = document["replies"]
    assert waiting["asks"] == "opt_in"
    listed = run("optouts", "list", "--show-replies", cwd=folder).stdout
    assert "\nReplies that ask for texts again\n" in listed
    assert "You can text me again" in listed
    assert listed.endswith(
        "Let the author in with `runner optouts confirm REPLY`, or not with `runner optouts dismiss REPLY`.\n"
    )
    decided = json.loads(run("optouts", command, waiting["reply"], "--format", "json", cwd=folder).stdout)
    assert (decided["changed"], decided["opted_out"], decided["opt_ins"]) == (1, left, 0)
    for file in (folder / ".runner").glob("ledger*"):
        file.unlink()
    assert run("reconcile", cwd=folder).stderr == ""
    assert (list_json(run, folder)["opted_out"], list_json(run, folder)["opt_ins"]) == (left, 0)
    run("optouts", "add", ADA, cwd=folder)
    assert (list_json(run, folder)["opted_out"], list_json(run, folder)["opt_ins"]) == (1, 0)
