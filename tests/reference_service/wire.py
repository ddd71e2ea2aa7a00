"""Launches and results as the service writes them, by its switches."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.reference_service.store import Launch, Result, Session
    from tests.reference_service.switches import Switches

ORIGIN = "+14155550000"
"""The service's own number."""
_CUT = 20
_HOUR = timedelta(hours=1)
_MESSAGE_FIELDS = ("text", "introduction", "questions", "conclusion", "tag", "method")
_QUESTION_FIELDS = ("text", "tag", "responses", "conclude_on", "webhook")
_LISTS = ("questions", "responses")
_DETAILS = (
    "origin_phone_number",
    "participant_guid",
    "project_launch_participant_guid",
    "project_tag",
    "question_display_order",
    "question_text",
)
_NULLS: dict[str, tuple[str, ...]] = {
    "none": (),
    "details": _DETAILS,
    "times": ("created", "updated", "result_timestamp"),
    "answer": ("result_answer",),
    "question": ("question_tag", "question_guid"),
}


def write_stat(launch: Launch, switches: Switches) -> dict[str, Any]:
    """Return the stat record of one launch."""
    sent, states = launch.sent, launch.count_sessions()
    counts = {
        "num_active_sessions": states["ACTIVE"],
        "num_complete_sessions": states["COMPLETE"],
        "num_messages": launch.messages,
        "num_questions": launch.questions,
        "num_queued_sessions": states["QUEUED"],
        "num_renders": launch.renders,
        "num_results": launch.results,
    }
    return {
        **_write_counts(counts, switches),
        "project_definition": _write_definition(sent.definition, switches),
        "project_launch_guid": write_guid(sent.guid, switches),
        "project_launch_start": _write_moment(sent.at, switches),
        "project_tag": write_tag(sent.definition.get("tag"), switches),
        "sessions": [_write_session(session, switches) for session in _shown_sessions(launch, switches)],
    }


def write_result(result: Result, switches: Switches) -> dict[str, Any]:
    """Return one result record."""
    session, launch, question = result.session, result.launch, result.question
    change = _TEXTS[switches.texts]
    has_choice = bool(question.get("responses"))
    guid = write_guid(result.guid, switches)
    record = {
        "created": _write_moment(result.at, switches),
        "guid": guid,
        "origin_phone_number": write_phone(ORIGIN, switches),
        "participant_guid": write_guid(session.participant.guid, switches),
        "participant_phone_number": write_phone(session.participant.phone, switches),
        "project_launch_guid": write_guid(launch.sent.guid, switches),
        "project_launch_participant_guid": write_guid(session.guid, switches),
        "project_tag": write_tag(launch.sent.definition.get("tag"), switches),
        "question_display_order": _write_order(result.place, switches),
        "question_guid": write_guid(launch.question_guids[result.place], switches),
        "question_tag": question.get("tag"),
        "question_text": change(str(question.get("text", ""))),
        "result_answer": result.answer,
        "result_guid": guid,
        "result_response": change(result.response) if has_choice else result.response,
        "result_timestamp": _write_moment(result.at, switches),
        "updated": _write_moment(result.at + timedelta(microseconds=7), switches),
    }
    return record | dict.fromkeys(_NULLS[switches.null_results])


def write_guid(guid: str, switches: Switches) -> str:
    """Return a guid as lists show it."""
    return guid if switches.guids == "lower" else guid.upper()


def write_send_reply(guid: str, switches: Switches, url: str, query: str) -> dict[str, Any]:
    """Return the answer to an accepted send.

    Args:
        guid: of the launch.
        switches: of the service.
        url: the service's base URL.
        query: of the request, with its credentials.
    """
    shown = guid.upper() if switches.guids == "upper" else guid
    reply = {"project_launch_guid": shown}
    if switches.send_reply == "urls":
        reply["stats_url"] = f"{url}/api/stats/{shown}/?{query}"
        reply["results_url"] = f"{url}/api/results?project_launch_guid={shown}&{query}"
    return reply


def write_tag(tag: object, switches: Switches) -> object:
    """Return a project tag as lists show it."""
    if switches.tags == "null":
        return None
    return tag.lower() if isinstance(tag, str) and switches.tags != "as-sent" else tag


def write_phone(phone: str, switches: Switches) -> str:
    """Return a phone number as lists show it."""
    if switches.phones == "bare":
        return phone.removeprefix("+")
    if switches.phones == "blanks":
        return f"{phone[:-10]} {phone[-10:-7]} {phone[-7:-4]} {phone[-4:]}"
    return phone


def _write_counts(counts: dict[str, int], switches: Switches) -> dict[str, Any]:
    if switches.counts == "text":
        return {name: str(count) for name, count in counts.items()}
    if switches.counts == "null":
        return dict.fromkeys(counts)
    if switches.counts == "missing":
        return {name: count for name, count in counts.items() if name != "num_renders"}
    return counts | {"num_results": counts["num_results"] + (switches.counts == "one-more")}


def _shown_sessions(launch: Launch, switches: Switches) -> list[Session]:
    shown = launch.sessions
    if switches.sessions == "none":
        return []
    if switches.sessions == "late":
        is_early = datetime.now(UTC) - launch.sent.at < timedelta(seconds=switches.delay_s)
        return [] if is_early else shown
    if switches.sessions == "part":
        shown = shown[: (len(shown) + 1) // 2]
    return shown[::-1] if switches.phones == "reversed" else shown


def _write_session(session: Session, switches: Switches) -> dict[str, Any]:
    return {
        "created": _write_moment(session.created, switches),
        "from": write_phone(ORIGIN, switches),
        "to": write_phone(session.participant.phone, switches),
        "method": str(session.launch.sent.definition.get("method") or "SMS").upper(),
        "status": session.status,
        "sub_status": session.sub_status,
    }


def _write_moment(moment: datetime, switches: Switches) -> str | None:
    if switches.times == "null":
        return None
    if switches.times == "words":
        return "a moment ago"
    moment += {"ahead": _HOUR, "behind": -_HOUR}.get(switches.times, timedelta())
    if switches.times == "offsets":
        return moment.isoformat(timespec="microseconds")
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{text}Z" if switches.times == "zulu" else text


def _write_order(place: int, switches: Switches) -> str | int:
    if switches.display_order == "integer":
        return place
    return str(place + (switches.display_order == "one"))


def _write_definition(definition: dict[str, Any], switches: Switches) -> dict[str, Any]:
    kept: dict[str, Any] = _change_texts(definition, _TEXTS[switches.texts])
    return _DEFINITIONS[switches.definitions](kept)


def _keep_text(definition: dict[str, Any]) -> dict[str, Any]:
    questions = definition.get("questions") or [{}]
    return {"text": definition.get("text") or definition.get("introduction") or questions[0].get("text", "")}


def _add_fields(definition: dict[str, Any]) -> dict[str, Any]:
    own = {"guid": "d0", "version": 3, "owner": {"name": "Ada"}, "created": "2026-11-22"}
    questions = [
        {**q, "guid": f"q{i}", "type": "ANY"} for i, q in enumerate(definition.get("questions") or [])
    ]
    return {**own, **definition, **({"questions": questions} if questions else {})}


def _fill(definition: dict[str, Any], blank: Callable[[str], Any]) -> dict[str, Any]:
    filled = {name: definition.get(name, blank(name)) for name in (*_MESSAGE_FIELDS, *definition)}
    if definition.get("questions"):
        filled["questions"] = [
            {name: question.get(name, blank(name)) for name in (*_QUESTION_FIELDS, *question)}
            for question in definition["questions"]
        ]
    return filled


def _change_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a definition whose texts have changed; tags, methods and addresses are no texts."""
    if isinstance(value, dict):
        return {
            name: item if name in ("tag", "method", "webhook") else _change_texts(item, change)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_change_texts(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def _curl_quotes(text: str) -> str:
    curled, opens = [], True
    for sign in text:
        if sign == '"':
            curled.append("“" if opens else "”")
            opens = not opens
        else:
            curled.append("’" if sign == "'" else sign)
    return "".join(curled)


_TEXTS: dict[str, Callable[[str], str]] = {
    "as-sent": str,
    "smart-quotes": _curl_quotes,
    "nfd": lambda text: unicodedata.normalize("NFD", text),
    "crlf": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n"),
    "stripped": str.strip,
    "padded": lambda text: f"{text} ",
    "cut": lambda text: text[:_CUT],
}
_DEFINITIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "as-sent": lambda kept: kept,
    "empty-text": lambda kept: {"text": "", **kept} if "questions" in kept else kept,
    "text-alone": _keep_text,
    "nulls": lambda kept: _fill(kept, lambda _name: None),
    "defaults": lambda kept: {"method": "SMS", "complete_existing_sessions": False, **kept},
    "empties": lambda kept: _fill(kept, lambda name: [] if name in _LISTS else ""),
    "no-tag": lambda kept: {name: value for name, value in kept.items() if name != "tag"},
    "extra": _add_fields,
}
