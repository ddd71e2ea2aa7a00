"""Locks and leases: one run at a time for a campaign, one worker for a partition."""
