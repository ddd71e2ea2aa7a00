"""Replies that may opt out or ask for texts again: unread, found by reconciling, and decided by a person.

A reply that asks for texts again is a proposal: it lets nobody in by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import msgspec
from sqlalchemy import Connection, and_, case, exists, func, literal, or_, select, union_all, update

from runner.document import UNSET, Part, Positive, UnsetType
from runner.ledger.bulk import iterate_rows
from runner.ledger.database import insert_missing, read_info, write_info
from runner.ledger.files.suppressions import OptOut
from runner.ledger.people.opt_outs import NOBODY, decide, dismiss_opt_outs, find_next_moment
from runner.ledger.record.unsettled import list_forms
from runner.ledger.results.differences import DIFFERS, KNOWN_AT
from runner.ledger.results.sendings import count_results, is_evidence
from runner.ledger.tables import campaigns, launch_stats, launches, of_target, opt_ins, opt_outs, results

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from sqlalchemy import ColumnElement

    from runner.ledger.model import CampaignLaunches


SCREENING = 3
"""Grows when the rules for opt-outs find more: results in the ledger are then screened again."""


class ListedReply(Part, frozen=True):
    """A reply that waits for a person's decision.

    Attributes:
        reply: its result_guid, which names it to `confirm` and `dismiss`.
        found_at: UTC, ISO 8601.
        asks: what it may ask for: `confirm` says that it does. To confirm an `opt_in` lets its author in.
        people: of how many people its author is one: more than 1 if nobody knows who of a launch wrote it,
            and all of them are held.
        campaign: with `--show-replies`, as far as the ledger has the reply.
        message: the message that was replied to.
        question: what was asked.
        text: what was replied.
    """

    reply: str
    found_at: str
    asks: Literal["opt_out", "opt_in"]
    people: Positive
    campaign: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    question: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


def is_screened(connection: Connection, campaign_id: int, words: tuple[str, ...] = ()) -> bool:
    """Return whether a campaign's results were screened with the current rules and its current words."""
    return read_info(connection, f"opt_outs_screened_{campaign_id}") == _write_mark(words)


def mark_screened(connection: Connection, campaign_id: int, words: tuple[str, ...] = ()) -> None:
    """Record that a campaign's results were screened."""
    write_info(connection, f"opt_outs_screened_{campaign_id}", _write_mark(words))


def _write_mark(words: tuple[str, ...]) -> str:
    return f"{SCREENING} {json.dumps(sorted(set(words)))}" if words else str(SCREENING)


def count_replied(connection: Connection, target: str) -> int:
    """Return the number of confirmed opt-outs by way of the service: by reply, or met by a launch."""
    is_reported = and_(
        opt_outs.c.target == target,
        opt_outs.c.source.in_(("reply", "import")),
        opt_outs.c.state == "confirmed",
        # The evidence of imported lists is their import.
        opt_outs.c.evidence != opt_outs.c.source,
    )
    return connection.execute(select(func.count()).select_from(opt_outs).where(is_reported)).scalar_one()


def list_waiting(connection: Connection, target: str) -> list[ListedReply]:
    """Return the doubtful replies, the oldest first, of people who have not opted out in another way."""
    # All people of a launch are held for one reply, if nobody knows who of them wrote it.
    author = case((opt_outs.c.source == "launch", ""), else_=opt_outs.c.fingerprint)
    query = (
        select(opt_outs.c.evidence, func.min(opt_outs.c.at).label("first"), literal("opt_out"), func.count())
        .where(*_list_doubtful(target))
        .group_by(opt_outs.c.evidence, author)
        .order_by("first", opt_outs.c.evidence)
    )
    return [ListedReply(*row) for row in connection.execute(query)]


def count_waiting(connection: Connection, target: str, asked: CampaignLaunches) -> Counter[str]:
    """Return the replies that `list_waiting` lists, by message id."""
    if not list_waiting(connection, target):
        return Counter()  # without reading all results
    is_doubtful = is_evidence(*_list_doubtful(target))
    return count_results(connection, asked, is_doubtful)


def _list_doubtful(target: str) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions for doubtful replies of people who have not opted out in another way."""
    other = opt_outs.alias()
    has_opted_out = exists().where(
        other.c.target == opt_outs.c.target,
        other.c.fingerprint == opt_outs.c.fingerprint,
        other.c.state == "confirmed",
    )
    return opt_outs.c.target == target, opt_outs.c.state == "doubtful", ~has_opted_out


def count_people(connection: Connection, target: str) -> int:
    """Return the number of people who have opted out."""
    people = func.count(opt_outs.c.fingerprint.distinct())
    query = select(people).where(
        opt_outs.c.target == target, opt_outs.c.state == "confirmed", opt_outs.c.fingerprint != NOBODY
    )
    return connection.execute(query).scalar_one()


def read_reply_texts(connection: Connection, target: str) -> dict[str, dict[str, str]]:
    """Return what waiting replies say, as of `ListedReply`, by `result_guid`; in one pass over all results.

    Imported replies, which have no results here, are left out.
    """
    doubtful = select(opt_outs.c.evidence).where(opt_outs.c.target == target, opt_outs.c.state == "doubtful")
    waiting = union_all(doubtful, select(opt_ins.c.evidence).where(opt_ins.c.target == target))
    texts = results.c.question_text.label("question"), results.c.result_response.label("text")
    query = select(results.c.result_guid, campaigns.c.name.label("campaign"), launches.c.message, *texts)
    query = of_target(query.join(launches, launches.c.id == results.c.launch_id), target)
    found = connection.execute(query.where(results.c.result_guid.in_(waiting)))
    return {row.pop("result_guid"): row for row in map(dict, found.mappings())}


def list_recorded_campaigns(connection: Connection) -> list[tuple[str, str]]:
    """Return target and name of every recorded campaign, in order."""
    query = select(campaigns.c.target, campaigns.c.name).order_by(campaigns.c.target, campaigns.c.name)
    return [(row.target, row.name) for row in connection.execute(query)]


def list_launched_campaigns(connection: Connection, target: str) -> list[str]:
    """Return the names of a target's campaigns with a launch on record, whatever its outcome, in order."""
    has_launches = exists().where(launches.c.campaign_id == campaigns.c.id)
    query = select(campaigns.c.name).where(campaigns.c.target == target, has_launches)
    return list(connection.execute(query.order_by(campaigns.c.name)).scalars())


@dataclass(frozen=True, slots=True)
class OptIn:
    """A reply whose author asks for texts again.

    `evidence` is its `result_guid`; `fingerprint`, the person's on the target; `created`, the service's time;
    `at`, when it was found (UTC, ISO 8601).
    """

    evidence: str
    fingerprint: str
    created: str
    at: str


def add_opt_ins(connection: Connection, target: str, replies: Collection[OptIn]) -> None:
    """Enter replies that ask for texts again; recorded ones stay as they are."""
    insert_missing(connection, opt_ins, [{"target": target, **asdict(reply)} for reply in replies])


def list_opt_ins(connection: Connection, target: str) -> list[ListedReply]:
    """Return the proposals that wait for a decision, the oldest first.

    Left out are people who have not opted out, or did so by a later reply, and forgotten people, who can only
    be let in by phone.
    """
    says_so = and_(
        opt_outs.c.target == opt_ins.c.target,
        opt_outs.c.fingerprint == opt_ins.c.fingerprint,
        opt_outs.c.state != "dismissed",
    )
    # Also for another machine that reads the reply again.
    is_decided = exists().where(
        opt_outs.c.target == opt_ins.c.target,
        opt_outs.c.fingerprint == opt_ins.c.fingerprint,
        opt_outs.c.evidence == opt_ins.c.evidence,
        opt_outs.c.source == "person",
    )
    later = and_(results.c.result_guid == opt_outs.c.evidence, results.c.created > opt_ins.c.created)
    query = (
        select(opt_ins.c.evidence, opt_ins.c.at, literal("opt_in"), literal(1))
        .where(
            opt_ins.c.target == target,
            exists().where(says_so),
            ~exists().where(says_so, opt_outs.c.source == "forgotten"),
            ~exists().where(says_so, later),
            ~is_decided,
        )
        .order_by(opt_ins.c.at, opt_ins.c.evidence)
    )
    return [ListedReply(*row) for row in connection.execute(query)]


def decide_opt_in(connection: Connection, target: str, result_guid: str, at: str, *, let_in: bool) -> bool:
    """Enter a decision about a proposal among the opt-outs, which other machines share.

    With `let_in`, all evidence of opt-outs is dismissed. `at` is UTC, ISO 8601. Returns True if the reply
    exists.
    """
    is_it = and_(opt_ins.c.target == target, opt_ins.c.evidence == result_guid)
    author = connection.execute(select(opt_ins.c.fingerprint).where(is_it)).scalar()
    if author is None:
        return False
    is_theirs = and_(opt_outs.c.target == target, opt_outs.c.fingerprint == author)
    stays_out = select(exists().where(is_theirs, opt_outs.c.state != "dismissed"))
    is_out = not let_in and connection.execute(stays_out).scalar_one()
    at = find_next_moment(connection, is_theirs, at)
    decide(
        connection,
        target,
        [OptOut(author, result_guid, "person", "confirmed" if is_out else "dismissed", at)],
    )
    if let_in:
        dismiss_opt_outs(connection, target, author, at)
    return True


class UnreadReplies(Part, frozen=True):
    """Replies on a target that may have come since the last reading.

    Attributes:
        campaign: whose replies they are: of several campaigns, the one that has waited longest.
        since: when they were last read, or else when it was sent: UTC, ISO 8601.
        reply: the result_guid of a reply that may opt out somebody, and nobody knows whom: a person decides
            on it with `runner optouts`.
    """

    campaign: str
    since: datetime
    reply: str | None = None

    @property
    def reason(self) -> str:
        """The reason for holding people."""
        return f"{self.describe()}: {self.remedy} first"

    @property
    def remedy(self) -> str:
        """The way to let texts go on."""
        if self.reply is None:
            return "run `runner reconcile`"
        return f"decide with `runner optouts confirm {self.reply}` (or `dismiss`)"

    def describe(self) -> str:
        """Describe these replies in words."""
        since = f"{self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        if self.reply is not None:
            return f"nobody knows whose the reply {self.reply} is, which may opt out, since {since}"
        return f"replies to {self.campaign} are unread since {since}"

    def is_overdue(self, now: datetime, within: timedelta) -> bool:
        """Return whether texts must wait."""
        return self.reply is not None or now - self.since > within


class AccountMark(msgspec.Struct, frozen=True):
    """The point up to which an account's results were read, whatever launches they belong to.

    `read_at` is the last reading without a gap, `whole_at` the last one that went back all the way; `newest`
    is the service's time of the newest result. The list counted `total` results; that it does not show the
    `accepted` ones among them, a person has accepted.
    """

    read_at: datetime
    whole_at: datetime
    newest: datetime | None
    accepted: int = 0
    total: int | None = None


def read_account_mark(connection: Connection, target: str) -> AccountMark | None:
    """Return how far a target's account was read; None if it never was."""
    written = read_info(connection, f"account_read_{target}")
    if written is None:
        return None
    # The hooks are for a subclass of datetime, such as a test's frozen time.
    return msgspec.json.decode(
        written, type=AccountMark, dec_hook=lambda _, moment: datetime.fromisoformat(moment)
    )


def write_account_mark(connection: Connection, target: str, mark: AccountMark) -> None:
    """Record how far a target's account was read."""
    text = msgspec.json.encode(mark, enc_hook=datetime.isoformat).decode()
    write_info(connection, f"account_read_{target}", text)


def find_owners(connection: Connection, target: str, guids: Collection[str]) -> list[tuple[str, int, int]]:
    """Return guid, campaign's and launch's number of those launches that were sent; case doesn't matter."""
    columns = launches.c.project_launch_guid, launches.c.campaign_id, launches.c.id, launches.c.state
    # With a condition on the state SQLite goes through all launches of that state.
    rows = iterate_rows(connection, of_target(select(*columns), target), columns[0], list_forms(guids))
    return [(row.project_launch_guid, row.campaign_id, row.id) for row in rows if row.state == "sent"]


def settle_placed(connection: Connection, target: str) -> None:
    """Free the people of launches who were held for a reply of which the author is certain now."""
    known = opt_outs.alias()
    is_placed = exists().where(
        known.c.target == opt_outs.c.target,
        known.c.evidence == opt_outs.c.evidence,
        or_(known.c.source == "reply", known.c.state == "confirmed"),
    )
    held = and_(opt_outs.c.target == target, opt_outs.c.source == "launch", opt_outs.c.state == "doubtful")
    connection.execute(update(opt_outs).where(held, is_placed).values(state="dismissed"))


def find_unread_replies(connection: Connection, target: str) -> UnreadReplies | None:
    """Return the replies that are unread for longest, or None.

    Plain texts, surveys that have ended for everybody, and launches that the service does not list have none.
    """
    # A reply that may opt out somebody whom the service does not list.
    lost = select(opt_outs.c.evidence, opt_outs.c.at).where(
        opt_outs.c.target == target, opt_outs.c.fingerprint == NOBODY, opt_outs.c.state == "doubtful"
    )
    row = connection.execute(lost.order_by(opt_outs.c.at).limit(1)).first()
    if row is not None:
        return UnreadReplies("", datetime.fromisoformat(row.at), row.evidence)
    stats = launch_stats.c
    sent_at = func.coalesce(launches.c.outcome_at, launches.c.intent_at)
    asking = (
        of_target(select(campaigns.c.name).select_from(launches), target)
        .outerjoin(launch_stats, stats.launch_id == launches.c.id)
        .where(launches.c.state == "sent", launches.c.asks)
    )
    has_ended = and_(stats.num_active_sessions == 0, stats.num_queued_sessions == 0, ~DIFFERS)
    is_unread = case((stats.reconciled_at.is_(None), ~DIFFERS), else_=~func.coalesce(has_ended, False))
    # A list of results that is shorter than its count was not read.
    since = func.coalesce(KNOWN_AT, sent_at).label("since")
    row = connection.execute(asking.add_columns(since).where(is_unread).order_by(since).limit(1)).first()
    found = [] if row is None else [UnreadReplies(row.name, datetime.fromisoformat(row.since))]
    # Launches were read, and the account's results were not.
    began, mark = func.min(sent_at).label("began"), read_account_mark(connection, target)
    read = asking.add_columns(began, func.max(stats.reconciled_at).label("read_at"))
    read = read.where(stats.reconciled_at.is_not(None)).group_by(campaigns.c.name)
    for one in connection.execute(read.order_by(began)):
        if mark is None or datetime.fromisoformat(one.read_at) > mark.read_at:
            known_at = datetime.fromisoformat(one.began) if mark is None else mark.read_at
            found.append(UnreadReplies(one.name, known_at))
            break
    return min(found, key=lambda reply: reply.since, default=None)
