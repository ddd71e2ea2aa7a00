"""Results in columns: Parquet copies, and counts by an analytical engine."""
