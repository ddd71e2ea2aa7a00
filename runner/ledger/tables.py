"""The ledger's tables; the same on SQLite and on PostgreSQL."""

from __future__ import annotations

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
)

SCHEMA_VERSION = 1

metadata = MetaData()

info = Table(
    "ledger_info",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("target", String, nullable=False),
    Column("name", String, nullable=False),
    Column("salt", String),
    Column("key_fingerprint", String, nullable=False),
    UniqueConstraint("target", "name"),
)

launches = Table(
    "launches",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), nullable=False),
    Column("message", String, nullable=False),
    Column("launch_key", String, nullable=False),
    Column("tag", String, nullable=False),
    Column("payload_digest", String, nullable=False),
    Column("definition", Text),  # unknown of launches that only the lockfile told of
    Column("recipients", Integer, nullable=False),
    Column("state", String, nullable=False),
    Column("project_launch_guid", String),
    Column("intent_at", String, nullable=False),
    Column("outcome_at", String),
    Column("detail", Text),
    Index("launches_by_state", "campaign_id", "state"),
    UniqueConstraint("campaign_id", "project_launch_guid"),
)

# A delivery is (campaign, message, phone): the primary key is the promise that it happens once.
# `released` frees it after an outcome that is known to have reached nobody.
deliveries = Table(
    "deliveries",
    metadata,
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True),
    Column("message", String, primary_key=True),
    Column("fingerprint", String, primary_key=True),
    Column("launch_id", Integer, ForeignKey("launches.id"), nullable=False, index=True),
    Column("released", Boolean, nullable=False, default=False),
)

launch_stats = Table(
    "launch_stats",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("num_active_sessions", Integer, nullable=False),
    Column("num_complete_sessions", Integer, nullable=False),
    Column("num_messages", Integer, nullable=False),
    Column("num_questions", Integer, nullable=False),
    Column("num_queued_sessions", Integer, nullable=False),
    Column("num_renders", Integer, nullable=False),
    Column("num_results", Integer, nullable=False),
    Column("project_launch_start", String, nullable=False),
    Column("reconciled_at", String, nullable=False),
)

results = Table(
    "results",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("result_guid", String, primary_key=True),
    Column("participant", String, nullable=False),
    Column("question_guid", String, nullable=False),
    Column("question_tag", String, nullable=False),
    Column("question_text", Text, nullable=False),
    Column("question_display_order", Integer, nullable=False),
    Column("result_answer", Text, nullable=False),
    Column("result_response", Text, nullable=False),
    Column("created", String, nullable=False),
    Column("updated", String, nullable=False),
)
