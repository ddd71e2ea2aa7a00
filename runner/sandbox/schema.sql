-- The service's state. Rows of launch, session and result are never deleted and their ids have no gaps, so that the
-- n-th record in order of creation is found by its id, however many there are. Where lists are filtered, the columns
-- named *_number do the same: they number the rows of one tag, launch or participant from 1, so that the highest number
-- is their count and no page is walked to.

CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE launch (
    id INTEGER PRIMARY KEY,
    guid TEXT NOT NULL UNIQUE,
    started TEXT NOT NULL,
    project_tag TEXT NOT NULL,
    definition TEXT NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0,
    questions INTEGER NOT NULL DEFAULT 0,
    renders INTEGER NOT NULL DEFAULT 0,
    results INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
    active INTEGER NOT NULL DEFAULT 0 CHECK (active >= 0),
    complete INTEGER NOT NULL DEFAULT 0,
    tag_number INTEGER NOT NULL
);
CREATE UNIQUE INDEX launch_by_tag ON launch (project_tag, tag_number);

CREATE TABLE question (
    launch_id INTEGER NOT NULL REFERENCES launch,
    position INTEGER NOT NULL,
    guid TEXT NOT NULL,
    tag TEXT NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (launch_id, position)
) WITHOUT ROWID;

-- opted_out is when they wrote STOP or its kin; NULL while they may be texted.
CREATE TABLE participant (
    id INTEGER PRIMARY KEY,
    guid TEXT NOT NULL UNIQUE,
    phone TEXT NOT NULL UNIQUE,
    opted_out TEXT
);

-- guid is the project_launch_participant_guid; position is the index of the question that waits for an answer.
-- An active session expires some time after `updated`, its last turn.
CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    guid TEXT NOT NULL,
    launch_id INTEGER NOT NULL REFERENCES launch,
    participant_id INTEGER NOT NULL REFERENCES participant,
    created TEXT NOT NULL,
    updated TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('QUEUED', 'ACTIVE', 'COMPLETE')),
    position INTEGER CHECK ((position IS NOT NULL) = (status = 'ACTIVE')),
    sub_status TEXT CHECK (sub_status IS NULL OR status = 'COMPLETE')
);
CREATE INDEX session_by_launch ON session (launch_id);
CREATE UNIQUE INDEX session_active ON session (participant_id) WHERE status = 'ACTIVE';
CREATE INDEX session_open ON session (participant_id) WHERE status <> 'COMPLETE';
CREATE INDEX session_due ON session (updated) WHERE status = 'ACTIVE';

CREATE TABLE transcript (
    id INTEGER PRIMARY KEY,
    participant_id INTEGER NOT NULL REFERENCES participant,
    session_id INTEGER REFERENCES session,
    at TEXT NOT NULL,
    kind TEXT NOT NULL
        CHECK (kind IN ('introduction', 'text', 'question', 'repeat', 'conclusion', 'inbound', 'notice')),
    text TEXT NOT NULL
);
CREATE INDEX transcript_by_participant ON transcript (participant_id);

CREATE TABLE result (
    id INTEGER PRIMARY KEY,
    guid TEXT NOT NULL UNIQUE,
    launch_id INTEGER NOT NULL REFERENCES launch,
    participant_id INTEGER NOT NULL REFERENCES participant,
    session_id INTEGER NOT NULL REFERENCES session,
    position INTEGER NOT NULL,
    project_tag TEXT NOT NULL,
    question_tag TEXT NOT NULL,
    answer TEXT NOT NULL,
    response TEXT NOT NULL,
    created TEXT NOT NULL,
    updated TEXT NOT NULL,
    launch_number INTEGER NOT NULL,
    launch_question_number INTEGER NOT NULL,
    participant_number INTEGER NOT NULL,
    project_tag_number INTEGER NOT NULL,
    question_tag_number INTEGER NOT NULL,
    tags_number INTEGER NOT NULL
);
CREATE UNIQUE INDEX result_by_launch ON result (launch_id, launch_number);
CREATE UNIQUE INDEX result_by_launch_question ON result (launch_id, question_tag, launch_question_number);
CREATE UNIQUE INDEX result_by_participant ON result (participant_id, participant_number);
CREATE UNIQUE INDEX result_by_project_tag ON result (project_tag, project_tag_number);
CREATE UNIQUE INDEX result_by_question_tag ON result (question_tag, question_tag_number);
CREATE UNIQUE INDEX result_by_tags ON result (project_tag, question_tag, tags_number);

-- Results that are POSTed to their question's webhook. receiver is the address' host and port. due is the moment before
-- which nobody tries, by the machine's clock. problem says why the last try failed.
CREATE TABLE webhook (
    id INTEGER PRIMARY KEY,
    result_id INTEGER NOT NULL REFERENCES result,
    receiver TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'WAITING' CHECK (state IN ('WAITING', 'DELIVERED', 'FAILED')),
    tries INTEGER NOT NULL DEFAULT 0,
    due TEXT NOT NULL DEFAULT '',
    problem TEXT
);
CREATE INDEX webhook_due ON webhook (due, id) WHERE state = 'WAITING';
CREATE INDEX webhook_by_state ON webhook (state);

-- One row: the counts over all launches, so that a page of stats never adds up a million of them.
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    messages INTEGER NOT NULL DEFAULT 0,
    questions INTEGER NOT NULL DEFAULT 0,
    renders INTEGER NOT NULL DEFAULT 0,
    results INTEGER NOT NULL DEFAULT 0,
    queued INTEGER NOT NULL DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 0,
    complete INTEGER NOT NULL DEFAULT 0
);
INSERT INTO totals (id) VALUES (1);
