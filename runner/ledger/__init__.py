"""The durable record of every delivery: database, tables, statements.

Common arguments, which functions do not describe again:
- `connection`: from `Ledger.writing` for changes, which the caller commits; else from `Ledger.reading`.
- `campaign_id`, `launch_id`: the ledger's own numbers. `target`: a target's name.
- `message_ids`: current ids of messages by current and former ones.
- `key`: of a target's fingerprints. `state_key`: the user's secret (`RUNNER_STATE_KEY`), or None.
- `lockfiles`, `told`, `records`: parsed lockfiles, reservations and launches.
- `at`, `since`: UTC, ISO 8601. `phone`: E.164. `file`: the path of a text, for errors.
"""
