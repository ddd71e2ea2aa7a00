"""`runner prune`: texts and answers go after a while; figures, deliveries and opt-outs stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from runner.errors import RunnerError
from runner.workflow.records import pruning
from tests.cli.world import ADA, BOB, CY, NPS, World

if TYPE_CHECKING:
    from tests.cli.world import Enter

SECRET, REASON = "Zebra crossing of Ada", b"my very secret reason"
WHY = '{tag: why, text: "Why?"}'
ASK = f'{{id: ask, introduction: "{SECRET}", questions: [{NPS}, {WHY}]}}'
NUDGE = '{id: nudge, tag: nudge, after: {message: ask, wait: 80d}, to: unanswered, text: "Please!"}'
POLICY = "policy: {retention: 90d}\n"


@pytest.fixture
def world(enter: Enter) -> World:
    """A campaign with an answer, an opt-out and an unanswered survey that has expired."""
    world = enter(World)
    world.write(ASK, NUDGE, phones=(ADA, BOB, CY), rules=POLICY)
    world.ask((ADA, "9"), (ADA, REASON.decode()), (BOB, "STOP"))
    return world


def settle(world: World) -> None:
    """Let the surveys end, and their answers grow old."""
    world.pass_time("100d")
    world.run("reconcile")


def read_report(world: World) -> dict[str, Any]:
    return world.check(world.run("report", "--format", "json"), "report")


def read_files(world: World) -> bytes:
    """Return all that the machine keeps of ledger, sandbox and reports."""
    return b"".join(file.read_bytes() for file in (world.folder / ".runner").rglob("*") if file.is_file())


@pytest.mark.slow
def test_answers_go_and_figures_stay(world: World) -> None:
    """No byte of texts and answers is left, the report is the same, and no reconcile brings them back."""
    settle(world)
    before = read_report(world)
    assert REASON in read_files(world)
    done = world.check(world.run("prune", "--auto-approve", "--format", "json"), "prune")
    assert done["pruned"] == [
        {"campaign": "pulse", "wave": None, "launches": 1, "results": 2, "reason": None}
    ]
    for command in ((), ("reconcile",), ("reconcile", "--full"), ("plan",), ("status",)):
        if command:
            world.run(*command)
        content = read_files(world)
        assert REASON not in content
        assert SECRET.encode() not in content
        assert REASON not in world.run("who", ADA).encode()
    after = read_report(world)
    assert after.pop("pruned_at")
    assert after == before
    assert "The answers were pruned on" in world.run("report")
    assert world.check(world.run("optouts", "list", "--format", "json"), "optouts")["opted_out"] == 1


@pytest.mark.slow
def test_nobody_is_texted_because_an_answer_was_pruned(world: World) -> None:
    """Nobody gets the survey again, nor a reminder; the plan says why."""
    settle(world)
    world.run("prune", "--auto-approve")
    world.pass_time("150d")
    world.run("reconcile")
    assert world.apply() == 0
    counts, reasons = world.explain("nudge")
    assert counts.get("awaiting") == 2
    assert any("answers were pruned" in one for one in reasons)


@pytest.mark.slow
def test_a_lost_ledger_does_not_take_pruned_answers_for_silence(world: World) -> None:
    """A ledger that knows nothing of the pruning reminds the one who never answered, and nobody else."""
    settle(world)
    world.run("prune", "--auto-approve")
    for file in (world.folder / ".runner").glob("ledger.sqlite*"):
        file.unlink()
    world.run("reconcile")
    counts, _ = world.explain("nudge")
    assert counts == {"not_qualified": 1, "to_send": 1}


@pytest.mark.slow
def test_what_is_young_or_open_stays(world: World) -> None:
    """Before the time is over, and without a terminal to ask at, nothing is removed."""
    assert "kept until" in world.run("prune", "--auto-approve").replace("stay: kept", "kept")
    settle(world)
    world.run("prune", code=64)
    assert "there is no terminal to ask" in world.errors
    assert REASON in read_files(world)


@pytest.mark.slow
def test_a_failure_removes_nothing_and_another_run_ends_the_work(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that fails leaves all; one that is done before the rest is finished by the next run."""
    settle(world)
    before = read_report(world)

    def fail(*_: object, **__: object) -> None:
        raise RunnerError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(pruning, "digest_definition", fail)
        world.run("prune", "--auto-approve", code=1)
    assert read_report(world) == before
    with monkeypatch.context() as patch:
        patch.setattr(pruning, "_finish", fail)
        world.run("prune", "--auto-approve", code=1)
    assert "There is nothing to remove" in world.run("prune")
    assert REASON not in read_files(world)


@pytest.mark.slow
def test_details_of_pruned_answers_are_refused(world: World) -> None:
    """Breakdowns and files of answers cannot be made any more, and that is said."""
    settle(world)
    world.run("prune", "--auto-approve")
    world.run("report", "--format", "answers.csv", "--out", "out", code=1)
    assert "were pruned on" in world.errors


@pytest.mark.slow
def test_nothing_is_sent_that_no_report_would_have(world: World) -> None:
    """Once its answers were pruned, a campaign texts nobody more, since its report is final."""
    settle(world)
    world.run("prune", "--auto-approve")
    status = world.check(world.run("status", "--format", "json"), "status")
    assert [one["answered"] for one in status["campaigns"][0]["messages"]] == [1, 0]
    world.write(ASK, NUDGE, phones=(ADA, BOB, CY, "+14155550177"), rules=POLICY)
    world.run("apply", "--auto-approve", code=5)
    assert "no report would have what comes now (text new people by another campaign)" in world.errors


@pytest.mark.slow
def test_a_campaign_whose_file_is_gone_is_named(world: World) -> None:
    """Its answers stay, and `prune` does not say that there is nothing."""
    settle(world)
    (world.folder / "campaigns/pulse.yaml").rename(world.folder / "pulse.txt")
    (world.folder / "campaigns/other.yaml").write_text(
        f'version: 1\nname: other\nrecipients: [{{phone: "{ADA}"}}]\n{POLICY}messages: [{{id: hi, text: Hi}}]\n'
    )
    done = world.check(world.run("prune", "--auto-approve", "--format", "json"), "prune")
    assert done["unreached"] == [
        "pulse: its file is gone, and 2 answers stay: bring it back, and prune again"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("own", ["policy: {retention: 900d}\n", ""])
def test_a_rule_on_retention_holds_for_what_was_sent_before(world: World, own: str) -> None:
    """The shorter time counts, whatever the campaign says by now."""
    settle(world)
    world.write(ASK, NUDGE, phones=(ADA, BOB, CY), rules=own)
    (world.folder / "campaigns/targets.yaml").write_text(
        "version: 1\ntargets: {}\nrequire: {retention: 90d}\n"
    )
    world.run("prune", "--auto-approve")
    assert REASON not in read_files(world)
