"""The legal sending hours as blocks: tables, and the source of each law."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.source.quantity import write_duration
from runner.view.blocks import Items, ListItem, Section, Sentence, TableBlock
from runner.wording import count_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.timing.legal_hours import LawBook, LegalRule
    from runner.view.blocks import Block

_COLUMNS = ("place", "hours", "holidays", "texts", "calls", "holds for", "from", "until", "as of")


def show_law(book: LawBook) -> Iterator[Block]:
    """Yield a table of each part of the world, and the source of each law."""
    yield Sentence(f"Looked through on {book.checked}. An aid, not legal advice.")
    states = [rule for rule in book.rules if rule.places[0].startswith("US")]
    others = [rule for rule in book.rules if rule not in states]
    for title, rules in {"United States": states, "Other countries": others}.items():
        rows = [
            (
                ", ".join(rule.places),
                rule.window.describe(),
                "closed" if rule.holidays is not None else "",
                rule.texts,
                f"{rule.calls}, automatic" if rule.automatic_only else rule.calls,
                ", ".join(rule.purposes),
                f"{rule.since or 'not known'}",
                f"{rule.until or ''}",
                f"{rule.as_of}",
            )
            for rule in rules
        ]
        table = TableBlock(_COLUMNS, rows, figures=False)
        yield Section(title, [table, Items(list(map(_describe, rules)))])


def _describe(rule: LegalRule) -> ListItem:
    return ListItem(
        f"{rule.citation}: {rule.covers}", tuple(_list_parts(rule)), ", ".join(rule.places), rule.url or ""
    )


def _list_parts(rule: LegalRule) -> Iterator[str]:
    if rule.quote:
        yield f"In its words: “{rule.quote}”"
    yield f"Source: {rule.source}."
    if rule.zone is not None:
        yield f"Clocks: those of {rule.zone}, wherever people are."
    if rule.caps is not None:
        most = count_words(rule.caps.messages, "message")
        yield f"At most {most} to a person within {write_duration(rule.caps.within)}."
    if rule.asks:
        yield f"A text must say: {', '.join(one.replace('_', ' ') for one in rule.asks)}."
    if rule.no_reply_opts_out:
        yield "No reply counts as opting out: no reminder `to: unanswered` goes there."
    if rule.holidays is not None:
        state = f", {rule.holidays.state}" if rule.holidays.state else ""
        days = " and ".join(rule.holidays.categories)
        yield f"Holidays: {days} ones of {rule.holidays.country}{state}."
    if rule.not_enforced:
        yield f"Not kept: {rule.not_enforced}."
