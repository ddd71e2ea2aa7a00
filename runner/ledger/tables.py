"""The ledger's tables, the same on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import Any

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
    false,
    text,
    true,
)

from runner.ledger.model import COUNTS

SCHEMA_VERSION = 1
# Bytewise on both: PostgreSQL would otherwise sort by the server's locale.
LedgerString = String().with_variant(String(collation="C"), "postgresql")
LedgerText = Text().with_variant(Text(collation="C"), "postgresql")
metadata = MetaData()


def _table(name: str, *items: Any) -> Table:
    return Table(name, metadata, *items)


def _text(name: str) -> Column[str]:
    return Column(name, LedgerString, nullable=False)


def _number(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False)


def _key(name: str) -> Column[str]:
    return Column(name, LedgerString, primary_key=True)


def _keys(*names: str) -> list[Column[str]]:
    return [_key(name) for name in names]


def _texts(*names: str) -> list[Column[str]]:
    return [_text(name) for name in names]


def _numbers(*names: str) -> list[Column[int]]:
    return [_number(name) for name in names]


def _campaign_key() -> Column[int]:
    return Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False)


def _launch_key() -> Column[int]:
    return Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False)


info = _table("ledger_info", _key("name"), _text("value"))

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
    Column("definition", LedgerText),  # null for launches from a lockfile
    _number("recipients"),
    _text("state"),
    Column("project_launch_guid", LedgerString),
    _text("intent_at"),
    Column("outcome_at", LedgerString),
    Column("detail", LedgerText),
    Column("run", LedgerString),  # of `runs`; null for launches that were found at the service
    # True if it asks something, as far as is known.
    Column("asks", Boolean, nullable=False, server_default=true()),
    # True if a session may be open: it asks something, and not all have ended, as last read.
    Column("is_open", Boolean, nullable=False, server_default=true()),
    Index(
        "open_launches",
        "campaign_id",
        "is_open",
        sqlite_where=text("is_open = 1"),
    ),
    # On a server, only the few whose outcome is open are indexed: the constraint below finds the others.
    Index("launches_by_state", "campaign_id", "state"),
    UniqueConstraint("campaign_id", "project_launch_guid"),
)

# A delivery is (campaign, message, phone): the primary key ensures that it happens once.
# `released` frees it after an outcome that has certainly reached nobody.
deliveries = _table(
    "deliveries",
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True),
    *_keys("message", "fingerprint"),
    Column("launch_id", Integer, ForeignKey("launches.id"), nullable=False, index=True),
    Column("released", Boolean, nullable=False, default=False),
    # True when this recipient's session has ended, as last read, in a launch that is open for others.
    Column("has_ended", Boolean),
)

# The service's counts of a launch as last read, even if its lists differ; null if unknown.
launch_stats = _table(
    "launch_stats",
    _launch_key(),
    *(Column(name, Integer) for name in COUNTS),
    *_texts("project_launch_start", "reconciled_at"),
)

results = _table(
    "results",
    _launch_key(),
    _key("result_guid"),
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

# What the service says of each launch while its campaign is reconciled: `runner.ledger.results.readings`.
launch_readings = _table(
    "launch_readings",
    _key("reading"),
    Column("launch_id", Integer, primary_key=True, autoincrement=False),
    *_texts("tag", "project_launch_guid"),
    _number("held"),  # results in the ledger at the beginning
    *(
        Column(name, Boolean, nullable=False, server_default=false())
        for name in ("is_listed", "is_unreadable", "is_unscreened")
    ),
    *(Column(name, Integer) for name in COUNTS),
    Column("project_launch_start", LedgerString),
    Column("definition", LedgerText),  # the service's, if the ledger has none
    # Of launches whose results were read: see `ReadOutcome`.
    Column("is_short", Boolean),
    Column("shown", Integer),
    Column("claimed", Integer),
    Column("lost", Integer, nullable=False, server_default="0"),
    Index("launch_readings_by_guid", "reading", "project_launch_guid"),
)

PARTITIONS = 16
"""The number of parts of each table in `PARTITIONED` on a server, to keep indexes small."""

_POSTGRES_INDEXES = {"open_launches": "is_open", "launches_by_state": "state IN ('intent', 'unknown')"}
_POSTGRES_PARTITIONS = {deliveries: "HASH (fingerprint)", results: "HASH (launch_id)"}
PARTITIONED = tuple(_POSTGRES_PARTITIONS)
"""The tables that have parts in a ledger on a server."""

# The run that holds a campaign, if any. `term` grows with every holder, so an old term is a lost lock.
locks = _table(
    "locks",
    *_keys("target", "campaign"),
    _number("term"),
    Column("host", LedgerString),
    Column("process", Integer),
    Column("run_url", LedgerString),
    Column("since", LedgerString),
)

# Of renamed campaigns: their former names, which an old checkout may still use.
former_names = _table("former_names", _campaign_key(), _key("name"))

# Of renamed messages: their former ids, which an old checkout may still use.
message_names = _table("message_names", _campaign_key(), _key("name"), _text("message"))

# The key of a target's fingerprints.
target_keys = _table("target_keys", _key("target"), _text("key_fingerprint"))

# Digests of record files' texts that the ledger has all of.
absorbed_texts = _table("absorbed_texts", _key("digest"))

# One row for each piece of evidence of an opt-out: a dismissed reply stays dismissed and the next one counts.
opt_outs = _table(
    "opt_outs",
    Column("target", LedgerString, ForeignKey("target_keys.target"), primary_key=True),
    _key("fingerprint"),
    _key("evidence"),  # a reply's result_guid; else the source's own name
    *_texts("source", "state", "at"),
)

# Replies that ask for texts again, until a person decides.
opt_ins = _table(
    "opt_ins",
    Column("target", LedgerString, ForeignKey("target_keys.target"), primary_key=True),
    _key("evidence"),  # the reply's result_guid
    *_texts("fingerprint", "state"),
    _text("created"),  # the service's text
    _text("at"),
)

# Results that the service counts but that are not kept: their participants were forgotten.
forgotten_results = _table("forgotten_results", _launch_key(), _number("results"))

# The arm of launches of messages with several arms.
launch_arms = _table("launch_arms", _launch_key(), _text("arm"))

# The service's start time of launches, known before their first results.
launch_starts = _table("launch_starts", _launch_key(), _text("project_launch_start"))

# The sessions of launches with their participants, as last listed by the service.
sessions = _table(
    "sessions",
    _launch_key(),
    _key("participant"),
    _text("status"),  # the service's, in capitals
    Column("stopped", Boolean, nullable=False),  # an opt-out ended or prevented it
    Column("blocked", Boolean, nullable=False),  # an opt-out prevented it
)

# The audience of a message in the last `apply` that planned it.
audiences = _table(
    "audiences",
    _campaign_key(),
    _key("message"),
    _text("planned_at"),
    _number("recipients"),
    Column("dispositions", LedgerText, nullable=False),  # a JSON object: recipients by disposition
)

# Limits and price of a target's plan, as last read (`meta.plan`).
service_plans = _table(
    "service_plans",
    _key("target"),
    _text("name"),
    Column("price_usd", LedgerString),
    *_numbers("renders_max", "renders_used"),
    _text("read_at"),
)

# Each `apply` that was about to send: its commit, plan and CI job, in the order of `Run`.
runs = _table(
    "runs",
    _key("id"),
    *_texts("started_at", "plan_digest"),
    Column("commit", LedgerString),
    Column("dirty", Boolean, nullable=False),
    Column("run_url", LedgerText),
    Column("triggered_by", LedgerText),
)

# Reservations with all launches that can have been sent in this ledger; and the runs that made reservations
# with it.
reservations = _table("reservations", _key("id"))

# Launches under a campaign's tags that a person has declared foreign.
dismissed_launches = _table("dismissed_launches", _campaign_key(), _key("project_launch_guid"))

# Of launches reserved by another machine: a digest in place of their texts, which only it has.
reserved_launches = _table("reserved_launches", _launch_key(), _text("definition_digest"))

# A random mark for each revision of the results: after restoring a backup, revisions repeat with other marks.
result_revisions = _table(
    "result_revisions",
    Column("revision", Integer, primary_key=True, autoincrement=False),
    _text("mark"),
)

# Launches whose counted and listed results still differed after the last `reconcile`.
# Their answers are known as of `agreed_at`, until a person accepts the difference.
launch_differences = _table(
    "launch_differences",
    _launch_key(),
    _text("problem"),
    Column("counted", Integer),
    Column("listed", Integer),
    _text("since"),
    Column("agreed_at", LedgerString),
    Column("accepted_at", LedgerString),
)

# The latest decision to pause or resume each campaign.
campaign_pauses = _table(
    "campaign_pauses",
    *_keys("target", "campaign"),
    *_texts("state", "at"),
    Column("reason", LedgerText, nullable=False),
)


def add_postgres_options() -> None:
    """Set the conditions of indexes, and partitions: in the definitions they would import the dialect."""
    for table, partition in _POSTGRES_PARTITIONS.items():
        table.dialect_options["postgresql"]["partition_by"] = partition
    for index in launches.indexes:
        if index.name in _POSTGRES_INDEXES:
            index.dialect_options["postgresql"]["where"] = text(_POSTGRES_INDEXES[str(index.name)])
