"""`runner who`: everything about one person."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runner.sandbox.service import Service
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

ADA, EVE = "+14155550101", "+14155550105"
REMINDER = """\
  - id: remind
    to: unanswered
    after: {message: ask, wait: 3d}
    text: "Hi {{ first_name }}, still time to answer."
"""
OTHER = """\
version: 1
name: other
recipients: [{phone: "+14155550177"}]
messages: [{id: hello, text: "Hi. Reply STOP to opt out."}]
"""


def answer(folder: Path, *texts: str) -> None:
    with closing(open_store(folder / ".runner/sandbox/service.sqlite")) as store:
        for text in texts:
            Service(store).receive(ADA, text, datetime.now(UTC))


def mask_times(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?( UTC)?", "TIME", text)


def test_says_what_a_person_got_answered_and_gets_next(folder: Path, run: Run, check_json: CheckJson) -> None:
    """Before anything is sent, after it, and after an opt-out: in the national form, and as JSON."""
    campaign = folder / "campaigns/pulse.yaml"
    campaign.write_text(campaign.read_text(encoding="utf-8") + REMINDER, encoding="utf-8")
    before = run("who", "(415) 555-0101", cwd=folder)
    assert (before.returncode, before.stderr) == (0, "")
    assert mask_times(before.stdout) == (
        "+14•••••••01 on sandbox\nNot opted out.\n\npulse\n  ask: sent by the next `runner apply`\n"
        "  remind: not now: wait for an earlier message, not before TIME\n"
    )
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    answer(folder, "10", "Fine service")
    assert run("reconcile", cwd=folder).returncode == 0
    assert run("optouts", "add", ADA, cwd=folder).returncode == 0
    assert mask_times(run("who", ADA, cwd=folder).stdout) == (
        "+14•••••••01 on sandbox\n"
        "Opted out: entered by hand, TIME.\n"
        "\n"
        "pulse\n"
        "  ask: sent TIME; session complete\n"
        "    “Hi Ada, a word about Acme?”\n"
        "    “How likely are you to recommend Acme?”\n"
        "    “Why?”\n"
        "    “Thank you!”\n"
        "  ask: answered nps, TIME: 10\n"
        "  ask: answered reason, TIME: Fine service\n"
        "  remind: not now: opted out\n"
    )
    document = check_json(run("who", ADA, "--format", "json", cwd=folder).stdout, "who")
    assert (document["opted_out"], document["is_complete"]) == (True, True)
    assert [one["answer"] for one in document["campaigns"][0]["answers"]] == ["10", "Fine service"]
    assert document["campaigns"][0]["next"] == [
        {"message": "remind", "disposition": "opted_out", "due": None, "reasons": []}
    ]


def test_a_text_s_lines_stand_below_each_other(folder: Path, run: Run) -> None:
    """Line breaks in texts and answers are shown as such, and times as elsewhere."""
    campaign = folder / "campaigns/pulse.yaml"
    text = campaign.read_text(encoding="utf-8").replace('text: "Why?"', 'text: "Why?\\nIn your words."')
    campaign.write_text(text, encoding="utf-8")
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    answer(folder, "10", "Fine\nservice")
    assert run("reconcile", cwd=folder).returncode == 0
    shown = run("who", ADA, cwd=folder).stdout
    assert "    “Why?\n    In your words.”\n" in shown
    assert re.search(r"answered reason, \d{4}-\d\d-\d\d \d\d:\d\d UTC: Fine\n    service\n", shown)


def test_an_excluded_person_and_a_stranger(folder: Path, run: Run) -> None:
    """An exclusion is the reason for nothing; of somebody in no audience there is nothing."""
    assert "  ask: not now: left out by the campaign\n" in run("who", EVE, cwd=folder).stdout
    assert run("who", "+14155550177", cwd=folder).stdout == (
        "+14•••••••77 on sandbox\nNot opted out.\n"
        "No campaign has anything of them, nor has them in its audience.\n"
    )


def test_a_broken_campaign_hides_no_record(sent: Path, run: Run) -> None:
    """What is on record is shown, and that something is missing is in the exit code."""
    campaign = sent / "campaigns/pulse.yaml"
    campaign.write_text(campaign.read_text(encoding="utf-8").replace("tag: pulse", "tga: pulse"), "utf-8")
    done = run("who", ADA, cwd=sent)
    assert done.returncode == 1
    assert "`tga`" in done.stderr
    assert "  ask: sent " in done.stdout
    assert "  what it sends next is not known: a campaign could not be planned\n" in done.stdout
    campaign.unlink()
    (sent / "campaigns/other.yaml").write_text(OTHER, "utf-8")
    done = run("who", ADA, cwd=sent)
    assert (done.returncode, done.stderr) == (0, "")
    assert "  the campaign's file is not here: what it sends next is not known\n" in done.stdout


def test_a_number_of_two_countries_is_not_guessed(folder: Path, run: Run) -> None:
    """A national number that two campaigns read differently is refused with both readings."""
    campaign = folder / "campaigns/pulse.yaml"
    text = campaign.read_text(encoding="utf-8").replace("    region: US\n", "    region: IT\n")
    (folder / "campaigns/altra.yaml").write_text(text.replace("name: pulse", "name: altra"), encoding="utf-8")
    done = run("who", "3125550117", cwd=folder)
    assert done.returncode == 64
    assert done.stderr == (
        "Error: '31••••••17' can be +39••••••••17 (IT) or +13•••••••17 (US)\n"
        "  say which with --region, or write it with its country code\n"
    )
    assert run("who", "3125550117", "--region", "US", cwd=folder).stdout.startswith("+13•••••••17 on ")
    for command in ("optouts add", "optouts remove --auto-approve", "forget --auto-approve"):
        assert run(*command.split(), "3125550117", cwd=folder).stderr == done.stderr
    (folder / "campaigns/altra.yaml").unlink()
    for command in ("optouts add", "optouts remove --auto-approve", "forget --auto-approve"):
        assert run(*command.split(), "(312) 555-0117", cwd=folder).returncode == 0
    # Another campaign may be of another country.
    (folder / "campaigns/broken.yaml").write_text("version: 1\nname: broken\n", encoding="utf-8")
    done = run("optouts", "add", "(312) 555-0117", cwd=folder)
    assert (done.returncode, "or name its country with --region" in done.stderr) == (64, True)


def test_a_campaign_that_may_be_renamed_sends_nothing(tmp_path: Path, run: Run) -> None:
    """`apply` holds what may have another name on record, so nothing is said to be sent by it."""
    (tmp_path / "campaigns").mkdir()
    text = f"version: 1\nname: tea\nrecipients: [{{phone: '{ADA}'}}]\nmessages: [{{id: hi, text: Hi}}]\n"
    file = tmp_path / "campaigns/tea.yaml"
    file.write_text(text, encoding="utf-8")
    assert run("apply", "--auto-approve", cwd=tmp_path).returncode == 0
    file.rename(tmp_path / "campaigns/coffee.yaml")
    (tmp_path / "campaigns/coffee.yaml").write_text(text.replace("name: tea", "name: coffee"), "utf-8")
    done = run("who", ADA, cwd=tmp_path)
    assert done.returncode == 4
    assert done.stderr.startswith("Left out: coffee has no record, and 'tea', which no file has any more,")
    assert "  hi: sent " in done.stdout
    assert "  what it sends next is not known: a campaign could not be planned\n" in done.stdout
    status = run("status", "--format", "json", cwd=tmp_path)
    assert (status.returncode, status.stderr.startswith(done.stderr)) == (4, True)
    assert [one["planned"] for one in json.loads(status.stdout)["campaigns"][0]["messages"]] == [None]
