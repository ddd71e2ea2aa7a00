"""Reconciliation of the ledger with the service: counts, results and opt-outs."""
