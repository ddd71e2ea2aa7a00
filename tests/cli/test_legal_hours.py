"""Legal hours from the command line: where people are by law, holidays, places without a rule, purposes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from freezegun import freeze_time

from runner.cli.main import run as run_command

if TYPE_CHECKING:
    from collections.abc import Callable

    CheckJson = Callable[[str, str], dict[str, Any]]

NEW_YORK, NEW_ORLEANS, TORONTO, COLOGNE = "+12125550101", "+15045550101", "+14165550101", "+4917604069074"
INDIA, KENYA, COLOMBIA = "+919812345678", "+254712345678", "+573012345678"
PORTLAND, PHILADELPHIA, MANILA = "+15035550101", "+12155550101", "+639171234567"
CAP = ", frequency_cap: {messages: 9, within: 7d}"
SILENCE = "NTC Memorandum Circular 03-03-2005"
EVENING = "2026-12-02T20:30:00-05:00"
"""A Wednesday, in New York: Florida's hours are over, and its federal ones not."""
FLORIDAS = "outside the legal hours of their place: Fla. Stat. § 501.616(6)(a), (b)"
PAGE = Path(__file__).parents[2] / "docs" / "legal-hours.md"


@dataclass(frozen=True)
class Desk:
    """A folder with one campaign, in which commands run inside this process at any moment."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    check: CheckJson

    def write(self, table: str, *, source: str = "region_column: state", policy: str = "") -> None:
        """Write the campaign.

        Args:
            table: the audience, CSV.
            source: further keys of the audience.
            policy: further rules beside the legal hours.
        """
        (self.folder / "campaigns").mkdir(exist_ok=True)
        (self.folder / "campaigns/people.csv").write_text(table, encoding="utf-8")
        (self.folder / "campaigns/pulse.yaml").write_text(
            f"version: 1\nname: pulse\nrecipients:\n  - {{csv: people.csv, {source}}}\n"
            f"messages:\n  - {{id: ask, text: Hello}}\npolicy: {{quiet_hours: legal{policy}}}\n",
            encoding="utf-8",
        )

    def run(self, at: str, *arguments: str) -> tuple[int, str, str]:
        """Run a command at a moment, ISO 8601 with its offset; return its code and output."""
        with freeze_time(datetime.fromisoformat(at), tick=True, real_asyncio=True):
            code = run_command(arguments)
        return code, *self.capture.readouterr()

    def plan(self, at: str) -> dict[str, Any]:
        """Return the message of a plan as JSON that fits its schema, everybody counted once."""
        code, out, err = self.run(at, "plan", "--format", "json")
        assert code == 0, err
        message: dict[str, Any] = self.check(out, "plan")["campaigns"][0]["messages"][0]
        counts = ("already_sent", "timezone_unknown", "no_rule", "deferred", "to_send")
        assert message["recipients"] == sum(message[name] for name in counts)
        return message

    def reasons(self, at: str) -> dict[str, int]:
        """Return the plan's reasons with how many people each holds back."""
        return {one["reason"]: one["recipients"] for one in self.plan(at)["reasons"]}


@pytest.fixture
def desk(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    check_json: CheckJson,
) -> Desk:
    """An empty folder."""
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path, capsys, check_json)


@pytest.mark.slow
def test_a_floridian_with_a_new_york_number_is_under_florida_s_law(desk: Desk) -> None:
    """At 20:30 the number's own law would let them be texted; they wait until nine on both of Florida's clocks."""
    desk.write(f"phone,state\n{NEW_YORK},US-FL\n+12125550102,\n")
    message = desk.plan(EVENING)
    assert (message["to_send"], message["deferred"]) == (1, 1)
    assert message["next_due"] == "2026-12-03T14:00:00.000000Z"
    assert desk.reasons(EVENING) == {FLORIDAS: 1}
    sent = "pulse: 1 person texted, 1 person deferred until Thu 2026-12-03 08:00 (America/Chicago).\n"
    assert desk.run(EVENING, "apply", "--auto-approve")[:2] == (0, sent)
    early = "2026-12-03T08:30:00-05:00"  # 7:30 in Pensacola
    assert desk.plan(early)["to_send"] == 0
    assert desk.plan("2026-12-03T09:00:00-05:00")["to_send"] == 1


def test_a_recipient_in_the_campaign_file_has_a_region(desk: Desk) -> None:
    """`region: US-FL` is the law that they are under, and the country of a number in national form."""
    campaign = desk.folder / "campaigns/pulse.yaml"
    desk.write("phone\n")
    text = campaign.read_text(encoding="utf-8")
    rows = '  - {phone: "212 555 0101", region: US-FL}\n  - {phone: "212 555 0102", region: US}\n'
    campaign.write_text(text.replace("  - {csv: people.csv, region_column: state}\n", rows), encoding="utf-8")
    message = desk.plan(EVENING)
    assert (message["to_send"], message["deferred"]) == (1, 1)
    assert desk.reasons(EVENING) == {FLORIDAS: 1}


def test_nobody_is_texted_on_christmas_in_louisiana(desk: Desk) -> None:
    """A public holiday closes the whole day where the law says so, and is named; in Texas it does not."""
    desk.write(
        f"phone,state\n{NEW_ORLEANS},\n{NEW_YORK},LA\n+12145550101,\n",
        source="region: US, region_column: state",
    )
    noon = "2026-12-25T12:00:00-06:00"
    message = desk.plan(noon)
    assert (message["to_send"], message["deferred"]) == (1, 2)
    assert message["next_due"] == "2026-12-26T14:00:00.000000Z"
    assert desk.reasons(noon) == {
        "a public holiday of their place (Christmas Day): "
        "LPSC General Order R-29617 (under La. R.S. 45:844.11 ff.)": 2
    }
    assert desk.plan("2026-12-24T12:00:00-06:00")["to_send"] == 3
    # Mardi Gras is Louisiana's alone.
    assert desk.plan("2027-02-09T12:00:00-06:00")["to_send"] == 1


@pytest.mark.slow
def test_places_without_a_rule_are_left_out_and_named(desk: Desk) -> None:
    """By default nobody is texted there, at any hour, and the plan names each place with how many people."""
    rows = "".join(f"+2547123456{index:02},\n" for index in range(12))
    desk.write(f"phone,state\n{rows}{COLOGNE},\n{NEW_YORK},DE\n+12125550102,\n")
    noon = "2026-12-02T15:00:00+00:00"
    message = desk.plan(noon)
    assert (message["no_rule"], message["to_send"], message["next_due"]) == (13, 2, None)
    way = "`no_rule: schedule` in `policy` would go by `schedule` alone"
    assert desk.reasons(noon) == {f"no rule known for KE: {way}": 12, f"no rule known for DE: {way}": 1}
    _, out, _ = desk.run(noon, "plan")
    assert f"  ask: 12 people: no rule known for KE: {way}\n" in out
    assert "no rule" in out.splitlines()[1]
    _, markdown, _ = desk.run(noon, "plan", "--format", "markdown")
    assert f"- ask: 12 people: no rule known for KE: {way}\n" in markdown.replace("\\", "")
    _, status, _ = desk.run(noon, "status", "--format", "json")
    (counts,) = desk.check(status, "status")["campaigns"][0]["messages"]
    assert (counts["planned"], counts["no_rule"]) == (2, 13)
    _, shown, _ = desk.run(noon, "status")
    assert shown.splitlines()[2].split()[2:6] == ["to", "send", "no", "rule"]
    _, sent, _ = desk.run(noon, "apply", "--auto-approve")
    assert sent == ("pulse: 2 people texted, 13 people in places whose legal hours are not known.\n")


def test_who_is_left_out_of_two_messages_is_no_two_people(desk: Desk) -> None:
    """The last line counts texts then."""
    desk.write(f"phone,state\n{KENYA},\n")
    file = desk.folder / "campaigns/pulse.yaml"
    messages = "  - {id: ask, text: Hello}\n"
    text = file.read_text(encoding="utf-8").replace(messages, f"{messages}  - {{id: more, text: Hello}}\n")
    file.write_text(text, encoding="utf-8")
    _, out, _ = desk.run(EVENING, "apply", "--auto-approve")
    assert "2 texts in places whose legal hours are not known" in out


def test_places_without_a_rule_can_go_by_the_schedule(desk: Desk) -> None:
    """With `no_rule: schedule` they are texted by the campaign's hours alone, and still named."""
    desk.write(f"phone,state\n{KENYA},\n", policy=", no_rule: schedule")
    night = "2026-12-02T00:30:00+03:00"
    message = desk.plan(night)
    assert (message["no_rule"], message["to_send"]) == (0, 1)
    assert desk.reasons(night) == {"no rule known for KE: `schedule` alone says when": 1}
    with (desk.folder / "campaigns/pulse.yaml").open("a", encoding="utf-8") as stream:
        stream.write('schedule: {send_between: ["09:00", "20:00"]}\n')
    message = desk.plan(night)
    assert (message["deferred"], message["next_due"]) == (1, "2026-12-02T06:00:00.000000Z")
    assert desk.reasons(night) == {
        "no rule known for KE: `schedule` alone says when": 1,
        "outside `send_between` on their own clocks": 1,
    }


def test_the_page_is_what_the_command_prints(desk: Desk) -> None:
    """`docs/legal-hours.md` ends with the table as `runner law` prints it: put that in its place."""
    code, out, err = desk.run(EVENING, "law")
    assert (code, err) == (0, "")
    assert PAGE.read_text(encoding="utf-8").endswith(f"\n\n{out}")


@pytest.mark.slow
def test_no_more_texts_than_a_law_allows(desk: Desk) -> None:
    """Oregon's three within 24 hours hold for its people, by region or number, beside a looser cap of the campaign.

    The fourth text waits for a later run, and the plan names the law; New York has no such limit.
    """
    desk.write(f"phone,state\n{PORTLAND},\n{NEW_YORK},OR\n+12125550102,\n", policy=CAP)
    texts = "".join(f"  - {{id: m{index}, text: Number {index}}}\n" for index in range(4))
    file = desk.folder / "campaigns/pulse.yaml"
    file.write_text(file.read_text("utf-8").replace("  - {id: ask, text: Hello}\n", texts), encoding="utf-8")
    noon, next_noon = "2026-12-02T15:00:00-05:00", "2026-12-03T15:01:00-05:00"
    _, out, _ = desk.run(noon, "plan")
    words = "the law of their place allows 3 messages within 1d: Oregon House Bill 3865 (2025)"
    assert "  m3: 2 people have reached the frequency cap: a later run sends:\n" in out
    assert f"    2: {words}" in out
    _, sent, _ = desk.run(noon, "apply", "--auto-approve")
    assert sent == "pulse: 10 texts to 3 people.\n"
    _, again, _ = desk.run(noon, "plan", "--format", "json")
    (campaign,) = desk.check(again, "plan")["campaigns"]
    assert [(one["to_send"], one["capped"]) for one in campaign["messages"]] == [(0, 0)] * 3 + [(0, 2)]
    _, sent, _ = desk.run(next_noon, "apply", "--auto-approve")
    assert sent == "pulse: 2 people texted.\n"


@pytest.mark.slow
def test_no_reminder_where_silence_opts_out(desk: Desk) -> None:
    """In the Philippines no reply counts as opting out: no reminder goes there, and plan and validate say why."""
    desk.write(f"phone,state\n{MANILA},\n{NEW_YORK},\n")
    file = desk.folder / "campaigns/pulse.yaml"
    reminder = "  - {id: nudge, after: {message: ask, wait: 1d}, to: unanswered, text: Still there?}\n"
    asking = "  - {id: ask, questions: [{tag: q, text: 'How was it?'}]}\n"
    text = file.read_text("utf-8").replace("  - {id: ask, text: Hello}\n", asking + reminder)
    file.write_text(text, encoding="utf-8")
    noon = "2026-12-02T10:00:00-05:00"
    _, out, _ = desk.run(noon, "plan")
    words = "no reminder: by the law of their place, no reply counts as opting out: "
    assert f"  nudge: 1 person: {words}{SILENCE}\n" in out
    _, found, _ = desk.run(noon, "validate")
    assert f"`nudge` will not go to 1 person in PH, where no reply counts as opting out: {SILENCE}" in found
    desk.run(noon, "apply", "--auto-approve")
    _, later, _ = desk.run("2026-12-04T10:00:00-05:00", "plan", "--format", "json")
    (campaign,) = desk.check(later, "plan")["campaigns"]
    nudge = campaign["messages"][1]
    assert (nudge["not_qualified"], nudge["awaiting"], nudge["to_send"]) == (1, 1, 0)


def test_the_law_of_the_day_is_kept(desk: Desk) -> None:
    """Pennsylvania's hours since 2026-10-18: nothing on that Sunday; a plan days before names the change."""
    law = "73 P.S. § 2245"
    desk.write(f"phone,state\n{PHILADELPHIA},\n")
    before, sunday = "2026-10-13T12:00:00-04:00", "2026-10-18T12:00:00-04:00"
    assert any(
        one.startswith("on 2026-10-18 the legal hours in US-PA change to") for one in desk.reasons(before)
    )
    assert any(law in one for one in desk.reasons(sunday))
    assert desk.plan(sunday)["deferred"] == 1
    assert desk.plan("2026-10-17T12:00:00-04:00")["to_send"] == 1
