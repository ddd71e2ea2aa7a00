"""Lives of people who are texted: what each got and did, written down, and played at the service.

What is written down here is all that the figures are computed from again: neither the ledger nor anything of
the runner's is looked at.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from tests.reference_service.service import ReferenceService
from tests.reference_service.store import Result, make_guid
from tests.reference_service.transport import Answer, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    from tests.reference_service.store import Launch, Session

    Rule = Callable[[dict[str, Any]], str]

FUNCTION_WORDS = ("because", "the", "very", "and", "few")
"""Words of the answers that hold sentences together, and are left out of lists of words."""
_TELLING = ("staff", "price", "Queue", "café", "parking", "kid’s", "o'clock", "waiting", "Müller", "friendly")
_RARE = ("Zwölf", "gloomy", "ok", "a")
_DOUBTFUL = "please stop texting me"
_SILENT = ("Liked “We ask everybody the same”", " ", "I’m driving right now, sent from my car")
_ZONES = (UTC, UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-7)))
_NUMBERS = (
    *("3", "12", "7.25", "12,5", "0,125", " 4 ", "-1", "1,500", "a few", "2 or 3"),
    *("1.234,5", "1,234.5", "1 234,5", "1 234", "1.234.567", "12.5,5"),
)


@dataclass(slots=True)
class Sending:
    """One launch, or what became of one that is none.

    Attributes:
        state: `sent`, `refused` or `unknown`.
        arm: that its definition is of; empty for a message without arms.
        start: when the service says that it began.
        run: the number of the `apply`, from 0.
        taken: when it really came: the day that a ledger knows before it has read the launch.
        is_read: whether a reconcile has seen it.
    """

    campaign: str
    message: str
    arm: str
    state: str
    guid: str
    phones: tuple[str, ...]
    start: datetime
    run: int
    taken: datetime
    is_read: bool = False


@dataclass(slots=True)
class Conversation:
    """One session as the service keeps it.

    Attributes:
        again: how often a question was asked again.
        lost: renders that answers led to of which nothing is listed any more.
        seen: `QUEUED` or `ACTIVE`, as it was when a reconcile saw it open, the latter if both; empty if none has.
    """

    guid: str
    phone: str
    status: str = "ACTIVE"
    sub_status: str | None = None
    renders: int = 0
    again: int = 0
    lost: int = 0
    seen: str = ""


@dataclass(slots=True)
class Reply:
    """One result.

    Attributes:
        kind: `answer`, `stop`, `doubtful` or `silent`: what its author meant.
        decision: of a person, about a doubtful one: `confirmed`, `dismissed` or empty.
    """

    result: str
    guid: str
    phone: str
    tag: str
    answer: str
    response: str
    at: datetime
    kind: str = "answer"
    decision: str = ""


@dataclass(slots=True)
class Facts:
    """Everything that happened."""

    sendings: list[Sending] = field(default_factory=list)
    conversations: dict[tuple[str, str], Conversation] = field(default_factory=dict)
    replies: list[Reply] = field(default_factory=list)

    @property
    def stopped(self) -> set[str]:
        """Everybody who has opted out, as far as launches were read."""
        read = {one.guid for one in self.sendings if one.is_read}
        replies = [one for one in self.replies if one.guid in read]
        sessions = [one for one in self.conversations.values() if one.guid in read]
        stopped = {one.phone for one in replies if one.kind == "stop" or one.decision == "confirmed"}
        return stopped | {one.phone for one in sessions if one.sub_status in ("OPTED_OUT", "BLOCKED")}

    def see(self) -> None:
        """Note what a reconcile sees of each conversation that is open."""
        for life in self.conversations.values():
            if life.status == "ACTIVE" or (life.status == "QUEUED" and not life.seen):
                life.seen = life.status

    def list_in_order(self) -> dict[str, list[Conversation]]:
        """Return the conversations of each person that nothing kept from beginning, in the order of launches."""
        starts = {one.guid: one.start for one in self.sendings}
        found: dict[str, list[Conversation]] = {}
        for life in sorted(self.conversations.values(), key=lambda one: starts[one.guid]):
            if life.sub_status != "BLOCKED":
                found.setdefault(life.phone, []).append(life)
        return found

    def tell_left(self) -> dict[tuple[str, str], bool | None]:
        """Return whether each text has left the service, as far as those can know who saw what was seen; else None.

        Nobody is told whether a conversation that an opt-out or another text ended had begun, but if it was seen
        or answered. It had not if it waited behind another that ended so, too, and it had if there was none before
        it, or one that had ended before.
        """
        answered = {(one.guid, one.phone) for one in self.replies if one.kind != "silent"}
        found: dict[tuple[str, str], bool | None] = {}
        for lives in self.list_in_order().values():
            for before, life in zip([None, *lives], lives, strict=False):
                key = life.guid, life.phone
                found[key] = life.status != "QUEUED"
                if life.sub_status in ("OPTED_OUT", "REPLACED") and life.seen != "ACTIVE":
                    found[key] = _guess(before, life)
                    if found[key] is None and key in answered:
                        found[key] = True
        blocked = (key for key, one in self.conversations.items() if one.sub_status == "BLOCKED")
        return found | dict.fromkeys(blocked, False)


def _guess(before: Conversation | None, life: Conversation) -> bool | None:
    if before is None:
        return None if life.seen == "QUEUED" else True
    if before.status != "COMPLETE":
        return None
    if before.sub_status != life.sub_status:
        return True
    return False if life.seen == "QUEUED" else None


class LivedService(ReferenceService):
    """A service that refuses some sends, leaves others unclear, and whose participants live.

    Args:
        random: makes everything up.
        campaigns: as they are written.
        tags: of the messages: campaign and message.
    """

    def __init__(
        self, random: Random, campaigns: dict[str, dict[str, Any]], tags: dict[str, tuple[str, str]]
    ) -> None:
        super().__init__()
        self.facts = Facts()
        self.run = -1
        self.meets: Rule = lambda _body: ""
        self._random = random
        self._campaigns = campaigns
        self._tags = tags
        self._began = datetime.now(UTC) - timedelta(days=20)

    def take_send(self, content: bytes, query: str) -> Answer:
        """Meet one POST of a send: as `meets` says by its body."""
        body = json.loads(content)
        fate = self.meets(body)
        if fate:
            self._write_down(body, fate, "")
            if fate == "refused":
                return refuse(400, "no")
            # A list that lacks what is known proves nothing about what it lacks.
            self.switch(lists="late", delay_s=1e6)
            return Answer(500, {}, b"")
        reply = super().take_send(content, query)
        guid = self.store.launches[-1].sent.guid
        self._write_down(body, "sent", guid)
        return reply

    def _write_down(self, body: dict[str, Any], state: str, guid: str) -> None:
        campaign, message = self._tags[body["tag"]]
        arm = self._find_arm(self._campaigns[campaign], message, body)
        phones = tuple(body["phone"])
        now = datetime.now(UTC)
        self.facts.sendings.append(Sending(campaign, message, arm, state, guid, phones, now, self.run, now))

    def _find_arm(self, campaign: dict[str, Any], message: str, body: dict[str, Any]) -> str:
        variants = campaign.get("variants", {})
        if variants.get("of") != message:
            return ""
        (base,) = (one for one in campaign["messages"] if one["id"] == message)
        for arm in variants["arms"]:
            way = {**base, **arm}
            sent = [question["tag"] for question in body["questions"]]
            tags = [question["tag"] for question in way["questions"]]
            if _is_like(way, body, "introduction") and _is_like(way, body, "conclusion") and sent == tags:
                return str(arm["id"])
        raise AssertionError(f"no arm of {message} is like {body}")

    def date_back(self, days: int) -> None:
        """Have the launches of this run begin in the past, each at a time of its own."""
        for sending, launch in self._list_sent(self.run):
            at = self._began + timedelta(days=days + self._random.random() * 2)
            launch.sent = replace(launch.sent, at=at)
            sending.start = at

    def _list_sent(self, run: int) -> Iterator[tuple[Sending, Launch]]:
        launches = {launch.sent.guid: launch for launch in self.store.launches}
        for sending in self.facts.sendings:
            if sending.state == "sent" and sending.run == run:
                yield sending, launches[sending.guid]

    def live(self, run: int) -> None:
        """Have everybody who was texted by a run do something, or nothing."""
        with self.store.lock:
            for sending, launch in self._list_sent(run):
                for session in launch.sessions:
                    life = Conversation(sending.guid, session.participant.phone)
                    self.facts.conversations[sending.guid, life.phone] = life
                    _Life(self._random, self, launch, session, life).live()
                    session.status, session.sub_status = life.status, life.sub_status
                    session.created = launch.sent.at
                lives = [self.facts.conversations[sending.guid, phone] for phone in sending.phones]
                launch.renders = sum(life.renders for life in lives)

    def end_together(self, share: float, spared: str) -> None:
        """End some pairs of a person's successive conversations at once, none of which is of a spared campaign."""
        guids = {one.guid for one in self.facts.sendings if one.campaign == spared}
        sessions = {
            (launch.sent.guid, session.participant.phone): session
            for launch in self.store.launches
            for session in launch.sessions
        }
        for pair in chain.from_iterable(map(pairwise, self.facts.list_in_order().values())):
            if pair[0].status != "ACTIVE" or pair[1].status == "COMPLETE":
                continue
            if self._random.random() < share and guids.isdisjoint({one.guid for one in pair}):
                ending = self._random.choice(("OPTED_OUT", "REPLACED"))
                for life in pair:
                    life.status, life.sub_status = "COMPLETE", ending
                    session = sessions[life.guid, life.phone]
                    session.status, session.sub_status = life.status, life.sub_status

    def expire(self, campaign: str) -> None:
        """End whatever conversation of a campaign has not ended."""
        guids = {one.guid for one in self.facts.sendings if one.campaign == campaign}
        for launch in self.store.launches:
            for session in launch.sessions if launch.sent.guid in guids else ():
                life = self.facts.conversations[launch.sent.guid, session.participant.phone]
                if life.status != "COMPLETE":
                    life.status, life.sub_status = "COMPLETE", "EXPIRED"
                    session.status, session.sub_status = life.status, life.sub_status

    def add_reply(self, session: Session, reply: Reply, place: int) -> None:
        """Enter a result, at the service and among the facts."""
        at = reply.at.astimezone(self._random.choice(_ZONES))
        result = Result(reply.result, session, place, reply.answer, reply.response, at)
        self.store.results.append(result)
        session.launch.results += 1
        self.facts.replies.append(reply)

    def change_answers(self, guids: set[str], count: int) -> None:
        """Have some people answer their first question once more, otherwise; both answers are listed."""
        first = [one for one in self.facts.replies if one.guid in guids and one.kind == "answer"]
        for before in self._random.sample(first, count):
            old = self._find(before.result)
            if not old.question.get("responses"):
                continue
            answer, response = _choose(self._random, old.question["responses"])
            at = before.at + timedelta(seconds=self._random.choice((0.5, 40, 4000)))
            changed = Reply(make_guid(), before.guid, before.phone, before.tag, answer, response, at)
            self.add_reply(old.session, changed, old.place)

    def edit_answers(self, guids: set[str], count: int) -> None:
        """Have the service list other answers under the guids of some that it listed before."""
        listed = [one for one in self.facts.replies if one.guid in guids and one.kind == "answer"]
        for reply in self._random.sample(listed, count):
            old = self._find(reply.result)
            if old.question.get("responses"):
                reply.answer, reply.response = _choose(self._random, old.question["responses"])
                self._put(old, replace(old, answer=reply.answer, response=reply.response))

    def delete_answers(self, guids: set[str], count: int, strange: str) -> None:
        """Delete the last answers of some people at the service, but for those to a strange question."""
        replies = [one for one in self.facts.replies if one.guid in guids and one.tag != strange]
        times = Counter((one.guid, one.phone, one.tag) for one in replies)
        last = {(one.guid, one.phone): one for one in replies}
        answers = [one for one in last.values() if one.kind == "answer"]
        for reply in self._random.sample(answers, count):
            old = self._find(reply.result)
            definition = old.launch.sent.definition
            led_on = old.session.status != "COMPLETE" or old.session.sub_status is not None
            life = self.facts.conversations[reply.guid, reply.phone]
            if times[reply.guid, reply.phone, reply.tag] == 1:
                life.lost += led_on or bool(definition.get("conclusion"))
            self.store.results.remove(old)
            old.launch.results -= 1
            self.facts.replies.remove(reply)

    def renew_guids(self, guids: set[str]) -> None:
        """Have the service list the results of some launches under other guids."""
        for reply in self.facts.replies:
            if reply.guid in guids:
                old = self._find(reply.result)
                reply.result = make_guid()
                self._put(old, replace(old, guid=reply.result))

    def ask_once_more(self, guids: set[str], question: dict[str, Any], share: float) -> None:
        """Have the service list answers to a question that the campaign does not have."""
        asked = {(one.guid, one.phone): one for one in self.facts.replies if one.guid in guids}
        for sending, launch in [pair for run in range(self.run + 1) for pair in self._list_sent(run)]:
            if sending.guid not in guids:
                continue
            launch.sent.definition["questions"] = [*launch.asked, question]
            launch.question_guids = (*launch.question_guids, make_guid())
            for session in launch.sessions:
                last = asked.get((sending.guid, session.participant.phone))
                if last is not None and last.kind == "answer" and self._random.random() < share:
                    answer, response = _choose(self._random, question["responses"])
                    at = last.at + timedelta(minutes=5)
                    reply = Reply(
                        make_guid(), sending.guid, last.phone, question["tag"], answer, response, at
                    )
                    self.add_reply(session, reply, len(launch.asked) - 1)

    def _find(self, guid: str) -> Result:
        return next(one for one in self.store.results if one.guid == guid)

    def _put(self, old: Result, new: Result) -> None:
        self.store.results[self.store.results.index(old)] = new


@dataclass(slots=True)
class _Life:
    """What one person does with one survey."""

    random: Random
    service: LivedService
    launch: Launch
    session: Session
    life: Conversation

    def live(self) -> None:
        life, definition = self.life, self.launch.sent.definition
        if not self.launch.asked:
            life.status, life.renders = "COMPLETE", 1
            return
        fate = self.random.random()
        if fate < 0.05:
            life.status = "QUEUED"
            return
        if fate < 0.07:
            life.status, life.sub_status = "COMPLETE", "BLOCKED"
            return
        life.renders += bool(definition.get("introduction"))
        at = self.launch.sent.at
        ends = fate < 0.35
        for place, question in enumerate(self.launch.asked):
            life.renders += 1
            if ends or (place and self.random.random() < 0.12):
                self._stay_away(has_replied=place > 0)
                return
            if question.get("responses") and self.random.random() < 0.08:
                times = self.random.choice((1, 1, 3))
                life.renders, life.again = life.renders + times, life.again + times
            at += timedelta(seconds=self.random.expovariate(1 / 3000) * (20 if not place else 1))
            reply = self._reply(question, at)
            self.service.add_reply(self.session, reply, place)
            ends = reply.kind in ("stop", "doubtful")
            concludes = str(question.get("conclude_on", "")).casefold() == reply.response.casefold()
            if concludes or place == len(self.launch.asked) - 1:
                life.renders += bool(definition.get("conclusion"))
                life.status = "COMPLETE"
                return

    def _stay_away(self, *, has_replied: bool) -> None:
        """Answer no more: the conversation stays open, expires, or is ended by something else.

        Without a reply, nobody could tell whether what was ended had begun: `end_together` has such cases.
        """
        ending = self.random.random()
        if ending < 0.3 or (ending < 0.5 and not has_replied):
            self.life.status, self.life.sub_status = "COMPLETE", "EXPIRED"
        elif ending < 0.4:
            self.life.status, self.life.sub_status = "COMPLETE", "REPLACED"
        elif ending < 0.5:
            self.life.status, self.life.sub_status = "COMPLETE", "OPTED_OUT"

    def _reply(self, question: dict[str, Any], at: datetime) -> Reply:
        random, phone = self.random, self.session.participant.phone
        known = make_guid(), self.life.guid, phone, str(question["tag"])
        if question.get("responses"):
            if random.random() < 0.03:
                return Reply(*known, "77", random.choice(("Some", "Other")), at)
            return Reply(*known, *_choose(random, question["responses"]), at)
        chance = random.random()
        unusual = (
            (0.04, "STOP", "stop"),
            (0.07, _DOUBTFUL, "doubtful"),
            (0.1, random.choice(_SILENT), "silent"),
        )
        for limit, text, kind in unusual:
            if chance < limit:
                return Reply(*known, text, text, at, kind)
        if question["tag"] in ("visits", "spent"):
            text = random.choice(_NUMBERS)
            return Reply(*known, text, text, at)
        said = [random.choice(_TELLING + FUNCTION_WORDS[:-1]) for _ in range(random.randint(1, 6))]
        if random.random() < 0.01:
            said.append(random.choice(_RARE))
        text = " ".join(said)
        return Reply(*known, text, text, at)


def _choose(random: Random, responses: list[str]) -> tuple[str, str]:
    place = min(len(responses) - 1, int(random.betavariate(3, 1.5) * len(responses)))
    return str(place + 1), responses[place]


def _is_like(way: dict[str, Any], body: dict[str, Any], name: str) -> bool:
    wanted, sent = way.get(name), body.get(name)
    if wanted is None or sent is None:
        return wanted is None and sent is None
    before, _, after = wanted.partition("{{ city }}")
    return str(sent).startswith(before) and str(sent).endswith(after)
