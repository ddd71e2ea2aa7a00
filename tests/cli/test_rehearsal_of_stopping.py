"""A rehearsal on the sandbox: a survey is open, a STOP stands in a sentence, and the law closes an evening and a day."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from runner.sandbox.service import Service
from runner.sandbox.store import open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess

    Run = Callable[..., CompletedProcess[str]]
    CheckJson = Callable[[str, str], dict[str, Any]]

ADA, BOB, FLO, MAY, LOU = "+14155550101", "+14155550102", "+12125550103", "+12125550104", "+15045550105"
PULSE = f'{{version: 1, recipients: [{{phone: "{ADA}"}}], messages: [{{id: ask, questions: [{{tag: why, text: Why?}}]}}]}}'
NOTICE = f'{{version: 1, recipients: [{{phone: "{BOB}"}}], messages: [{{id: note, text: We move., replies: recorded}}]}}'
OFFER = (
    "{version: 1, recipients: [{csv: people.csv, region: US, region_column: state}], "
    "messages: [{id: offer, text: Coffee is on us.}], policy: {quiet_hours: legal}}"
)
PEOPLE = f"phone,state\n{ADA},\n{BOB},\n{FLO},FL\n{MAY},\n"
FLORIDA = "outside the legal hours of their place: Fla. Stat. § 501.616(6)(a)"
LOUISIANA = (
    "a public holiday of their place (Christmas Day): "
    "LPSC General Order R-29617 (under La. R.S. 45:844.11 ff.)"
)


class Rehearsal:
    """A campaign repository on the sandbox, whose clock goes where it is told to."""

    def __init__(self, folder: Path, run: Run, check: CheckJson) -> None:
        self.folder = folder
        self._run = run
        self._check = check
        (folder / "campaigns").mkdir()

    def write(self, name: str, text: str) -> None:
        """Write a file of the campaigns."""
        (self.folder / "campaigns" / name).write_text(text, encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """Run a command, which goes well; return what it wrote."""
        done = self._run(*arguments, "--quiet", cwd=self.folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def now(self) -> datetime:
        """The sandbox's time."""
        done = self._run("sandbox", "clock", "--format", "json", cwd=self.folder)
        return datetime.fromisoformat(json.loads(done.stdout)["time"]).astimezone(UTC)

    def go_to(self, moment: datetime) -> None:
        """Move the sandbox's clock."""
        seconds = int((moment - self.now).total_seconds()) + 1
        assert self._run("sandbox", "clock", f"+{seconds}s", cwd=self.folder).returncode == 0

    def say(self, phone: str, text: str) -> None:
        """Have a participant text the service."""
        with closing(open_store(self.folder / ".runner/sandbox/service.sqlite")) as store:
            assert Service(store).receive(phone, text, self.now).was_expected

    def plan_offer(self) -> tuple[dict[str, int], dict[str, int], str | None]:
        """Return the counts of the offer that are not zero, its reasons, and when the first is due."""
        text = self.run("plan", "campaigns/offer.yaml", "--format", "json")
        message = self._check(text, "plan")["campaigns"][0]["messages"][0]
        names = ("already_sent", "opted_out", "open_session", "deferred", "to_send")
        counts = {name: message[name] for name in names if message[name]}
        assert sum(counts.values()) == message["recipients"] == message["rows"]
        return counts, {one["reason"]: one["recipients"] for one in message["reasons"]}, message["next_due"]

    def send(self) -> str:
        """Send the offer."""
        return self.run("apply", "campaigns/offer.yaml", "--auto-approve")


@pytest.fixture
def rehearsal(tmp_path: Path, run: Run, check_json: CheckJson) -> Rehearsal:
    """A repository on the evening before the next Christmas, when it is 19:30 in New York."""
    found = Rehearsal(tmp_path, run, check_json)
    start = found.now
    eve = datetime(start.year, 12, 25, 0, 30, tzinfo=UTC)
    found.go_to(eve if eve > start else eve.replace(year=start.year + 1))
    return found


@pytest.mark.slow
def test_stop_means_stop_and_night_means_night(rehearsal: Rehearsal) -> None:
    """One offer to five people: each gets it when nothing stands against it, and one of them never does."""
    rehearsal.write("pulse.yaml", PULSE)
    rehearsal.write("notice.yaml", NOTICE)
    rehearsal.run("apply", "--auto-approve")
    rehearsal.say(BOB, "STOP I have moved, leave me out")
    rehearsal.write("people.csv", PEOPLE)
    rehearsal.write("offer.yaml", OFFER)

    evening = rehearsal.now + timedelta(hours=1)  # 20:30 in New York and Miami
    rehearsal.go_to(evening)
    assert re.search(r"\b1 opt-out found", rehearsal.run("reconcile"))
    counts, reasons, _ = rehearsal.plan_offer()
    assert counts == {"open_session": 1, "opted_out": 1, "deferred": 1, "to_send": 1}
    assert reasons[FLORIDA] == 1
    assert any("open survey of `pulse`" in reason for reason in reasons)
    told = (
        "offer: 1 recipient texted in 1 launch, "
        "1 recipient deferred until Fri 2026-12-25 08:00 (America/Chicago), 1 recipient behind an open survey.\n"
    )
    assert rehearsal.send() == told

    rehearsal.write("people.csv", f"{PEOPLE}{LOU},\n")
    rehearsal.go_to(evening.replace(hour=18, minute=0))  # noon of Christmas in New Orleans
    rehearsal.say(ADA, "Because")
    rehearsal.run("reconcile")
    counts, reasons, due = rehearsal.plan_offer()
    assert counts == {"already_sent": 1, "opted_out": 1, "deferred": 1, "to_send": 2}
    assert reasons == {LOUISIANA: 1}
    assert rehearsal.send() == (
        "offer: 2 recipients texted in 2 launches, "
        "1 recipient deferred until Sat 2026-12-26 08:00 (America/Chicago).\n"
    )

    assert due is not None
    rehearsal.go_to(datetime.fromisoformat(due))
    assert rehearsal.send() == "offer: 1 recipient texted in 1 launch.\n"
    assert rehearsal.plan_offer()[0] == {"already_sent": 4, "opted_out": 1}
