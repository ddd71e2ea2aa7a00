"""Reconciling with lists that grow, shrink and shuffle: nothing is missing, and what doesn't add up is said."""

from __future__ import annotations

import itertools
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from runner.errors import ServiceError
from runner.ledger.database import Ledger
from runner.ledger.model import CampaignLaunches
from runner.ledger.people.opt_outs import decide_reply
from runner.ledger.results.sendings import count_answered
from runner.ledger.tables import launches
from runner.report.gathering import read_refusals
from runner.service.model import Unreadable
from tests.reconcile.conftest import AT, Campaign, SurveyService, make_result

if TYPE_CHECKING:
    from runner.ledger.files.suppressions import State
    from tests.postgres import PostgresServer


def newest_first(results: list[Any]) -> list[Any]:
    return results[::-1]


def fill(campaign: Campaign, count: int, *launches: str) -> None:
    campaign.launch(*launches)
    for number in range(count):
        campaign.service.add(number, launches[number % len(launches)])


@pytest.mark.parametrize("order", [list, newest_first])
def test_a_list_that_grew_is_read_at_its_new_end(campaign: Campaign, order: Any) -> None:
    """Of a launch with some new results no more is read than those, and a page at the end that has none."""
    campaign.service.order = order
    fill(campaign, 1000, "a")
    assert campaign.reconcile().is_complete
    assert len(campaign.service.take_requests()) == 10
    for number in range(1000, 1030):
        campaign.service.add(number, "a")
    assert campaign.reconcile().new_results == 30
    expected = ["a 0"] if order is newest_first else ["a 0", "a 930"]
    assert campaign.service.take_requests() == expected
    assert len(campaign.list_held()) == 1030


@pytest.mark.parametrize("order", [list, newest_first])
def test_a_run_that_was_cut_short_is_gone_on_with(campaign: Campaign, order: Any) -> None:
    """What was read stays, and the next run reads the rest and two pages besides."""
    campaign.service.order = order
    fill(campaign, 1000, "a")
    requests = iter(range(100))

    def break_down(path: str) -> None:
        if path == "/api/results" and next(requests) == 6:
            campaign.service.answer = (500, b"oops")

    campaign.service.on_request = break_down
    with pytest.raises(ServiceError):
        campaign.reconcile()
    campaign.service.on_request, campaign.service.answer = lambda _path: None, None
    assert len(campaign.list_held()) == 600
    campaign.service.take_requests()
    summary = campaign.reconcile()
    assert (summary.new_results, summary.is_complete) == (400, True)
    assert len(campaign.service.take_requests()) == 5


def test_launches_that_were_read_before_an_error_are_not_read_again(campaign: Campaign) -> None:
    """Their first pages are stored together: an error in one takes nothing from those before it."""
    fill(campaign, 240, "a", "b", "c")

    def break_down(path: str) -> None:
        if path == "/api/results" and campaign.service.queries[-1][1].get("project_launch_guid") == "c":
            campaign.service.answer = (400, b"oops")

    campaign.service.on_request = break_down
    with pytest.raises(ServiceError):
        campaign.reconcile()
    assert len(campaign.list_held()) == 160
    campaign.service.on_request, campaign.service.answer = lambda _path: None, None
    campaign.service.take_requests()
    assert campaign.reconcile().is_complete
    assert campaign.service.take_requests() == ["c 0"]


def test_a_service_that_lists_all_results_for_each_launch_is_understood(campaign: Campaign) -> None:
    """Each result counts for its own launch, whichever list it is met in; no list is one launch's own."""
    fill(campaign, 12, "a", "b")
    campaign.service.order = lambda _results: campaign.service.results
    for full in (False, True):
        summary = campaign.reconcile(full=full)
        assert (summary.is_complete, summary.results, summary.short_launches) == (True, 12, [])
    campaign.service.count = lambda _guid: 8
    assert campaign.reconcile().short_launches == ["a", "b"]


@pytest.mark.parametrize("seed", range(3))
def test_an_order_of_its_own_at_every_request_hides_nothing(campaign: Campaign, seed: int) -> None:
    """A list that is shuffled before each page is read until its results are together."""
    chance = random.Random(seed)  # noqa: S311  no secret
    campaign.service.order = lambda results: chance.sample(results, len(results))
    campaign.service.page_size = 20
    fill(campaign, 100, "a", "b")
    summary = campaign.reconcile()
    assert summary.is_complete
    assert len(campaign.list_held()) == 100


def test_many_launches_are_read_by_tag_and_the_rest_one_by_one(campaign: Campaign) -> None:
    """What a pass over the tag's list has missed is looked for in the lists of the launches that lack it."""
    fill(campaign, 300, *(f"launch-{number:02}" for number in range(30)))
    shifts = iter([0, 0, 5])

    def shift(results: list[Any]) -> list[Any]:
        place = next(shifts, 0)
        return results[place:] + results[:place]

    campaign.service.order = shift
    assert campaign.reconcile().is_complete
    asked = campaign.service.take_requests()
    assert asked[:3] == ["pulse-2026 0", "pulse-2026 100", "pulse-2026 200"]
    assert len(campaign.list_held()) == 300


def test_counts_that_promise_more_than_is_listed_are_told(campaign: Campaign) -> None:
    """A list that has no more is not read for ever: the launch is named, and the others are complete."""
    fill(campaign, 250, "a", "b")
    campaign.service.count = lambda guid: len(campaign.service.list_results(guid)) + (guid == "a")
    summary = campaign.reconcile()
    assert (summary.short_launches, summary.is_complete) == (["a"], False)
    assert (summary.results, summary.expected_results) == (250, 251)
    assert len(campaign.service.take_requests()) == 4


def test_pages_that_come_back_empty_end_the_reading(campaign: Campaign) -> None:
    """A list that counts a thousand and gives a hundred is given up after a few passes."""
    fill(campaign, 100, "a")
    campaign.service.count = lambda _guid: 1000

    def promise(page: dict[str, Any]) -> dict[str, Any]:
        page["meta"]["total_count"] = 1000 if "plan" not in page["meta"] else 1
        return page

    campaign.service.change_page = promise
    summary = campaign.reconcile()
    assert (summary.short_launches, summary.results) == (["a"], 100)
    assert len(campaign.service.take_requests()) < 50


def test_results_that_were_deleted_meanwhile_are_not_waited_for(campaign: Campaign) -> None:
    """What vanishes between two pages is no longer counted, and what moved up because of it is found."""
    fill(campaign, 500, "a")
    pages = iter(range(100))

    def delete(path: str) -> None:
        if path == "/api/results" and next(pages) == 2:
            del campaign.service.results[50:90]

    campaign.service.on_request = delete
    campaign.reconcile()
    held = campaign.list_held()
    assert held.keys() >= {result["result_guid"] for result in campaign.service.results}
    summary = campaign.reconcile()
    assert (summary.results, summary.expected_results, summary.unlisted_results) == (500, 460, 40)
    assert not summary.is_complete


def test_what_is_not_listed_any_more_can_be_dropped(campaign: Campaign) -> None:
    """Named with its launch, and removed when that is asked for; what is listed stays."""
    fill(campaign, 10, "a", "b")
    campaign.reconcile()
    del campaign.service.results[1:4:2]
    summary = campaign.reconcile(full=True)
    assert (summary.unlisted_results, summary.unlisted_launches, summary.dropped_results) == (2, ["b"], 0)
    summary = campaign.reconcile(full=True, drops=True)
    assert (summary.unlisted_results, summary.unlisted_launches, summary.dropped_results) == (0, [], 2)
    assert summary.is_complete
    assert campaign.list_held().keys() == {one["result_guid"] for one in campaign.service.results}


def rename_results(campaign: Campaign) -> None:
    """Have the service list every result under a guid of its own."""
    for result in campaign.service.results:
        result["guid"] = result["result_guid"] = f"new-{result['result_guid']}"


@pytest.mark.slow
def test_an_answer_under_a_new_guid_counts_once(campaign: Campaign) -> None:
    """Two thousand results whose guids were issued anew are two thousand, under the new guids; none is unlisted."""
    fill(campaign, 2000, "a", "b")
    campaign.reconcile()
    rename_results(campaign)
    assert campaign.reconcile().renamed_results == 0
    summary = campaign.reconcile(full=True)
    assert (summary.renamed_results, summary.unlisted_results, summary.new_results) == (2000, 0, 0)
    assert summary.is_complete
    assert campaign.list_held().keys() == {one["result_guid"] for one in campaign.service.results}


def test_an_answer_of_other_words_is_another_one(campaign: Campaign) -> None:
    """Edited and under a new guid, a result is not known to be the same: both are kept, and the old one is named."""
    fill(campaign, 3, "a")
    campaign.reconcile()
    rename_results(campaign)
    campaign.service.results[0]["result_response"] = "2"
    summary = campaign.reconcile(full=True)
    assert (summary.renamed_results, summary.unlisted_results, summary.results) == (2, 1, 4)


@pytest.mark.parametrize("state", ["dismissed", "confirmed"])
def test_what_was_decided_of_a_reply_holds_under_its_new_guid(campaign: Campaign, state: State) -> None:
    """A reply on which a person has decided stays so when the service calls it otherwise: waits no more, counts alike."""
    result = campaign.service.add(1, "a", result_response="lose my number")
    campaign.launch("a", to=result["participant_phone_number"])
    campaign.reconcile()
    with campaign.ledger.writing() as opened:
        assert decide_reply(opened, "live", "result-1", state, AT)
    rename_results(campaign)
    assert campaign.reconcile(full=True).doubtful == 0
    with campaign.ledger.reading() as opened:
        refusals = read_refusals(opened, campaign.id)
    assert len(refusals) == (state == "confirmed")


def test_an_edited_result_is_replaced(campaign: Campaign) -> None:
    """No count tells of it: reading in full does, and so does whatever reads its page."""
    fill(campaign, 300, "a")
    campaign.reconcile()
    campaign.service.results[150] |= {"result_response": "2", "updated": "2026-11-21T12:00:00.000001"}
    campaign.service.take_requests()
    campaign.reconcile()
    assert (campaign.service.take_requests(), campaign.list_held()["result-150"]) == ([], "9")
    summary = campaign.reconcile(full=True)
    assert (campaign.list_held()["result-150"], summary.new_results, summary.is_complete) == ("2", 0, True)
    assert campaign.service.take_requests() == ["a 0", "a 100", "a 200"]


def test_a_result_that_came_when_another_went_is_found_in_full(campaign: Campaign) -> None:
    """Counts that agree can hide a result; reading in full counts what is listed, not what is held."""
    fill(campaign, 10, "a")
    campaign.reconcile()
    campaign.service.results[0] = make_result(99, "a")
    assert campaign.reconcile().is_complete
    summary = campaign.reconcile(full=True)
    assert (summary.new_results, summary.unlisted_results) == (1, 1)
    assert "result-99" in campaign.list_held()


def test_a_result_that_cannot_be_read_does_not_lose_the_others(campaign: Campaign) -> None:
    """It is told with its guid, its launch, its place and what it lacks; and not looked for again and again."""
    fill(campaign, 250, "a")
    del campaign.service.results[120]["result_response"]
    summary = campaign.reconcile()
    problem = "a result record of the service has no usable result_response"
    assert summary.unreadable == [Unreadable("result-120", "a", 120, problem)]
    assert (summary.results, summary.unreadable_results, summary.is_complete) == (249, 1, False)
    assert summary.short_launches == []
    assert len(campaign.service.take_requests()) == 3
    campaign.service.results[120]["result_response"] = "9"
    assert campaign.reconcile().is_complete


@pytest.mark.parametrize("response", [None, ["STOP"], {"text": "STOP"}, float("nan"), float("inf")])
def test_an_answer_that_is_no_text_is_not_read_as_its_python_notation(
    campaign: Campaign, response: object
) -> None:
    """`['STOP']` or `nan` would stand among the answers, and an opt-out within it would not be heard."""
    fill(campaign, 3, "a")
    campaign.service.results[1]["result_response"] = response
    summary = campaign.reconcile()
    assert (summary.results, summary.unreadable_results, summary.is_complete) == (2, 1, False)


def test_a_result_without_a_launch_may_be_any_launchs(campaign: Campaign) -> None:
    """The answers to those that lack one cannot all be read; those to others can."""
    fill(campaign, 10, "a", "b")
    del campaign.service.results[4]["project_launch_guid"]
    campaign.service.count = lambda _guid: 5
    campaign.service.order = lambda _results: campaign.service.results
    summary = campaign.reconcile()
    found = [(one.project_launch_guid, one.problem, one.counted, one.listed) for one in summary.differences]
    assert found == [("a", "unreadable_results", 5, 4)]
    assert summary.unread_launches == ["a"]


def test_an_answer_to_some_question_is_not_kept_and_its_opt_out_is(campaign: Campaign) -> None:
    """It would be missing from one question or another; its author is not texted again all the same."""
    fill(campaign, 3, "a")
    with campaign.ledger.writing() as opened:
        asked = {"questions": [{"tag": "nps", "text": "How likely?"}, {"tag": "why", "text": "Why?"}]}
        opened.execute(update(launches).values(definition=json.dumps(asked)))
    campaign.service.results[2] |= {"question_tag": None, "result_response": "stop"}
    summary = campaign.reconcile()
    problem = "a result of the service does not tell whose answer it is, or which question it answers"
    assert summary.unreadable == [Unreadable("result-2", "a", 0, problem)]
    assert (summary.results, summary.opted_out) == (2, 1)
    (difference,) = summary.differences
    assert (difference.problem, difference.counted, difference.listed) == ("unreadable_results", 3, 2)
    again = campaign.reconcile()
    assert (again.unread_launches, again.new_results, again.opted_out) == (["a"], 0, 0)


def test_only_the_first_unreadable_results_are_told_one_by_one(campaign: Campaign) -> None:
    """A field that the service renames makes every result unreadable: they are counted, and twenty are named."""
    fill(campaign, 150, "a")
    for result in campaign.service.results:
        del result["result_response"]
    summary = campaign.reconcile()
    assert (len(summary.unreadable), summary.unreadable_results, summary.results) == (20, 150, 0)


def test_two_campaigns_under_one_tag_do_each_other_no_harm(campaign: Campaign) -> None:
    """Each takes the results of its own launches, by whichever list they come."""
    other = Campaign(campaign.ledger, campaign.client, campaign.service, "other")
    mine, theirs = ([f"{name}-{number:02}" for number in range(20)] for name in ("a", "b"))
    campaign.launch(*mine)
    other.launch(*theirs)
    for number, launch in enumerate(itertools.chain(mine, theirs)):
        campaign.service.add(number, launch)
    first, second = campaign.reconcile(), other.reconcile()
    assert (first.results, first.is_complete, second.results, second.is_complete) == (20, True, 20, True)
    assert campaign.list_held().keys() == {f"result-{number}" for number in range(20)}
    assert campaign.service.take_requests() == ["pulse-2026 0", "pulse-2026 0"]


_EVENTS = st.lists(
    st.tuples(st.sampled_from(["append", "insert", "delete", "shuffle", "quiet"]), st.integers(0, 10**6)),
    max_size=30,
)


def disturb(service: SurveyService, event: tuple[str, int], number: int) -> None:
    """Let something happen to the list between two requests."""
    kind, chance = event
    launch = service.launches[chance % len(service.launches)]
    if kind == "append":
        service.add(number, launch)
    elif kind == "insert":
        service.results.insert(0, make_result(number, launch))
    elif kind == "delete" and service.results:
        del service.results[chance % len(service.results)]
    elif kind == "shuffle":
        random.Random(chance).shuffle(service.results)  # noqa: S311  no secret


_turn = itertools.count()


@pytest.mark.slow
@settings(max_examples=15)
@given(events=_EVENTS, count=st.integers(0, 40), page_size=st.integers(2, 12))
def test_after_the_list_is_quiet_the_ledger_has_it(
    campaign: Campaign, events: list[tuple[str, int]], count: int, page_size: int
) -> None:
    """Whatever happened before: one reading in full holds all that is listed, and counts what is not any more."""
    service, turn = campaign.service, next(_turn)
    service.launches.clear()
    service.results.clear()
    survey = Campaign(campaign.ledger, campaign.client, service, f"survey-{turn}")
    fill(survey, count, *(f"{name}-{turn}" for name in "abc"))
    service.page_size = page_size
    numbers, happening = itertools.count(1000), iter(events)

    def happen() -> None:
        if event := next(happening, None):
            disturb(service, event, next(numbers))

    service.on_page = happen
    survey.reconcile()
    survey.reconcile()
    service.on_page = lambda: None
    summary = survey.reconcile(full=True)
    listed, held = {result["result_guid"] for result in service.results}, survey.list_held().keys()
    assert held >= listed
    assert summary.short_launches == []
    assert summary.unlisted_results == len(held - listed)
    assert summary.is_complete == (held == listed)


def test_a_process_that_is_killed_has_stored_all_but_the_last_pages(campaign: Campaign) -> None:
    """Pages are committed one, two, four and more at a time: what is asked for next is asked for after that."""
    fill(campaign, 400, "a")
    held: list[int] = []

    def look(path: str) -> None:
        if path == "/api/results":
            held.append(len(campaign.list_held()))

    campaign.service.on_request = look
    campaign.reconcile()
    assert held[:3] == [0, 100, 100]
    # The fourth is read while the two before it are stored.
    assert held[3:] in ([100], [300])


def test_a_ledger_on_a_server_knows_what_it_has(campaign: Campaign, postgres: PostgresServer) -> None:
    """What is new is told from what is held on PostgreSQL as on SQLite."""
    with Ledger(postgres.url(postgres.create_database())) as ledger:
        ledger.prepare()
        served = Campaign(ledger, campaign.client, campaign.service)
        fill(served, 450, "a")
        assert served.reconcile().is_complete
        campaign.service.take_requests()
        campaign.service.add(1000, "a")
        assert served.reconcile().new_results == 1
        assert campaign.service.take_requests() == ["a 0", "a 351"]


def test_lists_that_do_not_count_themselves_are_reconciled(campaign: Campaign) -> None:
    """Where lists don't say how long they are, all of their results are found, and nothing is read for ever."""
    fill(campaign, 250, "a", "b")
    campaign.service.change_page = lambda page: {"objects": page["objects"]}
    summary = campaign.reconcile()
    assert (summary.new_results, summary.is_complete) == (250, True)
    campaign.service.count = lambda guid: len(campaign.service.list_results(guid)) + (guid == "a")
    assert campaign.reconcile().short_launches == ["a"]
    assert len(campaign.service.take_requests()) < 40


def test_what_was_stored_stays_when_the_service_fails(campaign: Campaign) -> None:
    """Half-way through a launch's list, what was read before is in the ledger."""
    fill(campaign, 250, "a")

    def fail(path: str) -> None:
        if path == "/api/results" and campaign.list_held():
            campaign.service.on_request = lambda _path: None
            campaign.service.change_page = lambda page: {"meta": page["meta"]}

    campaign.service.on_request = fail
    with pytest.raises(ServiceError):
        campaign.reconcile()
    assert len(campaign.list_held()) == 100


def test_a_result_of_a_phone_that_was_sent_nothing_is_no_answer(campaign: Campaign) -> None:
    """It is kept; as the service lists all people of the launch, and not this one, no participant is counted."""
    fill(campaign, 2, "a")
    campaign.service.add(3, "a", participant_phone_number="+19995550000")
    assert campaign.reconcile().results == 3
    with campaign.ledger.reading() as opened:
        assert count_answered(opened, CampaignLaunches(campaign.id)) == {"ask": 2}
