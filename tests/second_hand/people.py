"""Everybody who was sent something, counted again: a person once, over all messages of a campaign."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from tests.second_hand import formulas
from tests.second_hand.tables import find_texted, walk

if TYPE_CHECKING:
    from tests.second_hand.tables import Figures, Message


@dataclass
class People:
    """The phones of a campaign's people, by what became of them.

    Attributes:
        messages: of the campaign.
        sent: who was sent some message.
        unresolved: who may have been, and certainly was not.
        texted: who got some text.
        blocked: whose every text an opt-out kept back.
        queued: whose texts all wait.
        withdrawn: whose texts all waited until they were withdrawn.
        uncertain: of whom nobody can know whether a text has left the service.
        answered: who answered something.
        completed: who reached the end of a survey.
        opted_out: who opted out.
        open: who has a survey that has not ended.
        replaced: whose last survey another text ended.
        outcomes: of everybody in a survey, as AAPOR has them.
    """

    messages: list[Message]
    sent: set[str] = field(default_factory=set)
    unresolved: set[str] = field(default_factory=set)
    texted: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    queued: set[str] = field(default_factory=set)
    withdrawn: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)
    opted_out: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    outcomes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look at everybody."""
        every = pd.concat([one.people.assign(place=number) for number, one in enumerate(self.messages)])
        sent = every[every.state == "sent"]
        self.sent = set(sent.phone)
        self.unresolved = set(every[every.state == "unknown"].phone) - self.sent
        self.texted = set().union(*map(find_texted, self.messages))
        self.uncertain = set(sent[sent.left.isna()].phone) - self.texted
        known = self.texted | self.uncertain
        self.blocked = set(sent[sent.sub_status == "BLOCKED"].phone) - known
        self.queued = set(sent[sent.status == "QUEUED"].phone) - known - self.blocked
        self.withdrawn = self.sent - known - self.blocked - self.queued
        for one in self.messages:
            self.answered |= set(one.answers.phone)
            self.completed |= walk(one)["completed"]
            self.opted_out |= find_opted_out(one)
        asking = [number for number, one in enumerate(self.messages) if one.questions]
        surveys = every[every.place.isin(asking)]
        self.open = set(surveys[(surveys.state == "sent") & (surveys.status != "COMPLETE")].phone)
        refused = {phone for one in self.messages for phone in one.replies[one.replies.refuses].phone}
        stopped = surveys[(surveys.sub_status == "OPTED_OUT") & (surveys.left == True)]  # noqa: E712  or not known
        refused |= set(stopped.phone) | set(surveys[surveys.sub_status == "BLOCKED"].phone)
        for phone, own in surveys[surveys.state != "refused"].groupby("phone"):
            self.outcomes[str(phone)] = self._judge(str(phone), own, refused)

    def _judge(self, phone: str, own: pd.DataFrame, refused: set[str]) -> str:
        if phone in self.completed:
            return "complete"
        if phone in self.answered:
            return "partial"
        if phone in refused:
            return "refusal"
        begun = own[own.left == True]  # noqa: E712  or not known
        if not (own.status == "COMPLETE").all() or own.left.isna().any() or begun.empty:
            return "unknown_eligibility"
        last = begun.sort_values(["start", "place"]).iloc[-1]
        return "replaced" if last.sub_status == "REPLACED" else "non_contact"

    @property
    def is_read(self) -> bool:
        return all(one.is_read for one in self.messages)

    @property
    def asks(self) -> bool:
        return any(one.questions for one in self.messages)


def find_opted_out(one: Message) -> set[str]:
    """Return whose reply opted out, and whom the service says to have ended the conversation so."""
    read = one.people[one.people.is_read & (one.people.left == True)]  # noqa: E712  or not known
    return set(one.replies[one.replies.refuses].phone) | set(read[read.sub_status == "OPTED_OUT"].phone)


def recount_people(people: People, campaign: dict[str, Any], audiences: list[Figures]) -> Figures:
    held = campaign.get("variants", {}).get("holdout")
    names = (
        "queued", "blocked", "withdrawn", "uncertain", "texted", "answered", "response_rate",
        "response_rate_interval", "replaced",
        "response_rate_without_replaced", "completed",
        "completion_rate", "opted_out", "open", "dispositions", "rates",
    )  # fmt: skip
    found: Figures = {
        **dict.fromkeys(names),
        "recipients": len(people.sent | people.unresolved),
        "sent": len(people.sent),
        "unresolved": len(people.unresolved),
        "control_group": max((one["control_group"] for one in audiences), default=None) if held else None,
        "is_interim": bool(people.open or people.unresolved) or not people.is_read,
    }
    if not people.is_read or (people.unresolved and not people.sent):
        return found
    outcomes = Counter(people.outcomes.values())
    kinds = (
        "complete", "partial", "refusal", "non_contact", "other", "unknown_eligibility", "replaced"
    )  # fmt: skip
    answered, texted, left = len(people.answered), len(people.texted), outcomes["replaced"]
    dispositions = {kind: outcomes[kind] for kind in kinds}
    return found | {
        "queued": len(people.queued),
        "blocked": len(people.blocked),
        "withdrawn": len(people.withdrawn),
        "uncertain": len(people.uncertain),
        "texted": texted,
        "answered": answered,
        "response_rate": _divide(answered, texted),
        "response_rate_interval": formulas.wilson(answered, texted) if texted else None,
        "replaced": left,
        "response_rate_without_replaced": _divide(answered, texted - left),
        "completed": len(people.completed),
        "completion_rate": _divide(len(people.completed), answered),
        "opted_out": len(people.opted_out),
        "open": len(people.open),
        "dispositions": dispositions,
        "rates": _rate(dispositions),
    }


def _rate(found: Figures) -> Figures:
    everybody, complete = sum(found.values()), found["complete"]
    known = everybody - found["unknown_eligibility"]
    interviews = complete + found["partial"]
    contacts = interviews + found["refusal"] + found["other"]
    # Nobody is known not to be eligible, so e is 1.
    return {
        "e": 1 if known else None,
        "rr1": _divide(complete, everybody),
        "rr2": _divide(interviews, everybody),
        "rr3": complete / everybody if known else None,
        "rr4": interviews / everybody if known else None,
        "rr5": _divide(complete, known) if known == everybody else None,
        "rr6": _divide(interviews, known) if known == everybody else None,
        "coop1": _divide(complete, contacts),
        "coop2": _divide(interviews, contacts),
        "ref1": _divide(found["refusal"], everybody),
        "con1": _divide(contacts, everybody),
    }


def _divide(part: int, whole: int) -> float | None:
    return part / whole if whole else None
