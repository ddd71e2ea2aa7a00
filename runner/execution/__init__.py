"""Execution of work in this process, or by the workers of a cluster."""
