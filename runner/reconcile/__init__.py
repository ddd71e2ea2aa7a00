"""Brings what the service knows of a campaign's launches into the ledger: counts, results, opt-outs."""
