"""The part "How it was sent" of a report as blocks: messages, outcomes, rates, runs, what does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.reasons import REASONS
from runner.report.documents.questions import show_question
from runner.report.documents.wording import (
    NOT_DEFINED,
    format_duration,
    write_number,
    write_percent,
    write_period,
    write_time,
)
from runner.report.scores import divide
from runner.source.quantity import write_share
from runner.view.blocks import Beside, Chart, Column, Items, Link, Section, TableBlock
from runner.view.charts import plot_columns
from runner.wording import count_people, count_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runner.report.model import Audience, CampaignReport, MessageReport, RunReport
    from runner.report.people_model import Dispositions, OutcomeRates, PeopleReport
    from runner.view.blocks import Block, Cell


def show_messages(report: CampaignReport, *, has_questions: bool) -> Section:
    """Return a table of the messages; each message with its questions follows if `has_questions`."""
    rows: list[tuple[Cell, ...]] = [
        (
            Link(one.id, f"#message-{number}") if has_questions and one.questions else one.id,
            write_period(one.first_sent_at, one.last_sent_at, report.time_zone) or "not sent yet",
            one.sent,
            one.participants_answered if one.questions else NOT_DEFINED,
            one.opt_outs,
            format_duration(one.half_answered_within_s),
        )
        for number, one in enumerate(report.messages, start=1)
    ]
    names = "Message", Column("Sent", "text"), "Texts", "Answered", "Opted out", "Half answered within"
    sections = [
        Section(one.id, list(map(show_question, one.questions)), anchor=f"message-{number}", is_page=True)
        for number, one in enumerate(report.messages, start=1)
        if has_questions and one.questions
    ]
    return Section("Each message", [TableBlock(names, rows), *sections], is_folded=True)


def show_sending(report: CampaignReport) -> Section:
    """Return how the campaign was sent."""
    people = report.people
    audience = next((one.audience for one in report.messages if one.audience is not None), None)
    outcomes = [
        *([] if audience is None else [_tabulate_reserved(audience, report.time_zone)]),
        *([] if people.dispositions is None else [_tabulate_outcomes(people.dispositions)]),
    ]
    rates = [] if people.rates is None else [_tabulate_rates(people.rates, is_interim=people.is_interim)]
    blocks: list[Block] = [
        Items(list(_list_warnings(report)), "The figures do not add up"),
        Items(list(_list_facts(report))),
        Beside([Section("", tables) for tables in (outcomes, rates) if tables]),
        Beside([chart for one in report.messages for chart in _draw_days(one)]),
        _tabulate_runs(report.runs, report.time_zone),
    ]
    return Section("How it was sent", blocks, is_folded=True)


def _list_warnings(report: CampaignReport) -> Iterator[str]:
    yield from report.discrepancies
    yield from (f"{message.id}: {one}" for message in report.messages for one in message.discrepancies)


def _list_facts(report: CampaignReport) -> Iterator[str]:
    """Yield who was texted and who was not, and what is known of it only in part."""
    people = report.people
    yield f"Sent through {report.target}, as campaign {report.campaign}."
    if (step := report.rollout) is not None:
        part = f"{write_share(step.share)} of the audience, {count_people(step.people)}"
        yield f"Step {step.number} of {step.steps} of the rollout was open when it was last sent: {part}."
    texted = (
        "; how many were texted is not known" if people.texted is None else f": {people.texted:,} were texted"
    )
    held = "".join(f", {count:,} {what}" for count, what in _list_held(people))
    yield f"{count_people(people.recipients)} to text{texted}{held}."
    if report.cost:
        yield report.cost.describe()
    for message in report.messages:
        yield from (f"{message.id}: {one}." for one in _list_message_facts(message))


def _list_held(people: PeopleReport) -> Iterator[tuple[int, str]]:
    held = {
        "still wait at the service for an earlier survey to end": people.queued,
        "had opted out before the text left": people.blocked,
        "had waited when their surveys were ended, so that no text left": people.withdrawn,
        "may have been texted or not": people.uncertain,
        "are of unknown outcome": people.unresolved,
    }
    yield from ((count, what) for what, count in held.items() if count)


def _list_message_facts(message: MessageReport) -> Iterator[str]:
    if message.rejected:
        yield f"{count_people(message.rejected)} refused by the service"
    if message.doubtful:
        waiting = count_words(message.doubtful, "doubtful reply waits", "doubtful replies wait")
        yield f"{waiting} for a decision"
    if message.non_answers:
        found = count_words(message.non_answers, "reply is no answer", "replies are no answers")
        yield f"{found}: blank, a phone’s reaction, or automatic"
    if message.renders:
        share = write_percent(message.plan_share)
        plan = "" if message.plan_share is None else f", {share} of the service’s plan"
        cost = f", {write_number(message.cost_usd)} US dollars" if message.cost_usd else ""
        yield f"{count_words(message.renders, 'text')} charged{plan}{cost}"
    for part in message.partly_known:
        what = _COUNTS_IN_PART.get(part.name, part.name.replace("_", " "))
        yield f"{what}: {part.count:,} so far, as not all texts are accounted for yet"


_COUNTS_IN_PART = {
    "queued": "people whose text waits for an earlier survey to end",
    "active": "open surveys",
    "complete": "surveys that have ended",
    "results": "replies",
    "participants_answered": "people who answered",
    "participants_completed": "people who answered to the end",
    "opt_outs": "people who opted out",
    "doubtful": "replies that wait for a decision",
    "non_answers": "replies that are no answer",
}
"""The things that counts are of, in readers' words."""


def _tabulate_reserved(audience: Audience, zone: str) -> TableBlock:
    """Return the people of the audience who were not sent to, by reason.

    A ledger of another version may have other reasons, which keep their names.
    """
    rows = [
        (
            REASONS[one.disposition].label if one.disposition in REASONS else one.disposition,
            one.recipients,
            write_percent(divide(one.recipients, audience.recipients), audience.recipients),
        )
        for one in audience.reserved
    ]
    people = f"the audience of {count_people(audience.recipients)}, {write_time(audience.planned_at, zone)}"
    return TableBlock(("Not texted", "People", "Share"), rows, f"Of {people}")


_OUTCOMES = {
    "complete": ("Answered to the end", "I"),
    "partial": ("Answered in part", "P"),
    "refusal": ("Opted out without an answer", "R"),
    "non_contact": ("No answer", "NC"),
    "replaced": ("No answer before a later text of ours", "NC"),
    "other": ("Other", "O"),
    "unknown_eligibility": ("Nothing known", "UH + UO"),
}


def _tabulate_outcomes(dispositions: Dispositions) -> TableBlock:
    rows = [
        (label, code, count)
        for name, (label, code) in _OUTCOMES.items()
        if (count := getattr(dispositions, name)) or name == "complete"
    ]
    return TableBlock(
        ("Outcome", Column("Code", "text"), "People"), rows, "People by final disposition (AAPOR)"
    )


_RATES = {
    "rr1": "Complete interviews, all unknown eligible",
    "rr2": "… and partial ones",
    "rr3": "Complete interviews, e of the unknown eligible",
    "rr4": "… and partial ones",
    "rr5": "Complete interviews, nobody unknown",
    "rr6": "… and partial ones",
    "coop1": "Cooperation, complete interviews",
    "coop2": "… and partial ones",
    "ref1": "Refusal",
    "con1": "Contact",
    "e": "Share of the unknown taken to be eligible",
}


def _tabulate_rates(rates: OutcomeRates, *, is_interim: bool) -> TableBlock:
    rows = [
        (name if name == "e" else name.upper(), meaning, write_percent(rate))
        for name, meaning in _RATES.items()
        if (rate := getattr(rates, name)) is not None
    ]
    caption = f"Outcome rates (AAPOR){', interim: surveys are still open' if is_interim else ''}"
    return TableBlock(("Rate", Column("Of", "text"), "Value"), rows, caption)


MOST_DAYS = 120
"""Days of a chart, at most."""


def _draw_days(message: MessageReport) -> Iterator[Chart]:
    """Yield the answers by day as columns; none for fewer than two days of answers."""
    counts = {day.date: day.answers for day in message.days if day.answers}
    if 1 < len(counts) <= MOST_DAYS:
        labels = [f"{day.day} {day:%b}" for day in counts]
        caption = f"Answers to {message.id} by day"
        svg = plot_columns(list(counts), labels, list(counts.values()), f"Column chart: {caption}")
        rows = list(zip(labels, counts.values(), strict=True))
        yield Chart(svg, TableBlock(("Day", "Answers"), rows, caption))


_SHORT = 10
"""Digits that identify a commit or a digest: as many as git shows of large repositories."""


def _tabulate_runs(runs: Sequence[RunReport], zone: str) -> TableBlock:
    """Return the runs as a table, without empty columns."""
    columns: dict[Column, list[Cell]] = {
        Column("Started", "text"): [write_time(run.started_at, zone) for run in runs],
        Column("Commit", "text"): [_write_commit(run) for run in runs],
        Column("Reviewed plan", "text"): [run.plan_digest[:_SHORT] for run in runs],
        Column("Triggered by", "text"): [run.triggered_by for run in runs],
        Column("Job", "text"): [Link("open", run.run_url) if run.run_url else None for run in runs],
        Column("Batches"): [run.launches for run in runs],
        Column("Texts"): [run.recipients for run in runs],
    }
    kept = {
        column: [NOT_DEFINED if cell is None else cell for cell in cells]
        for column, cells in columns.items()
        if any(cells)
    }
    return TableBlock(tuple(kept), list(zip(*kept.values(), strict=True)), "The runs that sent the campaign")


def _write_commit(run: RunReport) -> str | None:
    return run.commit and run.commit[:_SHORT] + (", with changes" if run.dirty else "")
