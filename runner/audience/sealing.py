"""Encrypted audiences: what is known of them without their key, and people who are not encrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.audience.files import is_pattern
from runner.campaign.model import FileRecipients
from runner.errors import CampaignError, SealedAudienceError
from runner.source.diagnostic import Diagnostic
from runner.source.encrypted import ENDING, VARIABLE, EncryptedFileError, check_start, is_encrypted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign, RecipientSource

_KEY_HINT = f"set {VARIABLE} to the key, where texts are planned and sent"


def list_encrypted(campaign: Campaign) -> list[FileRecipients]:
    """Return the encrypted files of a campaign."""
    sources = (*campaign.recipients, *campaign.exclude)
    return [one for one in sources if isinstance(one, FileRecipients) and is_encrypted(one.location)]


def is_sealed(source: FileRecipients) -> bool:
    """Return whether a file is encrypted, and there is no key to read it."""
    return is_encrypted(source.location) and not source.identity


def describe_sealed(what: str, rows: int | None) -> str:
    """Return what is known of an encrypted audience, or a file of it, without its key."""
    known = "not known" if rows is None else f"{rows:,}"
    return f"{what} is encrypted, and {VARIABLE} is not set; rows in it: {known}"


def count_rows(campaign: Campaign) -> int | None:
    """Return the rows of a campaign's recipients, as it says itself; None if it does not say them all."""
    rows = [one.rows if isinstance(one, FileRecipients) else 1 for one in campaign.recipients]
    return None if None in rows else sum(filter(None, rows))


def require_key(campaign: Campaign) -> None:
    """Refuse to go on with a campaign whose audience cannot be read here; raises SealedAudienceError."""
    if any(map(is_sealed, list_encrypted(campaign))):
        words = describe_sealed(f"{campaign.name}: its audience", count_rows(campaign))
        raise SealedAudienceError(words, hint=_KEY_HINT)


def require_plain(campaign: Campaign) -> None:
    """Refuse an encrypted audience, for a cluster; raises CampaignError."""
    if list_encrypted(campaign):
        words = f"{campaign.name}: its audience is encrypted, and a cluster would write its rows to files"
        raise CampaignError(words, hint="plan it in one process, without --cluster")


def find_encryption_problems(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield what is wrong with encrypted audiences, as the campaign has them.

    These are people who stand unencrypted against the policy, and numbers of rows that cannot be checked.
    """
    for source in (*campaign.recipients, *campaign.exclude):
        file = source if isinstance(source, FileRecipients) else None
        if campaign.policy.audience == "encrypted" and not (file and is_encrypted(file.location)):
            what = "file of people" if file else "phone"
            words = f"this {what} is not encrypted, as `audience: encrypted` asks"
            hint = f"encrypt them with age: `csv:` with a file whose name ends in .csv{ENDING}"
            yield source.position.problem("audience-plain", words, hint)
        if file and file.rows is not None and is_pattern(file.location):
            words = f"`rows` is of one file, and {file.path.name} may match several"
            hint = "take `rows` out, or write an entry for each file, with its own"
            yield source.position.problem("audience-rows-pattern", words, hint)


def find_closed_files(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield the files, with patterns expanded, that only their names call encrypted, and warn of sealed ones.

    The first bytes tell without a key. Those at URLs are not fetched for it.
    """
    for file in list_encrypted(campaign):
        try:
            if file.url is None:
                check_start(file.location)
        except EncryptedFileError as error:
            yield Diagnostic("error", error.code, error.message, file.path, 1, 1, error.hint)
            continue
        except OSError:
            pass  # reading it reports that
        if is_sealed(file):
            words = f"{describe_sealed(file.path.name, file.rows)}; they and its columns are not checked"
            yield file.position.problem("audience-sealed", words, _KEY_HINT, "warning")


def check_rows(source: RecipientSource, rows: int) -> Iterator[Diagnostic]:
    """Yield what is wrong with `rows` beside a file that has this many."""
    if not isinstance(source, FileRecipients):
        return
    if source.rows is not None and source.rows != rows:
        words = f"`rows` says {source.rows:,}, and {source.path.name} has {rows:,}"
        place = source.rows_position or source.position
        yield place.problem("audience-rows", words, f"write `rows: {rows}`")
    elif source.rows is None and is_encrypted(source.location):
        words = f"reviewers without the key do not see how many rows {source.path.name} has"
        yield source.position.problem("audience-rows-unsaid", words, f"write `rows: {rows}`", "warning")
