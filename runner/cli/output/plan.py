"""A project's plan, and what belongs to it: approvals, campaigns left out, a job's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.encoding import print_text
from runner.cli.output.screen import print_blocks, show_blocks
from runner.github.job_summary import DENIED_VARIABLE, append_outputs, append_summary, append_variables
from runner.view.blocks import Section, Sentence
from runner.wording import escape_markdown
from runner.workflow.approval_coverage import find_status, list_sent
from runner.workflow.plans.plan_blocks import show_destination, show_plans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.workflow.approval_coverage import Coverage
    from runner.workflow.failures import Failures
    from runner.workflow.plan import ProjectPlan
    from runner.workflow.plans.planning import PlanResult


def print_plan(planned: Sequence[PlanResult], *, is_detailed: bool = False, err: bool = False) -> None:
    """Write plans for people to standard output, or to standard error: the sum comes last."""
    print_blocks(show_plans(planned, is_detailed=is_detailed), err=err)


def write_project_plan(plan: ProjectPlan, format_: str, *, is_detailed: bool = False) -> None:
    """Write a project's plan with what belongs to it: approvals, campaigns left out, outputs (`github`)."""
    if plan.planned:
        destination = show_destination(plan.planned[0].target)
        head = [Section("Plan", [destination, Sentence(f"Plan digest: {plan.digest}")])]
        shown = plan.list_blocks(is_detailed=is_detailed)
        show_blocks(shown if format_ == "human" else [*head, *shown], format_)
    approvals = [line for coverage in plan.coverages for line in _describe_coverage(coverage)]
    if approvals:
        show_blocks([Section("Approval", list(map(Sentence, approvals)))], format_)
    write_failures(plan.failures, format_)
    if format_ == "github":
        set_plan_outputs(plan)


def write_failures(failures: Failures, format_: str) -> None:
    """Write a table of the campaigns that were left out to standard output, or to the job's summary."""
    text = failures.markdown()
    if text and format_ == "markdown":
        print_text(f"\n{text}", nl=False)
    elif text and format_ == "github":
        append_summary(f"\n{text}")


def _describe_coverage(coverage: Coverage) -> Iterator[str]:
    name = coverage.planned.campaign.name
    if coverage.status == "covered":
        yield f"{name}: approved by {', '.join(coverage.approved_by)}"
    elif coverage.status == "needed":
        yield f"{name}: needs approval: {coverage.gap}"


def set_plan_outputs(plan: ProjectPlan) -> None:
    """Set outputs for later steps of a job: how many people the plan sends to, and whether all are approved.

    Approved campaigns may be sent while the others wait. The issue learns who denied the plan.
    """
    asking = plan.asking
    if asking is not None and asking.words:
        print_text(asking.words)
        append_summary(f"\n{escape_markdown(asking.words)}\n")
    append_variables({DENIED_VARIABLE: ",".join(asking.denied_by) if asking is not None else ""})
    sent = [item for item in plan.planned if list_sent(item)]
    covered = [one.planned for one in plan.coverages if one.status == "covered"]
    values = {
        "to-send": f"{sum(item.plan.recipients_to_send for item in sent)}",
        "covered": f"{sum(item.plan.recipients_to_send for item in covered)}",
        "approval": asking.state if asking is not None else find_status(plan.coverages),
        "plan-digest": plan.digest if plan.planned else "",
    }
    append_outputs(values)
