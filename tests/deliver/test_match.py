"""Which of the service's launches is ours, decided on lists alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.delivery.comparison import (
    Candidate,
    digest_definition,
    is_same_definition,
    judge_launches,
)
from runner.ledger.fingerprint import TargetKey
from runner.ledger.model import Unsettled, write_moment
from runner.ledger.record.unsettled import Claim
from runner.service.model import StatRecord
from tests.keys import STATE_KEY

KEY = TargetKey.of("live", STATE_KEY)
TEXT = {"tag": "t", "text": "Hi"}


def make_launch(
    number: int = 1, recipients: str = "ab", definition: dict[str, Any] | None = None
) -> Unsettled:
    """Return an unsettled launch; each letter of `recipients` is one."""
    return Unsettled(
        id=number,
        message="m",
        key=f"k{number}",
        tag="t",
        definition=definition or TEXT,
        recipients=frozenset(recipients),
        intent_at="2026-12-01T09:00:00.000000Z",
        detail=None,
    )


def make_candidate(
    guid: str,
    recipients: str = "ab",
    definition: dict[str, Any] | None = None,
    start: str = "2026-12-01T09:00:01.5",
    tag: str = "t",
) -> Candidate:
    """Return a launch that the service lists."""
    counts = dict.fromkeys(("active_sessions", "complete_sessions", "messages", "questions"), 0)
    counts |= dict.fromkeys(("queued_sessions", "renders", "results"), 0)
    stat = StatRecord(
        project_launch_guid=guid,
        project_launch_start=start,
        **{f"num_{name}": value for name, value in counts.items()},  # type: ignore[arg-type]
        project_tag=tag,
        project_definition={**TEXT, "tag": tag} if definition is None else definition,
        recipients=tuple(recipients),
    )
    return Candidate(stat, frozenset(recipients), KEY)


def judge(launch: Unsettled, *candidates: Candidate) -> tuple[str | None, list[str]]:
    """Return the guid that is adopted and those that are doubtful."""
    (verdict,) = judge_launches([launch], candidates)
    match = verdict.match.stat.project_launch_guid if verdict.match else None
    return match, [candidate.stat.project_launch_guid for candidate in verdict.doubtful]


def test_the_same_text_to_the_same_people_is_adopted() -> None:
    """One listed launch with the definition and the recipients of ours is ours, among others that aren't."""
    strangers = make_candidate("other", "cd"), make_candidate("text", "xy", {"text": "Hi"})
    assert judge(make_launch(), make_candidate("ours"), *strangers) == ("ours", [])


@pytest.mark.parametrize(
    ("start", "found"),
    [("2026-12-01T08:55:00", ("one", [])), ("2026-11-01T09:00:01", (None, ["one"])), ("?", (None, ["one"]))],
)
def test_a_launch_on_an_occasion_is_none_from_before(start: str, found: tuple[str | None, list[str]]) -> None:
    """The same words went to the same people for an earlier date: whose launch that is, a person decides."""
    assert judge(make_launch(), make_candidate("one", start=start)) == ("one", [])
    dated = replace(make_launch(), occasion="date:0123456789abcdef0123")
    assert judge(dated, make_candidate("one", start=start)) == found


def test_nothing_listed_is_absent() -> None:
    """A launch none of whose recipients is in a listed one is absent."""
    (verdict,) = judge_launches([make_launch()], [make_candidate("other", "cd", {"text": "Bye"})])
    assert verdict.is_absent


def test_a_part_of_the_recipients_is_held() -> None:
    """A launch that reached only some of the recipients, or more than these, is for a person to decide."""
    assert judge(make_launch(), make_candidate("part", "a")) == (None, ["part"])
    assert judge(make_launch(), make_candidate("more", "abc")) == (None, ["more"])


def test_several_matches_are_held() -> None:
    """Two listed launches that both fit are for a person to decide."""
    assert judge(make_launch(), make_candidate("one"), make_candidate("two")) == (None, ["one", "two"])


@pytest.mark.parametrize("start", ["2026-12-01T09:00:01.000000", "2026-12-01T08:00:00.000000", "yesterday"])
def test_another_text_to_the_same_people_is_held(start: str) -> None:
    """A service may write a definition another way: what has reached these people counts, whatever its clock says."""
    other = make_candidate("other", definition={"text": "Hi there"}, start=start)
    assert judge(make_launch(), other) == (None, ["other"])


def test_clocks_do_not_matter_for_what_is_the_same() -> None:
    """The very text to the very people is ours whenever the service says that it began."""
    assert judge(make_launch(), make_candidate("ours", start="2026-11-30T00:00:00")) == ("ours", [])


def test_a_match_of_another_launch_is_no_candidate() -> None:
    """Two messages to the same people under one tag: each finds its own."""
    first, second = make_launch(1), make_launch(2, definition={"text": "Bye"})
    listed = [make_candidate("bye", definition={"text": "Bye"}), make_candidate("hi")]
    verdicts = judge_launches([first, second], listed)
    assert [v.match.stat.project_launch_guid if v.match else None for v in verdicts] == ["hi", "bye"]


def test_defaults_and_tags_may_be_missing() -> None:
    """A definition is the same with or without its tag, its phones, and fields at their defaults."""
    assert is_same_definition(
        {"tag": "t", "text": "Hi"},
        {
            "text": "Hi",
            "method": "SMS",
            "complete_existing_sessions": False,
            "introduction": None,
            "phone": [],
        },
    )
    assert not is_same_definition({"text": "Hi"}, {"text": "Hi", "method": "VOICE"})


def test_a_tag_may_come_back_in_another_case() -> None:
    """A service that lists `Tag-C` as `tag-c` lists the same tag."""
    assert judge(make_launch(), make_candidate("ours", tag="T")) == ("ours", [])


def test_a_launch_of_another_tag_is_another_messages() -> None:
    """Of two messages with one text to the same people, each is known by its tag: neither adopts the other's."""
    assert judge(make_launch(), make_candidate("friday", tag="w2")) == (None, [])
    assert judge(make_launch(), make_candidate("friday", "a", tag="w2")) == (None, [])
    assert judge(make_launch(), make_candidate("friday", tag="w2"), make_candidate("monday")) == (
        "monday",
        [],
    )


def test_a_launch_that_may_have_reached_anybody_is_held() -> None:
    """A launch whose sessions are not listed may be anybody's, whatever its text."""
    assert judge(make_launch(), make_candidate("untold", "")) == (None, ["untold"])
    assert judge(make_launch(), make_candidate("untold", "", {"text": "Bye"})) == (None, ["untold"])
    assert judge(make_launch(), make_candidate("untold", ""), make_candidate("ours")) == ("ours", [])


@pytest.mark.parametrize(
    ("ours", "listed"),
    [
        (
            {"questions": [{"text": "Why?"}]},
            {"text": "", "questions": [{"text": "Why?"}], "introduction": ""},
        ),
        ({"text": "Hi"}, {"text": "Hi", "questions": [], "conclusion": None}),
        ({"text": "Hi\r\nyou "}, {"text": " Hi\nyou"}),
        ({"text": "Caf\u00e9"}, {"text": "Cafe\u0301"}),
        ({"text": "Hi", "method": "SMS"}, {"text": "Hi", "method": "sms"}),
        (
            {"questions": [{"text": "Why?", "responses": ["Red", "Blue "]}]},
            {"questions": [{"text": "Why?", "tag": "", "responses": ["Red", "Blue"], "webhook": ""}]},
        ),
    ],
)
def test_what_a_service_has_no_reason_to_keep_makes_no_difference(
    ours: dict[str, Any], listed: dict[str, Any]
) -> None:
    """Empty values, letters composed in two ways, line ends and outer blanks say the same."""
    assert is_same_definition(ours, listed)
    assert digest_definition(ours, KEY) == digest_definition(listed, KEY)


@pytest.mark.parametrize(
    "listed",
    [{"text": "Don\u2019t"}, {"text": "don't"}, {"text": "Don't  go"}, {"text": "Don't", "conclusion": "!"}],
)
def test_what_reads_otherwise_is_another_text(listed: dict[str, Any]) -> None:
    """Quotes made smart, another case, blanks within and a further field are a difference."""
    assert not is_same_definition({"text": "Don't"}, listed)


@pytest.mark.parametrize(
    ("listed", "is_same"),
    [
        ({"text": "Why?", "tag": "q", "conclude_on": None, "webhook": None}, True),
        ({"text": "Why?", "tag": "q", "responses": ["a", {"x": None}], "conclude_on": None}, False),
        ({"text": "Why?", "tag": "q", "guid": "7c0e", "method": "SMS"}, True),
        ({"text": "Why?", "tag": "q", "webhook": "https://example.com"}, False),
    ],
)
def test_what_the_service_adds_makes_no_difference(
    listed: dict[str, Any],
    is_same: bool,  # noqa: FBT001  a column of the table
) -> None:
    """Nulls and fields that nobody can send are the service's own; what can be sent must be the same."""
    ours = {"text": "Hi", "questions": [{"text": "Why?", "tag": "q"}]}
    assert (
        is_same_definition(
            ours, {"text": "Hi", "conclusion": None, "created": "today", "questions": [listed]}
        )
        == is_same
    )


@pytest.mark.parametrize(
    ("started", "written"),
    [
        ("2026-12-01T09:00:01.5", "2026-12-01T09:00:01.500000Z"),
        ("2026-12-01T09:00:01Z", "2026-12-01T09:00:01.000000Z"),
        ("2026-12-01T11:00:01.5+02:00", "2026-12-01T09:00:01.500000Z"),
        ("0001-01-01T00:00:00+14:00", "otherwise"),
        ("yesterday", "otherwise"),
        ("", "otherwise"),
    ],
)
def test_moments_are_written_in_utc(started: str, written: str) -> None:
    """Records have UTC, whichever offset the service writes."""
    assert write_moment(started, "otherwise") == written


OWN, OTHER = 1, 2


@pytest.mark.parametrize(
    ("claim", "doubtful"),
    [
        (Claim(7, OWN, is_adopted=False, people=frozenset("ab")), []),
        (Claim(7, OWN, is_adopted=False, people=frozenset("abc")), ["mine"]),
        (Claim(7, OWN, is_adopted=False, people=frozenset("cd")), ["mine"]),
        (Claim(7, OTHER, is_adopted=False, people=frozenset("12")), []),
        (Claim(7, OTHER, is_adopted=False, people=frozenset("1")), ["mine"]),
    ],
)
def test_a_launch_on_record_is_nobody_elses(claim: Claim, doubtful: list[str]) -> None:
    """What a record claims is somebody's already; who would claim it too is held, unless it is listed as recorded."""
    (verdict,) = judge_launches([make_launch()], [make_candidate("mine")], {"mine": claim}, OWN)
    assert (verdict.match, [c.guid for c in verdict.doubtful]) == (None, doubtful)


@pytest.mark.parametrize("is_adopted", [True, False])
def test_only_what_a_list_told_is_doubted_by_a_list(is_adopted: bool) -> None:  # noqa: FBT001  a column
    """A launch that was found in a list, and is listed with more people now, may be one to more people."""
    claim = Claim(7, OWN, is_adopted=is_adopted, people=frozenset("a"))
    (verdict,) = judge_launches([make_launch(1, "abc")], [make_candidate("g", "ab")], {"g": claim}, OWN)
    assert verdict.is_absent != is_adopted


def test_a_list_that_may_lack_sessions_adopts_nothing() -> None:
    """Of two launches in the same words, to A and to A and B, one that is listed for A may be either."""
    verdicts = judge_launches([make_launch(1, "a"), make_launch(2, "ab")], [make_candidate("g", "a")])
    assert [[c.guid for c in v.doubtful] for v in verdicts] == [["g"], ["g"]]


@pytest.mark.parametrize(
    ("definition", "other", "is_absent"),
    [(TEXT, "xy", False), ({"text": "Bye"}, "xy", True), ({"text": "Bye"}, "v", False)],
)
def test_people_who_match_nobody_may_be_ours_in_another_form(
    definition: dict[str, Any],
    other: str,
    is_absent: bool,  # noqa: FBT001  a column of the table
) -> None:
    """The same words to strangers may be ours; so may others, where a launch on record is listed with strangers."""
    listed = [make_candidate("strange", "yz", definition), make_candidate("known", other)]
    claims = {"known": Claim(7, OWN, is_adopted=False, people=frozenset("x"))}
    (verdict,) = judge_launches([make_launch()], listed, claims, OWN)
    assert verdict.is_absent == is_absent


@pytest.mark.parametrize(
    ("project_tag", "own", "match"), [("", "t", "g"), ("", None, None), ("T ", None, "g"), ("w2", "t", None)]
)
def test_a_launch_without_its_tag_has_its_definitions(
    project_tag: str, own: str | None, match: str | None
) -> None:
    """A launch is known by its tag, or by its definition's; without any it may be one of any tag."""
    definition = {"text": "Hi"} | ({} if own is None else {"tag": own})
    found, doubtful = judge(make_launch(), make_candidate("g", definition=definition, tag=project_tag))
    assert (found, doubtful) == (match, [] if match else ["g"])


def test_launches_that_are_alike_are_interchangeable() -> None:
    """Of two launches of the same text to the same people, as many were sent as are listed."""
    launches = [make_launch(1), make_launch(2)]
    one = judge_launches(launches, [make_candidate("g1")])
    assert [v.match.stat.project_launch_guid if v.match else None for v in one] == ["g1", None]
    assert one[1].is_absent
    two = judge_launches(launches, [make_candidate("g1"), make_candidate("g2")])
    assert [v.match.stat.project_launch_guid if v.match else None for v in two] == ["g1", "g2"]
    three = judge_launches(launches, [make_candidate(f"g{n}") for n in range(3)])
    assert [len(v.doubtful) for v in three] == [3, 3]


RECIPIENTS = st.text("abcdef", min_size=1, max_size=4)
LISTED = st.lists(st.tuples(RECIPIENTS, st.sampled_from(["Hi", "Bye"])), max_size=6)


@pytest.mark.slow
@given(
    launches=st.lists(st.tuples(RECIPIENTS, st.sampled_from(["Hi", "Bye"])), min_size=1, max_size=4),
    listed=LISTED,
)
def test_what_is_listed_is_adopted_once_and_what_is_absent_is_not_listed(
    launches: list[tuple[str, str]], listed: list[tuple[str, str]]
) -> None:
    """Whatever is listed: a guid is adopted once and by its like, and who is absent was reached by nothing left."""
    unsettled = [make_launch(n, people, {"text": text}) for n, (people, text) in enumerate(launches)]
    candidates = [make_candidate(f"g{n}", people, {"text": text}) for n, (people, text) in enumerate(listed)]
    verdicts = judge_launches(unsettled, candidates)
    adopted = [v.match.stat.project_launch_guid for v in verdicts if v.match]
    assert len(adopted) == len(set(adopted))
    for verdict in verdicts:
        launch = verdict.launch
        if verdict.match:
            assert verdict.match.recipients == launch.recipients
            assert verdict.match.stat.project_definition == launch.definition
        if verdict.is_absent:
            left = [c for c in candidates if c.stat.project_launch_guid not in adopted]
            assert not [
                c
                for c in left
                if c.recipients == launch.recipients and c.stat.project_definition == launch.definition
            ]
