"""`runner law`: the legal sending hours that are known, with their sources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from runner.cli.console import count_words, markdown_table
from runner.cli.timing_words import describe_window
from runner.errors import RunnerError
from runner.timing.law import load_law

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.timing.law import LawBook, LegalWindow

_TEXTS = {"named": "named", "assumed": "assumed", "excluded": "calls alone"}
_COLUMNS = ("place", "hours", "holidays", "texts", "holds for", "law", "looked at")


@click.command(epilog="\b\nExamples:\n  runner law\n  runner law --stale")
@click.option(
    "--stale", is_flag=True, help="Name the laws whose sources were last looked at over a year ago; 1 if any."
)
def command(stale: bool) -> int:
    """Print the legal sending hours that `quiet_hours: legal` keeps, as Markdown.

    Each with its law, its source, and when that was last looked at. An aid, and no legal advice.
    """
    book = load_law()
    if not stale:
        click.echo(_write_page(book), nl=False)
        return 0
    found = book.list_stale(datetime.now(UTC).date())
    for rule in found:
        click.echo(f"{', '.join(rule.places)}: {rule.citation}, looked at on {rule.looked_at}")
    if found:
        sources = count_words(len(found), "source was", "sources were")
        raise RunnerError(
            f"{sources} last looked at more than a year ago",
            hint="read them again, and bring runner/timing/legal_hours.json up to date",
        )
    click.echo("All sources were looked at within the last year.")
    return 0


def _write_page(book: LawBook) -> str:
    states = [rule for rule in book.rules if rule.places[0].startswith("US")]
    others = [rule for rule in book.rules if rule not in states]
    parts = [f"Looked through on {book.checked}. An aid, and no legal advice.\n"]
    for title, rules in (("United States", states), ("Other countries", others)):
        parts.append(f"\n## {title}\n\n{markdown_table(_COLUMNS, [_write_row(rule) for rule in rules])}\n")
        parts += [f"{line}\n" for rule in rules for line in _describe(rule)]
    return "".join(parts)


def _write_row(rule: LegalWindow) -> tuple[str, ...]:
    return (
        ", ".join(rule.places),
        describe_window(rule.window),
        "closed" if rule.holidays is not None else "",
        _TEXTS[rule.texts],
        ", ".join(rule.purposes),
        rule.citation,
        f"{rule.looked_at}",
    )


def _describe(rule: LegalWindow) -> Iterator[str]:
    law = f"[{rule.citation}]({rule.url})" if rule.url else rule.citation
    yield f"- **{', '.join(rule.places)}**, {law}: {rule.covers}"
    yield f"  Source: {rule.source}."
    if rule.holidays is not None:
        state = f", {rule.holidays.state}" if rule.holidays.state else ""
        days = " and ".join(rule.holidays.categories)
        yield f"  Holidays: {days} ones of {rule.holidays.country}{state}."
    if rule.not_enforced:
        yield f"  Not kept: {rule.not_enforced}."
