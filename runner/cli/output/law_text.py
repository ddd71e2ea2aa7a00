"""The legal sending hours: a page of Markdown, or tables at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.campaign.timing_words import describe_window
from runner.cli.console import find_width, print_prose, print_table
from runner.cli.encoding import print_text
from runner.wording import write_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.timing.legal_hours import LawBook, LegalWindow

_TEXTS = {"named": "named", "assumed": "assumed", "excluded": "calls alone"}
_COLUMNS = ("place", "hours", "holidays", "texts", "holds for", "law", "looked at")


def write_law(book: LawBook) -> None:
    """Write the legal sending hours to standard output, as Markdown unless that is a terminal."""
    if find_width() is None:
        print_text(law_markdown(book), nl=False)
        return
    print_prose(_introduce(book))
    for title, rules in _divide(book):
        print_text(f"\n{title}\n", bold=True)
        # The law is named below, with its source.
        kept = [column for column in _COLUMNS if column != "law"]
        rows = [dict(zip(_COLUMNS, _write_row(rule), strict=True)) for rule in rules]
        print_table(kept, [[row[column] for column in kept] for row in rows])
        print_text()
        for rule in rules:
            print_prose(f"{', '.join(rule.places)}, {rule.citation}: {rule.covers}")
            print_prose("\n".join(_list_sources(rule)))
            if rule.url:
                print_text(f"  {rule.url}")


def law_markdown(book: LawBook) -> str:
    """Return the legal sending hours as Markdown: tables, and the source of each law."""
    parts = [f"{_introduce(book)}\n"]
    for title, rules in _divide(book):
        parts.append(f"\n## {title}\n\n{write_table(_COLUMNS, [_write_row(rule) for rule in rules])}\n")
        parts += [f"{line}\n" for rule in rules for line in _describe(rule)]
    return "".join(parts)


def _introduce(book: LawBook) -> str:
    return f"Looked through on {book.checked}. An aid, not legal advice."


def _divide(book: LawBook) -> Iterator[tuple[str, list[LegalWindow]]]:
    states = [rule for rule in book.rules if rule.places[0].startswith("US")]
    yield "United States", states
    yield "Other countries", [rule for rule in book.rules if rule not in states]


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
    yield from _list_sources(rule)


def _list_sources(rule: LegalWindow) -> Iterator[str]:
    yield f"  Source: {rule.source}."
    if rule.holidays is not None:
        state = f", {rule.holidays.state}" if rule.holidays.state else ""
        days = " and ".join(rule.holidays.categories)
        yield f"  Holidays: {days} ones of {rule.holidays.country}{state}."
    if rule.not_enforced:
        yield f"  Not kept: {rule.not_enforced}."
