"""A report as blocks, and so as a page in HTML and as Markdown; and a page across campaigns.

The open part is for readers: the campaign, its main figures, its questions, and what is compared. How it was
sent and how to read it are folded. No figure stands twice in the open part.

GitHub refuses comments of more than 65,536 characters. So tables and the document have a limited length in
Markdown, each with a sentence on what is left out.
"""

from __future__ import annotations

from datetime import datetime
from importlib.resources import files
from typing import TYPE_CHECKING

from runner.report.documents.comparisons import (
    show_experiment,
    show_groups,
    show_scores,
    show_series,
    write_change,
)
from runner.report.documents.questions import (
    MOST_QUESTIONS,
    find_main_question,
    find_score,
    is_quoted,
    show_comments,
    show_main_question,
    show_question,
)
from runner.report.documents.sending import show_messages, show_sending
from runner.report.documents.wording import (
    INTERVAL,
    MEASURES,
    NOT_DEFINED,
    NOT_KNOWN,
    name_score,
    write_certainty,
    write_count,
    write_number,
    write_percent,
    write_period,
    write_response_range,
    write_score,
    write_score_basis,
    write_time,
)
from runner.report.scores import divide
from runner.view import html, markdown
from runner.view.blocks import (
    Beside,
    Column,
    Items,
    Line,
    Link,
    ListItem,
    Section,
    Sentence,
    TableBlock,
    Tile,
    Tiles,
)
from runner.wording import count_people, count_words, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runner.report.model import CampaignReport
    from runner.report.question_model import Score
    from runner.view.blocks import Block, Cell

LONGEST = 65_000
"""Characters of a document in Markdown at most: GitHub's limit, less some for text around it."""
MOST_ROWS = 40
"""Rows of a table in Markdown at most."""
_CENTS_BELOW = 100
SIMULATION_NOTE = "SANDBOX: simulated, nobody was texted."
"""The note on reports of the target that texts nobody."""


def write_html(report: CampaignReport) -> str:
    """Return the report as an HTML page, in UTF-8's characters, ending in a line break."""
    title = report.heading
    lead, blocks = list(_show_lead(report)), list(_show_campaign(report))
    return html.write_page(title, "Campaign report", lead, blocks, _write_footer(report))


def write_markdown(report: CampaignReport) -> str:
    """Return the report as Markdown, with texts of campaigns and participants escaped."""
    title = f"# {escape_markdown(report.heading)}\n\n"
    said = escape_markdown(_write_footer(report))
    footer = f"\n---\n\n{said}\n" if said else ""
    room = LONGEST - len(title) - len(footer)
    blocks = [*_show_lead(report), *_show_campaign(report)]
    return title + markdown.write_markdown(blocks, most_rows=MOST_ROWS, longest=room) + footer


def _show_lead(report: CampaignReport) -> Iterator[Block]:
    period = write_period(report.first_sent_at, report.last_sent_at, report.time_zone)
    about = [f"Sent {period}" if period else "", report.owner or ""]
    if any(about):
        yield Sentence(" · ".join(filter(None, about)), "quiet")
    if report.description:
        yield from (Sentence(" ".join(one.split())) for one in report.description.split("\n\n"))
    if report.is_simulated:
        yield Sentence(SIMULATION_NOTE, "notice")
    if report.pruned_at:
        when = write_time(datetime.fromisoformat(report.pruned_at), report.time_zone)
        words = f"The answers were pruned on {when}: the figures are as they were then."
        yield Sentence(f"{words} Texts and answers since then are not in it.", "notice")
    people = report.people
    if people.unresolved:
        were = count_words(people.unresolved, "person was", "people were")
        yield Sentence(f"It is not known yet whether {were} texted.", "notice")
    if not report.launches:
        yield Sentence(_write_coming(report), "strong")
        return
    if report.unread_launches:
        yield Sentence("Not all answers have been read yet, so some figures are not known.", "notice")
    elif people.is_interim and people.open:
        are = count_words(people.open, "person still has", "people still have")
        yield Sentence(f"Interim: {are} an open survey, so figures may change.", "notice")
    wrong = len(report.discrepancies) + sum(len(message.discrepancies) for message in report.messages)
    if wrong:
        do = count_words(wrong, "figure does", "figures do")
        yield Sentence(f"{do} not add up: see “How it was sent”.", "notice")


def _write_coming(report: CampaignReport) -> str:
    nobody = f"Nobody {'else ' if report.people.unresolved else ''}has been texted yet."
    if report.next_send_at is None:
        return nobody
    start = write_time(report.next_send_at, report.time_zone)
    return f"{nobody} Texts will go out from {start} ({report.time_zone})."


def _show_campaign(report: CampaignReport) -> Iterator[Block]:
    unknown = [
        Sentence(f"By {one}: not known until all answers have been read.", "notice")
        for one in report.unknown_groups
    ]
    if not report.launches:
        yield from unknown
        return
    main = find_main_question(report)
    yield Tiles(list(_list_tiles(report)))
    yield from _show_people(report)
    if main is not None:
        beside = list(show_series(report))
        yield Section(main.text, list(show_main_question(main, beside)))
    others = [one.question for one in report.questions if one.question is not main]
    is_long = len(others) > MOST_QUESTIONS
    if is_long:
        yield Section("The questions", list(show_scores(report)))
    elif shown := [one for one in others if not is_quoted(report, one)]:
        title = "The other questions" if main else "The questions"
        yield Section(title, [Beside(list(map(show_question, shown)))])
    yield from map(show_groups, report.groups)
    yield from unknown
    if report.experiment is not None:
        yield show_experiment(report.experiment, report.score.measure if report.score else "mean")
    yield from show_comments(report)
    if len(report.messages) > 1:
        yield show_messages(report, has_questions=is_long)
    yield show_sending(report)
    yield Section("How to read this", [Items(list(_list_explanations(report)))], is_folded=True)


def _show_people(report: CampaignReport) -> Iterator[Sentence]:
    """Yield who had no time to answer, the sample that figures are of, and who was drawn to get nothing."""
    people, sample = report.people, report.sample
    if people.replaced and people.response_rate_without_replaced is not None:
        rate = write_percent(people.response_rate_without_replaced, people.texted)
        texted = f"{count_people(people.replaced)} got another text from us before they had answered"
        yield Sentence(f"{texted}, which ended their survey. Without them, the response is {rate}.")
    if sample is not None:
        drawn = "" if sample.drawn is None else f" {sample.drawn:,} of {sample.eligible:,} people were drawn."
        chance = " With which probability is not known."
        if sample.probability is not None:
            chance = f" The probability of being drawn was {write_percent(sample.probability)}."
        yield Sentence(f"This is a random sample of the people who may be texted.{drawn}{chance}")
    if people.control_group:
        drawn = f"{count_people(people.control_group)} got no text"
        yield Sentence(
            f"{drawn}, as they were drawn to be the control group: they had nothing to answer, so what they "
            "would have said is not known."
        )


def _list_tiles(report: CampaignReport) -> Iterator[Tile]:
    """Yield the main figures: the score, the response, answers, opt-outs, and the cost where it is known."""
    people, score = report.people, find_score(report)
    if score is not None:
        yield _make_score_tile(report, score)
    if report.questions:
        yield _make_response_tile(report)
        rate, done = people.completion_rate, "" if people.answered is None else "people"
        if rate is not None:
            done += f", {write_percent(rate, people.answered)} of them to the end"
        if report.completes is not None and people.completed is not None:
            done += f": {people.completed:,} of {report.completes:,} completes"
        yield Tile("Answered", write_count(people.answered), done)
    else:
        yield Tile("People texted", write_count(people.texted))
    rate = divide(people.opted_out, people.texted)
    share = f"{write_percent(rate, people.texted)} of the people texted" if rate else ""
    yield Tile("Opted out", write_count(people.opted_out), share)
    if report.cost:
        yield Tile("Cost", report.cost.write(report.cost.amount), report.cost.basis)
    elif cost := report.cost_usd:
        dollars = write_number(cost, 0 if cost >= _CENTS_BELOW else 2)
        yield Tile("Cost", f"${dollars}", "at the service’s price")


def _make_score_tile(report: CampaignReport, score: Score) -> Tile:
    scored = sum(one.question.score is not None for one in report.questions)
    goal = "" if report.goal is None else f"target {MEASURES[score.measure].write(report.goal, 1)}"
    changed = "" if report.series is None else write_change(report.series, score.measure)
    scales = {one.question.tag: one.question.scale for one in report.questions}
    basis, certainty = write_score_basis(score, scales.get(score.tag, "")), write_certainty(score)
    if changed:
        # Beside a change, the interval would seem to be its own.
        certainty = certainty.replace(INTERVAL, f"{INTERVAL} of the {MEASURES[score.measure].name}", 1)
    note = ", ".join(filter(None, (basis, certainty, goal)))
    return Tile(name_score(score, score.tag if scored > 1 else ""), write_score(score), note, changed)


def _make_response_tile(report: CampaignReport) -> Tile:
    people = report.people
    if people.response_rate is None or people.response_rate_interval is None:
        return Tile("Response", NOT_KNOWN)
    interval = write_response_range(people.response_rate_interval, people.texted)
    note = f"of {count_people(people.texted or 0)} texted, {INTERVAL} {interval}"
    return Tile("Response", write_percent(people.response_rate, people.texted), note)


def _list_explanations(report: CampaignReport) -> Iterator[ListItem]:
    """Yield what the report's figures mean, with their sources: docs/statistics.md says more.

    The file has a term and its words for each topic.
    """
    main, questions = find_main_question(report), [one.question for one in report.questions]
    # Of the main question only its main score is shown.
    shown = {score.measure for one in questions for score in (one.scores[:1] if one is main else one.scores)}
    topics = {
        "people": True,
        "questions": bool(questions),
        **{measure: measure in shown for measure in MEASURES},
        "groups": bool(report.groups),
        "experiment": report.experiment is not None,
        "series": report.series is not None,
        "rates": report.people.rates is not None,
    }
    text = files(__package__).joinpath("how_to_read.txt").read_text(encoding="utf-8")
    for entry in text.replace(" %", "\u202f%").split("\n\n"):
        head, *lines = entry.split("\n")
        topic, term = head.split(": ", 1)
        if topics[topic]:
            yield ListItem(term=term, text=" ".join(lines).rstrip())


def _write_footer(report: CampaignReport) -> str:
    """Return the time of the figures; empty where there are none."""
    if report.reconciled_at is None:
        return "No answers have been read yet." if report.launches else ""
    when = f"{write_time(report.reconciled_at, report.time_zone)} ({report.time_zone})"
    read = f", with the answers to {report.reconciled_launches:,} of {report.launches:,} batches of texts"
    return f"Figures as of {when}{read if report.unread_launches else ''}."


def write_index(reports: Sequence[CampaignReport], links: Mapping[str, str]) -> str:
    """Return an HTML page across campaigns: a table of them, the latest first.

    `links` has addresses of campaigns' reports relative to this page, percent-encoded; not every campaign
    needs one.
    """
    ordered = sorted(reports, key=lambda report: report.campaign)
    ordered.sort(key=lambda report: str(report.first_sent_at or ""), reverse=True)
    columns: list[str | Column] = ["Campaign", Column("Sent", "text"), "People texted", "Response", INTERVAL]
    columns += ["Score", f"Score’s {INTERVAL}"]
    rows: list[tuple[Cell, ...]] = [(_name(one, links), *_outline(one)) for one in ordered]
    lines = list(map(_draw_series, ordered))
    if any(lines):
        columns.append(Column("Earlier surveys", "line"))
        rows = [(*row, line) for row, line in zip(rows, lines, strict=True)]
    table = TableBlock(columns, rows, "The latest first. Each person counts once.")
    is_simulated = any(report.is_simulated for report in reports)
    notice = [Sentence(SIMULATION_NOTE, "notice")] if is_simulated else []
    title = count_words(len(reports), "campaign")
    return html.write_page(title, "Campaign reports", notice, [Section("", [table])])


def _name(report: CampaignReport, links: Mapping[str, str]) -> Cell:
    title = report.heading
    return Link(title, links[report.campaign]) if report.campaign in links else title


def _outline(report: CampaignReport) -> tuple[Cell, ...]:
    """Return what a campaign came to: a caution stands in place of the interval of a score of few answers."""
    people, score = report.people, find_score(report)
    if not report.launches:
        return ("not sent yet", *[""] * 5)
    is_unknown = people.texted is None or people.answered is None
    response = (
        write_percent(people.response_rate, people.texted),
        write_response_range(people.response_rate_interval, people.texted),
    )
    return (
        write_period(report.first_sent_at, report.last_sent_at, report.time_zone),
        people.texted,
        *((NOT_KNOWN, NOT_DEFINED) if is_unknown and report.questions else response),
        "" if score is None else f"{name_score(score)} {write_score(score)}",
        "" if score is None else write_certainty(score).removeprefix(f"{INTERVAL} "),
    )


def _draw_series(report: CampaignReport) -> Cell:
    """Return the scores of the series up to this campaign, without words: the rows above have them."""
    waves = [] if report.series is None else report.series.waves
    values = [
        None if one.score is None else float(one.score)
        for one in waves
        if report.first_sent_at is not None and one.first_sent_at <= report.first_sent_at
    ]
    return Line(values) if len(values) > 1 else ""
