"""Every figure of a report, computed again from what happened. Nothing of the runner's is used."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas as pd

from tests.second_hand import formulas
from tests.second_hand.groups import break_down, compare_arms
from tests.second_hand.questions import SCORED, describe_question, recount_question
from tests.second_hand.tables import Matching, Within, gather, walk
from tests.second_hand.times import list_days, measure_volume, time_first, time_nothing

if TYPE_CHECKING:
    from tests.second_hand.tables import Figures, Message, Situation


def recount(situation: Situation, campaign: dict[str, Any]) -> Figures:
    """Return a campaign's report, as `schemas/report.schema.json` describes it."""
    messages = [gather(situation, campaign, message) for message in campaign["messages"]]
    everything = pd.concat([one.answers.phone for one in messages])
    sent = pd.concat([one.sent for one in messages])
    is_read = bool(sent.is_read.all())
    return {
        "format_version": Matching(r"1\.\d+"),
        "campaign": campaign["name"],
        "target": situation.target,
        "reconciled_at": situation.reconciled if sent.is_read.any() else None,
        "messages": [_recount_message(one) for one in messages],
        "participants_answered": everything.nunique() if is_read else None,
        "runs": _recount_runs(situation, sent),
        "launches": len(sent),
        "reconciled_launches": int(sent.is_read.sum()),
        "score": _pool(campaign, messages),
    }


def _recount_message(one: Message) -> Figures:
    sent, message = one.sent, one.message
    recipients = int(sent["size"].sum())
    unresolved = int(one.launches[one.launches.state == "unknown"]["size"].sum())
    answered = one.answers.phone.nunique()
    steps = walk(one)
    completed = len(steps["completed"])
    is_read, asks = one.is_read, bool(one.questions)
    has_rate = is_read and asks and recipients > 0
    held = {
        "participants_answered": answered,
        "participants_completed": completed,
        "results": len(one.replies),
        "opt_outs": _count_opt_outs(one),
        "doubtful": _count_doubtful(one),
        "non_answers": int((one.replies.kind == "silent").sum()),
    }
    known = held if is_read else dict.fromkeys(held)
    reached = one.people[one.people.state == "sent"]
    states = {name: int((reached.status == name.upper()).sum()) for name in ("queued", "active", "complete")}
    counts = states | {"renders": int(reached.renders.sum())}
    begun = sent.start.where(sent.is_read)
    dispositions = _dispose(one, steps) if has_rate else None
    return {
        "id": message["id"],
        "tag": message.get("tag", one.campaign["tag"]),
        "first_sent_at": _tell_start(one, begun.min() if is_read else None, min),
        "last_sent_at": _tell_start(one, begun.max() if is_read else None, max),
        "reconciled_at": one.situation.reconciled if sent.is_read.any() else None,
        "launches": len(sent),
        "reconciled_launches": int(sent.is_read.sum()),
        "reconciled_sent": int(sent[sent.is_read]["size"].sum()),
        "recipients": recipients + unresolved,
        "sent": recipients,
        "rejected": len(_list_refused(one)),
        "unresolved": unresolved,
        "sessions": states if is_read else dict.fromkeys(states),
        "participants_answered": known["participants_answered"],
        "response_rate": answered / recipients if has_rate else None,
        "response_rate_interval": formulas.wilson(answered, recipients) if has_rate else None,
        "participants_completed": known["participants_completed"],
        "completion_rate": completed / answered if has_rate and answered else None,
        "renders": counts["renders"] if is_read else None,
        "results": known["results"],
        "questions": [recount_question(one, steps, question) for question in one.questions],
        "audience": one.situation.audiences.get((one.campaign["name"], message["id"])),
        "volume": measure_volume(one, counts["renders"]),
        "opt_outs": known["opt_outs"],
        "doubtful": known["doubtful"],
        "non_answers": known["non_answers"],
        "dispositions": dispositions,
        "response_rates": _rate(dispositions) if dispositions else None,
        "time_to_first_answer": time_first(one) if is_read else time_nothing(),
        "experiment": compare_arms(one, steps),
        "breakdowns": [break_down(one, steps)],
        "days": list_days(one),
        "partly_known": [
            {"name": name, "count": count, "launches": int(sent.is_read.sum())}
            for name, count in (counts | held).items()
        ]
        if not is_read and sent.is_read.any()
        else [],
    }


def _tell_start(one: Message, known: pd.Timestamp | None, choose: Any) -> Any:
    """Return a start as the service has it; of launches that were not read, no more than when they were sent."""
    if one.sent.empty:
        return None
    if known is not None:
        return known
    times = []
    for launch in one.sent.to_dict("records"):
        window, start = one.situation.applied[launch["run"]]["at"], launch["start"]
        times.append(Within(start, start) if launch["is_read"] else window)
    return choose(times, key=lambda within: within.first)


def _list_refused(one: Message) -> set[str]:
    """Return the recipients of refused launches whom no later one has tried to reach."""
    refused = set(one.people[one.people.state == "refused"].phone)
    return refused - set(one.people[one.people.state != "refused"].phone)


def _count_opt_outs(one: Message) -> int:
    """Count replies that opt out, and people whom the service says to have ended the conversation so."""
    read = one.people[one.people.is_read]
    return int(one.replies.refuses.sum()) + int((read.sub_status == "OPTED_OUT").sum())


def _count_doubtful(one: Message) -> int:
    """Count replies that nobody has decided, of people who have not opted out otherwise."""
    waiting = one.replies[(one.replies.kind == "doubtful") & (one.replies.decision == "")]
    return int((~waiting.phone.isin(one.situation.facts.stopped)).sum())


def _dispose(one: Message, steps: Figures) -> Figures:
    """Count everybody who was meant to be asked once (AAPOR)."""
    answered = set(one.answers.phone)
    refused = set(one.replies[one.replies.refuses].phone)
    counted: Counter[str] = Counter()
    for person in one.people.to_dict("records"):
        phone, sub_status = person["phone"], person["sub_status"]
        if person["state"] == "refused":
            continue
        if phone in steps["completed"]:
            counted["complete"] += 1
        elif phone in answered:
            counted["partial"] += 1
        elif phone in refused or sub_status in ("OPTED_OUT", "BLOCKED"):
            counted["refusal"] += 1
        elif person["status"] == "COMPLETE":
            counted["non_contact"] += 1
        else:
            counted["unknown_eligibility"] += 1
    names = ("complete", "partial", "refusal", "non_contact", "other", "unknown_eligibility")
    return {name: counted[name] for name in names}


def _rate(found: Figures) -> Figures:
    known = sum(found.values()) - found["unknown_eligibility"]
    everybody, complete = sum(found.values()), found["complete"]
    interviews = complete + found["partial"]
    # Nobody is known not to be eligible, so e is 1.
    return {
        "rr1": complete / everybody,
        "rr2": interviews / everybody,
        "rr3": complete / everybody if known else None,
        "rr4": interviews / everybody if known else None,
        "rr5": complete / known if known else None,
        "rr6": interviews / known if known else None,
    }


def _pool(campaign: dict[str, Any], messages: list[Message]) -> Figures | None:
    """Return the campaign's score: the question that it names, or that a message and its follow-up share."""
    tag = campaign.get("score", {}).get("question")
    if tag is None:
        for one in messages:
            if "after" not in one.message:
                continue
            shared = {question["tag"] for question in one.questions if question.get("scale") in SCORED}
            (first,) = (other for other in messages if other.message["id"] == one.message["after"]["message"])
            tag = tag or next((q["tag"] for q in first.questions if q["tag"] in shared), None)
    asking = [one for one in messages if tag in [question["tag"] for question in one.questions]]
    if tag is None or not all(one.is_read for one in asking):
        return None
    answers = pd.concat([one.latest.assign(message=number) for number, one in enumerate(asking)])
    ordered = answers[answers.tag == tag].sort_values(["at", "message"], kind="stable")
    latest = ordered.drop_duplicates("phone", keep="last")
    (question,) = (question for question in asking[0].questions if question["tag"] == tag)
    return {
        "question": describe_question(question, latest),
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
