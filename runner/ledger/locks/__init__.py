"""Locks: one run at a time for a campaign."""
