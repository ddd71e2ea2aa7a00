"""The report for programs: JSON, exactly as `schemas/report.schema.json` describes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runner.ledger.report_model import describe_parts
from runner.report.json_parts import (
    describe_audience,
    describe_breakdown,
    describe_day,
    describe_dispositions,
    describe_experiment,
    describe_rates,
    describe_times,
    describe_volume,
)
from runner.report.provenance import describe_run
from runner.report.rounding import store_interval, store_number, store_time

if TYPE_CHECKING:
    from runner.report.answered import (
        NetPromoterScore,
        PartialAnswers,
        QuestionReport,
        SatisfactionScore,
        TextSummary,
    )
    from runner.report.model import CampaignReport, MessageReport, PooledScore

FORMAT_VERSION = "1.0"
"""Of the document; the first number rises when a reader of the format before it would go wrong."""


def write_json(report: CampaignReport) -> str:
    """Return the report as JSON text, in UTF-8's characters, ending in a line break."""
    document = {
        "format_version": FORMAT_VERSION,
        "campaign": report.campaign,
        "target": report.target,
        "reconciled_at": store_time(report.reconciled_at),
        "messages": [_describe_message(message) for message in report.messages],
        "participants_answered": report.participants_answered,
        "discrepancies": list(report.discrepancies),
        "runs": [describe_run(run) for run in report.runs],
        "launches": report.launches,
        "reconciled_launches": report.launches - report.unread_launches,
        "score": report.score and _describe_score(report.score),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _describe_message(message: MessageReport) -> dict[str, Any]:
    sessions = message.sessions
    return {
        "id": message.id,
        "tag": message.tag,
        "first_sent_at": store_time(message.first_sent_at),
        "last_sent_at": store_time(message.last_sent_at),
        "reconciled_at": store_time(message.reconciled_at),
        "launches": message.launches,
        "reconciled_launches": message.launches - message.unread_launches,
        "reconciled_sent": message.sent_read,
        "recipients": message.recipients,
        "sent": message.sent,
        "rejected": message.rejected,
        "unresolved": message.unresolved,
        "sessions": {"queued": sessions.queued, "active": sessions.active, "complete": sessions.complete},
        "participants_answered": message.participants_answered,
        "response_rate": store_number(message.response_rate),
        "response_rate_interval": store_interval(message.response_rate_interval),
        "participants_completed": message.participants_completed,
        "completion_rate": store_number(message.completion_rate),
        "renders": message.renders,
        "results": message.results,
        "discrepancies": list(message.discrepancies),
        "questions": [_describe_question(question) for question in message.questions],
        "audience": message.audience and describe_audience(message.audience),
        "volume": describe_volume(message.volume),
        "opt_outs": message.opt_outs,
        "dispositions": message.dispositions and describe_dispositions(message.dispositions),
        "response_rates": message.response_rates and describe_rates(message.response_rates),
        "time_to_first_answer": describe_times(message.time_to_first_answer),
        "experiment": message.experiment and describe_experiment(message.experiment),
        "breakdowns": [describe_breakdown(breakdown) for breakdown in message.breakdowns],
        "days": [describe_day(day) for day in message.days],
        "partly_known": describe_parts(message.partly_known),
    }


def _describe_question(question: QuestionReport) -> dict[str, Any]:
    numbers = question.numbers
    return {
        "tag": question.tag,
        "text": question.text,
        "scale": question.scale,
        "asked": question.asked,
        "answers": question.answers,
        "answer_rate": store_number(question.answer_rate),
        "distribution": [
            {
                "answer": response.answer,
                "label": response.label,
                "count": response.count,
                "share": store_number(response.share),
            }
            for response in question.distribution
        ],
        "nps": question.nps and _describe_nps(question.nps),
        "csat": question.csat and _describe_csat(question.csat),
        "mean": numbers and store_number(numbers.mean),
        "median": numbers and store_number(numbers.median),
        "mean_interval": numbers and store_interval(numbers.interval),
        "numeric_answers": numbers and numbers.counted,
        "texts": question.texts and _describe_texts(question.texts),
        "broke_off": question.broke_off,
        "time_to_answer": question.time_to_answer and describe_times(question.time_to_answer),
        "in_part": question.in_part and _describe_part(question.in_part),
    }


def _describe_score(score: PooledScore) -> dict[str, Any]:
    parts = [{"message": message, "answers": count} for message, count in score.parts.items()]
    return {"question": _describe_question(score.question), "parts": parts}


def _describe_part(part: PartialAnswers) -> dict[str, Any]:
    return {"launches": part.launches, "question": _describe_question(part.question)}


def _describe_nps(nps: NetPromoterScore) -> dict[str, Any]:
    return {
        "score": store_number(nps.score),
        "promoters": nps.promoters,
        "passives": nps.passives,
        "detractors": nps.detractors,
        "counted": nps.counted,
        "interval": store_interval(nps.interval),
    }


def _describe_csat(csat: SatisfactionScore) -> dict[str, Any]:
    return {
        "score": store_number(csat.score),
        "satisfied": csat.satisfied,
        "counted": csat.counted,
        "interval": store_interval(csat.interval),
    }


def _describe_texts(texts: TextSummary) -> dict[str, Any]:
    return {
        "counted": texts.counted,
        "median_length": store_number(texts.median_length),
        "longest": texts.longest,
        "words": [{"word": word.word, "participants": word.participants} for word in texts.words],
    }
