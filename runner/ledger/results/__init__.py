"""Statements about results, the service's counts, and other report figures."""
