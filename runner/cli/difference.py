"""`runner plan --diff`: what changed against what was sent, grouped by equal change."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from runner.campaign.include import include_folder
from runner.campaign.template import TextCompiler
from runner.cli.console import count_words
from runner.cli.inert import printable
from runner.cli.job_summary import append_summary
from runner.ledger.lockfiles import all_launches, read_lockfiles
from runner.ledger.sent_texts import SentTexts, read_definitions, read_sent_texts
from runner.plan.difference import compare_with_sent
from runner.plan.track import compile_tracks
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from runner.campaign.model import Campaign
    from runner.cli.planning import Planned
    from runner.cli.workspace import Workspace
    from runner.ledger.database import Ledger
    from runner.ledger.recorded import Record
    from runner.plan.difference import ChangeGroup, MessageDifference, ReadDefinitions
    from runner.plan.wording import Wording

_COLOURS = {"@": "cyan", "-": "red", "+": "green"}


Differences = dict[str, list["MessageDifference"]]
"""How campaigns differ from what was sent of them, by their names."""


def find_differences(
    workspace: Workspace, ledger: Ledger | None, planned: Iterable[Planned], only: str | None
) -> Differences:
    """Return how campaigns differ from what was sent of them.

    Args:
        workspace: names the target.
        ledger: open for reading; None if there is none.
        planned: the campaigns with their records, without errors.
        only: the one message to compare; None for all.

    Raises:
        LedgerError: the ledger cannot be read.
        LockfileError: the lockfile cannot be read.
    """
    return {
        item.campaign.name: _compare_campaign(workspace, ledger, item.campaign, item.record, only)
        for item in planned
    }


def _compare_campaign(
    workspace: Workspace, ledger: Ledger | None, campaign: Campaign, record: Record, only: str | None
) -> list[MessageDifference]:
    compiler = TextCompiler(include_folder(campaign))
    tracks = [
        track for track in compile_tracks(campaign, compiler, Problems()) if only in (None, track.message.id)
    ]
    identity = workspace.identify(campaign)
    launches = list(all_launches(read_lockfiles(identity)))

    def compare(sent: SentTexts, read: ReadDefinitions) -> list[MessageDifference]:
        sent.add_recorded(launches)
        return compare_with_sent(campaign, tracks, record.known, record.key, sent, read)

    if ledger is None or record.campaign_id is None:
        return compare(SentTexts(), lambda _: {})
    with ledger.reading() as connection:
        sent = read_sent_texts(connection, record.campaign_id, identity.message_ids)
        return compare(sent, partial(read_definitions, connection))


def write_differences(differences: Differences, format_: str) -> None:
    """Write differences below a plan: to standard output, and with `github` to the job's summary, too.

    Args:
        differences: the differences.
        format_: `human`, `markdown` or `github`.
    """
    if format_ == "markdown":
        click.echo(differences_markdown(differences), nl=False)
        return
    for campaign, found in differences.items():
        click.echo()
        click.secho(f"{campaign}: changes since it was sent", bold=True)
        for difference in found:
            _write_difference(difference)
    if format_ == "github":
        append_summary(differences_markdown(differences))


def _write_difference(difference: MessageDifference) -> None:
    click.echo(f"  {_summary(difference)}")
    for line in _diff_lines(difference):
        click.secho(f"    {line}", fg=_COLOURS[line[0]])
    for line in _remarks(difference):
        click.echo(f"    {line}")


def differences_markdown(differences: Differences) -> str:
    """Return differences as Markdown for a pull request or a job's summary."""
    return "".join(
        f"\n### {campaign}: changes since it was sent\n" + "".join(map(difference_markdown, found))
        for campaign, found in differences.items()
    )


def difference_markdown(difference: MessageDifference) -> str:
    """Return how one message differs from what was sent of it, as Markdown."""
    text = f"\n{_summary(difference)}\n"
    lines = list(_diff_lines(difference))
    if lines:
        shown = "\n".join(lines)
        # Longer than any that a text could close it with (CommonMark 0.31, 4.5).
        longest = max((len(run) for run in re.findall("`+", shown)), default=0)
        fence = "`" * max(3, longest + 1)
        text += f"\n{fence}diff\n{shown}\n{fence}\n"
    return text + "".join(f"\n- {line}\n" for line in _remarks(difference))


def add_differences(document: dict[str, Any], differences: Differences) -> dict[str, Any]:
    """Return a plan's JSON with a `diff` below each message (`schemas/plan.schema.json`)."""
    for campaign in document["campaigns"]:
        found = {difference.message: difference for difference in differences.get(campaign["name"], ())}
        for message in campaign["messages"]:
            if message["id"] in found:
                message["diff"] = _difference_json(found[message["id"]])
    return document


def _difference_json(difference: MessageDifference) -> dict[str, Any]:
    return {
        "unchanged": difference.unchanged,
        "changed": difference.changed,
        "not_in_ledger": difference.lost + difference.unreadable,
        "failing": difference.failing,
        "gone": difference.gone,
        "new": difference.new,
        "groups": [
            {
                "recipients": group.recipients,
                "is_example": group.is_example,
                "old": _wording_json(group.old),
                "new": _wording_json(group.new),
            }
            for group in difference.groups
        ],
        "more_groups": difference.more_groups,
        "more_recipients": difference.more_recipients,
    }


def _wording_json(wording: Wording) -> list[dict[str, str]]:
    return [{"part": part, "text": text} for part, text in wording]


def _summary(difference: MessageDifference) -> str:
    name = difference.message
    if difference.is_empty:
        return f"{name}: nothing was sent yet; {count_words(difference.new, 'recipient')} new"
    counts = {
        "unchanged": difference.unchanged,
        "changed": difference.changed + difference.lost,
        "no longer in the audience": difference.gone,
        "new": difference.new,
    }
    return f"{name}: " + ", ".join(f"{count:,} {words}" for words, count in counts.items())


def _diff_lines(difference: MessageDifference) -> Iterator[str]:
    for group in difference.groups:
        yield f"@@ {_group_words(group)} @@"
        old, new = dict(group.old), dict(group.new)
        for part in dict.fromkeys((*old, *new)):
            for sign, wording in (("-", old), ("+", new)):
                if part in wording:
                    yield from _part_lines(sign, part, wording[part])


def _group_words(group: ChangeGroup) -> str:
    people = count_words(group.recipients, "recipient")
    return f"{people}, as for one of them" if group.is_example else people


def _part_lines(sign: str, part: str, text: str) -> Iterator[str]:
    first, *others = text.split("\n")
    yield f"{sign}{part}: {printable(first)}"
    yield from (f"{sign}  {printable(line)}" for line in others)


def _remarks(difference: MessageDifference) -> Iterator[str]:
    if difference.more_groups:
        more = count_words(difference.more_groups, "more change")
        yield f"and {more}, for {count_words(difference.more_recipients, 'recipient')}"
    if difference.lost:
        people = count_words(difference.lost, "recipient's text has", "recipients' texts have")
        yield f"{people} changed; the old one is not in this ledger"
    if difference.unreadable:
        yield f"{count_words(difference.unreadable, 'recipient')} texted; with what is not in this ledger"
    if difference.failing:
        people = count_words(difference.failing, "recipient's text", "recipients' texts")
        yield f"{people} can no longer be rendered"
