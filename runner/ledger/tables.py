"""The ledger's tables; the same on SQLite and on PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
    text,
    true,
)

from runner.ledger.column_types import LedgerString as _String
from runner.ledger.column_types import LedgerText as _Text

metadata = MetaData()

info = Table(
    "ledger_info",
    metadata,
    Column("name", _String, primary_key=True),
    Column("value", _String, nullable=False),
)

campaigns = Table(
    "campaigns",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("target", _String, nullable=False),
    Column("name", _String, nullable=False),
    Column("salt", _String),
    Column("key_fingerprint", _String, nullable=False),
    UniqueConstraint("target", "name"),
)

launches = Table(
    "launches",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), nullable=False),
    Column("message", _String, nullable=False),
    Column("launch_key", _String, nullable=False),
    Column("tag", _String, nullable=False),
    Column("payload_digest", _String, nullable=False),
    Column("definition", _Text),  # unknown of launches that only the lockfile told of
    Column("recipients", Integer, nullable=False),
    Column("state", _String, nullable=False),
    Column("project_launch_guid", _String),
    Column("intent_at", _String, nullable=False),
    Column("outcome_at", _String),
    Column("detail", _Text),
    Column("run", _String),  # of `runs`; unknown of launches that were only found to be sent
    # Of `lockfile_marks`: the first that counts it; none of those that no lockfile sums up.
    Column("mark", Integer),
    # Whether a session of it may be open: it asks something, and not all have ended, as last read.
    Column("is_open", Boolean, nullable=False, server_default=true()),
    Index(
        "open_launches",
        "campaign_id",
        "is_open",
        sqlite_where=text("is_open = 1"),
        postgresql_where=text("is_open"),
    ),
    # On a server, of the few whose outcome is open: the others are found by the constraint below.
    Index(
        "launches_by_state", "campaign_id", "state", postgresql_where=text("state IN ('intent', 'unknown')")
    ),
    UniqueConstraint("campaign_id", "project_launch_guid"),
)

# A delivery is (campaign, message, phone): the primary key is the promise that it happens once.
# `released` frees it after an outcome that is known to have reached nobody.
deliveries = Table(
    "deliveries",
    metadata,
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True),
    Column("message", _String, primary_key=True),
    Column("fingerprint", _String, primary_key=True),
    Column("launch_id", Integer, ForeignKey("launches.id"), nullable=False, index=True),
    Column("released", Boolean, nullable=False, default=False),
    # True when the session of this recipient has ended, as last read, of a launch that is open for others.
    Column("has_ended", Boolean),
    postgresql_partition_by="HASH (fingerprint)",
)

# What the service said of a launch when it was last read, whether or not its lists agreed; a count that is
# null is not known.
launch_stats = Table(
    "launch_stats",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("num_active_sessions", Integer),
    Column("num_complete_sessions", Integer),
    Column("num_messages", Integer),
    Column("num_questions", Integer),
    Column("num_queued_sessions", Integer),
    Column("num_renders", Integer),
    Column("num_results", Integer),
    Column("project_launch_start", _String, nullable=False),
    Column("reconciled_at", _String, nullable=False),
)

results = Table(
    "results",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("result_guid", _String, primary_key=True),
    Column("participant", _String, nullable=False),
    Column("question_guid", _String, nullable=False),
    Column("question_tag", _String, nullable=False),
    Column("question_text", _Text, nullable=False),
    Column("question_display_order", Integer, nullable=False),  # or `ORDER_UNKNOWN`
    Column("result_answer", _Text, nullable=False),
    Column("result_response", _Text, nullable=False),
    Column("created", _String, nullable=False),
    Column("updated", _String, nullable=False),
    # Of the transaction that entered it or changed it last: what came since a copy was made is found by it.
    Column("revision", Integer, nullable=False, server_default="0"),
    Index("results_by_revision", "revision"),
    postgresql_partition_by="HASH (launch_id)",
)

PARTITIONS = 16
"""Into how many parts a server divides each of `PARTITIONED`: their indexes stay small."""

PARTITIONED = (deliveries, results)
"""In ledgers on a server that are new since version 6. What an older version has made stays whole: every
statement is the same for both."""

# Who runs a campaign; without a holder, nobody does. `term` grows with every holder: a run whose term is
# over has lost its lock.
locks = Table(
    "locks",
    metadata,
    Column("target", _String, primary_key=True),
    Column("campaign", _String, primary_key=True),
    Column("term", Integer, nullable=False),
    Column("host", _String),
    Column("process", Integer),
    Column("run_url", _String),
    Column("since", _String),
)

# Of renamed campaigns: the name with which their fingerprints were, and go on being, made.
first_names = Table(
    "first_names",
    metadata,
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("name", _String, nullable=False),
)

# Of renamed messages: the ids that they had, which an old checkout may still know them by.
message_names = Table(
    "message_names",
    metadata,
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("name", _String, primary_key=True),
    Column("message", _String, nullable=False),
)

# Under which key the people of a target are known, whatever the campaign.
target_keys = Table(
    "target_keys",
    metadata,
    Column("target", _String, primary_key=True),
    Column("salt", _String),
    Column("key_fingerprint", _String, nullable=False),
)

# One row for each thing that says that a person opted out: each is confirmed or dismissed on its own, so
# that a dismissed reply stays dismissed and the next one counts again.
opt_outs = Table(
    "opt_outs",
    metadata,
    Column("target", _String, ForeignKey("target_keys.target"), primary_key=True),
    Column("fingerprint", _String, primary_key=True),
    Column("evidence", _String, primary_key=True),  # a reply's result_guid; else the source's own name
    Column("source", _String, nullable=False),
    Column("state", _String, nullable=False),
    Column("at", _String, nullable=False),
)

# Replies that ask for texts again. They let nobody in: a person decides.
opt_ins = Table(
    "opt_ins",
    metadata,
    Column("target", _String, ForeignKey("target_keys.target"), primary_key=True),
    Column("evidence", _String, primary_key=True),  # the reply's result_guid
    Column("fingerprint", _String, nullable=False),
    Column("state", _String, nullable=False),
    Column("created", _String, nullable=False),  # as the service says
    Column("at", _String, nullable=False),
)

# Results that the service counts and that are not kept: their participants were forgotten.
forgotten_results = Table(
    "forgotten_results",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("results", Integer, nullable=False),
)

# Of campaigns that had something of people who were forgotten: the fingerprints by which the campaign, and
# whoever has its lockfile, goes on leaving them alone. `released` frees those who were let in again.
forgotten_people = Table(
    "forgotten_people",
    metadata,
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("fingerprint", _String, primary_key=True),
    Column("released", Boolean, nullable=False, default=False),
)

# Of launches of a message with several arms: which one they were.
launch_arms = Table(
    "launch_arms",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("arm", _String, nullable=False),
)

# When the service says that launches began, on its own clock: known before the first of their results is.
launch_starts = Table(
    "launch_starts",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("project_launch_start", _String, nullable=False),
)

# The sessions of launches as the service listed them when it was last read, each with its participant.
sessions = Table(
    "sessions",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("participant", _String, primary_key=True),
    Column("status", _String, nullable=False),  # as the service says it, in capitals
    Column("stopped", Boolean, nullable=False),  # whether an opt-out ended it, or kept it from beginning
    Column("blocked", Boolean, nullable=False),  # whether it is the latter
)

# How the last `apply` that planned a message found its audience.
audiences = Table(
    "audiences",
    metadata,
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("message", _String, primary_key=True),
    Column("planned_at", _String, nullable=False),
    Column("recipients", Integer, nullable=False),
    Column("dispositions", _Text, nullable=False),  # a JSON object: recipients by disposition
)

# What a target's plan allows and costs, as last read (reference, 2.2: `meta.plan`).
service_plans = Table(
    "service_plans",
    metadata,
    Column("target", _String, primary_key=True),
    Column("name", _String, nullable=False),
    Column("price_usd", _String),
    Column("renders_max", Integer, nullable=False),
    Column("renders_used", Integer, nullable=False),
    Column("read_at", _String, nullable=False),
)

# Each `apply` that was about to send: which commit, which plan and which CI job it was;
# in the order of `Run`.
runs = Table(
    "runs",
    metadata,
    Column("id", _String, primary_key=True),
    Column("started_at", _String, nullable=False),
    Column("plan_digest", _String, nullable=False),
    Column("commit", _String),
    Column("dirty", Boolean, nullable=False),
    Column("run_url", _Text),
    Column("triggered_by", _Text),
)

# Groups of launches that were reserved for all machines to see, those whose launches this ledger knows as
# far as they can have left; and the runs that reserved with this ledger.
reservations = Table(
    "reservations",
    metadata,
    Column("id", _String, primary_key=True),
)

# Launches under a campaign's tags that a person said are not the campaign's.
dismissed_launches = Table(
    "dismissed_launches",
    metadata,
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("project_launch_guid", _String, primary_key=True),
)

# Of launches that another machine reserved: what stands for their texts, which it alone has.
reserved_launches = Table(
    "reserved_launches",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("definition_digest", _String, nullable=False),
)

# Of each transaction that entered or changed results: a random mark. It tells the revisions of a ledger that
# was restored from a backup from those of the same number that it had reached before.
result_revisions = Table(
    "result_revisions",
    metadata,
    Column("revision", Integer, primary_key=True, autoincrement=False),
    Column("mark", _String, nullable=False),
)

# The tallies of people that a lockfile which sums up may hold (`runner.ledger.marks`).
lockfile_marks = Table(
    "lockfile_marks",
    metadata,
    Column("campaign_id", Integer, ForeignKey("campaigns.id"), primary_key=True, autoincrement=False),
    Column("message", _String, primary_key=True),
    Column("digest", _String, primary_key=True),
    Column("recipients", Integer, nullable=False),
    Column("number", Integer, nullable=False),  # grows; of each message the highest is what counts now
)

# Of launches that the last `reconcile` could not bring to agree: what the service counts and what it lists.
# Who may have answered them is known as of `agreed_at`, until a person accepts the difference as it is.
launch_differences = Table(
    "launch_differences",
    metadata,
    Column("launch_id", Integer, ForeignKey("launches.id"), primary_key=True, autoincrement=False),
    Column("problem", _String, nullable=False),
    Column("counted", Integer),
    Column("listed", Integer),
    Column("since", _String, nullable=False),
    Column("agreed_at", _String),
    Column("accepted_at", _String),
)

# Campaigns that a person has paused, and those that go on since: of each the latest word.
campaign_pauses = Table(
    "campaign_pauses",
    metadata,
    Column("target", _String, primary_key=True),
    Column("campaign", _String, primary_key=True),
    Column("state", _String, nullable=False),
    Column("at", _String, nullable=False),
    Column("reason", _Text, nullable=False),
)

# What files of suppressions tell of people who are held, of campaigns that are not entered since.
told_holds = Table(
    "told_holds",
    metadata,
    Column("target", _String, primary_key=True),
    Column("campaign", _String, primary_key=True),
    Column("digest", _String, primary_key=True),
    Column("entry", _Text, nullable=False),  # a JSON object, as in the file
)
