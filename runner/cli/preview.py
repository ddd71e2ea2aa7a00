"""`runner preview`: the conversations as recipients will see them, worst cases first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from runner.campaign.audience import AudienceTally, Recipient, iterate_audience, read_excluded
from runner.campaign.branch import BranchTracer
from runner.campaign.case import CaseFinder, Conversation
from runner.campaign.include import include_folder
from runner.campaign.phone import mask_phone
from runner.campaign.template import TextCompiler
from runner.campaign.variants import Draw
from runner.cli.audience_check import find_audience_problems
from runner.cli.console import print_json
from runner.cli.conversations import Preview, preview_json, preview_markdown, write_preview
from runner.cli.diagnostics import refuse_errors
from runner.cli.phone_list import parse_phones
from runner.cli.scope import Scope, format_option, single_scope
from runner.errors import RunnerError, UsageError
from runner.plan.track import Track, compile_tracks
from runner.source.diagnostic import Problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign

_CASES = 3


@click.command(
    epilog="\b\nExamples:\n  runner preview campaigns/customer-pulse.yaml\n"
    "  runner preview campaigns/customer-pulse.yaml --phone +14155550101\n"
    "  runner preview campaigns/customer-pulse.yaml --message ask --cases 10"
)
@click.argument(
    "campaign_file", metavar="CAMPAIGN", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--phone", metavar="PHONE", help="Whose conversation. Default: the worst cases of all.")
@click.option("--message", metavar="MESSAGE", help="This message's conversations alone.")
@click.option(
    "--cases",
    type=click.IntRange(1),
    metavar="N",
    default=_CASES,
    show_default=True,
    help="At most N conversations of each message, and of each of its arms.",
)
@single_scope
@format_option("human", "json", "markdown")
def command(
    scope: Scope, campaign_file: Path, phone: str | None, message: str | None, cases: int, format_: str
) -> int:
    """Show whole conversations as recipients will see them, worst cases first.

    Those are, of each message: the most segments, the longest text, and the branches of its templates that
    fewest people get. Nothing is sent. The whole audience is checked on the way.
    """
    (campaign,) = replace(scope, paths=(campaign_file,)).load_valid_campaigns()
    problems = Problems()
    find_audience_problems(campaign, problems)
    refuse_errors(problems, quiet=scope.quiet)
    gallery = _Gallery.open(campaign, message)
    if phone is None:
        preview = gallery.show_worst(cases)
    else:
        (person,) = parse_phones([phone])
        preview = gallery.show_one(person)
    if format_ == "json":
        print_json(preview_json(preview))
    elif format_ == "markdown":
        click.echo(preview_markdown(preview), nl=False)
    else:
        write_preview(preview)
    return 0


@dataclass(frozen=True, slots=True)
class _Gallery:
    """The conversations of a campaign's whole audience."""

    campaign: Campaign
    tracks: list[Track]
    finders: dict[tuple[str, str | None], CaseFinder]
    draw: Draw | None
    excluded: frozenset[str]

    @classmethod
    def open(cls, campaign: Campaign, message: str | None) -> _Gallery:
        """Prepare the texts of a campaign that has no problems; of one message alone, if it is named."""
        known = [one.id for one in campaign.messages]
        if message is not None and message not in known:
            raise UsageError(f"{campaign.name} has no message {message!r}", hint=f"known: {', '.join(known)}")
        folder = include_folder(campaign)
        tracks = [
            track
            for track in compile_tracks(campaign, TextCompiler(folder), Problems())
            if message in (None, track.message.id)
        ]
        finders = {
            (track.message.id, arm): CaseFinder(renderer, BranchTracer(renderer.message, folder), arm)
            for track in tracks
            for arm, renderer in track.renderers.items()
        }
        draw = None if campaign.variants is None else Draw(campaign.variants)
        return cls(campaign, tracks, finders, draw, read_excluded(campaign, Problems()))

    def show_one(self, phone: str) -> Preview:
        """Return what one recipient gets.

        Raises:
            RunnerError: `phone` is none of the recipients.
        """
        for recipient in self._iterate_audience():
            if recipient.phone == phone:
                return Preview(self.campaign, recipient, self._converse(recipient), why_not=self._bar(phone))
        raise RunnerError(
            f"{mask_phone(phone)} is no recipient of {self.campaign.name}",
            hint="--phone takes one of its recipients",
        )

    def show_worst(self, cases: int) -> Preview:
        """Return the worst conversations.

        Raises:
            RunnerError: nobody gets anything.
        """
        first = None
        for recipient in self._iterate_audience():
            if self._bar(recipient.phone) is None:
                first = first or recipient
                for finder in self._choose_finders(recipient.phone):
                    finder.take(recipient)
        if first is None:
            raise RunnerError(f"nobody gets anything of {self.campaign.name}")
        seen = [finder for finder in self.finders.values() if finder.people]
        found = tuple((finder, tuple(finder.list_cases(cases))) for finder in seen)
        return Preview(self.campaign, first, self._converse(first), found)

    def _iterate_audience(self) -> Iterator[Recipient]:
        names = frozenset[str]().union(*(track.names for track in self.tracks))
        return iterate_audience(self.campaign, names, Problems(), AudienceTally())

    def _bar(self, phone: str) -> str | None:
        if phone in self.excluded:
            return "excluded: gets nothing"
        if self.draw is not None and self.draw.is_held_out(phone):
            return "held out for comparison: gets nothing"
        return None

    def _converse(self, recipient: Recipient) -> tuple[Conversation, ...]:
        return tuple(finder.converse(recipient) for finder in self._choose_finders(recipient.phone))

    def _choose_finders(self, phone: str) -> Iterator[CaseFinder]:
        arm = None if self.draw is None else self.draw.choose_arm(phone)
        for track in self.tracks:
            yield self.finders[track.message.id, arm.id if arm and track.has_arms else None]
