"""Removal of texts and answers that are older than their campaigns keep them (`policy.retention`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from runner.campaign.answers import Endings
from runner.delivery.comparison import digest_definition
from runner.document import Count, Document, FailedCampaign, Part
from runner.errors import RunnerError, UsageError
from runner.ledger.model import CampaignLaunches
from runner.ledger.people.forgotten import LOG_KEEPS, compact, overwrite_removed
from runner.ledger.people.pruned import KeptFigures, Prunable, find_prunable, list_pruned, prune_launches
from runner.ledger.record.campaign_record import find_campaign_id
from runner.ledger.results.sendings import count_completed
from runner.report.columns.dataset import remove_copies
from runner.sandbox.store import open_store
from runner.sandbox.store import prune_launches as prune_sandbox
from runner.source.quantity import parse_duration
from runner.text.include import include_folder
from runner.text.template import TextCompiler
from runner.wording import count_words, show_time
from runner.workflow.results.campaign_report import CampaignReporter, ReportOptions, list_waves
from runner.workflow.workspace.folders import sandbox_database, state_folder
from runner.workflow.workspace.workspace import Workspace, find_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from runner.campaign.model import Campaign
    from runner.ledger.database import Ledger
    from runner.workflow.failures import Failures
    from runner.workflow.scope import Scope

_SERVICE = (
    "the service keeps its own texts and answers: ask its operator; reports, exports, backups and ledgers of "
    "other machines are pruned where they are"
)


class PrunedCampaign(Part, frozen=True):
    """A campaign, or a wave of one, whose texts and answers were removed, or are to stay for now.

    Attributes:
        campaign: the campaign's name.
        wave: the wave; None for a campaign without waves.
        launches: launches that have texts.
        results: answers in the ledger.
        reason: why they stay; None if they were removed.
    """

    campaign: str
    wave: str | None
    launches: Count
    results: Count
    reason: str | None = None

    @property
    def label(self) -> str:
        """The campaign's name, with its wave."""
        return f"{self.campaign} {self.wave}" if self.wave else self.campaign


class PrunedDocument(Document, frozen=True):
    """The document that `runner prune --format json` writes.

    Attributes:
        target: the target's name.
        pruned: what was removed.
        kept: what has a retention, and stays for now.
        unreached: what may still hold texts and answers, in sentences.
        failures: campaigns that were left out.
    """

    target: str
    pruned: tuple[PrunedCampaign, ...]
    kept: tuple[PrunedCampaign, ...]
    unreached: tuple[str, ...]
    failures: tuple[FailedCampaign, ...]


@dataclass(frozen=True, slots=True)
class _Part:
    """A campaign, or one wave of it, with what may be pruned of it."""

    campaign: Campaign
    number: int
    wave: str
    found: Prunable

    def describe(self, reason: str | None = None) -> PrunedCampaign:
        found = self.found
        return PrunedCampaign(self.campaign.name, self.wave or None, found.launches, found.results, reason)


def prune(
    scope: Scope,
    lock_timeout_s: float,
    approve: Callable[[tuple[PrunedCampaign, ...]], None],
    failures: Failures,
) -> PrunedDocument:
    """Remove the texts and answers of campaigns whose last text is older than their retention.

    `approve` gets what is to be removed, and raises to refuse. `lock_timeout_s` limits the wait
    for active runs.

    Raises:
        UsageError: no campaign has a retention.
    """
    workspace = Workspace.open_known(scope)
    campaigns = failures.load(scope, needs_audience=False, keeps_rules=False)
    if campaigns and all(_find_retention(one) is None for one in campaigns):
        raise UsageError(
            "no campaign says how long its answers are kept", hint="say so: `policy: {retention: 90d}`"
        )
    with workspace.open_ledger() as ledger:
        parts = [part for one in campaigns for part in _list_parts(workspace, ledger, one)]
        reasons = [_find_reason(workspace, part) for part in parts]
        due = [part for part, reason in zip(parts, reasons, strict=True) if reason is None]
        if due:
            approve(tuple(part.describe() for part in due))
        done = []
        for part in due:
            work = partial(_prune, workspace, ledger, part, lock_timeout_s)
            if failures.attempt(part.campaign, work) is not None:
                done.append(part.describe())
        gone = find_gone(workspace, scope, ledger, failures.claimed)
        unreached = (*_describe_gone(workspace, ledger, gone), *_finish(workspace, ledger))
    kept = tuple(part.describe(why) for part, why in zip(parts, reasons, strict=True) if why)
    return PrunedDocument(workspace.target.name, tuple(done), kept, unreached, failures.describe())


def _find_retention(campaign: Campaign) -> timedelta | None:
    """Return how long a campaign's answers are kept, by itself or by a rule, whichever is shorter."""
    rules = (parse_duration(one.bound) for one in campaign.rules.required if one.name == "retention")
    return min(filter(None, (campaign.policy.retention, *rules)), default=None)


def _describe_gone(workspace: Workspace, ledger: Ledger, gone: Iterable[Campaign]) -> Iterator[str]:
    """Yield the campaigns without files that have answers: nothing says how long these are kept."""
    for one in gone:
        number = find_campaign_id(ledger, workspace.identify_safely(one))
        with ledger.reading() as connection:
            found = None if number is None else find_prunable(connection, number)
        if found is not None and (found.launches or found.results):
            answers = count_words(found.results, "answer")
            yield f"{one.name}: its file is gone, and {answers} stay: bring it back, and prune again"


def _list_parts(workspace: Workspace, ledger: Ledger, campaign: Campaign) -> Iterator[_Part]:
    """Yield the campaign, or each of its waves, that has texts or answers left."""
    number = find_campaign_id(ledger, workspace.identify_safely(campaign))
    if number is None or _find_retention(campaign) is None:
        return
    for wave in list_waves(workspace, ledger, campaign) or [""]:
        with ledger.reading() as connection:
            found = find_prunable(connection, number, wave)
        if found.launches or found.results or found.unsettled:
            yield _Part(campaign, number, wave, found)


def _find_reason(workspace: Workspace, part: _Part) -> str | None:
    """Return why a campaign's texts and answers stay for now; None if they go."""
    found, retention = part.found, _find_retention(part.campaign)
    if found.last_at is not None and retention is not None:
        ends = datetime.fromisoformat(found.last_at) + retention
        if ends > workspace.now():
            return f"kept until {show_time(ends.isoformat())}"
    if found.unsettled:
        return f"{count_words(found.unsettled, 'launch', 'launches')} of unknown outcome: `runner resolve`"
    if found.is_open:
        return f"{count_words(found.is_open, 'launch', 'launches')} with a survey that may be open"
    if found.doubtful:
        replies = count_words(found.doubtful, "reply waits", "replies wait")
        return f"{replies} for a decision: `runner optouts list`"
    return None


def _prune(workspace: Workspace, ledger: Ledger, part: _Part, lock_timeout_s: float) -> bool:
    campaign = replace(part.campaign, wave=part.wave)
    with workspace.hold_lock(ledger, campaign, timeout_s=lock_timeout_s):
        options = ReportOptions(wave=part.wave or None)
        report = CampaignReporter(workspace, ledger, part.campaign, options).report().replace(comments=None)
        endings = Endings(campaign, TextCompiler(include_folder(campaign)))
        with ledger.writing() as connection:
            overwrite_removed(ledger, connection)
            if find_prunable(connection, part.number, part.wave) != part.found:
                raise RunnerError(
                    f"{part.describe().label} has changed meanwhile", hint="run `runner prune` again"
                )
            asked = CampaignLaunches(part.number, campaign.message_ids, part.wave)
            completed = count_completed(connection, asked, endings)
            kept = KeptFigures(workspace.now_text(), completed, report.keep())
            digest = partial(digest_definition, key=workspace.key)
            prune_launches(connection, part.number, part.wave, kept, lambda text: digest(json.loads(text)))
    return True


def _finish(workspace: Workspace, ledger: Ledger) -> tuple[str, ...]:
    """Remove what else holds pruned answers, also those of a killed run; return what is out of reach."""
    with ledger.reading() as connection:
        guids = list_pruned(connection, workspace.target.name)
    if not guids:
        return ()
    remove_copies(state_folder())
    unreached = [] if compact(ledger) else [LOG_KEEPS]
    if workspace.target.base_url is not None:
        return (*unreached, _SERVICE)
    if sandbox_database().exists():
        store = open_store(sandbox_database())
        try:
            prune_sandbox(store, guids)
        finally:
            store.close()
    return tuple(unreached)
