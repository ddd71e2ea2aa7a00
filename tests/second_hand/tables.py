"""What happened, as tables; and what is known of a figure that nobody can know exactly."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import pandas as pd

from tests.second_hand.campaigns import list_questions, list_ways
from tests.second_hand.lives import Conversation, Reply, Sending

if TYPE_CHECKING:
    from datetime import datetime

    from tests.second_hand.lives import Facts

Figures = dict[str, Any]


@dataclass(frozen=True)
class Within:
    """A moment that is known no more exactly than between two others."""

    first: datetime
    last: datetime


@dataclass(frozen=True)
class Matching:
    """A text that is known by its pattern alone."""

    pattern: str


@dataclass
class Situation:
    """What is known beside the lives when a report is made.

    Attributes:
        target: the target's name.
        facts: what happened.
        groups: of everybody who is in the audience now, by phone: the value of the column `city`.
        applied: of each run of `apply`: when, its plan's digest by campaign, commit and job.
        audiences: of each campaign and message, what the last `apply` was to find.
        changed: campaigns whose audience is not that of their last `apply`.
        reconciled: when what was read was read last; None before.
        renders_max: of the service's plan; None if it was never asked.
        price: of the plan, in US dollars.
    """

    target: str
    facts: Facts
    groups: dict[str, str]
    applied: list[Figures]
    audiences: dict[tuple[str, str], Figures]
    changed: set[str]
    reconciled: Within | None
    renders_max: int | None
    price: float


@dataclass
class Message:
    """One message with its lives, as tables."""

    situation: Situation
    campaign: dict[str, Any]
    message: dict[str, Any]
    launches: pd.DataFrame
    people: pd.DataFrame
    replies: pd.DataFrame

    @property
    def ways(self) -> dict[str, dict[str, Any]]:
        return list_ways(self.campaign, self.message)

    @property
    def questions(self) -> list[dict[str, Any]]:
        return list_questions(self.campaign, self.message)

    @property
    def sent(self) -> pd.DataFrame:
        return self.launches[self.launches.state == "sent"]

    @property
    def is_read(self) -> bool:
        return bool(self.sent.is_read.all())

    @property
    def answers(self) -> pd.DataFrame:
        """The replies that count as answers."""
        return self.replies[~self.replies.refuses & (self.replies.kind != "silent")]

    @property
    def latest(self) -> pd.DataFrame:
        """Of each person the latest answer to each question, a column a question."""
        ordered = self.answers.sort_values("at", kind="stable")
        return ordered.drop_duplicates(["phone", "tag"], keep="last")


def gather(situation: Situation, campaign: dict[str, Any], message: dict[str, Any]) -> Message:
    facts = situation.facts
    own = [one for one in facts.sendings if (one.campaign, one.message) == (campaign["name"], message["id"])]
    launches = pd.DataFrame([asdict(one) for one in own], columns=_name_columns(Sending))
    for name in ("start", "taken"):
        launches[name] = pd.to_datetime(launches[name], utc=True)
    launches["is_read"] = launches.is_read.astype(bool)
    launches["size"] = launches.phones.map(len).astype(int)
    people = launches.explode("phones").rename(columns={"phones": "phone"})
    lives = pd.DataFrame(
        [asdict(one) for one in facts.conversations.values()],
        columns=_name_columns(Conversation),
    )
    people = people.merge(lives, on=["guid", "phone"], how="left")
    left = facts.tell_left()
    people["left"] = [left.get(key, True) for key in zip(people.guid, people.phone, strict=True)]
    read = set(launches[launches.is_read].guid)
    replies = pd.DataFrame(
        [asdict(one) for one in facts.replies if one.guid in read],
        columns=_name_columns(Reply),
    )
    replies["at"] = pd.to_datetime(replies["at"], utc=True)
    replies["refuses"] = (replies.kind == "stop") | (replies.decision == "confirmed")
    replies = replies.merge(launches[["guid", "arm", "start"]], on="guid", how="left")
    return Message(situation, campaign, message, launches, people, replies)


def _name_columns(kind: type[Sending | Conversation | Reply]) -> list[str]:
    return [field.name for field in fields(kind)]


def walk(one: Message) -> Figures:
    """Return who was asked and answered each question, and who reached the end."""
    texted = find_texted(one)
    people = one.people
    completed: set[str] = set()
    reached: dict[str, set[str]] = {}
    latest = one.latest
    for arm, way in one.ways.items():
        questions = way.get("questions", [])
        tags = [question["tag"] for question in questions]
        own = latest[latest.arm == arm]
        said = {tag: dict(zip(group.phone, group.response, strict=True)) for tag, group in own.groupby("tag")}
        ended = {
            phone
            for question in questions
            for phone, response in said.get(question["tag"], {}).items()
            if fold(response) == fold(question.get("conclude_on", "\0"))
        }
        for place, tag in enumerate(tags):
            answered = set(said.get(tag, ()))
            if place == 0:
                led = texted & set(people[people.arm == arm].phone)
            else:
                before = set(said.get(tags[place - 1], ()))
                led = (before - ended) | answered
            reached.setdefault(tag, set()).update(led)
        if tags:
            completed |= set(said.get(tags[-1], ())) | ended
    asked = {tag: len(phones) for tag, phones in reached.items()}
    return {"asked": asked, "reached": reached, "completed": completed}


def find_texted(one: Message) -> set[str]:
    """Return who certainly got the text: it has left the service."""
    people = one.people[one.people.state == "sent"]
    return set(people[people.left == True].phone)  # noqa: E712  or not known


def fold(text: str) -> str:
    return text.strip().casefold()
