"""Digests of what people review of a campaign: its file, included texts, and the files of its people.

Neither the record nor the time is in them, nor who has opted out: these change by themselves. Who is excluded
is, and files count to the byte: other people in them, or other words, are something else to review.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from runner.campaign.include import include_folder
from runner.campaign.recipients import FileRecipients
from runner.campaign.template import TextCompiler
from runner.errors import CampaignError
from runner.plan.approval import write_canonical
from runner.plan.track import compile_tracks
from runner.source.diagnostic import Problems
from runner.source.storage import open_binary

if TYPE_CHECKING:
    from runner.campaign.model import Campaign
    from runner.ledger.fingerprint import FingerprintKey

_BLOCK = 1 << 20


def digest_reviewed(campaign: Campaign, key: FingerprintKey) -> dict[str, str]:
    """Return the digests of what is reviewed of a campaign, by their names (`ApprovalRequest`).

    Args:
        campaign: one that is valid.
        key: the user's, for every purpose: the digests are public, and phones can be guessed.

    Raises:
        CampaignError: one of its files cannot be read any more.
    """
    own = key.for_purpose("reviewed")
    sources = [("recipients", one) for one in campaign.recipients]
    sources += [("exclude", one) for one in campaign.exclude]
    audience = [
        (role, _digest_file(campaign, source.location))
        for role, source in sources
        if isinstance(source, FileRecipients)
    ]
    said = {
        "campaign": _digest_file(campaign, str(campaign.file)),
        "included": sorted(_read_included(campaign).items()),
        "audience": audience,
    }
    return {name: own.seal(write_canonical([name, value]).encode()) for name, value in said.items()}


def _read_included(campaign: Campaign) -> dict[str, str | None]:
    """Return what the texts of a campaign include, by name; None for what is not there."""
    # To compile texts takes longer than all the rest, and few include anything.
    if "include" not in repr((campaign.messages, campaign.variants)):
        return {}
    compiler = TextCompiler(include_folder(campaign))
    for _ in compile_tracks(campaign, compiler, Problems()):
        pass  # compiled to see what they include
    return compiler.included


def _digest_file(campaign: Campaign, location: str) -> str:
    try:
        with open_binary(location) as stream:
            digest = hashlib.sha256()
            while block := stream.read(_BLOCK):
                digest.update(block)
            return digest.hexdigest()
    except OSError:
        raise CampaignError(
            f"the files of {campaign.name} have changed while it was planned",
            hint="run the same command again",
        ) from None
