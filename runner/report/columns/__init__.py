"""Results in columns: a copy of them as Parquet, and what an analytical engine counts in it."""
