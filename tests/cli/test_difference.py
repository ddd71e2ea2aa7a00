"""What `plan --diff` says of campaigns that were sent and then changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runner.cli.output.screen import show_blocks
from runner.plan.model import PlanOptions
from runner.view.markdown import write_markdown
from runner.workflow.documents import describe_plans, show_more
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.differences import find_differences
from runner.workflow.plans.plan_blocks import show_differences
from runner.workflow.plans.planning import plan_campaigns
from runner.workflow.scope import Scope
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from runner.plan.documents import PlanDocument
    from runner.workflow.plans.differences import Differences

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Compare = Callable[[], tuple[Differences, PlanDocument]]


@pytest.fixture
def compare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Compare:
    """A function that plans the folder's campaign and compares it with what was sent."""
    monkeypatch.chdir(folder)

    def find() -> tuple[Differences, PlanDocument]:
        scope = Scope(quiet=True)
        workspace = Workspace.open(scope)
        with workspace.open_ledger_for_reading() as ledger:
            reader = PlanContextReader(workspace, ledger, workspace.now())
            planned = plan_campaigns(
                workspace, scope, PlanOptions(), lambda c: workspace.read_record(ledger, c), reader
            )
            found = find_differences(ledger, planned, None)
        document = describe_plans(planned, now="2026-11-21T00:00:00Z")
        return found, show_more(document, planned, found, with_launches=False)

    return find


@pytest.fixture
def sent(folder: Path, run: Run) -> Path:
    """The campaign's file, after everybody was texted."""
    assert run("apply", "--auto-approve", cwd=folder).returncode == 0
    return folder / "campaigns/pulse.yaml"


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_a_ledger_that_is_gone(sent: Path, compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
    """From the lockfile alone it is known who gets something else, and not what it was."""
    edit(sent, "Hi {{ first_name }}", "Hello {{ first_name }}")
    for file in (sent.parent.parent / ".runner").glob("ledger*"):
        file.unlink()
    show_blocks(show_differences(compare()[0]), "human")
    assert capsys.readouterr().out == (
        "pulse: changes since it was sent\n"
        "ask: 0 unchanged, 4 changed, 0 no longer in the audience, 0 new\n"
        "  and texts not in this ledger, for 4 people\n"
    )


def test_a_plan_names_what_was_changed_since(sent: Path, run: Run) -> None:
    """Without `--diff` a plan says which sent texts are others now, and nothing of those that are the same."""
    folder = sent.parent.parent
    assert "Changed since" not in run("plan", cwd=folder).stdout
    edit(sent, "Thank you!", "Bye")
    said = "\nChanged since it was sent: pulse/ask. `runner plan --diff` shows how.\n"
    assert said in run("plan", cwd=folder).stdout
    assert said not in run("plan", "--diff", cwd=folder).stdout


def test_the_json_document(sent: Path, compare: Compare) -> None:
    """Each message of the plan has its `diff`."""
    edit(sent, '{tag: reason, text: "Why?"}', '{tag: reason, text: "How come?"}')
    _, document = compare()
    (message,) = document.to_dict()["campaigns"][0]["messages"]
    assert message["diff"] == {
        "unchanged": 0,
        "changed": 4,
        "not_in_ledger": 0,
        "failing": 0,
        "gone": 0,
        "new": 0,
        "groups": [
            {
                "recipients": 4,
                "is_example": False,
                "old": [{"part": "question reason", "text": "Why?"}],
                "new": [{"part": "question reason", "text": "How come?"}],
            }
        ],
        "more_groups": 0,
        "more_recipients": 0,
    }


def test_no_text_breaks_out_of_the_markdown(sent: Path, compare: Compare) -> None:
    """Texts stand in a fenced block that nothing in them can close."""
    edit(sent, "Thank you!", "```\\n# Done")
    text = write_markdown(show_differences(compare()[0]))
    assert text == (
        "## pulse: changes since it was sent\n"
        "\nask: 0 unchanged, 4 changed, 0 no longer in the audience, 0 new\n"
        "\n````diff\n@@ 4 people @@\n-conclusion: Thank you!\n+conclusion: ```\n+  # Done\n````\n"
    )
