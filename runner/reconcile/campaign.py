"""Brings the service's counts and results of a campaign's launches into the ledger.

Incremental: the counts are read for every launch, results only of launches whose counts say that
the ledger lacks some, and of these only until it has them (see `reading`). While the service deletes no
result, counts that add up mean that nothing is missing. What they cannot tell, a result that was edited or
one that was deleted while another came, is found by reading in full.

A result in the ledger has no phone. So launches with replies that came before opt-outs were kept, or before
the rules found them, are read once more.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from runner.reconcile.backlog import Backlog
from runner.reconcile.held import (
    choose_sources,
    count_listed,
    find_unscreened,
    keep_readings,
    keep_starts,
    read_held,
    remove_unlisted_results,
)
from runner.reconcile.intake import Intake
from runner.reconcile.reading import Reading
from runner.reconcile.sessions import SessionLog
from runner.reconcile.summary import ReadLaunches, find_differences, summarise
from runner.reconcile.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Callable

    from runner.ledger.database import Ledger
    from runner.ledger.fingerprint import FingerprintKey
    from runner.ledger.target_key import KeySource
    from runner.reconcile.summary import ReconcileSummary
    from runner.service.client import ServiceClient


def reconcile_campaign(
    ledger: Ledger,
    client: ServiceClient,
    *,
    campaign_id: int,
    campaign: str,
    key: FingerprintKey,
    people: KeySource,
    now: Callable[[], str],
    observe_progress: Callable[[int], None],
    full: bool = False,
    accept: bool = False,
    drops: bool = False,
    opt_out_words: tuple[str, ...] = (),
) -> ReconcileSummary:
    """Bring one campaign's counts, results and opt-outs up to date.

    Args:
        ledger: where they go.
        client: the service.
        campaign_id: the ledger's number of the campaign.
        campaign: its name.
        key: turns the results' phone numbers into fingerprints.
        people: does so for opt-outs, which hold for every campaign on the target.
        now: returns UTC, ISO 8601.
        observe_progress: is called with the number of launches or results read since the last call.
        full: read every result again: finds those that were edited, and those that the counts hide.
        accept: take what the service lists for all there is, whatever it counts.
        drops: remove the results that the service does not list any more.
        opt_out_words: those that opt out besides, as the campaign has it.

    Raises:
        ServiceError: the service cannot be asked; what was read before is kept.
        LedgerError: the ledger cannot be written, or the target's key is not at hand.
    """
    held = read_held(ledger, campaign_id, people.target)
    taking = partial(Intake, ledger, campaign_id=campaign_id, campaign=campaign, key=key, people=people)
    log = SessionLog(taking(sources={}), held.launches)
    survey = Survey(client, held.launches, observe_progress, log.observe)
    read_at, stats = now(), survey.read_stats(set(held.launches))
    unscreened = find_unscreened(ledger, campaign_id, held, opt_out_words)
    sources = choose_sources(held, stats, unscreened, full=full)
    intake = taking(sources=sources, words=opt_out_words)
    keep_starts(ledger, held, stats)
    intake.store_stopped(stats.values(), now())
    backlog = Backlog(sources, count_listed(held, stats))
    stats |= Reading(
        client,
        backlog,
        intake,
        read_stats=lambda guids: survey.read_stats(guids).values(),
        now=now,
        observe_progress=observe_progress,
    ).read()
    short = backlog.list_short()
    intake.close(held.forgotten, short, is_screened=sources.keys() - short >= unscreened)
    removed = remove_unlisted_results(
        ledger, read_held(ledger, campaign_id, people.target), backlog, drops=drops
    )
    after = read_held(ledger, campaign_id, people.target)
    read = ReadLaunches.of(backlog, removed)
    findings = find_differences(after, stats, survey.unreadable.keys(), read)
    log.keep()
    # Last, and as of the start: that a launch is reconciled says that whoever has answered is known.
    differences = keep_readings(ledger, campaign_id, after, stats, findings, read_at, accept=accept)
    return summarise(held, after, stats, survey.unreadable, read, differences, intake.opted_out)
