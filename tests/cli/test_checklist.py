"""What a target's issue lists, and what of it is new, over the jobs of many runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.ledger.people.replies import ListedReply
from runner.ledger.record.unsettled import HeldCount
from runner.workflow.review.checklist import (
    Checklist,
    FailedJob,
    Sight,
    list_items,
    update_checklist,
    write_checklist,
)
from runner.workflow.review.publishing import IssuePlace, write_page

OUTCOMES = st.sampled_from(["success", "failure", "cancelled", None])
PAGE = "https://github.example/1"


def see(
    job: str = "send",
    run: str = "1",
    outcome: Any = None,
    *,
    held: int = 0,
    replies: int = 0,
    gap: str = "",
) -> Sight:
    counts = (HeldCount("pulse", "ask", held),) if held else ()
    queue = tuple(ListedReply(f"r{n}", "2026-11-20T12:00:00Z", "opt_out", 1) for n in range(replies))
    return Sight("live", job, run, outcome, counts, gap, queue, gap)


def find_news(before: Checklist, now: Checklist) -> list[str]:
    return [item.title for item in list_items(before, now, see(), IssuePlace()) if item.is_new]


def test_what_is_not_known_stays_as_it_was() -> None:
    """A gap takes nothing away, and hides nothing that is seen in spite of it."""
    before = Checklist({}, 5, 2)
    assert update_checklist(before, see(gap="unreachable")) == before
    seen = update_checklist(before, see(gap="unreachable", held=7, replies=3))
    assert (seen.held, seen.replies) == (7, 3)
    assert update_checklist(before, see()) == Checklist()


def test_a_run_that_ended_badly_is_forgotten_after_a_good_one_alone() -> None:
    """The failing job's own success ends it, another job's only in a run after the next."""
    failed = update_checklist(Checklist(), see(run="1", outcome="failure"))
    assert list(failed.jobs) == ["send"]
    assert update_checklist(failed, see("plan", "1", "success")) == failed
    later = update_checklist(failed, see("plan", "2", "success"))
    assert later.jobs["send"].later == "2"
    assert update_checklist(later, see("plan", "2", "success")) == later
    assert update_checklist(later, see("plan", "3", "success")) == Checklist()
    assert update_checklist(failed, see(run="2", outcome="success")) == Checklist()
    assert update_checklist(later, see()) == later
    again = update_checklist(later, see(run="2", outcome="failure"), PAGE)
    assert again.jobs == {"send": FailedJob("2", "failure", PAGE)}


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (Checklist(), Checklist(held=1), ["people are held"]),
        (Checklist(held=1), Checklist(held=2), ["people are held"]),
        (Checklist(held=2, replies=2), Checklist(held=1, replies=2), []),
        (Checklist(replies=1), Checklist(replies=2), ["replies wait for a decision"]),
        (
            Checklist({"a": FailedJob("1", "failure")}),
            Checklist({"b": FailedJob("2", "failure")}, denied_by=("ada",)),
            ["a plan was denied"],
        ),
        (Checklist(held=2), Checklist({"b": FailedJob("2", "failure")}), ["a run failed"]),
    ],
)
def test_more_and_other_trouble_is_news(before: Checklist, now: Checklist, expected: list[str]) -> None:
    """People hear of a new item and of more people or replies, and not of the same every hour."""
    assert find_news(before, now) == expected


@given(st.lists(st.tuples(st.sampled_from(["plan", "send"]), OUTCOMES, st.integers(0, 9)), max_size=12))
def test_what_is_left_to_do_is_read_again(steps: list[tuple[str, Any, int]]) -> None:
    """The checklist goes through JSON and back as it is, after whatever has happened."""
    now = Checklist()
    for number, (job, outcome, held) in enumerate(steps):
        now = update_checklist(now, see(job, str(number // 2), outcome, held=held, replies=held))
        assert Checklist.read(json.loads(json.dumps(now.as_json()))) == now


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("failure"),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["jobs", "held", "replies", "denied_by", "x"]), inner)
        ),
        max_leaves=12,
    )
)
def test_a_state_that_somebody_edited_is_survived(data: Any) -> None:
    """Whatever stands there is read without an error, and can be written about."""
    before = Checklist.read(data if isinstance(data, dict) else {"jobs": data})
    now = update_checklist(before, see(outcome="failure", gap="x"))
    items = list_items(before, now, see(), IssuePlace())
    assert write_checklist("live", items, IssuePlace()).fit(60_000, len, "…")[1] == 0


@pytest.mark.parametrize(
    "url", ["", "javascript:alert(1)", "https://x/) [y](http://z", "https://x/<b>", "https://x/ y"]
)
def test_what_could_end_a_link_is_none(url: str) -> None:
    """An address that is none, or that has brackets in it, is left out."""
    assert write_page("the run", url) == ""
    assert (
        write_page("the run", "https://forge.example/a/b?c=1#d")
        == "[the run](https://forge.example/a/b?c=1#d)"
    )
