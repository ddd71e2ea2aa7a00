"""Arms and groups of the audience, counted again by person."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pandas as pd
from scipy import stats

from tests.second_hand import formulas
from tests.second_hand.questions import SCORED, count_points, describe_question

if TYPE_CHECKING:
    from tests.second_hand.people import People
    from tests.second_hand.tables import Figures, Situation

LEAST = 10
"""People in the smallest group that a breakdown shows."""


def name_zone(campaign: dict[str, Any]) -> str:
    return str(campaign.get("schedule", {}).get("timezone", "UTC"))


def list_asked(people: People) -> list[tuple[dict[str, Any], list[int]]]:
    """Return every question of a campaign, and the places of the messages that ask it on the same scale."""
    found: dict[tuple[str, str], tuple[dict[str, Any], list[int]]] = {}
    for place, one in enumerate(people.messages):
        for question in one.questions:
            scale = question.get("scale", "choice" if "responses" in question else "text")
            found.setdefault((question["tag"], scale), (question, []))[1].append(place)
    return list(found.values())


def find_latest(people: People, places: list[int], tag: str, before: datetime | None = None) -> pd.DataFrame:
    """Return each person's latest answer to a question over messages, before a moment if one is given."""
    parts = []
    for number, place in enumerate(places):
        answers = people.messages[place].answers
        own = answers[answers.tag == tag]
        own = own if before is None else own[own["at"] < before]
        last = own.sort_values("at", kind="stable").drop_duplicates("phone", keep="last")
        parts.append(last.assign(message=number))
    ordered = pd.concat(parts).sort_values(["at", "message"], kind="stable")
    return ordered.drop_duplicates("phone", keep="last")


def describe_group(people: People, name: str, phones: set[str], scoreless: set[str]) -> Figures:
    texted, answered = len(phones & people.texted), len(phones & people.answered)
    scores = []
    for question, places in list_asked(people):
        if question.get("scale") in SCORED:
            latest = find_latest(people, places, question["tag"])
            score = score_answers(question, latest[latest.phone.isin(phones)])
            if question["tag"] in scoreless:
                score |= {"value": None, "interval": None, "standard_error": None, "satisfied": None}
            scores.append(leave_out_few(score))
    return {
        "name": name,
        "texted": texted,
        "answered": answered,
        "response_rate": answered / texted if texted else None,
        "response_rate_interval": formulas.wilson(answered, texted, 0.05) if texted else None,
        "completed": len(phones & people.completed),
        "scores": scores,
    }


def leave_out_few(score: Figures) -> Figures:
    """Return a score as reports have it: of fewer than ten answers there is none."""
    nothing = {"value": None, "interval": None, "standard_error": None, "satisfied": None}
    return score | (nothing if score["counted"] < 10 else {})


def describe_arm(
    people: People, arm: str, texted: set[str], answered: set[str], alphas: Figures, before: datetime | None
) -> Figures:
    """Return an arm as its verdict counts it, before a moment if one is given.

    `alphas` are levels of intervals by tag, that of the response under an empty one.
    """
    level = alphas[""]
    scores = []
    for question, places in list_asked(people):
        if question.get("scale") in SCORED:
            latest = find_latest(people, places, question["tag"], before)
            own = latest[latest.phone.isin(texted)]
            score = score_answers(question, own, alphas.get(question["tag"], level))
            scores.append(leave_out_few(score))
    rate = len(answered) / len(texted) if texted else None
    interval = formulas.wilson(len(answered), len(texted), level) if texted and level else None
    return {
        "name": arm,
        "texted": len(texted),
        "answered": len(answered),
        "response_rate": rate,
        "response_rate_interval": interval,
        "completed": len(texted & people.completed) if before is None else None,
        "scores": scores,
    }


def score_answers(question: dict[str, Any], latest: pd.DataFrame, alpha: float | None = 0.05) -> Figures:
    """Return the main score of answers to a question, with an interval of a level; None for no interval."""
    scale = question["scale"]
    found = describe_question(question, latest, alpha or 0.05)
    score: Figures = {"tag": question["tag"], "measure": scale if scale in ("nps", "csat") else "mean"}
    points = count_points(question, latest)
    score["satisfied"] = found["csat"]["satisfied"] if scale == "csat" else None
    if scale == "nps":
        whole = found["nps"]
        error = formulas.error_of_points(whole["promoters"], whole["detractors"], whole["counted"])
        score |= {"value": whole["score"], "interval": whole["interval"], "counted": whole["counted"]}
    elif scale == "csat":
        whole = found["csat"]
        share = whole["score"]
        error = None if share is None else float(stats.bernoulli(share).std()) / whole["counted"] ** 0.5
        score |= {"value": share, "interval": whole["interval"], "counted": whole["counted"]}
    else:
        error = float(stats.sem(points)) if len(points) > 1 else None
        score |= {"value": found["mean"], "interval": found["mean_interval"], "counted": len(points)}
    return score | {"standard_error": error} | ({} if alpha else {"interval": None})


def break_down(people: People, situation: Situation, main: str | None) -> list[Figures]:
    if not people.is_read:
        return []
    groups: dict[str, set[str]] = {}
    for phone in people.sent | people.unresolved:
        name = situation.groups.get(phone, "").strip()
        groups.setdefault(" ".join(name.split()).casefold(), set()).add(phone)
    names = {key: _name_group(situation, phones) for key, phones in groups.items()}
    by_name = {names[key]: phones for key, phones in groups.items()}
    hidden = _hide({name: len(phones & people.texted) for name, phones in by_name.items()}, set())
    scoreless: dict[str, set[str]] = {name: set() for name in by_name}
    for question, places in list_asked(people):
        if question.get("scale") not in SCORED:
            continue
        latest = find_latest(people, places, question["tag"])
        scores = {
            name: score_answers(question, latest[latest.phone.isin(phones)])
            for name, phones in by_name.items()
        }
        counted = {name: score["counted"] for name, score in scores.items() if score["counted"]}
        for name in _hide(counted, hidden) & by_name.keys():
            scoreless[name].add(question["tag"])
    left_out = sum(len(by_name[name] & people.texted) for name in hidden)
    shown = [
        describe_group(people, name or "(empty)", by_name[name], scoreless[name])
        for name in by_name
        if name not in hidden
    ]
    return [
        {
            "column": "city",
            "groups": sorted(shown, key=lambda group: _rank(group, main)),
            "everybody": describe_group(people, "", people.sent | people.unresolved, set()),
            "suppressed": len(hidden),
            "suppressed_texted": left_out if left_out >= LEAST else None,
            "least": LEAST,
        }
    ]


def _name_group(situation: Situation, phones: set[str]) -> str:
    """Return how most of a group write it."""
    written = pd.Series([situation.groups.get(phone, "") for phone in phones]).value_counts()
    return min(str(name) for name in written[written == written.max()].index).strip()


def _rank(group: Figures, main: str | None) -> tuple[bool, float, str]:
    value = group["response_rate"]
    if main is not None:
        value = next(score["value"] for score in group["scores"] if score["tag"] == main)
    return value is None, -(value or 0), group["name"].replace("(empty)", "")


def _hide(sizes: dict[str, int], hidden: set[str]) -> set[str]:
    """Return the groups to leave out: small ones, and then the next larger until they hide each other."""
    order = sorted(sizes, key=lambda name: (sizes[name], name))
    out = [name for name in order if sizes[name] < LEAST or name in hidden]
    rest = [name for name in order if name not in out]
    while out and rest and sum(sizes[name] for name in out) < LEAST:
        out.append(rest.pop(0))
    return set(out)


def compare_arms(
    people: People, campaign: dict[str, Any], situation: Situation, main: str | None
) -> Figures | None:
    of = campaign.get("variants", {}).get("of")
    if of is None:
        return None
    (one,) = (one for one in people.messages if one.message["id"] == of)
    reached = one.people[one.people.state != "refused"].drop_duplicates("phone")
    members = {arm: set(reached[reached.arm == arm].phone) for arm in one.ways}
    found: Figures = {"message": of, "split": _check_split(campaign, members)}
    if not people.is_read:
        return found | {"arms": [], "comparisons": [], "analysis": None}
    plan = campaign["variants"].get("analysis", {"sequential": True})
    zone = ZoneInfo(name_zone(campaign))
    due = _find_due_day(one.people[one.people.state == "sent"], list(members), plan, zone)
    start = None if due is None else datetime.combine(due, time(), zone)
    has_come = start is not None and situation.reconciled is not None and start <= situation.reconciled.first
    before = start if has_come else None
    began = reached.set_index("phone").start
    early = {
        phone for phone in people.texted if phone in began.index and (not before or began[phone] < before)
    }
    answers = pd.concat([each.answers for each in people.messages])
    timely = set(answers.phone) if before is None else set(answers[answers["at"] < before].phone)
    late = set() if before is None else set(answers[answers["at"] >= before].phone)
    later = len(late & set().union(*members.values()))
    counts = {arm: (len(phones & early & timely), len(phones & early)) for arm, phones in members.items()}
    scores = {}
    if main is not None:
        question, places = next(pair for pair in list_asked(people) if pair[0]["tag"] == main)
        latest = find_latest(people, places, main, before)
        scores = {arm: (question, latest[latest.phone.isin(own & early)]) for arm, own in members.items()}
    is_sequential = "sequential" in plan
    is_due = is_sequential or has_come
    comparisons, alpha = _compare("response", _list_shares(counts), is_sequential, is_due)
    more, score_alpha = _compare("score", _list_scores(scores), is_sequential, is_due)
    few = {arm for arm, one in _list_scores(scores).items() if one.trials < 10}
    nothing = {"difference": None, "interval": None, "p_value": None}
    more = [pair | (nothing if few & {pair["arm"], pair["against"]} else {}) for pair in more]
    levels: Figures = {"": alpha} | ({} if main is None else {main: score_alpha})
    return found | {
        "arms": [
            describe_arm(people, arm, phones & early, phones & early & timely, levels, before)
            for arm, phones in members.items()
        ],
        "comparisons": comparisons + more,
        "analysis": {
            "method": "sequential" if is_sequential else "fixed",
            "due": None if due is None else str(due),
            "per_arm": plan.get("per_arm"),
            "is_due": is_due,
            "answered_later": later if has_come else None,
        },
    }


def _find_due_day(sent: pd.DataFrame, arms: list[str], plan: dict[str, Any], zone: ZoneInfo) -> Any:
    if "at" in plan:
        return datetime.fromisoformat(plan["at"]).date()
    if "per_arm" not in plan:
        return None
    days = sent.assign(day=sent.start.dt.tz_convert(zone).dt.date)
    daily = days.pivot_table("phone", "day", "arm", "count", fill_value=0)
    whole = daily.reindex(columns=arms, fill_value=0).cumsum().min(axis=1)
    enough = whole[whole >= plan["per_arm"]]
    return None if enough.empty else enough.index[0] + timedelta(days=7)


def _check_split(campaign: dict[str, Any], members: dict[str, set[str]]) -> Figures | None:
    weights = {arm["id"]: Fraction(arm.get("weight", 1)) for arm in campaign["variants"]["arms"]}
    whole, people = sum(weights.values()), sum(map(len, members.values()))
    if not people:
        return None
    planned = {arm: float(weight / whole) for arm, weight in weights.items()}
    expected = [people * share for share in planned.values() if share]
    observed = [len(members[arm]) for arm, share in planned.items() if share]
    p_value = float(stats.chisquare(observed, expected).pvalue) if min(expected) >= 5 else None
    return {
        "arms": [
            {"arm": arm, "people": len(own), "share": len(own) / people, "planned": planned[arm]}
            for arm, own in members.items()
        ],
        "p_value": p_value,
        "is_as_planned": None if p_value is None else p_value >= 0.001,
    }


def _list_shares(counts: dict[str, tuple[int, int]]) -> dict[str, formulas.Share]:
    return {arm: formulas.Share(*pair) for arm, pair in counts.items()}


def _list_scores(scores: dict[str, Any]) -> dict[str, formulas.Share | formulas.Mean]:
    found: dict[str, formulas.Share | formulas.Mean] = {}
    for arm, (question, latest) in scores.items():
        found[arm] = sample_score(question, latest)
    return found


def sample_score(question: dict[str, Any], latest: pd.DataFrame) -> formulas.Share | formulas.Mean:
    """Return a score as what two of are compared by."""
    score = score_answers(question, latest)
    if question["scale"] == "csat":
        return formulas.Share(round((score["value"] or 0) * score["counted"]), score["counted"])
    return formulas.Mean(
        score["value"],
        score["standard_error"],
        score["counted"],
        lambda alpha: score_answers(question, latest, alpha)["interval"],
    )


def _compare(
    measure: str,
    samples: dict[str, Any],
    is_sequential: bool,  # noqa: FBT001  what is compared
    is_due: bool,  # noqa: FBT001  what is compared
) -> tuple[list[Figures], float | None]:
    """Return every pair of arms, and the level of the widest interval of an arm."""
    names = list(samples)
    pairs = [(arm, against) for number, arm in enumerate(names) for against in names[:number]]
    counted = [pair for pair in pairs if samples[pair[0]].trials and samples[pair[1]].trials]
    found, levels = [], []
    for arm, against in pairs:
        row: Figures = {"measure": measure, "arm": arm, "against": against, "verdict": "too_few"}
        row |= {"difference": None, "interval": None, "p_value": None}
        if (arm, against) in counted:
            pair = formulas.compare(samples[arm], samples[against], 0.05 / len(counted), is_sequential)
            levels.append(pair.alpha)
            p_value = None if pair.p_value is None else min(1.0, pair.p_value * len(counted))
            row |= {"difference": pair.difference, "interval": pair.interval, "p_value": p_value}
            if not formulas.agree(p_value, pair.interval):
                row["interval"] = None
            if pair.is_enough and p_value is not None:
                row["verdict"] = "differs" if p_value < 0.05 else "no_difference_shown"
        if not is_due:
            row |= {"interval": None, "p_value": None, "verdict": "too_early"}
        found.append(row)
    return found, (min(levels, default=0.05) or None) if is_due else None
