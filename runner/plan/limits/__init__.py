"""Limits on what a plan may send: in all, to one person, by rules, and in money."""
