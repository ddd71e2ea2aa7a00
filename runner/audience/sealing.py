"""Encrypted audiences: who may read them, how many rows they have, and what is not encrypted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.audience.files import is_pattern
from runner.campaign.model import FileRecipients
from runner.source.encrypted import ENDING, VARIABLE, is_encrypted, is_sealed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.campaign.model import Campaign, RecipientSource
    from runner.source.diagnostic import Diagnostic

SEALED_HINT = f"set {VARIABLE} to the key, where texts are planned and sent"


def find_encryption_problems(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield people who stand unencrypted against the policy, and numbers of rows that cannot be checked."""
    for source in (*campaign.recipients, *campaign.exclude):
        file = source if isinstance(source, FileRecipients) else None
        if campaign.policy.audience == "encrypted" and not (file and is_encrypted(file.location)):
            words = "this file of people is" if file else "this phone is"
            hint = f"encrypt them with age: `csv:` with a file whose name ends in .csv{ENDING}"
            yield source.position.problem(
                "audience-plain", f"{words} not encrypted, and `audience: encrypted` asks for it", hint
            )
        if file and file.rows is not None and is_pattern(file.location):
            words = f"`rows` is of one file, and {file.path.name} may match several"
            hint = "take `rows` out, or write an entry for each file, with its own"
            yield source.position.problem("audience-rows-pattern", words, hint)


def list_sealed(campaign: Campaign) -> list[FileRecipients]:
    """Return the encrypted files of a campaign for which there is no key here."""
    sources = (*campaign.recipients, *campaign.exclude)
    return [one for one in sources if isinstance(one, FileRecipients) and is_sealed(one.location)]


def describe_sealed(source: FileRecipients) -> str:
    """Return what is known of an encrypted file without its key."""
    rows = "not known" if source.rows is None else f"{source.rows:,}, as the campaign says"
    return f"{source.path.name} is encrypted, and {VARIABLE} is not set; its rows: {rows}"


def note_sealed(campaign: Campaign) -> Iterator[Diagnostic]:
    """Yield a warning about each file that cannot be checked for want of its key."""
    for source in list_sealed(campaign):
        words = f"{describe_sealed(source)}: neither they nor its columns are checked"
        yield source.position.problem("audience-sealed", words, SEALED_HINT, "warning")


def check_rows(source: RecipientSource, rows: int) -> Iterator[Diagnostic]:
    """Yield what is wrong with `rows` beside a file that has this many."""
    if not isinstance(source, FileRecipients):
        return
    if source.rows is not None and source.rows != rows:
        words = f"`rows` says {source.rows:,}, and {source.path.name} has {rows:,}"
        yield source.position.problem("audience-rows", words, f"write `rows: {rows}`")
    elif source.rows is None and is_encrypted(source.location):
        words = f"reviewers without the key do not see how many rows {source.path.name} has"
        hint = f"write `rows: {rows}` beside it"
        yield source.position.problem("audience-rows-unsaid", words, hint, "warning")
