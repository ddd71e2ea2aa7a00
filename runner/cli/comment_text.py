"""What `runner comment` writes: counts first, details folded, in pieces of which as many are shown as fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from runner.cli.campaigns import show_path
from runner.cli.coming_text import COLUMNS, comes_later, describe_people, list_coming, sum_up_later
from runner.cli.console import Markdown, count_words
from runner.cli.conversations import example_markdown
from runner.cli.difference import difference_markdown
from runner.cli.inert import hide_phones, inert, inert_html
from runner.cli.plan_text import choose_columns, column_words, list_remarks, message_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from runner.cli.difference import Differences
    from runner.cli.planning import Planned
    from runner.errors import RunnerError
    from runner.plan.model import CampaignPlan
    from runner.source.diagnostic import Diagnostic, Problems

_MOST_ROWS = 50
_MOST_NAMED = 5
_NOTE_ROOM = 1_500
"""Characters kept for the words on what is left out."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a comment that is shown whole or not at all.

    Attributes:
        title: what it is about; a text of one line.
        body: Markdown.
        is_open: whether it is unfolded.
    """

    title: str
    body: str
    is_open: bool = False

    def write(self) -> str:
        """Return it as Markdown: folded below its title, or as a section."""
        if self.is_open:
            return f"\n{self.body}\n"
        # The blank lines let Markdown begin and end inside of HTML (CommonMark 0.31, 4.6).
        return f"\n<details><summary>{inert_html(self.title)}</summary>\n\n{self.body}\n\n</details>\n"


@dataclass(frozen=True, slots=True)
class CommentText:
    """A comment before it is cut to a length.

    Attributes:
        head: Markdown that is always shown: what it is about, and the counts.
        pieces: the rest, the most important first.
        tail: the last line.
        numbers: a line for programs, which shows nothing; empty without a plan.
    """

    head: str
    pieces: tuple[Piece, ...]
    tail: str = ""
    numbers: str = ""

    def with_tail(self, tail: str) -> CommentText:
        """Return the same with another last line."""
        return replace(self, tail=tail)

    def with_numbers(self, numbers: str) -> CommentText:
        """Return the same with a line for programs."""
        return replace(self, numbers=numbers)

    def fit(self, room: int, measure: Callable[[str], int], where: str) -> tuple[str, int]:
        """Return Markdown of at most a length, and how many pieces are left out of it.

        Args:
            room: the length.
            measure: returns how long a text is.
            where: says where the pieces are that are left out; Markdown.
        """
        written = [piece.write() for piece in self.pieces]
        end = f"\n{self.tail}\n" if self.tail else ""
        left = room - measure(self.head) - measure(end)
        if sum(map(measure, written)) <= left:
            return self.head + "".join(written) + end, 0
        left -= _NOTE_ROOM
        text, dropped = self.head, []
        for piece, markdown in zip(self.pieces, written, strict=True):
            if measure(markdown) <= left:
                left -= measure(markdown)
                text += markdown
            else:
                dropped.append(piece)
        return text + _left_out(dropped, where) + end, len(dropped)


def _left_out(pieces: Sequence[Piece], where: str) -> str:
    names = [inert(piece.title[:100]) for piece in pieces[:_MOST_NAMED]]
    if len(pieces) > _MOST_NAMED:
        names.append(f"{len(pieces) - _MOST_NAMED:,} more")
    return f"\n> **Too long for here, {where}:** {'; '.join(names)}\n"


def write_plan_text(
    planned: Sequence[Planned],
    differences: Differences,
    problems: Problems,
    about: str = "",
    left_out: str = "",
) -> CommentText:
    """Return the comment of campaigns of which at least one is planned.

    Args:
        planned: the plans.
        differences: how they differ from what was sent of them, where something was.
        problems: everything that was found.
        about: what is said first: where it goes, and what the pull request changes; Markdown.
        left_out: a table of the campaigns that could not be planned; Markdown, empty if all could.
    """
    target = planned[0].plan.target
    refused = any(item.plan.refusals for item in planned)
    title = "Campaign plan: stopped by a limit" if refused else "Campaign plan"
    if left_out:
        title += ", and not of all campaigns" if refused else " without some campaigns"
    head = f"### {title} → {inert(target)}\n\n{about}"
    head += f"{_counts_line(planned, problems)}\n\n{_overview(planned)}"
    pieces = [Piece("Left out", left_out, is_open=True)] if left_out else []
    pieces += [Piece("Stopped", _refusals(planned), is_open=True)] if refused else []
    columns = choose_columns(planned)
    for item in planned:
        pieces.append(_plan_piece(item, columns))
        pieces.append(example_piece(item))
        pieces += _difference_pieces(item.plan.campaign.name, differences)
    return CommentText(head, (*pieces, *_problem_pieces(problems)))


def write_overview(
    title: str,
    target: str,
    about: str,
    table: tuple[Sequence[str], Sequence[Sequence[str | int]]],
    found: tuple[Problems, str],
    details: Sequence[Piece] = (),
) -> CommentText:
    """Return a comment that is one table, and what was found beside it.

    Args:
        title: what it is, without the target.
        target: the target's name.
        about: what is said first; Markdown that ends in an empty line.
        table: the names of its columns, and its rows.
        found: problems, and a table of campaigns that are left out in Markdown.
        details: pieces that come before the problems.
    """
    header, rows = table
    problems, left_out = found
    more = f"\n… and {count_words(len(rows) - _MOST_ROWS, 'more row')}\n" if len(rows) > _MOST_ROWS else ""
    head = f"### {title} → {inert(target)}\n\n{about}{write_table(header, rows[:_MOST_ROWS])}{more}"
    pieces = [Piece("Left out", left_out, is_open=True)] if left_out else []
    return CommentText(head, (*pieces, *details, *_problem_pieces(problems)))


def write_problem_text(problems: Problems, target: str, about: str = "", left_out: str = "") -> CommentText:
    """Return the comment of campaigns of which none is planned.

    Args:
        problems: everything that was found.
        target: the target's name.
        about: as for `write_plan_text`.
        left_out: a table of the campaigns and why they could not be planned; Markdown.
    """
    counts = [count_words(problems.error_count, "error"), count_words(problems.warning_count, "warning")]
    title = "Invalid campaigns" if problems.error_count else "Campaigns not planned"
    head = f"### {title} → {inert(target)}\n\n{about}**{' · '.join(counts)}**: nothing is planned.\n"
    pieces = [Piece("Left out", left_out, is_open=True)] if left_out else []
    return CommentText(head, (*pieces, *_problem_pieces(problems)))


def write_nothing_text(target: str, about: str = "") -> CommentText:
    """Return the comment where there is no campaign: the last one was deleted.

    Args:
        target: the target's name.
        about: where it leads, and what a pull request changes of that.
    """
    head = f"### No campaigns → {inert(target)}\n\n{about}There is no campaign: nothing is sent.\n"
    return CommentText(head, ())


def write_failure_text(
    error: RunnerError, target: str, about: str = "", problems: Problems | None = None
) -> CommentText:
    """Return the comment of campaigns that could not be planned here.

    Args:
        error: why.
        target: the target's name; empty if that isn't known.
        about: as for `write_plan_text`.
        problems: what was found in the campaigns, none of it an error; None if there is none to look at.
    """
    head = f"### Campaigns not planned{f' → {inert(target)}' if target else ''}\n\n{about}"
    if problems is not None:
        head += "The campaigns are valid, but no plan could be made here. "
    head += f"{inert(error.message[:1].upper() + error.message[1:])}.\n"
    if error.hint:
        head += f"\n{inert(error.hint)}\n"
    return CommentText(head, () if problems is None else tuple(_problem_pieces(problems)))


def _counts_line(planned: Sequence[Planned], problems: Problems) -> str:
    messages = [message for item in planned for message in item.plan.messages]
    later = sum_up_later(item.plan for item in planned)
    counts = [
        count_words(len(planned), "campaign"),
        f"{count_words(sum(item.plan.recipients_to_send for item in planned), 'recipient')} to send",
        count_words(sum(message.launches for message in messages), "launch", "launches"),
        count_words(sum(message.segments for message in messages), "segment"),
        *([later] if later else []),
        count_words(problems.error_count, "error"),
    ]
    if problems.warning_count:
        counts.append(count_words(problems.warning_count, "warning"))
    return f"**{' · '.join(counts)}**"


def _overview(planned: Sequence[Planned]) -> str:
    header = ["campaign", "recipients to send", "deliveries", "launches", "segments"]
    rows: list[list[str | int]] = [
        [
            item.plan.campaign.name,
            item.plan.recipients_to_send,
            sum(message.to_send for message in item.plan.messages),
            sum(message.launches for message in item.plan.messages),
            sum(message.segments for message in item.plan.messages),
        ]
        for item in planned
    ]
    if any(comes_later(item.plan) for item in planned):
        header += ["others later, at most", "texts later, at most"]
        for row, item in zip(rows, planned, strict=True):
            row += [item.plan.recipients_later.most, item.plan.texts_later.most]
    more = f"\n… and {count_words(len(rows) - _MOST_ROWS, 'more campaign')}\n"
    return write_table(header, rows[:_MOST_ROWS]) + (more if len(rows) > _MOST_ROWS else "")


def _refusals(planned: Sequence[Planned]) -> str:
    lines = [(item.plan.campaign.name, text) for item in planned for text in item.plan.refusals]
    return "\n".join(f"- **Stopped:** {inert(name)}: {inert(text)}" for name, text in lines)


def _plan_piece(item: Planned, columns: tuple[str, ...]) -> Piece:
    plan = item.plan
    people = count_words(plan.recipients_to_send, "recipient")
    rows = [message_row(message, columns) for message in plan.messages]
    body = f"{inert(show_path(plan.campaign.file))}\n\n"
    body += write_table(("message", *map(column_words, columns)), rows)
    body += "".join(f"\n- {inert(click.unstyle(line))}" for line in list_remarks(plan))
    body += f"\n\n{write_coming(plan)}" if comes_later(plan) else ""
    later = sum_up_later([plan])
    return Piece(f"{plan.campaign.name}: {people} to send{f', {later}' if later else ''}", body)


def write_coming(plan: CampaignPlan, *, at_most: bool = False) -> str:
    """Return in Markdown what a plan brings, now and later.

    Args:
        plan: the plan.
        at_most: as for `list_coming`.
    """
    text = write_table(COLUMNS, list_coming(plan, at_most=at_most))
    return text if at_most else f"{text}\n{inert(describe_people(plan))}"


def example_piece(item: Planned) -> Piece:
    """Return a conversation of each message and arm of a campaign, which names nobody."""
    body = hide_phones(example_markdown(item.plan.campaign))
    return Piece(f"{item.plan.campaign.name}: what is sent, with variables by their names", body)


def _difference_pieces(name: str, differences: Differences) -> Iterator[Piece]:
    found = [difference for difference in differences.get(name, ()) if not difference.is_empty]
    if found:
        body = hide_phones("".join(map(difference_markdown, found)).strip())
        yield Piece(f"{name}: changes since it was sent", body)


def _problem_pieces(problems: Problems) -> Iterator[Piece]:
    errors = [one for one in problems if one.severity == "error"]
    others = [one for one in problems if one.severity != "error"]
    words = {"error": problems.error_count, "warning": problems.warning_count, "note": problems.note_count}
    for start in range(0, len(errors), _MOST_ROWS):
        group = errors[start : start + _MOST_ROWS]
        title = f"Errors {start + 1:,} to {start + len(group):,} of {words['error']:,}"
        yield Piece(title, _problem_table(group), is_open=start == 0)
    if others:
        title = ", ".join(count_words(words[name], name) for name in ("warning", "note") if words[name])
        yield Piece(title, _problem_table(others[:_MOST_ROWS]))
    left = sum(count for _, _, count in problems.omitted()) + max(0, len(others) - _MOST_ROWS)
    if left:
        yield Piece("More", f"And {count_words(left, 'more problem')} of these kinds.", is_open=True)


def _problem_table(problems: Iterable[Diagnostic]) -> str:
    rows = [
        (one.severity, f"{show_path(one.file)}:{one.line}:{one.column}", one.message, one.hint or "")
        for one in problems
    ]
    return write_table(("severity", "where", "what", "what to do"), rows)


def write_table(header: Sequence[str], rows: Iterable[Sequence[str | int]]) -> str:
    """Return a Markdown table whose cells have no power over the page, but for those that are Markdown."""
    lines = [f"| {' | '.join(map(inert, header))} |", f"|{'|'.join(['---'] * len(header))}|"]
    lines += [f"| {' | '.join(map(_write_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def _write_cell(cell: str | int) -> str:
    if isinstance(cell, int):
        return f"{cell:,}"
    return cell if isinstance(cell, Markdown) else inert(cell)
