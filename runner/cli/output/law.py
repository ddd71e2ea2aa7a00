"""The legal sending hours as blocks: tables, and the source of each law."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.timing_words import describe_window
from runner.view.blocks import Items, ListItem, Section, Sentence, TableBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.timing.legal_hours import LawBook, LegalRule
    from runner.view.blocks import Block

_TEXTS = {"named": "named", "assumed": "assumed", "excluded": "calls alone"}
_COLUMNS = ("place", "hours", "holidays", "texts", "holds for", "as of")


def show_law(book: LawBook) -> Iterator[Block]:
    """Yield a table of each part of the world, and the source of each law."""
    yield Sentence(f"Looked through on {book.checked}. An aid, not legal advice.")
    states = [rule for rule in book.rules if rule.places[0].startswith("US")]
    others = [rule for rule in book.rules if rule not in states]
    for title, rules in {"United States": states, "Other countries": others}.items():
        rows = [
            (
                ", ".join(rule.places),
                describe_window(rule.window),
                "closed" if rule.holidays is not None else "",
                _TEXTS[rule.texts],
                ", ".join(rule.purposes),
                f"{rule.as_of}",
            )
            for rule in rules
        ]
        table = TableBlock(_COLUMNS, rows, figures=False)
        yield Section(title, [table, Items(list(map(_describe, rules)))])


def _describe(rule: LegalRule) -> ListItem:
    parts = [f"Source: {rule.source}."]
    if rule.holidays is not None:
        state = f", {rule.holidays.state}" if rule.holidays.state else ""
        days = " and ".join(rule.holidays.categories)
        parts.append(f"Holidays: {days} ones of {rule.holidays.country}{state}.")
    if rule.not_enforced:
        parts.append(f"Not kept: {rule.not_enforced}.")
    return ListItem(f"{rule.citation}: {rule.covers}", parts, ", ".join(rule.places), rule.url or "")
