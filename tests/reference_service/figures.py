"""Figures of a message as reports have them, beside those that the service knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.reference_service.store import Result, Store

Figures = dict[str, Any]
COUNTED = ("queued", "active", "complete", "renders")
"""Figures that only the service's own counts tell."""
STATES = ("queued", "active", "complete")


def know_figures(store: Store, tag: str) -> Figures:
    """Return the truth about the launches under a tag."""
    with store.lock:
        launches = [launch for launch in store.launches if launch.sent.definition.get("tag") == tag]
        results = [result for result in store.results if result.launch in launches]
        figures: Figures = {
            "sent": sum(len(launch.sent.phones) for launch in launches),
            **{state: sum(x.count_sessions()[state.upper()] for x in launches) for state in STATES},
            "renders": sum(launch.renders for launch in launches),
            "results": len(results),
            "answered": len(_people(results)),
        }
        for place, question in enumerate(launches[0].asked):
            answers = [result for result in results if result.place == place]
            asked = [x for launch in launches for x in launch.sessions if x.status != "QUEUED"]
            figures |= _know_question(question, answers)
            figures[f"{question['tag']} asked"] = sum(session.place >= place for session in asked)
        return figures


def _know_question(question: dict[str, Any], answers: list[Result]) -> Figures:
    tag, responses = question["tag"], question.get("responses") or []
    chosen = {response: sum(x.response == response for x in answers) for response in responses}
    return {f"{tag} answers": len(_people(answers)), f"{tag} distribution": chosen}


def _people(results: list[Result]) -> set[str]:
    return {result.session.participant.phone for result in results}


def read_figures(message: dict[str, Any]) -> Figures:
    """Return the same figures as a report of a message has them; None for what it does not know."""
    sessions = message["sessions"] or dict.fromkeys(STATES)
    figures: Figures = {
        "sent": message["sent"],
        **{state: sessions[state] for state in STATES},
        "renders": message["renders"],
        "results": message["results"],
        "answered": message["participants_answered"],
    }
    for question in message["questions"]:
        tag = question["tag"]
        counts = {response["label"]: response["count"] for response in question["distribution"] or []}
        # A distribution that is not known may be empty.
        is_known = question["answers"] is not None and None not in counts.values()
        figures |= {
            f"{tag} asked": question["asked"],
            f"{tag} answers": question["answers"],
            f"{tag} distribution": counts if is_known else None,
        }
    return figures


def find_wrong(shown: Figures, truth: Figures) -> Figures:
    """Return the figures that are neither right nor "not known", each with what would be right."""
    return {
        name: (shown.get(name), value)
        for name, value in truth.items()
        if shown.get(name) is not None and shown[name] != value
    } | {name: (value, None) for name, value in shown.items() if name not in truth}


def find_unknown(shown: Figures, truth: Figures) -> set[str]:
    """Return the figures that are not known; how many answered is not asked of a plain text."""
    is_plain = not any(name.endswith(" asked") for name in truth)
    asked = truth.keys() - ({"answered"} if is_plain else set())
    return {name for name in asked if shown.get(name) is None}
