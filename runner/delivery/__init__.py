"""Delivery of a plan's launches, exactly once."""
