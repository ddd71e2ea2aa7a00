"""The durable record of every delivery: tables, statements, lockfile."""
