"""The comment on a pull request: the plan, what of it is known without the key, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.output.conversations import example_markdown
from runner.cli.output.plan import (
    COLUMNS,
    choose_columns,
    column_words,
    comes_later,
    describe_people,
    destination_line,
    difference_markdown,
    list_coming,
    message_row,
    remarks_markdown,
    sum_up_later,
)
from runner.source.diagnostic import Problems
from runner.wording import count_words, escape_markdown, hide_phones, write_table
from runner.workflow.campaigns import show_path
from runner.workflow.review.plan_comment import count_pending
from runner.workflow.review.publishing import (
    MOST_ROWS,
    CommentText,
    Piece,
    list_problem_pieces,
    write_failure_text,
    write_heading,
    write_problem_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.plan.model import CampaignPlan
    from runner.workflow.plans.differences import Differences
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.review.plan_comment import PlanFindings


def write_comment(findings: PlanFindings) -> CommentText:
    """Return the comment on the campaigns of a pull request."""
    where = "" if findings.target is None else destination_line(findings.target)
    about = "".join(f"{part.strip()}\n\n" for part in (where, *findings.remarks) if part)
    target, problems = findings.target_name, findings.problems
    if findings.failure is not None:
        return write_failure_text(findings.failure, target, about, problems)
    problems = problems or Problems()
    if findings.texted is not None:
        return _write_keyless(findings, problems, about)
    if findings.planned:
        return _write_plan(findings, problems, about)
    if problems.error_count or findings.left_out:
        return write_problem_text(problems, target, about, findings.left_out)
    head = f"{write_heading('No campaigns', target)}{about}There is no campaign: nothing is sent.\n"
    return CommentText(head, ())


def _write_plan(findings: PlanFindings, problems: Problems, about: str) -> CommentText:
    """Return the comment on campaigns of which at least one is planned."""
    planned, left_out = findings.planned, findings.left_out
    refused = any(item.plan.refusals for item in planned)
    title = "Campaign plan: stopped by a limit" if refused else "Campaign plan"
    if left_out:
        title += ", and not of all campaigns" if refused else " without some campaigns"
    head = write_heading(title, findings.target_name) + about
    head += f"{_counts_line(planned, problems)}\n\n{_overview(planned)}"
    pieces = [Piece("Left out", left_out, is_open=True)] if left_out else []
    pieces += [Piece("Stopped", _refusals(planned), is_open=True)] if refused else []
    for item in planned:
        pieces.append(_plan_piece(item))
        pieces.append(_example_piece(item))
        pieces += _difference_pieces(item.plan.campaign.name, findings.differences)
    return CommentText(head, (*pieces, *list_problem_pieces(problems)))


def _write_keyless(findings: PlanFindings, problems: Problems, about: str) -> CommentText:
    """Return the comment of a job without the key: of people on record it knows just how many they are."""
    rows: list[tuple[str | int, ...]] = []
    for item, texted in zip(findings.planned, findings.texted or (), strict=True):
        pending = count_pending(item, texted)
        for message in item.plan.messages:
            known = "not known" if texted is None else texted.get(message.id, 0)
            rows.append((item.campaign.name, message.id, message.recipients, known, pending[message.id]))
    counts = [
        count_words(len(findings.planned), "campaign"),
        f"{count_words(sum(int(row[-1]) for row in rows), 'text')} to send",
        count_words(problems.error_count, "error"),
    ]
    head = write_heading("Campaign plan", findings.target_name) + about
    head += f"**{' · '.join(counts)}**\n\n"
    head += (
        "The jobs of pull requests don't have the state key. So it is known here how many people were "
        "texted, and not who of them is among these, or who has opted out: the plan after the merge says it."
        "\n\n"
    )
    header = ("campaign", "message", "recipients", "on record as texted", "to send, now or later")
    head += write_table(header, rows, MOST_ROWS, "row")
    pieces = [Piece("Left out", findings.left_out, is_open=True)] if findings.left_out else []
    pieces += [piece for item in findings.planned for piece in _detail_pieces(item)]
    return CommentText(head, (*pieces, *list_problem_pieces(problems)))


def _detail_pieces(item: PlanResult) -> Iterator[Piece]:
    if any(message.pending for message in item.plan.messages):
        yield Piece(f"{item.campaign.name}: what comes, at most", _write_coming(item.plan, at_most=True))
    yield _example_piece(item)


def _counts_line(planned: Sequence[PlanResult], problems: Problems) -> str:
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


def _overview(planned: Sequence[PlanResult]) -> str:
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
    return write_table(header, rows, MOST_ROWS, "campaign")


def _refusals(planned: Sequence[PlanResult]) -> str:
    lines = [(item.plan.campaign.name, text) for item in planned for text in item.plan.refusals]
    return "\n".join(
        f"- **Stopped:** {escape_markdown(name)}: {escape_markdown(text)}" for name, text in lines
    )


def _plan_piece(item: PlanResult) -> Piece:
    plan = item.plan
    columns = choose_columns(plan)
    people = count_words(plan.recipients_to_send, "recipient")
    rows = [message_row(message, columns) for message in plan.messages]
    body = f"{escape_markdown(show_path(plan.campaign.file))}\n\n"
    body += write_table(("message", *map(column_words, columns)), rows)
    body += remarks_markdown(plan, escape_markdown)
    body += f"\n\n{_write_coming(plan)}" if comes_later(plan) else ""
    later = sum_up_later([plan])
    return Piece(f"{plan.campaign.name}: {people} to send{f', {later}' if later else ''}", body)


def _write_coming(plan: CampaignPlan, *, at_most: bool = False) -> str:
    """Return a plan's texts, now and later, in Markdown; `at_most` as for `list_coming`."""
    text = write_table(COLUMNS, list(list_coming(plan, at_most=at_most)))
    return text if at_most else f"{text}\n{escape_markdown(describe_people(plan))}"


def _example_piece(item: PlanResult) -> Piece:
    """Return a conversation of each message and arm of a campaign, without names of people."""
    body = hide_phones(example_markdown(item.plan.campaign))
    return Piece(f"{item.plan.campaign.name}: what is sent, with variables by their names", body)


def _difference_pieces(name: str, differences: Differences) -> Iterator[Piece]:
    found = [difference for difference in differences.get(name, ()) if not difference.is_empty]
    if found:
        body = hide_phones("".join(map(difference_markdown, found)).strip())
        yield Piece(f"{name}: changes since it was sent", body)
