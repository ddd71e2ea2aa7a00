"""Files of the record, committed to git: lockfiles and suppressions, as sealed lines."""
