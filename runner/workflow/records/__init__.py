"""Use cases that change records: keys, opt-outs, pauses, git."""
