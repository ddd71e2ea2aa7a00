"""What counts as wrong, and as news, over the jobs of many runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.git.recording import WaitingCommit
from runner.ledger.record.unsettled import HeldCount
from runner.workflow.review.publishing import IssuePlace, write_page
from runner.workflow.review.troubles import (
    FailedJob,
    HeldPeople,
    Sight,
    Troubles,
    WaitingRecord,
    find_troubles,
    is_worse,
    read_troubles,
    write_alert,
)

COMMIT = WaitingCommit("c" * 40, "2026-11-20T12:00:00+01:00", "Record 2 texts")
OUTCOMES = st.sampled_from(["success", "failure", "cancelled", None])


def see(
    job: str = "send",
    run: str = "1",
    outcome: Any = None,
    *,
    held: int = 0,
    gap: str = "",
    waits: bool = False,
) -> Sight:
    counts = (HeldCount("pulse", "ask", 1, held),) if held else ()
    record = WaitingRecord((COMMIT,) if waits else (), "main", gap)
    return Sight("live", job, run, f"https://forge.example/{run}", outcome, HeldPeople(counts, gap), record)


def test_what_is_not_known_stays_as_it_was() -> None:
    """A gap takes nothing away, and hides nothing that is seen in spite of it."""
    before = Troubles((), 5, is_waiting=True)
    assert find_troubles(before, see(gap="unreachable")) == before
    assert find_troubles(before, see(gap="unreachable", held=7)).held == 7
    assert not find_troubles(before, see()).is_any


def test_a_run_that_ended_badly_is_forgotten_after_a_good_one_alone() -> None:
    """The failing job's own success ends it, another job's only in a run after the next."""
    failed = find_troubles(Troubles(), see(run="1", outcome="failure"))
    assert [job.name for job in failed.jobs] == ["send"]
    assert find_troubles(failed, see("plan", "1", "success")) == failed
    later = find_troubles(failed, see("plan", "2", "success"))
    assert later.jobs[0].later == "2"
    assert find_troubles(later, see("plan", "2", "success")) == later
    assert not find_troubles(later, see("plan", "3", "success")).is_any
    assert not find_troubles(failed, see(run="2", outcome="success")).is_any
    assert find_troubles(later, see()) == later
    again = find_troubles(later, see(run="2", outcome="failure"))
    assert again.jobs == (FailedJob("send", "2", "failure", "https://forge.example/2"),)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (Troubles(), Troubles(held=1), True),
        (Troubles(held=1), Troubles(held=2), True),
        (Troubles(held=2), Troubles(held=1), False),
        (Troubles(held=2), Troubles(held=2, is_waiting=True), True),
        (Troubles((FailedJob("a", "1", "failure"),)), Troubles((FailedJob("b", "2", "failure"),)), False),
        (Troubles(is_waiting=True), Troubles((FailedJob("b", "2", "failure"),)), True),
    ],
)
def test_more_and_other_trouble_is_news(before: Troubles, now: Troubles, *, expected: bool) -> None:
    """People hear of a new kind of trouble and of more people, and not of the same every hour."""
    assert is_worse(before, now) is expected


@given(
    st.lists(
        st.tuples(st.sampled_from(["plan", "send"]), OUTCOMES, st.integers(0, 9), st.booleans()), max_size=12
    )
)
def test_what_is_left_to_know_is_read_again(steps: list[tuple[str, Any, int, bool]]) -> None:
    """The state goes through JSON and back as it is, after whatever has happened."""
    troubles = Troubles()
    for number, (job, outcome, held, waits) in enumerate(steps):
        troubles = find_troubles(troubles, see(job, str(number // 2), outcome, held=held, waits=waits))
        assert read_troubles(json.loads(json.dumps(troubles.as_json()))) == troubles


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("failure"),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["jobs", "held", "record", "x"]), inner)
        ),
        max_leaves=12,
    )
)
def test_a_state_that_somebody_edited_is_survived(data: Any) -> None:
    """Whatever stands there is read without an error, and can be written about."""
    troubles = read_troubles(data if isinstance(data, dict) else {"jobs": data, "held": data, "record": data})
    now = find_troubles(troubles, see(outcome="failure", gap="x"))
    assert write_alert(see(), now, IssuePlace()).fit(60_000, len, "…")[1] == 0


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
