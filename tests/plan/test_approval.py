"""Approvals: a plan within one is covered, anything beyond is not, in whatever order files were united."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec.structs import replace

from runner.ledger.files.comparison import Secrets, complete_file, unite_files
from runner.ledger.files.suppressions import (
    Amount,
    Approval,
    ApprovalRequest,
    ApprovedCost,
    read_approvals,
    seal_book,
    settle,
)
from runner.ledger.fingerprint import TargetKey
from runner.plan.approval import find_gap, seal_plan
from runner.plan.digest import digest_reviewed
from runner.source.json_schema import schema_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.campaign.model import Campaign

KEY = TargetKey.of("live", "a-state-key-for-tests-Xq3v9LrT0bWc")
OTHER_KEY = TargetKey.of("live", "another-key-for-tests-Zp7k2MsY5dUe")
PLACE: dict[str, Any] = {
    "address": "https://sms.example",
    "insecure": False,
    "rate": None,
    "read_timeout": 30.0,
}
REVIEWED = {"campaign": "c" * 32, "included": "1" * 32, "audience": "a" * 32}
REQUEST = ApprovalRequest("pulse", "live", PLACE, REVIEWED, {"ask": Amount(100, 2), "nudge": Amount(80, 1)})
APPROVAL = Approval(REQUEST, "0f" * 16, "2026-11-22T10:00:00Z", ("ada", "bo"), "https://ci.example/42")
BOTH = ("ask", "nudge")
FILE = Path("live.approvals.json")


def write_file(*approvals: Approval) -> str:
    """Return the text of a file with these approvals."""
    return "".join(seal_book(KEY, settle(approvals)))


def ask_for(recipients: int = 100, segments: int | None = 2, **changes: Any) -> ApprovalRequest:
    """Return a request in which the message `ask` goes so far, with other changes."""
    return replace(REQUEST, messages={**REQUEST.messages, "ask": Amount(recipients, segments)}, **changes)


@pytest.mark.parametrize(
    ("request_", "gap"),
    [
        (ask_for(), None),
        (ask_for(99, 1), None),
        (ask_for(100, None), None),
        (ask_for(101), "`ask`: 1 recipient more than were approved"),
        (ask_for(1112), "`ask`: 1,012 recipients more than were approved"),
        (ask_for(100, 3), "`ask`: texts of 3 segments, and 2 were approved"),
        (ask_for(campaign="other"), "nothing was approved yet"),
        (ask_for(target="staging"), "nothing was approved yet"),
        (
            ask_for(destination={**PLACE, "address": "https://other.example", "insecure": True}),
            "it goes elsewhere than was approved: address, insecure changed",
        ),
        (
            ask_for(reviewed={**REVIEWED, "campaign": "d" * 32}),
            "the campaign file has changed since it was approved",
        ),
        (
            ask_for(reviewed={**REVIEWED, "included": "d" * 32}),
            "a text that it includes has changed since it was approved",
        ),
        (
            ask_for(reviewed={**REVIEWED, "audience": "d" * 32}),
            "its audience has changed since it was approved",
        ),
    ],
)
def test_a_gap_is_named(request_: ApprovalRequest, gap: str | None) -> None:
    """What goes beyond an approval is said in one line; what is said of all messages is said once."""
    assert find_gap(request_, [APPROVAL], BOTH) == gap


def test_each_message_needs_an_approval() -> None:
    """A message that was not in the plan that people saw is not covered by those that were."""
    more = replace(REQUEST, messages={**REQUEST.messages, "thanks": Amount(1, 1)})
    assert find_gap(more, [APPROVAL], [*BOTH, "thanks"]) == "`thanks` was not approved yet"
    assert find_gap(more, [APPROVAL], BOTH) is None
    assert find_gap(more, [], []) is None


def test_only_the_latest_approval_counts() -> None:
    """A text that was edited and edited back is another decision than the first: it needs an approval."""
    edited = ask_for(reviewed={**REVIEWED, "campaign": "d" * 32})
    later = replace(APPROVAL, request=edited, at="2026-11-23T10:00:00Z")
    words = "the campaign file has changed since it was approved"
    for approvals in ([APPROVAL, later], [later, APPROVAL]):
        assert find_gap(REQUEST, approvals, BOTH) == words
        assert find_gap(edited, approvals, BOTH) is None


def test_an_approval_of_one_message_leaves_the_others_theirs() -> None:
    """A plan of one message alone takes nothing from what was approved of the others."""
    alone = replace(APPROVAL, request=replace(REQUEST, messages={"nudge": Amount(90, 1)}), at="2027")
    assert (
        find_gap(
            replace(REQUEST, messages={**REQUEST.messages, "nudge": Amount(90, 1)}), [APPROVAL, alone], BOTH
        )
        is None
    )


MOMENTS = st.sampled_from([f"2026-11-22T{hour:02}:00:00Z" for hour in range(10, 14)])
AMOUNTS = st.dictionaries(
    st.sampled_from(["ask", "nudge", "thanks"]),
    st.builds(Amount, st.integers(0, 6), st.none() | st.integers(1, 3)),
    min_size=1,
)
REQUESTS = st.builds(
    ApprovalRequest,
    campaign=st.sampled_from(["pulse", "pulse", "news"]),
    target=st.just("live"),
    destination=st.just(PLACE),
    reviewed=st.sampled_from([REVIEWED, REVIEWED, {**REVIEWED, "audience": "b" * 32}]),
    messages=AMOUNTS,
)
APPROVALS = st.lists(
    st.builds(Approval, REQUESTS, st.just("0f" * 16), MOMENTS, st.just(("ada",))),
    max_size=8,
    unique_by=lambda one: one.identity,
)


def is_within(asked: ApprovalRequest, approvals: list[Approval]) -> bool:
    """Return, plainly and slowly, whether the latest approval of each message allows it."""
    for message, amount in asked.messages.items():
        own = [
            one
            for one in approvals
            if one.request.campaign == asked.campaign and message in one.request.messages
        ]
        if not own:
            return False
        latest = max(own, key=lambda one: one.at)
        given = latest.request.messages[message]
        if latest.request.reviewed != asked.reviewed or amount.recipients > given.recipients:
            return False
        if amount.segments is not None and given.segments is not None and amount.segments > given.segments:
            return False
    return True


@given(asked=REQUESTS, approvals=APPROVALS, data=st.data())
def test_what_is_within_is_covered_in_any_order(
    asked: ApprovalRequest, approvals: list[Approval], data: Any
) -> None:
    """Files are united in any order, in any groups, twice: the same is covered, and nothing more."""
    times = [(one.request.campaign, one.at) for one in approvals]
    assume(len(set(times)) == len(times))
    text = write_file()
    for one in data.draw(st.permutations([*approvals, *approvals[:2]])):
        ours, theirs = data.draw(st.permutations([text, write_file(one)]))
        text = unite_files(FILE, ours, theirs, lambda: Secrets(None))
    believed, doubtful = read_approvals(FILE, text, KEY)
    assert ({one.identity for one in believed}, doubtful) == ({one.identity for one in approvals}, 0)
    assert (find_gap(asked, believed, asked.messages) is None) == is_within(asked, approvals)
    assert text == write_file(*approvals)
    for kept in (text, write_file(*approvals[1:])):
        is_complete = complete_file(FILE, kept, text, lambda: Secrets(None)) == kept
        assert is_complete == (kept == text)


def test_the_file_is_as_its_schema_says() -> None:
    """One approval is one line, with all that is known of it."""
    later = replace(APPROVAL, at="2026-11-23T10:00:00Z")
    text = write_file(later, APPROVAL)
    Draft202012Validator(json.loads(schema_text("approvals"))).validate(json.loads(text))
    assert [line.count('"at"') for line in text.splitlines()] == [0, 0, 1, 1, 0, 0, 0, 0, 0]


def test_a_file_that_git_has_merged_is_read() -> None:
    """Markers of a conflict hide no approval."""
    ours = write_file(APPROVAL)
    theirs = write_file(replace(APPROVAL, at="2027-01-01T00:00:00Z"))
    merged = f"<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> theirs\n"
    assert len(read_approvals(FILE, merged, KEY)[0]) == 2
    assert unite_files(FILE, merged, merged, lambda: Secrets(None)) == unite_files(
        FILE, theirs, ours, lambda: Secrets(None)
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"campaign":"pulse"', '"campaign":"news"'),
        ('"recipients":100', '"recipients":101'),
        ("https://sms.example", "https://other.example"),
        ('"plan_digest":"0f', '"plan_digest":"1f'),
        ('"at":"2026', '"at":"2027'),
        ('"bo"', '"mallory"'),
        ("ci.example", "other.example"),
        ('"seal":"', '"seal":"0'),
    ],
)
def test_a_forged_approval_is_not_believed(old: str, new: str) -> None:
    """Each field is under the seal: one that was edited counts for nothing."""
    text = write_file(APPROVAL)
    assert old in text
    assert read_approvals(FILE, text.replace(old, new), KEY) == ((), 1)


def test_another_key_or_target_believes_nothing() -> None:
    """An approval counts with the key and target that it was sealed for; a plan's own digests are no seals."""
    text = write_file(APPROVAL)
    assert read_approvals(FILE, text, OTHER_KEY) == ((), 1)
    assert read_approvals(FILE, text, TargetKey.of("staging", "a-state-key-for-tests-Xq3v9LrT0bWc")) == (
        (),
        1,
    )
    assert seal_plan(KEY, PLACE, "0f" * 16) != seal_plan(KEY, PLACE, "1f" * 16)
    assert seal_plan(KEY, PLACE, "0f" * 16) != seal_plan(OTHER_KEY, PLACE, "0f" * 16)


YAML = """\
version: 1
name: pulse
recipients:
  - csv: people.csv
exclude:
  - csv: out.csv
messages:
  - {id: ask, text: "{% include 'footer.txt' %}"}
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("campaign.yaml", "id: ask", "id: ask2", {"campaign"}),
        ("campaign.yaml", "version: 1", "version: 1 # one", set()),
        ("campaign.yaml", "version: 1", "version: 1\ntitle: Our pulse\nreport: {comments: true}", set()),
        ("footer.txt", "Hello", "Goodbye", {"included"}),
        ("inner.txt", "STOP", "END", {"included"}),
        ("people.csv", "+14155550102", "+14155550103", {"audience"}),
        ("people.csv", "Bo", "Bob", {"audience"}),
        ("out.csv", "+14155550109", "+14155550108", {"audience"}),
    ],
)
def test_what_is_reviewed_is_in_a_digest(
    campaign: Callable[..., Campaign], tmp_path: Path, file: str, old: str, new: str, changed: set[str]
) -> None:
    """Another word, in an included text too, and another person, be it the same number of them, is a change.

    Comments, and what only reports read, are none.
    """
    (tmp_path / "footer.txt").write_text("Hello {% include 'inner.txt' %}", encoding="utf-8")
    (tmp_path / "inner.txt").write_text("Reply STOP to end", encoding="utf-8")
    people = "phone,name\n+14155550101,Ada\n+14155550102,Bo\n"
    before = digest_reviewed(campaign(YAML, people=people, out="phone\n+14155550109\n"), KEY)
    assert before == digest_reviewed(campaign(YAML, people=people, out="phone\n+14155550109\n"), KEY)
    text = (tmp_path / file).read_text(encoding="utf-8")
    assert old in text
    yaml = YAML.replace(old, new) if file == "campaign.yaml" else YAML
    loaded = campaign(yaml, people=people, out="phone\n+14155550109\n")
    (tmp_path / file).write_text(text.replace(old, new), encoding="utf-8")
    after = digest_reviewed(loaded, KEY)
    assert {name for name in before if before[name] != after[name]} == changed
    assert set(before.values()).isdisjoint(digest_reviewed(loaded, OTHER_KEY).values())


@pytest.mark.parametrize(
    ("approved", "asked", "gap"),
    [
        (ApprovedCost("10.5", "USD"), ApprovedCost("10.50", "USD"), None),
        (
            ApprovedCost("10.5", "USD"),
            ApprovedCost("10.51", "USD"),
            "it could cost 10.51 USD, and 10.50 USD was approved",
        ),
        (
            ApprovedCost("10.5", "USD"),
            ApprovedCost("9", "EUR"),
            "it could cost 9.00 EUR, and 10.50 USD was approved",
        ),
        (
            ApprovedCost("10.5", "USD"),
            None,
            "what it costs is not known any more, and 10.50 USD was approved",
        ),
        (
            None,
            ApprovedCost("10.51", "USD"),
            "it could cost 10.51 USD, and no cost was approved",
        ),
        (None, ApprovedCost("0", "USD"), None),
        (None, None, None),
    ],
)
def test_approval_covers_its_cost(
    approved: ApprovedCost | None, asked: ApprovedCost | None, gap: str | None
) -> None:
    """A plan that costs more than was approved, or whose cost nobody saw, needs a new approval."""
    earlier = replace(APPROVAL, request=replace(REQUEST, cost=approved))
    assert find_gap(replace(REQUEST, cost=asked), [earlier], BOTH) == gap
