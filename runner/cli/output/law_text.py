"""The legal sending hours as blocks: tables, and the source of each law."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.timing_words import describe_window
from runner.view.blocks import Items, ListItem, Section, Sentence, TableBlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.timing.legal_hours import LawBook, LegalWindow
    from runner.view.blocks import Block

_TEXTS = {"named": "named", "assumed": "assumed", "excluded": "calls alone"}
_COLUMNS = ("place", "hours", "holidays", "texts", "holds for", "looked at")


def show_law(book: LawBook) -> Iterator[Block]:
    """Yield the legal sending hours: a table of each part of the world, and the source of each law."""
    yield Sentence(f"Looked through on {book.checked}. An aid, not legal advice.")
    states = [rule for rule in book.rules if rule.places[0].startswith("US")]
    others = [rule for rule in book.rules if rule not in states]
    for title, rules in {"United States": states, "Other countries": others}.items():
        table = TableBlock(_COLUMNS, list(map(_write_row, rules)), figures=False)
        yield Section(title, [table, Items(list(map(_describe, rules)))])


def _write_row(rule: LegalWindow) -> tuple[str, ...]:
    return (
        ", ".join(rule.places),
        describe_window(rule.window),
        "closed" if rule.holidays is not None else "",
        _TEXTS[rule.texts],
        ", ".join(rule.purposes),
        f"{rule.looked_at}",
    )


def _describe(rule: LegalWindow) -> ListItem:
    text = f"{rule.citation}: {rule.covers}"
    return ListItem(text, tuple(_list_sources(rule)), ", ".join(rule.places), rule.url or "")


def _list_sources(rule: LegalWindow) -> Iterator[str]:
    yield f"Source: {rule.source}."
    if rule.holidays is not None:
        state = f", {rule.holidays.state}" if rule.holidays.state else ""
        days = " and ".join(rule.holidays.categories)
        yield f"Holidays: {days} ones of {rule.holidays.country}{state}."
    if rule.not_enforced:
        yield f"Not kept: {rule.not_enforced}."
