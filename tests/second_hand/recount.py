"""Every figure of a report, computed again from what happened. Nothing of the runner's is used."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pandas as pd

from tests.second_hand.comments import quote_people
from tests.second_hand.groups import (
    break_down,
    compare_arms,
    find_latest,
    leave_out_few,
    list_asked,
    name_zone,
    score_answers,
)
from tests.second_hand.people import People, find_opted_out, recount_people
from tests.second_hand.questions import SCORED, describe_question, recount_question
from tests.second_hand.tables import Matching, Within, find_texted, gather, walk
from tests.second_hand.times import list_days, measure_volume, time_first

if TYPE_CHECKING:
    from tests.second_hand.tables import Figures, Message, Situation


def recount(situation: Situation, campaign: dict[str, Any]) -> Figures:
    """Return a campaign's report, as `schemas/report.schema.json` describes it, without its series."""
    messages = [gather(situation, campaign, message) for message in campaign["messages"]]
    sent = pd.concat([one.sent for one in messages])
    everybody = People(messages)
    audiences = [found for (name, _), found in situation.audiences.items() if name == campaign["name"]]
    people = recount_people(everybody, campaign, audiences)
    main = _find_main(campaign, messages)
    recounted = [_recount_message(one) for one in messages]
    starts = [_tell_start(one, choose) for choose in (min, max) for one in messages]
    firsts = [one for one in starts[: len(messages)] if one is not None]
    lasts = [one for one in starts[len(messages) :] if one is not None]
    return {
        "format_version": Matching(r"1\.\d+"),
        "campaign": campaign["name"],
        "target": situation.target,
        **{name: campaign.get(name) for name in ("title", "description", "owner")},
        "time_zone": name_zone(campaign),
        "first_sent_at": min(firsts, key=order) if firsts else None,
        "last_sent_at": max(lasts, key=order) if lasts else None,
        "next_send_at": _find_next(campaign) if not firsts else None,
        "reconciled_at": situation.reconciled if sent.is_read.any() else None,
        "launches": len(sent),
        "reconciled_launches": int(sent.is_read.sum()),
        "people": people,
        "score": _score(everybody, main),
        "goal": _find_goal(campaign),
        "completes": campaign.get("limits", {}).get("completes"),
        "series": None,
        "questions": [_pool(everybody, recounted, *pair) for pair in list_asked(everybody)],
        "groups": break_down(everybody, situation, main),
        "unknown_groups": [] if people["texted"] is not None else ["city"],
        "experiment": compare_arms(everybody, campaign, situation, main),
        "comments": quote_people(everybody, main, situation.groups)
        | {"is_audience_changed": campaign["name"] in situation.changed},
        "messages": recounted,
        "runs": _recount_runs(situation, sent),
    }


def order(moment: Any) -> datetime:
    return moment.first if isinstance(moment, Within) else moment


def _find_next(campaign: dict[str, Any]) -> datetime | None:
    schedule = campaign.get("schedule", {})
    if "not_before" not in schedule:
        return None
    return datetime.fromisoformat(schedule["not_before"]).replace(tzinfo=ZoneInfo(schedule["timezone"]))


def _find_goal(campaign: dict[str, Any]) -> float | None:
    goal = campaign.get("score", {}).get("target")
    return float(goal) / 100 if goal is not None and campaign["score"]["question"] == "sat" else None


def _recount_message(one: Message) -> Figures:
    sent, message = one.sent, one.message
    recipients = int(sent["size"].sum())
    unresolved = int(one.launches[one.launches.state == "unknown"]["size"].sum())
    answered = one.answers.phone.nunique()
    steps = walk(one)
    completed = len(steps["completed"])
    is_read, asks = one.is_read, bool(one.questions)
    held = {
        "participants_answered": answered,
        "participants_completed": completed,
        "results": len(one.replies),
        "opt_outs": len(find_opted_out(one)),
        "doubtful": _count_doubtful(one),
        "non_answers": int((one.replies.kind == "silent").sum()),
    }
    known = held if is_read else dict.fromkeys(held)
    reached = one.people[one.people.state == "sent"]
    states = {name: int((reached.status == name.upper()).sum()) for name in ("queued", "active", "complete")}
    counts = states | {"renders": int(reached.renders.sum())}
    texted = len(find_texted(one))
    has_rate = is_read and asks and texted > 0
    return {
        "id": message["id"],
        "tag": message.get("tag", one.campaign["tag"]),
        "first_sent_at": _tell_start(one, min),
        "last_sent_at": _tell_start(one, max),
        "reconciled_at": one.situation.reconciled if sent.is_read.any() else None,
        "launches": len(sent),
        "reconciled_launches": int(sent.is_read.sum()),
        "recipients": recipients + unresolved,
        "sent": recipients,
        "texted": texted if is_read else None,
        "rejected": len(_list_refused(one)),
        "unresolved": unresolved,
        "sessions": states if is_read else dict.fromkeys(states),
        "participants_answered": known["participants_answered"] if asks else None,
        "response_rate": answered / texted if has_rate else None,
        "participants_completed": known["participants_completed"] if asks else None,
        "completion_rate": completed / answered if has_rate and answered else None,
        "renders": counts["renders"] if is_read else None,
        "results": known["results"],
        "questions": [recount_question(one, steps, question) for question in one.questions],
        "audience": _describe_audience(one),
        **measure_volume(one, counts["renders"]),
        "opt_outs": known["opt_outs"],
        "doubtful": known["doubtful"],
        "non_answers": known["non_answers"],
        "half_answered_within_s": time_first(one) if is_read else None,
        "days": list_days(one),
        "partly_known": [
            {"name": name, "count": count, "launches": int(sent.is_read.sum())}
            for name, count in (counts | held).items()
        ]
        if not is_read and sent.is_read.any()
        else [],
    }


def _describe_audience(one: Message) -> Figures | None:
    found = one.situation.audiences.get((one.campaign["name"], one.message["id"]))
    return found and {name: value for name, value in found.items() if name != "control_group"}


def _tell_start(one: Message, choose: Any) -> Any:
    """Return a start as the service has it; of launches that were not read, no more than when they were sent."""
    if one.sent.empty:
        return None
    if one.is_read:
        return choose(one.sent.start)
    times = []
    for launch in one.sent.to_dict("records"):
        window, start = one.situation.applied[launch["run"]]["at"], launch["start"]
        times.append(Within(start, start) if launch["is_read"] else window)
    return choose(times, key=lambda within: within.first)


def _list_refused(one: Message) -> set[str]:
    """Return the recipients of refused launches whom no later one has tried to reach."""
    refused = set(one.people[one.people.state == "refused"].phone)
    return refused - set(one.people[one.people.state != "refused"].phone)


def _count_doubtful(one: Message) -> int:
    """Count replies that nobody has decided, of people who have not opted out otherwise."""
    waiting = one.replies[(one.replies.kind == "doubtful") & (one.replies.decision == "")]
    return int((~waiting.phone.isin(one.situation.facts.stopped)).sum())


def _find_main(campaign: dict[str, Any], messages: list[Message]) -> str | None:
    """Return the question of the campaign's score.

    It is the one that it names, that a message and its follow-up share, or the only one with a score.
    """
    tag = campaign.get("score", {}).get("question")
    for one in messages if tag is None else ():
        if "after" not in one.message:
            continue
        shared = {question["tag"] for question in one.questions if question.get("scale") in SCORED}
        (first,) = (other for other in messages if other.message["id"] == one.message["after"]["message"])
        tag = tag or next((q["tag"] for q in first.questions if q["tag"] in shared), None)
    scored = {q["tag"] for one in messages for q in one.questions if q.get("scale") in SCORED}
    return tag or (scored.pop() if len(scored) == 1 else None)


def _score(people: People, main: str | None) -> Figures | None:
    if main is None:
        return None
    question, places = next(pair for pair in list_asked(people) if pair[0]["tag"] == main)
    if not all(people.messages[place].is_read for place in places):
        return None
    return leave_out_few(score_answers(question, find_latest(people, places, main)))


def _pool(people: People, recounted: list[Figures], question: dict[str, Any], places: list[int]) -> Figures:
    """Return a question over all messages: of each person the latest answer."""
    tag, asking = question["tag"], [people.messages[place] for place in places]
    if len(places) == 1:
        (own,) = (one for one in recounted[places[0]]["questions"] if one["tag"] == tag)
        return {"question": own, "parts": [{"message": asking[0].message["id"], "answers": own["answers"]}]}
    if not all(one.is_read for one in asking):
        parts = [{"message": one.message["id"], "answers": None} for one in asking]
        return {"question": describe_question(question, None), "parts": parts}
    latest = find_latest(people, places, tag)
    asked = {phone for one in asking for phone in walk(one)["reached"][tag]}
    found = describe_question(question, latest)
    return {
        "question": found | {"asked": len(asked), "answer_rate": len(latest) / len(asked) if asked else None},
        "parts": [
            {"message": one.message["id"], "answers": int((latest.message == number).sum())}
            for number, one in enumerate(asking)
        ],
    }


def _recount_runs(situation: Situation, sent: pd.DataFrame) -> list[Figures]:
    runs = []
    for number in sorted(set(sent.run)):
        own, applied = sent[sent.run == number], situation.applied[number]
        runs.append(
            {
                "id": Matching(r"[0-9a-f]+"),
                "started_at": applied["at"],
                "plan_digest": applied["digest"],
                "commit": applied["commit"],
                "dirty": applied["dirty"],
                "run_url": applied["run_url"],
                "triggered_by": applied["triggered_by"],
                "launches": len(own),
                "recipients": int(own["size"].sum()),
            }
        )
    return runs
