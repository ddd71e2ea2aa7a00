"""Simulated participants, magic numbers, faults and snapshots."""
