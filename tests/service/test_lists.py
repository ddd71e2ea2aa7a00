"""Reading lists and records: every record once, whatever the service's pages are like."""

from __future__ import annotations

import json
import traceback
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.errors import ServiceError
from runner.service.model import Page, ResultRecord, StatRecord, Unreadable
from runner.service.paging import ListWalk, list_launches

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.service.client import ServiceClient
    from tests.service.conftest import ListService

    Make = Callable[..., dict[str, Any]]

USERNAME = "ada@example.com"
API_KEY = "a&b=c/ü+%"
CREDENTIALS = {"username": USERNAME, "api_key": API_KEY}
HOSTILE = "https://evil.invalid/api/results?username=ada%40example.com&api_key=x&offset=0"


def read_results(client: ServiceClient, **filters: str) -> list[ResultRecord]:
    walk = ListWalk(partial(client.read_results, filters))
    return [record for page in iter(walk.read_page, None) for record in page.records]


def read_stats(client: ServiceClient, tag: str = "pulse-2026") -> list[StatRecord]:
    return list(client.read_stats(tag, 0).records)


def find_problem(page: Page[Any]) -> str:
    """Return what is said of the one record of a page, which cannot be read."""
    assert page.records == ()
    (unreadable,) = page.unreadable
    return unreadable.problem


def test_a_result_is_read(client: ServiceClient, service: ListService, make_result: Make) -> None:
    """A record's fields are kept as they are; its place in the survey, a text on the wire, is a number."""
    service.records = [make_result(1, question_display_order="3", origin_phone_number="+14155550199")]
    assert read_results(client, project_tag="a tag&more=1") == [
        ResultRecord(
            result_guid="result-1",
            project_launch_guid="launch-1",
            participant_phone_number="+14155550101",
            question_guid="question-1",
            question_tag="nps",
            question_text="How likely?",
            question_display_order=3,
            result_answer="10",
            result_response="9",
            created="2026-11-20T12:00:00.000001",
            updated="2026-11-20T12:00:00.000009",
        )
    ]
    asked = {"limit": "100", "offset": "0", "format": "json"}
    query = {"project_tag": "a tag&more=1", **asked, **CREDENTIALS}
    assert service.queries == [("/api/results", query)]


def test_a_stat_is_read(client: ServiceClient, service: ListService, make_stat: Make) -> None:
    """A launch is read from the list and from its own address alike; its phones are given their `+`."""
    phones = ("+14155550101", "+14155550102", "+14155550103")
    ends = (None, "OPTED_OUT", "BLOCKED")
    sessions = [
        {"to": phone.lstrip("+") if end else phone, "status": "Complete", "sub_status": end}
        for phone, end in zip(phones, ends, strict=True)
    ]
    counts = (1, 2, 3, 4, 5, 6, 7)
    expected = StatRecord(
        "launch-1",
        "2026-11-20T12:00:00.000001",
        *counts,
        "pulse-2026",
        {"text": "Hello"},
        phones,
        statuses=("COMPLETE",) * 3,
        endings=("", "OPTED_OUT", "BLOCKED"),
    )
    service.records = [make_stat(1, sessions=sessions)]
    assert read_stats(client) == [expected]
    service.answer = (200, json.dumps(make_stat(1, sessions=sessions)).encode())
    assert client.read_stat("a/../b c") == expected
    assert [path for path, _ in service.queries] == ["/api/stats/", "/api/stats/a%2F..%2Fb%20c/"]


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        ("Ça va 😀, O'Neil; \\\\ %s :b \\u0000", "Ça va 😀, O'Neil; \\\\ %s :b \\u0000"),
        ("nul\0 here", "nul\N{REPLACEMENT CHARACTER} here"),
        ("half \ud83d pair", "half \N{REPLACEMENT CHARACTER} pair"),
    ],
)
def test_characters_that_no_database_takes_are_replaced(
    client: ServiceClient, service: ListService, make_result: Make, answer: str, kept: str
) -> None:
    """An answer of any other characters is read as it is."""
    service.records = [make_result(1, result_answer=answer, result_response=answer)]
    (record,) = read_results(client)
    assert (record.result_answer, record.result_response) == (kept, kept)
    page = json.dumps({"meta": {"total_count": 1}, "objects": service.records}, ensure_ascii=False)
    service.answer = (200, page.encode(errors="surrogatepass"))
    assert read_results(client) == [record]


def test_empty_values_are_empty_texts(client: ServiceClient, service: ListService, make_result: Make) -> None:
    """A null text is an empty one; a number where a text is expected is its text."""
    service.records = [make_result(1, question_tag=None, result_answer=10)]
    (record,) = read_results(client)
    assert (record.question_tag, record.result_answer) == ("", "10")


@pytest.mark.parametrize("following", ["", None, HOSTILE, 7])
def test_pages_are_asked_for_by_offset(
    client: ServiceClient, service: ListService, make_result: Make, following: object
) -> None:
    """`next` may carry credentials, and anything else: it is never followed, and says nothing of the end."""
    service.records = [make_result(number) for number in range(250)]

    def set_next(page: dict[str, Any]) -> dict[str, Any]:
        page["meta"]["next"] = following
        return page

    service.change_page = set_next
    found = [record.result_guid for record in read_results(client)]
    assert found == [record["result_guid"] for record in service.records]
    assert [query["offset"] for _, query in service.queries] == ["0", "100", "200"]


@pytest.mark.parametrize("page_size", [1, 7, 20, 99, 100, 101])
def test_smaller_pages_than_asked_for_lose_nothing(
    client: ServiceClient, service: ListService, make_result: Make, page_size: int
) -> None:
    """The service may give less than was asked for: what it gave counts, not what was asked."""
    service.records = [make_result(number) for number in range(101)]
    service.page_size = page_size
    assert len({record.result_guid for record in read_results(client)}) == 101
    assert [int(query["offset"]) for _, query in service.queries] == list(range(0, 101, min(page_size, 100)))


def test_a_launch_that_is_not_known_is_none(client: ServiceClient, service: ListService) -> None:
    """A launch that the service doesn't know is no error, any other refusal is."""
    service.answer = (404, b"no such launch")
    assert client.read_stat("gone") is None


@pytest.mark.parametrize(
    "field", ["result_guid", "participant_phone_number", "project_launch_guid", "result_response"]
)
def test_a_result_that_lacks_a_field_is_told(
    client: ServiceClient, service: ListService, make_result: Make, field: str
) -> None:
    """A record without a field that is needed is told, with its names and no value; the others are read."""
    record = make_result(1)
    del record[field]
    service.records = [make_result(0), record, make_result(2)]
    page = client.read_results({}, 0)
    assert [found.result_guid for found in page.records] == ["result-0", "result-2"]
    guid = "" if field == "result_guid" else "result-1"
    launch = "" if field == "project_launch_guid" else "launch-1"
    problem = f"a result record of the service has no usable {field}"
    assert page.unreadable == (Unreadable(guid, launch, 1, problem),)


@pytest.mark.parametrize("value", [None, "", "first", -1, True])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_result_may_lack_what_it_is_not_known_by(
    client: ServiceClient, service: ListService, make_result: Make, value: object, *, is_there: bool
) -> None:
    """Who said what is an answer: without an order, a question's tag and text, the answer's code, or times."""
    record = make_result(1, question_display_order=value)
    for field in ("question_guid", "question_tag", "question_text", "result_answer", "created", "updated"):
        record[field] = None
        if not is_there:
            del record[field]
    service.records = [record]
    (found,) = read_results(client)
    assert (found.question_display_order, found.question_tag, found.question_text) == (None, "", "")
    assert (found.result_answer, found.result_response, found.created) == ("", record["result_response"], "")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("result_guid", None),
        ("result_guid", ""),
        ("participant_phone_number", None),
        ("result_response", None),
    ],
)
def test_a_result_of_no_name_or_nobody_is_not_read(
    client: ServiceClient, service: ListService, make_result: Make, field: str, value: object
) -> None:
    """Without a guid two would be one, without a phone all one person; what is not told may be an opt-out."""
    service.records = [make_result(1, **{field: value})]
    problem = f"a result record of the service has no usable {field}"
    assert find_problem(client.read_results({}, 0)) == problem


@pytest.mark.parametrize(
    "value", [None, "many", "1.5", [], {}, "1e400", float("inf"), True, -1, 2**31, -(2**31) - 1, 10**400]
)
def test_a_count_that_is_none_is_not_known(
    client: ServiceClient, service: ListService, make_stat: Make, value: object
) -> None:
    """What is no count, or none that a ledger can hold, is no zero, and the other counts stand."""
    service.records = [make_stat(1, num_results=value)]
    (stat,) = read_stats(client)
    assert (stat.num_results, stat.num_renders, stat.missing_counts) == (None, 6, ["num_results"])


def test_a_count_that_is_left_out_is_not_known(
    client: ServiceClient, service: ListService, make_stat: Make
) -> None:
    """The launch is there all the same, by its guid, when the service says none of its counts."""
    record = make_stat(1)
    service.records = [{name: value for name, value in record.items() if not name.startswith("num_")}]
    (stat,) = read_stats(client)
    assert stat.project_launch_guid == "launch-1"
    assert set(stat.missing_counts) == {name for name in record if name.startswith("num_")}


@pytest.mark.parametrize("guid", [None, "", 7, "a\0b", "a\ud800b", "gü", "a b", "g\n", "g" * 201])
def test_a_guid_that_is_none_is_refused(
    client: ServiceClient, service: ListService, make_stat: Make, make_result: Make, guid: object
) -> None:
    """A guid goes into records and addresses: what is not short and visible ASCII is not taken for one."""
    problem = "a {} record of the service has no usable project_launch_guid"
    service.records = [make_stat(1, project_launch_guid=guid)]
    assert find_problem(client.read_stats("pulse", 0)) == problem.format("stat")
    service.records = [make_result(1, project_launch_guid=guid)]
    assert find_problem(client.read_results({}, 0)) == problem.format("result")


@pytest.mark.parametrize(
    "written",
    [
        "+14155550101",
        "14155550101",
        14155550101,
        "+1 415 555-0101",
        "+1 (415) 555.0101",
        " 1\u00a0415\u2011555\u22120101 ",
    ],
)
def test_a_phone_is_known_however_it_is_written(
    client: ServiceClient, service: ListService, make_stat: Make, make_result: Make, written: object
) -> None:
    """Blanks, dots, dashes and brackets make it nobody else's; a result's without `+` is its digits alone."""
    service.records = [make_stat(1, sessions=[{"to": written}])]
    assert [stat.recipients for stat in read_stats(client)] == [("+14155550101",)]
    service.records = [make_result(1, participant_phone_number=written)]
    phone = "+14155550101" if str(written).startswith("+") else "14155550101"
    assert [r.participant_phone_number for r in read_results(client)] == [phone]


@pytest.mark.parametrize(
    "sessions",
    [
        [{"to": ""}],
        [{"to": None}],
        [{"to": "Ada"}],
        [{"to": "04155550101"}],
        [{"to": "+1415555010112345"}],
        [{"to": "+1415555•101"}],
        [{"to": "+1415555\ud8000101"}],
        [{"to": 14155550101.0}],
        [{"to": "+14155550102"}, {"to": "+14155550101x2"}],
        [{}],
        [None],
        7,
    ],
)
def test_a_list_of_people_who_cannot_be_told_apart_is_refused(
    client: ServiceClient, service: ListService, make_stat: Make, sessions: object
) -> None:
    """A number that is no E.164 would count as nobody's, and its owner be texted again: such a list is refused."""
    service.records = [make_stat(1, sessions=sessions)]
    with pytest.raises(ServiceError) as caught:
        list_launches(client, "pulse")
    assert caught.value.message == "a stat record of the service has no usable sessions"


@pytest.mark.parametrize("record", [None, "text", 7, [], [1]])
def test_a_record_that_is_none_is_refused(
    client: ServiceClient, service: ListService, record: object
) -> None:
    """Something else in a list is told in words."""
    service.records = [record]
    problem = "a stat record of the service has no usable project_launch_guid"
    assert find_problem(client.read_stats("pulse", 0)) == problem


@pytest.mark.parametrize(
    ("page", "field"),
    [
        ({}, "objects"),
        ({"meta": {"total_count": 1}}, "objects"),
        ({"meta": {"total_count": 1}, "objects": None}, "objects"),
        ({"meta": {"total_count": 1}, "objects": "text"}, "objects"),
        ({"meta": {"total_count": 1}, "objects": {"a": 1}}, "objects"),
        ({"meta": [], "objects": []}, "meta"),
        ({"meta": "text", "objects": []}, "meta"),
        ({"meta": {"total_count": "many"}, "objects": []}, "meta.total_count"),
        ({"meta": {"total_count": [1]}, "objects": []}, "meta.total_count"),
        ({"meta": {"total_count": float("inf")}, "objects": []}, "meta.total_count"),
    ],
)
def test_a_page_that_is_none_is_refused(
    client: ServiceClient, service: ListService, page: dict[str, Any], field: str
) -> None:
    """An envelope without a list, or with a length that is none, is an error that names request and field."""
    service.change_page = lambda _: page
    with pytest.raises(ServiceError) as caught:
        client.read_stats("pulse", 0)
    assert caught.value.message == f"the service's answer to GET /api/stats/ has no usable {field}"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"\xff", b'{"a":', b"[" * 100_000])
def test_an_answer_that_is_no_object_is_refused(
    client: ServiceClient, service: ListService, body: bytes
) -> None:
    """A 200 that is no JSON object is an error in words."""
    service.answer = (200, body)
    with pytest.raises(ServiceError) as caught:
        client.read_stat("g")
    assert caught.value.message == "the service's answer to GET /api/stats/g/ is not a JSON object"


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "check the username and the API key"),
        (403, "check the username and the API key"),
        (302, None),
        (404, None),
        (500, None),
    ],
)
def test_a_refused_read_is_an_error(
    client: ServiceClient, service: ListService, status: int, hint: str | None
) -> None:
    """Any other status than 200 is an error, told without credentials and phone numbers."""
    echo = f"bad key {API_KEY} ({quote_plus(API_KEY)}) of {USERNAME}, call +14155550101"
    service.answer = (status, echo.encode())
    with pytest.raises(ServiceError) as caught:
        client.read_results({}, 0)
    assert caught.value.message == (
        f"the service refuses GET /api/results: HTTP {status}: bad key ••• (•••) of •••, call •••"
    )
    assert caught.value.hint == hint
    assert API_KEY not in "".join(traceback.format_exception(caught.value))
    assert len(service.queries) == (4 if status == 500 else 1)


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
_PAGES = st.fixed_dictionaries(
    {}, optional={"meta": st.fixed_dictionaries({"total_count": st.just(1) | _VALUES}), "objects": _VALUES}
)


@pytest.mark.slow
@given(answer=_PAGES | _VALUES)
def test_no_answer_is_a_bug_of_the_client(
    client: ServiceClient, service: ListService, answer: object
) -> None:
    """Whatever JSON the service answers is read, or refused as a ServiceError."""
    service.answer = (200, json.dumps(answer).encode())
    with suppress(ServiceError):
        client.read_results({}, 0)
