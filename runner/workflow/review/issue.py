"""`runner ci alert`: one issue a target, open while there is something for a person to do."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.campaign.load import read_names
from runner.errors import LedgerError, RunnerError
from runner.github.comments import write_marker
from runner.github.issues import Report
from runner.github.job_summary import DENIED_VARIABLE
from runner.ledger.people.rollout import list_stopped
from runner.ledger.record.entry import list_unknown
from runner.ledger.record.unsettled import HeldCount, count_held
from runner.workflow.campaigns import InvalidCampaignError, find_campaign_files, show_path
from runner.workflow.records.opt_outs import list_replies, reading_filled
from runner.workflow.review.checklist import (
    Checklist,
    Item,
    Outcome,
    Sight,
    list_items,
    update_checklist,
    write_checklist,
    write_news,
    write_title,
)
from runner.workflow.review.publishing import IssuePlace, fit_body, publish, publish_issue
from runner.workflow.workspace.folders import name_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.ledger.model import Reservation
    from runner.ledger.people.replies import ListedReply
    from runner.ledger.people.rollout import StoppedCampaign
    from runner.workflow.scope import Scope

_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
_HIDDEN_UNITS = 8_000
"""Space in an issue's body for its marker and state."""
_NO_LEDGER = "there is no ledger on this machine: `runner apply` fills one"
_STOPPED = "the next run asks the service what became of the last launches of the one that was stopped"
_BAD_TARGETS = "`targets.yaml` has errors, which the job's log shows"


def keep_issue(scope: Scope, outcome: Outcome | None, *, shows_words: bool) -> None:
    """Look for what a person must do, and open, edit or close the target's issue.

    Args:
        scope: of the command.
        outcome: the job's so far, if given.
        shows_words: whether the issue shows the texts of replies.
    """
    sight, error = _look(scope, outcome)
    denied = os.environ.get(DENIED_VARIABLE)
    denied_by = None if denied is None else tuple(filter(None, denied.split(",")))
    sight = replace(sight, shows_words=shows_words, denied_by=denied_by)
    _publish(sight, _find_place(scope, sight.held))
    if error is not None:
        raise error


def _look(scope: Scope, outcome: Outcome | None) -> tuple[Sight, RunnerError | None]:
    """Return what is seen of the target, and the ledger's error, if any."""
    target = scope.target or ""
    run = ".".join(filter(None, map(os.environ.get, ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT"))))
    try:
        workspace = Workspace.open(scope)
        target = workspace.target.name
        seen, failure = (*_count_held(workspace, outcome), *_read_filled(workspace)), None
    except RunnerError as error:
        if not _TARGET.fullmatch(target):
            raise
        gap = _BAD_TARGETS if isinstance(error, InvalidCampaignError) else error.message
        seen, failure = ((), gap, (), gap, None), error if isinstance(error, LedgerError) else None
    return Sight(target, os.environ.get("GITHUB_JOB", ""), run, outcome, *seen), failure


def _read_filled(
    workspace: Workspace,
) -> tuple[tuple[ListedReply, ...], str, tuple[StoppedCampaign, ...] | None]:
    """Return undecided replies, why there may be more, and campaigns that broken guards have paused."""
    target = workspace.target.name
    with workspace.open_ledger_if_present() as ledger:
        # What files say knows of no reply that waits.
        gap = _NO_LEDGER if ledger is None else ""
    try:
        with reading_filled(workspace) as connection:
            replies = () if gap else list_replies(connection, target, with_texts=True)
            return replies, gap, list_stopped(connection, target)
    except RunnerError as error:
        return (), gap or error.message, None


def _count_held(workspace: Workspace, outcome: Outcome | None) -> tuple[tuple[HeldCount, ...], str]:
    """Count whom only a person's word sets free, and say why there may be more.

    What a job that was stopped left, the next run settles.
    """
    state = workspace.state
    reserved = [] if state is None else state.list_reserved()
    holder = None if state is None else state.find_holder()
    is_stopped, gaps = outcome == "cancelled", []
    if is_stopped:
        reserved = []
        gaps.append(_STOPPED)
    if holder is not None:
        # Reserved launches are being sent at this moment.
        reserved = []
        gaps.append(f"another run is sending: {holder}")
    with workspace.open_ledger_if_present() as ledger:
        if ledger is None:
            return tuple(_count_reserved(reserved)), "; ".join([*gaps, _NO_LEDGER])
        with ledger.reading() as connection:
            counts = count_held(connection, workspace.target.name)
            counts = [one for one in counts if not (is_stopped and one.is_explained)]
            unknown = {one.id for one in list_unknown(connection, [one for _, one in reserved])}
        counts += _count_reserved((name, one) for name, one in reserved if one.id in unknown)
    return tuple(counts), "; ".join(gaps)


def _count_reserved(reserved: Iterable[tuple[str, Reservation]]) -> list[HeldCount]:
    """Return numbers of people in reservations of a lost machine, from the state remote."""
    people: dict[tuple[str, str], set[str]] = {}
    for campaign, reservation in reserved:
        for launch in reservation.launches:
            people.setdefault((campaign, launch.message), set()).update(launch.recipients)
    return [HeldCount(*place, len(found)) for place, found in sorted(people.items())]


def _find_place(scope: Scope, held: Sequence[HeldCount]) -> IssuePlace:
    """Return the issue's place, with the files of campaigns by name, valid or not, if people are held."""
    files: dict[str, str] = {}
    # Broken settings are told of elsewhere.
    with suppress(RunnerError):
        for file in find_campaign_files(scope.paths) if held else ():
            files |= dict.fromkeys(read_names(file, current=Path.cwd()), show_path(file))
    return IssuePlace.find(os.environ, files)


def _publish(sight: Sight, place: IssuePlace) -> None:
    def list_now(before: Checklist) -> tuple[Checklist, list[Item]]:
        now = update_checklist(before, sight, place.run_url)
        return now, list_items(before, now, sight, place)

    def compose(state: Mapping[str, Any]) -> Report:
        now, items = list_now(Checklist.read(state))
        return Report(
            title=write_title(sight.target, items),
            text=fit_body(write_checklist(sight.target, items, place), _HIDDEN_UNITS)[0],
            state=now.as_json(),
            is_open=any(item.said for item in items),
            news=write_news(items, place),
        )

    marker = write_marker(sight.target, name_folder(), kind="issue")
    publish(
        "issue",
        lambda: write_checklist(sight.target, list_now(Checklist())[1], place),
        lambda: publish_issue(marker, compose),
    )
