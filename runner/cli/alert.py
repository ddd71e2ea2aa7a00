"""`runner alert`: one issue on the forge, as long as something is wrong with a target's campaigns."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from runner.campaign.load import read_names
from runner.cli.alert_state import (
    HeldPeople,
    Outcome,
    Sight,
    Troubles,
    WaitingRecord,
    find_troubles,
    is_worse,
    read_troubles,
)
from runner.cli.alert_text import Place, write_alert, write_farewell, write_news, write_title
from runner.cli.campaigns import find_campaign_files, show_path
from runner.cli.diagnostics import InvalidCampaignError
from runner.cli.folders import name_folder
from runner.cli.publishing import fit_body, keep_issue, publish
from runner.cli.record import find_branch, list_waiting
from runner.cli.scope import Scope, target_scope
from runner.cli.workspace import Workspace
from runner.errors import LedgerError, RunnerError
from runner.forge.comment import write_marker
from runner.forge.issue import Report
from runner.ledger.lock import find_run_url
from runner.ledger.reserved import list_unknown
from runner.ledger.unsettled import HeldCount, count_held

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from runner.ledger.shared import Reservation

_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,49}")
_HIDDEN_UNITS = 8_000
"""Of an issue's body: what its marker and its state take at most."""
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


@click.command(
    epilog="\b\nExamples:\n  runner alert\n  runner alert --outcome failure\n"
    "  runner alert --target live --state-remote origin"
)
@target_scope
@click.option(
    "--outcome",
    type=click.Choice(get_args(Outcome)),
    help="How the job has ended so far, as in ${{ job.status }}. Default: nothing is said of that.",
)
@click.option(
    "--remote", default="origin", show_default=True, metavar="NAME", help="Where the record is kept."
)
@click.option(
    "--branch", metavar="NAME", help="The branch that the record belongs to. Default: as for `runner record`."
)
def command(scope: Scope, outcome: Outcome | None, remote: str, branch: str | None) -> int:
    """Keep one issue that says what is wrong with the campaigns of a target, and what to do. Sends nothing.

    The issue is opened when a job has failed, when people are held since it is not known what they got, and
    when the record waits on the branch runner/record. It is edited in place, gets a comment when it becomes
    worse, and is closed when all is well.

    To be run as the last step of a job on GitHub, whatever became of the steps before, with GITHUB_TOKEN in
    the step's environment and the permission `issues: write`. Without rights the job's summary has
    everything. Outside of a job it is printed. Never fails for the issue's sake.
    """
    target, held, error = _find_held(scope)
    sight = Sight(
        target,
        os.environ.get("GITHUB_JOB", ""),
        ".".join(filter(None, map(os.environ.get, ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")))),
        find_run_url(os.environ) or "",
        outcome,
        held,
        _find_record(remote, branch),
    )
    _publish(sight, _find_place(scope, held), quiet=scope.quiet)
    if error is not None:
        raise error
    return 0


def _find_held(scope: Scope) -> tuple[str, HeldPeople, RunnerError | None]:
    """Return the target's name, the people who are held there, and what is wrong with the ledger."""
    try:
        workspace = Workspace.open(scope, needs_credentials=False)
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
        # What is reserved is just being sent.
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
    """Return how many people a machine that is gone was about to text, as the state remote tells."""
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
        return WaitingRecord(tuple(list_waiting(remote, branch)), branch)
    except RunnerError as error:
        return WaitingRecord(branch=branch or "", gap=error.message)


def _read_wanted(scope: Scope) -> set[str] | None:
    """Return the names of the campaigns that the command is about; None if it is about all."""
    return set(_read_files(scope)) if scope.paths else None


def _read_files(scope: Scope) -> dict[str, str]:
    """Return the campaign files by the names of the campaigns, whether or not they are valid."""
    return {
        name: show_path(file)
        for file in find_campaign_files(scope.paths)
        for name in read_names(
            file, current=Path.cwd(), allowed=tuple(p for p in scope.allowed if isinstance(p, Path))
        )
    }


def _find_place(scope: Scope, held: HeldPeople) -> Place:
    try:
        files = _read_files(scope) if held.counts else {}
    except RunnerError:
        files = {}
    return Place.find(os.environ, scope.state_remote, files)


def _publish(sight: Sight, place: Place, *, quiet: bool) -> None:
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
