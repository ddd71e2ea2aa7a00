"""The report for programs: JSON, exactly as `schemas/report.schema.json` describes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from runner.report.rounding import STORED_PLACES, store_number

if TYPE_CHECKING:
    from datetime import datetime

    from runner.report.model import (
        CampaignReport,
        MessageReport,
        NetPromoterScore,
        QuestionReport,
        SatisfactionScore,
    )

FORMAT_VERSION = "1.0"
"""Of the document; the first number rises when a reader of the format before it would go wrong."""


def write_json(report: CampaignReport) -> str:
    """Return the report as JSON text, in UTF-8's characters, ending in a line break."""
    document = {
        "format_version": FORMAT_VERSION,
        "campaign": report.campaign,
        "target": report.target,
        "reconciled_at": _write_time(report.reconciled_at),
        "messages": [_describe_message(message) for message in report.messages],
        "participants_answered": report.participants_answered,
        "discrepancies": list(report.discrepancies),
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _describe_message(message: MessageReport) -> dict[str, Any]:
    interval = message.response_rate_interval
    sessions = message.sessions
    return {
        "id": message.id,
        "tag": message.tag,
        "first_sent_at": _write_time(message.first_sent_at),
        "last_sent_at": _write_time(message.last_sent_at),
        "reconciled_at": _write_time(message.reconciled_at),
        "launches": message.launches,
        "recipients": message.recipients,
        "sent": message.sent,
        "rejected": message.rejected,
        "unresolved": message.unresolved,
        "sessions": {"queued": sessions.queued, "active": sessions.active, "complete": sessions.complete},
        "participants_answered": message.participants_answered,
        "response_rate": store_number(message.response_rate),
        "response_rate_interval": None
        if interval is None
        else [round(end, STORED_PLACES) for end in interval],
        "participants_completed": message.participants_completed,
        "completion_rate": store_number(message.completion_rate),
        "renders": message.renders,
        "results": message.results,
        "discrepancies": list(message.discrepancies),
        "questions": [_describe_question(question) for question in message.questions],
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
        "nps": _describe_nps(question.nps),
        "csat": _describe_csat(question.csat),
        "mean": None if numbers is None else store_number(numbers.mean),
        "median": None if numbers is None else store_number(numbers.median),
        "numeric_answers": None if numbers is None else numbers.counted,
    }


def _describe_nps(nps: NetPromoterScore | None) -> dict[str, Any] | None:
    if nps is None:
        return None
    return {
        "score": store_number(nps.score),
        "promoters": nps.promoters,
        "passives": nps.passives,
        "detractors": nps.detractors,
        "counted": nps.counted,
    }


def _describe_csat(csat: SatisfactionScore | None) -> dict[str, Any] | None:
    if csat is None:
        return None
    return {
        "score": store_number(csat.score),
        "satisfied": csat.satisfied,
        "counted": csat.counted,
    }


def _write_time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat().replace("+00:00", "Z")
