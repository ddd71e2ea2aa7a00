"""`runner pause`: a campaign is not sent until a person lets it go on."""

from __future__ import annotations

import difflib
import secrets
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runner.campaign.load import read_names
from runner.cli.campaigns import DEFAULT_FOLDER, find_campaign_files
from runner.cli.console import note, print_json
from runner.cli.scope import Scope, format_option, ledger_scope
from runner.cli.workspace import Workspace
from runner.errors import UsageError
from runner.ledger.suppressions import Pause, set_pause
from runner.ledger.target_key import KeySource
from runner.service.target import SANDBOX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LONGEST_REASON = 500
CAMPAIGNS = click.argument("campaigns", nargs=-1, required=True, metavar="CAMPAIGN...")


@click.command(
    epilog='\b\nExamples:\n  runner pause customer-pulse --reason "a wrong link in the text"\n'
    "  runner pause campaigns/customer-pulse.yaml winter-hours --target live"
)
@CAMPAIGNS
@ledger_scope
@format_option("human", "json")
@click.option("--reason", default="", metavar="TEXT", help="Why: shown by plan and status, kept in git.")
def command(scope: Scope, campaigns: tuple[str, ...], format_: str, reason: str) -> int:
    """Put campaigns on hold on a target: nothing of them is sent, nor reminders.

    CAMPAIGN is a campaign's name or its file. `runner plan` counts their texts as on hold, and `runner apply`
    sends the other campaigns and ends with 7 if it has held something back. `runner reconcile` goes on
    reading answers and opt-outs.

    This is kept in campaigns/<target>.suppressions.json: `runner record` commits it, so that other machines
    know of it. `runner resume` ends it.
    """
    words = " ".join(reason.split())
    if len(words) > LONGEST_REASON:
        raise UsageError(f"--reason is longer than {LONGEST_REASON} characters")
    return change_pauses(scope, campaigns, words, format_)


def change_pauses(scope: Scope, campaigns: Sequence[str], reason: str | None, format_: str) -> int:
    """Pause campaigns, or let them go on, and say what has become of each.

    Args:
        scope: the command's options.
        campaigns: names or files.
        reason: why they are paused; None to let them go on.
        format_: `human` or `json`.

    Raises:
        UsageError: there is no such campaign.
    """
    found = [_find_names(campaign) for campaign in dict.fromkeys(campaigns)]
    files = tuple(Path(campaign) for campaign in campaigns if _is_file(campaign))
    workspace = Workspace.open(replace(scope, paths=files), needs_credentials=False)
    target = workspace.target
    people = KeySource(target.name, target.state_key, secrets.token_hex(16))
    with workspace.open_ledger() as ledger:
        with ledger.writing() as connection:
            changed = []
            for names in found:
                # A renamed campaign may have been paused under a name that it had before.
                meant = names[:1] if reason is not None else names
                at = workspace.now_text()
                changed.append(sum(set_pause(connection, people, name, reason, at) for name in meant) > 0)
        told = workspace.suppressions.read(ledger)
    items = [
        _describe(names, told.pauses, is_changed=is_changed)
        for names, is_changed in zip(found, changed, strict=True)
    ]
    if format_ == "json":
        command = "resume" if reason is None else "pause"
        print_json({"target": target.name, "command": command, "campaigns": items})
        return 0
    for item in items:
        click.echo(_sentence(item, target.name))
    if any(changed) and target.name != SANDBOX and not scope.quiet:
        note(f"`runner record` commits {workspace.suppressions.places[0]}: other machines learn of it there.")
    return 0


def _is_file(campaign: str) -> bool:
    return Path(campaign).suffix in {".yaml", ".yml"}


def _find_names(campaign: str) -> tuple[str, ...]:
    """Return the name of a campaign that a user means by its name or file, and those that it had before."""
    if _is_file(campaign):
        if not Path(campaign).is_file():
            raise UsageError(f"there is no file {campaign}")
        return read_names(Path(campaign), current=Path.cwd(), allowed=())
    known = {names[0]: names for names in _iterate_names()}
    if campaign in known:
        return known[campaign]
    close = difflib.get_close_matches(campaign, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(known)) or 'none'}"
    raise UsageError(f"there is no campaign {campaign!r} in {DEFAULT_FOLDER}", hint=hint)


def _iterate_names() -> Iterator[tuple[str, ...]]:
    for file in find_campaign_files(()):
        names = read_names(file, current=Path.cwd(), allowed=())
        if names:
            yield names


def _describe(names: Sequence[str], pauses: dict[str, Pause], *, is_changed: bool) -> dict[str, Any]:
    pause = next((pauses[name] for name in names if name in pauses), None)
    return {
        "name": names[0],
        "changed": is_changed,
        "paused": pause is not None,
        "at": None if pause is None else pause.at,
        "reason": None if pause is None else pause.reason,
    }


def _sentence(item: dict[str, Any], target: str) -> str:
    if item["paused"]:
        return f"{item['name']} on {target}: {Pause(item['at'], item['reason']).describe()}."
    return f"{item['name']} on {target}: {'goes on' if item['changed'] else 'was not on hold'}."
