"""The comment on a pull request: the plan, what of it is known without the key, or why there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.plan.model import Span, sum_spans
from runner.source.diagnostic import Problems
from runner.view.blocks import Items, ListItem, Sentence, TableBlock
from runner.view.markdown import write_markdown
from runner.wording import count_people, count_words, hide_phones
from runner.workflow.campaigns import show_path
from runner.workflow.documents import list_defaults
from runner.workflow.plans.plan_blocks import (
    list_coming,
    show_campaign,
    show_destination,
    sum_up_later,
    write_span,
)
from runner.workflow.preview import show_example
from runner.workflow.review.comments import count_pending
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

    from runner.campaign.model import Campaign
    from runner.view.blocks import Block
    from runner.workflow.plans.planning import PlanResult
    from runner.workflow.review.comments import PlanFindings


def write_comment(findings: PlanFindings) -> CommentText:
    """Return the comment on the campaigns of a pull request."""
    where = "" if findings.target is None else write_markdown([show_destination(findings.target)])
    about = "".join(f"{part.strip()}\n\n" for part in (where, *findings.remarks) if part)
    target, problems = findings.target_name, findings.problems
    if findings.failure is not None:
        return write_failure_text(findings.failure, target, about)
    problems = problems or Problems()
    if findings.texted is not None:
        return _write_keyless(findings, problems, about)
    if findings.planned or findings.sealed:
        return _write_plan(findings, problems, about)
    if problems.error_count or findings.left_out:
        return write_problem_text(problems, target, about, findings.left_out)
    head = f"{write_heading('No campaigns', target)}{about}There is no campaign: nothing is sent.\n"
    return CommentText(head, ())


def _write_plan(findings: PlanFindings, problems: Problems, about: str) -> CommentText:
    """Return the comment on campaigns of which at least one is planned."""
    planned, left_out = findings.planned, findings.left_out
    refusals = [
        ListItem(f"{item.campaign.name}: {text}", term="Stopped")
        for item in planned
        for text in item.plan.refusals
    ]
    title = "Campaign plan: stopped by a limit" if refusals else "Campaign plan"
    counts = Sentence(_write_counts(planned, findings.sealed, problems), "strong")
    sums = write_markdown([*_show_waves(planned), counts, *map(Sentence, list_defaults(planned))])
    head = write_heading(title, findings.target_name) + about + sums
    pieces = [Piece("Left out", left_out, is_open=True)] if left_out else []
    pieces += _fold("Changed since it was sent", [Items(list(findings.changed))] if findings.changed else [])
    pieces += [Piece("Stopped", write_markdown([Items(refusals)]), is_open=True)] if refusals else []
    for item in planned:
        name, plan = item.campaign.name, item.plan
        people = count_people(plan.recipients_to_send)
        later = sum_up_later([plan])
        body = [Sentence(show_path(plan.campaign.file)), *show_campaign(plan)]
        pieces += _fold(f"{name}: {people} to text{f', {later}' if later else ''}", body)
        pieces.append(_example_piece(item.campaign))
    pieces += map(_example_piece, findings.sealed)
    return CommentText(head, (*pieces, *list_problem_pieces(problems)))


def _show_waves(planned: Sequence[PlanResult]) -> Iterator[Sentence]:
    for item in planned:
        if item.plan.wave is not None and (again := item.plan.wave.describe()):
            yield Sentence(f"{item.campaign.name}: {again}", "strong")


def _fold(title: str, blocks: Sequence[Block]) -> Iterator[Piece]:
    if blocks:
        yield Piece(title, hide_phones(write_markdown(blocks, level=4)).rstrip())


def _write_keyless(findings: PlanFindings, problems: Problems, about: str) -> CommentText:
    """Return the comment of a job without the key: of people on record it knows just how many they are."""
    rows: list[tuple[str | int, ...]] = []
    for item, texted in zip(findings.planned, findings.texted or (), strict=True):
        pending = count_pending(item, texted)
        for message in item.plan.messages:
            known = "not known" if texted is None else texted.get(message.id, 0)
            rows.append((item.campaign.name, message.id, message.recipients, known, pending[message.id]))
    texts = f"{count_words(sum(int(row[-1]) for row in rows), 'text')} to send"
    counts = (
        *((count_words(len(findings.planned), "campaign"), texts) if rows else ()),
        _count_sealed(findings.sealed),
        count_words(problems.error_count, "error"),
    )
    note = (
        "The jobs of pull requests don't have the state key. So it is known here how many people were "
        "texted, and not who of them is among these, or who has opted out: the plan after the merge says it."
    )
    header = ("campaign", "message", "people", "texted already", "texts to send, now or later")
    blocks: list[Block] = [
        *_show_waves(findings.planned),
        Sentence(" · ".join(filter(None, counts)), "strong"),
        *map(Sentence, list_defaults(findings.planned)),
    ]
    blocks += [Sentence(note), TableBlock(header, rows)] if rows else []
    head = write_heading("Campaign plan", findings.target_name) + about
    head += write_markdown(blocks, most_rows=MOST_ROWS)
    pieces = [Piece("Left out", findings.left_out, is_open=True)] if findings.left_out else []
    for item in findings.planned:
        if any(message.pending for message in item.plan.messages):
            coming = list_coming(item.plan, is_detailed=False, at_most=True)
            pieces += _fold(f"{item.campaign.name}: what comes, at most", [coming])
        pieces.append(_example_piece(item.campaign))
    pieces += map(_example_piece, findings.sealed)
    return CommentText(head, (*pieces, *list_problem_pieces(problems)))


def _write_counts(planned: Sequence[PlanResult], sealed: Sequence[Campaign], problems: Problems) -> str:
    messages = (message for item in planned for message in item.plan.messages)
    segments = write_span(sum_spans(Span(one.segments_min, one.segments_max) for one in messages))
    counts = [
        count_words(len(planned), "campaign"),
        f"{count_words(sum(item.plan.recipients_to_send for item in planned), 'person', 'people')} to text",
        f"{segments} segment{'' if segments == '1' else 's'}",
        sum_up_later(item.plan for item in planned),
    ]
    counts = [
        *(counts if planned else ()),
        _count_sealed(sealed),
        count_words(problems.error_count, "error"),
        count_words(problems.warning_count, "warning") if problems.warning_count else "",
    ]
    return " · ".join(filter(None, counts))


def _count_sealed(sealed: Sequence[Campaign]) -> str:
    """Return how many campaigns text nobody knows here whom; empty if there are none."""
    return f"{count_words(len(sealed), 'campaign')} whose people are not known here" if sealed else ""


def _example_piece(campaign: Campaign) -> Piece:
    """Return a conversation of each message and arm of a campaign, without names of people."""
    title = f"{campaign.name}: what is sent, with variables by their names"
    return next(_fold(title, list(show_example(campaign))))
