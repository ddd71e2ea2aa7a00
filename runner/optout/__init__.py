"""Replies that ask for no more texts; independent of ledger and service."""
