"""`runner plan`: plans of deliveries, with reasons for recipients left out; reads only."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runner.document import UNSET, Described
from runner.errors import ServiceError, UsageError
from runner.ledger.model import format_moment
from runner.ledger.record.unsettled import list_known
from runner.plan.model import PlanOptions
from runner.service.target import SANDBOX
from runner.view.blocks import Items, Sentence
from runner.view.html import Shown
from runner.wording import count_people, count_words
from runner.workflow.approval_coverage import ApprovalStore, add_coverage, find_status
from runner.workflow.campaigns import DEFAULT_FOLDER
from runner.workflow.documents import describe_plans, show_launches
from runner.workflow.failures import Failures, HasFailures
from runner.workflow.observer import hushing, note, warn
from runner.workflow.plans.cluster_planning import choose_cluster
from runner.workflow.plans.context_reader import PlanContextReader
from runner.workflow.plans.names import RecordNames
from runner.workflow.plans.plan_blocks import show_plans, summary_line
from runner.workflow.plans.planning import leave_out_refused, leave_out_waiting, list_changed, plan_campaigns
from runner.workflow.plans.saved import SavedPlan, dump_plan, save_plan
from runner.workflow.scope import Scope
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from runner.ledger.database import Ledger
    from runner.plan.documents import PlanDocument
    from runner.plan.model import CampaignPlan
    from runner.view.blocks import Block
    from runner.workflow.approval_coverage import Coverage
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.review.approving import Asking

_LIVE = ("RUNNER_BASE_URL", "RUNNER_USERNAME", "RUNNER_API_KEY", "RUNNER_TARGET")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWishes:
    """Options of plans.

    Attributes:
        only: the only message to plan; None for all.
        limit: the most recipients to plan for now; None for all.
        now: the time to plan for; None for the present.
        out: the file to save the plan to; None to save none.
        with_launches: describe each launch with its payload.
        is_job: tell later steps of a job whether the plan needs an approval.
    """

    only: str | None = None
    limit: int | None = None
    now: datetime | None = None
    out: str | None = None
    with_launches: bool = False
    is_job: bool = False

    def check(self, *, is_clustered: bool) -> None:
        """Refuse impossible options."""
        if self.out is not None and Path(self.out).is_dir():
            raise UsageError(f"the plan cannot be saved to {self.out}: it is a folder", hint="name a file")
        if self.with_launches and is_clustered:
            raise UsageError(
                "--launches shows every person's text, and is not made on a cluster",
                hint="leave out --launches, or plan in one process, without --cluster",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPlan(Described, Shown, HasFailures):
    """The plans of campaigns, made together at one moment; iterates over them.

    Passing it to `apply` approves it: exactly this is sent, or nothing.

    Attributes:
        planned: the campaigns with their records and plans.
        failures: the campaigns that could not be planned.
        changed: sent messages whose texts have changed since.
        coverages: the plans' approval states, if approvals are kept.
        asking: whether a job's reviewers are asked to approve it; None if that is not needed.
        document: the plan as a document.
    """

    planned: tuple[PlanResult, ...]
    failures: Failures
    document: PlanDocument = field(repr=False)
    changed: tuple[str, ...] = ()
    coverages: tuple[Coverage, ...] = ()
    asking: Asking | None = None
    _manifest: str = field(default="", repr=False)

    def __iter__(self) -> Iterator[CampaignPlan]:
        return (item.plan for item in self.planned)

    def __len__(self) -> int:
        return len(self.planned)

    @property
    def summary(self) -> str:
        """A one-sentence summary."""
        return summary_line(self.planned) if self.planned else "Nothing to send."

    @property
    def digest(self) -> str:
        """The digest of everything to be sent."""
        return self.document.plan_digest

    def leave_out_unsendable(self) -> Sequence[PlanResult]:
        """Return the plans that `apply` would send: within limits, not paused, replies read."""
        return leave_out_waiting(leave_out_refused(self.planned, self.failures), self.failures)

    def approve(self) -> SavedPlan:
        """Return the plan in the form that `apply` takes."""
        where = f"of {self.document.now}"
        # The same text as in a file, so that the same checks apply.
        return SavedPlan.parse(self._manifest.encode(), where)

    def list_blocks(self, *, is_detailed: bool = False) -> list[Block]:
        """Return the plan as blocks; its sum comes last."""
        if not self.planned:
            return [Sentence(self.summary)]
        blocks = list(show_plans(self.planned, is_detailed=is_detailed))
        if self.changed:
            names = ", ".join(self.changed)
            told = (
                f"Changed since it was sent: {names}. Whoever has the earlier text does not get the new one."
            )
            blocks.insert(-1, Sentence(told, "notice"))
        return blocks

    def show(self) -> list[Block]:
        """Return the plan as blocks, with what is left out, and its digest."""
        remarks = [f"{one.name or one.file}: {one.error.message}" for one in self.left_out]
        return [*self.list_blocks(), Items([*remarks, f"Plan digest: {self.digest}"])]


class DueMessage(NamedTuple):
    """A message that comes due from a moment on; `people` is the most who can get it."""

    at: datetime
    campaign: str
    message: str
    people: int

    def describe(self) -> str:
        """Return what is due, and what sends it, in a sentence."""
        people = count_people(self.people)
        return (
            f"Due from now on: {self.campaign}/{self.message}, to up to {people}. "
            "Next: `runner reconcile`, then `runner apply`."
        )


def find_due_message(now: datetime, environ: Mapping[str, str]) -> DueMessage | None:
    """Return the next message of `campaigns/` that comes due on the built-in sandbox, by the plans.

    `now` is the sandbox's time. Without campaigns, or if no moment is known, there is none.
    """
    if not DEFAULT_FOLDER.is_dir():
        return None
    own = {name: value for name, value in environ.items() if not name.startswith(_LIVE)}
    with hushing():
        plan = plan_project(Scope(target=SANDBOX, environ=own), PlanWishes())
    found = (
        DueMessage(one.first, item.campaign.name, message.id, one.recipients.most)
        for item in plan.planned
        for message in item.plan.messages
        for one in message.coming
        if one.first is not None
    )
    return min((one for one in found if one.at > now), default=None)


def plan_project(scope: Scope, wishes: PlanWishes) -> ProjectPlan:
    """Plan campaigns; leave out those that cannot be planned.

    Planning uses the record and needs no credentials. If there are any, the service is asked for unknown
    launches of campaigns whose record is empty.
    """
    workspace = Workspace.open(scope)
    cluster = choose_cluster(scope, workspace, wishes.limit)
    moment = wishes.now or workspace.now()
    wishes.check(is_clustered=cluster is not None)
    options, failures = PlanOptions(wishes.only, wishes.limit), Failures()
    with workspace.open_ledger_for_reading() as opened, ExitStack() as stack:
        reader = PlanContextReader(workspace, opened, moment)
        planned = plan_campaigns(
            scope,
            options,
            partial(workspace.read_record, opened),
            reader,
            failures,
            begin=partial(cluster.begin, stack, reader, keeps_launches=False) if cluster else None,
            names=RecordNames(workspace, opened),
        )
        changed = list_changed(opened, workspace.key, planned)
        warn_of_known_tags(workspace, opened, planned)
        workspace.say_risks(opened)
    document = describe_plans(planned, now=format_moment(moment))
    document, coverages, asking = _cover(workspace, planned, document, is_job=wishes.is_job)
    manifest = dump_plan(document, options)
    if wishes.out is not None and (planned or not failures.total):
        save_plan(manifest, wishes.out)
        note(f"Saved to {wishes.out}. Send exactly this with: runner apply --plan {wishes.out}")
        note(f"Plan digest: {document.plan_digest}")
    if wishes.with_launches:
        document = show_launches(document, planned)
    return ProjectPlan(
        planned=tuple(planned),
        failures=failures,
        changed=changed,
        coverages=tuple(coverages),
        asking=asking,
        document=document.replace(failures=failures.describe()),
        _manifest=manifest,
    )


def _cover(
    workspace: Workspace, planned: Sequence[PlanResult], document: PlanDocument, *, is_job: bool
) -> tuple[PlanDocument, Sequence[Coverage], Asking | None]:
    """Return the document with the plans' approval states, and these, where approvals are used.

    A job's plan that needs an approval comes with whether reviewers are asked.
    """
    store = ApprovalStore(workspace.target, workspace.state, is_tolerant=True)
    coverages, asking = list(map(store.cover, planned)), None
    if is_job and find_status(coverages) == "needed":
        # Only jobs that ask for approvals need GitHub.
        from runner.workflow.review.approving import plan_asking

        digest = document.plan_digest
        asking = plan_asking(digest, store.find_denial(planned, digest))
    earlier = UNSET if asking is None or asking.earlier is None else asking.earlier
    document = add_coverage(document, coverages).replace(earlier=earlier)
    is_told = is_job or store.is_used((item.campaign for item in planned), workspace.environ)
    return document, (coverages if is_told else []), asking


def warn_of_known_tags(workspace: Workspace, ledger: Ledger, planned: Sequence[PlanResult]) -> None:
    """Warn of campaigns that look new although the service knows launches under their tags.

    This takes one cheap request for each tag of campaigns with an empty record.
    """
    new = [item for item in planned if item.record.known.is_empty() and item.plan.recipients_to_send]
    is_unasked = workspace.target.base_url is not None and workspace.target.credentials is None
    if not new or not workspace.may_know_launches or is_unasked:
        return
    try:
        with workspace.open_service() as (client, _):
            for item in new:
                messages = item.plan.messages
                for tag in sorted({tag for one in messages for tag in item.campaign.list_tags(one.id)}):
                    with ledger.reading() as connection:
                        known = len(list_known(connection, workspace.target.name, [tag], since=""))
                    counted = client.count_launches(tag)
                    if counted is None:
                        note(f"The service does not say how many launches it knows under the tag {tag!r}.")
                    elif counted > known:
                        warn(_known_tag_words(item.campaign.name, tag, counted - known))
    except ServiceError as error:
        note(f"Whether the service knows these campaigns could not be asked: {error.message}")


def _known_tag_words(name: str, tag: str, count: int) -> str:
    launches = count_words(count, "launch", "launches")
    return (
        f"{name} has an empty record, but the service knows {launches} under its tag {tag!r}: "
        "was it renamed (`renamed_from`), or is its record lost? `runner apply` adopts those that match, and "
        "holds the people of the others"
    )
