"""Plans without the state key, as the jobs of pull requests have to make them: the most that can be sent.

Who was texted, or has opted out, stands in the record as fingerprints, which tell nothing without their key.
So everybody counts as new here. A real plan reaches some of these people, and nobody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.circumstances import CircumstanceReader
from runner.cli.comment_text import CommentText, Piece, example_piece, write_coming, write_overview
from runner.cli.planning import plan_campaigns
from runner.ledger.lockfiles import all_launches, read_lockfiles
from runner.ledger.model import Known
from runner.ledger.recorded import Record
from runner.plan.circumstances import Circumstances
from runner.plan.model import PlanOptions
from runner.timing.law import load_law

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.campaign.model import Campaign
    from runner.cli.failures import Failures
    from runner.cli.planning import Planned
    from runner.cli.scope import Scope
    from runner.cli.workspace import Workspace
    from runner.plan.texted import TextedPeople
    from runner.source.diagnostic import Problems


class _NothingKnown(CircumstanceReader):
    """Circumstances in which nobody was texted yet, or has opted out."""

    def read(self, campaign: Campaign, planned: Sequence[TextedPeople]) -> Circumstances:
        """Return what needs no key: the time, and the law."""
        # Those who are new to the campaigns before may have had them long ago: they hold nobody back.
        del planned
        law = load_law() if campaign.policy.quiet_hours == "legal" else None
        return Circumstances(now=self.now, law=law)


def plan_without_key(workspace: Workspace, scope: Scope, failures: Failures) -> list[Planned]:
    """Plan campaigns as if nothing was on record.

    Args:
        workspace: names the target.
        scope: says which campaigns.
        failures: takes campaigns that cannot be planned.

    Raises:
        InvalidCampaignError: there are errors that end the command, which have been shown.
    """
    options = PlanOptions(recipients_per_send=workspace.target.recipients_per_send)
    record = Record(campaign_id=None, key=None, known=Known({}, {}))
    reader = _NothingKnown(workspace, None, workspace.now())
    return plan_campaigns(workspace, scope, options, lambda _: record, reader, failures)


def write_bound_text(
    workspace: Workspace, planned: Sequence[Planned], problems: Problems, about: str, left_out: str
) -> CommentText:
    """Return the comment that says how many people a message can reach at most.

    Args:
        workspace: names the target.
        planned: as `plan_without_key` returns it.
        problems: everything that was found.
        about: what is said first: where it goes, and what the pull request changes; Markdown.
        left_out: a table of the campaigns that could not be planned; Markdown.

    Raises:
        LockfileError: a lockfile cannot be read.
    """
    rows = []
    for item in planned:
        texted = _count_texted(workspace, item.campaign)
        for message in item.plan.messages:
            known = "not known" if texted is None else texted.get(message.id, 0)
            rows.append((item.campaign.name, message.id, message.recipients, known, message.pending))
    return write_overview(
        "Campaign plan, at most",
        planned[0].plan.target,
        f"{about}The jobs of pull requests don't have the state key. So it is not known here who of these "
        "people was texted already, or has opted out: a plan reaches **at most** as many as this, and an "
        "approved one says how many.\n\n",
        (("campaign", "message", "recipients", "on record as texted", "to reach at most"), rows),
        (problems, left_out),
        [piece for item in planned for piece in _detail_pieces(item)],
    )


def _detail_pieces(item: Planned) -> Iterator[Piece]:
    if any(message.pending for message in item.plan.messages):
        yield Piece(f"{item.campaign.name}: what comes, at most", write_coming(item.plan, at_most=True))
    yield example_piece(item)


def _count_texted(workspace: Workspace, campaign: Campaign) -> dict[str, int] | None:
    """Return how many people got each message, by the lockfiles; None if they only sum up."""
    lockfiles = read_lockfiles(workspace.identify(campaign))
    if any(lockfile.is_summary for lockfile in lockfiles.values()):
        return None
    people: dict[str, set[str]] = {}
    for launch in all_launches(lockfiles):
        people.setdefault(launch.message, set()).update(launch.recipients)
    return {message: len(found) for message, found in people.items()}
