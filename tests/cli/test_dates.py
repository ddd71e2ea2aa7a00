"""Reminders by a date in a column, as a user runs them, on the sandbox with its clock moved."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from runner.ledger import maintenance
from tests.cli.world import Project
from tests.keys import STATE_KEY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.world import CheckJson, Enter


YAML = """\
version: 1
name: clinic
recipients:
  - {csv: people.csv, timezone_column: tz}
messages:
  - id: remind
    when: {column: appointment_at, before: 24h}
    text: "Hi {{ first_name }}, see you soon."
  - id: thanks
    after: {message: remind, wait: 2d}
    text: "Hi {{ first_name }}, thank you for coming."
schedule:
  send_between: ["09:00", "20:00"]
"""
ADA, BOB, CY = "+12125550101", "+12125550102", "+12125550103"
NEW_YORK = "America/New_York"


class Clinic(Project):
    """A repository with the campaign, and its sandbox."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str], check: CheckJson) -> None:
        super().__init__(folder, capture, check)
        self.file = folder / "campaigns/clinic.yaml"
        self.lockfile = folder / "campaigns/clinic.sandbox.lock.json"
        self.file.write_text(YAML, encoding="utf-8")

    def write(self, *rows: tuple[str, str]) -> None:
        """Write the list: phones with their cells."""
        lines = [f"{phone},P{phone[-1]},{NEW_YORK},{cell}" for phone, cell in rows]
        table = "\n".join(("phone,first_name,tz,appointment_at", *lines, ""))
        (self.file.parent / "people.csv").write_text(table, encoding="utf-8")

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command inside this process; return what it wrote."""
        out = super().run(*arguments, code=code)
        return out + (self.errors if code else "")

    def move_to(self, moment: str) -> None:
        """Move the sandbox's clock to a moment (UTC)."""
        self.run("sandbox", "clock", f"{moment}Z")

    def plan(self, message: str = "remind") -> dict[str, Any]:
        """Return the counts of a message."""
        document = self.check(self.run("plan", "--format", "json"), "plan")
        return next(one for one in document["campaigns"][0]["messages"] if one["id"] == message)

    def apply(self) -> int:
        """Send what is due; return the number of texts."""
        done = self.run("apply", "--auto-approve", "--format", "json")
        sent: int = self.check(done, "apply")["campaigns"][0]["recipients_sent"]
        return sent

    def count_texts(self) -> Counter[str]:
        """Return how many texts the service has sent, by phone."""
        query = "SELECT phone FROM session JOIN participant ON participant.id = participant_id"
        return Counter(phone for (phone,) in self.select(query))


@pytest.fixture
def clinic(monkeypatch: pytest.MonkeyPatch, enter: Enter) -> Clinic:
    """A clinic's repository; its service lists a launch at once, and its clock stands at noon in New York."""
    monkeypatch.setenv("RUNNER_SETTLE_WINDOW", "0s")
    made = enter(Clinic)
    made.move_to("2027-02-01T17:00")
    return made


@pytest.mark.slow
def test_each_person_is_reminded_a_day_before_their_date(clinic: Clinic) -> None:
    """A text goes on each person's own day; people without a date, and with one that is over, get none."""
    clinic.write(
        (ADA, "2027-02-03T15:00"), (BOB, "2027-02-05 15:00"), (CY, ""), ("+12125550104", "2027-01-05")
    )
    counts = clinic.plan()
    assert (counts["deferred"], counts["no_date"], counts["missed"], counts["to_send"]) == (2, 1, 1, 0)
    assert counts["next_due"].startswith("2027-02-02T20:00:00")
    assert clinic.apply() == 0
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 1
    assert clinic.apply() == 0
    clinic.move_to("2027-02-04T20:45")
    assert clinic.apply() == 2  # the second reminder, and thanks to the first person
    assert clinic.count_texts() == {ADA: 2, BOB: 1}


@pytest.mark.slow
def test_a_date_that_moves_moves_the_text(clinic: Clinic) -> None:
    """Moved before it was sent, the text waits; moved afterwards, it goes for the new date too, and each once."""
    clinic.write((ADA, "2027-02-03T15:00"))
    clinic.write((ADA, "2027-02-05T15:00"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 0
    clinic.move_to("2027-02-04T20:30")
    assert clinic.apply() == 1
    clinic.write((ADA, "2027-02-09T15:00"))
    assert clinic.plan()["deferred"] == 1
    clinic.write((ADA, "2027-02-05T15:00"))
    assert clinic.plan()["already_sent"] == 1
    clinic.write((ADA, "2027-02-09T15:00"))
    clinic.move_to("2027-02-08T20:30")
    assert clinic.apply() == 1
    assert clinic.apply() == 0
    assert clinic.count_texts() == {ADA: 2}


@pytest.mark.parametrize("cell", ["2027-02-03 15:00:59", "2027-02-03T15:00-05:00", "2027-02-03T20:00Z"])
def test_another_way_to_write_a_date_is_the_same_date(clinic: Clinic, cell: str) -> None:
    """Nobody is texted again because a program writes the same time in another form."""
    clinic.write((ADA, "2027-02-03T15:00"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 1
    clinic.write((ADA, cell))
    assert clinic.plan()["already_sent"] == 1
    assert clinic.apply() == 0


@pytest.mark.slow
def test_a_person_with_two_dates_is_reminded_of_both(clinic: Clinic) -> None:
    """Two rows of a phone are two dates: a warning names both rows, and each date has its text."""
    clinic.write((ADA, "2027-02-05T15:00"), (ADA, "2027-02-03T15:00"), (ADA, "2027-02-03T15:00:00"))
    assert "line 2 of people.csv has another date for the same phone" in clinic.run("validate")
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 1
    assert clinic.plan()["next_due"].startswith("2027-02-04T20:00:00")
    clinic.move_to("2027-02-04T20:45")
    assert clinic.apply() == 1 + 1  # for the later date, and thanks for the earlier one
    clinic.move_to("2027-02-06T20:50")
    assert clinic.apply() == 1
    assert clinic.apply() == 0
    assert clinic.count_texts() == {ADA: 4}


def test_a_person_who_leaves_the_list_is_not_texted(clinic: Clinic) -> None:
    """Their date counts no more, nor does a follow-up; back on the list, the same date is not texted again."""
    clinic.write((ADA, "2027-02-03T15:00"), (BOB, "2027-02-03T15:00"))
    clinic.write((BOB, "2027-02-03T15:00"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 1
    clinic.write((ADA, "2027-02-08T15:00"))
    assert clinic.plan()["deferred"] == 1
    clinic.write((ADA, "2027-02-08T15:00"), (BOB, "2027-02-03T15:00"))
    assert clinic.plan()["already_sent"] == 1
    assert clinic.count_texts() == {BOB: 1}


def test_records_do_not_say_when_somebody_comes(clinic: Clinic) -> None:
    """The lockfile has a keyed digest of a date, from which a new machine knows who was texted for it."""
    clinic.write((ADA, "2027-02-03T15:00"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 1
    text = clinic.lockfile.read_text(encoding="utf-8")
    assert "2027-02-03" not in text
    assert json.loads(text)["launches"][0]["occasion"].startswith("date:")
    clinic.lose_ledger()
    assert clinic.apply() == 0
    assert clinic.lockfile.read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_a_lost_record_texts_nobody_twice(clinic: Clinic) -> None:
    """Without ledger and lockfile, the service's launch is taken for this date only if it can have been for it."""
    clinic.write((ADA, "2027-02-03T15:00"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 1
    clinic.lose_ledger()
    clinic.lockfile.unlink()
    assert clinic.apply() == 0
    assert clinic.plan()["already_sent"] == 1
    clinic.lose_ledger()
    clinic.lockfile.unlink()
    clinic.write((ADA, "2027-02-09T15:00"))
    clinic.move_to("2027-02-08T20:30")
    clinic.run("apply", "--auto-approve", code=4)
    assert clinic.plan()["unresolved"] == 1
    clinic.run("resolve", "--not-sent-all", "--auto-approve")
    assert clinic.apply() == 1
    assert clinic.count_texts() == {ADA: 2}


def test_a_message_does_not_change_between_dates_and_none(clinic: Clinic) -> None:
    """With `when` taken out of a message that was sent, or put in, everybody could get it twice: refused."""
    clinic.write((ADA, "2027-02-03T15:00"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 1
    rule = "    when: {column: appointment_at, before: 24h}\n"
    clinic.file.write_text(YAML.replace(rule, ""), encoding="utf-8")
    said = clinic.run("plan", code=4)
    assert "goes by no date (`when`), and it was sent by one" in said
    clinic.file.write_text(YAML, encoding="utf-8")
    assert clinic.plan()["already_sent"] == 1


@pytest.mark.slow
def test_people_of_several_dates_count_once_in_reports(clinic: Clinic) -> None:
    """Of two people, one is texted for two dates, and both have answered once: all who were texted answered."""
    ask = """questions:
      - {tag: csat, text: "Hi {{ first_name }}, coming?", responses: ["1", "2", "3", "4", "5"], scale: csat}
    complete_existing_sessions: true"""
    text = 'text: "Hi {{ first_name }}, see you soon."'
    clinic.file.write_text(YAML.replace(text, ask), encoding="utf-8")
    clinic.write((ADA, "2027-02-03T15:00"), (BOB, "2027-02-03T15:00"), (ADA, "2027-02-10T15:00"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 2
    clinic.run("sandbox", "simulate", "--seed", "1", "--response-rate", "1")
    clinic.move_to("2027-02-09T20:30")
    clinic.run("reconcile")
    assert clinic.apply() == 2
    clinic.run("report", "--reconcile", "--format", "json", "--out", "reports")
    document = json.loads((clinic.folder / "reports/clinic.json").read_text(encoding="utf-8"))
    remind = document["messages"][0]
    figures = [remind[name] for name in ("sent", "texted", "participants_answered", "response_rate")]
    assert figures == [3, 2, 2, 1.0]


def test_a_preview_shows_who_has_a_date(clinic: Clinic) -> None:
    """People without a date need no variables, and their preview says that they get nothing."""
    clinic.write((CY, ""), (ADA, "2027-02-03T15:00"))
    people = clinic.file.parent / "people.csv"
    people.write_text(people.read_text(encoding="utf-8").replace("P3", ""), encoding="utf-8")
    assert "Hi P1, see you soon." in clinic.run("preview", "campaigns/clinic.yaml")
    assert "no date in their row" in clinic.run("preview", "campaigns/clinic.yaml", "--phone", CY)


def test_a_saved_plan_sends_for_the_dates_that_were_seen(clinic: Clinic) -> None:
    """A list in which a date has moved since is another one: the saved plan is refused."""
    clinic.write((ADA, "2027-02-03T15:00"))
    clinic.move_to("2027-02-02T20:30")
    clinic.run("plan", "--out", "saved.json")
    clinic.write((ADA, "2027-02-03T15:30"))
    clinic.run("apply", "--plan", "saved.json", code=1)
    assert clinic.count_texts() == {}
    clinic.write((ADA, "2027-02-03T15:00"))
    clinic.run("apply", "--plan", "saved.json")
    assert clinic.count_texts() == {ADA: 1}


def test_another_key_keeps_the_dates(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a rotation of the state key nobody is texted again for a date."""
    clinic.write((ADA, "2027-02-03T15:00"), (BOB, "2027-02-03T20:00Z"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 2
    before = clinic.lockfile.read_text(encoding="utf-8")
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    clinic.run("key", "rotate", "--auto-approve")
    after = clinic.lockfile.read_text(encoding="utf-8")
    occasions = [{one["occasion"] for one in json.loads(text)["launches"]} for text in (before, after)]
    assert len(occasions[1]) == 2
    assert occasions[0].isdisjoint(occasions[1])
    assert clinic.plan()["already_sent"] == 2
    assert clinic.apply() == 0


def test_a_date_that_cannot_be_found_keeps_the_old_key(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another key it would look new, and somebody could be texted for it again: nothing is changed."""
    clinic.write((ADA, "2027-02-03T15:00"))
    clinic.move_to("2027-02-02T20:30")
    assert clinic.apply() == 1
    before = clinic.lockfile.read_bytes()
    monkeypatch.setenv("RUNNER_STATE_KEY", STATE_KEY)
    # No day around the text is tried, as for a date that lies further away than those are.
    monkeypatch.setattr(maintenance, "_NEAR_DAYS", 0)
    assert clinic.run("key", "rotate", "--auto-approve", code=1).endswith(
        "Error: nothing was changed: 1 date that a message went by cannot be found within twelve years of its text\n"
        "  keep the old key: under the new one people could be texted for it again\n"
    )
    assert clinic.lockfile.read_bytes() == before


@pytest.mark.slow
def test_the_forecast_has_the_texts_of_other_dates(clinic: Clinic) -> None:
    """Of somebody with two dates that are due, one text goes now, and one may come later."""
    clinic.move_to("2027-12-01T15:00")
    clinic.write((ADA, "2027-12-02T08:00"), (ADA, "2027-12-02T09:00"))
    planned = clinic.plan()
    assert planned["to_send"] == 1
    assert [one["recipients"] for one in planned["coming"]] == [{"least": 0, "most": 1}]
    assert (clinic.apply(), clinic.apply(), clinic.apply()) == (1, 1, 0)


def test_one_moment_in_two_writings_is_one_date(clinic: Clinic) -> None:
    """With an offset or without, in the person's own time zone."""
    clinic.move_to("2027-12-01T15:00")
    clinic.write((ADA, "2027-12-02T09:00"), (ADA, "2027-12-02T14:00Z"))
    planned = clinic.plan()
    assert (planned["to_send"], planned["duplicates"], planned["coming"]) == (1, 1, [])


def test_a_moment_is_the_same_whatever_its_time_zone_is_called(clinic: Clinic) -> None:
    """Once sent by the clock of the number, it is not sent for the same moment with an offset elsewhere."""
    clinic.move_to("2027-12-01T15:00")
    clinic.write((ADA, "2027-12-02T09:00"))
    assert clinic.apply() == 1
    table = f"phone,first_name,tz,appointment_at\n{ADA},P,America/Los_Angeles,2027-12-02T14:00Z\n"
    (clinic.file.parent / "people.csv").write_text(table, encoding="utf-8")
    assert clinic.apply() == 0
