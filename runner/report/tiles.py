"""The few figures of a message that stand before everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.report.findings import caution
from runner.report.scores import divide
from runner.report.tables import name_score
from runner.report.timing import format_duration
from runner.report.wording import (
    NOT_DEFINED,
    NOT_KNOWN,
    write_count,
    write_number,
    write_number_range,
    write_part,
    write_percent,
    write_percent_range,
    write_score,
    write_score_range,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from runner.report.answered import QuestionReport
    from runner.report.model import MessageReport


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure: what it is, the figure, and how sure it is or of what it is a part."""

    name: str
    figure: str
    note: str


def list_tiles(message: MessageReport) -> Iterator[Tile]:
    """Yield the tiles of a message."""
    queued = f", {write_count(message.sessions.queued)} still queued" if message.sessions.queued else ""
    yield Tile("Sent", write_count(message.sent), f"of {write_count(message.recipients)} recipients{queued}")
    if message.questions:
        yield from _list_turnout_tiles(message)
    for question in message.questions:
        yield from _list_score_tiles(question)
    times = message.time_to_first_answer
    if times.median_s is not None:
        yield Tile("First answer", format_duration(times.median_s), "half answered within")
    if message.opt_outs:
        rate = write_percent(divide(message.opt_outs, message.sent))
        yield Tile("Opt-outs", write_count(message.opt_outs), f"{rate} of sent")
    if message.volume.cost_usd:
        renders = f"US dollars, {write_count(message.volume.renders)} renders"
        yield Tile("Cost", write_number(message.volume.cost_usd), renders)


def _list_turnout_tiles(message: MessageReport) -> Iterator[Tile]:
    answered, completed = message.participants_answered, message.participants_completed
    if answered is None or completed is None:
        for name, figure in (("Response", "answered"), ("Completion", "completed")):
            part = message.partly_known.get(f"participants_{figure}")
            yield Tile(name, NOT_KNOWN, "" if part is None else f"{figure}: {write_part(part, message)}")
        return
    interval = message.response_rate_interval
    note = f"{write_count(answered)} answered"
    if interval is not None:
        note = f"95 % interval {write_percent_range(interval)}"
    yield Tile("Response", write_percent(message.response_rate), note)
    yield Tile(
        "Completion", write_percent(message.completion_rate), f"{write_count(completed)} reached the end"
    )


def _list_score_tiles(question: QuestionReport) -> Iterator[Tile]:
    if question.nps is not None:
        nps = question.nps
        ends = nps.interval and write_score_range(nps.interval)
        yield _score("NPS", write_score(nps.score), ends, question, nps.counted)
    elif question.csat is not None:
        csat = question.csat
        ends = csat.interval and write_percent_range(csat.interval)
        yield _score("CSAT", write_percent(csat.score), ends, question, csat.counted)
    elif question.numbers is not None:
        numbers = question.numbers
        name = "CES, mean" if question.scale == "ces" else "Mean"
        ends = numbers.interval and write_number_range(numbers.interval)
        yield _score(name, write_number(numbers.mean), ends, question, numbers.counted)


def _score(name: str, figure: str, ends: str | None, question: QuestionReport, counted: int) -> Tile:
    named = name_score(name, question.tag)
    # A tile is large: a figure that few answers make has no place in it.
    if few := caution(counted):
        return Tile(named, NOT_DEFINED, few)
    return Tile(named, figure, f"95 % interval {ends}" if ends else "")
