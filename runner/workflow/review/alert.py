"""`runner alert`: one issue on GitHub, open while a target's campaigns have troubles."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.campaign.load import read_names
from runner.errors import LedgerError, RunnerError
from runner.github.comments import Report, write_marker
from runner.github.job_summary import DENIED_VARIABLE
from runner.ledger.locks.campaign_lock import find_run_url
from runner.ledger.record.reservations import list_unknown
from runner.ledger.record.unsettled import HeldCount, count_held
from runner.workflow.campaigns import InvalidCampaignError, find_campaign_files, show_path
from runner.workflow.records.record_push import find_branch, list_waiting
from runner.workflow.review.publishing import IssuePlace, fit_body, keep_issue, publish
from runner.workflow.review.troubles import (
    HeldPeople,
    Outcome,
    Sight,
    Troubles,
    WaitingRecord,
    find_troubles,
    is_worse,
    read_troubles,
    write_alert,
    write_farewell,
    write_news,
    write_title,
)
from runner.workflow.workspace.folders import name_folder
from runner.workflow.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.ledger.model import Reservation
    from runner.workflow.scope import Scope

_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
_HIDDEN_UNITS = 8_000
"""Space in an issue's body for its marker and state."""
_NO_LEDGER = "there is no ledger on this machine: `runner apply` fills one"
_BAD_TARGETS = "`targets.yaml` has errors, which the job's log shows"
_SAID = {
    "opened": "Issue opened: {url}",
    "updated": "Issue edited: {url}",
    "unchanged": "Issue unchanged: {url}",
    "closed": "Issue closed, all is well: {url}",
    "duplicate": "Another job has opened the issue at the same time: {url}",
    "left closed": "Somebody has closed the issue, and it is no worse since: {url}",
    "nothing": "All is well: there is no issue",
}


def keep_alert(scope: Scope, outcome: Outcome | None, remote: str, branch: str | None) -> None:
    """Look for troubles, and open, edit or close their issue.

    `outcome` is the job's so far, if given; `branch` is None for the current one, or the job's.

    Raises:
        RunnerError: the ledger cannot be read; the issue is written first.
    """
    target, held, error = _find_held(scope)
    denied = os.environ.get(DENIED_VARIABLE)
    sight = Sight(
        target,
        os.environ.get("GITHUB_JOB", ""),
        ".".join(filter(None, map(os.environ.get, ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")))),
        find_run_url(os.environ) or "",
        outcome,
        held,
        _find_record(remote, branch),
        None if denied is None else tuple(filter(None, denied.split(","))),
    )
    _publish(sight, _find_place(scope, held), quiet=scope.quiet)
    if error is not None:
        raise error


def _find_held(scope: Scope) -> tuple[str, HeldPeople, RunnerError | None]:
    """Return the target's name, its held people, and the ledger's error, if any."""
    try:
        workspace = Workspace.open(scope)
    except RunnerError as error:
        target = scope.target or os.environ.get("RUNNER_TARGET") or ""
        if not _TARGET.fullmatch(target):
            raise
        has_errors = isinstance(error, InvalidCampaignError)
        return target, HeldPeople(gap=_BAD_TARGETS if has_errors else error.message), None
    wanted = _read_wanted(scope)
    try:
        held = _count_held(workspace)
    except LedgerError as error:
        return workspace.target.name, HeldPeople(gap=error.message), error
    except RunnerError as error:
        return workspace.target.name, HeldPeople(gap=error.message), None
    if wanted is not None:
        held = replace(held, counts=tuple(count for count in held.counts if count.campaign in wanted))
    return workspace.target.name, held, None


def _count_held(workspace: Workspace) -> HeldPeople:
    reserved, holder = workspace.state.list_reserved() if workspace.state is not None else ([], None)
    gaps = []
    if holder is not None:
        # Reserved launches are being sent at this moment.
        reserved = []
        gaps.append(f"another run is sending: {holder}")
    with workspace.open_ledger_if_present() as ledger:
        if ledger is None:
            gaps.append(_NO_LEDGER)
            return HeldPeople(tuple(_count_reserved(reserved)), "; ".join(gaps))
        with ledger.reading() as connection:
            counts = count_held(connection, workspace.target.name)
            unknown = {one.id for one in list_unknown(connection, [one for _, one in reserved])}
        counts += _count_reserved((name, one) for name, one in reserved if one.id in unknown)
    return HeldPeople(tuple(counts), "; ".join(gaps))


def _count_reserved(reserved: Iterable[tuple[str, Reservation]]) -> list[HeldCount]:
    """Return numbers of people in reservations of a lost machine, from the state remote."""
    launches: dict[tuple[str, str], int] = {}
    people: dict[tuple[str, str], set[str]] = {}
    for campaign, reservation in reserved:
        for launch in reservation.launches:
            place = campaign, launch.message
            launches[place] = launches.get(place, 0) + 1
            people.setdefault(place, set()).update(launch.recipients)
    return [HeldCount(*place, count, len(people[place])) for place, count in sorted(launches.items())]


def _find_record(remote: str, branch: str | None) -> WaitingRecord:
    try:
        branch = branch or find_branch(os.environ)
        return WaitingRecord(tuple(list_waiting(os.environ, remote, branch)), branch)
    except RunnerError as error:
        return WaitingRecord(branch=branch or "", gap=error.message)


def _read_wanted(scope: Scope) -> set[str] | None:
    """Return the names of the command's campaigns; None for all."""
    return set(_read_files(scope)) if scope.paths else None


def _read_files(scope: Scope) -> dict[str, str]:
    """Return campaign files, valid or not, by name."""
    return {
        name: show_path(file)
        for file in find_campaign_files(scope.paths)
        for name in read_names(
            file, current=Path.cwd(), allowed=tuple(p for p in scope.allowed if isinstance(p, Path))
        )
    }


def _find_place(scope: Scope, held: HeldPeople) -> IssuePlace:
    try:
        files = _read_files(scope) if held.counts else {}
    except RunnerError:
        files = {}
    return IssuePlace.find(os.environ, scope.state_remote, files)


def _publish(sight: Sight, place: IssuePlace, *, quiet: bool) -> None:
    def compose(state: Mapping[str, Any]) -> Report:
        before = read_troubles(state)
        now = find_troubles(before, sight)
        return Report(
            title=write_title(sight.target, now if now.is_any else before),
            text=fit_body(write_alert(sight, now, place), _HIDDEN_UNITS)[0],
            state=now.as_json(),
            is_trouble=now.is_any,
            news=write_news(before, now, sight) if is_worse(before, now) else "",
            farewell=write_farewell(sight),
        )

    marker = write_marker(sight.target, name_folder(), kind="alert")
    publish(
        "issue",
        lambda: write_alert(sight, find_troubles(Troubles(), sight), place),
        lambda: keep_issue(marker, compose, _SAID, quiet=quiet),
    )
