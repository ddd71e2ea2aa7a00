"""Five campaigns that together have every trait of a report, as a user writes them."""

from __future__ import annotations

from typing import Any

TEN = [str(number) for number in range(11)]
WORDS = ["Awful", "Poor", "Fair", "Good", "Great"]
NPS: dict[str, Any] = {"tag": "nps", "text": "Would you recommend us?", "responses": TEN, "scale": "nps"}
REASON: dict[str, Any] = {"tag": "reason", "text": "Why?", "scale": "text"}
SATISFIED: dict[str, Any] = {"tag": "sat", "text": "How was it?", "responses": WORDS, "scale": "csat"}


def build_campaigns(zone: str, analysis_day: str) -> dict[str, dict[str, Any]]:
    """Return the campaigns by name.

    Args:
        zone: in which it is about noon.
        analysis_day: on which the verdict of `wave` is taken.
    """
    return {
        "early": {
            **_build_head("early"),
            "series": "nps",
            "messages": [
                {"id": "ask", "introduction": "{{ city }}!", "questions": [NPS], "conclusion": "Thanks"}
            ],
            "variants": {
                "seed": "e",
                "of": "ask",
                "arms": [{"id": "warm", "introduction": "Dear {{ city }}!"}, {"id": "cold"}],
                "analysis": {"per_arm": 50000},
            },
        },
        "pulse": _build_pulse(),
        "service": _build_service(zone),
        "planned": {
            **_build_head("planned"),
            "description": "What it is *for*.",
            "series": "nps",
            "messages": [{"id": "ask", "questions": [NPS]}],
            "schedule": {"timezone": zone, "not_before": "2031-05-04T10:00"},
        },
        "wave": {
            **_build_head("wave"),
            "title": "The wave",
            "owner": "cx@example.com",
            "series": "nps",
            "limits": {"completes": 100_000},
            "messages": [{"id": "again", "questions": [NPS, REASON], "conclusion": "Thanks"}],
            "variants": {
                "seed": "w",
                "of": "again",
                "arms": [
                    {"id": "plain"},
                    {"id": "turned", "questions": [REASON, NPS]},
                    {"id": "never", "weight": 0, "introduction": "Nobody gets this"},
                ],
                "analysis": {"at": analysis_day},
            },
        },
    }


def _build_head(name: str) -> dict[str, Any]:
    return {
        "version": 1,
        "name": name,
        "tag": f"{name}-tag",
        "recipients": [{"csv": "people.csv", "timezone_column": "zone"}],
        "policy": {"open_session": "wait" if name == "early" else "queue"},
    }


def _build_pulse() -> dict[str, Any]:
    visits = {"tag": "visits", "text": "How often were you here?", "scale": "number"}
    again = {
        "tag": "later",
        "text": "May we ask you again?",
        "responses": ["Yes", "No", "Perhaps"],
        "conclude_on": "No",
    }
    return {
        **_build_head("pulse"),
        "series": "nps",
        "exclude": [{"csv": "excluded.csv"}],
        "messages": [
            {
                "id": "ask",
                "introduction": "{{ city }}: a quick word?",
                "questions": [NPS, REASON, visits],
                "conclusion": "Thanks!",
            },
            {
                "id": "nudge",
                "tag": "pulse-nudge",
                "after": {"message": "ask", "wait": "0s"},
                "to": "unanswered",
                "questions": [NPS, again, REASON],
            },
        ],
        "variants": {
            "seed": "p",
            "of": "ask",
            "arms": [
                {"id": "base"},
                {"id": "brief", "introduction": "One question, {{ city }}.", "questions": [NPS, REASON]},
                {"id": "warm", "introduction": "Dear {{ city }}!"},
            ],
            "holdout": 0.05,
        },
    }


def _build_service(zone: str) -> dict[str, Any]:
    effort = {
        "tag": "effort",
        "text": "How hard was it?",
        "responses": ["1 (hard)", "2", "3", "4", "5 (easy)"],
        "scale": "ces",
    }
    liked = {
        "tag": "liked",
        "text": "What did you like?",
        "responses": ["Staff", "Price", "Nothing"],
        "conclude_on": "nothing",
    }
    spent = {"tag": "spent", "text": "What did you spend?", "scale": "number"}
    more = {"tag": "more", "text": "Anything else?"}
    return {
        **_build_head("service"),
        "score": {"question": "sat", "target": 62.5},
        "messages": [
            {"id": "rate", "questions": [SATISFIED, effort, liked, spent, more], "conclusion": "Bye"},
            {
                "id": "recheck",
                "tag": "service-recheck",
                "after": {"message": "rate", "wait": "0s"},
                "to": "answered",
                "introduction": "Once more:",
                "questions": [SATISFIED],
            },
            {"id": "notice", "tag": "service-notice", "text": "We open at nine, {{ city }}."},
        ],
        "variants": {
            "seed": "s",
            "of": "rate",
            "arms": [{"id": "plain"}, {"id": "polite", "introduction": "Dear {{ city }}, a word?"}],
            "analysis": {"per_arm": 100},
        },
        "schedule": {"timezone": zone, "send_between": ["06:00", "18:00"]},
    }


def list_ways(campaign: dict[str, Any], message: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the ways in which a message goes out, by arm; one without a name if it has no arms."""
    variants = campaign.get("variants", {})
    if variants.get("of") != message["id"]:
        return {"": message}
    return {arm["id"]: {**message, **arm} for arm in variants["arms"]}


def list_questions(campaign: dict[str, Any], message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the questions that any way of a message asks, each tag once."""
    found: dict[str, dict[str, Any]] = {}
    for way in (message, *list_ways(campaign, message).values()):
        for question in way.get("questions", ()):
            found.setdefault(question["tag"], question)
    return list(found.values())
