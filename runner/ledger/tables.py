"""The ledger's tables, the same on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    and_,
    case,
    false,
    func,
    select,
    text,
    true,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Label, ScalarSelect, Select

    from runner.ledger.model import CampaignLaunches

SCHEMA_VERSION = 3
PRUNED = "its texts and answers were pruned"
"""The detail of launches whose results are not kept (`ledger.people.pruned`)."""
# Bytewise on both: PostgreSQL would otherwise sort by the server's locale.
LedgerString = String().with_variant(String(collation="C"), "postgresql")
LedgerText = Text().with_variant(Text(collation="C"), "postgresql")
_COUNTS = (
    *("num_active_sessions", "num_complete_sessions", "num_messages", "num_questions"),
    *("num_queued_sessions", "num_renders", "num_results"),
)
metadata = MetaData()


def _table(name: str, *items: Any) -> Table:
    return Table(name, metadata, *items)


def _number(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _keys(*names: str) -> list[Column[str]]:
    return [Column(name, LedgerString, primary_key=True) for name in names]


def _texts(*names: str) -> list[Column[str]]:
    return [Column(name, LedgerString, nullable=False) for name in names]


def _campaign_key() -> Column[int]:
    return Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False)


def _launch_key() -> Column[int]:
    return Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False)


# Facts about the ledger as a whole: its version, the keys of targets, marks of what was read; and, without a
# value, what it has everything of (see `note_absorbed`).
info = _table("ledger_info", *_keys("name"), *_texts("value"))

campaigns = _table(
    "campaigns",
    Column("id", Integer, primary_key=True),
    *_texts("target", "name"),
    UniqueConstraint("target", "name"),
)

launches = _table(
    "launches",
    Column("id", Integer, primary_key=True),
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), nullable=False),
    *_texts("message", "launch_key", "tag", "payload_digest"),
    Column("definition_digest", LedgerString),  # of another machine's launch, in place of the definition
    Column("occasion", LedgerString, nullable=False, server_default=""),  # empty if a message goes once
    Column("arm", LedgerString),  # of a message with several arms, if known
    _number("recipients"),
    *_texts("state"),
    Column("project_launch_guid", LedgerString),
    *_texts("intent_at"),
    Column("outcome_at", LedgerString),
    Column("run", LedgerString),  # of `runs`; null for launches that were found at the service
    # True if it asks something, as far as is known.
    Column("asks", Boolean, nullable=False, server_default=true()),
    # True if a session may be open: it asks something, and not all have ended, as last read.
    Column("is_open", Boolean, nullable=False, server_default=true()),
    # True if it ended the open sessions of its recipients, as far as is known.
    Column("ends_others", Boolean, nullable=False, server_default=false()),
    # Long texts come last: SQLite reads the columns before them without their pages.
    Column("detail", LedgerText),
    Column("definition", LedgerText),  # null for launches from a lockfile
    Index("open_launches", "campaign_id", "is_open", sqlite_where=text("is_open = 1")),
    Index("launches_by_state", "campaign_id", "state"),
    UniqueConstraint("campaign_id", "project_launch_guid"),
)

# A delivery is (campaign, message, phone, occasion): the primary key ensures that it happens once.
# `released` frees it after an outcome that has certainly reached nobody.
deliveries = _table(
    "deliveries",
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True),
    *_keys("message", "fingerprint"),
    Column("occasion", LedgerString, primary_key=True, server_default=""),  # its launch's
    Column("launch_id", Integer, ForeignKey("launches.id"), nullable=False, index=True),
    Column("released", Boolean, nullable=False, default=False),
)

# The service's data of a launch: its counts as last read, even if its lists differ; null if unknown.
launch_stats = _table(
    "launch_stats",
    _launch_key(),
    *(Column(name, Integer) for name in _COUNTS),
    Column("reconciled_at", LedgerString),  # null until the counts were read
    Column("project_launch_start", LedgerString),  # null until it was read; empty if it is invalid
    # Where its texts went (`list_countries`), and the segments of its smallest and largest text, for prices;
    # null until that was read.
    Column("countries", LedgerString),
    Column("segments_least", Integer),
    Column("segments_most", Integer),
    # Results that the service counts but that are not kept: their participants were forgotten.
    Column("forgotten_results", Integer, nullable=False, server_default="0"),
    # The difference between counted and listed results after the last `reconcile`; null if they agree.
    # Answers are known as of `agreed_at` then, until a person accepts the difference.
    Column("problem", LedgerString),
    Column("counted", Integer),
    Column("listed", Integer),
    *(Column(name, LedgerString) for name in ("since", "agreed_at", "accepted_at")),
)

results = _table(
    "results",
    _launch_key(),
    *_keys("result_guid"),
    *_texts("participant", "question_guid", "question_tag"),
    Column("question_text", LedgerText, nullable=False),
    _number("question_display_order"),  # or `ORDER_UNKNOWN`
    Column("result_answer", LedgerText, nullable=False),
    Column("result_response", LedgerText, nullable=False),
    *_texts("created", "updated"),
    # Why it answers nothing: `NonAnswer`, or `stranger`: its phone was sent nothing; empty for an answer.
    Column("non_answer", LedgerString, nullable=False, server_default=""),
    # The last transaction that inserted or changed it: copies of results find newer rows by it.
    Column("revision", Integer, nullable=False, server_default="0"),
    Index("results_by_revision", "revision"),
)

# The last run that held a campaign. `term` grows with every holder, so an old term is a lost lock.
locks = _table(
    "locks",
    *_keys("target", "campaign"),
    *(_number("term"), *_texts("host"), _number("process"), *_texts("since")),
    Column("run_url", LedgerString),
)

# Former ids of renamed messages, and with an empty `message` the campaign's former names: an old checkout may
# still use them.
former_names = _table("former_names", _campaign_key(), *_keys("message", "name"))

# One row for each piece of evidence of an opt-out: a dismissed reply stays dismissed and the next one counts.
opt_outs = _table(
    "opt_outs",
    *_keys("target", "fingerprint"),
    *_keys("evidence"),  # a reply's result_guid; else the source's own name
    *_texts("source", "state", "at"),
)

# Replies that ask for texts again; a person's decision on one is among the opt-outs.
opt_ins = _table(
    "opt_ins",
    *_keys("target"),
    *_keys("evidence"),  # the reply's result_guid
    *_texts("fingerprint"),
    *_texts("created"),  # the service's text
    *_texts("at"),
)

# The sessions of launches with their participants, as last listed by the service.
sessions = _table(
    "sessions",
    _launch_key(),
    *_keys("participant"),
    *_texts("status"),  # the service's, in capitals
    Column("stopped", Boolean, nullable=False),  # an opt-out ended or prevented it
    Column("blocked", Boolean, nullable=False),  # an opt-out prevented it
    Column("replaced", Boolean, nullable=False),  # a later send of the same account ended it
    _number("progress"),  # the furthest that it was ever seen open: see `SessionProgress`
)

# The audience of a message in the last `apply` that planned it.
audiences = _table(
    "audiences",
    _campaign_key(),
    *_keys("message"),
    *_texts("planned_at"),
    _number("recipients"),
    Column("dispositions", LedgerText, nullable=False),  # a JSON object: recipients by disposition
)

# Each `apply` that was about to send: its commit, plan and CI job, in the order of `Run`.
runs = _table(
    "runs",
    *_keys("id"),
    *_texts("started_at", "plan_digest"),
    Column("commit", LedgerString),
    Column("dirty", Boolean, nullable=False),
    Column("run_url", LedgerText),
    Column("triggered_by", LedgerText),
)

# Launches under a campaign's tags that a person has declared foreign.
dismissed_launches = _table("dismissed_launches", _campaign_key(), *_keys("project_launch_guid"))

# A random mark for each revision of the results: after restoring a backup, revisions repeat with other marks.
result_revisions = _table(
    "result_revisions", Column("revision", Integer, primary_key=True, autoincrement=False), *_texts("mark")
)

# The latest decision to pause or resume each campaign.
campaign_pauses = _table(
    "campaign_pauses",
    *_keys("target", "campaign"),
    *_texts("state", "at"),
    Column("reason", LedgerText, nullable=False),
)


IS_SESSION = and_(
    sessions.c.launch_id == deliveries.c.launch_id, sessions.c.participant == deliveries.c.fingerprint
)
"""The condition that a session is that of a delivery."""
ANSWER = func.coalesce(func.nullif(results.c.result_response, ""), results.c.result_answer).label("answer")
"""What a result says: the response in words, or else its code."""


def are_of(asked: CampaignLaunches) -> ColumnElement[bool]:
    """Return the condition for the launches that are asked about."""
    is_own = launches.c.campaign_id == asked.campaign_id
    return is_own & (launches.c.occasion == asked.wave) if asked.wave else is_own


def of_target(query: Select[Any], target: str) -> Select[Any]:
    """Limit a query of launches to those of a target's campaigns."""
    joined = query.join(campaigns, campaigns.c.id == launches.c.campaign_id)
    return joined.where(campaigns.c.target == target)


def select_held(*columns: ColumnElement[Any]) -> Select[Any]:
    """Return a query of the deliveries that were made, or may have been, with their launches."""
    joined = select(*columns).join_from(deliveries, launches, launches.c.id == deliveries.c.launch_id)
    return joined.where(deliveries.c.released.is_(False))


def label_message(asked: CampaignLaunches) -> Label[Any]:
    """Return a message's current id, as `current_id`."""
    column = launches.c.message
    renames = {old: new for old, new in asked.message_ids.items() if old != new}
    return (case(renames, value=column, else_=column) if renames else column).label("current_id")


def name_target(campaign_id: int) -> ScalarSelect[str]:
    """Return the query of the target of a campaign."""
    return select(campaigns.c.target).where(campaigns.c.id == campaign_id).scalar_subquery()
