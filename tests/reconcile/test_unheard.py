"""Opt-outs that a service words in its own way: who said STOP gets nothing of the next campaign."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.reference_service.campaigns import ADA, BOB, Campaigns
from tests.reference_service.conftest import make_campaigns, start_service  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Campaigns]
    Record = dict[str, Any]

ASK, TELL = "ask-2026", "tell-2026"
FILES = {
    "ask": f"""\
version: 1
name: ask
tag: {ASK}
recipients: [{{phone: "{ADA}"}}, {{phone: "{BOB}"}}]
messages: [{{id: ask, questions: [{{tag: how, text: "How was it?"}}]}}]
""",
    "tell": f"""\
version: 1
name: tell
tag: {TELL}
recipients: [{{phone: "{ADA}"}}, {{phone: "{BOB}"}}]
policy: {{open_session: queue}}
messages: [{{id: tell, text: "We are closed on Monday."}}]
""",
}


@pytest.fixture
def two(make_campaigns: Make) -> Campaigns:  # noqa: F811
    """Send a survey to Ada and Bob in one launch; a text to both is to follow."""
    campaigns = make_campaigns()
    for file in (campaigns.folder / "campaigns").iterdir():
        file.unlink()
    write(campaigns, "ask")
    applied = campaigns.apply()
    assert applied.returncode == 0, applied.stderr
    return campaigns


def write(campaigns: Campaigns, name: str) -> None:
    (campaigns.folder / "campaigns" / f"{name}.yaml").write_text(FILES[name], encoding="utf-8")


def later(campaigns: Campaigns) -> None:
    """Make whatever the ledger knows a day older."""
    with closing(sqlite3.connect(campaigns.folder / ".runner" / "ledger.sqlite")) as ledger, ledger:
        for table, name in (
            ("launches", "intent_at"),
            ("launches", "outcome_at"),
            ("launch_stats", "reconciled_at"),
            ("launch_stats", "agreed_at"),
        ):
            ledger.execute(f"UPDATE {table} SET {name} = '2026-01-01' || substr({name}, 11)")  # noqa: S608


def change(campaigns: Campaigns, **values: Any) -> None:
    """Have the service list its results with other values."""
    campaigns.service.store.rewrite = lambda record: record | values


def send_text(campaigns: Campaigns, reconciled: int = 0, sent: int = 0) -> dict[str, int]:
    """Reconcile, and send the second campaign; return how often Ada and Bob got it."""
    ended = campaigns.run("reconcile")
    assert ended.returncode == reconciled, ended.stderr
    write(campaigns, "tell")
    applied = campaigns.apply()
    assert applied.returncode == sent, applied.stderr
    texts = campaigns.count_texts()
    return {"ADA": texts[TELL, ADA], "BOB": texts[TELL, BOB]}


BOB_ALONE, NO_ONE = {"ADA": 0, "BOB": 1}, {"ADA": 0, "BOB": 0}
LOCAL = ADA.removeprefix("+1")
WRITTEN = (
    f"({LOCAL[:3]}) {LOCAL[3:6]}-{LOCAL[6:]}",
    LOCAL,
    int(LOCAL),
    f"tel:{ADA}",
    f"tel:+1-{LOCAL[:3]}-{LOCAL[3:6]}-{LOCAL[6:]}",
    f"00{ADA[1:]}",
    f"0{LOCAL}",
    f"{LOCAL}  ",
    f"{ADA} ",
    ADA.translate({ord("0") + n: chr(0xFF10 + n) for n in range(10)}),
    f"{ADA[1:]}@sms",
    f"{LOCAL} ext",
)


@pytest.mark.parametrize(
    "written", [*WRITTEN[:3], *(pytest.param(one, marks=pytest.mark.slow) for one in WRITTEN[3:])]
)
def test_a_phone_in_another_form_is_put_to_the_person(two: Campaigns, written: object) -> None:
    """A result's phone without country code, in brackets, as a link or with other digits is the recipient's."""
    two.service.answer(ADA, "STOP")
    change(two, participant_phone_number=written)
    assert send_text(two) == BOB_ALONE


@pytest.mark.slow
@pytest.mark.parametrize("response", [None, ""])
def test_an_opt_out_in_the_other_field_counts(two: Campaigns, response: str | None) -> None:
    """`result_answer` is read where `result_response` has nothing."""
    two.service.answer(ADA, "STOP")
    change(two, result_response=response)
    assert send_text(two, 3 if response is None else 0) == BOB_ALONE


@pytest.mark.slow
def test_a_reply_of_nobody_known_holds_its_launch(two: Campaigns) -> None:
    """A result without phone and participant holds the people of its launch, until a person decides."""
    two.service.answer(ADA, "STOP")
    change(two, participant_phone_number=None)
    assert send_text(two, 3) == NO_ONE
    listed = two.run("optouts", "list", "--format", "json")
    (reply,) = json.loads(listed.stdout)["replies"]
    assert reply["people"] == 2
    assert two.run("optouts", "dismiss", reply["reply"]).returncode == 0
    assert two.apply().returncode == 0
    texts = two.count_texts()
    assert (texts[TELL, ADA], texts[TELL, BOB]) == (1, 1)


def test_a_reply_from_a_phone_that_the_launch_did_not_go_to_holds_its_launch(two: Campaigns) -> None:
    """A result with the service's own number for the person's may be anybody's of its launch."""
    two.service.answer(ADA, "STOP")
    change(two, participant_phone_number="+15005550006")
    assert send_text(two) == NO_ONE


@pytest.mark.slow
@pytest.mark.parametrize("lacking", [{"project_launch_guid": None}, {"result_guid": None, "guid": None}])
def test_a_reply_without_its_guids_counts(two: Campaigns, lacking: Record) -> None:
    """A result that names a person opts them out, even if it names no launch, or has no name of its own."""
    two.service.answer(ADA, "STOP")
    change(two, **lacking)
    assert send_text(two, 3) == BOB_ALONE


def test_a_reply_of_nobody_listed_holds_all_texts(two: Campaigns) -> None:
    """Where the service does not list the people of the launch either, texts wait for the decision."""
    two.service.answer(ADA, "STOP")
    change(two, participant_phone_number=None)
    two.service.switch(sessions="none")
    assert send_text(two, 3, 5) == NO_ONE
    assert "optouts confirm" in two.apply().stderr


@pytest.mark.slow
def test_a_reply_that_can_be_put_later_frees_the_others(two: Campaigns) -> None:
    """Once the phone is listed, its owner alone is left out."""
    two.service.answer(ADA, "STOP")
    change(two, participant_phone_number=None)
    assert send_text(two, 3) == NO_ONE
    change(two)
    assert send_text(two) == BOB_ALONE


@pytest.mark.slow
def test_an_answer_that_is_overwritten_is_read_again(two: Campaigns) -> None:
    """The service replaces an answer by STOP: the same guid, and a later `updated`."""
    two.service.answer(ADA, "Fine")
    assert two.run("reconcile").returncode == 0
    change(two, result_response="STOP", result_answer="STOP", updated="2099-01-01T00:00:00.000000")
    assert send_text(two) == BOB_ALONE


def test_a_count_above_the_list_is_not_read(two: Campaigns) -> None:
    """The launch counts a result that no list has, until a person accepts the list."""
    two.service.switch(counts="one-more")
    assert two.run("reconcile").returncode == 3
    assert two.run("reconcile", "--accept-differences").returncode == 0
    assert two.run("reconcile").returncode == 0


@pytest.mark.slow
def test_an_account_that_cannot_be_read_is_unread(two: Campaigns) -> None:
    """Nobody has answered by the counts, and results are answered 500: replies were never read."""
    two.service.failing.add("/api/results")
    assert two.run("reconcile").returncode == 3
    later(two)
    ended = two.run("reconcile")
    assert ended.returncode == 3
    assert "replies on live were not read" in ended.stderr
    write(two, "tell")
    assert two.apply().returncode == 5
    two.service.failing.clear()
    assert send_text(two) == {"ADA": 1, "BOB": 1}


@pytest.mark.parametrize(
    "switches",
    [
        "order=newest",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("order=oldest", "order=random", "total=missing")
        ),
    ],
)
def test_an_opt_out_from_a_launch_on_no_record_counts(two: Campaigns, switches: str) -> None:
    """Who said STOP to a survey that this machine knows nothing of is left out, and nobody before a person settles it."""
    two.service.switch(**dict([switches.split("=")]), page_cap=2)
    two.service.answer(ADA, "STOP")
    two.service.answer(BOB, "Fine")
    two.lose_records()
    (two.folder / "campaigns" / "ask.yaml").unlink()
    write(two, "tell")
    assert send_text(two, 0, 4) == NO_ONE
    assert two.run("resolve", "--not-sent-all", "--auto-approve").returncode == 0
    assert send_text(two) == BOB_ALONE
