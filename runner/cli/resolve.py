"""`runner resolve`: launches whose outcome is not known, and a person's word on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from runner.cli.campaign_run import RunOptions
from runner.cli.console import count_words, note, print_json, print_table
from runner.cli.custody import Custody
from runner.cli.scope import Scope, format_option, target_scope
from runner.cli.workspace import Workspace, utc_now
from runner.deliver.match import is_same_text
from runner.deliver.settle import write_moment
from runner.errors import RunnerError, UsageError
from runner.ledger.entry import adopt_in_part
from runner.ledger.unsettled import release_launch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runner.campaign.model import Campaign
    from runner.deliver.match import Candidate, Verdict
    from runner.ledger.database import Ledger

UNKNOWN_OUTCOMES = 4
_SAID = "a person said that it was not sent"


@click.command(
    epilog="\b\nExamples:\n  runner resolve\n  runner resolve --launch 01c0330dfb2a63d67bfe --not-sent\n"
    "  runner resolve --adopt 60ee2192-c686-4f61-a592-957a04378b6f"
)
@target_scope
@format_option("human", "json")
@click.option("--launch", "key", metavar="KEY", help="The launch that is meant, if there are several.")
@click.option("--adopt", "guid", metavar="GUID", help="It was sent: this is the service's launch.")
@click.option("--not-sent", is_flag=True, help="It was not sent: its recipients can be texted.")
def command(scope: Scope, format_: str, key: str | None, guid: str | None, not_sent: bool) -> int:
    """List launches whose outcome is not known, with what the service lists that may be them.

    Most are settled by `apply` itself. What is left are launches that only partly fit: --adopt and
    --not-sent say what became of one. Recipients that an adopted launch has not reached can be
    texted again. Exits with 4 as long as there are any.
    """
    if guid and not_sent:
        raise UsageError("--adopt and --not-sent contradict each other")
    workspace = Workspace.open(scope)
    campaigns = scope.load_valid_campaigns()
    options = RunOptions(quiet=scope.quiet, verbose=scope.verbose)
    with workspace.open_ledger() as opened, Custody(workspace, opened, options) as held:
        open_cases = [(c, verdict) for c in campaigns for verdict in held.judge(c)]
        if guid or not_sent:
            campaign, verdict = _choose(open_cases, key, guid)
            reached = _adopt(opened, campaign, verdict, guid) if guid else _release(opened, verdict)
            held.rewrite_lockfile(campaign)
            open_cases.remove((campaign, verdict))
            if not scope.quiet:
                people = count_words(reached, "recipient")
                note(f"Recorded: {verdict.launch.key} ({people}) was {'sent' if guid else 'not sent'}.")
    _WRITERS[format_](open_cases)
    return UNKNOWN_OUTCOMES if open_cases else int(held.is_behind)


def _choose(
    cases: Sequence[tuple[Campaign, Verdict]], key: str | None, guid: str | None
) -> tuple[Campaign, Verdict]:
    chosen = [case for case in cases if key in (None, case[1].launch.key)]
    if guid:
        chosen = [case for case in chosen if guid in _guids(case[1])]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        keys = ", ".join(case[1].launch.key for case in chosen)
        raise UsageError(
            "there are several launches of unknown outcome", hint=f"name one with --launch: {keys}"
        )
    what = f"the service's launch {guid} may be none of" if guid else "there is no such launch among"
    raise RunnerError(f"{what} the launches of unknown outcome", hint="`runner resolve` lists them")


def _guids(verdict: Verdict) -> list[str]:
    return [candidate.stat.project_launch_guid for candidate in _candidates(verdict)]


def _candidates(verdict: Verdict) -> tuple[Candidate, ...]:
    return (verdict.match, *verdict.doubtful) if verdict.match else verdict.doubtful


def _adopt(ledger: Ledger, campaign: Campaign, verdict: Verdict, guid: str) -> int:
    """Record that a launch was sent, and return to how many."""
    launch = verdict.launch
    found = next(c for c in _candidates(verdict) if c.stat.project_launch_guid == guid)
    at = write_moment(found.stat.project_launch_start, utc_now())
    # Where the service doesn't say whom it has reached, everybody counts as reached.
    reached = found.recipients or launch.recipients
    with ledger.writing() as connection:
        adopt_in_part(connection, campaign.name, launch, guid, at, reached)
    return len(reached)


def _release(ledger: Ledger, verdict: Verdict) -> int:
    """Record that a launch was not sent, and return to how many.

    Raises:
        RunnerError: the service lists the very launch.
    """
    launch = verdict.launch
    if verdict.match is not None:
        guid = verdict.match.stat.project_launch_guid
        raise RunnerError(
            f"{launch.key} was sent: the service lists the same text to the same recipients as {guid}",
            hint=f"record it with: runner resolve --launch {launch.key} --adopt {guid}",
        )
    with ledger.writing() as connection:
        release_launch(connection, launch.id, utc_now(), _SAID)
    return len(launch.recipients)


def _launch_json(campaign: Campaign, verdict: Verdict) -> dict[str, Any]:
    launch = verdict.launch
    return {
        "campaign": campaign.name,
        "key": launch.key,
        "message": launch.message,
        "tag": launch.tag,
        "recipients": len(launch.recipients),
        "intent_at": launch.intent_at,
        "detail": launch.detail or "the process ended before an answer came",
        "candidates": [
            {
                "project_launch_guid": candidate.stat.project_launch_guid,
                "project_launch_start": write_moment(candidate.stat.project_launch_start, "unknown"),
                "recipients": len(candidate.recipients),
                "recipients_in_common": len(candidate.recipients & launch.recipients),
                "same_definition": is_same_text(launch, candidate),
            }
            for candidate in _candidates(verdict)
        ],
    }


def _write_json(cases: Sequence[tuple[Campaign, Verdict]]) -> None:
    print_json({"launches": [_launch_json(campaign, verdict) for campaign, verdict in cases]})


def _write_human(cases: Sequence[tuple[Campaign, Verdict]]) -> None:
    if not cases:
        click.echo("Nothing is unresolved.")
    for campaign, verdict in cases:
        launch = _launch_json(campaign, verdict)
        people = count_words(launch["recipients"], "recipient")
        click.secho(f"{campaign.name}/{launch['message']}  launch {launch['key']}, {people}", bold=True)
        click.echo(f"  about to be sent {launch['intent_at']}; {launch['detail']}")
        if not verdict.doubtful and not verdict.match:
            click.echo("  the service lists nothing that may be it; `runner apply` settles it")
            continue
        rows = [
            (
                c["project_launch_guid"],
                c["project_launch_start"],
                c["recipients"],
                c["recipients_in_common"],
                "the same" if c["same_definition"] else "another",
            )
            for c in launch["candidates"]
        ]
        print_table(("the service's launch", "started", "recipients", "of them ours", "text"), rows)


_WRITERS = {"human": _write_human, "json": _write_json}
