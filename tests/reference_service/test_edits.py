"""A record that is lost, and a campaign that is edited before the next run: nobody is texted twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.reference_service.campaigns import PHONES

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import CompletedProcess

    from tests.reference_service.campaigns import Campaigns

    Make = Callable[..., Campaigns]
    Way = Callable[[Campaigns], CompletedProcess[str]]

pytestmark = pytest.mark.slow

WORDS = {"it's": "it is", "It's": "It is"}
NAMES = {"first_name: Bob": "first_name: Robert"}
NEW_TAGS = {"tag: Pulse-2026": "tag: pulse-again", "tag: Notice-2026": "tag: notice-again"}
NEW_NAMES = {
    "name: pulse\n": "name: survey\nrenamed_from: [pulse]\n",
    "name: notice\n": "name: news\nrenamed_from: [notice]\n",
}
NO_TAGS = {"tag: Pulse-2026\n": "", "tag: Notice-2026\n": ""}


def edit(campaigns: Campaigns, words: dict[str, str]) -> None:
    """Replace words in both campaign files."""
    for file in (campaigns.folder / "campaigns").glob("*.yaml"):
        text = file.read_text(encoding="utf-8")
        for old, new in words.items():
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")


def assert_nobody_twice(campaigns: Campaigns) -> None:
    """Hold the service to one survey and one text each, under whatever tag."""
    texts = Counter(
        ("questions" in sent.definition, phone)
        for sent in campaigns.service.accepted
        for phone in sent.phones
    )
    assert max(texts.values()) == 1, texts


def hold(campaigns: Campaigns, way: Way) -> None:
    """Go one way twice: a saved plan may be refused once, since what was adopted has changed the record."""
    codes = []
    for _ in range(2):
        codes.append(way(campaigns).returncode)
        assert_nobody_twice(campaigns)
    assert codes[0] in ((1, 4) if way is apply_saved_plan else (4,))
    assert codes[1] == 4


def apply_saved_plan(campaigns: Campaigns) -> CompletedProcess[str]:
    """Save a plan and send it."""
    planned = campaigns.run("plan", "--out", "plan.json")
    return campaigns.run("apply", "--plan", "plan.json") if planned.returncode in (0, 2) else planned


def reconcile_first(campaigns: Campaigns) -> CompletedProcess[str]:
    """Reconcile, and apply then."""
    campaigns.run("reconcile")
    return campaigns.apply()


def settle_first(campaigns: Campaigns) -> CompletedProcess[str]:
    """Settle, and apply then."""
    campaigns.run("apply", "--settle-only")
    return campaigns.apply()


WAYS: tuple[Way, ...] = (
    lambda campaigns: campaigns.apply(),
    reconcile_first,
    settle_first,
    apply_saved_plan,
)
WAY_NAMES = ("apply", "reconcile", "settle-only", "saved plan")


@pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)
def test_edited_texts_hold_those_who_got_the_earlier_ones(make_campaigns: Make, way: Way) -> None:
    """People who were reached by other words are held, whichever command comes first."""
    campaigns = make_campaigns()
    assert campaigns.apply().returncode == 0
    campaigns.lose_records()
    edit(campaigns, WORDS)
    hold(campaigns, way)
    unresolved = [message["unresolved"] for message in campaigns.read_status().values()]
    assert unresolved == [len(PHONES)] * 2


@pytest.mark.parametrize("way", WAYS, ids=WAY_NAMES)
def test_a_corrected_name_holds_one_person(make_campaigns: Make, way: Way) -> None:
    """Only those whose text has changed are held; the others' launches are adopted."""
    campaigns = make_campaigns()
    assert campaigns.apply().returncode == 0
    campaigns.lose_records()
    edit(campaigns, NAMES)
    hold(campaigns, way)
    status = campaigns.read_status()
    assert {name: (x["sent"], x["unresolved"]) for name, x in status.items()} == {
        "notice": (4, 1),
        "pulse": (5, 0),
    }


@pytest.mark.parametrize("words", [NEW_TAGS, NEW_NAMES, NEW_NAMES | NO_TAGS], ids=["tag", "name", "both"])
def test_a_lost_run_and_another_name_text_nobody_twice(make_campaigns: Make, words: dict[str, str]) -> None:
    """Launches of a lost run are found under the tag and the name that the campaign had then."""
    campaigns = make_campaigns()
    assert campaigns.apply("--limit", "2").returncode == 0
    kept = {file: file.read_bytes() for file in campaigns.folder.glob("campaigns/*.lock.json")}
    assert campaigns.apply().returncode == 0
    campaigns.lose_records()
    for file, content in kept.items():
        file.write_bytes(content)
    edit(campaigns, words)
    for _ in range(2):
        applied = campaigns.apply()
        assert_nobody_twice(campaigns)
        assert applied.returncode in (0, 4), applied.stderr
    for message in campaigns.read_status().values():
        assert (message["sent"] + message["unresolved"], message["planned"]) == (len(PHONES), 0)


@pytest.mark.parametrize("switches", ["sessions=none", "sessions=part"])
def test_another_tag_and_hidden_people_text_nobody_twice(make_campaigns: Make, switches: str) -> None:
    """The same text under another tag holds all who would get it, if the service doesn't say who got it."""
    campaigns = make_campaigns(switches)
    assert campaigns.apply().returncode == 0
    campaigns.lose_records()
    edit(campaigns, NEW_TAGS)
    applied = campaigns.apply()
    assert_nobody_twice(campaigns)
    assert applied.returncode == 4


def test_a_launch_holds_its_own_people_as_soon_as_they_are_listed(make_campaigns: Make) -> None:
    """A launch that was listed without people, and held everybody, lets go of the others when it has some."""
    campaigns = make_campaigns("sessions=late delay_s=3600")
    assert campaigns.apply().returncode == 0
    campaigns.lose_records()
    edit(campaigns, WORDS)
    assert campaigns.apply().returncode == 4
    campaigns.service.switch(delay_s=0.0)
    assert campaigns.apply().returncode == 4
    assert_nobody_twice(campaigns)
    held = json.loads(campaigns.run("resolve", "--format", "json").stdout)["unexplained"]
    assert {
        group["campaign"]: sorted(launch["recipients"] for launch in group["launches"]) for group in held
    } == {"pulse": [1, 2, 2], "notice": [1] * 5}


def test_new_people_are_texted_while_others_are_held(make_campaigns: Make) -> None:
    """People who were reached by no unexplained launch are sent to, and the exit code says that others are held."""
    campaigns = make_campaigns()
    assert campaigns.apply().returncode == 0
    campaigns.lose_records()
    fay = '  - {phone: "+14155550106", vars: {first_name: Fay}}\n'
    edit(campaigns, WORDS | {"recipients:\n": f"recipients:\n{fay}"})
    applied = campaigns.apply()
    assert_nobody_twice(campaigns)
    assert applied.returncode == 4
    reached = [phone for sent in campaigns.service.accepted for phone in sent.phones]
    assert reached.count("+14155550106") == 2
