"""Guards of audiences: lists that shrank, grew or lost their values stop a plan until the pull request says so."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.world import Project

if TYPE_CHECKING:
    from tests.cli.world import Enter

YAML = """\
version: 1
recipients:
  - csv: people.csv
exclude:
  - csv: never.csv
messages:
  - id: hello
    text: Hello {{ name | default("there") }}
limits:
  recipients: RULE
"""
RULE = "{least: 10, most: 500, change: 30 %}"


class Lists(Project):
    """A campaign with an audience and a list to exclude."""

    def write(
        self, rule: str = RULE, people: int = 100, excluded: int = 10, named: int | None = None
    ) -> None:
        """Write the campaign, an audience of which `named` people (None: all) have a name, and the list."""
        folder = self.folder / "campaigns"
        (folder / "pulse.yaml").write_text(YAML.replace("RULE", rule), encoding="utf-8")
        names = ["Ada" if number < (people if named is None else named) else "" for number in range(people)]
        rows = "".join(f"+1415555{1000 + number},{name}\n" for number, name in enumerate(names))
        (folder / "people.csv").write_text(f"phone,name\n{rows}", encoding="utf-8")
        left_out = "".join(f"+1415555{1000 + number}\n" for number in range(excluded))
        (folder / "never.csv").write_text(f"phone\n{left_out}", encoding="utf-8")

    def plan(self, code: int = 0) -> dict[str, Any]:
        """Return the plan of the campaign."""
        out = self.run("plan", "--format", "json", code=code)
        found: dict[str, Any] = self.check(out, "plan")["campaigns"][0]
        return found

    def read_lockfile(self) -> str:
        """Return the lockfile's text."""
        return (self.folder / "campaigns/pulse.sandbox.lock.json").read_text(encoding="utf-8")


@pytest.fixture
def lists(enter: Enter) -> Lists:
    """A campaign that was sent to 100 people, 10 of whom are excluded."""
    project = enter(Lists)
    project.write()
    project.run("apply", "--auto-approve")
    return project


@pytest.mark.slow
def test_a_halved_list_stops_until_the_pull_request_says_so(lists: Lists) -> None:
    """Plan and apply say both figures and what accepts them, and with that go through, ledger or none."""
    lists.write(people=50)
    lists.lose_ledger()
    (words,) = lists.plan(code=5)["refusals"]
    day = json.loads(lists.read_lockfile())["runs"][0]["started_at"][:10]
    assert words == (
        f"its audience: 50 people, not 100 as when it was last sent ({day}), beyond `change: 30%` "
        "(if that is meant, write `expected: 50` in limits.recipients)"
    )
    before = lists.read_lockfile()
    lists.run("apply", "--auto-approve", code=5)
    assert words in lists.errors
    lists.write("{change: 30%, expected: 50}", people=50)
    assert lists.plan()["audience"]["differences"] == [f"50 people, not 100 as when it was last sent ({day})"]
    lists.run("apply", "--auto-approve")
    assert lists.read_lockfile() == before


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"people": 131}, "131 people, not 100"),
        ({"excluded": 6}, "6 phones in `exclude`, not 10"),
        ({"named": 3}, "`name` has a value for 3% of people, not 100%"),
    ],
)
def test_each_figure_is_compared(lists: Lists, changed: dict[str, int], words: str) -> None:
    """A longer audience stops, and shorter lists to exclude, and columns without their values."""
    lists.write("{change: 30%}", **changed)
    (refusal,) = lists.plan(code=5)["refusals"]
    assert refusal.startswith(f"its audience: {words} as when")
    accepted = refusal[refusal.index("`expected: ") + 1 : refusal.rindex("` in limits")]
    lists.write(f"{{change: 30%, {accepted}}}", **changed)
    assert lists.plan()["refusals"] == []


@pytest.mark.parametrize("people", [70, 130])
def test_as_much_as_is_allowed_is_allowed(lists: Lists, people: int) -> None:
    """Up and down by the same number, nothing stops; many small changes pass, each beside the last sent."""
    lists.write(people=people)
    lists.run("apply", "--auto-approve")
    # Beside 70 people 109 would be too many, but nobody was sent anything then; 169 are beside 130.
    lists.write(people=people + 39)
    assert lists.plan()["refusals"] == []


def test_without_change_a_difference_is_said(lists: Lists) -> None:
    """Campaigns from before are not stopped; a much smaller audience and a shorter list are told of."""
    lists.write("500", people=1, excluded=9)
    out = lists.run("plan")
    assert "Audience: 1 person, not 100 as when it was last sent (" in out
    assert "Audience: 9 phones in `exclude`, not 10 as when it was last sent (" in out


def test_least_counts_the_audience(lists: Lists) -> None:
    """`least` looks at all distinct phones, so that a campaign that everybody has got goes on."""
    assert lists.plan()["people"] == 0
    lists.write("{least: 101}")
    assert lists.plan(code=5)["refusals"] == [
        "its audience has 100 people, and limits.recipients.least is 101"
    ]


def test_a_campaign_without_figures_on_record_is_not_compared(enter: Enter) -> None:
    """Before anything is sent there is nothing to compare with."""
    project = enter(Lists)
    project.write()
    audience = project.plan()["audience"]
    assert audience == {
        "people": 100,
        "excluded": 10,
        "opted_out": 0,
        "filled": {"name": 100},
        "last": None,
        "differences": [],
        "was_sent": False,
    }


EMPTY = "export the list again, or take its entry out if that is meant"


@pytest.mark.slow
def test_one_emptied_list_of_several_stops(lists: Lists) -> None:
    """A list without a phone stops, also where the sum is within `change`; without `change` it is a warning."""
    lists.write("{change: 30%}")
    file = lists.folder / "campaigns/pulse.yaml"
    text = file.read_text(encoding="utf-8").replace("never.csv\n", "never.csv\n  - csv: legal.csv\n")
    file.write_text(text, encoding="utf-8")
    (lists.folder / "campaigns/legal.csv").write_text("phone\n", encoding="utf-8")
    words = "legal.csv has no phone: it excludes nobody"
    assert lists.plan(code=5)["refusals"] == [
        f"line 6: {words}, and with `change` no list may be empty ({EMPTY})"
    ]
    file.write_text(text.replace("  - csv: legal.csv\n", ""), encoding="utf-8")
    assert lists.plan()["refusals"] == []
    file.write_text(text.replace("{change: 30%}", "500"), encoding="utf-8")
    assert lists.plan()["refusals"] == []
    lists.run("plan")
    assert f"campaigns/pulse.yaml:6:10: warning: {words} [audience-empty]" in lists.errors


def test_an_emptied_audience_stops(lists: Lists) -> None:
    """Neither `expected` nor a share accepts an audience of nobody."""
    lists.write("{change: 30%, expected: {people: 0}}", people=0)
    (refusal,) = lists.plan(code=5)["refusals"]
    assert refusal.startswith("line 3: people.csv has no phone: it adds nobody, and with `change`")


def forget_figures(lists: Lists) -> None:
    """Leave of the record what it had before there were figures in it: the ledger, without them."""
    (lists.folder / "campaigns/pulse.sandbox.lock.json").unlink()
    (file,) = (lists.folder / ".runner").glob("ledger*.sqlite")
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("DELETE FROM ledger_info WHERE name LIKE 'audience of run %'").rowcount == 1
        connection.commit()


@pytest.mark.slow
def test_figures_that_are_not_on_record_are_asked_for(lists: Lists) -> None:
    """A campaign that was sent before figures were recorded stops until `expected` says them, if it has `change`."""
    forget_figures(lists)
    lists.write("500", people=110)
    assert lists.plan()["refusals"] == []
    lists.write("{change: 30%}", people=110)
    unknown = "there is no record of how many when it was last sent"
    written = "expected: {people: 110, excluded: 10}"
    hint = f"if that is meant, write `{written}` in limits.recipients"
    assert lists.plan(code=5)["refusals"] == [
        f"its audience: 110 people, and {unknown}",
        f"its audience: 10 phones in `exclude`, and {unknown} ({hint})",
    ]
    lists.write(f"{{change: 30%, {written}}}", people=110)
    lists.run("apply", "--auto-approve")
    lists.write("{change: 30%}", people=110)
    assert lists.plan()["refusals"] == []


@pytest.mark.slow
def test_what_is_expected_no_more_is_said(lists: Lists) -> None:
    """While `expected` is needed nothing is said; once it has been sent to, a warning says to take it out."""
    lists.write("{change: 30%, expected: 150}", people=150)
    lists.run("plan")
    assert "expected-needless" not in lists.errors
    lists.run("apply", "--auto-approve")
    lists.run("plan")
    words = "`expected` in limits.recipients is not needed: the audience is about the same as when it was last sent ("
    assert f"warning: {words}" in lists.errors


def test_expected_columns_are_those_that_are_counted(lists: Lists) -> None:
    """A column is found without regard to case and blanks; one that no text uses is refused."""
    lists.write("{change: 30%, expected: {filled: {' NAME': 3%}}}", named=3)
    assert lists.plan()["refusals"] == []
    lists.write("{change: 30%, expected: {filled: {nam: 3%}}}")
    (refusal,) = lists.plan(code=5)["refusals"]
    assert refusal == (
        "limits.recipients.expected.filled has `nam`, and counted are: "
        "consent, consent_date, language, name, region, timezone"
    )


def test_columns_of_texts_do_not_hide_meanings(enter: Enter) -> None:
    """A text may have a column called `timezone`: that of `timezone_column` is counted apart."""
    project = enter(Lists)
    project.write("{change: 30%}")
    file, people = project.folder / "campaigns/pulse.yaml", project.folder / "campaigns/people.csv"
    text = file.read_text(encoding="utf-8").replace("people.csv", "people.csv\n    timezone_column: tz")
    file.write_text(text.replace("{{ name", "{{ timezone"), encoding="utf-8")
    rows = [f"+1415555{1000 + number},America/New_York,yes" for number in range(20)]
    people.write_text("\n".join(["phone,tz,timezone", *rows]), encoding="utf-8")
    project.run("apply", "--auto-approve")
    people.write_text(
        "\n".join(["phone,tz,timezone", *rows]).replace("America/New_York", ""), encoding="utf-8"
    )
    (refusal,) = project.plan(code=5)["refusals"]
    assert "`timezone` has a value for 0% of people, not 100%" in refusal
    people.write_text("\n".join(["phone,tz,timezone", *rows]).replace("yes", ""), encoding="utf-8")
    (refusal,) = project.plan(code=5)["refusals"]
    assert "`timezone in texts` has a value for 0% of people, not 100%" in refusal
    assert 'expected: {filled: {timezone in texts: "0%"}}' in refusal
