"""Arms and groups of the audience, counted again."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from tests.second_hand import formulas
from tests.second_hand.questions import SCORED, describe_question

if TYPE_CHECKING:
    from tests.second_hand.tables import Figures, Message

LEAST = 10
"""Recipients of the smallest group that a breakdown shows."""


def describe_group(one: Message, steps: Figures, name: str, phones: set[str], scoreless: set[str]) -> Figures:
    sent = len(phones)
    if not one.is_read:
        return {
            "name": name, "sent": sent, "answered": None, "response_rate": None, "response_interval": None,
            "completed": None, "scores": [],
        }  # fmt: skip
    answered = len(set(one.answers.phone) & phones)
    has_rate = bool(one.questions) and sent > 0
    scores = []
    for question in one.questions:
        score = _score_group(one, question, phones)
        if score is not None:
            if question["tag"] in scoreless:
                score |= {"value": None, "interval": None}
            scores.append(score)
    return {
        "name": name,
        "sent": sent,
        "answered": answered,
        "response_rate": answered / sent if has_rate else None,
        "response_interval": formulas.wilson(answered, sent) if has_rate else None,
        "completed": len(steps["completed"] & phones),
        "scores": scores,
    }


def _score_group(one: Message, question: dict[str, Any], phones: set[str]) -> Figures | None:
    scale = question.get("scale")
    if scale not in SCORED:
        return None
    latest = one.latest[(one.latest.tag == question["tag"]) & one.latest.phone.isin(phones)]
    found = describe_question(question, latest)
    if scale in ("nps", "csat"):
        score = found[scale]
        measure, value, interval, counted = scale, score["score"], score["interval"], score["counted"]
    else:
        measure, value, interval = "mean", found["mean"], found["mean_interval"]
        counted = found["numeric_answers"]
    return {
        "tag": question["tag"], "measure": measure, "value": value, "interval": interval, "counted": counted
    }  # fmt: skip


def break_down(one: Message, steps: Figures) -> Figures:
    sent = one.people[one.people.state == "sent"]
    groups: dict[str, set[str]] = {}
    for phone in sent.phone:
        groups.setdefault(one.situation.groups.get(phone, "") or "(empty)", set()).add(phone)
    hidden = _hide({name: len(phones) for name, phones in groups.items()}, set())
    scoreless: dict[str, set[str]] = {name: set() for name in groups}
    for question in one.questions:
        scores = {name: _score_group(one, question, phones) for name, phones in groups.items()}
        counted = {name: score["counted"] for name, score in scores.items() if score and score["counted"]}
        for name in _hide(counted, hidden) & groups.keys():
            scoreless[name].add(question["tag"])
    left_out = sum(len(groups[name]) for name in hidden)
    return {
        "column": "city",
        "groups": [
            describe_group(one, steps, name, groups[name], scoreless[name])
            for name in sorted(groups)
            if name not in hidden
        ],
        "suppressed": len(hidden),
        "suppressed_sent": left_out if left_out >= LEAST else None,
        "least": LEAST,
    }


def _hide(sizes: dict[str, int], hidden: set[str]) -> set[str]:
    """Return the groups to leave out: small ones, and then the next larger until they hide each other."""
    order = sorted(sizes, key=lambda name: (sizes[name], name))
    out = [name for name in order if sizes[name] < LEAST or name in hidden]
    rest = [name for name in order if name not in out]
    while out and rest and sum(sizes[name] for name in out) < LEAST:
        out.append(rest.pop(0))
    return set(out)


def compare_arms(one: Message, steps: Figures) -> Figures | None:
    arms = [arm for arm in one.ways if arm]
    if not arms:
        return None
    sent = one.people[one.people.state == "sent"]
    described = [describe_group(one, steps, arm, set(sent[sent.arm == arm].phone), set()) for arm in arms]
    if not one.is_read:
        return {"arms": described, "differences": [], "analysis": None}
    plan = one.campaign["variants"].get("analysis", {"sequential": True})
    due = _find_due_day(one, arms, plan)
    asked = sent.drop_duplicates("phone")
    first = one.answers.groupby("phone")["at"].min()
    is_sequential = "sequential" in plan
    has_come = (
        due is not None and one.situation.reconciled is not None and due <= one.situation.reconciled.first
    )
    if has_come:
        asked, first = asked[asked.start < due], first[first < due]
    counts = {
        arm: (int(first.index.isin(asked[asked.arm == arm].phone).sum()), int((asked.arm == arm).sum()))
        for arm in arms
    }
    is_due = is_sequential or has_come
    analysis = {
        "method": "sequential" if is_sequential else "fixed",
        "due": None if due is None else str(due.date()),
        "per_arm": plan.get("per_arm"),
        "is_due": is_due,
        "arms": [{"name": arm, "sent": counts[arm][1], "answered": counts[arm][0]} for arm in arms],
    }
    return {
        "arms": described,
        "differences": _list_differences(counts, is_sequential=is_sequential, is_due=is_due),
        "analysis": analysis,
    }


def _find_due_day(one: Message, arms: list[str], plan: dict[str, Any]) -> datetime | None:
    if "at" in plan:
        return datetime.combine(datetime.fromisoformat(plan["at"]), time(), UTC)
    if "per_arm" not in plan:
        return None
    days = one.sent.assign(day=one.sent.start.dt.date)
    daily = days.pivot_table("size", "day", "arm", "sum", fill_value=0)
    whole = daily.reindex(columns=arms, fill_value=0).cumsum().min(axis=1)
    enough = whole[whole >= plan["per_arm"]]
    if enough.empty:
        return None
    return datetime.combine(enough.index[0] + timedelta(days=7), time(), UTC)


def _list_differences(
    counts: dict[str, tuple[int, int]], *, is_sequential: bool, is_due: bool
) -> list[Figures]:
    (base, against), *others = counts.items()
    comparisons = sum(1 for _, (_, trials) in others if trials and against[1])
    found = []
    for arm, own in others:
        row: Figures = {"arm": arm, "against": base, "difference": None, "interval": None, "p_value": None}
        verdict = "too_few"
        if own[1] and against[1]:
            row["difference"] = own[0] / own[1] - against[0] / against[1]
            alpha = 0.05 / comparisons
            if is_sequential:
                p_value, interval = formulas.always_valid(own, against, alpha)
            else:
                p_value = formulas.fisher(own, against)
                interval = formulas.newcombe(own, against, alpha)
            p_value = min(1.0, p_value * comparisons)
            row |= {"interval": interval, "p_value": p_value}
            if _are_enough(own, against):
                verdict = "differs" if p_value < 0.05 else "no_difference_shown"
        if not is_due:
            row |= {"interval": None, "p_value": None}
            verdict = "too_early"
        found.append(row | {"verdict": verdict})
    return found


def _are_enough(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Tell whether both arms have 30 people, and 5 are expected in each cell (Cochran 1954)."""
    rate = (a[0] + b[0]) / (a[1] + b[1])
    expected = [trials * share for _, trials in (a, b) for share in (rate, 1 - rate)]
    return min(a[1], b[1]) >= 30 and min(expected) >= 5
