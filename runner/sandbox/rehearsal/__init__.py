"""Simulated participants, faults, and the controls of a sandbox."""
