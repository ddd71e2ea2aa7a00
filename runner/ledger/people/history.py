"""Texts that people got, and their answers.

For the frequency cap and open surveys (`policy.open_session`) all campaigns on the target count. A text to a
person with an open survey waits at the service until that survey ends, and then leaves at any hour. Surveys
without later readings count as open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection, Integer, Select, String, and_, bindparam, case, func, literal, select

from runner.ledger.bulk import iterate_rows
from runner.ledger.fingerprint import KnownPeople, OpenSession
from runner.ledger.model import DATE, ENDED, CampaignLaunches, on_occasion, parse_moment
from runner.ledger.people.pruned import IS_PRUNED
from runner.ledger.record.unsettled import OPEN, REACHED, UNEXPLAINED
from runner.ledger.results.differences import DIFFERS, KNOWN_AT, read_differences
from runner.ledger.tables import (
    ANSWER,
    IS_SESSION,
    campaigns,
    deliveries,
    launch_stats,
    launches,
    of_target,
    results,
    select_held,
    sessions,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from runner.campaign.answers import AnswerReader, AnswerValue
    from runner.ledger.fingerprint import TargetKey
    from runner.ledger.report_model import OpenDifferences


_SECONDS = len("2026-11-20T12:00:00")


def read_recent(
    connection: Connection, key: TargetKey, since: str, phones: Collection[str] | None = None
) -> KnownPeople[str]:
    """Return the people with deliveries on a target since a moment (UTC, ISO 8601), each once a message.

    Messages that may have been sent count; a survey is one. `phones` (E.164) limits the people; None means
    all.
    """
    # Compared as text, to the second: fractions and zones are written in different ways.
    is_recent = and_(launches.c.state.in_(REACHED), launches.c.intent_at >= since[:_SECONDS])
    query = select_held(deliveries.c.fingerprint, literal("")).where(is_recent)
    own = connection.execute(select(campaigns.c.id).where(campaigns.c.target == key.target)).scalars().all()
    rows = _read_people(connection, query, own, key, phones)
    return KnownPeople.gather(key, map(tuple, rows))


def _read_people(
    connection: Connection,
    query: Select[Any],
    own: Sequence[int],
    key: TargetKey,
    phones: Collection[str] | None,
) -> Iterable[Any]:
    """Return rows of the deliveries of campaigns (`own`) to some people, or to all for None, by fingerprint.

    The query is of `select_held`, the fingerprint first.
    """
    person = deliveries.c.fingerprint
    if phones is None:
        everybody = query.where(deliveries.c.campaign_id.in_(own)).order_by(person)
        return connection.execute(everybody.execution_options(yield_per=1000))
    found = list[Any]()
    for campaign_id in own:
        # By the whole primary key: few of possibly many deliveries are wanted.
        messages = list(iterate_messages(connection, campaign_id))
        place = and_(deliveries.c.campaign_id == campaign_id, deliveries.c.message.in_(messages))
        found += iterate_rows(connection, query.where(place), person, list(map(key.fingerprint, phones)))
    return sorted(found)


def iterate_messages(connection: Connection, campaign_id: int) -> Iterator[str]:
    """Yield the ids of a campaign's messages by skipping through the index: DISTINCT would read all."""
    first = select(func.min(deliveries.c.message)).where(deliveries.c.campaign_id == campaign_id)
    message = connection.execute(first).scalar()
    while message is not None:
        yield message
        message = connection.execute(first.where(deliveries.c.message > message)).scalar()


def read_open_sessions(
    connection: Connection,
    key: TargetKey,
    phones: Collection[str] | None = None,
    *,
    other_than: int | None = None,
) -> KnownPeople[OpenSession]:
    """Return the people with an open survey on a target, by the survey.

    The connection must read one state of the ledger. `phones` (E.164) limits the people, None means all; the
    campaign `other_than` does not count.
    """
    own = find_surveying(connection, key.target, other_than=other_than)
    if not own:
        return KnownPeople(key)
    # A launch that was not read since it was sent has no counts.
    state = case((launch_stats.c.reconciled_at.is_(None), "unread"), else_="read")
    query = (
        select_held(deliveries.c.fingerprint, campaigns.c.name, state)
        .join(campaigns, campaigns.c.id == deliveries.c.campaign_id)
        .outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id)
        .outerjoin(sessions, IS_SESSION)
        .where(_MAY_BE_OPEN, func.coalesce(sessions.c.status, "") != ENDED)
    )
    rows = _read_people(connection, query, own, key, phones)
    return KnownPeople.gather(key, ((person, OpenSession(name, state)) for person, name, state in rows))


_MAY_BE_OPEN = and_(launches.c.state.in_(REACHED), launches.c.is_open)
# Built once: a send asks for each of its groups. OFFSET has PostgreSQL stop at a campaign's first open
# launch, rather than join all.
_SURVEYING = select(campaigns.c.id).where(
    campaigns.c.target == bindparam("b_target", type_=String),
    campaigns.c.id != bindparam("b_other", type_=Integer),
    select(launches.c.id)
    .where(launches.c.campaign_id == campaigns.c.id, _MAY_BE_OPEN)
    .correlate(campaigns)
    .offset(0)
    .exists(),
)


def find_surveying(connection: Connection, target: str, *, other_than: int | None = None) -> Sequence[int]:
    """Return the campaigns on a target, but for `other_than`, that may have open sessions."""
    asked = {"b_target": target, "b_other": -1 if other_than is None else other_than}
    return connection.execute(_SURVEYING, asked).scalars().all()


def read_texts(connection: Connection, target: str, fingerprints: Collection[str]) -> Sequence[Any]:
    """Return the messages that a person got or may have got on a target, the earliest first.

    Rows have `campaign`, `message`, `occasion`, `arm`, `is_certain` (whether the service has accepted
    it), `at` (when it did, or else was tried: UTC, ISO 8601), `project_launch_guid`, `definition` (the send
    body as JSON text; None if only a lockfile has the launch) and `session` (its state as last read).
    """
    at = func.coalesce(launches.c.outcome_at, launches.c.intent_at).label("at")
    is_certain = launches.c.state.not_in((*OPEN, UNEXPLAINED)).label("is_certain")
    names = "message", "occasion", "arm", "project_launch_guid", "definition"
    columns = (launches.c[name] for name in names)
    labels = campaigns.c.name.label("campaign"), sessions.c.status.label("session")
    texts = (
        of_target(select_held(*columns, at, is_certain, *labels), target)
        .outerjoin(sessions, IS_SESSION)
        .where(deliveries.c.fingerprint.in_(fingerprints))
        .order_by(at, campaigns.c.name, launches.c.message)
    )
    return connection.execute(texts).all()


def read_answers(connection: Connection, target: str, fingerprints: Collection[str]) -> Sequence[Any]:
    """Return a person's answers on a target, in the order in which they came.

    Rows have `campaign`, `message`, `occasion`, `question_tag`, `question_text`, `answer` (the response that
    was taken, else the reply's words) and `created` (the service's time).
    """
    columns = results.c.question_tag, results.c.question_text, results.c.created
    launch = launches.c.message, launches.c.occasion
    query = select(campaigns.c.name.label("campaign"), *launch, *columns, ANSWER)
    answers = (
        of_target(query.join(launches, launches.c.id == results.c.launch_id), target)
        .where(results.c.participant.in_(fingerprints))
        .order_by(results.c.created, results.c.question_display_order)
    )
    return connection.execute(answers).all()


@dataclass(frozen=True, slots=True)
class EarlierLaunch:
    """A launch that the service accepted.

    All answers are known as of `reconciled_at`, None if it was never reconciled, or if they `are_pruned`.
    `differs` marks an open difference in the service's data.
    """

    sent_at: datetime
    reconciled_at: datetime | None
    differs: bool = False
    are_pruned: bool = False


class EarlierAnswer(NamedTuple):
    """A person's answer to a question, and the service's time of it (None if that is unreadable)."""

    at: datetime | None
    value: AnswerValue


@dataclass(frozen=True, slots=True)
class EarlierMessage:
    """The launches of a message by the delivery's key (`on_occasion`), and the deliveries that were answered.

    `differences` are those in the service's data, if any. `answers` are the latest of each
    delivery to the questions that follow-ups go by.
    """

    launches: dict[str, EarlierLaunch] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    differences: OpenDifferences | None = None
    answers: dict[str, dict[str, EarlierAnswer]] = field(default_factory=dict)


def read_earlier(
    connection: Connection,
    campaign_id: int,
    message_ids: Mapping[str, str],
    wanted: Collection[str],
    questions: Collection[str] = (),
    read: AnswerReader | None = None,
) -> dict[str, EarlierMessage]:
    """Return some earlier messages of a campaign, and the answers to some questions, as `read` reads them."""
    if not wanted:
        return {}
    differences = read_differences(connection, CampaignLaunches(campaign_id, message_ids))
    found = {message: EarlierMessage(differences=differences.get(message)) for message in wanted}
    names = [name for name, current in message_ids.items() if current in wanted]
    reached: dict[int, EarlierLaunch] = {}
    delivery = deliveries.c.message, deliveries.c.fingerprint, deliveries.c.occasion
    query = select_held(*delivery, launches.c.id, launches.c.outcome_at, KNOWN_AT, DIFFERS, IS_PRUNED)
    query = query.outerjoin(launch_stats, launch_stats.c.launch_id == launches.c.id).where(
        deliveries.c.campaign_id == campaign_id,
        deliveries.c.message.in_(names),
        launches.c.state == "sent",
        launches.c.outcome_at.is_not(None),
    )
    for message, person, occasion, launch_id, sent_at, read_at, differs, pruned in connection.execute(query):
        if launch_id not in reached:
            known_at = None if read_at is None or pruned else datetime.fromisoformat(read_at)
            sent = datetime.fromisoformat(sent_at)
            reached[launch_id] = EarlierLaunch(sent, known_at, bool(differs), bool(pruned))
        found[message_ids[message]].launches[on_occasion(person, occasion)] = reached[launch_id]
    answers = select(launches.c.message, results.c.participant, launches.c.occasion).distinct()
    answers = answers.join(launches, launches.c.id == results.c.launch_id).where(
        launches.c.campaign_id == campaign_id, launches.c.message.in_(names), results.c.non_answer == ""
    )
    for message, participant, occasion in connection.execute(answers):
        found[message_ids[message]].answered.add(on_occasion(participant, occasion))
    if questions and read is not None:
        _add_answers(connection, campaign_id, message_ids, questions, read, found)
    return found


def _add_answers(
    connection: Connection,
    campaign_id: int,
    message_ids: Mapping[str, str],
    questions: Collection[str],
    read: AnswerReader,
    found: Mapping[str, EarlierMessage],
) -> None:
    """Add the latest answer of each delivery to some questions; unreadable times count as the latest."""
    asked = results.c.question_tag, launches.c.message, func.coalesce(launches.c.arm, ""), launches.c.occasion
    query = select(*asked, results.c.participant, results.c.created, ANSWER)
    query = query.join(launches, launches.c.id == results.c.launch_id).where(
        launches.c.campaign_id == campaign_id,
        launches.c.message.in_([name for name, current in message_ids.items() if current in found]),
        results.c.question_tag.in_(questions),
        results.c.non_answer == "",
    )
    rows = connection.execute(query.execution_options(yield_per=1000))
    for tag, message, arm, occasion, participant, created, response in rows:
        current = message_ids[message]
        value = read(tag, current, arm, response)
        if value is not None:
            answers = found[current].answers.setdefault(tag, {})
            answer = EarlierAnswer(parse_moment(created), value)
            delivery = on_occasion(participant, occasion)
            before = answers.get(delivery)
            # One without a time may be the latest.
            if before is None or answer.at is None or (before.at is not None and answer.at > before.at):
                answers[delivery] = answer


def read_waves(
    connection: Connection, campaign_id: int, messages: Collection[str], *, has_wave: bool
) -> dict[str, int]:
    """Return the people whom a campaign's messages have reached, or may have, by wave; the earliest first.

    `messages` are their ids, also former ones. The wave is empty for texts from before there were any;
    messages that went by a date are of none. Nothing is counted unless there are waves on record, or the
    campaign `has_wave`.
    """
    own = launches.c.campaign_id == campaign_id, launches.c.message.in_(messages)
    is_own = and_(*own, launches.c.occasion.not_like(f"{DATE}%"))
    in_waves = select(launches.c.id).where(is_own, launches.c.occasion != "").limit(1)
    if not has_wave and connection.execute(in_waves).first() is None:
        return {}
    people = func.count(deliveries.c.fingerprint.distinct())
    counted = select_held(launches.c.occasion, people).where(is_own, launches.c.state.in_(REACHED))
    ordered = counted.group_by(launches.c.occasion).order_by(func.min(launches.c.intent_at))
    return {wave: int(count) for wave, count in connection.execute(ordered)}
