"""Reconciled results become metrics, and metrics become documents."""
