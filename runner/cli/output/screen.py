"""Blocks at a terminal, and in the formats that commands have."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import click

from runner.cli.console import print_json, print_prose, print_table
from runner.cli.encoding import print_text
from runner.github.job_summary import append_summary
from runner.view.blocks import Code, Items, Section, Sentence, TableBlock, list_plain, write_cell
from runner.view.markdown import write_markdown
from runner.wording import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.view.blocks import Block, ListItem, PlainBlock

_WIDTH = 60
"""Characters of a line of code, which is often a text message."""


def show(result: Any, format_: str, blocks: Iterable[Block]) -> None:
    """Write a use case's result in a format: `json` by its document, others by blocks."""
    if format_ == "json":
        print_json(getattr(result, "document", result))
    else:
        show_blocks(blocks, format_)


def show_blocks(blocks: Iterable[Block], format_: str) -> None:
    """Write blocks to standard output, and for `github` to the job's summary as well."""
    found = list(blocks)
    if format_ == "markdown":
        print_text(write_markdown(found), nl=False)
    else:
        print_blocks(found)
    if format_ == "github":
        append_summary(write_markdown(found))


def print_blocks(
    blocks: Iterable[Block], *, indent: str = "", is_inner: bool = False, err: bool = False
) -> None:
    """Write blocks to standard output (or `err`), without charts.

    There is an empty line between sections, before tables and, if they are the inner blocks of a section,
    before its first section.
    """
    before: Block | None = None
    for block in list_plain(blocks):
        is_apart = isinstance(block, Section | TableBlock) or isinstance(before, Section)
        if is_apart and (before is not None or (is_inner and isinstance(block, Section))):
            print_text(err=err)
        _print(block, indent, err=err)
        before = block


def _print(block: PlainBlock, indent: str, *, err: bool) -> None:
    match block:
        case Section(title, blocks):
            print_prose(indent + click.style(printable(title), bold=True), err=err)
            print_blocks(blocks, indent=indent, is_inner=True, err=err)
        case Sentence(text, style):
            print_prose(indent + _style(text, style), err=err)
        case Items(title=title):
            if title:
                print_prose(indent + _style(title, "notice"), err=err)
            for item in block.entries:
                _print_item(item, indent, err=err)
        case TableBlock(rows=rows):
            names = [head.name for head in block.heads]
            cells = [list(map(write_cell, row)) for row in rows]
            print_table(names, cells, essential=block.essential or names, err=err)
        case Code(text):
            for line in map(printable, text.split("\n")):
                for part in textwrap.wrap(line, _WIDTH) or [""]:
                    print_text(f"{indent}  │ {part}", err=err)


def _print_item(one: ListItem, indent: str, *, err: bool) -> None:
    term = f"{click.style(printable(one.term), bold=True)}: " if one.term else ""
    print_prose(f"{indent}  {term}{printable(one.text)}", err=err)
    for part in filter(None, (*one.parts, one.url)):
        print_prose(f"{indent}    {printable(part)}", err=err)


def _style(text: str, style: str) -> str:
    shown = printable(text)
    if style == "notice":
        label, colon, words = shown.partition(": ")
        return f"{click.style(label, fg='red', bold=True)}{colon}{words}"
    return click.style(shown, bold=True) if style == "strong" else shown
